"""The plane of a model's two inputs: the part of it where the examples lie, and what the model says there."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from micrograd.checks import examples, plain
from micrograd.engine import Value

MARGIN = 0.15  # of the examples' extent, on each side


Points = Sequence[tuple[float, float]]
Evaluator = Callable[[Points], list[list[float]]]


class Plane(NamedTuple):
    """A rectangle around examples of two inputs, and these with their targets, as floats."""

    left: float
    right: float
    bottom: float
    top: float
    points: list[tuple[float, float]]
    targets: list[float]


def plane(xs: Sequence[Any], ys: Sequence[Any]) -> Plane:
    """The plane of these examples. Raises ValueError unless each is two finite inputs with one number as target."""
    xs, ys = examples(xs, ys)
    if len(xs) == 0:
        raise ValueError("xs is empty: a decision boundary is drawn around examples")
    points, targets = [], []
    for i in range(len(xs)):
        numbers = [real(x) for x in xs[i]] if hasattr(xs[i], "__len__") else [math.nan]
        if len(numbers) != 2 or not all(map(math.isfinite, [*numbers, real(ys[i])])):
            raise ValueError(
                f"xs[{i}] is {xs[i]!r:.80} and ys[{i}] is {ys[i]!r:.80}: a decision boundary is drawn for examples of "
                "two finite inputs, whose target is a number"
            )
        points.append((numbers[0], numbers[1]))
        targets.append(real(ys[i]))
    (left, right), (bottom, top) = (_range([point[axis] for point in points]) for axis in (0, 1))
    return Plane(left, right, bottom, top, points, targets)


def evaluator(function: Callable[[Any], Any], parameters: Sequence[Value] | None = None) -> Evaluator:
    """What gives the outputs of a function of two inputs at some points, by its parameters' numbers at that time.

    It is compiled where that can be done, else it is run point by point.
    """
    from micrograd.compiler import compile  # here, since it takes longer to load than all else

    if parameters is None:
        parameters = function.parameters() if hasattr(function, "parameters") else []
    try:
        fast = compile(function, ([0.0, 0.0],), parameters=parameters, backend="python")
    except (ArithmeticError, TypeError, ValueError):
        fast = None

    def outputs(points: Points) -> list[list[float]]:
        try:
            found = [_outputs(function, point) for point in points] if fast is None else fast.map(points)
        except (ArithmeticError, ValueError):  # at one point or another
            found = [_outputs(function, point) for point in points]
        return [output if isinstance(output, list) else [output] for output in found]

    return outputs


def threshold(outputs: Sequence[Sequence[float]]) -> float:
    """What parts the classes of a model with one output: 0.5 for probabilities, 0 for all else."""
    return 0.5 if all(0 <= number <= 1 for output in outputs for number in output) else 0.0


def margins(outputs: Sequence[Sequence[float]], at: float) -> list[list[float]]:
    """By how much each class is ahead of the others at each point."""
    if len(outputs[0]) == 1:
        return [[at - output[0] for output in outputs], [output[0] - at for output in outputs]]
    classes = range(len(outputs[0]))
    return [[output[k] - max(output[i] for i in classes if i != k) for output in outputs] for k in classes]


def by_class(area: Plane, outputs: int, at: float) -> dict[int, tuple[str, list[tuple[float, float]]]]:
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


def spaced(low: float, high: float, n: int) -> list[float]:
    """So many numbers from low to high, evenly spaced."""
    return [low + (high - low) * i / (n - 1) for i in range(n)]


def real(number: Any) -> float:
    """A number, or that of a Value, as a float; NaN for what is none."""
    while isinstance(number, Value):
        number = number.data
    number = plain(number)
    return float(number) if isinstance(number, (int, float)) else math.nan


def _outputs(model: Callable[[Any], Any], point: tuple[float, float]) -> Any:
    """What a model that is not compiled says; NaN where it can say nothing, as outside of a logarithm's domain."""
    try:
        output = model([Value(x) for x in point])
    except (ArithmeticError, ValueError):
        return math.nan
    return [real(part) for part in output] if isinstance(output, (list, tuple)) else real(output)


def _range(numbers: Sequence[float]) -> tuple[float, float]:
    low, high = min(numbers), max(numbers)
    margin = MARGIN * (high - low) or 1.0
    return low - margin, high + margin
