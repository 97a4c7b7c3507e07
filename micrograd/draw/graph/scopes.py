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

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from micrograd.draw.graph.drawn import DrawnGraph

Scope = tuple[tuple[int, int], ...]
"""The examples around a Value, outermost first: for each, the mean or sum and its number in it. The root's is ()."""


class Stack(NamedTuple):
    """The examples of a mean or sum: `members[j][k]` is in example j what `members[0][k]` is in the first.

    A sum may be a chain of additions that ends in `node`.
    """

    node: int
    members: list[list[int]]


class ExampleScopes:
    """The scope of each Value as `of`, and as `stacks`, if there are to be any, the means and sums of like examples."""

    def __init__(self, graph: DrawnGraph, *, stacks: bool = True) -> None:
        self.graph = graph
        self.stacks: list[Stack] = []
        self.of: dict[int, Scope] = {len(graph.values) - 1: ()}
        candidates = self._candidates() if stacks else set[int]()
        self._find_scopes(candidates)
        own = defaultdict[tuple[int, int], list[int]](list)  # the Values of each example, in order
        for i in range(len(graph.values)):
            for step in self.of[i]:
                own[step].append(i)
        for node in sorted(candidates, reverse=True):  # outer stacks before those inside them
            examples = [own[node, j] for j in range(len(graph.terms(node)))]
            if self._are_alike(graph.terms(node), examples):
                self.stacks.append(Stack(node, examples))
        self._numbers = {stack.node: number for number, stack in enumerate(self.stacks)}
        self.of = {i: tuple(step for step in scope if step[0] in self._numbers) for i, scope in self.of.items()}

    def is_hidden(self, i: int) -> bool:
        """Whether the Value belongs to an example other than the first."""
        return any(example > 0 for _, example in self.of[i])

    def stacks_around(self, i: int) -> tuple[int, ...]:
        """The stacks that show one example of the Value at a time, innermost first."""
        return tuple(self._numbers[node] for node, _ in reversed(self.of[i]))

    def _find_scopes(self, candidates: set[int]) -> None:
        """Give each Value its scope, from the root back, as if every candidate were a stack."""
        chained: set[int] = set()
        for i in range(len(self.graph.values) - 1, self.graph.first - 1, -1):
            if i in chained:
                continue
            outer, is_stack = self.of[i], i in candidates
            if is_stack:
                chained.update(inner := self.graph.chain(i)[:-1])
                self.of.update(dict.fromkeys(inner, outer))
            for j, operand in enumerate(self.graph.terms(i) if is_stack else self.graph.operands[i]):
                scope = (*outer, (i, j)) if is_stack else outer
                both = zip(self.of.get(operand, scope), scope, strict=False)  # equal steps have equal ones before them
                self.of[operand] = tuple(step for step, other in both if step == other)

    def _shapes(self) -> list[int]:
        """A number for each Value, equal for those computed by the same operations, whatever the leaves are."""
        known: dict[tuple[object, ...], int] = {}
        shapes: list[int] = []
        for value, operands in zip(self.graph.values, self.graph.operands, strict=True):
            key = (str(value._op) if operands else "", *[shapes[operand] for operand in operands])
            shapes.append(known.setdefault(key, len(known)))
        return shapes

    def _candidates(self) -> set[int]:
        """The nodes that may be means or sums over examples: their terms are distinct and of one shape.

        A sum may also be a chain of additions, or the beginning of one, with three or more terms.
        """
        graph, shapes = self.graph, self._shapes()
        nodes = [i for i, operation in enumerate(graph.operations) if operation in ("+", "mean", "sum")]
        continued = {graph.operands[i][0] for i in nodes if graph.continues(i)}
        found: set[int] = set()
        for i in set(nodes) - continued:
            terms, alike = graph.terms(i), set[int]()
            for term in terms:
                if term in alike or shapes[term] != shapes[terms[0]]:
                    break
                alike.add(term)
            if graph.operations[i] == "+":
                if len(alike) > 2 and self._is_example(terms[0]):
                    found.add(graph.chain(i)[len(alike) - 2])
            elif len(alike) == len(terms) > 1 and not graph.is_leaf(terms[0]):
                found.add(i)
        return found

    def _is_example(self, i: int) -> bool:
        """Whether the Value is computed in several steps, unlike a weighted input."""
        leaves = [self.graph.is_leaf(operand) for operand in self.graph.operands[i]]
        return not all(leaves) and not (self.graph.operations[i] == "*" and any(leaves))

    def _are_alike(self, terms: Sequence[int], examples: Sequence[Sequence[int]]) -> bool:
        """Whether each term is the last Value of an example, and all examples have operands like the first one's.

        Alike examples have their Values in the same order. The terms are known to have the same operations.
        """
        operands, first = self.graph.operands, examples[0]
        for term, example in zip(terms, examples, strict=True):
            if example[-1:] != [term] or len(example) != len(first):
                return False
            twins = dict(zip(first, example, strict=True))
            if any(tuple([twins.get(k, k) for k in operands[i]]) != operands[twin] for i, twin in twins.items()):
                return False
        return True
