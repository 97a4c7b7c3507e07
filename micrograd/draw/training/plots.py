"""Plots of a training, drawn by matplotlib: `plot_history` and `plot_boundary`."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from micrograd.draw.shell import CLASSES, COLOURS
from micrograd.draw.training.boundary import by_class, evaluator, margins, plane, threshold
from micrograd.draw.training.charts import lowest

if TYPE_CHECKING:
    from micrograd.training.history import History

FINE = 160  # points along each side of a boundary's grid
LARGEST = 1e307  # the largest number for which matplotlib can draw an axis
MARKERS = "os^DvP"  # colour alone never tells a class


def plot_history(history: "History", ax: Any = None) -> Any:
    """Plot the losses of a training by epoch, on a logarithmic axis if all of them are above 0.

    The line has a gap where a loss is infinite, NaN or beyond 1e307. `ax` are the `matplotlib.axes.Axes` to draw in, in
    colours for light or dark as they are; by default, those of a new figure. They are returned.

    Raises ImportError if matplotlib is not installed, and TypeError if `history` is not a History.
    """
    from micrograd.training.history import History

    if not isinstance(history, History):
        raise TypeError(f"history is of type {type(history).__name__}: expected the History that fit returned")
    ax, theme = _axes(ax)
    losses, validation = _drawable(history.losses), _drawable(history.validation_losses)
    blue, orange = COLOURS["plus"][theme], COLOURS["minus"][theme]
    ax.plot(range(1, len(losses) + 1), losses, color=blue, label="loss")
    if validation:
        ax.plot(range(1, len(validation) + 1), validation, color=orange, linestyle="--", label="validation loss")
        best = lowest(validation)
        words = f"lowest: {validation[best]:.4g} in epoch {best + 1}"
        ax.plot(best + 1, validation[best], "v", color=orange, label=words)
        ax.legend(frameon=False)
    if losses and all(loss > 0 for loss in losses + validation if math.isfinite(loss)):
        ax.set_yscale("log")
    ax.set(xlabel="epoch", ylabel="loss")
    return ax


def plot_boundary(
    model: Callable[[Any], Any], xs: Sequence[Any], ys: Sequence[Any], ax: Any = None, *, at: float | None = None
) -> Any:
    """Plot the output of a model of two inputs around the examples: a shade for each class, and lines between them.

    `model` is a function of two inputs with one output, or with one for each class: then the largest is the model's
    class. `xs` and `ys` are the examples to draw, and their classes: any two numbers for a model with one output, else
    0, 1, ... `ax` is drawn in and returned, as by `plot_history`. `at` is the value of one output at which the class
    changes; by default 0.5 if all outputs are from 0 to 1, as probabilities are, else 0, as for logits.

    Raises ImportError if matplotlib is not installed, and ValueError if an example is not two finite inputs with a
    number as target, or an input is beyond 1e307.
    """
    area = plane(xs, ys)
    for i, point in enumerate(area.points):
        if max(map(abs, point)) > LARGEST:
            raise ValueError(f"xs[{i}] is {xs[i]!r:.80}: matplotlib draws inputs up to {LARGEST:g}, so scale them down")
    ax, theme = _axes(ax)
    grid = area.grid(FINE)
    across, up = [x for x, _ in grid[:FINE]], [y for _, y in grid[::FINE]]
    outputs = evaluator(model, model.parameters() if hasattr(model, "parameters") else ())(grid)
    at = threshold(outputs) if at is None else at
    for k, lead in enumerate(margins(outputs, at)):
        rows = [lead[start : start + FINE] for start in range(0, len(lead), FINE)]
        low, high = (bound((m for m in lead if math.isfinite(m)), default=0.0) for bound in (min, max))
        if high > 0:
            ax.contourf(across, up, rows, levels=[0.0, high], colors=[CLASSES[k % len(CLASSES)][2 + theme]])
        if low < 0 < high:
            ax.contour(across, up, rows, levels=[0.0], colors=COLOURS["ink"][theme], linewidths=1.2)
    for kind, name, points in by_class(area, len(outputs[0]), at):
        ax.scatter(
            *zip(*points, strict=True),
            color=CLASSES[kind % len(CLASSES)][theme], marker=MARKERS[kind % len(MARKERS)],
            edgecolors=COLOURS["paper"][theme], linewidths=0.8, s=40, label=name, zorder=3,
        )  # fmt: skip
    ax.set(xlim=(area.left, area.right), ylim=(area.bottom, area.top), xlabel="x0", ylabel="x1")
    ax.legend(title="target")
    return ax


def _drawable(losses: Sequence[float]) -> list[float]:
    """The losses, with NaN in place of those that matplotlib cannot draw."""
    return [loss if abs(loss) <= LARGEST else math.nan for loss in losses]


def _axes(ax: Any) -> tuple[Any, bool]:
    """These axes, or those of a new figure, and whether they are dark. Raises ImportError without matplotlib."""
    if ax is None:
        try:
            from matplotlib import pyplot
        except ImportError:
            raise ImportError("plots need matplotlib: pip install matplotlib") from None
        _, ax = pyplot.subplots(layout="constrained")  # which leaves room for every label
    red, green, blue, alpha = ax.get_facecolor()
    return ax, alpha * (1 - 0.299 * red - 0.587 * green - 0.114 * blue) > 0.5  # as it looks on white paper
