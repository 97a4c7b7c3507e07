"""Random graphs of all operations, with sharing and constants, against mpmath and PyTorch."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp

from micrograd import Value
from tests.helpers import assert_close, graphs, random_examples, run, value_and_gradient
from tests.operations import OPERATIONS


@given(graphs())
@random_examples(200)
def test_gradients_agree_with_differences_of_many_digits(graph):
    leaves, steps = graph
    value, gradient = value_and_gradient(leaves, steps)

    def along(i, h):
        moved = [mp.mpf(x) + h * (i == j) for j, x in enumerate(leaves)]
        return run(moved, steps, lambda operation, *operands: operation.value(*operands))

    h = mp.mpf(10) ** -16  # of 50 digits: the error is some h ** 2
    expected = [float((along(i, h) - along(i, -h)) / (2 * h)) for i in range(len(leaves))]
    assert value == pytest.approx(float(along(0, 0)), rel=1e-9, abs=1e-9)
    assert_close(gradient, expected, 1e-9)


@given(graphs())
@random_examples(200)
def test_gradients_agree_with_pytorch(graph):
    torch = pytest.importorskip("torch")
    leaves, steps = graph
    value, gradient = value_and_gradient(leaves, steps)
    tensors = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in leaves]
    total = run(tensors, steps, lambda operation, *operands: operation.torch(torch, *operands))
    total.backward()
    assert value == pytest.approx(total.item(), rel=1e-9, abs=1e-9)
    assert_close(gradient, [tensor.grad.item() for tensor in tensors], 1e-9)


@given(st.sampled_from([operation for operation in OPERATIONS if operation.arity == 1]), st.floats())
@random_examples(400)
def test_any_float_gives_a_number_or_a_named_error(operation, x):
    """Nothing but the errors that are promised comes out, nothing is half-done, and NaN is not made of numbers."""
    v = Value(x)
    try:
        result = operation.apply(v)
        result.backward()
        message = ""
    except (ValueError, ZeroDivisionError, OverflowError) as error:
        message = str(error)
    if message:
        assert repr(x) in message
        assert v.grad == 0.0
    elif math.isfinite(x):
        assert not math.isnan(result.data)
        assert not math.isnan(v.grad)
