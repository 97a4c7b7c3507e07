"""The loops of `scan`: a traced round as steps in a loop.

The states lie one after the other in an array, so the next state of one round is the state of the following round.
Another array keeps what the backward loop needs from each round. The backward loop reads both arrays from the end. Sums
are added up in place.

If rounds only add to the state, it stays in place, and they may run in any order; in C, in lanes.

If `until` may end a loop, each round first copies its state to the next. It then ends if a number of the state says so.

While a round is turned into steps, the name of an array that advances from round to round begins with its stride.
"""

from collections.abc import Iterator
from itertools import chain

from micrograd.compiler.frontend.tracer import Slice
from micrograd.compiler.ir import Accumulate, Assign, Kernel, Loop, Ref, Skip, Step, Sum, adding, replace
from micrograd.compiler.passes.expressions import Column, Node, length
from micrograd.compiler.passes.fuse import fuse
from micrograd.compiler.passes.roll import reroll
from micrograd.compiler.passes.vectorize import Layout, Place, by_level, in_levels


def steps_of(node: Node, layout: Layout) -> Kernel:
    """The steps of a loop. Enters the places of its numbers in the layout."""
    rounds = _Rounds(node, layout)
    before, body, loop = rounds.before(), rounds.body(), rounds.loop
    layout.update((line, place) for line, place in zip(node.items, rounds.row(), strict=True) if line)
    return [*before, Loop(loop.rounds, body, loop.is_parallel)] if body else before  # a sum may need no round


class _Rounds:
    """Where the numbers of a loop are, and its steps. Its arrays, after the prefix:

    s           the state: before the first round, before the second, and so on; or only the current one, in place
    a           what the loop adds up
    y           the outputs of the first round, of the second, and so on
    x0, x1, ... a copy of what advances unevenly from round to round
    k           what the backward loop reads, round by round, where a round computes it
    n           the same, copied from a row
    t0, t1, ... what a round computes; tx has copies of what it reads from far apart

    A slice has a number for each round, from the first to the last; a backward loop reads it from the end.
    """

    def __init__(self, node: Node, layout: Layout) -> None:
        assert node.round
        self.node, self.outside, self.its, self.loop = node, layout, node.round, node.round.loop
        loop, self.n = self.loop, len(self.loop.state)
        self.prefix, self.mark = f"{layout.prefix}{node.line}_", f"@{node.line}:"
        self.leaves = {line: self._in_order(self._slice("s", i, self.n)) for i, line in enumerate(loop.state)}
        self.own = Layout(dict(layout), f"{self.prefix}t", tables=layout.tables)
        self.own.rows, self.own.kept = dict(layout.rows), dict(layout.kept)

    def _slice(self, name: str, base: int = 0, step: int = 1, size: int = -1) -> Slice:
        """A part of an array of the loop: by default, a number for each round."""
        return Slice(f"{self.prefix}{name}", base, step, self.loop.rounds if size < 0 else size)

    def before(self) -> Kernel:
        """Steps that set the first state, copy what advances unevenly, and set sums and outputs to zero.

        Enters what a round reads into `leaves`.
        """
        loop, columns, steps = self.loop, [*self.node.columns], Kernel()
        if loop.state:
            steps += _copies(self._slice("s", size=self.n), columns.pop(0), self.outside)
        for i, (line, column) in enumerate(zip(loop.xs, columns, strict=False)):
            place = self.outside.whole(column)
            self.leaves[line] = place or self._slice(f"x{i}")
            if not place:
                steps += _copies(self.leaves[line], column, self.outside)
        if loop.is_backward:
            self.leaves |= self.outside.kept[loop.forward]
        if any(self.node.items[i] for i in loop.added):
            steps += _set(self._slice("a", size=len(loop.added)), "=0.0")
        if loop.over >= 0 and self.its.outputs:  # of rounds that are skipped
            steps += _set(self._slice("y", size=loop.rounds * len(loop.outputs)), "=0.0")
        return steps

    def body(self) -> tuple[Step, ...]:
        """A round: a test to skip it, if needed; its nodes; and copies of what is not computed where it has to be."""
        own, its, over = self.own, self.its, self.loop.over
        own.update((line, self._each(place)) for line, place in self.leaves.items())
        copies, ends = self._nearby(), self._ends()
        for line, place in ends:
            own.setdefault(line, self._each(place))
        steps = reroll([*copies, *fuse(by_level(in_levels(its.nodes), own, steps_of))])
        if over >= 0:
            pairs = [(self._each(place), own[line]) for line, (_, place) in zip(self.loop.state, ends, strict=False)]
            steps = [*reroll([Assign(Ref(*to), Ref(*of)) for to, of in pairs]), Skip(Ref(*own[over])), *steps]
        if not self.loop.is_backward:
            kept = [(line, self._slice("k", own[line][1], len(own.keeps))) for line in own.keeps]
            places = dict((*ends, *kept))
            found = {line: places[line] for line in its.kept if line in places}
            self.outside.kept[self.node.line] = self.leaves | found
        moved = [(self._each(place), own[line]) for line, place in ends if own[line] != self._each(place)]
        steps += reroll([Assign(Ref(*to), Ref(*of)) for to, of in moved])
        return tuple([replace(self._summed(step), self._in_round) for step in steps])

    def row(self) -> list[Place]:
        """The places of the loop's row: the last state, what it adds up, and the outputs."""
        loop = self.loop
        last = self._slice("s", loop.rounds * self.n, 1, self.n)
        others = self._slice("a", size=len(loop.added)), self._slice("y", size=loop.rounds * len(loop.outputs))
        return [*chain(*[part.places for part in (last, *others)])]

    def _nearby(self) -> Kernel:
        """Copies of numbers that are too far apart to make a vector."""
        used = {*chain(*[each.read for each in self.its.nodes])} if self.loop.is_parallel else set()
        far = {line: self._each(place) for line, place in self.leaves.items() if place.step > 1 and line in used}
        near = {line: (f"{self.prefix}tx", i) for i, line in enumerate(far)}
        self.own.update(near)
        return [Assign(Ref(*near[line]), Ref(*place)) for line, place in far.items()]

    def _ends(self) -> list[tuple[int, Slice]]:
        """Lines, and where all rounds put them: first the next state; then outputs, and what is kept."""
        loop, its, own = self.loop, self.its, self.own
        states = [self._in_order(self._slice("s", self.n + i, self.n)) for i in range(self.n)]
        ends = [*zip(loop.following, states, strict=True)]
        ends += [(line, self._slice("y", j, len(loop.outputs))) for j, line in its.outputs.items()]
        if not self.loop.is_backward:
            kept = {*its.kept} - dict(ends).keys()
            copied = kept.intersection(chain(*[each.items for each in its.nodes]))
            own.keeps = kept - copied
            ends += [(line, self._slice("n", i, len(copied))) for i, line in enumerate(sorted(copied))]
        own.kept_in, _ = self._each(self._slice("k", 0, len(own.keeps)))
        return ends

    def _in_order(self, place: Slice) -> Slice:
        """A slice in the order of the rounds, or back: a backward loop reads it from the end."""
        if not self.loop.is_backward:
            return place
        return Slice(place.array, place.base + (place.size - 1) * place.step, -place.step, place.size)

    def _each(self, place: Slice) -> Place:
        """Where a number is in the round that runs first, with a mark of where it is in the next."""
        array, base, step, _ = self._in_order(place)
        return f"{self.mark}{step}@{array}", base

    def _in_round(self, ref: Ref) -> Ref:
        """A reference, within the loop around the round."""
        array, stride = ref.array, "0"
        if array[0] == "=" and not ref.strides:
            return ref
        if array.startswith(self.mark):
            stride, array = array.removeprefix(self.mark).split("@", 1)
        return Ref(array, ref.base, (int(stride), *ref.strides))

    def _summed(self, step: Step) -> Step:
        """A step that adds to a sum instead of a gradient."""
        if isinstance(step, Loop):
            return Loop(step.rounds, tuple(map(self._summed, step.body)))
        if not isinstance(step, Accumulate):
            return step
        assert isinstance(step.value, Sum)
        return adding(step.target._replace(array=f"{self.prefix}a"), step.value.terms)


def _copies(to: Slice, column: Column, layout: Layout) -> Iterator[Step]:
    """Steps that copy a column."""
    for first, n, (of,) in layout.stretches([column], length(column)):
        yield from _copy(Slice(to.array, to.base + first * to.step, to.step, n), of)


def _copy(to: Slice, of: Slice) -> list[Step]:
    if to.size == 1:
        return [Assign(Ref(to.array, to.base), Ref(of.array, of.base))]
    return [Loop(to.size, (Assign(Ref(to.array, to.base, (to.step,)), Ref(of.array, of.base, (of.step,))),))]


def _set(to: Slice, number: str) -> list[Step]:
    """Steps that set all of these to a constant."""
    return _copy(to, Slice(number, 0, 0, to.size))
