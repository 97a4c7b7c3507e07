"""Backpropagation, Building Autograd: a lesson of a course, without author or date.

A Tensor with a backward function for each operation, then a linear layer and a network for the MNIST digits. Shown, on
arrays of Values: its programs with the gradients it prints, compared with PyTorch as it does; its layer; its training
step in its sizes; an exercise of Tyla and, on smaller digits, that of Aaliyah.
"""

import math
import random

import pytest

from micrograd import Value, fit, gradcheck, losses, nn, optim

np = pytest.importorskip("numpy")

tensor = np.vectorize(Value, otypes=[object])
numbers = np.vectorize(Value.item, otypes=[float])
grads = np.vectorize(lambda value: value.grad, otypes=[float])
close = np.testing.assert_allclose


class Linear:
    """x @ weight.T + bias, both uniform within 1 / sqrt(nin), for a batch of examples in rows."""

    def __init__(self, nin, nout, rng):
        limit = 1 / math.sqrt(nin)
        self.weight = tensor(rng.uniform(-limit, limit, (nout, nin)))
        self.bias = tensor(rng.uniform(-limit, limit, nout))

    def __call__(self, x):
        return x @ self.weight.T + self.bias

    def parameters(self):
        return [*self.weight.flat, *self.bias]


class TestThePrograms:
    def test_the_goal_a_product_has_the_gradient_3(self):
        x, y = tensor([2.0]), tensor([3.0])
        (x * y).sum().backward()
        assert (grads(x).tolist(), grads(y).tolist()) == ([3.0], [2.0])

    def test_the_published_gradients_are_those_of_pytorch(self):
        x, y = tensor([2.0]), tensor([3.0])
        z = x * y + x
        z.sum().backward()
        assert (numbers(z).tolist(), grads(x).tolist(), grads(y).tolist()) == ([8.0], [4.0], [2.0])
        torch = pytest.importorskip("torch")
        a, b = torch.tensor([2.0], requires_grad=True), torch.tensor([3.0], requires_grad=True)
        (a * b + a).backward()
        assert (grads(x).tolist(), grads(y).tolist()) == (a.grad.tolist(), b.grad.tolist())


class TestTheLinearLayer:
    def test_the_gradient_of_its_bias_adds_up_over_the_batch(self):
        rng = np.random.default_rng(0)
        layer, x, gradient = Linear(3, 2, rng), rng.normal(size=(5, 3)), rng.normal(size=(5, 2))
        inputs = tensor(x)
        (layer(inputs) * gradient).sum().backward()
        close(grads(layer.bias), gradient.sum(axis=0), rtol=1e-13)
        close(grads(layer.weight), gradient.T @ x, rtol=1e-13)
        close(grads(inputs), gradient @ numbers(layer.weight), rtol=1e-13)


class TestTrainingANetwork:
    def test_cross_entropy_of_a_batch_sends_back_the_probabilities_less_the_labels(self):
        logits = np.random.default_rng(0).normal(size=(4, 10))
        labels = np.array([3, 0, 9, 3])
        rows = tensor(logits)
        loss = losses.cross_entropy(rows, labels)
        loss.backward()
        probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        chosen = np.eye(10)[labels]
        assert loss.data == pytest.approx(-np.log((probabilities * chosen).sum(axis=1)).mean(), rel=1e-14)
        close(grads(rows), (probabilities - chosen) / 4, rtol=1e-12)

    def test_a_training_step_in_the_published_sizes_lowers_the_loss(self):
        rng = random.Random(0)
        model = nn.MLP(784, [128, 10], "relu", rng=rng)
        for layer in model.layers:
            for neuron in layer.neurons:
                limit = 1 / math.sqrt(len(neuron.w))
                for parameter in neuron.parameters():
                    parameter.data = rng.uniform(-limit, limit)
        images = [[rng.gauss(0, 1) for _ in range(784)] for _ in range(32)]
        labels = [rng.randrange(10) for _ in images]

        def loss():
            return losses.cross_entropy([model(image) for image in images], labels)

        before = loss()
        before.backward()
        optim.SGD(model.parameters(), learning_rate=0.01).step()
        assert before.data == pytest.approx(math.log(10), abs=0.1)  # what a network that knows nothing loses
        assert loss().data < before.data - 0.01


class TestTheExercises:
    def test_tyla_3_the_gradients_of_a_matrix_product(self):
        rng = np.random.default_rng(0)
        m, n, gradient = rng.normal(size=(2, 3)), rng.normal(size=(3, 4)), rng.normal(size=(2, 4))
        a, b = tensor(m), tensor(n)
        ((a @ b) * gradient).sum().backward()
        close(grads(a), gradient @ n.T, rtol=1e-13)
        close(grads(b), m.T @ gradient, rtol=1e-13)
        assert gradcheck(np.matmul, [m, n])

    def test_aaliyah_a_network_of_ones_own_reads_over_nine_in_ten_handwritten_digits(self):
        datasets = pytest.importorskip("sklearn.datasets")
        images, labels = datasets.load_digits(return_X_y=True)
        order = np.random.default_rng(0).permutation(len(images))
        xs, ys = (images[order] / 16).tolist(), labels[order].tolist()
        model = nn.MLP(64, [32, 10], "relu", rng=0)
        options = {"optimizer": optim.Adam(model.parameters(), learning_rate=0.01), "rng": 0, "progress": False}
        fit(model, losses.cross_entropy, xs[:1200], ys[:1200], epochs=1, batch_size=5, **options)
        right = [np.argmax([logit.data for logit in model(x)]) == y for x, y in zip(xs[1200:], ys[1200:], strict=True)]
        assert np.mean(right) > 0.9
