"""The loops of `scan`: a traced round as steps in a loop.

The states lie one after the other in an array, so the next state of one round is the state of the following round.
Another array keeps what the backward loop needs from each round. The backward loop reads both arrays from the end. Sums
are added up in place.

If rounds only add to the state, it stays in place, and they may run in any order; in C, in lanes.

If `until` may end a loop, each round first copies its state to the next. It then ends if a number of the state says so.

While a round is turned into steps, the name of an array that advances from round to round begins with its stride.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

from micrograd.compiler.frontend.tracer import Slice
from micrograd.compiler.ir import (
    Accumulate,
    Assign,
    Kernel,
    Loop,
    Ref,
    Skip,
    Step,
    Sum,
    Switch,
    Term,
    innermost,
    refs,
    replace,
    span,
    start,
)
from micrograd.compiler.passes.expressions import Column, Node, length
from micrograd.compiler.passes.fuse import fuse, is_of_vectors, is_parallel, join
from micrograd.compiler.passes.jam import later
from micrograd.compiler.passes.roll import reroll
from micrograd.compiler.passes.vectorize import Layout, Place, by_level, in_levels

LANES = range(128, 8, -8)  # rounds of a strip: 1,024 take 1.2 times as long in strips of 64
ROOM = 1 << 17  # numbers of a strip: so many stay in the cache
MANY = 1024  # terms to add up where they are computed: such a sum takes 0.94 to 0.98 of the time; of 4,096, 0.91
PARTS = 8  # of a sum over lanes: a gradient of gmm takes 0.77 of the time it takes if each strip is added up at once

Use = tuple[Ref, int, int]
"""A reference that a step of a kernel has, and the lowest and the highest index that it reaches."""


def steps_of(node: Node, layout: Layout) -> Kernel:
    """The steps of a loop. Enters the places of its numbers in the layout."""
    rounds = _Rounds(node, layout)
    before, body, loop = rounds.before(), rounds.body(), rounds.loop
    layout.update((line, place) for line, place in zip(node.items, rounds.row(), strict=True) if line)
    return [*before, Loop(loop.rounds, body, loop.is_sum)] if body else before  # a sum may need no round


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
        self.is_backward = loop.forward >= 0
        forward = loop.forward if self.is_backward else node.line
        self.prefix, self.mark = f"{layout.prefix}{node.line}_", f"@{forward}:"
        self.apart = 0 if loop.is_sum else self.n  # from one state to the next
        self.leaves = {line: self._in_order(self._slice("s", i, self.apart)) for i, line in enumerate(loop.state)}
        self.own = Layout(dict(layout), f"{self.prefix}t", tables=layout.tables)
        self.own.rows, self.own.kept = dict(layout.rows), dict(layout.kept)

    def _slice(self, name: str, base: int = 0, step: int = 1, size: int = -1) -> Slice:
        """A part of an array of the loop: by default, a number for each round."""
        return Slice(f"{self.prefix}{name}", base, step, self.loop.rounds if size < 0 else size)

    def before(self) -> Kernel:
        """Steps that set the first state, copy what advances unevenly, and set sums and outputs to zero.

        Enters what a round reads into `leaves`.
        """
        loop, (first, *columns) = self.loop, self.node.columns
        steps: Kernel = [*_copies(self._slice("s", size=self.n), first, self.outside)]
        for i, (line, column) in enumerate(zip(loop.xs, columns, strict=False)):
            place = self.outside.whole(column)
            self.leaves[line] = place or self._slice(f"x{i}")
            if not place:
                steps += _copies(self.leaves[line], column, self.outside)
        self.leaves |= self.outside.kept.get(loop.forward, {})
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
        if not self.is_backward:
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
        last = self._slice("s", loop.rounds * self.apart, 1, self.n)
        others = self._slice("a", size=len(loop.added)), self._slice("y", size=loop.rounds * len(loop.outputs))
        return [*chain(*[part.places for part in (last, *others)])]

    def _nearby(self) -> Kernel:
        """Copies of numbers that are too far apart to make a vector."""
        used = {*chain(*[each.read for each in self.its.nodes])} if self.loop.is_sum else set()
        far = {line: self._each(place) for line, place in self.leaves.items() if place.step > 1 and line in used}
        near = {line: (f"{self.prefix}tx", i) for i, line in enumerate(far)}
        self.own.update(near)
        return [Assign(Ref(*near[line]), Ref(*place)) for line, place in far.items()]

    def _ends(self) -> list[tuple[int, Slice]]:
        """Lines, and where all rounds put them: first the next state; then outputs, and what is kept."""
        loop, its, own = self.loop, self.its, self.own
        states = [self._in_order(self._slice("s", self.apart + i, self.apart)) for i in range(self.n)]
        ends = [(line, states[i]) for i, line in its.following.items()]
        ends += [(line, self._slice("y", j, len(loop.outputs))) for j, line in its.outputs.items()]
        if not self.is_backward:
            kept = {*its.kept} - dict(ends).keys()
            copied = kept.intersection(chain(*[each.items for each in its.nodes]))
            own.keeps = kept - copied
            ends += [(line, self._slice("n", i, len(copied))) for i, line in enumerate(sorted(copied))]
        own.kept_in, _ = self._each(self._slice("k", 0, len(own.keeps)))
        return ends

    def _in_order(self, place: Slice) -> Slice:
        """A slice in the order of the rounds, or back: a backward loop reads it from the end."""
        if not self.is_backward:
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
        target = step.target._replace(array=f"{self.prefix}a")
        return Assign(target, Sum((Term("+", (target,)), *step.value.terms)))


def with_sums(kernel: Sequence[Step]) -> Kernel:
    """The kernel with sums of at least MANY numbers in the loops that compute them, so that these run in lanes."""
    begun, steps, apart = list[Step](), list[Step](), dict[Step, Step]()
    for step in kernel:
        match step:
            case Assign(total, Sum((*first, Loop(rounds, terms) as loop))) if _can_join(first, loop):
                begun.append(Assign(total, Sum(tuple(first)) if first else start(terms)))
                inside = total._replace(strides=(0,))
                steps.append(Loop(rounds, (Assign(inside, Sum((Term("+", (inside,)), *terms))),)))
                apart[steps[-1]] = Assign(total, Sum((Term("+", (total,)), loop)))
            case _:
                steps.append(step)
    return [*begun, *[apart.get(step, step) for step in join(steps, (), _may_add_up)]] if begun else steps


def _can_join(first: Sequence[Any], others: Loop) -> bool:
    """Whether the kernel computes none of a sum's `first` terms, and a loop over the others can join another loop."""
    if others.rounds < MANY or any(ref.array[0] in "tyg" for ref, _ in refs(tuple(first))):
        return False
    return all(isinstance(term, Term) and term.sign != ">" for term in others.body)


def _may_add_up(loop: Loop, least: int = 0) -> bool:
    """Whether compilers make vectors of a loop whose rounds share only sums, and `least` steps or more add to these."""
    if not is_of_vectors(loop):
        return False
    others = tuple([step for step in loop.body if not _adds(step)])
    return len(loop.body) - len(others) >= least and is_parallel(Loop(loop.rounds, others))


def in_lanes(kernel: Sequence[Step]) -> Kernel:
    """The kernel with the rounds of loops that run in any order in lanes: each step takes a strip of rounds at a time.

    A result that another step of the round reads then has a number for each lane. A sum has PARTS partial sums, which
    are added up after the loop.
    """
    uses = defaultdict[str, list[Use]](list)
    for step in kernel:
        for ref, rounds in {*refs(step)}:
            uses[ref.array].append((ref, *span(ref, rounds)))
    return [each for step in kernel for each in (_strips(step, uses) if isinstance(step, Loop) else [step])]


def _strips(loop: Loop, uses: Mapping[str, Sequence[Use]]) -> Kernel:
    """A loop as one over strips, and one over the few rounds left; or as it is, if it is short or its order matters."""
    if not (loop.parallel or _may_add_up(loop, least=1)):
        return [loop]
    if any(isinstance(step, Skip | Switch) for step, _ in innermost(loop)):
        return [loop]
    short = replace(loop, partial(_in_one_place, rounds=loop.rounds, uses=uses))
    steps = [(step, rounds) for step, rounds in innermost(short) if not step.target.strides[0]]
    own = {step.target.array for step, _ in steps if not _adds(step)}
    ends = [(ref.array, span(ref, rounds)[1] + 1) for ref, rounds in refs(short) if ref.array in own]
    room = sum(dict(sorted(ends)).values())
    sizes = [n for n in LANES if n <= loop.rounds and n * room <= ROOM]
    if not sizes:
        return [loop]
    lanes = min(sizes, key=lambda n: loop.rounds // n + 4 * (loop.rounds % n))
    strips, left = divmod(loop.rounds, lanes)
    inside = [each for step in short.body for each in _in_lanes(step, own, lanes)]
    found: Kernel = [Loop(strips, tuple(fuse(inside, (strips,), is_of_vectors)))]
    if left:
        found.append(Loop(left, later(short.body, strips * lanes)))
    sums = [(step.target.array, i) for step, rounds in steps if _adds(step) for i in span(step.target, rounds)]
    for array in sorted({array for array, _ in sums}):
        low, *_, high = sorted([i for each, i in sums if each == array])
        target, size = Ref(array, low, (1,)), high + 1 - low
        part = _part(target)
        found = [*_set(Slice(part.array, part.base, 1, PARTS * size), "=-0.0"), *found]
        found.append(Loop(size, (Assign(target, Sum((Term("+", (target,)), Loop(PARTS, (Term("+", (part,)),))))),)))
    return found


def _in_one_place(ref: Ref, rounds: int, uses: Mapping[str, Sequence[Use]]) -> Ref:
    """A reference of a loop. If nothing else reads what a round puts there, each round puts it in the same place: then
    only a strip of it is in memory, and log-sum-exp of 160,000 numbers takes 0.8 to 0.9 of the time.
    """
    if ref.array[0] != "t" or ref.strides in ((), (0,)) or len(ref.strides) > 1:
        return ref
    low, high = span(ref, (rounds,))
    users = [each for each, first, last in uses[ref.array] if first <= high and low <= last]
    return Ref(f"{ref.array}_{ref.base}", 0, (0,)) if users == [ref] else ref


def _in_lanes(step: Any, own: set[str], lanes: int, depth: int = 1) -> Iterator[Step]:
    """The steps for a step inside `depth` loops, with loops over the lanes inside. Terms go to partial sums.

    The intermediate results of a round are in its `own` arrays.
    """
    if isinstance(step, Loop):
        yield step._replace(body=tuple([of for each in step.body for of in _in_lanes(each, own, lanes, depth + 1)]))
    elif step.target.strides[0] or step.target.array in own:
        yield Loop(lanes, (replace(step, partial(_lane, own=own, lanes=lanes, depth=depth)),))
    else:
        terms, part, inside = list[Term](), _part(step.target), step.target._replace(strides=(*step.target.strides, 0))
        for term in step.value.terms:
            if isinstance(term, Loop):
                yield from _in_lanes(Loop(term.rounds, (Assign(inside, Sum(term.body)),)), own, lanes, depth)
            elif term.factors != (step.target,):
                terms.append(term)
        each = [
            replace(term, partial(_lane, own=own, lanes=lanes, depth=depth, first=first))
            for first in range(0, lanes, PARTS)
            for term in terms
        ]
        if each:
            yield Loop(PARTS, (Assign(part, Sum((Term("+", (part,)), *each))),))


def _lane(ref: Ref, own: set[str], lanes: int, depth: int, first: int = 0) -> Ref:
    """A reference as it reads in a loop over lanes inside `depth` loops, which starts at the lane `first`."""
    if not ref.strides:
        return ref
    k = lanes if ref.array in own else 1
    outer, *inner = [k * stride for stride in ref.strides]
    step = 1 if ref.array in own else outer
    inner.insert(depth - 1, step)
    return Ref(ref.array, k * ref.base + first * step, (lanes * outer, *inner))


def _part(target: Ref) -> Ref:
    """A reference to the partial sums of a sum: its last stride leads from one to the next."""
    array, base, strides = target
    return Ref(f"t{array}p", PARTS * base, (*[PARTS * stride for stride in strides], 1))


def _adds(step: Any) -> bool:
    """Whether a step adds to its target."""
    return isinstance(step.value, Sum) and Term("+", (step.target,)) in step.value.terms


def _copies(to: Slice, column: Column, layout: Layout) -> Iterator[Step]:
    """Steps that copy a column."""
    for first, (n, (array,), steps), (base,) in layout.stretches([column], length(column)):
        yield from _copy(Slice(to.array, to.base + first * to.step, to.step, n), Slice(array, base, sum(steps), n))


def _copy(to: Slice, of: Slice) -> list[Step]:
    if to.size == 1:
        return [Assign(Ref(to.array, to.base), Ref(of.array, of.base))]
    return [Loop(to.size, (Assign(Ref(to.array, to.base, (to.step,)), Ref(of.array, of.base, (of.step,))),))]


def _set(to: Slice, number: str) -> list[Step]:
    """Steps that set all of these to a constant."""
    return _copy(to, Slice(number, 0, 0, to.size))
