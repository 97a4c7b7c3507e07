"""The engine: numbers that remember how they were computed, and so know their gradients.

A `Value` holds a number. An operation on Values computes its result and attaches a closure to it, `_backward(grad)`,
that passes the gradient of the result on to the operands: the chain rule, one operation at a time. `backward()` calls
these closures in turn, from the result back to the leaves, which no operation computed.

Every operation has the same shape: compute, define the closure, return the node. A closure refers to its operands but
never to its own node: it is given `grad`, where Karpathy's reads `out.grad`. So there are no reference cycles, and a
graph is freed the moment it goes out of use.

The number in a Value is usually a float, but may also be a Fraction, a Value itself (in a derivative of a derivative)
or a symbol (in a function that is being compiled). So arithmetic goes through Python's operators and the functions of
`scalar`, which take all of these, never through `math`, and no `if` depends on it unless it is a float.

`grad(f)` calls `f` with Values of a subclass, one for each level of nesting: that is why operations return
`type(self)(...)`, and what `_level` and the imports from levels.py are about. On a first reading, take every number
for a float and every Value for a plain Value.

Value inherits functions from `Functions`, a table in functions.py, and drawings in notebooks from `Displayed`. The
entry `sin = function(math.sin, lambda g, x, y: g * cos(x))`, for instance, becomes a method of the shape of `__mul__`.
Operations on many operands, such as `sum` and `dot`, are in reductions.py.
"""

from __future__ import annotations  # otherwise every operation would evaluate the annotations of its closure

from collections.abc import Callable
from numbers import Rational
from typing import Any, Self

from micrograd import scalar
from micrograd.core import errors, levels
from micrograd.core.display import Displayed
from micrograd.core.levels import Leveled, adopt_level, as_number, binary, gradients_lock, promoted, reflected
from micrograd.functions import Functions

__all__ = ["Value", "promote"]


class Value(Functions, Leveled, Displayed):
    """A number in a graph of computations.

    Parameters
    ----------
    data
        The number: a float, an int, a Fraction or a NumPy scalar. Raises TypeError for anything else.
    _prev
        The operands it was computed from, in order; none for a leaf. Pass several through `promote` first.
    _op
        The name of the operation, for drawings and errors; for a leaf it is "", or "constant" if an operation or
        `promote` created the leaf from a plain number.
    _backward
        The closure that takes the gradient of this node and adds to the gradients of its operands.
    label
        A name, for drawings.

    Attributes
    ----------
    grad
        The derivative with respect to this Value of the one that `backward` was called on.

    Notes
    -----
    `==` and `<` compare the numbers, so that `max` and `sorted` work. Two different nodes may therefore be equal, and
    `v in a_list`, `a_list.index(v)` and `a_list.remove(v)` find the first equal one: to find a node itself, use `is`,
    a set or a dict.
    """

    # Slots are faster; `__dict__` still allows any other attribute.
    __slots__ = ("data", "grad", "label", "_prev", "_op", "_backward", "__dict__", "__weakref__")

    # Above NumPy's scalars (-1000000), below its arrays (0): np.float64(2) * v is our __rmul__, array * v is NumPy's.
    __array_priority__ = -1.0

    def __init__(
        self,
        data: Any,
        _prev: tuple[Value, ...] = (),
        _op: str = "",
        _backward: Callable[[Any], None] | None = None,
        *,
        label: str = "",
    ) -> None:
        # One or two operands of our own class need no check: `_prev[-1]` is the second, or the first again. For all
        # else, adopt_level checks that they are Values in a tuple, and in a derivative gives this node their class.
        kind = type(self)
        if type(_prev) is not tuple or (_prev and not (type(_prev[0]) is type(_prev[-1]) is kind and len(_prev) < 3)):
            adopt_level(self, _prev, _op)
        if type(data) is float:
            self.data: Any = data
            self.grad: Any = 0.0
        else:
            self.data = as_number(data, self._level)
            self.grad = scalar.zero(self.data)
        self._prev = _prev
        self._op = _op
        self._backward = _backward
        self.label = label

    # The whole idea in two operations: compute the result, and leave a closure that sends its gradient to the operands.
    # (`binary` makes a leaf of `other` if it is a plain number.)

    @binary
    def __add__(self, other: Any) -> Self:
        def _backward(grad: Any) -> None:
            self.grad += grad
            other.grad += grad

        return type(self)(self.data + other.data, (self, other), "+", _backward)

    @binary
    def __mul__(self, other: Any) -> Self:
        def _backward(grad: Any) -> None:
            self.grad += grad * other.data
            other.grad += grad * self.data

        return type(self)(self.data * other.data, (self, other), "*", _backward)

    # Backpropagation: put the graph in order, and call the closures from the result back to the leaves.

    def backward(self, grad: Any = 1) -> None:
        """Add the gradient of this Value to the `grad` of every leaf it was computed from.

        Gradients accumulate in the leaves from call to call; the nodes in between keep those of the latest call only.
        Do not change the `data` of a Value between using it and this call, or the gradients will be wrong. If this
        raises an exception, the leaves' gradients are unchanged.

        `grad` is the gradient of this Value itself: 1 unless it is part of a larger computation.

        Raises
        ------
        ZeroDivisionError, ValueError, OverflowError
            If a derivative does not exist at this point, or is too large for a float.
        NotImplementedError
            If an operation on the way has no `_backward`.
        TypeError
            If the `grad` of a leaf is not a number, or its `data` is a NumPy number below double precision; if a
            `_backward` does not take the gradient; or if this Value outlived a nested derivative.
        """
        grad = as_number(grad, self._level)
        computed, leaves = self._topological_order()
        levels.require_double(leaves)
        node, zero = self, scalar.zero(self.data)
        with gradients_lock:  # threads may share leaves
            before = [leaf.grad for leaf in leaves]
            try:
                for node in (*computed, *leaves):
                    node.grad = zero
                self.grad += grad  # d(root)/d(root) = 1; += makes it 1.0 among floats
                for node in reversed(computed):
                    node._backward(node.grad)  # type: ignore[misc]  # raise_with_context explains a None
                for node, earlier in zip(leaves, before, strict=True):
                    node.grad = earlier + node.grad  # added once, at the end: two calls give exactly twice as much
            except BaseException as error:  # even Ctrl-C
                for leaf, earlier in zip(leaves, before, strict=True):
                    leaf.grad = earlier
                errors.raise_with_context(error, node, computed)
                raise

    def _topological_order(self) -> tuple[list[Value], list[Value]]:
        """All that this Value was computed from, itself included: nodes with operands, each after them, and leaves."""
        if not self._prev:
            return [], [self]
        computed: list[Value] = []
        leaves: list[Value] = []
        visited: set[Value] = set()  # of objects, not of numbers: see __hash__
        stack: list[Value | None] = [self]  # a depth-first walk without recursion, whose depth Python limits
        while stack:
            node = stack.pop()
            if node is None:  # the mark above a node whose operands are done
                computed.append(stack.pop())  # type: ignore[arg-type]
            elif node not in visited:
                visited.add(node)
                stack += node, None  # below its operands, which come off first
                pending = []
                for operand in node._prev:
                    if operand not in visited:
                        if operand._prev:
                            pending.append(operand)
                        else:
                            visited.add(operand)
                            leaves.append(operand)
                stack += reversed(pending)  # the first one on top
        return computed, leaves

    # The other operators

    @binary
    def __sub__(self, other: Any) -> Self:
        def _backward(grad: Any) -> None:
            self.grad += grad
            other.grad -= grad

        return type(self)(self.data - other.data, (self, other), "-", _backward)

    @binary
    def __truediv__(self, other: Any) -> Self:
        def _backward(grad: Any) -> None:
            self.grad += grad / other.data
            other.grad -= grad * (self.data / other.data) / other.data  # as the square of y could overflow

        # `divide`, and `remainder` and `power` below, raise errors that name both numbers
        return type(self)(scalar.divide(self.data, other.data), (self, other), "/", _backward)

    @binary
    def __mod__(self, other: Any) -> Self:
        remainder = scalar.remainder(self.data, other.data)  # x - floor(x / y) * y

        def _backward(grad: Any) -> None:
            self.grad += grad
            # floor(x / y), which is -1 where x % y is y itself: for -1 % inf, or for -1e-20 % 1.0 by rounding
            floor = scalar.where(remainder == other.data, -1, (self.data - remainder) / other.data)
            other.grad -= grad * floor

        return type(self)(remainder, (self, other), "%", _backward)

    @binary
    def __pow__(self, other: Any) -> Self:
        result = scalar.power(self.data, other.data)
        base_is_variable, exponent_is_variable = self._op != "constant", other._op != "constant"

        def _backward(grad: Any) -> None:
            x, y = self.data, other.data
            # A constant, such as the 2 of x ** 2, needs no gradient: log(x) would be an error for x < 0. But drawings
            # show that gradient where it is safe to compute.
            safe = type(result) is float and x > 0
            if base_is_variable:  # y * x ** (y - 1), which is 0 for y = 0, where 0 ** -1 would be an error
                # Inside a nested derivative, this is differentiated by y, too, which gives x ** -1 at y = 0: so the
                # power stays, unless x is 0.
                nested = exponent_is_variable and isinstance(result, Value)
                is_flat = (x == 0) & (y == 0) if nested else y == 0
                self.grad += grad * (y * x ** (y - scalar.where(is_flat, 0, 1)))
            elif safe:
                self.grad += grad * (y * (result / x))  # the same, but infinite where the power is an OverflowError
            if exponent_is_variable or safe:  # result * log(x), which is 0 for x = 0
                other.grad += grad * (result * scalar.log(scalar.where(x == 0, 1, x)))

        return type(self)(result, (self, other), "**", _backward)

    def __neg__(self) -> Self:
        def _backward(grad: Any) -> None:
            self.grad -= grad

        return type(self)(-self.data, (self,), "neg", _backward)

    def __abs__(self) -> Self:
        def _backward(grad: Any) -> None:
            x = self.data
            self.grad += grad * scalar.where(x > 0, 1, scalar.where(x < 0, -1, 0 * x))  # NaN stays NaN

        return type(self)(abs(self.data), (self,), "abs", _backward)

    def __pos__(self) -> Self:
        return self

    conjugate = __pos__  # of a real number; NumPy's vdot, var and std call it

    def __radd__(self, other: Any) -> Any:
        if isinstance(other, Rational) and other == 0:  # the built-in `sum` starts from 0; 0.0 makes floats
            return self
        return self._reflected_add(other)

    _reflected_add = reflected(__add__)
    __rsub__ = reflected(__sub__)
    __rmul__ = reflected(__mul__)
    __rtruediv__ = reflected(__truediv__)
    __rmod__ = reflected(__mod__)
    __rpow__ = reflected(__pow__)

    # Comparisons compare the numbers: they return bools, or symbols if a number is a symbol, hence `Any`. The hash is
    # that of the object: sets and dicts distinguish equal nodes, lists do not.

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

    # The number alone, text, conversions and copies

    def item(self) -> Any:
        """The number without the graph."""
        return self.data

    def detach(self) -> Self:
        """A leaf with the same number and no history: no gradient flows through it, at any level."""
        return type(self)(self.data.detach() if isinstance(self.data, Value) else self.data)

    def __repr__(self) -> str:
        label = f", label={self.label!r}" if self.label else ""
        return f"Value(data={self.data!r}, grad={self.grad!r}{label})"

    def __format__(self, spec: str) -> str:
        return format(self.data, spec) if spec else repr(self)

    def __float__(self) -> float:  # or math.exp(v) would silently return a float, which has no gradient
        raise TypeError(errors.NO_PLAIN_NUMBER)

    __int__ = __complex__ = __float__

    def __reduce__(self) -> tuple[Any, ...]:
        if self._prev:
            raise TypeError(errors.not_copied(self))
        # For copy and pickle: the class, its arguments, and what to set afterwards, in `__dict__` and in slots.
        return type(self), (self.data,), (self.__dict__ or None, {"grad": self.grad, "label": self.label})


def promote(*values: Any) -> tuple[Value, ...]:
    """The values as operands of one node: numbers become leaves.

    Start your own operation on several operands with it. In nested derivatives, it returns Values of the innermost
    derivative among them, to which Values of outer ones are constants, and so become leaves too.
    """
    return promoted(values, Value)


def _data_of(other: Any) -> Any:
    """The number in a Value, or the number itself."""
    return other.data if isinstance(other, Value) else scalar.unwrap_numpy(other)
