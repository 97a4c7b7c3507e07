"""Routines: steps that differ only in some numbers become calls of one function, with these numbers as arguments.

A C compiler spends time on every loop it reads. The loops of causal attention, and those of successive layers, differ
only in where they start and how many rounds they run, so that one routine serves them all.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

from micrograd.compiler.ir import ARRAYS, Accumulate, Assign, Kernel, Loop, Ref, Sum, refs

FEWEST_CALLS = 3  # below which steps do not become a routine


class Routine(NamedTuple):
    """A step in which some bases, strides and rounds are parameters, called n0, n1, ..."""

    step: Any
    varies: tuple[bool, ...]  # whether each of its numbers is a parameter


class RoutineCall(NamedTuple):
    """A step that calls a routine, by its place in a list. Arguments are indices of Refs: they may use outer loops."""

    routine: int
    numbers: tuple[Ref, ...]


def shared(chunks: Sequence[Kernel]) -> tuple[list[Routine], list[list[Any]]]:
    """The routines of a kernel in chunks, and the chunks with calls of them: of outer loops rather than inner ones."""
    uses = Counter(shape for chunk in chunks for step in chunk for shape in _shapes(step, 0))
    places: dict[Any, int] = {}
    found: list[tuple[Any, int, list[tuple[Ref, ...]]]] = []  # a step, its depth, the numbers of each call

    def with_calls(step: Any, depth: int = 0) -> Any:
        if _is_self_contained(step):
            shape, numbers = _shape(step, depth)
            if uses[shape] >= FEWEST_CALLS:
                if shape not in places:
                    places[shape] = len(found)
                    found.append((step, depth, []))
                found[places[shape]][2].append(numbers)
                return RoutineCall(places[shape], numbers)
        if isinstance(step, Loop):
            return Loop(step.rounds, tuple([with_calls(inner, depth + 1) for inner in step.body]))
        return step

    parts = [[with_calls(step) for step in chunk] for chunk in chunks]
    return [_routine(*each) for each in found], parts


def _shapes(step: Any, depth: int) -> Iterator[Any]:
    """The shapes of a step in `depth` loops, and of the steps inside it, as far as they could become routines."""
    if _is_self_contained(step):
        yield _shape(step, depth)[0]
    for inner in step.body if isinstance(step, Loop) else ():
        yield from _shapes(inner, depth + 1)


def _is_self_contained(step: Any) -> bool:
    """Whether a step contains a loop, and uses no variables except those that it declares."""
    if not isinstance(step, Loop):
        if not isinstance(step, Assign | Accumulate) or step.target.array not in ARRAYS:
            return False
        if not isinstance(step.value, Sum) or not any(isinstance(term, Loop) for term in step.value.terms):
            return False
    used = {ref.array for ref, _ in refs(step) if ref.array not in ARRAYS and ref.array[0] not in "=s"}
    return used <= set(_declared(step))


def _declared(step: Any) -> Iterator[str]:
    """The names that a step assigns to."""
    if isinstance(step, Loop):
        yield from chain.from_iterable(map(_declared, step.body))
    elif isinstance(step, Assign):
        yield step.target.array


def _shape(step: Any, depth: int) -> tuple[Any, tuple[Ref, ...]]:
    """A step in `depth` loops with 0 for each of its numbers, and these numbers."""
    numbers: list[Ref] = []

    def cleared(number: Ref) -> int:
        numbers.append(number)
        return 0

    return (type(step), _renumbered(step, depth, cleared)), tuple(numbers)


def _renumbered(part: Any, depth: int, change: Callable[[Ref], Any]) -> Any:
    """The part with `change` applied to each number: the base and strides of references, and the rounds of loops.

    The stride of an innermost loop stays, so that the C compiler sees whether it reads adjacent elements.
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
    """The routine for steps like this one: what differs between calls, or depends on an outer loop, is a parameter."""
    varies = tuple([len({*column}) > 1 or any(column[0].strides) for column in zip(*calls, strict=True)])
    names = iter([f"n{i}" if named else None for i, named in enumerate(varies)])
    return Routine(_renumbered(step, depth, lambda number: next(names) or number.base), varies)
