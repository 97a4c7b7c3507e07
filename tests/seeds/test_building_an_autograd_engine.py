"""Building an Autograd Engine from Scratch: Devansh Lodha, May 23, 2025.

It keeps data in a Tensor and an operation in a Function, with a forward and a backward. Here a tensor is an array of
Values, and a Function is a function that returns a Value with a closure. Shown: its two demonstrations with the numbers
it prints, the step of gradient descent, an operation of one's own, one without a derivative, a gradient passed into
`backward`, and the broadcasting that it leaves out.
"""

import pytest

from micrograd import Value, grad, gradcheck, optim

np = pytest.importorskip("numpy")

tensor = np.vectorize(Value, otypes=[object])
numbers = np.vectorize(Value.item, otypes=[float])
grads = np.vectorize(lambda value: value.grad, otypes=[float])


def softsign(x):
    """x / (1 + |x|), whose derivative is 1 / (1 + |x|)^2."""
    size = 1 + abs(x.data)

    def _backward(grad):
        x.grad += grad / (size * size)

    return Value(x.data / size, (x,), "softsign", _backward)


def rounded(x):
    """The nearest whole number: a forward without a backward."""
    return Value(round(x.data), (x,), "rounded")


def published(a, b):
    return a * b + a**2.0


def test_each_result_knows_the_operation_it_came_from():
    a, b = Value(3.0), Value(4.0)
    c = a * b
    d = c + b
    assert (c.data, c._op, c._prev) == (12.0, "*", (a, b))
    assert (d.data, d._op, d._prev) == (16.0, "+", (c, b))


def test_the_final_demonstration_gives_21_with_gradients_10_and_3():
    a, b = Value(3.0), Value(4.0)
    result = published(a, b)
    result.backward()
    assert (result.data, a.grad, b.grad) == (21.0, 10.0, 3.0)


def test_the_demonstration_runs_on_tensors_element_by_element():
    a, b = tensor([[3.0, 0.5], [-1.0, 2.0]]), tensor([[4.0, 1.0], [2.0, 0.0]])
    result = published(a, b)
    result.sum().backward()
    assert result[0, 0].data == 21.0
    assert np.array_equal(grads(a), numbers(b) + 2 * numbers(a))
    assert np.array_equal(grads(b), numbers(a))


def test_a_step_of_gradient_descent_goes_by_the_learning_rate_against_the_gradient():
    a, b = Value(3.0), Value(4.0)
    published(a, b).backward()
    optim.SGD([a, b], learning_rate=0.1).step()
    assert (a.data, b.data) == (3.0 - 0.1 * 10.0, 4.0 - 0.1 * 3.0)


@pytest.mark.parametrize("x", [-2.0, 0.7, 3.0])
def test_an_operation_of_ones_own_takes_a_forward_and_a_backward(x):
    assert softsign(Value(x)).data == x / (1 + abs(x))
    assert gradcheck(softsign, [x])
    assert gradcheck(lambda x: (softsign(x * x) + x).tanh(), [x])


def test_an_operation_of_ones_own_has_higher_derivatives_too():
    assert grad(grad(softsign))(1.0) == -0.25


def test_an_operation_without_a_backward_raises_once_its_gradient_is_asked_for():
    x = Value(2.7)
    y = rounded(x) * x
    assert y.data == 3 * 2.7
    with pytest.raises(NotImplementedError, match="rounded"):
        y.backward()
    assert x.grad == 0.0


def test_an_operation_without_a_backward_is_a_constant_when_detached():
    x = Value(2.7)
    (rounded(x).detach() * x).backward()
    assert x.grad == 3


def test_a_gradient_can_be_passed_into_backward():
    a, b = Value(3.0), Value(4.0)
    published(a, b).backward(0.5)
    assert (a.grad, b.grad) == (5.0, 1.5)


def test_a_tensor_goes_backward_from_the_gradient_of_each_element():
    gradient = np.array([[1.0, -2.0], [0.5, 0.0]])
    a, b = tensor([[3.0, 0.5], [-1.0, 2.0]]), tensor([[4.0, 1.0], [2.0, 0.0]])
    (published(a, b) * gradient).sum().backward()
    once = grads(a), grads(b)
    assert np.array_equal(once, (gradient * (numbers(b) + 2 * numbers(a)), gradient * numbers(a)))
    for result, share in zip(published(a, b).flat, gradient.flat, strict=True):
        result.backward(share)
    assert np.array_equal((grads(a), grads(b)), np.multiply(2, once))


def test_the_gradient_of_a_broadcast_tensor_adds_up_over_its_copies():
    x, row, column = tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), tensor([1.0, -1.0, 0.5]), tensor([[2.0], [3.0]])
    single = Value(7.0)
    (x * row + x * column + single).sum().backward()
    assert np.array_equal(grads(x), numbers(row) + numbers(column))
    assert grads(row).tolist() == [5.0, 7.0, 9.0]
    assert grads(column).tolist() == [[6.0], [15.0]]
    assert single.grad == 6.0
