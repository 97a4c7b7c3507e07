"""Sums, means and logsumexps of whole rows: one operation each, however long the row is, with the engine's results."""

import math
import random
from typing import Any

import pytest

import micrograd
from micrograd import Value, logsumexp, mean, take
from micrograd.reductions import sum as total
from tests.helpers import assert_as_engine, eager, flat, half_reading_grad, needs_compiler
from tests.kernels import graph_of

WEIGHTS = [0.5, -1.0, 2.0, 2.0, 0.25, -3.0, 0.75, 1.5, -0.5, 1.0]

FUNCTIONS: dict[str, Any] = {
    "sum": lambda x, ws: total(x), "mean": lambda x, ws: mean(x), "logsumexp": lambda x, ws: logsumexp(x),
    "sum of weights": lambda x, ws: total(ws) * x[0], "mean of weights": lambda x, ws: mean(ws) * x[0],
    "logsumexp of weights": lambda x, ws: logsumexp(ws) * x[0],
    "every second weight": lambda x, ws: logsumexp(ws[::2]) * mean(ws[1::2]) * total(x[::2]),
    "computed numbers": lambda x, ws: logsumexp([w * x[0] for w in ws]) + mean([w * w for w in ws]),
    "one row in all reductions": lambda x, ws: total(ws) * mean(ws) + 3 * logsumexp(ws) + micrograd.dot(ws, ws),
    "a row and parts of it": lambda x, ws: logsumexp(ws) + total(ws[:4]) * logsumexp(ws[2:7]) * ws[3],
    "the same number twice": lambda x, ws: logsumexp([*ws, *ws[:3]]) + logsumexp([x[0], x[1], x[0], x[0]]),
    "with plain numbers": lambda x, ws: logsumexp([*ws, 1.0]) + mean([*x, 2.0]) + total([0.5, *ws]),
    "one number": lambda x, ws: logsumexp(x[:1]) + mean(ws[:1]) * total(x[1:2]),
    "sums of sums": lambda x, ws: logsumexp([logsumexp(ws) * y for y in x]) + total([total(ws) * y for y in x]),
    "an item and its row": lambda x, ws: take(ws, 3) * logsumexp(ws) + x[2] * total(x),
    "a mean of losses": lambda x, ws: mean([(w - y) ** 2 for w, y in zip(ws, x, strict=False)]),
    "a table of constants": lambda x, ws: take([i % 7 for i in range(20)], (3 * x[0] + 9).clip(0, 19).floor()) * x[1],
    "few and many": lambda x, ws: logsumexp(x[:3]) + logsumexp(x[:8]) + logsumexp(x[1:]),
}  # fmt: skip


def assert_same(found: Any, expected: Any) -> None:
    assert flat(found) == pytest.approx(flat(expected), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_reductions_give_the_engines_results(name: str, backend: str) -> None:
    rng = random.Random(name)
    batch = [[rng.gauss(0, 2) for _ in range(9)] for _ in range(21)]
    ws = list(map(Value, WEIGHTS))
    fast = micrograd.compile(lambda x: FUNCTIONS[name](x, ws), (batch[0],), parameters=ws, backend=backend)
    value, (by_x, _) = eager(FUNCTIONS[name], batch[0], WEIGHTS)
    assert_same(fast.value_and_grad(batch[0]), [value, by_x])
    assert_as_engine(fast, lambda x: FUNCTIONS[name](x, ws), batch[:1])
    assert_as_engine(fast, lambda x: FUNCTIONS[name](x, ws), batch)


SPECIAL = {
    "ties": [1.0, 3.0, 3.0, 3.0], "an infinity": [1.0, math.inf, 0.0, 2.0],
    "two infinities": [math.inf, 1.0, math.inf, 2.0], "only -inf": [-math.inf] * 4,
    "some -inf": [-math.inf, 0.5, -math.inf, 1.0], "both infinities": [-math.inf, math.inf, 0.0, 1.0],
    "a NaN": [1.0, 2.0, math.nan, 0.0], "a NaN first": [math.nan, 2.0, 1.0, 0.0], "large": [1e307, 1e307, -1e307, 0.0],
    "zeros": [-0.0, 0.0, -0.0, 0.0], "small differences": [700.0, 0.0, -45.0, -10.0],
}  # fmt: skip


@pytest.mark.parametrize("times", [1, 3, 5])
@pytest.mark.parametrize("function", [logsumexp, mean])
def test_special_numbers_in_a_row_give_the_engines_results(function: Any, times: int, backend: str) -> None:
    fast = micrograd.compile(lambda x: function(x), ([0.0] * 4 * times,), backend=backend)
    for numbers in SPECIAL.values():
        x = numbers * times
        value, gradients = eager(function, x)
        assert flat(fast.value_and_grad(x)) == pytest.approx([value, *gradients], rel=1e-13, nan_ok=True), x
        assert fast.map([x] * 9) == pytest.approx([value] * 9, rel=1e-13, nan_ok=True), x


@pytest.mark.parametrize("function", [logsumexp, mean, total])
@pytest.mark.parametrize("of", ["arguments", "parameters"])
def test_a_reduction_of_a_longer_row_has_no_more_operations(function: Any, of: str) -> None:
    def n_operations(n: int) -> int:
        ws = list(map(Value, range(n)))
        graph = graph_of(lambda x: function(x if of == "arguments" else ws), ([0.0] * n,), ws)
        live = graph.trace.live([*graph.ends("backward").lines, *graph.argument_gradients])
        return sum(graph.trace.ops[line] not in ("item", "stack") for line in live)

    assert n_operations(5) == n_operations(500)


def test_an_error_in_a_row_names_the_operation_that_failed() -> None:
    fast = micrograd.compile(lambda x: logsumexp([y.log() for y in x]), ([1.0, 2.0, 3.0],), backend="python")
    with pytest.raises(ValueError, match=r"log\(-2.0\)"):
        fast([1.0, -2.0, 3.0])


def test_rows_beside_user_closures_pass_each_gradient_on_at_once(backend: str) -> None:
    ws = list(map(Value, WEIGHTS))

    def function(x: Any) -> Any:
        halves = [half_reading_grad(w) for w in ws]
        return logsumexp(halves) + mean(ws) * half_reading_grad(ws[2]) + total(x) * logsumexp(ws) + logsumexp(x)

    x = [0.5, 1.0, -2.0, 0.25]
    fast = micrograd.compile(function, (x,), parameters=ws, backend=backend)
    assert_as_engine(fast, function, [x], tolerance=1e-13)


@needs_compiler
@pytest.mark.parametrize("derivative", [micrograd.functional.grad, micrograd.functional.hessian])
def test_derivatives_of_derivatives_of_a_row(derivative: Any) -> None:
    x = [0.5, 1.0, -2.0, 0.25]
    function = derivative(lambda x: logsumexp(x) * mean(x))
    fast = micrograd.compile(function, (x,), backend="c")
    assert flat(fast(x)) == pytest.approx(flat(function(x)), rel=1e-12)
