"""The compiler's C: the same numbers, rolled loops, exported files, and a toolchain that may fail anywhere."""

import math
import random
import re
from functools import reduce
from itertools import accumulate

import pytest

import micrograd
from micrograd import Value, dot, where
from micrograd.compiler.frontend.graph import Graph
from micrograd.compiler.frontend.tracer import Trace
from micrograd.compiler.ir import Assign, Loop, Ref, Sum, Term, refs
from micrograd.compiler.passes import pipeline
from micrograd.compiler.passes.lower import lower
from micrograd.compiler.passes.pipeline import Program
from micrograd.compiler.targets import c
from tests import helpers
from tests.helpers import NESTS, assert_as_engine, assert_close, backward, eager, flat, large, lookups, needs_compiler

UNLIKE = [Value.sin, Value.cos, Value.tanh, Value.erf, Value.asinh, Value.atan]
"""Operations of which no loop is made."""


@needs_compiler
@pytest.mark.parametrize("n", [1, 3, 7, 8, 9, 17])
def test_a_derivative_that_does_not_exist_is_an_error_in_any_place_of_a_batch_and_poisons_nothing(n):
    p = Value(1.0)
    fast = micrograd.compile(lambda x: (p * x).sqrt(), (1.0,), parameters=[p], backend="c")
    assert backward(fast, [4.0] * n) == pytest.approx([2.0, 1.0])
    other = micrograd.compile(lambda x: (p - x).sqrt(), (1.0,), parameters=[p], backend="c")
    for place in range(n):
        p.grad = 0.25
        counted = f".* in example {place}, counted from 0$" if n > 1 else ""
        with pytest.raises(ZeroDivisionError, match=rf"of sqrt\(0\.0\) cannot be taken{counted}"):
            other.backward([1.0 if k == place else 0.0 for k in range(n)])
        assert p.grad == 0.25


def library_text(fast, kind, tile, **options):
    """The C of a library for tiles of examples, or for one at a time if the tile is 0."""
    graph = fast._first_graph()
    return c.library_source(pipeline.program(graph, graph.ends(kind)), tile=tile, **options)


@needs_compiler
def test_sums_are_added_up_in_order_in_lanes_and_in_eight_parts_for_few_examples():
    rng = random.Random(1)
    numbers = [rng.uniform(-1, 1) for _ in range(50)]
    w = [Value(number) for number in numbers]
    fast = micrograd.compile(lambda xs: micrograd.dot(w, xs, 0.25), (numbers,), parameters=w, backend="c")
    expected = micrograd.dot(w, numbers, 0.25).data
    assert fast.map([numbers] * 5) == [expected] * 5
    assert_close(fast.map([numbers] * 4), [expected] * 4, 1e-15)
    for value, number in zip(w, [1e308, -1e308] * 25, strict=True):
        value.data = number
    assert fast.map([[1.0] * 50] * 5) == [0.25 + 1e308 - 1e308] * 5
    assert not math.isfinite(fast([1.0] * 50))


@needs_compiler
@pytest.mark.parametrize(
    "of", [micrograd.logsumexp, lambda xs: dot(micrograd.losses.softmax(xs), xs)], ids=["logsumexp", "softmax"]
)
def test_long_rows_are_added_up_where_they_are_computed(of):
    xs = [math.sin(i) for i in range(1100)]
    fast = micrograd.compile(of, (xs,), backend="c")
    loops = re.findall(r"    (?:PARALLEL )?for .*? i0 < (\d+)", library_text(fast, "forward", 0))
    assert "8" in loops
    assert "1100" not in loops
    assert_close(flat(list(fast.value_and_grad(xs))), flat(list(eager(of, xs))))


@needs_compiler
def test_a_large_network_is_rolled_into_loops():
    model, loss, batch = large(40, 30)
    fast = micrograd.compile(loss, (batch[0],), parameters=model.parameters(), backend="c")
    for examples in (batch, batch * 3):  # one by one with dot, and as many at once as there are lanes
        assert_as_engine(fast, loss, examples)
    assert "for (long i0 = 0;" in fast.c_source
    assert fast.c_source.count("\n") < len(model.parameters()) + 220
    assert " = dot(sum" in library_text(fast, "backward", 0)
    assert_close([fast(batch[1])], [loss(batch[1]).data])
    assert_close(fast.value_and_grad(batch[1])[1], eager(loss, batch[1])[1])


def last_of_a_loop(xs):
    """The last round is needed after the loop."""
    total = xs[8]
    for x in xs[:8]:
        last = x.tanh()
        total = total + last
    return [total, last, last * total]


def products_of_sums(xs):
    """Two numbers that a loop carries on: a sum of products, and the product of such sums."""
    total, product = xs[0], xs[0]
    for x in xs[1:]:
        total = total + x * x
        product = product * total
    return [product, total]


def every_other(xs):
    """A loop reads every other number of what was computed singly."""
    every, other = [], []
    for x, operation in zip(xs, UNLIKE, strict=False):
        every.append(x.exp())
        other.append(operation(x))
    return [micrograd.dot(every, xs[:6], 1.0), other[0] * other[1] - other[2] / other[3] + other[4] ** 2 % other[5]]


def in_reverse(xs):
    """A sum of several terms a round, which lie in reverse."""
    result = xs[0]
    for k in range(1, 8, 2):
        result = result + xs[k + 1] * xs[0] + xs[k] * xs[0]
    return [result]


LOOPS = [
    last_of_a_loop, lambda xs: list(accumulate(xs)), lambda xs: list(accumulate(xs, lambda s, x: s + x * x)),
    products_of_sums, every_other, in_reverse, lookups,
]  # fmt: skip


@needs_compiler
@pytest.mark.parametrize("function", LOOPS)
def test_loops_compute_what_the_engine_does(function):
    numbers = [0.1 * k + 0.05 for k in range(9)]
    fast = micrograd.compile(function, (numbers,), backend="c")
    for results in (fast(numbers), *fast.map([numbers] * 5)):
        assert_close(results, [v.data for v in function([Value(x) for x in numbers])])


@needs_compiler
@pytest.mark.parametrize("dot", [micrograd.dot, helpers.products])
@pytest.mark.parametrize("function", NESTS)
def test_nests_compute_what_the_engine_does(function, dot):
    rng = random.Random(5)
    ws = [[Value(rng.uniform(-0.5, 0.5)) for _ in range(9)] for _ in range(9)]
    batch = [[rng.uniform(-1, 1) for _ in range(9)] for _ in range(5)]
    parameters = [w for row in ws for w in row]

    def nest(xs):
        return function(ws, xs, dot)

    fast = micrograd.compile(nest, (batch[0],), parameters=parameters, backend="c")
    assert "i1 < " in fast.c_source
    for examples in (batch[:1], batch):
        assert_as_engine(fast, nest, examples)
    assert_close(*[flat(list(found)) for found in (fast.value_and_grad(batch[1]), eager(nest, batch[1]))])


def test_results_and_arguments_are_copied_in_loops_however_many_they_are():
    fast = micrograd.compile(lambda *xs: [x.sin() for x in xs] + [xs[0], xs[-1]], tuple([0.5] * 300), backend="python")
    source = library_text(fast, "forward", 1)
    assert source.count("\n") < 300
    assert source.count("gather(xs + ") == 1


@needs_compiler
def test_inputs_that_all_examples_share_are_read_once_for_all_lanes():
    def function(w, v, x):
        return [*(dot(row, x) for row in w), *((a * 2.0).sin() for a in (*w[0], *w[1], *v))]

    w, v, *xs = [[0.1 * (i + j) for i in range(40)] for j in range(45)]
    fast = micrograd.compile(function, ([w, v], v, w), backend="c", in_axes=(None, 0, 0))
    assert_close(flat(fast.map([w, v], xs, xs)), flat([fast([w, v], x, x) for x in xs]))
    source = library_text(fast, "forward", 4)
    assert "U(u[i0]) * x[120 + i0]" in source
    assert "x[i0][k] * U(2.0)" in source  # over the numbers of two arguments
    apart = micrograd.compile(dot, (xs[0], xs[0]), backend="c", in_axes=(None, 0))
    sources = source, library_text(apart, "forward", 4)
    assert [("share(u + 0," in each, "gather(xs + 0," in each) for each in sources] == [(True, True), (True, False)]


def test_a_reference_that_one_of_two_loops_reads_past_the_shared_argument_stays_one_to_x():
    sums = [Sum((Loop(n, (Term("+", (Ref("x", 0, (0, 1)),)),)),)) for n in (5, 10)]
    steps = [Assign(Ref("y", 3 * i, (1,)), value) for i, value in enumerate(sums)]
    graph = Graph(Trace(), ((5,), (5,)), (True, False))
    (part,) = lower(Program([Loop(3, tuple(steps))], [], 6, graph, {}), "lanes").parts
    assert {ref.array for ref, _ in refs(tuple(part))}.isdisjoint("u")


def test_a_triangle_whose_span_begins_before_its_argument_is_read_from_there():
    terms = Loop(Ref("", 1, (1,)), (Term("+", (Ref("x", 0, (1, -1)),)),))  # at most 4 rounds, as far as a span can tell
    kernel = [Loop(4, (Assign(Ref("y", 0, (1,)), Sum((terms,))),))]
    (part,) = lower(Program(kernel, [], 4, Graph(Trace(), ((5,), (5,)), (False, True)), {}), "lanes").parts
    assert {ref.array for ref, _ in refs(tuple(part))}.isdisjoint("u")


@needs_compiler
@pytest.mark.parametrize("term", [lambda x, a: x, lambda x, a: x * a], ids=["numbers", "multiples"])
@pytest.mark.parametrize("operation", [Value.__add__, Value.__sub__])
@pytest.mark.parametrize("order", [1, -1])
def test_sums_over_a_row_are_added_up_at_once_for_few_examples(operation, term, order):
    def function(a, xs):
        return reduce(operation, [term(x, a) for x in xs[::order]], a * 1.5)

    arguments = 0.7, [0.1 * (i - 5) for i in range(21)]
    fast = micrograd.compile(function, arguments, backend="c")
    assert fast(*arguments) == pytest.approx(eager(function, *arguments)[0], rel=1e-14)
    assert "= scaled(sum" in library_text(fast, "forward", 0)


@pytest.mark.parametrize(("n", "is_long"), [(256, False), (257, True)])
def test_the_addresses_of_a_long_loop_are_its_own(n, is_long):
    fast = micrograd.compile(lambda xs: [2.0 * x for x in xs], ([1.0] * n,), backend="python")
    assert ("HIDDEN(x0) HIDDEN(y) PARALLEL for" in library_text(fast, "forward", 0)) == is_long


@pytest.mark.parametrize("reads_several", [False, True])
def test_arguments_of_an_example_are_read_in_place_unless_a_loop_reads_several(reads_several):
    def function(xs, ys):
        numbers = [*xs, *ys]
        return sum(a * b for a, b in zip(numbers, numbers[::-1] if reads_several else ys, strict=False))

    rows = [[0.1 * i + k for i in range(20)] for k in range(2)]
    fast = micrograd.compile(function, rows, backend="c")
    assert fast(*rows) == pytest.approx(function(*rows), rel=1e-14)
    assert ("numbers_of(x + 1," in library_text(fast, "forward", 0)) == (not reads_several)


def test_what_single_statements_of_one_function_use_is_in_variables():
    chained = micrograd.compile(lambda x: [reduce(lambda y, of: of(y), UNLIKE, x)], (1.0,), backend="python").c_source
    assert "t[" not in chained.replace("real t[1];", "")
    assert "y[i0] = exp(x[i0])" in micrograd.compile(lambda xs: [x.exp() for x in xs], ([1.0] * 5,)).c_source


@pytest.mark.parametrize("n", [3, 9])
def test_a_slot_is_used_again_once_nothing_reads_its_number(n):
    def function(xs):
        for k in range(n):  # loops, each of which needs all of the one before
            xs = [UNLIKE[k % len(UNLIKE)](x - 2.0 * y) for x, y in zip(xs, reversed(xs), strict=True)]
        return xs

    source = micrograd.compile(function, ([1.0] * 5,), backend="python").c_source
    assert source.count("for (long i") == n
    assert "needs 80 bytes of the stack, and what the compiler adds" in source


@needs_compiler
def test_the_c_of_every_kind_of_library_compiles_without_a_warning(optimized, no_warnings):
    p = Value(2.0)

    def function(x):
        return where((x > 0) & (x < 9), p * x % 3, x.tanh()) ** x + abs(x).softplus() / 7

    for parameters in ([Value(1.0)], [p]):
        fast = micrograd.compile(function, (1.0,), parameters=parameters, backend="c")
        for n in (1, 32):
            fast.map([0.5] * n)
            fast.backward([0.5] * n)
        fast.value_and_grad(0.5)
        assert len(fast._code[((),)]._libraries) == 5
