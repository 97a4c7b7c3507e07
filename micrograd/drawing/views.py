"""Views: what is shown at once. The folded graph is one; cards that are too many for it are a group, with its own view.

A view is at most some columns wide and some cards high, however large the graph is. A neuron has one, too, with a card
for each Value. A view that is not the whole has stubs, before and behind all else that is in it: there go the edges
that come in from what is around it, or lead there.
"""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from micrograd.drawing import layout, shape
from micrograd.drawing.fold import Card, Folded, Input
from micrograd.drawing.layout import Passes, Placed
from micrograd.drawing.shape import Shape
from micrograd.drawing.text import label

DEEP = 16  # columns of a view
WIDE = 16  # cards of a column
STUBS = 12  # cards from elsewhere that a view shows on each side
OTHERS = -1  # all the rest of them


@dataclass(slots=True)
class Item:
    """What a view shows in one place: a card, or a group of cards."""

    cards: list[int]
    column: int
    title: str = ""  # of a group
    is_stub: bool = False
    opens: int = -1  # the view of what is in it
    shape: Shape = field(default_factory=shape.group_shape)
    values: list[int] = field(default_factory=list)
    texts: tuple[str, ...] = ()
    kind: str = "group"


class Edge(NamedTuple):
    """A line between two items, of one input or of many, and how far down its target it ends."""

    source: int
    target: int
    inputs: list[Input]
    port: float


class Stubs(NamedTuple):
    """The stubs in one column of a view: by each card that they stand for, and by the first card of the item."""

    column: int
    of: dict[int, int]
    at: dict[int, int]


@dataclass(slots=True)
class View:
    """Some items, the edges between them, and which of the places are theirs."""

    title: str
    parent: int
    members: list[int]
    items: list[Item] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    place: int = 0
    where: dict[int, int] = field(default_factory=dict)  # the item of a card


class Views:
    """All views of a folded graph, the first of which is the whole; and the places that they have their items in.

    Places are worked out once for all views that are alike, as those of a long chain are.

    Parameters
    ----------
    folded
        The graph.
    grad
        Whether there are gradients to be shown.
    deep
        Whether there are to be views of groups, too.
    """

    def __init__(self, folded: Folded, *, grad: bool, deep: bool) -> None:
        self.folded = folded
        self.graph = folded.graph
        self._grad = grad
        self.cards = list(folded.cards)
        self._columns = columns(self.cards)
        self._takers: list[list[tuple[int, Input]]] = [[] for _ in self.cards]
        for i, card in enumerate(self.cards):
            for x, source in zip(card.inputs, card.sources, strict=True):
                self._takers[source].append((i, x))
        self.views = [View("", -1, list(range(len(self.cards))))]
        self._deep = deep
        self.places: list[Placed] = []
        self._known: dict[Any, int] = {}
        waiting = deque([0])
        while waiting:
            n = waiting.popleft()
            before = len(self.views)
            self._arrange(n)
            waiting += range(before, len(self.views)) if deep else ()

    # What is in a view

    def _arrange(self, n: int) -> None:
        view = self.views[n]
        ranks = {column: i for i, column in enumerate(sorted({self._columns[card] for card in view.members}))}
        by_column: list[list[int]] = [[] for _ in ranks]
        for card in view.members:
            by_column[ranks[self._columns[card]]].append(card)
        if len(by_column) > DEEP:
            self._blocks(view, by_column)
        else:
            for column, cards in enumerate(by_column):
                for item in self._in_column(cards, column, alone=len(by_column) == 1):
                    view.items.append(item)
        for at, item in enumerate(view.items):
            view.where.update(dict.fromkeys(item.cards, at))
        ends = self._edges(n)
        for item in view.items:
            self._dress(n, item)
        view.edges = [Edge(a, b, inputs, self._port(view.items[b], inputs)) for a, b, inputs in ends]
        self._place(view)

    def _blocks(self, view: View, by_column: Sequence[Sequence[int]]) -> None:
        """Items for runs of columns, of equal length but for the last."""
        length = even(len(by_column), DEEP)
        for column, start in enumerate(range(0, len(by_column), length)):
            cards = [card for cards in by_column[start : start + length] for card in cards]
            last = min(start + length, len(by_column))
            view.items.append(Item(cards, column, f"{start + 1}–{last}"))

    def _in_column(self, cards: Sequence[int], column: int, *, alone: bool) -> list[Item]:
        """Items for the cards of one column: each by itself, or if they are too many, those of one kind together."""
        if len(cards) <= WIDE:
            return [Item([card], column) for card in cards]
        kinds: dict[tuple[str, int], list[int]] = {}
        for card in cards:
            kinds.setdefault((self.cards[card].title, len(self.cards[card].inputs)), []).append(card)
        if len(kinds) > WIDE or (alone and len(kinds) == 1):
            length = even(len(cards), WIDE)
            starts = range(0, len(cards), length)
            return [self._run(cards[start : start + length], column, start) for start in starts]
        return [
            Item(members, column, self._kind(members)) if len(members) > 1 else Item(members, column)
            for members in kinds.values()
        ]

    def _run(self, cards: Sequence[int], column: int, start: int) -> Item:
        return Item(list(cards), column, f"{start + 1}–{start + len(cards)}")

    def _kind(self, cards: Sequence[int]) -> str:
        title = self.cards[cards[0]].title
        return f"{len(cards)} × {title}" if title else f"{len(cards)} inputs"

    # What is around it

    def _edges(self, n: int) -> list[tuple[int, int, list[Input]]]:
        """What runs between which items of a view; what is outside of it becomes a stub on the way."""
        view = self.views[n]
        items, where, cards = view.items, view.where, self.cards
        single: list[tuple[int, int, list[Input]]] = []
        bundles: dict[tuple[int, int], list[Input]] = {}
        before, behind = Stubs(-1, {}, {}), Stubs(max(item.column for item in items) + 1, {}, {})
        for card in view.members:
            at = where[card]
            for x, source in zip(cards[card].inputs, cards[card].sources, strict=True):
                there = where.get(source)
                if there is None:
                    there = self._stub(n, source, before)
                if there != at:
                    if len(items[at].cards) == len(items[there].cards) == 1:
                        single.append((there, at, [x]))
                    else:
                        bundles.setdefault((there, at), []).append(x)
        for card in view.members:
            for taker, x in self._takers[card]:
                if taker not in where:
                    at = where[card]
                    there = self._stub(n, taker, behind)
                    bundles.setdefault((at, there), []).append(x)
        if before.at:
            for item in items:
                item.column += 1
        return single + [(*ends, inputs) for ends, inputs in bundles.items()]

    def _stub(self, n: int, card: int, stubs: Stubs) -> int:
        """The item of a view that stands for a card outside of it, as the views around show it."""
        at = stubs.of.get(card)
        if at is None:
            at = stubs.of[card] = self._new_stub(n, card, stubs)
        return at

    def _new_stub(self, n: int, card: int, stubs: Stubs) -> int:
        view, around = self.views[n], self.views[self.views[n].parent]
        while card not in around.where:
            around = self.views[around.parent]
        seen = around.items[around.where[card]]
        key = seen.cards[0]
        if key not in stubs.at and len(stubs.at) >= STUBS:
            key, seen = OTHERS, Item([], stubs.column)
        if key not in stubs.at:
            stubs.at[key] = len(view.items)
            view.items.append(Item(seen.cards, stubs.column, is_stub=True, opens=seen.opens, values=seen.values[:1]))
        return stubs.at[key]

    # How it looks

    def _dress(self, n: int, item: Item) -> None:
        """What an item says and how large it is; and the view that it opens."""
        if item.is_stub:
            item.shape = shape.STUB
            return
        if len(item.cards) != 1:
            if self._deep:
                item.opens = self._open(item.title, n, item.cards)
            values = len({part for card in item.cards for part in self.cards[card].parts})
            item.texts = (shape.header("", item.title)[1][1], f"{values:,} Values")
            return
        card = self.cards[item.cards[0]]
        value = self.graph.values[card.head]
        is_constant = self.graph.is_leaf(card.head) and self.graph.is_constant(card.head)
        weights = [x.weight for x in card.inputs if x.weight is not None]
        if not len(weights) == len(card.inputs) <= shape.ROWS:
            weights = []
        bias = [card.bias] if weights and card.bias is not None else []
        name = label(value)
        item.kind = "leaf" if not card.title else "root" if card.head == len(self.graph.values) - 1 else "node"
        item.values = [card.head, *weights, *bias]
        lines, item.texts = shape.header(name, card.title)
        item.shape = shape.shape(
            inputs=len(card.inputs),
            weights=len(weights),
            bias=bool(bias),
            header=lines,
            labelled=bool(name),
            grad=self._grad and not is_constant,
            stacked=bool(card.stacks),
        )
        if self._deep and 2 < len(card.parts) <= WIDE:
            item.opens = self._unfold(n, item.cards[0])

    def _open(self, title: str, parent: int, members: list[int]) -> int:
        self.views.append(View(title, parent, members))
        return len(self.views) - 1

    def _unfold(self, parent: int, number: int) -> int:
        """The view of a card that shows each of its Values."""
        card = self.cards[number]
        inner = self.folded.plain(card)
        first = len(self.cards)
        own = {part.head: first + i for i, part in enumerate(inner)}
        outer = {x.source: source for x, source in zip(card.inputs, card.sources, strict=True)}
        for part in inner:
            part.sources = [own[x.source] if x.source in own else outer[x.source] for x in part.inputs]
        self.cards += inner
        self._takers += [[] for _ in inner]
        self._takers[own[card.head]] = self._takers[number]
        base = columns(inner, first)
        self._columns += base
        return self._open(label(self.graph.values[card.head]) or card.title, parent, list(own.values()))

    def _place(self, view: View) -> None:
        sizes = tuple(item.shape.outer for item in view.items)
        columns = tuple(item.column for item in view.items)
        ends = tuple((edge.source, edge.target) for edge in view.edges)
        view.place = self._known.setdefault((sizes, columns, ends), len(self.places))
        if view.place == len(self.places):
            self.places.append(layout.place(sizes, columns, ends))

    def _port(self, target: Item, inputs: Sequence[Input]) -> float:
        """How far down an item an edge ends."""
        if len(inputs) == len(target.cards) == 1:
            places = self.cards[target.cards[0]].inputs
            if len(places) == len(target.shape.ports):
                return target.shape.ports[places.index(inputs[0])]
        return target.shape.height / 2


def columns(cards: Sequence[Card], first: int = 0) -> list[int]:
    """The column of each card: after all that it takes in, but right before its first use where that is as near."""
    found = [0] * len(cards)
    inner = [[source - first for source in card.sources if source >= first] for card in cards]
    users: list[list[int]] = [[] for _ in cards]
    for i, card in enumerate(cards):
        found[i] = 1 + max((found[source] for source in inner[i]), default=0 if card.sources else -1)
        for source in inner[i]:
            users[source].append(i)
    for i in reversed(range(len(cards))):
        if users[i] and sum(bool(cards[source].sources) for source in inner[i]) < max(len(users[i]), 2):
            found[i] = min(found[user] for user in users[i]) - 1
    return found


def even(n: int, most: int) -> int:
    """How many of n to put together, so that there are at most so many on each level, and about as many on each."""
    levels = 1
    while most**levels < n:
        levels += 1
    return math.ceil(math.pow(n, (levels - 1) / levels))


def curve(start: tuple[float, float], passes: Passes, end: tuple[float, float]) -> str:
    """The path of an edge, level where it starts, where it runs past cards, and where it ends."""
    x, y = start
    path = f"M{x:.0f} {y:.0f}"
    for left, right, level in [*passes, (end[0], end[0], end[1])]:
        middle = (x + left) / 2
        path += f"C{middle:.0f} {y:.0f} {middle:.0f} {level:.0f} {left:.0f} {level:.0f}"
        if right > left:
            path += f"H{right:.0f}"
        x, y = right, level
    return path
