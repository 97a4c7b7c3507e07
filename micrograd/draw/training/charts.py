"""Loss curves of a training run: as text for a terminal, as SVG and as matplotlib plots."""

import math
from collections.abc import Sequence
from html import escape
from itertools import accumulate
from typing import Any

from micrograd.draw.shell import COLOURS
from micrograd.draw.text import number, signed
from micrograd.training.history import History

BLOCKS, ASCII = "▁▂▃▄▅▆▇█", "_.:-=+*#"
MAX_STRETCHES = 300  # of a curve, each drawn by its lowest and its highest point
WIDTH, HEIGHT = 640, 240  # of a chart
LEFT, RIGHT, TOP, BOTTOM = 63, 496, 36, 204  # the sides of its frame, around which there are numbers and names
LINE = 15  # from one line of text to the next


def sparkline(numbers: Sequence[float], width: int = 60, encoding: str | None = "utf-8") -> str:
    """A curve as one line of text: on a logarithmic scale if all numbers are above 0.

    A number that is infinite or NaN is an `x`. If there are more numbers than `width`, each character stands for the
    mean of a few. If the encoding has no block characters, the line is ASCII.
    """
    width = min(width, len(numbers))
    groups = [numbers[len(numbers) * i // width : len(numbers) * (i + 1) // width] for i in range(width)]
    # Rounding must not take a mean beyond its numbers, or equal numbers would make a curve.
    means = [min(max(sum(x / len(group) for x in group), min(group)), max(group)) for group in groups]
    finite = [mean for mean in means if math.isfinite(mean)]
    scaled = math.log if all(mean > 0 for mean in finite) else float
    low, high = (scaled(bound(finite, default=1.0)) for bound in (min, max))
    steps, top = BLOCKS, len(BLOCKS) - 1
    try:
        BLOCKS.encode(encoding or "ascii")
    except UnicodeEncodeError:
        steps = ASCII
    spread = high - low or 1.0
    return "".join(steps[round(top * (scaled(m) - low) / spread)] if math.isfinite(m) else "x" for m in means)


def text(x: float, y: float, words: str, look: str = "", anchor: str = "") -> str:
    """A line of text as an SVG element."""
    kind = f'class="{look}" ' if look else ""
    end = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text {kind}x="{round(x, 1):g}" y="{round(y, 1):g}"{end}>{escape(words)}</text>'


def curves(history: History, caption: str, epochs: float) -> str:
    """The losses of a training run by epoch as an SVG element, to be shown with `shell.CHART_STYLE`.

    The axis of the losses is logarithmic if all are above 0; that of the epochs ends at `epochs`. A line marks where
    the training failed. Screen readers read the caption out.
    """
    lines = {"loss": history.losses} | ({"validation": history.validation_losses} if history.validation_losses else {})
    drawn = {name: _strokes(numbers) for name, numbers in lines.items()}
    finite = [loss for strokes in drawn.values() for stroke in strokes for _, loss in stroke]
    logarithmic = min(finite, default=0.0) > 0
    scaled = math.log10 if logarithmic else float
    low, high = (scaled(bound(finite, default=1.0)) for bound in (min, max))
    low, high = widened(low, high, margin=0.05, least=0.5)
    epochs = max(epochs, history.failure.epoch if history.failure else 0, 1)

    def x(epoch: float) -> float:
        return LEFT + (RIGHT - LEFT) * epoch / epochs

    def y(loss: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * (scaled(loss) - low) / (high - low)

    parts = [text(LEFT, 18, signed(caption))]
    for row in _powers(low, high) if logarithmic else _ticks(low, high, 5):
        parts.append(f'<path class="mg-grid" d="M{LEFT} {y(row):.1f}H{RIGHT}"/>')
        parts.append(text(LEFT - 7, y(row) + 4, signed(f"{row:.8g}"), "mg-soft", "end"))
    for tick in filter(float.is_integer, _ticks(0, epochs, 6)):
        parts.append(text(x(tick), BOTTOM + 16, f"{tick:g}", "mg-soft", "middle"))
    words = "epoch" + "; losses on a logarithmic scale" * logarithmic
    parts.append(text((LEFT + RIGHT) / 2, HEIGHT - 5, words, "mg-soft", "middle"))
    ends = []
    for i, (name, strokes) in enumerate(drawn.items()):
        paths = ["L".join(f"{x(epoch):.1f} {y(loss):.1f}" for epoch, loss in stroke) for stroke in strokes]
        parts.append(f'<path class="mg-line mg-line{i}" d="{"".join(f"M{path}" for path in paths)}"/>')
        if strokes:
            last = next(filter(math.isfinite, reversed(lines[name])))
            ends.append((y(last), f"mg-name{i}", f"{name} {number(last)}"))
    ends.sort()
    heights = accumulate((end[0] for end in ends), lambda above, height: max(height, above + LINE))
    parts += [text(RIGHT + 6, at + 4, words, look) for at, (_, look, words) in zip(heights, ends, strict=True)]
    if history.failure:
        at = x(history.failure.epoch)
        parts.append(f'<path class="mg-mark" d="M{at:.1f} {TOP}V{BOTTOM}"/>')
        anchor, shift = ("end", 4) if at > WIDTH / 2 else ("start", -4)
        parts.append(text(at + shift, TOP - 4, history.failure.what, "mg-alarm", anchor))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="mg-chart" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'height="{HEIGHT}" role="img" aria-label="{escape(caption)}">{"".join(parts)}</svg>'
    )


def plot_history(history: History, ax: Any = None) -> Any:
    """Plot the losses of a training run by epoch with matplotlib, on a logarithmic axis if all of them are above 0.

    The line has a gap where a loss is infinite or NaN. `ax` are the `matplotlib.axes.Axes` to draw in and return, by
    default a new figure's. The colours are for a light or a dark background, as theirs is.
    """
    ax, theme = axes(ax)
    losses, validation = history.losses, history.validation_losses
    ax.plot(range(1, len(losses) + 1), losses, color=COLOURS["plus"][theme], label="loss")
    if validation:
        style = {"color": COLOURS["minus"][theme], "linestyle": "--", "label": "validation loss"}
        ax.plot(range(1, len(validation) + 1), validation, **style)
        ax.legend(frameon=False)
    if losses and all(loss > 0 for loss in losses + validation if math.isfinite(loss)):
        ax.set_yscale("log")
    ax.set(xlabel="epoch", ylabel="loss")
    ax.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    return ax


def axes(ax: Any) -> tuple[Any, bool]:
    """These axes, or a new figure's, and whether they are dark."""
    if ax is None:
        from matplotlib import pyplot

        _, ax = pyplot.subplots(layout="constrained")  # which leaves room for every label
    red, green, blue, alpha = ax.get_facecolor()
    return ax, alpha * (1 - 0.299 * red - 0.587 * green - 0.114 * blue) > 0.5  # as it looks on white paper


def _strokes(numbers: Sequence[float]) -> list[list[tuple[int, float]]]:
    """The epochs and numbers of a curve to draw, in one stroke up to where none is finite, and so on."""
    stretch = max(1, -(-len(numbers) // MAX_STRETCHES))
    strokes = [list[tuple[int, float]]()]
    for start in range(0, len(numbers), stretch):
        piece = numbers[start : start + stretch]
        finite = [loss for loss in piece if math.isfinite(loss)]
        ends = {piece.index(bound(finite)) for bound in (min, max)} if finite else ()
        strokes[-1] += [(start + i + 1, piece[i]) for i in sorted(ends)]
        strokes += [[]] * (not finite)
    return list(filter(None, strokes))


def _powers(low: float, high: float) -> list[float]:
    """Round numbers whose decimal logarithms lie between low and high."""
    for factors in ((1,), (1, 3), (1, 2, 5)):
        decades = range(math.floor(low), math.ceil(high) + 1)
        numbers = [float(f"{factor}e{n}") for n in decades for factor in factors]
        found = [x for x in numbers if 0 < x < math.inf and low <= math.log10(x) <= high]
        if len(found) > 2:
            return found[:: -(-len(found) // 6)]
    return found if len(found) > 1 else _ticks(10**low, 10**high, 4)


def _ticks(low: float, high: float, most: int) -> list[float]:
    """Round numbers from low to high: multiples of 1, 2 or 5 times a power of ten."""
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * (1 - 1e-9))
    return [i * step for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


def widened(low: float, high: float, margin: float, least: float) -> tuple[float, float]:
    """The ends of an axis with a margin on each side: a part of the extent, or at least `least` if that is 0."""
    by = margin * (high - low) or max(least, 1e-4 * abs(low))  # enough for different texts along the axis
    return low - by, high + by
