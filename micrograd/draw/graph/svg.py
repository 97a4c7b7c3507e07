"""The folded drawing as SVG: one picture for light and dark, rendered by any browser."""

import math
from collections.abc import Iterable
from html import escape
from typing import Any

from micrograd.draw.graph.card import SIZES, Slot
from micrograd.draw.graph.drawn import LIMIT, DrawnGraph
from micrograd.draw.graph.fold import Folded
from micrograd.draw.graph.views import Edge, Item, Views
from micrograd.draw.shell import read, themed
from micrograd.draw.text import CONTROLS, label, number, real
from micrograd.engine import Value
from micrograd.support import validation

SIZE_RULES = "".join(f".{look}{{font-size:{size:g}px}}\n" for look, size in SIZES.items())
TIP = 40  # the most Values in a tooltip
STYLE = SIZE_RULES + read(__package__, "cards.css")  # the rules of cards, for colours that are variables


def to_svg(root: Value, *, folded: bool = True, limit: float = LIMIT) -> str:
    """The graph that leads to `root`, folded, as SVG: the same from run to run, whatever is installed.

    A neuron (dot, bias and activation) is one card, with the weights on its edges: blue if they are positive, orange
    and dashed if negative, thicker if larger. Of the examples of a mean or sum, the first is drawn. If there are too
    many cards to read, some are merged into one. A tooltip on each card lists its Values. Gradients are shown once
    `backward()` has been called. With `folded=False`, every Value is a card. `limit` is the most Values to draw.

    Raises TypeError if `root` is not a Value, and ValueError if the graph is beyond the limit.
    """
    views = Views(Folded(root, limit, folds=folded), deep=False)
    graph, (*_, width, height) = views.graph, views.views[0].placed
    size = f'width="{width:g}" height="{height:g}" viewBox="0 0 {width:g} {height:g}"'
    title = _escaped(f"The graph that leads to {label(root) or 'a Value'}: {counted(graph)}")
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} class="micrograd" role="img"><title>{title}</title>'
    return f"{head}<style>{themed('.micrograd', STYLE)}</style>\n{''.join([*_edges(views), *_items(views)])}</svg>\n"


def counted(graph: DrawnGraph) -> str:
    """How much is in a graph."""
    n = len(graph.values)
    return f"{validation.counted(n, 'Value')}, {validation.counted(n - graph.first, 'operation')}"


def lines(views: Views) -> Iterable[tuple[Edge, str, str]]:
    """Each edge, with its kind, "up" for a weight above 0, "down" for one below, else "", and its thickness."""
    edges = views.views[0].edges
    leaves = [edge.inputs[0].weight if len(edge.inputs) == 1 else None for edge in edges]
    weights = [math.nan if leaf is None else real(views.graph.values[leaf]) for leaf in leaves]
    largest = max(map(abs, filter(math.isfinite, weights)), default=0.0)
    for edge, weight in zip(edges, weights, strict=True):
        thickness = 0.8 + 2 * abs(weight / largest) if largest and math.isfinite(weight) else 1.2
        kind = "" if math.isnan(weight) else "down" if weight < 0 else "up"
        yield edge, kind, f"{2 if len(edge.inputs) > 1 else thickness:.3g}"


def _edges(views: Views) -> Iterable[str]:
    view, placed = views.views[0], views.views[0].placed
    for (edge, kind, thickness), passes in zip(lines(views), placed.passes, strict=True):
        (x, y), shape = placed.corners[edge.source], view.items[edge.source].shape
        x, y = x + shape.width, y + shape.middle
        end, top = placed.corners[edge.target]
        path = f"M{x:.0f} {y:.0f}"
        for left, right, level in [*passes, (end, end, top + edge.port)]:  # level where it passes cards and at its ends
            middle = (x + left) / 2
            path += f"C{middle:.0f} {y:.0f} {middle:.0f} {level:.0f} {left:.0f} {level:.0f}"
            if right > left:
                path += f"H{right:.0f}"
            x, y = right, level
        look = f"edge {kind}".rstrip()
        yield f'<path class="{look}" stroke-width="{thickness}" d="{path}m-4-2.5 4 2.5-4 2.5"/>\n'


def _items(views: Views) -> Iterable[str]:
    view = views.views[0]
    for item, (x, y) in zip(view.items, view.placed.corners, strict=True):
        shape = item.shape
        yield f'<g class="{item.kind}" transform="translate({x:g} {y:g})"><title>{_escaped(tip(views, item))}</title>'
        for shift in (6, 3, 0) if shape.stacked else (0,):
            size = f'width="{shape.width:g}" height="{shape.height:g}"'
            yield f'<rect class="box" x="{shift}" y="{shift}" {size} rx="6"/>'
        if shape.divider:
            yield f'<path class="rule" d="M{shape.divider:g} 5v{shape.height - 10:g}"/>'
        for slot in shape.slots:
            text, sign = written(views, item, slot)
            look = f"{slot.look} {sign}".rstrip()
            end = ' text-anchor="end"' * (slot.anchor == "end")
            yield f'<text class="{look}" x="{slot.x:g}" y="{slot.y:g}"{end}>{_escaped(text)}</text>'
        yield "</g>\n"


def written(views: Views, item: Item, slot: Slot) -> tuple[str, str]:
    """What a card says in a slot, and "plus" or "minus" for the sign of a weight or a gradient; "" for 0."""
    if slot.kind == "text":
        return item.texts[slot.of], ""
    if slot.of < 0:
        return slot.kind, ""
    value = views.graph.values[item.values[slot.of]]
    text = number(value.data if slot.kind == "data" else value.grad, slot.room)
    sign = "" if text in ("0", "nan") else "minus" if text.startswith("−") else "plus"
    return text, sign * (slot.look in ("weight", "grad"))


def tip(views: Views, item: Item) -> str:
    """The tooltip of a card: its Values, in full, the last first; of many, the last ones."""
    if not item.values:
        return ", ".join(item.texts)
    lines = []
    for i in item.parts[: -TIP - 1 : -1]:
        value = views.graph.values[i]
        names = [str(name) for name in (value.label or views.names[i], views.graph.title(i)) if name != ""]
        grad = f", grad {number(value.grad)}" if views.grad and i not in views.graph.constants else ""
        lines.append(f"{' = '.join(names) or 'leaf'}: data {number(value.data)}{grad}")
    hidden = len(item.parts) - len(lines)
    return "\n".join(lines + [f"and {hidden} more"] * (hidden > 0))


def _escaped(text: Any) -> str:
    """Any text as a part of XML."""
    return escape(str(text).translate(CONTROLS | {10: "\n"}))
