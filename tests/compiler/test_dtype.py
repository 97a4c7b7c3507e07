"""Single precision: the same C in floats, to about seven digits; overflow is an error."""

import math
import random
import re
import struct
from functools import partial

import numpy as np
import pytest

import micrograd
from micrograd import Backend, Value, fit, scalar
from micrograd.compiler.native import toolchain
from micrograd.losses import cross_entropy
from micrograd.nn import MLP
from micrograd.optim import SGD, Adam, Optimizer
from tests.compiler.targets.test_export import run_exported
from tests.helpers import CompiledOperation, backward, eager, flat, has_compiler
from tests.operations import OPERATIONS

pytestmark = [pytest.mark.skipif(not has_compiler(), reason="there is no C compiler here")]

SINGLE = Backend("c", precision="single")
EPSILON = 2.0**-23  # between 1 and the next float


def close(numbers, expected, units):
    """Whether numbers are as expected, up to so many units in the last place of the largest."""
    scale = max(map(abs, expected))
    return all(abs(a - b) <= units * EPSILON * scale for a, b in zip(numbers, expected, strict=True))


def is_single(number):
    return struct.unpack("f", struct.pack("f", number))[0] == number


def both(function, example, **options):
    """The function in double and in single precision."""
    return [micrograd.compile(function, example, backend=backend, **options) for backend in ("c", SINGLE)]


@pytest.fixture
def network():
    """A network, its loss, and examples."""
    rng = random.Random(7)
    model = MLP(5, [12, 9, 3], rng=rng)
    xs = [[rng.uniform(-1, 1) for _ in range(5)] for _ in range(203)]
    ys = [rng.randrange(3) for _ in xs]
    return model, lambda x, y: cross_entropy(model(x), y), xs, ys


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_every_operation_and_its_derivatives_agree_with_doubles(operation):
    points = [point for point in operation.points if all(map(is_single, point))]
    assert points
    single = CompiledOperation(operation, SINGLE)
    for point in points[:3]:
        (value, gradients), (a, *b) = eager(lambda xs: operation.apply(*xs), list(point)), single.value_and_grad(point)
        assert close([a], [value], 16)
        assert close(b, gradients, 64)
        assert single.map([point] * 40) == pytest.approx([value] * 40, rel=16 * EPSILON)


@pytest.mark.parametrize("n", [1, 4, 5, 40, 203])
def test_lanes_and_single_examples_agree_with_doubles(network, n):
    model, loss, xs, ys = network
    double, single = both(loss, (xs[0], ys[0]), parameters=model.parameters())
    values, floats = double.map(xs[:n], ys[:n]), single.map(xs[:n], ys[:n])
    assert close(floats, values, 32)
    assert values != floats
    assert all(map(is_single, floats))
    (loss, *gradients), (float_loss, *floats) = (backward(fast, xs[:n], ys[:n]) for fast in (double, single))
    assert float_loss == pytest.approx(loss, rel=1e-6)
    assert close(floats, gradients, 64)


@pytest.mark.parametrize(
    "make", [partial(Adam, learning_rate=0.01, weight_decay=0.01), partial(SGD, learning_rate=0.1, momentum=0.9)]
)
def test_fit_learns_what_it_learns_in_doubles(network, make):
    model, _, xs, ys = network
    begin, found = [p.data for p in model.parameters()], []
    for name in ("double", "single"):
        for parameter, number in zip(model.parameters(), begin, strict=True):
            parameter.data = number
        optimizer = make(model.parameters())
        optimizer.clip_grad_norm = 1.0
        options = {"epochs": 20, "batch_size": 10, "rng": 5, "progress": False, "backend": Backend("c", precision=name)}
        history = fit(model, cross_entropy, xs, ys, optimizer=optimizer, validation=(xs, ys), **options)
        found.append((history, [p.data for p in model.parameters()], optimizer))
    (double, expected, _), (single, numbers, optimizer) = found
    assert single.losses == pytest.approx(double.losses, rel=1e-4)
    assert single.validation_losses == pytest.approx(double.validation_losses, rel=1e-4)
    assert numbers == pytest.approx(expected, abs=1e-3)
    assert numbers != expected
    assert all(map(is_single, numbers))
    assert optimizer.steps == 20 * 21


def test_an_exported_file_is_strict_c99_of_floats_alone(network, tmp_path):
    model, loss, xs, ys = network
    fast = micrograd.compile(loss, (xs[0], ys[0]), parameters=model.parameters(), backend=SINGLE)
    assert not re.search(r"\bdouble\b", fast.c_source)
    flags = ["-Wno-error=overflow", "-Wdouble-promotion"]
    _, *numbers = run_exported(fast, tmp_path, [*xs[0], ys[0]], 1, len(model.parameters()), flags=flags, real="float")
    assert close(numbers[:7], flat([*fast.value_and_grad(xs[0], ys[0])]), 32)
    assert (tmp_path / "model.c").read_text() == fast.c_source


def test_floats_of_numpy_are_used_where_they_lie_and_come_out():
    rows = np.arange(12, dtype="f").reshape(4, 3)
    fast = micrograd.compile(lambda x: [micrograd.sum(x), x[0]], ([0.0] * 3,), backend=SINGLE)
    packed, out = fast.pack(rows), np.empty((4, 2), "f")
    rows[0, 0] = 100.0
    expected = [[103.0, 100.0], [12.0, 3.0], [21.0, 6.0], [30.0, 9.0]]
    assert fast.map(rows.tolist()) == expected
    for examples in (packed, rows, rows.astype("d"), rows.T.copy().T, list(rows)):
        found = fast.map(examples)
        assert (found.dtype, found.tolist()) == (np.float32, expected)
        assert fast.map(examples, out=out).tolist() == expected
    for x in rows[1], rows[1].astype("d"):
        assert (fast(x).dtype, fast(x).tolist()) == (np.float32, expected[1])
    with pytest.raises(ValueError, match="out is an array of '<f8'.*C-contiguous NumPy array of 'f'"):
        fast.map(rows, out=np.empty((4, 2)))


def test_what_overflows_on_the_way_goes_on_as_infinity_and_is_an_error_where_that_is_the_result(monkeypatch):
    def sigmoid(x):
        return 1 / (1 + (-x).exp())

    double, single = both(sigmoid, (0.0,))
    monkeypatch.setattr("micrograd.compiler.function.failure", None)  # which goes through all examples in Python
    assert single.map([-100.0] * 40) == pytest.approx(double.map([-100.0] * 40), abs=1e-40)
    monkeypatch.undo()
    with pytest.raises(OverflowError):  # by the gradient, which is an infinity times 0
        single.value_and_grad(-100.0)
    for fast in in_single(), both(lambda x: x.exp(), (1.0,))[1]:
        for call in (lambda fast=fast: fast(1e30), lambda fast=fast: fast.map([1e30] * 40)):
            with pytest.raises(OverflowError):
                call()
    with pytest.raises(ZeroDivisionError):
        both(lambda x: 1.0 / x, (1.0,))[1](0.0)


def test_norms_and_what_a_rule_computes_once_are_doubles():
    class Cyclic(Optimizer):
        def rule(self):
            scale = scalar.remainder(self.steps * 0.1, 1.0) + scalar.sigmoid(self.steps * 0.0)
            return lambda x, grad: (x - scale * grad,)

    weight = Value(0.0)
    fast = micrograd.compile(lambda x: weight * x, (1.0,), parameters=[weight], backend=SINGLE)
    with fast.training(SGD([weight], 1.0, clip_grad_norm=1.0)) as step:
        step([1e20])
    assert weight.data == -1.0
    weight.data, optimizer = 0.0, Cyclic([weight], learning_rate=0.1)
    optimizer.steps = 10**7 + 1
    with fast.training(optimizer) as step:
        step([1.0])
    assert weight.data == pytest.approx(-0.6, abs=1e-6)


def test_a_number_of_an_optimizer_that_is_too_large_is_an_error():
    weight = Value(1.0)
    fast = micrograd.compile(lambda x: weight * x, (1.0,), parameters=[weight], backend=SINGLE)
    optimizer = Adam([weight], learning_rate=0.1, betas=(0.9, 0.5))
    with fast.training(optimizer) as step:
        step([1e20])  # whose square is taken by the engine
        with pytest.raises(OverflowError, match=r"moment 0 is 5.*e\+39, beyond the range of single precision"):
            step([1.0])
        with pytest.raises(OverflowError, match="data of a parameter in training is"):
            weight.data = HUGE
    weight.grad = HUGE
    with pytest.raises(OverflowError, match="the gradient of parameter 0 is"), fast.training(SGD([weight], 0.1)):
        pass


# Errors

HUGE = 1e39


def in_single(function=lambda x: x * x):
    return micrograd.compile(function, (1.0,), backend=SINGLE)


@pytest.mark.parametrize(("ask", "error", "message"), [
    (lambda: in_single().export_c("model.c", precision="float"), ValueError, "unknown precision 'float'"),
    (lambda: in_single().map([HUGE]), OverflowError, r"argument 1: number 0 is 1e\+39, beyond .*, 3.4e\+38"),
    (lambda: in_single().map(np.array([HUGE])), OverflowError, r"argument 1: a number is 1e\+39"),
    (lambda: in_single(Value.exp)(100.0), OverflowError, "an intermediate number is beyond the range of single"),
    (lambda: in_single()(-HUGE), OverflowError, r"-1e\+39"),
    (lambda: in_single(lambda x: x * HUGE), OverflowError, r"a constant is 1e\+39"),
    (lambda: micrograd.compile(lambda x: x * HUGE, (1.0,), backend="python").export_c("x.c", precision="single"),
     OverflowError, r"a constant is 1e\+39"),
])  # fmt: skip
def test_what_is_asked_for_wrongly_is_said(ask, error, message):
    with pytest.raises(error, match=message):
        ask()


def test_a_parameter_beyond_single_precision_is_named(tmp_path):
    small, large = Value(1.0), Value(HUGE)
    fast = micrograd.compile(lambda x: x * small + large, (1.0,), parameters=[small, large], backend=SINGLE)
    for use in (lambda: fast(1.0), lambda: fast.export_c(tmp_path / "model.c")):
        with pytest.raises(OverflowError, match=r"parameter 1 is 1e\+39, beyond the range of single .*, 3.4e\+38"):
            use()
    with pytest.raises(OverflowError, match=r"1e\+39"), fast.training(SGD([small], learning_rate=0.1)):
        pass
    assert (small.data, large.data) == (1.0, HUGE)


def test_examples_of_another_precision_are_refused(network):
    model, loss, xs, ys = network
    double, single = both(loss, (xs[0], ys[0]), parameters=model.parameters())
    with pytest.raises(TypeError, match="another precision: pack them"):
        single.map(double.pack(xs, ys))
    with (
        single.training(SGD(model.parameters(), learning_rate=0.1)) as step,
        pytest.raises(TypeError, match="got examples packed .* in another precision: pack them"),
    ):
        step(double.pack(xs, ys))


def test_a_step_that_single_precision_cannot_take_is_taken_in_doubles_and_said(caplog):
    toolchain.warn_once.cache_clear()
    weight = Value(1.0)
    fast = micrograd.compile(lambda x: (weight * x) ** 4 * 1e-36, (1.0,), parameters=[weight], backend=SINGLE)
    with fast.training(SGD([weight], learning_rate=1e-4)) as step:
        loss = step([1e10])
    assert loss == pytest.approx(1e4)
    assert weight.data == pytest.approx(1.0 - 4.0)
    [message] = [message for message in caplog.messages if "a step was taken by the engine, in doubles" in message]
    assert message.endswith('if a number was beyond the range of single precision, give precision="double"')


def test_infinities_and_nan_are_accepted_as_examples():
    fast = in_single()
    for examples in ([math.inf, -math.inf, 2.0], np.array([math.inf, -math.inf, 2.0])):
        assert list(fast.map(examples)) == [math.inf, math.inf, 4.0]
    assert math.isnan(fast.map(np.array([math.nan]))[0])
    with pytest.raises(OverflowError, match=r"1e\+39"):
        fast.map(np.array([math.nan, HUGE]))
