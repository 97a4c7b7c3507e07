"""The page: a graph, its views and its operations as one HTML file that steps through it and needs nothing else."""

import json
import math
import re
from html import escape
from importlib.resources import files
from typing import Any

from micrograd.compiler.stored import uncollected
from micrograd.drawing import operations
from micrograd.drawing.fold import Folded, Graph, maker
from micrograd.drawing.shape import Shape
from micrograd.drawing.svg import style, summary, variables
from micrograd.drawing.text import exact, label, plain
from micrograd.drawing.views import Edge, Item, View, Views
from micrograd.engine import Value
from micrograd.scalar import zero

POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"


@uncollected()
def write(root: Value) -> str:
    """The page of the graph that leads to `root`."""
    graph = Graph(root)
    views = Views(Folded(graph), grad=True, deep=True)
    made, functions = _operations(graph)
    shapes: dict[Shape, int] = {}
    data = {
        "first": graph.first,
        **_values(graph),
        **made,
        **_gradients(graph),
        "stacks": [[stack.node, stack.members] for stack in views.folded.stacks],
        "views": [_view(views, view, shapes) for view in views.views],
        "places": views.places,
        "shapes": [_shape(shape) for shape in shapes],
    }
    name = label(root) or "a Value"
    script, look, body = (_part(kind) for kind in ("js", "css", "html"))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f'<title>The graph of {escape(name)}</title>\n<link rel="icon" href="data:,">\n'
        f"<style>{variables()}{style('#drawing')}\n{look}</style></head>\n"
        f"<body><header><h1>The graph of {escape(name)}</h1><p>{escape(summary(graph))}.</p></header>\n"
        f"{body}"
        f'<script type="application/json" id="graph">{_json(data)}</script>\n'
        f"<script>\nconst FUNCTIONS = [{','.join(functions)}];\n{script}</script></body></html>\n"
    )


def _part(kind: str) -> str:
    """A part of the page that is the same for all graphs, without indentation."""
    text = (files("micrograd.drawing") / f"page.{kind}").read_text(encoding="utf-8")
    return re.sub(r"\n\s+", "\n", text)


def _json(data: Any) -> str:
    """As JSON that no label can end, in a script of HTML."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False, check_circular=False)
    return text.replace("<", "\\u003c").replace("&", "\\u0026")


def _number(x: Any) -> float | str:
    """A number as JSON has it: an infinity or NaN as a string, what is no float as the nearest."""
    try:
        x = float(plain(x))
    except OverflowError:
        x = math.copysign(math.inf, plain(x) > 0 or -1)
    except (TypeError, ValueError):
        x = math.nan
    return x if math.isfinite(x) else str(x)


def _values(graph: Graph) -> dict[str, Any]:
    """The Values' numbers, operands, labels, and the numbers that are no floats as text."""
    return {
        "data": [_number(value.data) for value in graph.values],
        "operands": graph.operands[graph.first :],
        "labels": {i: label(value) for i, value in enumerate(graph.values) if value.label != ""},
        "constants": [i for i in range(graph.first) if graph.is_constant(i)],
        "lines": {i: value.line for i, value in enumerate(graph.values) if hasattr(value, "line")},
        "exact": {i: exact(value.data) for i, value in enumerate(graph.values) if type(plain(value.data)) is not float},
    }


def _operations(graph: Graph) -> tuple[dict[str, Any], list[str]]:
    """What made each Value, and each such operation once: its name and formulas, and its functions in JavaScript."""
    known: dict[tuple[Any, ...], int] = {}
    ops, shown, functions = [], [], []
    for value in graph.values[graph.first :]:
        key = operations.key(value)
        if key not in known:
            known[key] = len(known)
            operation = operations.operation(value)
            shown.append([str(value._op), *(operation[1:] if operation else ("", []))])
            functions.append(operation.code if operation else "null")
        ops.append(known[key])
    return {"ops": ops, "operations": shown}, functions


def _gradients(graph: Graph) -> dict[str, Any]:
    """The gradients that `backward()` left, or would: and what of each comes from outside of the graph.

    That is the 1 that the root begins with, and what was in the leaves before. Of operations that the page does not
    know, what each operand gets is told, too.
    """
    values = graph.values
    left = [value.grad for value in values]
    was_called = any(plain(grad) != 0 for grad in left[graph.first :]) or graph.first == len(values)
    told: dict[int, list[Any]] = {}
    try:
        for value in values:
            value.grad = zero(value.data)
        if not was_called:
            values[-1].grad = values[-1].grad + 1
        for i in range(len(values) - 1, graph.first - 1, -1):
            grad = left[i] if was_called else values[i].grad
            if not maker(values[i]):
                told[i] = _passed(values[i], grad)
            values[i]._backward(grad)  # type: ignore[misc]  # None is met below
        sums = [value.grad for value in values]
    except Exception as error:
        return {"failure": f"{type(error).__name__}: {error}", "grad": [0] * len(values), "outside": {}, "told": {}}
    finally:
        for value, grad in zip(values, left, strict=True):
            value.grad = grad
    if was_called:
        outside = {i: _rest(grad, total) for i, (grad, total) in enumerate(zip(left, sums, strict=True))}
    else:
        outside = {i: _number(left[i]) for i in range(graph.first)} | {len(values) - 1: 1.0}
        left = [plain(grad) + plain(left[i]) if i < graph.first else grad for i, grad in enumerate(sums)]
    return {
        "called": was_called,
        "grad": [_number(grad) for grad in left],
        "outside": {i: x for i, x in outside.items() if x != 0},
        "told": {i: [_number(x) for x in passed] for i, passed in told.items()},
    }


def _rest(grad: Any, total: Any) -> float | str:
    """What a gradient has beyond the sum of what came from within the graph, but for rounding."""
    grad, total = _number(grad), _number(total)
    if isinstance(grad, str) or isinstance(total, str):
        return 0.0
    return grad - total if abs(grad - total) > 1e-9 * max(abs(grad), abs(total)) else 0.0


def _passed(value: Value, grad: Any) -> list[Any]:
    """What each operand gets of a gradient; of an operand that is there twice, the first."""
    before = [operand.grad for operand in value._prev]
    for operand in value._prev:
        operand.grad = zero(operand.data)
    value._backward(grad)  # type: ignore[misc]
    passed = [0.0 if operand in value._prev[:i] else operand.grad for i, operand in enumerate(value._prev)]
    for operand, earlier in zip(value._prev, before, strict=True):
        operand.grad = earlier
    return passed


# Views


def _view(views: Views, view: View, shapes: dict[Shape, int]) -> list[Any]:
    items = [_item(views, item, shapes) for item in view.items]
    edges = [_edge(edge) for edge in view.edges]
    return [view.title, view.place, items, edges]


def _item(views: Views, item: Item, shapes: dict[Shape, int]) -> list[Any]:
    card = views.cards[item.cards[0]] if len(item.cards) == 1 else None
    more = [part for part in card.parts if part not in item.values] if card else []
    number = shapes.setdefault(item.shape, len(shapes))
    stacks = card.stacks if card else ()
    return [
        number,
        item.kind,
        item.texts,
        item.values,
        more,
        item.opens,
        int(item.is_stub),
        stacks,
    ]


def _edge(edge: Edge) -> list[Any]:
    if len(edge.inputs) > 1:
        return [edge.source, edge.target, edge.port, len(edge.inputs)]
    x = edge.inputs[0]
    weight = -1 if x.weight is None else x.weight
    return [edge.source, edge.target, edge.port, 1, x.source, weight, x.user, x.place]


def _shape(shape: Shape) -> list[Any]:
    return [shape.width, shape.height, shape.divider, int(shape.stacked), shape.slots]
