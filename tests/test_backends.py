"""`fit` under each backend: the same history, parameters, moments, order of examples and errors as eager."""

import io
import math
import random
import re
import signal

import numpy as np
import pytest

import micrograd
from micrograd import Value, dot, fit, losses, nn, optim, scalar, take
from micrograd.compiler import CompilerError, TraceError
from micrograd.data import moons
from micrograd.optim import SGD, Adam, AdamW, Optimizer

pytestmark = pytest.mark.usefixtures("cache")

XS, YS = moons(10, rng=1)


class Line(nn.Module):
    """w x + b."""

    def __init__(self, w=0.5, b=0.0):
        self.w, self.b = Value(w), Value(b)

    def __call__(self, x):
        return self.w * x + self.b


class Setting:
    """What `fit` is called with, but for what a test cares about. Model and optimizer are made anew each time."""

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

    def run(self, backend):
        """All that can be seen afterwards."""
        model, rng = self.model(), self.rng()
        optimizer = self.optimizer(model)
        error = history = None
        try:
            history = fit(
                model, self.loss, self.xs, self.ys, optimizer=optimizer, rng=rng, backend=backend, **self.options
            )
        except Exception as raised:
            error = type(raised), str(raised)
            history = getattr(raised, "history", None)
        every = [*model.parameters(), *getattr(optimizer, "parameters", ())]
        return {
            "error": error,
            "history": history and plain(history),
            "data": [parameter.data for parameter in every],
            "grad": [parameter.grad for parameter in every],
            "optimizer": optimizer.state_dict() if optimizer else None,
            "rng": rng.getstate() if hasattr(rng, "getstate") else rng,
            "kinds": [(type(parameter), type(parameter.data), type(parameter.grad)) for parameter in every],
            "lists": [name for name in vars(optimizer or rng) if isinstance(getattr(optimizer or rng, name), list)],
        }


def plain(history):
    """A history as dicts and lists."""
    snapshots = [[s.epoch, list(s.parameters), list(s.gradients)] for s in history.snapshots]
    return {**vars(history), "snapshots": snapshots, "failure": history.failure and vars(history.failure)}


def close(a, b):
    if isinstance(a, float) and isinstance(b, (int, float)):
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-13) or (a != a and b != b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(close(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(close, a, b))
    return a == b


def same(setting, backend):
    """What all backends give."""
    eager, compiled = setting.run("eager"), setting.run(backend)
    for name, expected in eager.items():
        assert close(expected, compiled[name]), (name, expected, compiled[name])
    return compiled


def failing(setting, backend, kind, match):
    """The same error, and the same left behind."""
    found = same(setting, backend)
    assert found["error"] is not None
    assert issubclass(found["error"][0], kind)
    assert match in found["error"][1]
    return found


# Optimizers, schedules, losses


class Signed(Optimizer):
    """The example of `Optimizer`'s docstring."""

    def __init__(self, parameters, learning_rate=0.01):
        super().__init__(parameters, learning_rate=learning_rate)

    def rule(self):
        return lambda x, grad: (x - self.learning_rate * scalar.where(grad > 0, 1, -1),)


class RMSprop(Optimizer):
    """With a moment, and something that changes with the steps."""

    moments = {"square": 0.0}  # noqa: RUF012

    def __init__(self, parameters, learning_rate=0.01, keep=0.9):
        super().__init__(parameters, learning_rate=learning_rate, keep=keep)

    def rule(self):
        rate = self.learning_rate * scalar.where(self.steps < 3, 0.5, 1)

        def update(x, grad, square):
            square = self.keep * square + (1 - self.keep) * grad**2
            return x - rate * grad / (scalar.sqrt(square) + 1e-8), square

        return update


OPTIMIZERS = {
    "SGD": lambda p: SGD(p, 0.1),
    "momentum": lambda p: SGD(p, 0.05, momentum=0.9),
    "dampening": lambda p: SGD(p, 0.05, momentum=0.9, dampening=0.5, weight_decay=0.01),
    "nesterov": lambda p: SGD(p, 0.05, momentum=0.9, nesterov=True),
    "Adam": lambda p: Adam(p, 0.02),
    "Adam, decay": lambda p: Adam(p, 0.02, (0.85, 0.99), 1e-6, 0.1),
    "AdamW": lambda p: AdamW(p, 0.02),
    "Signed": Signed,
    "RMSprop": RMSprop,
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_trains_as_it_does_eager(name, backend):
    make = OPTIMIZERS[name]
    found = same(Setting(optimizer=lambda model: make(model.parameters())), backend)
    assert found["optimizer"]["steps"] == 30
    assert found["history"]["losses"][-1] < found["history"]["losses"][0]


def test_without_an_optimizer_it_is_adam(backend):
    same(Setting(optimizer=lambda model: None), backend)


SCHEDULES = [
    optim.constant(0.05),
    optim.step(0.1, every=7),
    optim.exponential(0.1, 0.95),
    optim.linear(0.1, 20),
    optim.cosine(0.1, 25, 0.01),
    optim.warmup(optim.cosine(0.1, 20), 5),
    lambda step: [0.1, 0, np.float32(0.05), 1][step % 4] / 4,
]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("make", [SGD, Adam])
def test_every_schedule_gives_the_same_rates(schedule, make, backend):
    same(Setting(optimizer=lambda model: make(model.parameters()), schedule=schedule), backend)


def negative_log_likelihood(logits, y):
    return -take(losses.log_softmax(logits), y)


LOSSES = {
    "mse_loss": (1, losses.mse_loss, YS),
    "hinge_loss": (1, losses.hinge_loss, [2 * y - 1 for y in YS]),
    "binary": (1, losses.binary_cross_entropy_with_logits, YS),
    "take": (3, negative_log_likelihood, [i % 3 for i in range(10)]),
    "vectors": (2, losses.mse_loss, [[y, 1 - y] for y in YS]),
}


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_is_the_same(name, backend):
    outputs, loss, ys = LOSSES[name]
    same(Setting(lambda: nn.MLP(2, [3, outputs], rng=1), loss=loss, ys=ys), backend)


# Options


@pytest.mark.parametrize("size", [1, 3, 10, 99, None])
def test_batches_of_any_size(size, backend):
    same(Setting(batch_size=size, epochs=4), backend)


@pytest.mark.parametrize("limit", [1e-3, 0.2, 1e6, 0])
def test_gradients_are_clipped_alike(limit, backend):
    same(Setting(optimizer=lambda model: Adam(model.parameters(), 0.05), clip_grad_norm=limit), backend)


@pytest.mark.parametrize("patience", [None, 1, 3])
def test_validation_and_patience(patience, backend):
    validation = moons(7, rng=2)
    setting = Setting(
        epochs=25, validation=validation, patience=patience, optimizer=lambda model: SGD(model.parameters(), 0.5)
    )
    found = same(setting, backend)
    assert len(found["history"]["validation_losses"]) == len(found["history"]["losses"])
    assert patience is None or len(found["history"]["losses"]) < 25


class Patient(random.Random):
    """Which does something else than Random when it shuffles."""

    def shuffle(self, x):
        super().shuffle(x)
        x.reverse()


RNGS = {
    "int": lambda: 3,
    "Random": lambda: random.Random(3),
    "subclass": lambda: Patient(3),
    "NumPy": lambda: np.random.default_rng(3),
}


@pytest.mark.parametrize("limit", [0.01, 10.0])
def test_a_way_to_clip_of_ones_own_is_taken_everywhere(limit, backend):
    class Halving(SGD):
        def clip_scale(self, norm, max_norm):
            return scalar.where(norm > max_norm, 0.5, 1.0)

    setting = Setting(optimizer=lambda model: Halving(model.parameters(), 0.1), clip_grad_norm=limit)
    found = same(setting, backend)
    assert close(found["data"], Setting().run("eager")["data"]) is (limit == 10.0)


@pytest.mark.parametrize("name", RNGS)
def test_every_source_of_random_numbers_gives_the_same_order(name, backend):
    same(Setting(rng=RNGS[name], epochs=30) if name != "NumPy" else Setting(rng=lambda: 3), backend)
    if name == "NumPy":
        runs = [fit(Line(), losses.mse_loss, [1.0, 2.0, 3.0], [1.0, 1.0, 2.0], epochs=5, batch_size=1, progress=False,
                    rng=np.random.default_rng(3), backend=kind).losses for kind in ("eager", backend)]  # fmt: skip
        assert close(*runs)


@pytest.mark.parametrize("schedule", [None, lambda step: 0.1 * random.random()])
def test_the_global_generator_is_left_where_eager_leaves_it(backend, schedule):
    found = []
    for kind in "eager", backend:
        random.seed(5)
        model = Line()
        options = {"epochs": 40, "batch_size": 2, "progress": False, "schedule": schedule, "backend": kind}
        history = fit(model, losses.mse_loss, [1.0, 2.0, 3.0], [1.0, 1.0, 2.0], **options)
        found.append((history.losses, random.getstate()))
    assert close(*found)


def test_progress_tells_the_same_but_for_the_speed(backend):
    told = []
    for kind in "eager", backend:
        stream = io.StringIO()
        fit(Line(), losses.mse_loss, [1.0, 2.0], [1.0, 2.0], epochs=1, rng=1, progress=stream, backend=kind)
        told.append(stream.getvalue().split("  rate")[0])
    assert told[0] == told[1]
    assert told[0].startswith("epoch 1/1  loss 0.")


def test_progress_tells_of_several_shapes(backend):
    stream = io.StringIO()
    xs = [[1.0] * n for n in (1, 2, 3)]
    fit(Sums(), losses.mse_loss, xs, [1.0] * 3, epochs=1, progress=stream, backend=backend)
    assert "compiled 2 of 2 shapes" in stream.getvalue()


class Tuned:
    """A terminal."""

    def __init__(self):
        self.text = ""

    def isatty(self):
        return True

    def fileno(self):
        raise OSError("it has none")

    def write(self, text):
        self.text += text

    def flush(self):
        pass


def test_a_first_step_that_fails_is_its_own_error_also_on_a_terminal(backend):
    with pytest.raises(FloatingPointError, match="the loss is inf in epoch 1, step 1, at a learning rate of"):
        fit(Line(), lambda p, y: p * y * y, [1.0], [1e300], epochs=1, progress=Tuned(), backend=backend)


# Models


class Sums(Line):
    """Of lists of any length."""

    def __call__(self, xs):
        return dot([self.w] * len(xs), xs, self.b)


def test_examples_of_several_shapes_in_one_batch(backend, caplog):
    rng = random.Random(1)
    xs = [[rng.uniform(-1, 1) for _ in range(rng.choice([1, 2, 3, 5]))] for _ in range(23)]
    found = same(Setting(Sums, xs=xs, ys=[sum(x) for x in xs], batch_size=5), backend)
    assert found["history"]["losses"][-1] < found["history"]["losses"][0]
    assert not caplog.messages
    same(Setting(Sums, xs=[[0.5] * n for n in range(7)], ys=range(7), epochs=2, batch_size=3), backend)
    assert "compiling for 6 shapes of examples, each once" in caplog.messages


def test_targets_of_several_shapes_and_validation_of_others(backend):
    xs, ys = [1.0, 2.0, 3.0, 4.0], [[1.0], [1.0, 2.0], [2.0], [2.0, 0.0]]

    def loss(p, ys):
        return losses.mse_loss([p] * len(ys), ys)

    same(Setting(Line, loss=loss, xs=xs, ys=ys, batch_size=3, validation=([1.0], [[1.0, 2.0, 3.0]])), backend)


def test_a_model_that_remembers_within_a_call_may_have_examples_of_several_shapes(backend):
    class Recurrent(Line):
        def __call__(self, xs):
            self.state = self.b
            for x in xs:
                self.state = (self.w * x + self.state).tanh()
            state = self.state
            del self.state
            return state

    xs = [[0.5] * n for n in range(1, 6)]
    same(Setting(Recurrent, xs=xs, ys=[1.0] * 5, batch_size=2), backend)


QUARTER = Value(0.25)


class Shared(nn.Module):
    """The same layer twice, a weight that the loss does not use, and a constant."""

    def __init__(self):
        self.first = self.second = nn.Layer(2, 2, "tanh", rng=1)
        self.out = nn.Neuron(2, rng=2)
        self.unused = Value(3.0)

    def __call__(self, x):
        return self.out(self.second(self.first(x))) * QUARTER


def test_shared_and_unused_parameters_and_constants(backend):
    found = same(Setting(Shared, optimizer=lambda model: AdamW(model.parameters(), 0.05)), backend)
    assert len(found["data"]) == 2 * 10


def test_a_parameter_that_is_given_twice(backend):
    class Twice(Line):
        def parameters(self):
            return [self.w, self.b, self.w]

    same(Setting(Twice, xs=[1.0, 2.0], ys=[1.0, 3.0], batch_size=1), backend)


def test_frozen_parameters_stay_and_add_up_their_gradients_as_they_do_eager(backend):
    setting = Setting(optimizer=lambda model: Adam(model.parameters()[2:7], 0.1), clip_grad_norm=0.5)
    found = same(setting, backend)
    assert found["data"][:2] == [parameter.data for parameter in nn.MLP(2, [3, 1], rng=1).parameters()][:2]


def test_the_optimizer_may_have_the_parameters_in_another_order(backend):
    def optimizer(model):
        return Adam(random.Random(3).sample(model.parameters(), 9), 0.05)

    same(Setting(optimizer=optimizer), backend)


class Tempered(Line):
    """With a temperature in the loss, which is the optimizer's and not the model's."""

    def __init__(self):
        super().__init__()
        self.temperature = Value(1.5)

    def parameters(self):
        return [self.w, self.b]

    def __call__(self, x):
        return super().__call__(x) / self.temperature

    def optimizer(self):
        return SGD([self.temperature, *self.parameters()], 0.02, momentum=0.5)


def test_the_optimizer_may_have_more_parameters_than_the_model(backend):
    setting = Setting(Tempered, xs=[1.0, 2.0, 3.0], ys=[1.0, 3.0, 4.0], optimizer=Tempered.optimizer)
    found = same(setting, backend)
    assert found["data"][2] != 1.5  # the optimizer's first


def test_a_loss_of_what_is_not_the_models_is_refused(backend):
    temperature = Value(1.5)
    setting = Setting(
        Line, loss=lambda p, y: temperature * y, optimizer=lambda model: SGD([*model.parameters(), temperature], 0.02),
        xs=[1.0], ys=[1.0],
    )  # fmt: skip
    failing(setting, backend, ValueError, "the loss does not depend on the model's parameters")
    temperature.grad = 0.0
    setting.loss = lambda p, y: 2.0
    failing(setting, backend, ValueError, "the loss does not depend on the model's parameters")


def test_a_loss_that_is_0_from_the_first_is_learnt_as_it_is_eager(backend):
    same(Setting(Line, loss=lambda p, y: Value(0.0) * y, xs=[1.0, 2.0], ys=[1.0, 2.0], epochs=3), backend)


def test_arrays_and_tables_are_examples(backend):
    same(Setting(xs=np.array(XS), ys=np.array(YS)), backend)
    same(Setting(xs=np.array(XS, "f"), ys=np.array(YS, int)), backend)


def test_a_table_of_pandas_is_examples(backend):
    pandas = pytest.importorskip("pandas")
    same(Setting(xs=pandas.DataFrame(XS, index=range(5, 15)), ys=pandas.Series(YS, index=range(5, 15))), backend)


def test_whole_numbers_in_parameters_and_rates(backend):
    setting = Setting(
        lambda: Line(1, 2), xs=[1, 2, 3], ys=[1, 3, 4], optimizer=lambda model: SGD(model.parameters(), 0),
    )  # fmt: skip
    found = [setting.run(kind) for kind in ("eager", backend)]
    assert found[0]["data"] == found[1]["data"] == [1, 2] * 2


def test_parameters_may_come_in_any_form(backend):
    class Generated(nn.MLP):
        def parameters(self):
            yield from super().parameters()

    class Array(nn.MLP):
        def parameters(self):
            return np.array(super().parameters(), dtype=object)

    for kind in Generated, Array:
        assert same(Setting(lambda kind=kind: kind(2, [3, 1], rng=1)), backend)["error"] is None


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


class Logarithm(Line):
    def __call__(self, x):
        return (self.w * x + self.b).log()


FAILURES = {
    "log": (Logarithm, [1.0, 2.0, 3.0, -1.0, 2.0], [1.0] * 5, losses.mse_loss, ValueError, "log(-"),
    "division": (Line, [1.0, 2.0, 3.0, 0.0], [1.0] * 4, lambda p, y: p / ((p - p) + y - 1), ZeroDivisionError, ""),
    "0": (Line, [1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 0.0, 3.0], lambda p, y: p / y, ZeroDivisionError, ""),
    "label": (lambda: nn.MLP(1, [3], rng=1), [[1.0]] * 4, [0, 1, 5, 2], negative_log_likelihood, ValueError,
              "index is 5"),
    "half": (lambda: nn.MLP(1, [3], rng=1), [[1.0]] * 4, [0, 1, 0.5, 2], negative_log_likelihood, ValueError,
             "index is 0.5"),
    "negative": (lambda: nn.MLP(1, [3], rng=1), [[1.0]] * 4, [0, 1, -1, 2], negative_log_likelihood, ValueError,
                 "index is -1"),
    "loss": (Line, [1.0, 2.0, 3.0], [1.0, 1e308, 1.0], lambda p, y: p * y * 1e6, FloatingPointError, "the loss is"),
    "NaN": (Line, [1.0, math.nan, 3.0], [1.0, 1.0, 1.0], losses.mse_loss, FloatingPointError, "the loss is nan"),
    "parameter": (Line, [1.0, 1e200, 3.0], [0.0, 1e100, 0.0], lambda p, y: p * y * 1e-100, FloatingPointError,
                  "a parameter is -inf"),
    "overflow": (Line, [1.0, 4000.0, 3.0], [1.0, 1.0, 1.0], lambda p, y: p.exp() * y, OverflowError, "exp("),
}  # fmt: skip


@pytest.mark.parametrize("name", FAILURES)
@pytest.mark.parametrize("make", [SGD, lambda p, rate: SGD(p, rate, momentum=0.9), Adam])
def test_a_failure_in_the_middle_is_the_same_and_leaves_the_same(name, make, backend):
    model, xs, ys, loss, kind, match = FAILURES[name]
    options = {"loss": loss, "xs": xs, "ys": [float(y) for y in ys], "batch_size": 1}
    rate = 1e300 if name == "parameter" else 0.01
    setting = Setting(model, optimizer=lambda model: make(model.parameters(), rate), **options)
    if name == "parameter" and make is Adam:
        setting.optimizer = lambda model: Adam(model.parameters(), 1e308, (0.0, 0.0), 1e-300)
        setting.loss, match = lambda p, y: -p * 1e-308, "is"
    failing(setting, backend, kind, match)


def test_a_loss_that_grows_until_it_is_infinite_ends_at_the_same_step(backend):
    setting = Setting(Line, xs=[1.0, 2.0, 3.0], ys=[1.0, 3.0, 4.0], batch_size=2, epochs=1000)
    setting.optimizer = lambda model: SGD(model.parameters(), 30, momentum=0.9)
    found = failing(setting, backend, FloatingPointError, "the loss is inf in epoch")
    assert found["optimizer"]["steps"] > 50
    setting.loss = lambda p, y: (p - y) ** 2
    found = failing(setting, backend, OverflowError, "the result is too large for a float")
    assert found["optimizer"]["steps"] > 50


def test_a_temperature_is_set_back_with_the_rest_when_a_step_fails(backend):
    setting = Setting(Tempered, xs=[1.0, 1e200, 2.0], ys=[0.0, 1e100, 0.0], batch_size=1)
    setting.loss = lambda p, y: p * y * 1e-100
    setting.optimizer = lambda model: SGD([model.temperature, *model.parameters()], 1e300)
    found = failing(setting, backend, FloatingPointError, "a parameter is")
    assert all(map(math.isfinite, found["data"]))


@pytest.mark.parametrize("at", [0, 1, 3, 17, 18])
def test_a_schedule_that_fails_in_the_middle(at, backend):
    def missing(step):
        return [0.1] * at if step < 0 else ([0.1] * at)[step]

    def nan(step):
        return 0.1 / (1 + step) if step < at else math.nan

    def negative(step):
        return 0.1 if step < at else -0.1

    failing(Setting(schedule=missing), backend, IndexError, "list index out of range")
    failing(Setting(schedule=nan), backend, ValueError, f"schedule({at}) is nan")
    found = failing(Setting(schedule=negative, optimizer=lambda model: Adam(model.parameters())), backend, ValueError,
                    f"schedule({at}) is -0.1")  # fmt: skip
    assert found["optimizer"]["steps"] == at


def test_a_schedule_of_ours_may_fail_long_after_epochs_were_drawn(backend):
    schedule = optim.exponential(0.0, 10.7)  # to the power of 300, when an epoch begins, it is beyond all floats
    found = failing(Setting(schedule=schedule, epochs=200), backend, OverflowError, "")
    assert found["optimizer"]["steps"] == 300


def test_a_schedule_is_called_once_a_step_in_order(backend):
    calls = []

    def schedule(step):
        calls.append(step)
        return 0.01

    Setting(schedule=schedule).run(backend)
    assert calls == list(range(30))


def test_validation_that_fails(backend):
    found = failing(Setting(Logarithm, xs=[1.0, 2.0], ys=[1.0, 1.0], validation=([-1.0], [1.0])), backend, ValueError,
                    "log(-")  # fmt: skip
    assert found["optimizer"]["steps"] == 1
    setting = Setting(Line, xs=[1.0, 2.0], ys=[1.0, 1.0], loss=lambda p, y: p * y * 10, validation=([1.0], [1e308]))
    failing(setting, backend, FloatingPointError, "inf after epoch 1")


def test_gradients_whose_squares_overflow_are_clipped_all_the_same(backend):
    setting = Setting(Line, xs=[1e200, 2e200], ys=[1.0, 1.0], loss=lambda p, y: p * y, clip_grad_norm=1.0)
    found = same(setting, backend)
    assert found["data"][0] != 0.5
    assert found["error"] is None


def test_an_error_of_the_rule_comes_out_with_everything_as_it_was(backend):
    class Short(Signed):
        moments = {"more": 0.0}  # noqa: RUF012

        def rule(self):
            return lambda x, grad, more: (x,)

    found = Setting(optimizer=lambda model: Short(model.parameters())).run(backend)
    assert found["error"][0] in (TypeError, ValueError)
    assert found["optimizer"]["steps"] == 0
    assert found["data"] == Setting().run("eager")["data"][:0] + [p.data for p in Setting().model().parameters()] * 2


# What cannot be compiled


class Branching(Line):
    def __call__(self, x):
        return self.w * x if x > 0 else self.b * x  # the user's line


def test_a_branch_on_a_number_is_an_error_at_the_users_line(backend):
    with pytest.raises(TraceError, match=r"test_backends\.py:\d+, `return self\.w \* x if x > 0"):
        fit(Branching(), losses.mse_loss, [1.0, -2.0], [1.0, 1.0], epochs=1, progress=False, backend=backend)


def test_auto_trains_a_branch_eagerly_and_says_so_once(caplog):
    setting = Setting(Branching, xs=[1.0, -2.0, 3.0], ys=[1.0, 1.0, 2.0], batch_size=1)
    same(setting, "auto")
    [message] = caplog.messages
    assert message.startswith("the training is eager, since it cannot be compiled: ")
    assert message.count("# the user's line") == 1


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


@pytest.mark.parametrize("choose", [lambda x: [1.0][x], lambda x: range(x), lambda x: np.eye(2)[x]])
def test_every_way_to_index_by_a_label_is_answered_with_take(choose):
    with pytest.raises(TraceError, match=r"choose.*take\(values, index\)"):
        micrograd.compile(lambda x: choose(x), (0,), backend="python")


def test_other_type_errors_of_a_model_come_out_as_they_are():
    with pytest.raises(TypeError, match="not subscriptable"):
        micrograd.compile(lambda x: x["a"], (0,), backend="python")


class Stepping(SGD):
    def step(self):
        super().step()


class Zeroing(SGD):
    def zero_grad(self):
        super().zero_grad()


@pytest.mark.parametrize(("kind", "name"), [(Stepping, "step"), (Zeroing, "zero_grad")])
def test_an_optimizer_with_a_step_of_its_own_is_not_compiled(kind, name, backend, caplog):
    setting = Setting(optimizer=lambda model: kind(model.parameters(), 0.1))
    expected, message = setting.run(backend)["error"]
    assert expected is TypeError
    assert re.search(rf"{kind.__name__} has a {name}\(\) of its own \(.*test_backends\.py:\d+\)", message)
    same(setting, "auto")
    assert caplog.messages == [f"the training is eager, since it cannot be compiled: {message}"]


def test_auto_without_a_compiler_is_python(monkeypatch, caplog):
    monkeypatch.setenv("CC", "/nonexistent")
    micrograd.compiler.toolchain.say_once.cache_clear()
    same(Setting(), "auto")
    [message] = caplog.messages
    assert message.startswith("compiled to Python in place of C: no C compiler works here")


def test_c_without_a_compiler_is_an_error(monkeypatch):
    monkeypatch.setenv("CC", "/nonexistent")
    model = nn.MLP(2, [3, 1], rng=1)
    with pytest.raises(CompilerError, match=r"\$CC is '/nonexistent'"):
        fit(model, losses.mse_loss, XS, YS, epochs=1, progress=False, backend="c")
    assert {type(parameter) for parameter in model.parameters()} == {Value}


def test_an_unknown_backend_is_named():
    with pytest.raises(ValueError, match="unknown backend 'C': expected one of eager, auto, python, c"):
        fit(Line(), losses.mse_loss, [1.0], [1.0], epochs=1, backend="C")


def test_threads_take_the_same_steps(backend):
    found = []
    for threads in (1, 2, 2):
        model = nn.MLP(2, [3, 1], rng=1)
        xs, ys = moons(50, rng=1)
        history = fit(model, losses.mse_loss, xs, ys, epochs=5, rng=1, progress=False, backend=backend, threads=threads)
        found.append([*history.losses, *(p.data for p in model.parameters())])
    assert close(found[1], found[0])
    assert found[1] == found[2]
    with pytest.raises(ValueError, match="threads is 0"):
        fit(model, losses.mse_loss, xs, ys, epochs=5, threads=0)


# Ctrl-C


def test_ctrl_c_before_the_first_step_leaves_the_parameters_free(backend, monkeypatch):
    """It comes when there is a first look at the optimizer's numbers."""
    model, seen = Line(), []
    optimizer = SGD(model.parameters(), 0.1, momentum=0.9)

    class Pressed(list):
        def __iter__(self):
            if not seen:
                seen.append(signal.raise_signal(signal.SIGINT))
            return super().__iter__()

    optimizer.velocity = Pressed(optimizer.velocity)
    arguments = {"epochs": 2, "optimizer": optimizer, "progress": False, "backend": backend}
    history = fit(model, losses.mse_loss, [1.0], [2.0], **arguments)
    assert (history.interrupted, len(history.losses), len(seen)) == (True, 0, 1)
    assert len(fit(model, losses.mse_loss, [1.0], [2.0], **arguments).losses) == 2


@pytest.mark.parametrize("at", [0, 4, 5, 6, 100])
def test_ctrl_c_keeps_whole_steps_and_the_order_of_the_examples(at, backend):
    """By a schedule, so that it comes at the same moment: one compiled step is as good as many."""

    def schedule(step):
        if step == at:
            signal.raise_signal(signal.SIGINT)
        return 0.01

    setting = Setting(schedule=schedule, epochs=40, batch_size=2)
    model, rng = setting.model(), random.Random(7)
    optimizer = Adam(model.parameters())
    history = fit(model, setting.loss, XS, YS, optimizer=optimizer, rng=rng, schedule=schedule, epochs=40, batch_size=2,
                  progress=False, backend=backend)  # fmt: skip
    assert history.interrupted
    assert len(history.losses) == optimizer.steps // 5
    again = setting.model()
    count = optimizer.steps
    steps = Adam(again.parameters())

    class Enough(Exception):
        pass

    def until(step):
        if step == count:
            raise Enough
        return 0.01

    if count < 200:
        other = random.Random(7)
        with pytest.raises(Enough):
            fit(again, setting.loss, XS, YS, optimizer=steps, rng=other, schedule=until, epochs=41, batch_size=2,
                progress=False)  # fmt: skip
        assert close(steps.state_dict(), optimizer.state_dict())
        assert close([p.data for p in again.parameters()], [p.data for p in model.parameters()])


# Snapshots


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"snapshots": 2},
        {"epochs": 41, "batch_size": 5},
        {"validation": moons(4, rng=2), "patience": 3, "epochs": 30},
        {"schedule": optim.step(0.2, every=3, factor=0.5), "clip_grad_norm": 0.01},
        {"optimizer": lambda model: Adam(model.parameters()[-2:], 0.05)},
        {"rng": lambda: None, "epochs": 3},
    ],
)
def test_snapshots_are_the_same_and_change_nothing(options, backend):
    options = {"snapshots": 8, **options}
    random.seed(1)
    without = Setting(**{**options, "snapshots": None}).run(backend)
    random.seed(1)
    setting = Setting(**options)
    if "rng" in options:
        setting.rng = lambda: random.seed(1) or random
    found = same(setting, backend)
    snapshots = found["history"].pop("snapshots")
    assert without["history"].pop("snapshots") == []
    assert 2 <= len(snapshots) <= options["snapshots"]
    assert (snapshots[0][0], snapshots[-1][0]) == (0, len(found["history"]["losses"]))
    assert all(without[name] == found[name] for name in ("history", "data", "grad", "optimizer"))


def test_a_training_that_fails_keeps_its_snapshots_and_tells_where(backend):
    data = {"xs": [1.0, 2.0, 3.0, 4.0], "ys": [0.0] * 4}
    setting = Setting(Line, **data, batch_size=2, epochs=500, snapshots=10)
    setting.optimizer = lambda model: SGD(model.parameters(), 3.0)
    found = failing(setting, backend, FloatingPointError, "is inf in epoch")["history"]
    failure, snapshots = found["failure"], found["snapshots"]
    assert failure["epoch"] == snapshots[-1][0] >= len(found["losses"]) > 5
    assert all(map(math.isfinite, snapshots[-1][1]))
    assert "inf" in failure["origin"]
