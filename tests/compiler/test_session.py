"""`Compiled.training`: steps in generated code, whose numbers Values and optimizer show and keep."""

import copy
import gc
import json
import math
import pickle
import random
import signal
import threading
from array import array
from contextlib import ExitStack, nullcontext, suppress
from fractions import Fraction
from functools import partial
from operator import setitem

import numpy as np
import pytest

import micrograd
from micrograd import Backend, Value, dot, losses, nn, scalar
from micrograd.compiler import CompilerError, dataset, session
from micrograd.compiler.frontend import redirect
from micrograd.compiler.native import loop, toolchain
from micrograd.compiler.native.loop import Moments
from micrograd.compiler.stepping import Sampler
from micrograd.data import moons
from micrograd.optim import SGD, Adam, AdamW, Optimizer
from tests.helpers import ctrl_c_at_each_moment, has_compiler, in_threads, needs_compiler
from tests.trainings import Given, close

pytestmark = pytest.mark.usefixtures("cache")

BATCH = [1.0, 2.0], [2.0, 3.0]


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


def assert_at_home(line):
    assert {type(parameter) for parameter in line.parameters} == {Value}
    assert all(isinstance(number, (int, float)) for p in line.parameters for number in (p.data, p.grad))
    assert all(type(getattr(line.optimizer, name)) is list for name in line.optimizer.moments)
    assert not redirect._blocks


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


@pytest.mark.parametrize("make", [
    SGD, partial(SGD, momentum=0.9, nesterov=True, clip_grad_norm=0.1), partial(Adam, clip_grad_norm=100.0), AdamW,
])  # fmt: skip
def test_a_step_does_what_zero_grad_backward_and_step_do_and_shows_it(make, backend):
    make = partial(make, learning_rate=0.1)
    line, eager = Line(backend, make), Line("python", make)
    for _ in range(3):
        with line.block as step:
            for _ in range(3):
                assert step(*BATCH) == pytest.approx(eager.eager(*BATCH), rel=1e-12)
                assert close(line.state(), eager.state())
                assert json.loads(json.dumps(line.optimizer.state_dict())) == line.optimizer.state_dict()
                assert line.fast(1.0, 2.0) == pytest.approx(line.loss(1.0, 2.0).data)
                for name in line.optimizer.moments:
                    moment = getattr(line.optimizer, name)
                    assert (len(moment), repr(moment)) == (2, repr(list(moment)))
                    assert moment == list(moment) == moment != [7.0, 7.0]
        assert_at_home(line)
        assert close(line.state(), eager.state())
        line.fast.backward(*BATCH), eager.fast.backward(*BATCH)  # outside, in between
        line.optimizer.step(), eager.optimizer.step()


FORMS = {
    "lists": lambda fast: BATCH,
    "packed lists": lambda fast: (fast.pack(*BATCH),),
    "arrays": lambda fast: tuple(map(np.array, BATCH)),
    "packed arrays": lambda fast: (fast.pack(*map(np.array, BATCH)),),
    "mixed": lambda fast: (tuple(BATCH[0]), array("d", BATCH[1])),
}


@pytest.mark.parametrize("form", FORMS)
def test_batches_of_every_form_take_turns_with_others(form, line):
    eager, batch, other = Line("python"), FORMS[form](line.fast), ([3.0], [1.0])
    packed = (line.fast.pack(*other),)
    with line.block as step:
        for examples, numbers in [(batch, BATCH), (packed, other), (batch, BATCH), (batch, BATCH), (other, other)]:
            step(*examples)
            eager.eager(*numbers)
    assert close(line.state(), eager.state())


def test_a_batch_may_hold_several_shapes_which_are_compiled_when_the_first_batch_needs_them(backend):
    w, v, traced = Value(0.5), Value(0.5), []

    def loss(xs, y):
        if not isinstance(xs[0], float):
            traced.append(len(xs))
        return (dot([w] * len(xs), xs, 0.0) - y) ** 2

    xs, ys = [[1.0] * n for n in (3, 2, 5, 1, 4, 7)], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    fast = micrograd.compile(loss, ([1.0], 1.0), parameters=[w], backend=backend)
    optimizer = Adam([v], 0.1)
    with fast.training(Adam([w], 0.1)) as step:
        for batch, targets in [(xs, ys)] * 3 + [([[2.0]], [1.0])]:
            expected = micrograd.mean([(v * sum(x) - y) ** 2 for x, y in zip(batch, targets, strict=True)])
            optimizer.zero_grad()
            expected.backward()
            optimizer.step()
            assert step(batch, targets) == pytest.approx(expected.data, rel=1e-12)
    assert (w.data, w.grad) == (pytest.approx(v.data, rel=1e-12), pytest.approx(v.grad, rel=1e-12))
    assert traced == [1, 3, 2, 5, 4, 7]  # in order, so that what is drawn at random is the same again


# Steps that fail


@pytest.mark.parametrize("make", [SGD, lambda p: SGD(p, 0.1, 0.9), lambda p: Adam(p, 0.1)])
def test_a_step_that_fails_changes_nothing(make, backend):
    line, eager = Line(backend, make), Line("python", make)
    with line.block as step:
        step(*BATCH)
        before = line.state()
        for batch, kind, match in (
            (([1.0, 1e200], [1.0, 1.0]), OverflowError, "too large for a float"),
            (([1.0, math.inf], [1.0, 1.0]), FloatingPointError, "the loss is inf: the parameters are those from"),
            (([1.0, math.nan], [1.0, 1.0]), FloatingPointError, "the loss is nan"),
        ):
            for examples in batch, (line.fast.pack(*batch),):
                with pytest.raises(kind, match=match):
                    step(*examples)
                assert [line.state()[0], line.state()[2]] == [before[0], before[2]]
        step(*BATCH)
    assert_at_home(line)
    eager.eager(), eager.eager()
    assert close(line.state(), eager.state())


@pytest.mark.parametrize(("function", "x", "after"), [
    (lambda w, x: (w * x).relu() * math.inf * 0 + w, -1.0, FloatingPointError),  # NaN
    (lambda w, x: w + 1e-3 * micrograd.where(x > 0, x, 1.0 / (x + 1)), -1.0, ZeroDivisionError),
    (lambda w, x: (w * x).sigmoid() + w, -1e4, 0.4),  # a division by 0 that no result depends on
    (lambda w, x: (w * x).sigmoid() + w, 1e300, 0.4),
    (lambda w, x: w * x, 1e200, 0.4),  # whose square overflows where it is clipped
])  # fmt: skip
def test_the_engine_takes_a_step_that_generated_code_is_not_sure_of(function, x, after, backend):
    w = Value(0.5)
    optimizer = SGD([w], 0.1, momentum=0.5, clip_grad_norm=1.0)
    fast = micrograd.compile(lambda x: function(w, x), (1.0,), parameters=[w], backend=backend)
    with fast.training(optimizer) as step, nullcontext() if isinstance(after, float) else pytest.raises(after):
        step([x])
    assert w.data == pytest.approx(after if isinstance(after, float) else 0.5)
    assert optimizer.steps == isinstance(after, float)


# What is changed within a block counts


def reorder(line):
    optimizer = line.optimizer
    optimizer.mean, optimizer.mean_square = [abs(x) for x in optimizer.mean_square], optimizer.mean
    optimizer.mean, optimizer.mean_square = optimizer.mean_square, optimizer.mean


CHANGES = {
    "data": lambda line: setattr(line.w, "data", 3.0),
    "whole number": lambda line: setattr(line.w, "data", 3),
    "NumPy": lambda line: setattr(line.w, "data", np.float64(3.0)),
    "learning rate": lambda line: setattr(line.optimizer, "learning_rate", 0.01),
    "betas": lambda line: setattr(line.optimizer, "betas", (0.5, 0.9)),
    "decay": lambda line: setattr(line.optimizer, "weight_decay", 0.1),
    "clipping": lambda line: setattr(line.optimizer, "clip_grad_norm", 0.01),
    "steps": lambda line: setattr(line.optimizer, "steps", 0),
    "moments": lambda line: setattr(line.optimizer, "mean", [1.0, -1.0]),
    "an array of moments": lambda line: setattr(line.optimizer, "mean", np.ones(2)),
    "moments given to one another": reorder,
    "some moments": lambda line: setattr(line.optimizer, "mean", [*line.optimizer.mean[:1], 5.0]),
    "state": lambda line: line.optimizer.load_state_dict(
        {**line.optimizer.state_dict(), "learning_rate": 0.05, "mean": [2.0, 3.0], "steps": 7}
    ),
    "a step of the engine": lambda line: line.eager(),
    "backward": lambda line: line.fast.backward(*BATCH),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_changed_within_a_block_counts(name, backend):
    for is_last in False, True:
        make, change = partial(Adam, learning_rate=0.1), CHANGES[name]
        line, eager = Line(backend, make), Line("python", make)
        with line.block as step:
            for _ in range(2):
                step(*BATCH), eager.eager()
            change(line), change(eager)
            if not is_last:
                step(*BATCH), eager.eager()
                assert close(line.state(), eager.state())
                change(line), change(eager)
                step(*BATCH), eager.eager()
        assert close(line.state(), eager.state())
        line.optimizer.mean = list(line.optimizer.mean)
        assert_at_home(line)


@pytest.mark.parametrize(("change", "kind", "message"), [
    (lambda line: setattr(line.w, "data", "3"), TypeError, "^data of the parameter Value.* of type str: expected"),
    (lambda line: setattr(line.w, "grad", "3"), TypeError, "^grad of the parameter Value.* of type str: expected"),
    (lambda line: setattr(line.w, "data", 10**400), ValueError, "^data of the parameter Value.* of type int: exp"),
    (lambda line: line.optimizer.velocity.append(1.0), AttributeError, "no attribute 'append'"),
    (lambda line: setitem(line.optimizer.velocity, 0, 1.0), TypeError, "does not support item assignment"),
])  # fmt: skip
def test_a_buffer_takes_numbers_only(change, kind, message, c_line):
    with c_line.block as step:
        step(*BATCH)
        before = c_line.state()
        with pytest.raises(kind, match=message):
            change(c_line)
        assert c_line.state() == before


@needs_compiler
@pytest.mark.parametrize(("in_order", "precision"), [(True, "double"), (False, "double"), (True, "single")])
def test_moments_are_read_and_assigned_as_lists_and_arrays_in_the_order_of_the_optimizer(in_order, precision):
    ws, backend = [Value(float(i)) for i in range(4)], Backend("c", precision=precision)
    fast = micrograd.compile(lambda x: dot(ws, [x] * 4), (1.0,), parameters=ws, backend=backend)
    optimizer = SGD(ws if in_order else ws[::-1], 0.1, momentum=0.9)
    for kind in list, partial(array, "i"), np.array:
        with fast.training(optimizer) as step:
            optimizer.velocity = kind([1, 7, 3, 9])
            step([0.0])
            assert optimizer.velocity[2:0:-1] == pytest.approx([2.7, 6.3])
            assert np.asarray(optimizer.velocity).tolist() == pytest.approx([0.9, 6.3, 2.7, 8.1])
            step([0.0])
        assert optimizer.velocity == pytest.approx([0.81, 5.67, 2.43, 7.29])


@pytest.mark.parametrize(("change", "kind", "message"), [
    (lambda o: setattr(o, "velocity", [1.0]), ValueError, "velocity has 1 numbers: expected 2, one for each"),
    (lambda o: setattr(o, "velocity", ["a", "b"]), TypeError, None),
    (lambda o: setattr(o, "parameters", o.parameters[:1]), ValueError, "other parameters during training: start"),
    (lambda o: o.parameters.pop(), ValueError, "other parameters during training: start another block"),
    (lambda o: setattr(o, "parameters", [Value(p.data) for p in o.parameters]), ValueError, "other parameters"),
])  # fmt: skip
def test_a_step_with_other_parameters_or_moments_is_refused(change, kind, message, line):
    with line.block as step:
        step(*BATCH)
        before, parameters = line.state()[0], line.optimizer.parameters
        change(line.optimizer)
        with pytest.raises(kind, match=message):
            step(*BATCH)
        parameters[:], line.optimizer.parameters = line.parameters, parameters
        assert line.state()[0] == before
        line.optimizer.velocity = [0.0, 0.0]
        step(*BATCH)
    assert_at_home(line)


# What else sees the numbers


def test_models_and_optimizers_are_copied_pickled_saved_and_loaded_within_a_block(backend, tmp_path):
    model = nn.MLP(2, [3, 1], rng=1)
    xs, ys = moons(8, rng=1)
    fast = micrograd.compile(
        lambda x, y: losses.mse_loss(model(x), y), (xs[0], ys[0]), parameters=model.parameters(), backend=backend
    )
    optimizer = Adam(model.parameters(), 0.1)
    with fast.training(optimizer) as step:
        step(xs, ys)
        state, of_optimizer = model.state_dict(), optimizer.state_dict()
        nn.save(model, tmp_path / "model.json")
        copies = [copy.deepcopy((model, optimizer)), pickle.loads(pickle.dumps((model, optimizer)))]
        grads = [parameter.grad for parameter in model.parameters()]
        loss = step(xs, ys)
        model.load_state_dict(state)
        assert step(xs, ys) == pytest.approx(loss)
    assert nn.load(tmp_path / "model.json").state_dict() == state
    for copied, its_optimizer in copies:
        assert (copied.state_dict(), its_optimizer.state_dict()) == (state, of_optimizer)
        assert [parameter.grad for parameter in copied.parameters()] == grads
        assert {type(parameter) for parameter in copied.parameters()} == {Value}
        assert type(its_optimizer.mean) is list
        assert its_optimizer.parameters == copied.parameters()


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


# Blocks


def test_threads_take_turns_with_the_steps_of_a_block(backend):
    w = [Value(0.1) for _ in range(5)]
    optimizer = SGD(w, 0.01)
    fast = micrograd.compile(lambda x: dot(w, x).tanh(), ([0.0] * 5,), parameters=w, backend=backend)
    packs = [fast.pack([[0.01] * 5] * n) for n in (9, 300)]
    step = fast.training(optimizer)

    def work(k, most=100_000):
        with suppress(RuntimeError):  # when the block is over
            for i in range(most):
                step(packs[(i + k) % 2])

    with step:
        in_threads(partial(work, most=50), 4)
        assert optimizer.steps == 200
        at_work = threading.Thread(target=in_threads, args=(work, 4))
        at_work.start()
    at_work.join()
    assert {type(parameter) for parameter in w} == {Value}


@pytest.mark.parametrize("other", ["the same block", "the same optimizer", "another optimizer"])
def test_a_second_block_on_the_same_parameters_is_refused_in_c_and_changes_nothing(other, backend):
    eager, line = Line("python"), Line(backend)
    optimizer = line.optimizer if other == "the same optimizer" else Adam(line.parameters)
    second = line.block if other == "the same block" else line.fast.training(optimizer)
    with line.block as step:
        step(*BATCH), eager.eager()
        state = optimizer.state_dict()
        are_apart = backend == "python" and other != "the same block"
        why = "this training block has already begun|another training block in C holds a parameter"
        with nullcontext() if are_apart else pytest.raises(ValueError, match=why), second:
            assert are_apart, "is not entered"
        assert optimizer.state_dict() == state
        assert isinstance(line.optimizer.velocity, Moments if backend == "c" else list)
        step(*BATCH), eager.eager()
        assert close(line.state(), eager.state())
    assert close(line.state(), eager.state())
    assert_at_home(line)


def two_blocks(way, hold_both):
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
            held = [[one, two]] * 2 if hold_both else [[one], [two]]
            ways = way if isinstance(way, tuple) else (way, way)
            functions = [
                micrograd.compile(loss, (1.0,), parameters=parameters, backend=backend)
                for loss, parameters, backend in zip(losses, held, ways, strict=True)
            ]
            blocks = [fast.training(optimizer) for fast, optimizer in zip(functions, optimizers, strict=True)]
            steps = list(map(stack.enter_context, blocks))
        for _ in range(3):
            found += [step(batch) for step, batch in zip(steps, batches, strict=True)]
    return [*found, one.data, two.data]


@pytest.mark.parametrize("hold_both", [True, False])
@pytest.mark.parametrize(
    "way", ["python", "auto", *["c", (Backend("c", precision="single"), "python")] * has_compiler()]
)
def test_blocks_that_hold_the_same_parameters_are_right_or_refused_where_they_begin(way, hold_both, caplog):
    toolchain.warn_once.cache_clear()
    if way == "c" and hold_both:
        with pytest.raises(ValueError, match="another training block in C holds a parameter"):
            two_blocks(way, hold_both)
    else:
        rel = 1e-4 if isinstance(way, tuple) else 1e-12
        assert two_blocks(way, hold_both) == pytest.approx(two_blocks("eager", hold_both), rel=rel)
    assert "a step was taken by the engine" not in caplog.text


def test_what_no_step_changes_stays_as_it_was_assigned_after_any_number_of_steps(c_line):
    line, other = c_line, Value(3.0)
    loss = lambda x: (line.w * x + line.b - other) ** 2  # noqa: E731
    fast = micrograd.compile(loss, (1.0,), parameters=line.parameters, backend="c")
    optimizer = SGD([line.w], 0.1)  # has velocities, which do not change without momentum
    sampler = Sampler(2, 2, None, fast._examples(([1.0, 2.0],)))
    with fast.training(optimizer) as step:
        for k in range(1, 5):
            line.b.data, other.data, optimizer.velocity = 0.1 * k, 3.0 + k, [float(k)]
            twin = Line("python", lambda p: SGD(p[:1], 0.1), line.w.data, line.b.data)
            expected = [twin.eager(ys=[other.data] * 2) for _ in range(k)]
            assert list(step.take(sampler, [0.1] * k)) == pytest.approx(expected)
            assert (line.b.data, other.data, optimizer.velocity[:]) == (0.1 * k, 3.0 + k, [float(k)])


def test_moments_stay_as_they_are_while_the_rule_does_not_change_them(c_line):
    found = []
    for line in Line("python"), c_line:
        with line.block as step:
            for momentum in (0.9, 0.9, 0.9, 0.0, 0.0, 0.0, 0.9, 0.9):
                line.optimizer.momentum = momentum
                loss = step([1.0, 2.0, 3.0], [2.0, 1.0, 0.5])
                found.append(pytest.approx([loss, *line.optimizer.velocity]))
    assert found[8:] == [each.expected for each in found[:8]]


def test_a_step_that_ctrl_c_stops_is_taken_or_not_and_the_next_steps_are_as_usual(c_line):
    """The first step of a block, after an option has been set."""
    line, start = c_line, c_line.optimizer.state_dict()

    def states(ctrl_c):
        """The states after each of three steps, of which Ctrl-C may stop the first, and after the block."""
        for parameter in line.parameters:
            parameter.data, parameter.grad = 0.5, 0.0
        line.optimizer.load_state_dict(start)
        with line.block as step:
            line.optimizer.momentum = 0.5
            begun = line.state()
            with ctrl_c:
                step(*BATCH)
            found = [line.state()]
            for _ in range(2):
                step(*BATCH)
                found.append(line.state())
        return begun, [*found, line.state()]

    begun, taken = states(nullcontext())
    for ctrl_c in ctrl_c_at_each_moment(session.__name__, dataset.__name__, loop.__name__, toolchain.__name__):
        assert states(ctrl_c)[1] in (taken, [begun, *taken[:2], taken[1]])


def test_however_a_block_ends_the_values_have_their_numbers_again(line):
    eager = Line("python")
    for error in ValueError, KeyboardInterrupt, SystemExit:
        with pytest.raises(error), line.block as step:  # noqa: PT012
            step(*BATCH), eager.eager()
            raise error
        assert_at_home(line)
        assert close(line.state(), eager.state())
    block = line.fast.training(line.optimizer)
    block.__enter__()(*BATCH)  # and never left
    state = line.state()
    del block, step
    gc.collect()
    assert_at_home(line)
    assert line.state() == state


class Pressed(list):
    """Moments at whose copying somebody presses Ctrl-C."""

    def __iter__(self):
        signal.raise_signal(signal.SIGINT)
        return super().__iter__()


@pytest.mark.parametrize(("moments", "error"), [(Pressed([0.0, 0.0]), KeyboardInterrupt), (["a", "b"], TypeError)])
def test_a_block_that_cannot_be_entered_changes_nothing(moments, error, c_line):
    before = c_line.state()
    c_line.optimizer.velocity = moments
    with pytest.raises(error), c_line.block:
        pytest.fail("the block was entered")
    c_line.optimizer.velocity = [0.0, 0.0]
    assert_at_home(c_line)
    assert c_line.state() == before
    with c_line.block as step:
        step(*BATCH)


def test_a_step_outside_of_its_block_is_an_error(line):
    step = line.block
    for _ in range(2):
        before = line.state()
        with pytest.raises(RuntimeError, match=r"call step inside its block: with fast\.training\(optimizer\) as step"):
            step(*BATCH)
        assert line.state() == before
        with step:
            step(*BATCH)
    assert line.optimizer.steps == 2


# What cannot be trained


def own(base, **members):
    """An optimizer of a user's class."""
    return lambda p: type("Own", (base,), members)(p, learning_rate=0.1)


def replaced(p):
    optimizer = SGD(p)
    optimizer.step = print
    return optimizer


RULE = {"rule": lambda self: lambda x, grad: (x,)}
STEP = {"step": lambda self: None}


@pytest.mark.parametrize(("make", "kind", "message"), [
    (own(SGD, **STEP), TypeError, r"^Own defines its own step\(\): compiled training takes only steps that"),
    (own(Optimizer, **RULE, zero_grad=STEP["step"]), TypeError, r"^Own defines its own zero_grad\(\): comp"),
    (own(type("Base", (SGD,), STEP)), TypeError, r"^Own defines its own step\(\): comp"),
    (replaced, TypeError, r"^SGD defines its own step\(\): comp"),
    (lambda p: type("Own", (SGD,), {"learning_rate": property(lambda self: 0.1, lambda self, to: None)})(p), TypeError,
     "^Own computes its learning_rate: make it a number"),
    (own(Optimizer, **STEP), TypeError, r"^Own defines its own step\(\): comp"),
    (lambda p: None, TypeError, r": expected an Optimizer, such as optim\.Adam\(parameters\)$"),
    (lambda p: SGD, TypeError, r": expected an Optimizer, such as optim\.Adam\(parameters\)$"),
    (lambda p: SGD([p[0], Value(7.0)]), ValueError, r"the optimizer changes .*Value\(data=7\.0.*give compile all"),
])  # fmt: skip
def test_an_optimizer_that_does_more_than_its_rule_is_refused(make, kind, message, line):
    with pytest.raises(kind, match=message):
        line.fast.training(make(line.parameters))


@needs_compiler
@pytest.mark.parametrize("backend", ["auto", "c"])
def test_a_compiler_that_disappears_after_compile_is_an_error_rather_than_a_switch_to_python(backend, monkeypatch):
    line = Line(backend, lambda p: SGD(p, 0.1, weight_decay=0.123))
    with line.block as step:
        step(*BATCH)
        before = line.state()
        monkeypatch.setenv("CC", "/nonexistent")
        why = "no C compiler works here"
        with pytest.raises(CompilerError, match=why):
            step([1.0] * 9, [2.0] * 9)  # in tiles, not one by one: another library
        with pytest.raises(CompilerError, match=why):
            line.fast(1.0, 2.0)
        assert line.state() == before
        step(*BATCH)
        line.optimizer.weight_decay = 0.321
        with pytest.raises(CompilerError):
            step(*BATCH)
        for arrived in copy.deepcopy(line.fast), pickle.loads(pickle.dumps(line.fast)):  # as on another machine
            assert repr(arrived).startswith("<loss compiled to Python, 2 parameters")
            assert arrived.map(*BATCH) == pytest.approx([line.loss(*xy).data for xy in zip(*BATCH, strict=True)])
    with pytest.raises(CompilerError), line.block:
        pass
    assert_at_home(line)


# Rules


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
    assert close(states[1], states[0])


def none(x, grad, kept):
    raise KeyError("none")


RULES = {  # whether C can apply it, and the error if nothing can
    "branch": (lambda self: lambda x, grad, kept: (x - 0.1 * (1 if grad > 0 else -1), kept), False, None),
    "list": (lambda self: lambda x, grad, kept: [x - 0.1 * grad, grad], True, None),
    "condition": (lambda self: lambda x, g, kept: (x - 0.1 * scalar.where(kept, g, 1.0), g < 0), True, None),
    "float": (lambda self: lambda x, grad, kept: (x - self.learning_rate * grad, float(grad > 0)), False, None),
    "a number": (lambda self: lambda x, grad, kept: x, False, TypeError),
    "too many": (lambda self: lambda x, grad, kept: (x, kept, kept), False, (TypeError, ValueError)),
    "an error": (lambda self: none, False, KeyError),
}


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("way", ["python", "c", "auto"])
def test_a_rule_trains_in_every_way_that_it_can(name, way):
    rule, in_c, error = RULES[name]
    if way == "c" and not has_compiler():
        pytest.skip("there is no C compiler here")
    eager, line = (Line(backend, lambda p: Given(p, rule)) for backend in ("python", way))
    before = line.state()
    if error or (way == "c" and not in_c):
        with pytest.raises(error or TypeError), line.block as step:
            step(*BATCH)
        assert [line.state()[0], line.state()[2]] == [before[0], before[2]]
    else:
        with line.block as step:
            for _ in range(3):
                step(*BATCH), eager.eager()
        kept = [list(map(float, each.optimizer.kept)) for each in (line, eager)]
        assert close([*line.state()[:2], kept[0]], [*eager.state()[:2], kept[1]])
    assert_at_home(line)


@pytest.mark.parametrize(("rule", "kind"), [
    (lambda self: lambda x, g, m: (x - scalar.where(g == 0, 0.0, scalar.divide(g, abs(g))), m), ZeroDivisionError),
    (lambda self: lambda x, g, m: (x - g, scalar.log(g * g)), ValueError),
    (lambda self: lambda x, g, m: (x - g / scalar.exp(abs(g * 1e5)), m), OverflowError),
    (lambda self: lambda x, g, m: (x - g / scalar.exp(1e5 * (self.steps + 1)), m), OverflowError),
])  # fmt: skip
@pytest.mark.parametrize("n", [2, 9, 20])
def test_an_operation_of_the_rule_that_fails_is_an_error(rule, kind, n, backend):
    parameters = [Value(1.0) for _ in range(n)]
    optimizer = Given(parameters, rule)
    fast = micrograd.compile(lambda x: dot(parameters, x), ([0.0] * n,), parameters=parameters, backend=backend)
    with fast.training(optimizer) as step:
        for zero in range(n):
            with pytest.raises(kind):
                step([[float(i != zero) for i in range(n)]])
        assert {parameter.data for parameter in parameters} == {1.0}
        assert optimizer.steps == 0
