"""Values within 2 units in the last place (ULP), derivatives within 8, over the whole domain of every operation.

Operands have all magnitudes from subnormal numbers to overflow, and lie more densely at the difficult ones: near 0, 1,
poles, kinks, and the ends of the domain and of the range of results. The error is the difference between our number and
the exact one, by mpmath, in units in the last place of a double of that size. Numbers that a double cannot represent
must come out as what they round to.
"""

import math
import random
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
from mpmath import mp

from micrograd import Value
from tests.operations import FUNCTIONS, OPERATORS, Operation, Point, row

OPERATIONS = {row.name: row for row in FUNCTIONS + OPERATORS}
VALUE, DERIVATIVE = 2.0, 8.0
"""How many ULP of error are allowed in values and in derivatives, except in `ROUGH` and `EXCEPTIONS`."""


def _where_it_is_0(name: str, scale: float, least: float) -> Callable[..., float]:
    """What is allowed of a function of which parts of this size cancel where it is 0."""
    return lambda x: (
        least + scale * (1 + abs(math.log(abs(x)))) / abs(float(OPERATIONS[name].value(mp.mpf(x))) or 1e-300)
    )


ROUGH: dict[str, Callable[..., float]] = {
    "gelu": lambda x: VALUE + (x * x if x < 0 else 0),  # erfc has the rounding of x / sqrt(2) in its exponent
    "silu": lambda x: VALUE + (-x if x < -708 else 0),  # a subnormal sigmoid has few digits
    "cbrt": lambda x: 4,  # that of Python's C library is rough
    "lgamma": _where_it_is_0("lgamma", 8, 8),  # that of Python is rough, and 0 at 1, 2 and left of 0
    "digamma": _where_it_is_0("digamma", 8, 8),
    "polygamma": _where_it_is_0("polygamma", 100, 8),
    "atan2": lambda y, x: math.inf if y == 0 and x < 0 else VALUE,  # mpmath has no -0.0
}
"""Values that lose more: the ULP that are allowed at the operand."""

EXCEPTIONS: dict[str, Callable[..., float]] = {
    "atan": lambda x: math.inf if abs(x) > 1e154 else DERIVATIVE,  # x * x overflows, and 0 comes out for a subnormal
    "erf": lambda x: DERIVATIVE + x * x,  # e^-(x * x) has the rounding of x * x in its exponent
    "erfc": lambda x: DERIVATIVE + x * x,
    "lgamma": _where_it_is_0("digamma", 8, 8),
    # as that of erf; and parts cancel where these two are 0, at -0.75 and -1.28; and a subnormal sigmoid has few digits
    "gelu": lambda x: DERIVATIVE + x * x + 2 / abs(x + 0.7517915246935645),
    "silu": lambda x: DERIVATIVE + 2 / abs(x + 1.2784645427610738) + (-x if x < -708 else 0),
    # x^(y - 1) has the rounding of y - 1 in its exponent
    "x ** y": lambda x, y: DERIVATIVE + (abs(math.log(abs(x))) * max(1.0, abs(y - 1)) if x else 0),
}
"""Derivatives that lose more: the ULP that are allowed at the operands."""

LANDMARKS = (
    0.0, 5e-324, 2.3e-308, 1e-154, 1e-16, 1e-8, 0.5, 1.0, 1.5, math.pi / 2, 2.0, math.pi, 6.0, 10.0, 19.0, 26.0, 27.2,
    36.0, 354.0, 708.0, 709.78, 710.4, 744.4, 1e4, 1e8, 1.3e154, 1e300, sys.float_info.max,
)  # fmt: skip


class Errors(NamedTuple):
    """The error in ULP of the value, and of the derivative where there is one, at some operands."""

    point: Point
    value: float
    derivative: float


def operands(rng: random.Random) -> Iterator[float]:
    """Numbers without end: those of all sizes, and those beside landmarks."""
    while True:
        size = rng.choice((10 ** rng.uniform(-324, 308), 10 ** rng.uniform(-3, 3), rng.uniform(0, 1)))
        landmark = rng.choice(LANDMARKS)
        near = landmark * (1 + rng.uniform(-1, 1) * 10 ** rng.uniform(-17, -1))
        yield rng.choice((-1, 1)) * min(rng.choice((size, near, landmark)), sys.float_info.max)


def points(operation: Operation, n: int) -> list[Point]:
    """The points of the table, and random ones: the same in every run."""
    rng = random.Random(operation.name)
    numbers = operands(rng)
    some = [tuple(next(numbers) for _ in range(operation.arity)) for _ in range(n)]
    return [*operation.points, *operation.edges, *some]


def ulps(number: float, exact: mp.mpf) -> float:
    """The error of a number in units of the last place of the exact one."""
    nearest = float(exact)
    if math.isinf(nearest) or not math.isfinite(number):
        return 0.0 if number == nearest else math.inf
    return float(abs(mp.mpf(number) - exact) / math.ulp(nearest))


def errors(operation: Operation, n: int) -> Iterator[Errors]:
    """The errors at so many points, and those of the table, as far as they are in the domain."""
    for point in points(operation, n):
        values = [Value(x) for x in point]
        try:
            result = operation.apply(*values)
        except (ArithmeticError, ValueError):
            continue  # which test_scalar.py looks at
        with mp.workdps(700 if operation.name == "x % y" else 50):  # a quotient has up to 632 digits
            exact = list(map(mp.mpf, point))
            value = ulps(result.data, operation.value(*exact))
            derivative = 0.0
            try:
                result.backward()
                gradient = operation.gradient(*exact)
            except (ArithmeticError, ValueError):
                pass  # there is no derivative, or it is too large for a float
            else:
                gradient = gradient if isinstance(gradient, tuple) else (gradient,)
                derivative = max(ulps(x.grad, mp.mpf(slope)) for x, slope in zip(values, gradient, strict=True))
            yield Errors(point, value, derivative)


@pytest.mark.parametrize("name", OPERATIONS)
def test_values_are_within_2_ulp_and_derivatives_within_8_or_what_the_table_allows(name):
    for error in errors(OPERATIONS[name], 500):
        assert error.value <= (ROUGH[name](*error.point) if name in ROUGH else VALUE), error
        assert error.derivative <= (EXCEPTIONS[name](*error.point) if name in EXCEPTIONS else DERIVATIVE), error


def test_a_value_and_a_derivative_that_are_off_by_a_few_ulp_are_found():
    operation = row("shifted", lambda x: x * (1 + 2.0**-49), lambda x: x, lambda x: 1, (1.0,), torch=None)
    for error in errors(operation, 10):
        if 1e-300 < abs(error.point[0]) < 1e308:
            assert error.value > VALUE
            assert error.derivative == 8.0
