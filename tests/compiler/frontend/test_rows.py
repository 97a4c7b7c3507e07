"""Rows: sums of products and their gradients are operations on whole rows, and come to what the engine computes."""

import math
import random
import re
from functools import reduce
from operator import sub
from typing import Any
from unittest.mock import ANY

import pytest

import micrograd
from micrograd import Value, dot, functional, logsumexp, losses, maximum, minimum, scalar, scan, take, where
from micrograd.compiler.frontend.rows import SHORTEST_SUM
from micrograd.compiler.frontend.tracer import Trace
from micrograd.compiler.passes.pipeline import program
from tests.helpers import assert_as_engine, eager, grads, half_reading_grad, own
from tests.kernels import graph_of

N = SHORTEST_SUM  # of products


def values(n: int) -> list[Value]:
    """Parameters."""
    return [Value(0.5 - 0.25 * i) for i in range(n)]


def check(function: Any, example: tuple[Any, ...], parameters: list[Value]) -> None:
    """That Python and C compute what the engine does."""
    for backend in "python", "c":
        fast = micrograd.compile(function, example, parameters=parameters, backend=backend)
        assert_as_engine(fast, function, *[[x] for x in example], tolerance=1e-13)


def test_a_dot_is_one_operation_and_so_is_each_gradient() -> None:
    ws, vs, b = values(3), values(3), Value(0.1)

    def function(x: Any) -> Any:
        hidden = [dot(ws, x, b).tanh(), dot(vs, x).tanh()]
        return dot(hidden, hidden)

    graph = graph_of(function, ([1.0, 2.0, 3.0],), [*ws, *vs, b])
    ops = [graph.trace.ops[line] for line in graph.trace.live(graph.ends("backward").lines)]
    assert (ops.count("dot"), ops.count("combination")) == (2, 2)  # the two numbers that are multiplied are no row
    assert graph.added[-2:] == [(("g", 0, 1, 3), ANY), (("g", 3, 1, 3), ANY)]
    check(function, ([1.0, 2.0, 3.0],), [*ws, *vs, b])


def test_a_row_that_comes_again_after_another_with_the_same_first_value_is_the_same_row() -> None:
    ws = values(6)

    def function(x: Any) -> Any:
        return dot(ws[:3], x) * dot(ws[::2], x) + dot(ws[:3], x).tanh()

    graph = graph_of(function, ([1.0, 2.0, 3.0],), ws)
    assert sorted(row for row in graph.trace.slices.values() if row.array == "p") == [("p", 0, 1, 3), ("p", 0, 2, 3)]
    check(function, ([1.0, 2.0, 3.0],), ws)


def plus_products(x: Any, start: Any, ws: list[Any]) -> Any:
    """start + w0 * x0 + w1 * x1 + ..., written with operators."""
    for w, number in zip(ws, x, strict=True):
        start = start + w * number
    return start


def in_layers(total: Any) -> Any:
    """A function whose first layer is that sum of x, a bias, and weights."""
    return lambda x, b, ws: plus_products([0.1, 0.2], total(x, b, ws).tanh(), [x[0], x[2]])


def interleaved(x: Any, b: Any, ws: Any) -> Any:
    """Five sums, a term of each at a time."""
    totals: list[Any] = [b] * 5
    for j in range(N):
        for i in range(5):
            totals[i] = totals[i] + ws[j] * x[i + j]
    return dot([total.tanh() for total in totals], x[:5])


def nested(x: Any, b: Any, ws: Any) -> Any:
    """w2 * x2 + (w1 * x1 + (w0 * x0 + b)), of more terms."""
    return ws[-1] * x[-1] + nested(x[:-1], b, ws[:-1]) if ws else b


WITH_DOT = in_layers(lambda x, b, ws: dot(ws, x[:N], b))
SUMS: dict[str, Any] = {
    "from a number": (in_layers(lambda x, b, ws: plus_products(x[:N], b, ws)), WITH_DOT),
    "nested on the right": (in_layers(lambda x, b, ws: nested(x[:N], b, ws)), WITH_DOT),
    "from nothing": (
        in_layers(lambda x, b, ws: plus_products(x[1:N], ws[0] * x[0], ws[1:])),
        in_layers(lambda x, b, ws: dot(ws, x[:N])),
    ),
    "in two parts": (
        in_layers(lambda x, b, ws: plus_products(x[2:N], plus_products(x[:2], b, ws[:2]), ws[2:])),
        WITH_DOT,
    ),
    "interleaved": (interleaved, lambda x, b, ws: dot([dot(ws, x[i : i + N], b).tanh() for i in range(5)], x[:5])),
}


@pytest.mark.parametrize("form", SUMS)
def test_a_sum_of_products_is_a_dot_however_it_is_written(form: str) -> None:
    ws, b = values(N), Value(0.1)
    written, with_dot = [lambda x, of=function: of(x, b, ws) for function in SUMS[form]]
    example = ([0.1 * i for i in range(N + 4)],)
    graphs = [graph_of(function, example, [*ws, b]) for function in (written, with_dot)]
    kernels = [program(graph, graph.ends("backward")).kernel for graph in graphs]
    assert kernels[0] == kernels[1]
    assert graphs[0].added[-1:] == [(("g", 0, 1, N), ANY)]
    check(written, example, [*ws, b])


def replaced(x: Any, ws: list[Value], which: str) -> Any:
    """A sum of products one of whose nodes is given another number, as for a straight-through gradient."""
    total: Any = 0.0
    for w, number in zip(ws, x, strict=True):
        product = w * number
        if which == "product":
            product.data = scalar.tanh(product.data)
        if which == "product, by a sum":
            product.data = w.data + (number.data if isinstance(number, Value) else number)
        total = total + product
        if which == "partial sum":
            total.data = total.data + 1.0
    if which == "total":
        total.data = total.data + 1.0
    return total * 1.0


@pytest.mark.parametrize("which", ["product", "product, by a sum", "partial sum", "total"])
def test_a_number_that_was_assigned_to_a_part_is_kept(which: str) -> None:
    ws = values(N)
    check(lambda x: replaced(x, ws, which), ([0.1 * i for i in range(N)],), ws)


def test_a_weight_may_have_another_number_for_a_while() -> None:
    ws = values(N)

    def function(x: Any) -> Any:
        first, before = dot(ws, x), ws[1].data
        ws[1].data = 0.0
        second = dot(ws, x)
        ws[1].data = before
        return first * second

    check(function, ([0.1 * i for i in range(N)],), ws)


def partial_sums(x: Any, ws: list[Value]) -> list[Any]:
    """The partial sums: 0, w0 * x0, w0 * x0 + w1 * x1, ..."""
    totals = [Value(0.0)]
    for w, number in zip(ws, x, strict=True):
        totals.append(totals[-1] + w * number)
    return totals


NO_DOTS: dict[str, Any] = {
    "each partial sum is used": lambda x, ws: plus_products(partial_sums(x, ws), Value(0.0), [1.0] * (N + 1)),
    "a product is used twice": lambda x, ws: (
        [product := ws[0] * x[0], plus_products(x[1:], product, ws[1:])][1] + product
    ),
    "too few products": lambda x, ws: plus_products(x[1:], 0.0, ws[1:]),
    "constant factors": lambda x, ws: plus_products([2.0 + i for i in range(N)], 0.0, x),
    "differences": lambda x, ws: reduce(sub, [w * number for w, number in zip(ws, x, strict=True)]),
    "a closure reads gradients": lambda x, ws: half_reading_grad(plus_products(x, 0.0, ws)),
}


@pytest.mark.parametrize("case", NO_DOTS)
def test_these_sums_are_no_dots_in_the_trace(case: str) -> None:
    ws, example = values(N), ([0.1 * i for i in range(N)],)
    graph = graph_of(lambda x: NO_DOTS[case](x, ws), example, ws)
    assert "dot" not in [graph.trace.ops[line] for line in graph.trace.live(graph.outputs)]
    check(lambda x: NO_DOTS[case](x, ws), example, ws)


def test_the_largest_of_many_numbers_is_one_operation() -> None:
    trace = Trace()
    x, y = trace.leaf("x"), trace.leaf("x", 1)
    found = scalar.largest([0.5, x, 2.0, y])
    [row] = trace.operands[found.id]
    assert (trace.ops[found.id], trace.operands[row]) == ("max", (trace.id(0.5), 0, trace.id(2.0), 1))
    ws = values(5)
    graph = graph_of(lambda xs: losses.cross_entropy([w * x for w, x in zip(ws, xs, strict=True)], 2), ([1.0] * 5,), ws)
    assert graph.trace.ops.count("max") == 1
    assert not {">", "where"} & {*graph.trace.ops}


def test_a_cross_entropy_computes_whole_rows() -> None:
    rows = [values(3) for _ in range(5)]
    parameters = [weight for row in rows for weight in row]

    def loss(x: Any, following: Any) -> Any:
        return losses.cross_entropy([dot(row, x) for row in rows], following)

    def weighted(x: Any, following: Any) -> Any:
        return losses.cross_entropy([dot(row, x) for row in rows], following, weight=[1.0, 2.0, 0.5, 0.0, 3.0])

    def in_rounds(x: Any, following: Any) -> Any:
        def step(total: Any, factor: Any) -> tuple[Any, None]:
            return total + loss([number * factor for number in x], following), None

        return scan(step, Value(0.0), [0.5 + i for i in range(8)])[0]

    trace = graph_of(loss, ([1.0, 2.0, 3.0], 2), parameters).trace
    assert [trace.ops.count(op) for op in ("exp", "==", "where")] == [1, 1, 1]
    for function in (loss, weighted, in_rounds):
        check(function, ([0.1, -0.2, 0.3], 2.0), parameters)


def test_weights_that_are_looked_up_and_multiplied_are_scattered_to() -> None:
    table = [values(2), values(2), values(2)]

    def loss(token: Any, following: Any) -> Any:
        x = take(table, token)
        return losses.cross_entropy([dot(row, x) for row in table], following)

    def twice(token: Any, following: Any) -> Any:
        return loss(token, following) + dot(take(table, following), take(table, token)) * loss(following, token)

    def multiplied(token: Any, following: Any) -> Any:
        x, y = take(table, token), take(table, following)
        return losses.cross_entropy([dot(row, x) * dot(row, y) for row in table], following)

    parameters = [weight for row in table for weight in row]
    for function, n in ((loss, 2), (twice, 4), (multiplied, 4)):
        graph = graph_of(function, (1, 2), parameters)
        found = [graph.trace.ops[line] for _, line in graph.added]
        assert found.count("scatter") == n
        check(function, (1.0, 2.0), parameters)


def overlapping(x: Any, ws: Any) -> Any:
    once, more = dot(ws, x), dot([ws[0], ws[0], ws[1]], [x[1], x[2], x[2]])
    return once * more + dot(x, x) + dot(ws, ws[::-1]) + dot([x[0], x[1]], [x[1], x[0]]) * dot([once, once], ws[:2])


def chained(x: Any, ws: Any) -> Any:
    hidden = [dot(row, x) for row in (ws[:4], ws[4:], ws[3::-1])]
    total = micrograd.sum(hidden) * hidden[0] + dot(hidden, hidden)
    return total + dot(hidden, x[:3]) + dot(hidden[:2], x[2:]) * hidden[1] + dot(ws[4:], x) * ws[2]


reversed_gradient = own(lambda w: w, lambda w, grad: w.grad - grad)
LIKE_THE_ENGINE: dict[str, Any] = {
    "overlapping rows": lambda x, ws: overlapping(x, ws[:4]),
    "chained rows": chained,
    "constants in rows": lambda x, ws: (
        dot(ws[:4], [1.0, x[0], 2.0, x[1]]) * dot([x[0] ** 0, *x[1:3]], ws[:3]) + dot(ws[4:], ws[:4])
    ),
    "a row of constants and parameters": lambda x, ws: dot([1.0, 2.0, *ws[:2]], [*ws[:2], *x[:2]], 0),
    "constants 0 and 1": lambda x, ws: dot([0.0, 1.0, *ws[:2]], [*ws[:2], *x[:2]], 0.5),
    "zeros of both signs": lambda x, ws: dot([0.0, -0.0, *ws[:2]], [*ws[:2], *x[:2]], -0.0),
    "several levels": lambda x, ws: functional.grad(lambda y: dot([y, ws[0]], [ws[1], y], y * y))(x[0]) * x[0],
    "numbers without their Values": lambda x, ws: dot(ws[:4], [x[0].data, *x[1:]]) * dot([ws[0].data, *ws[1:4]], x),
    "rows within a derivative": lambda x, ws: functional.grad(lambda y: dot(ws[:3], [y * y, x[1], y]) * y)(x[0]),
    "a discarded sum": lambda x, ws: plus_products(x, where(True, 0.5, plus_products(x, 0.0, ws[:4])), ws[:4]),
    "the largest, alone": lambda x, ws: maximum(*ws) * x[0] + ws[0] * ws[0],
    "the largest in a sum": lambda x, ws: maximum(*ws) + micrograd.sum(ws) + maximum(Value(9.0), *ws[1:]),
    "the largest and a dot": lambda x, ws: dot(ws[:4], x) - maximum(*ws[:4]),
    "a smooth maximum": lambda x, ws: logsumexp([w - maximum(*ws) for w in ws]) + logsumexp(ws),
    "the largest and the least": lambda x, ws: maximum(*ws) - minimum(*ws),
    "the largest twice": lambda x, ws: maximum(*ws) * maximum(*ws) + maximum(*x),
    "the largest and one of its row": lambda x, ws: maximum(*ws) + take(ws, x[0]),
    "the largest of computed numbers": lambda x, ws: (lambda ys: maximum(*ys) + ys[1] * ys[1])([w * w for w in ws]),
    "numbers that are not chosen": lambda x, ws: dot(ws[:3], [take([x[3].sqrt(), x[0], x[1]], x[0]), x[0], x[1]]),
    "the numbers of parameters": lambda x, ws: take([w.detach() for w in ws], x[0]) * 3.0 + ws[0],
    "sums that come to an earlier number": lambda x, ws: ((-0.0 * x[0] ** 0 + -0.0 * x[1] ** 0) + x[2]) * ws[0],
    "a gradient of the user's": lambda x, ws: take(list(map(reversed_gradient, ws)), x[0]) * 3.0 + ws[0],
}


@pytest.mark.parametrize("use", LIKE_THE_ENGINE)
def test_rows_have_the_gradients_of_the_engine_however_they_are_used(use: str) -> None:
    ws = values(8)
    check(lambda x: LIKE_THE_ENGINE[use](x, ws), ([2.0, -1.0, 0.5, 1.5],), ws)


def test_a_row_may_hold_parameters_and_leaves_that_are_none() -> None:
    ws = values(4)
    check(lambda x: ws[2] * ws[3] + dot(ws, x), ([2.0, -1.0, 0.5, 1.5],), ws[:2])


def test_the_gradients_of_weights_at_equal_distances_are_rows() -> None:
    ws, vs, us, rest = values(3), values(3), values(3), values(5)

    def function(x: Any) -> Any:
        total = dot(ws, x) * dot(vs, x) + dot(ws, x).tanh() + vs[1] * x[0]  # vs[1] is used elsewhere, too
        return total * dot([us[2], us[0], us[1]], x) + dot(rest[:2], x[:2]) * dot(rest[::2], x)

    graph = graph_of(function, ([1.0, 2.0, 3.0],), [*ws, *vs, *us, *rest])
    rows = {tuple(to)[1:]: len(graph.trace.operands[line]) for to, line in graph.added if to.size > 1}
    assert rows == {(0, 1, 3): 2, (3, 1, 3): 2, (9, 2, 3): 2}
    assert {to.base for to, _ in graph.added if to.size == 1} == {4, 6, 7, 8, 9, 10}  # alone, out of order, or too few
    check(function, ([1.0, 2.0, 3.0],), [*ws, *vs, *us, *rest])

    def parts(x: Any) -> Any:  # what a row is multiplied by does not lie in one array
        return dot(ws, [x[0], x[0] * x[1], ws[0].tanh()]) + dot(vs, x) ** 2

    assert [row.base for row, _ in graph_of(parts, ([1.0, 2.0, 3.0],), [*ws, *vs]).added[-2:]] == [0, 3]
    check(parts, ([1.0, 2.0, 3.0],), [*ws, *vs])


def table(rows, columns):
    rng = random.Random(1)
    return [[Value(rng.uniform(-1, 1)) for _ in range(columns)] for _ in range(rows)]


@pytest.mark.parametrize("index", [3, -1, 0.5, math.nan, math.inf, 1e300])
def test_an_index_that_is_none_is_an_error_that_names_it_and_its_example_before_anything_has_changed(backend, index):
    [weights], seen = table(1, 3), f"the index is {float(index)!r}: expected a whole number from 0 to 2"
    fast = micrograd.compile(lambda x, i: take(weights, i) * x, (1.0, 0), parameters=weights, backend=backend)
    for n in (2, 9):
        with pytest.raises(ValueError, match=rf"{re.escape(seen)}, in example 1\b"):
            fast.backward([1.0] * n, [2, index] + [0] * (n - 2))
        assert grads(weights) == [0.0, 0.0, 0.0]
    with pytest.raises(ValueError, match=rf"{re.escape(seen)}(, in line|$)"):
        fast(1.0, index)


CHOICES = {
    "no row": lambda w, i: take([w[0], w[1], w[3]], i) ** 2 * 3,
    "a row in reverse": lambda w, i: take([w[2], w[1], w[0]], i) ** 2,
    "one twice": lambda w, i: take([w[0], w[0], w[1]], i) ** 2,
    "one that is no parameter": lambda w, i: take([w[0], Value(5.0), w[1]], i) ** 2,
    "a row twice": lambda w, i: take(w, i) * take(w, i) * take(w, 3 - i) + w[1] * w[2],
    "a condition": lambda w, i: take(w[:2], i > 1) * i,
    "conditions": lambda w, i: take(w[:2], (i > 1) & (i < 2.5)) * i,
    "a condition that holds": lambda w, i: take(w[:2], i == i) * i,
    "a row beside parts of it": lambda w, i: 2 * take(w[:3], i) + where(i == 0, w[0], 0.0) + w[1].relu(),
    "a row without gradients": lambda w, i: take(w[:3], i).detach() + w[0],
    "a row beside a choice of no whole index": lambda w, i: (
        take(w[:3], i) + micrograd.sum([where(i == k + 0.5, x, 0.0) for k, x in enumerate(w)])
    ),
    "a row beside a choice of infinity": lambda w, i: take(w[:3], i) + where(i == math.inf, w[1], 0.0),
}


@pytest.mark.parametrize("name", CHOICES)
def test_a_choice_has_the_value_and_the_gradients_that_the_engine_gives_it(backend, name):
    function, [weights] = CHOICES[name], table(1, 4)
    fast = micrograd.compile(lambda i: function(weights, i), (0,), parameters=weights, backend=backend)
    for n in 3, 9:  # one by one, and in lanes
        assert_as_engine(fast, lambda i: function(weights, i), [float(i % 3) for i in range(n)])


def test_a_choice_of_one_is_checked_all_the_same(backend):
    fast = micrograd.compile(lambda x, i: take([x * x], i), (1.0, 0), backend=backend)
    assert fast.value_and_grad(3.0, 0) == (9.0, (6.0, 0.0))
    with pytest.raises(ValueError, match=r"the index is 1\.0: expected a whole number from 0 to 0"):
        fast(3.0, 1)


def test_an_index_that_is_known_while_tracing_leaves_no_choice(backend):
    [weights] = table(1, 4)
    fast = micrograd.compile(lambda x: take(weights, 2) * x, (1.0,), parameters=weights, backend=backend)
    assert "take" not in fast.source
    assert fast(2.0) == 2 * weights[2].data
    assert micrograd.compile(lambda x: take([x, 2 * x], x**0), (3.0,), backend=backend)(3.0) == 6.0


def test_derivatives_within_a_compiled_function_go_through_an_index(backend):
    def f(x, i):
        return functional.grad(lambda v: take([v * v, v**3, v], i) * v)(x)

    fast = micrograd.compile(f, (1.0, 0), backend=backend)
    assert [fast(2.0, i) for i in range(3)] == [12.0, 32.0, 4.0]
    assert [fast.value_and_grad(2.0, i)[1][0] for i in range(3)] == [12.0, 48.0, 2.0]


@pytest.mark.parametrize("form", ["layers", "a residual", "a row twice", "windows", "lookups"])
def test_rows_used_alone_or_with_others_have_the_gradients_of_the_engine(form: str) -> None:
    rng = random.Random(2)
    ws, vs, us = ([[Value(rng.uniform(-1, 1)) for _ in range(6)] for _ in range(6)] for _ in range(3))

    def function(x: Any) -> Any:
        hidden = [dot(w, x).tanh() for w in ws]
        if form == "a residual":
            hidden = [dot(v, hidden) + a * 0.1 for a, v in zip(hidden, vs, strict=True)]
        if form == "a row twice":
            hidden = [dot(v, hidden).tanh() * dot(v, x) for v in vs]
        if form == "windows":
            hidden = [dot(vs[0][:3], (hidden + hidden)[i : i + 3]) for i in range(6)]
        if form == "lookups":
            hidden = [a * b for a, b in zip(take(vs, x[0] - x[0] + 2.0), hidden, strict=True)]
        return micrograd.sum([dot(u, hidden).tanh() for u in us])

    parameters = [w for row in (*ws, *vs, *us) for w in row]
    example = [rng.uniform(-1, 1) for _ in range(6)]
    check(function, (example,), parameters)
    fast = micrograd.compile(function, (example,), parameters=parameters, backend="python")
    value, gradients = eager(function, example)
    assert fast.value_and_grad(example) == (value, pytest.approx(gradients, rel=1e-12, abs=1e-14))


def test_a_gradient_read_midway_does_not_change_later() -> None:
    ws = values(2)
    kept = []

    keeping = own(lambda y: y * 1, lambda y, grad: kept.append(ws[0].grad) or y.grad + grad)
    using = own(lambda y: y * 1, lambda y, grad: y.grad + grad * kept[-1])

    def function(x: Any) -> Any:
        inner = using(dot(ws, [x, x * x]))
        return dot(ws, [keeping(dot(ws, [inner, x])), x])

    check(function, (0.5,), ws)


def test_a_closure_reads_the_gradient_that_a_take_added() -> None:
    ws = values(4)

    def reading(w: Value, u: Value) -> Value:
        def backward(grad: Any) -> None:
            w.grad += grad * 0.5
            u.grad += grad * 2.0 + w.grad * 0.25

        return Value(w.data * 0.5 + u.data * 2.0, (w, u), "reading", backward)

    def function(i: Any) -> Any:
        read = reading(ws[0], ws[3])
        return read * take(ws[:3], i)

    check(function, (0.0,), ws)
