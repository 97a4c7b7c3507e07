"""Mathematics on plain numbers: values, domains, and objects that define their own."""

import math
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp

from micrograd import Value, scalar

INF, NAN = math.inf, math.nan
BOUNDS = {"clip": (0.0, 1.0), "polygamma": (1,)}
BOUNDS |= {name: (1.0,) for name, function in scalar.FUNCTIONS.items() if function.arity == 2}


@pytest.mark.parametrize(("x", "low", "high"), [(2, 0, 1), (-1, 0.0, 1.0), (0.5, 0, 1), (2.0, 3.0, 1.0), (0.0, 3, 1)])
def test_clip_is_that_of_numpy_also_with_crossed_bounds(x, low, high):
    assert scalar.clip(x, low, high) == np.clip(x, low, high)
    assert math.isnan(scalar.clip(NAN, low, high))


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_the_larger_and_the_smaller_of_two_are_those_of_numpy_with_nan_too(name):
    numbers = (-INF, -1.0, 0, 2.5, INF, NAN)
    for x in numbers:
        for y in numbers:
            assert scalar.FUNCTIONS[name](x, y) == pytest.approx(getattr(np, name)(x, y), nan_ok=True)


def test_polygamma_of_a_pole_and_of_an_order_that_does_not_exist():
    with pytest.raises(ZeroDivisionError, match=r"^polygamma\(-2.0\): the operand is a pole of polygamma"):
        scalar.polygamma(-2.0, 1)
    with pytest.raises(ValueError, match=r"the order n is -1: expected a whole number from 0 to 99"):
        Value(2.0).polygamma(-1)
    for x, n in ((1e-200, 2), (-1e-300, 1)):
        with pytest.raises(OverflowError, match=f"^polygamma.{x}.: the result is too large for a float"):
            scalar.polygamma(x, n)


@pytest.mark.parametrize(
    ("x", "n"), [(-2.5, 20), (-11.5, 10), (-2.5000001, 6), (-0.5, 30), (-1e-40, 5), (-7.3, 3), (32000.5, 60), (5.0, 99)]
)
def test_polygamma_of_high_orders_is_right_near_half_integers_and_where_powers_underflow(x, n):
    with mp.workdps(100):
        right = mp.polygamma(n, mp.mpf(x))
    assert scalar.polygamma(x, n) == pytest.approx(float(right), rel=2e-14, abs=0)


@pytest.mark.parametrize("bounds", [(NAN, 1.0), (0.0, NAN), (NAN, NAN)])
def test_a_bound_of_nan_makes_nan_of_all_numbers(bounds):
    for x in (-2.0, 0.5, 2.0):
        assert math.isnan(scalar.clip(x, *bounds))
        v = Value(x)
        v.clip(*bounds).backward()
        assert v.grad == 0


def test_a_bound_is_a_number_of_the_kind_that_is_clipped():
    assert [repr(scalar.clip(x, 0, 1)) for x in (-2.0, 2.0, 2, Fraction(3))] == ["0.0", "1.0", "1", "Fraction(1, 1)"]
    assert math.copysign(1, scalar.clip(-1.0, -0.0, 1)) == math.copysign(1, scalar.clip(1.0, -1, -0.0)) == -1.0


@pytest.mark.parametrize("name", scalar.FUNCTIONS)
def test_nan_goes_in_and_comes_out_and_text_is_refused(name):
    assert math.isnan(scalar.FUNCTIONS[name](NAN, *BOUNDS.get(name, ())))
    with pytest.raises(TypeError):
        scalar.FUNCTIONS[name]("2", *BOUNDS.get(name, ()))


@pytest.mark.parametrize("name", scalar.FUNCTIONS)
def test_an_object_with_a_method_of_the_name_is_asked_to_compute(name):
    number_like = type("NumberLike", (), {name: lambda self, *options: ("computed", *options)})()
    assert scalar.FUNCTIONS[name](number_like, 0.5) == ("computed", 0.5)
    if scalar.FUNCTIONS[name].arity == 1:
        assert scalar.FUNCTIONS[name](number_like) == ("computed",)
    else:
        assert scalar.FUNCTIONS[name](0.5, number_like) == ("computed", number_like)


@pytest.mark.parametrize("name", scalar.FUNCTIONS)
def test_a_function_knows_its_name_and_says_what_it_does(name):
    function = getattr(scalar, name)
    assert function is scalar.FUNCTIONS[name]
    assert function.__name__ == name
    assert function.__doc__


@pytest.mark.parametrize(("function", "x", "limit"), [
    (scalar.exp, -INF, 0.0), (scalar.exp, INF, INF), (scalar.tanh, -INF, -1.0), (scalar.sigmoid, -INF, 0.0),
    (scalar.sigmoid, INF, 1.0), (scalar.softplus, -INF, 0.0), (scalar.softplus, INF, INF), (scalar.relu, -INF, 0.0),
    (scalar.relu, INF, INF), (scalar.leaky_relu, -INF, -INF), (scalar.floor, -INF, -INF),
    (scalar.digamma, INF, INF), (scalar.lgamma, -INF, INF),
])  # fmt: skip
def test_infinity_has_its_limits(function, x, limit):
    assert function(x) == limit


@pytest.mark.parametrize(("name", "x", "expected"), [
    ("log", 0.0, "x > 0"), ("log", -1.0, "x > 0"), ("log2", 0.0, "x > 0"), ("log10", -1.0, "x > 0"),
    ("log1p", -1.0, "x > -1"), ("sqrt", -1.0, "x >= 0"), ("asin", 2.0, "-1 <= x <= 1"),
    ("acos", -1.5, "-1 <= x <= 1"), ("acosh", 0.5, "x >= 1"), ("atanh", 1.0, "-1 < x < 1"),
    ("lgamma", -2.0, "x other than 0, -1, -2, ..."), ("sin", INF, "a finite number x"),
    ("cos", -INF, "a finite number x"), ("tan", INF, "a finite number x"), ("log", 0, "x > 0"),
    ("sqrt", Fraction(-1, 2), "x >= 0"), ("exp", 1000.0, None), ("expm1", 1000.0, None), ("sinh", -1000.0, None),
    ("cosh", 1000.0, None), ("exp", 1000, None), ("lgamma", 1e307, None),
])  # fmt: skip
def test_an_operand_outside_the_domain_or_of_too_large_a_result_is_named(name, x, expected):
    with pytest.raises(ValueError if expected else OverflowError) as caught:
        scalar.FUNCTIONS[name](x)
    reason = f"expected {expected}" if expected else "the result is too large for a float"
    assert str(caught.value) == f"{name}({x!r}): {reason}"
