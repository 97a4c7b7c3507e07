"""A graph carried out step by step, for messages about numbers that it cannot compute."""

import math

import pytest

import micrograd
from micrograd import Value, where


@pytest.mark.parametrize(
    ("function", "p", "seen"),
    [
        (lambda p, x: (p - x).sqrt(), 1.0, r"sqrt\(0\.0\) cannot be taken: 1\.0 / 0\.0: division by zero"),
        (lambda p, x: where(p >= 0, p.sqrt(), 0.0) * x, 0.0, r"sqrt\(0\.0\) cannot be taken: 1\.0 / 0\.0"),
        (lambda p, x: p.sqrt() + p**0.5 + x, 0.0, r"sqrt\(0\.0\) or \*\*\(0\.0, 0\.5\) cannot be taken: "),
    ],
)
def test_a_derivative_that_cannot_be_taken_names_the_operations_it_is_of(backend, function, p, seen):
    p = Value(p)
    fast = micrograd.compile(lambda x: function(p, x), (1.0,), parameters=[p], backend=backend)
    with pytest.raises(ZeroDivisionError, match=rf"^the derivative of {seen}"):
        fast.backward([1.0])


def test_check_names_the_first_operation_that_is_not_finite():
    def function(x):
        return (x.exp() * 1e300).sqrt() + x

    fast = micrograd.compile(function, (1.0,), backend="python")
    fast.check(1.0)
    with pytest.raises(FloatingPointError, match=r"forward pass, exp of \[1000.0\]: .*too large"):
        fast.check(1000.0)
    with pytest.raises(FloatingPointError, match=r"forward pass, \* of \[.*, 1e\+300\] is inf"):
        fast.check(100.0)
    with pytest.raises(FloatingPointError, match=r"forward pass, exp of \[nan\] is nan"):
        fast.check(math.nan)
    root = micrograd.compile(lambda x: x.sqrt(), (1.0,), backend="python")
    with pytest.raises(
        FloatingPointError, match=r"^the derivative of sqrt\(0.0\) .* / of \[1.0, 0.0\]: .*division by zero"
    ):
        root.check(0.0)


def test_check_knows_parameters_and_lists_too():
    p = Value(0.0)
    fast = micrograd.compile(lambda x: [x[0] / p, x[1]], ([1.0, 2.0],), parameters=[p], backend="python")
    with pytest.raises(FloatingPointError, match=r"/ of \[3.0, 0.0\]"):
        fast.check([3.0, 4.0])
    p.data = 2.0
    fast.check([3.0, 4.0])
    p.grad = 0.5
    single = micrograd.compile(lambda x: where(x > 0, p * x, -x), (1.0,), parameters=[p], backend="python")
    single.check(1.0)
    assert p.grad == 0.5
    both = micrograd.compile(lambda x, y: x / y, (1.0, 2.0), backend="python")
    with pytest.raises(FloatingPointError, match=r"/ of \[3.0, 0.0\]"):
        both.check(3.0, 0.0)
