"""The transaction around a backward pass: all leaves get their gradients, or after an error, none does."""

from collections.abc import Iterator
from contextlib import contextmanager
from operator import length_hint
from traceback import walk_tb
from typing import Any

from micrograd import scalar
from micrograd.core.errors import expression
from micrograd.core.levels import GRADIENT_LOCK, normalize_leaves
from micrograd.scalar import DomainError

WHERE_HINT = "; where() computes both of its branches, so choose a safe operand first: f(where(condition, x, 1.0))"
"""Ends a message if the graph has a `where`, since the branch that was not chosen may be the cause."""
POWER_HINT = "; if the exponent is a constant, write it as a number, as in x ** 2, or as exponent.detach()"
"""Ends a message about a power whose exponent is a variable, with respect to which the derivative has a log(x)."""


def nothing(grad: Any) -> None:
    """The `_backward` of a leaf, which has no operands to pass its gradient on to."""


def no_derivative(grad: Any) -> None:
    """The `_backward` of an operation that was given none: an error, where doing nothing would leave gradients of 0."""
    raise NotImplementedError("an operation has no derivative: give its Value a _backward, or detach() its operands")


@contextmanager
def backward_pass(root: Any) -> Iterator[Iterator[Any]]:
    """Within the block, the nodes that `root` was computed from have gradients of 0; yields them, `root` first.

    The gradients that the block gives to leaves are added to those from before, once, at its end: so two passes give
    exactly twice as much. Constants keep theirs. If the block raises an error, all leaves have what they had, and the
    error names the operation whose closure failed.
    """
    computed, leaves = root._topological_order()
    normalize_leaves(leaves)
    zero = scalar.zero(root.data)
    with GRADIENT_LOCK:  # threads may share leaves
        before = [leaf.grad for leaf in leaves]
        nodes = reversed(computed)
        try:
            for node in (*computed, *leaves):
                node.grad = zero
            yield nodes
            for leaf, earlier in zip(leaves, before, strict=True):
                leaf.grad = earlier if leaf._is_constant else earlier + leaf.grad
        except BaseException as error:  # even Ctrl-C
            for leaf, earlier in zip(leaves, before, strict=True):
                leaf.grad = earlier
            if length_hint(nodes) < len(computed):  # as many are left as stand before the one that failed
                raise_with_context(error, computed[length_hint(nodes)], computed)
            raise


def raise_with_context(error: BaseException, node: Any, nodes: list[Any]) -> None:
    """Replace an error of the `_backward` of a node by one that names the operation, where that helps."""
    for kind in (ZeroDivisionError, OverflowError, ArithmeticError, DomainError, ValueError):
        if isinstance(error, kind):
            hint = POWER_HINT if node._op == "**" and isinstance(error, DomainError) else ""
            hint += WHERE_HINT if any(each._op == "where" for each in nodes) else ""
            raise kind(f"the derivative of {expression(node)} cannot be taken: {error}{hint}") from error
    if node._backward is no_derivative:
        raise NotImplementedError(
            f"{expression(node)} has no derivative: give its Value a _backward, or detach() its operands"
        ) from None
    if isinstance(error, TypeError) and not _has_begun(node._backward, error):
        raise TypeError(
            f"the _backward of {expression(node)} must take one argument, the gradient of its result, "
            f"as in `def _backward(grad)`: {error}"
        ) from error


def _has_begun(function: Any, error: BaseException) -> bool:
    """Whether the error was raised within this function, and not by the attempt to call it."""
    code = getattr(function, "__code__", None)
    return code is None or any(frame.f_code is code for frame, _ in walk_tb(error.__traceback__))
