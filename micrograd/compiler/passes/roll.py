"""Rolling: what repeats, with references that advance evenly, as loops; and loops that repeat as loops around them."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import chain
from operator import sub
from typing import Any

from micrograd.compiler.ir import Loop, Offsets, Ref, replace

FEWEST_ROUNDS = 3  # with 4, 32 examples of bodies in a plane take 1.5 times as long; with 2, one takes 1.2
LONGEST_BODY = 400  # steps of one round: 2,000 that never repeat take 0.08 s, and twice as long without a limit
MOST_PERIODS = 12  # compared in full for a step: 2,000 alike at uneven distances take 0.02 s, and 1.1 without a limit

Bases = tuple[int, ...]
Part = tuple[Any, Bases]
"""A step, or a term of a sum: its shape, whose references all have the base 0, and the bases of these references.

If the rounds of loops may vary, their numbers are bases, too.
"""


def part(step: Any, varies: bool = False) -> Part:
    """A step as a part; `varies` says whether the rounds of its loops may vary."""
    bases: list[int] = []

    def based(ref: Ref) -> Ref:
        bases.append(ref.base)
        return Ref(ref.array, 0, ref.strides)

    return replace(step, based, varies), tuple(bases)


def step_of(part: Part, varies: bool = False) -> Any:
    """A part as a step."""
    shape, bases = part
    remaining = iter(bases)
    return replace(shape, lambda ref: Ref(ref.array, next(remaining), ref.strides), varies)


def advancing(shape: Any, rows: Iterable[Bases]) -> Any:
    """What has this shape, in a loop whose rounds have these bases, in tables unless they advance evenly."""
    columns = zip(*rows, strict=True)

    def based(ref: Ref) -> Ref:
        bases = next(columns)
        return Ref(ref.array, bases[0], () if ref.array[:1] == "=" else (_stride(bases), *ref.strides))

    return replace(shape, based, varies=True)


def _stride(indices: Sequence[int]) -> int | Offsets:
    """The distance between two of these indices, if it is always the same; otherwise their distances to the first."""
    offsets = tuple([index - indices[0] for index in indices])
    step = offsets[-1] // max(1, len(offsets) - 1)
    return step if offsets == tuple([i * step for i in range(len(offsets))]) else offsets


def reroll(steps: Sequence[Any], depth: int = 0, *, varies: bool = False) -> list[Any]:
    """Steps of a kernel, or terms of a sum, with loops for what repeats, until nothing does.

    They are inside `depth` loops themselves. `varies` says whether an inner loop's rounds may vary with an outer one's.
    """
    if len(steps) < FEWEST_ROUNDS:
        return list(steps)
    parts = rolled([part(step, varies) for step in steps], depth, varies)
    return [step_of(part, varies) for part in parts] if len(parts) < len(steps) else list(steps)


def rolled(parts: list[Part], depth: int = 0, varies: bool = False) -> list[Part]:
    """The parts, with loops for what repeats, until nothing does."""
    while len(found := roll(parts, depth, varies=varies)) < len(parts):
        parts = found
    return parts


def roll(parts: Sequence[Part], depth: int = 0, longest: int = LONGEST_BODY, *, varies: bool = False) -> list[Part]:
    """The parts of a body inside `depth` loops, with loops for what repeats. A round has at most `longest` parts."""
    found = []
    shapes, bases = [shape for shape, _ in parts], [its for _, its in parts]
    for start, period, rounds in repeats(shapes, bases, longest):
        end = start + period
        if rounds > 1:
            first = tuple(chain(*bases[start:end]))
            strides = map(sub, chain(*bases[end : end + period]), first)

            def within(ref: Ref, strides: Iterator[int] = strides) -> Ref:
                return Ref(ref.array, 0, (*ref.strides[:depth], next(strides), *ref.strides[depth:]))

            body = replace(tuple(shapes[start:end]), within, varies)
            found.append((Loop(0, body), (rounds, *first)) if varies else (Loop(rounds, body), first))
        else:
            found.append(parts[start])
    return found


def numbered(kinds: Iterable[Hashable]) -> list[int]:
    """Numbers for the kinds, the same for equal ones."""
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(kind, len(numbers)) for kind in kinds]


def repeats(
    kinds: Sequence[Hashable], bases: Sequence[Sequence[int]], longest: int = LONGEST_BODY
) -> Iterator[tuple[int, int, int]]:
    """Where loops begin, the number of steps in a round, and how many rounds: of one round where nothing repeats.

    In each round of a loop, the steps are of the same kinds, and each base differs by the same stride from the one in
    the round before. A round has at most the `longest` number of steps.
    """
    numbers = numbered(kinds)
    n = len(numbers)
    following = [0] * n  # the next step of the same kind, for each but the last
    latest: dict[int, int] = {}
    for i, kind in enumerate(numbers):
        if kind in latest:
            following[latest[kind]] = i
        latest[kind] = i
    start = 0
    while start < n:
        period, rounds = 1, 1
        again, tried = following[start], 0
        while again and again - start <= longest and tried < MOST_PERIODS:
            end = 2 * again - start
            if end <= n and numbers[end - 1] == numbers[again - 1] and numbers[start:again] == numbers[again:end]:
                tried += 1
                if (found := _rounds(numbers, bases, start, again - start)) >= FEWEST_ROUNDS:
                    period, rounds = again - start, found
                    break
            again = following[again]
        yield start, period, rounds
        start += period * rounds


def _rounds(kinds: Sequence[int], bases: Sequence[Sequence[int]], start: int, period: int) -> int:
    """How many rounds are of the same kinds and advance evenly; the first two are known to be of the same kinds."""
    strides, at = list[list[int]](), start + 2 * period
    while at < len(kinds) and kinds[at] == kinds[at - period]:
        if len(strides) < period:  # one by one, since most periods end at the first step that advances unevenly
            strides.append(list(map(sub, bases[at - period], bases[at - 2 * period])))
        if list(map(sub, bases[at], bases[at - period])) != strides[(at - start) % period]:
            break
        at += 1
    return (at - start) // period
