"""Examples: the parts of a graph that belong to one operand of a mean or sum alone, and repeat for the others.

The two examples of this loss share a weight w and have their own inputs:

    x0 ──► × ──► tanh ──┐              scope 1: x0, ×, tanh    the first example, whose cards are drawn
           ▲            ▼
    w ─────┤          mean ──►  root   scope 0: w, mean        what is around them
           ▼            ▲
    x1 ──► × ──► tanh ──┘              scope 2: x1, ×, tanh    the second, shown in the first one's cards

A Value belongs to a scope if every path from it to the root leads through that operand of the mean. Operands whose
scopes are alike, Value by Value, make a stack. Scopes nest: an example that is a mean itself has scopes inside.
"""

from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

from micrograd.draw.graph.drawn import DrawnGraph


class Stack(NamedTuple):
    """The examples of a mean or sum: `members[j][k]` is in example j what `members[0][k]` is in the first.

    A sum may be a chain of additions that ends in `node`, or the beginning of one.
    """

    node: int
    members: list[list[int]]


def stacks(graph: DrawnGraph) -> list[Stack]:
    """The means and sums of like examples, outer ones before those inside them."""
    found, inside = [], set[int]()
    for i in reversed(range(graph.first, len(graph.values))):
        if graph.operations[i] not in ("+", "mean", "sum") or i in inside:
            continue
        chain, terms, is_chain = graph.chain(i), graph.terms(i), graph.operations[i] == "+"
        inside.update(chain)
        first, *others = terms
        least = 2 if is_chain else max(2, len(terms))
        if len({*terms}) < least or graph.is_leaf(first) or (is_chain and not _is_example(graph, first)):
            continue
        twins = list(takewhile(bool, (_twins(graph, first, other) for other in others)))
        n, scope = 1 + len(twins), sorted(twins[0] if twins else ())
        if n >= least and (n > 2 or not is_chain or _share_parameters(graph, scope)):
            examples = [scope, *([each[k] for k in scope] for each in twins)]
            found.append(Stack(chain[n - 2] if is_chain else i, examples))
    return found


def _twins(graph: DrawnGraph, first: int, other: int) -> dict[int, int]:
    """The Values in the scope of the first operand, each with its twin in the scope of the other; {} if they differ.

    A Value belongs to a scope as soon as all its users do. The search ends at the first two operations that differ.
    """
    found, left = dict[int, int](), dict[int, int]()
    path = [(first, other)] if first != other and graph.users[first] == graph.users[other] == 1 else []
    while path:
        i, twin = path.pop()
        if graph.title(i) != graph.title(twin) or len(graph.operands[i]) != len(graph.operands[twin]):
            return {}
        found[i] = twin
        for a, b in set(zip(graph.operands[i], graph.operands[twin], strict=True)):
            if a != b:
                left[a] = left.get(a, graph.users[a]) - 1
                left[b] = left.get(b, graph.users[b]) - 1
                if left[a] == left[b] == 0:
                    path.append((a, b))
    are_alike = all(tuple([found.get(k, k) for k in graph.operands[i]]) == graph.operands[found[i]] for i in found)
    return found if are_alike else {}


def _is_example(graph: DrawnGraph, i: int) -> bool:
    """Whether the Value is computed in several steps, unlike a weighted input."""
    leaves = [graph.is_leaf(operand) for operand in graph.operands[i]]
    return not all(leaves) and not (graph.operations[i] == "*" and any(leaves))


def _share_parameters(graph: DrawnGraph, example: Sequence[int]) -> bool:
    """Whether two examples go through one model: unlike two neurons, they share more leaves than they have alone."""
    operands = {operand for i in example for operand in graph.operands[i]} - graph.constants
    own = operands & {*example}
    return graph.is_leaf(example[0]) and len(operands - own) > max(1, sum(map(graph.is_leaf, own)))
