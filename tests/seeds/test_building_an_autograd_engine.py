"""Building an Autograd Engine from Scratch: Devansh Lodha, May 23, 2025.

It keeps data in a Tensor and an operation in a Function, with a forward and a backward. Here a tensor is an array of
Values. Shown: its two demonstrations with the numbers it prints, a gradient passed into `backward`, and the
broadcasting that it leaves out.
"""

import pytest

from micrograd import Value

np = pytest.importorskip("numpy")

tensor = np.vectorize(Value, otypes=[object])
numbers = np.vectorize(Value.item, otypes=[float])
grads = np.vectorize(lambda value: value.grad, otypes=[float])


def published(a, b):
    return a * b + a**2.0


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
