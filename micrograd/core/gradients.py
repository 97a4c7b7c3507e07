"""The transaction around a backward pass: either every leaf gets its gradient or, after an error, none does."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from operator import length_hint
from typing import Any

from micrograd import scalar
from micrograd.core.errors import expression, raise_with_context
from micrograd.core.levels import GRADIENT_LOCK, HasLevel, check_active, has_valid_grad, normalize_leaves

Order = tuple[list[Any], list[Any]]
"""The nodes that a Value was computed from, each after its operands, with itself as the last; and the leaves."""


class _Thread(threading.local):
    table: Any = None  # what Values hold while this thread traces: see compiler/frontend/redirect.py


thread = _Thread()


def nothing(grad: Any) -> None:
    """The `_backward` of a leaf, which has no operands to pass its gradient on to, and of `//`, whose gradient is 0."""


def closure_error(operand: Any, nodes: list[Any]) -> TypeError:
    """The error for a gradient that is not a number: it names the first node whose closure, called alone, gives one."""
    kind = type(operand.grad).__name__
    for node in nodes:
        for each in node._prev:
            each.grad = scalar.zero(each.data)
        node._backward(scalar.zero(node.data) + 1)
        if not all(map(has_valid_grad, node._prev)):
            break
    problem = f"the _backward of {expression(node)} gives a gradient of type {kind}"
    return TypeError(f"{problem}, not a number: compute with x.data, as in `x.grad += grad * x.data`")


@contextmanager
def backward_pass(root: Any, order: Order | None = None) -> Iterator[Iterator[Any]]:
    """Sort the graph of `root` unless given its `order`, set all its gradients to 0, and yield its computed nodes.

    `root` comes first. At the end of the block, each leaf's old gradient is added to its new one in a single addition,
    so calling backward twice doubles it exactly. Constants keep their old gradients. After an error in the block, all
    leaves do, and the error names the operation whose closure failed.
    """
    if isinstance(root.data, HasLevel):
        check_active(root._level)
    computed, leaves = order or root._topological_order()
    zero = scalar.zero(root.data)
    with GRADIENT_LOCK:  # threads may share leaves
        normalize_leaves(leaves)  # NumPy's numbers become Python's
        before = [leaf.grad for leaf in leaves]
        nodes = reversed(computed)
        try:
            for node in (*computed, *leaves):
                node.grad = zero
            yield nodes
            for leaf, earlier in zip(leaves, before, strict=True):
                if type(leaf.grad) is not float and not has_valid_grad(leaf):
                    raise closure_error(leaf, computed)
                leaf.grad = earlier if leaf._is_constant else earlier + leaf.grad
        except BaseException as error:  # even Ctrl-C
            for leaf, earlier in zip(leaves, before, strict=True):
                leaf.grad = earlier
            # This frame leads to one of contextlib that holds the error: together they would keep the graph alive.
            error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
            n_left = length_hint(nodes)  # how many nodes the block has not reached
            if error.__traceback__ and n_left < len(computed):  # the block's error, not one of the sums after it
                raise_with_context(error, computed[n_left], computed)
            raise
