"""The C around kernels: functions of vectors, errors that are noted, lanes without an example, harmless infinities."""

import math
import random
from array import array

import pytest

import micrograd
from micrograd import Backend, Value, logsumexp, where
from micrograd.optim import SGD
from tests.helpers import backward, needs_compiler

pytestmark = needs_compiler


@pytest.mark.parametrize(("precision", "widths", "special", "ulp"), [
    ("double", (1e-300, 709.0), [-745.0, -745.2, -708.5], math.ulp),
    ("single", (1e-38, 88.0), [-103.5, -104.5, -87.5], lambda y: max(2.0**29 * math.ulp(y), 2.0**-149)),
])  # fmt: skip
@pytest.mark.parametrize("name", ["exp", "tanh"])
def test_vectorized_functions_are_within_two_ulps_of_those_of_math(name, precision, widths, special, ulp):
    rng, backend = random.Random(0), Backend("c", precision=precision)
    xs = [rng.uniform(-width, width) for width in (*widths, 1e-9, 0.1, 0.7, 3.0, 25.0) for _ in range(2000)]
    xs += [*special, 0.0, 0.625, math.nextafter(0.625, 0.0), -0.625, 20.0, -1e6, -math.inf]
    xs = list(array("d" if precision == "double" else "f", xs))
    fast = micrograd.compile(lambda x: getattr(x, name)(), (1.0,), backend=backend)
    function = getattr(math, name)
    of_one = micrograd.compile(lambda x: [getattr(each, name)() for each in x], (xs[:64],), backend=backend)
    for found in (fast.map(xs), [y for i in range(0, len(xs) - 64, 64) for y in of_one(xs[i : i + 64])]):
        wrong = [x for x, y in zip(xs, found, strict=False) if abs(y - function(x)) > 2 * ulp(function(x))]
        assert wrong == []


@pytest.mark.parametrize(("precision", "last", "large", "error"), [
    ("double", 709.0, 710.0, r"exp\(710.0\)"),
    ("single", 88.0, 89.0, "beyond the range of single precision"),
])  # fmt: skip
def test_exp_of_a_row_handles_special_numbers_and_overflow(precision, last, large, error):
    special = [math.inf, -math.inf, 0.0, -0.0, math.nan, 1e-310, -745.2, -1e9, -1e30, last]
    exp = micrograd.compile(lambda x: [each.exp() for each in x], (special,), backend=Backend("c", precision=precision))
    assert list(map(repr, exp(special)))[:5] == ["inf", "0.0", "1.0", "1.0", "nan"]
    assert exp(special)[5:] == [1.0, 0.0, 0.0, 0.0, pytest.approx(math.exp(last), rel=1e-15 if last > 700 else 1e-7)]
    with pytest.raises(OverflowError, match=error):
        exp([*special[:9], large])


@pytest.mark.parametrize("precision", ["double", "single"])
@pytest.mark.parametrize("quotient", [
    lambda x, w: x / 0.0,
    lambda x, w: w * (x / 0.0).tanh(),
    lambda x, w: w * (1.0 / where(x > 2, x, 0.0)).tanh(),
    lambda x, w: w * (where(x > 2, x, 0.0) ** -1).tanh(),
    lambda x, w: w * (1.0 / where(x > 2, 0.0, -0.0)).tanh(),
    lambda x, w: w * sum([x / c for c in [1.0, 2.0, 3.0, 0.0, *[4.0] * 20]]).tanh(),
])  # fmt: skip
def test_a_division_that_a_c_compiler_may_carry_out_itself_is_an_error(quotient, precision, optimized):
    w, backend = Value(1.0), Backend("c", precision=precision)
    fast = micrograd.compile(lambda x: quotient(x, w), (0.0,), parameters=[w], backend=backend)
    calls = [fast, fast.value_and_grad, lambda x: fast.backward([x]), lambda x: fast.map([x])]
    calls += [lambda x: fast.backward([x] * 40), lambda x: fast.map([x] * 40)]
    for call in calls:
        with pytest.raises(ZeroDivisionError):
            call(1.0)
    with pytest.raises(ZeroDivisionError), fast.training(SGD([w], 0.1)) as step:
        step([1.0])
    assert w.data == 1.0


@pytest.mark.parametrize("n", [*range(1, 20), 37])
def test_lanes_without_an_example_of_their_own_add_nothing(n):
    """They share one, whose gradient times 0 would be NaN if it is infinite."""
    w = Value(1.0)
    fast = micrograd.compile(lambda x: w * x, (1.0,), parameters=[w], backend="c")
    assert backward(fast, [float(3**i) for i in range(n)]) == pytest.approx([(3**n - 1) / 2 / n] * 2, rel=1e-15)
    for place in range(n):
        assert backward(fast, [math.inf if i == place else 1.0 for i in range(n)]) == [math.inf] * 2


def impossible(x):
    """The likelihood of a hidden Markov model, one state of which is impossible at first."""
    states = [x * 0.0, x - math.inf]
    for _ in range(3):
        states = [logsumexp([state + x * k for k, state in enumerate(states)]) for _ in states]
    return states[0]


HARMLESS = {
    "a state that is impossible": (impossible, 0.5),
    "a masked NaN": (lambda x: where(x == x, (x - 1.0) ** 2 + x.exp() + x.log() + x.sqrt() + x**1.5, 0.0), math.nan),
    "a comparison of NaN": (lambda x: where(x < 1.0, x.log(), 0.0), math.nan),
    "a difference of infinities": (lambda x: x - x + x.exp().log(), math.inf),
    "the 0 of a large power": (lambda x: (-(x**2)).exp() + x, 40.0),
    "a product that is too large": (lambda x: x * 1e300 * 1e300 + x.exp(), 5.0),
    "a quotient that is too large": (lambda x: 1e300 / x + (-x).exp(), 1e-300),
    "the ends of functions": (lambda x: x.exp() + x.log() + x.sqrt() + 1.0 / x + (-x).exp() + x.cosh(), math.inf),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_an_infinity_that_python_does_not_refuse_stays_in_c(monkeypatch, name):
    function, x = HARMLESS[name]
    fast, expected = (micrograd.compile(function, (1.0,), backend=backend) for backend in ("c", "python"))
    monkeypatch.setattr("micrograd.compiler.function.failure", None)  # which goes through all examples in Python
    value, slope = expected.value_and_grad(x)
    assert fast.value_and_grad(x) == pytest.approx((value, slope), nan_ok=True)
    assert list(fast.map([x] * 9)) == pytest.approx([value] * 9, nan_ok=True)


def test_a_training_on_masked_numbers_stays_in_c(monkeypatch):
    w = Value(0.5)

    def masked(y):
        return where(y == y, (w - where(y == y, y, 0.0)) ** 2 + 0.0 * y.log(), 0.0)

    fast = micrograd.compile(masked, (1.0,), parameters=[w], backend="c")
    with fast.training(SGD([w], 0.1)) as step:
        monkeypatch.setattr("micrograd.compiler.stepping.Engine.take", None)
        assert step([math.nan, 1.0] * 10) == pytest.approx(0.125)
    assert w.data == pytest.approx(0.55)
