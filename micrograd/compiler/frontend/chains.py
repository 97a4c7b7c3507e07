"""Chains of additions of products, such as `total = total + w * x` in a loop: each becomes one `dot`.

The loop leaves two nodes and two lines of the trace for each product; a `dot` is one of each. Its gradients are traced
a row at a time, not a product at a time.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from micrograd import reductions
from micrograd.compiler.frontend.tracer import Symbol, Trace
from micrograd.engine import Value

FEWEST_PRODUCTS = 3  # below which a dot saves next to nothing


def join_products(trace: Trace, nodes: Sequence[Value], results: Sequence[Value]) -> tuple[set[Value], list[Value]]:
    """Turn each chain of `+` over several products into one `dot`.

    A chain ends at any partial sum or product that is also used elsewhere. `nodes` is everything that `results` depend
    on, operands first; all closures must be this package's own.

    Returns the nodes that became dots, and the nodes that remain in the graph, operands first.
    """
    sums = [node for node in nodes if node._op == "+"]
    if not _may_have_chain(sums):
        return set(), [*nodes]
    n_uses = Counter(map(id, chain(results, chain.from_iterable([node._prev for node in nodes]))))

    def is_product(node: Value) -> bool:
        return node._op == "*" and n_uses[id(node)] == 1 and _has_own_line(trace, node)

    chains: dict[Value, tuple[Any, list[Value], list[Value]]] = {}  # by the last sum: start, products, partial sums
    for node in sums:
        rest, product = node._prev
        if not is_product(product):
            rest, product = product, rest
            if not is_product(product):
                continue
        if not _has_own_line(trace, node):
            continue
        if rest in chains and n_uses[id(rest)] == 1:
            start, products, partial_sums = chains.pop(rest)
            partial_sums.append(rest)
        else:
            start, products, partial_sums = (0, [rest], []) if is_product(rest) else (rest, [], [])
        products.append(product)
        chains[node] = start, products, partial_sums
    totals: set[Value] = set()
    replaced: set[Value] = set()
    for total, (start, products, partial_sums) in chains.items():
        if len(products) >= FEWEST_PRODUCTS:
            _replace_by_dot(trace, total, start, products)
            totals.add(total)
            replaced.update(products, partial_sums)
    return totals, [node for node in nodes if node not in replaced]


def _may_have_chain(sums: Iterable[Value]) -> bool:
    """Whether any sum could have enough products for a dot: an upper bound, which ignores other uses of them."""
    n_products: dict[int, int] = {}  # the most in a chain that ends at each sum, by its id
    for node in sums:
        a, b = node._prev
        n = (a._op == "*") + (b._op == "*") + max(n_products.get(id(a), 0), n_products.get(id(b), 0))
        if n >= FEWEST_PRODUCTS:
            return True
        n_products[id(node)] = n
    return False


def _has_own_line(trace: Trace, node: Value) -> bool:
    """Whether the trace computes a node's number from its operands' numbers: not if the function assigned another."""
    number = node.data
    if type(number) is not Symbol or number.trace is not trace or trace.ops[number.id] != node._op:
        return False
    a, b = node._prev
    lines = trace.id(a.data), trace.id(b.data)
    recorded = trace.operands[number.id]
    return lines == recorded or lines[::-1] == recorded  # an equal one may have been recorded with its operands swapped


def _replace_by_dot(trace: Trace, total: Value, start: Any, products: Sequence[Value]) -> None:
    """Make the total's node a `dot`, and also its line, if no factor is constant."""
    ws, xs = zip(*[product._prev for product in products], strict=True)
    node = reductions.dot(ws, xs, start)
    total._op, total._prev, total._backward = node._op, node._prev, node._backward
    line = total.data.id
    if trace.ops[node.data.id] == "dot":
        trace.ops[line], trace.operands[line] = "dot", trace.operands[node.data.id]


def first_uses(totals: set[Value], nodes: Sequence[Value]) -> dict[Value, int]:
    """For each total, the first line of the trace that uses it. Totals that no line uses are left out.

    Sorted by it, totals are in the same order whether a program finishes one sum before it begins the next, or adds one
    product to each sum in turn.
    """
    first_use: dict[Value, int] = {}
    for node in nodes:
        if type(node.data) is Symbol:  # a `where` on a constant condition may give a plain number, which has no line
            for total in totals.intersection(node._prev):
                first_use[total] = min(first_use.get(total, node.data.id), node.data.id)
    return first_use
