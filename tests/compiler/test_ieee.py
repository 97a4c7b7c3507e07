"""errors="ieee": infinities and NaNs come out as numbers, those of NumPy, whatever computes them."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import micrograd
from micrograd import Backend, Value, optim, scalar, take, where
from tests.helpers import graphs, has_compiler, needs_compiler, random_examples, run, value_and_gradient

NUMBERS = [
    *(-math.inf, -1e308, -750.0, -2.5, -2.0, -1.0, -1e-310, -0.0, 0.0, 1e-310, 0.5, 1.0, 2.0, 3.0, 750.0, 1e200),
    *(math.inf, math.nan),
]
UNARY = {
    name: (function, found)
    for name, function in scalar.FUNCTIONS.items()
    if isinstance(found := getattr(np, f"arc{name[1:]}" if name[0] == "a" else name, None), np.ufunc)
    and function.arity == found.nin == 1
}
CONSTANT = {
    "square": lambda x: x**2, "cube": lambda x: x**3, "inverse": lambda x: x**-1, "third root": lambda x: x ** (1 / 3),
    "of a constant": lambda x: 1.0 / x,
}  # fmt: skip
UNARY |= {name: (function, function) for name, function in CONSTANT.items()}
BINARY = {
    "product": lambda x, y: x * y, "difference": lambda x, y: x - y, "quotient": lambda x, y: x / y,
    "power": lambda x, y: x**y, "remainder": lambda x, y: x % y,
    "overflow on the way": lambda x, y: (x * 1e300) ** 2 / y,
}  # fmt: skip


def same(found, expected):
    """The same numbers, to 4 units in the last place; NaN and the signs of infinities and zeros included."""
    found, expected = np.asarray(found), np.asarray(expected)
    np.testing.assert_allclose(found, expected, rtol=1e-15)
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[known]), np.signbit(expected[known]))


@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_functions_and_operations_are_those_of_numpy(backend, name):
    function, of_numpy = UNARY[name] if name in UNARY else (BINARY[name], BINARY[name])
    points = [*itertools.product(NUMBERS, repeat=1 if name in UNARY else 2)]
    fast = micrograd.compile(function, (0.5, 1.0)[: len(points[0])], backend=backend, errors="ieee")
    columns = [*zip(*points, strict=True)]
    with np.errstate(all="ignore"):
        expected = of_numpy(*map(np.array, columns))
    same(fast.map(*columns), expected)
    same([fast(*point) for point in points], expected)


SMOOTH = [
    lambda x, y: x.log() * y, lambda x, y: (x * y).sqrt(), lambda x, y: x.exp() / y,
    lambda x, y: (x.exp() * y).sigmoid() + (x * y).relu(), lambda x, y: x**3 / y + y**-2.0,
    lambda x, y: (x / y).atanh() + x.log1p(),
]  # fmt: skip


@pytest.mark.parametrize("function", SMOOTH)
def test_gradients_are_those_of_pytorch_where_it_has_numbers(backend, function):
    torch = pytest.importorskip("torch")
    fast = micrograd.compile(function, (1.0, 1.0), backend=backend, errors="ieee")
    reference = micrograd.compile(function, (1.0, 1.0), backend="python", errors="ieee")
    for point in itertools.product([-2.0, -1.0, 0.0, 1.0, 750.0], [-1.0, 0.0, 3.0]):
        value, gradient = fast.value_and_grad(*point)
        same([value, *gradient], [reference(*point), *reference.value_and_grad(*point)[1]])
        leaves = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in point]
        result = function(*leaves)
        result.backward()
        expected = np.array([result.item(), *[leaf.grad.item() for leaf in leaves]])
        known = ~np.isnan(expected) & ~np.isnan([value, *gradient])
        np.testing.assert_allclose(np.array([value, *gradient])[known], expected[known], rtol=1e-12)


def test_roots_are_powers_of_a_half(backend):
    """NumPy takes square roots for them, which differ at -inf and -0.0."""
    fast = micrograd.compile(lambda x: x**0.5, (1.0,), backend=backend, errors="ieee")
    numbers = [x for x in NUMBERS if x != -math.inf and math.copysign(1.0, x) + x != -1.0]
    with np.errstate(all="ignore"):
        same(fast.map(numbers), np.sqrt(numbers))


def test_only_the_errors_of_python_are_gone(backend):
    for options in ({}, {"errors": "raise"}):
        fast = micrograd.compile(lambda x: x.log(), (1.0,), backend=backend, **options)
        with pytest.raises(ValueError, match="log"):
            fast(-1.0)
    fast = micrograd.compile(lambda x: x.log(), (1.0,), backend=backend, errors="ieee")
    with pytest.raises(TypeError, match="expected a number"):
        fast("1")
    with pytest.raises(FloatingPointError, match=r"forward pass, log of \[-1.0\]"):
        fast.check(-1.0)


def test_an_index_that_does_not_exist_gives_nan_and_no_gradient(backend):
    weights = [Value(2.0), Value(3.0), Value(5.0)]
    row = micrograd.compile(lambda i: take(weights, i), (0.0,), parameters=weights, backend=backend, errors="ieee")
    computed = micrograd.compile(lambda i, x: take([x, x * x], i), (0.0, 1.0), backend=backend, errors="ieee")
    indices = [1.0, 3.0, -1.0, 0.5, math.nan, 2.0]
    same(row.map(indices), [3.0, math.nan, math.nan, math.nan, math.nan, 5.0])
    same(computed.map(indices, [3.0] * 6), [9.0, *[math.nan] * 5])
    assert math.isnan(row.backward(indices))
    assert [weight.grad for weight in weights] == [0.0, 1 / 6, 1 / 6]


def test_constants_are_folded_as_they_are_computed(backend):
    def function(x):
        huge = 0 * x + 1e300 if isinstance(x.data, float) else where(x == x, x * 0 + 1e300, 0.0)
        return huge**2 / (x - x)

    fast = micrograd.compile(function, (1.0,), backend=backend, errors="ieee")
    assert fast(1.0) == math.inf
    zero = micrograd.compile(lambda x: (x**0 - 1).log() + 1 / (x**0 - 1), (1.0,), backend=backend, errors="ieee")
    assert math.isnan(zero(1.0))
    with pytest.raises((ValueError, ZeroDivisionError)):
        micrograd.compile(lambda x: (x**0 - 1).log(), (1.0,), backend=backend)


@needs_compiler
def test_single_precision_overflows_to_infinity():
    fast = micrograd.compile(lambda x: x * x, (1.0,), backend=Backend("c", precision="single"), errors="ieee")
    assert fast(1e30) == math.inf
    assert fast.map(np.array([1e30, 2.0], np.float32)).tolist() == [math.inf, 4.0]
    assert fast.value_and_grad(1e30) == (math.inf, pytest.approx(2e30))


def test_a_training_step_still_raises(backend):
    p = Value(0.0)
    fast = micrograd.compile(lambda x: (p * x).log(), (1.0,), parameters=[p], backend=backend, errors="ieee")
    assert fast.backward([1.0]) == -math.inf
    with fast.training(optim.SGD([p], 0.1)) as step, pytest.raises((ArithmeticError, ValueError)):
        step([1.0])
    assert p.data == 0.0


@given(graphs(), st.lists(st.sampled_from([-math.inf, -800.0, -2.0, -0.0, 0.0, 1.0, 30.0, 800.0, math.inf, math.nan])))
@random_examples(12 if has_compiler() else 60)
def test_random_graphs_give_the_same_numbers_on_all_backends(graph, extremes):
    numbers, steps = graph

    def function(xs):
        return run(xs, steps)

    points = np.array(
        [[*extremes, *numbers][: len(numbers)], numbers, np.roll(numbers, 1), *[[x] * len(numbers) for x in extremes]]
    )
    results = []
    for backend in ("python", "c") if has_compiler() else ("python",):
        fast = micrograd.compile(function, (numbers,), backend=backend, errors="ieee")
        of_one = [fast.value_and_grad(point) for point in points]
        rows = [[value, *gradient] for value, gradient in of_one]
        np.testing.assert_allclose(fast.map(points), [row[0] for row in rows], rtol=1e-11, atol=1e-12)
        results.append(rows)
    for rows in results[1:]:
        np.testing.assert_allclose(rows, results[0], rtol=1e-9, atol=1e-11)
    value, gradient = value_and_gradient(numbers, steps)
    np.testing.assert_allclose(results[0][1], [value, *gradient], rtol=1e-13, atol=1e-14)
