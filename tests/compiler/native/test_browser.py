"""Compiled code in a browser, where it is JavaScript on Python's buffers; `test_pyodide.py` runs it in Pyodide."""

import copy
import math
import pickle
import random
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

import micrograd
from micrograd import Value, data, fit, losses, nn, optim, schedules, take
from tests.browser import no_compiler, pyodide
from tests.optimizers import ROWS

__all__ = ["pyodide"]

OPTIMIZERS = {f"{row.kind.__name__} {i}": (row.kind, row.options[i]) for row in ROWS for i in (0, -1)}


@pytest.fixture(autouse=True)
def _calls(request, monkeypatch):
    """However few operations there are, they are called in JavaScript."""
    if "few" not in request.function.__name__:
        monkeypatch.setattr("micrograd.compiler.native.browser.CALL", 0)


def numbers(parameters):
    return [parameter.data for parameter in parameters]


@pytest.mark.parametrize(("platform", "expected"), [("emscripten", "JavaScript"), ("linux", "NumPy")])
def test_javascript_is_for_browsers(platform, expected, monkeypatch):
    monkeypatch.setattr("micrograd.compiler.function.sys", SimpleNamespace(platform=platform))
    monkeypatch.setattr("micrograd.compiler.native.library.require_compiler", no_compiler)
    assert repr(micrograd.compile(lambda x: x * x, (1.0,))) == f"<<lambda> compiled to {expected}, 0 parameters>"


def test_what_it_computes_is_what_python_computes(pyodide, caplog):
    model = nn.MLP(3, [4, 2], activation="gelu", rng=1)

    def loss(x, factor, y):
        return losses.cross_entropy([factor * z for z in model(x)], y)

    example = [0.5, -1.0, 2.0], 1.5, 1
    fast, slow = [
        micrograd.compile(loss, example, parameters=model.parameters(), backend=backend)
        for backend in ("auto", "python")
    ]
    assert repr(fast) == "<loss compiled to JavaScript, 26 parameters>"
    assert [text.split("(")[0] for text in fast.source.split("def ")] == ["", "forward", "backward", "value_and_grad"]
    assert fast(*example) == pytest.approx(slow(*example), rel=1e-14)
    value, gradients = fast.value_and_grad(*example)
    expected, wanted = slow.value_and_grad(*example)
    assert value == pytest.approx(expected, rel=1e-14)
    assert gradients[0] == pytest.approx(wanted[0], rel=1e-12)
    assert gradients[1:] == pytest.approx(wanted[1:], rel=1e-12)
    rng = random.Random(1)
    batch = [[[rng.gauss(0, 1) for _ in range(3)] for _ in range(7)], [1.0] * 7, [i % 2 for i in range(7)]]
    assert fast.map(*batch) == pytest.approx(slow.map(*batch), rel=1e-14)
    found = []
    for each in fast, slow:
        model.zero_grad()
        found.append([each.backward(*batch), *[parameter.grad for parameter in model.parameters()]])
    assert found[0] == pytest.approx(found[1], rel=1e-12)
    assert pyodide.calls == 4
    assert caplog.text == ""  # as there is nothing faster in a browser


def test_few_operations_are_python_s(pyodide):
    fast = micrograd.compile(lambda x: x.sin() * x, (1.0,))
    assert fast(2.0) == 2.0 * math.sin(2.0)
    assert pyodide.calls == 0
    assert fast.map([2.0] * 2000) == pytest.approx([2.0 * math.sin(2.0)] * 2000)
    assert pyodide.calls == 1


def test_single_precision_is_not_for_browsers_and_the_log_says_so(pyodide, caplog):
    fast = micrograd.compile(lambda x: x * x, (1.0,), precision="single")
    assert fast(3.0) == 9.0
    assert "compiled to JavaScript instead of C, in double precision: no C compiler works here" in caplog.text
    w = Value(0.1)
    fast = micrograd.compile(lambda x: (w - x) ** 2, (1.0,), parameters=[w], precision="single")
    with fast.frozen():
        assert fast(1.0) == pytest.approx(0.81)
    with fast.training(optim.SGD([w], 0.25)) as step:
        assert [step([1.0]), step([1.0])] == pytest.approx([0.81, 0.2025])
    assert "training in Python instead of C: steps in JavaScript are in doubles" in caplog.text


@pytest.mark.parametrize(
    ("function", "at", "error"),
    [
        (lambda x: (10 * x).exp() / (1 + (10 * x).exp()), 100.0, OverflowError),
        (lambda x: 1 / (1 + x.exp()), 1000.0, OverflowError),  # whose result would be 0
        (lambda x: x.log(), 0.0, ValueError),
        (lambda x: 1 / x, 0.0, ZeroDivisionError),
        (lambda x: take([1.0, 2.0], x), 2.0, (IndexError, ValueError)),
    ],
)
def test_what_fails_raises_what_python_raises(function, at, error, pyodide):
    fast, slow = [micrograd.compile(function, (1.0,), backend=backend) for backend in ("auto", "python")]
    for method in "__call__", "value_and_grad":
        with pytest.raises(error) as raised:
            getattr(fast, method)(at)
        with pytest.raises(error) as expected:
            getattr(slow, method)(at)
        assert str(raised.value) == str(expected.value)
    assert fast.map([1.0, 0.5]) == pytest.approx(slow.map([1.0, 0.5])) if function(Value(1.0)) != 2.0 else True


def test_a_batch_that_fails_raises_what_python_raises(pyodide):
    w = Value(2.0)
    fast = micrograd.compile(lambda x: (w * x).log(), (1.0,), parameters=[w])
    assert fast.backward([1.0, 2.0]) == pytest.approx(1.5 * math.log(2))
    with pytest.raises(ValueError, match="log"):
        fast.backward([1.0, 0.0])
    assert w.grad == pytest.approx(0.5)


def test_an_infinity_that_is_no_failure_comes_out(pyodide):
    fast = micrograd.compile(lambda x: x / 1e-308, (1.0,))
    assert fast(1e10) == math.inf


def test_copies_and_pickles_compute_the_same(pyodide):
    w = Value(3.0)
    fast = micrograd.compile(lambda x: w * x, (1.0,), parameters=[w])
    assert fast(2.0) == 6.0
    assert copy.copy(fast)(2.0) == 6.0
    assert pickle.loads(pickle.dumps((w, fast)))[1](2.0) == 6.0


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("rng", [1, random], ids=["seed", "module"])
def test_a_training_is_that_of_the_engine(name, rng, pyodide):
    xs, ys = data.moons(22, noise=0.2, rng=1)
    found = []
    for backend in "eager", "auto":
        random.seed(3)
        model = nn.MLP(2, [3, 1], rng=1)
        kind, options = OPTIMIZERS[name]
        optimizer = kind(model.parameters(), **options)
        history = fit(
            model, losses.mse_loss, xs, ys, epochs=4, batch_size=8, optimizer=optimizer, rng=rng, progress=False,
            schedule=schedules.linear(0.05, 12), validation=(xs[:5], ys[:5]), backend=backend,
        )  # fmt: skip
        found.append([*history.losses, *history.validation_losses, *numbers(model.parameters()), optimizer.steps])
        found[-1] += [number for moment in optimizer.moments for number in getattr(optimizer, moment)]
        found[-1].append(random.random())
    assert found[1] == pytest.approx(found[0], rel=1e-9, abs=1e-12)
    assert pyodide.calls > 20


def test_a_training_on_several_shapes_with_some_of_the_parameters_is_that_of_the_engine(pyodide):
    xs, ys = [[1.0], [1.0, 2.0], [3.0], [0.5, -1.0]], [1.0, 0.0, 2.0, 1.0]
    found = []
    for backend in "eager", "auto":
        a, b, c = Value(0.5), Value(0.1), Value(-0.3)

        class Model(nn.Module):
            def __init__(self, parts):
                self.parts = parts

            def __call__(self, x):
                a, b, c = self.parts
                return sum(a * xi for xi in x) + b * c

        sgd = optim.SGD([a, c], 0.05, momentum=0.5)
        model = Model([a, b, c])
        history = fit(
            model,
            losses.mse_loss,
            xs,
            ys,
            epochs=3,
            batch_size=2,
            optimizer=sgd,
            rng=1,
            progress=False,
            backend=backend,
        )
        found.append([*history.losses, *numbers([a, b, c])])
    assert found[1] == pytest.approx(found[0], rel=1e-12)
    assert found[0][-2] == 0.1


@pytest.mark.parametrize("limit", [None, 1.0])
def test_a_step_that_fails_changes_nothing_and_the_engine_says_why(limit, pyodide):
    xs, ys = [1.0, 2.0, 3.0, -1.0, 4.0, 5.0], [0.0] * 6
    found = []
    for backend in "eager", "auto":

        class Model(nn.Module):
            def __init__(self):
                self.w = Value(0.3)

            def __call__(self, x):
                return (self.w * x).log()

        model, rng = Model(), random.Random(5)
        adam = optim.Adam(model.parameters(), 0.01)
        with pytest.raises((FloatingPointError, ValueError)) as error:
            fit(
                model, losses.mse_loss, xs, ys, epochs=3, batch_size=2, optimizer=adam, rng=rng, progress=False,
                clip_grad_norm=limit, backend=backend,
            )  # fmt: skip
        found.append((model.w.data, adam.steps, type(error.value), rng.random()))
    assert found[1][1:] == found[0][1:]
    assert found[1][0] == pytest.approx(found[0][0], rel=1e-12)


def test_a_training_that_diverges_is_told_as_by_the_engine(pyodide):
    xs, ys = data.moons(20, noise=0.2, rng=1)
    messages = []
    for backend in "eager", "auto":
        model = nn.MLP(2, [4, 1], rng=1)
        sgd = optim.SGD(model.parameters(), 100.0)
        with pytest.raises(FloatingPointError) as error:
            fit(
                model,
                losses.mse_loss,
                xs,
                ys,
                epochs=200,
                batch_size=20,
                optimizer=sgd,
                rng=1,
                progress=False,
                backend=backend,
            )
        messages.append(str(error.value))
    assert messages[0] == messages[1]


def test_a_block_takes_steps_and_leaves_what_the_optimizer_leaves(pyodide):
    found = []
    for backend in "python", "auto":
        neuron = nn.Neuron(2, activation="relu", rng=0)
        adam = optim.Adam(neuron.parameters(), 0.05)
        fast = micrograd.compile(
            lambda x, y, neuron=neuron: (neuron(x) - y) ** 2,
            ([0.0, 0.0], 0.0),
            parameters=neuron.parameters(),
            backend=backend,
        )
        batch = fast.pack([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], [0.5, 1.0, 1.5])
        with fast.training(adam) as step:
            seen = [step(batch) for _ in range(5)]
            adam.learning_rate = 0.01
            seen += [step([[1.0, 2.0]], [3.0]), step(batch)]
        found.append([*seen, *numbers(neuron.parameters()), *adam.mean, adam.steps])
    assert found[1] == pytest.approx(found[0], rel=1e-12)


def test_clipped_steps_are_taken_in_python_and_the_log_says_so(pyodide, caplog):
    xs, ys = data.moons(20, noise=0.2, rng=1)
    found = []
    for backend in "eager", "auto":
        model = nn.MLP(2, [3, 1], rng=1)
        sgd = optim.SGD(model.parameters(), 0.5)
        history = fit(
            model, losses.mse_loss, xs, ys, epochs=2, batch_size=8, optimizer=sgd, rng=1, progress=False,
            clip_grad_norm=0.1, backend=backend,
        )  # fmt: skip
        found.append([*history.losses, *numbers(model.parameters())])
    assert found[1] == pytest.approx(found[0], rel=1e-9)
    assert "training in Python instead of C: steps in JavaScript are in doubles, and clip no gradients" in caplog.text


def test_gradients_of_workers_are_applied_by_the_same_rule(pyodide):
    xs, ys = data.moons(20, noise=0.2, rng=1)
    found = []
    for options in {"backend": "eager"}, {"backend": "auto", "executor": ThreadPoolExecutor(1), "shards": 2}:
        model = nn.MLP(2, [3, 1], rng=1)
        adam = optim.Adam(model.parameters(), 0.05)
        history = fit(model, losses.mse_loss, xs, ys, epochs=3, optimizer=adam, rng=1, progress=False, **options)
        found.append([*history.losses, *numbers(model.parameters()), adam.steps])
    assert found[1] == pytest.approx(found[0], rel=1e-9)


def test_arguments_that_are_shared_arrays_and_gradients_of_some_arguments_are_as_in_python(pyodide):
    np = pytest.importorskip("numpy")

    def function(w, x):
        return sum(wi * xi.sin() for wi, xi in zip(w, x, strict=True))

    fast, slow = [
        micrograd.compile(function, ([1.0, 2.0], [0.0, 0.0]), in_axes=(None, 0), backend=backend)
        for backend in ("auto", "python")
    ]
    w, xs = [0.5, -1.5], [[1.0, 2.0], [0.0, 3.0], [-1.0, 0.5]]
    assert fast.map(w, xs) == pytest.approx(slow.map(w, xs), rel=1e-14)
    assert list(fast.map(np.array(w), np.array(xs))) == pytest.approx(slow.map(w, xs), rel=1e-14)
    assert fast.value_and_grad(w, xs[0], argnum=1)[1] == pytest.approx(slow.value_and_grad(w, xs[0], argnum=1)[1])


@pytest.mark.parametrize("at", [-1.0, 0.0, 2.0])
def test_where_errors_are_not_wanted_an_operation_gives_what_python_gives(at, pyodide):
    w = Value(1.0)
    found = []
    for backend in "auto", "python":
        fast = micrograd.compile(
            lambda x: (w * x).log() + 1 / x, (1.0,), parameters=[w], backend=backend, errors="ieee"
        )
        w.grad = 0.0
        found.append([fast(at), fast.backward([1.0, at]), w.grad, *fast.map([at, 1.0])])
    assert repr(found[0]) == repr(found[1]) if at < 2 else found[0] == pytest.approx(found[1])
