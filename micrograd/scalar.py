"""Mathematics on numbers, or on anything that behaves like one.

Each function is defined once, on a float, in a form that is accurate and does not overflow on the way to a
representable result. Called with anything else that has a method of the same name (a `Value`, a traced number), it
calls that method; ints and fractions are computed as floats. So the engine, and a user's own code, can say `tanh(x)`
without knowing what `x` is. `register` adds other kinds of numbers, with functions of their own.

All functions raise ValueError outside their domain (`polygamma` and `digamma`: ZeroDivisionError at a pole), and
OverflowError if the result is too large for a float, naming the function and the operand; products, quotients and
`hypot` become infinite, as in Python. The result for NaN is NaN.
"""

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from numbers import Rational, Real
from reprlib import repr as short
from types import BuiltinFunctionType
from typing import TYPE_CHECKING, Any

__all__ = [
    "as_index", "divide", "floor_divide", "largest", "power", "register", "remainder", "smallest", "take", "where",
]  # fmt: skip

FUNCTIONS: dict[str, Any] = {}
"""Every function of one number or two, by name: the methods that a number-like class must have.

Its `arity` is how many numbers it takes besides its constants; `composed`, whether it is composed of others, which a
target without a name for it can compute; `__wrapped__`, what it does to floats, without the names in errors.
"""

ZEROS: dict[type, Any] = {float: 0.0, int: 0}
"""The zero of each type that is taken for a number without a check. The compiler adds the types of its symbols."""

REGISTERED: dict[type, dict[str, Callable[..., Any]]] = {}
"""The functions of each type of number that was registered."""

OPERATORS = ("__add__", "__sub__", "__mul__", "__truediv__")
"""The operators that a type of numbers needs."""


class DomainError(ValueError):
    """A function has no value at its operand, such as the logarithm of a negative number."""


def define(
    name: str, value: Callable[..., Any], doc: str, *, arity: int = 1, composed: bool | None = None,
    domain: str = "a finite number x",
) -> None:  # fmt: skip
    """Add a function to this module that also takes number-like objects; by default, all not of `math` are composed."""

    @functools.wraps(value)
    def of_one(x: Any, *args: Any, **options: Any) -> Any:
        if type(x) is not float and (own := own_function(x, name)):
            return own(x, *args, **options)
        try:
            return value(x, *args, **options)
        except ValueError:
            raise DomainError(f"{name}({x!r}): expected {domain}") from None
        except OverflowError:
            raise OverflowError(f"{name}({x!r}): the result is too large for a float") from None
        except ZeroDivisionError:
            raise ZeroDivisionError(f"{name}({x!r}): the operand is a pole of {name}") from None

    @functools.wraps(value)
    def of_two(x: Any, y: Any) -> Any:
        if not type(x) is type(y) is float:
            for operand in (x, y) if hasattr(x, "_level") else (y, x):  # a Value before what it may hold
                if own := own_function(operand, name):
                    return own(x, y)
        return value(x, y)

    function: Any = of_one if arity == 1 else of_two
    function.__name__ = function.__qualname__ = name
    function.__doc__, function.arity, function.__module__ = doc, arity, __name__
    function.composed = not isinstance(value, BuiltinFunctionType) if composed is None else composed
    FUNCTIONS[name] = globals()[name] = function
    __all__.append(name)


def register(kind: type, functions: Any) -> None:
    """Let Values hold numbers of another type: gradients, networks and optimizers then compute with them.

    `functions` is a module, a class or a dict, in which the functions of this module are looked up by name; another
    call for the same type adds to them. `polygamma` takes the order first, as in mpmath and SciPy. A function that is
    missing is composed of others if its definition here is (as sigmoid is, of exp), else calling it raises TypeError.
    Such numbers need `+ - * /` and comparisons, and have to be mixed with ints. A comparison may return None
    or raise ValueError if it is undecided: `where` then takes the `hull` of both (tests/pages/any_number.md).

    Raises TypeError if `kind` is not a type of numbers or there are no functions, ValueError for other entries of a
    dict.
    """
    is_number = isinstance(kind, type) and all(hasattr(kind, name) for name in OPERATORS)
    if not is_number or kind in (float, int) or hasattr(kind, "_level"):
        raise TypeError(f"register() expects a type of numbers, such as decimal.Decimal, not {short(kind)}")
    names = (*FUNCTIONS, "hull")
    own = {name: getattr(functions, name) for name in names if hasattr(functions, name)}
    if not (found := dict(functions) if isinstance(functions, Mapping) else own):
        raise TypeError(f"{short(functions)} has no functions: expected a module, a class or a dict of them")
    for name, function in found.items():
        if name not in names or not callable(function):
            raise ValueError(f"{short(name)} is {short(function)}: expected functions, named {', '.join(names)}")
    if "hull" in found:
        _replace(kind, ("__lt__", "__le__", "__gt__", "__ge__"), _compared)
    REGISTERED.setdefault(kind, {}).update(found)
    with suppress(TypeError):  # a type without a zero of its own starts from the int
        ZEROS[kind] = kind(0)
        try:
            kind(0).__add__(object())
        except Exception:
            _replace(kind, (*OPERATORS, "__pow__"), _deferring)


class Undecided:
    """The result of an undecided comparison: neither true nor false, as in Kleene's logic."""

    def __init__(self, beside: Any) -> None:
        self._beside = beside

    def __or__(self, other: Any) -> Any:
        return other if other is True else self

    def __and__(self, other: Any) -> Any:
        return other if other is False else self

    __ror__, __rand__ = __or__, __and__

    def __bool__(self) -> bool:
        raise ValueError("a comparison is undecided: where() takes the hull of both branches; `if` cannot choose one")

    def where(self, a: Any, b: Any) -> Any:
        """A number that contains both, and for Values a sum whose derivative contains both derivatives."""
        hull: Any = own_function(self._beside, "hull")
        return b + (a - b) * hull(0, 1) if hasattr(a, "_level") or hasattr(b, "_level") else hull(a, b)


def _compared(comparison: Callable[..., Any], x: Any, y: Any) -> Any:
    """The result of a comparison; `Undecided` for None or a ValueError, as in mpmath 1.3 and 1.4."""
    result = None
    with suppress(ValueError):
        result = comparison(x, y)
    return Undecided(x) if result is None else result


def _deferring(operation: Callable[..., Any], x: Any, y: Any) -> Any:
    """The result of an operator that leaves Values to Value; in mpmath's intervals, it would raise an error."""
    return NotImplemented if hasattr(y, "_level") else operation(x, y)


def _replace(kind: type, names: Sequence[str], call: Callable[..., Any]) -> None:
    """Replace methods of the type by `call(method, x, y)`, but only once if the type is registered again."""
    for name in names:
        method = getattr(kind, name)
        if getattr(method, "__module__", None) != __name__:
            setattr(kind, name, lambda x, y, method=method: call(method, x, y))


def registered(x: Any) -> dict[str, Callable[..., Any]] | None:
    """The functions for numbers like this one, or None if neither its type nor a base class of it is registered."""
    return next((REGISTERED[kind] for kind in type(x).__mro__ if kind in REGISTERED), None)


def own_function(x: Any, name: str) -> Callable[..., Any] | None:
    """The function that was registered for numbers like this one, or their method; None to compute it as defined here.

    Raises TypeError if it is missing and defined for floats alone.
    """
    functions = registered(x) if REGISTERED else None
    if functions is None:
        return getattr(type(x), name, None)
    if name in functions:
        return (lambda x, n: functions[name](n, x)) if name == "polygamma" else functions[name]
    if not FUNCTIONS[name].composed:
        raise missing(name, x)
    return None


def missing(name: str, x: Any) -> TypeError:
    """The error for a function that was not registered for numbers like this one."""
    kind = type(innermost(x)).__name__
    return TypeError(f"{kind} has no {name}: add it, as in micrograd.scalar.register({kind}, {{{name!r}: ...}})")


def is_number(x: Any) -> bool:
    """Whether this is a real number of any kind, NumPy's arrays without dimensions included."""
    return isinstance(x, (float, int, Real)) or registered(x) is not None or isinstance(unwrap_numpy(x), Real)


def as_kind_of(number: Any, x: Any) -> Any:
    """The number, converted to x's registered kind if they mix: log(2) in the gradient of 2 ** v has all digits."""
    if registered(x := innermost(x)) is not None and registered(number) is None and is_number(number):
        with suppress(TypeError):
            return zero(x) + number
    return number


def option(number: Any, x: Any) -> Any:
    """An option to compute with beside `x`: where its kind refuses floats, the number that a float is written as."""
    if not REGISTERED or type(number) is not float or registered(x := innermost(x)) is None:
        return number
    found = as_kind_of(number, x)
    return type(x)(repr(number)) if found is number else found


def constant(number: float, exact: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A constant for any x: the float, or if x is of a registered kind, what `exact` makes of a 1 of that kind."""

    def beside(x: Any) -> Any:
        if type(x) is float or registered(x := innermost(x)) is None:
            return number
        return exact(zero(x) + 1)

    return beside


if TYPE_CHECKING:

    def __getattr__(name: str) -> Callable[..., Any]: ...  # the functions that are defined in `functions`


def zero(x: Any) -> Any:
    """The 0 to start adding numbers like `x` from: 0.0 for floats, an exact 0 that leaves exact numbers exact."""
    if type(x) in ZEROS:
        return ZEROS[type(x)]
    return 0 * x if isinstance(x, Rational) else 0


def innermost(x: Any) -> Any:
    """The number in a Value, or in the Value of an enclosing derivative that it holds; a number as it is."""
    while hasattr(x, "_level"):
        x = x.data
    return x


def is_zero(x: Any) -> Any:
    """Whether this is 0, and not a Value of an enclosing derivative that holds 0: that derivative is taken by it."""
    return not hasattr(x, "_level") and x == 0


def unwrap_numpy(x: Any) -> Any:
    """A NumPy or PyTorch number, or an array without dimensions, as a Python object; anything else as it is.

    NumPy's dtypes have a shape too, but no `tolist`; its masked number gives None, for which `item()` would give 0.0.
    """
    return x.tolist() if getattr(x, "shape", None) == () and hasattr(x, "tolist") else x


def where(condition: Any, a: Any, b: Any) -> Any:
    """`a` if the condition holds, else `b`; a traced one decides later. Raises TypeError for several conditions."""
    if type(condition) is not bool:
        condition = unwrap_numpy(condition)
        if hasattr(condition, "__len__"):
            came = short(condition)
            raise TypeError(f"where() takes a single condition, not {came}: write [where(c, a, b) for c in cs]")
        if hasattr(condition, "where"):
            return condition.where(a, b)
        if condition is None:
            raise TypeError("a comparison gave None: register a 'hull' of both branches for where() to take")
    return a if condition else b


def take(values: Sequence[Any], index: Any) -> Any:
    """values[index]; a traced index selects later. Raises ValueError for an index that `as_index` refuses."""
    index = as_index(index, len(values))
    return values[index] if type(index) is int else index.select(values)


def as_index(index: Any, size: int, name: str = "index") -> Any:
    """The index as an int, or the traced number that selects later. Raises ValueError unless 0 <= index < size."""
    if type(index) is int and 0 <= index < size:
        return index
    index = innermost(index)
    number = unwrap_numpy(index)
    if hasattr(number, "select") and not hasattr(number, "__len__"):  # tensors have both
        return number
    is_real = isinstance(number, (int, float, Real))
    if is_real and 0 <= number < size and (whole := int(number)) == number:
        return whole
    raise ValueError(f"the {name} is {short(index)}: expected a whole number from 0 to {size - 1}")


def largest(numbers: Sequence[Any]) -> Any:
    """The largest of some numbers, NaN if any is; traced ones make one operation of it."""
    for number in numbers:
        if type(number) is not float:
            if hasattr(number, "largest"):
                return number.largest(numbers)
            if registered(number) is not None:  # a comparison may be undecided
                return functools.reduce(lambda a, b: where((b > a) | (b != b), b, a), numbers)
    return functools.reduce(lambda a, b: b if b > a or b != b else a, numbers)


def smallest(numbers: Sequence[Any]) -> Any:
    """The smallest of some numbers, NaN if any is."""
    return -largest([-number for number in numbers])


def total(numbers: Sequence[Any]) -> Any:
    """The sum of some numbers, from left to right: since Python 3.12, the built-in `sum` corrects its rounding."""
    if type(numbers[0]) is not float and hasattr(numbers[0], "total"):  # a traced row
        return numbers[0].total()
    return functools.reduce(operator.add, numbers)


def divide(x: Any, y: Any) -> Any:
    """x / y. Raises ZeroDivisionError naming both."""
    try:
        return x / y
    except ZeroDivisionError:
        raise ZeroDivisionError(f"{x!r} / {y!r}: division by zero") from None


def remainder(x: Any, y: Any) -> Any:
    """x % y, with the sign of y as Python has it. Raises ZeroDivisionError naming both."""
    try:
        return x % y
    except ZeroDivisionError:
        raise ZeroDivisionError(f"{x!r} % {y!r}: modulo by zero") from None


def floor_divide(x: Any, y: Any) -> Any:
    """x // y, the largest whole number that is not above x / y. Raises ZeroDivisionError naming both."""
    try:
        return x // y
    except ZeroDivisionError:
        raise ZeroDivisionError(f"{x!r} // {y!r}: division by zero") from None
    except TypeError:  # a kind without this operator, such as mpmath's
        return FUNCTIONS["floor"](x / y)


def power(x: Any, y: Any) -> Any:
    """x ** y, never complex. Raises ValueError, ZeroDivisionError or OverflowError naming both."""
    try:
        result = x**y
    except ZeroDivisionError:
        raise ZeroDivisionError(f"{x!r} ** {y!r}: zero has no negative power") from None
    except OverflowError:
        raise OverflowError(f"{x!r} ** {y!r}: the result is too large for a float") from None
    if type(result) is complex:
        raise DomainError(f"{x!r} ** {y!r}: a fractional power of a negative number is not real")
    return result
