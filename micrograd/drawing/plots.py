"""Plots of training by matplotlib, for those who have it: `plot_history` and `plot_boundary`."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from micrograd.drawing.look import CLASSES, LOOK
from micrograd.drawing.plane import by_class, evaluator, margins, plane, spaced, threshold

if TYPE_CHECKING:
    from micrograd.training import History

FINE = 160  # points along each side of a boundary's grid
MARKERS = "o^sDvP"  # a class is never told by its colour alone


def plot_history(history: "History", ax: Any = None) -> Any:
    """The losses of a training by epoch, on a logarithmic axis where all of them are above 0.

    Parameters
    ----------
    history
        What `fit` has returned.
    ax
        The `matplotlib.axes.Axes` to draw in; those of a new figure by default.

    Returns
    -------
    ax
        The axes, to be changed further.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    TypeError
        If `history` is not a History.
    """
    from micrograd.training import History

    if not isinstance(history, History):
        raise TypeError(f"plot_history plots what fit has returned, a History, not a {type(history).__name__}")
    ax = _axes(ax)
    losses, validation = history.losses, history.validation_losses
    blue, orange = LOOK["plus"][0], LOOK["minus"][0]
    ax.plot(range(1, len(losses) + 1), losses, color=blue, label="loss")
    if validation:
        ax.plot(range(1, len(validation) + 1), validation, color=orange, linestyle="--", label="validation loss")
        best = min(range(len(validation)), key=validation.__getitem__)
        ax.plot(
            best + 1, validation[best], "v", color=orange, label=f"lowest: {validation[best]:.4g} in epoch {best + 1}"
        )
    if losses and min(losses + validation) > 0:
        ax.set_yscale("log")
    ax.set_xlabel("epoch")
    ax.set_ylabel("loss")
    if validation:
        ax.legend(frameon=False)
    return ax


def plot_boundary(
    model: Callable[[Any], Any],
    xs: Sequence[Any],
    ys: Sequence[Any],
    ax: Any = None,
    *,
    at: float | None = None,
) -> Any:
    """What a model of two inputs says around the examples: a shade for each class, and a line where one ends.

    Of several outputs, the largest is the model's class.

    Parameters
    ----------
    model
        A function of two inputs with one output, or with one for each class.
    xs, ys
        The examples to draw, and their classes: any two numbers for a model with one output, else 0, 1, ...
    ax
        The `matplotlib.axes.Axes` to draw in; those of a new figure by default.
    at
        Where one output goes over from a class to the other; by default 0.5 if all are from 0 to 1, as probabilities
        are, else 0, as of logits.

    Returns
    -------
    ax
        The axes, to be changed further.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    ValueError
        If the examples do not have two finite inputs and a number as target each.
    """
    area = plane(xs, ys)
    ax = _axes(ax)
    across, up = spaced(area.left, area.right, FINE), spaced(area.bottom, area.top, FINE)
    outputs = evaluator(model)([(x, y) for y in up for x in across])
    at = threshold(outputs) if at is None else at
    for k, lead in enumerate(margins(outputs, at)):
        rows = [lead[start : start + FINE] for start in range(0, len(lead), FINE)]
        low, high = (bound((m for m in lead if math.isfinite(m)), default=0.0) for bound in (min, max))
        if high > 0:
            ax.contourf(across, up, rows, levels=[0.0, high], colors=[CLASSES[k % len(CLASSES)][2]])
        if low < 0 < high:
            ax.contour(across, up, rows, levels=[0.0], colors="#333333", linewidths=1.2)
    for kind, (name, points) in sorted(by_class(area, len(outputs[0]), at).items()):
        ax.scatter(
            *zip(*points, strict=True),
            color=CLASSES[kind % len(CLASSES)][0], marker=MARKERS[kind % len(MARKERS)],
            edgecolors="white", linewidths=0.8, s=40, label=name, zorder=3,
        )  # fmt: skip
    ax.set(xlim=(area.left, area.right), ylim=(area.bottom, area.top), xlabel="x0", ylabel="x1")
    ax.legend(title="target")
    return ax


def _axes(ax: Any) -> Any:
    """The axes, or those of a new figure. Raises ImportError if there is no matplotlib."""
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError('plots are made by matplotlib: pip install "micrograd[plots]"') from None
    return pyplot.subplots()[1]
