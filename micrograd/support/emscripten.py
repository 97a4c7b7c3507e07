"""Freeing graphs in the browser's Python, Pyodide: `micrograd` imports this module only there.

When Python frees a result, it frees its operands, then theirs, and so on down the graph, in nested calls. CPython
limits their depth, but since 3.13 a browser's stack is too small for the limit, and freeing a chain of a thousand
operations crashes the program. So a node hands over its references, and a loop frees them. Other platforms do not need
this, and would take 43% longer for a chain.
"""

from typing import Any

from micrograd.core.gradients import nothing
from micrograd.engine import Value

_handed_over: list[Any] = []
_freeing = False


def release(node: Value) -> None:
    """Serve as `__del__` of Value: a loop frees the node's references, instead of Python freeing them with the node."""
    global _freeing
    # A Value whose construction failed has neither attribute.
    _handed_over.append((getattr(node, "_prev", ()), getattr(node, "_backward", None)))
    node._prev, node._backward = (), nothing
    if not _freeing:
        _freeing = True
        try:
            while _handed_over:
                _handed_over.pop()
        finally:
            _freeing = False
