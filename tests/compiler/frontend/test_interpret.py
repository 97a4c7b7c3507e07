"""A graph carried out step by step, for messages about numbers that it cannot compute."""

import math
from functools import partial

import pytest

import micrograd
from micrograd import Backend, Value, where
from micrograd.compiler.frontend.graph import traced
from micrograd.compiler.options import Options
from micrograd.support.trees import flat, shape_of
from tests.compiler.frontend import test_reductions as reductions
from tests.compiler.frontend import test_rounds as rounds
from tests.helpers import eager
from tests.kernels import straight


@pytest.mark.parametrize(("function", "p", "seen"), [
    (lambda p, x: (p - x).sqrt(), 1.0, r"sqrt\(0\.0\) cannot be taken: 1\.0 / 0\.0: division by zero"),
    (lambda p, x: where(p >= 0, p.sqrt(), 0.0) * x, 0.0, r"sqrt\(0\.0\) cannot be taken: 1\.0 / 0\.0"),
    (lambda p, x: p.sqrt() + p**0.5 + x, 0.0, r"sqrt\(0\.0\) or \*\*\(0\.0, 0\.5\) cannot be taken: "),
])  # fmt: skip
def test_a_derivative_that_cannot_be_taken_names_the_operations_it_is_of(backend, function, p, seen):
    p = Value(p)
    fast = micrograd.compile(lambda x: function(p, x), (1.0,), parameters=[p], backend=backend)
    with pytest.raises(ZeroDivisionError, match=rf"^the derivative of {seen}"):
        fast.backward([1.0])


def root_of_large(x):
    return (x.exp() * 1e300).sqrt() + x


@pytest.mark.parametrize(("function", "fine", "wrong", "message"), [
    (root_of_large, [1.0], [1000.0], r"forward pass, exp of \[1000.0\]: .*too large"),
    (root_of_large, [1.0], [100.0], r"forward pass, \* of \[.*, 1e\+300\] is inf"),
    (root_of_large, [1.0], [math.nan], r"forward pass, exp of \[nan\] is nan"),
    (lambda x: x.sqrt(), [1.0], [0.0], r"^the derivative of sqrt\(0.0\) .* / of \[1.0, 0.0\]: .*by zero"),
    (lambda x, y: x / y, [1.0, 2.0], [3.0, 0.0], r"/ of \[3.0, 0.0\]"),
])  # fmt: skip
def test_check_names_the_first_operation_that_is_not_finite(function, fine, wrong, message):
    fast = micrograd.compile(function, fine, backend="python")
    assert fast.check(*fine) is None
    with pytest.raises(FloatingPointError, match=message):
        fast.check(*wrong)


def test_check_knows_parameters_and_lists_too():
    p = Value(0.0)
    fast = micrograd.compile(lambda x: [x[0] / p, x[1]], ([1.0, 2.0],), parameters=[p], backend="python")
    with pytest.raises(FloatingPointError, match=r"/ of \[3.0, 0.0\]"):
        fast.check([3.0, 4.0])
    p.data = 2.0
    fast.check([3.0, 4.0])
    p.grad = 0.5
    micrograd.compile(lambda x: where(x > 0, p * x, -x), (1.0,), parameters=[p], backend="python").check(1.0)
    assert p.grad == 0.5


def carried_out(function, parameters, *example, backend):
    """A function's value and its gradients, those of parameters first, one operation at a time."""
    graph = traced(function, [*map(shape_of, example)], parameters, options=Options(backend=Backend(backend)))
    (value, *of_arguments), of_parameters = straight(graph, parameters, example)
    return value, [gradient - 0.25 for gradient in of_parameters], of_arguments  # 0.25 is there before


@pytest.mark.parametrize("name", reductions.FUNCTIONS)
def test_reductions_carried_out_step_by_step_give_the_engines_results(name, backend):
    x, ws = [0.5, -1.0, 2.0, 2.0, 0.25, -3.0, 0.75, 1.5, -0.5], list(map(Value, reductions.WEIGHTS))
    value, of_ws, of_x = carried_out(lambda x: reductions.FUNCTIONS[name](x, ws), ws, x, backend=backend)
    reductions.assert_same([value, [of_x, of_ws]], list(eager(reductions.FUNCTIONS[name], x, reductions.WEIGHTS)))


@pytest.mark.parametrize("program", [rounds.mixed, rounds.rows, rounds.until])
def test_loops_carried_out_step_by_step_give_the_engines_results(program, backend):
    ws, example = rounds.parameters(), rounds.numbers(2)
    found = carried_out(partial(program, ws), ws, *example, backend=backend)
    assert flat(list(found)) == rounds.close(flat(list(rounds.engine(program, *example))))
