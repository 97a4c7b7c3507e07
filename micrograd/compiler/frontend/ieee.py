"""Operations as IEEE 754 and NumPy have them: an infinity or NaN where Python's raise an error."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from micrograd import scalar

POLES: dict[Any, float] = {
    **{(name, 0.0): -math.inf for name in ("log", "log2", "log10")},
    ("log1p", -1.0): -math.inf,
    ("atanh", -1.0): -math.inf,
    ("atanh", 1.0): math.inf,
    "lgamma": math.inf,
}
"""The results that are infinite where math has a ValueError: at an operand, or wherever it has one."""


def quiet(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """An operation on floats that raises no errors."""

    def in_ieee(*operands: Any) -> Any:
        try:
            return function(*operands)
        except OverflowError:
            return math.copysign(math.inf, operands[0]) if name == "sinh" else math.inf
        except (ArithmeticError, ValueError):
            return POLES.get((name, operands[0]), POLES.get(name, math.nan))

    return OWN.get(name, in_ieee)


def _power(x: float, y: float) -> float:
    try:
        return math.pow(x, y)
    except (ValueError, OverflowError):
        if x < 0 and y % 1 and math.isfinite(x):
            return math.nan
        return math.copysign(math.inf, x) if abs(y) % 2 == 1 else math.inf


def take(values: Sequence[float], index: float) -> float:
    """The value at an index, or NaN if there is none."""
    try:
        return float(scalar.take(values, index))
    except ValueError:
        return math.nan


OWN: dict[str, Callable[..., Any]] = {
    "/": lambda x, y: x / y if y else x * math.copysign(math.inf, y),
    "**": _power,
    "take": lambda index, *values: take(values, index),
}
