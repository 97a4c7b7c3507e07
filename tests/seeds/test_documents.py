"""The programs of the five documents that micrograd is based on, with the numbers that these print.

- Autograd Engine Deep Dive: July 3, 2025, without an author's name.
- Backpropagation, Building Autograd: a lesson of a course, without author or date.
- Building an Autograd Engine from Scratch: Devansh Lodha, May 23, 2025.
- Building an autograd engine from (almost) scratch: Josh Black-Star, continued in 2024.
- Section 2.6, Building Autograd from Scratch: a chapter of a course, without author or date.

What they write for a Tensor is shown on arrays of Values. XOR, which the chapter learns, is what the demo learns, and
the lesson's digits are an example; the page about the lecture has the neuron of the Deep Dive.
"""

import operator
import random
from itertools import pairwise

import pytest

from micrograd import Value, gradcheck, losses, nn, optim

np = pytest.importorskip("numpy")

tensor = np.vectorize(Value, otypes=[object])
numbers = np.vectorize(Value.item, otypes=[float])
grads = np.vectorize(lambda value: value.grad, otypes=[float])

PUBLISHED = {
    "Backpropagation: the goal": (lambda x, y: x * y, (2.0, 3.0), 6.0, (3.0, 2.0)),
    "Backpropagation and 2.6: a value used twice": (lambda x, y: x * y + x, (2.0, 3.0), 8.0, (4.0, 2.0)),
    "Lodha: the final demonstration": (lambda a, b: a * b + a**2.0, (3.0, 4.0), 21.0, (10.0, 3.0)),
    "Black-Star: the first program": (lambda x, y: x + y, (8.0, 5.0), 13.0, (1.0, 1.0)),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_program_gives_what_is_published_on_numbers_and_arrays(name):
    program, point, value, gradients = PUBLISHED[name]
    for xs in (list(map(Value, point)), [tensor([x]) for x in point]):
        result = np.sum(program(*xs))
        result.backward()
        assert (result.data, [float(grads(x).item()) for x in xs]) == (value, list(gradients))


class TestOnArrays:
    """A gradient passed into `backward`, and the broadcasting, that Lodha leaves out; and comparisons and products,
    from Black-Star's list, whose arithmetic is in the table of operations."""

    A, B = [[3.0, 0.5], [-1.0, 2.0]], [[4.0, 1.0], [2.0, 0.0]]
    X, Y = np.array([8.0, 2.5, 0.5]), np.array([5.0, -2.0, 0.5])

    def test_an_array_goes_backward_from_the_gradient_of_each_element(self):
        program, gradient = PUBLISHED["Lodha: the final demonstration"][0], np.array([[1.0, -2.0], [0.5, 0.0]])
        a, b = tensor(self.A), tensor(self.B)
        (program(a, b) * gradient).sum().backward()
        once = grads(a), grads(b)
        assert np.array_equal(once, (gradient * (numbers(b) + 2 * numbers(a)), gradient * numbers(a)))
        for result, share in zip(program(a, b).flat, gradient.flat, strict=True):
            result.backward(share)
        assert np.array_equal((grads(a), grads(b)), np.multiply(2, once))

    def test_the_gradient_of_a_broadcast_array_adds_up_over_its_copies(self):
        x, row, column = tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), tensor([1.0, -1.0, 0.5]), tensor([[2.0], [3.0]])
        single = Value(7.0)
        (x * row + x * column + single).sum().backward()
        assert np.array_equal(grads(x), numbers(row) + numbers(column))
        assert (grads(row).tolist(), grads(column).tolist()) == ([5.0, 7.0, 9.0], [[6.0], [15.0]])
        assert single.grad == 6.0

    def test_comparisons_are_of_the_numbers_and_select_what_the_gradient_flows_to(self):
        for operation in (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge):
            result = operation(tensor(self.X), tensor(self.Y))
            assert result.dtype == bool
            assert np.array_equal(result, operation(self.X, self.Y))
            assert np.array_equal(operation(tensor(self.X), 2.5), operation(self.X, 2.5))
        x = tensor(self.X)
        np.where(x > 1, x * x, 0).sum().backward()
        assert grads(x).tolist() == [16.0, 5.0, 0.0]

    @pytest.mark.parametrize("product", [np.dot, np.outer, np.cross, np.matmul])
    def test_the_products_pass_the_gradient_check(self, product):
        assert gradcheck(product, [np.array([1.0, 2.0, 3.0]), np.array([-2.0, 0.5, 4.0])])


@pytest.mark.parametrize("seed", range(2))
def test_two_hundred_steps_come_as_close_as_the_run_of_the_deep_dive(seed):
    """It went from a loss of 7.977 to 0.01895, the worst of its predictions 0.0727 from the target.

    Its network has tanh in every layer, and all parameters, biases too, are uniform between -1 and 1.
    """
    xs = [[2.0, 3.0, -1.0], [3.0, -1.0, 0.5], [0.5, 1.0, 1.0], [1.0, 1.0, -1.0]]
    ys = [1.0, -1.0, -1.0, 1.0]
    rng, model = random.Random(seed), nn.MLP(3, [4, 4, 1], output="tanh", rng=0)
    for parameter in model.parameters():
        parameter.data = rng.uniform(-1, 1)
    optimizer, history = optim.SGD(model.parameters(), 0.05), []
    for _ in range(200):
        loss = losses.mse_loss([model(x) for x in xs], ys, reduction="sum")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(loss.data)
    assert len(model.parameters()) == 41
    assert all(before > after for before, after in pairwise(history))
    assert history[-1] <= 0.018951243937658565
    assert max(abs(model(x).data - y) for x, y in zip(xs, ys, strict=True)) <= 1 - 0.9273341373045709
