"""Derivatives of functions: `grad`, `jacobian` and `hessian` take a function and return a function.

A derivative runs its function on variables, Values of a level of their own, and walks back from the result. What a
variable holds is the argument itself: where that is a Value, as it is inside another derivative, the gradients are
Values too, and have derivatives in turn. So derivatives nest to any depth, and a function may close over Values whose
gradients are taken outside, such as the weights of a network.

The level is what tells the variables of nested derivatives apart: in `x * grad(lambda y: x + y)(1.0)` the inner
derivative sees x as a constant of a lower level. (To mistake one variable for the other is called perturbation
confusion: Siskind and Pearlmutter, 2005.) Levels are counted in each thread: take an inner derivative in the thread of
the outer one. A number that `backward()` leaves in `grad` within the function is a constant to the derivative. A Value
of an inner level that outlives its derivative is of no use to the Values outside: that is an error.

Arguments are numbers, Values, lists and tuples of these nested in any way, and NumPy arrays; keyword arguments are
passed on. The function gets them in containers of its own, which it may change in place; a table or Series of pandas
becomes an array, an array of no dimensions a number. Gradients come as nested lists of the shape of the argument:
floats for floats, ints and Fractions for exact numbers, Values where an argument is a Value or the function closes
over one.
"""

import cmath
import functools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from numbers import Real
from typing import Any

from micrograd import engine, scalar
from micrograd.engine import Value

__all__ = ["GradientError", "grad", "gradcheck", "hessian", "hvp", "jacobian", "value_and_grad"]

Function = Callable[..., Any]
Argnum = int | Sequence[int]

_depth = ContextVar("depth", default=0)  # how many derivatives are running, one inside the other


def grad(f: Function, argnum: Argnum = 0) -> Function:
    """The gradient of `f`, as a function of the same arguments.

    Parameters
    ----------
    f
        A function that returns one number.
    argnum
        The position of the argument to take it with respect to, or several positions, for a list of gradients.

    Raises
    ------
    TypeError
        From the gradient: if `f` does not return a number, or an argument does not consist of numbers.
    ValueError, ZeroDivisionError, OverflowError
        From the gradient: if a derivative does not exist there.
    """
    both = value_and_grad(f, argnum)
    return lambda *args, **options: both(*args, **options)[1]


def value_and_grad(f: Function, argnum: Argnum = 0) -> Function:
    """The result of `f` and its gradient, as a pair. Parameters and errors are those of `grad`."""

    def both(variables: Any, result: Any) -> tuple[Any, Any]:
        outputs = _numbers(result)  # one in brackets, as NumPy's keepdims leaves it, is one number too
        if len(outputs) != 1:
            raise TypeError(f"grad is of a function that returns one number, not {len(outputs)} of them: use jacobian")
        return outputs[0].data, _gradient(outputs[0], variables)

    return _derivative(f, argnum, both)


def jacobian(f: Function, argnum: Argnum = 0) -> Function:
    """The gradient of every number that `f` returns: nested lists of the shape of its result, then of the argument.

    `f` runs once, and each number in its result is walked back from. Parameters and errors are those of `grad`, but
    that `f` may return nested lists or an array.
    """

    def gradients(variables: Any, result: Any) -> Any:
        return _map(lambda output: _gradient(output, variables), result)

    return _derivative(f, argnum, gradients)


def hessian(f: Function, argnum: Argnum = 0) -> Function:
    """The second derivatives of `f` with respect to each two numbers in the argument: the jacobian of the gradient.

    Parameters and errors are those of `grad`.
    """
    return jacobian(grad(f, argnum), argnum)


def hvp(f: Function, argnum: Argnum = 0) -> Function:
    """The hessian of `f` times a vector: a function of the arguments of `f`, and last of the vector.

    It takes no more than the gradient of gradient . vector (Pearlmutter, 1994). Parameters and errors are those of
    `grad`; a vector with more or fewer numbers than the argument is a ValueError.
    """
    gradient = grad(f, argnum)

    def product(*args: Any, **options: Any) -> Any:
        if len(args) < 2:
            raise TypeError(
                f"hvp(f) is called as hvp(f)(x, vector), with the vector last, not with {len(args)} arguments"
            )
        *args, vector = args  # type: ignore[assignment]

        def slope(*args: Any) -> Value:
            return engine.dot(_numbers(gradient(*args, **options)), _numbers(vector))

        return grad(slope, argnum)(*args)

    return product


# What they share


@functools.cache
def _variable(level: int) -> type[Value]:
    """The kind of Value that a derivative within `level` - 1 others gives to its function."""
    return type(f"Value{level}", (Value,), {"__slots__": (), "_level": level})


def _derivative(f: Function, argnum: Argnum, taken: Callable[[Any, Any], Any]) -> Function:
    """What is `taken` from the variables and the result of `f`, as a function of the arguments of `f`."""
    if not callable(f):
        raise TypeError(f"a derivative is of a function, not of {f!r:.80}: write grad(f)(x)")

    def derivative(*args: Any, **options: Any) -> Any:
        level = _depth.get() + 1
        token = _depth.set(level)
        engine.running.append(level)
        try:
            return taken(*_trace(_variable(level), f, argnum, args, options))
        finally:
            engine.running.remove(level)
            _depth.reset(token)

    return derivative


def _trace(
    kind: type[Value], f: Function, argnum: Argnum, args: tuple[Any, ...], options: dict[str, Any]
) -> tuple[Any, Any]:
    """The variables in place of the chosen arguments, and the result of `f` on them, both in nested lists.

    The lists of variables are not those that `f` gets, since it may change these.
    """
    arguments = list(args)
    for n in argnum if isinstance(argnum, Sequence) else [argnum]:
        if n not in range(-len(args), len(args)):
            raise TypeError(f"argnum is {n}, but the function is called with {len(args)} positional arguments")
        arguments[n] = _replace(kind, args[n])
    chosen = [arguments[n] for n in argnum] if isinstance(argnum, Sequence) else arguments[argnum]
    variables = _map(lambda variable: variable, chosen)

    def node(output: Any) -> Value:  # a number that does not depend on the variables becomes a leaf
        if not isinstance(output, Real | Value):
            raise TypeError(f"a derivative is of a function that returns numbers, not {type(output).__name__}")
        return output if isinstance(output, kind) else kind(output)

    return variables, _map(node, f(*arguments, **options))


def _gradient(output: Value, variables: Any) -> Any:
    """The gradient of `output` with respect to each of the variables, in nested lists."""
    for variable in _numbers(variables):
        variable.grad = _zero(variable.data)
    output.backward()
    return _map(lambda variable: variable.grad, variables)


def _zero(x: Any) -> Any:
    """A constant 0 of the kind of `x`."""
    return type(x)(_zero(x.data)) if isinstance(x, Value) else scalar.zero(x)


def _map(function: Callable[[Any], Any], tree: Any) -> Any:
    """The function of each number in a nested list, tuple or array, in nested lists."""
    if isinstance(tree, (float, Value)):
        return function(tree)
    if isinstance(tree, list | tuple):
        return [_map(function, branch) for branch in tree]
    tree = _by_position(tree)
    return _map(function, tree.tolist()) if hasattr(tree, "tolist") else function(tree)


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
    if not hasattr(tree, "astype"):
        return function(tree)
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


# Checking a gradient against numbers that come about without the chain rule


class GradientError(AssertionError):
    """A gradient that is not the slope of its function."""


def gradcheck(f: Function, inputs: Any, *, rtol: float = 1e-7, atol: float = 1e-10) -> bool:
    """Whether the gradients of `f` are the slopes that its results have: True, or else an error.

    The slopes are those of the complex step, Im f(x + ih) / h, exact to the last digits since nothing is subtracted
    (Squire and Trapp, 1998); and where a part of `f` is not made for complex numbers, such as `erf`, those of central
    differences at ever smaller steps, extrapolated to none (Ridders, 1982).

    Parameters
    ----------
    f
        A function of Values that returns a number or nested lists of them.
    inputs
        Its arguments in a list or tuple, or an argument alone: numbers, Values, nested lists, arrays.
    rtol, atol
        The difference that is still right: `atol`, or `rtol` times the larger of gradient and slope.

    Raises
    ------
    GradientError
        Naming the input, the gradient, the slope and the relative error of the first that differs.
    TypeError, ValueError, ZeroDivisionError, OverflowError
        As `grad` does.
    """
    arguments = _replace(_bottom, tuple(inputs) if isinstance(inputs, list | tuple) else (inputs,))
    names, xs = _paths("inputs", arguments), _numbers(arguments)

    def flat(numbers: list[Any]) -> list[Any]:
        each = iter(numbers)
        return _numbers(f(*_replace(lambda _: next(each), arguments)))

    gradients = jacobian(flat)(xs)
    for i, name in enumerate(names):
        method, slopes = _slopes(flat, xs, i)
        for row, slope in zip(gradients, slopes, strict=True):
            gradient = float(_bottom(row[i]))
            size = max(abs(gradient), abs(slope)) or 1.0
            if not abs(gradient - slope) <= max(atol, rtol * size):  # NaN is never right
                raise GradientError(
                    f"the gradient with respect to {name} is {gradient!r}, but {method} gives {slope!r}: "
                    f"a relative error of {abs(gradient - slope) / size:.2g}"
                )
    return True


def _bottom(x: Any) -> Any:
    """The plain number in a Value, or in a Value in it."""
    return _bottom(x.data) if isinstance(x, Value) else x


def _paths(prefix: str, tree: Any) -> list[str]:
    """How Python would index each number in a nested list or array."""
    if isinstance(tree, list | tuple):
        return [path for n, branch in enumerate(tree) for path in _paths(f"{prefix}[{n}]", branch)]
    return _paths(prefix, tree.tolist()) if hasattr(tree, "tolist") else [prefix]


def _slopes(flat: Function, xs: list[Any], i: int) -> tuple[str, list[float]]:
    """How fast each number in flat(xs) changes with xs[i], and the method that told."""

    def results(x: Any) -> list[Any]:
        return [_bottom(output) for output in flat([Value(x if j == i else y) for j, y in enumerate(xs)])]

    size = abs(float(xs[i])) or 1.0
    h = max(1e-20 * size, min(1e-307, 1e-4 * size))  # of a subnormal step few digits come back
    try:
        slopes = [output.imag / h for output in results(_Complex(complex(float(xs[i]), h)))]
        if all(map(math.isfinite, slopes)):
            return "the complex step", slopes
    except (TypeError, AttributeError, ValueError, ArithmeticError):
        pass  # a part of it is for real numbers only
    columns = zip(*_differences(results, float(xs[i])), strict=True)
    return "the central difference", [_extrapolate(column) for column in columns]


def _differences(results: Callable[[float], list[Any]], x: float) -> Iterator[list[float]]:
    """Central differences at steps that halve: eight, from the first at which the function is defined."""
    h, found = 0.1 * max(1.0, abs(x)), 0
    while found < 8 and x + h != x:
        try:
            differences = [(a - b) / (2 * h) for a, b in zip(results(x + h), results(x - h), strict=True)]
        except (ValueError, ArithmeticError):
            pass
        else:
            found += 1
            yield differences
        h /= 2
    if not found:
        raise ValueError(f"the function is not defined on both sides of {x!r}: it has no slope there to compare with")


def _extrapolate(differences: tuple[float, ...]) -> float:
    """The limit of central differences at steps that halve, from where it has settled best (Ridders, 1982)."""
    best, least = math.nan, math.inf
    row: list[float] = []
    for difference in differences:
        before, row = row, [difference]
        for order, old in enumerate(before, 1):
            row.append(row[-1] + (row[-1] - old) / (4**order - 1))
            error = max(abs(row[-1] - row[-2]), abs(row[-1] - old))
            if error <= least:
                best, least = row[-1], error
    return best


# A complex number that passes for a real one: what the complex step puts in a Value.


def _operators(operation: Callable[[Any, Any], Any]) -> tuple[Any, Any]:
    """The methods for `operation` on two numbers, with the other on the right and on the left."""

    def forward(self: "_Complex", other: Any) -> Any:
        return _Complex(operation(self.z, _complex(other))) if isinstance(other, Real) else NotImplemented

    def reflected(self: "_Complex", other: Any) -> Any:
        return _Complex(operation(_complex(other), self.z)) if isinstance(other, Real) else NotImplemented

    return forward, reflected


def _comparison(operation: Callable[[Any, Any], bool]) -> Any:
    """The method that compares the real parts."""

    def method(self: "_Complex", other: Any) -> Any:
        return operation(self.real, other.real) if isinstance(other, Real) else NotImplemented

    return method


def _complex(x: Any) -> complex:
    return x.z if isinstance(x, _Complex) else complex(x)


def _remainder(x: complex, y: complex) -> complex:
    return x - y * (x.real // y.real)


def _power(x: complex, y: complex) -> complex:
    if x.real < 0:  # only a whole power is real, and the angle of x must not be rounded on the way to it
        return (-1 if y.real % 2 else 1) * (-x) ** y
    return x**y


class _Complex:
    """A complex number with a real part that decides where the code branches.

    The functions are those of `cmath`, and whatever of `scalar` these give in one line; there is no `erf`, nor `erfc`.
    """

    __slots__ = ("z",)

    def __init__(self, z: complex) -> None:
        self.z = z

    @property
    def real(self) -> float:
        return self.z.real

    @property
    def imag(self) -> float:
        return self.z.imag

    __add__, __radd__ = _operators(operator.add)
    __sub__, __rsub__ = _operators(operator.sub)
    __mul__, __rmul__ = _operators(operator.mul)
    __truediv__, __rtruediv__ = _operators(operator.truediv)
    __mod__, __rmod__ = _operators(_remainder)
    __pow__, __rpow__ = _operators(_power)

    __eq__, __ne__ = _comparison(operator.eq), _comparison(operator.ne)
    __lt__, __le__ = _comparison(operator.lt), _comparison(operator.le)
    __gt__, __ge__ = _comparison(operator.gt), _comparison(operator.ge)
    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        return self.real != 0

    def __neg__(self) -> "_Complex":
        return _Complex(-self.z)

    def __abs__(self) -> "_Complex":
        return -self if self.real < 0 else self

    def __getattr__(self, name: str) -> Callable[[], "_Complex"]:
        if name in scalar.FUNCTIONS:
            return lambda: _Complex(getattr(cmath, name)(self.z))
        raise AttributeError(name)

    def expm1(self) -> "_Complex":
        return _Complex(complex(math.expm1(self.real), cmath.exp(self.z).imag))

    def log1p(self) -> "_Complex":
        return _Complex(complex(math.log1p(self.real), cmath.log(1 + self.z).imag))

    def sigmoid(self) -> "_Complex":
        e = cmath.exp(self.z if self.real < 0 else -self.z)
        return _Complex(e / (1 + e) if self.real < 0 else 1 / (1 + e))

    def softplus(self) -> "_Complex":
        small = cmath.log(1 + cmath.exp(self.z if self.real < 0 else -self.z))
        return _Complex(small if self.real < 0 else self.z + small)

    def relu(self) -> "_Complex":
        return self.leaky_relu(0.0)

    def leaky_relu(self, slope: float = 0.01) -> "_Complex":
        return _Complex(self.z * slope) if self.real <= 0 else self


Real.register(_Complex)
