"""Charts of the measurements, as SVG for light and dark: each line has its name at its end, and a marker."""

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape

from micrograd.draw.shell import standalone
from micrograd.draw.text import width

WIDTH, TOP, BOTTOM, ROW = 830, 40, 40, 17
OURS, OTHERS = range(2)  # how a line looks: its colour, its dashes and its marker
MARKERS = ("m0-4.5a4.5 4.5 0 1 0 .01 0z", "m0-6 6 6-6 6-6-6z")

Lines = Sequence[tuple[str, float, int]]
"""Of each line its name, how long it is, and how it looks."""


def ratios(groups: Mapping[str, Lines], one: str, axis: str, left: int, right: int) -> str:
    """Lines from 1 to a ratio, on a logarithmic axis: by the title of each group, and with so much room beside them.

    `one` says what 1 is, and `axis` what the ratios are.
    """
    numbers = [1.0, *(ratio for lines in groups.values() for _, ratio, _ in lines)]
    x = _Scale(min(numbers), max(numbers), left, WIDTH - right)
    bottom = TOP + sum(ROW * (len(lines) + 1.5) for lines in groups.values()) + ROW / 2
    parts = [
        *_columns(x, TOP, bottom, axis),
        f'<path class="mg-grid" d="M{x(1):.1f} {TOP - 8}V{bottom}" style="stroke-width:2"/>',
    ]
    parts.append(_words(x(1), TOP - 14, one, anchor="middle"))
    y = float(TOP)
    for title, lines in groups.items():
        y += 1.5 * ROW
        parts.append(_over_lines(8, y - 4, title, style="font-weight:600"))
        for name, ratio, look in lines:
            y += ROW
            end, text = x(ratio), f"{name}: {times(ratio)}"
            parts.append(f'<path class="mg-line mg-line{look}" d="M{x(1):.1f} {y - 4}H{end:.1f}"/>')
            parts.append(_marker(end, y - 4, look))
            behind = ratio < 1
            at, anchor = (end - 12, "end") if behind else (end + 12, "start")
            parts.append(_over_lines(at, y, text, f"mg-name{look}", anchor))
    return _svg(bottom + BOTTOM, parts, axis)


def times(ratio: float) -> str:
    """A ratio with three digits, such as 0.0123 or 12,300."""
    return f"{float(f'{ratio:.3g}'):,.0f}" if ratio >= 100 else f"{ratio:.3g}"


class _Scale:
    """A logarithmic axis: a function from a number to where it is."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self.low, self.high = math.log10(low), math.log10(high)
        self.start, self.end = start, end

    def __call__(self, number: float) -> float:
        return self.start + (self.end - self.start) * (math.log10(number) - self.low) / (self.high - self.low)

    def powers(self) -> range:
        """The powers of ten that are on it."""
        return range(math.ceil(self.low - 1e-9), math.floor(self.high + 1e-9) + 1)


def _columns(x: _Scale, top: float, bottom: float, axis: str) -> Iterator[str]:
    """A line at each power of ten, its number, and what the axis is."""
    for power in x.powers():
        at = x(10.0**power)
        yield f'<path class="mg-grid" d="M{at:.1f} {top}V{bottom}"/>'
        yield _words(at, bottom + 15, f"{10.0**power:,.6g}" if power < 0 else f"{10**power:,}", "mg-soft", "middle")
    yield _words((x.start + x.end) / 2, bottom + 33, axis, anchor="middle")


def _marker(x: float, y: float, look: int) -> str:
    return f'<path class="mg-name{look}" d="M{x:.1f} {y:.1f}{MARKERS[look]}"/>'


def _words(x: float, y: float, words: str, look: str = "", anchor: str = "start", style: str = "") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text class="{look}" {place} style="{style}">{escape(words)}</text>'


def _over_lines(x: float, y: float, words: str, look: str = "", anchor: str = "start", style: str = "") -> str:
    """Words on a background of their own, so that no line runs through them."""
    length = 12 * width(words) * (1.1 if style else 1) + 6  # bold letters are wider
    left = x - length + 3 if anchor == "end" else x - 3
    paper = f'<rect class="mg-paper" x="{left:.1f}" y="{y - 12:.1f}" width="{length:.1f}" height="16"/>'
    return paper + _words(x, y, words, look, anchor, style)


def _svg(height: float, parts: Sequence[str], title: str) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="mg-chart" viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" '
        f'height="{height:g}" role="img"><title>{escape(title)}</title>'
    )
    return standalone("\n".join([head, *filter(None, parts), "</svg>\n"]))
