"""Charts of the measurements, as SVG for light and dark: each line has its name at its end, and a marker."""

import math
from collections.abc import Mapping, Sequence
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
    low, high = math.log10(min(numbers)), math.log10(max(numbers))
    bottom = TOP + sum(ROW * (len(lines) + 1.5) for lines in groups.values()) + ROW / 2
    height = bottom + BOTTOM

    def x(number: float) -> float:
        return left + (WIDTH - right - left) * (math.log10(number) - low) / (high - low)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="mg-chart" viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" '
        f'height="{height:g}" role="img"><title>{escape(axis)}</title>'
    ]
    for power in range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1):
        at, number = x(10.0**power), f"{10.0**power:,.6g}" if power < 0 else f"{10**power:,}"
        parts.append(f'<path class="mg-grid" d="M{at:.1f} {TOP}V{bottom}"/>')
        parts.append(_words(at, bottom + 15, number, "mg-soft", "middle"))
    parts.append(_words((left + WIDTH - right) / 2, bottom + 33, axis, anchor="middle"))
    parts.append(f'<path class="mg-grid" d="M{x(1):.1f} {TOP - 8}V{bottom}" style="stroke-width:2"/>')
    parts.append(_words(x(1), TOP - 14, one, anchor="middle"))
    y = float(TOP)
    for title, lines in groups.items():
        y += 1.5 * ROW
        parts.append(_over_lines(8, y - 4, title, style="font-weight:600"))
        for name, ratio, look in lines:
            y += ROW
            end, text = x(ratio), f"{name}: {times(ratio)}"
            parts.append(f'<path class="mg-line mg-line{look}" d="M{x(1):.1f} {y - 4}H{end:.1f}"/>')
            parts.append(f'<path class="mg-name{look}" d="M{end:.1f} {y - 4:.1f}{MARKERS[look]}"/>')
            at, anchor = (end - 12, "end") if ratio < 1 else (end + 12, "start")
            parts.append(_over_lines(at, y, text, f"mg-name{look}", anchor))
    return standalone("\n".join([*parts, "</svg>\n"]))


def times(ratio: float) -> str:
    """A ratio with three digits, such as 0.0123 or 12,300."""
    return f"{float(f'{ratio:.3g}'):,.0f}" if ratio >= 100 else f"{ratio:.3g}"


def _words(x: float, y: float, words: str, look: str = "", anchor: str = "start", style: str = "") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text class="{look}" {place} style="{style}">{escape(words)}</text>'


def _over_lines(x: float, y: float, words: str, look: str = "", anchor: str = "start", style: str = "") -> str:
    """Words on a background of their own, so that no line runs through them."""
    length = 12 * width(words) * (1.1 if style else 1) + 6  # bold letters are wider
    left = x - length + 3 if anchor == "end" else x - 3
    paper = f'<rect class="mg-paper" x="{left:.1f}" y="{y - 12:.1f}" width="{length:.1f}" height="16"/>'
    return paper + _words(x, y, words, look, anchor, style)
