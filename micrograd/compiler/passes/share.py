"""Routines: steps that differ only in some numbers become calls of one function, with these numbers as arguments.

A C compiler spends time on every loop it reads. The loops of causal attention, and those of successive layers, differ
only in where they start and how many rounds they run, so that one routine serves them all. Programs for longer or
shorter examples have mostly the same loops, too, so they can share routines: a longer example adds only a few.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from typing import Any, NamedTuple

from micrograd.compiler.ir import ARRAYS, Accumulate, Assign, Kernel, Loop, Ref, Sum, innermost, refs

FEWEST_CALLS = 3  # below which steps of a single program do not become a routine
BASE = "base"  # in place of the name of an array: the number is the base of a reference


class Routine(NamedTuple):
    """A step in which some bases, strides and rounds are parameters, called n0, n1, ..."""

    step: Any
    fixed: tuple[int | None, ...]  # its numbers, in order; None for each that is a parameter
    takes_constants: bool  # whether the caller's table of constants is a parameter, too

    def fits(self, numbers: Sequence[Ref]) -> bool:
        """Whether it can be called with these numbers: where one is fixed, they have the same."""
        pairs = zip(self.fixed, numbers, strict=True)
        return all(own is None or (own == number.base and not any(number.strides)) for own, number in pairs)


class RoutineCall(NamedTuple):
    """A call of a routine, by its place in a list. Arguments are indices, as of Refs: they may use outer loops."""

    routine: int
    numbers: tuple[Ref, ...]


class Routines(list[Routine]):
    """The routines of one program, or `across_programs`: those of a function for examples of different lengths.

    Such programs have the same loops at other places, so every loop becomes a routine, and all bases are parameters.
    Their tables of constants differ, so the table is a parameter, too.
    """

    def __init__(self, *, across_programs: bool = False) -> None:
        super().__init__()
        self.across_programs = across_programs
        self._alike: dict[Any, list[int]] = defaultdict(list)  # the indices of routines, by the shape of their steps

    def find_or_add(self, shape: Any, step: Any, depth: int, calls: Sequence[tuple[Ref, ...]]) -> int:
        """The index of a routine for these calls of a step in `depth` loops: of one that fits, or of a new one.

        In a new one, each number that differs between calls or depends on an outer loop is a parameter.
        """
        alike = self._alike[shape]
        for index in alike:
            if all(map(self[index].fits, calls)):
                return index
        known = zip(*[self[index].fixed for index in alike], strict=True) if alike else repeat(())
        fixed = tuple(map(self._fixed_number, zip(*calls, strict=True), known))
        names = iter([f"n{i}" if number is None else number for i, number in enumerate(fixed)])
        alike.append(len(self))
        takes_constants = self.across_programs and any(ref.array == "c" for ref, _ in refs(step))
        self.append(Routine(_renumbered(step, depth, lambda _: next(names)), fixed, takes_constants))
        return alike[-1]

    def _fixed_number(self, column: Sequence[Ref], known: Sequence[int | None]) -> int | None:
        """The number on which all calls, and all routines of this shape, agree; None for a parameter if they do not."""
        first = column[0]
        moves = any(first.strides) or (self.across_programs and first.array == BASE)
        return None if moves or len({*column}) > 1 or {*known} - {first.base} else first.base


def with_routines(chunks: Sequence[Kernel], routines: Routines) -> tuple[list[int], list[list[Any]]]:
    """Make steps of a kernel calls of routines: returns the indices of these in `routines`, and the new chunks.

    New routines are added to `routines`. An outer loop becomes a routine rather than the loops in it.
    """
    uses = Counter(shape for chunk in chunks for step in chunk for shape in _shapes(step, 0))
    fewest = 1 if routines.across_programs else FEWEST_CALLS
    places: dict[Any, int] = {}
    found: list[tuple[Any, Any, int, list[tuple[Ref, ...]]]] = []  # shape, step, depth and the numbers of each call

    def with_calls(step: Any, depth: int = 0) -> Any:
        if _is_self_contained(step):
            shape, numbers = _shape(step, depth)
            if uses[shape] >= fewest:
                if shape not in places:
                    places[shape] = len(found)
                    found.append((shape, step, depth, []))
                found[places[shape]][-1].append(numbers)
                return RoutineCall(places[shape], numbers)
        if isinstance(step, Loop):
            return Loop(step.rounds, tuple([with_calls(inner, depth + 1) for inner in step.body]))
        return step

    parts = [[with_calls(step) for step in chunk] for chunk in chunks]
    return [routines.find_or_add(*each) for each in found], parts


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
    return used <= {inner.target.array for inner, _ in innermost(step) if isinstance(inner, Assign)}


def _shape(step: Any, depth: int) -> tuple[Any, tuple[Ref, ...]]:
    """A step in `depth` loops with None for each of its numbers, and these numbers."""
    numbers: list[Ref] = []
    return (type(step), _renumbered(step, depth, numbers.append)), tuple(numbers)


def _renumbered(part: Any, depth: int, change: Callable[[Ref], Any]) -> Any:
    """The part with `change` applied to each number: the base and strides of references, and the rounds of loops.

    A stride of 1, 0 or -1 in an innermost loop stays as it is: it tells the C compiler which elements are adjacent.
    """
    if type(part) is Ref:
        if part.array not in ARRAYS:
            return part
        base = change(Ref(BASE, part.base, part.strides[:depth]))
        *outer, last = part.strides[depth:] or (0,)
        own = [change(Ref("", stride)) for stride in outer]
        return Ref(part.array, base, (*own, last if abs(last) <= 1 else change(Ref("", last))))
    if type(part) is Loop:
        rounds = change(Ref("", part.rounds))
        return Loop(rounds, tuple([_renumbered(inner, depth, change) for inner in part.body]))
    if not isinstance(part, tuple):
        return part
    parts = [_renumbered(inner, depth, change) for inner in part]
    return tuple(parts) if type(part) is tuple else type(part)(*parts)
