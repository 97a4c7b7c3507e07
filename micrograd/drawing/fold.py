"""Folding: the Values that lead to a root, as few cards as tell the same.

A neuron (dot, bias and activation, or the same written out as a sum of products) is one card, with its weights on the
edges that come in; a number that stands beside
an operation is written into the operation; of the examples of a mean or a sum, which are all computed in the same way,
the cards show one at a time. All else is a card for each Value.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from micrograd.drawing.text import number, plain
from micrograd.engine import Value

SIGNS = {"-": "−", "*": "×", "/": "÷", "neg": "−"}  # what is read more easily than what is typed


class Graph:
    """The Values that lead to a root, by number: leaves first, then each after its operands, the root last.

    Attributes
    ----------
    values
        The Values.
    operands, users
        The numbers of each one's operands, in order, and of those that have it as an operand, each once.
    first
        The number of the first that is not a leaf.
    """

    def __init__(self, root: Value) -> None:
        if not isinstance(root, Value):
            raise TypeError(f"a drawing starts from one Value, not from a {type(root).__name__}")
        nodes, leaves = root._history()
        self.values = leaves + nodes
        self.first = len(leaves)
        numbers = {value: i for i, value in enumerate(self.values)}
        self.operands = [tuple([numbers[operand] for operand in value._prev]) for value in self.values]
        self.users: list[list[int]] = [[] for _ in self.values]
        for i, operands in enumerate(self.operands):
            for operand in dict.fromkeys(operands):
                self.users[operand].append(i)

    def is_leaf(self, i: int) -> bool:
        """Whether the Value was computed from nothing."""
        return i < self.first

    def is_constant(self, i: int) -> bool:
        """Whether the Value is a plain number that stood beside one, and so has no gradient to speak of."""
        return is_constant(self.values[i])

    def has_gradients(self) -> bool:
        """Whether `backward()` was called: without it, all gradients are the 0 that they begin with."""
        return any(plain(value.grad) != 0 for value in self.values)


def is_constant(value: Value) -> bool:
    """Whether the Value is a plain number that stood beside one."""
    return value._op == "constant" and not value._prev


def maker(value: Value) -> str:
    """The operation of the engine that made the Value, such as `Value.tanh` or `dot`; none for a user's own."""
    closure = value._backward
    if getattr(closure, "__module__", None) != Value.__module__:
        return ""
    return str(getattr(closure, "__qualname__", "")).partition(".<locals>")[0]


class Stack(NamedTuple):
    """The examples of a mean or sum: `members[j][k]` of the j-th is what `members[0][k]` is of the first."""

    node: int
    members: list[list[int]]


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
    """The graph as cards.

    Attributes
    ----------
    cards
        The cards, each after those that it takes in.
    stacks
        The stacks of examples; a card belongs to the first example of its stacks.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.cards: list[Card] = []
        self._regions = Regions(graph)
        self.stacks = self._regions.stacks
        self._stacked = {stack.node for stack in self.stacks}
        self._weights = set(self._find_weights())
        self._at: dict[tuple[int, int], int] = {}  # the card of a Value, in a region
        shown = [i for i in range(graph.first, len(graph.values)) if not self._regions.is_hidden(i)]
        self._sums = {i: inner for i in shown if (inner := self._written_out(i))}
        inside = {k for inner in self._sums.values() for k in inner}
        for i in shown:
            if i not in inside:
                self._add(i)
        if not self.cards:
            self._leaf(len(graph.values) - 1, 0)  # a leaf alone

    def plain(self, card: Card) -> list[Card]:
        """A card for each part of the card, with all its operands as inputs."""
        return [
            Card(i, [i], operation(self.graph.values[i]), self._operands(i), stacks=card.stacks) for i in card.parts
        ]

    def _operands(self, i: int) -> list[Input]:
        return [Input(operand, None, i, place) for place, operand in enumerate(self.graph.operands[i])]

    def _dots(self) -> Iterator[tuple[int, Sequence[int], Sequence[int], int]]:
        for i in range(self.graph.first, len(self.graph.values)):
            if is_dot(self.graph.values[i]):
                operands = self.graph.operands[i]
                n = len(operands) // 2
                yield i, operands[:n], operands[n:-1], operands[-1]

    def _find_weights(self) -> Iterator[int]:
        """The leaves that are a weight or bias of a dot."""
        for _, ws, xs, bias in self._dots():
            for w, x in zip(ws, xs, strict=True):
                weight = self._weight(w, x)
                if weight is not None:
                    yield weight
            if self.graph.is_leaf(bias):
                yield bias

    def _weight(self, w: int, x: int) -> int | None:
        """Which of the two factors is the weight on the other's edge."""
        if w == x:
            return None
        return w if self.graph.is_leaf(w) else x if self.graph.is_leaf(x) else None

    def _add(self, i: int) -> None:
        """The card of a node: its own, or that of the neuron whose activation it is."""
        graph, value = self.graph, self.graph.values[i]
        region = self._regions.of[i]
        operands = graph.operands[i]
        at = self._at.get((operands[0], region))
        if at is not None and self._is_activation(i):
            card = self.cards[self._at.setdefault((i, region), at)]
            card.head, card.title = i, operation(value)
            card.parts.append(i)
            return
        make = self._sum if i in self._sums else self._neuron if is_dot(value) else self._operation
        card = make(i)
        card.sources = [self._source(x, region) for x in card.inputs]
        card.stacks = self._regions.stacks_of(region)
        self._at[i, region] = len(self.cards)
        self.cards.append(card)

    def _is_activation(self, i: int) -> bool:
        """Whether the node is the function of a dot that nothing else uses and nobody named."""
        operands = self.graph.operands[i]
        inner = self.graph.values[operands[0]]
        is_function = len(operands) == 1 and maker(self.graph.values[i]).startswith("Value.")
        return is_function and is_dot(inner) and inner.label == "" and len(self.graph.users[operands[0]]) == 1

    def _neuron(self, i: int) -> Card:
        operands = self.graph.operands[i]
        n = len(operands) // 2
        card = Card(i, [], "dot")
        for k in range(n):
            w, x = operands[k], operands[n + k]
            weight = self._weight(w, x)
            if weight is None:
                folded = w == x and w in self._weights
                card.parts += [w] * folded
                card.inputs += [] if folded else [Input(w, None, i, k), Input(x, None, i, n + k)]
            else:
                card.parts.append(weight)
                card.inputs.append(Input(x, w, i, n + k) if weight == w else Input(w, x, i, k))
        bias = operands[-1]
        if self.graph.is_leaf(bias):
            card.parts.append(bias)
            card.bias = None if self.graph.is_constant(bias) and plain(self.graph.values[bias].data) == 0 else bias
        else:
            card.inputs.append(Input(bias, None, i, 2 * n))
        card.parts.append(i)
        return card

    def _written_out(self, i: int) -> list[int]:
        """The sums and products that a function is of, if they are a neuron's and nobody named them; else none."""
        graph, found, path = self.graph, list[int](), list(self.graph.operands[i])
        if len(path) != 1 or not maker(graph.values[i]).startswith("Value."):
            return []
        others = products = 0
        while path:
            k = path.pop()
            op = maker(graph.values[k]) if graph.values[k].label == "" and len(graph.users[k]) == 1 else ""
            if op == "Value.__add__":
                path += reversed(graph.operands[k])
            elif op == "Value.__mul__" and self._weight(*graph.operands[k]) is not None:
                products += 1
            elif graph.is_leaf(k):
                others += 1
                continue
            else:
                return []
            found.append(k)
        return found if products > 1 and others < 2 else []

    def _sum(self, i: int) -> Card:
        """The card of a neuron that is written out."""
        inner = self._sums[i]
        card = Card(i, [], operation(self.graph.values[i]))
        leaves = []
        for k in inner:
            operands = self.graph.operands[k]
            if self.graph.values[k]._op == "*":
                weight = self._weight(*operands)
                place = int(weight == operands[0])
                card.inputs.append(Input(operands[place], weight, k, place))
                leaves.append(operands[1 - place])
            else:
                biases = [operand for operand in operands if self.graph.is_leaf(operand)]
                card.bias = biases[0] if biases else card.bias
                leaves += biases
        card.parts = [*dict.fromkeys(leaves), *sorted(inner), i]
        return card

    def _operation(self, i: int) -> Card:
        """A node as it is, but for a number beside it, which is written into its title."""
        title, inputs = operation(self.graph.values[i]), self._operands(i)
        if i in self._stacked:
            return Card(i, [i], f"{title} of {len(inputs)}", inputs[:1])
        if len(inputs) == 2:
            for place, side in ((1, "{0} {1}"), (0, "{1} {0}")):
                operand = inputs[place].source
                if self.graph.is_constant(operand):
                    title = side.format(title, number(self.graph.values[operand].data))
                    return Card(i, [operand, i], title, [inputs[1 - place]])
        return Card(i, [i], title, inputs)

    def _source(self, x: Input, region: int) -> int:
        """The number of the card that an input comes from; that of a leaf is made when it is first needed."""
        source = x.source
        if not self.graph.is_leaf(source):
            return self._at[source, self._regions.of[source]]
        return self._leaf(source, self._regions.home(source, region))

    def _leaf(self, i: int, region: int) -> int:
        at = self._at.setdefault((i, region), len(self.cards))
        if at == len(self.cards):
            self.cards.append(Card(i, [i], "", stacks=self._regions.stacks_of(region)))
        return at


def is_dot(value: Value) -> bool:
    """Whether the Value is a dot product of the engine's."""
    return value._op == "dot" and maker(value) == "dot"


def operation(value: Value) -> str:
    """How a card names the operation."""
    return SIGNS.get(value._op, str(value._op)) if value._prev else ""


class Regions:
    """Which Values belong to one example alone: those from which every way to the root leads through it.

    A region is a number: 0 is that of the root, each example of a mean or sum has one within that of the mean or sum.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.stacks: list[Stack] = []
        self.parent, self.depth, self.example, self.stack = [0], [0], [0], [-1]
        self.of = [-1] * len(graph.values)
        self._aliases: dict[int, set[int]] = {}
        candidates: list[tuple[int, int]] = []
        shapes = self._shapes()
        self.of[-1] = 0
        for i in range(len(graph.values) - 1, graph.first - 1, -1):
            operands = graph.operands[i]
            if self._may_be_stack(i, shapes):
                candidates.append((i, len(self.parent)))
            for j, operand in enumerate(operands):
                region = self._new(self.of[i], j) if candidates and candidates[-1][0] == i else self.of[i]
                self.of[operand] = region if self.of[operand] < 0 else self._common(self.of[operand], region)
        for i, region in candidates:
            self._stack(i, region)
        self._settle()

    def is_hidden(self, i: int) -> bool:
        """Whether the Value belongs to another example than the first."""
        return self._hidden[self.of[i]]

    def stacks_of(self, region: int) -> tuple[int, ...]:
        """The stacks around a region, innermost first."""
        found = []
        while region:
            found.append(self.stack[region])
            region = self.parent[region]
        return tuple(found)

    def home(self, leaf: int, region: int) -> int:
        """The region in which a leaf is to be shown to what is computed from it in a region.

        A leaf that is not an example's own may still have another in its place in the other examples.
        """
        while region and leaf not in self._aliases.get(region, ()):
            region = self.parent[region]
        return region or self.of[leaf]

    def _shapes(self) -> list[int]:
        """A number for each Value, equal for those that are computed in the same way, whatever from."""
        known: dict[tuple[object, ...], int] = {}
        shapes: list[int] = []
        for value, operands in zip(self.graph.values, self.graph.operands, strict=True):
            key = (str(value._op) if operands else "", *[shapes[operand] for operand in operands])
            shapes.append(known.setdefault(key, len(known)))
        return shapes

    def _may_be_stack(self, i: int, shapes: Sequence[int]) -> bool:
        operands = self.graph.operands[i]
        return (
            maker(self.graph.values[i]) in ("mean", "sum")
            and len(set(operands)) == len(operands) > 1
            and not self.graph.is_leaf(operands[0])
            and len({shapes[operand] for operand in operands}) == 1
        )

    def _new(self, parent: int, example: int) -> int:
        self.parent.append(parent)
        self.depth.append(self.depth[parent] + 1)
        self.example.append(example)
        self.stack.append(-1)
        return len(self.parent) - 1

    def _common(self, a: int, b: int) -> int:
        """The innermost region that holds both."""
        while a != b:
            if self.depth[a] < self.depth[b]:
                a, b = b, a
            a = self.parent[a]
        return a

    def _stack(self, i: int, first: int) -> None:
        """Make a stack of the examples of a mean or sum whose first has that region, if they are alike in all."""
        operands = self.graph.operands[i]
        matches = [self._matches(operands[0], operand, first, first + j) for j, operand in enumerate(operands)]
        if not all(matches):
            return
        own = {k for k in matches[0] if self._is_within(self.of[k], first)}
        varies = {k for k in matches[0] if any(match[k] != k for match in matches)}
        self._aliases[first] = varies - own
        for j in range(len(operands)):
            self.stack[first + j] = len(self.stacks)
        self.stacks.append(Stack(i, [[match[k] for k in sorted(own | varies)] for match in matches]))

    def _is_within(self, region: int, outer: int) -> bool:
        return self._common(region, outer) == outer

    def _matches(self, first: int, other: int, region: int, its: int) -> dict[int, int]:
        """What in another example is in the place of what in the first; nothing if the two are not alike."""
        matches: dict[int, int] = {}
        path = [(first, other)]
        while path:
            a, b = path.pop()
            if a in matches:
                if matches[a] != b:
                    return {}
                continue
            is_own = self._is_within(self.of[a], region)
            if self.graph.is_leaf(a):
                matches[a] = b
            elif is_own != self._is_within(self.of[b], its) or not (is_own or a == b):
                return {}
            elif is_own:
                matches[a] = b
                path += zip(self.graph.operands[a], self.graph.operands[b], strict=True)
        return matches

    def _settle(self) -> None:
        """Let go of the regions that have become no example of a stack."""
        into, self._hidden = [0], [False]
        for region in range(1, len(self.parent)):
            parent = into[self.parent[region]]
            is_kept = self.stack[region] >= 0
            into.append(region if is_kept else parent)
            self.parent[region] = parent
            self._hidden.append(self._hidden[parent] or (is_kept and self.example[region] > 0))
        self.of = [into[region] for region in self.of]
