"""Numbers with an error bound: the running error analysis of a program and of its derivative.

A `Bounded` behaves like a number, so a Value can hold it. The bound grows by the rounding of each operation, and by
the errors of the operands times the operation's sensitivity to them. For a function of the `scalar` module, that is
measured by evaluating it at both ends of the operand's interval. No derivative of the engine enters a bound, except as
the numbers that backward() computes, whose own rounding it estimates.
"""

from itertools import product
from numbers import Real

from micrograd import scalar

ROUNDING = 2.0**-50  # of one operation: 8 units in the last place, as one library may differ from another
TINY = 2.0**-1070  # and what is lost among subnormal numbers
KINKED = ("relu", "leaky_relu", "sign", "maximum", "minimum")


class UndecidedError(ValueError):
    """A comparison that rounding errors decide: two right engines may go two ways."""


class Bounded:
    __slots__ = ("error", "number")

    def __init__(self, number, error=0.0):
        self.number = number
        self.error = error

    def __repr__(self):
        return f"{self.number!r} ± {self.error:.1g}"

    def __neg__(self):
        return Bounded(-self.number, self.error)

    def __abs__(self):
        return -self if self < 0 else self

    def __add__(self, other):
        return _sum(self.number, _number(other), self.error + _error(other))

    def __sub__(self, other):
        return _sum(self.number, -_number(other), self.error + _error(other))

    def __rsub__(self, other):
        return -self + other

    def __mul__(self, other):
        x, y, dx, dy = self.number, _number(other), self.error, _error(other)
        return _rounded(x * y, abs(x) * dy + abs(y) * dx + dx * dy)

    __radd__, __rmul__ = __add__, __mul__

    def __truediv__(self, other):
        return _quotient(self, other)

    def __rtruediv__(self, other):
        return _quotient(other, self)

    def __lt__(self, other):
        return _difference(self, other) < 0

    def __le__(self, other):
        return _difference(self, other) <= 0

    def __gt__(self, other):
        return _difference(self, other) > 0

    def __ge__(self, other):
        return _difference(self, other) >= 0

    def __eq__(self, other):
        return _difference(self, other) == 0

    def __ne__(self, other):
        return _difference(self, other) != 0

    __hash__ = None


Real.register(Bounded)  # so that a Value takes it for a number


def _method(name):
    arity = scalar.FUNCTIONS[name].arity

    def method(*args):
        operands, constants = args[:arity], args[arity:]
        if name in KINKED:
            _difference(*[*operands, 0][:2])
        return _function(lambda *xs: scalar.FUNCTIONS[name](*xs, *constants), *operands)

    return method


for _name in scalar.FUNCTIONS:
    setattr(Bounded, _name, _method(_name))


def _number(x):
    return x.number if isinstance(x, Bounded) else x


def _error(x):
    return x.error if isinstance(x, Bounded) else 0.0


def _rounded(number, error):
    if number == 0 and error == 0:  # as of relu(-x)
        return Bounded(number)
    return Bounded(number, error + abs(number) * ROUNDING + TINY)


def _sum(x, y, error):
    """x + y, as part of a sum that another engine adds in another order: what cancels has its rounding too."""
    return _rounded(x + y, error + (abs(x) + abs(y)) * ROUNDING)


def _difference(x, y):
    """x - y, or rather its sign, if that is certain."""
    difference, error = _number(x) - _number(y), _error(x) + _error(y)
    if error > 0 and not abs(difference) > 2 * error:
        raise UndecidedError(f"{x!r} compared with {y!r}")
    return difference


def _function(f, *operands):
    """f of the operands, and how far it may lie from f of what they should be."""
    result = f(*map(_number, operands))
    ends = product(*[{_number(x) - _error(x), _number(x) + _error(x)} for x in operands])
    return _rounded(result, max(abs(f(*end) - result) for end in ends))


def _quotient(x, y):
    result = scalar.divide(_number(x), _number(y))
    smallest = abs(_number(y)) - _error(y)
    if smallest <= 0:
        raise UndecidedError(f"{x!r} / {y!r}")
    return _rounded(result, (_error(x) + abs(result) * _error(y)) / smallest)
