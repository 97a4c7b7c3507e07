"""Plots of training by matplotlib, for those who have it: `plot_history` and `plot_boundary`."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from micrograd.drawing.plane import Plane, plane, predictions, threshold

if TYPE_CHECKING:
    from micrograd.training import History

FINE = 160  # points along each side of a boundary's grid
LOW, HIGH = "#b35900", "#0b5cad"  # orange and blue: told apart by readers who see no red, no green or no blue
SHADES = ("#f5c9a0", "#a9cdf2", "#c9c9c9", "#f0e29a", "#b8e0d2", "#d9c2e9")  # of one class after the other
INKS = ("#b35900", "#0b5cad", "#3d3d3d", "#7a6a00", "#00705a", "#7a3e9d")
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
    ax.plot(range(1, len(losses) + 1), losses, color=HIGH, label="loss")
    if validation:
        ax.plot(range(1, len(validation) + 1), validation, color=LOW, linestyle="--", label="validation loss")
        best = min(range(len(validation)), key=validation.__getitem__)
        ax.plot(best + 1, validation[best], "v", color=LOW, label=f"lowest: {validation[best]:.4g} in epoch {best + 1}")
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
    across, up = _spaced(area.left, area.right), _spaced(area.bottom, area.top)
    outputs = predictions(model, [(x, y) for y in up for x in across])
    at = threshold(outputs) if at is None else at
    for k, margins in enumerate(_margins(outputs, at)):
        rows = [margins[start : start + FINE] for start in range(0, len(margins), FINE)]
        low, high = (bound((m for m in margins if math.isfinite(m)), default=0.0) for bound in (min, max))
        if high > 0:
            ax.contourf(across, up, rows, levels=[0.0, high], colors=[SHADES[k % len(SHADES)]])
        if low < 0 < high:
            ax.contour(across, up, rows, levels=[0.0], colors="#333333", linewidths=1.2)
    for kind, (name, points) in sorted(_by_class(area, len(outputs[0]), at).items()):
        ax.scatter(
            *zip(*points, strict=True),
            color=INKS[kind % len(INKS)], marker=MARKERS[kind % len(MARKERS)],
            edgecolors="white", linewidths=0.8, s=40, label=name, zorder=3,
        )  # fmt: skip
    ax.set(xlim=(area.left, area.right), ylim=(area.bottom, area.top), xlabel="x0", ylabel="x1")
    ax.legend(title="target")
    return ax


def _margins(outputs: Sequence[Sequence[float]], at: float) -> list[list[float]]:
    """By how much each class is ahead of the others at each point."""
    if len(outputs[0]) == 1:
        return [[at - output[0] for output in outputs], [output[0] - at for output in outputs]]
    classes = range(len(outputs[0]))
    return [[output[k] - max(output[i] for i in classes if i != k) for output in outputs] for k in classes]


def _by_class(area: Plane, outputs: int, at: float) -> dict[int, tuple[str, list[tuple[float, float]]]]:
    """The name and the points of each class among the examples."""
    values = sorted(set(area.targets))
    found: dict[int, tuple[str, list[tuple[float, float]]]] = {}
    for point, target in zip(area.points, area.targets, strict=True):
        if outputs > 1 or len(values) == 2:
            kind, name = int(target) if outputs > 1 else values.index(target), f"{target:g}"
        else:
            kind, name = int(target > at), f"above {at:g}" if target > at else f"{at:g} or below"
        found.setdefault(kind, (name, []))[1].append(point)
    return found


def _spaced(low: float, high: float) -> list[float]:
    return [low + (high - low) * i / (FINE - 1) for i in range(FINE)]


def _axes(ax: Any) -> Any:
    """The axes, or those of a new figure. Raises ImportError if there is no matplotlib."""
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError('plots are made by matplotlib: pip install "micrograd[plots]"') from None
    return pyplot.subplots()[1]
