"""The checks of part 7: derivatives and compiled code."""

import math
from collections.abc import Callable

import micrograd
from micrograd import gradcheck
from micrograd.functional import GradientError

from .answers import NotYet, check, close, leads_back, number_of, same, same_gradients, value_of


@check
def softsign(answer: Callable) -> None:
    for number in 2.0, -0.5:
        x = micrograd.Value(number)
        node = value_of(f"softsign(Value({number}))", answer(x))
        same(f"the number in softsign(Value({number}))", node.data, number / (1 + abs(number)))
        leads_back(f"softsign(Value({number}))", node, x=x)
        if len(node._prev) != 1 or node._prev[0] is not x:
            raise NotYet("it has the right number, but it is not a single node with x as its operand")
    for name, formula in [
        ("softsign(x)", answer), ("softsign(x) * 3", lambda x: answer(x) * 3),
        ("softsign(x) + x", lambda x: answer(x) + x), ("the derivative of softsign", micrograd.grad(answer)),
    ]:  # fmt: skip
        for number in -0.5, 2.0, -3.0, 0.25:
            try:
                gradcheck(formula, number)
            except GradientError as error:
                raise NotYet(f"{name} at {number}: {error}") from None
            except TypeError as error:
                if name != "the derivative of softsign":
                    raise
                raise NotYet(
                    "its derivative is right, but has none itself: there `x.data` is a Value, and a function of `math` "
                    "takes only plain numbers. Python's operators and `abs` take both"
                ) from error
    try:
        compiled = micrograd.compile(answer, (0.0,), backend="python")
    except Exception as error:
        raise NotYet(f"it is right as a Value, but cannot be compiled: {error}") from None
    same("compiled, softsign(-0.5)", compiled(-0.5), -0.5 / 1.5)


@check
def minimum(answer: Callable) -> None:
    for name, f, start, expected in [
        ("(x - 3) ** 2", lambda x: (x - 3) ** 2, 0.0, 3.0),
        ("e^x - 2 x", lambda x: x.exp() - 2 * x, 0.0, math.log(2)),
        ("x^4 + x^2 + x", lambda x: x**4 + x**2 + x, 1.0, -0.3854584985485024),
        ("1000 (x - 3) ** 2", lambda x: 1000 * (x - 3) ** 2, 0.0, 3.0),
        ("x^4 / 4 - x^2 / 2", lambda x: x**4 / 4 - x**2 / 2, 0.2, 1.0),
    ]:
        runs = 0

        def counted(x, f=f):
            nonlocal runs
            runs += 1
            if runs > 1000:
                raise NotYet("it has run the function a thousand times: is there something that ends the loop?")
            return f(x)

        call = f"minimum(f, {start}) of {name}"
        try:
            found = answer(counted, start)
        except OverflowError:
            raise NotYet(f"{call} runs away: how far to step depends on how fast the slope changes") from None
        found = number_of(call, found.data if isinstance(found, micrograd.Value) else found)
        if not close(found, expected, 1e-6):
            slope, bend = micrograd.grad(f)(float(found)), micrograd.grad(micrograd.grad(f))(float(found))
            if abs(slope) < 1e-6 and bend < 0:
                raise NotYet(f"{call} gives {found:.6g}: the slope is 0 there, but it is the top of a hill")
            raise NotYet(f"{call} gives {found:.6g}, where the slope is {slope:.3g}, not 0")


@check
def huber(answer: Callable) -> None:
    points = [(0.5, 0.0, 0.125), (0.0, -0.8, 0.32), (3.0, 0.0, 2.5), (-3.0, 0.0, 2.5)]
    for prediction, target, expected in points:
        call = f"huber({prediction}, {target})"
        same(call, value_of(call, answer(micrograd.Value(prediction), micrograd.Value(target))).data, expected)
        same_gradients(call, answer, _huber, prediction=prediction, target=target)
    try:
        compiled = micrograd.compile(answer, (0.0, 0.0), backend="python")
    except micrograd.compiler.TraceError as error:
        raise NotYet(f"the numbers are right, but it cannot be compiled; `where` may help. {error}") from None
    for prediction, target, expected in points:
        same(f"compiled, huber({prediction}, {target})", compiled(prediction, target), expected)


def _huber(prediction: micrograd.Value, target: micrograd.Value) -> micrograd.Value:
    error = abs(prediction - target)
    return error**2 / 2 if error <= 1 else error - 0.5
