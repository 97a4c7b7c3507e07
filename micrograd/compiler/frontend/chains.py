"""Sums of products that were written with operators: each becomes one `dot`, as if the function had called it.

A loop of `total = total + w * x` leaves two nodes for each product. As one node, they have one line of the trace for
all, and what they add to gradients is traced like that of a `dot`, a row at a time.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Any

from micrograd import reductions
from micrograd.compiler.frontend.tracer import Symbol, Trace
from micrograd.engine import Value

FEWEST_PRODUCTS = 3


def join_products(trace: Trace, nodes: Sequence[Value], results: Sequence[Value]) -> set[Value]:
    """Make each sum of products a `dot`, in the graph and in the trace. Returns the totals.

    A sum or a product that something else uses, too, stays as it is. The nodes, each after its operands, are operations
    of this package from which the results were computed.
    """
    sums = [node for node in nodes if node._op == "+"]
    if not any(operand._op == "*" for node in sums for operand in node._prev):
        return set()
    uses = Counter(map(id, chain(results, chain.from_iterable([node._prev for node in nodes]))))

    def is_product(node: Value) -> bool:
        return node._op == "*" and uses[id(node)] == 1 and type(node.data) is Symbol

    parts: set[Value] = set()  # of the sums so far
    totals = set()
    for total in reversed(sums):
        if total in parts:
            continue
        rest: Any = total
        products = []
        while rest._op == "+" and (rest is total or uses[id(rest)] == 1):
            before, product = rest._prev
            if not is_product(product):
                before, product = product, before
                if not is_product(product):
                    break
            parts.add(rest)
            products.append(product)
            rest = before
        if products and is_product(rest):
            products.append(rest)
            rest = 0
        if len(products) >= FEWEST_PRODUCTS:
            _become_dot(trace, total, rest, products[::-1])
            totals.add(total)
    return totals


def _become_dot(trace: Trace, total: Value, start: Any, products: Sequence[Value]) -> None:
    """Let the total be the result of the engine's `dot`, and its line that operation if no factor is constant."""
    ws, xs = zip(*[product._prev for product in products], strict=True)
    node = reductions.dot(ws, xs, start)
    total._op, total._prev, total._backward = node._op, node._prev, node._backward
    line = total.data.id
    if trace.ops[line] == "+" and trace.ops[node.data.id] == "dot":
        trace.ops[line], trace.operands[line] = "dot", trace.operands[node.data.id]


def first_uses(totals: set[Value], nodes: Sequence[Value]) -> dict[Value, int]:
    """The first line that uses each of the totals, but for those that nothing uses.

    By this line, totals are in one order whether a program adds up one after the other, or a product to each in turn.
    """
    uses: dict[Value, int] = {}
    for node in nodes:
        if type(node.data) is Symbol:  # unless a choice among constants left it a number
            for total in totals.intersection(node._prev):
                uses[total] = min(uses.get(total, node.data.id), node.data.id)
    return uses
