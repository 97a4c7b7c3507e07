"""The folded drawing as SVG: one picture for light and dark, that can be read without a program to draw it."""

import math
from collections.abc import Iterable
from html import escape
from typing import Any

from micrograd.drawing.fold import Folded, Graph
from micrograd.drawing.layout import Placed
from micrograd.drawing.shape import SIZES
from micrograd.drawing.text import CONTROLS, FONT, exact, fits_any_font, label, number, plain, width
from micrograd.drawing.views import Edge, Item, View, Views, curve
from micrograd.engine import Value

LOOK = {
    "ink": ("#1f2328", "#e6edf3"),
    "soft": ("#57606a", "#9da7b3"),
    "line": ("#8c959f", "#6e7681"),
    "node": ("#ffffff", "#161b22"),
    "leaf": ("#eef6ff", "#12233a"),
    "root": ("#eafbee", "#10281a"),
    "plus": ("#0550ae", "#79c0ff"),
    "minus": ("#9a3c00", "#ffa657"),
    "up": ("#2f74d0", "#4f8fe6"),
    "down": ("#c05a10", "#d9772b"),
}
"""The colours, in light and in dark. What is positive is blue and what is negative orange, and dashed, or has a −."""


DARK = "@media(prefers-color-scheme:dark)"


def style(scope: str) -> str:
    """The fonts and colours as CSS, for what is in the scope alone, as a drawing may be a part of a larger page.

    The colours are written out, light ones first: there are programs that show SVG and know no variables.
    """
    sizes = "".join(f"{scope} .{look}{{font-size:{size:g}px}}" for look, size in SIZES.items())
    words = f"{scope} text{{font-family:{FONT};font-variant-numeric:tabular-nums;white-space:pre}}{sizes}"
    lines = f"{scope} .edge{{fill:none}}{scope} .edge.down{{stroke-dasharray:4 2.5}}{scope} .rule{{opacity:.5}}"
    return f"{words}{lines}{_colours(scope, 0)}{DARK}{{{_colours(scope, 1)}}}"


def _colours(scope: str, theme: int) -> str:
    look = {name: colours[theme] for name, colours in LOOK.items()}
    fills = {"text": "ink", ".word": "soft", ".title": "soft", ".plus": "plus", ".minus": "minus", ".box": "node"}
    fills |= {".leaf .box": "leaf", ".root .box": "root"}
    strokes = {".box": "line", ".rule": "line", ".edge": "line", ".edge.up": "up", ".edge.down": "down"}
    return "".join(
        f"{scope} {part}{{{attribute}:{look[name]}}}"
        for attribute, parts in (("fill", fills), ("stroke", strokes))
        for part, name in parts.items()
    )


def variables() -> str:
    """The colours as variables of CSS, for the page around a drawing."""
    light, dark = ("".join(f"--{name}:{colours[theme]};" for name, colours in LOOK.items()) for theme in (0, 1))
    return f":root{{{light}}}{DARK}{{:root{{{dark}}}}}"


def draw(root: Value, limit: float) -> str:
    """The drawing of the graph that leads to `root`, folded."""
    graph = Graph(root)
    if len(graph.values) > limit:
        raise ValueError(
            f"the graph has {len(graph.values)} nodes: draw a smaller part of it, or pass limit={len(graph.values)}"
        )
    views = Views(Folded(graph), grad=graph.has_gradients(), deep=False)
    view, placed = views.views[0], views.places[0]
    size = f"{placed.width:g}", f"{placed.height:g}"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{size[0]}" height="{size[1]}" viewBox="0 0 {" ".join(size)}" '
        f'class="micrograd" role="img"><title>{_text(summary(graph))}</title>'
    )
    body = "".join([*_edges(views, view, placed), *_items(views, view, placed)])
    return f"{head}<style>{style('.micrograd')}</style>\n{body}</svg>\n"


def summary(graph: Graph) -> str:
    """What a drawing is of, in a few words."""
    name = label(graph.values[-1]) or "a Value"
    return (
        f"The graph that leads to {name}: {len(graph.values):,} Values, {len(graph.values) - graph.first:,} operations"
    )


def _edges(views: Views, view: View, placed: Placed) -> Iterable[str]:
    weights = [_weight(views, edge) for edge in view.edges]
    largest = max(map(abs, filter(math.isfinite, weights)), default=0.0)
    for edge, weight, passes in zip(view.edges, weights, placed.passes, strict=True):
        (x, y), shape = placed.corners[edge.source], view.items[edge.source].shape
        left, top = placed.corners[edge.target]
        path = curve((x + shape.width, y + shape.height / 2), passes, (left, top + edge.port))
        kind = "" if math.isnan(weight) else " down" if weight < 0 else " up"
        thickness = 0.8 + 2 * abs(weight / largest) if largest and math.isfinite(weight) else 1.2
        yield (
            f'<path class="edge{kind}" stroke-width="{3 if len(edge.inputs) > 1 else thickness:.3g}" '
            f'd="{path}m-4-2.5 4 2.5-4 2.5"/>\n'
        )


def _weight(views: Views, edge: Edge) -> float:
    """The number that what runs along an edge is multiplied by; NaN if there is none."""
    weights = [x.weight for x in edge.inputs]
    if len(weights) != 1 or weights[0] is None:
        return math.nan
    try:
        return float(plain(views.graph.values[weights[0]].data))
    except OverflowError:
        return math.nan


def _items(views: Views, view: View, placed: Placed) -> Iterable[str]:
    for item, (x, y) in zip(view.items, placed.corners, strict=True):
        shape = item.shape
        yield f'<g class="{item.kind}" transform="translate({x:g} {y:g})"><title>{_text(_tip(views, item))}</title>'
        for shift in (6, 3) if shape.stacked else ():
            yield _box(shape.width, shape.height, shift)
        yield _box(shape.width, shape.height)
        if shape.divider:
            yield f'<path class="rule" d="M{shape.divider:g} 5v{shape.height - 10:g}"/>'
        for slot in shape.slots:
            look = slot.look
            if slot.kind == "text":
                text = item.texts[slot.of]
            elif slot.of < 0:
                text = slot.kind
            else:
                value = views.graph.values[item.values[slot.of]]
                x_ = value.data if slot.kind == "data" else value.grad
                text = number(x_, slot.room)
                if look in ("weight", "grad"):
                    look += " minus" if text.startswith("−") else " plus"
            yield _words(text, slot.x, slot.y, slot.anchor, look)
        yield "</g>\n"


def _box(w: float, h: float, shift: float = 0) -> str:
    return f'<rect class="box" x="{shift:g}" y="{shift:g}" width="{w:g}" height="{h:g}" rx="6"/>'


def _words(text: str, x: float, y: float, anchor: str, look: str) -> str:
    end = ' text-anchor="end"' * (anchor == "end")
    held = ""
    if text and not fits_any_font(text):
        held = f' textLength="{width(text) * SIZES[look.split()[0]]:.4g}" lengthAdjust="spacingAndGlyphs"'
    return f'<text class="{look}" x="{x:g}" y="{y:g}"{end}{held}>{_text(text)}</text>'


def _tip(views: Views, item: Item) -> str:
    """What a card says when the pointer rests on it: each of its Values, in full."""
    if not item.values:
        return ", ".join(item.texts)
    card = views.cards[item.cards[0]]
    return "\n".join(_told(views.graph.values[i]) for i in reversed(card.parts))


def _told(value: Value) -> str:
    names = [str(name) for name in (value.label, value._op if value._prev else "") if name != ""]
    return f"{' = '.join(names) or 'leaf'}: data {exact(value.data)}, grad {exact(value.grad)}"


def _text(text: Any) -> str:
    """Any text as a part of XML."""
    return escape(str(text).translate(CONTROLS | {10: "\n"}))
