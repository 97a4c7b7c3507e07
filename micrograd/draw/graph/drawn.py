"""The graph to be drawn: its Values by number, and what a drawing reads off each."""

from collections import Counter
from collections.abc import Sequence

from micrograd import engine, functions, losses, reductions
from micrograd.core import gradients
from micrograd.engine import Value
from micrograd.scalar import innermost

ENGINE = {module.__name__ for module in (engine, functions, reductions, losses, gradients)}  # pages recompute them
LIMIT = 200_000  # Values in a drawing: a picture then takes 5 seconds, a page 12 seconds and 30 megabytes
SIGNS = {"-": "−", "*": "×", "/": "÷", "**": "^", "neg": "−"}  # easier to read than to type
POWERS = {"2": "²", "3": "³"}


class DrawnGraph:
    """The Values that lead to a root, by number: leaves first, then each after its operands, the root last.

    For each Value, `operands` has the numbers of its operands, in order, and `operations` the result of `operation_of`.
    `first` is the number of the first Value that is not a leaf; `constants` has the numbers of constants, since they
    have no gradient to show; `users` counts the Values that use each.

    Raises TypeError if `root` is not a Value, and ValueError if there are more Values than the limit.
    """

    def __init__(self, root: Value, limit: float = LIMIT) -> None:
        if not isinstance(root, Value):
            raise TypeError(f"root is of type {type(root).__name__}: expected a single Value to draw, such as model(x)")
        nodes, leaves = root._topological_order()
        self.values = leaves + nodes
        if (n := len(self.values)) > limit:
            remedy = f"draw a part of it, such as the loss of a single example, or pass limit={n}"
            raise ValueError(f"the graph has {n} Values, and the limit is {limit}: {remedy}")
        self.first = len(leaves)
        self.constants = {i for i, leaf in enumerate(leaves) if leaf._is_constant}
        self.operations = [operation_of(value) for value in self.values]
        numbers = {value: i for i, value in enumerate(self.values)}
        self.operands = [tuple([numbers[operand] for operand in value._prev]) for value in self.values]
        self.users = Counter(operand for operands in self.operands for operand in set(operands))

    def is_leaf(self, i: int) -> bool:
        """Whether the Value has no operands."""
        return i < self.first

    def title(self, i: int) -> str:
        """The operation as a card calls it; "" for a leaf."""
        op = self.values[i]._op
        return "" if self.is_leaf(i) else SIGNS.get(op, str(op))

    def is_inner(self, i: int) -> bool:
        """Whether a single other Value uses this one, and it has no label: then a card may swallow it."""
        return self.values[i].label == "" and self.users[i] == 1

    def chain(self, i: int) -> list[int]:
        """The additions that end in this one, as Python's `sum` leaves them: the first one first, i last."""
        found = list[int]()
        while self.operations[i] == "+" and (not found or self.is_inner(i)):
            found.append(i)
            i = self.operands[i][0]
        return found[::-1] or [i]

    def terms(self, i: int) -> Sequence[int]:
        """The terms of a chain of additions, and the operands of any other node."""
        first, *others = self.chain(i)
        return [*self.operands[first], *[self.operands[k][1] for k in others]]

    def has_gradients(self) -> bool:
        """Whether `backward()` was called on this root or one computed from it: it leaves gradients in the nodes."""
        return any(innermost(value.grad) != 0 for value in self.values[self.first :] or self.values)


def operation_of(value: Value) -> str:
    """The engine's operation that made the Value, such as `tanh`; "" for a user's own or a leaf."""
    return value._op if getattr(value._backward, "__module__", None) in ENGINE else ""
