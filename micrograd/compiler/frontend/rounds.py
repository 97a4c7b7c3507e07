"""Loops: one round of a `scan` is traced, and one line of the trace stands for all rounds.

We trace the round on leaves for the state and for x. Its lines stay in the trace, but only the loop refers to them:

    forward    state, x                   -> next state, y         from the first round to the last
    backward   their gradients, state, x  -> gradients of the state and of x before; what it adds to those of captured
                                             Values, which the loop adds up         from the last round to the first

The closures of the round write the backward loop when their turn comes, as they write any backward pass. If rounds only
add to the state, their order does not matter: the loop for the gradients then computes each round again, forwards.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, islice
from operator import add
from typing import Any, NamedTuple

from micrograd.compiler.frontend.rows import SUMS, Row, RowSymbol
from micrograd.compiler.frontend.tracer import Addition, Slice, Symbol, Trace, arguments
from micrograd.core.derivatives import order_of
from micrograd.core.errors import PACKAGE
from micrograd.engine import Value, promote
from micrograd.loops import Step, Until, in_turn
from micrograd.reductions import where
from micrograd.support.signals import assign
from micrograd.support.trees import flat, replaced, shape_of

FEWEST = 8  # rounds: fewer are traced one by one, unless `until` may end the loop


class Scan(NamedTuple):
    """The loop of a `scan`. Other lines of the trace compute a round, from the leaves `state` and `xs`.

    The operands are a row with the first state, if there is a state; a row for each of `xs`, with a number for each
    round; the forward loop, if this is a backward loop (which also reads its leaves); and the numbers from outside that
    the lines need.

    The result is a row: the last state; the totals of the `sums` (a round adds them to the array "g"); then the
    `outputs` of the first round, of the second, and so on.
    """

    rounds: int
    state: Sequence[int]
    xs: Sequence[int]
    following: Sequence[int]  # the next state
    outputs: Sequence[int]
    sums: Sequence[Addition]
    forward: int = -1  # the line of the loop whose gradients this one computes
    over: int = -1  # the line of a number of the (forward) state: if it is 1, the loop ends before this round

    @property
    def is_parallel(self) -> bool:
        """Whether the rounds may run in any order: none needs another."""
        return not self.state

    @property
    def is_backward(self) -> bool:
        """Whether the loop goes from the last round to the first, and reads what the forward loop computed."""
        return self.forward >= 0 and not self.is_parallel

    @property
    def ends(self) -> list[int]:
        """All lines at which a round ends."""
        return [*self.following, *self.outputs, *(line for _, line in self.sums)]

    @property
    def added(self) -> range:
        """Where the totals are in the loop's row."""
        n = len(self.state)
        return range(n, n + sum(place.size for place, _ in self.sums))

    @property
    def size(self) -> int:
        """The size of the loop's row."""
        return self.added.stop + self.rounds * len(self.outputs)

    def of_output(self, j: int) -> range:
        """Where an output of each round is in the loop's row."""
        return range(self.added.stop + j, self.size, len(self.outputs))


def have_own_closures(nodes: Sequence[Value]) -> bool:
    """Whether this package defined the closures of all nodes. Its own closures never read the gradients they add to."""
    codes = {getattr(node._backward, "__code__", None) for node in nodes}
    return all(code is not None and code.co_filename.startswith(PACKAGE) for code in codes)


def looped(trace: Trace, step: Step, state: Any, xs: Sequence[Any], until: Until | None) -> tuple[Any, Any]:
    """What scan() returns, computed by a loop, or else by rounds traced one by one."""
    if until:
        step, state = _until(step, state, until)
    before, found = trace.refused, None
    try:
        found = _looped(trace, step, state, xs, may_end=until is not None)
    except Exception:  # the rounds raise their own, with the number of the round
        trace.refused = before
    last, ys = found or in_turn(step, state, xs)
    return (last[1], None) if until else (last, ys)


def _looped(trace: Trace, step: Step, state: Any, xs: Sequence[Any], may_end: bool) -> tuple[Any, Any] | None:
    first, each = _leaves(state), list(map(_leaves, xs))
    numbers = promote(*first, *chain(*each))
    if len(xs) < (1 if may_end else FEWEST) or not first or len({*map(shape_of, xs)}) > 1 or numbers[0]._level:
        return None
    n, width = len(first), len(each[0])
    columns = [numbers[n + j :: width] for j in range(width)]
    inputs = arguments([*_symbols(trace, "s", n), *_symbols(trace, "x", width)])
    assign(inputs[n:], "_is_constant", [all(number._is_constant for number in column) for column in columns])
    found, y = step(_filled(state, iter(inputs)), _filled(xs[0], iter(inputs[n:])))
    results = promote(*_leaves(found), *_leaves(y))
    is_alike = shape_of(found) == shape_of(state) and len(_leaves(found)) == n and not results[0]._level
    body = _Body(trace, len(xs), numbers[:n], columns, inputs, results)
    if not is_alike or not have_own_closures(body.nodes):
        return None
    values = body.forward(may_end)
    last = map(add, numbers[:n], values) if body.sums else values  # the first state comes first: it ends the map
    return _filled(found, last), [_filled(y, values) for _ in xs]


def _leaves(tree: Any) -> list[Any]:
    return [leaf for leaf in flat(tree) if leaf is not None]


def _filled(tree: Any, values: Iterator[Any]) -> Any:
    """A tree like this one, with the next values in place of its numbers."""
    return None if tree is None else replaced(lambda leaf: None if leaf is None else next(values), tree)


def _until(step: Step, first: Any, until: Until) -> tuple[Step, Any]:
    """A step and a first state for rounds that all run: once `until` holds, rounds compute from the first state, and
    nothing uses their results. The number in front of the state is 1 from then on.
    """

    def with_end(state: Any) -> list[Any]:
        over: Any = until(state)  # a number ends a loop unless it is 0
        return [where(over, 1.0, 0.0), state]

    def guarded(pair: Any, x: Any) -> tuple[Any, Any]:
        over, state = pair

        def chosen(tree: Any, other: Any) -> Any:
            return _filled(tree, (where(over, a, b) for a, b in zip(_leaves(tree), _leaves(other), strict=True)))

        found, y = step(chosen(first, state), x)
        return with_end(chosen(state, found)), y

    return guarded, with_end(first)


class _Body:
    """One traced round: its nodes, and the Values from outside that these use.

    The inputs stand for the `first` state and for the xs, whose numbers in all rounds are the `columns`; the results
    are the next state and y.
    """

    def __init__(
        self, trace: Trace, n: int, first: Sequence[Value], columns: list[tuple[Value, ...]], inputs: list[Value],
        results: Sequence[Value],
    ) -> None:  # fmt: skip
        self.trace, self.n, self.columns, self.inputs, self.results = trace, n, columns, inputs, results
        self.lines = trace.results([value.data for value in results])
        self.sums = _sums(trace, _ids(inputs[: len(first)]), self.lines)
        self.first, self.state = ([], []) if self.sums else (first, inputs[: len(first)])
        self.x, self.outputs = inputs[len(first) :], self.lines[len(first) :]
        varying, own = trace.dependent(_ids(inputs)), {*inputs}
        self.nodes: list[Value] = []
        for node in order_of(results)[0]:
            if getattr(node.data, "id", None) in varying or not own.isdisjoint(node._prev):  # even 0 times the state
                self.nodes.append(node)
                own.add(node)
        used = dict.fromkeys(chain(results, *[node._prev for node in self.nodes]))
        captured = [value for value in used if value not in own and not value._is_constant]
        captured.sort(key=lambda value: trace.leaves.get(value.data.id, ("", value.data.id)))  # in memory order
        self.captured = sorted(captured, key=lambda value: isinstance(value, Row))  # numbers before rows

    def _record(self, loop: Scan, rows: Iterable[Iterable[Any]]) -> int:
        """Record a loop: the rows that it reads, and the numbers from outside that its lines need."""
        trace = self.trace
        operands = [trace.stack(trace.results(row)) for row in rows if row]
        operands += [loop.forward] * loop.is_backward
        varying = trace.dependent([*_ids(self.inputs), *loop.state, *loop.xs])

        def is_outside(each: int) -> bool:
            return each not in varying and (each in trace.slices or not trace.size(each))

        found = filter(is_outside, trace.reached(loop.ends, is_outside))
        operands += [each for each in found if each not in trace.constants]
        operands = operands or [trace.nothing]  # a line without operands is a leaf
        (line,) = trace.extend("scan", 1, tuple(operands))
        trace.loops[line] = loop
        trace.maps[line] = loop.size
        return line

    def forward(self, may_end: bool) -> Iterator[Value]:
        """Record the loop, and return its results: the last state, and the y of each round.

        If it may end, no later round changes anything once the first number of the state is 1.
        """
        trace, state = self.trace, _ids(self.state)
        following, over = self.lines[: len(state)], state[0] if may_end else -1
        loop = Scan(self.n, state, _ids(self.x), following, self.outputs, self.sums, over=over)
        line = self._record(loop, [[each.data for each in row] for row in (self.first, *self.columns)])
        sent: list[Any] = [0] * loop.size  # the gradients of the results

        def _backward(_: Any) -> None:
            self.backward(line, sent)
            sent[:] = [0] * loop.size

        used = [value for value in chain(self.first, *self.columns, self.captured) if not value._is_constant]
        node = self.results[0]._node(RowSymbol(trace, line), tuple(used), "scan", _backward)

        def result(i: int, number: Symbol) -> Value:
            def _backward(grad: Any) -> None:
                sent[i] = grad

            return node._node(number, (node,), "scan", _backward)

        return map(result, range(loop.size), trace.unstack(line))

    def backward(self, forward: int, sent: Sequence[Any]) -> None:
        """Record the backward loop for gradients sent to the forward loop's results, and pass on what it computes."""
        trace, loop = self.trace, self.trace.loops[forward]
        ys = {j: [sent[i] for i in loop.of_output(j)] for j in range(len(loop.outputs))}
        ys = {j: y for j, y in ys.items() if any(type(grad) is not int for grad in y)}  # something uses them
        state = _symbols(trace, "s", len(loop.state))
        xs = dict(zip(ys, _symbols(trace, "x", len(ys)), strict=True))
        of_sums = [sent[i] for i in loop.added]
        grads = self._gradients([*state, *of_sums, *[xs.get(j, 0) for j in range(len(loop.outputs))]])
        captured = [each for each in self.captured if each in grads]
        varying = [j for j, each in enumerate(self.x) if not each._is_constant and each in grads]
        if loop.over >= 0:  # in lanes, other examples' rounds may go on
            over = Symbol(trace, loop.over)
            for each in (*captured, *map(self.x.__getitem__, varying)):
                grad = grads[each]
                grads[each] = grad.unless(over) if isinstance(grad, RowSymbol) else over.where(0.0, grad)
        totals = [each.data.sum(grads[each]).recorded if isinstance(each, Row) else grads[each] for each in captured]
        sizes = [len(each.values) if isinstance(each, Row) else 1 for each in captured]
        starts = accumulate(sizes, initial=len(loop.sums))
        sums = [(Slice("g", at, 1, size), total.id) for at, size, total in zip(starts, sizes, totals, strict=False)]
        again = [[each.data for each in column] for column in self.columns] if loop.is_parallel else []
        back = Scan(
            rounds=loop.rounds,
            state=[each.id for each in state],
            xs=[*_ids(self.x[: len(again)]), *[each.id for each in xs.values()]],
            following=[trace.id(grads.get(each, 0)) for each in self.state],
            outputs=[trace.id(grads[self.x[j]]) for j in varying],
            sums=[*loop.sums, *sums],  # the forward loop's, too: this one may replace it
            forward=forward,
            over=loop.over,
        )
        line = self._record(back, [sent[: len(state)], *again, *ys.values()])
        items = islice(trace.unstack(line), len(loop.sums), None)
        for value, item in zip(self.first, items, strict=False):
            value.grad += item
        for value, size in zip(captured, sizes, strict=True):
            found = tuple([item.id for item in islice(items, size)])
            value.grad += RowSymbol(trace, trace.stack(found)) if isinstance(value, Row) else Symbol(trace, *found)
        for value, item in zip(chain(*zip(*[self.columns[j] for j in varying], strict=True)), items, strict=True):
            value.grad += item

    def _gradients(self, seeds: Sequence[Any]) -> dict[Value, Any]:
        """What the closures of the round add to the gradients of its inputs and of Values from outside, if anything."""
        trace, values = self.trace, (*self.nodes, *self.inputs, *self.captured)
        before, kept = [value.grad for value in self.captured], trace.keeps
        trace.keeps = SUMS
        for value in values:
            value.grad = 0
        for value, seed in zip(self.results, seeds, strict=True):
            value.grad += seed
        for node in reversed(self.nodes):
            node._backward(node.grad)
        found = {value: value.grad for value in values if type(value.grad) in (Symbol, RowSymbol)}
        trace.keeps = kept  # first: a Row keeps what it kept under these
        for value, grad in zip(self.captured, before, strict=True):
            value.grad = grad
        return found


def _sums(trace: Trace, state: Sequence[int], results: Sequence[int]) -> list[Addition]:
    """What a round adds to its state, as additions to "g"; nothing if the round uses its state in any other way."""
    found = list[Addition]()
    uses = Counter(chain(results, *[trace.operands[line] for line in trace.live(results)]))
    for i, (of, line) in enumerate(zip(state, results, strict=False)):
        op, operands = trace.ops[line], trace.operands[line]
        adds = of in operands and (op == "+" or (op in ("-", "dot") and operands[0] == of))
        if max(uses[of], uses[line]) > 1 or not (adds or of == line):
            return []
        added = tuple([each for each in operands if each != of]) if adds else (trace.nothing,)
        found.append((Slice("g", i, 1, 1), trace.row(op, (trace.nothing, *added)) if op in ("-", "dot") else added[0]))
    return found


def escapes(trace: Trace, results: Iterable[Any]) -> bool:
    """Whether a result depends on a number of one round that its loop does not return: the step has stored it."""
    return any(trace.leaves.get(line, "p")[0] not in "px" for line in trace.reached(map(trace.id, results)))


def _symbols(trace: Trace, letter: str, n: int) -> list[Symbol]:
    """New leaves that differ from round to round."""
    return trace.array(f"{letter}{len(trace.ops)}_", n)


def _ids(values: Iterable[Value]) -> list[int]:
    return [value.data.id for value in values]
