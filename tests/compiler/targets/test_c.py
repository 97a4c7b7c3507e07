"""The compiler's C: the same numbers, rolled loops, exported files, and a toolchain that may fail anywhere."""

import concurrent.futures
import copy
import ctypes
import errno
import logging
import math
import multiprocessing
import os
import pickle
import random
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import nullcontext, suppress
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest
from hypothesis import Phase, given
from hypothesis import strategies as st

import micrograd
from micrograd import Backend, Value, dot, functional, mean, scalar, take, where
from micrograd.compiler import CompilerError, passes
from micrograd.compiler.frontend import graph as graph_module
from micrograd.compiler.native import library, toolchain
from micrograd.compiler.targets import c
from micrograd.nn import MLP
from micrograd.optim import SGD
from tests.helpers import (
    assert_close,
    eager,
    grads,
    graphs,
    has_compiler,
    moons,
    needs_compiler,
    random_examples,
    run,
    softmaxes,
)  # fmt: skip
from tests.operations import FUNCTIONS, OPERATIONS

UNLIKE = [Value.sin, Value.cos, Value.tanh, Value.erf, Value.asinh, Value.atan]
"""Operations of which no loop is made."""


# Numbers


@pytest.fixture
def optimized(monkeypatch):
    """The C compiler, and not the one without optimization."""
    monkeypatch.setenv("CC", "cc")


def apply(operation, *operands):
    return operation.apply(*operands)


@needs_compiler
@given(st.lists(graphs(), min_size=8, max_size=8))
@random_examples(2, phases=[Phase.generate])  # a smaller example would take minutes of C
def test_random_graphs_agree_with_the_engine(several):
    """Several in one function, since it is the C compiler that takes the time."""
    parameters = [[Value(x) for x in numbers] for numbers, _ in several]

    def total(leaves):
        return micrograd.sum([run(xs, steps, apply) for xs, (_, steps) in zip(leaves, several, strict=True)])

    leaves = [numbers for numbers, _ in several]
    value, expected = eager(total, leaves)
    one_by_one = micrograd.compile(total, (leaves,), backend="c").value_and_grad(leaves)
    in_lanes = micrograd.compile(
        lambda _: total(parameters), (0.0,), parameters=[p for ps in parameters for p in ps], backend="c"
    ).backward([0.0] * 5)
    assert_close([one_by_one[0], in_lanes], [value, value])
    for gradient, ps, other in zip(one_by_one[1], parameters, expected, strict=True):
        assert_close(gradient, other)
        assert_close(grads(ps), other)


@needs_compiler
@given(st.lists(graphs(), min_size=4, max_size=4))
@random_examples(2, phases=[Phase.generate])
def test_second_derivatives_of_random_graphs_agree_with_the_engine(several):
    def hessians(leaves):
        return [
            functional.hessian(lambda xs, steps=steps: run(xs, steps, apply))(xs)
            for xs, (_, steps) in zip(leaves, several, strict=True)
        ]

    leaves = [numbers for numbers, _ in several]
    for matrix, expected in zip(
        micrograd.compile(hessians, (leaves,), backend="c")(leaves), hessians(leaves), strict=True
    ):
        assert_close([x for row in matrix for x in row], [x for row in expected for x in row])


def every_operation(xs):
    return [operation.apply(*x) for operation, x in zip(OPERATIONS, xs, strict=True)]


@needs_compiler
def test_every_operation_compiles_and_agrees_with_the_engine():
    points = [operation.points + operation.edges for operation in OPERATIONS]
    rounds = [[list(p[k % len(p)]) for p in points] for k in range(max(map(len, points)))]
    values = micrograd.compile(every_operation, (rounds[0],), backend="c").map(rounds)
    total = micrograd.compile(lambda xs: micrograd.sum(every_operation(xs)), (rounds[0],), backend="c")
    for xs, row in zip(rounds, values, strict=True):
        _, gradients = total.value_and_grad(xs)
        for operation, x, value, gradient in zip(OPERATIONS, xs, row, gradients, strict=True):
            expected = eager(lambda x, operation=operation: operation.apply(*x), x)
            assert value == pytest.approx(expected[0], rel=1e-12), operation.name
            assert gradient == pytest.approx(expected[1], rel=1e-12), operation.name


INFINITE = math.inf
SPECIAL = {
    "exp": [(INFINITE, INFINITE), (-INFINITE, 0.0), (1000.0, INFINITE)],
    "expm1": [(-INFINITE, -1.0), (1000.0, INFINITE)],
    "log": [(0.0, -INFINITE), (-1.0, math.nan), (INFINITE, INFINITE)],
    "log1p": [(-1.0, -INFINITE), (-2.0, math.nan)],
    "sqrt": [(-1.0, math.nan), (INFINITE, INFINITE)],
    "sin": [(INFINITE, math.nan)],
    "cos": [(INFINITE, math.nan)],
    "tan": [(INFINITE, math.nan)],
    "asin": [(2.0, math.nan)],
    "acos": [(2.0, math.nan)],
    "atan": [(INFINITE, math.pi / 2)],
    "sinh": [(-1000.0, -INFINITE)],
    "cosh": [(1000.0, INFINITE)],
    "tanh": [(-INFINITE, -1.0)],
    "asinh": [(-INFINITE, -INFINITE)],
    "acosh": [(0.5, math.nan)],
    "atanh": [(1.0, INFINITE), (2.0, math.nan)],
    "erf": [(-INFINITE, -1.0)],
    "erfc": [(-INFINITE, 2.0), (INFINITE, 0.0)],
    "sigmoid": [(-INFINITE, 0.0), (INFINITE, 1.0)],
    "softplus": [(-INFINITE, 0.0), (INFINITE, INFINITE)],
    "relu": [(-INFINITE, 0.0), (INFINITE, INFINITE)],
    "leaky_relu": [(-INFINITE, -INFINITE), (INFINITE, INFINITE)],
    "gelu": [(INFINITE, INFINITE)],
    "silu": [(INFINITE, INFINITE)],
    "1 / x": [(0.0, INFINITE), (-0.0, -INFINITE), (INFINITE, 0.0)],
    "x * 1e308": [(10.0, INFINITE), (-10.0, -INFINITE)],
    "x - x": [(INFINITE, math.nan)],
    "x % 2": [(INFINITE, math.nan), (-0.0, 0.0)],
    "2 % x": [(0.0, math.nan), (INFINITE, 2.0)],
    "x ** -1": [(0.0, INFINITE)],
    "x ** 0.5": [(-1.0, math.nan)],
    "x ** 3": [(1e300, INFINITE), (-1e300, -INFINITE)],
    "abs": [(-INFINITE, INFINITE)],
    "where": [(INFINITE, 1.0), (-INFINITE, 2.0)],
}
HARD = (-INFINITE, -1000.0, -2.0, -1.0, 0.0, 1.0, 2.0, 1000.0, INFINITE)


def where_python_has_a_number(function):
    """The hard operands at which it has one, and that number."""
    for x in HARD:
        with suppress(ValueError, ArithmeticError):
            yield x, function(x)


ROWS = {row.name: row.apply for row in FUNCTIONS if row.name in scalar.FUNCTIONS and row.arity == 1}
SPECIAL |= {name: [*where_python_has_a_number(ROWS[name])] for name in ROWS if name not in SPECIAL}
RESULTS = {
    **ROWS,
    "1 / x": lambda x: 1 / x,
    "x * 1e308": lambda x: x * 1e308,
    "x - x": lambda x: x - x,
    "x % 2": lambda x: x % 2,
    "2 % x": lambda x: 2 % x,
    "x ** -1": lambda x: x**-1,
    "x ** 0.5": lambda x: x**0.5,
    "x ** 3": lambda x: x**3,
    "abs": abs,
    "where": lambda x: where(x > 0, 1.0, 2.0),
}


@needs_compiler
def test_infinities_and_nan_follow_ieee(monkeypatch):
    monkeypatch.setattr(library, "failure", lambda *call: None)  # what C computed where Python would have raised
    assert {name for name, function in scalar.FUNCTIONS.items() if function.arity == 1} <= set(SPECIAL)
    fast = micrograd.compile(lambda x: [RESULTS[name](x) for name in SPECIAL], (0.5,), backend="c")
    for k, (name, cases) in enumerate(SPECIAL.items()):
        for x, expected in cases:
            for results in (fast(x), *fast.map([x] * 5)):
                assert results[k] == pytest.approx(expected, nan_ok=True), f"{name} of {x}"
        for results in (fast(math.nan), *fast.map([math.nan] * 5)):
            assert results[k] == 2.0 if name == "where" else math.isnan(results[k]), f"{name} of nan"


@needs_compiler
@pytest.mark.parametrize("n", [1, 3, 7, 8, 9, 17])
def test_a_derivative_that_does_not_exist_is_an_error_in_any_place_of_a_batch_and_poisons_nothing(n):
    p = Value(1.0)
    fast = micrograd.compile(lambda x: (p * x).sqrt(), (1.0,), parameters=[p], backend="c")
    p.grad = 0.0
    fast.backward([4.0] * n)
    assert p.grad == pytest.approx(1.0)
    other = micrograd.compile(lambda x: (p - x).sqrt(), (1.0,), parameters=[p], backend="c")
    for place in range(n):
        p.grad = 0.25
        counted = f".* in example {place}, counted from 0$" if n > 1 else ""
        with pytest.raises(ZeroDivisionError, match=rf"of sqrt\(0\.0\) cannot be taken{counted}"):
            other.backward([1.0 if k == place else 0.0 for k in range(n)])
        assert p.grad == 0.25


@pytest.fixture(scope="module")
def all_results():
    """By backend, all functions compiled into one, of an operand each; and operands at which there is a number."""
    names = [name for name in SPECIAL if name != "where"]
    usual = [1.5 if name == "acosh" else 0.5 for name in names]

    def function(xs):
        return [RESULTS[name](x) for name, x in zip(names, xs, strict=True)]

    compiled = [micrograd.compile(function, (usual,), backend=backend) for backend in ("c", "python")]
    return names, usual, compiled


@needs_compiler
@pytest.mark.parametrize("name", sorted(c.CALLS.keys() & SPECIAL.keys()))
def test_what_python_raises_c_raises_where_the_function_is_alone(name):
    """Among others, it is checked on their account."""
    fast = micrograd.compile(ROWS[name], (1.5 if name == "acosh" else 0.5,), backend="c")
    for x in (*(x for x, _ in SPECIAL[name]), *HARD):
        alone, python = outcome(lambda: fast(x)), outcome(lambda: scalar.FUNCTIONS[name](x))  # noqa: B023
        assert alone[0] == python[0], x


@needs_compiler
@pytest.mark.parametrize("name", [name for name in SPECIAL if name != "where"])
def test_what_python_raises_c_raises_too(name, all_results):
    names, usual, compiled = all_results
    k = names.index(name)
    for x in (*(x for x, _ in SPECIAL[name]), *HARD, math.nan, 0.5):
        xs = [*usual[:k], x, *usual[k + 1 :]]
        for call in (lambda fast: fast(xs), lambda fast: fast.map([usual] * 5 + [xs])[-1]):  # noqa: B023
            c, python = (outcome(lambda: call(fast)) for fast in compiled)  # noqa: B023
            assert c == python


def outcome(call):
    """What the call returns, to twelve digits, or the error."""
    try:
        result = call()
    except (ArithmeticError, ValueError) as error:
        return type(error), str(error).partition(", in line ")[0]
    return [f"{x:.12g}" for x in (result if isinstance(result, list) else [result])]


@needs_compiler
def test_many_constants_go_into_a_table_that_loops_run_over():
    numbers = [1 / (k + 3) for k in range(100)]

    def weighted(x):
        return micrograd.dot(numbers, [x * number for number in numbers], 0.25)

    fast = micrograd.compile(weighted, (1.0,), backend="c")
    assert "_c[] = {" in fast.c_source
    assert fast(2.0) == pytest.approx(weighted(Value(2.0)).data, rel=1e-14)
    few = micrograd.compile(lambda x: micrograd.dot(numbers[:7], [x] * 7, 1.0), (1.0,), backend="c")
    assert "_c[] = {" not in few.c_source


def large(inputs, hidden, seed=3):
    """A network, a loss and a batch of three."""
    rng = random.Random(seed)
    model = MLP(inputs, [hidden, 3], activation="tanh")
    for parameter in model.parameters():
        parameter.data = rng.uniform(-1, 1) / inputs**0.5

    def loss(x):
        scores = model(x)
        return micrograd.sum([score**2 for score in scores]) + scores[0].sigmoid()

    return model, loss, [[rng.uniform(-1, 1) for _ in range(inputs)] for _ in range(3)]


def assert_trains_alike(model, loss, batch):
    """With examples one by one, and as many at once as there are lanes."""
    fast = micrograd.compile(loss, (batch[0],), parameters=model.parameters(), backend="c")
    for examples in (batch, batch * 3):
        model.zero_grad()
        total = fast.backward(examples)
        gradients = grads(model.parameters())
        model.zero_grad()
        expected = mean([loss(x) for x in examples])
        expected.backward()
        assert total == pytest.approx(expected.data, rel=1e-12)
        assert_close(gradients, grads(model.parameters()))
        assert_close(fast.map(examples), [loss(x).data for x in examples])
    return fast


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
def test_a_large_network_is_rolled_into_loops():
    model, loss, batch = large(40, 30)
    fast = assert_trains_alike(model, loss, batch)
    assert "for (long i0 = 0;" in fast.c_source
    assert fast.c_source.count("\n") < len(model.parameters()) + 200
    assert_close([fast(batch[1])], [loss(batch[1]).data])
    assert_close(fast.value_and_grad(batch[1])[1], eager(loss, batch[1])[1])


@needs_compiler
def test_the_last_round_of_a_loop_may_be_needed_after_it():
    def function(xs):
        total = xs[8]
        for x in xs[:8]:
            last = x.tanh()
            total = total + last
        return [total, last, last * total]

    fast = micrograd.compile(function, ([1.0] * 9,), backend="c")
    numbers = [0.1 * k for k in range(9)]
    for results in (fast(numbers), *fast.map([numbers] * 5)):
        assert_close(results, [v.data for v in function([Value(x) for x in numbers])])


def products_of_sums(xs):
    """Two numbers that a loop carries on: a sum of products, and the product of such sums."""
    total, product = xs[0], xs[0]
    for x in xs[1:]:
        total = total + x * x
        product = product * total
    return [product, total]


@needs_compiler
@pytest.mark.parametrize(
    "function",
    [lambda xs: list(accumulate(xs)), lambda xs: list(accumulate(xs, lambda s, x: s + x * x)), products_of_sums],
)
def test_what_a_loop_carries_on_may_be_needed_from_all_of_its_rounds(function):
    numbers = [0.1 * k for k in range(9)]
    fast = micrograd.compile(function, (numbers,), backend="c")
    for results in (fast(numbers), *fast.map([numbers] * 5)):
        assert_close(results, [v.data for v in function([Value(x) for x in numbers])])


def products(ws, xs):
    """A sum of products that is not fused."""
    total = 0
    for w, x in zip(ws, xs, strict=True):
        total = total + w * x
    return total


def layers(ws, xs, dot):
    hidden = [dot(row, xs).tanh() for row in ws]
    return micrograd.sum([dot(column, hidden) ** 2 for column in zip(*ws, strict=True)])


def convolution(ws, xs, dot):
    outputs = [dot(ws[0][:5], xs[i : i + 5]) * dot(ws[1][:4], xs[i + 4 : i : -1]) for i in range(len(xs) - 5)]
    return mean([output.sigmoid() for output in outputs])


def recurrent(ws, xs, dot):
    state = xs
    for x in xs[:6]:
        state = [(dot(row, state) + x).tanh() for row in ws]
    return dot(ws[0], state)


def attention(ws, xs, dot):
    keys = [[w * x for w, x in zip(row, xs, strict=True)] for row in ws]
    total = Value(0.0)
    for i in range(len(keys)):
        shares = [dot(keys[i], key).sigmoid() for key in keys[: i + 1]]
        total = total + micrograd.sum([dot(shares, column) for column in zip(*keys[: i + 1], strict=True)])
    return total


NESTS = [layers, convolution, recurrent, attention]


@needs_compiler
@pytest.mark.parametrize("dot", [micrograd.dot, products])
@pytest.mark.parametrize("function", NESTS)
def test_nests_compute_what_the_same_code_without_loops_does(function, dot):
    rng = random.Random(5)
    ws = [[Value(rng.uniform(-0.5, 0.5)) for _ in range(9)] for _ in range(9)]
    batch = [[rng.uniform(-1, 1) for _ in range(9)] for _ in range(5)]
    parameters = [w for row in ws for w in row]
    results = []
    for backend in ("c", "python"):
        fast = micrograd.compile(lambda xs: function(ws, xs, dot), (batch[0],), parameters=parameters, backend=backend)
        assert "i1 < " in fast.c_source
        numbers = []
        for examples in (batch[:1], batch):
            SGD(parameters, 0.1).zero_grad()
            numbers += [fast.backward(examples), *grads(parameters)]
        value, gradient = fast.value_and_grad(batch[1])
        results.append([*numbers, value, *gradient])
    assert_close(*results)


@needs_compiler
@pytest.mark.parametrize("precision", ["double", "single"])
def test_the_largest_of_many_numbers_is_that_of_the_engine(precision):
    rng = random.Random(6)
    ws = [[Value(rng.uniform(-2, 2)) for _ in range(9)] for _ in range(9)]
    parameters = [w for row in ws for w in row]
    batch = [[rng.uniform(-1, 1) for _ in range(9)] for _ in range(20)]
    fast = micrograd.compile(
        lambda xs: softmaxes(xs, ws), (batch[0],), parameters=parameters, backend=Backend(precision=precision)
    )
    for examples in (batch[:1], batch):
        SGD(parameters, 0.1).zero_grad()
        loss = mean([softmaxes(list(map(Value, xs)), ws) for xs in examples])
        loss.backward()
        expected = [loss.data, *grads(parameters)]
        SGD(parameters, 0.1).zero_grad()
        found = [fast.backward(examples), *grads(parameters)]
        assert found == pytest.approx(expected, rel=1e-12 if precision == "double" else 1e-4, abs=1e-13)


@needs_compiler
def test_what_is_called_first_is_built_at_once_and_only_once(monkeypatch):
    built = []
    monkeypatch.setattr(
        library,
        "prepare_build",
        lambda *args, **options: built.append(args) or toolchain.prepare_build(*args, **options),
    )
    w = Value(2.0)
    fast = micrograd.compile(lambda x: w * x, (1.0,), parameters=[w], backend="c")
    fast.backward([1.0] * 32)
    assert len(built) == 1
    assert fast.map([1.0] * 32) == [2.0] * 32
    assert len(built) == 2
    fast(1.0)
    assert len(built) == 3
    several = micrograd.compile(lambda x: [w * x, x], (1.0,), parameters=[w], backend="c")
    assert several.map([1.0] * 32) == [[2.0, 1.0]] * 32
    assert len(built) == 4
    micrograd.compile(lambda x: w * x, (1.0,), parameters=[w], backend="c", batch_size=32)
    assert len(built) == 5


@needs_compiler
def test_libraries_for_many_and_for_few_examples_are_of_one_program(monkeypatch, cache):
    made = []
    monkeypatch.setattr(library, "program", lambda *lines: made.append(lines) or passes.program(*lines))
    w = Value(2.0)
    fast = micrograd.compile(lambda x: w * x.sin(), (1.0,), parameters=[w], backend="c")
    assert made == []
    for n in (1, 8, 32, 1):
        fast.backward([1.0] * n)
    assert len(made) == 1
    fast.value_and_grad(1.0)
    assert len(made) == 2
    copied = pickle.loads(pickle.dumps(fast))
    assert copied.backward([1.0] * 9) == fast.backward([1.0] * 9)
    assert len(made) == 3


@needs_compiler
def test_a_training_builds_what_it_needs_before_its_first_step(monkeypatch):
    built = []
    monkeypatch.setattr(
        library,
        "prepare_build",
        lambda *args, **options: built.append(args) or toolchain.prepare_build(*args, **options),
    )
    w = Value(2.0)
    fast = micrograd.compile(lambda x: (w * x - 1.0) ** 2, (1.0,), parameters=[w], backend="c")
    with fast.training(SGD([w], 0.1)) as step:
        for _ in range(3):
            step([1.0] * 32)
            assert len(built) == 1


@needs_compiler
def test_a_loop_may_read_every_other_number_of_what_was_computed_singly():
    def function(xs):
        every, other = [], []
        for x, operation in zip(xs, UNLIKE, strict=True):
            every.append(x.exp())
            other.append(operation(x))
        return [micrograd.dot(every, xs, 1.0), other[0] * other[1] - other[2] / other[3] + other[4] ** 2 % other[5]]

    numbers = [0.1 * (k + 1) for k in range(6)]
    fast = micrograd.compile(function, (numbers,), backend="c")
    for results in (fast(numbers), *fast.map([numbers] * 5)):
        assert_close(results, [v.data for v in function([Value(x) for x in numbers])])


def test_results_and_arguments_are_copied_in_loops_however_many_they_are(monkeypatch):
    walks = []
    order = graph_module.topological_order
    monkeypatch.setattr(graph_module, "topological_order", lambda value: walks.append(value) or order(value))
    fast = micrograd.compile(lambda *xs: [x.sin() for x in xs] + [xs[0], xs[-1]], tuple([0.5] * 300), backend="python")
    assert len(walks) == 1
    (graph,) = [backend.stored.graph() for backend in fast._backends.values()]
    source = c.library_source(graph, passes.program(graph, graph.outputs, []), tile=1)
    assert source.count("\n") < 140
    assert source.count("gather(xs + ") == 1


@needs_compiler
def test_arguments_of_several_sizes_come_where_they_belong():
    def function(x, y, zs, ws, v):
        return [x, y, *zs, *ws, v]

    example = 1.0, 2.0, [3.0, 4.0], [5.0, 6.0], 7.0
    fast = micrograd.compile(function, example, backend="c")
    batch = [[number] * 5 for number in example]
    assert fast.map(*batch) == [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]] * 5
    assert fast(*example) == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]


@needs_compiler
@pytest.mark.parametrize("rounds", [4, 8, 16])
def test_a_sum_of_several_terms_a_round_is_right_where_they_lie_in_reverse(rounds):
    def total(xs):
        result = xs[0]
        for k in range(1, 2 * rounds, 2):
            result = result + xs[k + 1] * xs[0] + xs[k] * xs[0]
        return result

    xs = [1.0 + k * k for k in range(2 * rounds + 1)]  # whole numbers: exact in any order
    fast = micrograd.compile(total, (xs,), backend="c", batch_size=1)
    assert fast(xs) == total(xs)


@needs_compiler
def test_few_examples_are_computed_one_by_one_with_dot():
    model, loss, batch = large(21, 11)
    backend = assert_trains_alike(model, loss, batch[:3])._backends[((21,),)]
    assert ("backward", 0, 1) in backend._libraries
    graph = backend.stored.graph()
    source = c.library_source(graph, passes.program(graph, graph.outputs, graph.parameter_gradients), tile=0)
    assert " = dot(a, " in source


@needs_compiler
def test_long_code_is_split_into_functions(monkeypatch):
    monkeypatch.setattr(c, "LINES", 10)
    model, loss, batch = large(6, 5)
    fast = assert_trains_alike(model, loss, batch)
    assert "backward_one_1(" in fast.c_source


def chained(n, seed=1):
    """A function of one number, in n statements, of which no loop can be made."""
    rng = random.Random(seed)
    operations = rng.choices(UNLIKE, k=n)

    def function(x):
        for operation in operations:
            x = operation(x)
        return [x]

    fast = micrograd.compile(function, (1.0,), backend="python")
    assert "for (long i" not in fast.c_source
    return fast


def test_long_code_without_loops_is_of_one_vector_at_a_time(monkeypatch):
    graph = chained(100)._backends[((),)].stored.graph()
    for lines, tile in ((200, 4), (50, 1)):
        monkeypatch.setattr(c, "MANY_LINES", lines)
        source = c.library_source(graph, passes.program(graph, graph.outputs, []), tile=4)
        assert f"#define TILE {tile}\n" in source


def looped(n, seed=1):
    """A function of five numbers, in n loops, each of which needs all of the one before."""
    rng = random.Random(seed)
    operations = [Value.exp]
    while len(operations) < n:
        operations.append(rng.choice([operation for operation in UNLIKE if operation is not operations[-1]]))

    def function(xs):
        for operation in operations:
            xs = [operation(x - 2.0 * y) for x, y in zip(xs, reversed(xs), strict=True)]
        return xs

    fast = micrograd.compile(function, ([1.0] * 5,), backend="python")
    assert fast.c_source.count("for (long i") == n
    return fast


def test_a_function_has_150_lines_and_a_loop_counts_as_one_more():
    def functions(fast):
        return len(re.findall(r"^static void forward_one_\d+", fast.c_source, re.MULTILINE))

    assert [functions(chained(n)) for n in (149, 150, 151, 300, 301)] == [0, 0, 2, 2, 3]
    assert [functions(looped(n)) for n in (50, 51)] == [0, 2]


def test_what_single_statements_of_one_function_use_is_in_variables():
    assert "t[" not in chained(20).c_source.replace("double t[1];", "")
    assert "double t[10];" in looped(3).c_source
    assert "Needs 80 bytes of the stack, and what the compiler adds" in looped(3).c_source
    assert "y[i0] = exp(x[i0])" in micrograd.compile(lambda xs: [x.exp() for x in xs], ([1.0] * 5,)).c_source


def test_more_than_eight_constants_are_in_a_table_whole_numbers_first():
    for n in (8, 9):
        fast = micrograd.compile(lambda x, n=n: [x * (i + 0.5) for i in range(n)], (1.0,), backend="python")
        assert ("static const double forward_one_c[]" in fast.c_source) == (n == 9)
    classes = [2, 0, 1, *range(3, 10)]
    fast = micrograd.compile(
        lambda x: micrograd.sum([0.5 * x, *(where(x == k, x, 0.0) for k in classes)]), (1.0,), backend="python"
    )
    assert "{\n    0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 0.5\n}" in fast.c_source


def test_a_table_of_a_thousand_constants_takes_few_lines():
    constants = [0.1 * i - 0.05 for i in range(1000)]
    source = micrograd.compile(lambda x: [number * x for number in constants], (1.0,), backend="python").c_source
    assert source.count("\n") < 250
    assert all(c.literal(number) in source for number in constants)


@needs_compiler
def test_more_than_four_examples_are_computed_in_tiles_of_up_to_four_vectors():
    p = Value(2.0)
    tiles = {1: 0, 4: 0, 5: 1, 15: 1, 16: 2, 31: 2, 32: 4, 1000: 4}
    for n, tile in tiles.items():
        fast = micrograd.compile(lambda x: p * x, (1.0,), parameters=[p], backend="c", batch_size=n)
        backend = fast._backends[((),)]
        libraries = backend._libraries
        assert [*backend._started] == [("backward", tile, 1)]
        assert fast.backward([1.0] * n) == 2.0
        assert [backend._started, *libraries] == [{}, ("backward", tile, 1)]
        assert fast.map([1.0] * n) == [2.0] * n
        assert set(libraries) == {("backward", tile, 1), ("forward", tile, 1)}
        assert fast.value_and_grad(1.0) == (2.0, 2.0)


@needs_compiler
@pytest.mark.parametrize("tile", [1, 2, 4])
@pytest.mark.parametrize("n", [1, 7, 8, 9, 33])
def test_a_tile_may_be_full_in_part(n, tile, monkeypatch):
    """With weights that are shared, chosen, subtracted, and used in loops within loops."""
    monkeypatch.setattr(library, "tile_size", lambda n, lanes: tile)
    rng = random.Random(n)
    ps = [Value(rng.gauss(0, 1)) for _ in range(12)]

    def loss(example):
        i, *xs = example
        hidden = [(dot(ps[:3], xs[k : k + 3], ps[3]) - ps[4] * xs[k]).tanh() for k in range(4)]
        return dot(hidden, [take(ps[5:10], i)] * 4) - ps[10] + micrograd.sum([ps[11] * h for h in hidden])

    batch = [[rng.randrange(5), *(rng.gauss(0, 1) for _ in range(6))] for _ in range(n)]
    fast = micrograd.compile(loss, (batch[0],), parameters=ps, backend="c")
    total = fast.backward(batch)
    gradients = grads(ps)
    for p in ps:
        p.grad = 0.0
    expected = mean([loss(example) for example in batch])
    expected.backward()
    assert total == pytest.approx(expected.data, rel=1e-12)
    assert_close(gradients, grads(ps))
    assert_close(fast.map(batch), [loss(example).data for example in batch])


@needs_compiler
def test_a_tile_whose_numbers_would_not_stay_in_the_cache_is_smaller(monkeypatch):
    fast = micrograd.compile(lambda xs: dot(xs, xs), ([1.0] * 100,), backend="python")
    graph = fast._backends[((100,),)].stored.graph()
    for cache, size in ((1 << 19, 4), (100 * 8 * 8 * 4, 2), (1000, 1)):
        monkeypatch.setattr(c, "CACHE", cache)
        source = c.library_source(graph, passes.program(graph, graph.outputs, []), tile=4)
        assert f"#define TILE {size}\n" in source


def test_a_library_works_on_the_numbers_of_the_widest_lanes_and_what_is_before_the_first_multiple_of_64_bytes():
    graph = micrograd.compile(lambda x, y: x * y, (1.0, 1.0), backend="python")._backends[(), ()].stored.graph()
    source = c.library_source(graph, passes.program(graph, graph.outputs, []), tile=1)
    assert f"const int64_t room = {(2 + 1) * 64 + 64};" in source


@needs_compiler
def test_every_kind_of_library_is_c_without_a_warning(monkeypatch, optimized):
    monkeypatch.setattr(toolchain, "FLAGS", [*toolchain.FLAGS, "-Wall", "-Wextra", "-Werror"])
    p = Value(2.0)
    for parameters in ([Value(1.0)], [p]):
        fast = micrograd.compile(
            lambda x: where((x > 0) & (x < 9), p * x % 3, x.tanh()) ** x + abs(x).softplus() / 7,
            (1.0,),
            parameters=parameters,
            backend="c",
        )
        for n in (1, 32):
            fast.map([0.5] * n)
            fast.backward([0.5] * n)
        fast.value_and_grad(0.5)
        assert len(fast._backends[((),)]._libraries) == 5


# Vectorized functions


@needs_compiler
@pytest.mark.parametrize("name", ["exp", "tanh"])
def test_vectorized_functions_are_within_two_ulps_of_those_of_math(name):
    rng = random.Random(0)
    xs = [rng.uniform(-width, width) for width in (1e-300, 1e-9, 0.1, 0.7, 3.0, 25.0, 709.0) for _ in range(2000)]
    xs += [0.0, 0.625, math.nextafter(0.625, 0.0), -0.625, 20.0, -745.0, -745.2, -708.5, -1e6, -math.inf]
    fast = micrograd.compile(lambda x: getattr(x, name)(), (1.0,), backend="c")
    function = getattr(math, name)
    wrong = [x for x, y in zip(xs, fast.map(xs), strict=True) if abs(y - function(x)) > 2 * math.ulp(function(x))]
    assert wrong == []


@needs_compiler
def test_vectorized_functions_take_infinities_zeros_and_nan():
    exp, tanh = (
        micrograd.compile(lambda x, name=name: getattr(x, name)(), (1.0,), backend="c") for name in ("exp", "tanh")
    )
    special = [math.inf, -math.inf, 0.0, -0.0, math.nan]
    assert list(map(repr, exp.map(special))) == ["inf", "0.0", "1.0", "1.0", "nan"]
    assert list(map(repr, tanh.map(special))) == ["1.0", "-1.0", "0.0", "-0.0", "nan"]
    with pytest.raises(OverflowError, match=r"exp\(710.0\)"):
        exp.map([1.0, 2.0, 3.0, 4.0, 710.0])
    ieee = micrograd.compile(lambda x: x.exp(), (1.0,), backend="c", errors="ieee")
    assert ieee.map([710.0, 1e308, -1e308, 1.0, 709.0])[:3] == [math.inf, math.inf, 0.0]


# Threads


def noisy(threads=3, n=40, seed=1):
    """A network, its compiled loss for so many threads, and a batch."""
    model, loss, _ = large(6, 5)
    rng = random.Random(seed)
    batch = [[rng.gauss(0, 1) for _ in range(6)] for _ in range(n)]
    return (
        model,
        micrograd.compile(loss, (batch[0],), parameters=model.parameters(), backend=Backend("c", threads=threads)),
        batch,
    )


@needs_compiler
@pytest.mark.parametrize("n", [1, 8, 23, 24, 100])
def test_threads_share_the_examples_of_a_call(n, threads_pay):
    results = []
    for threads in (1, 3, 3):
        model, fast, batch = noisy(threads, n)
        results.append(([fast.backward(batch), *grads(model.parameters())], fast.map(batch)))
    (alone, values), first, second = results
    assert_close(first[0], alone)
    assert_close(first[1], values)  # few examples are computed one by one
    assert first == second


@needs_compiler
def test_threads_share_the_examples_of_a_training_step(threads_pay):
    found = []
    for threads in (1, 2, 2):
        model, fast, batch = noisy(threads)
        with fast.training(SGD(model.parameters(), 0.1)) as step:
            losses = [step(batch[:k]) for k in (40, 25, 40)]
        found.append([*losses, *(p.data for p in model.parameters())])
    assert_close(found[1], found[0])
    assert found[1] == found[2]


@needs_compiler
def test_a_failure_in_another_threads_part_is_met(threads_pay):
    fast = micrograd.compile(lambda x: x.log(), (1.0,), backend=Backend("c", threads=2))
    with pytest.raises(ValueError, match=r"log\(-1\.0\).*in example 30"):
        fast.map([1.0] * 30 + [-1.0] + [1.0] * 9)


@needs_compiler
@pytest.mark.parametrize("trains", [False, True])
def test_ctrl_c_while_threads_are_at_work_waits_for_them(trains, monkeypatch, threads_pay):
    model, fast, batch = noisy()
    before = [p.data for p in model.parameters()]
    memset = ctypes.memset

    def interrupted(*place):  # in the other threads
        signal.raise_signal(signal.SIGINT)
        return memset(*place)

    with fast.training(SGD(model.parameters(), 0.1)) if trains else nullcontext(fast.backward) as call:
        monkeypatch.setattr(ctypes, "memset", interrupted)
        with pytest.raises(KeyboardInterrupt):
            call(batch)
        monkeypatch.undo()
        assert [p.data for p in model.parameters()] == before
        call(batch)


LATE = """import atexit, math, threading

def late():
    from micrograd import Backend, Value, compile
    from micrograd.compiler.native import library

    library.busy_threads, w = lambda *call: math.inf, Value(2.0)
    print(compile(lambda x: w * x, (1.0,), parameters=[w], backend=Backend("c", threads=2)).backward([1.0] * 64))

def later():
    threading.main_thread().join()
    late()

atexit.register(late)
threading.Thread(target=later).start()
"""


@needs_compiler
def test_a_function_can_be_compiled_and_called_once_the_main_thread_has_ended():
    done = subprocess.run([sys.executable, "-c", LATE], cwd=Path(__file__).parents[3], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("2.0\n2.0\n", "")


@needs_compiler
@pytest.mark.parametrize("n_started", [None, 0, 1])
def test_if_no_thread_can_start_the_calling_one_does_all_the_work(n_started, monkeypatch, threads_pay):
    model, fast, batch = noisy()

    def results():
        SGD(model.parameters(), 0.1).zero_grad()
        return [fast.backward(batch), *grads(model.parameters()), *fast.map(batch)]

    expected, original, left = results(), threading.Thread.start, list(range(n_started or 0))
    for built in fast._backends[fast._shapes]._libraries.values():
        built._executor = None  # whose threads have been started

    def refused(*call):
        raise RuntimeError("can't start new thread")

    def start(thread):
        if not left:
            refused()
        left.pop()
        original(thread)

    with monkeypatch.context() as patch:
        if n_started is None:  # as if the executor could not be imported
            patch.setattr(concurrent.futures, "ThreadPoolExecutor", refused)
        patch.setattr(threading.Thread, "start", start)
        assert results() == expected
    assert results() == expected


@needs_compiler
def test_threads_are_used_where_there_is_work_for_them():
    ws = [Value(0.01 * i) for i in range(100)]
    fast = micrograd.compile(
        lambda x: micrograd.dot(ws, [x] * 100), (1.0,), parameters=ws, backend=Backend("c", threads=3), batch_size=10
    )
    backend = fast._backends[((),)]
    n = library.A_THREAD // backend.stored.n_operands("backward")
    for examples, threads in (1, 1), (n, 1), (2 * n + 100, 2), (4 * n, 3), (math.inf, 3):
        assert backend._key("backward", examples).threads == threads
    assert backend._key("forward", 2 * n + 100).threads == 1
    assert backend.library("backward", 32) is backend.library("backward", 40)
    assert fast.backward([1.0] * 32) == pytest.approx(49.5)


# Export

MAIN = """#include <stdio.h>
#include "model.h"

int main(void)
{
    double x[%(inputs)d] = {%(x)s};
    double y[%(size)d], g[%(parameters)d + 1] = {0.0};
    int i;
    model_forward(model_parameters, x, y);
    for (i = 0; i < %(outputs)d; i++)
        printf("%%.17g\\n", y[i]);
    %(backward)s
    return 0;
}
"""
BACKWARD = """model_backward(model_parameters, x, g, y);
    model_backward(model_parameters, x, g, y);
    for (i = 0; i < %d; i++)
        printf("%%.17g\\n", y[i]);
    for (i = 0; i < %d; i++)
        printf("%%.17g\\n", g[i]);"""


def run_exported(fast, directory, x, outputs, parameters, differentiable=True, flags=()):
    """The numbers that a small program gets from the exported file; the gradients are those of two calls."""
    fast.export_c(directory / "model.c")
    size = 1 + len(x)
    text = MAIN % {
        "inputs": max(len(x), 1), "x": ", ".join(map(repr, x)) or "0.0", "size": max(size, outputs), "outputs": outputs,
        "parameters": parameters, "backward": BACKWARD % (size, parameters) if differentiable else "(void)g;",
    }  # fmt: skip
    (directory / "main.c").write_text(text)
    command = toolchain.find_compiler(os.environ.get("CC"), os.environ.get("PATH")).command
    subprocess.run(
        [*command, "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-ffp-contract=off", *flags, "main.c",
         "model.c", "-o", "program", "-lm"], cwd=directory, check=True,
    )  # fmt: skip
    output = subprocess.run([directory / "program"], capture_output=True, text=True, check=True).stdout
    return list(map(float, output.split()))


@needs_compiler
@pytest.mark.parametrize("size", ["small", "large"])
def test_an_exported_network_is_strict_c99_and_gives_the_same_numbers(tmp_path, monkeypatch, size):
    if size == "large":
        monkeypatch.setattr(c, "LINES", 10)
    model, loss, batch = large(*((3, 2) if size == "small" else (60, 20)))
    fast = micrograd.compile(loss, (batch[0],), parameters=model.parameters(), backend="python")
    value, gradient = eager(loss, batch[0])
    numbers = run_exported(fast, tmp_path, batch[0], 1, len(model.parameters()))
    assert_close(numbers[:2], [value, value])
    assert_close(numbers[2 : 2 + len(gradient)], gradient)
    assert_close(numbers[2 + len(gradient) :], [2 * parameter.grad for parameter in model.parameters()])
    text = (tmp_path / "model.c").read_text()
    assert text == fast.c_source
    assert ("backward_one_1(" in text) == (size == "large")
    assert (tmp_path / "model.h").read_text() in text


SANITIZERS = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


@pytest.fixture(scope="module")
def sanitizers(tmp_path_factory):
    """The flags for a compiler that watches what memory is used and what C leaves undefined."""
    program = tmp_path_factory.mktemp("sanitizers") / "program"
    program.with_suffix(".c").write_text("int main(void) { return 0; }\n")
    command = toolchain.find_compiler(os.environ.get("CC"), os.environ.get("PATH")).command if has_compiler() else ()
    for line in ([*command, *SANITIZERS, f"{program}.c", "-o", program], [program]):
        if not command or subprocess.run(line, capture_output=True).returncode:
            pytest.skip("there is no C compiler with sanitizers")
    return SANITIZERS


@pytest.mark.parametrize("dot", [micrograd.dot, products])
@pytest.mark.parametrize("function", NESTS)
def test_exported_nests_keep_to_their_arrays_and_to_what_c_defines(tmp_path, monkeypatch, sanitizers, function, dot):
    monkeypatch.setattr(c, "LINES", 40)  # so that functions share temporaries
    ws = [[Value(math.sin(9 * i + j)) for j in range(9)] for i in range(9)]
    parameters, x = [w for row in ws for w in row], [0.1 * i for i in range(9)]
    fast = micrograd.compile(lambda xs: function(ws, xs, dot), (x,), parameters=parameters, backend="python")
    assert "i1 < " in fast.c_source
    numbers = run_exported(fast, tmp_path, x, 1, len(parameters), flags=sanitizers)
    value, gradient = eager(lambda xs: function(ws, xs, dot), x)
    assert_close(numbers, [value, value, *gradient, *(2 * parameter.grad for parameter in parameters)])


@needs_compiler
def test_an_exported_function_may_use_every_operation_and_many_constants(tmp_path):
    point = [x for operation in OPERATIONS for x in operation.points[0]]

    def everything(xs):
        each = iter(xs)
        results = [operation.apply(*[next(each) for _ in range(operation.arity)]) for operation in OPERATIONS]
        return [*results, *[xs[0] * (k + 0.1) for k in range(100)], (xs[0] > 0) * xs[1], 1e-310, math.inf, math.nan]

    fast = micrograd.compile(everything, (point,), backend="python")
    expected = [v.data if isinstance(v, Value) else v for v in everything([Value(x) for x in point])]
    numbers = run_exported(fast, tmp_path, point, len(expected), 0, differentiable=False)
    assert numbers == pytest.approx(expected, rel=1e-12, nan_ok=True)
    assert fast.c_source.count("#define c ") == fast.c_source.count("#undef c\n") == 1
    assert "static double remainder_(" in fast.c_source
    assert "there are none" in fast.c_source
    assert "backward" not in fast.c_source


@needs_compiler
def test_an_exported_derivative_by_parameters_with_every_operation(tmp_path):
    numbers = [x for operation in OPERATIONS for x in operation.points[0]]
    parameters = [Value(x) for x in numbers]

    def total():
        each = iter(parameters)
        return micrograd.sum(
            [operation.apply(*[next(each) for _ in range(operation.arity)]) for operation in OPERATIONS]
        )

    fast = micrograd.compile(total, (), parameters=parameters, backend="python")
    expected = total()
    expected.backward()
    results = run_exported(fast, tmp_path, [], 1, len(parameters))
    assert_close(results[:2], [expected.data] * 2)
    assert_close([g / 2 for g in results[2:]], grads(parameters))


def test_the_exported_weights_are_those_of_now_to_the_last_bit():
    p = [Value(0.1), Value(-1e-310), Value(-0.0), Value(math.inf), Value(-math.inf), Value(math.nan), Value(3)]
    fast = micrograd.compile(lambda x: micrograd.sum(p) * x, (1.0,), parameters=p, backend="python")
    array = fast.c_source[fast.c_source.index("const double model_parameters[] = {") :]
    array = array[array.index("{") + 1 : array.index("}")]
    assert array.replace("\n", "").replace(" ", "") == "0.1,(-1e-310),-0.0,INFINITY,(-INFINITY),NAN,3.0"
    p[0].data = 0.7
    assert "    0.7,\n" in fast.c_source


def exported(directory, name, factor=2.0):
    w = Value(factor)
    fast = micrograd.compile(lambda x: (w * x).sigmoid() * x, (1.0,), parameters=[w], backend="python")
    fast.export_c(directory / name)


def compile_and_run(directory, *command):
    """The numbers that a program prints, once it is compiled without a warning."""
    subprocess.run(
        [*command, "-Wall", "-Wextra", "-Werror", "-pedantic", "-o", "program", "-lm"], cwd=directory, check=True
    )
    return list(map(float, subprocess.run([directory / "program"], capture_output=True, check=True).stdout.split()))


TWO = """#include <stdio.h>
#include "one.h"
#include "the_other.h"

int main(void)
{
    double x[1] = {0.5}, y[2], g[1] = {0.0};
    one_forward(one_parameters, x, y);
    printf("%.17g\\n", y[0]);
    the_other_backward(the_other_parameters, x, g, y);
    printf("%.17g\\n%.17g\\n", y[0], g[0]);
    return 0;
}
"""


@needs_compiler
@pytest.mark.parametrize("plus", [False, True], ids=["C", "C++"])
def test_several_exported_functions_make_one_program(tmp_path, plus):
    exported(tmp_path, "one.c", 2.0)
    exported(tmp_path, "the_other.c", 3.0)
    (tmp_path / ("main.cc" if plus else "main.c")).write_text(TWO)
    command = toolchain.find_compiler(os.environ.get("CC"), os.environ.get("PATH")).command
    objects = ["one.o", "the_other.o"]
    subprocess.run([*command, "-std=c99", "-c", "one.c", "the_other.c"], cwd=tmp_path, check=True)
    if plus and not shutil.which("c++"):
        pytest.skip("there is no C++ compiler here")
    main = ["c++", "main.cc"] if plus else [*command, "-std=c99", "main.c"]
    numbers = compile_and_run(tmp_path, *main, *objects)
    expected = [eager(lambda x, w=w: (w * x).sigmoid() * x, 0.5)[0] for w in (2.0, 3.0)]
    assert numbers[:2] == pytest.approx(expected, rel=1e-12)
    assert numbers[2] == pytest.approx(eager(lambda w: (w * 0.5).sigmoid() * 0.5, 3.0)[1], rel=1e-12)


@pytest.mark.parametrize("file", ["net.c", "Net_1.c", "a_b.c", "for.c", "mathematics.c"])
def test_the_names_in_an_exported_file_begin_with_the_files(tmp_path, file):
    exported(tmp_path, file)
    name = Path(file).stem
    source = (tmp_path / file).read_text(encoding="ascii")
    header = (tmp_path / file).with_suffix(".h").read_text()
    assert source.startswith(header)
    for part in (source, header):
        assert set(re.findall(r"\w+(?=_forward\(|_backward\(|_parameters\[)", part)) == {name}
    assert {path.name for path in tmp_path.iterdir()} == {file, f"{name}.h"}


@pytest.mark.parametrize(
    ("file", "name"),
    [("my-net.v2.c", "my_net_v2"), ("a b.c", "a_b"), ("2d.c", "model_2d"), ("_a__b_.c", "a_b"), ("größe.c", "gr_e"),
     ("...c", "model"), ("été.c", "t")],
)  # fmt: skip
def test_a_name_that_c_cannot_do_with_is_refused_and_the_name_that_is_given_instead_works(tmp_path, file, name):
    with pytest.raises(ValueError, match=rf"single underscores: call it '{name}'$"):
        exported(tmp_path, file)
    assert list(tmp_path.iterdir()) == []
    exported(tmp_path, f"{name}.c")


@pytest.mark.parametrize("file", ["math.c", "Math.c", "stdint.c", "float.c", "string.c"])
def test_an_export_whose_header_would_be_taken_for_one_of_c_is_refused(tmp_path, file):
    stem = Path(file).stem
    with pytest.raises(ValueError, match=rf"{stem}\.h would hide C's own <{stem.lower()}\.h>"):
        exported(tmp_path, file)
    assert list(tmp_path.iterdir()) == []
    exported(tmp_path, f"model_{file}")


CASES = """#include <stdio.h>
#include "model.h"
#include "Model.h"

int main(void)
{
    double x[1] = {0.5}, y[1], z[1];
    model_forward(model_parameters, x, y);
    Model_forward(Model_parameters, x, z);
    printf("%.17g\\n%.17g\\n", y[0], z[0]);
    return 0;
}
"""


@needs_compiler
def test_exports_whose_names_differ_in_case_alone_make_one_program(tmp_path):
    exported(tmp_path, "model.c", 2.0)
    if (tmp_path / "MODEL.C").exists():
        pytest.skip("file names that differ in case alone are the same here")
    exported(tmp_path, "Model.c", 3.0)
    (tmp_path / "main.c").write_text(CASES)
    command = toolchain.find_compiler(os.environ.get("CC"), os.environ.get("PATH")).command
    numbers = compile_and_run(tmp_path, *command, "-std=c99", "main.c", "model.c", "Model.c")
    assert numbers == pytest.approx([eager(lambda x, w=w: (w * x).sigmoid() * x, 0.5)[0] for w in (2.0, 3.0)])


@pytest.mark.parametrize("name", ["model.h", "model.H", "model.cpp", "model.C", "model"])
def test_a_source_is_not_written_where_its_header_goes_or_as_another_language(tmp_path, name):
    with pytest.raises(ValueError, match=rf"{name} is not the name of a C source: give one .* such as .*model\.c"):
        exported(tmp_path, name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not shutil.which("gcc"), reason="gcc measures the stack")
def test_the_stack_that_an_exported_file_says_it_needs_is_what_it_needs_at_least(tmp_path):
    model, loss, batch = large(20, 10)
    fast = micrograd.compile(loss, (batch[0],), parameters=model.parameters(), backend="python")
    fast.export_c(tmp_path / "model.c")
    subprocess.run(["gcc", "-O2", "-fstack-usage", "-c", "model.c"], cwd=tmp_path, check=True)
    usage = {}
    for line in (tmp_path / "model.su").read_text().splitlines():
        place, size, _ = line.split("\t")
        usage[place.rpartition(":")[2]] = int(size)
    said = re.search(r"Needs ([\d,]+) bytes of the stack", fast.c_source)
    assert usage["model_backward"] >= int(said[1].replace(",", "")) >= usage["model_backward"] - 8192
    assert usage["model_forward"] < usage["model_backward"]


def test_the_header_documents_arguments_and_results():
    example = (1.0, [[1.0, 2.0, 3.0]] * 2, [], [1.0, 2.0])
    fast = micrograd.compile(lambda a, b, n, c: [[a, b[0][1]], c], example, backend="python")
    assert "     x[0]: argument 1\n" in fast.c_source
    assert "x[1] to x[6]: argument 2, of shape (2, 3)\n" in fast.c_source
    assert "argument 3" not in fast.c_source
    assert "x[7] to x[8]: argument 4\n" in fast.c_source
    assert "receives the output in y[0] to y[3], of shape (2, 2)" in fast.c_source


def test_the_header_speaks_of_what_there_is():
    p = [Value(1.0), Value(2.0), Value(3.0)]
    three = micrograd.compile(lambda x: dot(p, p) * x, (1.0,), parameters=p, backend="python").c_source
    assert "y  receives the output in y[0] */" in three
    assert "with respect to the parameters is added to g[0] to g[2]\n" in three
    assert "y  y[0] receives the output, y[1] its gradient with respect to the inputs */" in three
    assert "is added to nothing\n" in micrograd.compile(lambda x: x, (1.0,), backend="python").c_source
    none = micrograd.compile(lambda: p[0], (), parameters=p, backend="python").c_source
    assert "Needs no more of the stack than what the compiler adds: gcc" in none
    assert "y  y[0] receives the output */" in none


# The tool chain


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache that is empty yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    micrograd.compiler.native.toolchain.warn_once.cache_clear()
    return tmp_path / "cache" / "micrograd"


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Make `$CC` a script that was found to work; it notes each call in a file and has the true compiler as `$REAL`."""
    if not has_compiler():
        pytest.skip("there is no C compiler here")
    real = shlex.join(toolchain.find_compiler(os.environ.get("CC"), os.environ.get("PATH")).command)

    def make(script, name="fake-cc"):
        file = tmp_path / name
        calls = tmp_path / f"{name}-calls"
        head = (
            f'#!/bin/sh\nREAL="{real}"\nif [ "$1" = --version ]; then echo {name}; exit 0; fi\necho call >> "{calls}"\n'
        )
        file.write_text(head + 'exec $REAL "$@"\n')
        file.chmod(0o755)
        monkeypatch.setenv("CC", str(file))
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_CACHE_HOME", str(tmp_path / "probed"))
            toolchain.find_compiler(str(file), os.environ.get("PATH"))
        calls.unlink(missing_ok=True)
        file.write_text(head + script + "\n")
        return lambda: len(calls.read_text().splitlines()) if calls.exists() else 0

    return make


def answer(n):
    return f"int answer(void) {{ return {n}; }}\n"


def built(n=42):
    return toolchain.build(answer(n)).answer()


def files(cache):
    return sorted(path for path in cache.iterdir() if path.suffix == ".so")


def compiled(backend):
    return micrograd.compile(lambda x: 2 * x, (1.0,), backend=backend)


def called(backend):
    """A function whose library for single calls has been built."""
    fast = compiled(backend)
    assert fast(1.0) == 2.0
    return fast


def no_compiler(monkeypatch, tmp_path):
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(toolchain.importlib.util, "find_spec", lambda name: None)


def test_without_a_compiler_c_says_what_to_install(cache, monkeypatch, tmp_path):
    no_compiler(monkeypatch, tmp_path)
    with pytest.raises(
        CompilerError, match=r'clang and ziglang; install gcc or clang, or pip install ziglang, or .*"python"'
    ):
        compiled("c")


def test_without_a_compiler_auto_falls_back_to_python_and_says_so_once(cache, monkeypatch, tmp_path, caplog):
    no_compiler(monkeypatch, tmp_path)
    for _ in range(3):
        fast = compiled("auto")
        assert fast(2.0) == 4.0
        assert "Python" in repr(fast)
    assert [record.levelname for record in caplog.records if "compiled to Python" in record.message] == ["WARNING"]


@needs_compiler
@pytest.mark.parametrize("backend", ["auto", "c"])
def test_a_compiler_that_goes_away_between_two_calls_is_replaced_by_python_unless_c_was_asked_for(
    cache, monkeypatch, tmp_path, backend
):
    fast = compiled(backend)
    no_compiler(monkeypatch, tmp_path)
    if backend == "c":
        with pytest.raises(CompilerError):
            fast.value_and_grad(2.0)  # a library that is built when it is first needed
    else:
        assert fast.value_and_grad(2.0) == (4.0, 2.0)
        assert "Python" in repr(fast)


@needs_compiler
def test_with_a_compiler_auto_is_c(cache):
    assert "compiled to C" in repr(compiled("auto"))


@pytest.mark.parametrize("cc", ["/nonexistent/cc", "no-such-compiler-here", 'gcc "', "  ", "false"])
def test_a_wrong_cc_is_named(cache, monkeypatch, cc):
    monkeypatch.setenv("CC", cc)
    with pytest.raises(CompilerError, match=re.escape(f"$CC is {cc!r}; unset it")):
        compiled("c")
    assert "Python" in repr(compiled("auto"))


@pytest.mark.parametrize("content", ["", "\x00\x01garbage", "#!/nonexistent/interpreter\n"])
def test_a_compiler_that_is_no_program_is_no_compiler(cache, monkeypatch, tmp_path, content):
    file = tmp_path / "cc"
    file.write_text(content)
    file.chmod(0o755)
    monkeypatch.setenv("CC", str(file))
    with pytest.raises(CompilerError, match="no C compiler works here"):
        compiled("c")


def test_the_compiler_of_ziglang_is_used_where_there_is_no_other(monkeypatch, tmp_path):
    python = tmp_path / "a python"
    python.write_text('#!/bin/sh\necho "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr(toolchain.importlib.util, "find_spec", lambda name: name == "ziglang")
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(toolchain, "_probed", lambda compiler: compiler)
    command, version, _ = toolchain.find_compiler.__wrapped__(None, str(tmp_path))
    assert command == (str(python), "-m", "ziglang", "cc")
    assert version == "-m ziglang cc --version\n"


def test_what_a_failing_compiler_says_is_passed_on(cache, fake):
    fake(r"printf 'no \377 way: garbage\n' >&2; exit 1")
    with pytest.raises(CompilerError, match=r"fake-cc .* failed:\nno \ufffd way: garbage"):
        called("c")
    assert "Python" in repr(called("auto"))
    assert list(cache.iterdir()) == []
    fake("seq -w 9999 >&2; exit 1")
    with pytest.raises(CompilerError) as error:
        called("c")
    assert str(error.value).partition(" failed:\n")[2] == "".join(f"{n}\n" for n in range(9600, 10000))


@pytest.mark.parametrize(
    "script",
    [
        "exit 0",
        'while [ "$1" != -o ]; do shift; done; echo garbage > "$2"',
        'while [ "$1" != -o ]; do shift; done; : > "$2"',
    ],
    ids=["nothing", "garbage", "an empty file"],
)
def test_a_compiler_that_only_says_it_has_done_it_is_found_out(cache, fake, script):
    fake(script)
    with pytest.raises(CompilerError, match="cannot be built"):
        called("c")
    assert "Python" in repr(called("auto"))
    assert list(cache.iterdir()) == []


@needs_compiler
def test_a_library_is_compiled_once(cache, fake):
    calls = fake('exec $REAL "$@"')
    assert [built(), built(), calls()] == [42, 42, 1]
    assert [built(43), calls()] == [43, 2]
    assert len(files(cache)) == 2
    assert all(re.fullmatch(r"[0-9a-f]{32}-[0-9a-f]{32}\.so", file.name) for file in files(cache))
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700


@needs_compiler
def test_another_compiler_or_flag_or_processor_builds_anew(cache, fake, monkeypatch):
    fake('exec $REAL "$@"')
    built()
    calls = fake('exec $REAL "$@"', name="another-cc")
    assert [built(), calls()] == [42, 1]
    monkeypatch.setattr(toolchain, "FLAGS", [*toolchain.FLAGS, "-O1"])
    assert [built(), calls()] == [42, 2]
    monkeypatch.setattr(toolchain, "_processor", lambda: "another")
    assert [built(), calls()] == [42, 3]


def truncate(file):
    file.write_bytes(file.read_bytes()[:-100])


def flip(file):
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def empty(file):
    file.write_bytes(b"")


def swap(file):
    """A library of another's in place of ours."""
    other = next(path for path in files(file.parent) if path != file)
    shutil.copy(other, file)


def link(file):
    content = file.read_bytes()
    file.unlink()
    elsewhere = file.parent.parent / "elsewhere.so"
    elsewhere.write_bytes(content)
    file.symlink_to(elsewhere)


@needs_compiler
def test_a_library_is_kept_whoever_may_write_what_the_user_makes(cache, fake, caplog):
    calls = fake('exec $REAL "$@"')
    before = os.umask(0o002)
    try:
        assert [built(), built(), calls()] == [42, 42, 1]
    finally:
        os.umask(before)
    assert [stat.S_IMODE(file.stat().st_mode) for file in files(cache)] == [0o700]
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    assert caplog.text == ""


@needs_compiler
@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="Linux tells what is loaded")
def test_a_library_is_unloaded_with_the_function_that_it_was_built_for(cache):
    def loaded():
        return {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if str(cache) in line}

    def times(k):
        return micrograd.compile(lambda x: x * k, (1.0,), parameters=[Value(0.0)], backend="c")

    functions, twin = [times(k) for k in range(2, 5)], times(2)
    assert [fast(1.0) for fast in functions] == [2.0, 3.0, 4.0]
    assert [fast.backward([1.0] * 5) for fast in [*functions, twin]] == [2.0, 3.0, 4.0, 2.0]
    assert len(loaded()) == 6  # in lanes and not, and the twin has the same file
    functions.clear()
    assert len(loaded()) == 1
    assert twin.backward([1.0] * 5) == 2.0
    del twin
    assert loaded() == set()


def open_to_all(file):
    file.chmod(0o666)


@needs_compiler
@pytest.mark.parametrize("damage", [truncate, flip, empty, swap, link, open_to_all], ids=lambda damage: damage.__name__)
def test_a_damaged_or_foreign_file_is_built_anew_with_a_warning(cache, caplog, damage):
    built(43)
    (before,) = files(cache)
    built(42)
    (file,) = set(files(cache)) - {before}
    content = file.read_bytes()
    copied = cache / "kept"
    copied.write_bytes(content)
    file.unlink()  # a library that is loaded already must not be written into
    shutil.copy(copied, file)
    copied.unlink()
    damage(file)
    assert built(42) == 42
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "rebuilding" in caplog.text
    assert file.read_bytes() == content
    assert not file.is_symlink()


@needs_compiler
def test_a_file_that_cannot_be_removed_does_no_harm(cache, caplog):
    caplog.set_level(logging.INFO, "micrograd")
    built()
    (file,) = files(cache)
    file.unlink()
    file.mkdir()
    (file / "inside").touch()
    assert built() == 42
    assert "cannot be removed" in caplog.text
    assert "cannot be used" in caplog.text


@needs_compiler
def test_a_cache_that_others_can_write_to_is_not_used(cache, caplog):
    caplog.set_level(logging.INFO, "micrograd")
    for mode in (0o770, 0o707):
        cache.mkdir(parents=True, exist_ok=True)
        cache.chmod(mode)
        assert built() == 42
        assert list(cache.iterdir()) == []
    assert "others can write to it" in caplog.text


@needs_compiler
def test_a_cache_of_another_user_is_not_used(cache, monkeypatch):
    cache.mkdir(parents=True, mode=0o700)
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert built() == 42
    assert list(cache.iterdir()) == []


@needs_compiler
def test_where_there_are_no_user_ids_a_cache_is_the_users_own(cache, monkeypatch):
    monkeypatch.delattr(os, "getuid")
    assert built() == 42
    assert len(files(cache)) == 1


@needs_compiler
def test_a_file_in_place_of_the_cache_does_no_harm(cache):
    cache.parent.mkdir()
    cache.write_text("mine")
    assert built() == 42
    assert cache.read_text() == "mine"


@needs_compiler
def test_a_user_without_a_home_has_no_cache(monkeypatch):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", no_home)
    assert toolchain._cache_directory() is None
    assert built() == 42


@pytest.mark.parametrize(("system", "place"), [("linux", ".cache"), ("darwin", "Library/Caches")])
def test_the_cache_is_where_the_system_has_caches(monkeypatch, tmp_path, system, place):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert toolchain._cache_directory() == tmp_path / place / "micrograd"


def refusing(monkeypatch, refused, error):
    """Let no temporary directory be made in some directories."""
    true = toolchain.tempfile.TemporaryDirectory

    def temporary(*args, dir=None, **options):
        if refused(dir):
            raise error
        return true(*args, dir=dir, **options)

    monkeypatch.setattr(toolchain.tempfile, "TemporaryDirectory", temporary)


@needs_compiler
def test_a_read_only_cache_does_no_harm(cache, monkeypatch, caplog):
    caplog.set_level(logging.INFO, "micrograd")
    built(43)
    cache.chmod(0o500)
    if os.access(cache, os.W_OK):  # root may write anywhere
        refusing(monkeypatch, lambda dir: dir == cache, PermissionError(errno.EACCES, "Permission denied"))
    try:
        assert [built(43), built(42)] == [43, 42]
    finally:
        cache.chmod(0o700)
    assert "cannot be used" in caplog.text
    assert len(files(cache)) == 1


@needs_compiler
def test_a_full_disk_under_the_cache_does_no_harm(cache, fake, monkeypatch):
    """The compiler fails, as it does where there is no room, as long as it is to write into the cache."""
    calls = fake(f'case "$*" in *{cache}*) echo "No space left on device" >&2; exit 1;; esac; exec $REAL "$@"')
    disk = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: disk)
    for free in (0, 2**20 - 1):  # bytes
        disk = disk._replace(free=free)
        assert built() == 42
    assert calls() == 4
    assert list(cache.iterdir()) == []
    disk = disk._replace(free=2**20)
    with pytest.raises(CompilerError, match="No space left on device"):
        built()


@needs_compiler
def test_a_full_disk_everywhere_is_an_error_that_says_so(cache, monkeypatch):
    refusing(monkeypatch, lambda dir: True, OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(CompilerError, match="No space left on device"):
        called("c")
    assert "Python" in repr(called("auto"))


def build_at_once(barrier, results, cache, cc):
    os.environ["XDG_CACHE_HOME"], os.environ["CC"] = str(cache.parent), cc
    barrier.wait()
    results.put(built())


@needs_compiler
def test_two_processes_may_build_the_same_at_once(cache, fake):
    calls = fake('sleep 0.3; exec $REAL "$@"')
    shutil.copytree(cache.parent.parent / "probed" / "micrograd", cache)
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(2), context.Queue()
    processes = [
        context.Process(target=build_at_once, args=(barrier, results, cache, os.environ["CC"])) for _ in range(2)
    ]
    for process in processes:
        process.start()
    assert [results.get(timeout=60) for _ in processes] == [42, 42]
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert calls() == 2
    assert [built(), calls()] == [42, 2]
    assert len(files(cache)) == len(list(cache.iterdir())) == 2  # with what the compiler was tried on


def keep_building(cache, cc, limit, numbers, results):
    """Build and use libraries, and ask each what it is as long as another process may remove it."""
    os.environ["XDG_CACHE_HOME"], os.environ["CC"], toolchain.LIMIT = str(cache.parent), cc, limit
    libraries = {n: toolchain.build(answer(n)) for n in numbers}
    results.put([toolchain.build(answer(n)).answer() for n in numbers] + [libraries[n].answer() for n in numbers])


@needs_compiler
def test_processes_may_use_and_tidy_a_cache_at_once(cache, fake):
    fake('exec $REAL "$@"')
    built(1)
    size = files(cache)[0].stat().st_size
    limit = 2 * size + size // 2
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    numbers = [1, 2, 3, 4]
    processes = [
        context.Process(target=keep_building, args=(cache, os.environ["CC"], limit, order, results))
        for order in (numbers, numbers[::-1])
    ]
    for process in processes:
        process.start()
    assert sorted(results.get(timeout=120) for _ in processes) == [numbers * 2, numbers[::-1] * 2]
    for process in processes:
        process.join(60)
    assert 1 <= len(files(cache)) <= 3
    assert len(files(cache)) == len(list(cache.iterdir()))


@needs_compiler
def test_the_libraries_that_were_used_least_recently_are_removed_above_the_limit(cache, fake, monkeypatch):
    calls = fake('exec $REAL "$@"')
    for n in (1, 2, 3):
        built(n)
        for file in files(cache):  # all of them longer ago
            os.utime(file, ns=(0, file.stat().st_mtime_ns - 10**10))
    size = files(cache)[0].stat().st_size
    assert built(1) == 1  # which is used again
    monkeypatch.setattr(toolchain, "LIMIT", 3 * size)
    assert [built(4), calls(), len(files(cache))] == [4, 4, 3]
    assert [built(1), built(3), built(4), calls()] == [1, 3, 4, 4]
    assert [built(2), calls()] == [2, 5]
    monkeypatch.setattr(toolchain, "LIMIT", size - 1)
    assert [built(5), files(cache)] == [5, []]


KILLED = """
from micrograd.compiler.native import toolchain
toolchain.build("int answer(void) { return 1; }")
"""


@needs_compiler
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="a process cannot be killed by a signal")
@pytest.mark.parametrize("cached", [True, False], ids=["a cache", "no cache"])
def test_what_killed_processes_leave_is_removed_later(cache, fake, monkeypatch, tmp_path, cached):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    if not cached:
        cache.parent.mkdir()
        cache.write_text("in place of the directory")
    fake(f"touch {tmp_path}/begun; sleep 60")
    environment = {**os.environ, "TMPDIR": str(temporary)}
    process = subprocess.Popen([sys.executable, "-c", KILLED], env=environment, start_new_session=True)
    while not (tmp_path / "begun").exists():
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    directory = cache if cached else temporary
    (left,) = directory.iterdir()
    fake('exec $REAL "$@"')
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    assert [built(2), left.exists()] == [2, True]  # for it may be at work
    os.utime(left, (0, time.time() - toolchain.ABANDONED - 1))
    assert [built(3), left.exists()] == [3, False]


@needs_compiler
def test_a_library_that_another_process_removes_meanwhile_is_built_again_without_a_word(
    cache, fake, monkeypatch, caplog
):
    calls = fake('exec $REAL "$@"')
    built()
    true = toolchain._file_name

    def removed(key, content):
        for file in files(cache):
            file.unlink()
        return true(key, content + b"?") if calls() == 1 else true(key, content)

    monkeypatch.setattr(toolchain, "_file_name", removed)
    assert [built(), calls(), caplog.text] == [42, 2, ""]


@needs_compiler
def test_a_slow_compilation_says_that_it_is_under_way(cache, fake, monkeypatch, caplog):
    monkeypatch.setattr(toolchain, "PATIENCE", 0.05)
    fake('sleep 0.5; exec $REAL "$@"')
    built()
    assert re.search(r"still compiling 1 lines of C with .*fake-cc", caplog.text)


@needs_compiler
def test_ziglang_is_called_by_its_name_and_not_by_that_of_python(cache, fake, monkeypatch, caplog):
    fake('[ "$1" = ziglang ] && shift; sleep 0.5; exec $REAL "$@"')
    monkeypatch.setenv("CC", f"{os.environ['CC']} ziglang")
    monkeypatch.setattr(toolchain, "PATIENCE", 0.05)
    built()
    assert "lines of C with ziglang; the first time can take a minute or two" in caplog.text


def test_a_slow_trace_says_that_it_is_under_way(monkeypatch, caplog):
    monkeypatch.setattr(toolchain, "PATIENCE", 0.05)
    micrograd.compile(lambda x: time.sleep(0.5) or x, (1.0,), backend="python")
    assert "still tracing the function" in caplog.text


def test_nothing_is_said_of_what_is_quick(caplog):
    micrograd.compile(lambda x: x, (1.0,), backend="python")
    assert caplog.text == ""


def test_a_processor_that_linux_does_not_describe_is_asked_of_python(monkeypatch):
    def missing(path):
        raise FileNotFoundError(path)

    monkeypatch.setattr(Path, "read_text", missing)
    monkeypatch.setattr(toolchain.platform, "processor", lambda: "abacus")
    assert toolchain._processor.__wrapped__() == "abacus"


def test_a_machine_of_another_kind_gets_no_flags_of_this_one(cache, fake, monkeypatch, tmp_path):
    fake(f'echo "$@" > {tmp_path}/arguments; exit 1')
    for machine, there in (("x86_64", True), ("aarch64", False)):
        monkeypatch.setattr(toolchain.platform, "machine", lambda machine=machine: machine)
        with pytest.raises(CompilerError):
            built()
        assert ("-mprefer-vector-width=512" in (tmp_path / "arguments").read_text()) == there
    assert "-ffast-math" not in (tmp_path / "arguments").read_text()


@needs_compiler
@pytest.mark.parametrize("vectors", [True, False])
def test_the_generated_code_does_not_write_beyond_what_it_is_given(vectors):
    """Each buffer is followed by numbers that must stay as they are."""
    model, loss, points, labels = moons(11)
    fast = micrograd.compile(loss, (points[0], labels[0]), parameters=model.parameters(), backend="c")
    library = fast._backends[((2,), ())].library("backward", 11 if vectors else 1)
    packed = fast.pack(points, labels)
    n = len(model.parameters())
    numbers = np.array([parameter.data for parameter in model.parameters()])
    sizes = {"gradients": n, "results": 11, "work": library.room // 8}
    buffers = {}
    for name, size in sizes.items():
        room = np.full(size + 17, 7.0)
        start = next(k for k in range(8) if (room.ctypes.data + 8 * k) % 64 == 8)  # the worst place for vectors
        buffers[name] = room[start : start + size + 9]
        buffers[name][:size] = 0.0
    gradients, results, work = (buffer.ctypes.data for buffer in buffers.values())
    run = library._run
    run.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_double] + [ctypes.c_void_p] * 3 + [ctypes.c_int64]
    run(numbers.ctypes.data, packed.pointers, None, 1.0, gradients, results, work, 11)
    assert buffers["results"][:11] == pytest.approx(fast.map(points, labels), rel=1e-12)
    for name, size in sizes.items():
        assert buffers[name][size:].tolist() == [7.0] * 9


AGAIN = """
from micrograd import Value, compile, dot, losses, where

ws = [Value(0.1 * i - 0.3) for i in range(40)]

def function(xs, y):
    hidden = [dot(ws[4 * i : 4 * i + 4], xs).tanh() for i in range(10)]
    chosen = [where(x > 0.1, x.exp(), 7.5 * w) for x, w in zip(hidden, ws)]
    return losses.cross_entropy(chosen, y) + sum(w * w for w in ws)

fast = compile(function, ([0.1] * 4, 3), parameters=ws, backend="c")
fast([0.1] * 4, 3)
fast.backward([[0.1] * 4] * 40, [3] * 40)
fast.value_and_grad([0.1] * 4, 3)
"""


@needs_compiler
def test_the_next_process_finds_what_the_last_one_compiled(cache):
    found = []
    for seed in "0", "1":
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run(
            [sys.executable, "-c", AGAIN], env=environment, cwd=Path(__file__).parents[3], check=True, timeout=120
        )
        found.append(files(cache))
    assert len(found[0]) == 4  # one for each kind of call, and the one that tells whether the compiler works
    assert found[1] == found[0]


@needs_compiler
def test_another_text_in_c_is_another_library(cache, monkeypatch):
    assert compiled("c")(1.0) == 2.0
    monkeypatch.setitem(c.PARTS, "run", c.PARTS["run"].replace("OUTPUTS + i] =", "OUTPUTS + i] = 10.0 *"))
    assert compiled("c")(1.0) == 20.0


@needs_compiler
def test_threads_may_build_at_once(cache):
    values, barrier = [], threading.Barrier(4)

    def work():
        barrier.wait()
        values.append(built())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert values == [42] * 4
    assert len(files(cache)) == 1


@needs_compiler
def test_a_model_goes_on_from_where_a_copy_was_made(cache):
    """The parameters of a compiled function are those it was given, not their numbers."""
    model, loss, points, labels = moons()
    fast = micrograd.compile(loss, (points[0], labels[0]), parameters=model.parameters(), backend="c")
    before = fast(points[0], labels[0])
    saved = copy.deepcopy(model.state_dict())
    for parameter in model.parameters():
        parameter.data += 0.5
    assert fast(points[0], labels[0]) != before
    model.load_state_dict(saved)
    assert fast(points[0], labels[0]) == before


@needs_compiler
@pytest.mark.parametrize("precision", ["double", "single"])
@pytest.mark.parametrize(
    "quotient",
    [
        lambda x, w: x / 0.0,
        lambda x, w: w * (x / 0.0).tanh(),
        lambda x, w: w * (1.0 / where(x > 2, x, 0.0)).tanh(),
        lambda x, w: w * (where(x > 2, x, 0.0) ** -1).tanh(),
        lambda x, w: w * (1.0 / where(x > 2, 0.0, -0.0)).tanh(),
        lambda x, w: w * sum([x / c for c in [1.0, 2.0, 3.0, 0.0, *[4.0] * 20]]).tanh(),
    ],
)
def test_a_division_that_a_c_compiler_may_carry_out_itself_is_an_error(quotient, precision, optimized):
    w = Value(1.0)
    fast = micrograd.compile(
        lambda x: quotient(x, w), (0.0,), parameters=[w], backend=Backend("c", precision=precision)
    )
    calls = [fast, fast.value_and_grad, lambda x: fast.backward([x]), lambda x: fast.map([x])]
    calls += [lambda x: fast.backward([x] * 40), lambda x: fast.map([x] * 40)]
    for call in calls:
        with pytest.raises(ZeroDivisionError):
            call(1.0)
    with pytest.raises(ZeroDivisionError), fast.training(SGD([w], 0.1)) as step:
        step([1.0])
    assert w.data == 1.0
