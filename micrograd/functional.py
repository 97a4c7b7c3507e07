"""Derivatives of functions: `grad`, `jacobian` and `hessian` take a function and return a function.

A derivative calls its function with variables, Values of a separate level, and propagates back from the result. A
variable holds the argument itself: if that is a Value, as inside another derivative, the gradients are Values too, and
have derivatives in turn. So derivatives nest to any depth, and a function may close over Values whose gradients are
computed outside, such as the weights of a network.

Levels distinguish the variables of nested derivatives: in `x * grad(lambda y: x + y)(1.0)` the inner derivative sees x
as a constant of a lower level. (Mistaking one variable for the other is called perturbation confusion: Siskind and
Pearlmutter, 2005.) Each thread counts its own levels: compute an inner derivative in the thread of the outer one. A
number that `backward()` stores in `grad` within the function is a constant to the derivative. It is an error to use a
Value of an inner level after its derivative has ended.

Arguments are numbers, Values, nested lists and tuples of these, and NumPy arrays; keyword arguments are passed on. The
function gets copies of the containers, which it may change in place; a table or Series of pandas becomes an array, an
array without dimensions a number. Gradients are nested lists of the shape of the argument: floats for floats, ints and
Fractions for exact numbers, Values if an argument is a Value or the function closes over one.
"""

import functools
import math
import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from itertools import chain
from numbers import Real
from typing import Any

from micrograd import scalar
from micrograd.engine import Value
from micrograd.errors import require_ordered, shown
from micrograd.levels import active_levels, check_active
from micrograd.reductions import dot
from micrograd.validation import plain, renamed, row

__all__ = ["GradientError", "grad", "gradcheck", "hessian", "hvp", "jacobian", "value_and_grad"]

JAX = {"argnums": "argnum"}
"""JAX's name for what has another name here."""

Function = Callable[..., Any]
Argnum = int | Sequence[int]

_depth = ContextVar("depth", default=0)  # how many derivatives are running, one inside the other


@renamed(**JAX)
def grad(f: Function, argnum: Argnum = 0) -> Function:
    """The gradient of `f`, as a function of the same arguments.

    Parameters
    ----------
    f
        A function that returns one number.
    argnum
        The position of the argument to differentiate by, or several positions, for a list of gradients.

    Raises
    ------
    TypeError
        From the gradient: if `f` does not return a number, or an argument does not consist of numbers.
    ValueError, ZeroDivisionError, OverflowError
        From the gradient: if a derivative does not exist there.
    """
    both = value_and_grad(f, argnum)
    return lambda *args, **options: both(*args, **options)[1]


@renamed(**JAX)
def value_and_grad(f: Function, argnum: Argnum = 0) -> Function:
    """The result of `f` and its gradient, as a pair. Parameters and errors are those of `grad`."""

    def both(variables: Any, result: Any) -> tuple[Any, Any]:
        outputs = _numbers(result)  # also of a list of one number, which NumPy's keepdims returns
        if len(outputs) != 1:
            raise TypeError(f"grad() expects a function that returns one number, not {len(outputs)}: use jacobian")
        return outputs[0].data, _gradient(outputs[0], variables)

    return _derivative(f, argnum, both)


@renamed(**JAX)
def jacobian(f: Function, argnum: Argnum = 0) -> Function:
    """The gradient of every number that `f` returns: nested lists of the shape of its result, then of the argument.

    `f` runs once, then `backward` runs for each number in its result. Parameters and errors are those of `grad`, except
    that `f` may return nested lists or an array.
    """

    def gradients(variables: Any, result: Any) -> Any:
        return _map(lambda output: _gradient(output, variables), result)

    return _derivative(f, argnum, gradients)


@renamed(**JAX)
def hessian(f: Function, argnum: Argnum = 0) -> Function:
    """The second derivatives of `f` by each pair of numbers in the argument: the jacobian of the gradient.

    Parameters and errors are those of `grad`.
    """
    return jacobian(grad(f, argnum), argnum)


@renamed(**JAX)
def hvp(f: Function, argnum: Argnum = 0) -> Function:
    """The hessian of `f` times a vector: a function of the arguments of `f`, followed by the vector.

    It is computed as the gradient of gradient . vector (Pearlmutter, 1994). Parameters and errors are those of `grad`;
    a vector with more or fewer numbers than the argument raises ValueError.
    """
    gradient = grad(f, argnum)

    def product(*args: Any, **options: Any) -> Any:
        if len(args) < 2:
            raise TypeError(f"call hvp(f) as hvp(f)(x, vector), with the vector last: it got {_positional(len(args))}")
        *args, vector = args  # type: ignore[assignment]
        require_ordered("vector", vector)
        direction = _numbers(vector)

        def slope(*args: Any) -> Value:
            slopes = _numbers(gradient(*args, **options))
            if len(slopes) != len(direction):
                raise ValueError(f"the vector must have as many numbers as x, {len(slopes)}, not {len(direction)}")
            return dot(slopes, direction)

        return grad(slope, argnum)(*args)

    return product


# What they share


@functools.cache
def _variable(level: int) -> type[Value]:
    """The class of Values that a derivative inside `level` - 1 others gives to its function."""

    def backward(self: Value, grad: Any = 1) -> None:
        if isinstance(self.data, Value):
            check_active(level)
        Value.backward(self, grad)

    return type(f"Value{level}", (Value,), {"__slots__": (), "_level": level, "backward": backward})


def _derivative(f: Function, argnum: Argnum, taken: Callable[[Any, Any], Any]) -> Function:
    """A function of the arguments of `f`: what `taken` returns for the variables and the result of `f`."""
    if not callable(f):
        raise TypeError(f"expected a function to differentiate, not {shown(f)}: write grad(f)(x)")

    def derivative(*args: Any, **options: Any) -> Any:
        level = _depth.get() + 1
        token = _depth.set(level)
        active_levels.append(level)
        try:
            return taken(*_trace(_variable(level), f, argnum, args, options))
        finally:
            active_levels.remove(level)
            _depth.reset(token)

    return derivative


def _positional(n: int) -> str:
    return f"{n} positional argument" if n == 1 else f"{n} positional arguments"


def _trace(
    kind: type[Value], f: Function, argnum: Argnum, args: tuple[Any, ...], options: dict[str, Any]
) -> tuple[Any, Any]:
    """The variables in place of the chosen arguments, and the result of `f` on them, both in nested lists.

    `f` gets other lists than these, since it may change its own.
    """
    expected = "the position of an argument or a list of positions"
    require_ordered("argnum", argnum, expected)
    several = isinstance(row(argnum), Sequence)
    positions = list(map(plain, argnum if several else [argnum]))  # type: ignore[arg-type]  # which is a list then
    arguments = list(args)
    for n in positions:
        if not isinstance(n, int):
            raise TypeError(f"argnum is {argnum!r:.80}: expected {expected}")
        if n not in range(-len(args), len(args)):
            raise TypeError(f"argnum is {n}, but the function was called with {_positional(len(args))}")
        arguments[n] = _replace(kind, args[n])
    chosen = [arguments[n] for n in positions] if several else arguments[positions[0]]
    variables = _map(lambda variable: variable, chosen)

    def node(output: Any) -> Value:  # a number that does not depend on the variables becomes a leaf
        if not isinstance(output, Real | Value):
            raise TypeError(f"expected a function that returns numbers, not {type(output).__name__}")
        return output if isinstance(output, kind) else kind(output)

    return variables, _map(node, f(*arguments, **options))


def _gradient(output: Value, variables: Any) -> Any:
    """The gradient of `output` with respect to each of the variables, in nested lists."""
    for variable in _numbers(variables):
        variable.grad = _zero(variable.data)
    output.backward()
    return _map(lambda variable: variable.grad, variables)


def _zero(x: Any) -> Any:
    """A constant 0 of the same type as `x`."""
    return type(x)(_zero(x.data)) if isinstance(x, Value) else scalar.zero(x)


def _map(function: Callable[[Any], Any], tree: Any) -> Any:
    """The function of each number in a nested list, tuple or array, in nested lists."""
    if isinstance(tree, (float, Value)):
        return function(tree)
    if isinstance(tree, list | tuple):
        return [_map(function, branch) for branch in tree]
    tree = _by_position(tree)
    if hasattr(tree, "tolist"):
        tree = tree.tolist()
    return _map(function, tree) if isinstance(tree, list) else function(tree)


def _replace(function: Callable[[Any], Any], tree: Any) -> Any:
    """The function of each number, in a list, tuple or array like `tree`."""
    if isinstance(tree, (float, Value)):
        return function(tree)
    if isinstance(tree, list):
        return [_replace(function, branch) for branch in tree]
    if isinstance(tree, tuple):
        branches = [_replace(function, branch) for branch in tree]
        return tree._make(branches) if hasattr(tree, "_make") else tuple(branches)  # which a named tuple has
    tree = _by_position(tree)
    if not hasattr(tree, "astype"):  # a number, or a tensor of PyTorch, which cannot hold Values
        return _map(function, tree)
    if not tree.ndim:
        return function(tree.tolist())
    array = tree.astype(object)
    array.flat = [function(number) for number in array.flat]
    return array


def _by_position(tree: Any) -> Any:
    """A table or a Series of pandas as an array; all else as it is."""
    return tree.to_numpy() if hasattr(tree, "to_numpy") else tree


def _numbers(tree: Any) -> list[Any]:
    """The numbers in a nested list, in order."""
    numbers: list[Any] = []
    _map(numbers.append, tree)
    return numbers


# Checking a gradient against numerically computed slopes

STEPS = 12  # in each of two scales, each a quarter of the one before
ORDERS = 6  # of extrapolation
SLACK = 30  # how many times its estimated error an estimate may be off


class GradientError(AssertionError):
    """A gradient differs from the slope of its function."""


def gradcheck(f: Function, inputs: Any, *, rtol: float = 1e-7, atol: float = 1e-10) -> bool:
    """Check the gradients of `f` against the slopes of its results: True, or an error.

    The slopes are central differences, extrapolated to a step of 0 (Ridders, 1982). Steps start at about a tenth of the
    input, and of 1 if that is larger. At a kink, such as that of relu at 0, there is no slope: the difference is the
    mean of both sides.

    Gradients are computed three times. The second time, results also contain the inputs themselves: a `_backward` with
    `x.grad = ...` for `x.grad += ...` loses what was in `x.grad` before. The third time, results are multiplied by
    -1/2: a `_backward` that does not multiply by its gradient returns the same as before.

    Parameters
    ----------
    f
        A function of Values that returns a number or nested lists of them.
    inputs
        Its arguments in a list or tuple, or a single argument: numbers, Values, nested lists, arrays.
    rtol, atol
        The difference that is allowed: `atol`, or `rtol` times the larger of gradient and slope.

    Raises
    ------
    GradientError
        Naming the input, the gradient, the slope and the relative error of the first gradient that differs; or the
        input whose gradient is replaced, or is not proportional to that of the result.
    TypeError, ValueError, ZeroDivisionError, OverflowError
        As `grad` does.
    """
    arguments = _replace(_innermost_number, tuple(inputs) if isinstance(inputs, list | tuple) else (inputs,))
    names, xs = _paths("inputs", arguments), _numbers(arguments)

    def flat(numbers: list[Any]) -> list[Any]:
        each = iter(numbers)
        return _numbers(f(*_replace(lambda _: next(each), arguments)))

    gradients = _derivative(flat, 0, lambda variables, outputs: [_thrice(output, variables) for output in outputs])(xs)
    for i, name in enumerate(names):
        for found, slope in zip(gradients, _slopes(flat, xs, i), strict=True):
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

    def gradient(of: Value) -> list[float]:
        return [float(_innermost_number(slope)) for slope in _gradient(of, variables)]

    slopes = gradient(output)
    begun = [slope / -2 if abs(slope) > 1 else 1.0 for slope in slopes]
    ended = gradient(dot([output, *variables], [1.0, *begun]))
    return list(zip(slopes, begun, ended, gradient(output * -0.5), strict=True))


def _innermost_number(x: Any) -> Any:
    """The plain number in a Value, at whatever level."""
    return _innermost_number(x.data) if isinstance(x, Value) else x


def _paths(prefix: str, tree: Any) -> list[str]:
    """How Python would index each number in a nested list or array."""
    if isinstance(tree, list | tuple):
        return [path for n, branch in enumerate(tree) for path in _paths(f"{prefix}[{n}]", branch)]
    return _paths(prefix, tree.tolist()) if hasattr(tree, "tolist") else [prefix]


def _slopes(flat: Function, xs: list[Any], i: int) -> list[float]:
    """The slope of each number in flat(xs) with respect to xs[i]."""

    def results(x: float) -> list[Any]:
        return [_innermost_number(output) for output in flat([Value(x if j == i else y) for j, y in enumerate(xs)])]

    x = float(xs[i])
    steps: list[float] = []
    differences = []
    near = _exponents(x)
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
        raise ValueError(
            f"the function is not defined on both sides of {x!r}, so it has no slope there to compare with"
        )
    return [_limit(steps, column) for column in zip(*differences, strict=True)]


def _exponents(x: float) -> list[int]:
    """The exponents of the steps around `x`, powers of 2 on the scale of `x` and, if it is small, on that of 1."""
    _, size = math.frexp(x)
    return sorted({top - 4 - 2 * n for top in (size, max(size, 0)) for n in range(STEPS)}, reverse=True)


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
