"""The optimizers and schedules: their formulas, their state, their errors, and their agreement with PyTorch."""

import inspect
import json
import math
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pytest

from micrograd import optim, where
from micrograd.engine import Value
from micrograd.nn import Neuron
from micrograd.optim import SGD, Adam, AdamW, Optimizer, RMSprop
from tests.optimizers import ROWS

START = [1.5, -0.75, 0.0, 20.0]

OPTIONS = [(row.kind, options) for row in ROWS for options in ({}, *row.options)]

close = pytest.approx
every_option = pytest.mark.parametrize(("kind", "options"), OPTIONS)


def parameters(numbers=START):
    return [Value(x) for x in numbers]


def numbers(parameters):
    return [p.data for p in parameters]


def set_gradients(parameters, time=0.0):
    """Gradients that depend on the place and on the time, one of them 0 throughout."""
    for i, p in enumerate(parameters):
        p.grad = 0.5 * i * (p.data - 1) + i * math.sin(time + i)


def train(optimizer, times):
    for time in times:
        set_gradients(optimizer.parameters, time)
        optimizer.step()


@every_option
def test_ten_steps_agree_with_pytorch(kind, options):
    torch = pytest.importorskip("torch")
    ours = parameters()
    optimizer = kind(ours, **options)
    theirs = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in START]
    limit = options.get("clip_grad_norm")
    renamed = {"lr" if name == "learning_rate" else name: x for name, x in options.items() if name != "clip_grad_norm"}
    reference = getattr(torch.optim, kind.__name__)(theirs, **renamed)
    for time in range(10):
        optimizer.zero_grad()
        set_gradients(ours, time)
        for p, q in zip(ours, theirs, strict=True):
            q.grad = torch.tensor(p.grad, dtype=torch.float64)
        before = [p.grad for p in ours]
        optimizer.step()
        assert [p.grad for p in ours] == before
        if limit is not None:
            torch.nn.utils.clip_grad_norm_(theirs, limit)
        reference.step()
        assert numbers(ours) == close([q.item() for q in theirs], rel=1e-12, abs=1e-12)
    assert numbers(ours) != START


@pytest.mark.parametrize(("kind", "options", "start", "gradients", "expected"), [
    (SGD, {"learning_rate": 2}, Fraction(1, 3), [Fraction(1, 7)], [Fraction(1, 21)]),  # exact
    (SGD, {"learning_rate": Fraction(1, 4)}, 3.0, [2.0], [2.5]),
    (AdamW, {"learning_rate": 0.5, "weight_decay": 0.5}, 8.0, [0.0, 0.0], [6.0, 4.5]),
    # 4 in the first step, then 4 / 2 + 4 / 4
    (SGD, {"learning_rate": 1.0, "momentum": 0.5, "dampening": 0.75}, 0.0, [4.0, 4.0], [-4.0, -7.0]),
    (RMSprop, {"learning_rate": 0.5, "alpha": 0.5, "eps": 1.0, "centered": True}, 0.0, [2.0], [-0.5]),
    (RMSprop, {"learning_rate": 0.5, "alpha": 0.75, "eps": 1.0, "momentum": 0.5}, 0.0, [2.0, 0.0], [-0.5, -0.75]),
])  # fmt: skip
def test_steps_are_those_of_their_formulas(kind, options, start, gradients, expected):
    p = Value(start)
    optimizer = kind([p], **options)
    for p.grad, number in zip(gradients, expected, strict=True):
        optimizer.step()
        assert p.data == number


def test_a_parameter_that_is_shared_is_changed_once():
    p = Value(1.0)
    p.grad = 1.0
    SGD(iter([p, p]), 0.25).step()
    assert p.data == 0.75


@every_option
def test_a_step_that_fails_changes_nothing(kind, options):
    ps = parameters()
    optimizer = kind(ps, **options)
    train(optimizer, range(2))
    before, state = numbers(ps), optimizer.state_dict()
    set_gradients(ps)
    ps[-1].grad = None
    with pytest.raises(TypeError):
        optimizer.step()
    assert numbers(ps) == before
    assert optimizer.state_dict() == state


# State


@every_option
def test_a_state_saved_in_the_middle_continues_the_same(kind, options):
    ps = parameters()
    optimizer = kind(ps, **options)
    train(optimizer, range(5))
    state = json.loads(json.dumps(optimizer.state_dict()))

    others = parameters(numbers(ps))
    other = kind(others, learning_rate=7.0)
    other.load_state_dict(state)
    assert other.state_dict() == state
    train(optimizer, range(5, 10))
    train(other, range(5, 10))
    assert numbers(others) == numbers(ps)
    assert other.state_dict() == optimizer.state_dict() != state


def test_a_state_with_a_moment_that_has_overflowed_can_be_read():
    optimizer, other = Adam(parameters()), Adam(parameters())
    optimizer.parameters[1].grad = 1e200  # the square of which is infinite, so this step and the next are of 0
    optimizer.step()
    assert optimizer.mean_square[1] == math.inf
    state = json.loads(json.dumps(optimizer.state_dict()))
    other.load_state_dict(state)
    assert other.state_dict() == state
    other.step()


def test_a_state_is_a_copy():
    optimizer = Adam(parameters(), betas=[0.5, 0.5])
    train(optimizer, range(2))
    state = optimizer.state_dict()
    kept = json.dumps(state)
    optimizer.load_state_dict(state)
    state["mean"][0] = state["betas"][0] = 0.25
    assert json.dumps(optimizer.state_dict()) == kept


@pytest.mark.parametrize(("kind", "change", "message"), [
    (SGD, {"optimizer": "Adam"}, "state_dict.* of SGD"),
    (SGD, {"extra": 1}, "a dict of optimizer, steps, learning_rate"),
    (SGD, {"learning_rate": "0.1"}, "learning_rate is '0.1'"),
    (SGD, {"learning_rate": 10**400}, "learning_rate is 1000"),
    (SGD, {"nesterov": True}, "nesterov requires a momentum"),
    (SGD, {"nesterov": 1}, "nesterov is 1: expected True or False"),
    (SGD, {"steps": -1}, "steps is -1"),
    (SGD, {"steps": 1.5}, "steps is 1.5: expected an int"),
    (SGD, {"velocity": [0.0] * 3}, "velocity has 3 numbers: expected 4, one for each parameter"),
    (SGD, {"velocity": None}, "velocity has no numbers: expected 4, one for each parameter"),
    (SGD, {"velocity": [0.0, 0.0, math.nan, 0.0]}, r"velocity\[2\] is nan: expected a number$"),
    (Adam, {"mean_square": [0.0, 0.0, 0.0, -1.0]}, r"mean_square\[3\] is -1.0: expected a number, 0 or greater"),
    (RMSprop, {"mean_square": [0.0, 0.0, 0.0, -1.0]}, r"mean_square\[3\] is -1.0: expected a number, 0 or greater"),
    (Adam, {"betas": 0.9}, "betas is 0.9: expected two numbers"),
])  # fmt: skip
def test_a_wrong_state_is_an_error_that_loads_nothing(kind, change, message):
    optimizer = kind(parameters(), learning_rate=0.5)
    train(optimizer, range(2))
    before = optimizer.state_dict()
    with pytest.raises(ValueError, match=message):
        optimizer.load_state_dict({**before, "learning_rate": 0.25, "steps": 9, **change})
    for state in (None, [], "SGD", {}, {"optimizer": kind.__name__}):
        with pytest.raises(ValueError, match=f"not the state_dict.* of {kind.__name__}"):
            optimizer.load_state_dict(state)
    assert optimizer.state_dict() == before


# Arguments

W = Value(1.0)
UNORDERED = "parameters is of type {}: expected a list of Values, such as model.param"
OUT_OF_RANGE = [
    (kind, {name: value}, f"{name} is ")
    for kind, defaults, _ in ROWS
    for name, default in [*defaults.items(), ("clip_grad_norm", 1.0)]
    if type(default) is float
    for value in (-1e-9, math.nan, math.inf, -math.inf, "0.1", True)
] + [
    (Adam, {"betas": (1.0, 0.5)}, r"betas\[0\] is 1.0: expected a finite number, 0 or greater and below 1"),
    (Adam, {"betas": (0.5, 1.0)}, r"betas\[1\] is 1.0"),
    (Adam, {"betas": (0.5, 0.5, 0.5)}, "betas is .*: expected two numbers"),
    (SGD, {"nesterov": True}, "nesterov requires a momentum above 0"),
    (SGD, {"nesterov": True, "momentum": 0.9, "dampening": 0.1}, "nesterov requires .* a dampening of 0"),
    *[(row.kind, {"eps": 0.0}, "eps is 0: expected a number above 0") for row in ROWS if "eps" in row.defaults],
    (RMSprop, {"alpha": 1.0}, "alpha is 1.0: expected a finite number, 0 or greater and below 1"),
]


@pytest.mark.parametrize(("call", "error", "message"), [
    *[
        (lambda kind=kind, options=options: kind([W], **options), ValueError, message)
        for kind, options, message in OUT_OF_RANGE
    ],
    *[
        (lambda use=use, parameters=parameters: use(parameters), error, message)
        for use in [*(row.kind for row in ROWS), lambda ps: optim.clip_grad_norm(ps, 1.0)]
        for parameters, error, message in [
            ([], ValueError, "parameters is empty"), ([("w", W)], TypeError, "parameters holds \\("),
            ({W}, TypeError, UNORDERED.format("set")), ({W: "w"}, TypeError, UNORDERED.format("dict")),
        ]
    ],
    (lambda: SGD(Neuron(2)), TypeError, r"parameters is Neuron\(2, tanh\): expected a list of Values, such"),
    (lambda: SGD([W, 2 * W]), ValueError, "which is computed from others: expected leaves"),
    (lambda: SGD([W, W.detach()]), ValueError, r"a constant without gradients: use Value\(v\.data\)"),
    (lambda: setattr(SGD([W]), "lr", 0.5), AttributeError, "has no attribute lr: set its learning_rate"),
    (lambda: Optimizer([W], learning_rate=0.1, weight_decay=0.0).step(), NotImplementedError, "does not define ru"),
    *[
        (lambda norm=norm: optim.clip_grad_norm([W], norm), ValueError, "max_norm is .*: expected a number, 0")
        for norm in (-1.0, math.nan, None, True, "1")
    ],
    *[
        (lambda n=n: vars(sgd := SGD([W])).update(velocity=[0.0] * n) or sgd.step(), ValueError, f"^velocity has {n} n")
        for n in (0, 2)
    ],
    (lambda: optim.constant(-0.1), ValueError, "learning_rate is -0.1: expected a finite number, 0 or greater"),
    (lambda: optim.step(math.nan, 1), ValueError, "learning_rate is nan"),
    (lambda: optim.step(0.1, 0), ValueError, "every is 0: expected an int, 1 or greater"),
    (lambda: optim.step(0.1, 1, -0.5), ValueError, "factor is -0.5"),
    (lambda: optim.exponential(math.inf, 0.5), ValueError, "learning_rate is inf"),
    (lambda: optim.exponential(0.1, math.inf), ValueError, "factor is inf"),
    (lambda: optim.linear(0.1, -1), ValueError, "steps is -1"),
    (lambda: optim.linear(0.1, 1, -1.0), ValueError, "final is -1.0"),
    (lambda: optim.cosine(-1, 1), ValueError, "learning_rate is -1"),
    (lambda: optim.cosine(0.1, None), ValueError, "steps is None"),
    (lambda: optim.cosine(0.1, 1, math.nan), ValueError, "final is nan"),
    (lambda: optim.warmup(optim.constant(0.1), 0), ValueError, "steps is 0"),
    (lambda: optim.warmup(0.1, 10), TypeError, r"schedule is 0\.1: expected a schedule, such as constant\(0\.1\)"),
])  # fmt: skip
def test_invalid_arguments_raise_errors_that_name_them(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_numpy_options_act_like_python_numbers():
    ours, theirs = parameters(), parameters()
    numpys = {"learning_rate": np.float32(0.5), "betas": (np.float64(0.5), np.array(0.75)), "eps": np.float64(0.25)}
    optimizer, reference = Adam(ours, **numpys), Adam(theirs, 0.5, (0.5, 0.75), 0.25)
    train(optimizer, range(3)), train(reference, range(3))
    assert json.dumps(optimizer.state_dict()) == json.dumps(reference.state_dict())
    assert (numbers(ours), {type(p.data) for p in ours}) == (numbers(theirs), {float})


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.kind.__name__)
def test_what_is_not_given_is_as_in_pytorch(row):
    given = inspect.signature(row.kind).parameters
    ours = {"parameters": inspect.Parameter.empty, "clip_grad_norm": None}
    assert {name: given[name].default for name in given} == row.defaults | ours


def test_every_optimizer_has_a_row():
    found = {kind for name in optim.__all__ if isinstance(kind := getattr(optim, name), type)}
    assert found == {Optimizer, *(row.kind for row in ROWS)}


def test_optimizers_and_schedules_show_what_they_were_made_with():
    optimizer = Adam(map(Value, START), betas=[0.85, 0.99])
    optimizer.learning_rate = 0.5
    options = "learning_rate=0.5, betas=(0.85, 0.99), eps=1e-08, weight_decay=0.0, clip_grad_norm=None"
    assert repr(optimizer) == f"Adam(4 parameters, {options})"
    assert repr(optim.warmup(optim.cosine(0.1, steps=100), 10)) == "warmup(cosine(0.1, 100, 0.0), 10)"


# Clipping, schedules, rules


@pytest.mark.parametrize(("gradients", "max_norm", "norm", "expected"), [
    ([3.0, -4.0], 1.0, 5.0, [3 / 5.000001, -4 / 5.000001]),
    ([3.0, -4.0], 5.1, 5.0, [3.0, -4.0]),
    ([3.0, -4.0], math.inf, 5.0, [3.0, -4.0]),
    ([3.0, -4.0], np.float32(1.0), 5.0, [3 / 5.000001, -4 / 5.000001]),
    ([3e300, -4e300], 1.0, 5e300, [0.6, -0.8]),  # whose squares overflow
    ([math.nan, 100.0], 1.0, math.nan, [math.nan, math.nan]),
    ([math.inf, 100.0], math.inf, math.inf, [math.inf, 100.0]),  # only measured
])  # fmt: skip
def test_clipping_scales_the_gradients_to_the_norm_and_returns_what_it_was(gradients, max_norm, norm, expected):
    ps = parameters([0.0, 0.0])
    ps[0].grad, ps[1].grad = gradients
    assert optim.clip_grad_norm(ps, max_norm) == close(norm, rel=1e-14, nan_ok=True)
    assert [p.grad for p in ps] == close(expected, rel=1e-14, nan_ok=True)
    assert {type(p.grad) for p in ps} == {float}


@pytest.mark.parametrize(("schedule", "expected"), [
    (optim.constant(0.3), [0.3, 0.3, 0.3]), (optim.step(8.0, every=2, factor=0.5), [8.0, 8.0, 4.0, 4.0, 2.0]),
    (optim.step(1.0, every=3), [1.0, 1.0, 1.0, 0.1]), (optim.exponential(8.0, 0.5), [8.0, 4.0, 2.0, 1.0]),
    (optim.linear(1.0, steps=4), [1.0, 0.75, 0.5, 0.25, 0.0, 0.0]),
    (optim.linear(1.0, steps=2, final=3.0), [1.0, 2.0, 3.0, 3.0]),
    (optim.cosine(1.0, steps=4), [*(0.5 + 0.5 * math.cos(math.pi * n / 4) for n in range(5)), 0.0]),
    (optim.cosine(3.0, steps=2, final=1.0), [3.0, 2.0, 1.0, 1.0]),
    (optim.warmup(optim.linear(4.0, steps=4), steps=3), [1.0, 2.0, 3.0, 4.0, 3.0, 2.0, 1.0, 0.0]),
], ids=repr)  # fmt: skip
def test_schedules_are_those_of_their_formulas(schedule, expected):
    assert list(map(schedule, range(len(expected)))) == close(expected, rel=1e-15, abs=1e-16)


@pytest.mark.parametrize(("returned", "message"), [
    (lambda x, grad: x, r"^the rule of Own returns 1\.0: expected a tuple of the parameter, mean$"),
    (lambda x, grad: (x,), r"^the rule of Own returns \(1\.0,\): expected a tuple of the parameter, mean$"),
    (lambda x, grad: (x, 0.0, 0.0), r"^the rule of Own returns .*: expected a tuple of the parameter, mean$"),
    (lambda x, grad: (where(grad > 0, x, -x), 0.0), r"^the rule of Own returns \(Value.*: expected numbers"),
    (lambda x, grad: (x, Value(0.0)), r"^the rule of Own returns \(1.0, Value.* \(use micrograd.scalar\)"),
    *[(lambda x, grad, y=y: (y, 0.0), "^the rule of Own returns .*: expected numbers") for y in (None, [1.0], 1j)],
])  # fmt: skip
def test_a_rule_that_returns_something_other_than_a_number_each_changes_nothing(returned, message):
    class Own(Optimizer):
        moments: ClassVar = {"mean": -math.inf}

        def rule(self):
            return lambda x, grad, mean: returned(x, grad)

    parameters = [Value(1.0), Value(2.0)]
    own = Own(parameters, learning_rate=0.1)
    with pytest.raises(TypeError, match=message):
        own.step()
    assert [p.data for p in parameters] == [1.0, 2.0]
    assert (own.steps, own.mean) == (0, [0.0, 0.0])
