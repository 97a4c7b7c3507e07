"""Drawings of a training run: loss curves as text for a terminal and as SVG, and plots by matplotlib."""

import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from html import escape
from itertools import accumulate, product
from typing import Any

from micrograd.draw.shell import CLASSES, COLOURS
from micrograd.draw.text import finite_rows, number, real, signed
from micrograd.engine import promote
from micrograd.nn import Module
from micrograd.support.trees import flat
from micrograd.support.validation import examples
from micrograd.training.history import History

BLOCKS, ASCII = "▁▂▃▄▅▆▇█", "_.:-=+*#"
MAX_STRETCHES = 300  # of a curve, each drawn by its lowest and its highest point
WIDTH, HEIGHT = 640, 240  # of a chart
LEFT, RIGHT, TOP, BOTTOM = 63, 496, 36, 204  # the sides of its frame, around which there are numbers and names
LINE = 15  # from one line of text to the next
MARGIN = 0.15  # around the examples in the plot of a boundary, as a part of their extent
FINE = 160  # points along each side of its grid
MARKERS = "os^DvP"  # colour alone never tells a class


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
    encoding = encoding or "ascii"
    steps = BLOCKS if BLOCKS.encode(encoding, "replace").decode(encoding) == BLOCKS else ASCII
    spread, top = high - low or 1.0, len(steps) - 1
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
    low, high = _widened(*[scaled(bound(finite, default=1.0)) for bound in (min, max)], margin=0.05, least=0.5)
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
    ax, theme = _axes(ax)
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


def plot_boundary(
    model: Callable[[Any], Any], xs: Sequence[Any], ys: Sequence[Any], ax: Any = None, *, at: float | None = None
) -> Any:
    """Plot the output of a model of two inputs with matplotlib: a shade for each class, and lines between them.

    `model` is a function of two inputs with one output, or one for each class: then the largest gives the class. `xs`
    and `ys` are the examples to draw and their classes: any two numbers for a model with one output, else 0, 1, ...
    The plot goes into `ax`, returned as by `plot_history`. `at` is where a single output changes its class; by default
    0.5 if all outputs are from 0 to 1, as probabilities are, else 0, as for logits.

    Raises ValueError if an example is not two finite inputs with a number as target. Errors of the model at a point of
    the plot are passed on.
    """
    expected = "a decision boundary needs examples with two finite inputs and a number as their target"
    rows = finite_rows(list(zip(*examples(xs, ys), strict=True)), expected, size=3)
    points, targets = [row[:2] for row in rows], [target for *_, target in rows]
    ax, theme = _axes(ax)
    (left, right), (bottom, top) = (_widened(min(a), max(a), margin=MARGIN, least=1) for a in zip(*points, strict=True))
    shares = [i / (FINE - 1) for i in range(FINE)]
    across = [left * (1 - share) + right * share for share in shares]
    up = [bottom * (1 - share) + top * share for share in shares]
    outputs = _outputs(model, [(x, y) for y, x in product(up, across)])
    if at is None:
        at = 0.5 if all(0 <= number <= 1 for output in outputs for number in output) else 0.0
    for k, lead in enumerate(_leads(outputs, at)):
        rows = [lead[start : start + FINE] for start in range(0, len(lead), FINE)]
        low, high = (bound((x for x in lead if math.isfinite(x)), default=0.0) for bound in (min, max))
        if high > 0:
            ax.contourf(across, up, rows, levels=[0.0, high], colors=[CLASSES[k % len(CLASSES)][2 + theme]])
        if low < 0 < high:
            ax.contour(across, up, rows, levels=[0.0], colors=COLOURS["ink"][theme], linewidths=1.2)
    for i, target in enumerate(sorted(set(targets))):
        kind = int(target) if len(outputs[0]) > 1 else i
        ax.scatter(
            *zip(*(point for point, its in zip(points, targets, strict=True) if its == target), strict=True),
            color=CLASSES[kind % len(CLASSES)][theme], marker=MARKERS[kind % len(MARKERS)],
            edgecolors=COLOURS["paper"][theme], linewidths=0.8, s=40, label=number(target), zorder=3,
        )  # fmt: skip
    ax.set(xlim=(left, right), ylim=(bottom, top), xlabel="x0", ylabel="x1")
    ax.legend(title="target")
    return ax


def _axes(ax: Any) -> tuple[Any, bool]:
    """These axes, or a new figure's, and whether they are dark."""
    if ax is None:
        from matplotlib import pyplot

        _, ax = pyplot.subplots(layout="constrained")  # which leaves room for every label
    red, green, blue, alpha = ax.get_facecolor()
    return ax, alpha * (1 - 0.299 * red - 0.587 * green - 0.114 * blue) > 0.5  # as it looks on white paper


def _outputs(model: Callable[[Any], Any], points: Sequence[Sequence[float]]) -> list[list[float]]:
    """The model's outputs at each point, by compiled code if it can be compiled."""
    from micrograd.compiler.compiled import compile  # not at the top: it takes long to load

    try:
        twin = deepcopy(model) if isinstance(model, Module) else model  # a Module may keep traced numbers
        outputs = compile(twin, ([0.0, 0.0],), backend="python").map(points)
    except (ArithmeticError, TypeError, ValueError):  # it cannot be compiled
        outputs = [model(list(promote(*point))) for point in points]
    return [list(map(real, flat(output))) for output in outputs]


def _leads(outputs: Sequence[Sequence[float]], at: float) -> list[list[float]]:
    """How far each class leads all others at each point; a single output leads by how far it is above or below `at`."""
    scores = [[at, *output] if len(output) == 1 else output for output in outputs]
    classes = range(len(scores[0]))
    return [[score[k] - max(score[i] for i in classes if i != k) for score in scores] for k in classes]


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


def _widened(low: float, high: float, *, margin: float, least: float) -> tuple[float, float]:
    """The ends of an axis with a margin on each side: a part of the extent, or at least `least` if that is 0."""
    by = margin * (high - low) or max(least, 1e-4 * abs(low))  # enough for different texts along the axis
    return low - by, high + by
