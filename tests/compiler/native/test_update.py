"""Which rules of optimizers are traced for C, and which are refused: what a trace cannot follow is not baked in."""

import random

import pytest

from micrograd import Value, dot, take
from micrograd.compiler.native import toolchain
from micrograd.compiler.native.update import UpdateKernel
from tests.helpers import has_compiler
from tests.trainings import Given, Setting, close

pytestmark = pytest.mark.usefixtures("cache")


def counting(self):
    self.calls += 1
    return lambda x, g, kept: (x - (0.1 if self.calls < 5 else 0.01) * g, kept)


def counting_in_a_closure(self):
    calls = 0

    def update(x, g, kept):
        nonlocal calls
        calls += 1
        return x - 0.1 / calls * g, kept

    return update


def decaying(self):
    self.learning_rate *= 0.9
    return lambda x, g, kept: (x - self.learning_rate * g, kept)


def guarding(self):
    scale = 0.1 if max(abs(p.grad) for p in self.parameters) > 0.5 else 1.0
    return lambda x, g, kept: (x - scale * 0.1 * g, kept)


def catching(self):
    def update(x, g, kept):
        try:
            return x - (0.1 if g > 0 else 0.2) * g, kept
        except Exception:
            return x - 0.3 * g, kept

    return update


def damped(by):
    return lambda x, g, kept: (x - 0.1 * g / (1 + by), kept)


REFUSED = {
    "counting": (counting, "changes Given.calls"),
    "counting in a closure": (counting_in_a_closure, "is not the same for each parameter"),
    "decaying": (decaying, "self.learning_rate *= 0.9"),
    "guarding": (guarding, "scale = 0.1 if max"),
    "catching": (catching, "if g > 0"),
    "summing": (
        lambda self: lambda x, g, kept: (x - 0.1 * g / (1 + sum(p.grad * p.grad for p in self.parameters)), kept),
        "depends on all parameters, gradients or moments",
    ),
    "dotting": (lambda self: damped(dot(self.parameters, self.parameters).data), "depends on all parameters"),
    "taking": (
        lambda self: damped(take(self.parameters, 0.0 * self.parameters[0].data).data ** 2),
        "depends on all parameters",
    ),
    "forgetting": (lambda self: self.kept.__setitem__(0, 0.0) or (lambda x, g, kept: (x - 0.1 * (g + kept / 2), g)),
                   "changes Given.kept"),
    "halving": (lambda self: damped(sum(setattr(p, "data", p.data * 0.5) or 0 for p in self.parameters)),
                "changes the data of a parameter"),
    "noisy": (lambda self: damped(random.gauss(0.0, 0.01)), "is not the same for each parameter and step"),
}  # fmt: skip


@pytest.mark.parametrize(("given", "message"), REFUSED.values(), ids=REFUSED)
def test_a_rule_that_a_trace_cannot_follow_is_refused_in_c_and_trained_eagerly_by_auto(given, message, caplog):
    toolchain.warn_once.cache_clear()
    setting = Setting(optimizer=lambda model: Given(model.parameters(), given), epochs=4)
    random.seed(0)
    eager = setting.run("eager")
    random.seed(0)
    assert close(eager, setting.run("auto"))
    if has_compiler():
        assert message in caplog.text
        kind, text = setting.run("c")["error"]
        assert kind.__name__ in ("TypeError", "TraceError")
        assert message in text
    optimizer = Given([Value(1.0), Value(2.0)], given)
    before = dict(vars(optimizer))
    with pytest.raises(TypeError):
        UpdateKernel(optimizer)
    assert vars(optimizer) == before
