"""Folding: the Values that lead to a root, as few cards that say the same.

A neuron (dot, bias and activation, or the same written out as a sum of products) is one card, with its weights on its
incoming edges; a plain number beside an operation is written into the operation; of the examples of a mean or a sum,
the cards show one at a time. Every other Value is a card.

A label is a name. A neuron without one is called after its layer and its place there, `h1[0]`, and in the last layer
`out`; its weights are `h1[0].w0`, its bias `h1[0].b`, its weighted sum `h1[0].z`, and the inputs of the network `x0`.
What is left is called after its formula, `a × b`, if that is short, and otherwise `v1`, `v2` and so on, or at the root
`result`. The examples of a stack share their names.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

from micrograd.draw.graph.drawn import LIMIT, POWERS, DrawnGraph
from micrograd.draw.graph.scopes import stacks
from micrograd.draw.text import label, number
from micrograd.engine import Value
from micrograd.scalar import FUNCTIONS, innermost

ACTIVATIONS = {"neg", "abs", *FUNCTIONS}
SHORT, ROOM = 20, 9  # the most characters of a formula used as a name, and of a number in it


class Input(NamedTuple):
    """What comes into a card: the Value, the leaf that it is multiplied by, if any, and where it is an operand."""

    source: int
    weight: int | None
    user: int
    place: int
    card: int = -1  # of the source


@dataclass(slots=True)
class Card:
    """Some Values as one: `head` is the one that others use, `parts` are all, the head last."""

    head: int
    parts: list[int]
    title: str
    inputs: list[Input] = field(default_factory=list)
    bias: int | None = None
    stacked: bool = False  # whether it shows one of several examples at a time


class Folded:
    """The graph that leads to a root as `cards`, each after the cards of its inputs, and its `stacks` of examples.

    If it `folds` nothing, each Value is a card. A card belongs to the first example of its stacks. `stacked` has the
    means and sums of examples; `twins` has, for each Value of another example, the Value in its place in the first.
    `names` has the label of each Value, or its name in a neuron, or else the name of its twin; "" for others.

    Raises the errors of `DrawnGraph`.
    """

    def __init__(self, root: Value, limit: float = LIMIT, *, folds: bool = True) -> None:
        self.graph, self.folds = (graph := DrawnGraph(root, limit)), folds
        self.cards: list[Card] = []
        self.stacks = stacks(graph) if folds else []
        self.stacked = {stack.node for stack in self.stacks}
        examples = ((first, other) for _, (first, *others) in self.stacks for other in others)
        self.twins = {i: twin for first, other in examples for i, twin in zip(other, first, strict=True)}
        self._repeated = {*self.twins.values()}
        self._card_of: dict[int, int] = {}  # the card of a Value
        shown = [i for i in range(graph.first, len(graph.values)) if i not in self.twins]
        neurons = {i: neuron for i in shown if folds and (neuron := self._neuron(i))}
        swallowed = {k for neuron in neurons.values() for k in neuron.parts[:-1]}
        swallowed |= {k for node in self.stacked for k in graph.chain(node)[:-1]}
        for i in [i for i in shown if i not in swallowed]:
            card = neurons.get(i) or self._operation(i)
            card.inputs = [x._replace(card=self._source(x.source)) for x in card.inputs]
            self._add(card)
        self._source(len(graph.values) - 1)  # the root may be a leaf
        self.names = [label(value) for value in graph.values]
        self._name_neurons()
        for i, twin in self.twins.items():
            self.names[i] = self.names[i] or self.names[twin]

    def unfolded(self, card: Card, first: int) -> list[Card]:
        """A card for each part of the card, numbered from `first` on, with all its operands as inputs."""
        numbers = {x.source: x.card for x in card.inputs} | {part: first + k for k, part in enumerate(card.parts)}
        found = []
        for i in card.parts:
            inputs = [x._replace(card=numbers[x.source]) for x in self._operands(i)]
            found.append(Card(i, [i], self.graph.title(i), inputs, stacked=card.stacked))
        return found

    def _operands(self, i: int) -> list[Input]:
        return [Input(operand, None, i, place) for place, operand in enumerate(self.graph.operands[i])]

    def _neuron(self, i: int) -> Card | None:
        """The card of a neuron that ends in this node; None if the node ends no neuron.

        A neuron is a dot, an activation of a dot, or one of the sums and products of a dot that is written out.
        """
        graph, inside, terms = self.graph, list[int](), list[list[Input]]()  # terms: pairs of factors, and the bias
        is_dot = graph.operations[i] == "dot"
        path = [i] if is_dot else list(graph.operands[i])
        if len(path) != 1 or not (is_dot or graph.operations[i] in ACTIVATIONS):
            return None
        while path:
            k = path.pop()
            op, operands = graph.operations[k] if k == i or graph.is_inner(k) else "", self._operands(k)
            if op == "dot" and not inside:
                n = len(operands) // 2
                terms = [*map(list, zip(operands[:n], operands[n:], strict=False)), *([x] for x in operands[2 * n :])]
            elif op == "+":
                terms += [[x] for x in operands if graph.is_leaf(x.source)]
                path += [x.source for x in reversed(operands) if not graph.is_leaf(x.source)]
            elif op == "*" and self._weight(operands) is not None:
                terms.append(operands)
            else:
                return None
            inside.append(k)
        products = sum(len(term) == 2 for term in terms)
        if op != "dot" and not (products > 1 and len(terms) < products + 2):
            return None
        card, leaves = Card(i, [], graph.title(i)), list[int]()
        for term in terms:
            weight = self._weight(term)
            if weight is not None:
                leaves.append(weight)
                is_zero = weight in graph.constants and innermost(graph.values[weight].data) == 0
                card.bias = weight if len(term) == 1 and not is_zero else card.bias
            card.inputs += [x._replace(weight=weight) for x in term if x.source != weight]
        card.parts = [*dict.fromkeys(leaves), *sorted({*inside, i})]
        return card

    def _weight(self, term: Sequence[Input]) -> int | None:
        """The factor of a term that is the weight on the other's edge, or the bias: a leaf, the first if both are."""
        factors = [x.source for x in term]
        leaves = [factor for factor in factors if self.graph.is_leaf(factor)]
        return leaves[0] if leaves and len(set(factors)) == len(factors) else None

    def _operation(self, i: int) -> Card:
        """The card of a node; a number beside it is written into the title."""
        title, inputs = self.graph.title(i), self._operands(i)
        if i in self.stacked:
            chain = self.graph.chain(i)
            title = f"{title if title != '+' else 'sum'} of {len(self.graph.terms(i))}"
            return Card(i, chain, title, self._operands(chain[0])[:1])
        if len(inputs) == 2 and self.folds:
            for place, side in ((1, "{0} {1}"), (0, "{1} {0}")):
                operand = inputs[place].source
                if operand in self.graph.constants:
                    title = side.format(title, number(self.graph.values[operand].data, ROOM))
                    return Card(i, [operand, i], title, [inputs[1 - place]])
        return Card(i, [i], title, inputs)

    def _source(self, i: int) -> int:
        """The number of the card of an operand; a leaf's is made when it is first needed."""
        if i not in self._card_of:
            self._add(Card(i, [i], ""))
        return self._card_of[i]

    def _add(self, card: Card) -> None:
        card.stacked = card.head in self._repeated
        self._card_of[card.head] = len(self.cards)
        self.cards.append(card)

    def _name_neurons(self) -> None:
        """Name the neurons, their weights and their inputs, layer by layer."""
        graph, names, taken = self.graph, self.names, set(self.names)

        def give(i: int | None, name: str) -> None:
            if i is not None and not names[i] and i not in graph.constants and name not in taken:
                names[i] = name
                taken.add(name)

        layers, depths = defaultdict(list), list[int]()  # by the most neurons on a path to a card, itself included
        for card in self.cards:
            is_neuron = any(x.weight is not None for x in card.inputs)
            depths.append(max([depths[x.card] for x in card.inputs], default=0) + is_neuron)
            if is_neuron:
                layers[depths[-1]].append(card)
        for depth, layer in layers.items():
            for i, card in enumerate(layer):
                name = "out" if depth == max(layers) else f"h{depth}"
                give(card.head, name + f"[{i}]" * (len(layer) > 1))
                name = names[card.head]
                for k, x in enumerate(card.inputs):
                    give(x.weight, f"{name}.w{k}")
                    if depth == 1 and graph.is_leaf(x.source):
                        give(x.source, f"x{k}")
                give(card.bias, f"{name}.b")
                z = graph.operands[card.head][0]
                give(z if z in card.parts else None, f"{name}.z")


def all_names(folded: Folded, root: str = "result") -> list[str]:
    """The name of each Value: its name in `folded`, else a short formula, else v1, v2, ..., or `root` for the root."""
    graph, found, taken = folded.graph, list(folded.names), set(folded.names)
    free = (name for name in map("v{}".format, count(1)) if name not in taken)
    for i, value in enumerate(graph.values):
        if not found[i] and i in graph.constants:
            found[i] = number(value.data, ROOM)
        elif not found[i]:
            name = _formula(graph, i, found) if i not in folded.stacked else graph.title(i).strip("+")
            if not name or len(name) > SHORT or (name in taken and i not in folded.twins):
                twin = folded.twins.get(i, i)
                name = found[twin] or (root if i == len(found) - 1 else next(free))
            taken.add(name)
            found[i] = name
    return found


def _formula(graph: DrawnGraph, i: int, found: Sequence[str]) -> str:
    """The operation of a Value and the names of its operands; only the operation if they are many; "" for a leaf."""
    title, operands = graph.title(i), [found[k] for k in graph.operands[i]]
    if len(operands) > 2 or graph.operations[i] in ("", "dot"):
        return title
    if title.isalpha():
        return f"{title}({', '.join(operands)})"
    a, *b = [f"({name})" if " " in name and title != "+" else name for name in operands]
    if title == "^":
        return a + POWERS.get(b[0], f"^{b[0]}")
    return f"{a} {title} {b[0]}" if b else f"{title}{a}"
