"""Routines: steps that differ only in some numbers are written once, as functions of these.

A C compiler takes its time for each loop, and those of a causal attention, or of one layer after the other, differ only
in where they begin and how many rounds they have.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

from micrograd.compiler.ir import ARRAYS, Accumulate, Assign, Kernel, Loop, Ref, Sum, refs

FEWEST_CALLS = 3  # of a routine


class Routine(NamedTuple):
    """A step with the names n0, n1, ... in place of some of its bases, strides and rounds."""

    step: Any
    varies: tuple[bool, ...]  # for each of these numbers, whether it has a name


class Run(NamedTuple):
    """A step of a kernel: a routine, by its place in a list, with these numbers, each as the index of a reference."""

    routine: int
    numbers: tuple[Ref, ...]


def shared(chunks: Sequence[Kernel]) -> tuple[list[Routine], list[list[Any]]]:
    """The routines of a kernel in parts, and the parts, with calls of them: for outer loops rather than inner ones."""
    uses = Counter(shape for chunk in chunks for step in chunk for shape in _shapes(step, 0))
    places: dict[Any, int] = {}
    found: list[tuple[Any, int, list[tuple[Ref, ...]]]] = []  # an example, the loops around it, the numbers of all

    def calling(step: Any, depth: int = 0) -> Any:
        if _is_apart(step):
            shape, numbers = _shape(step, depth)
            if uses[shape] >= FEWEST_CALLS:
                if shape not in places:
                    places[shape] = len(found)
                    found.append((step, depth, []))
                found[places[shape]][2].append(numbers)
                return Run(places[shape], numbers)
        if isinstance(step, Loop):
            return Loop(step.rounds, tuple([calling(inner, depth + 1) for inner in step.body]))
        return step

    parts = [[calling(step) for step in chunk] for chunk in chunks]
    return [_routine(*each) for each in found], parts


def _shapes(step: Any, depth: int) -> Iterator[Any]:
    """The shapes of a step within so many loops, and of all steps in it, that could be routines."""
    if _is_apart(step):
        yield _shape(step, depth)[0]
    for inner in step.body if isinstance(step, Loop) else ():
        yield from _shapes(inner, depth + 1)


def _is_apart(step: Any) -> bool:
    """Whether a step has a loop, and no variables but those that it declares."""
    if not isinstance(step, Loop):
        if not isinstance(step, Assign | Accumulate) or step.target.array not in ARRAYS:
            return False
        if not isinstance(step.value, Sum) or not any(isinstance(term, Loop) for term in step.value.terms):
            return False
    used = {ref.array for ref, _ in refs(step) if ref.array not in ARRAYS and ref.array[0] not in "=s"}
    return used <= set(_declared(step))


def _declared(step: Any) -> Iterator[str]:
    """What steps assign to."""
    if isinstance(step, Loop):
        yield from chain.from_iterable(map(_declared, step.body))
    elif isinstance(step, Assign):
        yield step.target.array


def _shape(step: Any, depth: int) -> tuple[Any, tuple[Ref, ...]]:
    """A step within so many loops without its numbers, and these."""
    numbers: list[Ref] = []

    def kept(number: Ref) -> int:
        numbers.append(number)
        return 0

    return (type(step), _renumbered(step, depth, kept)), tuple(numbers)


def _renumbered(part: Any, depth: int, change: Callable[[Ref], Any]) -> Any:
    """The part with something in place of each number: where a reference begins, its strides, and the rounds of loops.

    The stride of an innermost loop stays, so that a compiler knows whether it runs over neighbours.
    """
    if type(part) is Ref:
        if part.array not in ARRAYS:
            return part
        base = change(Ref("", part.base, part.strides[:depth]))
        *strides, last = part.strides[depth:] or (0,)
        return Ref(part.array, base, (*[change(Ref("", stride)) for stride in strides], last))
    if type(part) is Loop:
        rounds = change(Ref("", part.rounds))
        return Loop(rounds, tuple([_renumbered(inner, depth, change) for inner in part.body]))
    if not isinstance(part, tuple):
        return part
    parts = [_renumbered(inner, depth, change) for inner in part]
    return tuple(parts) if type(part) is tuple else type(part)(*parts)


def _routine(step: Any, depth: int, calls: Sequence[tuple[Ref, ...]]) -> Routine:
    """The routine for steps like this one, with a name for each number that differs, or depends on a loop around."""
    varies = tuple([len({*column}) > 1 or any(column[0].strides) for column in zip(*calls, strict=True)])
    names = iter([f"n{i}" if named else None for i, named in enumerate(varies)])
    return Routine(_renumbered(step, depth, lambda number: next(names) or number.base), varies)
