"""Curves over epochs: as a line of characters for a terminal, and as SVG for notebooks and pages."""

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

from micrograd.checks import count

BLOCKS, ASCII = "▁▂▃▄▅▆▇█", "_.:-=+*#"
MOST = 300  # stretches of a curve, each drawn by its lowest and its highest point
LEFT, RIGHT, TOP, BOTTOM = 62, 144, 36, 36  # margins of a chart, for its numbers and names
LINE = 15  # from one line of text to the next


class Mark(NamedTuple):
    """An epoch to be marked in a chart, and the word that is written there."""

    epoch: float
    text: str


def sparkline(numbers: Sequence[float], width: int = 60, encoding: str | None = "utf-8") -> str:
    """A curve as one line of text: on a logarithmic scale where all numbers are above 0.

    Parameters
    ----------
    numbers
        What to draw. A number that is infinite or NaN is an `x`.
    width
        The most characters; with more numbers, each stands for the mean of a few.
    encoding
        What the line has to be written in; where that has no blocks, it is of ASCII.

    Raises
    ------
    ValueError
        If the width is below 1.
    """
    width = min(count("width", width), len(numbers))
    groups = [numbers[len(numbers) * i // width : len(numbers) * (i + 1) // width] for i in range(width)]
    heights = _heights([sum(group) / len(group) for group in groups])
    finite = [height for height in heights if math.isfinite(height)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    steps = _steps(encoding)
    scale = (len(steps) - 1) / (high - low or 1.0)
    return "".join(steps[round(scale * (h - low))] if math.isfinite(h) else "x" for h in heights)


def chart(
    lines: Mapping[str, Sequence[float]], *, epochs: float, caption: str, marks: Sequence[Mark] = (), width: int = 640,
    height: int = 240,
) -> str:  # fmt: skip
    """Curves over epochs as an SVG element, whose colours `STYLE` tells: logarithmic if all numbers are above 0.

    Parameters
    ----------
    lines
        The numbers of each epoch, by the name that is written at the end of the line.
    epochs
        The last epoch of the horizontal axis.
    caption
        What is written above the chart, and read out to who does not see it.
    marks
        Epochs to be marked.
    """
    drawn = {title: _thinned(numbers) for title, numbers in lines.items()}
    finite = [number for points in drawn.values() for _, _, number in points]
    logarithmic = bool(finite) and min(finite) > 0
    scale = math.log10 if logarithmic else float
    low, high = (scale(bound(finite, default=1.0)) for bound in (min, max))
    margin = 0.05 * (high - low) or 0.5
    low, high, epochs = low - margin, high + margin, max(epochs, 1)
    right, bottom = width - RIGHT, height - BOTTOM

    def x(epoch: float) -> float:
        return LEFT + (right - LEFT) * epoch / epochs

    def y(number: float) -> float:
        return bottom - (bottom - TOP) * (scale(number) - low) / (high - low)

    parts = [f'<text x="{LEFT}" y="18">{escape(caption)}</text>']
    parts += [
        f'<path class="mg-grid" d="M{LEFT} {y(tick):.1f}H{right}"/>'
        f'<text class="mg-soft" x="{LEFT - 7}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:.6g}</text>'
        for tick in (_powers(low, high) if logarithmic else ticks(low, high, 5))
    ]
    parts += [
        f'<text class="mg-soft" x="{x(tick):.1f}" y="{bottom + 16}" text-anchor="middle">{tick:g}</text>'
        for tick in ticks(0, epochs, 6) if tick == int(tick)
    ]  # fmt: skip
    parts.append(f'<text class="mg-soft" x="{(LEFT + right) / 2}" y="{height - 5}" text-anchor="middle">epoch</text>')
    ends = []
    for i, (title, points) in enumerate(drawn.items()):
        path = "".join(f"{'M' if first else 'L'}{x(epoch):.1f} {y(number):.1f}" for first, epoch, number in points)
        parts.append(f'<path class="mg-line mg-line{i}" d="{path}"/>')
        last = next((number for number in reversed(lines[title]) if math.isfinite(number)), None)
        if last is not None:
            ends.append((y(last), f'class="mg-name{i}"', f"{title} {last:.4g}"))
    for at, (_, kind, text) in zip(apart([end[0] for end in sorted(ends)]), sorted(ends), strict=True):
        parts.append(f'<text {kind} x="{right + 6}" y="{at + 4:.1f}">{escape(text)}</text>')
    for mark in marks:
        side, shift = ("end", 4) if x(mark.epoch) > width / 2 else ("start", -4)
        parts.append(
            f'<path class="mg-mark" d="M{x(mark.epoch):.1f} {TOP}V{bottom}"/>'
            f'<text class="mg-alarm" x="{x(mark.epoch) + shift:.1f}" y="{TOP - 4}" text-anchor="{side}">'
            f"{escape(mark.text)}</text>"
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="mg-chart" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" aria-label="{escape(caption)}" data-left="{LEFT}" data-right="{right}" '
        f'data-top="{TOP}" data-bottom="{bottom}" data-epochs="{epochs}">{"".join(parts)}</svg>'
    )


def _steps(encoding: str | None) -> str:
    """The characters of a sparkline, from low to high, that can be written."""
    try:
        BLOCKS.encode(encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return ASCII
    return BLOCKS


def _heights(numbers: Sequence[float]) -> list[float]:
    """The logarithms, if all that is finite has one."""
    positive = all(number > 0 for number in numbers if math.isfinite(number))
    return [math.log(number) if positive and math.isfinite(number) else number for number in numbers]


def _thinned(numbers: Sequence[float]) -> list[tuple[bool, int, float]]:
    """What to draw of a curve: whether a stroke begins there, the epoch and the number."""
    stretch = max(1, -(-len(numbers) // MOST))
    found: list[tuple[bool, int, float]] = []
    begins = True
    for start in range(0, len(numbers), stretch):
        piece = numbers[start : start + stretch]
        finite = [number for number in piece if math.isfinite(number)]
        for i in sorted({piece.index(min(finite)), piece.index(max(finite))} if finite else ()):
            found.append((begins, start + i + 1, piece[i]))
            begins = False
        begins = begins or not finite
    return found


def ticks(low: float, high: float, most: int) -> list[float]:
    """Round numbers from low to high: multiples of 1, 2 or 5 times a power of ten."""
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * (1 - 1e-9))
    return [i * step for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _powers(low: float, high: float) -> list[float]:
    """Round numbers whose decimal logarithms are from low to high."""
    for factors in ((1,), (1, 3), (1, 2, 5)):
        decades = range(max(math.floor(low), -307), min(math.ceil(high) + 1, 308))
        found = [f * 10.0**n for n in decades for f in factors if low <= math.log10(f * 10.0**n) <= high]
        if len(found) > 2:
            return found[:: -(-len(found) // 6)]
    return found if len(found) > 1 else [tick for tick in ticks(10**low, 10**high, 4) if tick > 0]


def apart(heights: Sequence[float]) -> list[float]:
    """Heights in ascending order, moved down where they are closer than a line of text."""
    moved: list[float] = []
    for height in heights:
        moved.append(max(height, moved[-1] + LINE) if moved else height)
    return moved
