"""Arrays as arguments of `compile`: the function receives arrays, as it does without the compiler."""

import copy
import math
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import micrograd
from micrograd import Value, compiler, fit, grad, losses, nn
from micrograd.compiler import TraceError
from micrograd.optim import SGD

pytestmark = pytest.mark.usefixtures("cache")

FUNCTIONS = {
    "times a number": lambda x: sum(v * v for v in 2 * x),
    "plus an array": lambda x: (x + x)[1],
    "a power": lambda x: (x**2)[0],
    "a method": lambda x: x.sum() * x.mean(),
    "a universal function": lambda x: np.exp(x) @ x,
    "a column": lambda x: x.reshape(1, -1)[:, 0][0] * 3,
}
POINT = np.array([1.0, 2.0])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_an_array_is_given_one(name, backend):
    function = FUNCTIONS[name]
    fast = micrograd.compile(function, (POINT,), backend=backend)
    assert fast(POINT) == pytest.approx(function(POINT))
    value, gradient = fast.value_and_grad(POINT)
    assert value == pytest.approx(function(POINT))
    assert gradient == pytest.approx(grad(function)(POINT))


def test_what_the_example_has_as_an_array_is_one_whatever_comes_later(backend):
    fast = micrograd.compile(FUNCTIONS["times a number"], (POINT,), backend=backend)
    for came in [1.0, 2.0], (1.0, 2.0), POINT.astype(np.float32), [np.float64(1.0), 2]:
        assert fast(came) == 20.0
    assert fast([1.0, 2.0, 3.0]) == fast(np.array([1.0, 2.0, 3.0])) == 56.0
    assert fast.map([[1.0, 2.0], [0.0, 1.0]]) == fast.map(np.array([[1.0, 2.0], [0.0, 1.0]])) == [20.0, 4.0]
    listed = micrograd.compile(lambda x: sum(v * v for v in 2 * x), ([1.0, 2.0],), backend=backend)
    assert listed(POINT) == listed([1.0, 2.0]) == 10.0


def test_arrays_in_lists_are_arrays_and_the_others_are_not(backend):
    def function(layers, x, factor):
        assert isinstance(layers, list)
        assert isinstance(factor, Value)
        for w, b in layers:
            x = w @ x + b
        return factor * x.sum()

    w, b, x = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([0.5, -0.5]), np.array([1.0, -1.0])
    fast = micrograd.compile(function, ([(w, b), (w, b)], x, 2.0), backend=backend)
    for n in 1, 2, 4:  # those after the example's last are as that is
        expected = x
        for _ in range(n):
            expected = w @ expected + b
        assert fast([(w, b)] * n, x, 2.0) == pytest.approx(2 * expected.sum())
    assert fast.value_and_grad([(w, b)], x, 2.0)[1] == ([[[[2.0, -2.0], [2.0, -2.0]], [2.0, 2.0]]], [8.0, 12.0], -2.0)


@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_a_matrix_stays_one_and_a_number_of_numpy_is_a_number(backend):
    square = np.matrix([[1.0, 2.0], [3.0, 4.0]])
    fast = micrograd.compile(lambda m: (m * m).sum(), (square,), backend=backend)
    assert fast(square) == fast(square.tolist()) == (square * square).sum() == 54.0
    for number in np.float64(3.0), np.array(3.0):
        assert micrograd.compile(lambda x: [type(x) is not np.ndarray, x * x], (number,), backend=backend)(2.0) == [
            1,
            4,
        ]


def test_an_array_has_rows_of_one_length_and_is_no_number(backend):
    fast = micrograd.compile(lambda x: x[:, 0].sum(), (np.ones((2, 2)),), backend=backend)
    with pytest.raises(ValueError, match=r"expected an array, .* not rows of unequal length"):
        fast([[1.0, 2.0], [3.0]])
    with pytest.raises(ValueError, match=r"expected an array, .* not a number"):
        fast(1.0)
    assert micrograd.compile(lambda x: x.sum() + Value(1.0), (np.ones(0),), backend=backend)([1.0]) == 2.0


def test_copies_and_executors_have_the_function_of_arrays(backend):
    p = Value(3.0)
    fast = micrograd.compile(lambda x: p * (2 * x).sum(), (POINT,), parameters=[p], backend=backend)
    assert repr(fast).startswith("<<lambda> compiled to")
    for other in copy.deepcopy(fast), pickle.loads(pickle.dumps(fast)):
        assert other([1.0, 2.0]) == other(POINT) == 18.0
        with pytest.raises(ValueError, match="was compiled elsewhere"):
            other([1.0, 2.0, 3.0])
    with ThreadPoolExecutor(1) as executor:
        assert fast.map([[1.0, 2.0], [2.0, 2.0]], executor=executor) == [18.0, 24.0]


def test_a_step_that_the_engine_takes_gives_the_function_arrays_too(backend, monkeypatch):
    p = Value(3.0)
    fast = micrograd.compile(lambda x: ((p * (2 * x).sum()) - 1) ** 2, (POINT,), parameters=[p], backend=backend)
    monkeypatch.setattr(compiler.session.Training, "run_steps", lambda *call, **options: 0)
    monkeypatch.setattr(compiler.session.CompiledGradients, "_compiled", lambda *call: math.nan)
    with fast.training(SGD([p], 0.001)) as step:
        assert step([[1.0, 2.0]]) == 17.0**2
    assert p.data == pytest.approx(3.0 - 0.001 * 2 * 17 * 6)


class OfRows(nn.Module):
    """What it gets is noted: lists, and what is in them."""

    def __init__(self):
        self.w, self.kinds = Value(0.5), set()

    def __call__(self, x):
        self.kinds.add((type(x), type(x[0]) is np.ndarray))
        return self.w * sum((2 * x[0]) if type(x[0]) is np.ndarray else 2 * x)


@pytest.mark.parametrize("shape", ["array", "list of arrays", "list of lists of an array"])
def test_a_model_that_is_trained_gets_what_it_gets_in_the_engine(shape, backend):
    xs = np.array([[1.0, 2.0], [3.0, 4.0], [0.5, 0.5]])
    xs = {"array": xs, "list of arrays": list(xs), "list of lists of an array": [[row] for row in xs]}[shape]
    found = []
    for kind in "eager", backend:
        model = OfRows()
        options = {"epochs": 3, "rng": 1, "progress": False, "backend": kind, "validation": (xs, [1.0, 2.0, 3.0])}
        history = fit(model, losses.mse_loss, xs, [1.0, 2.0, 3.0], **options)
        found.append((model.kinds, pytest.approx(history.losses), pytest.approx(history.validation_losses)))
    assert found[0][0] == found[1][0] == {(list, shape == "list of lists of an array")}
    assert found[0][1].expected == found[1][1]
    assert found[0][2].expected == found[1][2]


def test_an_array_of_tokens_finds_nothing_in_an_array_while_it_is_traced(backend):
    with pytest.raises(TraceError, match="take"):
        micrograd.compile(lambda tokens: np.arange(5.0)[tokens].sum(), (np.array([1, 2]),), backend=backend)


def test_numpy_is_imported_by_nothing_without_an_array():
    program = """
import sys, micrograd
assert micrograd.compile(lambda x: sum(x), ([1.0, 2.0],), backend="python")([1.0, 3.0]) == 4.0
assert "numpy" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


# Parameters that hold numbers of NumPy


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64])
def test_a_parameter_that_holds_a_number_of_numpy_is_computed_with_in_doubles(kind, backend):
    p = Value(0.0)
    fast = micrograd.compile(lambda x: p * x * x, (1.0,), parameters=[p], backend=backend)
    p.data, p.grad = kind(1), kind(2)
    assert fast(1e30) == fast.map([1e30])[0] == fast.backward([1e30]) == pytest.approx(1e60)
    assert p.grad == pytest.approx(1e60)
    assert type(p.grad) is float
    assert type(fast(1e30)) is float


@pytest.mark.parametrize("grad", [None, "0", [0.0]])
def test_a_parameter_without_a_gradient_is_named_before_anything_is_computed(grad, backend):
    p, q = Value(1.0), Value(2.0)
    fast = micrograd.compile(lambda x: p * q * x, (1.0,), parameters=[p, q], backend=backend)
    q.grad = grad
    with pytest.raises(TypeError, match=r"Value\(data=2\.0, grad=.*\) has no number there: set it to 0, as zero_grad"):
        fast.backward([1.0])
    assert p.grad == 0.0
    q.grad = 0
    assert fast.backward([1.0]) == 2.0
    assert (p.grad, q.grad) == (2.0, 1.0)
