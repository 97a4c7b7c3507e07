"""Trainings that fail, diverge, are clipped or interrupted, in every way to run them: each leaves what eager leaves."""

import math
import signal

import pytest

from micrograd import losses, nn
from micrograd.optim import SGD, Adam
from tests.helpers import needs_compiler
from tests.trainings import Line, Logarithm, Setting, close, failing, negative_log_likelihood, same


@pytest.fixture(params=["python", pytest.param("c", marks=needs_compiler), "shards"])
def way(request):
    """How to train, besides eager."""
    return request.param


FAILURES = {
    "log": (Logarithm, [1.0, 2.0, 3.0, -1.0, 2.0], [1.0] * 5, losses.mse_loss, ValueError, "log(-"),
    "division": (Line, [1.0, 2.0, 3.0, 0.0], [1.0] * 4, lambda p, y: p / ((p - p) + y - 1), ZeroDivisionError, ""),
    "0": (Line, [1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 0.0, 3.0], lambda p, y: p / y, ZeroDivisionError, ""),
    "label": (lambda: nn.MLP(1, [3], rng=1), [[1.0]] * 4, [0, 1, 5, 2], negative_log_likelihood, ValueError,
              "index is 5"),
    "loss": (Line, [1.0, 2.0, 3.0], [1.0, 1e308, 1.0], lambda p, y: p * y * 1e6, FloatingPointError, "the loss is"),
    "NaN": (Line, [1.0, math.nan, 3.0], [1.0, 1.0, 1.0], losses.mse_loss, FloatingPointError, "the loss is nan"),
    "parameter": (Line, [1.0, 1e200, 3.0], [0.0, 1e100, 0.0], lambda p, y: p * y * 1e-100, FloatingPointError,
                  "a parameter is -inf"),
    "overflow": (Line, [1.0, 4000.0, 3.0], [1.0, 1.0, 1.0], lambda p, y: p.exp() * y, OverflowError, "exp("),
}  # fmt: skip


@pytest.mark.parametrize("name", FAILURES)
@pytest.mark.parametrize("make", [SGD, lambda p, rate: SGD(p, rate, momentum=0.9), Adam])
def test_a_failure_in_the_middle_is_the_same_and_leaves_the_same(name, make, way):
    model, xs, ys, loss, kind, match = FAILURES[name]
    options = {"loss": loss, "xs": xs, "ys": [float(y) for y in ys], "batch_size": 1}
    rate = 1e300 if name == "parameter" else 0.01
    setting = Setting(model, optimizer=lambda model: make(model.parameters(), rate), **options)
    if name == "parameter" and make is Adam:
        setting.optimizer = lambda model: Adam(model.parameters(), 1e308, (0.0, 0.0), 1e-300)
        setting.loss, match = lambda p, y: -p * 1e-308, "is"
    failing(setting, way, kind, match)


def test_a_loss_that_grows_until_it_is_infinite_ends_at_the_same_step(way):
    setting = Setting(Line, xs=[1.0, 2.0, 3.0], ys=[1.0, 3.0, 4.0], batch_size=2, epochs=1000)
    setting.optimizer = lambda model: SGD(model.parameters(), 30, momentum=0.9)
    found = failing(setting, way, FloatingPointError, "the loss is inf in epoch")
    assert found["optimizer"]["steps"] > 50
    setting.loss = lambda p, y: (p - y) ** 2.0
    found = failing(setting, way, OverflowError, "the result is too large for a float")
    assert found["optimizer"]["steps"] > 50


@pytest.mark.parametrize("limit", [1e-3, 0.2, 1e6, 0])
def test_gradients_are_clipped_alike(limit, way):
    same(Setting(optimizer=lambda model: Adam(model.parameters(), 0.05, clip_grad_norm=limit)), way)


@pytest.mark.parametrize("at", [0, 4, 5, 6, 100])
def test_ctrl_c_keeps_whole_steps_and_the_order_of_the_examples(at, way):
    """By a schedule, so that it comes at the same moment: one compiled step is as good as many."""

    def pressing(step):
        if step == at:
            signal.raise_signal(signal.SIGINT)
        return 0.01

    options = {"optimizer": lambda model: Adam(model.parameters()), "epochs": 40, "batch_size": 2}
    found = Setting(schedule=pressing, **options).run(way)
    steps = found["optimizer"]["steps"]
    assert (found["history"]["interrupted"], steps) == (True, at + 1)
    assert len(found["history"]["losses"]) == steps // 5

    def ending(step):
        if step == steps:
            raise StopIteration
        return 0.01

    again = Setting(schedule=ending, **options).run("eager")
    assert all(close(again[name], found[name]) for name in ("data", "optimizer"))
