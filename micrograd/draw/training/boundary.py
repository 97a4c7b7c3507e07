"""The plane of a model's two inputs: the region around the examples, the model's output there, and a plot of both."""

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from micrograd.core.errors import shown
from micrograd.draw.shell import CLASSES, COLOURS
from micrograd.draw.text import real
from micrograd.draw.training.charts import PLOTTED, axes, widened
from micrograd.engine import Value
from micrograd.scalar import DomainError
from micrograd.support.trees import as_lists
from micrograd.support.validation import examples, plain

MARGIN = 0.15  # of the examples' extent, on each side
FINE = 160  # points along each side of the plot's grid
MARKERS = "os^DvP"  # colour alone never tells a class

Points = Sequence[tuple[float, float]]


class Plane(NamedTuple):
    """A rectangle around examples of two inputs, and these with their targets, as floats."""

    left: float
    right: float
    bottom: float
    top: float
    points: list[tuple[float, float]]
    targets: list[float]

    def grid(self, n: int) -> list[tuple[float, float]]:
        """`n` by `n` points of the plane, row by row from the bottom."""
        shares = [i / (n - 1) for i in range(n)]
        across, up = ([low * (1 - share) + high * share for share in shares] for low, high in (self[:2], self[2:4]))
        return [(x, y) for y in up for x in across]


def plane(xs: Sequence[Any], ys: Sequence[Any]) -> Plane:
    """The plane of these examples. Raises ValueError unless each is two finite inputs with one number as target."""
    xs, ys = examples(xs, ys)
    if len(xs) == 0:
        raise ValueError("xs is empty: a decision boundary needs examples to be drawn around")
    rows = [[*map(real, x if hasattr(x, "__len__") else ()), real(y)] for x, y in zip(xs, ys, strict=True)]
    for i, numbers in enumerate(rows):
        if len(numbers) != 3 or not all(map(math.isfinite, numbers)):
            expected = "a decision boundary needs examples with two finite inputs and a number as their target"
            raise ValueError(f"xs[{i}] is {shown(xs[i])} and ys[{i}] is {shown(ys[i])}: {expected}")
    across, up, targets = zip(*rows, strict=True)
    (left, right), (bottom, top) = (widened(min(axis), max(axis), MARGIN, least=1.0) for axis in (across, up))
    return Plane(left, right, bottom, top, list(zip(across, up, strict=True)), list(targets))


def evaluator(function: Callable[[Any], Any], parameters: Sequence[Value]) -> Callable[[Points], list[list[float]]]:
    """A function that evaluates `function` at some points, with the current numbers of its parameters.

    It runs compiled code if `function` can be compiled; if not, it calls it point by point. The output is NaN outside
    of the function's domain, such as that of a logarithm.
    """
    from micrograd.compiler.compiled import compile  # which takes long to load

    def called(point: tuple[float, float]) -> Any:
        try:
            return as_lists(function([Value(x) for x in point]))
        except (ArithmeticError, DomainError):
            return math.nan

    fast = None
    with suppress(ArithmeticError, TypeError, ValueError):
        fast = compile(function, ([0.0, 0.0],), parameters=parameters, backend="python")

    def outputs(points: Points) -> list[list[float]]:
        found = None
        with suppress(ArithmeticError, ValueError):  # at some point
            found = fast.map(points) if fast else None
        found = map(called, points) if found is None else found
        rows = [_numbers(output) for output in found]
        width = max(map(len, rows), default=1)
        return [numbers if len(numbers) == width else [math.nan] * width for numbers in rows]

    return outputs


def threshold(outputs: Sequence[Sequence[float]]) -> float:
    """The output at which the class of a model with one output changes: 0.5 for probabilities, else 0."""
    return 0.5 if all(0 <= number <= 1 for output in outputs for number in output) else 0.0


def margins(outputs: Sequence[Sequence[float]], at: float) -> list[list[float]]:
    """The margin of each class over the others at each point; of a single output, above `at` and below it."""
    scores = [[at, *output] if len(output) == 1 else output for output in outputs]
    classes = range(len(scores[0]))
    return [[score[k] - max(score[i] for i in classes if i != k) for score in scores] for k in classes]


def by_class(area: Plane, outputs: int, at: float) -> list[tuple[int, str, Points]]:
    """The number, the name and the points of each class among the examples."""
    values = sorted(set(area.targets))
    found: dict[int, tuple[str, list[tuple[float, float]]]] = {}
    for point, target in zip(area.points, area.targets, strict=True):
        if outputs > 1 or len(values) == 2:
            kind, name = int(target) if outputs > 1 else values.index(target), f"{target:g}"
        else:
            kind, name = int(target > at), f"above {at:g}" if target > at else f"{at:g} or below"
        found.setdefault(kind, (name, []))[1].append(point)
    return [(kind, *found[kind]) for kind in sorted(found)]


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
        if max(map(abs, point)) > PLOTTED:
            raise ValueError(f"xs[{i}] is {xs[i]!r:.80}: matplotlib draws inputs up to {PLOTTED:g}, so scale them down")
    ax, theme = axes(ax)
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


def _numbers(output: Any) -> list[float]:
    """The numbers in an output. Raises TypeError if there is anything else in it."""
    parts = output if isinstance(output, (list, tuple)) else [output]
    if not all(isinstance(part, Value) or isinstance(plain(part), (int, float)) for part in parts):
        raise TypeError(f"the model's output is {shown(output)}: expected a Value or a number, or a list of them")
    return [real(part) for part in parts]
