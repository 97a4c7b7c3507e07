"""Fusion: neighbouring loops of equal rounds become one, so that a number is read soon after it is set."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from micrograd.compiler.ir import Kernel, Loop, Ref, Step, innermost, is_variable, refs, span

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
        Loop(step.rounds, tuple(fuse(step.body, (*around, step.rounds)))) if isinstance(step, Loop) else step
        for step in found
    ]


def _may_join(first: Loop, second: Loop, around: tuple[int, ...]) -> bool:
    """Whether no round of the second loop accesses what a later round of the first does, unless both only read it."""
    if first.rounds != second.rounds or sum(1 for _ in innermost(first)) > MOST_STEPS:
        return False
    return not _meet(first, second, around)


def is_parallel(loop: Loop, around: tuple[int, ...]) -> bool:
    """Whether no round of an innermost loop, whose sums are steps, accesses what another one sets."""
    known: set[Ref] = set()
    for step in loop.body:
        if any(is_variable(ref) and ref not in known for ref, _ in refs(step.value)):
            return False  # a sum that goes on from round to round
        known.add(step.target)
    return not _meet(loop, loop, around)


def _meet(first: Loop, second: Loop, around: tuple[int, ...]) -> bool:
    """Whether a round of the second loop accesses what a later round of the first does, and one of them sets it."""
    earlier: dict[str, list[tuple[Ref, tuple[int, ...], bool]]] = defaultdict(list)
    for access in _accesses(first, around):
        earlier[access[0].array].append(access)
    return any(
        (sets or a_sets) and b.strides and _meets_later(a, a_rounds, b, b_rounds, len(around))
        for b, b_rounds, sets in _accesses(second, around)
        for a, a_rounds, a_sets in earlier[b.array]
    )


def _accesses(loop: Loop, around: tuple[int, ...]) -> Iterator[tuple[Ref, tuple[int, ...], bool]]:
    """What a loop sets and reads, with the rounds of the loops around, and whether it sets it."""
    for step, rounds in innermost(loop, around):
        yield from ((*access, i == 0) for i, access in enumerate(refs(step, rounds)))


def _meets_later(a: Ref, a_rounds: tuple[int, ...], b: Ref, b_rounds: tuple[int, ...], depth: int) -> bool:
    """Whether b in some round of the loop at this depth may be the same element as a in a later one."""
    alike = next((n for n in (depth + 1, depth) if a.strides[:n] == b.strides[:n]), 0)  # these loops move both alike
    if alike > depth and not isinstance(a.strides[depth], int):
        alike = depth
    low, high = span(Ref("", a.base, a.strides[alike:]), a_rounds[alike:])
    first, last = span(Ref("", b.base, b.strides[alike:]), b_rounds[alike:])
    nearest, farthest = first - high, last - low  # from a to b in the same round
    stride = a.strides[depth] if alike > depth else 0
    if stride < 0:
        stride, nearest, farthest = -stride, -farthest, -nearest
    if stride == 0:
        return nearest <= 0 <= farthest
    later = max(1, -(-nearest // stride))  # the first round in which a is as far
    return later < a_rounds[depth] and later * stride <= farthest
