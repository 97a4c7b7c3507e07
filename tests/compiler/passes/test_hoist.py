"""Hoisting: what is the same for all examples is computed once, and numbers, gradients and errors stay the same."""

import math
import pickle
import random
from concurrent.futures import ThreadPoolExecutor

import pytest

import micrograd
from micrograd import Backend, Value, dot, logsumexp, maximum, minimum, take, where
from micrograd.compiler.passes.pipeline import program_for_many
from micrograd.optim import SGD
from tests.helpers import assert_as_engine, assert_close, backward, large, lookups, needs_compiler
from tests.kernels import graph_of

N = 4


def softplus(w):
    return (1 + w.exp()).log()


def mixture(xs, w):
    """A mixture of Gaussians with priors, parametrized by the logarithms of widths."""
    parts, prior = [], 0.0
    for share, centre, widths in zip(w[:3], (w[3:7], w[7:11], w[11:15]), (w[15:19], w[19:23], w[23:27]), strict=True):
        precisions = [width.exp() for width in widths]
        away = [(x - m) * e for x, m, e in zip(xs, centre, precisions, strict=True)]
        parts.append(share + micrograd.sum(widths) - 0.5 * dot(away, away))
        prior = prior + 0.5 * dot(precisions, precisions)
    return logsumexp(parts) - logsumexp(w[:3]) + 0.01 * prior


def penalized(xs, w):
    return (dot(w[:4], xs) - 1.0) ** 2 + 0.1 * dot(w[:4], w[:4]) + 0.01 * micrograd.sum([abs(each) for each in w[4:]])


def tied(xs, w):
    """Rows of parameters and of computed numbers, both in the penalty and in the sum over examples."""
    rates = [softplus(each) for each in w[:4]]
    along = rates[0] * w[20] + rates[1] * w[21] + rates[2] * w[22] + rates[3] * w[23]
    penalty = dot(rates, rates) * dot(w[4:8], rates) + dot(w[4:8], w[8:12])
    return along * xs[0] + dot(rates, xs).sin() + dot(w[4:8], xs) ** 2 + penalty


def quantized(xs, w):
    return dot([where(each > 0.2, 0.25, each.floor() + each * each) for each in w[:4]], xs) ** 2 * w[4].exp()


def all_the_same(xs, w):
    return dot(w[:9], w[9:18]).tanh()


def chosen(xs, w):
    rates = [each.exp() for each in w[:3]]
    larger = maximum(rates[0], rates[1] / 3)
    found = micrograd.sum(lookups([each.exp() for each in w[3:11]]))
    return take(rates, w[0] * 0) * xs[0] * found + larger * xs[1] - softplus(w[5]) * xs[2] / (2 - rates[2])


def nearest(xs, w):
    """The square of the distance to the nearest of three points, without |x|^2: the shares of the points are a row."""
    return minimum(*[dot(point, point) - 2 * dot(point, xs) for point in (w[:4], w[4:8], w[8:12])])


def twins(xs, w):
    """Two rows of parameters that get the same gradient."""
    return dot(w[:4], xs) + dot(w[4:8], xs) + xs[0] * w[8].exp()


def in_rounds(xs, w):
    """Loops over parameters alone: the rounds of one read the example, and those of the other do not."""
    along, _ = micrograd.scan(lambda state, p: (state + p.exp() * xs[0], None), 0.0, w[:9])
    size, _ = micrograd.scan(lambda state, p: (state + p.exp() * p, None), 0.0, w[9:18])
    return along * along * size


PROGRAMS = [mixture, penalized, tied, quantized, all_the_same, chosen, nearest, twins, in_rounds]


def parameters():
    rng = random.Random(5)
    return [Value(rng.uniform(0.1, 0.6)) for _ in range(27)]


def examples(n, size=N):
    rng = random.Random(n)
    return [[rng.uniform(-1, 1) for _ in range(size)] for _ in range(n)]


@needs_compiler
@pytest.mark.parametrize("program", PROGRAMS)
def test_values_and_gradients_equal_the_engines(program):
    w = parameters()
    fast = micrograd.compile(lambda xs: program(xs, w), (examples(1)[0],), parameters=w, backend="c")
    assert "before" in fast.stages
    for n in (1, 5, 33):
        assert_as_engine(fast, lambda xs: program(xs, w), examples(n), start=0.5)


@needs_compiler
def test_another_thread_than_the_one_that_traced_may_make_the_first_call():
    w, points = parameters(), examples(9)
    fast = micrograd.compile(lambda xs: mixture(xs, w), (points[0],), parameters=w, backend="c")
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(fast.backward, points).result() == fast.backward(points)


@needs_compiler
@pytest.mark.parametrize("options", [{"threads": 2}, {"precision": "single"}])
def test_threads_and_floats(options, threads_pay):
    w, points = parameters(), examples(401)
    fast = micrograd.compile(lambda xs: mixture(xs, w), (points[0],), parameters=w, backend=Backend("c", **options))
    assert_as_engine(fast, lambda xs: mixture(xs, w), points, tolerance=1e-5 if "precision" in options else 1e-12)


@needs_compiler
def test_shared_arguments_are_hoisted_like_parameters():
    w = parameters()

    def function(xs, scale, index):
        return (dot(w[:4], xs) * scale[0].exp()).tanh() + take(w[4:9], index) ** 2 * scale[1].sin() * 3

    shared = ([0.3, 0.7], 2.0)
    fast = micrograd.compile(function, (examples(1)[0], *shared), parameters=w, backend="c", in_axes=(0, None, None))
    assert "h[" in fast.stages["roll"]
    assert_as_engine(fast, function, examples(9), *shared)


@needs_compiler
@pytest.mark.parametrize(("function", "error"), [
    (lambda x, p: x * (1 / p), r"division by zero|1/0"),
    (lambda x, p: x * (p - 1).log(), "log"),
    (lambda x, p: x * (800 - 400 * p).exp(), r"exp\(800\.0\)"),
    (lambda x, p: x * p.sqrt().exp(), r"derivative of sqrt\(0\.0\)"),
])  # fmt: skip
def test_errors_equal_the_engines(function, error):
    p = Value(2.0)
    fast = micrograd.compile(lambda x: function(x, p), (1.0,), parameters=[p], backend="c")
    assert math.isfinite(fast.backward([1.0] * 9))
    p.data, p.grad = 0.0, 0.25
    with pytest.raises((ArithmeticError, ValueError), match=error):
        fast.backward([1.0] * 9)
    assert p.grad == 0.25


@needs_compiler
def test_training_on_examples_of_several_shapes_takes_the_engines_steps():
    points, found = [examples(1, size=3 + i % 2)[0] for i in range(14)], []
    for backend in "c", "python":
        w = parameters()
        fast = micrograd.compile(
            lambda xs, w=w: (dot([softplus(p) for p in w[: len(xs)]], xs) - 1) ** 2 + penalized([*xs, 0.5][:4], w),
            (points[0],), parameters=w, backend=backend,
        )  # fmt: skip
        with fast.training(SGD(w, learning_rate=0.05)) as step:
            found.append([*(step(points) for _ in range(5)), *(p.data for p in w)])
    assert_close(*found)


def test_a_network_stays_in_the_loop():
    model, loss, points = large(6, 4)
    graph = graph_of(loss, points[:1], model.parameters())
    assert program_for_many(graph, graph.ends("backward")).before is None


def test_the_graph_stays_as_it_was():
    w = parameters()
    graph = graph_of(lambda xs: tied(xs, w), examples(1), w)
    before = pickle.dumps(graph)
    assert program_for_many(graph, graph.ends("backward")).before
    assert pickle.dumps(graph) == before


def test_infinite_factors_make_infinite_gradients():
    p = Value(1000.0)
    fast = micrograd.compile(lambda x: where(x > 0, p.exp() * x, 0), (1.0,), parameters=[p], backend="c", errors="ieee")
    assert backward(fast, [1.0, -1.0] * 4) == [math.inf] * 2
    assert backward(fast, [-1.0] * 8) == pytest.approx([0.0, math.nan], nan_ok=True)


@needs_compiler
def test_examples_select_rows_of_parameters():
    w, indices = parameters(), [0.0, 2.0, 1.0, 2.0, 3.0, 0.0]

    def function(i):
        return take(w[4:8], i) * w[0].exp() + dot(w[4:8], [softplus(p) for p in w[8:12]])

    fast = micrograd.compile(function, (0.0,), parameters=w, backend="c")
    assert_as_engine(fast, function, indices)


@needs_compiler
def test_wide_layers_of_hoisted_weights_and_before_the_loop():
    rng, width = random.Random(3), 40
    w = [[Value(rng.uniform(-0.3, 0.3)) for _ in range(width)] for _ in range(5)]
    wide, shared = examples(70, width), examples(1, width)[0]

    def function(xs, context):
        scale = micrograd.sum([dot(row, context).tanh() for row in w])
        rows = [[(p * scale).exp() for p in row] for row in w]
        return micrograd.sum([dot(row, xs).tanh() for row in rows])

    leaves = [p for row in w for p in row]
    fast = micrograd.compile(function, (wide[0], shared), parameters=leaves, backend="c", in_axes=(0, None))
    assert_as_engine(fast, function, wide, shared, tolerance=1e-11)
