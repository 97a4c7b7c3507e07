"""`fit` trains, reports and records; and however it ends, the model is consistent and Python's state is restored."""

import gc
import io
import math
import os
import random
import re
import signal
import sys
import weakref
from contextlib import suppress
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest

from micrograd import Value, nn
from micrograd.data import batches, moons
from micrograd.losses import binary_cross_entropy_with_logits as cross_entropy
from micrograd.losses import hinge_loss, mse_loss
from micrograd.optim import SGD, Adam, step
from micrograd.training import Diverged, fit
from tests.helpers import Table
from tests.trainings import Line

XS, YS = moons(12, rng=1)


def mlp(rng=1):
    return nn.MLP(2, [3, 1], rng=rng)


def train(model=None, loss=cross_entropy, xs=XS, ys=YS, **options):
    """`fit` with what a test does not care about."""
    options = {"epochs": 3, "batch_size": 4, "rng": 1, "progress": False, **options}
    return fit(model or mlp(), loss, xs, ys, **options)


def numbers(model):
    return [parameter.data for parameter in model.parameters()]


# Learning


def test_it_takes_the_steps_that_a_loop_by_hand_takes():
    model, by_hand = mlp(), mlp()
    history = train(model, optimizer=Adam(model.parameters(), 0.03), xs=XS[:10], ys=YS[:10])
    optimizer, rng, losses = Adam(by_hand.parameters(), 0.03), random.Random(1), []
    for _ in range(3):
        total = 0.0
        for xs, ys in batches(XS[:10], YS[:10], 4, rng):
            loss = sum((cross_entropy(by_hand(x), y) for x, y in zip(xs, ys, strict=True)), Value(0.0)) / len(xs)
            by_hand.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.data * len(xs)
        losses.append(total / 10)
    assert numbers(model) == pytest.approx(numbers(by_hand), rel=1e-12)
    assert history.losses == pytest.approx(losses, rel=1e-12)


def test_the_seed_decides_the_order_of_the_examples():
    models = [mlp() for _ in range(6)]
    numpys = [np.random.default_rng(3) for _ in range(2)]
    for model, rng in zip(models, [1, random.Random(1), None, 2, *numpys], strict=True):
        random.seed(1)
        train(model, rng=rng)
    first, second, third, fourth, fifth, sixth = map(numbers, models)
    assert first == second == third != fourth != fifth == sixth


def test_the_rows_of_tables_are_examples_and_by_default_adam_steps_on_all_of_them():
    model, other, tables = mlp(), mlp(), (Table(XS), Table(YS))
    history = train(model, xs=tables[0], ys=tables[1], validation=tables, batch_size=None)
    adam = Adam(other.parameters(), learning_rate=0.01)
    assert history == train(other, validation=(XS, YS), batch_size=np.int64(len(XS)), optimizer=adam)
    assert numbers(model) == numbers(other)


def test_the_schedule_sets_the_rate_of_each_step():
    model, schedule = Line(0.0), step(0.5, every=2, factor=0.1)
    options = {"optimizer": SGD([model.w], 9.0), "schedule": schedule, "batch_size": 1}
    history = train(model, lambda prediction, target: prediction, [1.0, 1.0], [0.0, 0.0], **options)
    assert history.learning_rates == pytest.approx([0.5, 0.05, 0.005])
    assert model.w.data == pytest.approx(-2 * (0.5 + 0.05 + 0.005))


# Validation and patience


def test_validation_is_measured_after_each_epoch_and_not_learned_from():
    model, other = mlp(), mlp()
    validation = moons(5, rng=2)
    history = train(model, validation=validation)
    train(other)
    assert numbers(model) == numbers(other)
    assert len(history.validation_losses) == 3
    last = [cross_entropy(model(x), y).data for x, y in zip(*validation, strict=True)]
    assert history.validation_losses[-1] == pytest.approx(sum(last) / 5, rel=1e-12)
    assert train().validation_losses == []


class Walk:
    """An optimizer that sets weights to one number after the other, until Ctrl-C is pressed."""

    learning_rate = 0.0

    def __init__(self, path, *parameters):
        self.parameters, self.path = parameters, iter(path)

    def zero_grad(self):
        pass

    def step(self):
        number = next(self.path, None)
        if number is None:
            raise KeyboardInterrupt
        for parameter in self.parameters:
            parameter.data = number


def walk(path, model=None, loss=mse_loss, others=(), **options):
    """The history of a weight that takes this path, where the validation loss is its square, and the weight."""
    model = model or Line(9.0)
    options = {"epochs": len(path), "validation": ([1.0], [0.0]), "batch_size": None, **options}
    history = train(model, loss, [1.0], [0.0], optimizer=Walk(path, model.w, *others), **options)
    return history, model.w.data


@pytest.mark.parametrize(("path", "patience", "epochs", "best"), [
    ([3.0, 2.0, 4.0, 1.0], 1, 3, 2.0),
    ([3.0, 2.0, 4.0, 1.0, 5.0], 2, 5, 1.0),
    ([3.0, 2.0, 2.0, -2.0, 1.0], 2, 4, 2.0),  # as low is no lower
    ([3.0, 2.0, 1.0], 1, 3, 1.0),
    ([3.0, 4.0, 5.0], 9, 3, 3.0),  # the best, even where the patience lasts
])  # fmt: skip
def test_patience_ends_the_training_and_brings_back_the_best_parameters(path, patience, epochs, best):
    history, w = walk(path, patience=patience)
    assert history.validation_losses == [w * w for w in path[:epochs]]
    assert len(history.losses) == len(history.learning_rates) == epochs
    assert w == best
    assert not history.interrupted


def test_the_last_report_says_from_which_epoch_the_parameters_are_if_patience_chose_it():
    reports = [io.StringIO(), io.StringIO()]
    for report, patience in zip(reports, (1, None), strict=True):
        walk([3.0, 2.0, 4.0, 1.0], patience=patience, progress=report)
    with_patience, without = (report.getvalue() for report in reports)
    assert with_patience.endswith(", parameters of epoch 2, with the lowest validation loss\n")
    assert "parameters" not in without


def test_patience_brings_back_whatever_the_optimizer_trains():
    """Here a scale in the loss, which the model does not have."""
    scale, model = Value(1.0), Line(9.0)
    walk([3.0, 2.0, 4.0, 5.0], model, lambda p, y: (p * scale - y) ** 2, [scale], patience=2)
    assert (model.w.data, scale.data) == (2.0, 2.0)


def test_an_interrupt_brings_back_the_best_parameters_too():
    history, w = walk([3.0, 2.0, 4.0], epochs=9, patience=5)
    assert history.interrupted
    assert history.validation_losses == [9.0, 4.0, 16.0]
    assert w == 2.0
    assert walk([3.0, 2.0, 4.0])[1] == 4.0  # without patience, the last


# What goes wrong


def acting(at, act):
    """A loss that does something at its so-manieth call."""
    calls = count(1)

    def loss(prediction, target):
        if next(calls) == at:
            act()
        return cross_entropy(prediction, target)

    return loss


def failing(at, error):
    """A loss that raises the error at its so-manieth call."""

    def fail():
        raise error

    return acting(at, fail)


def pressing(at, times=1):
    """A loss at whose so-manieth call Ctrl-C is pressed."""
    return acting(at, lambda: [signal.raise_signal(signal.SIGINT) for _ in range(times)])


@pytest.mark.parametrize(("at", "steps", "epochs", "measured"), [
    (1, 1, 0, 0),
    (4, 1, 0, 0),
    (12, 3, 1, 1),  # in an epoch's last step
    (12 + 7, 3, 1, 1),  # in its validation
    (24 + 5, 5, 1, 1),
    (24 * 3, 9, 3, 3),  # in the very last
])  # fmt: skip
def test_ctrl_c_is_noticed_after_the_step_and_the_validation_that_are_under_way(at, steps, epochs, measured):
    taken = []

    class Recorder(SGD):
        def step(self):
            super().step()
            taken.append(numbers(model))

    model = mlp()
    history = train(model, pressing(at), validation=(XS, YS), optimizer=Recorder(model.parameters(), 0.1))
    assert history.interrupted
    assert len(history.losses) == len(history.learning_rates) == epochs
    assert len(history.validation_losses) == measured
    assert len(taken) == steps
    assert numbers(model) == taken[-1]
    with pytest.raises(KeyboardInterrupt):  # it is Python's own again
        signal.raise_signal(signal.SIGINT)


def test_a_second_ctrl_c_ends_at_once():
    model, other = mlp(), mlp()
    with pytest.raises(KeyboardInterrupt):
        train(model, pressing(at=12 + 6, times=2))
    train(other, failing(12 + 5, error=KeyboardInterrupt()))
    assert numbers(model) == numbers(other)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ZeroDivisionError("inside")])
def test_a_step_that_fails_half_way_is_undone(error):
    class HalfWay(SGD):
        def step(self):
            if self.steps == 4:
                self.parameters[0].data = 77.0
                raise error
            super().step()

    model, other = mlp(), mlp()
    if isinstance(error, KeyboardInterrupt):
        assert train(model, optimizer=HalfWay(model.parameters(), 0.1)).interrupted
    else:
        with pytest.raises(ZeroDivisionError, match="^inside"):
            train(model, optimizer=HalfWay(model.parameters(), 0.1))
    train(other, failing(at=4 * 4 + 1, error=KeyboardInterrupt()), optimizer=SGD(other.parameters(), 0.1))
    assert numbers(model) == numbers(other)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_not_finite_raises_and_leaves_the_parameters(bad):
    calls = iter(range(12 + 4))

    def loss(prediction, target):
        return cross_entropy(prediction, target) + (bad if next(calls, None) is None else 0.0)

    model, other = mlp(), mlp()
    message = rf"the loss is {bad} in epoch 2, step 5, at a learning rate of 0\.01"
    with pytest.raises(FloatingPointError, match=message) as caught:
        train(model, loss)
    failure = caught.value.history.failure
    assert (failure.message, failure.what) == (str(caught.value), f"the loss is {bad}")
    assert failure.epoch == pytest.approx(4 / 3)
    train(other, failing(at=12 + 4 + 1, error=KeyboardInterrupt()))
    assert numbers(model) == numbers(other)


@pytest.mark.parametrize("make", [Adam, lambda ps: SGD(ps, momentum=0.9)])
def test_an_optimizer_goes_on_after_a_step_that_is_undone(make):
    neuron = nn.Neuron(1, "relu", rng=0)
    neuron.w[0].data = -0.5
    optimizer = make(neuron.parameters())
    before = optimizer.state_dict()
    with pytest.raises(FloatingPointError, match="a parameter is nan"):
        fit(neuron, mse_loss, [[math.inf]], [1.0], epochs=1, optimizer=optimizer, progress=False)
    assert optimizer.state_dict() == before
    neuron.w[0].data = 0.5
    fit(neuron, mse_loss, [[1.0]], [1.0], epochs=1, optimizer=optimizer, progress=False)
    assert optimizer.steps == 1


@pytest.mark.parametrize(("path", "what", "epochs"), [
    ([3.0, 2.0, 1e200], "the validation loss is inf after epoch 3", 3),
    ([3.0, 2.0, 4.0, math.nan], "a parameter is nan in epoch 4, step 4, at a learning rate of 0.0", 3),
])  # fmt: skip
def test_with_patience_a_training_that_diverges_brings_back_the_best_parameters(path, what, epochs):
    model = Line(9.0)
    with pytest.raises(Diverged) as caught:
        walk(path, model, patience=5, loss=lambda p, y: p * p)
    history, message = caught.value.history, str(caught.value)
    assert message.startswith(f"{what}: the parameters are those of epoch 2, with the lowest validation loss;")
    assert model.w.data == 2.0
    assert len(history.losses) == len(history.learning_rates) == epochs
    assert history.validation_losses[:2] == [9.0, 4.0]


@pytest.mark.parametrize("backend", ["eager", "python"])
def test_a_loss_that_has_grown_a_thousandfold_is_reported_once(backend, caplog):
    model = Line(1.0)
    options = {"batch_size": None, "backend": backend}
    history = train(model, mse_loss, [2.0], [1.0], optimizer=SGD([model.w], 10.0), **options)
    assert caplog.messages == [f"{history.summary()}; try a lower learning rate"]
    assert history.summary().endswith(" (it has grown)")
    caplog.clear()
    train(Line(1.0), mse_loss, [2.0], [1.0], **options)
    assert not caplog.messages


def test_a_parameter_with_a_number_of_numpy_trains_in_pythons_precision():
    model = Line(1.0)
    model.w.data = np.float32(0.1)
    train(model, mse_loss, [2.0], [1.0], epochs=2, backend="eager")
    assert type(model.w.data) is float


class Forward(nn.Module):
    def forward(self, x):
        return x


@pytest.mark.parametrize(("options", "kind", "message"), [
    ({"model": type("Fixed", (Line,), {"parameters": lambda self: []})()}, ValueError, "no parameters"),
    ({"xs": [], "ys": []}, ValueError, "xs is empty"), ({"xs": XS[:-1]}, ValueError, "not 11 and 12"),
    ({"epochs": 0}, ValueError, "epochs is 0"), ({"batch_size": 0}, ValueError, "batch_size is 0"),
    ({"validation": ([], [])}, ValueError, r"^validation\[0\] is empty"),
    ({"validation": [(1, 2)]}, ValueError, r"validation is \[\(1, 2\)\]: expected a pair"),
    ({"validation": ([1], [1, 2])}, ValueError, "not 1 and 2"),
    ({"validation": {"xs": XS, "ys": YS}}, ValueError, "validation is {.*: expected a pair"),
    ({"validation": (XS, YS), "patience": 0}, ValueError, "patience is 0"),
    ({"patience": 3}, ValueError, "give validation="),
    ({"schedule": lambda step: math.nan}, ValueError, r"schedule\(0\) is nan: expected a finite number, 0 or gre"),
    ({"optimizer": SGD(mlp().parameters())}, ValueError, "the optimizer has none of the model's parameters"),
    ({"loss": lambda p, y: (p.data - y) ** 2}, ValueError, "the loss does not depend on the parameters"),
    ({"loss": lambda p, y: p.detach() ** 2}, ValueError, "the loss does not depend on the parameters"),
    ({"xs": dict(enumerate(XS))}, TypeError, "xs is of type dict: expected a list or an array$"),
    ({"ys": set(range(12))}, TypeError, "ys is of type set"),
    ({"model": mse_loss}, TypeError, r"model is <function mse_loss.*>: expected a model with parameters\(\) and __c"),
    ({"model": Forward()}, TypeError, r"^model is Forward\(0 parameters\): expected .* __call__ \(not forward\), "),
    ({"model": mse_loss, "loss": mlp()}, TypeError, r"^model is .*, as in fit\(model, loss, xs, ys\)$"),
    ({"loss": XS, "ys": mse_loss}, TypeError, r"^loss is .*mse_loss, as in fit\(model, loss, xs, ys\)$"),
    ({"loss": "mse"}, TypeError, "loss is 'mse': expected a function of a prediction and its target, such as loss"),
    ({"loss": lambda p, y: None}, TypeError, "a Value holds a number .*, not NoneType"),
    ({"loss": lambda p, y: [p - y]}, TypeError, "a Value holds a number .*, not list"),
    ({"optimizer": "adam"}, TypeError, r"optimizer is 'adam': expected an optimizer, such as optim.Adam\(model"),
    ({"optimizer": Adam}, TypeError, "optimizer is <class 'micrograd.optim.Adam'>: expected an optimizer"),
    ({"schedule": 0.1}, TypeError, r"schedule is 0.1: expected a function .*, such as optim.constant\(0.1\)"),
    ({"progress": 1}, TypeError, "progress is 1: expected True, False or a text stream"),
    ({"rng": "1"}, TypeError, "rng is '1': expected a random.Random, a NumPy generator or a seed"),
])  # fmt: skip
def test_invalid_arguments_are_refused_before_anything_happens(options, kind, message):
    model = options.pop("model", mlp())
    with pytest.raises(kind, match=message):
        train(model, **options)
    assert not isinstance(model, nn.MLP) or numbers(model) == numbers(mlp())


@pytest.mark.parametrize("backend", ["eager", "auto", "python"])
@pytest.mark.parametrize(("loss", "ys", "validation", "message"), [
    (hinge_loss, YS, None, r"^ys\[0\] is 0: hinge_loss expects -1 or \+1"),
    (cross_entropy, [0] * 11 + [-1], None, r"^ys\[11\] is -1: binary_.* expects a number from 0 to 1"),
    (cross_entropy, YS, (XS, [[0, 2]] * 12), r"^validation\[1\]\[0\]\[1\] is 2"),
])  # fmt: skip
def test_targets_that_the_loss_is_not_for_are_refused_at_the_door_of_every_backend(
    backend, loss, ys, validation, message
):
    with pytest.raises(ValueError, match=message):
        train(loss=loss, ys=ys, validation=validation, backend=backend)


@pytest.mark.parametrize("backend", ["eager", "python"])
def test_a_number_in_the_examples_that_is_not_finite_is_named_once_the_loss_is_not(backend):
    bad = [*XS[:7], (0.0, math.nan), *XS[8:]]
    with pytest.raises(FloatingPointError, match=r"the loss is nan .*; xs\[7\] holds nan: leave such examples out"):
        train(xs=bad, backend=backend)
    with pytest.raises(FloatingPointError, match=r"the validation loss is inf .*; validation\[1\]\[0\] holds inf"):
        train(Line(1.0), mse_loss, [1.0], [2.0], validation=([1.0], [math.inf]), backend=backend)


def test_weights_too_large_to_train_are_not_mistaken_for_a_rate_that_is_too_high():
    model = Line(1.0)
    with pytest.raises(FloatingPointError, match="; the weights have grown to .*: create a new model"):
        train(model, mse_loss, [1.0], [2.0], epochs=1000, optimizer=SGD([model.w], 1e3))
    with pytest.raises(FloatingPointError, match="; try a lower learning rate, or inputs on a smaller scale"):
        train(Line(1.0), mse_loss, [1e200], [2.0])


@pytest.mark.parametrize(("ys", "held", "backend", "example"), [
    ([1.0, None], [1.0], "eager", "example 1"), ([None, 2.0], [1.0], "python", "example 0"),
    ([1.0, 2.0], [None], "eager", "validation example 0"),
])  # fmt: skip
def test_an_error_says_in_which_example_it_arose_and_how_fit_calls_the_loss(ys, held, backend, example):
    with pytest.raises(TypeError, match="not NoneType") as error:
        train(Line(1.0), mse_loss, [1.0, 2.0], ys, validation=([1.0], held), backend=backend)
    loss = "fit calls the loss with one prediction and its target, and expects a single number"
    assert error.value.__notes__ == [loss, f"in {example}, counted from 0"]


# The collector, and memory


@pytest.mark.parametrize("ending", [KeyboardInterrupt(), RuntimeError()])
def test_the_collector_is_paused_until_the_training_ends(ending):
    states = []

    def loss(prediction, target):
        states.append(gc.isenabled())
        if len(states) == 30:
            raise ending
        return cross_entropy(prediction, target)

    with suppress(RuntimeError):
        train(loss=loss)
    assert states == [False] * 30
    assert gc.isenabled()


def test_cycles_that_outlive_their_step_are_collected_now_and_then():
    gc.enable()
    nodes, alive = weakref.WeakSet(), []

    def loss(prediction, target):
        node = cross_entropy(prediction, target)
        out = Value(node.data, (node,), "identity")  # in the form in which node and closure hold each other
        out._backward = lambda grad: setattr(node, "grad", node.grad + out.grad)
        nodes.add(out)
        alive.append(len(nodes))
        return out

    gc.collect()
    gc.freeze()  # what earlier tests have left, since Python puts off a full collection the more objects there are
    thresholds = gc.get_threshold()
    gc.set_threshold(1, 1, 1)  # whenever it is not paused
    try:
        train(loss=loss, batch_size=None, epochs=100)
    finally:
        gc.set_threshold(*thresholds)
    assert len(alive) == 1200
    assert max(alive) < 600


# Progress


class Clock:
    """A clock that goes on by so many seconds with each look."""

    def __init__(self, tick):
        self.now, self.tick = 0.0, tick

    def __call__(self):
        self.now += self.tick
        return self.now


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    clock = Clock(0.5)
    monkeypatch.setattr("micrograd.training.progress.time.monotonic", clock)
    monkeypatch.setenv("COLUMNS", "80")
    return clock


def test_a_log_gets_plain_lines_a_second_apart_and_always_the_last(clock):
    log = io.StringIO()
    history = train(progress=log, epochs=6, validation=(XS, YS))
    lines = log.getvalue().splitlines()
    assert "\r" not in log.getvalue()
    assert [line.split()[1] for line in lines] == ["1/6", "3/6", "5/6", "6/6"]
    assert lines[0] == (
        f"epoch 1/6  loss {history.losses[0]:.4g}  validation {history.validation_losses[0]:.4g}  rate 0.01  "
        "24 examples/s  0:02 left"
    )
    assert lines[-1].endswith("  in 0:04")


def test_the_time_left_does_not_count_what_was_compiled_but_the_time_in_the_end_does(clock):
    class Slow(Line):
        def __call__(self, x):  # called only when it is tried and traced
            clock.now += 1000.0
            return super().__call__(x)

    log = io.StringIO()
    train(Slow(1.0), mse_loss, [1.0], [1.0], progress=log, epochs=6, backend="python")
    assert log.getvalue().count("  0:0") == log.getvalue().count(" left") > 0
    assert re.search(r"  in [1-6]:\d\d:\d\d$", log.getvalue())  # five calls of 1,000 seconds or more


@pytest.mark.parametrize("columns", [20, 80, 120])
def test_a_terminal_gets_one_line_that_updates_itself_after_steps_and_fits(columns, clock, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    terminal = Terminal()
    history = train(progress=terminal, epochs=2)
    lines = terminal.getvalue().split("\r")
    assert lines.pop(0) == ""
    assert lines[-1].endswith("\n")
    assert terminal.getvalue().count("\n") == 1
    assert {len(line.rstrip("\n")) for line in lines} == {columns - 1}
    assert len(lines) == 2 * 3  # after each step
    assert "validation" not in terminal.getvalue()
    assert lines[0].startswith("epoch 1/2  loss ")
    assert lines[-1].startswith(f"epoch 2/2  loss {history.losses[-1]:.4g}  rate 0.01  "[: columns - 1])


@pytest.mark.parametrize(("kind", "at"), [(io.StringIO, 48), (io.StringIO, 60), (Terminal, 60)])
def test_a_training_that_ends_early_leaves_no_time_that_is_left(clock, kind, at):
    stream = kind()
    assert train(loss=failing(at=at, error=KeyboardInterrupt()), progress=stream, epochs=1000).interrupted
    lines = stream.getvalue().replace("\r", "\n").split("\n")
    assert any(line.rstrip().endswith(" left") for line in lines)
    assert re.search(r"  in \d+:\d\d *$", lines[-2])
    assert stream.isatty() or stream.getvalue().count("epoch 3/1000  loss") == 1  # also if that was the last epoch
    with pytest.raises(RuntimeError):
        train(loss=failing(at=6, error=RuntimeError()), progress=stream)
    assert stream.getvalue().endswith("\n")  # so that the error begins on a line of its own


def test_progress_goes_to_stderr_unless_it_is_switched_off(capsys, monkeypatch):
    fit(mlp(), cross_entropy, XS, YS, epochs=1)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("epoch 1/1  loss ")
    train(progress=False)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(sys, "stderr", None)  # as where a program has no console
    train(progress=True)
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(write=log.write, flush=log.flush))  # all that print needs
    train(epochs=1, progress=True)
    assert log.getvalue().startswith("epoch 1/1  loss ")


@pytest.mark.parametrize("terminal", [False, True])
def test_the_training_goes_on_when_nobody_reads_any_more(terminal):
    read, write = os.pipe()
    os.close(read)
    histories = []
    with suppress(BrokenPipeError), open(write, "w") as pipe:  # which tries once more when it is closed
        pipe.isatty = lambda: terminal
        histories.append(train(progress=pipe))
    assert histories == [train()]
