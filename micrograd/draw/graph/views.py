"""Views: what is shown at once. The folded graph is one; where it has too many cards, groups of them have their own.

A view is at most 16 columns wide and 16 cards high, however large the graph is. A neuron has a view, too, with a card
for each Value. A view other than the whole has stubs on its left and right, for the edges from and to the outside.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, count, groupby
from typing import Any, NamedTuple

from micrograd.draw.graph import layout
from micrograd.draw.graph.card import GROUP, ROWS, STUB, Shape, header, shape
from micrograd.draw.graph.fold import Folded, Input

MOST = 16  # columns of a view, and cards of a column
FEW = 7  # cards of a kind that stand alone in a column with too many


class Item(NamedTuple):
    """One place in a view: a card, a group of cards, or a stub."""

    cards: Sequence[int]
    column: int
    shape: Shape
    kind: str  # "leaf", "node", "root", "group" or "stub"
    texts: tuple[str, ...] = ()
    values: Sequence[int] = ()  # the Values whose numbers it shows
    opens: int = -1  # the view of its contents
    parts: Sequence[int] = ()  # the Values in its card


class Edge(NamedTuple):
    """A line between two items, for one input or many, and how far down its target it ends."""

    source: int
    target: int
    port: float
    inputs: list[Input]


@dataclass(slots=True)
class View:
    """Some items and the edges between them, and their layout."""

    title: str
    parent: "View | None"  # around it; the whole has none
    members: list[int]
    items: list[Item] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    placed: layout.Placed = field(init=False)
    where: dict[int, int] = field(default_factory=dict)  # the item of a card, or its stub


class Views:
    """All views of a folded graph, first the whole graph.

    `names` has the name that is shown for each Value, by default its name in the folded graph. If `deep`, groups and
    neurons have views of their contents, and neurons show the gradients of their weights; if not, there may be no
    gradients to show.
    """

    def __init__(self, folded: Folded, names: Sequence[str] = (), *, deep: bool) -> None:
        self.graph = graph = folded.graph
        self.folded, self.names = folded, names or folded.names
        self.cards = list(folded.cards)
        self.views = [View("", None, list(range(len(self.cards))))]
        self.grad = deep or graph.has_gradients()
        self._deep, self._most = deep, MOST if folded.folds else len(self.cards)
        self._columns = layout.columns([[x.card for x in card.inputs] for card in self.cards])
        self._takers: list[list[tuple[int, Input]]] = [[] for _ in self.cards]
        for i, card in enumerate(self.cards):
            for x in card.inputs:
                self._takers[x.card].append((i, x))
        for view in self.views:  # which grows meanwhile
            self._arrange(view)

    # The contents of a view

    def _arrange(self, view: View) -> None:
        column_of = self._columns.__getitem__
        found = [list(cards) for _, cards in groupby(sorted(view.members, key=column_of), column_of)]
        parts = [self._in_column(cards, alone=len(found) == 1) for cards in found]
        if len(found) > self._most:  # then only the first column and the last are as they are
            runs = [[card for cards in run for card in cards] for run in _runs(found[1:-1], self._most - 2)]
            parts[1:-1] = [[(run, "")] for run in runs]
        for column, groups in enumerate(parts):
            for cards, title in groups:
                view.where.update(dict.fromkeys(cards, len(view.items)))
                is_one = len(cards) == 1
                item = self._card(view, cards[0], column) if is_one else self._group(view, cards, column, title)
                view.items.append(item)
        self._connect(view)
        sizes = tuple(item.shape.outer for item in view.items)
        first = min(item.column for item in view.items)  # -1 if there are stubs on the left
        columns = tuple(item.column - first for item in view.items)
        view.placed = layout.place(sizes, columns, tuple(edge[:3] for edge in view.edges))

    def _in_column(self, cards: list[int], *, alone: bool) -> list[tuple[list[int], str]]:
        """The cards of a column in groups: one card each or, if that is too many, by kind with titles, or in runs.

        Of each kind, a few cards stand alone.
        """
        if len(cards) <= self._most:
            return [([card], "") for card in cards]
        kinds = defaultdict(list)
        for card in cards:
            kinds[self.cards[card].title, len(self.cards[card].inputs)].append(card)
        if len(kinds) > self._most or (alone and len(kinds) == 1):
            return [(run, "") for run in _runs(cards, self._most)]
        few, groups = min(FEW, self._most // len(kinds) - 1), []
        for (title, _), its in kinds.items():
            single = few if len(its) > few + 1 else len(its)
            groups += [([card], "") for card in its[:single]]
            if more := its[single:]:
                many = f"{len(more)}{' more' * bool(single)}"
                groups.append((more, f"{title}: {many}" if title else f"{many} inputs"))
        return groups

    def _group(self, view: View, cards: list[int], column: int, title: str) -> Item:
        """A group with its title; a run tells its operations, or else its leaves, by number as the steps count them."""
        parts = {part for card in cards for part in self.cards[card].parts}
        nodes = [part - self.graph.first for part in parts if not self.graph.is_leaf(part)]
        texts = header("", title)[1][1], f"{len(parts):,} Values"
        if not title:
            texts = "operations" if nodes else "inputs", f"{min(nodes or parts) + 1}–{max(nodes or parts) + 1}"
        opens = self._open(title or " ".join(texts), view, cards) if self._deep else -1
        return Item(cards, column, GROUP, "group", texts, opens=opens)

    def _card(self, view: View, number: int, column: int) -> Item:
        card = self.cards[number]
        weights = [x.weight for x in card.inputs if x.weight is not None]
        weights = weights if len(weights) == len(card.inputs) <= ROWS else []
        bias = [card.bias] if weights and card.bias is not None else []
        name = self.names[card.head]
        lines, texts = header(name, card.title)
        form = shape(
            inputs=len(card.inputs), weights=len(weights), bias=bool(bias), header=lines, labelled=bool(name),
            grad=self.grad and card.head not in self.graph.constants, weight_grads=self._deep,
            stacked=card.stacked,
        )  # fmt: skip
        is_root = card.head == len(self.graph.values) - 1
        kind = "leaf" if not card.title else "root" if is_root else "node"
        can_unfold = self._deep and 2 < len(card.parts) <= MOST and card.head not in self.folded.stacked
        opens = self._unfold(view, number) if can_unfold else -1
        values = [card.head, *weights, *bias]
        return Item([number], column, form, kind, texts, values, opens, card.parts)

    def _open(self, title: str, parent: View, members: list[int]) -> int:
        self.views.append(View(title, parent, members))
        return len(self.views) - 1

    def _unfold(self, parent: View, number: int) -> int:
        """The view of a card that shows each of its Values."""
        card, first = self.cards[number], len(self.cards)
        inner = self.folded.unfolded(card, first)
        self.cards += inner
        self._takers += [[] for _ in inner]
        self._takers[-1] = self._takers[number]  # its head is the last
        own = [[x.card - first for x in card.inputs if x.card >= first] for card in inner]
        self._columns += layout.columns(own)
        return self._open(self.names[card.head] or card.title, parent, list(range(first, len(self.cards))))

    # What is around it

    def _connect(self, view: View) -> None:
        """Set the edges of a view, between its items; those from and to the outside end at stubs."""
        items, members, bundles = view.items, {*view.members}, defaultdict(list)
        last = max(item.column for item in items)
        ins = ((x.card, card, k, x) for card in view.members for k, x in enumerate(self.cards[card].inputs))
        outs = ((card, to, -1, x) for card in view.members for to, x in self._takers[card] if to not in members)
        for source, target, k, x in chain(ins, outs):
            start, end = self._end(view, source, -1), self._end(view, target, last + 1)
            is_one = len(items[start].cards) == len(items[end].cards) == 1
            bundles[start, end, k if is_one else -1].append(x)
        for source, target, k in sorted(bundles, key=lambda ends: ends[2] >= 0):  # bundles of many inputs below
            if source != target:
                inputs, item = bundles[source, target, k], items[target]
                port = item.shape.middle
                if len(inputs) == len(item.cards) == 1 and item.shape.ports:
                    port = item.shape.ports[self.cards[item.cards[0]].inputs.index(inputs[0])]
                view.edges.append(Edge(source, target, port, inputs))

    def _end(self, view: View, card: int, column: int) -> int:
        """The item of a card; for one outside of the view, a stub in this column for an item of the view around."""
        if card not in view.where:
            assert view.parent is not None  # the whole has every card
            seen = view.parent.items[view.parent.where[card]]
            stub = seen._replace(column=column, shape=STUB, kind="stub", texts=(), values=seen.values[:1], parts=())
            if stub not in view.items:
                view.items.append(stub)
            view.where[card] = view.items.index(stub)
        return view.where[card]


def _runs(things: list[Any], most: int) -> list[list[Any]]:
    """Runs of equal length except the last, so that each level of groups has at most `most`, and about equally many."""
    levels = next(n for n in count(1) if most**n >= len(things))
    length = math.ceil(math.pow(len(things), (levels - 1) / levels))
    return [things[start : start + length] for start in range(0, len(things), length)]
