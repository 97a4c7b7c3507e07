"""Autograd Engine Deep Dive: July 3, 2025, without an author's name.

A class Value after Karpathy's lecture. Shown: its neuron with the bias 6.8813735870195432, forward and backward; its
training of a 3-4-4-1 network, as close to the targets as in the run that it prints; and two of the four variations
that it proposes at its end.
"""

import math
import random
from itertools import pairwise

import pytest

from micrograd import Value, fit, losses, nn, optim

close = pytest.approx

BIAS = 6.8813735870195432
XS = [[2.0, 3.0, -1.0], [3.0, -1.0, 0.5], [0.5, 1.0, 1.0], [1.0, 1.0, -1.0]]
YS = [1.0, -1.0, -1.0, 1.0]


def network(seed):
    """Its network: tanh in every layer, and all parameters, biases too, uniform between -1 and 1."""
    rng = random.Random(seed)
    model = nn.MLP(3, [4, 4, 1], output="tanh", rng=0)
    for parameter in model.parameters():
        parameter.data = rng.uniform(-1, 1)
    return model


def distance(model):
    """How far the worst prediction is from its target."""
    return max(abs(model(x).data - y) for x, y in zip(XS, YS, strict=True))


class TestTheNeuron:
    @pytest.fixture
    def neuron(self):
        """Every Value in it, by its label, after the backward pass."""
        x1, x2 = Value(2.0, label="x1"), Value(0.0, label="x2")
        w1, w2 = Value(-3.0, label="w1"), Value(1.0, label="w2")
        b = Value(BIAS, label="b")
        x1w1, x2w2 = x1 * w1, x2 * w2
        x1w1x2w2 = x1w1 + x2w2
        n = x1w1x2w2 + b
        o = n.tanh()
        x1w1.label, x2w2.label, x1w1x2w2.label, n.label, o.label = "x1*w1", "x2*w2", "x1*w1 + x2*w2", "n", "o"
        o.backward()
        return {value.label: value for value in (x1, x2, w1, w2, b, x1w1, x2w2, x1w1x2w2, n, o)}

    def test_the_forward_pass(self, neuron):
        assert neuron["x1*w1 + x2*w2"].data == -6.0
        assert neuron["n"].data == BIAS - 6.0
        assert neuron["o"].data == close(math.sqrt(0.5), rel=1e-15)

    def test_the_backward_pass(self, neuron):
        expected = {"o": 1.0, "n": 0.5, "b": 0.5, "x1*w1 + x2*w2": 0.5, "x1*w1": 0.5, "x2*w2": 0.5}
        expected |= {"x1": -1.5, "w1": 1.0, "x2": 0.5, "w2": 0.0}
        assert {label: value.grad for label, value in neuron.items()} == close(expected, rel=1e-14)


class TestTheTraining:
    """Its run went from a loss of 7.977 to 0.01895, the worst of its predictions 0.0727 from the target."""

    @pytest.mark.parametrize("seed", range(2))
    def test_two_hundred_steps_come_as_close_as_the_published_run(self, seed):
        model = network(seed)
        assert len(model.parameters()) == 41
        history = []
        for _ in range(200):
            loss = losses.mse_loss([model(x) for x in XS], YS, reduction="sum")
            model.zero_grad()
            loss.backward()
            for parameter in model.parameters():
                parameter.data -= 0.05 * parameter.grad
            history.append(loss.data)
        assert all(before > after for before, after in pairwise(history))
        assert history[-1] <= 0.018951243937658565
        assert distance(model) <= 1 - 0.9273341373045709


class TestTheVariations:
    @pytest.mark.parametrize("batch_size", [1, 2, 4])
    def test_stochastic_mini_batch_and_batch_gradient_descent_all_learn(self, batch_size):
        model = network(0)
        optimizer = optim.SGD(model.parameters(), learning_rate=0.05)
        options = {"batch_size": batch_size, "optimizer": optimizer, "rng": 0, "progress": False}
        history = fit(model, losses.mse_loss, XS, YS, epochs=300, **options)
        assert history.losses[-1] < 0.01 * history.losses[0]
        assert distance(model) < 0.1

    @pytest.mark.parametrize(
        ("loss", "targets"),
        [(losses.hinge_loss, [1, -1, -1, 1]), (losses.binary_cross_entropy_with_logits, [1, 0, 0, 1])],
    )
    def test_max_margin_and_binary_cross_entropy_learn_it_too(self, loss, targets):
        model = nn.MLP(3, [4, 4, 1], rng=0)
        optimizer = optim.SGD(model.parameters(), learning_rate=0.1)
        history = fit(model, loss, XS, targets, epochs=200, optimizer=optimizer, rng=0, progress=False)
        assert history.losses[-1] < 0.05 * history.losses[0]
        assert [model(x) > 0 for x in XS] == [True, False, False, True]
