"""Building an autograd engine from (almost) scratch: Josh Black-Star, continued in 2024.

The beginning of a Tensor on NumPy, with a list of the binary operations that it should have one day, forward and
backward. Shown: its first program, and the arithmetic, comparisons and products on the list, on arrays of Values.
Comparisons compare numbers and have no gradient.
"""

import operator

import pytest

from micrograd import Value, gradcheck

np = pytest.importorskip("numpy")

tensor = np.vectorize(Value, otypes=[object])
numbers = np.vectorize(Value.item, otypes=[float])
grads = np.vectorize(lambda value: value.grad, otypes=[float])
close = np.testing.assert_allclose

X, Y = np.array([8.0, 2.5, 0.5]), np.array([5.0, -2.0, 0.5])
U, V = np.array([1.0, 2.0, 3.0]), np.array([-2.0, 0.5, 4.0])

ARITHMETIC = [
    (operator.add, lambda x, y: (1 + 0 * x, 1 + 0 * y)),
    (operator.sub, lambda x, y: (1 + 0 * x, -1 + 0 * y)),
    (operator.mul, lambda x, y: (y, x)),
    (operator.truediv, lambda x, y: (1 / y, -x / y**2)),
    (operator.mod, lambda x, y: (1 + 0 * x, -(x // y))),
    (operator.pow, lambda x, y: (y * x ** (y - 1), x**y * np.log(x))),
]
COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]


def test_the_first_program_adds_8_and_5():
    x, y = tensor([8]), tensor([5])
    z = x + y
    z.sum().backward()
    assert numbers(z).tolist() == [13]
    assert (grads(x).tolist(), grads(y).tolist()) == ([1], [1])


@pytest.mark.parametrize(("operation", "gradients"), ARITHMETIC)
def test_arithmetic_goes_forward_and_backward(operation, gradients):
    x, y = tensor(X), tensor(Y)
    z = operation(x, y)
    z.sum().backward()
    close(numbers(z), operation(X, Y), rtol=1e-15)
    close((grads(x), grads(y)), gradients(X, Y), rtol=1e-15)


@pytest.mark.parametrize("operation", COMPARISONS)
def test_comparisons_are_of_the_numbers(operation):
    result = operation(tensor(X), tensor(Y))
    assert result.dtype == bool
    assert np.array_equal(result, operation(X, Y))
    assert np.array_equal(operation(tensor(X), 2.5), operation(X, 2.5))


def test_a_comparison_selects_what_the_gradient_flows_to():
    x = tensor(X)
    np.where(x > 1, x * x, 0).sum().backward()
    assert grads(x).tolist() == [16.0, 5.0, 0.0]


@pytest.mark.parametrize("product", [np.dot, np.outer, np.cross, np.matmul])
def test_the_products_pass_the_gradient_check(product):
    assert gradcheck(product, [U, V])
