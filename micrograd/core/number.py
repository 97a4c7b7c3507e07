"""What makes a Value behave like a number in Python and NumPy: comparisons, text, conversions and copies.

Nothing here has a gradient. The operations that have one are in engine.py, functions.py and reductions.py.
"""

from collections.abc import Callable
from typing import Any, Self, cast

from micrograd import scalar
from micrograd.core import errors
from micrograd.core.gradients import nothing
from micrograd.core.levels import HasLevel, as_number

_new = object.__new__


class Number(HasLevel):
    """The base class of Value, with everything that has nothing to do with gradients."""

    # Slots are faster; `__dict__` still allows other attributes.
    __slots__ = ("data", "grad", "label", "_prev", "_op", "_backward", "_is_constant", "__dict__", "__weakref__")

    # Above NumPy's scalars (-1000000), below its arrays (0): np.float64(2) * v is our __rmul__, array * v is NumPy's.
    __array_priority__ = -1.0

    data: Any
    grad: Any
    label: str
    _prev: tuple[Any, ...]
    _op: str
    _backward: Callable[[Any], None]
    _is_constant: bool

    def _node(self, data: Any, operands: tuple[Any, ...], op: str, backward: Callable[[Any], None]) -> Self:
        """The result of an operation: a Value of the class of `self`, made without the constructor and its checks.

        So a subclass's `__init__` does not run. Tracing overrides this method.
        """
        node = _new(type(self))
        node._prev = operands
        if type(data) is float:  # without this branch, every operation takes a tenth longer
            node.data, node.grad = data, 0.0
        elif type(data) in scalar.ZEROS:
            node.data, node.grad = data, scalar.ZEROS[type(data)]
        else:
            node.data = number = as_number(data, self._level)
            node.grad = scalar.zero(number)
        node._op = op
        node._backward = backward
        node._is_constant = False
        node.label = ""
        return node

    def _constant(self, number: Any) -> Self:
        """A leaf, of the class of `self`, that gets no gradient."""
        leaf = self._node(number, (), "", nothing)
        leaf._is_constant = True
        return leaf

    def __pos__(self) -> Self:
        return self

    conjugate = __pos__  # of a real number; NumPy's vdot, var and std call it

    # Comparisons compare the numbers: they return bools, or symbols if a number is a symbol, hence `Any`. The hash
    # goes by identity, so sets and dicts tell equal nodes apart; lists do not.

    def __eq__(self, other: object) -> Any:
        return self.data == _data_of(other)

    def __ne__(self, other: object) -> Any:
        return self.data != _data_of(other)

    def __lt__(self, other: Any) -> Any:
        return self.data < _data_of(other)

    def __le__(self, other: Any) -> Any:
        return self.data <= _data_of(other)

    def __gt__(self, other: Any) -> Any:
        return self.data > _data_of(other)

    def __ge__(self, other: Any) -> Any:
        return self.data >= _data_of(other)

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        return bool(self.data != 0)

    def item(self) -> Any:
        """The number without the graph."""
        return self.data

    def detach(self) -> Self:
        """A constant with the same number: a leaf that gets no gradient, at any level.

        To get a leaf that you can train, write `Value(v.data)`.
        """
        return self._constant(self.data.detach() if isinstance(self.data, Number) else self.data)

    def __repr__(self) -> str:
        label = f", label={self.label!r}" if self.label else ""
        return f"Value(data={self.data!r}, grad={self.grad!r}{label})"

    def __format__(self, spec: str) -> str:
        return format(self.data, spec) if spec else repr(self)

    def __float__(self) -> float:  # otherwise math.exp(v) would silently return a float without a gradient
        raise errors.PlainNumberError(
            'float(v), math.exp(v) and "%.2f" % v would lose the gradient: write v.data for the number, f"{v:.2f}" for '
            "text, or a method such as v.exp(); in an operation of your own, scalar.exp(x.data)"
        )

    def __int__(self) -> int:
        raise errors.PlainNumberError("int(v) would lose the gradient: write int(v.data)")

    def __round__(self, digits: int | None = None) -> Any:
        raise errors.PlainNumberError('round(v) would lose the gradient: write round(v.data, 2), or f"{v:.2f}"')

    def __reduce__(self) -> tuple[Any, ...]:
        if self._prev:
            raise TypeError(f"{errors.expression(self)} holds closures: copy or pickle leaves, or its .detach()")
        # For copy and pickle: how to make a leaf, and what to set in it afterwards, in `__dict__` and in slots.
        attributes, slots = cast(Any, object.__getstate__(self))  # those of subclasses, too
        slots = {name: slots[name] for name in slots if name not in ("_prev", "_op", "_backward")}
        return _leaf, (getattr(type(self), "_plain_class", type(self)),), (attributes or None, slots)


def _leaf(kind: type[Number]) -> Number:
    """A leaf of this class, made without calling its `__init__`."""
    return Number._node(_new(kind), 0.0, (), "", nothing)


def _data_of(other: Any) -> Any:
    """The number in a Value, or the number itself."""
    return other.data if isinstance(other, Number) else scalar.unwrap_numpy(other)
