import asyncio
import builtins
import copy
import math
import threading
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp

from micrograd import Value, compile, dot, mean, nn, promote, scalar, sum, take, where
from micrograd.core.levels import active_levels
from micrograd.functional import GradientError, grad, gradcheck, hessian, hvp, jacobian, jvp, value_and_grad, vjp
from tests import helpers
from tests.helpers import assert_close, every_operation, every_point, flat, graphs, numbers, random_examples


def rosenbrock(p):
    return (1 - p[0]) ** 2 + 100 * (p[1] - p[0] ** 2) ** 2


# Derivatives of every order


@every_point
def test_the_hessian_of_every_operation_is_that_of_mathematics(operation, point):
    def slope(i, j, at):
        xs = [*map(mp.mpf, point)]
        xs[j] = at
        gradient = operation.gradient(*xs)
        return mp.mpf(gradient[i] if isinstance(gradient, tuple) else gradient)

    n = range(operation.arity)
    expected = [[float(mp.diff(lambda at, i=i, j=j: slope(i, j, at), point[j])) for j in n] for i in n]
    second = hessian(operation.apply, tuple(n))(*point)
    for row, right in zip(second, expected, strict=True):
        assert row == pytest.approx(right, rel=1e-12, abs=1e-13)


@every_point
def test_every_operation_and_its_gradient_pass_gradcheck(operation, point):
    assert gradcheck(operation.apply, point)
    assert gradcheck(grad(operation.apply, tuple(range(operation.arity))), point)


@pytest.mark.parametrize("kinked", [abs, scalar.relu, scalar.leaky_relu, lambda x: where(x > 0, x, 2 * x)])
def test_where_a_function_has_a_kink_its_second_derivative_is_zero(kinked):
    for x in (-1.5, 0.0, 1.5):
        assert grad(grad(kinked))(x) == 0.0


def test_derivatives_are_by_the_first_argument_or_by_those_given_also_counted_from_the_end():
    def f(x, y):
        return x * x * y

    assert value_and_grad(f)(3.0, y=5.0) == (45.0, 30.0)
    assert value_and_grad(f, (0, -1))(3.0, 5.0) == (45.0, [30.0, 9.0])
    assert hessian(f)(3.0, 5.0) == 10.0
    assert hvp(f)(3.0, 5.0, 7.0) == 70.0
    assert jacobian(lambda x, y: [f(x, y)])(3.0, 5.0) == [30.0]
    assert grad(f, (-2, -1))(3.0, 5.0) == [30.0, 9.0]
    assert grad(f, np.int64(1))(3.0, 5.0) == 9.0
    assert grad(f, np.array([1, 0]))(3.0, 5.0) == [9.0, 30.0]
    assert grad(f, (0, 0))(3.0, 5.0) == [30.0, 30.0]


def test_jacobians_have_the_shape_of_the_result_and_then_of_the_argument():
    def f(x, y):
        return [x[0] * y, (x[1] / y, 3.0)]

    assert jacobian(f)([2.0, 3.0], 4.0) == [[4.0, 0.0], [[0.0, 0.25], [0.0, 0.0]]]
    assert jacobian(f, 1)([2.0, 3.0], 4.0) == [2.0, [-0.1875, 0.0]]
    assert jacobian(f, (1, 0))([2.0, 3.0], 4.0)[0] == [2.0, [4.0, 0.0]]
    assert jacobian(lambda x: x * x)(3.0) == 6.0
    assert jacobian(lambda x: [])([1.0]) == []


def test_a_hessian_is_right_and_times_a_vector_it_is_hvp():
    assert hessian(rosenbrock)([1.5, 2.0]) == [[1902.0, -600.0], [-600.0, 200.0]]
    assert hessian(lambda x, y: x * x * y, (0, 1))(3.0, 5.0) == [[10.0, 6.0], [6.0, 0.0]]
    point, vector = [1.5, 2.0], [0.25, -3.0]
    product = [math.fsum(h * v for h, v in zip(row, vector, strict=True)) for row in hessian(rosenbrock)(point)]
    assert hvp(rosenbrock)(point, vector) == pytest.approx(product, rel=1e-14)
    assert hvp(lambda c, x: c * x**3, 1)(5, Fraction(1, 3), 2) == 20
    assert hvp(lambda x, y, power: x**power * y, (0, 1))(3.0, 5.0, [1.0, 0.0], power=2) == [10.0, 6.0]
    assert hvp(lambda x: 3 * x)(2.0, 1.0) == 0.0


def test_a_derivative_within_a_derivative_may_be_of_any_kind():
    assert grad(lambda x: hessian(lambda y: x * y**3)(2.0))(5.0) == 12.0
    assert grad(lambda x: sum(jacobian(lambda y: [x * y, y * y * x])(x)))(3.0) == 13.0
    assert hessian(lambda x: value_and_grad(lambda y: y**4 * x)(x)[0])(2.0) == 160.0
    assert grad(lambda x: hvp(lambda y: y**3 * x)(x, x))(2.0) == 72.0


def test_a_closure_that_reads_the_gradient_of_its_node_has_the_same_jacobian():
    def cube(x):
        def _backward(grad):
            x.grad += out.grad * (3 * x.data**2)

        out = Value(x.data**3, (x,), "cube", _backward)
        return out

    def f(x):
        return [cube(x[0]) * x[0], cube(x[1]) * x[0]]

    assert jacobian(f)([2.0, 3.0]) == [[32.0, 0.0], [27.0, 54.0]]
    assert jvp(f)([2.0, 3.0], [0.0, 1.0]) == ([16.0, 54.0], [0.0, 54.0])
    assert hessian(lambda x: cube(x[0]) * x[1])([2.0, 3.0]) == [[36.0, 12.0], [12.0, 0.0]]


# Forward mode, and products of a jacobian and a vector


def product(xs, ys):
    return math.fsum(x * y for x, y in zip(xs, ys, strict=True))


@every_point
def test_the_derivative_of_every_operation_in_a_direction_is_that_of_mathematics(operation, point):
    direction, every = [0.75, -1.25, 0.5, 2.0, -3.0][: operation.arity], tuple(range(operation.arity))
    right = operation.gradient(*map(mp.mpf, point))
    right = right if isinstance(right, tuple) else (right,)
    value, tangent = jvp(operation.apply, every)(*point, direction)
    assert value == operation.apply(*map(Value, point)).data
    assert tangent == pytest.approx(float(mp.fdot(right, direction)), rel=1e-12, abs=1e-13)
    value, gradient = vjp(operation.apply, every)(*point, -1.5)
    assert value == operation.apply(*map(Value, point)).data
    assert gradient == pytest.approx([float(-1.5 * mp.mpf(slope)) for slope in right], rel=1e-12, abs=1e-13)


def spiral(x):
    """A function from three numbers to five, with nodes of all kinds."""
    a, b, c = x
    return [a * scalar.sin(b) + c, (dot([a, b], [b, c], a), scalar.exp(mean([a, b * c]))), where(a > 0, a, b), 5.0]


POINT, TANGENT, WEIGHTS = [0.5, -1.25, 2.0], [1.0, 0.25, -0.5], [0.5, -1.0, 2.0, 0.125, 3.0]


def test_jvp_and_vjp_are_products_with_the_jacobian_in_the_shapes_of_result_and_argument():
    value, tangent = jvp(spiral)(POINT, TANGENT)
    same, gradient = vjp(spiral)(POINT, WEIGHTS)
    a, (b, c), d, e = jacobian(spiral)(POINT)
    assert value == same == [x if isinstance(x, float) else [y.data for y in x] if isinstance(x, tuple) else x.data
                             for x in spiral(list(map(Value, POINT)))]  # fmt: skip
    assert [len(x) if isinstance(x, list) else 1 for x in tangent] == [1, 2, 1, 1]
    rows = [a, b, c, d, e]
    assert flat(tangent) == pytest.approx([product(row, TANGENT) for row in rows], rel=1e-14)
    assert gradient == pytest.approx([product(column, WEIGHTS) for column in zip(*rows, strict=True)], rel=1e-14)
    assert product(flat(tangent), WEIGHTS) == pytest.approx(product(gradient, TANGENT), rel=1e-14)
    assert [type(x) for x in (*flat(value), *flat(tangent), *gradient)] == [float] * 13


@given(graphs(), st.lists(numbers, min_size=16, max_size=16))
@random_examples(60)
def test_random_functions_have_the_same_jacobian_forward_and_backward(graph, vector):
    at, steps = graph

    def results(xs):
        return helpers.results_of(xs, steps)

    rows = jacobian(results)(at)  # forward, as there are more results
    for i, row in enumerate(rows):
        assert_close(row, grad(lambda xs, i=i: results(xs)[i])(at))
    weights = vector[: len(rows)]
    assert_close(jvp(results)(at, vector[: len(at)])[1], [product(row, vector[: len(at)]) for row in rows])
    assert_close(vjp(results)(at, weights)[1], [product(column, weights) for column in zip(*rows, strict=True)])


def test_forward_and_reverse_mode_nest_in_any_order():
    def cubic(x):
        return x[0] ** 3 * x[1] + x[1] ** 2 / x[0]

    x, v, w = [Fraction(1, 2), Fraction(3)], [Fraction(1), Fraction(-2, 3)], [Fraction(2, 5), Fraction(7)]
    second = hessian(cubic)(x)

    def dot_of(xs, ys):
        return builtins.sum(x * y for x, y in zip(xs, ys, strict=True))

    of_v = [dot_of(row, v) for row in second]
    assert hvp(cubic)(x, v) == of_v
    assert grad(lambda x: jvp(cubic)(x, v)[1])(x) == of_v
    assert jvp(grad(cubic))(x, v)[1] == of_v
    assert vjp(grad(cubic))(x, v)[1] == of_v
    assert jvp(lambda x: jvp(cubic)(x, v)[1])(x, w)[1] == dot_of(of_v, w)
    assert jacobian(lambda x: vjp(cubic)(x, 1)[1])(x) == second
    third = grad(lambda x: jvp(lambda x: jvp(cubic)(x, v)[1])(x, w)[1])(x)
    assert third == jvp(lambda x: hvp(cubic)(x, w))(x, v)[1]
    assert {type(number) for number in (*of_v, *third)} == {Fraction}
    assert grad(lambda v: jvp(cubic)(x, v)[1])(v) == grad(cubic)(x)
    assert grad(lambda w: vjp(lambda x: [cubic(x), x[1] ** 2])(x, w)[1][1])([1, 1]) == [grad(cubic)(x)[1], 6]


def test_gradients_flow_to_the_weights_through_forward_mode():
    w, x = Value(3.0), Value(2.0)
    value, tangent = jvp(lambda x: [w * x**3, x])(x, w)
    (value[0] + tangent[0] + tangent[1]).backward()  # w x^3, 3 w^2 x^2 and w
    assert (x.grad, w.grad) == (3 * 3 * 4 + 6 * 9 * 2, 8 + 6 * 3 * 4 + 1)


# Derivatives that must not be confused


def test_perturbation_confusion_does_not_happen():
    assert grad(lambda x: x * grad(lambda y: x + y)(1.0))(1.0) == 1.0
    assert grad(lambda x: x * grad(lambda y: x * y)(2.0))(3.0) == 6.0
    assert grad(lambda x: grad(lambda y: grad(lambda z: x * y * z * z)(y))(x))(2.0) == 16.0  # of 4 x y, y = x
    assert jvp(lambda x: x * jvp(lambda y: x + y)(1.0, 1.0)[1])(1.0, 1.0) == (1.0, 1.0)
    assert grad(lambda x: x * jvp(lambda y: x * y)(2.0, 1.0)[1])(3.0) == 6.0


@pytest.mark.parametrize(("mixed", "right"), [
    (lambda x, y: dot([x, y], [y, 2.0], x), 1.0), (lambda x, y: mean([x * y, y, x]), 1 / 3),
    (lambda x, y: sum([x * y, y, x, 1]), 1.0), (lambda x, y: where(x > y, x * y, 0.0), 1.0),
    (lambda x, y: where(x > y, x * x, x) * y, 6.0), (lambda x, y: y**x, 4 * (1 + 3 * math.log(2))),
    (lambda x, y: x**y, 3 + 6 * math.log(3)), (lambda x, y: x * y % 5.0 * y, 4.0),
    (lambda x, y: x / y - y / x, -1 / 4 + 1 / 9), (lambda x, y: x - y + x * y, 1.0),
])  # fmt: skip
def test_operands_of_different_levels_mix_in_every_operation(mixed, right):
    """The derivative by x = 3 of that by y = 2."""

    def slope(x):
        return grad(lambda y: mixed(x, y))(2.0)

    assert grad(slope)(3.0) == pytest.approx(right, rel=1e-14)
    assert gradcheck(slope, 3.0)


def test_threads_and_tasks_each_nest_on_their_own():
    expected, found, barrier = 1.0, [], threading.Barrier(4)

    def outer(x):
        barrier.wait(timeout=120)  # all are inside a derivative now
        return x * grad(lambda y: x + y)(1.0)

    helpers.in_threads(lambda k: found.append(grad(outer)(1.0)), 4)

    async def task():
        await asyncio.sleep(0)
        return grad(lambda x: x * grad(lambda y: x + y)(1.0))(1.0)

    async def tasks():
        return await asyncio.gather(task(), task())

    assert [*found, *asyncio.run(tasks())] == [expected] * 6


@pytest.mark.parametrize("use", [
    lambda x, y: y**x, lambda x, y: sum([x, y]), lambda x, y: grad(lambda z: y)(1.0) * y * x, lambda x, y: Value(y),
])  # fmt: skip
def test_a_value_kept_from_a_derivative_that_has_ended_is_no_use_outside(use):
    kept, x = [], Value(2.0)
    grad(lambda y: kept.append(x * y) or y)(3.0)
    with pytest.raises(TypeError, match=r"that has ended: return it, or keep its \.data"):
        use(x, kept[0])
    with pytest.raises(TypeError, match="that has ended"):
        kept[0].backward()
    assert kept[0].data.data == 6.0
    assert grad(lambda z: z * kept[0].data)(x).data == 6.0
    kept[0].data.backward()
    assert x.grad == 3.0


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_interrupted_function_leaves_nothing_behind(error):
    def interrupted(x):
        raise error

    with pytest.raises(error):
        grad(lambda x: grad(interrupted)(x))(1.0)
    levels = []
    grad(lambda x: levels.append(x._level) or x)(1.0)
    assert levels == [1]
    assert active_levels == []


# What goes in and comes out


def test_exact_numbers_have_exact_gradients():
    def rational(x):
        return (x**3 - 2 * x) / (1 + x * x)

    assert grad(grad(lambda x: x**5))(Fraction(1, 3)) == Fraction(20, 27)
    assert repr(grad(rational)(Fraction(1, 3))) == "Fraction(-29, 25)"
    third = grad(grad(grad(lambda x: x**20)))(10)
    assert (type(third), third) == (int, 6840 * 10**17)
    x, vector = [Fraction(1, 3), 2], [Fraction(1, 7), 1]
    assert hvp(lambda p: p[0] ** 2 * p[1])(x, vector) == [Fraction(26, 21), Fraction(2, 21)]


class Pair(NamedTuple):
    left: float
    right: float


def test_a_named_tuple_keeps_its_names():
    pair = Pair(2.0, 3.0)
    assert grad(lambda p: p.left * p.right)(pair) == [3.0, 2.0]
    assert jacobian(lambda p: Pair(p.right, p.left))(pair) == [[0.0, 1.0], [1.0, 0.0]]
    assert gradcheck(lambda p: p.left**p.right, [pair])


def test_gradients_by_floats_are_floats():
    for f in (lambda x: x, lambda x: x + 1, lambda x: 3 * x, lambda x: 5, lambda x: 0.5):
        assert type(grad(f)(2.0)) is float
        assert grad(grad(f))(2.0) == 0.0
        assert type(grad(grad(f))(2.0)) is float
    assert repr(jvp(lambda x: [take([x, 0.5], 1), x])(2.0, 1.0)) == "([0.5, 2.0], [0.0, 1.0])"
    assert grad(lambda x, y: x)(1.0, 2.0) == 1.0
    assert grad(lambda x, y: x, 1)(1.0, 2.0) == 0.0
    assert grad(lambda x: x[0])((1.0, [2, np.float64(3.0)])) == [1.0, [0, 0.0]]


def test_the_gradient_by_a_value_is_a_value_through_which_gradients_flow():
    x, w = Value(2.0), Value(3.0)
    value, slope = value_and_grad(lambda x: w * x**3)(x)
    assert (value, slope, x.grad, w.grad) == (24.0, 36.0, 0.0, 0.0)
    (value + slope).backward()
    assert (x.grad, w.grad) == (3 * 4 * 3 + 6 * 2 * 3, 8 + 12)
    constant = grad(lambda x: 3)(x)
    assert (type(constant), constant.data) == (Value, 0.0)


@pytest.mark.parametrize(
    "of", [grad, jacobian, hessian, lambda f: lambda x: jvp(f)(x, 1)[1], lambda f: lambda x: vjp(f)(x, 1)[1]]
)
def test_all_numbers_that_a_derivative_adds_to_the_graph_are_constants(of):
    x, w = Value(2.0), Value(3.0)
    _, leaves = of(lambda x: w * x**3)(x)._topological_order()
    assert {leaf for leaf in leaves if not leaf._is_constant} == {x, w}


def test_an_array_without_dimensions_is_a_number_and_a_number_in_brackets_has_a_gradient():
    x = np.array(2.0)
    assert value_and_grad(lambda x: scalar.tanh(x) * 0 + x * x)(x) == (4.0, 4.0)
    assert hvp(lambda x: np.array(x**3))(x, np.array(1.0)) == 12.0
    assert gradcheck(scalar.tanh, x)
    assert grad(lambda x: (x * x).sum(keepdims=True))(np.array([[1.0, 2.0]])).tolist() == [[2.0, 4.0]]
    assert hessian(lambda x: [x * x])(3.0) == 2.0


def test_arrays_come_out_where_arrays_go_in():
    x, y = np.array([1.0, 2.0]), np.array([[1.0, 2.0], [3.0, 4.0]])

    def f(x, y):
        return (x @ y @ x) * 1.0

    def arrays(*results):
        return [(result.dtype, result.tolist()) for result in results]

    value, gradient = value_and_grad(f)(x, y)
    assert type(value) is float
    assert arrays(gradient, *grad(f, (0, 1))(x, y)) == [
        (np.float64, [12.0, 21.0]), (np.float64, [12.0, 21.0]), (np.float64, [[1.0, 2.0], [2.0, 4.0]]),
    ]  # fmt: skip
    assert arrays(hessian(f)(x, y), hvp(f)(x, y, x)) == [
        (np.float64, [[2.0, 5.0], [5.0, 8.0]]), (np.float64, [12.0, 21.0]),
    ]  # fmt: skip
    assert arrays(*jvp(lambda x: [x[0], x[0] * x[1]])(x, [1.0, 0.0]), vjp(np.sin)(0 * x, x)[1]) == [
        (np.float64, [1.0, 2.0]), (np.float64, [1.0, 2.0]), (np.float64, [1.0, 2.0]),
    ]  # fmt: skip
    assert arrays(jacobian(lambda y: y @ x)(y)) == [(np.float64, [[[1.0, 2.0], [0.0, 0.0]], [[0.0, 0.0], [1.0, 2.0]]])]
    assert arrays(jacobian(lambda n: [n[0], n[1]])(np.array([1, 2]))) == [(np.float64, [[1.0, 0.0], [0.0, 1.0]])]
    assert jacobian(lambda x: [])(x).shape == (0, 2)


def test_arrays_of_values_and_of_exact_numbers_stay_arrays_of_objects():
    w = Value(2.0)
    x = np.array([Value(3.0), Value(4.0)])
    gradient = grad(lambda x: w * x[0] * x[1])(x)
    assert gradient.dtype == object
    (2 * gradient).sum().backward()  # 2 w (x1 + x0)
    assert (w.grad, x[0].grad) == (14.0, 4.0)
    exact = grad(lambda x: x[0] / x[1])(np.array([Fraction(1), Fraction(3)]))
    assert exact.tolist() == [Fraction(1, 3), Fraction(-1, 9)]
    assert grad(lambda x: (grad(lambda x: (x**3).sum())(x) * x).sum())(np.array([1.0, 2.0])).tolist() == [9.0, 36.0]


def doubled(x):
    x *= 2
    return (x * x).sum()


def clipped(x):
    x[x < 0] = 0.0
    return (x * x).sum()


def ranked(x):
    x.sort()
    return x[0] + 2 * x[1] + x.pop() * 3


@pytest.mark.parametrize(("in_place", "x", "value", "gradient"), [
    (doubled, np.array([1.0, 2.0, 4.0]), 84.0, [8.0, 16.0, 32.0]),
    (clipped, np.array([-1.0, 2.0, 4.0]), 20.0, [0.0, 4.0, 8.0]),
    (ranked, [4.0, -1.0, 2.0], 15.0, [3.0, 1.0, 2.0]),
    (lambda x: x[0].pop() * x.pop(0).pop(), [[2.0, 3.0]], 6.0, [[3.0, 2.0]]),
    (lambda x: copy.deepcopy(x)[0] * copy.copy(x[1]), [2.0, 3.0], 6.0, [3.0, 2.0]),
    (lambda x: vars(m := nn.Module()).update(w=x[0] * x[1]) or copy.deepcopy(m).w, [2.0, 3.0], 6.0, [3.0, 2.0]),
])  # fmt: skip
def test_a_function_may_change_or_copy_its_argument(in_place, x, value, gradient):
    before = list(x)
    assert value_and_grad(in_place)(x)[0] == value
    assert np.array_equal(grad(in_place)(x), gradient)
    assert np.array_equal(grad(in_place, (0,))(x), [gradient])
    assert np.array_equal(jacobian(in_place)(x), gradient)
    assert np.array_equal(np.ravel(hvp(in_place)(x, x)), np.ravel(np.dot(hessian(in_place)(x), np.ravel(x))))
    assert gradcheck(in_place, [x])
    assert list(x) == before


# Errors


VECTORS = [1.0], [1.0, 2.0, 3.0], 4.0, [[1.0], [1.0, 2.0]]


def pair(x):
    return [x[0], x[1]]


@pytest.mark.parametrize(("call", "message"), [
    *[
        (lambda product=product, f=f, v=v: product(f)([1.0, 2.0], v), rf"^the vector must have the shape of {of}, \(2,")
        for product, f, of in ((hvp, rosenbrock, "x"), (jvp, rosenbrock, "x"), (vjp, pair, "the result"))
        for v in VECTORS
    ],
    *[
        (lambda product=product, f=f, x=x: product(f)([1.0, 2.0], [1.0, x]), r"^vector\[1\]: a Value holds a number")
        for product, f in ((hvp, rosenbrock), (jvp, pair), (vjp, pair))
        for x in (1j, "1", None)
    ],
    (lambda: grad(lambda x: None)(1.0), "a function that returns numbers, not NoneType"),
    (lambda: jvp(cube(lambda x: 1j))(2.0, 1.0), r"^the _backward of own\(2\.0\) gives a gradient of type complex, not"),
    (lambda: grad(lambda x: x + "1")(1.0), r"for \+: 'Value' and 'str'$"),
    (lambda: grad(3.0), r"expected a function to differentiate, not 3.0: write grad\(f\)\(x\)"),
    (lambda: grad(lambda x: [x, x])(1.0), "returns one number, not 2: use jacobian"),
    (lambda: grad(lambda x: [[x, x], [x]])(1.0), "returns one number, not 3: use jacobian"),
    (lambda: hvp(lambda x: x * x)(1.0), r"call hvp\(f\) as hvp\(f\)\(x, vector\), .* given: 1$"),
    (lambda: jacobian(lambda x: {x})(1.0), "a function that returns numbers, not set"),
    (lambda: jvp(lambda x: x)(1.0), r"call jvp\(f\) as jvp\(f\)\(x, vector\), .* given: 1$"),
    (lambda: vjp(3.0), r"expected a function to differentiate, not 3.0"),
    (lambda: jacobian(3.0), r"expected a function to differentiate, not 3.0"),
    (lambda: grad(lambda x: x)("1"), "a Value holds a number .* not str: '1'"),
    (lambda: grad(lambda x: x[0])([1.0, None]), "a Value holds a number .* not NoneType"),
    (lambda: grad(lambda x: x, 1)(1.0), r"^argnum is 1: expected the position of one of 1 argument"),
    (lambda: grad(lambda x: x, (0, -2))(1.0), r"argnum is \(0, -2\)"),
    (lambda: grad(lambda x: x, 2.0), r"^argnum is 2\.0: expected the position .* write grad\(f\)\(2\.0\)$"),
    (lambda: jacobian(lambda x: x, [2.0]), r"^argnum is \[2\.0\]: .* write grad\(f\)\(\[2\.0\]\)$"),
    (lambda: jvp(lambda x: x, Value(2.0)), r"^argnum is Value\(.*: expected the position of an argument"),
    (lambda: grad(lambda x: x, [None])(1.0), r"^argnum is \(None,\): expected the position of one"),
    (lambda: grad(lambda x: x, "x")(1.0), "argnum is 'x': expected the position of one .*, or a tuple of them"),
    (lambda: grad(lambda x, y: x * y, {0, 1})(1.0, 2.0), r"argnum is {0, 1}: expected the position of one"),
    (lambda: hessian(lambda x: x * 2)(x=2.0), "^got arguments by name only: pass those .* with respect to by pos"),
    (lambda: hvp(rosenbrock)([1.0, 2.0], {1.0, 2.0}), "vector: a Value holds a number .*, not set"),
    (lambda: gradcheck(lambda x, y: x * y[0], (1.0, ["2"])), r"^inputs\[1\]\[0\]: a Value holds a number"),
])  # fmt: skip
def test_an_error_says_what_has_no_gradient(call, message):
    with pytest.raises(ValueError if "must have" in message else TypeError, match=message):
        call()


def test_gradcheck_says_how_to_pass_a_single_list():
    with pytest.raises(TypeError, match="positional argument") as caught:
        gradcheck(lambda x: x[0] * x[1], [1.0, 2.0])
    [note] = caught.value.__notes__
    assert note == "inputs has 2 arguments: if the function takes one, a list, write ([1.0, 2.0],)"
    assert gradcheck(lambda x: x[0] * x[1], ([1.0, 2.0],))


def test_a_derivative_that_does_not_exist_is_an_error_and_what_a_closure_raises_comes_out():
    def lost(grad):
        raise KeyError("lost")

    for derivative in (grad, jacobian, lambda f: lambda x: jvp(f)(x, 1.0), lambda f: lambda x: vjp(f)(x, 1.0)):
        with pytest.raises(ZeroDivisionError, match=r"the derivative of sqrt\(0.0\) cannot be taken"):
            derivative(scalar.sqrt)(0.0)
        with pytest.raises(NotImplementedError, match=r"odd\(2.0\) has no derivative: give its Value a _backward"):
            derivative(lambda x: Value(x.data, (x,), "odd") * 3)(2.0)
        with pytest.raises(KeyError, match="^'lost'$"):
            derivative(lambda x: Value(x.data, (x,), "broken", lost))(2.0)


# Gradcheck


def add(before, grad, slope):
    """What a `_backward` makes of the gradient that is there, if it is right."""
    return before + grad * slope


def own(f, slope, passed=add):
    """A user's operation on one number, whose `_backward` says that its derivative is the slope."""
    return helpers.own(f, lambda x, grad: passed(x.grad, grad, slope(x.data)))


def cube(slope, passed=add):
    return own(lambda x: x * x * x, slope, passed)


RIGHT, NEARLY = cube(lambda x: 3 * x * x), cube(lambda x: 3.000001 * x * x)
LEAKY = own(lambda x: max(x, 0.01 * x), lambda x: 0.01 if x <= 0 else 1)
ROUNDED = [own(lambda x, digits=digits: round(math.sin(x), digits), math.cos) for digits in (13, 14, 15)]


@pytest.mark.parametrize(("f", "x", "options"), [
    pytest.param(RIGHT, Value(2), {"rtol": 0.0, "atol": 1e-12}, id="a right closure"),
    pytest.param(lambda x: 2 * x, [Fraction(1, 3)], {"rtol": 0.0, "atol": 0.0}, id="exactly at the tolerance"),
    pytest.param(NEARLY, 2.0, {"rtol": 1e-5}, id="an error of less than rtol"),
    pytest.param(NEARLY, 2.0, {"atol": 1e-4}, id="an error of less than atol"),
    pytest.param(lambda x: 1.5e308 * x, 0.5, {}, id="a gradient near the largest float"),
    pytest.param(lambda x: 1e6 * x - 1e6 * x + x.sin() / 1e6, 0.3, {}, id="gradients that cancel"),
    *[(f, x, {}) for f in (scalar.relu, LEAKY) for x in (-1.0, -1e-3, 1e-9, 0.5)],  # beside a kink
    *[(f, -3 + n / 10, {}) for f in ROUNDED for n in range(60)],
    *[(own(math.log, lambda x: 1 / x), x, {}) for x in (1e-10, 1e-3, 0.05, 7.0)],  # where it is defined
    (own(math.asin, lambda x: 1 / math.sqrt(1 - x * x)), 1 - 2**-40, {"rtol": 1e-5}),
])  # fmt: skip
def test_gradcheck_accepts_what_is_right_or_off_by_no_more_than_allowed(f, x, options):
    assert gradcheck(f, x, **options) is True


REPLACING = [own(lambda x, s=s: x * s, lambda x, s=s: s, lambda before, grad, s: grad * s) for s in (0.0, 3.0, -1e9)]

SHARES = [lambda grad: 1, abs, lambda grad: grad * grad, lambda grad: grad > 0, lambda grad: grad**3]


@pytest.mark.parametrize(("f", "inputs", "message"), [
    (NEARLY, 2.0, r"a relative error of 3\.3e-07"),
    (lambda x: cube(lambda x: 2 * x * x)(x[1]), [np.array([1.0, 2.0])], r"with respect to inputs\[0\]\[1\] is 8.0"),
    *[(cube(lambda x, y=y: y), 1.0, rf"with respect to inputs\[0\] is {y}") for y in (math.nan, math.inf)],
    (own(lambda x: math.inf + x, lambda x: 0.0), 1.0, "is 0.0, but .* gives nan: a relative error of nan"),
    (scalar.relu, 0.0, "is 0.0, but the central difference gives 0.5"),
    *[
        (lambda x, ys, f=f: [x, f(ys[0]) + x], [1.0, [0.5]], r"1\]\[0\] is .* not added to what .* `x.grad \+= ")
        for f in REPLACING
    ],
    *[
        (cube(lambda x: 3 * x * x, lambda before, grad, slope, share=share: before + share(grad) * slope), x,
         r"inputs\[0\] is not multiplied by .* `x.grad \+= grad \* ...`$")
        for share in SHARES for x in (2.0, 1e-3)
    ],
])  # fmt: skip
def test_gradcheck_refuses_what_is_wrong(f, inputs, message):
    with pytest.raises(GradientError, match=message):
        gradcheck(f, inputs)


@pytest.mark.parametrize("derivative", [
    lambda f: lambda x: f(Value(x)).backward(), grad, lambda f: grad(grad(f)), lambda f: lambda x: jvp(f)(x, 1.0),
    lambda f: lambda x: gradcheck(f, x), lambda f: lambda x: compile(f, (x,), backend="python").value_and_grad(x),
])  # fmt: skip
def test_a_closure_that_computes_with_x_in_place_of_its_data_is_an_error_that_names_it(derivative):
    square = helpers.own(lambda x: x * x, lambda x, grad: x.grad + 2 * grad * x, "square")
    with pytest.raises(TypeError, match=r"^the _backward of square\(.*\) gives .* type Value, .*: compute with x\."):
        derivative(lambda x: 3 * x + square(x))(2.0)


@every_operation
def test_gradcheck_sees_a_wrong_gradient_of_every_operation(operation):
    for point in operation.points:
        with pytest.raises(GradientError, match="but the central difference gives"):
            gradcheck(lambda *xs: own(lambda x: x, lambda x: 2)(operation.apply(*xs) + 0.01 * sum(xs)), point)


@pytest.mark.parametrize(("f", "x"), [
    (lambda x: 1 / x.erf(), 0.01), (lambda x: 1 / x.erf(), 1e-9), (lambda x: 1 / x, 1e-15), (lambda x: 1 / x, -1e-9),
    (lambda x: x.log(), 1e-300), (lambda x: x.acosh(), 1 + 2**-30), (lambda x: x / 3 + x.sigmoid() + 2.0**x, 1e-308),
    (lambda x: x / 3 + x.log(), 1e300), (lambda x: (-((1000 * x) ** 2)).exp(), 5e-4),
    (lambda x: x.relu() + abs(x) + x.clip(-1, 0.02), 0.01), (lambda x: x.relu() + x.clip(-1, 1e-13), -1e-12),
    (lambda x: 1 / x, 1e-100), (lambda x: x.lgamma(), 1e-8), (lambda x: (x * x.cos()).gelu(), 866.0),
    (lambda x: (x + 1e9) - 1e9 + 0.0, 0.3), (lambda x: x * x + 1 / (2 * (x + math.inf)), 2.0),
])  # fmt: skip
def test_central_differences_find_the_scale_of_a_function(f, x):
    assert gradcheck(f, x)
    with pytest.raises(GradientError, match="the central difference gives"):
        gradcheck(lambda x: own(lambda x: f(Value(x)).data, lambda x: 0.0)(x), x, atol=0.0)


@pytest.mark.parametrize(("f", "x"), [
    (lambda x: abs(x) * x, 0.0), (lambda x: x.relu() ** 2, 0.0), (lambda x: x.relu() ** 1.5, 0.0),
    (lambda x: where(x > 0, x * x, 0), 0.0), (lambda x: where(x > 0, x * x.sin(), x**3), 0.0),
    (lambda x: where(x < 1, 3 * x * x - 2 * x**3, 1), 1.0), (lambda x: 3 * (x - 2).relu() ** 2 + x * x.exp(), 2.0),
    *[(lambda x: 1e8 + x * x, x) for x in (1e-9, 0.3, 2.0, 40.0)],
    *[(lambda x: 1e8 + x.sin(), x) for x in (0.0, 1.0, -0.7)],
    (lambda x: 1e8 + 0.3 + 0.7 * x.relu() ** 2, 0.0),
    (lambda x: 1e5 + x.exp() - 1e5, 0.3),
])  # fmt: skip
def test_gradcheck_accepts_where_one_sided_pieces_meet_and_beside_a_large_number(f, x):
    """But not a derivative of 1.0005 for 1."""
    assert gradcheck(f, x)
    with pytest.raises(GradientError, match="but the central difference gives"):
        gradcheck(lambda x: f(x) + own(lambda x: x, lambda x: 1.0005)(x), x)


def test_a_function_defined_at_one_point_alone_has_no_slope():
    def lone(x):
        if float(x.data) != 0:
            raise ValueError("not here")
        return x

    with pytest.raises(ValueError, match=r"not defined on both sides of 0\.0"):
        gradcheck(lone, 0.0)


def product_of(*values):
    """A user's operation on any number of operands."""
    values = promote(*values)

    def _backward(grad):
        for i, value in enumerate(values):
            value.grad += grad * math.prod(v.data for v in values[:i] + values[i + 1 :])

    return Value(math.prod(v.data for v in values), values, "product", _backward)


@pytest.mark.parametrize("order", [(0, 1), (1, 0), (0, 2, 1), (2, 0, 1), (2, 1, 0), (2, 2, 0, 2, 1, 2)])
def test_a_users_operation_takes_operands_of_every_derivative(order):
    def f(x, y):
        return product_of(*[(x, y, 3.0)[i] for i in order]) * x

    threes = 3.0 ** order.count(2)
    outer = Value(5.0)
    assert grad(lambda y: f(outer, y))(2.0) == 25 * threes
    assert outer.grad == 0.0
    assert grad(lambda x: grad(lambda y: f(x, y))(2.0))(5.0) == 10 * threes
    assert grad(lambda y: grad(lambda x: f(x, y))(5.0))(2.0) == 10 * threes


@pytest.mark.parametrize("order", [(0, 1), (1, 0), (0, 1, 0), (1, 0, 1), (0, 0, 1, 0)])
def test_operands_of_different_derivatives_are_an_error_unless_promoted(order):
    outer = Value(5.0)

    def f(inner):
        return Value(1.0, tuple([(outer, inner)[i] for i in order]), "product", lambda grad: None)

    with pytest.raises(TypeError, match=r"operands of product belong to different derivatives: .*promote\(x, y\)"):
        grad(f)(2.0)
