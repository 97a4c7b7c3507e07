"""The shape of a card: its size and the places of its texts, for both the SVG and the page."""

from functools import cache
from typing import NamedTuple

from micrograd.draw.text import fitted, width

PAD = 7.0
MAIN = 106.0  # the width of a card
COLUMN = 72.0  # the width of the column of weights on its left
GRADS = 52.0  # the width of the column of their gradients beside it
ROW = 13.0
SIZES = {"label": 11.0, "title": 11.0, "data": 13.0, "word": 10.0, "grad": 11.0, "weight": 10.0}
PORTS = 16  # the most inputs that have ports of their own; more edges end at one point
ROWS = 8  # the most weights in a column; cards with more have none


class Slot(NamedTuple):
    """The place of one text: a title of the card, or the data or grad of one of its Values."""

    x: float
    y: float
    anchor: str
    look: str
    kind: str  # "text", "data" or "grad"; or the word itself
    of: int = -1  # the index in the card's texts or values; -1 for a word
    room: int = 0  # the most characters of a number, its minus aside


class Shape(NamedTuple):
    """The size of a card, the heights at which its edges end, and its slots."""

    width: float
    height: float
    ports: tuple[float, ...]
    slots: tuple[Slot, ...]
    divider: float  # the right end of the column of weights; 0 if there is none
    stacked: bool

    @property
    def outer(self) -> tuple[float, float]:
        """The size including the cards behind it."""
        return self.width + 6 * self.stacked, self.height + 6 * self.stacked

    @property
    def middle(self) -> float:
        """The height at which edges leave, and at which one ends that has no port."""
        return self.height / 2 + 3 * self.stacked


STUB = Shape(0.0, 10.0, (), (), 0.0, False)  # the end of an edge that leads out of a view
GROUP_SLOTS = Slot(PAD, 15, "start", "title", "text", 0), Slot(PAD, 31, "start", "word", "text", 1)
GROUP = Shape(MAIN, 40.0, (20.0,), GROUP_SLOTS, 0.0, True)  # a card for a group: a title and a count


@cache
def shape(
    *, inputs: int, weights: int, bias: bool, header: int, labelled: bool, grad: bool, weight_grads: bool, stacked: bool
) -> Shape:
    """The shape of a card; its first value is its result, the next are its weights and bias."""
    rows = weights + bias
    heads = weight_grads and rows > 0
    left = (COLUMN + GRADS * heads) if rows else 0.0
    slots: list[Slot] = []
    y = 15.0 + 14 * (header - 1) if header else 2.0
    if labelled:
        slots.append(Slot(left + PAD, 15, "start", "label", "text", 0))
    if header:
        x, anchor = (left + MAIN - PAD, "end") if labelled and header == 1 else (left + PAD, "start")
        slots.append(Slot(x, y, anchor, "title", "text", 1))
    y += 17
    slots.append(Slot(left + PAD, y, "start", "data", "data", 0, 9))
    if grad:
        y += 15
        slots += Slot(left + PAD, y, "start", "word", "grad"), Slot(left + PAD + 32, y, "start", "grad", "grad", 0, 8)
    height = max(y + 8, (rows + heads) * ROW + 10)
    top = (height - (rows - heads) * ROW) / 2
    if heads:
        slots.append(Slot(left - 6, top - 3, "end", "word", "grad"))
    for i in range(rows):
        y = top + ROW * i + 10
        slots.append(Slot(COLUMN - 4, y, "end", "weight", "data", i + 1, 6))
        if heads:
            slots.append(Slot(left - 6, y, "end", "weight", "grad", i + 1, 6))
        slots.append(Slot(5, y, "start", "word", "b" if i == weights else f"w{i}"))
    if weights:
        ports = tuple(top + ROW * i + ROW / 2 for i in range(weights))
    else:
        ports = tuple(height * (k + 1) / (inputs + 1) for k in range(inputs if inputs <= PORTS else 0))
    return Shape(left + MAIN, height, ports, tuple(slots), left, stacked)


def header(label: str, title: str) -> tuple[int, tuple[str, str]]:
    """The number of lines that label and operation take, and both cut to the width of a card."""
    room = (MAIN - 2 * PAD) / SIZES["title"]
    shorter = fitted(label[::-1], room)[::-1] if "." in label else fitted(label, room)  # the end of a path says most
    title = fitted(title, room)
    is_double = label and title and width(shorter) + 0.5 + width(title) > room
    return bool(label or title) + bool(is_double), (shorter, title)
