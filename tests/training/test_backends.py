"""`fit` with each backend: the same history, parameters, moments, order of examples and errors as eager."""

import math
import random

import numpy as np
import pytest

from micrograd import Value, fit, losses, nn, optim, scalar
from micrograd.compiler import TraceError
from micrograd.data import moons
from micrograd.optim import SGD, Adam, AdamW, Optimizer
from tests.optimizers import ROWS
from tests.trainings import XS, YS, Line, Logarithm, Setting, Sums, close, failing, negative_log_likelihood, same

# Optimizers, schedules, losses


class Signed(Optimizer):
    """The example of `Optimizer`'s docstring."""

    def __init__(self, parameters, learning_rate=0.01):
        super().__init__(parameters, learning_rate=learning_rate)

    def rule(self):
        return lambda x, grad: (x - self.learning_rate * scalar.where(grad > 0, 1, -1),)


OPTIMIZERS = [(Signed, {}), *[(row.kind, options | {"learning_rate": 0.02}) for row in ROWS for options in row.options]]


@pytest.mark.parametrize(("kind", "options"), OPTIMIZERS)
def test_every_optimizer_trains_as_it_does_eager(kind, options, backend):
    found = same(Setting(optimizer=lambda model: kind(model.parameters(), **options)), backend)
    assert found["optimizer"]["steps"] == 30
    assert found["history"]["losses"][-1] < found["history"]["losses"][0]


SCHEDULES = [
    optim.constant(0.05), optim.step(0.1, every=7), optim.exponential(0.1, 0.95), optim.linear(0.1, 20),
    optim.cosine(0.1, 25, 0.01), optim.warmup(optim.cosine(0.1, 20), 5),
    lambda step: [0.1, 0, np.float32(0.05), 1][step % 4] / 4,
]  # fmt: skip


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("make", [SGD, Adam])
def test_every_schedule_gives_the_same_rates(schedule, make, backend):
    same(Setting(optimizer=lambda model: make(model.parameters()), schedule=schedule), backend)


# Data, parameters, sources of random numbers


class Patient(random.Random):
    """A generator that shuffles in its own way."""

    def shuffle(self, x):
        super().shuffle(x)
        x.reverse()


class Recurrent(Line):
    """A model that remembers something within a call."""

    def __call__(self, xs):
        self.state = self.b
        for x in xs:
            self.state = (self.w * x + self.state).tanh()
        state = self.state
        del self.state
        return state


QUARTER = Value(0.25)


class Shared(nn.Module):
    """The same layer twice, a weight that the loss does not use, and a constant."""

    def __init__(self):
        self.first = self.second = nn.Layer(2, 2, "tanh", rng=1)
        self.out = nn.Neuron(2, rng=2)
        self.unused = Value(3.0)

    def __call__(self, x):
        return self.out(self.second(self.first(x))) * QUARTER


class Twice(Line):
    def parameters(self):
        return [self.w, self.b, self.w]


class Tempered(Line):
    """A model with a temperature in its loss: the optimizer has it, but the model does not."""

    def __init__(self):
        super().__init__()
        self.temperature = Value(1.5)

    def parameters(self):
        return [self.w, self.b]

    def __call__(self, x):
        return super().__call__(x) / self.temperature

    def optimizer(self):
        return SGD([self.temperature, *self.parameters()], 0.02, momentum=0.5)


LABELS = [i % 3 for i in range(10)]
TRAININGS = {
    "without an optimizer": Setting(optimizer=lambda model: None),
    "the hinge loss": Setting(loss=losses.hinge_loss, ys=[2 * y - 1 for y in YS]),
    "the binary cross-entropy": Setting(loss=losses.binary_cross_entropy_with_logits),
    "a loss that takes": Setting(lambda: nn.MLP(2, [3, 3], rng=1), loss=negative_log_likelihood, ys=LABELS),
    "a loss of vectors": Setting(lambda: nn.MLP(2, [3, 2], rng=1), ys=[[y, 1 - y] for y in YS]),
    "a loss that is 0 from the first": Setting(Line, loss=lambda p, y: Value(0.0) * y, xs=[1.0, 2.0], ys=[1.0, 2.0]),
    **{f"batches of {n}": Setting(batch_size=n, epochs=4) for n in (1, 3, 10, 99, None)},
    "a number for the order": Setting(rng=lambda: 3, epochs=30),
    "a generator for the order": Setting(rng=lambda: random.Random(3), epochs=30),
    "a generator of a kind of its own": Setting(rng=lambda: Patient(3), epochs=30),
    "targets of several shapes, and validation of others": Setting(
        Line,
        loss=lambda p, ys: losses.mse_loss([p] * len(ys), ys),
        xs=[1.0, 2.0, 3.0, 4.0],
        ys=[[1.0], [1.0, 2.0], [2.0], [2.0, 0.0]],
        batch_size=3,
        validation=([1.0, 2.0, 3.0], [[1.0, 2.0, 3.0], [1.0], [2.0, 0.0, 1.0]]),
    ),
    "a model that remembers within a call": Setting(
        Recurrent, xs=[[0.5] * n for n in range(1, 6)], ys=[1.0] * 5, batch_size=2
    ),
    "shared and unused parameters, constants": Setting(Shared, optimizer=lambda model: AdamW(model.parameters(), 0.05)),
    "a parameter that is given twice": Setting(Twice, xs=[1.0, 2.0], ys=[1.0, 3.0], batch_size=1),
    "parameters that stay, whose gradients add up": Setting(
        optimizer=lambda model: Adam(model.parameters()[2:7], 0.1, clip_grad_norm=0.5)
    ),
    "an optimizer with the parameters in another order": Setting(
        optimizer=lambda model: Adam(random.Random(3).sample(model.parameters(), 9), 0.05)
    ),
    "an optimizer with more parameters than the model": Setting(
        Tempered, xs=[1.0, 2.0, 3.0], ys=[1.0, 3.0, 4.0], optimizer=Tempered.optimizer
    ),
    "arrays": Setting(xs=np.array(XS), ys=np.array(YS)),
    "arrays of other types": Setting(xs=np.array(XS, "f"), ys=np.array(YS, int)),
}


@pytest.mark.parametrize("name", TRAININGS)
def test_a_training_gives_what_it_gives_eagerly(name, backend):
    assert same(TRAININGS[name], backend)["error"] is None


@pytest.mark.parametrize("patience", [None, 1, 3])
def test_validation_and_patience(patience, backend):
    steep = Setting(epochs=25, patience=patience, optimizer=lambda model: SGD(model.parameters(), 0.5))
    steep.options["validation"] = moons(7, rng=2)
    found = same(steep, backend)
    assert (len(found["history"]["losses"]) < 25) == (patience is not None)


@pytest.mark.parametrize("schedule", [None, lambda step: 0.1 * random.random()])
def test_the_global_generator_is_left_where_eager_leaves_it(backend, schedule):
    options = {"epochs": 40, "batch_size": 2, "schedule": schedule}
    same(Setting(Line, xs=[1.0, 2.0, 3.0], ys=[1.0, 1.0, 2.0], rng=lambda: None, **options), backend)


# Models


def test_examples_of_several_shapes_in_one_batch(backend, caplog):
    rng = random.Random(1)
    xs = [[rng.uniform(-1, 1) for _ in range(rng.choice([1, 2, 3, 5]))] for _ in range(23)]
    found = same(Setting(Sums, xs=xs, ys=[sum(x) for x in xs], batch_size=5), backend)
    assert found["history"]["losses"][-1] < found["history"]["losses"][0]
    assert not caplog.messages
    same(Setting(Sums, xs=[[0.5] * n for n in range(7)], ys=range(7), epochs=2, batch_size=3), backend)


def test_a_branch_is_refused_even_if_it_cuts_off_the_first_loss(backend):
    def loss(p, y):
        return (p - y) ** 2 if p > 0.6 else Value(0.0)

    with pytest.raises(TraceError, match=r"p > 0\.6"):
        fit(Line(), loss, [1.0, 3.0], [1.0, 2.0], epochs=1, backend=backend, progress=False)


def test_a_loss_of_what_is_not_the_models_is_refused(backend):
    temperature = Value(1.5)
    setting = Setting(
        Line, loss=lambda p, y: temperature * y, optimizer=lambda model: SGD([*model.parameters(), temperature], 0.02),
        xs=[1.0], ys=[1.0],
    )  # fmt: skip
    failing(setting, backend, ValueError, "the loss does not depend on the parameters")
    temperature.grad = 0.0
    for loss in (lambda p, y: 2.0), (lambda p, y: Value((p.data - y) ** 2)):
        setting.loss = loss
        failing(setting, backend, ValueError, "the loss does not depend on the parameters")


def interrupting(step, optimizer, rng):
    if step == 7:
        raise KeyboardInterrupt
    return 0.1


WATCHING = {
    "changes an option": lambda step, optimizer, rng: setattr(optimizer, "momentum", 0.9 if step > 30 else 0.1) or 0.1,
    "reads the steps": lambda step, optimizer, rng: 0.1 / (1 + optimizer.steps),
    "reads the rate": lambda step, optimizer, rng: 0.99 * optimizer.learning_rate,
    "reads gradients": lambda step, optimizer, rng: 0.1 / (1 + math.hypot(*[p.grad for p in optimizer.parameters])),
    "reads parameters": lambda step, optimizer, rng: 0.1 * abs(optimizer.parameters[0].data),
    "reads moments": lambda step, optimizer, rng: 0.1 / (1 + abs(optimizer.velocity[0])),
    "changes parameters": lambda step, optimizer, rng: setattr(optimizer.parameters[step % 3], "data", 0.5) or 0.1,
    "draws": lambda step, optimizer, rng: 0.1 * rng.random(),
    "interrupts": interrupting,
}


@pytest.mark.parametrize("name", WATCHING)
@pytest.mark.parametrize("wrapped", [False, True])
def test_a_schedule_is_called_right_before_its_step(name, wrapped, backend):
    made = {}

    def optimizer(model):
        return made.setdefault("optimizer", SGD(model.parameters(), 0.1, momentum=0.9))

    def rng():
        return made.setdefault("rng", random.Random(7))

    def schedule(step):
        return WATCHING[name](step, **made)

    def run(kind):
        made.clear()
        rates = optim.warmup(schedule, 3) if wrapped else schedule
        return Setting(optimizer=optimizer, rng=rng, schedule=rates, epochs=30, batch_size=2).run(kind)

    eager, compiled = run("eager"), run(backend)
    for key, expected in eager.items():
        assert close(expected, compiled[key]), key


# Failures


@pytest.mark.parametrize("at", [0, 1, 3, 17, 18])
def test_a_schedule_that_fails_in_the_middle(at, backend):
    def missing(step):
        return [0.1] * at if step < 0 else ([0.1] * at)[step]

    def negative(step):
        return 0.1 if step < at else -0.1

    failing(Setting(schedule=missing), backend, IndexError, "list index out of range")
    found = failing(Setting(schedule=negative, optimizer=lambda model: Adam(model.parameters())), backend, ValueError,
                    f"schedule({at}) is -0.1")  # fmt: skip
    assert found["optimizer"]["steps"] == at


def test_validation_that_fails(backend):
    found = failing(Setting(Logarithm, xs=[1.0, 2.0], ys=[1.0, 1.0], validation=([-1.0], [1.0])), backend, ValueError,
                    "log(-")  # fmt: skip
    assert found["optimizer"]["steps"] == 1
    setting = Setting(Line, xs=[1.0, 2.0], ys=[1.0, 1.0], loss=lambda p, y: p * y * 10, validation=([1.0], [1e308]))
    failing(setting, backend, FloatingPointError, "inf after epoch 1")


# What cannot be compiled


class Branching(Line):
    def __call__(self, x):
        return self.w * x if x > 0 else self.b * x  # the user's line


def test_auto_trains_a_branch_eagerly_and_says_so_once(caplog):
    setting = Setting(Branching, xs=[1.0, -2.0, 3.0], ys=[1.0, 1.0, 2.0], batch_size=1)
    same(setting, "auto")
    [message] = caplog.messages
    assert message.startswith("training eagerly, since the model cannot be compiled: ")
    assert message.count("# the user's line") == 1


@pytest.mark.parametrize("xs", [[1.0, 2.0], [[1.0, 2.0, 3.0]] * 2])
def test_what_the_engine_cannot_compute_either_is_only_an_error(xs, caplog):
    with pytest.raises(ValueError, match=r"takes a list of length 2, such as \[0.0, 0.0\], not .*[\d.]+"):
        fit(nn.MLP(2, [1]), losses.mse_loss, xs, [0.0, 1.0], epochs=1, progress=False, backend="auto")
    assert caplog.messages == []


def test_a_label_as_pythons_index_is_answered_with_take(backend, caplog):
    def loss(logits, y):
        return -losses.log_softmax(logits)[y]

    def options(kind):
        return {"epochs": 2, "progress": False, "rng": 1, "backend": kind}

    with pytest.raises(TraceError, match=r"test_backends\.py:\d+, `return -losses.*take\(values, index\)"):
        fit(nn.MLP(1, [3], rng=1), loss, [[1.0], [2.0]], [0, 2], **options(backend))
    for kind in "eager", "auto":
        fit(nn.MLP(1, [3], rng=1), loss, [[1.0], [2.0]], [0, 2], **options(kind))
    [message] = caplog.messages
    assert "take(values, index)" in message


@pytest.mark.parametrize("name", ["step", "zero_grad"])
def test_an_optimizer_with_a_step_of_its_own_is_not_compiled(name, backend, caplog):
    kind = type("Own", (SGD,), {name: lambda self: getattr(SGD, name)(self)})
    setting = Setting(optimizer=lambda model: kind(model.parameters(), 0.1))
    expected, message = setting.run(backend)["error"]
    assert expected is TypeError
    assert f"Own defines its own {name}()" in message
    same(setting, "auto")
    assert caplog.messages == [f"training eagerly, since the model cannot be compiled: {message}"]
