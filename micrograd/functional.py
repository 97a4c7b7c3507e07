"""Derivatives of functions: `grad`, `jacobian`, `jvp` and others take a function and return a function.

A derivative calls its function with variables, Values of a separate level, and carries derivatives back from the result
to them, or forward. So derivatives nest to any depth, and a function may close over Values whose gradients are computed
outside, such as the weights of a network. Levels avoid perturbation confusion (Siskind and Pearlmutter, 2005); each
thread counts its own, so compute an inner derivative in the thread of the outer one. Using a Value of an inner level
after its derivative has ended is an error.

Arguments are numbers, Values, NumPy arrays, and lists, tuples and dicts of these, with keys sorted as in JAX; keyword
arguments are passed on. The function gets copies of the containers. A gradient has the shape of its argument: an array
for an array, a dict for a dict, otherwise nested lists. Its numbers are floats for floats, exact for ints and
Fractions, and Values if an argument is a Value or the function closes over one.
"""

import math
import sys
from collections.abc import Sequence
from typing import Any

from micrograd.core import derivatives
from micrograd.core.derivatives import Argnum, Call, Function, Sweeps, derivative, gradient
from micrograd.core.errors import note_arguments
from micrograd.core.levels import as_number
from micrograd.engine import Value, promote
from micrograd.reductions import dot
from micrograd.scalar import innermost
from micrograd.support.arrays import array_of, is_array
from micrograd.support.trees import at_path, described, filled, flat, is_regular, leaves, replaced, shape_of, size

__all__ = ["GradientError", "grad", "gradcheck", "hessian", "hvp", "jacobian", "jvp", "value_and_grad", "vjp"]


def grad(f: Function, argnum: Argnum = 0) -> Function:
    """The gradient of `f`, as a function of the same arguments.

    `f` returns one number. `argnum` is the position of the argument to differentiate by, or several positions, for a
    list of gradients. The gradient raises TypeError if `f` does not return a number or an argument does not consist of
    numbers, and ValueError, ZeroDivisionError or OverflowError if a derivative does not exist there.
    """
    both = value_and_grad(f, argnum)
    return lambda *args, **options: both(*args, **options)[1]


def value_and_grad(f: Function, argnum: Argnum = 0) -> Function:
    """The result of `f` and its gradient, as a pair. Parameters and errors are as for `grad`."""

    def both(call: Call) -> tuple[Any, Any]:
        if len(call.outputs) != 1:
            raise TypeError(f"grad() expects a function that returns one number, not {len(call.outputs)}: use jacobian")
        [output] = call.outputs  # the result may be a list of one, as from NumPy's keepdims
        return output.data, call.gradient(gradient(output, call.variables))

    return derivative(f, argnum, both)


def jacobian(f: Function, argnum: Argnum = 0) -> "Jacobian":
    """The gradient of every number that `f` returns: nested lists in the shape of its result, then of the argument.

    `f` runs once. Derivatives are carried forward from the argument if it has fewer numbers than the result, otherwise
    back from the result. Parameters and errors are as for `grad`, but `f` may return nested lists or an array.
    """
    return Jacobian(f, argnum)


def hessian(f: Function, argnum: Argnum = 0) -> "Jacobian":
    """The second derivatives by each pair of numbers: the jacobian of the gradient. Errors are as for `grad`."""
    return Jacobian(grad(f, argnum), argnum, is_symmetric=True)


def jvp(f: Function, argnum: Argnum = 0) -> Function:
    """The result of `f` and its derivative in a direction: the jacobian times a vector, in forward mode.

    `jvp(f)` takes the arguments of `f`, then the vector, in the shape of `x`: `jvp(f)(x, vector)` returns a pair, both
    in the shape of the result. Parameters and errors are as for `grad`, but `f` may return nested lists or an array,
    and a vector with more or fewer numbers than `x` raises ValueError.
    """
    return _product("jvp", f, argnum, _tangent)


def vjp(f: Function, argnum: Argnum = 0) -> Function:
    """The result of `f` and the gradient of result . vector: a vector times the jacobian, in reverse mode.

    `vjp(f)` takes the arguments of `f`, then the vector, in the shape of the result: `vjp(f)(x, vector)` returns a
    pair, the gradient in the shape of `x`. Parameters and errors are as for `jvp`.
    """
    return _product("vjp", f, argnum, _cotangent)


def hvp(f: Function, argnum: Argnum = 0) -> Function:
    """The hessian of `f` times a vector: a function of the arguments of `f`, followed by the vector.

    It is the gradient of gradient . vector (Pearlmutter, 1994). Parameters and errors are as for `grad`, and a vector
    with more or fewer numbers than the argument raises ValueError.
    """
    return _product("hvp", grad(f, argnum), argnum, lambda call, vector: _cotangent(call, vector, "x")[1])


class Jacobian:
    """What `jacobian` and `hessian` return: the jacobian of `f`; it `is_symmetric` if `f` is a gradient."""

    def __init__(self, f: Function, argnum: Argnum, *, is_symmetric: bool = False) -> None:
        derivatives.check_function(f, argnum)
        self.f, self.argnum, self.is_symmetric = f, argnum, is_symmetric
        self.__name__ = "hessian" if is_symmetric else "jacobian"  # as the compiler's messages call it

    def __call__(self, *args: Any, **options: Any) -> Any:
        """The derivatives of the result, in its shape and then in that of the argument."""
        return derivative(self.f, self.argnum, _dense)(*args, **options)

    def sparse(self, *args: Any) -> tuple[Call, list[dict[int, Any]]]:
        """The call, and for each number in the result its derivatives that are not structurally zero, by variables."""

        def compute(call: Call) -> tuple[Call, list[dict[int, Any]]]:
            sweeps = Sweeps(call.variables, call.outputs)
            if self.is_symmetric:
                return call, sweeps.symmetric()
            return call, sweeps.jacobian(sweeps.products(forward=True) < sweeps.products(forward=False))

        return derivative(self.f, self.argnum, compute, lifts=True)(*args)  # type: ignore[no-any-return]


def _dense(call: Call) -> Any:
    """The jacobian with its zeros."""
    few_variables = len(call.variables) < len(call.outputs)  # this does not depend on where the zeros are
    found = Sweeps(call.variables, call.outputs).jacobian(few_variables)
    zeros = [derivatives.constant_zero(variable.data) for variable in call.variables]
    rows = [[zero + row[i] if i in row else zero for i, zero in enumerate(zeros)] for row in found]
    shape = shape_of(call.result)
    if is_array(call.args) and is_regular(shape):
        return array_of([x for row in rows for x in row], (*shape, *call.args.shape))
    return filled(call.result, map(call.gradient, rows))


def _product(name: str, f: Function, argnum: Argnum, compute: Any) -> Function:
    """The product of a jacobian and the vector that follows the arguments of `f`."""
    derivatives.check_function(f, argnum)

    def product(*args: Any, **options: Any) -> Any:
        if len(args) < 2:
            raise TypeError(f"call {name}(f) as {name}(f)(x, vector), the vector last; arguments given: {len(args)}")
        *args, vector = args  # type: ignore[assignment]
        return derivative(f, argnum, lambda call: compute(call, vector))(*args, **options)

    return product


def _numbers(call: Call, vector: Any, like: Any, of: str) -> list[Any]:
    """The numbers in a vector. Raises ValueError unless it has as many as `like`, and the same keys if it has keys."""
    numbers = flat(at_path(lambda number: as_number(number, call.level), "vector", vector))
    came, expected = shape_of(vector), shape_of(like)
    if len(numbers) != size(expected) or (came != expected and (len(came) > 1 or not is_regular(came))):
        raise ValueError(f"the vector must have the shape of {of}, {described(expected)}, not {described(came)}")
    return numbers


def _tangent(call: Call, vector: Any) -> tuple[Any, Any]:
    """The result and its derivative in the direction of the vector."""
    numbers = _numbers(call, vector, call.args, "x")
    rows = Sweeps(call.variables, call.outputs).forward({0: number} for number in numbers)
    values = [output.data for output in call.outputs]
    tangents = [derivatives.constant_zero(value) + row.get(0, 0) for value, row in zip(values, rows, strict=True)]
    return call.shaped(values), call.shaped(tangents)


def _cotangent(call: Call, vector: Any, of: str = "the result") -> tuple[Any, Any]:
    """The result and the gradient of its product with the vector."""
    numbers = _numbers(call, vector, call.result, of)
    slopes = gradient(dot(call.outputs, numbers), call.variables)
    return call.shaped([output.data for output in call.outputs]), call.gradient(slopes)


# Gradients against numerically computed slopes

STEPS = 12  # at the scale of x, each a quarter of the one before; larger ones down from the scale of 1 if x is small
ORDERS = 6  # of extrapolation
CONVERGED = 1e-12  # the relative error of a limit that has all its digits
NOISE = 1e-4  # the estimated error excuses at most this share of the slope, or of 1 if that is larger


class GradientError(AssertionError):
    """A gradient differs from the slope of its function."""


def gradcheck(f: Function, inputs: Any, *, rtol: float = 1e-7, atol: float = 1e-10) -> bool:
    """Check the gradients of `f` against the slopes of its results: True, or an error.

    The slopes are central differences, extrapolated to a step of 0 (Ridders, 1982). At a kink, such as relu's at 0, the
    difference is the mean of both sides. It may differ from the gradient by `atol`, by `rtol` times the larger of the
    two, or by its own estimated error, up to 0.01%.

    Gradients are computed twice, the second time times -1/2 and on top of others: this reveals a `_backward` that does
    not multiply by the gradient it takes, or replaces what was in `x.grad`.

    `f` returns a number or nested lists of them; `inputs` are its arguments in a list or tuple, or a single one. Raises
    GradientError for the first gradient that differs, with the input, the gradient, the slope and the relative error.
    Other errors are as for `grad`.
    """
    inputs = tuple(inputs) if isinstance(inputs, list | tuple) else (inputs,)
    arguments = at_path(lambda number: as_number(innermost(number), 0), "inputs", inputs)
    names, xs = [name for name, _ in leaves("inputs", arguments)], flat(arguments)

    def on_numbers(numbers: list[Any]) -> list[Any]:
        each = iter(numbers)
        return flat(f(*replaced(lambda _: next(each), arguments)))

    try:
        gradients = derivative(on_numbers, 0, lambda call: [_twice(y, call.variables) for y in call.outputs])(xs)
    except TypeError as refusal:
        note_arguments(refusal, "inputs", xs if len(xs) == len(inputs) else [])
        raise
    for i, name in enumerate(names):
        for found, (slope, error) in zip(gradients, _slopes(on_numbers, xs, i), strict=True):
            gradient, begun, ended = found[i]
            size = max(abs(gradient), abs(slope))
            allowed = max(atol, rtol * size, min(error, NOISE * max(size, 1.0)))
            if not abs(gradient - slope) <= allowed < math.inf:  # NaN and infinity are never right
                raise GradientError(
                    f"the gradient with respect to {name} is {gradient!r}, but the central difference gives {slope!r}: "
                    f"a relative error of {abs(gradient - slope) / (size or 1.0):.2g}"
                )
            if abs(ended - (begun - gradient / 2)) > abs(begun) / 1000:  # far more than rounding
                raise GradientError(
                    f"the gradient with respect to {name} is not multiplied by the gradient of the result, or not "
                    "added to what was there before: write each _backward as `x.grad += grad * ...`"
                )
    return True


def _twice(output: Value, variables: list[Any]) -> list[tuple[float, ...]]:
    """The gradient of `output` for each variable; another number; that number plus the gradient of output / -2.

    A sum of the output and each variable times its number sends these back first, before any `_backward` of `f`.
    """

    def slopes(of: Value) -> list[float]:
        return [float(innermost(slope)) for slope in gradient(of, variables)]

    found = slopes(output)
    begun = [slope / -2 if abs(slope) > 1e-6 else 1.0 for slope in found]
    return list(zip(found, begun, slopes(dot([output, *variables], [-0.5, *begun])), strict=True))


def _slopes(function: Function, xs: list[Any], i: int) -> list[tuple[float, float]]:
    """The slope at xs of each number in the result, with respect to xs[i], and how much it may be off."""

    def results(x: float) -> list[Any]:
        numbers = promote(*[x if j == i else y for j, y in enumerate(xs)])
        return [innermost(output) for output in function(list(numbers))]

    x = float(xs[i])
    differences: dict[float, list[tuple[float, float]]] = {}  # by step, one for each number in the result
    _, scale = math.frexp(x)
    for exponent in range(max(scale, 0) - 4, -1075, -2):
        h = math.ldexp(1.0, exponent)
        if x + h == x or (exponent < scale - 2 - 2 * STEPS and len(differences) >= STEPS):
            break
        try:
            pairs = list(zip(results(x + h), results(x - h), strict=True))
        except (ValueError, ArithmeticError):
            continue  # this far from x, the function is not defined
        rounding = sys.float_info.epsilon / (2 * h)
        differences[h] = [((a - b) / (2 * h), rounding * (abs(a) + abs(b)) + math.ulp(0.0) / h) for a, b in pairs]
    if not differences:
        raise ValueError(f"the function is not defined on both sides of {x!r}: it has no slope there to compare with")
    return [_limit(list(differences), column) for column in zip(*differences.values(), strict=True)]


def _limit(steps: list[float], differences: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The limit of central differences at decreasing steps, and how much it may be off. Each has its rounding error.

    Differences are a series in even powers of the step. The limit is the extrapolation that converged best. Large steps
    may miss what the function does near x, so a later one counts instead if it converged to all digits, or to four that
    contradict the ones before.
    """
    limit, least, row = math.nan, math.inf, list[float]()
    for n, (difference, rounding) in enumerate(differences):
        before, row = row, [difference]
        for order, old in enumerate(before[:ORDERS], 1):
            ratio = steps[n - order] / steps[n]
            row.append(row[-1] + (row[-1] - old) / (ratio * ratio - 1))
            error = max(abs(row[-1] - row[-2]), abs(row[-1] - old)) + rounding
            is_other = error <= NOISE * abs(row[-1]) < abs(row[-1] - limit) / 100
            if is_other or error <= max(least, CONVERGED * abs(row[-1])):
                limit, least = row[-1], error
    return limit, least
