"""Copying and pickling: compiled functions, models, optimizers, schedules and data; also to other processes."""

import copy
import os
import pickle
import random
import subprocess
import sys
from pathlib import Path

import pytest

import micrograd
from micrograd import Value, data, dot, fit, losses, nn, optim, scalar
from micrograd.training import History
from tests.helpers import backward

pytestmark = pytest.mark.usefixtures("cache")

WAYS = {"pickle": lambda x: pickle.loads(pickle.dumps(x)), "deepcopy": copy.deepcopy}
SEPARATE = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
SCHEDULES = [
    optim.constant(0.5), optim.step(0.1, 2), optim.exponential(0.1, 0.9), optim.linear(0.1, steps=5),
    optim.cosine(0.1, 5, final=0.01), optim.warmup(optim.warmup(optim.cosine(0.1, steps=9), 2), steps=3),
]  # fmt: skip


class Net:
    """A network and its compiled loss."""

    def __init__(self, backend, seed=1):
        self.model = nn.MLP(2, [3, 1], rng=seed)
        self.xs, self.ys = data.moons(8, rng=1)
        self.fast = micrograd.compile(self.loss, (self.xs[0], self.ys[0]), parameters=self.parameters, backend=backend)

    @property
    def parameters(self):
        return self.model.parameters()

    def loss(self, x, y):
        return losses.mse_loss(self.model(x), y)


# Compiled functions


@SEPARATE
def test_a_compiled_function_and_its_model_stay_together_and_do_all_that_they_did(way, backend):
    net = Net(backend)
    model, fast = way((net.model, net.fast))
    x, y = net.xs[0], net.ys[0]
    assert all(ours is theirs for ours, theirs in zip(fast.parameters, model.parameters(), strict=True))
    assert (fast.source, repr(fast)) == (net.fast.source, repr(net.fast))
    assert backward(fast, net.xs, net.ys) == backward(net.fast, net.xs, net.ys)
    assert fast.value_and_grad(x, y) == net.fast.value_and_grad(x, y)
    assert fast.map(net.xs, net.ys) == net.fast.map(net.xs, net.ys)
    assert fast.check(x, y) is None
    for each in net.fast, fast:
        with each.training(optim.Adam(each.parameters)) as step:
            for _ in range(3):
                each.last = step(net.xs, net.ys)
    assert fast.last == net.fast.last
    assert model.state_dict() == net.model.state_dict()
    before = net.fast(x, y)
    for parameter in model.parameters():
        parameter.data += 0.5
    assert fast(x, y) != before
    assert net.fast(x, y) == before


@SEPARATE
def test_shapes_that_it_was_not_compiled_for_are_an_error_elsewhere_however_far_it_travels(way, backend):
    fast = micrograd.compile(lambda xs: dot(xs, xs), ([1.0, 2.0],), backend=backend)
    assert fast([1.0, 2.0, 3.0]) == 14.0
    arrived = way(way(way(fast)))
    assert [arrived([3.0] * n) for n in (2, 3)] == [18.0, 27.0]
    assert repr(arrived) == f"<<lambda> compiled to {'C' if backend == 'c' else 'Python'}, 0 parameters>"
    with pytest.raises(ValueError, match=r"<lambda> was compiled elsewhere.* do so once before you copy or pickle it"):
        arrived([1.0])


ARRIVED = """
import pickle, sys
net, fast, packed = pickle.load(sys.stdin.buffer)
print(repr(fast.backward(packed)), [p.grad for p in net.parameters()] == [p.grad for p in fast.parameters])
"""


def test_another_process_needs_neither_the_users_code_nor_its_directory(backend, tmp_path):
    net = Net(backend)
    sent = pickle.dumps((net.model, net.fast, net.fast.pack(net.xs, net.ys)))
    environment = {**os.environ, "PYTHONPATH": str(Path(micrograd.__file__).parent.parent)}
    command = [sys.executable, "-c", ARRIVED]
    done = subprocess.run(command, input=sent, capture_output=True, cwd=tmp_path, env=environment)
    assert done.stderr == b""
    assert done.stdout.decode().split() == [repr(net.fast.backward(net.xs, net.ys)), "True"]


@SEPARATE
def test_a_copy_computes_with_numbers_alone(way):
    fast = way(micrograd.compile(lambda x: x * x, (1.0,), backend="python"))
    with pytest.raises(TypeError, match=r"<lambda> was compiled elsewhere.*: to call it with Values, compile it here"):
        fast(Value(3.0))


# All else


@SEPARATE
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_schedule_is_copied_as_its_numbers(schedule, way):
    assert list(map(way(schedule), range(12))) == list(map(schedule, range(12)))


@SEPARATE
def test_a_training_goes_on_elsewhere_where_it_was(way):
    xs, ys = data.moons(8, rng=1)
    model = nn.MLP(2, [3, 3, 1], activation=Value.arctan, output=scalar.tanh, rng=1)
    optimizer, rng = optim.Adam(model.parameters()), random.Random(1)

    def go_on(model, optimizer, rng, schedule):
        options = {"optimizer": optimizer, "rng": rng, "schedule": schedule, "progress": False}
        return fit(model, losses.mse_loss, xs, ys, epochs=2, **options)

    history = go_on(model, optimizer, rng, SCHEDULES[-1])
    state = model, optimizer, rng, SCHEDULES[-1]
    arrived, kept = way((state, history))
    assert kept == history
    assert isinstance(kept, History)
    assert go_on(*arrived) == go_on(*state)
    assert [p.data for p in arrived[0].parameters()] == [p.data for p in model.parameters()]
