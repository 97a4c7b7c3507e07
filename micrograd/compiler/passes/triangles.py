"""Triangles: rows of numbers that get longer or shorter, as in causal attention, where a token reads those before it.

In lanes, the rows of a block begin at even distances, with gaps between them. One loop then runs over all rows, and the
loops inside it vary in their number of rounds. For a transformer with 2 layers and 16 tokens, gcc then takes 0.6 of the
time, and a step takes as long. One example at a time, rows are not in lanes, and each has fewer numbers than a few
vectors: a step of a GPT on a name would take 1.13 times as long.
"""

from collections import Counter
from collections.abc import Sequence
from operator import sub
from typing import Any

from micrograd.compiler.ir import Loop, refs
from micrograd.compiler.passes.roll import advancing, part

FEWEST_ROWS = 4  # of different lengths, and loops that become one: with 6, a GPT of 7 tokens has 708 lines, not 585
MOST_ROOM = 3  # places for each number, at most: a triangle needs two


def row_lengths(places: Sequence[Sequence[int]]) -> list[int]:
    """The lengths of rows of numbers, each computed from these places: along a row, their sum advances evenly."""
    totals = list(map(sum, places))
    steps = list(map(sub, totals[1:], totals))
    ((most, _),) = Counter(steps).most_common(1)
    ends = [*[i for i, step in enumerate(steps, 1) if step != most], len(totals)]
    return [*map(sub, ends, [0, *ends])]


def pitch_of_rows(lengths: Sequence[int]) -> int:
    """The distance between rows of a triangle: more than the longest, so that none continues another; 0 for others."""
    if len({*lengths}) < FEWEST_ROWS or [*lengths] not in (sorted(lengths), sorted(lengths, reverse=True)):
        return 0
    pitch = 1 + max(lengths)
    return pitch if pitch * len(lengths) <= MOST_ROOM * sum(lengths) else 0


def in_rows(steps: Sequence[Any]) -> list[Any]:
    """The steps of a block, which are independent, with one loop around those that are alike but for their rounds."""
    kinds: dict[Any, list[Any]] = {}
    for step in steps:
        is_apart = any(ref.array in ("g", "d") for ref, _ in refs(step))  # products are made of these
        kinds.setdefault(step if is_apart else part(step, varies=True)[0], []).append(step)
    return [each for alike in kinds.values() for each in _joined(alike)]


def _joined(alike: Sequence[Any]) -> Sequence[Any]:
    """One loop in place of these, if they are enough, and the rounds of loops inside differ."""
    if len(alike) < FEWEST_ROWS or len({part(step)[0] for step in alike}) == 1:
        return alike
    rounds = [part((step,), varies=True) for step in alike]
    return [Loop(len(rounds), advancing(rounds[0][0], [bases for _, bases in rounds]))]
