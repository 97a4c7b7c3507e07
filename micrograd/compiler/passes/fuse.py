"""Fusion: neighbouring loops of equal rounds become one, so that a number is read soon after it is set."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from micrograd.compiler.ir import Accumulate, Assign, Kernel, Loop, Ref, Step, innermost, is_variable, refs, span

MOST_STEPS = (
    40  # of a loop that others join: without a limit, 300 operations on 64 numbers take the passes 4.9 s, not 2.5
)


def fuse(steps: Sequence[Step], around: tuple[int, ...] = ()) -> Kernel:
    """The steps, in loops of so many rounds `around`, with each loop joined to the one before it if possible."""
    found: Kernel = []
    for step in steps:
        before = found[-1] if found else None
        if isinstance(step, Loop) and isinstance(before, Loop) and _may_join(before, step, around):
            found[-1] = Loop(step.rounds, (*before.body, *step.body))
        else:
            found.append(step)
    return [
        step._replace(body=tuple(fuse(step.body, (*around, step.rounds)))) if isinstance(step, Loop) else step
        for step in found
    ]


def _may_join(first: Loop, second: Loop, around: tuple[int, ...]) -> bool:
    """Whether no round of the second loop accesses what a later round of the first does, unless both only read it."""
    if first.rounds != second.rounds or sum(1 for _ in innermost(first)) > MOST_STEPS:
        return False
    if any(loop.parallel or loop.may_skip for loop in (first, second)):
        return False
    return not _meet(first, second, around)


def is_parallel(loop: Loop, around: tuple[int, ...] = ()) -> bool:
    """Whether no round of a loop accesses what another one sets. `around` has the rounds of the loops around it."""
    known: set[Ref] = set()
    for step, _ in innermost(loop):
        if not isinstance(step, Assign | Accumulate):
            return False
        if any(is_variable(ref) and ref not in known for ref, _ in refs(step.value)):
            return False  # a sum carried from round to round
        known.add(step.target)
    return not _meet(loop, loop, around)


class _Access(NamedTuple):
    """A reference, the rounds of the loops around it, whether it is set, and the lowest and highest index."""

    ref: Ref
    rounds: tuple[int, ...]
    sets: bool
    low: int
    high: int


def _accesses(loop: Loop, around: tuple[int, ...]) -> Iterator[_Access]:
    """What a loop sets and reads."""
    for step, its in innermost(loop, around):
        for i, (ref, rounds) in enumerate(refs(step, its)):
            if ref.strides:
                yield _Access(ref, rounds, i == 0, *span(ref, rounds))


def _meet(first: Loop, second: Loop, around: tuple[int, ...]) -> bool:
    """Whether a round of the second loop accesses what a later round of the first does, and one of them sets it."""
    earlier: dict[str, list[_Access]] = defaultdict(list)
    for access in _accesses(first, around):
        earlier[access.ref.array].append(access)
    return any(
        (a.sets or b.sets) and a.low <= b.high and b.low <= a.high and _meets_later(a, b, len(around))
        for b in _accesses(second, around)
        for a in earlier[b.ref.array]
    )


def _meets_later(first: _Access, second: _Access, depth: int) -> bool:
    """Whether the second, in some round of the loop at this depth, may access what the first does in a later round."""
    a, b = first.ref, second.ref
    alike = next((n for n in (depth + 1, depth) if a.strides[:n] == b.strides[:n]), 0)  # these loops move both alike
    if alike > depth and not isinstance(a.strides[depth], int):
        alike = depth
    low, high = span(Ref("", a.base, a.strides[alike:]), first.rounds[alike:])
    lowest, highest = span(Ref("", b.base, b.strides[alike:]), second.rounds[alike:])
    nearest, farthest = lowest - high, highest - low  # from a to b in the same round
    stride = a.strides[depth] if alike > depth else 0
    if stride < 0:
        stride, nearest, farthest = -stride, -farthest, -nearest
    if stride == 0:
        return nearest <= 0 <= farthest
    later = max(1, -(-nearest // stride))  # the first round in which a is as far
    return later < first.rounds[depth] and later * stride <= farthest
