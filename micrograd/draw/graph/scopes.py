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
from typing import NamedTuple

from micrograd.draw.graph.drawn import DrawnGraph


class Stack(NamedTuple):
    """The examples of a mean or sum: `members[j][k]` is in example j what `members[0][k]` is in the first.

    A sum may be a chain of additions that ends in `node`.
    """

    node: int
    members: list[list[int]]


def stacks(graph: DrawnGraph) -> list[Stack]:
    """The means and sums of like examples, outer ones before those inside them."""
    found = []
    for node in sorted(_candidates(graph), reverse=True):
        examples = [_scope(graph, term) for term in graph.terms(node)]
        if _are_alike(graph, examples):
            found.append(Stack(node, examples))
    return found


def _scope(graph: DrawnGraph, term: int) -> list[int]:
    """The Values from which every path to the root leads through this operand, itself last; [] if it has others.

    A Value is one of them as soon as all its users are.
    """
    found, left, path = list[int](), dict[int, int](), [term] * (graph.users[term] == 1)
    while path:
        i = path.pop()
        found.append(i)
        for operand in set(graph.operands[i]):
            left[operand] = left.get(operand, graph.users[operand]) - 1
            if left[operand] == 0:
                path.append(operand)
    return sorted(found)


def _shapes(graph: DrawnGraph) -> list[int]:
    """A number for each Value, equal for those computed by the same operations, whatever the leaves are."""
    known: dict[tuple[object, ...], int] = {}
    shapes: list[int] = []
    for value, operands in zip(graph.values, graph.operands, strict=True):
        key = (str(value._op) if operands else "", *[shapes[operand] for operand in operands])
        shapes.append(known.setdefault(key, len(known)))
    return shapes


def _candidates(graph: DrawnGraph) -> set[int]:
    """The nodes that may be means or sums over examples: their terms are distinct and of one shape.

    A sum may also be a chain of additions, or the beginning of one, with three or more terms.
    """
    shapes = _shapes(graph)
    nodes = [i for i, operation in enumerate(graph.operations) if operation in ("+", "mean", "sum")]
    continued = {graph.operands[i][0] for i in nodes if graph.continues(i)}
    found: set[int] = set()
    for i in set(nodes) - continued:
        terms = graph.terms(i)
        n = next((n for n, term in enumerate(terms) if shapes[term] != shapes[terms[0]]), len(terms))
        if graph.operations[i] == "+":
            if n > 2 and _is_example(graph, terms[0]):
                found.add(graph.chain(i)[n - 2])
        elif n == len({*terms}) == len(terms) > 1 and not graph.is_leaf(terms[0]):
            found.add(i)
    return found


def _is_example(graph: DrawnGraph, i: int) -> bool:
    """Whether the Value is computed in several steps, unlike a weighted input."""
    leaves = [graph.is_leaf(operand) for operand in graph.operands[i]]
    return not all(leaves) and not (graph.operations[i] == "*" and any(leaves))


def _are_alike(graph: DrawnGraph, examples: Sequence[Sequence[int]]) -> bool:
    """Whether all examples have operands like the first one's, and none is empty.

    Alike examples have their Values in the same order. Their last Values are known to have the same operations.
    """
    operands, first = graph.operands, examples[0]
    for example in examples:
        if not example or len(example) != len(first):
            return False
        twins = dict(zip(first, example, strict=True))
        if any(tuple([twins.get(k, k) for k in operands[i]]) != operands[twin] for i, twin in twins.items()):
            return False
    return True
