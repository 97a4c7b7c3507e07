"""Checking gradients against numerically computed slopes."""

import math
import sys
from collections.abc import Callable
from itertools import chain
from typing import Any

from micrograd.derivatives import derivative, gradient
from micrograd.engine import Value
from micrograd.reductions import dot
from micrograd.scalar import innermost
from micrograd.trees import flat, leaves, replaced

STEPS = 12  # in each of two scales, each a quarter of the one before
ORDERS = 6  # of extrapolation
SLACK = 30  # how many times its estimated error an estimate may be off


class GradientError(AssertionError):
    """A gradient differs from the slope of its function."""


def gradcheck(f: Callable[..., Any], inputs: Any, *, rtol: float = 1e-7, atol: float = 1e-10) -> bool:
    """Check the gradients of `f` against the slopes of its results: True, or an error.

    The slopes are central differences, extrapolated to a step of 0 (Ridders, 1982). Steps start at about a tenth of the
    input, and of 1 if that is larger. At a kink, such as that of relu at 0, there is no slope: the difference is the
    mean of both sides. It may differ from the gradient by `atol`, or by `rtol` times the larger of the two.

    Gradients are computed three times. The second time, results also contain the inputs themselves: a `_backward` with
    `x.grad = ...` for `x.grad += ...` loses what was in `x.grad` before. The third time, results are multiplied by
    -1/2: a `_backward` that does not multiply by its gradient returns the same as before.

    `f` returns a number or nested lists of them; `inputs` are its arguments in a list or tuple, or a single one:
    numbers, Values, nested lists, arrays. Raises GradientError for the first gradient that differs, with the input, the
    gradient, the slope and the relative error; or for an input whose gradient is replaced, or is not proportional to
    that of the result. Other errors are those of `grad`.
    """
    arguments = replaced(innermost, tuple(inputs) if isinstance(inputs, list | tuple) else (inputs,))
    names, xs = [name for name, _ in leaves("inputs", arguments)], flat(arguments)

    def on_numbers(numbers: list[Any]) -> list[Any]:
        each = iter(numbers)
        return flat(f(*replaced(lambda _: next(each), arguments)))

    gradients = derivative(on_numbers, 0, lambda call: [_thrice(y, call.variables) for y in call.outputs])(xs)
    for i, name in enumerate(names):
        for found, slope in zip(gradients, _slopes(on_numbers, xs, i), strict=True):
            gradient, begun, ended, scaled = found[i]
            size = max(abs(gradient), abs(slope)) or 1.0
            if not abs(gradient - slope) <= max(atol, rtol * size):  # NaN is never right
                raise GradientError(
                    f"the gradient with respect to {name} is {gradient!r}, but the central difference gives {slope!r}: "
                    f"a relative error of {abs(gradient - slope) / size:.2g}"
                )
            if abs(ended - begun - gradient) > abs(begun) / 1000:  # far more than rounding
                raise GradientError(
                    f"the gradient with respect to {name} is not added to what was there before: "
                    "let each _backward add to the grad of its operands, as in `x.grad += ...`"
                )
            if abs(scaled + gradient / 2) > max(atol, abs(gradient) / 1000):
                raise GradientError(
                    f"the gradient with respect to {name} is {gradient!r} for a gradient of 1 in the result, and not "
                    f"-0.5 times that for -0.5, but {scaled!r}: let each _backward multiply by the gradient that it "
                    "takes, as in `x.grad += grad * ...`"
                )
    return True


def _thrice(output: Value, variables: list[Any]) -> list[tuple[float, ...]]:
    """The gradient of `output` for each variable; another number; the gradient added to that; that of output / -2.

    A sum of the output and each variable times its number sends these back first, before any `_backward` of `f`.
    Halves have the rounding errors of the whole.
    """

    def slopes(of: Value) -> list[float]:
        return [float(innermost(slope)) for slope in gradient(of, variables)]

    found = slopes(output)
    begun = [slope / -2 if abs(slope) > 1 else 1.0 for slope in found]
    ended = slopes(dot([output, *variables], [1.0, *begun]))
    return list(zip(found, begun, ended, slopes(output * -0.5), strict=True))


def _slopes(function: Callable[..., Any], xs: list[Any], i: int) -> list[float]:
    """The slope of each number in the result for xs with respect to xs[i]."""

    def results(x: float) -> list[Any]:
        return [innermost(output) for output in function([Value(x if j == i else y) for j, y in enumerate(xs)])]

    x = float(xs[i])
    steps: list[float] = []
    differences = []
    sizes = math.frexp(x)[1], max(math.frexp(x)[1], 0)  # the scale of x, and that of 1 if x is small
    near = sorted({size - 4 - 2 * n for size in sizes for n in range(STEPS)}, reverse=True)
    for exponent in chain(near, range(near[-1] - 2, -1075, -2)):
        h = math.ldexp(1.0, exponent)
        if x + h == x or (exponent < near[-1] and len(steps) >= STEPS):
            break
        try:
            pairs = list(zip(results(x + h), results(x - h), strict=True))
        except (ValueError, ArithmeticError):
            continue  # this far from x, the function is not defined
        steps.append(h)
        rounding = sys.float_info.epsilon / h
        differences.append([((a - b) / (2 * h), rounding * (abs(a) + abs(b)) + math.ulp(0.0) / h) for a, b in pairs])
    if not steps:
        raise ValueError(f"the function is not defined on both sides of {x!r}: it has no slope there to compare with")
    return [_limit(steps, column) for column in zip(*differences, strict=True)]


def _limit(steps: list[float], differences: tuple[tuple[float, float], ...]) -> float:
    """The limit of central differences at decreasing steps. Each difference comes with its possible rounding error.

    It is the extrapolation that has converged best, unless three from smaller steps contradict it, since large steps
    may miss what the function does near x. One or two may contradict it by chance, because of rounding.
    """
    found: list[tuple[float, float, float]] = []  # the limit, its error, and the largest of the same row
    row: list[float] = []
    for n, (difference, rounding) in enumerate(differences):
        before, row = row[:ORDERS], [difference]
        errors = []
        for order, old in enumerate(before, 1):
            ratio = steps[n - order] / steps[n]
            row.append(row[-1] + (row[-1] - old) / (ratio * ratio - 1))
            errors.append(max(abs(row[-1] - row[-2]), abs(row[-1] - old)) + rounding)
        if errors and max(errors) < math.inf:
            found.append((row[1 + errors.index(min(errors))], min(errors), max(errors)))

    def is_contradicted(i: int) -> bool:
        limit, error, _ = found[i]
        return sum(abs(limit - other) > SLACK * (error + largest) for other, _, largest in found[i + 1 :]) > 2

    settled = [found[i] for i in range(len(found)) if not is_contradicted(i)]
    return min(settled, key=lambda estimate: estimate[1], default=(math.nan,))[0]
