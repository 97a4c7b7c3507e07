"""Every operation at zeros, infinities, NaN, huge and subnormal numbers: compiled code matches the engine."""

import itertools
import math

import pytest

import micrograd
from micrograd import Value, fit, nn, take, where
from micrograd.compiler.native import toolchain
from micrograd.compiler.targets import c
from micrograd.optim import SGD
from tests.helpers import CompiledOperation, every_operation
from tests.operations import FUNCTIONS

SPECIAL = 0.0, -0.0, math.inf, -math.inf, math.nan, -2.0, -1000.0, 1000.0, 1e300, 5e-324
FEWER = 0.0, math.inf, -2.0
MANY = 17  # examples, enough for whole vectors and a rest


def outcome(call):
    """The numbers that a call gives, or its error, without the place in the compiled code."""
    try:
        return list(call())
    except (ArithmeticError, ValueError) as error:
        return type(error), str(error).partition(", in ")[0]


def eager(operation, point, seed=1.0):
    """The value and the gradients; with a seed of 0, the value alone."""
    xs = list(map(Value, point))
    result = operation.apply(*xs)
    if not seed:
        return [result.data]
    for x in xs:
        x.grad = 0.0  # as a compiled function begins
    result.backward()
    return [result.data, *[x.grad for x in xs]]


def alike(a, b, backend, words=True):
    """Whether these are the same, except for the last digits, where C libraries differ, and the sign of 0."""
    if isinstance(a, tuple) or isinstance(b, tuple):
        return a == b if words else a[0] is b[0]
    tolerance = 1e-14 if backend == "c" else 0.0
    return all(math.isclose(x, y, rel_tol=tolerance) or (x != x and y != y) for x, y in zip(a, b, strict=True))


@every_operation
def test_special_operands_have_the_value_the_gradient_or_the_error_that_they_have_in_the_engine(operation, backend):
    fast, reference = CompiledOperation(operation, backend), CompiledOperation(operation, "python")
    usual = operation.points[0]
    special = itertools.product(SPECIAL if operation.arity < 3 else FEWER, repeat=operation.arity)
    for point in (*operation.points, *operation.edges, *special):
        value = outcome(lambda: eager(operation, point, 0.0))  # noqa: B023
        gradients = outcome(lambda: eager(operation, point))  # noqa: B023
        assert alike(outcome(lambda: fast.value(point)), value, backend, words=False), point  # noqa: B023
        assert alike(outcome(lambda: fast.value_and_grad(point)), gradients, backend, words=False), point  # noqa: B023
        examples = [usual] * (MANY - 1) + [point]
        for found in (outcome(lambda: fast.value(point)), outcome(lambda: fast.map(examples)[-1:])):  # noqa: B023
            assert alike(found, outcome(lambda: reference.value(point)), backend), point  # noqa: B023


ALONE = {row.name: row.apply for row in FUNCTIONS if row.name in c.CALLS and row.arity == 1} | {
    "1 / x": lambda x: 1.0 / x, "x * 1e308": lambda x: x * 1e308, "x - x": lambda x: x - x, "x % 2": lambda x: x % 2.0,
    "2 % x": lambda x: 2.0 % x, "x ** -1": lambda x: x**-1.0, "x ** 0.5": lambda x: x**0.5, "x ** 3": lambda x: x**3.0,
    "1 / (0 - x)": lambda x: 1.0 / (0.0 - x),
}  # fmt: skip


@pytest.mark.parametrize("name", ALONE)
def test_an_operation_that_is_alone_or_has_a_constant_gives_the_number_or_the_error_of_the_engine(name, backend):
    function, usual = ALONE[name], 1.5 if name == "acosh" else 0.5
    fast = micrograd.compile(function, (usual,), backend=backend)
    for x in (*SPECIAL, -1e300, -1.0, 0.5, 1.0, 2.0, 10.0):
        expected = outcome(lambda: [function(Value(x)).data])  # noqa: B023
        assert alike(outcome(lambda: [fast(x)]), expected, backend), x  # noqa: B023
        assert alike(outcome(lambda: fast.map([usual] * 5 + [x])[-1:]), expected, backend), x  # noqa: B023


# What is not chosen


class Choosing(nn.Module):
    """A root of what may be 0, where that is positive."""

    def __init__(self):
        self.w = Value(0.5)

    def __call__(self, x):
        return take([0.1 * self.w, (self.w * x).sqrt()], where(x > 0, 1.0, 0.0))


REASON = "a step was taken by the engine, in doubles, since an operation failed in generated code"


@pytest.mark.parametrize("xs", [[0.0, 1.0, 0.0, 4.0], [1.0] * 4])
def test_fit_says_once_why_the_engine_takes_steps_and_trains_as_it_does(xs, backend, caplog):
    toolchain.warn_once.cache_clear()
    trained = []
    for kind in "eager", backend:
        model = Choosing()
        options = {"epochs": 3, "batch_size": 2, "rng": 1, "progress": False, "backend": kind}
        history = fit(model, lambda p, y: (p - y) ** 2, xs, [1.0] * 4, optimizer=SGD([model.w], 0.01), **options)
        trained.append([*history.losses, model.w.data])
    assert trained[1] == pytest.approx(trained[0], rel=1e-12)
    said = [message for message in caplog.messages if REASON in message]
    assert len(said) == (0.0 in xs)


def test_what_is_not_chosen_is_differentiated_in_compiled_code_as_where_does_it_anywhere(backend):
    def chosen(x, y):
        return take([x, x * y], where(x < 9, 0.0, 1.0))

    x, y = Value(2.0), Value(math.inf)
    chosen(x, y).backward()
    assert (x.grad, y.grad) == (1.0, 0.0)
    value, gradients = micrograd.compile(chosen, (1.0, 1.0), backend=backend).value_and_grad(2.0, math.inf)
    assert value == 2.0
    assert [math.isnan(gradients[0]), gradients[1]] == [True, 0.0]
    x = Value(2.0)
    where(x < 9, x, x * math.inf).backward()
    assert math.isnan(x.grad)
