"""The numbers that a Value can hold, and the operands that it accepts, including Values of enclosing derivatives.

`grad(f)` calls `f` with Values of a separate class for each level of nesting: inside `grad(grad(f))`, the outer
derivative works on the Values that the inner one holds as its numbers. An operation happens at the innermost level
among its operands, where Values of outer levels are constants. The decorators here keep all that out of the engine.

Levels are classes, not numbers in a slot, for two reasons. One comparison of types shows that two operands have the
same level; with a slot, an operation took a fifth to a third longer. And when the right operand is of a deeper level,
Python tries its reflected operator, `__radd__` for `+`, only if the two types differ.
"""

import functools
import os
import threading
from collections.abc import Callable, Iterable
from numbers import Rational, Real
from typing import Any, ClassVar, TypeVar

from micrograd import scalar
from micrograd.core.errors import shown

V = TypeVar("V")

active_levels: list[int] = []
"""The levels of all running derivatives, in all threads."""

# Held while gradients change, since threads may share nodes; and during a fork, so that the child can acquire it too.
GRADIENT_LOCK = threading.RLock()
getattr(os, "register_at_fork", lambda **hooks: None)(
    before=GRADIENT_LOCK.acquire, after_in_parent=GRADIENT_LOCK.release, after_in_child=GRADIENT_LOCK.release
)

PROMOTE = "begin the operation with promote, as in `x, y = promote(x, y)`"


class HasLevel:
    """The base class of Values of all levels; `_level` is the number of derivatives around the Values of a class."""

    __slots__ = ()

    _level: ClassVar[int] = 0


def binary(operation: Callable[[V, Any], V]) -> Callable[[V, Any], V]:
    """Turn an operation on two Values of the same level into an operator that also accepts a number."""

    @functools.wraps(operation)
    def operator(self: V, other: Any) -> V:
        if type(other) is type(self):
            return operation(self, other)
        other = lifted(other, self)
        return NotImplemented if other is NotImplemented else operation(self, other)

    return operator


def reflected(operator: Any, start: int | None = None) -> Callable[[V, Any], V]:
    """The operator with its operands swapped, for a number on the left of a Value.

    With the exact number `start` on the left, the result is the Value itself: the built-in `sum` starts from 0.
    """
    operation = operator.__wrapped__

    @binary
    def swapped(self: Any, other: Any) -> Any:
        return operation(other, self)

    if start is None:
        return swapped
    return lambda self, other: self if isinstance(other, Rational) and other == start else swapped(self, other)


def lifted(other: Any, beside: Any) -> Any:
    """`other` as a Value of the level of `beside`; NotImplemented if it is not a number, or is from a deeper level.

    Raises TypeError for a list, since Python's own error would say that it cannot be repeated.
    """
    if isinstance(other, HasLevel):
        if other._level >= beside._level:
            return other if other._level == beside._level else NotImplemented
    elif type(other) not in scalar.ZEROS and not scalar.is_number(other):
        if isinstance(other, (list, tuple)):
            raise TypeError(f"an operand is {shown(other)}: for each number in a list, write [v * x for x in xs]")
        return NotImplemented
    elif scalar.REGISTERED:
        other = scalar.as_kind_of(other, beside)
    return beside._constant(other)


def promoted(values: tuple[Any, ...], kind: Any) -> tuple[Any, ...]:
    """The values as Values of one level, the deepest among them; of the class `kind` if they are all numbers."""
    kinds = tuple(map(type, values))
    kinds = kinds if len(kinds) < 1000 else (*dict.fromkeys(kinds),)  # or the cache would keep many megabytes
    innermost, kind = _innermost(kinds, kind)
    if innermost is None:  # as in a network: constants, too, are Values by now
        return values
    if scalar.REGISTERED:
        x = scalar.innermost(next((v for v in values if type(v) not in (float, int)), 0.0))
        if scalar.registered(x) is not None:
            values = tuple([scalar.as_kind_of(v, x) for v in values])
    empty = object.__new__(kind)  # constants get its class
    return tuple([v if type(v) in innermost else empty._constant(v) for v in values])


@functools.lru_cache
def _innermost(kinds: tuple[type, ...], kind: Any) -> tuple[set[type] | None, Any]:
    """The classes of the deepest level, or None if all values are of these; and the class for constants."""
    leveled = [each for each in dict.fromkeys(kinds) if issubclass(each, HasLevel)]
    kind = max(leveled, key=lambda each: each._level, default=kind)
    found = {each for each in leveled if each._level == kind._level}
    return None if found.issuperset(kinds) else found, kind


def as_number(data: Any, level: int) -> Any:
    """`data`, if a Value of this level can hold it; a NumPy or PyTorch number becomes a Python number."""
    if type(data) in scalar.ZEROS:
        return data
    if isinstance(data, HasLevel):
        check_active(max(data._level, level))
        if data._level < level:
            return data
        raise TypeError("a Value holds a number, not a Value: use v.data, as in p.data -= lr * p.grad, or v.detach()")
    number = scalar.unwrap_numpy(data)
    is_real = isinstance(number, Real)
    is_symbol = is_real and hasattr(number, "sigmoid")
    if is_symbol or isinstance(number, (float, Rational)) or scalar.registered(number) is not None:
        return number
    hint = ": pass float(x), or tell micrograd.scalar.register about this type" if is_real else ""
    came = f"{type(data).__name__}: {shown(data)}{hint}"
    raise TypeError(f"a Value holds a number (float, int, Fraction or NumPy scalar), not {came}")


def normalize_leaves(leaves: Iterable[Any]) -> None:
    """Turn numbers assigned to leaves into Python's, and a gradient of 0 into the zero of that kind of number.

    Raises TypeError for anything else, and for lower precision.
    """
    for leaf in leaves:
        data, grad = leaf.data, leaf.grad
        if type(data) is not float:
            number = as_number(data, leaf._level)
            if number is not data:
                if not isinstance(data, float):
                    raise TypeError(f"a leaf was set to {data!r}, of low precision: set it to {number!r} and recompute")
                leaf.data = number
            if type(grad) is float and grad == 0:  # the data was a float before
                leaf.grad = scalar.zero(number)
        if type(grad) is not float and not has_valid_grad(leaf):
            raise TypeError(f"the grad of {leaf!r:.80} is not a number: zero_grad() sets it to 0")


def has_valid_grad(operand: Any) -> bool:
    """Whether the gradient is a number or a Value of a lower level. NumPy's and PyTorch's numbers become Python's."""
    try:
        operand.grad = as_number(operand.grad, operand._level)
    except TypeError:
        return False
    return True


def as_constant(beside: Any, name: str, number: Any, remedy: str) -> Any:
    """A number that an operation takes besides its operands. The error suggests a `remedy` for its gradient."""
    try:
        return scalar.option(as_number(number, beside._level), beside)
    except TypeError:
        raise TypeError(f"{name} must be a number, not {shown(number)}: to get its gradient, use {remedy}") from None


def adopt_level(value: Any, operands: tuple[Any, ...], op: str) -> tuple[Any, ...]:
    """Give a Value the class of its operands, so that your own operation can return `Value(...)` in any derivative.

    Returns the operands. Raises TypeError if they are not Values of one level in a tuple.
    """
    if type(operands) is tuple and not operands:  # of a leaf
        return operands
    if not isinstance(operands, (tuple, list)):
        remedy = f"did you mean label={operands!r}?" if isinstance(operands, str) else "for one operand, write (x,)"
        raise TypeError(f"the operands of a Value must be a tuple, not {shown(operands)}: {remedy}")
    if callable(op):
        raise TypeError(f"the name of an operation comes before its _backward, but _op is {shown(op)}")
    try:
        levels = {operand._level for operand in operands}
    except AttributeError:
        raise TypeError(f"the operands of {op} must be Values, not {shown(operands)}: {PROMOTE}") from None
    if len(levels) > 1:
        raise TypeError(f"the operands of {op} belong to different derivatives: {PROMOTE}")
    if operands and value._level not in levels:
        value.__class__ = type(operands[0])
    return tuple(operands)


def check_active(level: int) -> None:
    """Raise TypeError if the derivative of this level has ended."""
    if level and level not in active_levels:
        raise TypeError("this Value belongs to a derivative that has ended: return it, or keep its .data")
