"""The table of operations that the tests share: a row added here tests a new operation everywhere.

A row is a function of a fixed number of scalars, whether the engine takes them one by one or in lists. It also has the
mathematical value and gradient, written with mpmath and nothing of ours, so that they can be evaluated to any number of
digits, and the same function in PyTorch, which is passed in and need not be installed.
"""

import functools
import operator
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from mpmath import mp

from micrograd import dot, logsumexp, maximum, mean, minimum, scalar, sum, take, where

mp.dps = 50

Point = tuple[float, ...]


@dataclass(frozen=True)
class Operation:
    """One operation and all that is known of it."""

    name: str
    apply: Callable[..., Any]
    """The operation, for Values; the rows that are not fused take floats and other numbers too."""
    value: Callable[..., Any]
    """The same in mpmath."""
    gradient: Callable[..., Any]
    """The derivative by each operand, in mpmath: a number for one operand, a tuple for several."""
    points: tuple[Point, ...]
    """Operands where the operation is smooth, for central differences and second derivatives."""
    edges: tuple[Point, ...]
    """Legal operands where it is not, or is hard to compute: kinks, ends of the domain, huge numbers."""
    torch: Callable[..., Any]
    """The same in PyTorch: the module comes first, then the tensors."""
    smooth: Callable[..., bool]
    """Whether operands are well inside the region where it is smooth and its derivatives are moderate."""

    @property
    def arity(self) -> int:
        return len(self.points[0])

    def exact_value(self, point: Point) -> float:
        return float(self.value(*map(mp.mpf, point)))

    def exact_gradient(self, point: Point) -> Point:
        gradient = self.gradient(*map(mp.mpf, point))
        return tuple(map(float, gradient if isinstance(gradient, tuple) else (gradient,)))


def _points(points: Any) -> tuple[Point, ...]:
    return tuple(point if isinstance(point, tuple) else (point,) for point in points)


def row(
    name: str,
    apply: Callable[..., Any],
    value: Callable[..., Any],
    gradient: Callable[..., Any],
    points: Any,
    edges: Any = (),
    *,
    torch: Callable[..., Any],
    smooth: Callable[..., bool] = lambda *xs: True,
) -> Operation:
    """A row of the table, in which the points of an operation on one operand may be plain numbers."""
    return Operation(name, apply, value, gradient, _points(points), _points(edges), torch, smooth)


def function(name: str, gradient: Any, points: Any, edges: Any = (), **others: Any) -> Operation:
    """A function of `scalar`, in mpmath and PyTorch that of the same name unless `others` say otherwise."""
    value = others.pop("value", None) or getattr(mp, name)
    torch = others.pop("torch", lambda t, *xs: getattr(t, name)(*xs))
    return row(name, getattr(scalar, name), value, gradient, points, edges, torch=torch, **others)


def operation(name: str, apply: Any, gradient: Any, points: Any, edges: Any = (), **others: Any) -> Operation:
    """An operation that takes mpmath's numbers and tensors as it takes Values, unless `others` say otherwise."""
    value, torch = others.pop("value", apply), others.pop("torch", lambda t, *xs: apply(*xs))
    return row(name, apply, value, gradient, points, edges, torch=torch, **others)


def _cbrt(x: Any) -> Any:
    return mp.sign(x) * mp.cbrt(abs(x))


def _erfc(x: Any) -> Any:
    """mpmath's, which cannot do much larger operands, where it is 0 or 2 to thousands of digits."""
    return mp.erfc(max(-100, min(x, 100)))


def _polygamma(n: int) -> Callable[[Any], Any]:
    """mpmath's of order n, which takes time in proportion to a negative operand."""

    def value(x: Any) -> Any:
        if x > 0:
            return mp.polygamma(n, x)
        cot = mp.cot(mp.pi * x)
        derivatives = (cot, -1 - cot**2, 2 * cot * (1 + cot**2), -2 * (1 + cot**2) * (1 + 3 * cot**2))
        return (-1) ** n * mp.polygamma(n, 1 - x) - mp.pi ** (n + 1) * derivatives[n]

    return value


def _digamma(torch: Any, x: Any) -> Any:
    """PyTorch's of a larger number, since the derivative of its own has ten digits only for small ones."""
    return torch.digamma(x + 100) - functools.reduce(operator.add, [1 / (x + k) for k in range(100)])


BRANCH = {"smooth": lambda x: abs(x) > 0.01}
LARGER = {"smooth": lambda x: x > 0.2}
SMALL, SMALLER, MODERATE = ({"smooth": lambda x, most=most: abs(x) < most} for most in (1, 0.8, 3))
OF_TWO = {"smooth": lambda x, y: abs(x - y) > 0.01}

FUNCTIONS = (
    function("exp", mp.exp, (-3.0, 0.0, 2.5), (-1000.0, 709.0), smooth=lambda x: x < 3),
    function("expm1", mp.exp, (-3.0, 0.0, 2.5), (-1000.0, 1e-12, 709.0), smooth=lambda x: x < 3),
    function("log", lambda x: 1 / x, (0.5, 1.0, 20.0), (5e-308, 1e300), **LARGER),
    function("log1p", lambda x: 1 / (1 + x), (-0.5, 0.0, 20.0), (1e-12, 1e300), smooth=lambda x: x > -0.8),
    function("log2", lambda x: 1 / (x * mp.log(2)), (0.5, 1.0, 20.0), (5e-308, 1e300), value=lambda x: mp.log(x, 2),
             **LARGER),
    function("log10", lambda x: 1 / (x * mp.log(10)), (0.5, 1.0, 20.0), (5e-308, 1e300), **LARGER),
    function("exp2", lambda x: mp.log(2) * mp.mpf(2) ** x, (-2.0, 0.0, 1.5), (-1000.0, 1000.0),
             value=lambda x: mp.mpf(2) ** x, smooth=lambda x: x < 20),
    function("cbrt", lambda x: 1 / (3 * _cbrt(x) ** 2), (-8.0, 0.5, 20.0), (-1e-300, 1e300), value=_cbrt,
             torch=lambda t, x: t.sign(x) * t.abs(x) ** (1 / 3), smooth=lambda x: abs(x) > 0.2),
    function("sqrt", lambda x: 1 / (2 * mp.sqrt(x)), (0.5, 1.0, 20.0), (1e-300, 1e300), **LARGER),
    function("sin", mp.cos, (-2.0, 0.0, 1.0), (1e6,)),
    function("cos", lambda x: -mp.sin(x), (-2.0, 0.0, 1.0), (1e6,)),
    function("tan", lambda x: mp.sec(x) ** 2, (-1.0, 0.0, 0.5), (1.57,), **SMALL),
    function("asin", lambda x: 1 / mp.sqrt(1 - x * x), (-0.5, 0.0, 0.25), (1 - 1e-12, -1 + 1e-12), **SMALLER),
    function("acos", lambda x: -1 / mp.sqrt(1 - x * x), (-0.5, 0.0, 0.25), (1 - 1e-12, -1 + 1e-12), **SMALLER),
    function("atan", lambda x: 1 / (1 + x * x), (-2.0, 0.0, 1.0), (1e100,)),
    function("sinh", mp.cosh, (-2.0, 0.0, 1.0), (-710.0, 710.0), **MODERATE),
    function("cosh", mp.sinh, (-2.0, 0.0, 1.0), (-710.0, 710.0), **MODERATE),
    function(
        "tanh", lambda x: mp.sech(x) ** 2, (-2.0, 0.0, 1.0), (-1000.0, 1000.0),
        # Its own tanh has the gradient 1 - tanh(x)^2, which is 0 from 20 on.
        torch=lambda t, x: t.where(x.abs() < 1, t.tanh(x), t.sign(x) * (1 - 2 * t.sigmoid(-2 * x.abs()))),
    ),
    function("asinh", lambda x: 1 / mp.sqrt(1 + x * x), (-2.0, 0.0, 1.0), (1e100,)),
    function("acosh", lambda x: 1 / mp.sqrt(x * x - 1), (1.5, 3.0, 20.0), (1 + 1e-12, 1e300), smooth=lambda x: x > 1.2),
    function("atanh", lambda x: 1 / (1 - x * x), (-0.5, 0.0, 0.25), (1 - 1e-12, -1 + 1e-12), **SMALLER),
    function("erf", lambda x: 2 / mp.sqrt(mp.pi) * mp.exp(-x * x), (-2.0, 0.0, 1.0), (-30.0, 30.0)),
    function("erfc", lambda x: -2 / mp.sqrt(mp.pi) * mp.exp(-x * x), (-2.0, 0.0, 1.0), (-30.0, 26.0), value=_erfc),
    function("sigmoid", lambda x: mp.sigmoid(x) * mp.sigmoid(-x), (-2.0, 0.0, 1.0), (-1000.0, -700.0, 700.0, 1000.0)),
    function("softplus", mp.sigmoid, (-2.0, 0.0, 1.0), (-1000.0, -700.0, 700.0, 1000.0),
             value=lambda x: mp.log1p(mp.exp(x)), torch=lambda t, x: t.logaddexp(x, t.zeros_like(x))),
    function("lgamma", _polygamma(0), (0.5, 3.5, -1.5, 20.0), (1e-300, -0.01, 1e300),
             value=lambda x: mp.loggamma(x).real, **LARGER),
    function("digamma", _polygamma(1), (0.5, 2.5, -1.75, 20.0), (1e-100, -0.01, 1e300), value=_polygamma(0),
             torch=_digamma, smooth=lambda x: x > 0.2 and abs(x - 1.46) > 0.1),
    operation("polygamma", lambda x: scalar.polygamma(x, 2), _polygamma(3), (0.5, 2.5, 20.0), (1e-50, -1.75, 1e50),
              value=_polygamma(2), torch=lambda t, x: t.polygamma(2, x), **LARGER),
    function("floor", lambda x: 0, (-1.5, 0.5, 2.25), (0.0, -0.0, 3.0, -5e-324, 4.503599627370497e15),
             smooth=lambda x: abs(x - round(x)) > 0.01),
    function("atan2", lambda y, x: (x / (x * x + y * y), -y / (x * x + y * y)),
             ((1.0, 2.0), (-1.0, 2.0), (1.0, -2.0), (-3.0, -0.5)),
             ((0.0, 1.0), (1.0, 0.0), (1e-200, 1e-200), (1e200, -1e200)),
             smooth=lambda y, x: x > 0.2 or (x < -0.2 and abs(y) > 0.2)),
    function("hypot", lambda x, y: (x / mp.hypot(x, y), y / mp.hypot(x, y)), ((3.0, 4.0), (-1.0, 2.0)),
             ((0.0, -2.0), (1e200, 1e200), (3e-200, 4e-200)), smooth=lambda x, y: abs(x) + abs(y) > 0.2),
    function("maximum", lambda x, y: (0.5, 0.5) if x == y else (int(x > y), int(x < y)), ((2.0, -3.0), (-3.0, 2.0)),
             ((1.5, 1.5), (0.0, -0.0), (-1e300, 1e300)), value=max, **OF_TWO),
    function("minimum", lambda x, y: (0.5, 0.5) if x == y else (int(x < y), int(x > y)), ((2.0, -3.0), (-3.0, 2.0)),
             ((1.5, 1.5), (0.0, -0.0), (-1e300, 1e300)), value=min, **OF_TWO),
    function("relu", lambda x: int(x > 0), (-2.0, 1.5), (-0.0, 0.0, 5e-324, 1e300), value=lambda x: max(x, mp.zero),
             **BRANCH),
    function("leaky_relu", lambda x: 1 if x > 0 else 0.01, (-2.0, 1.5), (-0.0, 0.0, 5e-324, 1e300),
             value=lambda x: max(x, 0.01 * x), torch=lambda t, x: t.nn.functional.leaky_relu(x), **BRANCH),
    operation("leaky_relu with a slope", lambda x: scalar.leaky_relu(x, 0.25), lambda x: 1 if x > 0 else 0.25,
              (-2.0, 1.5), (0.0,), value=lambda x: max(x, 0.25 * x),
              torch=lambda t, x: t.nn.functional.leaky_relu(x, 0.25), **BRANCH),
    function("gelu", lambda x: _erfc(-x / mp.sqrt(2)) / 2 + x * mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi),
             (-2.0, 0.0, 1.0), (-1e200, 30.0, 1e300), value=lambda x: x * _erfc(-x / mp.sqrt(2)) / 2,
             torch=lambda t, x: t.nn.functional.gelu(x)),
    function("silu", lambda x: mp.sigmoid(x) * (1 + x * mp.sigmoid(-x)), (-2.0, 0.0, 1.0), (-700.0, 700.0, 1e300),
             value=lambda x: x * mp.sigmoid(x), torch=lambda t, x: t.nn.functional.silu(x)),
    operation("clip", lambda x: scalar.clip(x, -1.0, 2.0), lambda x: int(-1 <= x <= 2), (-2.0, 0.5, 3.0),
              (-1.0, 2.0, -0.0, 1e300, 2.0000000000000004), value=lambda x: min(max(x, -1), 2),
              torch=lambda t, x: t.clip(x, -1.0, 2.0), smooth=lambda x: abs(abs(x - 0.5) - 1.5) > 0.01),
    operation("abs", abs, mp.sign, (-2.0, 1.5), (0.0, -1e300), **BRANCH),
    operation("neg", operator.neg, lambda x: -1, (-2.0, 0.0, 1.5)),
    operation("pos", operator.pos, lambda x: 1, (-2.0, 0.0, 1.5)),
    operation("x ** 3", lambda x: x**3, lambda x: 3 * x**2, (-2.0, 0.0, 1.5), (-1e100,), smooth=lambda x: abs(x) < 4),
    operation("x ** 1", lambda x: x**1, lambda x: 1, (-2.0, 0.0, 1.5)),
    operation("x ** 0", lambda x: x**0, lambda x: 0, (-2.0, 0.0, 1.5)),
    operation("x ** -2.0", lambda x: x**-2.0, lambda x: -2 * x**-3, (-2.0, 0.5, 1.5), (1e-100,),
              smooth=lambda x: abs(x) > 0.5),
    operation("0.0 ** x", lambda x: 0.0**x, lambda x: 0, (0.5, 2.0), (0.0,), value=lambda x: int(x == 0),
              smooth=lambda x: x > 0.01),
)  # fmt: skip

OPERATORS = (
    operation("x + y", operator.add, lambda x, y: (1, 1), ((2.0, -3.5), (0.0, 0.0))),
    operation("x - y", operator.sub, lambda x, y: (1, -1), ((2.0, -3.5), (0.0, 0.0))),
    operation("x * y", operator.mul, lambda x, y: (y, x), ((2.0, -3.5), (0.0, 0.0))),
    operation("x / y", operator.truediv, lambda x, y: (1 / y, -x / y**2), ((2.0, -4.0), (0.0, 1.0)),
              ((1e200, 1e200), (1e-200, 1e-200)), smooth=lambda x, y: abs(y) > 0.2),
    operation("x // y", operator.floordiv, lambda x, y: (0, 0), ((7.5, 2.0), (-7.5, 2.0), (7.5, -2.0), (-7.5, -2.0)),
              ((6.0, 2.0), (-6.0, 2.0), (0.0, 3.0), (1e300, 3.0)), value=lambda x, y: mp.floor(x / y),
              torch=lambda t, x, y: t.floor(x / y),
              smooth=lambda x, y: abs(y) > 0.2 and abs(x / y - round(x / y)) > 0.01),
    operation(
        "x % y", operator.mod, lambda x, y: (1, -mp.floor(x / y)),
        ((7.5, 2.0), (-7.5, 2.0), (7.5, -2.0), (-7.5, -2.0)), ((6.0, 2.0), (0.0, 3.0)),
        value=lambda x, y: x - y * mp.floor(x / y),
        torch=lambda t, x, y: x - y * t.floor(x / y),  # t.remainder has no derivative by y
        smooth=lambda x, y: abs(y) > 0.2 and abs(x / y - round(x / y)) > 0.01,
    ),
    operation("x ** y", operator.pow, lambda x, y: (y * x ** (y - 1), x**y * mp.log(x) if x else 0),
              ((2.0, -3.5), (0.5, 2.0), (1.5, 0.0)), ((0.0, 2.0), (0.0, 1.0)),
              smooth=lambda x, y: 0.2 < x < 4 and abs(y) < 3),
)  # fmt: skip


def beside_a_number(operation: Operation, side: int) -> Operation:
    """An operation on two numbers with a plain number, that of the first point, in the place `side`."""
    number = operation.points[0][side]
    is_function = operation.name.isidentifier()

    def both(x: Any) -> Any:
        return (number, x) if side == 0 else (x, number)

    return row(
        f"{operation.name}{both('v')}"
        if is_function
        else operation.name.replace("xy"[side], str(number)).replace("xy"[1 - side], "v"),
        lambda x: operation.apply(*both(x)),
        lambda x: operation.value(*both(x)),
        lambda x: operation.gradient(*both(x))[1 - side],
        [operation.points[0][1 - side]],
        torch=lambda t, x: operation.torch(t, *[t.as_tensor(operand, dtype=x.dtype) for operand in both(x)]),
        smooth=lambda x: operation.smooth(*both(x)),
    )


def _of_many(name: str, apply: Callable[..., Any], value: Callable[..., Any], of_torch: str) -> Operation:
    """The maximum or minimum of x, y, z, y and 0.5, whose gradient equal ones share."""

    def gradient(x: Any, y: Any, z: Any) -> Any:
        winners = [each == value(x, y, z, 0.5) for each in (x, y, z, y, 0.5)]
        shares = [mp.mpf(wins) / winners.count(True) for wins in winners]
        return shares[0], 2 * shares[1], shares[2]

    return row(
        name, lambda x, y, z: apply(x, y, z, y, 0.5), lambda x, y, z: value(x, y, z, 0.5), gradient,
        ((2.0, -3.0, 1.0), (-3.0, 2.0, 1.0), (-3.0, -1.0, 2.0)),
        ((1.5, 1.5, 1.5), (0.5, 0.5, 0.5), (1e300, -1e300, 1.0)),
        torch=lambda t, x, y, z: getattr(t, of_torch)(t.stack([x, y, z, y, t.tensor(0.5, dtype=x.dtype)])),
        smooth=lambda x, y, z: min(abs(a - b) for a, b in combinations((x, y, z, 0.5), 2)) > 0.01,
    )  # fmt: skip


FUSED = (
    row("dot", lambda u, v, x, y, b: dot([u, v], [x, y], b), lambda u, v, x, y, b: u * x + v * y + b,
        lambda u, v, x, y, b: (x, y, u, v, 1), ((2.0, -3.0, 0.5, 4.0, 0.25),),
        torch=lambda t, u, v, x, y, b: t.dot(t.stack([u, v]), t.stack([x, y])) + b),
    operation("dot without a bias", lambda u, x: dot([u], [x]), lambda u, x: (x, u), ((2.0, -3.0),),
              value=operator.mul, torch=lambda t, u, x: u * x),
    row("dot with numbers", lambda u, v: dot([2.0, u, u], (v, -1.5, v), 3.0), lambda u, v: 2 * v - 1.5 * u + u * v + 3,
        lambda u, v: (-1.5 + v, 2 + u), ((2.0, -3.0),), torch=lambda t, u, v: 2 * v - 1.5 * u + u * v + 3),
    row("sum", lambda x, y, z: sum([x, y, z, y, 2.5]), lambda x, y, z: x + 2 * y + z + 2.5, lambda x, y, z: (1, 2, 1),
        ((2.0, -3.0, 0.5),), torch=lambda t, x, y, z: t.stack([x, y, z, y]).sum() + 2.5),
    row("mean", lambda x, y: mean([x, y, y, 2.5]), lambda x, y: (x + 2 * y + 2.5) / 4, lambda x, y: (0.25, 0.5),
        ((2.0, -3.0),), torch=lambda t, x, y: (x + 2 * y + 2.5) / 4),
    row(
        "logsumexp", lambda x, y, z: logsumexp([x, y, z, y, 0.5]),
        lambda x, y, z: mp.log(mp.exp(x) + 2 * mp.exp(y) + mp.exp(z) + mp.exp(mp.mpf(0.5))),
        lambda x, y, z: tuple(
            n * mp.exp(v) / (mp.exp(x) + 2 * mp.exp(y) + mp.exp(z) + mp.exp(mp.mpf(0.5)))
            for n, v in ((1, x), (2, y), (1, z))
        ),
        ((2.0, -3.0, 0.5), (1.0, 1.0, 1.0)), ((1e308, -1e308, 1e300), (-1e308, -1e308, -1e308)),
        torch=lambda t, x, y, z: t.logsumexp(t.stack([x, y, z, y, t.tensor(0.5, dtype=x.dtype)]), 0),
    ),
    _of_many("maximum of many", maximum, max, "amax"),
    _of_many("minimum of many", minimum, min, "amin"),
    row("where", lambda x, y: where(x > y, x, 3.0) + where(x > y, x, y), lambda x, y: 2 * x if x > y else 3 + y,
        lambda x, y: (2, 0) if x > y else (0, 1), ((2.0, -3.0), (-3.0, 2.0)),
        torch=lambda t, x, y: t.where(x > y, x, 3.0) + t.where(x > y, x, y), smooth=lambda x, y: abs(x - y) > 0.01),
    row("take", lambda x, y: take([x, y, 2.5], (x > y) + (x > 0)), lambda x, y: [x, y, 2.5][(x > y) + (x > 0)],
        lambda x, y: [(1, 0), (0, 1), (0, 0)][(x > y) + (x > 0)], ((-1.0, 2.0), (-1.0, -3.0), (2.0, -3.0)),
        torch=lambda t, x, y: t.where((x > y) & (x > 0), 2.5, t.where((x > y) | (x > 0), y, x)),
        smooth=lambda x, y: abs(x - y) > 0.01 and abs(x) > 0.01),
)  # fmt: skip

OF_TWO_NUMBERS = [each for each in FUNCTIONS + OPERATORS if each.arity == 2]
BESIDE_A_NUMBER = [beside_a_number(operation, side) for operation in OF_TWO_NUMBERS for side in (0, 1)]
OPERATIONS = (*FUNCTIONS, *OPERATORS, *BESIDE_A_NUMBER, *FUSED)
