"""The engine: numbers that remember how they were computed, and so know their gradients.

A `Value` holds a number. An operation on Values computes its result and leaves a closure with it, `_backward(grad)`,
that sends the gradient of the result on to the operands: the chain rule, one operation at a time. `backward()` calls
these closures in turn, from the result back to the leaves.

Every operation has the same shape: compute, define the closure, return the node. A closure refers to its operands and
never to its own result, so there are no reference cycles and a graph is freed the moment it goes out of use. All
mathematics goes through Python's operators and `scalar`, never through `math` or an `if` on a number: so the number
in a Value may be a float, a Fraction, a Value of an enclosing derivative, or the symbol of a compiler.

Functions such as `tanh` and `hypot` are entries of a table in functions.py; `sum`, `dot` and others that take many
operands are in reductions.py.
"""

from __future__ import annotations  # or each closure would build a tuple of its annotations

from collections.abc import Callable
from numbers import Rational
from typing import Any, Self

from micrograd import errors, levels, scalar
from micrograd.display import Displayed
from micrograd.functions import Functions
from micrograd.levels import Leveled, adopt_level, as_number, binary, gradients_lock, promoted, reflected

__all__ = ["Value", "promote"]


class Value(Functions, Leveled, Displayed):
    """A number in a graph of computations.

    `==` and `<` compare the numbers, so that `max` and `sorted` work. Two different nodes may therefore be equal, and
    `v in a_list`, `a_list.index(v)` and `a_list.remove(v)` find the first equal one: to find a node itself, use `is`,
    a set or a dict.

    Parameters
    ----------
    data
        The number: a float, an int, a Fraction or a NumPy scalar. Raises TypeError for anything else.
    _prev
        The operands it was computed from, in order; none for a leaf. Several operands need `promote` first.
    _op
        The name of the operation, for drawings and errors; of a leaf "", or "constant" if an operator created it from
        a plain number.
    _backward
        The closure that takes the gradient of this node and adds to the gradients of its operands.
    label
        A name, for drawings.

    Attributes
    ----------
    grad
        The derivative of the root with respect to this Value, set by `backward`.
    """

    __slots__ = ("data", "grad", "label", "_prev", "_op", "_backward", "__dict__", "__weakref__")

    __array_priority__ = -1.0  # between NumPy's scalars, which leave an operation to us, and its arrays

    def __init__(
        self,
        data: Any,
        _prev: tuple[Value, ...] = (),
        _op: str = "",
        _backward: Callable[[Any], None] | None = None,
        *,
        label: str = "",
    ) -> None:
        if _prev and (type(_prev[0]) is not type(self) or type(_prev[-1]) is not type(self) or len(_prev) > 2):
            adopt_level(self, _prev, _op)  # inside a derivative, `Value(...)` joins its operands there
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

        Gradients accumulate in the leaves from call to call; those of the nodes in between are of the latest call only.
        Do not change a number after it was used and before this call, otherwise the gradients are wrong. On any
        exception, the leaves' gradients are unchanged.

        `grad` is the gradient of this Value itself: 1 unless it is part of a larger computation.

        Raises
        ------
        ZeroDivisionError, ValueError, OverflowError
            If a derivative does not exist at this point, or is too large for a float.
        NotImplementedError
            If an operation on the way has no `_backward`.
        TypeError
            If the `grad` of a leaf is not a number, or its `data` is a NumPy number below double precision; if a
            `_backward` does not take the gradient; or if this Value was kept from inside a derivative.
        """
        grad = as_number(grad, self._level)
        nodes, leaves = self._topological_order()
        levels.require_double(leaves)
        node, zero = self, scalar.zero(self.data)
        with gradients_lock:  # threads may share leaves
            before = [leaf.grad for leaf in leaves]
            try:
                for node in (*nodes, *leaves):
                    node.grad = zero
                self.grad += grad  # start: d(root)/d(root) = 1
                for node in reversed(nodes):
                    node._backward(node.grad)  # type: ignore[misc]  # if it is None, the error is explained below
                for node, earlier in zip(leaves, before, strict=True):
                    node.grad = earlier + node.grad  # in one addition: two calls give exactly twice the gradient
            except BaseException as error:
                for leaf, earlier in zip(leaves, before, strict=True):
                    leaf.grad = earlier
                errors.raise_with_context(error, node, nodes)
                raise

    def _topological_order(self) -> tuple[list[Value], list[Value]]:
        """All that this Value was computed from, itself included: nodes, each after its operands, and leaves."""
        if not self._prev:
            return [], [self]
        nodes: list[Value] = []
        leaves: list[Value] = []
        visited: set[Value] = set()
        path: list[Value | None] = [self]  # a depth-first walk, with a list in place of recursion, which has a limit
        while path:
            node = path.pop()
            if node is None:  # all operands of the node before it have been visited
                nodes.append(path.pop())  # type: ignore[arg-type]
            elif node not in visited:
                visited.add(node)
                path += node, None
                inner = []
                for operand in node._prev:
                    if operand not in visited:
                        if operand._prev:
                            inner.append(operand)
                        else:
                            visited.add(operand)
                            leaves.append(operand)
                path += reversed(inner)
        return nodes, leaves

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
            other.grad -= grad * (self.data / other.data) / other.data

        return type(self)(scalar.divide(self.data, other.data), (self, other), "/", _backward)

    @binary
    def __mod__(self, other: Any) -> Self:
        rest = scalar.remainder(self.data, other.data)  # x - floor(x / y) * y

        def _backward(grad: Any) -> None:
            self.grad += grad
            floor = scalar.where(rest == other.data, -1, (self.data - rest) / other.data)  # -1 % inf is inf
            other.grad -= grad * floor

        return type(self)(rest, (self, other), "%", _backward)

    @binary
    def __pow__(self, other: Any) -> Self:
        result = scalar.power(self.data, other.data)
        base_is_variable, exponent_is_variable = self._op != "constant", other._op != "constant"

        def _backward(grad: Any) -> None:
            x, y = self.data, other.data
            exists = type(result) is float and x > 0  # then constants get gradients too, which drawings show
            if base_is_variable:  # y * x ** (y - 1), which is 0 for y = 0, where 0 ** -1 would be an error
                x_in_derivative = exponent_is_variable and isinstance(result, Value)  # by y, of this very gradient
                x_unused = (x == 0) & (y == 0) if x_in_derivative else y == 0
                self.grad += grad * (y * x ** (y - scalar.where(x_unused, 0, 1)))
            elif exists:
                self.grad += grad * (y * (result / x))
            if exponent_is_variable or exists:  # result * log(x), which is 0 for x = 0
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
        if isinstance(other, Rational) and other == 0:  # the built-in `sum` starts from 0
            return self
        return self._plus(other)

    _plus = reflected(__add__)
    __rsub__ = reflected(__sub__)
    __rmul__ = reflected(__mul__)
    __rtruediv__ = reflected(__truediv__)
    __rmod__ = reflected(__mod__)
    __rpow__ = reflected(__pow__)

    # Comparisons compare the numbers, and return bools. The hash is that of the object: sets and dicts distinguish
    # equal nodes, lists do not.

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

    # What else Python expects of a number

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

    def __float__(self) -> float:
        raise TypeError(errors.NO_PLAIN_NUMBER)

    __int__ = __complex__ = __float__

    def __reduce__(self) -> tuple[Any, ...]:
        if self._prev:
            raise TypeError(errors.not_copied(self))
        return type(self), (self.data,), (self.__dict__ or None, {"grad": self.grad, "label": self.label})


def promote(*values: Any) -> tuple[Value, ...]:
    """The values as operands of one node: numbers become leaves.

    Your own operation on several operands starts with it. Within nested derivatives, the operands belong to the
    innermost among them, where Values of outer derivatives are constants and become leaves too.
    """
    return promoted(values, Value)


def _data_of(other: Any) -> Any:
    """The number in a Value, or the number itself."""
    return other.data if isinstance(other, Value) else scalar.unwrap_numpy(other)
