"""Rounds of a loop that go through the same numbers, carried out together: so these are loaded once for all of them."""

from collections.abc import Iterator, Sequence
from typing import Any

from micrograd.compiler.ir import ARRAYS, Accumulate, Assign, Loop, Ref, refs, replace

AT_ONCE = 4  # rounds
LONG_LOOP = 32  # rounds of an inner loop, above which it pays


def may_jam(loop: Loop) -> bool:
    """Whether an outermost loop goes through the same numbers in each round, and its rounds are independent."""
    if not _assigns(loop):
        return False
    found = list(refs(loop))
    if any(type(number) is not int for ref, _ in found for number in (ref.base, *ref.strides)):
        return False  # of a routine
    if not any(_is_read_again(ref, rounds) for ref, rounds in found):
        return False
    targets = dict(_targets(loop))
    spans = [(ref.array, *_span(ref, rounds)) for ref, rounds in targets.items()]
    for ref, rounds in found:
        if ref in targets or ref.array not in ARRAYS:
            continue
        low, high = _span(ref, rounds)
        if any(ref.array == array and low <= last and first <= high for array, first, last in spans):
            return False  # it may read what another round sets
    return all(_is_apart(ref, rounds) for ref, rounds in targets.items())


def _is_read_again(ref: Ref, rounds: tuple[int, ...]) -> bool:
    """Whether each round of the outer loop goes through the same numbers, of which there are many."""
    return (
        len(rounds) > 1 and len(ref.strides) > 1 and ref.strides[0] == 0 != ref.strides[-1] and rounds[-1] >= LONG_LOOP
    )


def _assigns(step: Any) -> bool:
    """Whether a step is an assignment, or has nothing else in its loops."""
    return all(map(_assigns, step.body)) if isinstance(step, Loop) else isinstance(step, Assign | Accumulate)


def _targets(step: Any, rounds: tuple[int, ...] = ()) -> Iterator[tuple[Ref, tuple[int, ...]]]:
    """The elements that a step sets or adds to, with the rounds of the loops around them."""
    if isinstance(step, Loop):
        for inner in step.body:
            yield from _targets(inner, (*rounds, step.rounds))
    elif step.target.array in ARRAYS:
        yield step.target, rounds


def _span(ref: Ref, rounds: Sequence[int]) -> tuple[int, int]:
    """The first and the last index of a reference."""
    reach = [(n - 1) * stride for n, stride in zip(rounds, ref.strides, strict=False)]
    return ref.base + sum(min(r, 0) for r in reach), ref.base + sum(max(r, 0) for r in reach)


def _is_apart(ref: Ref, rounds: Sequence[int]) -> bool:
    """Whether no two rounds of the outer loop set the same element."""
    first, last = _span(Ref(ref.array, 0, ref.strides[1:]), rounds[1:])
    return abs(ref.strides[0]) > last - first


def later(step: Any, k: int) -> Any:
    """A step of an outermost loop k rounds later, with variables of its own."""

    def moved(ref: Ref) -> Ref:
        if ref.array[0] == "v":
            return Ref(f"{ref.array}_{k}") if k else ref
        return ref._replace(base=ref.base + k * ref.strides[0]) if ref.strides else ref

    return replace(step, moved)
