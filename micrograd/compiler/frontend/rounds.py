"""Loops: one round of a `scan` is traced, and one line of the trace stands for all rounds.

We trace the round on leaves for the state and for x. Its lines stay in the trace, but only the loop refers to them:

    forward    state, x                   -> next state, y         from the first round to the last
    backward   their gradients, state, x  -> gradients of the state and of x before; what it adds to those of captured
                                             Values, which the loop adds up         from the last round to the first

The closures of the round write the backward loop when their turn comes, as they write any backward pass. If rounds only
add to the state, their order does not matter: the loop for the gradients then computes each round again, forwards.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from functools import partial
from itertools import accumulate, chain, islice, repeat
from typing import Any, NamedTuple

from micrograd.compiler.frontend.redirect import assign
from micrograd.compiler.frontend.rows import SUMS, Row, RowSum, RowSymbol
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

    The result is a row: the last state; what the loop adds up, as `sums` and `rows` (a round calls it the array
    "g"); then the `outputs` of the first round, of the second, and so on.
    """

    rounds: int
    state: Sequence[int]
    xs: Sequence[int]
    following: Sequence[int]  # the next state
    outputs: Sequence[int]
    sums: Sequence[int] = ()  # each begins with the number in g
    rows: Sequence[tuple[Slice, int]] = ()  # each with the slice of g that it is added to
    forward: int = -1  # the line of the forward loop, if this is a backward one
    is_sum: bool = False  # whether rounds only add to the state, so that they may run in any order
    again: int = -1  # the line of such a loop that this one repeats for its gradients; this state begins with its state
    over: int = -1  # the line of a number of the (forward) state: once it is 1, no later round changes anything

    @property
    def ends(self) -> list[int]:
        """All lines at which a round ends."""
        return [*self.following, *self.outputs, *self.sums, *(line for _, line in self.rows)]

    @property
    def added(self) -> range:
        """Where the loop's row has what it adds up."""
        n = len(self.state)
        return range(n, n + len(self.sums) + sum(place.size for place, _ in self.rows))

    @property
    def size(self) -> int:
        """The size of the loop's row."""
        return self.added.stop + self.rounds * len(self.outputs)

    def of_output(self, j: int) -> range:
        """Where the loop's row has an output of each round."""
        return range(self.added.stop + j, self.size, len(self.outputs))


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


def looped(trace: Trace, rounds: Rounds) -> tuple[Any, Any]:
    """What scan() returns, computed by a loop, or else by rounds traced one by one."""
    its = _until(rounds) if rounds.until else rounds
    before, found = trace.refused, None
    try:
        found = _looped(trace, its)
    except Exception:  # the rounds raise their own, with the number of the round
        trace.refused = before
    state, ys = found or its.run()
    return state[1] if rounds.until else state, ys


def _looped(trace: Trace, rounds: Rounds) -> tuple[Any, Any] | None:
    first, xs = _leaves(rounds.state), list(map(rounds.x, range(rounds.n)))
    numbers = promote(*first, *chain(*map(_leaves, xs)))
    if rounds.n < FEWEST or not first or len({*map(shape_of, xs)}) > 1 or numbers[0]._level:
        return None
    n, width = len(first), len(_leaves(xs[0]))
    columns = [numbers[:n], *(numbers[n + j :: width] for j in range(width))]
    inputs = list(map(Value, [*_symbols(trace, "s", n), *_symbols(trace, "x", width)]))
    assign(inputs, "__class__", repeat(Argument))
    assign(inputs[n:], "_is_constant", [all(number._is_constant for number in column) for column in columns[1:]])
    state = _filled(rounds.state, iter(inputs))
    found, y = rounds._replace(xs=[_filled(xs[0], iter(inputs[n:]))]).called(state, 0)
    results = promote(*_leaves(found), *_leaves(y))
    is_alike = shape_of(found) == shape_of(rounds.state) and len(_leaves(found)) == n and not results[0]._level
    body = _Body(trace, rounds.n, columns, inputs, results)
    if not is_alike or not have_own_closures(body.nodes):
        return None
    values = body.forward(may_end=rounds.until is not None)
    return _filled(found, values), None if rounds.until else [_filled(y, values) for _ in range(rounds.n)]


def _leaves(tree: Any) -> list[Any]:
    return [leaf for leaf in flat(tree) if leaf is not None]


def _filled(tree: Any, values: Iterator[Any]) -> Any:
    """A tree like this one, with the next values in place of its numbers."""
    return replaced(lambda leaf: None if leaf is None else next(values), tree)


def _until(rounds: Rounds) -> Rounds:
    """Rounds that all run: once `until` holds, they compute from the first state, and nothing uses their results.

    A number in front of the state is 1 from then on.
    """

    def step(pair: Any, x: Any) -> tuple[Any, Any]:
        _, state = pair
        over = rounds.until(state)  # type: ignore[misc]

        def chosen(tree: Any, other: Any) -> Any:
            return _filled(tree, (where(over, a, b) for a, b in zip(_leaves(tree), _leaves(other), strict=True)))

        found, y = rounds.step(chosen(rounds.state, state), x)
        return [over, chosen(state, found)], y

    return rounds._replace(step=step, state=[0.0, rounds.state], until=lambda state: False)


class _Body:
    """One traced round: its inputs, its nodes, and the Values from outside that these use.

    The inputs are the state and the xs; `columns` has the first state, and for each x its numbers in all rounds.
    """

    def __init__(
        self, trace: Trace, n: int, columns: list[tuple[Value, ...]], inputs: list[Value], results: tuple[Value, ...]
    ) -> None:
        self.trace, self.n, self.columns, self.inputs, self.results = trace, n, columns, inputs, results
        self.state, self.x = inputs[: len(columns[0])], inputs[len(columns[0]) :]
        its, own = trace.dependent(_ids(inputs)), {*inputs}
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

    def _record(self, loop: Loop, columns: Iterable[Iterable[Any]]) -> int:
        """Record a loop: the numbers that it starts from, and those from outside that its lines need."""
        trace = self.trace
        operands = [trace.stack(tuple(map(trace.result, column))) for column in columns]
        operands += [loop.forward] * (loop.forward >= 0)
        line = len(trace.ops)
        sums = [trace.leaf("g", i).id for i in range(len(loop.sums))]  # other numbers outside of the loop
        its = trace.dependent([*_ids(self.inputs), *loop.state, *loop.xs, *sums])

        def is_outside(each: int) -> bool:
            return each not in its and (each in trace.slices or not trace.size(each))

        found = filter(is_outside, trace.reached(loop.ends, is_outside))
        operands += [each for each in found if each not in trace.constants]
        trace.ops.append("scan")
        trace.operands.append(tuple(operands))
        trace.loops[line] = loop
        trace.maps[line] = loop.size
        return line

    def forward(self, may_end: bool) -> Iterator[Value]:
        """Record the loop, and return its results: the last state, and the y of each round.

        If it may end, no later round changes anything once the first number of the state is 1.
        """
        trace, n = self.trace, len(self.state)
        lines = [trace.result(value.data) for value in self.results]
        state, is_sum = _ids(self.state), _only_adds(trace, _ids(self.state), lines)
        over = state[0] if may_end else -1
        loop = Loop(self.n, state, _ids(self.x), lines[:n], lines[n:], is_sum=is_sum, over=over)
        line = self._record(loop, [[value.data for value in column] for column in self.columns])
        sent: dict[int, Any] = {}  # the gradients of the results

        def _backward(_: Any) -> None:
            self.backward(line, sent)
            sent.clear()

        prev = dict.fromkeys(value for value in (*chain(*self.columns), *self.captured) if not value._is_constant)
        node = self.columns[0][0]._node(RowSymbol(trace, line), tuple(prev), "scan", _backward)

        def result(i: int) -> Value:
            def _backward(grad: Any) -> None:
                sent[i] = grad

            return node._node(trace.item(line, i), (node,), "scan", _backward)

        return map(result, range(loop.size))

    def backward(self, forward: int, sent: dict[int, Any]) -> None:
        """Record the loop for the gradients, from the gradients sent to the forward loop's results; pass its row on."""
        trace, n, loop = self.trace, len(self.state), self.trace.loops[forward]
        ys = {j: [sent.get(i, 0) for i in loop.of_output(j)] for j in range(len(loop.outputs))}
        ys = {j: y for j, y in ys.items() if any(type(grad) is not int for grad in y)}  # something uses them
        state, xs = _symbols(trace, "s", n), dict(zip(ys, _symbols(trace, "x", len(ys)), strict=True))
        grads = self._gradients([*state, *[xs.get(j, 0) for j in range(len(loop.outputs))]])
        rows = [each for each in self.receivers if isinstance(each, Row) and each in grads]
        numbers = [each for each in self.receivers if not isinstance(each, Row) and each in grads]
        varying = [j for j, each in enumerate(self.x) if not each._is_constant and each in grads]
        starts = accumulate([len(row.values) for row in rows], initial=len(numbers))
        back = Loop(
            rounds=self.n,
            state=[each.id for each in state],
            xs=[each.id for each in xs.values()],
            following=[trace.id(grads.get(each, 0)) for each in self.state],
            outputs=[trace.id(grads[self.x[j]]) for j in varying],
            sums=[trace.id(trace.leaf("g", i) + grads[each]) for i, each in enumerate(numbers)],
            rows=[
                (Slice("g", at, 1, len(row.values)), row.data.sum(grads[row]).line)
                for at, row in zip(starts, rows, strict=False)
            ],
            forward=forward,
            over=loop.over,
        )
        columns = [[sent.get(i, 0) for i in range(n)], *ys.values()]
        if loop.is_sum:
            first, *others = [[value.data for value in column] for column in self.columns]
            columns = [first + columns[0], *others, *columns[1:]]
            back = back._replace(state=[*loop.state, *back.state], xs=[*loop.xs, *back.xs], is_sum=True, again=forward)
            back = back._replace(following=[*loop.following, *back.following], forward=-1)
        line = self._record(back, columns)
        items = map(partial(trace.item, line), range(len(back.state) - n, back.size))
        for value, item in zip((*self.columns[0], *numbers), items, strict=False):
            value.grad += item
        for row in rows:
            row.grad += RowSymbol(trace, trace.stack(tuple([item.id for item in islice(items, len(row.values))])))
        for value, item in zip(chain(*zip(*[self.columns[1 + j] for j in varying], strict=True)), items, strict=True):
            value.grad += item

    def _gradients(self, seeds: Sequence[Any]) -> dict[Value, Any]:
        """What the closures of the round add to the gradients of its inputs and of Values from outside, if anything."""
        values, trace = (*self.nodes, *self.inputs, *self.receivers), self.trace
        before, kept = [value.grad for value in values], trace.kept
        trace.kept = SUMS
        try:
            for value in values:
                value.grad = 0
            for value, seed in zip(self.results, seeds, strict=True):
                value.grad += seed
            for node in reversed(self.nodes):
                node._backward(node.grad)
            return {value: value.grad for value in values if type(value.grad) in (Symbol, RowSum)}
        finally:
            trace.kept = kept  # first: a Row keeps what it kept under these
            for value, grad in zip(values, before, strict=True):
                value.grad = grad


def _only_adds(trace: Trace, state: Sequence[int], results: Sequence[int]) -> bool:
    """Whether a round adds numbers to its state that do not depend on the state, and uses it for nothing else."""
    uses = Counter(chain(results, *[trace.operands[line] for line in trace.live(results)]))

    def adds(of: int, line: int) -> bool:
        operands = trace.operands[line]
        is_sum = trace.ops[line] == "+" or (trace.ops[line] in ("-", "dot") and operands[0] == of)
        return is_sum and of in operands and uses[of] == uses[line] == 1

    return all(of == line or adds(of, line) for of, line in zip(state, results, strict=False))


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
        case "combination":
            return all(varies[::2]) and not any(varies[1::2])
        case "neg" | "item":
            return True
        case "+" | "-":
            pass
        case _:
            return False
    return all(i not in uniform or trace.constants.get(i) == 0 for i in operands)


def escapes(trace: Trace, results: Iterable[Any]) -> bool:
    """Whether a result depends on a number of one round that its loop does not return: the step has stored it."""
    its = {each for loop in trace.loops.values() for each in (*loop.state, *loop.xs)}
    return not its.isdisjoint(trace.reached(map(trace.id, results)))


def _symbols(trace: Trace, letter: str, n: int) -> list[Symbol]:
    """New leaves that differ from round to round."""
    array = f"{letter}{len(trace.ops)}_"
    return [trace.leaf(array, j) for j in range(n)]


def _ids(values: Iterable[Value]) -> list[int]:
    return [value.data.id for value in values]
