"""Traced functions: the closures that write the backward pass, and Values that show no trace of it."""

import copy
import gc
import math
import pickle
import threading

import pytest

import micrograd
from micrograd import Value, losses, scalar, where
from micrograd.compiler.frontend.graph import traced
from micrograd.compiler.frontend.tracer import Trace
from micrograd.compiler.passes.pipeline import length, program
from tests.helpers import assert_as_engine, assert_close, backward, close, compiled, eager, flat, moons, own


def bell(x):
    return scalar.exp(-x * x)


def is_inside(x):
    return (x > -1) & (x < 1) | (x == 2)


OWN = {
    "needs scalar in both directions": own(bell, lambda x, grad: x.grad + grad * (-2 * x.data * bell(x.data))),
    "relies on a default": own(scalar.leaky_relu, lambda x, grad: x.grad + grad * scalar.where(x.data <= 0, 0.01, 1)),
    "chooses with and and or": own(
        lambda x: scalar.where(is_inside(x), x, -x), lambda x, grad: x.grad + scalar.where(is_inside(x.data), grad, 0)
    ),
    "is of the class of its operand": own(lambda x: 3 * x, lambda x, grad: x.grad + 3 * grad, kind=type),
}


def with_gradient(of):
    """An operation of a user's own, 2x, whose closure adds `of(grad, x)`."""
    return own(lambda x: x * 2, lambda x, grad: x.grad + of(grad, x.data))


@pytest.mark.parametrize(("of", "scales"), [
    (lambda grad, x: -(grad * 2) - grad / x, True), (lambda grad, x: scalar.where(x > 2, grad, 0.0) + grad, True),
    (lambda grad, x: 0 * grad * x, True), (lambda grad, x: abs(grad), False), (lambda grad, x: grad * grad, False),
    (lambda grad, x: scalar.where(grad > 0.1, 0.0, grad), False), (lambda grad, x: grad / (1 + grad), False),
    (lambda grad, x: 1.0, False), (lambda grad, x: grad + x, False), (lambda grad, x: x - grad, False),
    (lambda grad, x: x / (1 + grad), False), (lambda grad, x: scalar.where(grad > 0, 1.0, -1.0), False),
    (lambda grad, x: scalar.where(x > 2, grad, x), False), (lambda grad, x: scalar.exp(grad), False),
    (lambda grad, x: grad**0, False),
])  # fmt: skip
def test_whatever_a_users_closure_adds_counts_once_for_each_example(backend, of, scales):
    """Lanes of the last tile may share an example, and its gradient."""
    own, w = with_gradient(of), Value(0.5)
    graph = traced(lambda x: own(w) * x, [()], [w])
    assert graph.scales_with_seed is scales
    fast = micrograd.compile(lambda x: own(w) * x, (1.0,), parameters=[w], backend=backend)
    for n in 1, 3, 5, 8, 9, 33:
        assert_as_engine(fast, lambda x: own(w) * x, [1.0 + i for i in range(n)])


def wavy(w, x):
    return (w * x).sin() * (w + x).exp()


def wavier(w, x):
    return wavy(w, x) + wavy(w, x * x)


def without(w, x):
    return x * x


@pytest.mark.parametrize("inner", [wavy, wavier])
@pytest.mark.parametrize("outer", [wavy, wavier, without])
def test_what_a_backward_within_the_function_adds_counts_once_for_each_example(backend, inner, outer):
    w = Value(0.5)

    def function(x):
        inner(w, x).backward()
        return outer(w, x)

    fast = micrograd.compile(function, (1.0,), parameters=[w], backend=backend)
    for n in 1, 5, 8, 9:
        xs = [0.1 + 0.1 * i for i in range(n)]
        slopes = [[micrograd.grad(f)(w.data, x) for x in xs] for f in (inner, outer)]
        assert backward(fast, xs)[1] == pytest.approx(sum(slopes[0]) + sum(slopes[1]) / n, rel=1e-12)


@pytest.mark.parametrize("operation", OWN.values(), ids=OWN)
def test_a_users_operation_compiles(backend, operation):
    fast = micrograd.compile(operation, (1.0,), backend=backend)
    for x in (-1.5, -0.5, 0.0, 0.5, 2.0, 3.0):
        assert close(fast.value_and_grad(x), eager(operation, x))


@pytest.mark.usefixtures("no_collector")
def test_a_graph_is_freed_with_its_function(backend):
    def traces():
        return sum(type(each) is Trace for each in gc.get_objects())

    before = traces()
    model, loss, points, labels = moons()
    fast = micrograd.compile(loss, (points[0], labels[0]), parameters=model.parameters(), backend=backend)
    fast(points[0], labels[0])
    assert fast.source.count("def ") == 3
    assert traces() == before + 1
    del fast
    assert traces() == before


@pytest.mark.parametrize("result", [lambda v: v, lambda v: [v, 1.0], lambda v: [[v], 2.0]])
def test_a_value_that_was_computed_before_is_refused_unless_it_is_detached(result):
    p = Value(2.0)
    before, message = p * 3, r"result of \*, 6\.0, .*compute it inside the function.*or detach\(\) it"
    for given in ([p], None):
        with pytest.raises(ValueError, match=message):
            micrograd.compile(lambda x: result(before * x), (1.0,), parameters=given, backend="python")
    fast = micrograd.compile(lambda x: before.detach() * x, (1.0,), backend="python")
    assert fast.value_and_grad(2.0) == (12.0, 6.0)


def test_while_one_thread_traces_a_function_the_others_see_numbers_and_trace_it_too():
    p = Value(3.0)
    tracing, go_on = threading.Event(), threading.Event()

    def slow(x):
        tracing.set()
        assert go_on.wait(120)
        return p * x

    slowly = []
    thread = threading.Thread(target=lambda: slowly.append(compiled(slow, p)))
    fast = compiled(lambda x: p * x, p)
    thread.start()
    assert tracing.wait(120)
    eager = p * 2.0
    eager.backward()
    assert (repr(p), eager.data, type(eager)) == ("Value(data=3.0, grad=2.0)", 6.0, Value)
    assert (fast.backward([2.0]), p.grad, compiled(lambda x: p + x, p)(2.0)) == (6.0, 4.0, 5.0)
    assert [pickle.loads(pickle.dumps(p)).data, copy.deepcopy(p).grad] == [3.0, 4.0]
    p.data = 5.0
    go_on.set()
    thread.join()
    assert (slowly[0](2.0), p.grad, type(p)) == (10.0, 4.0, Value)


def test_a_function_may_be_compiled_while_another_is_traced():
    p, q = Value(3.0), Value(5.0)

    inner = []

    def outer(x):
        inner.append(compiled(lambda y: p * q * y, p, q))
        return p * x

    assert (compiled(outer, p)(2.0), inner[0](2.0)) == (6.0, 30.0)
    assert (repr(p), repr(q), type(p)) == ("Value(data=3.0, grad=0.0)", "Value(data=5.0, grad=0.0)", Value)


def test_a_backward_within_the_function_makes_constants_and_leaves_gradients_as_they_were(backend):
    w, p = Value(2.0), Value(3.0)
    w.grad = p.grad = 0.25

    def f(x):
        y = w * p * x * x
        y.backward()
        return x.grad * x

    fast = micrograd.compile(f, (1.0,), parameters=[p], backend=backend)
    assert (fast(3.0), fast.value_and_grad(3.0), w.grad, p.grad) == (108.0, (108.0, 36.0), 0.25, 0.25)
    assert micrograd.value_and_grad(f)(3.0) == (108.0, 36.0)


def test_a_choice_that_is_made_before_the_call_is_followed_only_where_it_does_not_matter(backend):
    assert micrograd.compile(lambda x: where(True, 1.5, x) * x, (1.0,), backend=backend)(2.0) == 3.0
    w = Value(2.0)
    chosen, not_chosen = where(True, w, 1.0), where(False, w, 1.0)
    with pytest.raises(ValueError, match=r"the result of where, 2\.0, does not depend on its operands"):
        micrograd.compile(lambda x: chosen * x, (1.0,), parameters=[w], backend=backend)
    assert micrograd.compile(lambda x: not_chosen * x, (1.0,), parameters=[w], backend=backend)(2.0) == 2.0
    constant = Value(3.0).detach()
    with pytest.raises(ValueError, match=r"the result of first, 3\.0, does not depend on .* add 0 times"):
        micrograd.compile(lambda x: Value(constant.data, (constant, x), "first"), (1.0,), backend=backend)


def test_a_closure_that_reads_a_gradient_midway_gets_what_the_engine_gives_it(backend):
    capped = own(lambda x: x * 1.0, lambda x, grad: scalar.where(x.grad + grad > 0.5, 0.5, x.grad + grad))
    w = Value(0.3)

    def function(x):
        return w * x + capped(w)

    assert_as_engine(micrograd.compile(function, (0.7,), backend=backend), function, [0.7])
    assert w.grad == 1.2


def minors(rows):
    """A determinant by minors, each of which is computed as often as it is needed."""
    if len(rows) == 1:
        return rows[0][0]
    parts = [x * minors([row[:j] + row[j + 1 :] for row in rows[1:]]) for j, x in enumerate(rows[0])]
    return sum(part if j % 2 == 0 else -part for j, part in enumerate(parts))


@pytest.mark.parametrize("op", [minors, lambda rows: scalar.exp(minors(rows)) + minors(rows[::-1]) * minors(rows)])
def test_what_a_function_computes_twice_is_differentiated_once(op):
    def lines_per_term(n):
        rows = [[0.1 * i * j + (i == j) for j in range(n)] for i in range(n)]
        fast = micrograd.compile(op, (rows,))
        expected = micrograd.value_and_grad(op)(rows)
        assert_close(flat(fast.value_and_grad(rows)), flat(expected))
        trace = fast._first_graph().trace
        return len(trace.live(fast._first_graph().ends((0,)).lines)) / (n * 2**n)

    assert lines_per_term(5) < 1.5 * lines_per_term(3)  # of 2^n minors, each a sum of n, computed n! times


@pytest.mark.parametrize(("first", "second"), [
    (lambda x: 3 * x, lambda x: 3 * x.detach()),
    (lambda x: x.exp(), lambda x: x.detach().exp()),
    (lambda x: micrograd.logsumexp([x, 2.0]), lambda x: micrograd.logsumexp([x.detach(), 2.0])),
    (lambda x: x**2, lambda x: x * x),
    (lambda x: micrograd.where(True, x, x.detach()), lambda x: micrograd.where(False, x, x.detach())),
    (lambda x: losses.cross_entropy([x, x.detach()], 0), lambda x: losses.cross_entropy([x, x.detach()], 1)),
    (lambda x: with_gradient(lambda grad, x: grad)(x), lambda x: with_gradient(lambda grad, x: 5 * grad)(x)),
])  # fmt: skip
def test_equal_numbers_with_different_derivatives_are_kept_apart(first, second):
    def function(x):
        return first(x) * second(x) + 2 * first(x) - second(x) * second(x)

    fast = micrograd.compile(function, (1.5,))
    assert_close(flat(fast.value_and_grad(1.5)), flat(micrograd.value_and_grad(function)(1.5)))


def test_the_gradients_of_what_is_computed_twice_are_added_up_in_the_order_of_the_program():
    def time_warping(xs, ys):
        costs = [[1e6] * (len(ys) + 1) for _ in range(len(xs) + 1)]
        costs[0][0] = 0.0
        for i, x in enumerate(xs):
            for j, y in enumerate(ys):
                before = costs[i][j + 1], costs[i + 1][j], costs[i][j]
                costs[i + 1][j + 1] = (x - y) ** 2 - micrograd.logsumexp([-cost for cost in before])
        return costs[-1][-1]

    def lines(n):
        points = [[math.sin(k * i) for i in range(n)] for k in (1, 2)]
        graph = micrograd.compile(time_warping, tuple(points))._first_graph()
        return length(program(graph, graph.ends((0, 1))).kernel)

    assert lines(20) < 3 * lines(8)  # in proportion to n, 2.5 times, not to its square, 6.25 times
