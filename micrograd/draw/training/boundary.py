"""A plot of what a model of two inputs predicts around its examples."""

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

from micrograd.draw.shell import CLASSES, COLOURS
from micrograd.draw.text import finite_rows, number, real
from micrograd.draw.training.charts import axes, widened
from micrograd.engine import Value
from micrograd.support.trees import flat
from micrograd.support.validation import examples

MARGIN = 0.15  # of the examples' extent, on each side
FINE = 160  # points along each side of the grid
MARKERS = "os^DvP"  # colour alone never tells a class


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
    ax, theme = axes(ax)
    (left, right), (bottom, top) = (widened(min(a), max(a), MARGIN, least=1.0) for a in zip(*points, strict=True))
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


def _outputs(model: Callable[[Any], Any], points: Sequence[Sequence[float]]) -> list[list[float]]:
    """The model's outputs at each point, by compiled code if it can be compiled."""
    from micrograd.compiler.compiled import compile  # not at the top: it takes long to load

    try:
        outputs = compile(model, ([0.0, 0.0],), backend="python").map(points)
    except (ArithmeticError, TypeError, ValueError):  # it cannot be compiled
        outputs = [model([Value(x) for x in point]) for point in points]
    return [list(map(real, flat(output))) for output in outputs]


def _leads(outputs: Sequence[Sequence[float]], at: float) -> list[list[float]]:
    """How far each class leads all others at each point; a single output leads by how far it is above or below `at`."""
    scores = [[at, *output] if len(output) == 1 else output for output in outputs]
    classes = range(len(scores[0]))
    return [[score[k] - max(score[i] for i in classes if i != k) for score in scores] for k in classes]
