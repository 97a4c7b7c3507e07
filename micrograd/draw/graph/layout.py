"""Layout: boxes in columns, from left to right, in linear time.

An edge that passes columns gets a lane in each. The boxes of a column are ordered, and then moved up and down, by the
mean position of their neighbours (Sugiyama, Tagawa and Toda, 1981).
"""

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

MARGIN = 10.0
GAP = 12.0  # between the boxes of a column
LANE = 10.0  # the height of a lane
SWEEPS = 4

Passes = Sequence[tuple[int, int, int]]  # the columns that an edge passes: from which x to which, and at which height


class Placed(NamedTuple):
    """A layout: the corners of the boxes, the columns that each edge passes, and the size of the whole."""

    corners: list[tuple[float, float]]
    passes: Sequence[Passes]
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


def place(sizes: Sequence[tuple[float, float]], columns: Sequence[int], edges: Sequence[tuple[int, int]]) -> Placed:
    """Lay out boxes of these sizes in these columns, with edges that run from lower columns to higher ones."""
    heights, column_of = [height for _, height in sizes], list(columns)
    chains = _chains(edges, heights, column_of)
    steps = sorted({step for chain in chains for step in pairwise(chain)})
    before, after = ([list[int]() for _ in heights] for _ in range(2))
    for a, b in steps:
        before[b].append(a)
        after[a].append(b)
    orders = [list[int]() for _ in range(max(column_of) + 1)]
    for box, column in enumerate(column_of):
        orders[column].append(box)
    _order(orders, before, after)
    ys = _heights(orders, before, after, heights)
    top = min(y - h / 2 for y, h in zip(ys, heights, strict=True))
    ys = [round(y - top + MARGIN, 1) for y in ys]
    bottom = max(y + h / 2 for y, h in zip(ys, heights, strict=True))

    widths = [max((sizes[box][0] for box in order if box < len(sizes)), default=0.0) for order in orders]
    crossing = Counter(column_of[a] for a, _ in steps)  # more edges between two columns need a wider gap
    gaps = (width + 30 + 2 * min(crossing[column], 12) for column, width in enumerate(widths))
    lefts = list(accumulate(gaps, initial=MARGIN))
    corners = [
        (round(lefts[column] + (widths[column] - width) / 2, 1), round(ys[box] - height / 2, 1))
        for box, ((width, height), column) in enumerate(zip(sizes, columns, strict=True))
    ]
    ends = [(round(left), round(left + width)) for left, width in zip(lefts, widths, strict=False)]
    passes = [[(*ends[column_of[lane]], round(ys[lane])) for lane in chain[1:-1]] for chain in chains]
    return Placed(corners, passes, lefts[-2] + widths[-1] + MARGIN, bottom + MARGIN)


def _chains(edges: Sequence[tuple[int, int]], heights: list[float], column_of: list[int]) -> list[list[int]]:
    """The boxes and lanes along each edge; new lanes are added to `heights` and `column_of`, as if they were boxes."""
    lanes: dict[tuple[int, int], int] = {}  # of a box's edges in a column
    chains: list[list[int]] = []
    for source, target in edges:
        chain = [source]
        for column in range(column_of[source] + 1, column_of[target]):
            lane = lanes.setdefault((source, column), len(heights))
            if lane == len(heights):
                heights.append(LANE)
                column_of.append(column)
            chain.append(lane)
        chains.append([*chain, target])
    return chains


def _order(orders: list[list[int]], before: list[list[int]], after: list[list[int]]) -> None:
    """Order the boxes of each column by the mean position of their neighbours, so that few edges cross."""
    place = {box: (i + 0.5) / len(order) for order in orders for i, box in enumerate(order)}
    for sweep in range(SWEEPS):
        neighbours = after if sweep % 2 else before
        for order in reversed(orders) if sweep % 2 else orders:
            means = {box: _mean([place[n] for n in neighbours[box]], place[box]) for box in order}
            order.sort(key=means.__getitem__)
            place.update((box, (i + 0.5) / len(order)) for i, box in enumerate(order))


def _heights(
    orders: list[list[int]], before: list[list[int]], after: list[list[int]], heights: Sequence[float]
) -> list[float]:
    """The middle of each box: as near as possible to the mean of its neighbours, without overlap."""
    ys = [0.0] * len(heights)
    for order in orders:
        _separate(order, heights, ys)
    both = [a + b for a, b in zip(before, after, strict=True)]
    for sweep, neighbours in enumerate([before, after, *[both] * (2 * SWEEPS - 2)]):
        for order in reversed(orders) if sweep % 2 else orders:
            for box in order:
                ys[box] = _mean([ys[n] for n in neighbours[box]], ys[box])
            _separate(order, heights, ys)
    return ys


def _separate(order: Sequence[int], heights: Sequence[float], ys: list[float]) -> None:
    """Move the boxes of a column apart; a block of touching boxes goes to the mean of the wishes of its boxes."""
    blocks: list[tuple[float, int]] = []  # the top of each, without the boxes above, and its number of boxes
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


def _mean(numbers: Sequence[float], default: float) -> float:
    return sum(numbers) / len(numbers) if numbers else default
