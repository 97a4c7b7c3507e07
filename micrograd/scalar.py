"""Mathematics on one number, or on anything that behaves like one.

Each function here is defined once, on a float, by the form that is accurate and cannot overflow on the way to a
representable result. Called with anything else that has a method of the same name (a `Value`, a number that is
being traced), it calls that method instead; ints and fractions are computed as floats. So the engine, and a user's
own code, can say `tanh(x)` without knowing what `x` is.

All functions raise ValueError outside their domain and OverflowError where the result is too large for a float,
naming the function and the operand; products and quotients come to an infinity, as Python's do. NaN goes in and comes
out.
"""

import functools
import math
from collections.abc import Callable, Sequence
from numbers import Rational, Real
from typing import Any

__all__ = [
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "clip", "cos", "cosh", "divide", "erf", "erfc", "exp", "expm1",
    "gelu", "leaky_relu", "log", "log1p", "position", "power", "relu", "remainder", "sigmoid", "silu", "sin", "sinh",
    "softplus", "sqrt", "take", "tan", "tanh", "where",
]  # fmt: skip

FUNCTIONS: dict[str, Callable[..., Any]] = {}
"""Every function of one number below, by name: the vocabulary that a number-like class has to speak."""


REMEDY = "; where() computes both its branches, so choose a safe operand there first: f(where(condition, x, 1.0))"
"""What to do about an error in the branch that a `where` does not choose: so end all errors of a missing result."""


def _function(name: str, on_float: Callable[..., Any]) -> Callable[..., Any]:
    """`on_float`, made to serve number-like objects too and to name itself and its operand in errors."""

    @functools.wraps(on_float)
    def function(x: Any, *args: Any, **options: Any) -> Any:
        if type(x) is not float and hasattr(x, name):
            return getattr(x, name)(*args, **options)
        try:
            return on_float(x, *args, **options)
        except ValueError:
            raise ValueError(f"{name}({x!r}): the operand is outside the domain of {name}{REMEDY}") from None
        except OverflowError:
            raise OverflowError(f"{name}({x!r}): the result is too large for a float{REMEDY}") from None

    function.__name__ = function.__qualname__ = name
    FUNCTIONS[name] = function
    return function


exp = _function("exp", math.exp)
expm1 = _function("expm1", math.expm1)
log = _function("log", math.log)
log1p = _function("log1p", math.log1p)
sqrt = _function("sqrt", math.sqrt)
sin = _function("sin", math.sin)
cos = _function("cos", math.cos)
tan = _function("tan", math.tan)
asin = _function("asin", math.asin)
acos = _function("acos", math.acos)
atan = _function("atan", math.atan)
sinh = _function("sinh", math.sinh)
cosh = _function("cosh", math.cosh)
tanh = _function("tanh", math.tanh)
asinh = _function("asinh", math.asinh)
acosh = _function("acosh", math.acosh)
atanh = _function("atanh", math.atanh)
erf = _function("erf", math.erf)
erfc = _function("erfc", math.erfc)


def _sigmoid(x: float) -> float:
    """1 / (1 + e^-x), with e raised to a negative power only."""
    e = math.exp(-abs(x))
    return e / (1.0 + e) if x < 0 else 1.0 / (1.0 + e)


def _softplus(x: float) -> float:
    """log(1 + e^x), which is x + log(1 + e^-x) where x is positive."""
    small = math.log1p(math.exp(-abs(x)))
    return small if x < 0 else x + small


def _relu(x: float) -> float:
    """x where it is positive, 0 where not."""
    return zero(x) if x <= 0 else x


def _leaky_relu(x: float, slope: float = 0.01) -> float:
    """x where it is positive, slope * x where not."""
    return slope * x if x <= 0 else x


sigmoid = _function("sigmoid", _sigmoid)
softplus = _function("softplus", _softplus)
relu = _function("relu", _relu)
leaky_relu = _function("leaky_relu", _leaky_relu)


def zero(x: Any) -> Any:
    """The 0 to start adding numbers like `x` from: 0.0 for floats, an exact 0 that leaves exact numbers exact."""
    if type(x) is float:
        return 0.0
    while hasattr(x, "data"):  # a Value: what counts is the number in it
        x = x.data
    return 0 * x if isinstance(x, Rational) else 0


def where(condition: Any, a: Any, b: Any) -> Any:
    """`a` if the condition holds, else `b`: the branch that can also be taken later, by a traced condition."""
    if hasattr(condition, "where"):
        return condition.where(a, b)
    return a if condition else b


def take(values: Sequence[Any], index: Any) -> Any:
    """values[index]: the choice among many that can also be made later, by a traced index.

    Raises ValueError naming the index and the number of values, where the index is not that of one.
    """
    if hasattr(index, "pick"):
        return index.pick(values)
    return values[position(index, len(values))]


def position(index: Any, size: int, name: str = "index") -> int:
    """The index as an int. Raises ValueError, with its name, unless it is a whole number from 0 to size - 1."""
    if type(index) is int and 0 <= index < size:
        return index
    number = index
    if getattr(index, "shape", None) == ():  # a number of NumPy's
        number = index.item()
    elif hasattr(index, "__index__") and not hasattr(index, "__len__"):  # which NumPy's arrays have both
        number = index.__index__()
    real = isinstance(number, (int, float, Real))
    whole = int(number) if real and 0 <= number < size else None
    if whole is None or whole != number:
        raise ValueError(f"the {name} is {index!r:.80}: expected a whole number from 0 to {size - 1}")
    return whole


# Functions that are put together from those above, as any number-like object can be: only a Value has methods for them.


def _composed(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, made to call the method of its name where there is one."""
    name = function.__name__

    @functools.wraps(function)
    def composed(x: Any, *args: Any, **options: Any) -> Any:
        return getattr(x, name)(*args, **options) if hasattr(x, name) else function(x, *args, **options)

    return composed


@_composed
def gelu(x: Any) -> Any:
    """x times the probability of a normal number below x, a smooth relu (Hendrycks and Gimpel, 2016)."""
    return x * (0.5 * erfc(-0.7071067811865476 * x))  # 1 + erf would cancel


@_composed
def silu(x: Any) -> Any:
    """x sigmoid(x), a smooth relu, also called swish (Elfwing et al., 2018)."""
    return x * sigmoid(x)


@_composed
def clip(x: Any, low: Any, high: Any) -> Any:
    """x where it is within the bounds, else the nearer one; `high` if they are crossed, as in NumPy and PyTorch."""
    kind = zero(x)  # less which a bound is a float where x is
    x = where(x < low, low - kind, x)
    return where(x > high, high - kind, x)


def divide(x: Any, y: Any) -> Any:
    """x / y. Raises ZeroDivisionError naming both."""
    try:
        return x / y
    except ZeroDivisionError:
        raise ZeroDivisionError(f"{x!r} / {y!r}: division by zero{REMEDY}") from None


def remainder(x: Any, y: Any) -> Any:
    """x % y, with the sign of y as Python has it. Raises ZeroDivisionError naming both."""
    try:
        return x % y
    except ZeroDivisionError:
        raise ZeroDivisionError(f"{x!r} % {y!r}: modulo by zero{REMEDY}") from None


def power(x: Any, y: Any) -> Any:
    """x ** y, never complex. Raises ValueError, ZeroDivisionError or OverflowError naming both."""
    try:
        result = x**y
    except ZeroDivisionError:
        raise ZeroDivisionError(f"{x!r} ** {y!r}: zero has no negative power{REMEDY}") from None
    except OverflowError:
        raise OverflowError(f"{x!r} ** {y!r}: the result is too large for a float{REMEDY}") from None
    if type(result) is complex:
        raise ValueError(f"{x!r} ** {y!r}: a fractional power of a negative number is not real{REMEDY}")
    return result
