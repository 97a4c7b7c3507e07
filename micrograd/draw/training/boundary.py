"""The plane of a model's two inputs: the region around the examples, and the model's output there."""

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from micrograd.draw.text import real
from micrograd.draw.training.charts import widened
from micrograd.engine import Value
from micrograd.errors import shown
from micrograd.scalar import DomainError
from micrograd.trees import as_lists
from micrograd.validation import examples, plain

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
            raise ValueError(
                f"xs[{i}] is {shown(xs[i])} and ys[{i}] is {shown(ys[i])}: a decision boundary needs examples with two "
                "finite inputs and a number as their target"
            )
    across, up, targets = zip(*rows, strict=True)
    (left, right), (bottom, top) = (widened(min(axis), max(axis), MARGIN, least=1.0) for axis in (across, up))
    return Plane(left, right, bottom, top, list(zip(across, up, strict=True)), list(targets))


def evaluator(function: Callable[[Any], Any], parameters: Sequence[Value] = ()) -> Evaluator:
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


def _numbers(output: Any) -> list[float]:
    """The numbers in an output. Raises TypeError if there is anything else in it."""
    parts = output if isinstance(output, (list, tuple)) else [output]
    for part in parts:
        if not isinstance(part, Value) and not isinstance(plain(part), (int, float)):
            raise TypeError(f"the model's output is {shown(output)}: expected a Value or a number, or a list of them")
    return [real(part) for part in parts]
