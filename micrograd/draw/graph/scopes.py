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

import math
from collections.abc import Sequence
from functools import partial
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
        least = 2 if is_chain else max(2, len(terms))
        if len({*terms}) < least or graph.is_leaf(terms[0]) or (is_chain and not _is_example(graph, terms[0])):
            continue
        most = 8  # in a recurrence, either may be all that came before
        while all(len(second := _scope(graph, term, most)) > most for term in terms[:2]):
            most *= 2
        scopes = (_scope(graph, term, len(second)) for term in terms)
        examples = list(takewhile(partial(_are_alike, graph, second), scopes))
        n = len(examples)
        if n >= least and (n > 2 or not is_chain or _share_parameters(graph, second)):
            found.append(Stack(chain[n - 2] if is_chain else i, examples))
    return found


def _scope(graph: DrawnGraph, term: int, most: float = math.inf) -> list[int]:
    """The Values from which every path to the root leads through this operand, itself last; [] if it has others.

    A Value is one of them as soon as all its users are. After more than `most`, the search ends.
    """
    found, left, path = list[int](), dict[int, int](), [term] * (graph.users[term] == 1)
    while path and len(found) <= most:
        i = path.pop()
        found.append(i)
        for operand in set(graph.operands[i]):
            left[operand] = left.get(operand, graph.users[operand]) - 1
            if left[operand] == 0:
                path.append(operand)
    return sorted(found)


def _is_example(graph: DrawnGraph, i: int) -> bool:
    """Whether the Value is computed in several steps, unlike a weighted input."""
    leaves = [graph.is_leaf(operand) for operand in graph.operands[i]]
    return not all(leaves) and not (graph.operations[i] == "*" and any(leaves))


def _share_parameters(graph: DrawnGraph, example: Sequence[int]) -> bool:
    """Whether two examples go through one model: unlike two neurons, they share more leaves than they have alone."""
    operands = {operand for i in example for operand in graph.operands[i]} - graph.constants
    own = operands & {*example}
    return graph.is_leaf(example[0]) and len(operands - own) > max(1, sum(map(graph.is_leaf, own)))


def _are_alike(graph: DrawnGraph, first: Sequence[int], other: Sequence[int]) -> bool:
    """Whether the Values of two scopes have like operations and operands, one by one; alike scopes have one order."""
    twins = dict(zip(first, other, strict=False))
    return len(first) == len(other) > 0 and all(
        graph.title(i) == graph.title(twin)
        and tuple([twins.get(k, k) for k in graph.operands[i]]) == graph.operands[twin]
        for i, twin in twins.items()
    )
