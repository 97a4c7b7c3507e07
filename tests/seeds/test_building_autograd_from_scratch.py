"""Section 2.6, Building Autograd from Scratch: a chapter of a course, without author or date.

A class Value and a network on it, the closest to this package. Shown: its first test and traced example (z = 8 with
gradients 4 and 2), the training on XOR, and two of its exercises that no other test covers.
"""

import weakref
from itertools import pairwise

import pytest

from micrograd import Value, data, fit, losses, nn, optim

close = pytest.approx
XS, YS = data.xor()


def squared_error(model):
    """The sum over the four examples of XOR, as the chapter has its loss."""
    return losses.mse_loss([model(x) for x in XS], YS, reduction="sum")


def distance(model):
    """How far the worst prediction is from its target."""
    return max(abs(model(x).data - y) for x, y in zip(XS, YS, strict=True))


def train(model, epochs, until=0.0):
    """The chapter's loop. Returns the losses, one an epoch."""
    optimizer = optim.SGD(model.parameters(), learning_rate=0.1)
    history = []
    while len(history) < epochs and distance(model) > until:
        loss = squared_error(model)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(loss.data)
    return history


class TestTheExamples:
    def test_the_first_test_gives_8_with_gradients_4_and_2(self):
        x, y = Value(2.0), Value(3.0)
        z = x * y + x
        z.backward()
        assert (z.data, x.grad, y.grad) == (8.0, 4.0, 2.0)

    def test_the_traced_example_has_gradients_between_as_well(self):
        x, y = Value(2.0), Value(3.0)
        z = x * y
        w = z + x
        w.backward()
        assert (z.data, w.data) == (6.0, 8.0)
        assert (w.grad, z.grad, x.grad, y.grad) == (1.0, 1.0, 4.0, 2.0)


class TestTrainingOnXor:
    """The chapter prints losses down to 0.0012 after 90 epochs and predictions within 0.0345 of the targets.

    No run of its program comes there in its 100 epochs: of 200 random starts, the best was still 0.098 away. So we ask
    for less after 100 epochs, and for the published distance from the same loop left to run on.
    """

    @pytest.mark.parametrize("seed", [0, 1])
    def test_a_hundred_epochs_learn_it(self, seed):
        model = nn.MLP(2, [4, 1], output="tanh", rng=seed)
        history = train(model, epochs=100)
        assert history[0] > history[10] > history[20] > history[90]
        assert [model(x) > 0.5 for x in XS] == [False, True, True, False]

    @pytest.mark.parametrize("seed", [0, 2])
    def test_the_predictions_come_as_close_as_it_prints(self, seed):
        model = nn.MLP(2, [4, 1], output="tanh", rng=seed)
        assert len(train(model, epochs=1000, until=0.0345)) > 100
        assert distance(model) <= 0.0345


class TestTheExercises:
    @pytest.mark.usefixtures("no_collector")
    def test_3_a_forward_pass_without_backward_is_freed_when_its_result_goes(self):
        model = nn.MLP(2, [4, 1], rng=0)
        forgotten = []
        for _ in range(10):
            loss = squared_error(model)
            forgotten += map(weakref.ref, [loss, *loss._prev])
        kept = [squared_error(model) for _ in range(10)]
        graphs = [weakref.ref(node) for loss in kept for node in loss._prev]
        del loss
        assert [node() for node in forgotten] == [None] * len(forgotten)
        assert all(node() is not None for node in graphs)  # a result that is kept keeps its graph

    def test_6_cross_entropy_learns_xor_with_an_output_for_each_class(self):
        model = nn.MLP(2, [4, 2], rng=0)
        optimizer = optim.SGD(model.parameters(), learning_rate=0.5)
        history = fit(model, losses.cross_entropy, XS, YS, epochs=200, optimizer=optimizer, rng=0, progress=False)
        assert all(before > after for before, after in pairwise(history.losses[::50]))
        assert [losses.softmax(model(x))[y] > 0.9 for x, y in zip(XS, YS, strict=True)] == [True] * 4
