"""The compiler: compiled code computes what the engine computes, or says why it cannot."""

import copy
import random
import re
import sys
import threading
from array import array
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given

import micrograd
from micrograd import Value, dot, functional, nn, take, where
from micrograd.compiler import TraceError
from micrograd.nn import MLP, Neuron
from micrograd.optim import SGD
from tests.helpers import bits, close, eager, grads, graphs, in_threads, random_examples, run, value_and_gradient


@given(graphs())
@random_examples(60)
def test_random_graphs_have_the_engines_value_to_the_last_bit_and_its_derivatives(graph):
    numbers, steps = graph
    parameters = list(map(Value, numbers))
    of_arguments = micrograd.compile(lambda xs: run(xs, steps), (numbers,), backend="python")
    of_parameters = micrograd.compile(lambda: run(parameters, steps), (), parameters=parameters, backend="python")
    value, gradient = value_and_gradient(numbers, steps)
    found, by_arguments = of_arguments.value_and_grad(numbers)
    assert bits([of_arguments(numbers), found, of_parameters.backward()]) == bits([value] * 3)
    assert close([*by_arguments, *grads(parameters)], gradient * 2)
    hessian = functional.hessian(lambda xs: run(xs, steps))
    assert all(map(close, micrograd.compile(hessian, (numbers,), backend="python")(numbers), hessian(numbers)))


# What goes in


def leaves_and_constants():
    """A function of leaf Values that are there before it is called, which are returned, too, and of constants."""
    w, b = Value(2.0), Value(10.0)
    constant = Value(0.25).detach()
    return lambda x: w * x + b * Value(0.5) + constant * 2.0, w, b


def test_all_leaves_that_a_function_uses_are_parameters_in_the_order_of_first_use(backend):
    function, w, b = leaves_and_constants()
    fast = micrograd.compile(function, (1.0,), backend=backend)
    assert list(map(id, fast.parameters)) == [id(w), id(b)]
    assert fast(1.0) == 7.5
    w.data, b.data = Fraction(1, 2), 4.0
    assert fast(1.0) == 3.0
    assert (fast.backward([1.0, 3.0]), w.grad, b.grad) == (3.5, 2.0, 0.5)
    with fast.training(SGD([w, b], 0.1)) as step:
        step([1.0, 3.0])
    assert (w.data, b.data) == (0.3, 3.95)


def test_leaves_that_are_not_parameters_are_read_at_each_call_and_get_no_gradient(backend):
    function, w, b = leaves_and_constants()
    fast = micrograd.compile(function, (1.0,), parameters=[w], backend=backend)
    assert list(map(id, fast.parameters)) == [id(w)]
    b.data = 4.0
    assert fast(1.0) == 4.5
    assert (fast.backward([1.0, 3.0]), w.grad, b.grad) == (6.5, 2.0, 0.0)
    fun, x0 = fast.objective([1.0, 3.0])
    b.data = 2.0
    assert (fun(list(x0)), list(x0)) == ((5.5, [2.0]), [2.0])
    with pytest.raises(ValueError, match="not a parameter of the compiled function"):
        fast.training(SGD([w, b], 0.1))
    with fast.training(SGD([w], 0.1)) as step:
        step([1.0, 3.0])
        b.data = 4.0
        assert step([1.0, 3.0]) == 6.1
    with fast.frozen(), pytest.raises(RuntimeError, match="frozen"):
        b.data = 1.0
    alone = micrograd.compile(function, (1.0,), parameters=(), backend=backend)
    assert (alone.parameters, alone.backward([1.0]), b.grad) == ([], function(1.0).data, 0.0)
    (w, b), copied = copy.deepcopy(((w, b), fast))
    b.data = 0.0
    assert copied(0.0) == 0.5


def test_leaves_that_are_not_parameters_are_exported_as_constants():
    w, b = Value(2.0), Value(10.0)
    found = micrograd.compile(lambda x: w * x + b, (1.0,), parameters=[w], backend="python")
    constant = micrograd.compile(lambda x: w * x + 10.0, (1.0,), parameters=[w], backend="python")
    optimizer = SGD([w], 0.1, weight_decay=0.1)
    assert found.js_source(optimizer=optimizer) == constant.js_source(optimizer=optimizer)
    assert found.c_source == constant.c_source
    b.data = 5.0
    assert found.c_source == constant.c_source.replace("10.0", "5.0")


def test_a_model_has_its_own_parameters_whether_it_uses_them_or_not_and_then_other_leaves(backend):
    class Model(nn.Module):
        def __init__(self):
            self.unused, self.slope, self.offset = Value(1.0), Value(2.0), Value(3.0)

        def parameters(self):
            return [self.unused, self.slope, self.slope]

        def __call__(self, x):
            return self.offset + self.slope * x

    model = Model()
    fast = micrograd.compile(model, (1.0,), backend=backend)
    assert list(map(id, fast.parameters)) == list(map(id, [model.unused, model.slope, model.offset]))


def test_leaves_in_derivatives_are_found(backend):
    w, b = Value(2.0), Value(3.0)
    slope = micrograd.compile(micrograd.grad(lambda x: w * x * x * b), (1.0,), backend=backend)
    curvature = micrograd.hessian(lambda x: w * x[0] * x[1] * b)
    curved = micrograd.compile(curvature, ([1.0, 2.0],), sparse=True, backend=backend)
    b.data = 5.0
    assert (slope(1.0), curved.map([[1.0, 2.0]])[0].toarray().tolist()) == (20.0, [[0.0, 10.0], [10.0, 0.0]])


def test_a_leaf_that_the_example_does_not_use_is_refused_where_another_shape_does(backend):
    at = [Value(1.0), Value(2.0), Value(3.0)]

    def function(xs):
        state = Value(0.0)
        function.kept = [state := state * p + x for p, x in zip(at, xs, strict=False)]  # with their graph
        return state

    fast = micrograd.compile(function, ([0.0, 0.0],), backend=backend)
    assert fast([1.0]) == 1.0  # which makes another Value(0.0)
    with pytest.raises(TraceError, match=r"for arguments of shape \(\(3,\),\), the function uses Value\(data=3\.0"):
        fast([1.0, 2.0, 3.0])
    assert micrograd.compile(function, ([0.0],), parameters=at, backend=backend)([1.0, 2.0, 3.0]) == 15.0


@pytest.mark.parametrize("given", [True, False])
def test_a_leaf_that_the_first_call_makes_is_read_at_each_call(given, backend):
    made, w = [], Value(2.0)

    def function(x):
        made.extend([Value(3.0)] * (not made))
        return w * x * made[0]

    fast = micrograd.compile(function, (1.0,), parameters=[w] if given else None, backend=backend)
    made[0].data = 5.0
    assert fast(1.0) == 10.0
    assert len(fast.parameters) == (1 if given else 2)


@pytest.mark.parametrize("name", ["w", "b"])
def test_a_function_may_assign_to_the_data_of_a_leaf_only_before_it_reads_it(name, backend):
    w, b = Value(2.0), Value(3.0)
    leaf = {"w": w, "b": b}[name]

    def averaging(x):
        leaf.data = 0.5 * leaf.data + 0.5 * x.data
        return w * x + b

    def setting(x):
        before, leaf.data = leaf.data, 4.0
        result = w * x + b
        leaf.data = before
        return result

    assert micrograd.compile(setting, (1.0,), parameters=[w], backend=backend)(2.0) == setting(Value(2.0)).data
    assert (w.data, b.data) == (2.0, 3.0)
    why = f"the function assigns to the data of {'parameter 0' if name == 'w' else 'a Value that it reads'}"
    with pytest.raises(TraceError, match=why):
        micrograd.compile(averaging, (1.0,), parameters=[w], backend=backend)


@pytest.mark.parametrize("use", [
    lambda total, leaf, x: where(total > leaf, 1.0, -1.0) * total, lambda total, leaf, x: total * leaf.detach(),
    lambda total, leaf, x: total * leaf.data, lambda total, leaf, x: take(x, leaf) * total,
], ids=["condition", "detach", "data", "index"])  # fmt: skip
@pytest.mark.parametrize("are_given", [True, False])
def test_a_leaf_is_read_at_each_call_however_the_function_uses_its_number(use, are_given, backend):
    ws, leaf = [Value(1.0), Value(-2.0), Value(3.0)], Value(1.0)

    def function(x):
        return use(dot(ws, x), leaf, x)

    given = {"parameters": ws} if are_given else {}
    fast = micrograd.compile(function, ([1.0, 2.0, 3.0],), backend=backend, **given)
    leaf.data = 2.0
    for x in ([1.0, 1.0, 2.0], [1.0, 1.0, 1.0]):
        assert fast(x) == function(x).data


def test_compiling_leaves_no_gradient_and_takes_no_random_number(backend):
    w = Value(2.0)

    def function(x):
        y = w * x
        y.backward()
        return y * w.grad + random.random()

    random.seed(0)
    fast = micrograd.compile(function, (3.0,), backend=backend)
    random.seed(0)
    assert (fast(3.0), w.grad) == (18.0 + random.random(), 0.0)


def test_a_function_may_have_no_arguments_or_no_parameters(backend):
    p = Value(3.0)
    fast = micrograd.compile(lambda: p * p, (), parameters=[p], backend=backend)
    assert (fast(), fast.map(), fast.backward(), p.grad) == (9.0, [9.0], 9.0, 6.0)
    assert fast.value_and_grad() == (9.0, ())
    with fast.training(SGD([p], 0.25)) as step:
        assert [step(), step(), p.data] == [9.0, 2.25, 0.75]
    fast = micrograd.compile(lambda x: x * x, (1.0,), backend=backend)
    assert (fast(3.0), fast.map([3.0, 4.0]), fast.value_and_grad(3.0)) == (9.0, [9.0, 16.0], (9.0, 6.0))
    assert (fast.parameters, fast.backward([3.0, 4.0])) == ([], 12.5)


RESULTS = {
    "nested": lambda x: [x, [x * 2, [x, 1.0]], []], "square": lambda x: [[x, x], [x, 2 * x]],
    "deep": lambda x: [[[x], [2 * x]], [[x], [x * x]]], "ragged": lambda x: [[x, x], [x], [[x]]],
    "ragged tables": lambda x: [[[x], [x, x]], [[x], [x, x]]], "empty": lambda x: [], "empty rows": lambda x: [[], []],
}  # fmt: skip


@pytest.mark.parametrize("name", RESULTS)
def test_lists_and_nested_lists_come_out(name, backend):
    function = RESULTS[name]
    fast = micrograd.compile(function, (1.0,), backend=backend)
    assert fast.map([1.0, 2.0]) == [fast(1.0), fast(2.0)] == [function(1.0), function(2.0)]


def test_gradients_have_the_shape_of_the_arguments_and_no_negative_zeros(backend):
    def function(x, row, table, ragged):
        return x * 0.0 + dot(row, row, 0.0) + table[1][0] * table[0][1] + ragged[1][0] * -3.0

    fast = micrograd.compile(function, (1.0, [1.0, 2.0], [[1.0, 2.0], [3.0, 4.0]], [[], [1.0]]), backend=backend)
    value, gradient = fast.value_and_grad(-0.0, [-0.0, 2.0], [[1.0, -0.0], [3.0, 4.0]], [[], [1.0]])
    assert repr((value, gradient)) == "(1.0, (0.0, [0.0, 4.0], [[0.0, 3.0], [0.0, 0.0]], [[], [-3.0]]))"


def test_a_list_has_no_gradient():
    p = Value(1.0)
    fast = micrograd.compile(lambda x: [p * x, x], (1.0,), parameters=[p], backend="python")
    for attempt in (fast.backward, fast.objective, lambda xs: fast.value_and_grad(*xs)):
        with pytest.raises(TypeError, match=r"a list of shape \(2,\).*mean"):
            attempt([1.0])
    assert p.grad == 0.0
    assert "backward" not in fast.source


def test_each_shape_is_traced_once(backend):
    shapes = []
    w = Value(2.0)

    def total(xs):
        shapes.append(len(xs))
        return w * micrograd.sum(xs)

    fast = micrograd.compile(total, ([1.0],), parameters=[w], backend=backend)
    for length in (1, 3, 2, 3, 1, 2):
        assert fast([1.0] * length) == 2.0 * length
        assert fast.backward([[1.0] * length, [2.0] * length]) == 3.0 * length
        assert fast.value_and_grad([1.0] * length)[1] == [2.0] * length
    assert shapes == [1, 3, 2]
    assert w.grad == sum(1.5 * length for length in (1, 3, 2, 3, 1, 2))


def test_the_error_for_a_branch_that_only_another_shape_takes_names_the_line():
    fast = micrograd.compile(lambda x: x[0] if len(x) == 1 or x[0] > 0 else x[1], ([1.0],), backend="python")
    with pytest.raises((TraceError, ValueError), match=re.escape(__file__)):
        fast([1.0, 2.0])


# Errors


P = Value(1.0)


@pytest.mark.parametrize(("given", "kind", "message"), [
    ({"example_args": 1.0}, TypeError, "example_args is 1.0: expected a tuple of the function's arguments"),
    ({"example_args": 0.5}, TypeError, r"a tuple of the function's arguments, such as \(0\.5,\)$"),
    ({"parameters": [1.0]}, TypeError, "parameters holds 1.0: expected Values"),
    ({"parameters": [P * 2]}, ValueError, "parameters holds .*, which is computed from others"),
    ({"parameters": [P.detach()]}, ValueError, r"parameters holds .*, a constant .*: use Value\(v\.data\)"),
    ({"parameters": MLP(1, [1])}, TypeError, r"parameters is MLP\(.*\): expected a list of Values, such as"),
    ({"finite": 1}, ValueError, "finite is 1: expected True or False"),
    ({"function": "x*x"}, TypeError, r"function is 'x\*x': expected a function of Values \(models need __call__\)"),
    ({"function": lambda x: x["a"]}, TypeError, "not subscriptable"),
    ({"function": lambda x: micrograd.dot([[1.0]] * 3, [x] * 3)}, TypeError, "a Value holds a number .*, not list"),
    *[({"function": lambda x, y=y: y}, TypeError, "the function returns") for y in ("1", None, {1.0}, [{}, "2"])],
    *[({"errors": x}, ValueError, "errors is .*: exp.* 'raise' or 'ieee'") for x in ("none", None, True, ["ieee"])],
    ({"backend": "C"}, ValueError, "^backend is 'C': expected"),
    ({"backend": "eager"}, ValueError, '^backend "eager" is for fit: call the'),
])  # fmt: skip
def test_bad_input_is_refused_at_the_door(given, kind, message):
    with pytest.raises(kind, match=message):
        micrograd.compile(**{"function": lambda x: x, "example_args": (1.0,), **given})


@pytest.mark.parametrize("function", [lambda x: x[0] + x[1], MLP(2, [1], rng=0)])
def test_a_note_says_how_to_pass_a_list_instead_of_its_numbers(function):
    with pytest.raises((TypeError, ValueError)) as caught:
        micrograd.compile(function, [0.0, 0.0])
    [note] = caught.value.__notes__
    assert note == "example_args has 2 arguments: if the function takes one, a list, write ([0.0, 0.0],)"
    micrograd.compile(function, ([0.0, 0.0],))


def test_an_error_says_that_batches_are_no_example():
    neuron = Neuron(2, rng=0)
    with pytest.raises(TypeError) as caught:
        micrograd.compile(lambda x, y: (neuron(x) - y) ** 2, ([[0.0, 0.0], [1.0, 0.0]], [0.5, 1.0]))
    assert caught.value.__notes__ == ["example_args is one example: if these are batches, pass the first of each"]


def test_a_batch_in_place_of_an_example_is_answered_with_map():
    model = MLP(2, [1], rng=0)
    fast = micrograd.compile(lambda x, y: model(x) - y, ([0.0, 0.0], 0.0), backend="python")
    xs, ys = [[1.0, 2.0], [2.0, 1.0], [3.0, 0.0]], [1.0, 0.0, 1.0]
    with pytest.raises(ValueError, match=r"\(\(3, 2\), \(3,\)\), expected .*: for a batch .* fast\.map\(xs, ys\)"):
        fast(xs, ys)
    assert fast.map(xs, ys) == [fast(x, y) for x, y in zip(xs, ys, strict=True)]
    with pytest.raises(ValueError, match=r"\(\(3,\), \(\)\), expected \(\(2,\), \(\)\): .* takes a list of length 2"):
        fast([1.0, 2.0, 3.0], 1.0)


@pytest.mark.parametrize(("function", "x"), [
    (lambda x: 2 * x.log(), 0.0),
    (lambda x: 2 * x.exp(), 1000.0),
    (lambda x: 1 / x, 0.0),
    (lambda x: 1 % x, 0.0),
    (lambda x: x**-1, 0.0),
    (lambda x: x**0.5, -1.0),
    (lambda x: x**3, 1e300),
    (lambda x: x**x, -0.5),
    (lambda x: x.sqrt(), 0.0),  # which has a value there, but no derivative
    (lambda x: x.asin(), 1.0),
])  # fmt: skip
def test_arithmetic_errors_are_those_of_the_engine_and_name_the_example(function, x):
    with pytest.raises((ArithmeticError, ValueError)) as expected:
        eager(function, x)
    p = Value(1.0)
    fast = micrograd.compile(lambda x: function(p * x), (0.5,), parameters=[p], backend="python")
    with pytest.raises(type(expected.value)) as error:
        fast.value_and_grad(x)
    assert type(error.value) is type(expected.value)
    with pytest.raises(type(expected.value), match="in example 1, counted from 0"):
        fast.backward([0.5, x])


@pytest.mark.parametrize(("number", "reason"), [
    (None, "must be real number, not NoneType"),
    (2j, "must be real number, not complex"),
    (10**400, "int too large to convert to float"),
    (Fraction(10**400), "integer division result too large for a float"),
], ids=lambda case: f"{case!s:.20}")  # fmt: skip
def test_a_parameter_that_holds_no_number_is_named(backend, number, reason):
    p = [Value(1.0), Value(2.0), Value(3.0)]
    fast = micrograd.compile(lambda x: p[1] * x + p[0] + p[2], (1.0,), parameters=p, backend=backend)
    alone = micrograd.compile(lambda: p[1], (), parameters=p, backend=backend)
    p[1].data = number
    for call in (
        lambda: fast(1.0), lambda: fast.backward([1.0, 2.0]), lambda: fast.value_and_grad(1.0), lambda: fast.check(1.0),
        lambda: fast.c_source, alone, alone.backward,
    ):  # fmt: skip
        with pytest.raises(TypeError, match=f"parameter 1 does not hold a number: {reason}"):
            call()
    assert grads(p) == [0.0, 0.0, 0.0]


def test_single_calls_of_all_kinds_give_what_the_function_gives(backend):
    """They share buffers: none is left with numbers of another call, whatever that was given or came to."""

    def function(x, ys):
        return p * x + sum([y * y for y in ys], Value(0.0)).log()

    p = Value(2.0)
    fast = micrograd.compile(function, (1.0, [1.0, 2.0]), parameters=[p], backend=backend)
    for x, ys in [
        (3.0, [1.0, 2.0]), (3, [1, 2]), (True, (1.0, 2.0)), (np.float32(3), np.array([1.0, 2.0])), (3.0, [True, 2.0]),
        (3.0, [1.0, 2.0, 3.0]), (3.0, [4.0, 5.0]), (3.0, [np.int64(4), 5.0]), (4.0, [4.0, 5.0]),
        (4.0, array("d", [4.0, 5.0])),
    ]:  # fmt: skip
        expected = function(Value(float(x)), [Value(float(y)) for y in ys]).data
        for _ in range(2):
            assert fast(x, ys) == pytest.approx(expected, rel=1e-14)
            assert fast.value_and_grad(x, ys)[0] == pytest.approx(expected, rel=1e-14)
    for error, message, x, ys in [
        (ValueError, r"log\(0.0\)", 1.0, [0.0, 0.0]), (TypeError, "argument 2: expected", 9.0, [None, 1.0]),
        (OverflowError, "argument 1: int too large", 10**400, [1.0, 1.0]), (TypeError, "argument 1", "1", [1.0, 1.0]),
        (OverflowError, "argument 2: int too large", 9.0, [1.0, 10**400]), (ValueError, "shape", 9.0, 1.0),
        (ValueError, "takes 2 arguments, not 1", [1.0], None),
    ]:  # fmt: skip
        with pytest.raises(error, match=message):
            fast(*[x, ys][: 2 - (ys is None)])
        assert fast(1.0, [1.0, 0.0]) == 2.0
    row = np.array([1.0, 0.0])
    assert fast(1.0, row) == fast(1.0, [1.0, 0.0]) == 2.0
    fast(1.0, [7.0, 8.0])
    assert row.tolist() == [1.0, 0.0]  # arrays are no buffers for other calls


# Threads


def test_threads_that_call_a_function_at_once_do_not_share_numbers(backend, request):
    request.addfinalizer(partial(sys.setswitchinterval, sys.getswitchinterval()))
    sys.setswitchinterval(1e-6)
    w = Value(2.0)
    fast = micrograd.compile(lambda x: w * x[0] * x[1], ([1.0, 2.0],), backend=backend)
    fun, _ = fast.objective([[1.0, 1.0]])
    wrong, barrier = [], threading.Barrier(8)

    def work(k):
        x, as_array = [float(k), 3.0], np.array([float(k), 3.0])
        barrier.wait()
        for _ in range(200):
            found = fast(x), fast(as_array), fast.value_and_grad(x), fun([float(k)]), fast.map([x] * 5)
            if found != (6.0 * k, 6.0 * k, (6.0 * k, [6.0, 2.0 * k]), (float(k), [1.0]), [6.0 * k] * 5):
                wrong.append(found)

    in_threads(work)
    assert wrong == []
