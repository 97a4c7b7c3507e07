"""The engine: numbers that remember how they were computed, and so know their gradients.

A `Value` holds a number. An operation on Values computes its result and stores a function with it, `_backward(grad)`,
that takes the gradient of the result and passes it on to the operands: the chain rule, one operation at a time.
`backward()` calls these functions in turn, from the result back to the leaves, the Values that you created yourself.
Everything else in this package follows from them.

Every operation has the same shape: its result, its closure, and a node that holds both. A closure refers to its
operands but never to its own node: Karpathy's reads `out.grad`, ours takes the gradient as an argument. So there are no
reference cycles, and a graph is freed the moment it goes out of use.

The number in a Value is usually a float. It may also be a Fraction, a Value itself (in a derivative of a derivative) or
a symbol (in a function that is being compiled). So operations use Python's operators and the functions of `scalar`,
since those work on all of them, and never `math` or an `if` on a number. On a first reading, assume floats throughout.

Two helpers stand between you and the idea. `@binary` lets `other` be a plain number by turning it into a Value.
`self._node(data, operands, op, closure)` is `Value(data, operands, op, closure)` without the checks. The level of a
Value counts the nested derivatives around it, and is 0 for every Value you meet at first; core/levels.py explains it.
"""

from __future__ import annotations  # so that Value can be named inside its own class

from collections.abc import Callable
from typing import Any, Self

from micrograd import scalar
from micrograd.core.display import NotebookDisplay
from micrograd.core.errors import no_derivative
from micrograd.core.gradients import backward_pass, nothing
from micrograd.core.levels import adopt_level, as_number, binary, promoted, reflected
from micrograd.functions import Functions

__all__ = ["Value", "promote"]


class Value(Functions, NotebookDisplay):
    """A number in a graph of computations.

    Parameters
    ----------
    data
        The number: a float, an int, a Fraction, a NumPy scalar, or of a type that `scalar.register` was given. Raises
        TypeError for anything else.
    _prev
        The operands it was computed from, in order; none for a leaf. Pass several through `promote` first.
    _op
        The name of the operation, for drawings and errors.
    _backward
        The closure that takes the gradient of this node and adds to the gradients of its operands. To call it by hand,
        write `o._backward(o.grad)`.
    label
        A name, for drawings.

    Attributes
    ----------
    grad
        The derivative, with respect to this Value, of the result that you called `backward()` on.

    Notes
    -----
    A plain number in an operation, and what `detach()` returns, is a constant: a leaf whose gradient `backward()`
    leaves alone.

    `==` and `<` compare the numbers, so that `max` and `sorted` work. Two different nodes may therefore be equal, and
    `v in a_list`, `a_list.index(v)` and `a_list.remove(v)` find the first equal one: to find a node itself, use `is`,
    a set or a dict.

    The result of an operation has the class of its first operand, but a subclass's `__init__` is not called for it.
    """

    __slots__ = ()  # the attributes are declared in the base classes, most of them in core/number.py

    def __init__(
        self,
        data: Any,
        _prev: tuple[Value, ...] = (),
        _op: str = "",
        _backward: Callable[[Any], None] | None = None,
        *,
        label: str = "",
    ) -> None:
        self._prev = adopt_level(self, _prev, _op)  # checks the operands
        self.data = as_number(data, self._level)
        self.grad = scalar.zero(self.data)
        self._op = _op
        self._backward = _backward or (no_derivative if self._prev else nothing)
        self._is_constant = False
        self.label = label

    # The whole idea in two operations: a result, and a closure that sends its gradient to the operands.

    @binary
    def __add__(self, other: Any) -> Self:
        def _backward(grad):
            self.grad += grad
            other.grad += grad

        return self._node(self.data + other.data, (self, other), "+", _backward)

    @binary
    def __mul__(self, other: Any) -> Self:
        def _backward(grad):
            self.grad += grad * other.data
            other.grad += grad * self.data

        return self._node(self.data * other.data, (self, other), "*", _backward)

    # Backpropagation: put the graph in order, and call the closures from the result back to the leaves.

    def backward(self, grad: Any = 1) -> None:
        """Add the gradient of this Value to the `grad` of every leaf it depends on, other than constants.

        Gradients accumulate in the leaves from call to call; in the nodes in between, only the latest call's remain.
        Do not change the `data` of a Value between using it and this call, or the gradients will be wrong. If this
        raises an exception, the leaves' gradients are unchanged.

        `grad` is the gradient of this Value itself: 1 unless it is part of a larger computation.

        Raises
        ------
        ZeroDivisionError, ValueError, OverflowError
            If a derivative does not exist at this point, or a function or a power in it is too large for a float.
        NotImplementedError
            If an operation on the way has no `_backward`.
        TypeError
            If the `grad` of a leaf is not a number, or its `data` is a NumPy number below double precision; if a
            `_backward` does not take the gradient, or adds something other than a number, such as a Value; or if the
            nested derivative that made this Value has ended.
        """
        grad = as_number(grad, self._level)
        # backward_pass sorts the graph, sets every gradient to 0 and yields the nodes, this one first. At the end, it
        # adds the leaves' old gradients to the new ones; after an error, it restores the old ones.
        with backward_pass(self) as nodes:
            self.grad += grad  # d(self)/d(self) = 1
            for node in nodes:
                node._backward(node.grad)

    def _topological_order(self) -> tuple[list[Value], list[Value]]:
        """Every Value that this one depends on, itself included: nodes, each after its operands; and leaves."""
        computed: list[Value] = []
        leaves: list[Value] = []
        visited: set[Value] = set()  # finds a node by identity, although == compares the numbers
        stack: list[Value | None] = [self]  # a depth-first walk, not recursive since Python limits the depth of calls
        while stack:
            node = stack.pop()
            if node is None:  # everything pushed above this mark is done, and so is the node below it
                computed.append(stack.pop())  # type: ignore[arg-type]
            elif node not in visited:
                visited.add(node)
                if node._prev:
                    stack += node, None, *reversed(node._prev)  # it waits under a mark; its first operand is on top
                else:
                    leaves.append(node)
        return computed, leaves

    # The other operators

    @binary
    def __sub__(self, other: Any) -> Self:
        def _backward(grad):
            self.grad += grad
            other.grad -= grad

        return self._node(self.data - other.data, (self, other), "-", _backward)

    @binary
    def __truediv__(self, other: Any) -> Self:
        def _backward(grad):
            self.grad += grad / other.data
            other.grad -= grad * (self.data / other.data) / other.data  # other.data ** 2 could overflow

        # like self.data / other.data, but an error names both numbers
        return self._node(scalar.divide(self.data, other.data), (self, other), "/", _backward)

    @binary
    def __pow__(self, other: Any) -> Self:
        result = scalar.power(self.data, other.data)

        def _backward(grad):
            x, y = self.data, other.data
            if not self._is_constant:  # y * x ** (y - 1); 0 if y is the number 0, since 0 ** -1 would be an error
                self.grad += grad * (y * x ** scalar.where(scalar.is_zero(y), 0, y - 1))
            if not other._is_constant:  # x ** y * log(x): 0 at x = 0, undefined for x < 0
                other.grad += grad * (result * scalar.log(scalar.where(x == 0, 1, x)))

        return self._node(result, (self, other), "**", _backward)

    def __neg__(self) -> Self:
        def _backward(grad):
            self.grad -= grad

        return self._node(-self.data, (self,), "neg", _backward)

    def __abs__(self) -> Self:
        def _backward(grad):
            x = self.data
            self.grad += grad * scalar.where(x > 0, 1, scalar.where(x < 0, -1, 0 * x))  # NaN stays NaN

        return self._node(abs(self.data), (self,), "abs", _backward)

    # For a plain number on the left of a Value, as in 2 * v

    __radd__ = reflected(__add__, start=0)  # 0 + v, with which the built-in sum() starts, is v itself
    __rsub__ = reflected(__sub__)
    __rmul__ = reflected(__mul__)
    __rtruediv__ = reflected(__truediv__)
    __rpow__ = reflected(__pow__)

    # A function of one number has the same shape. exp is the example; log, tanh, relu and all others are made from a
    # table in functions.py, with an entry for each: its value and its rule for the gradient. Operations on many
    # operands, such as sum and dot, are in reductions.py; comparisons and text in core/number.py.

    def exp(self) -> Self:
        """e^x, whose derivative is e^x."""
        y = scalar.exp(self.data)

        def _backward(grad):
            self.grad += grad * y

        return self._node(y, (self,), "exp", _backward)


def promote(*values: Any) -> tuple[Value, ...]:
    """The values as operands of one node: numbers become constants.

    Call it first in your own operation on several operands. Inside nested derivatives, all become Values of the
    innermost derivative among them; Values of outer ones become constants.
    """
    return promoted(values, Value)
