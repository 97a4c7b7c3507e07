"""Examples: the parts of a graph that belong to one operand of a mean or sum alone, and repeat for the others.

A loss over two examples, which share a weight w and have their own inputs:

    x0 ──► × ──► tanh ──┐              scope 1: x0, ×, tanh    the first example, whose cards are drawn
           ▲            ▼
    w ─────┤          mean ──►  root   scope 0: w, mean        what is around them
           ▼            ▲
    x1 ──► × ──► tanh ──┘              scope 2: x1, ×, tanh    the second, shown in the first one's cards

A Value belongs to a scope if every path from it to the root leads through that operand of the mean. Operands whose
scopes are alike, Value by Value, make a stack. Scopes nest: an example that is a mean itself has scopes inside.

Aliases are leaves that belong to no example and still differ from one to the next. In mean(x0 - x1, x1 - x2), both
examples use x1, so it is in scope 0; but in the second, x2 is in its place. In the first example's scope, x1 is an
alias, and gets a card there.
"""

from collections.abc import Sequence
from typing import NamedTuple

from micrograd.draw.graph.drawn import DrawnGraph


class Stack(NamedTuple):
    """The examples of a mean or sum: `members[j][k]` is in example j what `members[0][k]` is in the first.

    A sum may be a chain of additions, of which `node` is the last.
    """

    node: int
    members: list[list[int]]


class ExampleScopes:
    """The scope of each Value, and the stacks. A scope is a number: 0 is the root's, each example has one inside.

    `of` has the scope of each Value, `stacks` the means and sums whose examples are alike.
    """

    def __init__(self, graph: DrawnGraph) -> None:
        self.graph = graph
        self.stacks: list[Stack] = []
        self.of = [-1] * len(graph.values)
        self._parent, self._example, self._stack = [0], [0], [-1]  # of each scope, after those around it
        self._aliases: dict[int, set[int]] = {}  # of the scope of each first example
        for node, first in self._find_scopes():
            self._match_examples(node, first)
        self._drop_unmatched()

    def is_hidden(self, i: int) -> bool:
        """Whether the Value belongs to an example other than the first."""
        return self._hidden[self.of[i]]

    def stacks_of(self, scope: int) -> tuple[int, ...]:
        """The stacks around a scope, innermost first."""
        found = []
        while scope:
            found.append(self._stack[scope])
            scope = self._parent[scope]
        return tuple(found)

    def home(self, leaf: int, scope: int) -> int:
        """The scope in which to draw a leaf that is used in a scope: its own, or one in which it is an alias."""
        while scope and leaf not in self._aliases.get(scope, ()):
            scope = self._parent[scope]
        return scope or self.of[leaf]

    def _find_scopes(self) -> list[tuple[int, int]]:
        """Give each Value its scope, from the root back; return the nodes that may be stacks and their first scope."""
        candidates: list[tuple[int, int]] = []
        shapes = self._shapes()
        lengths = self._chain_lengths(shapes)
        chained: set[int] = set()
        self.of[-1] = 0
        for i in range(len(self.of) - 1, self.graph.first - 1, -1):
            if i in chained:
                continue
            outer, examples = self.of[i], self._examples(i, shapes, lengths)
            operands = examples or self.graph.operands[i]
            scopes = [outer] * len(operands)
            if examples:
                scopes = [self._new_scope(outer, j) for j in range(len(operands))]
                candidates.append((i, scopes[0]))
                inner = self.graph.chain(i)[:-1]
                chained.update(inner)
                for k in inner:
                    self.of[k] = outer
            for operand, scope in zip(operands, scopes, strict=True):
                known = self.of[operand]
                self.of[operand] = scope if known < 0 else self._common(known, scope)
        return candidates

    def _shapes(self) -> list[int]:
        """A number for each Value, equal for those computed by the same operations, whatever the leaves are."""
        known: dict[tuple[object, ...], int] = {}
        shapes: list[int] = []
        for value, operands in zip(self.graph.values, self.graph.operands, strict=True):
            key = (str(value._op) if operands else "", *[shapes[operand] for operand in operands])
            shapes.append(known.setdefault(key, len(known)))
        return shapes

    def _chain_lengths(self, shapes: Sequence[int]) -> list[int]:
        """How many terms of the same shape each addition ends a chain of; 0 for a sum of products or of leaves."""
        graph, lengths = self.graph, [0] * len(shapes)
        for i in range(graph.first, len(shapes)):
            if graph.operation(i) != "+":
                continue
            left, right = graph.operands[i]
            if graph.continues(i):
                is_alike = lengths[left] > 0 and shapes[right] == shapes[graph.operands[left][1]]
                lengths[i] = (lengths[left] + 1) * is_alike
            elif shapes[left] == shapes[right] and self._is_example(left):
                lengths[i] = 2
        return lengths

    def _is_example(self, i: int) -> bool:
        """Whether the Value is computed in several steps, unlike a weighted input."""
        leaves = [self.graph.is_leaf(operand) for operand in self.graph.operands[i]]
        return not all(leaves) and not (self.graph.operation(i) == "*" and any(leaves))

    def _examples(self, i: int, shapes: Sequence[int], lengths: Sequence[int]) -> Sequence[int]:
        """The operands of a mean or sum, or of a chain of additions, that may be examples."""
        if lengths[i] < 3 and self.graph.operation(i) not in ("mean", "sum"):
            return ()
        terms = self.graph.terms(i)
        is_alike = len({shapes[term] for term in terms}) == 1 and not self.graph.is_leaf(terms[0])
        return terms if is_alike and len(set(terms)) == len(terms) > 1 else ()

    def _new_scope(self, parent: int, example: int) -> int:
        self._parent.append(parent)
        self._example.append(example)
        self._stack.append(-1)
        return len(self._parent) - 1

    def _common(self, a: int, b: int) -> int:
        """The innermost scope around both."""
        while a != b:
            a, b = self._parent[max(a, b)], min(a, b)
        return a

    def _is_within(self, i: int, scope: int) -> bool:
        return self._common(self.of[i], scope) == scope

    def _match_examples(self, node: int, first: int) -> None:
        """Make a stack of a node's operands, the first of which has that scope, if all are like the first."""
        operands = self.graph.terms(node)
        matches = [self._match(operands[0], operand, first, first + j) for j, operand in enumerate(operands)]
        if not all(matches):
            return
        own = {k for k in matches[0] if self._is_within(k, first)}
        differing = {k for k in matches[0] if any(match[k] != k for match in matches)}
        self._aliases[first] = differing - own
        for j in range(len(operands)):
            self._stack[first + j] = len(self.stacks)
        self.stacks.append(Stack(node, [[match[k] for k in sorted(own | differing)] for match in matches]))

    def _match(self, first: int, other: int, scope: int, its: int) -> dict[int, int]:
        """For each Value of the first example, its place in the other one; {} if the two are not alike."""
        matches: dict[int, int] = {}
        path = [(first, other)]
        while path:
            a, b = path.pop()
            if a in matches:
                if matches[a] != b:
                    return {}
                continue
            is_own = self._is_within(a, scope)
            if self.graph.is_leaf(a):
                matches[a] = b
            elif is_own != self._is_within(b, its) or not (is_own or a == b):
                return {}
            elif is_own:
                matches[a] = b
                path += zip(self.graph.operands[a], self.graph.operands[b], strict=True)
        return matches

    def _drop_unmatched(self) -> None:
        """Merge the scopes that became no stack's example into those around them."""
        into, self._hidden = [0], [False]
        for scope in range(1, len(self._parent)):
            parent = self._parent[scope] = into[self._parent[scope]]
            is_kept = self._stack[scope] >= 0
            into.append(scope if is_kept else parent)
            self._hidden.append(self._hidden[parent] or (is_kept and self._example[scope] > 0))
        self.of = [into[scope] for scope in self.of]
