"""The plane of a model's two inputs: the part of it where the examples lie, and what the model says there."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from micrograd.checks import examples, plain
from micrograd.engine import Value

MARGIN = 0.15  # of the examples' extent, on each side


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


def predictions(model: Callable[[Any], Any], points: Sequence[tuple[float, float]]) -> list[list[float]]:
    """The outputs of the model at each point: compiled where that can be done, else point by point."""
    from micrograd.compiler import compile  # here, since it takes longer to load than all else

    try:
        parameters = model.parameters() if hasattr(model, "parameters") else []
        outputs = compile(model, ([0.0, 0.0],), parameters=parameters, backend="python").map(points)
    except (ArithmeticError, TypeError, ValueError):
        outputs = [_outputs(model, point) for point in points]
    return [output if isinstance(output, list) else [output] for output in outputs]


def threshold(outputs: Sequence[Sequence[float]]) -> float:
    """What parts the classes of a model with one output: 0.5 for probabilities, 0 for all else."""
    return 0.5 if all(0 <= number <= 1 for output in outputs for number in output) else 0.0


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
