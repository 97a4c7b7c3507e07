"""Frozen parameters: in a block of `frozen()`, none can be assigned, and calls do not read them again."""

from contextlib import nullcontext

import pytest

import micrograd
from micrograd import Value, dot, nn
from micrograd.losses import mse_loss
from micrograd.optim import SGD, Adam
from micrograd.training import fit
from tests.helpers import backward, has_compiler


def line(backend):
    """A line of two parameters, compiled."""
    w = [Value(2.0), Value(-1.0)]
    return w, micrograd.compile(lambda x: w[0] * x + w[1], (1.0,), parameters=w, backend=backend)


def test_frozen_parameters_give_the_same_numbers_and_cannot_be_assigned(backend):
    w, fast = line(backend)
    sgd = SGD(w, 0.1)

    def numbers():
        return [fast(3.0), fast.map([1.0] * 9), *backward(fast, [1.0, 2.0]), fast.value_and_grad(2.0)]

    expected = numbers()
    with fast.frozen():
        assert numbers() == expected
        assert [type(v.data) for v in w] == [float, float]
        assert fast._function(2.0).data == 3.0
        assert micrograd.compile(lambda x: w[0] * x, (1.0,), parameters=w, backend=backend)(2.0) == 4.0
        for assign in (lambda: setattr(w[0], "data", 9.0), sgd.step):
            with pytest.raises(RuntimeError, match=r"frozen parameter, Value\(.* leave the block of frozen\(\) first"):
                assign()
        with pytest.raises(RuntimeError, match="a step would change frozen parameters"), fast.training(sgd):
            pytest.fail("is not entered")
        w[0].grad = 7.0
    assert (w[0].grad, [v.data for v in w]) == (7.0, [2.0, -1.0])
    w[0].data = 5.0
    assert fast(3.0) == 14.0
    assert {type(v) for v in w} == {Value}


def test_if_one_parameter_is_frozen_none_is_set():
    model = nn.MLP(2, [2, 1])
    parameters = model.parameters()
    for parameter in parameters:
        parameter.grad = 1.0
    whole = micrograd.compile(model, ([0.0, 0.0],), parameters=parameters, backend="python")
    body = micrograd.compile(lambda x: model.layers[1](x), ([0.0, 0.0],), parameters=parameters[6:], backend="python")
    sgd, before = SGD(parameters, 0.1, momentum=0.9), [parameter.data for parameter in parameters]
    state = dict.fromkeys(model.state_dict(), 0.5)
    with body.frozen():
        for change in (sgd.step, lambda: model.load_state_dict(state), lambda: whole.load([9.0] * 9)):
            with pytest.raises(RuntimeError, match="the data of a frozen parameter"):
                change()
            assert [parameter.data for parameter in parameters] == before
    assert (sgd.steps, sgd.velocity) == (0, [0.0] * 9)


@pytest.mark.parametrize("trainer", ["eager", "python", *["c"] * has_compiler()])
def test_fit_trains_what_is_not_frozen(trainer):
    def trained(freeze):
        model = nn.MLP(2, [3, 1], rng=0)
        body, head = model.layers
        fast = micrograd.compile(body, ([0.0, 0.0],), parameters=body.parameters(), backend="python")
        xs, ys = [[1.0, 2.0], [0.0, 1.0]], [1.0, 0.0]
        with fast.frozen() if freeze else nullcontext():
            history = fit(
                model, mse_loss, xs, ys, epochs=4, optimizer=SGD(head.parameters(), 0.1, clip_grad_norm=1.0),
                validation=(xs, ys), patience=2, progress=False, backend=trainer,
            )  # fmt: skip
        return history.losses, [parameter.data for parameter in model.parameters()]

    losses, numbers = trained(True)
    assert losses[-1] < losses[0]
    assert (losses, numbers) == trained(False)


def test_frozen_blocks_may_be_nested_and_end_with_errors(backend):
    w, fast = line(backend)
    other = micrograd.compile(lambda x: w[1] * x, (1.0,), parameters=[w[1]], backend=backend)
    with fast.frozen():
        for function, expected in (fast, 1.0), (other, -1.0):
            with pytest.raises(ZeroDivisionError), function.frozen():  # noqa: PT012
                assert function(1.0) == expected
                raise ZeroDivisionError
        with pytest.raises(RuntimeError):
            w[1].data = 1.0
    w[1].data = 1.0
    assert (fast(1.0), other(1.0)) == (3.0, 1.0)


def test_shapes_and_precisions_of_frozen_functions(backend):
    w = [Value(2), Value(True)]
    fast = micrograd.compile(lambda xs: dot(xs, xs, w[0]) * w[1], ([1.0],), parameters=w, backend=backend)
    with fast.frozen():
        assert [fast([1.0] * n) for n in (1, 2, 3)] == [3.0, 4.0, 5.0]
    w[0].data = "2"
    with pytest.raises(TypeError, match="parameter 0 does not hold a number"), fast.frozen():
        pytest.fail("is not entered")
    w[0].data = 2.0
    assert fast([2.0]) == 6.0
    none = micrograd.compile(lambda x: 2 * x, (1.0,), backend=backend)
    with none.frozen():
        assert none(1.0) == 2.0


def test_calls_and_compilations_in_a_training_use_its_numbers_and_change_none(backend):
    w, fast = line(backend)
    loss = micrograd.compile(lambda x: (w[0] * x + w[1]) ** 2, (1.0,), parameters=w, backend=backend)
    with loss.training(Adam(w, 0.1)) as step:
        step([1.0, 2.0])
        before = [v.data for v in w]
        backwards = micrograd.compile(lambda x: w[0] * x + w[1], (1.0,), parameters=w[::-1], backend=backend)
        part = micrograd.compile(lambda x: w[1] * x, (1.0,), parameters=w[1:], backend=backend)
        found = micrograd.compile(lambda x: (w[0] * x + w[1]) ** 2, (1.0,), backend=backend)
        assert [v.data for v in w] == before
        for _ in range(3):
            step([1.0, 2.0])
            a, b = (v.data for v in w)
            assert fast(3.0) == backwards(3.0) == a * 3.0 + b
            assert (part(1.0), found(3.0)) == (b, (a * 3.0 + b) ** 2)
            assert found.value_and_grad(0.0)[1] == pytest.approx(2 * a * b)
            with fast.frozen():
                assert fast(3.0) == a * 3.0 + b
                with pytest.raises(RuntimeError, match="a step would change frozen parameters"):
                    step([1.0])
                with pytest.raises(RuntimeError, match="frozen parameter"):
                    w[0].data = 1.0
        w[0].data = 7.0
        assert fast(1.0) == 7.0 + w[1].data
    w[0].data = 8.0
    assert fast(1.0) == backwards(1.0) == 8.0 + w[1].data
