"""Where engines disagree."""

import math
from typing import NamedTuple

from tests.fuzz.bounded import Bounded
from tests.fuzz.engines import ENGINES, Engine, Result, bounded, eager
from tests.fuzz.programs import Program

TOLERANCE = 1e-9
"""The relative disagreement that is allowed, besides what the rounding errors of the program explain."""


class Failure(NamedTuple):
    """A program, the engine that disagrees with the eager one about it, and what they say."""

    program: Program
    engine: str
    ours: Result
    theirs: Result


class Outcome(NamedTuple):
    """What came of a batch of programs: failures, and how many were left out, since nothing can be compared."""

    failures: list[Failure]
    left_out: int


def compare(programs: list[Program], against: list[str]) -> Outcome:
    """Run the programs in the eager engine and in the others."""
    bounds, ours = bounded(programs), eager(programs)
    usable = [i for i, bound in enumerate(bounds) if _is_usable(bound)]
    failures = []
    for name in against:
        engine: Engine = ENGINES[name]
        for i, theirs in zip(usable, engine([programs[i] for i in usable]), strict=True):
            if not agree(ours[i], theirs, bounds[i]):
                failures.append(Failure(programs[i], name, ours[i], theirs))
    return Outcome(failures, len(programs) - len(usable))


def agree(ours: Result, theirs: Result, bound: Result, tolerance: float = TOLERANCE) -> bool:
    """Whether two results are the same within the tolerance and the bound of the rounding errors."""
    if ours.error or theirs.error:
        return False
    return all(
        abs(x - y) <= tolerance * max(abs(x), abs(y)) + getattr(limit, "error", 0.0)
        for x, y, limit in zip(
            [ours.value, *ours.gradient], [theirs.value, *theirs.gradient], [bound.value, *bound.gradient], strict=True
        )
    )


def _is_usable(bound: Result) -> bool:
    """Whether no derivative overflows, and the rounding errors leave something to compare."""
    if bound.error:
        return False
    numbers = [x if isinstance(x, Bounded) else Bounded(x) for x in (bound.value, *bound.gradient)]
    largest = max(abs(x.number) for x in numbers)
    return all(math.isfinite(x.number) and x.error <= 1e-6 * largest + 1e-290 for x in numbers)
