"""The operations of a trace: what each does to numbers, with Python's errors or as IEEE 754 has it."""

import math
import operator
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

from micrograd import scalar


def _combination(*terms: Any) -> list[Any]:
    products = [[number * x for x in row] for number, row in zip(terms[::2], terms[1::2], strict=True)]
    return [reduce(operator.add, column) for column in zip(*products, strict=True)]


ARITHMETIC = {"+": "add", "-": "sub", "*": "mul", "/": "truediv", "%": "mod", "**": "pow"}
LOGIC = {"and": "and", "or": "or"}
COMPARISONS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
CONDITIONS = frozenset(LOGIC | COMPARISONS)
OPERATORS = ARITHMETIC | COMPARISONS | LOGIC
"""The operators, by the names of their methods."""
COMMUTATIVE = frozenset("+*")
OPERATIONS: dict[str, Callable[..., Any]] = {
    **{op: getattr(operator, f"__{name}__") for op, name in OPERATORS.items()},
    "/": scalar.divide,
    "%": scalar.remainder,
    "**": scalar.power,
    "neg": operator.neg,
    "abs": abs,
    "where": scalar.where,
    "take": lambda index, *values: scalar.take(values, index),
    "max": scalar.largest,
    "sum": partial(reduce, operator.add),
    "dot": lambda start, ws, xs: reduce(operator.add, map(operator.mul, ws, xs), start),
    "combination": _combination,
    "scatter": lambda index, number, row: [number if i == index else 0.0 for i in range(len(row))],
    "take_at": lambda index, row: scalar.take(row, index),
    **scalar.FUNCTIONS,
}
"""What each operation of a trace does to numbers, and to rows, as lists."""
POLES: dict[Any, float] = {
    **dict.fromkeys([("log", 0.0), ("log2", 0.0), ("log10", 0.0), ("log1p", -1.0), ("atanh", -1.0)], -math.inf),
    ("atanh", 1.0): math.inf,
    "lgamma": math.inf,
}
"""Results that are infinite where math raises ValueError: for one operand, or for every one."""


def as_ieee(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """An operation on floats as IEEE 754 and NumPy have it: an infinity or NaN where Python's raises an error."""

    def without_errors(*operands: Any) -> Any:
        try:
            return function(*operands)
        except OverflowError:
            return math.copysign(math.inf, operands[0]) if name == "sinh" else math.inf
        except (ArithmeticError, ValueError):
            return POLES.get((name, operands[0]), POLES.get(name, math.nan))

    return without_errors


def _ieee_power(x: float, y: float) -> float:
    try:
        return math.pow(x, y)
    except (ValueError, OverflowError):
        if x < 0 and y % 1 and math.isfinite(x):
            return math.nan
        return math.copysign(math.inf, x) if abs(y) % 2 == 1 else math.inf


IEEE = {
    **{op: as_ieee(op, function) for op, function in OPERATIONS.items()},
    "/": lambda x, y: x / y if y else x * math.copysign(math.inf, y),
    "**": _ieee_power,
}
"""What each operation does where `errors` is "ieee"."""
