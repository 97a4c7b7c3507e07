"""The engine: numbers that remember how they were computed, and so know their gradients.

A `Value` holds a number. An operation on Values computes its result and leaves a closure with it, `_backward(grad)`,
that sends the gradient of the result on to the operands: the chain rule, one operation at a time. `backward()` calls
these closures in turn, from the result back to the leaves.

Every operation has the same shape: compute, define the closure, return the node. A closure refers to its operands and
never to its own result, so there are no reference cycles and a graph is freed the moment it goes out of use. All
mathematics goes through Python's operators and `scalar`, never through `math` or an `if` on a number: so the number
in a Value may be a float, a Fraction, a Value of an enclosing derivative, or the symbol of a compiler.
"""

from __future__ import annotations  # or each closure would build a tuple of its annotations

from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from numbers import Rational, Real
from typing import Any, ClassVar, Self

from micrograd import scalar

__all__ = ["Value", "dot", "mean", "promote", "sum", "take", "where"]

watcher: ContextVar[Callable[[list[Value], list[Value]], None] | None] = ContextVar("watcher", default=None)
"""Told of the nodes and leaves whose gradients `backward` is about to change, while a function is traced; may reorder
the nodes, each after its operands."""

running: list[int] = []  # the levels of all derivatives that are running, in any thread: see `functional`


class Value:
    """A number in a graph of computations.

    `==` and `<` compare the numbers, so that `max` and `sorted` work. Two nodes may be equal, then, and `v in a_list`,
    `a_list.index(v)` and `a_list.remove(v)` find the first that is: to find a node itself, use `is`, a set or a dict.

    Parameters
    ----------
    data
        The number: a float, an int, a Fraction or a NumPy scalar.
    _prev
        The operands it was computed from, in order; none for a leaf. Where there are several: see `promote`.
    _op
        The name of the operation, for drawings and errors; of a leaf none, or "constant" if a number beside a Value
        became it.
    _backward
        The closure that takes the gradient of this node and adds to the gradients of its operands.
    label
        A name, for drawings.

    Attributes
    ----------
    grad
        What `backward` has left here: the gradient, with respect to this Value, of the one it was called on.

    Raises
    ------
    TypeError
        If `data` is not a number, or the operands are not Values or belong to different derivatives.
    """

    __slots__ = ("data", "grad", "label", "_prev", "_op", "_backward", "__dict__", "__weakref__")

    _level: ClassVar[int] = 0  # how many derivatives enclose this kind of Value: see `functional`
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
            self._join(_prev, _op)
        if type(data) is float:
            self.data: Any = data
            self.grad: Any = 0.0
        else:
            self.data = _number(data, self._level)
            self.grad = scalar.zero(self.data)
        self._prev = _prev
        self._op = _op
        self._backward = _backward
        self.label = label

    # The whole idea in two operations: compute the result, and leave a closure that sends its gradient to the operands.
    # (`_operand` makes a leaf of a plain number.)

    def __add__(self, other: Any) -> Self:
        if type(other) is not type(self) and (other := self._operand(other)) is NotImplemented:
            return NotImplemented
        operands = self, other

        def _backward(grad: Any) -> None:
            x, y = operands
            x.grad += grad
            y.grad += grad

        return type(self)(self.data + other.data, operands, "+", _backward)

    def __mul__(self, other: Any) -> Self:
        if type(other) is not type(self) and (other := self._operand(other)) is NotImplemented:
            return NotImplemented
        operands = self, other

        def _backward(grad: Any) -> None:
            x, y = operands
            x.grad += grad * y.data
            y.grad += grad * x.data

        return type(self)(self.data * other.data, operands, "*", _backward)

    # Backpropagation: put the graph in order, and call the closures from the result back to the leaves.

    def backward(self, grad: Any = 1) -> None:
        """Add the gradient of this Value to the `grad` of every leaf it was computed from.

        Gradients add up in the leaves from call to call; those of the nodes between are of the latest call alone.
        Change no number after it was used and before this call, or the gradient is that of neither point. Whatever is
        raised, the leaves keep the gradients they had.

        Parameters
        ----------
        grad
            The gradient of this Value itself: 1 unless it is part of a larger computation.

        Raises
        ------
        ZeroDivisionError, ValueError, OverflowError
            If a derivative does not exist, or is too large for a float, where it is asked for.
        NotImplementedError
            If an operation on the way has no `_backward`.
        TypeError
            If there is no number in the `grad` of a leaf, a `_backward` does not take the gradient, or this is a Value
            that was kept from inside a derivative.
        """
        grad = _number(grad, self._level)
        if isinstance(self.data, Value):
            _check_running(self._level)
        nodes, leaves = self._history()
        if watch := watcher.get():
            watch(nodes, leaves)
        before = [leaf.grad for leaf in leaves]
        zero = scalar.zero(self.data)
        node = self
        try:
            for node in (*nodes, *leaves):
                node.grad = zero
            self.grad += grad
            for node in reversed(nodes):
                node._backward(node.grad)  # type: ignore[misc]  # None is met below
            for node, earlier in zip(leaves, before, strict=True):
                node.grad = earlier + node.grad  # at once, so that two calls give exactly twice the gradient
        except BaseException as error:
            for leaf, earlier in zip(leaves, before, strict=True):
                leaf.grad = earlier
            node._explain(error)
            raise

    def _history(self) -> tuple[list[Value], list[Value]]:
        """All that this Value was computed from, itself included: nodes, each after its operands, and leaves."""
        if not self._prev:
            return [], [self]
        nodes: list[Value] = []
        leaves: list[Value] = []
        seen: set[Value] = set()
        path: list[Any] = [self]  # a depth-first walk, with a list of its own for what recursion would hold
        while path:
            node = path.pop()
            if node is None:  # the operands of the node below are all behind us
                nodes.append(path.pop())
            elif node not in seen:
                seen.add(node)
                path += node, None
                inner = []
                for operand in node._prev:
                    if operand not in seen:
                        if operand._prev:
                            inner.append(operand)
                        else:
                            seen.add(operand)
                            leaves.append(operand)
                path += reversed(inner)
        return nodes, leaves

    # The other operators

    def __sub__(self, other: Any) -> Self:
        if type(other) is not type(self) and (other := self._operand(other)) is NotImplemented:
            return NotImplemented
        operands = self, other

        def _backward(grad: Any) -> None:
            x, y = operands
            x.grad += grad
            y.grad -= grad

        return type(self)(self.data - other.data, operands, "-", _backward)

    def __truediv__(self, other: Any) -> Self:
        if type(other) is not type(self) and (other := self._operand(other)) is NotImplemented:
            return NotImplemented
        operands = self, other

        def _backward(grad: Any) -> None:
            x, y = operands
            x.grad += grad / y.data
            y.grad -= grad * (x.data / y.data) / y.data

        return type(self)(scalar.divide(self.data, other.data), operands, "/", _backward)

    def __mod__(self, other: Any) -> Self:
        if type(other) is not type(self) and (other := self._operand(other)) is NotImplemented:
            return NotImplemented
        operands = self, other
        rest = scalar.remainder(self.data, other.data)

        def _backward(grad: Any) -> None:
            x, y = operands
            x.grad += grad
            y.grad -= grad * ((x.data - rest) / y.data)

        return type(self)(rest, operands, "%", _backward)

    def __pow__(self, other: Any) -> Self:
        if (exponent := self._operand(other)) is NotImplemented:
            return NotImplemented
        result = scalar.power(self.data, exponent.data)
        varies = exponent is other  # for a constant exponent there need be no derivative: (-3) ** 2

        def _backward(grad: Any) -> None:
            x, y = self.data, exponent.data
            flat = (x == 0) & (y == 0) if varies else y == 0  # then x has no part in it, and x ** -1 need not exist
            self.grad += grad * (y * x ** (y - scalar.where(flat, 0, 1)))
            if varies or (type(result) is float and x > 0):  # a constant's, where it exists, is for drawings
                exponent.grad += grad * (result * scalar.log(scalar.where(x == 0, 1, x)))

        return type(self)(result, (self, exponent), "**", _backward)

    def __rpow__(self, other: Any) -> Self:
        if (base := self._operand(other)) is NotImplemented:
            return NotImplemented
        result = scalar.power(base.data, self.data)

        def _backward(grad: Any) -> None:
            x, y = base.data, self.data
            self.grad += grad * (result * scalar.log(scalar.where(x == 0, 1, x)))
            if type(result) is float and x > 0:  # as above
                base.grad += grad * (y * (result / x))

        return type(self)(result, (base, self), "**", _backward)

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

    conjugate = __pos__  # a real number's own, which NumPy asks for in vdot, var and std

    def __radd__(self, other: Any) -> Any:
        if isinstance(other, Rational) and other == 0:  # where gradients and the built-in `sum` start
            return self
        return self._reflected(Value.__add__, other)

    def __rsub__(self, other: Any) -> Any:
        return self._reflected(Value.__sub__, other)

    def __rmul__(self, other: Any) -> Any:
        return self._reflected(Value.__mul__, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._reflected(Value.__truediv__, other)

    def __rmod__(self, other: Any) -> Any:
        return self._reflected(Value.__mod__, other)

    def _reflected(self, operation: Callable[[Any, Any], Any], other: Any) -> Any:
        """`other` operation `self`, where `other` is a number."""
        other = self._operand(other)
        return NotImplemented if other is NotImplemented else operation(other, self)

    # Operands

    def _operand(self, other: Any) -> Any:
        """`other` as a node beside this one; NotImplemented if it is no number or belongs to an inner derivative."""
        if isinstance(other, Value):
            if other._level >= self._level:
                return other if other._level == self._level else NotImplemented
        elif not isinstance(other, (float, int, Real)) and type(_python(other)) is not bool:
            return NotImplemented
        return type(self)(other, (), "constant")

    def _constant(self, name: str, number: Any, remedy: str) -> Any:
        """A number beside the operands; an operation of its own, the remedy, would give it a gradient."""
        try:
            return _number(number, self._level)
        except TypeError:
            raise TypeError(f"{name} has to be a number, not {number!r:.80}: for its gradient, use {remedy}") from None

    def _join(self, operands: tuple[Value, ...], op: str) -> None:
        """Become a node of the operands' level: so a user's own operation can say `Value(...)` in any derivative."""
        for operand in operands:
            if not isinstance(operand, Value):
                raise TypeError(
                    f"the operands of {op} have to be Values, not {type(operand).__name__}: "
                    "let the operation begin with promote, as in `x, y = promote(x, y)`"
                )
        levels = {operand._level for operand in operands}
        if len(levels) > 1:
            raise TypeError(
                f"the operands of {op} belong to different derivatives: "
                "let the operation begin with promote, as in `x, y = promote(x, y)`"
            )
        if self._level not in levels:
            self.__class__ = type(operands[0])

    # Functions

    def exp(self) -> Self:
        """e^x, whose derivative is e^x."""
        result = scalar.exp(self.data)

        def _backward(grad: Any) -> None:
            self.grad += grad * result

        return type(self)(result, (self,), "exp", _backward)

    def expm1(self) -> Self:
        """e^x - 1, accurate near 0; the derivative is e^x."""

        def _backward(grad: Any) -> None:
            self.grad += grad * scalar.exp(self.data)

        return type(self)(scalar.expm1(self.data), (self,), "expm1", _backward)

    def log(self) -> Self:
        """The natural logarithm; the derivative is 1 / x."""

        def _backward(grad: Any) -> None:
            self.grad += grad / self.data

        return type(self)(scalar.log(self.data), (self,), "log", _backward)

    def log1p(self) -> Self:
        """log(1 + x), accurate near 0; the derivative is 1 / (1 + x)."""

        def _backward(grad: Any) -> None:
            self.grad += grad / (1 + self.data)

        return type(self)(scalar.log1p(self.data), (self,), "log1p", _backward)

    def sqrt(self) -> Self:
        """The square root; the derivative is 1 / (2 sqrt(x)), which does not exist at 0."""
        root = scalar.sqrt(self.data)

        def _backward(grad: Any) -> None:
            self.grad += grad / (2 * root)

        return type(self)(root, (self,), "sqrt", _backward)

    def sin(self) -> Self:
        """The sine; the derivative is cos(x)."""

        def _backward(grad: Any) -> None:
            self.grad += grad * scalar.cos(self.data)

        return type(self)(scalar.sin(self.data), (self,), "sin", _backward)

    def cos(self) -> Self:
        """The cosine; the derivative is -sin(x)."""

        def _backward(grad: Any) -> None:
            self.grad -= grad * scalar.sin(self.data)

        return type(self)(scalar.cos(self.data), (self,), "cos", _backward)

    def tan(self) -> Self:
        """The tangent; the derivative is 1 + tan(x)^2."""
        result = scalar.tan(self.data)

        def _backward(grad: Any) -> None:
            self.grad += grad * (1 + result * result)

        return type(self)(result, (self,), "tan", _backward)

    def asin(self) -> Self:
        """The inverse sine; the derivative is 1 / sqrt(1 - x^2), which does not exist at -1 and 1."""

        def _backward(grad: Any) -> None:
            self.grad += grad / scalar.sqrt((1 - self.data) * (1 + self.data))

        return type(self)(scalar.asin(self.data), (self,), "asin", _backward)

    def acos(self) -> Self:
        """The inverse cosine; the derivative is -1 / sqrt(1 - x^2), which does not exist at -1 and 1."""

        def _backward(grad: Any) -> None:
            self.grad -= grad / scalar.sqrt((1 - self.data) * (1 + self.data))

        return type(self)(scalar.acos(self.data), (self,), "acos", _backward)

    def atan(self) -> Self:
        """The inverse tangent; the derivative is 1 / (1 + x^2)."""

        def _backward(grad: Any) -> None:
            self.grad += grad / (1 + self.data * self.data)

        return type(self)(scalar.atan(self.data), (self,), "atan", _backward)

    def sinh(self) -> Self:
        """The hyperbolic sine; the derivative is cosh(x)."""

        def _backward(grad: Any) -> None:
            self.grad += grad * scalar.cosh(self.data)

        return type(self)(scalar.sinh(self.data), (self,), "sinh", _backward)

    def cosh(self) -> Self:
        """The hyperbolic cosine; the derivative is sinh(x)."""

        def _backward(grad: Any) -> None:
            self.grad += grad * scalar.sinh(self.data)

        return type(self)(scalar.cosh(self.data), (self,), "cosh", _backward)

    def tanh(self) -> Self:
        """The hyperbolic tangent; the derivative is 1 - tanh(x)^2."""
        result = scalar.tanh(self.data)

        def _backward(grad: Any) -> None:
            self.grad += grad * (1 - result * result)

        return type(self)(result, (self,), "tanh", _backward)

    def asinh(self) -> Self:
        """The inverse hyperbolic sine; the derivative is 1 / sqrt(1 + x^2)."""

        def _backward(grad: Any) -> None:
            x = abs(self.data)
            self.grad += grad / scalar.where(x < 1e150, scalar.sqrt(1 + x * x), x)  # x * x must not overflow

        return type(self)(scalar.asinh(self.data), (self,), "asinh", _backward)

    def acosh(self) -> Self:
        """The inverse hyperbolic cosine; the derivative is 1 / sqrt(x^2 - 1), which does not exist at 1."""

        def _backward(grad: Any) -> None:
            self.grad += grad / (scalar.sqrt(self.data - 1) * scalar.sqrt(self.data + 1))

        return type(self)(scalar.acosh(self.data), (self,), "acosh", _backward)

    def atanh(self) -> Self:
        """The inverse hyperbolic tangent; the derivative is 1 / (1 - x^2)."""

        def _backward(grad: Any) -> None:
            self.grad += grad / ((1 - self.data) * (1 + self.data))

        return type(self)(scalar.atanh(self.data), (self,), "atanh", _backward)

    def erf(self) -> Self:
        """The error function; the derivative is 2 / sqrt(pi) e^(-x^2)."""

        def _backward(grad: Any) -> None:
            self.grad += grad * (1.1283791670955126 * scalar.exp(-(self.data * self.data)))

        return type(self)(scalar.erf(self.data), (self,), "erf", _backward)

    def erfc(self) -> Self:
        """1 - erf(x), accurate where erf is close to 1; the derivative is -2 / sqrt(pi) e^(-x^2)."""

        def _backward(grad: Any) -> None:
            self.grad -= grad * (1.1283791670955126 * scalar.exp(-(self.data * self.data)))

        return type(self)(scalar.erfc(self.data), (self,), "erfc", _backward)

    def sigmoid(self) -> Self:
        """The logistic function 1 / (1 + e^-x); the derivative is sigmoid(x) sigmoid(-x)."""
        result = scalar.sigmoid(self.data)

        def _backward(grad: Any) -> None:
            self.grad += grad * (result * scalar.sigmoid(-self.data))  # 1 - result would cancel

        return type(self)(result, (self,), "sigmoid", _backward)

    def softplus(self) -> Self:
        """log(1 + e^x), a smooth relu; the derivative is sigmoid(x)."""

        def _backward(grad: Any) -> None:
            self.grad += grad * scalar.sigmoid(self.data)

        return type(self)(scalar.softplus(self.data), (self,), "softplus", _backward)

    def relu(self) -> Self:
        """x where positive, else 0; the derivative is 1 or 0, and 0 at 0."""

        def _backward(grad: Any) -> None:
            self.grad += scalar.where(self.data <= 0, 0, grad)

        return type(self)(scalar.relu(self.data), (self,), "relu", _backward)

    def leaky_relu(self, slope: Any = 0.01) -> Self:
        """x where positive, else slope x; the derivative is 1 or the slope, a number that gets no gradient itself."""
        slope = self._constant("slope", slope, "where(x > 0, x, slope * x)")

        def _backward(grad: Any) -> None:
            self.grad += grad * scalar.where(self.data <= 0, slope, 1)

        return type(self)(scalar.leaky_relu(self.data, slope), (self,), "leaky_relu", _backward)

    def gelu(self) -> Self:
        """x P(x), with P(x) the probability of a normal number below x; the derivative is P(x) + x P'(x).

        P(x) is erfc(-x / sqrt(2)) / 2, and P'(x) is e^(-x^2 / 2) / sqrt(2 pi).
        """

        def _backward(grad: Any) -> None:
            x = self.data
            below = 0.5 * scalar.erfc(-0.7071067811865476 * x)
            self.grad += grad * (below + x * (0.3989422804014327 * scalar.exp(-0.5 * (x * x))))

        return type(self)(scalar.gelu(self.data), (self,), "gelu", _backward)

    def silu(self) -> Self:
        """x sigmoid(x); the derivative is sigmoid(x) (1 + x sigmoid(-x))."""

        def _backward(grad: Any) -> None:
            x = self.data
            self.grad += grad * (scalar.sigmoid(x) * (1 + x * scalar.sigmoid(-x)))

        return type(self)(scalar.silu(self.data), (self,), "silu", _backward)

    def clip(self, low: Any, high: Any) -> Self:
        """x within the bounds, beyond them the nearer one; the derivative is 1 within and at the bounds, else 0."""
        low = self._constant("low", low, "where(x < low, low, x)")
        high = self._constant("high", high, "where(x > high, high, x)")

        def _backward(grad: Any) -> None:
            self.grad += scalar.where((self.data >= low) & (self.data <= high), grad, 0)

        return type(self)(scalar.clip(self.data, low, high), (self,), "clip", _backward)

    arcsin, arccos, arctan = asin, acos, atan  # NumPy's names, by which np.arctan(array) finds them
    arcsinh, arccosh, arctanh = asinh, acosh, atanh

    # Comparisons are of the numbers, and give plain bools. The hash stays that of the object: sets and dicts tell equal
    # nodes apart, lists do not.

    def __eq__(self, other: object) -> Any:
        return self.data == _plain(other)

    def __ne__(self, other: object) -> Any:
        return self.data != _plain(other)

    def __lt__(self, other: Any) -> Any:
        return self.data < _plain(other)

    def __le__(self, other: Any) -> Any:
        return self.data <= _plain(other)

    def __gt__(self, other: Any) -> Any:
        return self.data > _plain(other)

    def __ge__(self, other: Any) -> Any:
        return self.data >= _plain(other)

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        return bool(self.data != 0)

    # What Python asks of a number

    def item(self) -> Any:
        """The number alone."""
        return self.data

    def detach(self) -> Self:
        """A leaf with the same number and no history: no gradient flows through it, at any level."""
        return type(self)(self.data.detach() if isinstance(self.data, Value) else self.data)

    def __repr__(self) -> str:
        label = f", label={self.label!r}" if self.label else ""
        return f"Value(data={self.data!r}, grad={self.grad!r}{label})"

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        """What a notebook shows."""
        from micrograd.drawing import displays  # here, since only notebooks need it

        return displays.of_value(self)

    def __format__(self, spec: str) -> str:
        return format(self.data, spec) if spec else repr(self)

    def __float__(self) -> float:
        raise TypeError(
            "a Value does not turn into a plain number by itself, since that would cut the graph: "
            "use .data for the number, a method such as v.exp() for the function, and scalar.exp(v.data) of micrograd "
            "in an operation of your own"
        )

    __int__ = __complex__ = __float__

    def __reduce__(self) -> tuple[Any, ...]:
        if self._prev:
            raise TypeError(
                f"the result of {self._expression()} cannot be copied or pickled, as its history holds closures: "
                "do so with the leaves, or with .detach() of it"
            )
        return type(self), (self.data,), (self.__dict__ or None, {"grad": self.grad, "label": self.label})

    def _explain(self, error: BaseException) -> None:
        """Raise in place of an error that `backward()` met at this node one that says more, where we know more."""
        for kind in (ZeroDivisionError, OverflowError, ArithmeticError, ValueError):
            if self._prev and isinstance(error, kind):
                reason = str(error).removesuffix(scalar.REMEDY) + scalar.REMEDY
                raise kind(f"the derivative of {self._expression()} cannot be taken: {reason}") from error
        if not isinstance(error, TypeError) or getattr(error.__traceback__, "tb_next", None):
            return  # or it is from within a closure
        if not self._prev:
            raise TypeError(
                f"backward() adds to the grad of each leaf, and {self!r} has none to add to: "
                "set it to 0, as zero_grad() does"
            ) from error
        if self._backward is None:
            raise NotImplementedError(
                f"{self._expression()} has no derivative: give its Value a _backward, or detach() its operands"
            ) from None
        raise TypeError(
            f"the _backward of {self._expression()} has to take one argument, the gradient of its result, "
            f"as in `def _backward(grad)`: {error}"
        ) from error

    def _expression(self) -> str:
        """The operation and its operands' numbers, as errors name them."""
        operands = [repr(operand.data) for operand in self._prev[:5]] + ["..."] * (len(self._prev) > 5)
        return f"{self._op}({', '.join(operands)})"


# Operations on many operands: one node with one closure, where a chain of binary ones would take dozens.


def dot(ws: Iterable[Any], xs: Iterable[Any], bias: Any = 0) -> Value:
    """bias + w0 * x0 + w1 * x1 + ..., added from left to right, as one node.

    Raises
    ------
    ValueError
        If the two are not of the same length.
    """
    ws, xs = _listed("dot", ws), _listed("dot", xs)
    n = len(ws)
    if n != len(xs):
        raise ValueError(f"dot takes two lists of the same length, not of {n} and {len(xs)}")
    operands = promote(*ws, *xs, bias)
    data = operands[-1].data
    for w, x in zip(operands[:n], operands[n:-1], strict=True):
        data += w.data * x.data

    def _backward(grad: Any) -> None:
        for w, x in zip(operands[:n], operands[n:-1], strict=True):
            w.grad += grad * x.data
            x.grad += grad * w.data
        operands[-1].grad += grad

    return _node(data, operands, "dot", _backward)


def sum(values: Iterable[Any]) -> Value:
    """v0 + v1 + ..., added from left to right, as one node; 0.0 of no values."""
    operands = promote(*_listed("sum", values))
    if not operands:
        return Value(0.0)
    data = _total(operands)

    def _backward(grad: Any) -> None:
        for operand in operands:
            operand.grad += grad

    return _node(data, operands, "sum", _backward)


def mean(values: Iterable[Any]) -> Value:
    """The sum of the values divided by their number, as one node.

    Raises
    ------
    ValueError
        If there are no values.
    """
    operands = promote(*_listed("mean", values))
    if not operands:
        raise ValueError("the mean of an empty list does not exist")
    data = _total(operands) / len(operands)

    def _backward(grad: Any) -> None:
        share = grad / len(operands)
        for operand in operands:
            operand.grad += share

    return _node(data, operands, "mean", _backward)


def where(condition: Any, a: Any, b: Any) -> Value:
    """`a` if the condition holds, else `b`, as a node that compiled code can decide anew at each call."""
    operands = chosen, other = promote(a, b)

    def _backward(grad: Any) -> None:
        chosen.grad += scalar.where(condition, grad, 0)
        other.grad += scalar.where(condition, 0, grad)

    return type(chosen)(scalar.where(condition, chosen.data, other.data), operands, "where", _backward)


def take(values: Sequence[Any], index: Any) -> Any:
    """values[index], as a node that compiled code can choose anew at each call.

    Parameters
    ----------
    values
        Values and numbers; or lists of them, nested in any way but all in the same: then the result is such a list.
    index
        A whole number from 0, or a float or a Value that equals one. It has no gradient: a small step leads nowhere.

    Raises
    ------
    ValueError
        If the index is not that of one of the values, or there are none.
    """
    if len(values) == 0:
        raise ValueError("there are no values to take one of")
    index = position(index, len(values))
    return _take({i: values[i] for i in possible(index, len(values))}, index)


def _take(candidates: dict[int, Any], index: Any) -> Any:
    """The candidate at the index, among all that it may come to be."""
    values = list(candidates.values())
    if hasattr(values[0], "__len__") and not isinstance(values[0], str):  # whose items are strings again
        return [_take(dict(zip(candidates, column, strict=True)), index) for column in zip(*values, strict=True)]
    operands = promote(*values)
    data = operands[0].data if type(index) is int else index.pick([operand.data for operand in operands])

    def _backward(grad: Any) -> None:
        for i, operand in zip(candidates, operands, strict=True):
            operand.grad += scalar.where(index == i, grad, 0)

    return _node(data, operands, "take", _backward)


def position(index: Any, size: int, name: str = "index") -> Any:
    """The index as an int from 0 to size - 1, or ValueError; where it is to be known later, as what chooses then."""
    while isinstance(index, Value):
        index = index.data
    return index if hasattr(index, "pick") else scalar.position(index, size, name)


def possible(index: Any, size: int) -> Sequence[int]:
    """What a `position` may come to be: itself, or any, where it is to be known later."""
    return (index,) if type(index) is int else range(size)


def promote(*values: Any) -> tuple[Value, ...]:
    """The values as nodes of one derivative, the innermost among them: what the others are is constant there.

    An operation of your own on several operands begins with it. Numbers become leaves, and so do the Values of outer
    derivatives; those of the innermost stay what they are.
    """
    if set(map(type, values)) == {Value}:
        return values
    innermost = max((v for v in values if isinstance(v, Value)), key=lambda v: v._level, default=None)
    kind = Value if innermost is None else type(innermost)
    level = kind._level
    return tuple(
        [v if type(v) is kind or getattr(v, "_level", None) == level else kind(v, (), "constant") for v in values]
    )


def _listed(op: str, values: Iterable[Any]) -> tuple[Any, ...]:
    """The values in turn, whatever gives them."""
    if not hasattr(values, "__iter__"):
        raise TypeError(f"{op} is of lists of Values and numbers, not of {values!r:.80}")
    return tuple(values)


def _node(data: Any, operands: tuple[Value, ...], op: str, _backward: Callable[[Any], None]) -> Value:
    """The result of an operation on many operands, promoted already: `Value` itself would look at each of them."""
    node = type(operands[0])(data, (), op, _backward)
    node._prev = operands
    return node


def _total(operands: tuple[Value, ...]) -> Any:
    """The sum of the numbers, from left to right on every Python (the built-in `sum` compensates since 3.12)."""
    total = operands[0].data
    for operand in operands[1:]:
        total += operand.data
    return total


def _plain(other: Any) -> Any:
    """What to compare a number with."""
    return other.data if isinstance(other, Value) else _python(other)


def _number(data: Any, level: int) -> Any:
    """`data`, if a Value of this level can hold it; a NumPy scalar as the Python number it stands for."""
    if isinstance(data, Value):
        _check_running(max(data._level, level))
        if data._level < level:
            return data
        raise TypeError("a Value holds a number, not a Value: use v.data for its number, or v.detach() for a copy")
    number = _python(data)
    if isinstance(number, (float, int, Real)):
        return number
    raise TypeError(
        f"a Value holds a number (float, int, Fraction or NumPy scalar), not {type(data).__name__}: {data!r:.80}"
    )


def _python(x: Any) -> Any:
    """A NumPy scalar, booleans among them, as the Python object that it stands for; all else as it is."""
    return x.item() if hasattr(x, "item") and not hasattr(x, "__len__") else x


def _check_running(level: int) -> None:
    """Refuse a Value of this level that was kept from inside a derivative, where Values from outside are involved."""
    if level and level not in running:
        raise TypeError(
            "a Value was kept from inside a derivative that has ended, and no gradient passes from it to the Values "
            "outside: return it from the function, or keep its .data"
        )
