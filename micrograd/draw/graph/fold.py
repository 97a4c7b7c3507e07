"""Folding: the Values that lead to a root, as few cards that say the same.

A neuron (dot, bias and activation, or the same written out as a sum of products) is one card, with its weights on its
incoming edges; a plain number beside an operation is written into the operation; of the examples of a mean or a sum,
the cards show one at a time. Every other Value is a card.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from micrograd.draw.graph.drawn import DrawnGraph, is_dot
from micrograd.draw.graph.scopes import ExampleScopes
from micrograd.draw.text import number
from micrograd.scalar import FUNCTIONS, innermost

ACTIVATIONS = {"neg", "abs", *FUNCTIONS}


class Input(NamedTuple):
    """What comes into a card: the Value, the leaf that it is multiplied by, if any, and where it is an operand."""

    source: int
    weight: int | None
    user: int
    place: int


@dataclass(slots=True)
class Card:
    """Some Values as one: `head` is the one that others use, `parts` are all, the head last."""

    head: int
    parts: list[int]
    title: str
    inputs: list[Input] = field(default_factory=list)
    sources: list[int] = field(default_factory=list)  # the cards that the inputs come from
    bias: int | None = None
    stacks: tuple[int, ...] = ()  # the stacks that show one example of it at a time, innermost first


class Folded:
    """The graph as `cards`, each after those of its inputs, and its `stacks` of examples.

    A card belongs to the first example of its stacks. `stacked` has the additions that each stack's mean or sum is made
    of, itself the last.
    """

    def __init__(self, graph: DrawnGraph) -> None:
        self.graph = graph
        self.cards: list[Card] = []
        self._scopes = ExampleScopes(graph)
        self.stacks = self._scopes.stacks
        self.stacked = {stack.node: graph.chain(stack.node) for stack in self.stacks}
        self._card_of: dict[tuple[int, int], int] = {}  # the card of a Value in a scope
        nodes = range(graph.first, len(graph.values))
        self._weights = {w for i in nodes if is_dot(graph.values[i]) for w in self._dot_weights(graph.operands[i])}
        shown = [i for i in nodes if not self._scopes.is_hidden(i)]
        self._sums = {i: terms for i in shown if (terms := self._terms(i))}
        swallowed = {k for terms in self._sums.values() for k in terms}
        swallowed |= {k for chain in self.stacked.values() for k in chain[:-1]}
        for i in shown:
            if i not in swallowed:
                self._add(i)
        if not self.cards:
            self._leaf(len(graph.values) - 1, 0)  # a leaf alone

    def unfolded(self, card: Card) -> list[Card]:
        """A card for each part of the card, with all its operands as inputs."""
        return [Card(i, [i], self.graph.title(i), self._operands(i), stacks=card.stacks) for i in card.parts]

    def _operands(self, i: int) -> list[Input]:
        return [Input(operand, None, i, place) for place, operand in enumerate(self.graph.operands[i])]

    def _weight(self, a: int, b: int) -> int | None:
        """Which of two factors is the weight on the other's edge: a leaf, the first if both are."""
        if a == b:
            return None
        return a if self.graph.is_leaf(a) else b if self.graph.is_leaf(b) else None

    def _dot_weights(self, operands: Sequence[int]) -> list[int]:
        """The leaves that are a weight or the bias of a dot."""
        n = len(operands) // 2
        found = [self._weight(*pair) for pair in zip(operands[:n], operands[n:-1], strict=True)]
        bias = [operands[-1]] if self.graph.is_leaf(operands[-1]) else []
        return [w for w in found if w is not None] + bias

    def _add(self, i: int) -> None:
        """The card of a node: its own, or that of the neuron whose activation it is."""
        graph, scope = self.graph, self._scopes.of[i]
        inner = self._card_of.get((graph.operands[i][0], scope))
        if inner is not None and self._is_activation(i):
            card = self.cards[self._card_of.setdefault((i, scope), inner)]
            card.head, card.title = i, graph.title(i)
            card.parts.append(i)
            return
        if i in self._sums:
            card = self._written_out(i)
        elif is_dot(graph.values[i]):
            card = self._neuron(i)
        else:
            card = self._operation(i)
        card.sources = [self._source(x.source, scope) for x in card.inputs]
        card.stacks = self._scopes.stacks_of(scope)
        self._card_of[i, scope] = len(self.cards)
        self.cards.append(card)

    def _is_activation(self, i: int) -> bool:
        """Whether the node is the function of a dot that nothing else uses and that has no label."""
        graph, operands = self.graph, self.graph.operands[i]
        is_function = len(operands) == 1 and graph.operation(i) in ACTIVATIONS
        return is_function and is_dot(graph.values[operands[0]]) and graph.is_inner(operands[0])

    def _neuron(self, i: int) -> Card:
        graph, operands = self.graph, self.graph.operands[i]
        n = len(operands) // 2
        card = Card(i, [], "dot")
        for k in range(n):
            w, x = operands[k], operands[n + k]
            weight = self._weight(w, x)
            if weight is not None:
                card.parts.append(weight)
                card.inputs.append(Input(x, w, i, n + k) if weight == w else Input(w, x, i, k))
            elif w == x and w in self._weights:  # the square of a weight, as in a penalty
                card.parts.append(w)
            else:
                card.inputs += [Input(w, None, i, k), Input(x, None, i, n + k)]
        bias = operands[-1]
        if graph.is_leaf(bias):
            card.parts.append(bias)
            card.bias = None if graph.is_constant(bias) and innermost(graph.values[bias].data) == 0 else bias
        else:
            card.inputs.append(Input(bias, None, i, 2 * n))
        card.parts.append(i)
        return card

    def _terms(self, i: int) -> list[int]:
        """The sums and products inside a function, if they are those of a neuron that is written out; else none."""
        graph, found, path = self.graph, list[int](), list(self.graph.operands[i])
        if len(path) != 1 or graph.operation(i) not in ACTIVATIONS:
            return []
        biases = products = 0
        while path:
            k = path.pop()
            op = graph.operation(k) if graph.is_inner(k) else ""
            if op == "+":
                path += reversed(graph.operands[k])
            elif op == "*" and self._weight(*graph.operands[k]) is not None:
                products += 1
            elif graph.is_leaf(k):
                biases += 1
                continue
            else:
                return []
            found.append(k)
        return found if products > 1 and biases < 2 else []

    def _written_out(self, i: int) -> Card:
        """The card of a neuron that is written out as a sum of products."""
        graph, card, leaves = self.graph, Card(i, [], self.graph.title(i)), []
        for k in self._sums[i]:
            operands = graph.operands[k]
            if graph.operation(k) == "*":
                weight = self._weight(*operands)
                place = int(weight == operands[0])
                card.inputs.append(Input(operands[place], weight, k, place))
                leaves.append(operands[1 - place])
            else:
                biases = [operand for operand in operands if graph.is_leaf(operand)]
                card.bias = biases[0] if biases else card.bias
                leaves += biases
        card.parts = [*dict.fromkeys(leaves), *sorted(self._sums[i]), i]
        return card

    def _operation(self, i: int) -> Card:
        """The card of a node; a number beside it is written into the title."""
        title, inputs = self.graph.title(i), self._operands(i)
        if i in self.stacked:
            chain = self.stacked[i]
            title = f"{title if title != '+' else 'sum'} of {len(self.graph.terms(i))}"
            return Card(i, chain, title, self._operands(chain[0])[:1])
        if len(inputs) == 2:
            for place, side in ((1, "{0} {1}"), (0, "{1} {0}")):
                operand = inputs[place].source
                if self.graph.is_constant(operand):
                    title = side.format(title, number(self.graph.values[operand].data))
                    return Card(i, [operand, i], title, [inputs[1 - place]])
        return Card(i, [i], title, inputs)

    def _source(self, i: int, scope: int) -> int:
        """The number of the card of an operand that is used in a scope; a leaf's is made when it is first needed."""
        if self.graph.is_leaf(i):
            return self._leaf(i, self._scopes.home(i, scope))
        return self._card_of[i, self._scopes.of[i]]

    def _leaf(self, i: int, scope: int) -> int:
        at = self._card_of.setdefault((i, scope), len(self.cards))
        if at == len(self.cards):
            self.cards.append(Card(i, [i], "", stacks=self._scopes.stacks_of(scope)))
        return at
