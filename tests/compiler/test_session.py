"""`Compiled.training`: steps in generated code, whose numbers Values and optimizer show and keep."""

import copy
import gc
import json
import math
import pickle
import random
import re
import signal
import threading
from array import array
from contextlib import ExitStack, suppress
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

import micrograd
from micrograd import Backend, Value, dot, fit, losses, nn, scalar
from micrograd.compiler import CompilerError, TraceError
from micrograd.compiler.frontend import redirect
from micrograd.compiler.native import loop, toolchain
from micrograd.compiler.native.buffers import Buffers, Moments
from micrograd.compiler.native.update import UpdateKernel
from micrograd.data import moons
from micrograd.optim import SGD, Adam, AdamW, Optimizer
from tests.helpers import has_compiler, needs_compiler

pytestmark = pytest.mark.usefixtures("cache")

XS, YS = moons(8, rng=1)


class Line:
    """A weight, a bias, and a loss that is compiled."""

    def __init__(self, backend, make=lambda p: SGD(p, 0.1, momentum=0.9), w=0.5, b=0.25):
        self.w, self.b = Value(w), Value(b)
        self.parameters = [self.w, self.b]
        self.optimizer = make(self.parameters)
        self.fast = micrograd.compile(self.loss, (1.0, 1.0), parameters=self.parameters, backend=backend)
        self.block = self.fast.training(self.optimizer)

    def loss(self, x, y):
        return (self.w * x + self.b - y) ** 2

    def eager(self, xs=(1.0, 2.0), ys=(2.0, 3.0)):
        """A step outside of a block."""
        self.optimizer.zero_grad()
        loss = micrograd.mean([self.loss(x, y) for x, y in zip(xs, ys, strict=True)])
        loss.backward()
        self.optimizer.step()
        return loss.data

    def state(self):
        grads = [parameter.grad for parameter in self.parameters]
        return [[self.w.data, self.b.data], grads, self.optimizer.state_dict()]


BATCH = [1.0, 2.0], [2.0, 3.0]


def flat(tree):
    if isinstance(tree, dict):
        tree = list(tree.values())
    return [number for branch in tree for number in flat(branch)] if isinstance(tree, list) else [tree]


def assert_close(a, b):
    for x, y in zip(flat(a), flat(b), strict=True):
        assert x == y if x is None or isinstance(x, str) else x == pytest.approx(y, rel=1e-12, abs=1e-300)


def assert_at_home(line):
    assert {type(parameter) for parameter in line.parameters} == {Value}
    assert all(isinstance(number, (int, float)) for p in line.parameters for number in (p.data, p.grad))
    assert all(type(getattr(line.optimizer, name)) is list for name in line.optimizer.moments)
    assert not redirect._stored
    assert not redirect._moved


@pytest.fixture
def line(backend):
    return Line(backend)


@pytest.fixture
def c_line(cache):
    """One whose numbers are in buffers within a block."""
    if not has_compiler():
        pytest.skip("there is no C compiler here")
    return Line("c")


# A step


@pytest.mark.parametrize("make", [SGD, partial(SGD, momentum=0.9, nesterov=True), Adam, AdamW])
@pytest.mark.parametrize("limit", [None, 0.1, 100.0])
def test_a_step_is_what_zero_grad_backward_and_step_do(make, limit, backend):
    make = partial(make, learning_rate=0.1, clip_grad_norm=limit)
    line, eager = Line(backend, make), Line("python", make)
    for _ in range(3):
        with line.block as step:
            for _ in range(5):
                assert step(*BATCH) == pytest.approx(eager.eager(*BATCH), rel=1e-12)
                assert_close(line.state(), eager.state())
        assert_at_home(line)
        assert_close(line.state(), eager.state())
        line.fast.backward(*BATCH), eager.fast.backward(*BATCH)  # outside, in between
        line.optimizer.step(), eager.optimizer.step()


def test_a_block_and_its_moments_show_what_they_are(line):
    assert repr(line.block) == f"<training of {line.fast!r} by {line.optimizer!r}>"
    with line.block as step:
        step(*BATCH)
        velocity = line.optimizer.velocity
        assert repr(velocity) == repr(list(velocity))


def test_every_form_of_a_batch_is_the_same(backend):
    found = []
    for make in (
        lambda fast: BATCH,
        lambda fast: (fast.pack(*BATCH),),
        lambda fast: tuple(map(np.array, BATCH)),
        lambda fast: (fast.pack(*map(np.array, BATCH)),),
        lambda fast: (tuple(BATCH[0]), array("d", BATCH[1])),
    ):
        line = Line(backend)
        with line.block as step:
            batch = make(line.fast)
            for _ in range(3):
                step(*batch)
        found.append(line.state())
    for state in found[1:]:
        assert_close(state, found[0])


def test_batches_take_turns(line):
    eager = Line("python")
    other = [3.0], [1.0]
    packs = line.fast.pack(*BATCH), line.fast.pack(*other)
    with line.block as step:
        for batch, examples in [(packs[0], BATCH), (packs[1], other), (packs[0], BATCH), (packs[0], BATCH)]:
            step(batch)
            eager.eager(*examples)
        step(*other)
        eager.eager(*other)
    assert_close(line.state(), eager.state())


def test_a_packed_array_that_is_changed_in_place_counts(line):
    eager = Line("python")
    xs, ys = np.array(BATCH[0]), np.array(BATCH[1])
    batch = line.fast.pack(xs, ys)
    with line.block as step:
        for _ in range(3):
            step(batch)
            eager.eager(xs.tolist(), ys.tolist())
            xs += 1
            ys *= -1
    assert_close(line.state(), eager.state())


def test_a_batch_may_hold_several_shapes(backend):
    w = Value(0.5)

    def loss(xs, y):
        return (dot([w] * len(xs), xs, 0.0) - y) ** 2

    xs, ys = [[1.0], [1.0, 2.0], [3.0], [1.0, 2.0, 3.0]], [1.0, 2.0, 3.0, 4.0]
    optimizer = Adam([w], 0.1)
    fast = micrograd.compile(loss, (xs[0], 1.0), parameters=[w], backend=backend)
    with fast.training(optimizer) as step:
        found = [step(xs, ys) for _ in range(4)]
        found.append(step([[2.0]], [1.0]))
    v = Value(0.5)
    optimizer = Adam([v], 0.1)
    for i, expected in enumerate(found):
        value = micrograd.mean(
            [(dot([v] * len(x), x, 0.0) - y) ** 2 for x, y in (zip(xs, ys, strict=True) if i < 4 else [([2.0], 1.0)])]
        )
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        assert expected == pytest.approx(value.data, rel=1e-12)
    assert (w.data, w.grad) == (pytest.approx(v.data, rel=1e-12), pytest.approx(v.grad, rel=1e-12))


def test_a_function_without_arguments_is_trained_too(backend):
    w = Value(2.0)
    optimizer = SGD([w], 0.25)
    with micrograd.compile(lambda: w * w, (), parameters=[w], backend=backend).training(optimizer) as step:
        assert [step(), step()] == [4.0, 1.0]
    assert w.data == 0.5


@pytest.mark.parametrize(
    ("batches", "kind", "message"),
    [
        ((), ValueError, "the function takes 2 arguments, not 0"),
        (([1.0],), ValueError, "the function takes 2 arguments, not 1"),
        (([1.0], [1.0], [1.0]), ValueError, "the function takes 2 arguments, not 3"),
        (([], []), ValueError, "there are no examples"),
        (([1.0], [1.0, 2.0]), ValueError, "different numbers of examples"),
        (([1.0], 1.0), TypeError, "argument 2: expected a list or an array of examples, not 1.0"),
        ((["a"], [1.0]), TypeError, "argument 1: "),
        (([[[1.0]]], [1.0]), ValueError, "arguments of shape"),
        ((None,), ValueError, "the function takes 2 arguments, not 1"),
    ],
)
def test_a_batch_that_is_none_changes_nothing(batches, kind, message, line):
    with line.block as step:
        step(*BATCH)
        before = line.state()
        with pytest.raises(kind, match=message):
            step(*batches)
        assert line.state() == before
        packed = line.fast.pack(*BATCH)
        step(packed)
        with pytest.raises(ValueError, match="takes 2 arguments, not 3"):
            step(packed, packed, packed)
    assert_at_home(line)


def test_a_function_of_several_results_has_no_gradient(backend):
    w = Value(2.0)
    fast = micrograd.compile(lambda x: [w * x, x], (1.0,), parameters=[w], backend=backend)
    with (
        fast.training(SGD([w])) as step,
        pytest.raises(TypeError, match=r"shape \(2,\), but a gradient needs a single"),
    ):
        step([1.0])


# Steps that fail


@pytest.mark.parametrize("make", [SGD, lambda p: SGD(p, 0.1, 0.9), lambda p: Adam(p, 0.1)])
def test_a_step_that_fails_changes_nothing(make, backend):
    line = Line(backend, make)
    with line.block as step:
        step(*BATCH)
        before = line.state()
        for batch, kind, match in (
            (([1.0, 1e200], [1.0, 1.0]), OverflowError, "too large for a float"),
            (
                ([1.0, math.inf], [1.0, 1.0]),
                FloatingPointError,
                "the loss is inf: the parameters are those from",
            ),
            (([1.0, math.nan], [1.0, 1.0]), FloatingPointError, "the loss is nan"),
        ):
            for examples in batch, (line.fast.pack(*batch),):
                with pytest.raises(kind, match=match):
                    step(*examples)
                assert line.state()[0] == before[0]
                assert line.state()[2] == before[2]
        step(*BATCH)
    assert_at_home(line)
    eager = Line("python", make)
    eager.eager(), eager.eager()
    assert_close(line.state(), eager.state())


@pytest.mark.parametrize("limit", [None, 1e300])
def test_a_parameter_that_becomes_infinite_is_set_back_with_its_moments(limit, backend):
    line = Line(backend, lambda p: SGD(p, 1e300, momentum=0.5, clip_grad_norm=limit))
    with line.block as step:
        before = line.state()
        with pytest.raises(
            FloatingPointError, match="a parameter is -?inf: the parameters are those from before this step"
        ):
            step([1e30], [1.0])
        assert line.state()[0] == before[0]
        assert line.state()[2] == before[2]
        line.optimizer.learning_rate = 0.1
        step(*BATCH)
    assert_at_home(line)
    eager = Line("python", lambda p: SGD(p, 0.1, momentum=0.5, clip_grad_norm=limit))
    eager.eager()
    assert_close(line.state(), eager.state())


def test_an_operation_that_may_have_failed_and_has_not_is_a_step_all_the_same(backend):
    """Which C cannot tell, so that the step is taken on Values."""
    w = Value(2.0)
    optimizer = SGD([w], 0.1, momentum=0.5)
    fast = micrograd.compile(lambda x: (w * x).relu() * math.inf * 0 + w, (1.0,), parameters=[w], backend=backend)
    with fast.training(optimizer) as step, pytest.raises(FloatingPointError, match="the loss is nan"):
        step([-1.0])
    fast = micrograd.compile(lambda x: w + 1e-3 * micrograd.where(x > 0, x, 1.0 / (x + 1)), (1.0,), parameters=[w],
                             backend=backend)  # fmt: skip
    optimizer.clip_grad_norm = 0.5
    with fast.training(optimizer) as step:
        with pytest.raises(ZeroDivisionError):
            step([-1.0])
        assert w.data == 2.0
        step([1.0])
    assert w.data == pytest.approx(1.95)


def test_a_flag_without_a_failure_is_no_failure(backend):
    """A division by 0 that no result depends on: infinite on the way in C, and nothing that Values raise on."""
    w = Value(0.5)
    optimizer = SGD([w], 0.1, momentum=0.5)
    fast = micrograd.compile(lambda x: (w * x).sigmoid() + w, (1.0,), parameters=[w], backend=backend)
    with fast.training(optimizer) as step:
        losses = [step([-1e4]), step([1e300]), step([-1e300])]
    assert losses == pytest.approx([0.5, 1.4, 0.25])
    assert optimizer.steps == 3


def test_gradients_of_which_the_squares_overflow_are_clipped_as_they_are_eager(backend):
    w = Value(0.5)
    fast = micrograd.compile(lambda x: w * x, (1.0,), parameters=[w], backend=backend)
    with fast.training(SGD([w], 0.1, clip_grad_norm=1.0)) as step:
        step([1e200])
        assert w.data == pytest.approx(0.4)
        step([1.0])
    assert w.data == pytest.approx(0.3)


# What Values and the optimizer show meanwhile, and what happens if someone changes them


def test_values_and_optimizer_show_the_latest_step(line):
    eager = Line("python")
    with line.block as step:
        for _ in range(3):
            step(*BATCH), eager.eager()
            assert_close(line.state(), eager.state())
            assert line.optimizer.velocity[0] == pytest.approx(eager.optimizer.velocity[0])
            assert line.optimizer.velocity[:] == pytest.approx(eager.optimizer.velocity)
            assert len(line.optimizer.velocity) == 2
            assert json.loads(json.dumps(line.optimizer.state_dict())) == line.optimizer.state_dict()
            assert line.loss(1.0, 2.0).data == pytest.approx(eager.loss(1.0, 2.0).data)
            assert line.fast(1.0, 2.0) == pytest.approx(eager.loss(1.0, 2.0).data)


CHANGES = {
    "data": lambda line: setattr(line.w, "data", 3.0),
    "whole number": lambda line: setattr(line.w, "data", 3),
    "NumPy": lambda line: setattr(line.w, "data", np.float64(3.0)),
    "learning rate": lambda line: setattr(line.optimizer, "learning_rate", 0.01),
    "momentum": lambda line: setattr(line.optimizer, "momentum", 0.5),
    "decay": lambda line: setattr(line.optimizer, "weight_decay", 0.1),
    "nesterov": lambda line: setattr(line.optimizer, "nesterov", True),
    "steps": lambda line: setattr(line.optimizer, "steps", 0),
    "moments": lambda line: setattr(line.optimizer, "velocity", [1.0, -1.0]),
    "a moment": lambda line: line.optimizer.velocity.__setitem__(1, 5.0),
    "all moments": lambda line: line.optimizer.velocity.__setitem__(slice(None), [0.0, 2.0]),
    "state": lambda line: line.optimizer.load_state_dict(
        {**line.optimizer.state_dict(), "learning_rate": 0.05, "velocity": [2.0, 3.0], "steps": 7}
    ),
    "a step of the engine": lambda line: line.eager(),
    "backward": lambda line: line.fast.backward(*BATCH),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("last", [False, True])
def test_what_is_changed_within_a_block_counts(name, last, line):
    eager, change = Line("python"), CHANGES[name]
    with line.block as step:
        for _ in range(2):
            step(*BATCH), eager.eager()
        change(line), change(eager)
        if not last:
            step(*BATCH), eager.eager()
    assert_close(line.state(), eager.state())
    assert_at_home(line)


def test_what_no_number_is_does_not_get_in(c_line):
    with c_line.block as step:
        step(*BATCH)
        before = c_line.state()
        with pytest.raises(TypeError):
            c_line.w.data = "3"
        with pytest.raises(TypeError):
            c_line.optimizer.velocity.append(1.0)
        with pytest.raises(TypeError, match="exactly one moment for each parameter"):
            del c_line.optimizer.velocity[0]
        with pytest.raises(ValueError, match="1 numbers were assigned to 2 of a moment: give one for each"):
            c_line.optimizer.velocity[:] = [1.0]
        assert c_line.state() == before


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("precision", ["double", "single"])
def test_moments_are_read_and_written_in_slices_and_as_arrays_in_the_order_of_the_optimizer(in_order, precision):
    ws = [micrograd.Value(float(i)) for i in range(4)]
    fast = micrograd.compile(
        lambda x: micrograd.dot(ws, [x] * 4), (1.0,), parameters=ws, backend=Backend("c", precision=precision)
    )
    optimizer = SGD(ws if in_order else ws[::-1], 0.1, momentum=0.9)
    with fast.training(optimizer) as step:
        optimizer.velocity[:] = array("i", [1, 2, 3, 4])
        optimizer.velocity[::-2] = [9.0, 7.0]
        assert optimizer.velocity[:] == [1.0, 7.0, 3.0, 9.0]
        assert optimizer.velocity[2:0:-1] == [3.0, 7.0]
        numbers = np.asarray(optimizer.velocity)
        assert numbers.tolist() == [1.0, 7.0, 3.0, 9.0]
        assert np.asarray(optimizer.velocity, dtype=int).tolist() == [1, 7, 3, 9]
        copied = np.array(optimizer.velocity)
        copied[0] = 5.0
        assert optimizer.velocity[0] == 1.0
        step([0.0])
    assert optimizer.velocity == pytest.approx([0.9, 6.3, 2.7, 8.1])


def test_moments_that_are_no_numbers_do_not_get_in_and_the_rest_goes_home(c_line):
    with pytest.raises(TypeError), c_line.block as step:  # noqa: PT012
        c_line.optimizer.velocity = ["a", "b"]
        step(*BATCH)
    assert c_line.optimizer.velocity == ["a", "b"]
    c_line.optimizer.velocity = [0.0, 0.0]
    assert_at_home(c_line)
    c_line.optimizer.velocity = ["a", "b"]
    with pytest.raises(TypeError), c_line.block:
        pytest.fail("is not entered")
    c_line.optimizer.velocity = [0.0, 0.0]
    assert_at_home(c_line)


def test_moments_that_are_given_to_one_another_change_places(line, backend):
    line, eager = Line(backend, Adam), Line("python", Adam)
    with line.block as step:
        for _ in range(2):
            step(*BATCH), eager.eager()
            for optimizer in line.optimizer, eager.optimizer:
                optimizer.mean, optimizer.mean_square = [abs(x) for x in optimizer.mean_square], optimizer.mean
                optimizer.mean, optimizer.mean_square = optimizer.mean_square, optimizer.mean
        step(*BATCH), eager.eager()
        assert_close(line.state(), eager.state())
        line.optimizer.mean, line.optimizer.mean_square = line.optimizer.mean_square, line.optimizer.mean
        eager.optimizer.mean, eager.optimizer.mean_square = eager.optimizer.mean_square, eager.optimizer.mean
    assert_at_home(line)
    assert_close(line.state(), eager.state())


def test_moments_may_be_an_array_but_have_to_be_as_many_as_there_are_parameters(line, backend):
    eager = Line("python")
    with line.block as step:
        step(*BATCH), eager.eager()
        for optimizer in line.optimizer, eager.optimizer:
            optimizer.velocity = np.ones(2)
        step(*BATCH), eager.eager()
        assert_close(line.state(), eager.state())
        for wrong, n in [([1.0], 1), *[([1.0] * 3, 3), (np.ones(3), 3), (None, "no")] * (backend == "c")]:
            line.optimizer.velocity = wrong
            with pytest.raises(ValueError, match=f"velocity has {n} numbers: expected 2, one for each parameter"):
                step(*BATCH)
        line.optimizer.velocity = [0.0, 0.0]
        step(*BATCH)
    assert_at_home(line)


@needs_compiler
def test_fit_builds_the_loop_in_the_background_and_another_if_the_rule_changes(monkeypatch):
    built, build = [], loop.build
    monkeypatch.setattr(loop, "build", lambda text: built.append((text, threading.current_thread())) or build(text))
    model = nn.MLP(2, [3, 1], rng=1)
    (xs, ys), optimizer = moons(8, rng=0), Adam(model.parameters())

    def schedule(step):
        if step == 2:
            optimizer.eps = 0.001
        return 0.01

    fit(model, losses.mse_loss, xs, ys, epochs=3, optimizer=optimizer, backend="c", progress=False)
    assert threading.current_thread() not in dict(built).values()
    fit(model, losses.mse_loss, xs, ys, epochs=4, optimizer=optimizer, schedule=schedule, backend="c", progress=False)
    (text,) = [text for text, thread in built if thread is threading.current_thread()]
    assert "0.001" in text


@pytest.mark.parametrize(
    "change",
    [
        lambda o: setattr(o, "parameters", o.parameters[:1]),
        lambda o: o.parameters.pop(),
    ],
)
def test_other_parameters_for_the_optimizer_are_refused_within_a_block(change, line):
    with line.block as step:
        step(*BATCH)
        before = line.state()
        change(line.optimizer)
        with pytest.raises(ValueError, match="other parameters during training: leave the training block"):
            step(*BATCH)
        line.optimizer.parameters = list(line.parameters)
        assert line.state() == before
        step(*BATCH)
    assert_at_home(line)


class Configured(Optimizer):
    """Options of several kinds, and the rate where the rule finds it itself."""

    def __init__(self, parameters):
        super().__init__(parameters, learning_rate=0.1, decay=0.1, sizes=(0.5, 0.25))
        self.scale, self.table = 0.5, [2.0]
        self.update = lambda x, grad: (x - self.rate() * (self.sizes[0] * grad + self.decay * x) * self.table[0],)

    def rate(self):
        return self.learning_rate * self.scale

    def rule(self):
        return self.update


CONFIGURATIONS = {
    "option": lambda optimizer: setattr(optimizer, "decay", 0.5),
    "tuple": lambda optimizer: setattr(optimizer, "sizes", (0.125, 0.25)),
    "attribute": lambda optimizer: setattr(optimizer, "scale", 2.0),
    "learning rate": lambda optimizer: setattr(optimizer, "learning_rate", 0.0),
    "rule": lambda optimizer: setattr(optimizer, "update", lambda x, grad: (x - grad,)),
    "nothing": lambda optimizer: setattr(optimizer, "table", list(optimizer.table)),
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_options_count_as_they_are_at_each_step(name, backend):
    line, eager = Line(backend, Configured), Line("python", Configured)
    with line.block as step:
        for _ in range(2):
            step(*BATCH), eager.eager()
            assert_close(line.state()[0], eager.state()[0])
            CONFIGURATIONS[name](line.optimizer), CONFIGURATIONS[name](eager.optimizer)
        step(*BATCH), eager.eager()
    assert_close(line.state()[0], eager.state()[0])


def test_an_option_that_is_new_counts(backend):
    class Scaled(Optimizer):
        scale: float

        def rule(self):
            return lambda x, grad: (x - self.learning_rate * getattr(self, "scale", 1.0) * grad,)

    line = Line(backend, lambda p: Scaled(p, learning_rate=0.1))
    with line.block as step:
        step(*BATCH)
        grads = [parameter.grad for parameter in line.parameters]
        before = [parameter.data for parameter in line.parameters]
        line.optimizer.scale = 0.0
        step(*BATCH)
        assert [parameter.data for parameter in line.parameters] == before
        assert [parameter.grad for parameter in line.parameters] != grads
        del line.optimizer.scale
        step(*BATCH)
        assert [parameter.data for parameter in line.parameters] != before


def test_a_parameter_is_copied_and_pickled_as_the_value_it_is(line):
    with line.block as step:
        step(*BATCH)
        copies = [copy.copy(line.w), copy.deepcopy(line.w), pickle.loads(pickle.dumps(line.w))]
        before = line.w.data, line.w.grad
        step(*BATCH)
        assert {type(copied) for copied in copies} == {Value}
        assert {(copied.data, copied.grad) for copied in copies} == {before}
        copies[0].data = 9.0
        assert line.w.data not in (9.0, before[0])


def test_an_optimizer_is_copied_with_lists_for_moments(line):
    with line.block as step:
        step(*BATCH)
        before = line.state()
        copies = [copy.deepcopy(line.optimizer), pickle.loads(pickle.dumps(line.optimizer))]
        step(*BATCH)
    for copied in copies:
        assert copied.state_dict() == before[2]
        assert type(copied.velocity) is list
        assert [type(parameter) for parameter in copied.parameters] == [Value, Value]


def test_a_model_is_saved_and_loaded_within_a_block(backend, tmp_path):
    model = nn.MLP(2, [3, 1], rng=1)
    fast = micrograd.compile(
        lambda x, y: losses.mse_loss(model(x), y), (XS[0], YS[0]), parameters=model.parameters(), backend=backend
    )
    with fast.training(Adam(model.parameters(), 0.1)) as step:
        step(XS, YS)
        state = model.state_dict()
        nn.save(model, tmp_path / "model.json")
        loss = step(XS, YS)
        model.load_state_dict(state)
        assert step(XS, YS) == pytest.approx(loss)
    assert nn.load(tmp_path / "model.json").state_dict() == state


def test_compiling_within_a_block_sees_the_numbers_and_changes_none(line, backend):
    with line.block as step:
        step(*BATCH)
        before = line.state()
        other = micrograd.compile(lambda x: line.w * x, (1.0,), parameters=line.parameters, backend=backend)
        assert other(2.0) == 2 * line.w.data
        constant = micrograd.compile(lambda x: line.w * x, (1.0,), backend=backend)
        assert line.state() == before
        step(*BATCH)
        assert (other(2.0), constant(2.0)) == (2 * line.w.data, 2 * before[0][0])
        assert other.value_and_grad(1.0)[0] == line.w.data


def test_fit_within_a_block_in_c_is_eager_or_refused(line, backend):
    class Model(nn.Module):
        w, b = line.w, line.b

        def parameters(self):
            return line.parameters

        def __call__(self, x):
            return line.w * x + line.b

    options = {"epochs": 2, "progress": False, "optimizer": SGD(line.parameters, 0.1)}
    with line.block as step:
        step(*BATCH)
        before = line.state()
        if backend == "c":
            with pytest.raises(ValueError, match="a parameter is already being trained"):
                fit(Model(), losses.mse_loss, *BATCH, backend=backend, **options)
            assert line.state() == before
        fit(Model(), losses.mse_loss, *BATCH, **options)
        assert line.w.data != before[0][0]
        step(*BATCH)
    assert_at_home(line)


# Blocks


def test_what_no_step_has_changed_is_the_object_that_it_was(backend):
    numbers = Fraction(1, 3), 2**60 + 1, 3, -0.0, 0.5
    parameters = [Value(number) for number in numbers]
    for parameter in parameters:
        parameter.grad = None  # as in a library that has none before the first backward pass
    fast = micrograd.compile(lambda x: dot(parameters, [x] * 5), (1.0,), parameters=parameters, backend=backend)
    with fast.training(SGD(parameters[4:], 1.0)) as step:
        step([0.25])
        parameters[3].data = 0.0
    assert [parameter.data for parameter in parameters] == [*numbers[:3], 0.0, 0.25]
    assert all(parameter.data is number for parameter, number in zip(parameters[:3], numbers, strict=False))
    assert math.copysign(1.0, parameters[3].data) == 1.0
    assert [parameter.grad for parameter in parameters] == [0.25] * 5


def test_a_value_whose_numbers_are_elsewhere_lives_on_lest_a_new_one_is_taken_for_it(c_line):
    with c_line.block:
        for table in redirect._stored, *redirect._moved:
            assert set(map(id, table)) == set(map(id, c_line.parameters))


def test_threads_take_turns_with_the_steps_of_a_block(backend):
    w = [Value(0.1) for _ in range(5)]
    optimizer = SGD(w, 0.01)
    fast = micrograd.compile(lambda x: dot(w, x).tanh(), ([0.0] * 5,), parameters=w, backend=backend)
    packs = [fast.pack([[0.01] * 5] * n) for n in (9, 300)]
    step = fast.training(optimizer)

    def work(k):
        with suppress(RuntimeError):  # when the block is over
            for i in range(100_000):
                step(packs[(i + k) % 2])

    def count(k):
        for i in range(50):
            step(packs[(i + k) % 2])

    with step:
        at_once(count)
        assert optimizer.steps == 200
        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for thread in threads:
            thread.start()
    for thread in threads:
        thread.join()
    assert {type(parameter) for parameter in w} == {Value}


def at_once(work):
    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("other", ["the same block", "the same optimizer", "another optimizer"])
def test_a_second_block_on_the_same_parameters_is_refused_and_changes_nothing(other, backend):
    eager, line = Line("python"), Line(backend)
    optimizer = line.optimizer if other == "the same optimizer" else Adam(line.parameters)
    second = line.block if other == "the same block" else line.fast.training(optimizer)
    with line.block as step:
        step(*BATCH), eager.eager()
        state = optimizer.state_dict()
        with pytest.raises(ValueError, match="a parameter is already being trained: leave the other"), second:
            pytest.fail("is not entered")
        assert optimizer.state_dict() == state
        assert isinstance(line.optimizer.velocity, Moments if backend == "c" else list)
        step(*BATCH), eager.eager()
        assert_close(line.state(), eager.state())
    assert_close(line.state(), eager.state())
    assert_at_home(line)
    assert not redirect._trained


def test_blocks_on_other_parameters_are_in_nobodys_way(backend):
    one, two, eager = Line(backend), Line(backend, w=2.0), Line("python")
    with one.block as first:
        first(*BATCH), eager.eager()
        with two.block as second:
            second(*BATCH), first(*BATCH), eager.eager()
        first(*BATCH), eager.eager()
    assert_close(one.state(), eager.state())
    assert_at_home(two)


def two_blocks(way):
    """The losses of a generator and a discriminator: the optimizer of each changes what the other's loss only reads."""
    one, two = Value(0.5), Value(-0.25)
    losses = (lambda x: (one * x - two) ** 2), (lambda x: (two * x * one - 1.0) ** 2)
    batches, optimizers, found = ([1.0, 2.0], [3.0]), (SGD([one], 0.1), SGD([two], 0.1)), []

    def eager(loss, optimizer, batch):
        one.grad = two.grad = 0.0
        total = micrograd.mean([loss(x) for x in batch])
        total.backward()
        optimizer.step()
        return total.data

    with ExitStack() as stack:
        steps = [partial(eager, *pair) for pair in zip(losses, optimizers, strict=True)]
        if way != "eager":
            functions = [micrograd.compile(loss, (1.0,), parameters=[one, two], backend=way) for loss in losses]
            blocks = [fast.training(optimizer) for fast, optimizer in zip(functions, optimizers, strict=True)]
            steps = list(map(stack.enter_context, blocks))
        for _ in range(3):
            found += [step(batch) for step, batch in zip(steps, batches, strict=True)]
    return [*found, one.data, two.data]


def test_blocks_that_hold_the_same_parameters_are_right_or_refused_where_they_begin(backend):
    if backend == "c":
        with pytest.raises(ValueError, match="another training block in C holds a parameter"):
            two_blocks(backend)
    else:
        assert two_blocks(backend) == pytest.approx(two_blocks("eager"), rel=1e-12)


class Ours(Exception):
    pass


def test_however_a_block_is_left_the_numbers_are_home(line):
    eager = Line("python")
    for error in Ours, KeyboardInterrupt, SystemExit:
        with pytest.raises(error), line.block as step:  # noqa: PT012
            step(*BATCH), eager.eager()
            raise error
        assert_at_home(line)
        assert_close(line.state(), eager.state())


class Pressed(list):
    """Moments at whose copying somebody presses Ctrl-C."""

    def __iter__(self):
        signal.raise_signal(signal.SIGINT)
        return super().__iter__()


def test_a_ctrl_c_while_a_block_is_entered_leaves_it_again(c_line):
    before = c_line.state()
    c_line.optimizer.velocity = Pressed(c_line.optimizer.velocity)
    with pytest.raises(KeyboardInterrupt), c_line.block:
        pytest.fail("the block was entered")
    c_line.optimizer.velocity = c_line.optimizer.velocity[:]
    assert_at_home(c_line)
    assert c_line.state() == before
    with c_line.block as step:
        step(*BATCH)


def test_a_block_that_is_never_left_gives_all_back_when_nobody_has_it_any_more(line):
    block = line.fast.training(line.optimizer)
    block.__enter__()(*BATCH)
    state = line.state()
    del block
    gc.collect()
    assert_at_home(line)
    assert line.state() == state


def test_a_step_outside_of_its_block_is_an_error(line):
    step = line.block
    with pytest.raises(RuntimeError, match=r"with fast\.training\(optimizer\) as step"):
        step(*BATCH)
    with step:
        step(*BATCH)
    before = line.state()
    with pytest.raises(RuntimeError, match="call step inside its block"):
        step(*BATCH)
    assert line.state() == before
    with step:
        step(*BATCH)
    assert line.optimizer.steps == 2


# What cannot be trained


def test_an_optimizer_of_other_parameters_is_refused(line):
    with pytest.raises(ValueError, match=r"the optimizer changes .*Value\(data=7\.0.*give compile all parameters that"):
        line.fast.training(SGD([line.w, Value(7.0)]))


class Counting(SGD):
    def step(self):
        super().step()


class Both(Optimizer):
    def rule(self):
        return lambda x, grad: (x,)

    def zero_grad(self):
        pass


class Below(Both):
    pass


class NoRule(Optimizer):
    pass


class OnlyStep(Optimizer):
    def step(self):
        pass


class Ruled:
    """Not even an Optimizer."""

    def rule(self):
        return lambda x, grad: (x,)


class Computed(SGD):
    learning_rate = property(lambda self: 0.1 / (1 + self.steps))


def test_an_optimizer_whose_rule_is_not_all_is_refused(line):
    p = line.parameters

    def refused(optimizer, kind=TypeError):
        with pytest.raises(kind) as caught:
            line.fast.training(optimizer)
        return re.sub(r"\(/.*/", "(", str(caught.value))

    own = " (test_session.py:"
    assert refused(Counting(p)).startswith(f"Counting defines its own step(){own}")
    assert refused(Both(p, learning_rate=1.0)).startswith(f"Both defines its own zero_grad(){own}")
    assert refused(Below(p, learning_rate=1.0)).startswith(f"Below defines its own zero_grad(){own}")
    for other in None, Ruled(), SGD:
        assert refused(other).endswith(": expected an Optimizer, such as optim.Adam(parameters)")
    assert "does not define rule()" in refused(NoRule(p, learning_rate=1.0), NotImplementedError)
    assert "does not define rule()" in refused(OnlyStep(p, learning_rate=1.0), NotImplementedError)
    assert refused(Computed(p)).startswith(
        "Computed computes its learning_rate, which compiled training would not: make"
    )
    replaced = SGD(p)
    replaced.step = print
    assert refused(replaced).startswith("SGD defines its own step(), which")


# Compilers


@needs_compiler
@pytest.mark.parametrize("backend", ["auto", "c"])
def test_a_compiler_that_is_gone_after_compile_is_an_error_and_no_reason_for_another_language(backend, monkeypatch):
    line = Line(backend, lambda p: SGD(p, 0.1, weight_decay=0.123))
    with line.block as step:
        step(*BATCH)
        before = line.state()
        monkeypatch.setenv("CC", "/nonexistent")
        shape = re.escape("the C for arguments of shape ((), ()) cannot be built: no C compiler works here")
        with pytest.raises(CompilerError, match=shape):
            step([1.0] * 9, [2.0] * 9)  # in tiles, not one by one: another library
        with pytest.raises(CompilerError, match=shape):
            line.fast(1.0, 2.0)
        assert line.state() == before
        step(*BATCH)
        for arrived in copy.deepcopy(line.fast), pickle.loads(pickle.dumps(line.fast)):  # as on another machine
            assert repr(arrived).startswith("<loss compiled to Python, 2 parameters")
            assert arrived.map(*BATCH) == pytest.approx([line.loss(*xy).data for xy in zip(*BATCH, strict=True)])


@pytest.mark.parametrize("backend", ["auto", "c"])
def test_a_step_that_replaces_the_optimizers_own_in_a_block_is_refused(backend):
    if not has_compiler():
        pytest.skip("there is no C compiler here")
    line = Line(backend)
    with line.block as step:
        step(*BATCH)
        state = line.state()
        line.optimizer.step = lambda: None
        with pytest.raises(TypeError, match=r"SGD defines its own step\(\)"):
            step(*BATCH)
        assert line.state() == state
        del line.optimizer.step
        step(*BATCH)
        assert line.optimizer.steps == 2


# The rule in C


class Odd(Optimizer):
    """All that a rule may be made of."""

    moments = {"unused": 0.0, "last": -math.inf, "constant": 0.0}  # noqa: RUF012

    def rule(self):
        rate = self.learning_rate * 0.5 ** (self.steps / 4)

        def update(x, grad, unused, last, constant):
            sign = scalar.where(grad > 0, 1, -1)
            x = scalar.where(abs(grad) > 1e-3, x - rate * scalar.tanh(grad) * sign, last)
            return x, unused, x % 3, rate

        return update


@pytest.mark.parametrize("n", [1, 3, 8, 21])
@pytest.mark.parametrize("limit", [None, 0.01])
def test_a_rule_is_the_same_for_any_number_of_parameters(n, limit, backend):
    rng = random.Random(n)
    start = [rng.uniform(-2, 2) for _ in range(n)]
    states = []
    for compiled in False, True:
        parameters = [Value(x) for x in start]
        held = [*parameters[n // 2 :], *parameters[: max(1, n // 3)]]  # in another order, not all, in two ranges
        optimizer = Odd(held, learning_rate=0.1, clip_grad_norm=limit)

        def loss(x, parameters=parameters):
            return micrograd.sum([(p - x) ** 2 * i for i, p in enumerate(parameters)])

        if compiled:
            fast = micrograd.compile(loss, (1.0,), parameters=parameters, backend=backend)
            with fast.training(optimizer) as step:
                for _ in range(4):
                    step([0.5])
        else:
            for _ in range(4):
                for parameter in parameters:  # also those that the optimizer does not change
                    parameter.grad = 0.0
                loss(0.5).backward()
                optimizer.step()
        states.append([[p.data for p in parameters], [p.grad for p in parameters], optimizer.state_dict()])
    assert_close(states[1], states[0])


def test_a_rule_that_gives_something_else_is_an_error(backend):
    class Short(Odd):
        def rule(self):
            return lambda x, *_: (x, x)

    line = Line(backend, lambda p: Short(p, learning_rate=0.1))
    before = line.state()
    with pytest.raises((TypeError, ValueError)), line.block as step:
        step(*BATCH)
    assert line.state()[0] == before[0]
    assert line.state()[2] == before[2]


def test_a_rule_that_branches_on_what_is_known_later_is_an_error_in_c():
    class Branching(Optimizer):
        def rule(self):
            rate = self.learning_rate if self.steps < 5 else 0.0
            return lambda x, grad: (x - rate * grad,)

    with pytest.raises(TraceError, match=r"rate = self\.learning_rate if self\.steps < 5"):
        UpdateKernel(Branching([Value(1.0)], learning_rate=0.1))
    odd = Odd([Value(1.0)], learning_rate=0.1)
    odd.rule = lambda: lambda *numbers: numbers[0]
    with pytest.raises(TypeError, match=r"the rule of Odd returns .*expected a tuple of the parameter, unused"):
        UpdateKernel(odd)


class Ruling(Optimizer):
    """A rule that a test gives."""

    moments = {"kept": 0.0}  # noqa: RUF012

    def __init__(self, parameters, given=lambda self: lambda x, grad, kept: (x - grad, kept)):
        super().__init__(parameters, learning_rate=0.1)
        self.given, self.random, self.calls = given, random.Random(1), 0

    def rule(self):
        return self.given(self)

    def counted(self):
        self.calls += 1
        return self.calls


CHANGEABLE = {
    "draws": lambda self: lambda x, grad, kept: (x - 0.1 * grad + self.random.gauss(0, 1), kept),
    "counts": lambda self: lambda x, grad, kept: (x - 0.1 * grad / self.counted(), kept),
    "parameters": lambda self: lambda x, grad, kept: (x - 0.1 * self.parameters[0].data, kept),
    "gradients": lambda self: lambda x, grad, kept: (x - 0.1 * math.hypot(*[p.grad for p in self.parameters]), kept),
    "moments": lambda self: lambda x, grad, kept: (x - max(self.kept), x),
}


WHY = {
    "draws": r"is not the same for each parameter: in C it may depend only on",
    "counts": r"changes Ruling\.calls: in C",
    "parameters": "depends on all parameters, gradients or moments: in C",
    "gradients": r"cannot be traced, .*math\.hypot.*: this needs the number itself",
    "moments": r"cannot be traced, .*max\(self\.kept\).*: this needs the number itself",
}


@pytest.mark.parametrize("name", CHANGEABLE)
def test_a_rule_that_is_not_the_same_at_each_step_is_not_for_c(name, caplog):
    toolchain.warn_once.cache_clear()
    eager = Line("python", lambda p: Ruling(p, CHANGEABLE[name]))
    for _ in range(2):
        eager.eager()
    for backend in "c", "python", "auto":
        if backend != "python" and not has_compiler():
            continue
        line = Line(backend, lambda p: Ruling(p, CHANGEABLE[name]))
        attributes = dict(vars(line.optimizer))
        if backend == "c":
            with pytest.raises(TypeError, match=f"the rule of Ruling {WHY[name]}"), line.block:
                pytest.fail("is not entered")
            assert vars(line.optimizer) == attributes
            assert_at_home(line)
            continue
        with line.block as step:
            if name == "draws":
                step(*BATCH)
                assert line.optimizer.steps == 1
            else:
                step(*BATCH), step(*BATCH)
                assert_close(line.state(), eager.state())
        assert_at_home(line)
    words = "training in Python instead of C: "
    assert [message.split("the rule")[0] for message in caplog.messages] == [words][: has_compiler()]


def test_a_rule_that_leaves_something_behind_is_refused_and_it_is_gone_after_it_was_traced():
    def given(self):
        self.left = [self.learning_rate * 2]
        return lambda x, grad, kept: (x - self.left[0] * grad, kept)

    optimizer = Ruling([Value(1.0)], given)
    before = dict(vars(optimizer))
    with pytest.raises(TypeError, match=r"the rule of Ruling changes Ruling\.left: in C"):
        UpdateKernel(optimizer)
    assert vars(optimizer) == before


@pytest.mark.parametrize("kind", ["branch", "list", "condition", "option"])
def test_a_rule_trains_in_every_way_that_it_can(kind):
    rules = {
        "branch": lambda self: lambda x, grad, kept: (x - 0.1 * (1 if grad > 0 else -1), kept),
        "list": lambda self: lambda x, grad, kept: [x - 0.1 * grad, grad],
        "condition": lambda self: lambda x, grad, kept: (x - 0.1 * scalar.where(kept, grad, 1.0), grad < 0),
        "option": lambda self: lambda x, grad, kept: (x - self.learning_rate * grad, float(grad > 0)),
    }
    states = []
    for backend in (None, "python", "c", "auto"):
        line = Line(backend or "python", lambda p: Ruling(p, rules[kind]))
        if backend is None:
            [line.eager() for _ in range(3)]
        elif backend == "c" and (kind in ("branch", "option") or not has_compiler()):
            continue
        else:
            with line.block as step:
                [step(*BATCH) for _ in range(3)]
        states.append([*line.state()[:2], list(map(float, line.optimizer.kept))])
    for state in states[1:]:
        assert_close(state, states[0])


@pytest.mark.parametrize(
    ("rule", "kind"),
    [
        (lambda self: lambda x, g, m: (x - scalar.where(g == 0, 0.0, scalar.divide(g, abs(g))), m), ZeroDivisionError),
        (lambda self: lambda x, g, m: (x - g, scalar.log(g * g)), ValueError),
        (lambda self: lambda x, g, m: (x - g / scalar.exp(abs(g * 1e5)), m), OverflowError),
        (lambda self: lambda x, g, m: (x - g / scalar.exp(1e5 * (self.steps + 1)), m), OverflowError),
    ],
)
@pytest.mark.parametrize("n", [2, 9, 20])
def test_an_operation_of_the_rule_that_fails_is_an_error(rule, kind, n, backend):
    parameters = [Value(1.0) for _ in range(n)]
    optimizer = Ruling(parameters, rule)
    fast = micrograd.compile(lambda x: dot(parameters, x), ([0.0] * n,), parameters=parameters, backend=backend)
    with fast.training(optimizer) as step:
        for zero in range(n):
            with pytest.raises(kind):
                step([[float(i != zero) for i in range(n)]])
        assert {parameter.data for parameter in parameters} == {1.0}
        assert optimizer.steps == 0


def test_the_ranges_of_what_changes_are_as_few_as_can_be():
    parameters = [Value(float(i)) for i in range(8)]
    order = [parameters[i] for i in (6, 1, 2, 0, 4)]
    assert list(Buffers(parameters, SGD(order)).ranges()) == [0, 3, 4, 1, 6, 1]


# Examples


def test_several_shapes_are_compiled_when_the_first_batch_needs_them(backend, caplog):
    w = Value(1.0)
    traced = []

    def loss(xs):
        traced.append(len(xs))
        return dot([w] * len(xs), xs, 0.0)

    fast = micrograd.compile(loss, ([1.0],), parameters=[w], backend=backend)
    with fast.training(SGD([w], 0.1)) as step:
        step([[1.0] * n for n in (3, 2, 5, 1, 4, 7)])
        assert traced == [1, 3, 2, 5, 4, 7]  # in order, so that what is drawn at random is the same again
    assert caplog.messages == ["compiling once for each of 5 shapes of examples"]


def test_a_constant_that_is_in_training_elsewhere_keeps_its_gradient(line):
    with line.block as step:
        step(*BATCH)
        before = line.state()
        micrograd.compile(lambda x: (line.w * x + line.b) ** 2, (1.0,), parameters=[line.b], backend="python")
        assert line.state() == before


@pytest.mark.skipif(not has_compiler(), reason="there is no C compiler here")
@pytest.mark.parametrize(
    ("number", "kind", "error"), [("a", "str", TypeError), (10**400, "int", ValueError)], ids=["text", "huge"]
)
def test_what_is_no_float_is_not_assigned_to_a_parameter_in_training_in_c(number, kind, error):
    w = Value(1.0, label="weight")
    fast = micrograd.compile(lambda x: (w * x - 1.0) ** 2, (0.0,), parameters=[w], backend="c")
    with fast.training(SGD([w], 0.1)):
        for name in "data", "grad":
            with pytest.raises(
                error, match=rf"^{name} of the parameter Value.*weight.* an object of type {kind}: expe"
            ):
                setattr(w, name, number)
    assert w.data == 1.0


def test_a_training_block_says_what_to_pickle():
    w = Value(1.0)
    fast = micrograd.compile(lambda x: (w * x - 1.0) ** 2, (0.0,), parameters=[w], backend="python")
    with fast.training(SGD([w], 0.1)) as step, pytest.raises(TypeError, match="pickle the compiled function and the"):
        pickle.dumps(step)


@pytest.mark.parametrize("loss", [lambda p, y: None, lambda p, y: [p - y]])
@pytest.mark.parametrize("backend", ["eager", "python", *["c"] * has_compiler()])
def test_a_loss_that_is_no_number_is_the_same_error_compiled_as_eager(loss, backend):
    model = nn.Neuron(1, rng=1)
    with pytest.raises(TypeError, match="^the loss of an example must be a single number: a Value holds a number"):
        fit(model, loss, [[1.0]], [1.0], epochs=1, backend=backend, optimizer=SGD(model.parameters(), 0.1))


@pytest.mark.parametrize("backend", ["python", "c"])
def test_a_step_of_the_engine_gives_the_function_values(backend, cache):
    if backend == "c" and not has_compiler():
        pytest.skip("there is no C compiler here")
    p = [Value(0.5), Value(0.0)]
    fast = micrograd.compile(
        lambda x, k: micrograd.take([p[0] * x.exp(), p[1].sqrt() * x], k), (0.0, 0.0), parameters=p, backend=backend
    )
    with fast.training(SGD(p, 0.1)) as step:
        loss = step([1.0, 2.0], [0.0, 0.0])
    slope = (math.e + math.exp(2.0)) / 2
    assert loss == pytest.approx(0.5 * slope)
    assert [p[0].data, p[1].data] == pytest.approx([0.5 - 0.1 * slope, 0.0])


class Raising(SGD):
    def rule(self):
        def update(x, grad, *moments):
            raise KeyError("none")

        return update


def test_whatever_a_rule_raises_in_python_comes_out_and_changes_nothing():
    p = Value(2.0)
    fast = micrograd.compile(lambda x: p * x, (1.0,), parameters=[p], backend="python")
    optimizer = Raising([p], 0.1)
    with pytest.raises(KeyError, match="none"), fast.training(optimizer) as step:
        step([1.0])
    assert (p.data, optimizer.steps) == (2.0, 0)
