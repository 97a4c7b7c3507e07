"""A training as a test describes it, run in any way, and all that can be seen afterwards."""

import math
import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np

from micrograd import Backend, Value, dot, fit, losses, nn, take
from micrograd.data import moons
from micrograd.optim import SGD, Optimizer

XS, YS = moons(10, rng=1)
GENERATORS = [random.Random(), random.Random(), random.Random()]


class Line(nn.Module):
    """w x + b."""

    def __init__(self, w=0.5, b=0.0):
        self.w, self.b = Value(w), Value(b)

    def __call__(self, x):
        return self.w * x + self.b


class Sums(Line):
    """w times the sum of however many inputs, + b."""

    def __call__(self, xs):
        return dot([self.w] * len(xs), xs, self.b)


class Given(Optimizer):
    """An optimizer with a rule that a test gives."""

    moments = {"kept": 0.0}  # noqa: RUF012

    def __init__(self, parameters, given):
        super().__init__(parameters, learning_rate=0.1)
        self.given, self.calls = given, 0

    def rule(self):
        return self.given(self)


@contextmanager
def running(way):
    """The options of `fit` by which a training runs in this way."""
    if way == "shards":
        with ThreadPoolExecutor(2) as executor:
            yield {"backend": Backend("python", executor=executor)}
    else:
        yield {"backend": way}


class Setting:
    """What `fit` is called with, except for what a test cares about. Model and optimizer are made anew each time."""

    def __init__(self, model=lambda: nn.MLP(2, [3, 1], rng=1), **options):
        self.model = model
        self.optimizer = lambda model: SGD(model.parameters(), 0.1)
        self.loss, self.xs, self.ys = losses.mse_loss, XS, YS
        self.rng = lambda: random.Random(7)
        self.options = {"epochs": 10, "batch_size": 4, "progress": False}
        for name, value in options.items():
            if name in vars(self):
                setattr(self, name, value)
            else:
                self.options[name] = value

    def run(self, way):
        """All that can be seen afterwards: "eager", compiled to "python" or "c", or in "shards"."""
        for each in (random, np.random, *GENERATORS):
            each.seed(5)
        model, rng = self.model(), self.rng()
        optimizer = self.optimizer(model)
        error = history = None
        try:
            with running(way) as options:
                given = model, self.loss, self.xs, self.ys
                history = fit(*given, optimizer=optimizer, rng=rng, **options, **self.options)
        except Exception as raised:
            error = type(raised), str(raised)
            history = getattr(raised, "history", None)
        every = [*model.parameters(), *getattr(optimizer, "parameters", ())]
        return {
            "error": error, "history": history and plain(history), "data": [parameter.data for parameter in every],
            "grad": [parameter.grad for parameter in every], "optimizer": optimizer.state_dict() if optimizer else None,
            "rng": rng.getstate() if hasattr(rng, "getstate") else rng, "random": hash(random.getstate()),
            "kinds": [(type(parameter), type(parameter.data), type(parameter.grad)) for parameter in every],
            "lists": [name for name in vars(optimizer or rng) if isinstance(getattr(optimizer or rng, name), list)],
        }  # fmt: skip


def plain(history):
    """A history as dicts and lists."""
    # A copy, as CPython 3.13.0 may collect what the attributes of an object hold while its dict is still in use.
    failure = history.failure and {**vars(history.failure)}
    return {**vars(history), "failure": failure}


def close(a, b):
    if isinstance(a, float) and isinstance(b, (int, float)):
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-13) or (a != a and b != b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(close(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(close, a, b))
    return a == b


def same(setting, way):
    """What a training run gives in this way, which is what it gives eager."""
    eager, compiled = setting.run("eager"), setting.run(way)
    for name, expected in eager.items():
        assert close(expected, compiled[name]), (name, expected, compiled[name])
    return compiled


def failing(setting, way, kind, match):
    """The same error, and the same left behind."""
    found = same(setting, way)
    assert found["error"] is not None
    assert issubclass(found["error"][0], kind)
    assert match in found["error"][1]
    return found


class Logarithm(Line):
    def __call__(self, x):
        return (self.w * x + self.b).log()


def negative_log_likelihood(logits, y):
    return -take(losses.log_softmax(logits), y)
