"""Numbers that stay where they are: frozen parameters, those of a training, results without a Python object each."""

import copy
import math
import pickle
import threading
from contextlib import nullcontext

import pytest

import micrograd
from micrograd import Backend, Value, dot, nn
from micrograd.functional import grad, hessian, jacobian
from micrograd.losses import mse_loss
from micrograd.optim import SGD, Adam
from micrograd.support.trees import flat as flatten
from micrograd.training import fit
from tests.helpers import assert_close, grads, has_compiler, needs_compiler

FAR = 3.4e39  # beyond single precision


def line(backend):
    """A line of two parameters, compiled."""
    w = [Value(2.0), Value(-1.0)]
    return w, micrograd.compile(lambda x: w[0] * x + w[1], (1.0,), parameters=w, backend=backend)


def test_frozen_parameters_give_the_same_numbers(backend):
    w, fast = line(backend)

    def numbers():
        w[0].grad = w[1].grad = 0.0
        return [fast(3.0), fast.map([1.0] * 9), fast.backward([1.0, 2.0]), grads(w), fast.value_and_grad(2.0)]

    expected = numbers()
    with fast.frozen():
        assert numbers() == expected
        assert [type(v.data) for v in w] == [float, float]
        assert fast._function(2.0).data == 3.0
        assert micrograd.compile(lambda x: w[0] * x, (1.0,), parameters=w, backend=backend)(2.0) == 4.0
    w[0].data = 5.0
    assert fast(3.0) == 14.0
    assert {type(v) for v in w} == {Value}


def test_no_frozen_parameter_can_be_assigned(backend):
    w, fast = line(backend)
    sgd = SGD(w, 0.1)
    with fast.frozen():
        for assign in (lambda: setattr(w[0], "data", 9.0), lambda: fast.backward([1.0]) and sgd.step()):
            with pytest.raises(RuntimeError, match=r"frozen parameter, Value\(.* leave the block of frozen\(\) first"):
                assign()
        with pytest.raises(RuntimeError, match="a step would change frozen parameters"), fast.training(sgd):
            pass
        w[0].grad = 7.0
        assert fast(1.0) == 1.0
    assert w[0].grad == 7.0
    assert [v.data for v in w] == [2.0, -1.0]
    w[0].data = 3.0
    assert fast(1.0) == 2.0


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


@pytest.mark.parametrize("trainer", ["eager", "python", "c"])
def test_fit_trains_what_is_not_frozen(trainer):
    if trainer == "c" and not has_compiler():
        pytest.skip("there is no C compiler here")

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
    _, other = w, micrograd.compile(lambda x: w[1] * x, (1.0,), parameters=[w[1]], backend=backend)

    def fail(function):
        with function.frozen():
            assert function(1.0) in (1.0, -1.0)
            raise ZeroDivisionError

    with fast.frozen():
        for function in (fast, other):
            with pytest.raises(ZeroDivisionError):
                fail(function)
        with pytest.raises(RuntimeError):
            w[1].data = 1.0
    with pytest.raises(ZeroDivisionError):
        fail(fast)
    w[1].data = 1.0
    assert (fast(1.0), other(1.0)) == (3.0, 1.0)


def test_blocks_of_several_threads_may_overlap(backend):
    w, fast = line(backend)
    inside, leave = threading.Event(), threading.Event()

    def freeze():
        with fast.frozen():
            inside.set()
            leave.wait()

    thread = threading.Thread(target=freeze)
    with fast.frozen():
        thread.start()
        inside.wait()
    with pytest.raises(RuntimeError, match="frozen"):
        w[0].data = 9.0
    assert fast(1.0) == 1.0
    leave.set()
    thread.join()
    w[0].data = 9.0
    assert fast(1.0) == 8.0


def test_copies_of_what_is_frozen_are_not(backend):
    w, fast = line(backend)
    with fast.frozen():
        for (v, _), other in (pickle.loads(pickle.dumps((w, fast))), copy.deepcopy((w, fast))):
            assert type(v) is Value
            v.data = 4.0
            assert other(1.0) == 3.0
        assert fast(1.0) == 1.0


def test_shapes_and_precisions_of_frozen_functions(backend):
    w = [Value(2), Value(True)]
    fast = micrograd.compile(lambda xs: dot(xs, xs, w[0]) * w[1], ([1.0],), parameters=w, backend=backend)
    with fast.frozen():
        assert [fast([1.0] * n) for n in (1, 2, 3)] == [3.0, 4.0, 5.0]
    w[0].data = "2"
    with pytest.raises(TypeError, match="parameter 0 does not hold a number"), fast.frozen():
        pass
    w[0].data = 2.0
    assert fast([2.0]) == 6.0
    none = micrograd.compile(lambda x: 2 * x, (1.0,), backend=backend)
    with none.frozen():
        assert none(1.0) == 2.0


@needs_compiler
def test_single_precision_is_frozen_as_floats():
    w, fast = line(Backend("c", precision="single"))
    with fast.frozen():
        assert fast(3.0) == 5.0
    w[0].data = FAR
    with pytest.raises(OverflowError, match=r"parameter( 0)? is 3\.4e\+39"), fast.frozen():
        pass


def test_calls_in_a_training_use_its_numbers(backend):
    w, fast = line(backend)
    loss = micrograd.compile(lambda x: (w[0] * x + w[1]) ** 2, (1.0,), parameters=w, backend=backend)
    backwards = micrograd.compile(lambda x: w[0] * x + w[1], (1.0,), parameters=w[::-1], backend=backend)
    part = micrograd.compile(lambda x: w[1] * x, (1.0,), parameters=w[1:], backend=backend)
    with loss.training(Adam(w, 0.1)) as step:
        for _ in range(3):
            step([1.0, 2.0])
            a, b = (v.data for v in w)
            assert fast(3.0) == backwards(3.0) == a * 3.0 + b
            assert part(1.0) == b
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


SHAPES = {
    "number": lambda x, y: x * y,
    "list": lambda x, y: [x * y, x],
    "table": lambda x, y: [[x, y, x * y], [y, y, x]],
    "deep": lambda x, y: [[[x], [y]], [[y], [x]], [[x * y], [x]]],
    "ragged": lambda x, y: [[x, y], [x], [[y]]],
    "ragged tables": lambda x, y: [[[x], [y, x]], [[x], [x, x]]],
    "empty": lambda x, y: [[], []],
}


@pytest.mark.parametrize("name", SHAPES)
def test_results_have_the_shape_of_what_the_function_returns(name, backend):
    function, xs, ys = SHAPES[name], [1.0, 2.0, 3.0], [4.0, 5.0, 6.0]
    fast = micrograd.compile(function, (1.0, 2.0), backend=backend)
    assert fast.map(xs, ys) == [fast(x, y) for x, y in zip(xs, ys, strict=True)] == list(map(function, xs, ys))


def test_gradients_have_the_shape_of_the_arguments_and_no_negative_zeros(backend):
    def function(x, row, table, ragged):
        return x * 0.0 + dot(row, row, 0.0) + table[1][0] * table[0][1] + ragged[1][0] * -3.0

    fast = micrograd.compile(function, (1.0, [1.0, 2.0], [[1.0, 2.0], [3.0, 4.0]], [[], [1.0]]), backend=backend)
    value, gradient = fast.value_and_grad(-0.0, [-0.0, 2.0], [[1.0, -0.0], [3.0, 4.0]], [[], [1.0]])
    assert repr((value, gradient)) == "(1.0, (0.0, [0.0, 4.0], [[0.0, 3.0], [0.0, 0.0]], [[], [-3.0]]))"


# Finite numbers


def turn(k, x):
    """A rotation about an axis, as a matrix of 4x4."""
    c, s = x.cos(), x.sin()
    matrix = [[float(i == j) for j in range(4)] for i in range(4)]
    i, j = {"x": (1, 2), "z": (0, 1)}[k]
    matrix[i][i], matrix[i][j], matrix[j][i], matrix[j][j] = c, -s, s, c
    return matrix


def product(a, b):
    return [[sum(a[i][k] * b[k][j] for k in range(4)) for j in range(4)] for i in range(4)]


def arm(angles):
    """Where the hand of an arm with four joints is, by products of matrices that are mostly zeros."""
    place = turn("z", angles[0])
    for length, x in zip((0.3, 0.5, 0.2), angles[1:], strict=True):
        link = [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, length], [0.0, 0.0, 0.0, 1.0]]
        place = product(product(place, link), turn("x", x))
    return [row[2] * 0.1 + row[3] for row in place[:3]]


def distance(angles):
    return sum((x - goal) ** 2 for x, goal in zip(arm(angles), (0.1, 0.2, 0.3), strict=True))


def operations(fast):
    graph = fast._first_graph()
    return len(graph.trace.live(graph.results("value_and_grad")))


@pytest.mark.parametrize(
    ("function", "share"),
    [(arm, 2.5), (distance, 2.5), (jacobian(arm), 2.5), (grad(distance), 2.5), (hessian(distance), 1.5)],
    ids=["arm", "distance", "jacobian", "grad", "hessian"],  # of which a hessian leaves zeros out by itself
)
def test_structural_zeros_of_finite_numbers_vanish(function, share, backend):
    angles = [0.1, 0.2, 0.3, 0.4]
    fast, finite = [micrograd.compile(function, (angles,), backend=backend, finite=on) for on in (False, True)]
    assert operations(finite) < operations(fast) / share
    assert_close(*[list(flatten(compiled(angles))) for compiled in (fast, finite)])
    trace = pickle.loads(pickle.dumps(finite))._first_graph().trace
    assert trace.finite
    assert not [op for op, lines in zip(trace.ops, trace.operands, strict=True)
                if op in "+*" and any(trace.constants.get(line) == 0 for line in lines)]  # fmt: skip


ZEROS = {
    "x * 0.0": (lambda x: x * 0.0, 0.0),
    "0.0 * x": (lambda x: 0.0 * x, 0.0),
    "x * -0.0": (lambda x: x * -0.0, 0.0),
    "0.0 / x": (lambda x: 0.0 / x, 0.0),
    "x - x": (lambda x: x - x, 0.0),
    "x + 0.0": (lambda x: x + 0.0, 3.0),
    "0.0 + x": (lambda x: 0.0 + x, 3.0),
    "0.0 - x": (lambda x: 0.0 - x, -3.0),
}


@pytest.mark.parametrize("name", ZEROS)
def test_only_finite_numbers_make_a_product_with_zero_zero(name, backend):
    function, result = ZEROS[name]
    finite = micrograd.compile(function, (1.0,), backend=backend, finite=True)
    assert finite(3.0) == result
    assert operations(finite) <= 2
    fast = micrograd.compile(function, (1.0,), backend=backend)
    for x in (3.0, -0.0, 0.0, math.inf, math.nan):
        if name != "0.0 / x" or x:
            assert repr(fast(x)).replace("-nan", "nan") == repr(function(Value(x)).data).replace("-nan", "nan")


def test_what_is_exact_for_all_numbers_is_dropped_anyway(backend):
    for function in (lambda x: x - 0.0, lambda x: x + -0.0, lambda x: -0.0 + x, lambda x: -0.0 - x):
        fast = micrograd.compile(function, (1.0,), backend=backend)
        ops = fast._first_graph().trace.ops
        assert "+" not in ops[: fast._first_graph().forward_end]
        assert [repr(fast(x)) for x in (0.0, -0.0, math.inf, 5e-324)] == [
            repr(function(Value(x)).data) for x in (0.0, -0.0, math.inf, 5e-324)
        ]
