"""Irregular programs become loops over tables, and compute what the engine does."""

import random

import pytest

import micrograd
from micrograd import Value, dot
from micrograd.compiler.ir import Assign, Loop, Ref, Switch, length, refs, show, span
from micrograd.compiler.passes import pipeline
from micrograd.compiler.passes.pipeline import program
from micrograd.compiler.passes.sums import in_steps
from tests.compiler.targets.test_javascript import assert_same_backward
from tests.helpers import assert_close, backward, eager, flat, needs_compiler
from tests.kernels import everything, graph_of

N = 20


def cholesky(a):
    """The logarithm of the determinant of a matrix that is positive definite."""
    factor = []
    for i, row in enumerate(a):
        factor.append([])
        for j in range(i + 1):
            rest = row[j] - dot(factor[i], factor[j][:j]) if j else row[0]
            factor[i].append(rest.sqrt() if i == j else rest / factor[j][j])
    return micrograd.sum([row[-1].log() for row in factor])


def elimination(a):
    """The same, by Gauss."""
    a, total = [list(row) for row in a], 0.0
    for k, pivots in enumerate(a):
        total = total + pivots[k].log() / 2
        for row in a[k + 1 :]:
            ratio = row[k] / pivots[k]
            row[k:] = [x - ratio * y for x, y in zip(row[k:], pivots[k:], strict=True)]
    return total


def matrix(n):
    rng = random.Random(n)
    rows = [[rng.uniform(-1, 1) for _ in range(n)] for _ in range(n)]
    return [[sum(x * y for x, y in zip(a, b, strict=True)) + n * (a is b) for a in rows] for b in rows]


def of_flat(function):
    """The function of a matrix that is given as one list."""
    return lambda xs: function([xs[i : i + N] for i in range(0, N * N, N)])


@pytest.mark.parametrize("function", [cholesky, elimination])
def test_the_kernel_of_a_triangular_program_is_short(function, monkeypatch):
    monkeypatch.setattr(pipeline, "LARGE_BLOCKS", 3)  # as larger matrices have
    graph = graph_of(function, (matrix(N),))
    short = program(graph, everything(graph)).kernel
    monkeypatch.setattr(pipeline, "ORDERS", ("level", "trace"))
    long = program(graph, everything(graph)).kernel
    assert 4 * length(in_steps(short)) < length(in_steps(long))
    assert "in 3+i" in show(short)  # the rows of a triangle


@needs_compiler
@pytest.mark.parametrize("function", [cholesky, elimination])
def test_c_computes_what_the_engine_does(function):
    numbers = flat(matrix(N))
    value, gradient = eager(of_flat(function), numbers)
    fast = micrograd.compile(of_flat(function), (numbers,), backend="c")
    found, its = fast.value_and_grad(numbers)
    assert_close([found, *its], [value, *gradient])
    parameters = list(map(Value, numbers))
    scaled = micrograd.compile(lambda x: of_flat(function)(parameters) * x, (1.0,), parameters=parameters, backend="c")
    assert "static const short backward_one_offsets0[]" in scaled.c_source
    for xs in ([2.0], [0.25] * 8):  # one by one, and in lanes
        assert_close(backward(scaled, xs), [x * xs[0] for x in (value, *gradient)])


def test_javascript_computes_what_python_does(tmp_path):
    rows = [list(map(Value, row)) for row in matrix(N)]
    fast = micrograd.compile(lambda x: cholesky(rows) * x, (1.0,), parameters=flat(rows), backend="python")
    assert_same_backward(tmp_path, fast, [1.0, 0.5])
    assert "new Int32Array([\n  0, " in (tmp_path / "model.mjs").read_text()


def test_what_does_not_advance_evenly_is_shown_with_its_tables():
    ref = Ref("t0", 7, ((0, 4, -1), 2))
    loop = Loop(Ref("", 2, ((0, -1, 1),)), (Assign(Ref("y", 0, (2, 1)), ref),))
    other = Assign(Ref("y", 9, (1,)), Ref("x", 0, (0,)))
    kernel = [Switch((0, 1, 0, 0, 1), ((loop,), (other,)))]
    assert show(kernel).splitlines() == [
        "switch [0, 1, 0, 0, 1]:",
        "    case 0, for i:",
        "        for j in 2+[0, -1, 1][i]:",
        "            y[2i+j] = t0[7+2j+[0, 4, -1][i]]",
        "    case 1, for i:",
        "        y[9+i] = x[0]",
    ]
    assert length(kernel) == 4  # one for the tables
    assert [rounds for _, rounds in refs(tuple(kernel))] == [(3, 3), (3, 3), (2,), (2,)]
    assert span(ref, (3, 3)) == (6, 15)


@needs_compiler
def test_a_loop_stays_a_loop_and_a_result_may_be_given_twice(monkeypatch):
    monkeypatch.setattr(pipeline, "ORDERS", ("tables",))

    def function(xs):
        state, ys = micrograd.scan(lambda s, x: (s * x * x + x, s * x), xs[0], xs)
        return [state, *ys, state, xs[0], 2.5]

    numbers = [0.1 * k for k in range(9)]
    assert_close(micrograd.compile(function, (numbers,), backend="c")(numbers), flat(function(numbers)))


@needs_compiler
def test_what_is_added_after_the_loop_over_examples_is_apart_from_gradients(monkeypatch):
    monkeypatch.setattr(pipeline, "ORDERS", ("tables",))
    parameters = [Value(0.1 * i) for i in range(8)]

    def function(x):
        products = dot(parameters[:5], [x[i] for i in (3, 0, 7, 2, 5)]) * x[1]
        return products + parameters[6].exp() * x[0] * x[1] + parameters[7].exp() * x[4] * x[6]

    examples = [[0.1 * i + x for x in (0.2, 0.5, 0.7, 0.1, 0.3, 0.9, 0.4, 0.8)] for i in range(9)]
    both = [micrograd.compile(function, (examples[0],), parameters=parameters, backend=of) for of in ("c", "python")]
    assert_close(*[backward(fast, examples) for fast in both])
