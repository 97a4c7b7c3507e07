"""The functions of one number or two: for each, one entry with its value on floats and its pullback.

The pullback turns the gradient `g` of the result y into the gradient of the operand x: the chain rule, `g` times the
derivative, in a form that is accurate and does not overflow on the way. An entry is all there is to a function: it
becomes a function in `scalar` and a method of `Value` that leaves a closure `_backward(grad)` on its node. Drawings,
compiled code, derivatives and tests all use that one entry. So the mathematics here uses Python's operators and
`scalar`, never `math` or an `if` on a number, except in a `value` that cannot be composed of others.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from micrograd import scalar
from micrograd.core.gradients import nothing
from micrograd.core.levels import as_constant, binary, promoted, reflected
from micrograd.core.number import Number
from micrograd.scalar import constant, where, zero

__all__ = ["Functions"]

V = TypeVar("V")

log_2 = constant(0.6931471805599453, lambda one: scalar.log(2 * one))
log_10 = constant(2.302585092994046, lambda one: scalar.log(10 * one))
sqrt_half = constant(0.7071067811865476, lambda one: scalar.sqrt(one / 2))
sqrt_4_over_pi = constant(1.1283791670955126, lambda one: 1 / scalar.sqrt(scalar.atan(one)))
normal_density = constant(0.3989422804014327, lambda one: 1 / scalar.sqrt(8 * scalar.atan(one)))  # at 0

scalar.define("exp", math.exp, "e^x.")  # its method is written out in engine.py


class function:
    """A function of one number: an entry of the table below.

    `value` is either a function from `math`, for floats, or composed of functions of `scalar`, for any kind of number.
    A composed one can be compiled to languages that lack the function, unless `composed` is False. `pullback` takes g,
    x, y and the constants. `constants` takes the other arguments of a call and returns, for each, its name, the number,
    and what to write to get its gradient. `domain` says, for errors, where a value from `math` is defined: by default,
    for all finite numbers.
    """

    arity = 1

    def __init__(
        self, value: Callable[..., Any], pullback: Callable[..., Any], doc: str, constants: Any = None, **options: Any
    ) -> None:
        self.value, self.pullback, self.doc, self.constants, self.options = value, pullback, doc, constants, options

    def __set_name__(self, owner: type, name: str) -> None:
        if not hasattr(self, "method"):  # other names are aliases
            scalar.define(name, self.value, self.doc, arity=self.arity, **self.options)
            self.method = (self._of_constants if self.constants else self._method)(scalar.FUNCTIONS[name], name)
            self.method.__name__, self.method.__qualname__, self.method.__doc__ = name, f"Value.{name}", self.doc
            self.method.__module__ = "micrograd.engine"  # where pickle finds Value
        setattr(owner, name, self.method)

    def _method(self, value: Callable[..., Any], name: str) -> Callable[..., Any]:
        pullback = self.pullback

        def method(self):
            y = value(self.data)

            def _backward(grad):
                self.grad += pullback(grad, self.data, y)

            return self._node(y, (self,), name, _backward)

        return method

    def _of_constants(self, value: Callable[..., Any], name: str) -> Callable[..., Any]:
        pullback, constants = self.pullback, self.constants
        constants.__name__ = constants.__qualname__ = f"Value.{name}"  # as errors about missing arguments call it

        def method(self, *args, **options):
            given = {of[0]: as_constant(self, *of) for of in constants(*args, **options)}
            y = value(self.data, *given.values())

            def _backward(grad):
                self.grad += pullback(grad, self.data, y, *given.values())

            node = self._node(y, (self,), name, _backward)
            node._constants = given
            return node

        method.__wrapped__ = constants  # type: ignore[attr-defined]  # help() shows its arguments
        return method

    if TYPE_CHECKING:

        def __get__(self, instance: V | None, owner: type[V]) -> Callable[..., V]: ...


class function_of_two(function):
    """A function of two numbers; its pullback takes g, x, y and the result z, and returns both gradients."""

    arity = 2

    def _method(self, value: Callable[..., Any], name: str) -> Callable[..., Any]:
        pullback = self.pullback

        def method(self, other):
            x, y = operands = promoted((self, other), type(self))
            z = value(x.data, y.data)

            def _backward(grad):
                by_x, by_y = pullback(grad, x.data, y.data, z)
                x.grad += by_x
                y.grad += by_y

            return x._node(z, operands, name, _backward)

        return method


def _sigmoid(x: Any) -> Any:
    e = scalar.exp(-abs(x))  # a negative power, which cannot overflow
    return where(x < 0, e / (1 + e), 1 / (1 + e))


def _softplus(x: Any) -> Any:
    small = scalar.log1p(scalar.exp(-abs(x)))
    return where(x < 0, small, x + small)


def _clip(x: Any, low: Any, high: Any) -> Any:
    kind = zero(x)  # subtracting it turns a bound into a float if x is one
    x = where(x < low, low - kind, where(low != low, low, x))  # a bound of NaN gives NaN
    return where(x > high, high - kind, where(high != high, high, x))


def tanh_slope(x: Any, y: Any) -> Any:
    """1 - tanh(x)^2 for y = tanh(x), as 1 / cosh(x)^2 where 1 - y^2 would cancel."""
    size = abs(x)
    if type(size) is float and size < 1.0:
        return 1.0 - y * y
    e = scalar.exp(-2 * size)
    return where(size < 1, 1 - y * y, 4 * e / ((1 + e) * (1 + e)))


def _by_winner(g: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """The gradient of the larger of two numbers; half of it for each of two equal ones, as in PyTorch."""
    below, above = x < y, x > y  # not x == y: even for intervals, that is never undecided
    return where(below, 0, where(above, g, g / 2)), where(above, 0, where(below, g, g / 2))


# The derivatives of lgamma

BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730)  # numbers B2, B4, ...


def _polygamma(x: Any, n: int) -> Any:
    """The n-th derivative of digamma: for x < 0, from 1 - x and the cotangent (DLMF 5.15.6).

    At x, or 1 - x, it is n! times the sum of the powers (x + k)^-(n + 1): the asymptotic series at a larger number
    (DLMF 5.15.8; 5.11.2 for n = 0), and from there the recurrence back (5.15.5).
    """
    if scalar.registered(scalar.innermost(x)) is not None:  # the coefficients have the digits of a float
        raise scalar.missing("polygamma", x)
    unit, scale, stirling, (*of_cot, highest) = _coefficients(n)
    right, shifts = x > 0, 10 + n
    start = where(right, x, 1 - x)
    last = start + shifts
    w = 1 / last
    total = (-scalar.log(last) if n == 0 else 1 / n) + w / 2
    total = unit * (unit * w) ** n * (total + w * w * _horner(stirling, w * w))
    for k in reversed(range(shifts)):  # the smallest terms first
        total += (unit / (start + k)) ** (n + 1)
    rest = x % 1
    near = where(x > -0.5, where(right, 0.25, x), where(rest > 0.5, rest - 1, rest))  # the distance to the nearest pole
    cot = scalar.sin(math.pi * (0.5 - abs(near))) * scalar.sin(math.pi * near) ** -1
    slope = highest * cot ** (n + 1) + _horner(of_cot, cot)  # a power that overflows is an error, a product is not
    return -scale * where(right, (-1) ** n * total, total + (math.pi * unit) ** (n + 1) * slope)


@functools.cache
def _coefficients(n: int) -> tuple[float, float, list[float], list[float]]:
    """The constants of the polygamma function of order n.

    A power of 2, to keep powers from underflow: its power n + 1 is near n!; n! over that power; the Stirling
    coefficients B2k (2k + n - 1)! / ((2k)! n!); and the n-th derivative of cot over n!, as a polynomial in cot.
    """
    factorial, power = math.factorial(n), n + 1
    shift = round(math.log2(factorial) / power)
    even = range(2, 2 * len(BERNOULLI) + 1, 2)
    stirling = [b * math.perm(m + n - 1, n) / (m * factorial) for b, m in zip(BERNOULLI, even, strict=True)]
    powers = [0, 1]
    for _ in range(n):  # the derivative of cot is -(1 + cot^2)
        slopes = [k * c for k, c in enumerate(powers)][1:]
        powers = [-(a + b) for a, b in zip([*slopes, 0, 0], [0, 0, *slopes], strict=True)]
    return 2.0**shift, factorial / 2 ** (shift * power), stirling, [c / factorial for c in powers]


def _horner(coefficients: Sequence[float], x: Any) -> Any:
    """The polynomial with these coefficients, lowest power first."""
    return functools.reduce(lambda total, c: total * x + c, reversed(coefficients))


class Functions(Number):
    """Functions as methods of a Value; `_constants` are the numbers its operation took besides its operands."""

    __slots__ = ()

    _constants: dict[str, Any] = {}  # noqa: RUF012  # never changed: an operation with constants has its own

    # fmt: off
    exp2 = function(math.exp2, lambda g, x, y: g * (log_2(x) * y), "2^x; the derivative is log(2) 2^x.")
    expm1 = function(math.expm1, lambda g, x, y: g * scalar.exp(x), "e^x - 1, accurate near 0; the derivative is e^x.")
    log = function(math.log, lambda g, x, y: g / x, "The natural logarithm; the derivative is 1 / x.", domain="x > 0")
    log1p = function(math.log1p, lambda g, x, y: g / (1 + x),
        "log(1 + x), accurate near 0; the derivative is 1 / (1 + x).", domain="x > -1")
    log2 = function(math.log2, lambda g, x, y: g / log_2(x) / x,
        "The logarithm to base 2; the derivative is 1 / (x log(2)).", domain="x > 0")
    log10 = function(math.log10, lambda g, x, y: g / log_10(x) / x,
        "The logarithm to base 10; the derivative is 1 / (x log(10)).", domain="x > 0")
    sqrt = function(math.sqrt, lambda g, x, y: g / (2 * y),
        "The square root; the derivative is 1 / (2 sqrt(x)), which does not exist at 0: in a norm, add 1e-12 to x.",
        domain="x >= 0")
    cbrt = function(math.cbrt, lambda g, x, y: g / (3 * y * y),
        "The cube root, of negative numbers too; the derivative is 1 / (3 cbrt(x)^2), which does not exist at 0.")

    sin = function(math.sin, lambda g, x, y: g * scalar.cos(x), "The sine; the derivative is cos(x).")
    cos = function(math.cos, lambda g, x, y: -(g * scalar.sin(x)), "The cosine; the derivative is -sin(x).")
    tan = function(math.tan, lambda g, x, y: g * (1 + y * y), "The tangent; the derivative is 1 + tan(x)^2.")
    asin = function(math.asin, lambda g, x, y: g / scalar.sqrt((1 - x) * (1 + x)),
        "The inverse sine; the derivative is 1 / sqrt(1 - x^2), which does not exist at -1 and 1.",
        domain="-1 <= x <= 1")
    acos = function(math.acos, lambda g, x, y: -(g / scalar.sqrt((1 - x) * (1 + x))),
        "The inverse cosine; the derivative is -1 / sqrt(1 - x^2), which does not exist at -1 and 1.",
        domain="-1 <= x <= 1")
    atan = function(math.atan, lambda g, x, y: g / (1 + x * x),
        "The inverse tangent; the derivative is 1 / (1 + x^2).")
    atan2 = function_of_two(
        math.atan2, lambda g, y, x, z: (g * (x / (r := scalar.hypot(x, y)) / r), -(g * (y / r / r))),
        "The angle of the point (x, y), as y.atan2(x), from -pi to pi; the derivatives are x / r^2 for y and -y / r^2 "
        "for x, with r^2 = x^2 + y^2, and do not exist at (0, 0).")
    hypot = function_of_two(math.hypot, lambda g, x, y, r: (g * (x / r), g * (y / r)),
        "sqrt(x^2 + y^2), even where a square overflows; the derivatives are x / r and y / r, and do not exist at "
        "(0, 0).")

    sinh = function(math.sinh, lambda g, x, y: g * scalar.cosh(x), "The hyperbolic sine; the derivative is cosh(x).")
    cosh = function(math.cosh, lambda g, x, y: g * scalar.sinh(x), "The hyperbolic cosine; the derivative is sinh(x).")
    tanh = function(math.tanh, lambda g, x, y: g * tanh_slope(x, y),
        "The hyperbolic tangent; the derivative is 1 - tanh(x)^2.")
    asinh = function(math.asinh, lambda g, x, y: g / where(abs(x) < 1e150, scalar.sqrt(1 + x * x), abs(x)),
        "The inverse hyperbolic sine; the derivative is 1 / sqrt(1 + x^2).")
    acosh = function(math.acosh, lambda g, x, y: g / (scalar.sqrt(x - 1) * scalar.sqrt(x + 1)),
        "The inverse hyperbolic cosine; the derivative is 1 / sqrt(x^2 - 1), which does not exist at 1.",
        domain="x >= 1")
    atanh = function(math.atanh, lambda g, x, y: g / ((1 - x) * (1 + x)),
        "The inverse hyperbolic tangent; the derivative is 1 / (1 - x^2).", domain="-1 < x < 1")

    erf = function(math.erf, lambda g, x, y: g * (sqrt_4_over_pi(x) * scalar.exp(-(x * x))),
        "The error function; the derivative is 2 / sqrt(pi) e^(-x^2).")
    erfc = function(math.erfc, lambda g, x, y: -(g * (sqrt_4_over_pi(x) * scalar.exp(-(x * x)))),
        "1 - erf(x), accurate where erf is close to 1; the derivative is -2 / sqrt(pi) e^(-x^2).")
    lgamma = function(math.lgamma, lambda g, x, y: g * scalar.digamma(x),
        "The logarithm of the absolute value of the gamma function; the derivative is digamma(x).",
        domain="x other than 0, -1, -2, ...")
    digamma = function(lambda x: scalar.polygamma(x, 0), lambda g, x, y: g * scalar.polygamma(x, 1),
        "The derivative of lgamma; its own is polygamma(x, 1).")
    polygamma = function(_polygamma, lambda g, x, y, n: g * scalar.polygamma(x, n + 1),
        "The n-th derivative of digamma, for an int n: SciPy's polygamma(n, x). Its derivative is polygamma(x, n + 1).",
        constants=lambda n: (("n", scalar.as_index(n, 100, "order n"), ""),),
    )

    floor = function(lambda x: x // 1 if abs(x) < math.inf else x, lambda g, x, y: 0,
        "The largest whole number that is not above x. The gradient is 0 everywhere, as in PyTorch, even at the steps.",
        composed=False)
    maximum = function_of_two(lambda x, y: where((x >= y) | (x != x), x, y), lambda g, x, y, z: _by_winner(g, x, y),
        "The larger of two numbers, NaN if either is; the derivative is 1 for the larger, 0 for the smaller, and 1/2 "
        "for each of two equal ones.")
    minimum = function_of_two(lambda x, y: where((x <= y) | (x != x), x, y), lambda g, x, y, z: _by_winner(g, y, x),
        "The smaller of two numbers; otherwise as `maximum`.")
    clip = function(_clip, lambda g, x, y, low, high: where((x >= low) & (x <= high), g, 0),
        "x if within the bounds, otherwise the nearer bound; the derivative is 1 within and at the bounds, else 0.",
        constants=lambda low, high: (
            ("low", low, "where(x < low, low, x); for no bound, pass -math.inf"),
            ("high", high, "where(x > high, high, x); for no bound, pass math.inf")),
    )

    sigmoid = function(_sigmoid, lambda g, x, y: g * (y * scalar.sigmoid(-x)),  # 1 - y would cancel
        "The logistic function 1 / (1 + e^-x); the derivative is sigmoid(x) sigmoid(-x).")
    softplus = function(_softplus, lambda g, x, y: g * scalar.sigmoid(x),
        "log(1 + e^x), a smooth relu; the derivative is sigmoid(x).")
    relu = function(lambda x: where(x <= 0, zero(x), x), lambda g, x, y: where(x <= 0, 0, g),
        "x where positive, else 0; the derivative is 1 or 0, and 0 at 0.")
    leaky_relu = function(lambda x, slope=0.01: where(x > 0, x, scalar.option(slope, x) * x),
        lambda g, x, y, slope: g * where(x > 0, 1, slope),
        "x where positive, else slope x; the derivative is 1 or the slope, a number that gets no gradient itself.",
        constants=lambda slope=0.01: (("slope", slope, "where(x > 0, x, slope * x)"),),
    )
    gelu = function(lambda x: x * (scalar.erfc(-sqrt_half(x) * x) / 2),  # 1 + erf would cancel
        lambda g, x, y: g * (scalar.erfc(-sqrt_half(x) * x) / 2 + x * normal_density(x) * scalar.exp(-(x * x) / 2)),
        "x times the probability that a standard normal number is below x, a smooth relu (Hendrycks and Gimpel, 2016).")
    silu = function(lambda x: x * scalar.sigmoid(x),
        lambda g, x, y: g * (scalar.sigmoid(x) * (1 + x * scalar.sigmoid(-x))),
        "x sigmoid(x), a smooth relu, also called swish (Elfwing et al., 2018).")
    # fmt: on

    @binary
    def __mod__(self, other):
        remainder = scalar.remainder(self.data, other.data)

        def _backward(grad):
            self.grad += grad
            # x // y; it is -1 where x % y is y itself: for -1 % inf, or for -1e-20 % 1.0 by rounding
            quotient = where(remainder == other.data, -1, (self.data - remainder) / other.data)
            other.grad -= grad * quotient

        return self._node(remainder, (self, other), "%", _backward)

    @binary
    def __floordiv__(self, other):
        """The largest whole number that is not above x / y; the gradient is 0 everywhere, as for `floor`."""
        return self._node(scalar.floor_divide(self.data, other.data), (self, other), "//", nothing)

    def __divmod__(self, other):
        return self // other, self % other

    def __rdivmod__(self, other):
        return other // self, other % self

    __rmod__ = reflected(__mod__)
    __rfloordiv__ = reflected(__floordiv__)
    arcsin, arccos, arctan, arcsinh, arccosh, arctanh = asin, acos, atan, asinh, acosh, atanh  # NumPy's names
    arctan2 = atan2
    __floor__ = floor  # NumPy calls it
