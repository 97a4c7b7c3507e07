"""Loops: one round of a `scan` is traced, and one line of the trace stands for all rounds.

We trace the round on leaves for the state and for x. Its lines stay in the trace, but only the loop refers to them:

    forward    state, x                   -> next state, y         from the first round to the last
    backward   their gradients, state, x  -> gradients of the state and of x before; what it adds to those of captured
                                             Values, which the loop adds up         from the last round to the first

The closures of the round write the backward loop when their turn comes, as they write any backward pass.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from functools import partial
from itertools import chain
from operator import eq
from typing import Any, NamedTuple

from micrograd.compiler.frontend.rows import Row, RowSymbol, spread
from micrograd.compiler.frontend.tracer import Argument, Slice, Symbol, Trace
from micrograd.core.errors import PACKAGE
from micrograd.core.gradients import Order
from micrograd.engine import Value, promote
from micrograd.loops import Rounds
from micrograd.reductions import where
from micrograd.support.trees import flat, replaced, shape_of

FEWEST = 8  # rounds: fewer are traced one by one


class Loop(NamedTuple):
    """A loop of `rounds`. Other lines of the trace compute a round, from the leaves `state` and `xs`.

    The operands are a row with the first state; a row for each of `xs`, with a number for each round; the forward loop,
    if this is a backward loop (which also reads its leaves); and the numbers from outside that the lines need.

    The result is a row: the last state, the sums, and the other `results` of each round. `sums` are leaves of the array
    `of_sums` plus what a round adds to them, and `rows` are added to slices of that array.
    """

    rounds: int
    state: tuple[int, ...]
    xs: tuple[int, ...]
    results: tuple[int, ...]  # the next state, then others
    of_sums: str = ""
    sums: tuple[int, ...] = ()
    rows: tuple[tuple[Slice, int], ...] = ()
    n_sums: int = 0
    forward: int = -1  # the line of the forward loop, if this is a backward one
    is_sum: bool = False  # whether rounds only add to the state, so that they may run in any order
    over: int = -1  # of a forward loop: the line that is 1 once no round changes anything any more

    @property
    def ends(self) -> list[int]:
        """All lines at which a round ends."""
        over = [self.over] * (self.over >= 0)
        return [*self.results, *self.sums, *(line for _, line in self.rows), *over]

    @property
    def n_outputs(self) -> int:
        """How many results a round has, besides the next state."""
        return len(self.results) - len(self.state)


def order_of(values: tuple[Value, ...]) -> Order:
    """The nodes and leaves that some Values were computed from, these Values included."""
    end = Value(0.0)
    end._prev = values
    nodes, leaves = end._topological_order()
    return nodes[:-1], leaves  # without the end itself; if it has no operands, it is in the leaves


def have_own_closures(nodes: Sequence[Value]) -> bool:
    """Whether this package defined the closures of all nodes. Its own closures never read the gradients they add to."""
    codes = {getattr(node._backward, "__code__", None) for node in nodes}
    return all(code is not None and code.co_filename.startswith(PACKAGE) for code in codes)


def looped(trace: Trace, rounds: Rounds) -> tuple[Any, Any] | None:
    """What scan() returns, computed by a loop; None if the rounds have to be traced one by one.

    With until=, they are traced here: each chooses between the next state and the one that it has.
    """
    if rounds.until:
        rounds = rounds._replace(step=_until(rounds))
    before, found = trace.refused, None
    try:
        found = _looped(trace, rounds)
    except Exception:  # the rounds raise their own, with the number of the round
        trace.refused = before
    if found is None and rounds.until:
        state = rounds.state
        for i in range(rounds.n):
            state, _ = rounds.called(state, i)
        found = state, None
    return found


def _looped(trace: Trace, rounds: Rounds) -> tuple[Any, Any] | None:
    first, xs = _leaves(rounds.state), [rounds.x(i) for i in range(rounds.n)]
    rows = list(map(_leaves, xs))
    if rounds.n < FEWEST or not first or not all(map(partial(eq, shape_of(xs[0])), map(shape_of, xs))):
        return None
    numbers = promote(*first, *chain(*rows))
    if numbers[0]._level:
        return None
    n = len(first)
    columns = [numbers[n + j :: len(rows[0])] for j in range(len(rows[0]))]
    state, x = _inputs(trace, "s", n), _inputs(trace, "x", len(columns))
    for value, column in zip(x, columns, strict=True):
        value._is_constant = all(number._is_constant for number in column)
    of_round = rounds._replace(xs=[_filled(xs[0], iter(x))])
    found, y = of_round.called(_filled(rounds.state, iter(state)), 0)
    outputs = _leaves(y)
    results = promote(*_leaves(found), *outputs)
    if shape_of(found) != shape_of(rounds.state) or len(results) != n + len(outputs) or results[0]._level:
        return None
    body = _Body(trace, state, x, results)
    if not have_own_closures(body.nodes):
        return None
    over = promote(rounds.until(_filled(rounds.state, iter(state))))[0].data if rounds.until else None
    values = body.record(rounds.n, numbers[:n], columns, over)
    return _filled(found, values), None if rounds.until else [_filled(y, values) for _ in range(rounds.n)]


def _leaves(tree: Any) -> list[Any]:
    return [leaf for leaf in flat(tree) if leaf is not None]


def _filled(tree: Any, values: Iterator[Any]) -> Any:
    """A tree like this one, with the next values in place of its numbers."""
    return replaced(lambda leaf: None if leaf is None else next(values), tree)


def _inputs(trace: Trace, letter: str, n: int) -> list[Value]:
    """Values that stand for numbers which differ from round to round."""
    values = list(map(Value, _symbols(trace, letter, n)))
    for value in values:
        value.__class__ = Argument
    return values


def _until(rounds: Rounds) -> Any:
    """A step that changes nothing once `until` holds: it then computes from the first state, and in vain."""

    def step(state: Any, x: Any) -> tuple[Any, Any]:
        over = rounds.until(state)  # type: ignore[misc]

        def chosen(tree: Any, other: Any) -> Any:
            pairs = iter(zip(_leaves(tree), _leaves(other), strict=True))
            return _filled(tree, (where(over, *pair) for pair in pairs))

        found, y = rounds.step(chosen(rounds.state, state), x)
        return chosen(state, found), y

    return step


class _Body:
    """One traced round: its inputs, its nodes, and the Values from outside that these use."""

    def __init__(self, trace: Trace, state: Sequence[Value], x: Sequence[Value], results: tuple[Value, ...]) -> None:
        self.trace, self.state, self.x, self.results = trace, state, x, results
        its, own = inside(trace, _ids([*state, *x]), len(trace.ops)), {*state, *x}
        self.nodes: list[Value] = []
        for node in order_of(results)[0]:
            if getattr(node.data, "id", None) in its or not own.isdisjoint(node._prev):  # even 0 times the state
                self.nodes.append(node)
                own.add(node)
        used = dict.fromkeys(chain(results, *[node._prev for node in self.nodes]))
        self.captured = [value for value in used if value not in own and not value._is_constant]
        rows = [value.values for value in self.captured if isinstance(value, Row)]
        self.receivers = [*dict.fromkeys(chain(self.captured, *rows))]  # a row may pass a gradient on at once
        self.receivers.sort(key=lambda value: trace.leaves.get(value.data.id, ("", value.data.id)))  # in memory order

    def _loop(self, loop: Loop, operands: Sequence[int]) -> int:
        """Record a loop: its operands, and the numbers from outside that its lines need."""
        trace = self.trace
        line, globals = len(trace.ops), ("p", "x", "seed", loop.of_sums)
        its = inside(trace, [*_ids(self.state), *_ids(self.x), *loop.state, *loop.xs], line)

        def is_outside(each: int) -> bool:
            return not (each in its or trace.size(each))

        ends = sorted(filter(is_outside, reached(trace, loop.ends, is_outside)))
        found = [each for each in ends if trace.operands[each] or trace.leaves.get(each, ("p",))[0] not in globals]
        trace.ops.append("scan")
        trace.operands.append((*operands, *found))
        trace.loops[line] = loop
        trace.maps[line] = len(loop.state) + loop.n_sums + loop.rounds * loop.n_outputs
        return line

    def record(
        self, n: int, first: tuple[Value, ...], columns: Sequence[tuple[Value, ...]], over: Any = None
    ) -> Iterator[Value]:
        """Record the loop, and return its results: the last state, and the y of each round.

        Once the number `over` is not 0, the rounds that follow change nothing.
        """
        trace = self.trace
        lines = tuple([trace.result(value.data) for value in self.results])
        state, xs = _ids(self.state), _ids(self.x)
        operands = [_stack(trace, [value.data for value in column]) for column in (first, *columns)]
        end = -1 if over is None else trace.result(over)
        line = self._loop(Loop(n, state, xs, lines, is_sum=_only_adds(trace, state, lines), over=end), operands)
        sent: dict[int, Any] = {}  # the gradients of the results

        def _backward(_: Any) -> None:
            grads = dict(sent)
            sent.clear()
            self.backward(line, first, columns, grads)

        prev = [value for value in (*first, *chain(*columns), *self.captured) if not value._is_constant]
        loop = first[0]._node(RowSymbol(trace, line), tuple(dict.fromkeys(prev)), "scan", _backward)

        def result(i: int) -> Value:
            def _backward(grad: Any) -> None:
                sent[i] = grad

            return loop._node(trace.item(line, i), (loop,), "scan", _backward)

        return map(result, range(trace.maps[line]))

    def backward(
        self, forward: int, first: tuple[Value, ...], columns: Sequence[tuple[Value, ...]], sent: dict[int, Any]
    ) -> None:
        """Record the backward loop, from the gradients sent to the results of the forward one, and pass its own on."""
        trace, n, (rounds, _, _, results, *_) = self.trace, len(self.state), self.trace.loops[forward]
        n_y = len(results) - n
        ys = [[sent.get(n + i * n_y + j, 0) for i in range(rounds)] for j in range(n_y)]
        used = [j for j, y in enumerate(ys) if any(type(grad) is not int for grad in y)]
        state, xs = _symbols(trace, "s", n), _symbols(trace, "x", len(used))
        grads = self._gradients([*state, *[xs[used.index(j)] if j in used else 0 for j in range(n_y)]])
        added = {value: grads[value] for value in self.receivers if _is_traced(grads[value])}
        numbers = {value: grad for value, grad in added.items() if not isinstance(value, Row)}
        array, at = f"a{len(trace.ops)}_", len(numbers)
        sums = tuple([trace.id(trace.leaf(array, i) + grad) for i, grad in enumerate(numbers.values())])
        rows: dict[Row, tuple[Slice, int]] = {}
        for row in (value for value in added if isinstance(value, Row)):
            line = (added[row] if type(added[row]) is RowSymbol else spread(added[row], row.data)).id
            rows[row] = Slice(array, at, 1, trace.size(line)), line
            at += trace.size(line)
        of_x = [j for j, value in enumerate(self.x) if not value._is_constant and _is_traced(grads[value])]
        ends = tuple([trace.id(grads[value]) for value in (*self.state, *[self.x[j] for j in of_x])])
        operands = [_stack(trace, each) for each in ([sent.get(j, 0) for j in range(n)], *[ys[j] for j in used])]
        s_ids, x_ids = (tuple([symbol.id for symbol in each]) for each in (state, xs))
        is_sum = trace.loops[forward].is_sum
        loop = Loop(rounds, s_ids, x_ids, ends, array, sums, tuple(rows.values()), at, forward, is_sum)
        line = self._loop(loop, [*operands, forward])
        for i, value in enumerate((*first, *numbers)):
            value.grad += trace.item(line, i)
        for row, (place, _) in rows.items():
            items = tuple([trace.item(line, n + i).id for i in place.indices])
            row.grad += RowSymbol(trace, trace.stack(items))
        for i, values in enumerate(zip(*[columns[j] for j in of_x], strict=True)):
            for k, value in enumerate(values, n + at + i * len(of_x)):
                value.grad += trace.item(line, k)

    def _gradients(self, seeds: Sequence[Any]) -> dict[Value, Any]:
        """What the closures of the round add to the gradients of its inputs and of Values from outside."""
        values, rows = (*self.nodes, *self.state, *self.x, *self.receivers), self.trace.rows
        before, options = [value.grad for value in values], (rows.add_up, rows.final)
        rows.add_up, rows.final = True, False
        try:
            for value in values:
                value.grad = 0
            for value, seed in zip(self.results, seeds, strict=True):
                value.grad += seed
            for node in reversed(self.nodes):
                node._backward(node.grad)
            return {value: value.grad for value in values}
        finally:
            rows.add_up, rows.final = options  # first: a Row keeps what it kept under these
            for value, grad in zip(values, before, strict=True):
                value.grad = grad


def inside(trace: Trace, leaves: Iterable[int], end: int) -> set[int]:
    """The lines, up to the end, that may differ from round to round: those that need these leaves."""
    found = {*leaves}
    for line in range(min(found), end):
        if not found.isdisjoint(trace.operands[line]):
            found.add(line)
    return found


def _only_adds(trace: Trace, state: Sequence[int], results: Sequence[int]) -> bool:
    """Whether a round adds numbers to its state that do not depend on the state, and uses it for nothing else."""
    sums = {line: result for line, result in zip(state, results, strict=False) if line != result}
    found = inside(trace, sums, len(trace.ops)) if sums else set()

    def adds(line: int, of: int) -> bool:
        op, operands = trace.ops[line], trace.operands[line]
        is_sum = op == "+" or (op in ("-", "dot") and operands[0] == of)
        return is_sum and [each for each in operands if each in found] == [of]

    added = [line for line in trace.live(results) if line in found]
    is_apart = added == sorted(sums.values()) and found.isdisjoint(results[len(state) :])
    return is_apart and all(adds(line, of) for of, line in sums.items())


def is_linear(trace: Trace, line: int, uniform: Set[int]) -> bool:
    """Whether an operation is linear in the operands that are not uniform: in numbers, or in what a row adds up."""
    operands = trace.operands[line]
    varies = [i not in uniform for i in operands]
    match trace.ops[line]:
        case "*":
            return sum(varies) == 1
        case "/":
            return not varies[1]
        case "where" if not varies[0]:
            operands = operands[1:]
        case "axpy":
            return varies[1] and not varies[2] and (varies[0] or operands[0] == trace.nothing)
        case "neg" | "item":
            return True
        case "+" | "-":
            pass
        case _:
            return False
    return all(i not in uniform or trace.constants.get(i) == 0 for i in operands)


def reached(trace: Trace, ends: Iterable[int], is_end: Callable[[int], bool]) -> set[int]:
    """The lines that a walk from the ends of a computation to its operands meets. It stops where `is_end` holds."""
    waiting = [*ends]
    found = {*waiting}
    while waiting:
        if not is_end(line := waiting.pop()):
            new = set(trace.operands[line]) - found
            found |= new
            waiting += new
    return found


def escapes(trace: Trace, results: Iterable[Any]) -> bool:
    """Whether a result depends on a number of one round that its loop does not return: the step has stored it."""
    lines = list(map(trace.id, results))
    used = {*lines, *chain.from_iterable(map(trace.operands.__getitem__, trace.live(lines)))}
    return any(not used.isdisjoint((*loop.state, *loop.xs)) for loop in trace.loops.values())


def _symbols(trace: Trace, letter: str, n: int) -> list[Symbol]:
    """New leaves that differ from round to round."""
    array = f"{letter}{len(trace.ops)}_"
    return [trace.leaf(array, j) for j in range(n)]


def _is_traced(grad: Any) -> bool:
    """Whether a round computes this gradient: one of what nothing uses is a plain 0."""
    return type(grad) in (Symbol, RowSymbol)


def _ids(values: Sequence[Value]) -> tuple[int, ...]:
    return tuple([value.data.id for value in values])


def _stack(trace: Trace, numbers: Iterable[Any]) -> int:
    return trace.stack(tuple(map(trace.result, numbers)))
