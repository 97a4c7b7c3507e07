"""Operations on many operands: one node with one closure, where a chain of binary operations would take dozens.

`atan2`, `hypot`, `maximum` and `minimum` are methods of Value; as functions here they take plain numbers too.
"""

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from micrograd import scalar
from micrograd.core.errors import require_ordered, shown
from micrograd.core.gradients import thread
from micrograd.core.levels import active_levels
from micrograd.engine import Value, promote
from micrograd.support.arrays import by_rows
from micrograd.support.validation import by_position

# without `sum`, since a star import would replace Python's
__all__ = ["atan2", "dot", "hypot", "logsumexp", "maximum", "mean", "minimum", "take", "where"]


def dot(ws: Iterable[Any], xs: Iterable[Any], bias: Any = 0) -> Value:
    """bias + w0 * x0 + w1 * x1 + ..., added from left to right, as one node. Raises ValueError for unequal lengths."""
    ws, xs = _as_tuple("dot", ws), _as_tuple("dot", xs)
    if len(ws) != len(xs):
        raise ValueError(f"dot() expects two lists of the same length, not of lengths {len(ws)} and {len(xs)}")
    ws, xs = thread.table.of(ws, xs) if thread.table else (ws, xs)
    n, is_zero = len(ws), type(bias) is int and bias == 0
    operands = promote(*ws, *xs) if is_zero and n else promote(*ws, *xs, bias)
    ws, xs, start = operands[:n], operands[n : 2 * n], operands[2 * n :]
    data = start[0].data if start else 0
    for w, x in zip(ws, xs, strict=True):
        data += w.data * x.data

    def _backward(grad: Any) -> None:
        for w, x in zip(ws, xs, strict=True):
            w.grad += grad * x.data
            x.grad += grad * w.data
        for b in start:  # the bias, if there is one
            b.grad += grad

    return operands[0]._node(data, operands, "dot", _backward)


def sum(values: Iterable[Any], *others: Any) -> Value:
    """v0 + v1 + ..., added from left to right, as one node; 0.0 if there are no values."""
    operands = promote(*_as_tuple("sum", values, *others))
    if not operands:
        return Value(0.0)
    operands = as_row(operands)

    def _backward(grad: Any) -> None:
        for operand in operands:
            operand.grad += grad

    return operands[0]._node(scalar.total([operand.data for operand in operands]), operands, "sum", _backward)


def mean(values: Iterable[Any], *others: Any) -> Value:
    """The sum of the values divided by their number, as one node. Raises ValueError if there are no values."""
    operands = promote(*_as_tuple("mean", values, *others))
    if not operands:
        raise ValueError("mean() needs at least one value")
    n, operands = len(operands), as_row(operands)

    def _backward(grad: Any) -> None:
        share = grad / n
        for operand in operands:
            operand.grad += share

    return operands[0]._node(scalar.total([operand.data for operand in operands]) / n, operands, "mean", _backward)


def logsumexp(values: Iterable[Any], *others: Any) -> Value:
    """log(e^v0 + e^v1 + ...), a smooth maximum, as one node; the derivatives are the softmax of the values.

    No power overflows, however large the values are. An infinite value gets the whole gradient; several share it.
    Raises ValueError if there are no values.
    """
    operands = promote(*_as_tuple("logsumexp", values, *others))
    if not operands:
        raise ValueError("logsumexp() needs at least one value")
    operands = as_row(operands)
    largest, _, powers, total = exponentials(operands, infinite=True)
    return logsumexp_of(operands, largest, powers, total)


def exponentials(operands: Sequence[Value], *, infinite: bool = False) -> tuple[Any, list[Any], list[Any], Any]:
    """The largest of some numbers, the numbers minus the largest, e to the power of these, and the sum of the powers.

    With the largest subtracted, no power overflows and their sum is at least 1. Infinity minus itself is NaN, or 0 if
    `infinite` numbers are allowed. The largest counts as a constant, since the derivatives of a softmax and of its
    logarithm do not depend on it.
    """
    innermost = [scalar.innermost(operand) for operand in operands]
    largest = scalar.largest(innermost)
    is_infinite = infinite and abs(largest) == math.inf
    differences = [operand.data - largest for operand in operands]
    if infinite:
        differences = [
            scalar.where(is_infinite & (number == largest), 0.0, difference)
            for number, difference in zip(innermost, differences, strict=True)
        ]
    powers = [scalar.exp(x) for x in differences]
    return largest, differences, powers, scalar.total(powers)


def logsumexp_of(operands: tuple[Value, ...], largest: Any, powers: Sequence[Any], total: Any) -> Value:
    """The logarithm of the sum of e^x, from the results of `exponentials`. Its gradient is the softmax."""

    def _backward(grad: Any) -> None:
        share = grad / total
        for operand, power in zip(operands, powers, strict=True):
            operand.grad += share * power

    return operands[0]._node(largest + scalar.log(total), operands, "logsumexp", _backward)


def atan2(y: Any, x: Any) -> Value:
    """The angle of the point (x, y), from -pi to pi. NumPy's `arctan2` of Values calls it too."""
    return Value.atan2(*promote(y, x))


def hypot(x: Any, y: Any) -> Value:
    """sqrt(x^2 + y^2), even where a square overflows."""
    return Value.hypot(*promote(x, y))


def maximum(*values: Any) -> Value:
    """The largest of two or more numbers, as one node; NaN if any is. Equal ones share the gradient equally.

    Raises TypeError if there are fewer.
    """
    return _extreme("maximum", scalar.largest, operator.lt, values)


def minimum(*values: Any) -> Value:
    """The smallest of two or more numbers; otherwise like `maximum`."""
    return _extreme("minimum", scalar.smallest, operator.gt, values)


def _extreme(name: str, extreme: Callable[..., Any], is_beaten_by: Callable[..., Any], values: Sequence[Any]) -> Value:
    """The maximum or minimum, which may beat an operand."""
    if len(values) < 2:
        raise TypeError(f"{name}() expects two or more numbers, not {len(values)}: of a list, write {name}(*values)")
    operands = promote(*values)
    if len(operands) == 2:
        return getattr(Value, name)(*operands)  # type: ignore[no-any-return]
    operands = as_row(operands)
    numbers = [operand.data for operand in operands]
    is_nested = any(isinstance(number, Value) for number in numbers)
    data = _extreme(name, extreme, is_beaten_by, numbers) if is_nested else extreme(numbers)

    def _backward(grad: Any) -> None:
        loses = [is_beaten_by(number, data) for number in numbers]
        n = scalar.total([scalar.where(each, 0, 1) for each in loses])
        share = grad if type(n) is int and n == 1 else grad / n  # exact, if the gradient is
        for operand, each in zip(operands, loses, strict=True):
            operand.grad += scalar.where(each, 0, share)

    return operands[0]._node(data, operands, name, _backward)


def where(condition: Any, a: Any, b: Any) -> Value:
    """`a` if the condition holds, else `b`, as a node, so that compiled code decides again at each call.

    A condition may be a number, as in a mask: 0 chooses `b`. Both are computed and differentiated. The gradient of
    the one not chosen is multiplied by 0, and so becomes NaN if its derivative is infinite. If computing it would raise
    an error, choose a safe operand first: `where(x > 0, where(x > 0, x, 1.0).log(), 0.0)`.
    """
    operands = x, y = promote(a, b)
    condition = condition != 0 if isinstance(condition, Value) else condition  # the number may be traced

    def _backward(grad: Any) -> None:
        x.grad += scalar.where(condition, grad, 0)
        y.grad += scalar.where(condition, 0, grad)

    node = x._node(scalar.where(condition, x.data, y.data), operands, "where", _backward)
    node._constants = {"condition": condition}
    return node


def take(values: Sequence[Any], index: Any) -> Any:
    """values[index], as a node, so that compiled code chooses again at each call.

    The values may be nested lists of numbers, all of one shape; the result has that shape too. The index is a whole
    number from 0, or a float or a Value that equals one; it is discrete, so it gets no gradient. Only the chosen value
    is differentiated; in compiled code all are, the others times 0, as in `where`.

    Raises ValueError if the index is out of range or there are no values, TypeError if they are not a sequence.
    """
    values = values if type(values) is list else by_position("values", values)
    if len(values) == 0:
        raise ValueError("take() needs at least one value to choose from")
    index = scalar.as_index(index, len(values))
    if (active_levels or scalar.REGISTERED) and type(index) is int and scalar.is_number(values[index]):
        values = promote(*values)  # the number becomes a constant of the others' level and kind
    return _take({i: values[i] for i in candidate_indices(index, len(values))}, index)


def _take(candidates: dict[int, Any], index: Any) -> Any:
    """The candidate at the index; `candidates` has every one that may be chosen."""
    values = list(map(scalar.unwrap_numpy, candidates.values()))
    if hasattr(values[0], "__len__") and not isinstance(values[0], str):  # the items of a string are strings again
        return [_take(dict(zip(candidates, column, strict=True)), index) for column in zip(*values, strict=True)]
    operands = promote(*values)
    row = thread.table.selected(index, operands) if thread.table and type(index) is not int else None
    if row is not None:  # one operand for all weights

        def send(grad: Any) -> None:
            row.send_at(index, grad)

        return operands[0]._node(index.select(row.data), (row,), "take", send)
    data = operands[0].data if type(index) is int else index.select([operand.data for operand in operands])

    def _backward(grad: Any) -> None:
        for i, operand in zip(candidates, operands, strict=True):
            operand.grad += scalar.where(index == i, grad, 0)

    return operands[0]._node(data, operands, "take", _backward)


def candidate_indices(index: Any, size: int) -> Sequence[int]:
    """The indices that an index may turn out to be: itself, or all of them if it is traced."""
    return (index,) if type(index) is int else range(size)


def _as_tuple(op: str, values: Iterable[Any], *others: Any) -> tuple[Any, ...]:
    """The values of anything that iterates in a fixed order. Raises TypeError if there are others beside it."""
    if type(values) is not list or others:  # these checks take longer than a small dot product
        if others or not hasattr(values, "__iter__"):
            came = ", ".join(map(shown, (values, *others)))
            raise TypeError(f"{op}() was given {came}: put Values and numbers into a list, as in [a, b]")
        require_ordered(f"the argument of {op}()", values)
        values = by_rows(values)
    return tuple(values)


def as_row(operands: tuple[Value, ...]) -> tuple[Value, ...]:
    """The operands; if they are traced, possibly as a single one, whose number is the row of all their numbers."""
    row: tuple[Value, ...] = thread.table.of(operands)[0] if thread.table else operands
    return row
