"""Rolling: what repeats, with references that advance evenly, as loops; and loops that repeat as loops around them."""

from collections.abc import Hashable, Iterator, Sequence
from itertools import chain
from operator import sub
from typing import Any

from micrograd.compiler.ir import Loop, Ref, replace

FEWEST_ROUNDS = 3
LONGEST_BODY = 400  # steps that may make up one round
MOST_PERIODS = 12  # that are compared in full before a step is left as it is


def reroll(parts: Sequence[Any], depth: int = 0) -> list[Any]:
    """Steps of a kernel, or terms of a sum, with loops for what repeats, until nothing does.

    They are within so many loops themselves.
    """
    steps = list(parts)
    before = -1
    while len(steps) != before and len(steps) >= FEWEST_ROUNDS:
        before = len(steps)
        bases: list[list[int]] = [[] for _ in steps]
        kinds = list(map(_stripped, steps, bases))
        found: list[Any] = []
        for start, period, rounds in repeats(kinds, bases):
            body = steps[start : start + period]
            found += body if rounds == 1 else [_loop(rounds, body, bases[start : start + 2 * period], depth)]
        steps = found
    return steps


def _stripped(part: Any, bases: list[int]) -> Any:
    """A key that equal steps share whatever the bases of their references, which are appended to `bases`."""
    if type(part) is Ref:
        bases.append(part.base)
        return part.array, part.strides
    return (type(part), *[_stripped(inner, bases) for inner in part]) if isinstance(part, tuple) else part


def _loop(rounds: int, body: Sequence[Any], bases: Sequence[Sequence[int]], depth: int) -> Loop:
    """The loop whose first round is this body, with the bases of the first two rounds."""
    period = len(body)
    strides = map(sub, chain(*bases[period:]), chain(*bases[:period]))

    def within(ref: Ref) -> Ref:
        return ref._replace(strides=(*ref.strides[:depth], next(strides), *ref.strides[depth:]))

    return Loop(rounds, tuple([replace(step, within) for step in body]))


def repeats(
    kinds: Sequence[Hashable], bases: Sequence[Sequence[int]], longest: int = LONGEST_BODY
) -> Iterator[tuple[int, int, int]]:
    """Where loops begin, the number of steps in a round, and how many rounds: of one round where nothing repeats.

    In each round of a loop, the steps are of the same kinds, and each base differs by the same stride from the one in
    the round before. A round has at most the `longest` number of steps.
    """
    numbers: dict[Any, int] = {}
    numbered = [numbers.setdefault(kind, len(numbers)) for kind in kinds]
    n = len(kinds)
    following = [0] * n  # the next step of the same kind, for each but the last
    latest: dict[int, int] = {}
    for i, kind in enumerate(numbered):
        if kind in latest:
            following[latest[kind]] = i
        latest[kind] = i
    start = 0
    while start < n:
        period, rounds = 1, 1
        again, tried = following[start], 0
        while again and again - start <= longest and tried < MOST_PERIODS:
            end = 2 * again - start
            if end <= n and numbered[end - 1] == numbered[again - 1] and numbered[start:again] == numbered[again:end]:
                tried += 1
                rounds = _rounds(numbered, bases, start, again - start)
                if rounds >= FEWEST_ROUNDS:
                    period = again - start
                    break
            again = following[again]
        if rounds < FEWEST_ROUNDS:
            period, rounds = 1, 1
        yield start, period, rounds
        start += period * rounds


def _rounds(kinds: Sequence[int], bases: Sequence[Sequence[int]], start: int, period: int) -> int:
    """How many rounds are of the same kinds and advance evenly; the first two are known to be of the same kinds."""
    at = start + 2 * period
    while (
        at < len(kinds)
        and kinds[at] == kinds[at - period]
        and list(map(sub, bases[at], bases[at - period])) == list(map(sub, bases[at - period], bases[at - 2 * period]))
    ):
        at += 1
    return (at - start) // period
