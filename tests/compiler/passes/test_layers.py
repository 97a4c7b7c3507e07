"""Layers: sums over the same numbers, added up several at a time, with the engine's results."""

import math

import pytest

from micrograd import Backend, Value, compile, dot, maximum, nn
from micrograd.compiler.ir import Accumulate, Assign, Call, Loop, Ref, Sum, Term, show
from micrograd.compiler.passes.layers import FEWEST, with_layers
from tests.helpers import assert_as_engine, needs_compiler

BIAS = Term("+", (Ref("p", 40, (50,)),))
PRODUCTS = Loop(32, (Term("+", (Ref("p", 0, (50, 1)), Ref("x", 0, (0, 1)))),))
SUM = Ref("t0", 0, (1,))
TANH = Assign(Ref("t1", 0, (1,)), Call("tanh", (SUM,)))


def test_a_layer_is_added_to_the_first_terms_of_its_sums():
    kernel = with_layers([Loop(9, (Assign(SUM, Sum((BIAS, PRODUCTS, PRODUCTS))), TANH))], lanes=True)
    assert [step.layer for step in kernel] == [False, True, True, False]
    assert show(kernel) == (
        "for i in 9:\n    t0[i] = p[40+50i]\n"
        + "for i in 9:\n    t0[i] += sum(p[50i+j] * x[j] for j in 32)\n" * 2
        + "for i in 9:\n    t1[i] = tanh(t0[i])\n"
    )


def product(of=PRODUCTS.body[0].factors, sign="+", rounds=32):
    return Loop(rounds, (Term(sign, of),))


OTHERS = {
    "a short sum": product(rounds=FEWEST - 1),
    "different numbers for each sum": product((Ref("p", 0, (50, 1)), Ref("x", 0, (1, 1)))),
    "different weights for each example": product((Ref("t5", 0, (50, 1)), Ref("x", 0, (0, 1)))),
    "numbers alone": product((Ref("p", 0, (50, 1)),)),
    "differences": product(sign="-"),
    "several products a round": Loop(32, PRODUCTS.body * 2),
    "no loop": BIAS,
}


@pytest.mark.parametrize("last", OTHERS.values(), ids=OTHERS)
def test_other_sums_stay_as_they_are(last):
    kernel = [Loop(9, (Assign(SUM, Sum((BIAS, last))),))]
    assert with_layers(kernel, lanes=True) == kernel


def test_a_result_and_a_sum_that_other_rounds_read_stay_as_they_are():
    for kernel in (
        [Loop(9, (Assign(Ref("y", 0, (1,)), Sum((PRODUCTS,))),))],
        [Loop(9, (Assign(SUM, Sum((PRODUCTS,))), Assign(Ref("t1", 0, (1,)), Ref("t0", 8, (-1,)))))],
    ):
        assert with_layers(kernel, lanes=True) == kernel


def test_a_layer_in_a_loop_is_a_layer_in_each_round():
    for lanes, strides, rounds in ((True, (0, 50, 1), 32), (False, (0, 1, 9), Ref("", 3, (1,)))):  # 32, or 3, 4, ...
        products = product((Ref("p", 0, strides), Ref("x", 0, (32, 0, 1))), rounds=rounds)
        inner = Loop(9, (Assign(Ref("t0", 0, (9, 1)), Sum((products,))),))
        (loop,) = with_layers([Loop(4, (inner,))], lanes=lanes)
        assert [step.layer for step in loop.body] == [False, True]


A, B = Ref("x", 3, (0, 2)), Ref("p", 0, (1, 9))  # for a single example: the same x for each column of p
COLUMNS, SQUARES = product((A, B), rounds=14), Term("-", (SUM._replace(array="x"),) * 2)
CELL, SEED = Ref("x", 0, (1, 9)), Ref("seed", 0, (0, 0))
NESTED = Loop(4, (product((Ref("x", 0, (0, 70, 5)), Ref("p", 0, (1, 9, 40)))),))
LAYER = "+= sum(p[i+9j] * x[3+2j] for j in 14)"


@pytest.mark.parametrize(("step", "expected"), [
    (Assign(SUM, Sum((COLUMNS,))), ["= -0.0", LAYER]),
    (Assign(SUM, Sum((SQUARES, COLUMNS))), ["= - x[i] * x[i]", LAYER]),
    (Assign(SUM, Sum((COLUMNS, SQUARES, COLUMNS))), ["= -0.0", LAYER, "= t0[i] - x[i] * x[i]", LAYER]),
    (Accumulate(SUM, Sum((COLUMNS, SQUARES))), [LAYER, "+= - x[i] * x[i]"]),
    (Assign(SUM, Sum((product((CELL, CELL), "-", 2), BIAS))), ["= - x[i] * x[i] - x[9+i] * x[9+i] + p[40+50i]"]),
    (Accumulate(SUM, Sum((product((CELL, SEED), rounds=2),))), ["+= x[i] * seed[0] + x[9+i] * seed[0]"]),
    (Assign(SUM, Sum((product((CELL,), ">", 3),))), ["= largest(x[i], x[9+i], x[18+i])"]),
])  # fmt: skip
def test_sums_over_columns_are_layers_for_a_single_example(step, expected):
    kernel = with_layers([Loop(9, (step,))], lanes=False)
    assert show(kernel) == "".join(f"for i in 9:\n    t0[i] {line}\n" for line in expected)
    assert [step.layer for step in kernel] == [line == LAYER for line in expected]


def test_a_loop_of_layers_is_around_their_sums():
    _, outer = with_layers([Loop(9, (Assign(SUM, Sum((NESTED,))),))], lanes=False)
    assert show([outer]) == "for i in 4:\n    for j in 9:\n        t0[j] += sum(p[9i+j+40k] * x[70i+5k] for k in 32)\n"
    assert outer.body[0].layer


def test_other_long_sums_over_columns_have_strips_of_terms_in_the_outer_loop():
    _, outer = with_layers([Loop(9, (Assign(SUM, Sum((product((CELL,), rounds=15),))),))], lanes=False)
    terms = " + ".join(f"x[{f'{k}+' * (k > 0)}45i+j]" for k in range(0, 45, 9))
    assert show([outer]) == f"for i in 3:\n    for j in 9:\n        t0[j] = t0[j] + {terms}\n"


@needs_compiler
@pytest.mark.parametrize("precision", ["double", "single"])
@pytest.mark.parametrize(("rows", "columns"), [(3, 5), (17, 1), (16, 64), (7, 75), (20, 8), (33, 9), (4, 150)])
def test_sums_over_columns_of_any_size_give_the_engines_numbers(precision, rows, columns):
    matrix = [Value(math.cos(i)) for i in range(rows * columns)]
    xs = [[math.sin(7.0 * i + k) for i in range(rows)] for k in range(3)]

    def loss(x):
        found = [matrix[j::columns] for j in range(columns)]
        sums = [dot(x, column) for column in found]
        others = [maximum(*column) - sum(a * a for a in column) for column in found]
        return sum(a * b for a, b in zip(sums, others, strict=True))

    fast = compile(loss, (xs[0],), parameters=matrix, backend=Backend("c", precision=precision))
    assert_as_engine(fast, loss, xs, tolerance=1e-12 if precision == "double" else 1e-4)


@needs_compiler
@pytest.mark.parametrize("precision", ["double", "single"])
@pytest.mark.parametrize(("n_inputs", "hidden"), [(33, 5), (129, 26), (300, 13)])
def test_layers_of_any_size_give_the_engines_numbers(precision, n_inputs, hidden):
    model = nn.MLP(n_inputs, [hidden, 34, 3], activation="tanh", rng=1)
    xs = [[math.sin(7.0 * i + 3.0 * k) for i in range(n_inputs)] for k in range(11)]

    def loss(x):
        a, b, c = model(x)
        return a * b + c

    fast = compile(loss, (xs[0],), parameters=model.parameters(), backend=Backend("c", precision=precision))
    assert_as_engine(fast, loss, xs, tolerance=1e-12 if precision == "double" else 1e-4)
