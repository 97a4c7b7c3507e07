"""Triangles: rows of numbers that get longer or shorter, as in causal attention, where a token reads those before it.

The rows of a block begin at even distances, with gaps between them. One loop then runs over all rows, and the loops
inside it vary in their number of rounds. In lanes, gcc takes 0.6 of the time for a transformer with 2 layers and 16
tokens, and a step takes as long as before. For one example at a time, there are no such loops: a row has fewer numbers
than a few vectors hold, and a step of a GPT on a name would take 1.1 times as long.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from operator import sub
from typing import Any

from micrograd.compiler.ir import ADDED_TO, Loop, of_round, refs
from micrograd.compiler.passes.roll import advancing, part

FEWEST_ROWS = 4  # of different lengths, and loops that become one: with 6, a GPT of 7 tokens has 708 lines, not 585
MOST_ROOM = 3  # places for each number, at most: a triangle needs two


def gaps(sizes: Sequence[int], starts: Iterable[int]) -> list[int]:
    """How many places to leave after each of these results, so that the rows of a triangle begin at even
    distances. These are more than the longest row, so that none continues another.

    Results with sizes are rows. The others are numbers: for each, `starts` has the index at which what it reads begins,
    or the sum of several such indices. Along a row, these advance evenly.
    """
    none = [0] * len(sizes)
    if len(sizes) < FEWEST_ROWS:
        return none
    lengths = [*sizes] if sizes[0] else _row_lengths([*starts])
    pitch = 1 + max(lengths)
    is_sorted = lengths in (sorted(lengths), sorted(lengths, reverse=True))
    if not is_sorted or len({*lengths}) < FEWEST_ROWS or pitch * len(lengths) > MOST_ROOM * sum(lengths):
        return none
    if sizes[0]:
        return [pitch - n for n in lengths]
    return [gap for n in lengths for gap in (*[0] * (n - 1), pitch - n)]


def _row_lengths(starts: Sequence[int]) -> list[int]:
    """The lengths of rows along which these numbers advance evenly."""
    steps = list(map(sub, starts[1:], starts))
    ((most, _),) = Counter(steps).most_common(1)
    ends = [*[i for i, step in enumerate(steps, 1) if step != most], len(starts)]
    return [*map(sub, ends, [0, *ends])]


def in_rows(steps: Sequence[Any]) -> list[Any]:
    """The steps of a block, which are independent, with one loop around those that are alike except for their rounds.

    First, each of them is a round of that loop; then each round of the loops among them is, so that the distance from
    one to the next may differ, too.
    """
    found = list(steps)
    for depth in (0, 1) if len(found) >= FEWEST_ROWS else ():
        kinds: dict[Any, list[Any]] = {}
        for step in found:
            kinds.setdefault(_shape(step, depth), []).append(step)
        found = [each for alike in kinds.values() for each in _one_loop(alike, depth)]
    return found


def _shape(step: Any, depth: int) -> Any:
    """What steps have in common that may become a loop. Gradients stay as they are, since products are made of them."""
    can_join = not depth or (isinstance(step, Loop) and not step.varies)
    if not can_join or any(ref.array in ADDED_TO for ref, _ in refs(step)):
        return step
    return part(_round(step, 0, depth), varies=True)[0]


def _round(step: Any, i: int, depth: int) -> tuple[Any, ...]:
    """A step as a round of a loop around it; or with a depth of 1, only its round i."""
    return of_round(step.body, i, depth=0) if depth else (step,)


def _one_loop(alike: Sequence[Any], depth: int) -> Sequence[Any]:
    """One loop in place of these, if enough differ (additions to a gradient may be equal), and so do rounds inside."""
    if len({*alike}) < FEWEST_ROWS or len({part(_round(step, 0, depth))[0] for step in alike}) == 1:
        return alike
    rounds = [part(_round(step, i, depth), varies=True) for step in alike for i in range(step.rounds if depth else 1)]
    return [Loop(len(rounds), advancing(rounds[0][0], [bases for _, bases in rounds]))]
