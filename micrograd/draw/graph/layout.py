"""Layout: boxes in columns, from left to right.

The boxes of a column are ordered, and then moved up and down, by the mean position of their neighbours (Sugiyama,
Tagawa and Toda, 1981). An edge that passes columns does so at one height: the height of its source or its target,
unless something is in the way.
"""

import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, chain
from typing import NamedTuple

MARGIN = 10.0
GAP = 12.0  # between the boxes of a column
CLEAR = 5.0  # between an edge and what it passes
SWEEPS = 4

Edge = tuple[int, int, float]  # from the middle of a box to another box, and how far below the top of that it ends
Passes = tuple[tuple[int, int, float], ...]  # the columns that an edge passes, if any: from x to x, at which height


class Placed(NamedTuple):
    """A layout: the corners of the boxes, the columns that each edge passes, and the size of the whole."""

    corners: tuple[tuple[float, float], ...]
    passes: tuple[Passes, ...]
    width: float
    height: float


def columns(inputs: Sequence[Sequence[int]]) -> list[int]:
    """The column of each box: right after its last input, or right before its first use unless edges get longer.

    Inputs are the indices of earlier boxes.
    """
    found: list[int] = []
    users: list[list[int]] = [[] for _ in inputs]
    for i, sources in enumerate(inputs):
        found.append(1 + max((found[source] for source in sources), default=-1))
        for source in sources:
            users[source].append(i)
    for i in reversed(range(len(inputs))):
        inner = sum(len(inputs[source]) > 0 for source in inputs[i])
        if users[i] and inner < max(len(users[i]), 2):
            found[i] = min(found[user] for user in users[i]) - 1
    return found


@lru_cache  # similar views share a layout
def place(sizes: tuple[tuple[float, float], ...], columns: tuple[int, ...], edges: tuple[Edge, ...]) -> Placed:
    """Lay out boxes of these sizes in these columns, with edges that run from lower columns to higher ones."""
    before, after = ([list[int]() for _ in sizes] for _ in range(2))
    for source, target, _ in edges:
        before[target].append(source)
        after[source].append(target)
    orders = [list[int]() for _ in range(max(columns) + 1)]
    for box, column in enumerate(columns):
        orders[column].append(box)
    heights = [height for _, height in sizes]
    ys = _heights(orders, before, after, heights)
    levels = _levels(edges, columns, heights, ys)
    top = min(*levels, *(y - height / 2 for y, height in zip(ys, heights, strict=True)), math.inf)
    ys, levels = ([round(y - top + MARGIN, 1) for y in some] for some in (ys, levels))
    bottom = max(*levels, *(y + height / 2 for y, height in zip(ys, heights, strict=True)), 0.0)

    widths = [max((sizes[box][0] for box in order), default=0.0) for order in orders]
    # More edges between two columns need a wider gap.
    crossing = Counter(column for source, target, _ in edges for column in range(columns[source], columns[target]))
    gaps = (width + 30 + min(6 * math.sqrt(crossing[column]), 80) for column, width in enumerate(widths))
    lefts = list(accumulate(gaps, initial=MARGIN))
    corners = tuple(
        (round(lefts[column] + (widths[column] - width) / 2, 1), round(y - height / 2, 1))
        for (width, height), column, y in zip(sizes, columns, ys, strict=True)
    )
    ends = [(round(left), round(left + width)) for left, width in zip(lefts, widths, strict=False)]
    passed = (ends[columns[source] + 1 : columns[target]] for source, target, _ in edges)
    passes = tuple(((its[0][0], its[-1][1], level),) if its else () for its, level in zip(passed, levels, strict=True))
    return Placed(corners, passes, lefts[-2] + widths[-1] + MARGIN, bottom + MARGIN)


def _heights(
    orders: list[list[int]], before: list[list[int]], after: list[list[int]], heights: Sequence[float]
) -> list[float]:
    """The middle of each box: as near as possible to the mean of its neighbours. At first, this orders the columns."""
    ys = [0.0] * len(heights)
    for order in orders:
        _separate(order, heights, ys)
    both = [a + b for a, b in zip(before, after, strict=True)]
    for sweep, neighbours in enumerate([before, after] * (SWEEPS // 2) + [both] * (2 * SWEEPS + 1)):
        for order in reversed(orders) if sweep % 2 else orders:
            for box in order:
                if near := [ys[n] for n in neighbours[box]]:
                    ys[box] = sum(near) / len(near)
            if sweep < SWEEPS:
                order.sort(key=ys.__getitem__)
            _separate(order, heights, ys)
    return ys


def _separate(order: Sequence[int], heights: Sequence[float], ys: list[float]) -> None:
    """Move the boxes of a column apart; a block of touching boxes goes to the mean of the wishes of its boxes."""
    blocks: list[tuple[float, int]] = []  # the top of each, without the boxes above, and its boxes
    tops = accumulate((heights[box] + GAP for box in order), initial=0.0)
    offsets = [top + heights[box] / 2 for top, box in zip(tops, order, strict=False)]
    for box, offset in zip(order, offsets, strict=True):
        wish, n = ys[box] - offset, 1
        while blocks and blocks[-1][0] > wish:
            earlier, m = blocks.pop()
            wish, n = (earlier * m + wish * n) / (m + n), m + n
        blocks.append((wish, n))
    shifts = [wish for wish, n in blocks for _ in range(n)]
    for box, shift, offset in zip(order, shifts, offsets, strict=True):
        ys[box] = shift + offset


def _levels(
    edges: Sequence[Edge], columns: Sequence[int], heights: Sequence[float], ys: Sequence[float]
) -> list[float]:
    """The height at which each edge passes columns: the height of its start or end, or else the next that is clear.

    Clear means clear of the boxes in these columns, and of edges there that come from other boxes. The edges of one box
    share the height of the longest, if it is clear for them.
    """
    taken = [set[tuple[float, float, int]]() for _ in range(max(columns) + 1)]  # from, to, and by whose edge
    for box, column in enumerate(columns):
        taken[column].add((ys[box] - heights[box] / 2 - CLEAR, ys[box] + heights[box] / 2 + CLEAR, -1))
    levels, of_source = [0.0] * len(edges), dict[int, float]()
    for i in sorted(range(len(edges)), key=lambda i: columns[edges[i][0]] - columns[edges[i][1]]):  # the longest first
        source, target, port = edges[i]
        start, end = ys[source], ys[target] - heights[target] / 2 + port
        passed = taken[columns[source] + 1 : columns[target]]
        blocked = {span[:2] for spans in passed for span in spans if span[2] != source}
        wishes = [of_source[source]] if source in of_source else [end, start]
        others = sorted(chain(*blocked), key=lambda y: (abs(y - start) + abs(y - end), y))  # right beside what is there
        level = next(y for y in [*wishes, *others] if not any(low < y < high for low, high in blocked))
        levels[i] = level
        if passed:
            of_source[source] = level
        for spans in passed:
            spans.add((level - CLEAR, level + CLEAR, source))
    return levels
