"""The compiler: compiled code computes what the engine computes, to the last bit in Python, or says why it cannot."""

import ast
import copy
import ctypes
import functools
import gc
import inspect
import io
import keyword
import math
import os
import pickle
import random
import re
import signal
import textwrap
import threading
import tokenize
from array import array
from collections import deque
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import micrograd
from micrograd import Value, dot, functional, mean, nn, scalar, take, where
from micrograd.compiler import TraceError
from micrograd.compiler.frontend.graph import Graph
from micrograd.compiler.frontend.tracer import Trace
from micrograd.nn import MLP
from micrograd.optim import SGD
from micrograd.support.trees import shape_of
from tests.helpers import eager, grads, graphs, has_compiler, moons, random_examples, run, value_and_gradient
from tests.operations import OPERATIONS


def bits(tree):
    """Floats in a nested list or tuple, to be compared to the last bit, which tells 0.0 from -0.0."""
    return list(map(bits, tree)) if isinstance(tree, (list, tuple)) else float(tree).hex()


def close(x, expected):
    """Agreement as C is held to it, where Python is held to the last bit."""
    return pytest.approx(expected, rel=1e-12, abs=1e-14) == x


# Values and gradients


@given(graphs())
@random_examples(60)
def test_random_graphs_agree_with_the_engine_to_the_last_bit(graph):
    numbers, steps = graph
    fast = micrograd.compile(
        lambda xs: run(xs, steps, lambda operation, *xs: operation.apply(*xs)), (numbers,), backend="python"
    )
    value, gradient = value_and_gradient(numbers, steps)
    assert bits(fast(numbers)) == bits(value)
    assert bits(fast.value_and_grad(numbers)) == bits((value, gradient))


@given(graphs())
@random_examples(25)
def test_parameters_get_the_gradients_of_the_engine_to_the_last_bit(graph):
    numbers, steps = graph
    parameters = [Value(number) for number in numbers]
    fast = micrograd.compile(
        lambda: run(parameters, steps, lambda operation, *xs: operation.apply(*xs)), (), parameters=parameters,
        backend="python",
    )  # fmt: skip
    assert bits((fast.backward(), grads(parameters))) == bits(value_and_gradient(numbers, steps))


@given(graphs())
@random_examples(40)
def test_second_derivatives_of_random_graphs_agree_with_the_engine_to_the_last_bit(graph):
    numbers, steps = graph
    hessian = functional.hessian(lambda xs: run(xs, steps, lambda operation, *xs: operation.apply(*xs)))
    assert micrograd.compile(hessian, (numbers,), backend="python")(numbers) == hessian(numbers)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_every_operation_compiles_to_python(operation):
    fast = micrograd.compile(lambda xs: operation.apply(*xs), (list(operation.points[0]),), backend="python")
    for point in operation.points + operation.edges:
        assert fast.value_and_grad(list(point)) == eager(lambda xs: operation.apply(*xs), list(point))


def test_a_batch_has_the_mean_and_the_gradients_of_the_engine_to_the_last_bit():
    model, loss, points, labels = moons()
    fast = micrograd.compile(loss, (points[0], labels[0]), parameters=model.parameters(), backend="python")
    total = fast.backward(points, labels)
    gradients = grads(model.parameters())
    model.zero_grad()
    expected = mean([loss(x, y) for x, y in zip(points, labels, strict=True)])
    expected.backward()
    assert total == expected.data
    assert gradients == grads(model.parameters())
    assert any(gradients)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 20])
def test_any_number_of_examples_will_do(backend, n):
    model, loss, points, labels = moons(n)
    fast = micrograd.compile(loss, (points[0], labels[0]), parameters=model.parameters(), backend=backend)
    total = fast.backward(points, labels)
    gradients = grads(model.parameters())
    model.zero_grad()
    losses = [loss(x, y) for x, y in zip(points, labels, strict=True)]
    mean(losses).backward()
    assert close(total, mean(losses).data)
    assert close(gradients, grads(model.parameters()))
    assert close(fast.map(points, labels), [v.data for v in losses])


def test_gradients_add_up_over_calls(backend):
    p = Value(3.0)
    fast = micrograd.compile(lambda x: p * x, (1.0,), parameters=[p], backend=backend)
    p.grad = 0.5
    assert fast.backward([1.0, 2.0]) == 4.5
    assert p.grad == 2.0
    fast.backward([10.0])
    assert p.grad == 12.0


def test_equal_nodes_have_gradients_of_their_own(backend):
    def twice(x, y):
        return (x * y) * 2 + (x * y).sin() * 3 + x * y

    fast = micrograd.compile(twice, (1.0, 1.0), backend=backend)
    value, gradient = eager(twice, 0.5, 1.5)
    assert close(fast.value_and_grad(0.5, 1.5)[0], value)
    assert close(fast.value_and_grad(0.5, 1.5)[1], gradient)


def test_grad_and_hessian_compile_inside_a_function(backend):
    w = Value(0.7)

    def slope(x):
        return functional.grad(lambda v: (w * v).tanh() * v.exp())(x) ** 2

    def bend(x):
        return functional.hessian(lambda v: v[0] ** 3 * v[1].exp() + v[0].sin())(x)

    fast = micrograd.compile(slope, (1.0,), parameters=[w], backend=backend)
    value, gradient = fast.value_and_grad(0.3)
    assert (close(value, eager(slope, 0.3)[0]), close(gradient, eager(slope, 0.3)[1])) == (True, True)
    w.grad = 0.0
    slope(Value(0.3)).backward()
    expected, w.grad = w.grad, 0.0
    fast.backward([0.3])
    assert close(w.grad, expected)
    rows = micrograd.compile(bend, ([1.0, 2.0],), backend=backend)([0.5, 2.0])
    assert [close(row, expected) for row, expected in zip(rows, bend([0.5, 2.0]), strict=True)] == [True, True]


def gauss(x):
    """An operation of a user's own, e^(-x^2), that needs `scalar` in both directions."""
    result = scalar.exp(-x.data * x.data)

    def _backward(grad):
        x.grad += grad * (-2 * x.data * result)

    return Value(result, (x,), "gauss", _backward)


def leaky(x):
    """Another one, which relies on a default."""

    def _backward(grad):
        x.grad += grad * scalar.where(x.data <= 0, 0.01, 1)

    return Value(scalar.leaky_relu(x.data), (x,), "leaky", _backward)


def staircase(x):
    """And one that chooses with `and` and `or`."""
    inside = (x.data > -1) & (x.data < 1) | (x.data == 2)

    def _backward(grad):
        x.grad += scalar.where(inside, grad, 0)

    return Value(scalar.where(inside, x.data, -x.data), (x,), "staircase", _backward)


def with_gradient(of):
    """An operation of a user's own, 2x, whose closure adds `of(grad, x)`."""

    def operation(x):
        def _backward(grad):
            x.grad += of(grad, x.data)

        return Value(x.data * 2, (x,), "own", _backward)

    return operation


@pytest.mark.parametrize(
    ("of", "vanishes"),
    [
        (lambda grad, x: -(grad * 2) - grad / x, True),
        (lambda grad, x: scalar.where(x > 2, grad, 0.0) + abs(grad), True),
        (lambda grad, x: 0.0 * x, True),
        (lambda grad, x: 1.0, False),
        (lambda grad, x: grad + x, False),
        (lambda grad, x: x - grad, False),
        (lambda grad, x: x / (1 + grad), False),
        (lambda grad, x: scalar.where(grad > 0, 1.0, -1.0), False),
        (lambda grad, x: scalar.where(x > 2, grad, x), False),
        (lambda grad, x: scalar.exp(grad), False),
        (lambda grad, x: grad**0, False),
    ],
)
def test_whatever_a_users_closure_adds_counts_once_for_each_example(backend, of, vanishes):
    """Also where the last tile repeats one of them, without a gradient."""
    own, w = with_gradient(of), Value(0.5)
    graph = Graph(lambda x: own(w) * x, [()], [w])
    assert graph.vanishes_with_seed is vanishes
    fast = micrograd.compile(lambda x: own(w) * x, (1.0,), parameters=[w], backend=backend)
    for n in 1, 3, 5, 8, 9, 33:
        xs = [1.0 + i for i in range(n)]
        w.grad = 0.0
        fast.backward(xs)
        compiled, w.grad = w.grad, 0.0
        for x in xs:
            (own(w) * x).backward(1 / n)
        assert compiled == pytest.approx(w.grad, rel=1e-12)


def test_what_a_backward_within_the_function_adds_counts_once_for_each_example(backend):
    w = Value(3.0)

    def function(x):
        (w * x * x).backward()
        return w * x

    fast = micrograd.compile(function, (1.0,), parameters=[w], backend=backend)
    for n in 1, 5, 8, 9:
        xs, w.grad = [1.0 + i for i in range(n)], 0.0
        fast.backward(xs)
        assert w.grad == pytest.approx(sum(x * x for x in xs) + sum(xs) / n, rel=1e-12)


@pytest.mark.parametrize(("of", "vanishes"), [(lambda grad, x: grad, True), (lambda grad, x: 1.0, False)])
def test_a_network_with_a_users_activation_is_computed_in_tiles(of, vanishes):
    """If each product in its gradients has a factor that is 0 if the seed is."""
    layers = nn.Layer(3, 4, "linear"), nn.Layer(4, 2, "linear")
    parameters = [p for layer in layers for p in layer.parameters()]
    own = with_gradient(of)
    graph = Graph(lambda xs: mean(layers[1](list(map(own, layers[0](xs))))), [shape_of([0.0] * 3)], parameters)
    assert "dot" in graph.trace.ops[graph.forward_end :]
    assert graph.vanishes_with_seed is vanishes


@pytest.mark.parametrize("operation", [gauss, leaky, staircase])
def test_an_operation_of_ones_own_compiles(backend, operation):
    fast = micrograd.compile(operation, (1.0,), backend=backend)
    for x in (-1.5, -0.5, 0.0, 0.5, 2.0, 3.0):
        assert close(fast.value_and_grad(x), eager(operation, x))


def test_an_operation_of_ones_own_compiles_within_a_derivative(backend):
    def slope(x):
        return functional.grad(lambda v: gauss(v) * v)(x)

    fast = micrograd.compile(slope, (1.0,), backend=backend)
    assert close(fast.value_and_grad(0.4), eager(slope, 0.4))


def test_conditions_are_numbers_where_numbers_are_asked_for(backend):
    def function(x):
        return [x > 0, (x > 0) * 1.0, (x > 0) * x + (x <= 0), where(x > 0, x > 1, x), -(x > 0), (x > 0) + 0.0]

    fast = micrograd.compile(function, (1.0,), backend=backend)
    for x in (-1.0, 0.5, 2.0):
        assert fast(x) == [1.0 * (v.data if isinstance(v, Value) else v) for v in function(Value(x))]
        assert set(map(type, fast(x))) == {float}


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x > 0) & True & (x < 2),
        lambda x: False & (x > 0),
        lambda x: (x > 0) | False | (x < -1),
        lambda x: True | (x > 0),
        lambda x: True & (x > 0),
        lambda x: (x > 0) & False,
        lambda x: False | (x > 0),
        lambda x: (x > 0) | True,
    ],
)
def test_conditions_of_which_one_side_is_known_are_decided_by_the_other(function):
    fast = micrograd.compile(lambda x: where(function(x), x, 5 * x), (1.0,), backend="python")
    for x in (-2.0, 1.0, 3.0):
        assert fast(x) == (x if function(x) else 5 * x)
    assert "True" not in fast.source
    assert "False" not in fast.source


@pytest.mark.parametrize("constant", [-2.0, -1.0, -0.5, 0.5, 1.0, 2.0, 0.0])
def test_constants_beside_every_operator_compute_what_they_do_in_eager(constant, backend):
    def function(x):
        c = constant
        results = [x + c, c + x, x - c, c - x, x * c, c * x, c / x, c % x, x**c]
        return [*results, x / c, x % c] if c else results

    fast = micrograd.compile(function, (1.0,), backend=backend)
    for x in (0.75, 3.0):
        assert close(fast(x), [v.data for v in function(Value(x))])
    if constant < 0 and backend == "python":
        assert f"x0 * ({constant})" in fast.source
    for i in range(len(fast(1.0))):
        one = micrograd.compile(lambda x, i=i: function(x)[i] * 1.5, (1.0,), backend="python")
        assert close(one.value_and_grad(0.75), eager(lambda x, i=i: function(x)[i] * 1.5, 0.75))


SIGNS = [
    lambda x: 0 - x, lambda x: 0.0 - x, lambda x: x + 0.0, lambda x: 0.0 + x, lambda x: x - 0.0, lambda x: x - 0,
    lambda x: -0.0 - x, lambda x: -0.0 + x, lambda x: x - -0.0, lambda x: x * 1, lambda x: -1 * x, lambda x: x / -1,
    lambda x: -x, lambda x: x * 0.0, lambda x: x**1, lambda x: x**3, lambda x: x * x, abs, lambda x: x.relu(),
    lambda x: x.leaky_relu(), lambda x: x.sin(), lambda x: x % 2, lambda x: x % -2, lambda x: where(x > 0, x, 0.0),
    lambda x: dot([-1.0, x], [x, 0.0], 0.0), lambda x: dot([-1.0], [x], -0.0), lambda x: mean([x, -x]),
    lambda x: micrograd.sum([x, x]), lambda x: 1e-300 * (x - 1e-300) * 1e-300, lambda x: 1 / (1 / (x + 1e-320)) * x,
]  # fmt: skip


@pytest.mark.parametrize("x", [0.0, -0.0])
def test_a_zero_has_the_sign_that_the_engine_gives_it(backend, x):
    values = [function(Value(x)).data for function in SIGNS]
    fast = micrograd.compile(lambda x: [function(x) for function in SIGNS], (1.0,), backend=backend)
    for results in (fast(x), *fast.map([x] * 5)):
        assert bits(results) == bits(values)
    w = Value(x)
    for function in [*SIGNS, lambda x: micrograd.sum([function(x) for function in SIGNS])][
        0 if backend == "python" else -1 :
    ]:
        w.grad = 0.0
        mean_and_gradient = (
            micrograd.compile(lambda f=function: f(w), (), parameters=[w], backend=backend).backward(),
            w.grad,
        )
        fast = micrograd.compile(function, (1.0,), backend=backend)
        assert bits(mean_and_gradient) == bits(fast.value_and_grad(x)) == bits(eager(function, x))


@pytest.mark.parametrize("n", [1, 5])
def test_what_is_divided_by_a_zero_has_its_sign_in_c(n):
    if not has_compiler():
        pytest.skip("there is no C compiler here")
    with pytest.raises(ZeroDivisionError, match=r"^1\.0 / 0\.0: "):  # not -0.0
        micrograd.compile(lambda x: 1 / (0 - x), (1.0,), backend="c").map([0.0] * n)


def test_the_exact_zero_that_sums_start_from_is_not_added(backend):
    """So a sum of zeros that are -0.0 is -0.0 too, where the engine has 0.0; both are 0."""
    fast = micrograd.compile(lambda x: dot([-1.0, -2.0], [x, x]) + 0, (1.0,), backend=backend)
    assert fast(0.0) == 0.0
    assert "0.0 +" not in fast.source
    assert "+ 0" not in fast.source


def test_a_polynomial_is_differentiated_to_a_constant():
    second = micrograd.compile(functional.grad(functional.grad(lambda x: x**2)), (1.0,), backend="python")
    assert second(3.0) == 2.0
    assert "return [2.0]" in second.source


@pytest.mark.parametrize(
    "function",
    [
        lambda x: where(True, x, -x),
        lambda x: where(False, x, -x),
        lambda x: x * 1 + 0 - 0.0,
        lambda x: 1 * x / 1,
        lambda x: 0 + x**1,
        lambda x: x * x**0,
        lambda x: 0 - x,
        lambda x: +x,
        lambda x: x + Value(2.0) * 3.0 - Value(1.5).exp(),
        lambda x: x - (-3.0),
        lambda x: (-2.0) ** 2 * x,
        lambda x: (-3.0) % x,
        lambda x: x.leaky_relu(slope=0.3),
        lambda x: x * np.float64(2.0) * np.float32(0.5) * np.int64(3),
        lambda x: x * Fraction(1, 3),
        lambda x: x * 2**60,
    ],
)
def test_constants_are_folded_to_what_they_come_to(function):
    fast = micrograd.compile(function, (1.0,), backend="python")
    for x in (-1.5, 0.5):
        assert fast.value_and_grad(x) == eager(function, x)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: where((x > 0) & 1, 10.0, x),
        lambda x: where((x > 0) & 0, 10.0, x),
        lambda x: where(1 & (x > 0) | False, 10.0, x),
        lambda x: where((x > 0) | 0, 10.0, x),
        lambda x: where(1 | (x > 0), 10.0, x),
    ],
)
def test_a_mask_of_ones_and_zeros_is_one_of_conditions(backend, function):
    xs = [1.0, -1.0, 2.0, -2.0, 0.0]
    fast = micrograd.compile(function, (1.0,), backend=backend)
    assert fast.map(xs) == [Value(function(Value(x)).data).data for x in xs]


def test_other_bits_than_that_of_a_condition_are_refused():
    with pytest.raises(TypeError, match="unsupported operand"):
        micrograd.compile(lambda x: where((x > 0) & 2, 10.0, x), (1.0,), backend="python")


def test_long_conditions_have_names(backend):
    """Each use of a condition used to write it again: half a million characters here, and too many parentheses."""

    def function(xs):
        condition = everywhere = xs[0] > 0
        for x in xs[1:]:
            condition = (condition & (x > 0)) | (condition & (x < -1))
            everywhere = everywhere & (x != 0)
        return where(condition, xs[0], 0.0) + where(everywhere, 2.0, 3.0) + condition * 7

    n = 250
    fast = micrograd.compile(function, ([0.0] * n,), backend=backend)
    assert len(fast.source) < 500 * n
    examples = [[1.0] * n, [1.0] * (n - 1) + [-0.5], [1.0, -2.0] * (n // 2), [1.0] * (n - 1) + [0.0], [-1.0] * n]
    assert (
        fast.map(examples) == [function([Value(x) for x in xs]).data for xs in examples] == [10.0, 2.0, 10.0, 3.0, 3.0]
    )


def test_a_number_may_be_the_condition_in_an_operation_of_ones_own(backend):
    def operation(x):
        def _backward(grad):
            x.grad += grad * scalar.where(x.data, 2.0, 3.0)

        return Value(scalar.where(x.data, x.data * 2.0, 7.0), (x,), "operation", _backward)

    fast = micrograd.compile(operation, (1.0,), backend=backend)
    assert fast.map([0.0, 1.0, -1.0, 0.5, 2.0]) == [7.0, 2.0, -2.0, 1.0, 4.0]
    assert [fast.value_and_grad(x)[1] for x in (0.0, 3.0)] == [3.0, 2.0]


@pytest.mark.parametrize("exponent", [1.0000001, 2.0000001, 2.9999999, 8.9999999, -1.0000001])
def test_an_exponent_beside_a_whole_number_is_not_taken_for_it(backend, exponent):
    fast = micrograd.compile(lambda x: x**exponent, (1.0,), backend=backend)
    expected = [3.0**exponent, exponent * 3.0 ** (exponent - 1)]
    assert list(fast.value_and_grad(3.0)) == pytest.approx(expected, rel=1e-14)
    if backend == "python":
        with pytest.raises(ValueError, match="a fractional power of a negative number is not real"):
            fast(-3.0)


def test_small_whole_powers_are_written_as_the_language_does():
    fast = micrograd.compile(lambda x: [x**n for n in range(1, 11)], (1.0,), backend="python")
    assert [f"x0 ** {n}.0" in fast.source for n in range(1, 11)] == [False, *[True] * 8, False]
    assert "power(x0, 10.0)" in fast.source
    assert [f"= ({' * '.join(['x[0]'] * n)});" in fast.c_source for n in (2, 3)] == [True] * 2
    assert fast.c_source.count("= pow(x[0], ") == 7


def test_what_changes_nothing_is_not_written_down():
    fast = micrograd.compile(lambda x: (0 + 1 * x * 1 / 1) ** 1, (1.0,), backend="python")
    assert "return [x0]" in fast.source
    with pytest.raises(ZeroDivisionError):
        micrograd.compile(lambda x: x / 0.0, (1.0,), backend="python")(1.0)


def test_an_operation_of_three_numbers_is_written_down_as_it_is():
    trace = Trace()
    clipped = trace.record("clip", (trace.leaf("x"), 0.0, 1.0))
    assert trace.ops[clipped.id] == "clip"
    assert len(trace.operands[clipped.id]) == 3


def test_nothing_is_computed_twice_or_in_vain():
    fast = micrograd.compile(lambda x, y: [x * y + 1, (y * x).exp(), (x * y).exp()], (1.0, 1.0), backend="python")
    assert fast.source.count("*") == 1
    assert fast.source.count("exp(") == 1
    in_vain = micrograd.compile(lambda x: (x.exp(), x.sin())[1], (1.0,), backend="python")
    assert "exp(" not in in_vain.source


def test_infinite_and_undefined_constants_compile(backend):
    fast = micrograd.compile(lambda x: [x * math.inf, x - math.inf, x * math.nan, x * -0.0], (1.0,), backend=backend)
    assert fast(2.0)[:2] == [math.inf, -math.inf]
    assert math.isnan(fast(2.0)[2])
    assert math.copysign(1.0, fast(2.0)[3]) == -1.0


# What goes in


def test_parameters_are_read_anew_and_constants_are_not(backend):
    p, constant = Value(2.0), Value(10.0)
    fast = micrograd.compile(lambda x: p * x + constant, (1.0,), parameters=[p], backend=backend)
    assert fast(1.0) == 12.0
    p.data, constant.data = 3.0, 1000.0
    assert fast(1.0) == 13.0
    p.data = Fraction(1, 2)
    assert fast(1.0) == 10.5


def test_compiling_leaves_no_trace_in_any_value():
    p, unused, constant = Value(2.0), Value(3), Value(4.0)
    for value in (p, unused, constant):
        value.grad = 0.25
    derived = constant * 2
    derived.grad = 0.5
    micrograd.compile(lambda x: p * x * constant * derived, (1.0,), parameters=[p, unused], backend="python")
    assert [v.data for v in (p, unused, constant, derived)] == [2.0, 3, 4.0, 8.0]
    assert [v.grad for v in (p, unused, constant, derived)] == [0.25, 0.25, 0.25, 0.5]


def broken_backward(x):
    def _backward(grad):
        raise RuntimeError("broken")

    return Value(x.data, (x,), "broken", _backward)


@pytest.mark.parametrize(
    "function",
    [lambda p, c: p * c * (Value(1.0) / Value(0.0)), lambda p, c: broken_backward(p) * c,
     lambda p, c: p if c * p > 0 else c],
    ids=["in the function", "in backward", "in a branch"],
)  # fmt: skip
def test_a_failed_compilation_leaves_no_trace_in_any_value(function):
    p, constant = Value(2.0), Value(4.0)
    p.grad = constant.grad = 0.25
    with pytest.raises((TypeError, ArithmeticError, RuntimeError)):
        micrograd.compile(lambda: function(p, constant), (), parameters=[p], backend="python")
    assert [p.data, p.grad, constant.data, constant.grad] == [2.0, 0.25, 4.0, 0.25]


def test_a_function_may_have_no_arguments_or_no_parameters(backend):
    p = Value(3.0)
    fast = micrograd.compile(lambda: p * p, (), parameters=[p], backend=backend)
    assert (fast(), fast.map(), fast.backward(), p.grad) == (9.0, [9.0], 9.0, 6.0)
    assert fast.value_and_grad() == (9.0, ())
    fast = micrograd.compile(lambda x: x * x, (1.0,), backend=backend)
    assert (fast(3.0), fast.map([3.0, 4.0]), fast.value_and_grad(3.0)) == (9.0, [9.0, 16.0], (9.0, 6.0))
    with pytest.raises(ValueError, match=r"compiled without parameters to add gradients to: give compile"):
        fast.backward([3.0, 4.0])


def test_a_function_may_return_its_argument_its_parameter_or_a_number(backend):
    p = Value(3.0)
    assert micrograd.compile(lambda x: x, (1.0,), backend=backend).value_and_grad(2.0) == (2.0, 1.0)
    fast = micrograd.compile(lambda x: 7, (1.0,), parameters=[p], backend=backend)
    assert (fast.value_and_grad(2.0), fast.backward([1.0, 2.0]), p.grad) == ((7.0, 0.0), 7.0, 0.0)
    fast = micrograd.compile(lambda x: p, (1.0,), parameters=[p], backend=backend)
    assert (fast.value_and_grad(2.0), fast.backward([1.0, 2.0]), p.grad) == ((3.0, 0.0), 3.0, 1.0)


def test_gradients_come_in_the_shape_of_the_arguments(backend):
    def function(a, b, c):
        return a * b[0] * c[1][0] + c[0][1] * b[1]

    args = (2.0, [3.0, 4.0], [[5.0, 6.0], [7.0, 8.0]])
    fast = micrograd.compile(function, args, backend=backend)
    assert fast.value_and_grad(*args) == (66.0, (21.0, [14.0, 6.0], [[0.0, 4.0], [6.0, 0.0]]))
    fast = micrograd.compile(lambda x: x[0] * x[1], ([1.0, 2.0],), backend=backend)
    assert fast.value_and_grad((3.0, 4.0)) == (12.0, [4.0, 3.0])
    value, gradient = fast.value_and_grad(np.array([3.0, 4.0]))
    assert (value, type(gradient), gradient.tolist()) == (12.0, np.ndarray, [4.0, 3.0])


def test_lists_and_nested_lists_come_out(backend):
    fast = micrograd.compile(
        lambda x: [x[0], [x[1] * 2, (x[0], x[1])], []], ([1.0, 2.0],), backend=backend
    )  # fmt: skip
    assert fast([1.0, 2.0]) == [1.0, [4.0, [1.0, 2.0]], []]
    assert fast.map([[1.0, 2.0], [3.0, 4.0]]) == [[1.0, [4.0, [1.0, 2.0]], []], [3.0, [8.0, [3.0, 4.0]], []]]
    square = micrograd.compile(lambda x: [[x, x], [x, 2 * x]], (1.0,), backend=backend)
    assert square.map([1.0, 3.0]) == [[[1.0, 1.0], [1.0, 2.0]], [[3.0, 3.0], [3.0, 6.0]]]
    square = micrograd.compile(lambda x: np.array([[x, 2 * x], [x**2, -x]]), (1.0,), backend=backend)
    assert square.map([3.0]) == [[[3.0, 6.0], [9.0, -3.0]]]
    assert micrograd.compile(lambda x: [], (1.0,), backend=backend).map([1.0, 2.0]) == [[], []]


def test_a_list_has_no_gradient():
    p = Value(1.0)
    fast = micrograd.compile(lambda x: [p * x, x], (1.0,), parameters=[p], backend="python")
    for attempt in (lambda: fast.backward([1.0]), lambda: fast.value_and_grad(1.0)):
        with pytest.raises(TypeError, match=r"a list of shape \(2,\).*mean"):
            attempt()
    assert p.grad == 0.0
    assert "backward" not in fast.source


def test_ragged_and_empty_lists_go_in(backend):
    def function(tree, nothing):
        return tree[0][0] * tree[1][1] + tree[1][0] + tree[2] + len(nothing)

    example = [[1.0], [2.0, 3.0], 4.0]
    fast = micrograd.compile(function, (example, []), backend=backend)
    assert fast(example, []) == 9.0
    assert fast.value_and_grad(example, []) == (9.0, ([[3.0], [1.0, 1.0], 1.0], []))
    assert fast.map([example, [[5.0], [6.0, 7.0], 8.0]], [[], []]) == [9.0, 49.0]


def test_each_shape_is_traced_once(backend):
    shapes = []
    w = Value(2.0)

    def total(xs):
        shapes.append(len(xs))
        return w * micrograd.sum(xs)

    fast = micrograd.compile(total, ([1.0],), parameters=[w], backend=backend)
    for length in (1, 3, 2, 3, 1, 2):
        assert fast([1.0] * length) == 2.0 * length
        assert fast.backward([[1.0] * length, [2.0] * length]) == 3.0 * length
        assert fast.value_and_grad([1.0] * length)[1] == [2.0] * length
    assert shapes == [1, 3, 2]
    assert w.grad == sum(1.5 * length for length in (1, 3, 2, 3, 1, 2))


@pytest.mark.parametrize(
    ("batch", "came"),
    [
        ([[1.0, 2.0], [1.0]], r"\(1,\)"),
        ([[1.0, 2.0], [1.0, 2.0, 3.0]], r"\(3,\)"),
        ([[1.0, 2.0], 3.0], r"\(\)"),
        ([[1.0, 2.0], [1.0, [2.0]]], "ragged"),
        ([[1.0, 2.0], [[1.0], [2.0]]], r"\(2, 1\)"),
        ([[1.0, 2.0], np.ones((2, 3))], r"\(2, 3\)"),
    ],
)
def test_examples_of_another_shape_than_the_first_are_named_with_both_shapes(batch, came):
    fast = micrograd.compile(lambda x: x[0] + x[1], ([1.0, 2.0],), backend="python")
    with pytest.raises(ValueError, match=rf"{came}.*, expected \(2,\): all examples must have the shape of the "):
        fast.map(batch)


@pytest.mark.parametrize(
    ("batch", "came"),
    [
        ([[1.0]], r"\(\(1,\),\)"),
        ([1.0], r"\(\(\),\)"),
        (np.ones((3, 1)), r"\(\(1,\),\)"),
        (np.ones(3), r"\(\(\),\)"),
        (memoryview(np.ones((3, 1))), r"\(\(1,\),\)"),
        (memoryview(np.ones((3, 1), "f")), r"\(\(1,\),\)"),
        (array("d", [1.0]), r"\(\(\),\)"),
    ],
)
def test_a_shape_that_the_function_does_not_take_is_named_with_the_examples(batch, came):
    fast = micrograd.compile(lambda x: x[0] + x[1], ([1.0, 2.0],), backend="python")
    with pytest.raises(ValueError, match=rf"{came}, expected \(\(2,\),\)"):
        fast.backward(batch)
    assert fast([1.0, 2.0]) == 3.0


def test_a_branch_that_only_another_shape_takes_is_still_told_at_its_line():
    fast = micrograd.compile(lambda x: x[0] if len(x) == 1 or x[0] > 0 else x[1], ([1.0],), backend="python")
    with pytest.raises((TraceError, ValueError), match=re.escape(__file__)):
        fast([1.0, 2.0])


def test_what_is_no_batch_is_refused():
    fast = micrograd.compile(lambda x, y: x * y, (1.0, 2.0), backend="python")
    with pytest.raises(ValueError, match=r"different numbers of examples: \[2, 3\]"):
        fast.backward([1.0, 2.0], [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="no examples"):
        fast.backward([], [])
    with pytest.raises(ValueError, match="takes 2 arguments, not 1"):
        fast.backward([1.0])
    with pytest.raises(ValueError, match="takes 2 arguments, not 3"):
        fast(1.0, 2.0, 3.0)
    with pytest.raises(
        TypeError, match="^got packed examples as one of 2 arguments: they hold all .* so pass them alone$"
    ):
        fast.map(fast.pack([1.0], [2.0]), [1.0])
    for batches, k in (((1.0, [2.0]), 1), (([1.0], 2.0), 2), ((np.array(1.0), [2.0]), 1)):
        with pytest.raises(
            TypeError, match=rf"argument {k}: expected a list or an array of examples, not (array\()?\d"
        ):
            fast.map(*batches)
    with pytest.raises(TypeError, match=r"argument 2: expected a real number, not Value\(data=2.0.*: give its .data"):
        fast.value_and_grad(1.0, Value(2.0))
    other = micrograd.compile(lambda x: x, (1.0,), backend="python")
    with pytest.raises(ValueError, match="expected \\(\\(\\), \\(\\)\\)"):
        fast.map(other.pack([1.0, 2.0]))
    with pytest.raises(ValueError, match=r"shape \(1,\), expected \(\)"):
        other.map([1.0, [2.0]])


class Table:
    """What pandas has: its items are names, its numbers an array."""

    def __init__(self, rows):
        self.rows = np.asarray(rows)

    def __len__(self):
        return len(self.rows)

    def __iter__(self):
        return iter(range(self.rows.shape[-1]))

    def __array__(self, dtype=None, copy=None):
        return self.rows


class Labels(Table):
    """The same without an array."""

    __array__ = property()


def test_a_table_is_its_numbers_not_its_names(backend):
    fast = micrograd.compile(lambda x: 2 * x[0] + x[1], ([1.0, 2.0],), backend=backend)
    assert fast.map(Table([[5.0, 1.0], [6.0, 2.0], [7.0, 3.0]])) == [11.0, 14.0, 17.0]
    single = micrograd.compile(lambda x: 2 * x, (1.0,), backend=backend)
    assert single.map(Table([5.0, 6.0, 7.0])) == [10.0, 12.0, 14.0]
    with pytest.raises(ValueError, match="the Labels of length 3 yielded 2 numbers"):
        single.map(Labels(np.ones((3, 2))))


NO_NUMBERS = [
    {0: 5.0}.keys(), {0: 5.0}.values(), {0: 5.0}.items(), {5.0, 6.0}, frozenset([5.0]), b"56",
    bytearray(b"56"), "56",
]  # fmt: skip


@pytest.mark.parametrize("thing", NO_NUMBERS, ids=lambda thing: type(thing).__name__)
def test_what_holds_no_numbers_one_after_the_other_is_refused_everywhere(backend, thing):
    single = micrograd.compile(lambda x: 2 * x, (1.0,), backend=backend)
    pair = micrograd.compile(lambda x: x[0] * x[1], ([1.0, 2.0],), backend=backend)
    came = re.escape(repr(thing))
    for batch in (lambda: single.map(thing), lambda: pair.pack(thing)):
        with pytest.raises(TypeError, match=f"argument 1: expected a list or an array of examples, not {came}"):
            batch()
    for example in (
        lambda: single(thing), lambda: pair(thing), lambda: pair.map([[1.0, 2.0], thing]),
        lambda: micrograd.compile(lambda x: x, (thing,), backend=backend),
    ):  # fmt: skip
        with pytest.raises((TypeError, ValueError), match=f"argument 1: .* of numbers, not {came}|shape \\(\\), "):
            example()


@pytest.mark.parametrize(
    ("thing", "reason"),
    [
        (None, "expected a real number, not None"),
        (2j, "expected a real number, not 2j"),
        (10**400, "int too large to convert to float"),
        (np.complex64(2j), "expected real numbers, not complex64"),
        (np.array(2j), "expected real numbers, not complex128"),
        (np.ma.masked, "a masked array has gaps"),
        (np.datetime64("2020-01-01"), "expected real numbers, not datetime64"),
    ],
    ids=lambda case: f"{case!s:.20}",
)
def test_what_is_no_real_number_is_refused_everywhere(backend, thing, reason):
    single = micrograd.compile(lambda y, x: 2 * x, (1.0, 1.0), backend=backend)
    pair = micrograd.compile(lambda y, x: x[0] * x[1], (1.0, [1.0, 2.0]), backend=backend)
    for call in (
        lambda: single(1.0, thing), lambda: single.map([1.0], [thing]), lambda: pair(1.0, [1.0, thing]),
        lambda: pair.pack([1.0, 2.0], [[1.0, 2.0], [1.0, thing]]),
        lambda: micrograd.compile(lambda y, x: x, (1.0, [thing]), backend=backend),
    ):  # fmt: skip
        with pytest.raises((TypeError, OverflowError), match=f"argument 2: {reason}"):
            call()


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        (np.array([[1.0, 2j]]), "expected real numbers, not complex128"),
        (np.array([[1.0, 2j]], object), "expected a real number, not 2j"),
        (
            np.ma.masked_array([[1.0, 2.0]], [[False, True]]),
            r"a masked array has gaps: fill them with \.filled\(number\)",
        ),
        (np.array([["1", "2"]]), "expected real numbers, not <U1"),
        (np.array([["1", "2"]], object), "expected a number, or a list or an array of numbers, not '1'"),
        (np.array([[1, 2]], "timedelta64[s]"), "expected real numbers, not timedelta64"),
        (np.array([(1.0, 2.0)], "d,d"), "expected real numbers, not .*'f0'"),
        (np.array(1.0), "expected a list or an array of examples, not array"),
    ],
)
def test_an_array_of_something_else_than_real_numbers_is_refused(backend, array, reason):
    fast = micrograd.compile(lambda x: x[0] * x[1], ([1.0, 2.0],), backend=backend)
    with pytest.raises(TypeError, match=f"argument 1: {reason}"):
        fast.map(array)


def test_tables_and_series_of_pandas_go_by_position(backend):
    pandas = pytest.importorskip("pandas")
    rows = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    difference = micrograd.compile(lambda x: x[0] - 3 * x[1], ([1.0, 2.0],), backend=backend)
    corner = micrograd.compile(lambda x: x[2][0] - 3 * x[0][1], (rows,), backend=backend)
    pair = micrograd.compile(lambda x, y: x[0] * y, ([1.0, 2.0], 1.0), backend=backend)
    for dtype in (float, "float32", int, "Int64", object):
        table = pandas.DataFrame(rows, columns=["b", "a"], index=[2, 0, 1]).astype(dtype)
        assert difference.map(table) == difference.map(difference.pack(table)) == difference.map(rows)
        assert difference.map([row for _, row in table.iterrows()]) == difference.map(rows)
        assert difference(table.loc[0]) == difference(rows[1])
        assert corner(table) == corner(rows)
        assert pair.map(table, table["a"]) == pair.map(rows, [2.0, 4.0, 6.0])
        assert micrograd.compile(lambda x: x[2][0], (table,), backend=backend)(table) == 5.0
    with pytest.raises(TypeError, match="argument 1: expected a real number, not <NA>"):
        difference.map(pandas.DataFrame(rows).astype("Int64").mask(lambda table: table == 4))


def test_packed_tensors_of_pytorch_are_followed_as_arrays_are(backend):
    torch = pytest.importorskip("torch")
    fast = micrograd.compile(lambda x: 2 * x, (1.0,), backend=backend)
    for dtype, followed in ((torch.float64, True), (torch.float32, False)):
        tensor = torch.ones(3, dtype=dtype)
        packed = fast.pack(tensor)
        assert fast.map(packed) == [2.0, 2.0, 2.0]
        tensor[1] = 5.0
        assert fast.map(packed) == [2.0, 10.0 if followed else 2.0, 2.0]


# Packing

LAYOUTS = {
    "lists": lambda rows: rows.tolist(),
    "tuples": lambda rows: tuple(map(tuple, rows.tolist())),
    "a list of arrays": list,
    "an array": lambda rows: rows,
    "float32": lambda rows: rows.astype(np.float32),
    "ints": lambda rows: rows.astype(np.int64),
    "bytes": lambda rows: rows.astype(np.uint8),
    "swapped bytes": lambda rows: rows.astype(">f8"),
    "Fortran": np.asfortranarray,
    "a slice": lambda rows: np.repeat(rows, 2, axis=0)[::2],
    "reversed": lambda rows: rows[::-1].copy()[::-1],
    "a memoryview": memoryview,
    "a memoryview of float32": lambda rows: memoryview(rows.astype(np.float32)),
    "a memoryview of a Fortran array": lambda rows: memoryview(np.asfortranarray(rows)),
    "objects": lambda rows: rows.astype(object),
}


def test_packed_examples_show_how_many_they_are_and_of_what_shape():
    fast = micrograd.compile(lambda x, y: x[0] * y, ([1.0, 2.0], 1.0), backend="python")
    assert repr(fast.pack([[1.0, 2.0]] * 3, [1.0] * 3)) == "<3 packed examples of arguments of shape (2,), ()>"


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


@pytest.mark.parametrize("layout", LAYOUTS)
def test_examples_come_in_any_layout(backend, layout):
    rows = np.arange(12.0).reshape(6, 2)
    fast = micrograd.compile(lambda x: x[0] - 3 * x[1], ([1.0, 2.0],), parameters=[Value(0.0)], backend=backend)
    values = fast.map(LAYOUTS[layout](rows))
    of_numpy = not layout.startswith(("lists", "tuples", "a memoryview"))
    assert type(values) is (np.ndarray if of_numpy else list)
    assert list(values) == (rows[:, 0] - 3 * rows[:, 1]).tolist()
    assert fast.backward(LAYOUTS[layout](rows)) == (rows[:, 0] - 3 * rows[:, 1]).mean()


@pytest.mark.parametrize(
    "batch",
    [array("d", [1, 2, 3]), array("f", [1, 2, 3]), array("i", [1, 2, 3]), memoryview(array("d", [1, 2, 3])),
     memoryview(array("d", [9, 9, 1, 2, 3, 9]))[2:5], memoryview(b"\1\2\3"), range(1, 4), np.array([1, 2, 3]),
     deque([1, 2, 3]), (ctypes.c_double * 3)(1, 2, 3), [np.float64(1), np.float32(2), np.int64(3)],
     [Fraction(1), np.array(2), 3], np.array([1, 2, 3], np.float16)],
    ids=lambda batch: type(batch).__name__,
)  # fmt: skip
def test_numbers_come_in_any_sequence(backend, batch):
    assert list(micrograd.compile(lambda x: 2 * x, (1.0,), backend=backend).map(batch)) == [2.0, 4.0, 6.0]


@pytest.mark.parametrize("layout", ["float32", "ints", "bytes", "swapped bytes", "Fortran", "a slice", "reversed"])
def test_an_array_is_converted_as_a_whole(monkeypatch, layout):
    """Number by number, it takes ten times as long."""
    rows = np.arange(12.0).reshape(6, 2)
    fast = micrograd.compile(lambda x: x[0] - 3 * x[1], ([1.0, 2.0],), backend="python")
    monkeypatch.setattr("micrograd.compiler.dataset._extend", None)
    for _ in range(2):
        assert fast.map(fast.pack(LAYOUTS[layout](rows))).tolist() == (rows[:, 0] - 3 * rows[:, 1]).tolist()


FROZEN = np.ones((3, 2))
FROZEN.flags.writeable = False


@pytest.mark.parametrize("rows", [np.ones((3, 2)), array("d", [1.0, 2.0]), memoryview(np.ones((3, 2))), FROZEN])
def test_contiguous_doubles_are_used_where_they_lie(rows):
    shape = (1.0,) if isinstance(rows, array) else ([1.0, 2.0],)
    fast = micrograd.compile(lambda x: x if isinstance(x, Value) else x[0], shape, backend="python")
    packed = fast.pack(rows)
    assert packed.pointers[0] == np.asarray(rows).ctypes.data
    assert len(packed) == len(rows)


def test_what_cannot_be_used_where_it_lies_is_copied():
    fast = micrograd.compile(lambda x: x[0] + x[1], ([1.0, 2.0],), backend="python")
    for rows in (np.ones((3, 2), np.float32), np.asfortranarray(np.ones((3, 2))), np.ones((6, 2))[::2]):
        packed = fast.pack(rows)
        assert packed.pointers[0] != rows.ctypes.data
        assert fast.map(packed).tolist() == [2.0, 2.0, 2.0]


def test_a_part_of_what_cannot_be_written_to_is_copied():
    rows = np.arange(3.0)
    rows.flags.writeable = False
    fast = micrograd.compile(lambda x: x + 0.0, (1.0,), backend="python")
    assert fast.map(memoryview(rows)[1:]) == fast.map(fast.pack(rows).part(1, 3)).tolist() == [1.0, 2.0]
    assert fast.map(memoryview(bytes(array("d", [1.0, 2.0]))).cast("d")) == [1.0, 2.0]


@pytest.mark.parametrize("other", [np.asarray, np.ndarray.tolist])
def test_a_packed_array_is_kept_alive_and_followed(backend, other):
    fast = micrograd.compile(lambda x, y: x * y, (1.0, 1.0), backend=backend)
    rows = np.arange(1000.0)
    packed = fast.pack(rows, other(rows.copy()))
    assert fast.map(packed)[999] == 999.0**2
    assert packed.rows() is packed.rows()
    rows[999] = 2.0
    assert fast.map(packed)[999] == 2.0 * 999.0
    assert packed.rows() is packed.rows()
    del rows
    gc.collect()
    garbage = [np.full(1000, math.nan) for _ in range(10)]
    assert fast.map(packed)[999] == 2.0 * 999.0
    assert len(garbage) == 10


def test_a_packed_set_can_be_stepped_on_again_and_again(backend):
    model, loss, points, labels = moons()
    fast = micrograd.compile(loss, (points[0], labels[0]), parameters=model.parameters(), backend=backend)
    packed = fast.pack(points, labels)
    assert fast.pack(packed) is packed
    totals = []
    for _ in range(20):
        model.zero_grad()
        totals.append(fast.backward(packed))
        for parameter in model.parameters():
            parameter.data -= 0.1 * parameter.grad
    assert totals[-1] == pytest.approx(mean([loss(x, y) for x, y in zip(points, labels, strict=True)]).data, rel=0.1)
    assert totals == sorted(totals, reverse=True)
    assert fast.map(packed) == fast.map(points, labels)


def test_a_network_learns_as_it_does_eagerly(backend):
    results = []
    for way in ("eager", "compiled"):
        model, loss, points, labels = moons()
        fast = micrograd.compile(loss, (points[0], labels[0]), parameters=model.parameters(), backend=backend)
        for _ in range(10):
            model.zero_grad()
            if way == "eager":
                mean([loss(x, y) for x, y in zip(points, labels, strict=True)]).backward()
            else:
                fast.backward(points, labels)
            for parameter in model.parameters():
                parameter.data -= 0.1 * parameter.grad
        results.append([parameter.data for parameter in model.parameters()])
    assert close(results[1], results[0])
    assert backend == "c" or results[1] == results[0]


def test_a_graph_is_freed_once_it_is_compiled_and_is_there_when_it_is_asked_for(backend):
    gc.collect()
    gc.disable()
    try:
        n_traces = sum(type(each) is Trace for each in gc.get_objects())
        model, loss, points, labels = moons()
        fast = micrograd.compile(loss, (points[0], labels[0]), parameters=model.parameters(), backend=backend)
        fast(points[0], labels[0])
        kept = fast._backends[((2,), ())].stored
        assert kept._graph() is None
        assert sum(type(each) is Trace for each in gc.get_objects()) == n_traces
        source, c_source = fast.source, fast.c_source
        assert kept._graph() is None
    finally:
        gc.enable()
    fast.check(points[0], labels[0])
    graph = kept.graph()
    assert kept.graph() is graph
    assert (fast.source, fast.c_source) == (source, c_source)
    assert fast.value_and_grad(points[0], labels[0])[0] == pytest.approx(fast(points[0], labels[0]), rel=1e-12)


def test_a_function_in_python_is_compiled_when_it_is_first_called():
    fast = micrograd.compile(lambda x: x * x, (1.0,), backend="python")
    functions = fast._backends[((),)]._functions
    assert not functions
    fast(1.0)
    assert [*functions] == ["forward"]
    assert fast.value_and_grad(2.0) == (4.0, 4.0)
    assert [*functions] == ["forward", (0,)]
    assert all(f"def {name}(" in fast.source for name in ("forward", "backward", "value_and_grad"))


# Errors


class Own:
    """Operations whose closures ask for the number."""

    @staticmethod
    def tan(x):
        def _backward(grad):
            x.grad += grad * math.cosh(x.data)

        return Value(scalar.tan(x.data), (x,), "tan", _backward)


def test_a_traced_number_is_no_list():
    def function(x):
        assert not hasattr(x.data, "__len__")
        assert not hasattr(x.data, "__iter__")
        return x * len(x.data)

    with pytest.raises(TypeError, match="has no len"):
        micrograd.compile(function, (1.0,), backend="python")


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x if x > 0 else -x,
        lambda x: x if x else -x,
        lambda x: 1.0 if x == 2 else x,
        lambda x: max(x, 1.0),
        lambda x: min([x, -x]),
        lambda x: sorted([x, -x])[0],
        lambda x: x * (x in [1.0, 2.0]),
        lambda x: x * float(x.data),
        lambda x: x * int(x.data),
        lambda x: x * complex(x.data).real,
        lambda x: x * math.exp(x.data),
        lambda x: x * math.exp(x),
        lambda x: x * float(x),
        lambda x: x * math.floor(x.data),
        lambda x: x * math.ceil(x.data),
        lambda x: x * math.trunc(x.data),
        lambda x: x * round(x.data),
        lambda x: x * round(x.data, 2),
        lambda x: [1.0, 2.0][x.data],
        lambda x: range(x.data)[0],
        lambda x: 1 < x < 2,
        lambda x: functional.grad(lambda v: v if v > 0 else -v)(x),
    ],
)
def test_a_question_for_the_number_is_answered_at_the_users_line_with_the_remedy(function):
    with pytest.raises(TraceError) as error:
        micrograd.compile(function, (1.0,), backend="python")
    line = function.__code__.co_firstlineno
    text = inspect.getsourcelines(function)[0][0].strip()
    assert str(error.value).startswith(f"{__file__}:{line}, `{text}`: ")
    for remedy in ("relu", "where", "abs"):
        assert remedy in str(error.value)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: divmod(x.data, 2)[0],
        lambda x: divmod(7, x.data)[0],
        lambda x: where((x > 0) ^ (x < 2), x, 0.0),
        lambda x: where(True ^ (x > 0), x, 0.0),
        lambda x: where(~(x > 0), x, 0.0),
        lambda x: x.data << 1,
        lambda x: 1 << x.data,
        lambda x: x.data >> 1,
        lambda x: 1 >> x.data,
    ],
)
def test_an_operator_that_a_traced_number_does_not_know_is_named_with_what_to_write(function):
    with pytest.raises(TraceError, match=re.escape("Write a != b for a ^ b")) as error:
        micrograd.compile(function, (1.0,), backend="python")
    text = inspect.getsourcelines(function)[0][0].strip()
    assert str(error.value).startswith(f"{__file__}:{function.__code__.co_firstlineno}, `{text}`: ")


def test_what_is_written_in_place_of_such_operators_compiles(backend):
    fast = micrograd.compile(
        lambda x, y: [divmod(x, y)[0], where((x > 0) != (y > 0), 1.0, 0.0), where(x <= 0, 1.0, 0.0)], (1.0, 1.0),
        backend=backend,
    )  # fmt: skip
    for x, y in ((7.0, 2.0), (-7.0, 2.0), (7.0, -2.0)):
        assert fast(x, y) == [x // y, (x > 0) ^ (y > 0), not x > 0]


@pytest.mark.parametrize("function", [lambda x: f"{x.data:.3f}", lambda x: f"{x:.3f}", lambda x: format(x.data, ".3f")])
def test_a_traced_number_cannot_be_formatted_yet(function):
    with pytest.raises(
        TraceError, match=r"not known yet, so none can be formatted as '\.3f'.* Return it from the function, and format"
    ) as error:
        micrograd.compile(function, (1.0,), backend="python")
    assert inspect.getsourcelines(function)[0][0].strip() in str(error.value)


def test_a_closure_that_uses_math_is_named_with_its_line():
    with pytest.raises(TraceError) as error:
        micrograd.compile(Own.tan, (1.0,), backend="python")
    assert "x.grad += grad * math.cosh(x.data)" in str(error.value)
    assert "micrograd.scalar" in str(error.value)


def test_a_line_without_source_is_named_by_its_number():
    namespace = {}
    exec("def f(x):\n    return x if x > 0 else -x", namespace)
    with pytest.raises(TraceError, match=re.escape("<string>:2, `no source`: ")):
        micrograd.compile(namespace["f"], (1.0,), backend="python")


def test_a_traced_number_shows_itself_as_one():
    shown = []
    micrograd.compile(lambda x: shown.extend([repr(x.data), f"{x.data}"]) or x, (1.0,), backend="python")
    assert re.fullmatch(r"<traced number \d+>", shown[0])
    assert shown[1] == shown[0]


def test_a_traced_number_adds_up_with_numbers_alone():
    def function(x):
        with pytest.raises(TypeError):
            x.data + "1"
        return +x.data * x

    assert micrograd.compile(function, (1.0,), backend="python")(3.0) == 9.0


PARAMETER = Value(1.0)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: {0: 1.0, 1: 5.0}.get(x, 2.0) * x,
        lambda x: {0: 1.0, 1: 5.0}.get(x.data, 2.0) * x,
        lambda x: x * (x in {1.0, 2.0}),
        lambda x: x * len({x.data, x.data}),
        lambda x: x * len({x, x}),
        lambda x: functools.lru_cache(lambda v: 2 * v)(x),
        lambda x: x * {PARAMETER.data: 2.0}.get(1.0, 3.0),
    ],
)
def test_a_lookup_of_a_traced_number_by_its_value_is_an_error_at_the_users_line(function):
    with pytest.raises(TraceError) as error:
        micrograd.compile(function, (1.0,), parameters=[PARAMETER], backend="python")
    assert str(error.value).startswith(f"{__file__}:{function.__code__.co_firstlineno}, `")
    assert "take(values, index) or where" in str(error.value)


def test_values_that_a_function_computes_are_told_apart_by_sets_and_dicts():
    fast = micrograd.compile(lambda x: micrograd.sum([*{x * 2: 1, x * 2: 2}]), (1.0,), backend="python")
    assert fast(3.0) == 12.0


def test_a_traced_condition_chooses_between_values():
    fast = micrograd.compile(lambda x: (x.data > 0).where(x, 2 * x), (1.0,), backend="python")
    assert [fast.value_and_grad(x) for x in (3.0, -3.0)] == [(3.0, 1.0), (-6.0, 2.0)]


def test_a_number_of_another_trace_is_refused():
    kept = []
    micrograd.compile(lambda x: kept.append(x) or x, (1.0,), backend="python")
    for function in (lambda x: x + kept[0], lambda x: kept[0], lambda x: [x, kept[0]]):
        with pytest.raises(TraceError, match="used outside the function"):
            micrograd.compile(function, (1.0,), backend="python")


@pytest.mark.parametrize("result", [lambda v: v, lambda v: [v, 1.0], lambda v: [[v], 2.0]])
def test_a_value_that_was_computed_from_a_parameter_before_is_not_baked_in(result):
    p = Value(2.0)
    before = p * 3
    with pytest.raises(ValueError, match="compute it inside the function"):
        micrograd.compile(lambda x: result(before * x), (1.0,), parameters=[p], backend="python")


def test_a_value_that_was_computed_from_constants_before_is_a_constant():
    constant = Value(2.0) * 3
    fast = micrograd.compile(lambda x: constant * x, (1.0,), backend="python")
    assert fast.value_and_grad(2.0) == (12.0, 6.0)


def test_bad_input_is_refused_at_the_door():
    p = Value(1.0)
    with pytest.raises(ValueError, match=r"'fortran': expected 'auto'"):
        micrograd.compile(lambda x: x, (1.0,), backend="fortran")
    assert micrograd.compile(lambda x: x * 2, (1.0,), backend=type("Name", (str,), {})("python"))(2.0) == 4.0
    with pytest.raises(TypeError, match="example_args is 1.0: expected a tuple of the function's arguments"):
        micrograd.compile(lambda x: x, 1.0)
    with pytest.raises(ValueError, match="twice"):
        micrograd.compile(lambda x: x, (1.0,), parameters=[p, p])
    for parameter in (1.0, p * 2):
        with pytest.raises(TypeError, match="a parameter must be a Value"):
            micrograd.compile(lambda x: x, (1.0,), parameters=[parameter])
    with pytest.raises(TypeError, match=r"parameters is MLP\(.*\): expected a list of Values, such as"):
        micrograd.compile(lambda x: x, (1.0,), parameters=MLP(1, [1]))
    with pytest.raises(TypeError, match=r"function is 'x\*x': expected a function of Values"):
        micrograd.compile("x*x", (1.0,))
    with pytest.raises(ValueError, match="batch_size is 0: expected a finite number, 1 or greater"):
        micrograd.compile(lambda x: x, (1.0,), batch_size=0)
    with pytest.raises(ValueError, match="finite is 1: expected True or False"):
        micrograd.compile(lambda x: x, (1.0,), finite=1)
    with pytest.raises(TypeError, match="optimizer is <class 'micrograd.optim.SGD'>: expected an Optimizer, such as"):
        micrograd.compile(lambda x: p * x, (1.0,), parameters=[p], backend="python").training(SGD)


@pytest.mark.parametrize("result", ["1.5", None, {1.0}, [1.0, "2"], {"a": None}])
def test_a_function_that_does_not_return_numbers_is_refused(result):
    with pytest.raises(TypeError):
        micrograd.compile(lambda x: result, (1.0,), backend="python")


@pytest.mark.parametrize(
    ("function", "x"),
    [
        (lambda x: 2 * x.log(), 0.0),
        (lambda x: 2 * x.exp(), 1000.0),
        (lambda x: 1 / x, 0.0),
        (lambda x: 1 % x, 0.0),
        (lambda x: x**-1, 0.0),
        (lambda x: x**0.5, -1.0),
        (lambda x: x**3, 1e300),
        (lambda x: x**x, -0.5),
        (lambda x: x.sqrt(), 0.0),  # which has a value there, but no derivative
        (lambda x: x.asin(), 1.0),
    ],
)
def test_arithmetic_errors_are_those_of_the_engine_and_name_the_line(function, x):
    with pytest.raises((ArithmeticError, ValueError)) as expected:
        eager(function, x)
    p = Value(1.0)
    fast = micrograd.compile(lambda x: function(p * x), (0.5,), parameters=[p], backend="python")
    with pytest.raises(type(expected.value)) as error:
        fast.value_and_grad(x)
    assert type(error.value) is type(expected.value)
    number, line = re.search(r"in line (\d+) of the compiled code: (.*)$", str(error.value)).groups()
    assert fast.source.splitlines()[int(number) - 1].strip() == line
    assert " = " in line
    with pytest.raises(type(expected.value), match=r"in line \d+"):
        fast.backward([0.5, x])


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (None, "must be real number, not NoneType"),
        (2j, "must be real number, not complex"),
        (10**400, "int too large to convert to float"),
        (Fraction(10**400), "integer division result too large for a float"),
    ],
    ids=lambda case: f"{case!s:.20}",
)
def test_a_parameter_that_holds_no_number_is_named(backend, number, reason):
    p = [Value(1.0), Value(2.0), Value(3.0)]
    fast = micrograd.compile(lambda x: p[1] * x + p[0] + p[2], (1.0,), parameters=p, backend=backend)
    alone = micrograd.compile(lambda: p[1], (), parameters=p, backend=backend)
    p[1].data = number
    for call in (
        lambda: fast(1.0), lambda: fast.backward([1.0, 2.0]), lambda: fast.value_and_grad(1.0), lambda: fast.check(1.0),
        lambda: fast.c_source, alone, alone.backward,
    ):  # fmt: skip
        with pytest.raises(TypeError, match=f"parameter 1 does not hold a number: {reason}"):
            call()
    assert grads(p) == [0.0, 0.0, 0.0]


def test_single_calls_of_all_kinds_give_what_the_function_gives(backend):
    """They share buffers: none is left with numbers of another call, whatever that was given or came to."""

    def function(x, ys):
        return p * x + sum([y * y for y in ys], Value(0.0)).log()

    p = Value(2.0)
    fast = micrograd.compile(function, (1.0, [1.0, 2.0]), parameters=[p], backend=backend)
    for x, ys in [
        (3.0, [1.0, 2.0]), (3, [1, 2]), (True, (1.0, 2.0)), (np.float32(3), np.array([1.0, 2.0])), (3.0, [True, 2.0]),
        (3.0, [1.0, 2.0, 3.0]), (3.0, [4.0, 5.0]), (3.0, [np.int64(4), 5.0]), (4.0, [4.0, 5.0]),
        (4.0, array("d", [4.0, 5.0])),
    ]:  # fmt: skip
        expected = function(Value(float(x)), [Value(float(y)) for y in ys]).data
        for _ in range(2):
            assert fast(x, ys) == pytest.approx(expected, rel=1e-14)
            assert fast.value_and_grad(x, ys)[0] == pytest.approx(expected, rel=1e-14)
    for error, message, x, ys in [
        (ValueError, r"log\(0.0\)", 1.0, [0.0, 0.0]), (TypeError, "argument 2: expected", 9.0, [None, 1.0]),
        (OverflowError, "argument 1: int too large", 10**400, [1.0, 1.0]), (TypeError, "argument 1", "1", [1.0, 1.0]),
        (OverflowError, "argument 2: int too large", 9.0, [1.0, 10**400]), (ValueError, "shape", 9.0, 1.0),
        (ValueError, "takes 2 arguments, not 1", [1.0], None),
    ]:  # fmt: skip
        with pytest.raises(error, match=message):
            fast(*[x, ys][: 2 - (ys is None)])
        assert fast(1.0, [1.0, 0.0]) == 2.0
    row = np.array([1.0, 0.0])
    assert fast(1.0, row) == fast(1.0, [1.0, 0.0]) == 2.0
    fast(1.0, [7.0, 8.0])
    assert row.tolist() == [1.0, 0.0]  # arrays are no buffers for other calls


def test_another_error_of_types_is_passed_on(monkeypatch):
    fast = micrograd.compile(lambda x: x, (1.0,), backend="python")
    monkeypatch.setattr(fast._backends[((),)], "run", lambda *_: len(1))
    with pytest.raises(TypeError, match="has no len"):
        fast(1.0)


def test_gradients_are_not_touched_by_a_call_that_fails():
    p = Value(1.0)
    fast = micrograd.compile(lambda x: p * x.log(), (1.0,), parameters=[p], backend="python")
    p.grad = 0.5
    with pytest.raises(ValueError, match="in line"):
        fast.backward([1.0, 2.0, 0.0])
    assert p.grad == 0.5


def test_while_one_thread_traces_a_function_the_others_see_numbers_and_trace_it_too():
    p = Value(3.0)
    tracing, go_on = threading.Event(), threading.Event()

    def slow(x):
        tracing.set()
        assert go_on.wait(10)
        return p * x

    slowly = []
    thread = threading.Thread(target=lambda: slowly.append(compiled(slow, p)))
    fast = compiled(lambda x: p * x, p)
    thread.start()
    assert tracing.wait(10)
    eager = p * 2.0
    eager.backward()
    assert (repr(p), eager.data, type(eager)) == ("Value(data=3.0, grad=2.0)", 6.0, Value)
    assert (fast.backward([2.0]), p.grad, compiled(lambda x: p + x, p)(2.0)) == (6.0, 4.0, 5.0)
    assert [pickle.loads(pickle.dumps(p)).data, copy.deepcopy(p).grad] == [3.0, 4.0]
    p.data = 5.0
    go_on.set()
    thread.join()
    assert (slowly[0](2.0), p.grad, type(p)) == (10.0, 4.0, Value)


def compiled(function, *parameters):
    return micrograd.compile(function, (1.0,), parameters=parameters, backend="python")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_may_fork_while_another_thread_traces():
    p = Value(3.0)
    tracing, go_on = threading.Event(), threading.Event()

    def slow(x):
        tracing.set()
        go_on.wait(10)
        return p * x

    thread = threading.Thread(target=compiled, args=(slow, p))
    thread.start()
    assert tracing.wait(10)
    process = os.fork()
    if process == 0:
        signal.alarm(10)
        fast = compiled(lambda x: p * x, p)
        os._exit((fast(2.0), fast.backward([2.0]), p.grad) != (6.0, 6.0, 2.0))
    assert os.waitpid(process, 0)[1] == 0
    go_on.set()
    thread.join()


def test_a_function_may_be_compiled_while_another_is_traced():
    p, q = Value(3.0), Value(5.0)

    inner = []

    def outer(x):
        inner.append(compiled(lambda y: p * q * y, p, q))
        return p * x

    assert (compiled(outer, p)(2.0), inner[0](2.0)) == (6.0, 30.0)
    assert (repr(p), repr(q), type(p)) == ("Value(data=3.0, grad=0.0)", "Value(data=5.0, grad=0.0)", Value)


def test_a_parameter_of_a_kind_of_its_own_stays_of_that_kind():
    class Weight(Value):
        """A Value that knows more."""

        def double(self):
            return 2 * self

    w = Weight(3.0)
    assert compiled(lambda x: w.double() * x, w)(2.0) == 12.0
    assert type(w) is Weight


def test_a_backward_within_the_function_leaves_the_gradients_of_constants_as_they_were():
    w, p = Value(2.0), Value(3.0)
    w.grad = p.grad = 0.25

    def residual(x):
        y = w * p * x * x
        y.backward()
        return x.grad * x

    fast = compiled(residual, p)
    assert (fast(3.0), w.grad, p.grad) == (108.0, 0.25, 0.25)


def test_a_backward_within_the_function_adds_to_parameters_and_not_to_arguments(backend):
    def f(x):
        y = x * x
        y.backward()
        return x.grad * x

    assert micrograd.value_and_grad(f)(3.0) == (18.0, 6.0)
    assert micrograd.compile(f, (1.0,), backend=backend).value_and_grad(3.0) == (18.0, 6.0)


def test_a_number_that_was_kept_while_a_function_was_traced_is_not_computed_with():
    class Model:
        def __call__(self, x):
            self.kept = x * 2
            return self.kept + 1

    model = Model()
    assert compiled(model)(3.0) == 7.0
    with pytest.raises(TraceError, match=r"test_function.py:\d+, `model.kept \* 3`: .*kept after its function"):
        model.kept * 3
    with pytest.raises(TraceError, match="used outside the function that was compiled"):
        compiled(lambda x: x * model.kept)


def test_the_options_are_given_by_name_and_the_rest_may_be():
    assert micrograd.compile(function=lambda x: 2 * x, example_args=(1.0,), backend="python")(3.0) == 6.0
    with pytest.raises(TypeError, match="positional argument"):
        micrograd.compile(lambda x: 2 * x, (1.0,), [Value(1.0)])


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
    with pytest.raises(FloatingPointError, match=r"backward pass, / of \[1.0, 0.0\]: .*division by zero"):
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


def test_what_a_function_does_to_the_gradients_of_parameters_counts(backend):
    def function(w, x):
        (w * x).backward()
        return w * w

    w, v = Value(2.0), Value(2.0)
    micrograd.compile(lambda x: function(w, x), (1.0,), parameters=[w], backend=backend).backward([3.0])
    function(v, 3.0).backward()
    assert w.grad == v.grad == 7.0


def test_a_choice_that_is_made_before_the_call_is_followed_only_where_it_does_not_matter(backend):
    assert micrograd.compile(lambda x: where(True, 1.5, x) * x, (1.0,), backend=backend)(2.0) == 3.0
    w = Value(2.0)
    chosen, not_chosen = where(True, w, 1.0), where(False, w, 1.0)
    with pytest.raises(ValueError, match=r"the result of where, 2\.0, does not depend on its operands"):
        micrograd.compile(lambda x: chosen * x, (1.0,), parameters=[w], backend=backend)
    assert micrograd.compile(lambda x: not_chosen * x, (1.0,), parameters=[w], backend=backend)(2.0) == 2.0
    constant = Value(3.0)
    with pytest.raises(ValueError, match=r"the result of first, 3\.0, does not depend on .* add 0 times"):
        micrograd.compile(lambda x: Value(constant.data, (constant, x), "first"), (1.0,), backend=backend)


# Indices


def table(rows, columns, seed=1):
    rng = random.Random(seed)
    return [[Value(rng.uniform(-1, 1)) for _ in range(columns)] for _ in range(rows)]


def reading(tokens, target, embedding, weights):
    """The squared logarithm of a probability after some tokens: of rows that are taken, and a computed index."""
    hidden = [micrograd.sum(column).tanh() for column in zip(*[take(embedding, t) for t in tokens], strict=True)]
    logits = [dot(w, hidden) for w in weights]
    loss = micrograd.sum([x.exp() for x in logits]).log() - take(logits, target)
    return loss * loss * take([0.5, 1.0, 2.0], 2 - target) + take(weights[0], target + 1)


@pytest.mark.parametrize("n", [1, 3, 9])
def test_an_index_is_an_argument_like_any_other(backend, n):
    embedding, weights = table(7, 5), table(3, 5, seed=2)
    parameters = [p for row in embedding + weights for p in row]
    rng = random.Random(3)
    examples = [([rng.randrange(7) for _ in range(4)], rng.randrange(3)) for _ in range(n)]
    fast = micrograd.compile(
        lambda tokens, y: reading(tokens, y, embedding, weights), examples[0], parameters=parameters, backend=backend
    )
    loss = mean([reading(*example, embedding, weights) for example in examples])
    loss.backward()
    expected = grads(parameters)
    for parameter in parameters:
        parameter.grad = 0.0
    assert fast.backward(*zip(*examples, strict=True)) == pytest.approx(loss.data, rel=1e-12)
    assert grads(parameters) == pytest.approx(expected, rel=1e-12, abs=1e-15)
    assert fast.value_and_grad(*examples[0]) == (pytest.approx(fast(*examples[0])), ([0.0] * 4, 0.0))


@pytest.mark.parametrize("index", [3, -1, 0.5, math.nan, math.inf, 1e300])
def test_an_index_that_is_none_is_an_error_that_names_it_and_its_example_before_anything_has_changed(backend, index):
    [weights], seen = table(1, 3), f"the index is {float(index)!r}: expected a whole number from 0 to 2"
    fast = micrograd.compile(lambda x, i: take(weights, i) * x, (1.0, 0), parameters=weights, backend=backend)
    for n in (2, 9):
        with pytest.raises(ValueError, match=rf"{re.escape(seen)}, in example 1\b"):
            fast.backward([1.0] * n, [2, index] + [0] * (n - 2))
        assert grads(weights) == [0.0, 0.0, 0.0]
    with pytest.raises(ValueError, match=rf"{re.escape(seen)}(, in line|$)"):
        fast(1.0, index)


def test_a_row_of_parameters_is_read_and_its_gradient_added_at_the_index():
    embedding = table(100, 8)
    parameters = [p for row in embedding for p in row]
    fast = micrograd.compile(
        lambda i: micrograd.sum(take(embedding, i)).tanh(), (0,), parameters=parameters, backend="python"
    )
    assert fast.source.count("take(p[") == 3 * 8
    assert fast.source.count("add_at(g, ") == 8
    assert len(fast.source.splitlines()) < 80
    fast.backward([99, 3, 99])
    slope = [1 - math.tanh(sum(v.data for v in row)) ** 2 for row in embedding]
    assert [row[0].grad for row in embedding] == pytest.approx(
        [slope[i] / 3 * (2 if i == 99 else 1 if i == 3 else 0) for i in range(100)]
    )


def test_parameters_that_are_no_row_are_chosen_one_by_one(backend):
    a, b, c, d = parameters = [Value(x) for x in (1.0, 2.0, 3.0, 4.0)]
    for values in ([a, b, d], [c, b, a], [a, a, b], [a, Value(5.0), b], [d]):
        fast = micrograd.compile(
            lambda x, i, values=values: take(values, i) ** 2 * x, (1.0, 0), parameters=parameters, backend=backend
        )
        for i, value in enumerate(values):
            for parameter in parameters:
                parameter.grad = 0.0
            assert fast.backward([3.0], [i]) == 3 * value.data**2
            assert grads(parameters) == [6 * p.data if p is value else 0.0 for p in parameters]


def test_the_same_row_may_be_taken_twice_and_used_otherwise_too(backend):
    [weights] = table(1, 4)

    def f(i, j):
        return take(weights, i) * take(weights, i) * take(weights, j) + weights[1] * weights[2]

    fast = micrograd.compile(f, (0, 0), parameters=weights, backend=backend)
    for i, j in ((2, 1), (1, 1), (3, 0)):
        eager = f(i, j)
        eager.backward()
        expected = grads(weights)
        for w in weights:
            w.grad = 0.0
        assert fast.backward([i], [j]) == pytest.approx(eager.data)
        assert grads(weights) == pytest.approx(expected)
        for w in weights:
            w.grad = 0.0


def test_parameters_may_be_chosen_by_a_condition(backend):
    [weights] = table(1, 2)
    for condition in (lambda x: x > 1, lambda x: (x > 1) & (x < 2.5), lambda x: x == x):

        def f(x, condition=condition):
            return take(weights, condition(x)) * x

        fast = micrograd.compile(f, (0.0,), parameters=weights, backend=backend)
        for x in (0.0, 1.0, 2.0, 3.0):
            f(Value(x)).backward()
            expected = grads(weights)
            for w in weights:
                w.grad = 0.0
            assert fast.backward([x]) == f(x).data
            assert grads(weights) == expected
            for w in weights:
                w.grad = 0.0


def test_a_choice_of_one_is_checked_all_the_same(backend):
    fast = micrograd.compile(lambda x, i: take([x * x], i), (1.0, 0), backend=backend)
    assert fast.value_and_grad(3.0, 0) == (9.0, (6.0, 0.0))
    with pytest.raises(ValueError, match=r"the index is 1\.0: expected a whole number from 0 to 0"):
        fast(3.0, 1)


def test_gradients_that_are_no_whole_row_are_added_one_by_one(backend):
    [weights] = table(1, 3)

    def f(i):
        return 2 * take(weights, i) + where(i == 0, weights[0], 0.0) + weights[1].relu() + take(weights, i).detach()

    def alone(i):
        return take(weights, i).detach() + weights[0]

    def between(i):
        return take(weights, i) + micrograd.sum([where(i == k + 0.5, w, 0.0) for k, w in enumerate(weights)])

    def beyond(i):
        return take(weights, i) + where(i == math.inf, weights[1], 0.0)

    for function in (f, alone, between, beyond):
        fast = micrograd.compile(function, (0,), parameters=weights, backend=backend)
        for i in range(3):
            function(Value(float(i))).backward()
            expected = grads(weights)
            for w in weights:
                w.grad = 0.0
            fast.backward([i])
            assert grads(weights) == pytest.approx(expected)
            for w in weights:
                w.grad = 0.0


def test_an_index_that_is_known_while_tracing_leaves_no_choice(backend):
    [weights] = table(1, 4)
    fast = micrograd.compile(lambda x: take(weights, 2) * x, (1.0,), parameters=weights, backend=backend)
    assert "take" not in fast.source
    assert fast(2.0) == 2 * weights[2].data


def test_derivatives_within_a_compiled_function_go_through_an_index(backend):
    def f(x, i):
        return functional.grad(lambda v: take([v * v, v**3, v], i) * v)(x)

    fast = micrograd.compile(f, (1.0, 0), backend=backend)
    assert [fast(2.0, i) for i in range(3)] == [12.0, 32.0, 4.0]
    assert [fast.value_and_grad(2.0, i)[1][0] for i in range(3)] == [12.0, 48.0, 2.0]


# The source


def neuron():
    w1, w2, b = parameters = [Value(0.5), Value(-0.25), Value(0.1)]
    return parameters, lambda x: dot([w1, w2], x, b).tanh()


def test_the_source_of_a_neuron_can_be_read():
    parameters, function = neuron()
    source = micrograd.compile(function, ([1.0, 2.0],), parameters=parameters, backend="python").source
    backward = source[source.index("def backward") : source.index("def value_and_grad")]
    assert "\n".join(line for line in backward.splitlines() if '"""' not in line).strip() == textwrap.dedent(
        """\
        def backward(p, g, seed, examples):
            [p0, p1, p2] = p
            [g0, g1, g2] = g
            outputs = []
            for x in reversed(examples):
                [x0, x1] = x
                t0 = p2 + p0 * x0 + p1 * x1
                t1 = tanh(t0)
                # forward ends here, backward begins
                t2 = abs(t0)
                t3 = (-2.0) * t2
                t4 = exp(t3)
                t5 = 1.0 - t1 * t1
                t6 = 4.0 * t4
                t7 = 1.0 + t4
                t8 = t7 * t7
                t9 = t6 / t8
                t10 = t5 if (t2 < 1.0) else t9
                dt0 = seed * t10
                g0 = g0 + dt0 * x0
                g1 = g1 + dt0 * x1
                g2 = g2 + dt0
                outputs.append(t1)
            return outputs, [g0, g1, g2]"""
    )


def test_the_source_runs_elsewhere_and_gives_the_same_numbers():
    parameters, function = neuron()
    fast = micrograd.compile(function, ([1.0, 2.0],), parameters=parameters, backend="python")
    namespace = {"tanh": math.tanh, "exp": math.exp}
    exec(fast.source, namespace)
    numbers = [parameter.data for parameter in parameters]
    assert namespace["forward"](numbers, [3.0, 4.0]) == [fast([3.0, 4.0])]
    value, gradient = fast.value_and_grad([3.0, 4.0])
    assert namespace["value_and_grad"](numbers, [3.0, 4.0]) == (value, gradient)
    fast.backward([[3.0, 4.0]])
    assert namespace["backward"](numbers, [0.0] * 3, 1.0, [[3.0, 4.0]]) == ([value], grads(parameters))


def everything(xs):
    """A function with every operation in it."""
    total = 0.0
    for k, operation in enumerate(OPERATIONS):
        total = total + operation.apply(*xs[k])
    return total


def test_the_source_is_assignments_one_a_line():
    example = [list(operation.points[0]) for operation in OPERATIONS]
    tree = ast.parse(micrograd.compile(everything, (example,), backend="python").source)
    lines = set()
    assert [type(node) for node in tree.body] == [ast.FunctionDef] * 3
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            assert len(node.targets) == 1
            assert node.lineno == node.end_lineno
            assert node.lineno not in lines
            lines.add(node.lineno)
    assert len(lines) > 100


def test_nothing_that_the_user_wrote_gets_into_the_source():
    evil = "\n    import os\n    os.abort()  # '''\"\"\"*/ "
    p, c = Value(2.0, label=evil), Value(3.0, label=evil)
    p.__dict__[evil] = evil

    def own(x):
        def _backward(grad):
            x.grad += grad

        return Value(x.data, (x,), evil, _backward, label=evil)

    function = lambda x: own(everything(x) * p * c)  # noqa: E731
    function.__name__ = function.__qualname__ = evil
    example = [list(operation.points[0]) for operation in OPERATIONS]
    fast = micrograd.compile(function, (example,), parameters=[p], backend="python")
    for source in (fast.source, fast.c_source):
        assert "abort" not in source
    for token in tokenize.generate_tokens(io.StringIO(fast.source).readline):
        if token.type == tokenize.NAME and not keyword.iskeyword(token.string):
            assert re.fullmatch(
                r"d?[pgxt]\d*|seed|outputs|examples|append|reversed|forward|backward|value_and_grad|"
                r"inf|nan|abs|largest|power|take",
                token.string,
            ) or token.string in scalar.FUNCTIONS  # fmt: skip
        elif token.type == tokenize.STRING:
            assert token.string.startswith('"""')


def test_the_generated_code_cannot_reach_the_builtins():
    fast = micrograd.compile(lambda x: x, (1.0,), backend="python")
    functions = fast._backends[((),)]._functions
    assert fast(2.0) == 2.0
    assert set(functions["forward"].__globals__["__builtins__"]) == {"abs", "range", "reversed"}


def test_a_compiled_function_shows_what_it_is(backend):
    def loss(x):
        return p * x

    p = Value(1.0)
    fast = micrograd.compile(loss, (1.0,), parameters=[p], backend=backend)
    assert repr(fast) == f"<loss compiled to {'C' if backend == 'c' else 'Python'}, 1 parameters>"


# Threads


def test_threads_get_the_numbers_of_one(backend):
    tasks = []
    for _ in range(8):
        model, loss, points, labels = moons(30)
        fast = micrograd.compile(loss, (points[0], labels[0]), parameters=model.parameters(), backend=backend)
        tasks.append((model, fast, points, labels))
    shared = tasks[0][1]
    alone = shared.map(*tasks[0][2:])
    total = shared.backward(*tasks[0][2:])
    gradient = grads(tasks[0][0].parameters())
    tasks[0][0].zero_grad()
    wrong, barrier = [], threading.Barrier(8)

    def work(model, fast, points, labels):
        barrier.wait()
        for _ in range(20):
            model.zero_grad()
            if fast.backward(points, labels) != total or grads(model.parameters()) != gradient:
                wrong.append("backward")
            if shared.map(points, labels) != alone:
                wrong.append("map")
        barrier.wait()

    threads = [threading.Thread(target=work, args=task) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert all(grads(model.parameters()) == gradient for model, *_ in tasks)


@given(st.integers(0, 2**31))
@random_examples(20)
def test_networks_of_any_shape_agree_with_the_engine_to_the_last_bit(seed):
    rng = random.Random(seed)
    model = MLP(
        rng.randint(1, 3), [rng.randint(1, 4), rng.randint(1, 4), 1],
        activation=rng.choice(["tanh", "relu", "sigmoid", "softplus", "leaky_relu", "linear"]),
    )  # fmt: skip
    inputs = len(model.layers[0].neurons[0].w)
    batch = [[rng.uniform(-2, 2) for _ in range(inputs)] for _ in range(3)]
    fast = micrograd.compile(lambda x: model(x) ** 2, (batch[0],), parameters=model.parameters(), backend="python")
    total = fast.backward(batch)
    gradients = grads(model.parameters())
    model.zero_grad()
    expected = mean([model(x) ** 2 for x in batch])
    expected.backward()
    assert (total, gradients) == (expected.data, grads(model.parameters()))


def test_no_garbage_is_looked_for_while_a_function_is_traced_and_afterwards_as_before():
    seen = []

    def function(x):
        seen.append(gc.isenabled())
        return x * x

    try:
        for was in (False, True):
            (gc.enable if was else gc.disable)()
            micrograd.compile(function, (1.0,), backend="python")
            assert gc.isenabled() == was
    finally:
        gc.enable()
    assert seen == [False, False]


def test_example_args_without_their_comma_are_refused_with_what_to_write():
    model = nn.MLP(2, [1], rng=1)
    with pytest.raises(TypeError, match=r"takes one argument: write \(\[0\.0, 0\.0\],\), with a comma$"):
        micrograd.compile(model, ([0.0, 0.0]))
    with pytest.raises(TypeError, match=r"a tuple of the function's arguments, such as \(0\.5,\)$"):
        micrograd.compile(abs, 0.5)
    assert micrograd.compile(lambda x, y: x + y, [1.0, 2.0], backend="python")(1.0, 2.0) == 3.0
