"""The loops of `scan`: a traced round as steps in a loop.

The states lie one after the other in an array, so the next state of one round is the state of the following round.
Another array keeps what the backward loop needs from each round. The backward loop reads both arrays from the end. Sums
are added up in place.

If rounds need no state, they may run in any order; in C, in lanes.

If `until` may end a loop, each round first copies its state to the next. It then ends if a number of the state says so.

The passes write the round that runs first, as if it were the only one. In it, an array has a name for each stride at
which the loop reads or writes it, such as "@t7_3@x" where loop t7_ takes every third number of x. So numbers that
advance alike look like neighbours in one array, others like numbers of two. The last step turns names into strides.
"""

from itertools import chain

from micrograd.compiler.frontend.tracer import Slice
from micrograd.compiler.ir import Accumulate, Kernel, Loop, Ref, Skip, Step, Sum, adding, replace
from micrograd.compiler.passes.expressions import Column, Node
from micrograd.compiler.passes.fuse import fuse
from micrograd.compiler.passes.roll import reroll, step_of
from micrograd.compiler.passes.vectorize import Layout, Place, by_level, copied, in_levels, parts_of


def steps_of(node: Node, layout: Layout) -> Kernel:
    """The steps of a loop. Enters the places of its numbers in the layout."""
    rounds = _Rounds(node, layout)
    before, body, loop = rounds.before(), rounds.body(), rounds.loop
    layout.update((line, place) for line, place in zip(node.items, rounds.row(), strict=True) if line)
    return [*before, Loop(loop.rounds, body, loop.is_parallel)] if body else before  # a sum may need no round


class _Rounds:
    """Where the numbers of a loop are, and its steps. Its arrays, after the prefix:

    s       the state: before the first round, before the second, and so on
    a       what the loop adds up
    y       the outputs of the first round, of the second, and so on
    x12     a copy of what advances unevenly from round to round, for line 12
    k       what the backward loop reads, round by round, where a round computes it
    t0, t1  what a round computes; tx has copies of what it reads from far apart

    Each number of a round is in a slice, which has one for each round, in the order in which they run.
    """

    def __init__(self, node: Node, layout: Layout) -> None:
        assert node.round
        self.node, self.outside, self.its, self.loop = node, layout, node.round, node.round.loop
        self.prefix, self.n = f"{layout.prefix}{node.line}_", len(self.loop.state)
        self.leaves = {line: self._slice("s", i, self.n) for i, line in enumerate(self.loop.state)}
        self.strided: dict[str, tuple[str, int]] = {}  # the array and stride behind each name in that round
        self.own = Layout(layout, f"{self.prefix}t")
        for line in [line for node in self.its.nodes for line in (node.line, *node.items)]:  # also sums outside
            self.own.pop(line, None)
        self.own.rows, self.own.kept = dict(layout.rows), dict(layout.kept)

    def before(self) -> Kernel:
        """Steps that set the first state, copy what advances unevenly, and set sums and outputs to zero.

        Enters what a round reads into `leaves`.
        """
        loop, steps, columns = self.loop, Kernel(), [*self.node.columns]
        if loop.state:
            steps += _copied_column(self._slice("s", size=self.n), columns.pop(0), self.outside)
        found = dict(self.outside.kept[loop.forward]) if loop.is_backward else {}
        for line, column in zip(loop.xs, columns, strict=False):
            place = self.outside.whole(column)
            found[line] = place or self._slice(f"x{line}")
            if not place:
                steps += _copied_column(found[line], column, self.outside)
        self.leaves |= {line: self._in_order(place) for line, place in found.items()}
        zeros = {"a": len(loop.added)} if any(self.node.items[i] for i in loop.added) else {}
        if loop.over >= 0 and self.its.outputs:  # of rounds that are skipped
            zeros["y"] = loop.rounds * len(loop.outputs)
        for name, n in zeros.items():
            steps += _copied_column(self._slice(name, size=n), Slice("=0.0", 0, 1, n), self.outside)
        return steps

    def body(self) -> tuple[Step, ...]:
        """A round: a test to skip it, if needed; its nodes; and copies of what is not computed where it has to be."""
        own, its, loop = self.own, self.its, self.loop
        ends = [(line, self._slice("s", self.n + i, self.n)) for i, line in enumerate(loop.following)]
        following = [self._at_first(place) for _, place in ends]
        ends += [(line, self._in_order(self._slice("y", j, len(loop.outputs)))) for j, line in its.outputs.items()]
        keeps = set() if loop.is_backward else {*its.kept} - dict(ends).keys()
        kept = self._slice("k", 0, len(keeps))
        own.keeps = dict.fromkeys(keeps, self._at_first(kept)[0])
        own.update((line, self._at_first(place)) for line, place in self.leaves.items())
        near = self._nearby()
        for line, place in ends:
            own.setdefault(line, self._at_first(place))
        steps = reroll([*near, *fuse(by_level(in_levels(its.nodes), own, steps_of))])
        if loop.over >= 0:
            states = zip(following, map(own.__getitem__, loop.state), strict=True)
            steps = [*copied(states), Skip(Ref(*own[loop.over])), *steps]
        if not loop.is_backward:
            computed = {line: kept._replace(base=own[line][1]) for line in keeps}
            self.outside.kept[self.node.line] = self.leaves | dict(ends) | computed
        steps += copied((self._at_first(place), own[line]) for line, place in ends)
        return tuple([replace(self._summed(step), self._in_loop) for step in steps])

    def row(self) -> list[Place]:
        """The places of the loop's row: the last state, what it adds up, and the outputs."""
        loop = self.loop
        last = self._slice("s", loop.rounds * self.n, 1, self.n)
        others = self._slice("a", size=len(loop.added)), self._slice("y", size=loop.rounds * len(loop.outputs))
        return [*chain(*[part.places for part in (last, *others)])]

    def _nearby(self) -> Kernel:
        """Copies of numbers that are too far apart to make a vector: k-means whole takes 1.8 times as long without."""
        far = [line for line, place in self.leaves.items() if self.loop.is_parallel and place.step > 1]
        near = {line: (f"{self.prefix}tx", i) for i, line in enumerate(far)}
        steps = copied((place, self.own[line]) for line, place in near.items())
        self.own.update(near)
        return steps

    def _slice(self, name: str, base: int = 0, step: int = 1, size: int = -1) -> Slice:
        """A part of an array of the loop: by default, a number for each round."""
        return Slice(f"{self.prefix}{name}", base, step, self.loop.rounds if size < 0 else size)

    def _in_order(self, place: Slice) -> Slice:
        """A slice in the order in which the rounds run: a backward loop reads it from the end."""
        if not self.loop.is_backward:
            return place
        return Slice(place.array, place.base + (place.size - 1) * place.step, -place.step, place.size)

    def _at_first(self, place: Slice) -> Place:
        """Where a number is in the round that runs first; the array has its name in that round."""
        name = f"@{self.prefix}{place.step}@{place.array}"
        self.strided[name] = place.array, place.step
        return name, place.base

    def _in_loop(self, ref: Ref) -> Ref:
        """A reference in the first round as one in every round: the loop advances it by the stride."""
        array, stride = self.strided.get(ref.array, (ref.array, 0))
        return Ref(array, ref.base, (stride, *ref.strides))

    def _summed(self, step: Step) -> Step:
        """A step that adds to a sum instead of a gradient."""
        if isinstance(step, Loop):
            return Loop(step.rounds, tuple(map(self._summed, step.body)))
        if not isinstance(step, Accumulate):
            return step
        assert isinstance(step.value, Sum)
        return adding(step.target._replace(array=f"{self.prefix}a"), step.value.terms)


def _copied_column(to: Slice, column: Column, layout: Layout) -> Kernel:
    """Steps that copy a column."""
    return [*map(step_of, parts_of([Node(None, (("+", 1),), (column,), to, to.size)], layout))]
