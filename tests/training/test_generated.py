"""What generated code may repeat: models that are the same at each call, as they are when a training run begins."""

import copy
import random
import signal
import sys
from collections import Counter, deque
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from micrograd import Backend, Value, fit, losses, mean, nn, scalar
from micrograd.compiler import TraceError
from micrograd.optim import SGD
from tests.trainings import GENERATORS, Line, Setting, close, failing, same

XS, YS = [1.0, 2.0, -1.0, 0.5], [1.0, 3.0, 0.5, 1.0]
GLOBAL = GENERATORS[0]
NOT_THE_SAME = "training eagerly, since the loss of an example is not the same each time: it was "
CHANGES = "training eagerly, since the model or the loss draws "


class Counted(nn.Neuron):
    """A Neuron that keeps a number of its own."""

    calls = 0


class Network(nn.Module):
    """A hidden layer, after which `between` changes what it computed."""

    def __init__(self, between=lambda model, hidden: hidden):
        self.below, self.above = nn.Layer(1, 3, "tanh", rng=1), Counted(3, rng=2)
        self.between, self.rng, self.calls, self.mean, self.kept = between, random.Random(1), 0, 0.0, []
        self.means, self.counts, self.running = np.zeros(3), {}, Value(0.0).detach()
        self.numpy, self.legacy = np.random.default_rng(1), np.random.RandomState(1)
        self.numbers, self.block = deque(), SimpleNamespace(layers=[SimpleNamespace(mean=0.0)])  # not Modules

    def __call__(self, x):
        return self.above(self.between(self, self.below([x])))


def setting(between, **options):
    return Setting(lambda: Network(between), xs=XS, ys=YS, batch_size=2, **options)


# What is not the same each time


OF_NOISE = {
    "dropout": lambda model, hidden: [h * random.choice([0.0, 2.0]) for h in hidden],
    "dropout by NumPy": lambda model, hidden: [h * float(2 * np.random.randint(2)) for h in hidden],
    "noise of its own": lambda model, hidden: [h + model.rng.gauss(0, 0.1) for h in hidden],
    "noise of a module": lambda model, hidden: [h + GLOBAL.gauss(0, 0.1) for h in hidden],
    "noise of a closure": (lambda rng: lambda model, hidden: [h + rng.gauss(0, 0.1) for h in hidden])(GENERATORS[1]),
    "noise of a default": lambda model, hidden, rng=GENERATORS[2]: [h + rng.gauss(0, 0.1) for h in hidden],
    "partial noise": partial(lambda model, hidden, rng: [h + rng.gauss(0, 0.1) for h in hidden], rng=GENERATORS[2]),
    "noise by NumPy": lambda model, hidden: [h + model.numpy.normal() + model.legacy.normal() for h in hidden],
}


class Counts(dict):
    """Adds what it is updated with to its counts, and has its keys as attributes."""

    __getattr__ = dict.__getitem__

    def update(self, other):
        for key, count in other.items():
            self[key] = self.get(key, np.int64(0)) + count


def keeping(keep, use=lambda model, hidden: hidden):
    """A function between two layers that keeps something from each call, and may use it."""

    def between(model, hidden):
        keep(model, hidden)
        return use(model, hidden)

    return between


def update_mean(model, hidden):
    norm = model.block.layers[0]
    norm.mean = 0.9 * norm.mean + 0.1 * hidden[0].data


def update_counts(model, hidden):
    model.counts = model.counts or Counts()
    model.counts.update({"calls": 1})
    model.numbers.append(1.0)


CHANGING = OF_NOISE | {
    "a running mean": keeping(update_mean, lambda model, hidden: [h - model.block.layers[0].mean for h in hidden]),
    "a running mean for later": keeping(update_mean),
    "a mean of Values": keeping(
        lambda model, hidden: setattr(model, "kept", [*model.kept[-1:], hidden[0]]),
        lambda model, hidden: [h - model.kept[0] for h in hidden],
    ),
    "means in an array": keeping(lambda model, hidden: model.means.__iadd__([h.data for h in hidden])),
    "a mean in a Value": keeping(
        lambda model, hidden: setattr(model.running, "data", model.running.data + scalar.innermost(hidden[0]))
    ),
    "weights that decay": keeping(
        lambda model, hidden: [setattr(p, "data", p.data * (1 - 1e-12)) for p in model.below.parameters()]
    ),
    "calls of a neuron": keeping(lambda model, hidden: setattr(model.above, "calls", model.above.calls + 1)),
    "a sign": keeping(lambda model, hidden: setattr(model, "calls", 1 - model.calls)),
    "counts of NumPy": keeping(update_counts),
    "a number unless traced": lambda model, hidden: [h * (1.0 if type(h.data) is float else 2.0) for h in hidden],
    "other numbers from the fourth call, the traced one, on": keeping(
        lambda model, hidden: setattr(model, "calls", model.calls + 1),
        lambda model, hidden: [h * (1.0 if model.calls <= 3 * len(XS) else 2.0) for h in hidden],
    ),
    "a counter in a dict": keeping(
        lambda model, hidden: model.counts.update(calls=model.counts.get("calls", 0) + 1),
        lambda model, hidden: [h * model.counts["calls"] for h in hidden],
    ),
    "what the first call set": keeping(
        lambda model, hidden: [vars(model).setdefault("first", hidden[0].data), model.kept.append(hidden[0].data)],
        lambda model, hidden: [h - model.first - sum(model.kept) for h in hidden],
    ),
}


@pytest.mark.parametrize("between", CHANGING.values(), ids=CHANGING)
def test_a_model_that_is_not_the_same_each_time_is_trained_eagerly(between, backend, caplog):
    same(setting(between), backend)  # the trial leaves nothing behind
    [message] = caplog.messages
    assert message.startswith((NOT_THE_SAME, CHANGES))


class Noise:
    """A part of a model, and a model itself, that is no Module."""

    def __init__(self):
        self.w, self.rng, self.numpy = Value(0.5), random.Random(1), np.random.default_rng(1)

    def parameters(self):
        return [self.w]

    def __call__(self, x):
        return self.w * x + self.rng.gauss(0, 0.1) + self.numpy.normal()


class Noisy(Line):
    def __init__(self):
        super().__init__()
        self.noise = Noise()

    def __call__(self, x):
        return self.noise(super().__call__(x))


@pytest.mark.parametrize("model", [Noise, Noisy])
def test_generators_in_what_is_no_module_are_set_back_too(model, backend, caplog):
    same(Setting(model, xs=XS, ys=YS), backend)
    assert caplog.messages[0].startswith(NOT_THE_SAME)


class Later:
    """A model, or a loss, that is no Module and returns twice as much from some call on."""

    def __init__(self):
        self.w, self.calls = Value(0.5), 0

    def parameters(self):
        return [self.w]

    def __call__(self, x, y=0.0):
        self.calls += 1
        return (self.w * x - y) ** 2 * (1.0 if self.calls <= 3 * len(XS) else 2.0)

    def loss(self, prediction, y):
        return self(prediction, y)


@pytest.mark.parametrize("given", [
    lambda: {"model": Later}, lambda: {"model": Line, "loss": Later()}, lambda: {"model": Line, "loss": Later().loss},
], ids=["model", "loss", "method"])  # fmt: skip
def test_numbers_that_a_model_or_a_loss_of_any_class_keeps_are_watched_and_set_back(given, backend, caplog):
    found = [Setting(**given(), xs=XS, ys=YS).run(way) for way in ("eager", backend)]
    assert close(*found)
    assert [message.startswith(CHANGES) for message in caplog.messages] == [True]


def reseeded(model, hidden):
    random.seed(3), np.random.seed(3)
    return OF_NOISE["dropout"](model, OF_NOISE["dropout by NumPy"](model, hidden))


@pytest.mark.parametrize(("between", "is_compiled"), [*((each, False) for each in OF_NOISE.values()), (reseeded, True)])
def test_random_numbers_that_change_no_loss_yet_are_noticed_unless_they_are_the_same_each_time(
    between, is_compiled, backend, caplog
):
    def begin():
        model = Network(between)
        for weight in model.above.w:
            weight.data = 0.0
        return model

    either = Setting(begin, xs=XS, ys=YS, batch_size=2)
    assert close(*[either.run(way) | {"random": "set by each call of the model"} for way in ("eager", backend)])
    assert [message.startswith(CHANGES) for message in caplog.messages] == ([] if is_compiled else [True])


def test_random_numbers_for_a_shape_that_was_not_tried_are_noticed(backend, caplog, monkeypatch):
    monkeypatch.setattr("micrograd.training.generated.SECONDS", 0.0)  # so that only the first example is tried

    class Noisy(Line):
        def __call__(self, xs):
            return super().__call__(xs[0]) + sum(random.gauss(0, 0.1) * x for x in xs[1:])

    same(Setting(Noisy, xs=[[1.0], [2.0], [0.5, 1.0]], ys=XS[:3]), backend)
    assert [message.startswith(CHANGES) for message in caplog.messages] == [True]


def test_a_loss_that_draws_from_the_generator_that_shuffles_is_trained_eagerly(backend, caplog):
    rng = {"loss": lambda p, y: (p - y - GENERATORS[2].random()) ** 2, "rng": lambda: GENERATORS[2]}
    same(Setting(Line, xs=XS, ys=YS, **rng), backend)
    assert caplog.messages[0].startswith(NOT_THE_SAME)


def test_noise_of_unknown_origin_is_noticed_if_it_changes_a_loss(backend, caplog):
    numbers = iter([*[1.0] * 4, 2.0, *[1.0] * 99])
    setting(lambda model, hidden: [next(numbers) * hidden[0], *hidden[1:]]).run(backend)
    assert caplog.messages[0].startswith(NOT_THE_SAME)


def test_a_target_that_the_loss_in_a_users_loss_rejects_is_an_error_in_its_step(backend):
    doubled = Setting(Line, xs=XS, ys=[1, 1, -1, 0], loss=lambda p, y: 2 * losses.hinge_loss(p, y), batch_size=1)
    assert same(doubled, backend)["error"][1].startswith("target is 0: hinge_loss expects -1 or +1")


def test_a_model_of_single_precision_may_round(caplog):
    same_numbers = Setting(Line, xs=XS, ys=YS, epochs=2)
    same_numbers.run(Backend("auto", precision="single"))
    assert not caplog.messages


# What the model stores


def activations(model, hidden):
    model.kept = hidden
    return hidden


def test_activations_that_a_model_stores_are_numbers_after_the_training(backend, caplog):
    same(setting(activations), backend)
    model = Network(activations)
    fit(model, losses.mse_loss, XS, YS, epochs=1, backend=backend, progress=False)
    assert [type(h.data) for h in model.kept] == [float] * 3
    assert not caplog.messages


def test_activations_are_numbers_if_examples_have_several_shapes(backend):
    class Scaled(nn.Module):
        def __init__(self):
            self.w, self.kept = Value(0.5), []

        def __call__(self, x):
            self.kept = [self.w * xi for xi in x]
            return mean(self.kept)

    model = Scaled()
    fit(model, losses.mse_loss, [[1.0], [1.0, 2.0]], [1.0, 2.0], epochs=1, backend=backend, progress=False)
    assert {type(h.data) for h in model.kept} == {float}


def made_for_each_shape(model, x):
    return model.held.setdefault(len(x), 1.0 / len(x))


def begun_from_data(model, x):
    if "begun" not in model.held:
        model.w.data, model.held["begun"] = 2 * model.w.data, True
    return 1.0


def counted(model, x):
    model.held["calls"] += 1
    return model.held["calls"] / model.held["calls"]


class Totals(list):
    """Appends running totals, and cannot forget them."""

    def append(self, number):
        super().append(number + sum(self[-1:]))

    def extend(self, numbers):
        for number in numbers:
            self.append(number)

    def clear(self):
        raise NotImplementedError


def totalled(model, x):
    model.held.append(1.0)
    return 1.0


FIRST = [
    ({}, made_for_each_shape), ({}, begun_from_data), (Counter(a=2), counted), (Totals([1.0, 3.0]), totalled)
]  # fmt: skip


@pytest.mark.parametrize(("held", "factor"), FIRST)
def test_what_a_model_holds_since_its_first_calls_is_what_it_has_trained_with(held, factor, backend):
    class Holding(Line):
        def __init__(self):
            super().__init__()
            self.held = type(held)(held)

        def __call__(self, x):
            return factor(self, x) * super().__call__(mean(x))

    found = []
    for way in "eager", backend:
        model = Holding()
        history = fit(model, losses.mse_loss, [[1.0], [1.0, 2.0]], [1.0, 2.0], epochs=3, backend=way, progress=False)
        found.append((model.held, model.w.data, *history.losses))
    assert close(*found), found


def test_what_a_model_that_cannot_be_compiled_keeps_is_set_back_before_the_engine_trains_it(caplog):
    def highest(model, hidden):
        model.mean = max(model.mean, scalar.innermost(hidden[0]))
        return [h - model.block.layers[0].mean for h in hidden]

    same(setting(highest), "auto")
    assert "the model cannot be compiled" in caplog.text


def in_another_thread(model, hidden):
    with ThreadPoolExecutor(1) as pool:
        return [pool.submit(lambda h=h: h * 2.0).result() for h in hidden]


def test_a_model_that_cannot_be_traced_keeps_no_traced_numbers(backend, caplog):
    def branching(model, hidden):
        model.kept = hidden
        return hidden if hidden[0] > 0 else hidden[::-1]

    for between in branching, in_another_thread:
        model = Network(between)
        with pytest.raises(TraceError, match=r"test_generated\.py:\d+"):
            fit(model, losses.mse_loss, XS, YS, epochs=1, backend=backend, progress=False)
        assert [type(h.data) for h in model.kept] in ([float] * 3, [])
        same(setting(between), "auto")


# What a model reads is as it is when the training begins


class Sloped(Line):
    """A model with what tests change."""

    def __init__(self):
        super().__init__()
        self.slope, self.table = 2.0, {"offset": 0.25}

    def __call__(self, x):
        return super().__call__(x) * self.slope + self.table["offset"]


@pytest.mark.parametrize("change", [
    lambda model: setattr(model, "slope", 3.0), lambda model: model.table.update(offset=1.0),
    lambda model: setattr(model, "b", 0.5), lambda model: setattr(model, "slope", Value(4.0)),
    lambda model: setattr(model, "__dict__", {**vars(model), "slope": 3.0}),
])  # fmt: skip
@pytest.mark.parametrize("copied", [lambda model: model, copy.copy, copy.deepcopy])
def test_a_model_that_has_changed_since_it_was_trained_trains_as_it_is(change, copied, backend):
    def trained():
        model = Sloped()
        fit(model, losses.mse_loss, XS, YS, epochs=1, backend=backend, progress=False)
        model = copied(model)
        change(model)
        return model

    same(Setting(trained, xs=XS, ys=YS, optimizer=lambda model: SGD(model.parameters(), 0.001)), backend)


# Values that no optimizer changes


class Annealed(Line):
    """With a Value that is not learned, and one that is made at each call."""

    def __init__(self):
        super().__init__()
        self.alpha = Value(1.0)

    def parameters(self):
        return [self.w, self.b]

    def __call__(self, x):
        return super().__call__(x) * self.alpha + Value(0.5) + self.alpha.data


ALPHA = Value(0.5)


class Frozen(nn.Module):
    """Rows of a table and a layer that are not learned, below one that is."""

    def __init__(self):
        self.table, self.below = nn.Embedding(4, 2, rng=1), nn.Layer(2, 3, "tanh", rng=2)
        self.above = nn.Neuron(3, rng=3)

    def parameters(self):
        return self.above.parameters()

    def __call__(self, x):
        return self.above(self.below(self.table(x * x)))


def thaw(model, step):
    model.below.parameters()[step % 5].data += 0.25
    model.table.parameters()[step % 8].data -= 0.25


@pytest.mark.parametrize("validation", [None, ([1.0, 0.0], [2.0, 2.0])])
@pytest.mark.parametrize(("model", "loss", "change"), [
    (Annealed, losses.mse_loss, lambda model, step: setattr(model.alpha, "data", 0.7**step)),
    (Line, lambda p, y: ALPHA * (p - y) ** 2, lambda model, step: setattr(ALPHA, "data", 0.7**step)),
    (Frozen, losses.mse_loss, lambda model, step: None),
    (Frozen, losses.mse_loss, thaw),
])  # fmt: skip
@pytest.mark.parametrize("way", ["python", "c", "shards"])
def test_values_that_are_not_learned_are_read_at_each_step(model, loss, change, validation, way):
    found = []
    for backend in "eager", way:
        ALPHA.data, made = 1.0, model()
        schedule = lambda step, made=made: change(made, step) or 0.1  # noqa: E731
        trained = Setting(lambda made=made: made, loss=loss, xs=[1.0, -1.0, 0.0], ys=YS[:3], schedule=schedule)
        trained.options["validation"] = validation
        found.append(trained.run(backend))
    assert close(*found)


def test_a_first_example_that_fails_fails_as_it_does_eagerly(backend):
    logarithmic = Setting(Line, loss=lambda p, y: p.log() * y, xs=[-1.0, 1.0], ys=[1.0, 1.0])
    failing(logarithmic, backend, ValueError, "log(")


@pytest.mark.parametrize("given", [float, Value])
def test_an_error_from_a_signal_handler_is_not_taken_for_one_from_the_model(given, request):
    def loss(prediction, y):
        if isinstance(y, given) and signals:
            signal.raise_signal(signals.pop())
        return prediction - y

    signals, before = [signal.SIGTERM], signal.signal(signal.SIGTERM, lambda *_: [].pop())
    request.addfinalizer(lambda: signal.signal(signal.SIGTERM, before))
    with pytest.raises(IndexError, match="pop from empty list"):
        fit(Line(), loss, XS, YS, epochs=1, backend="auto", progress=False)


def test_what_is_wrong_with_an_example_is_said_with_its_numbers(backend):
    with pytest.raises(ValueError, match=r"a list of length 1, such as \[0\.0\], not 1\.5\n") as caught:
        fit(nn.MLP(1, [2, 1]), losses.mse_loss, [1.5], [2.0], epochs=1, backend=backend, progress=False)
    assert caught.value.__notes__ == ["in example 0, counted from 0"]  # and no note on what compile() takes


def test_a_generator_without_a_state_may_shuffle_and_numpy_may_be_missing(backend, monkeypatch):
    monkeypatch.delitem(sys.modules, "numpy.random", raising=False)
    rng = random.SystemRandom()
    history = fit(Line(), losses.mse_loss, XS, YS, epochs=2, rng=rng, backend=backend, progress=False)
    assert len(history.losses) == 2
