"""The page that steps through a graph: its Values, operations and views as data for the scripts beside this file."""

import json
import math
import re
from typing import Any

from micrograd.compiler.targets.javascript import LIBRARY
from micrograd.compiler.targets.spelling import used
from micrograd.draw import shell
from micrograd.draw.graph import formulas
from micrograd.draw.graph.card import Shape
from micrograd.draw.graph.drawn import LIMIT, SIGNS, DrawnGraph
from micrograd.draw.graph.fold import Folded, all_names
from micrograd.draw.graph.layout import Placed
from micrograd.draw.graph.svg import STYLE, counted
from micrograd.draw.graph.views import View, Views
from micrograd.draw.text import label, number, real
from micrograd.engine import Value
from micrograd.scalar import innermost, zero
from micrograd.support.validation import positive

# The scripts, each after the ones that it needs: what the page computes, says, shows, and lets the reader do.
PARTS = ("parts", "numbers", "words", "steps", "examples", "views", "drawing", "changes", "details", "learning", "page")


def page(root: Value, learning_rate: float = 0.1, limit: float = LIMIT) -> str:
    """The page of the graph that leads to `root`; the reader's steps begin with the learning rate."""
    learning_rate = positive("learning_rate", learning_rate)
    folded = Folded(root, limit)
    graph, names = folded.graph, all_names(folded)
    numbers = [_number(value.data) for value in graph.values]
    numbered = [name if re.fullmatch(r"v\d+", name) else given for name, given in zip(names, folded.names, strict=True)]
    views = Views(folded, numbered, deep=True)
    kinds, operations = formulas.operations(graph.values[graph.first :])
    shapes, places = dict[Shape, int](), dict[Placed, int]()
    code = f"const FUNCTIONS = [{','.join(code for code, _ in operations)}];"
    data = {
        "first": graph.first,
        "data": numbers,
        "operands": graph.operands[graph.first :],
        "constants": sorted(graph.constants),
        "exact": {i: number(value) for i, value in enumerate(graph.values) if type(innermost(value)) is not float},
        "ops": kinds,
        "operations": [texts for _, texts in operations],
        "signs": SIGNS,
        **_gradients(graph),
        "names": names,
        "trained": _trained(folded),
        "stacks": [stack.members for stack in folded.stacks],
        "views": [_view(view, places, shapes) for view in views.views],
        "places": list(places),
        "shapes": list(shapes),
    }
    content = json.dumps(data, separators=(",", ":"), allow_nan=False, check_circular=False)
    content = content.replace("<", "\\u003c").replace("&", "\\u0026")  # so that no label ends the script element
    return shell.page(
        __package__,
        title=f"The graph of {label(root) or 'a Value'}",
        summary=f"{counted(graph)}. Play computes each number, and then, backward, each gradient.",
        data=f'<script type="application/json" id="graph">{content}</script>',
        style=shell.themed("#drawing", STYLE),
        code=used(LIBRARY, code) + code,
        scripts=PARTS,
        learning_rate=f"{learning_rate}".removesuffix(".0"),
    )


def _number(x: Any) -> float | str:
    """A number for JSON: the nearest float, or an infinity or NaN as a string. Raises TypeError for anything else."""
    if math.isnan(found := real(x)) and (x := innermost(x)) == x:
        raise TypeError(f"a page computes with floats, and {number(x)} cannot become one: draw it with save_svg")
    return found if math.isfinite(found) else str(found)


def _trained(folded: Folded) -> list[int]:
    """The leaves that training would move: weights, biases and rows of tables; or all, if there are no neurons."""
    graph = folded.graph
    leaves = dict.fromkeys(i for i in range(graph.first) if i not in graph.constants)
    cards = (i for card in folded.cards for i in (*[x.weight for x in card.inputs], card.bias))
    taken = (i for k, op in enumerate(graph.operations) if op == "take" for i in graph.operands[k])
    weights, rows = (dict.fromkeys(i for i in found if i in leaves) for found in (cards, taken))
    return list(weights | rows if weights else leaves)


def _gradients(graph: DrawnGraph) -> dict[str, Any]:
    """The gradients that `backward()` has left or would leave, and what the user's own operations pass on."""
    values = graph.values
    left = [value.grad for value in values]
    was_called = graph.has_gradients()
    try:
        if not was_called:
            values[-1].backward()
        found = [value.grad for value in values]
        own = [i for i in range(graph.first, len(values)) if not graph.operations[i]]  # the page cannot recompute these
        passed = {i: [_number(x) for x in _passed(values[i], found[i])] for i in own}
    finally:
        for value, grad in zip(values, left, strict=True):
            value.grad = grad
    return {"called": was_called, "grad": [_number(grad) for grad in found], "passed": passed}


def _passed(value: Value, grad: Any) -> list[Any]:
    """The gradient that each operand gets; if an operand is there twice, the first gets all of it."""
    for operand in value._prev:
        operand.grad = zero(operand.data)
    value._backward(grad)
    return [0.0 if operand in value._prev[:i] else operand.grad for i, operand in enumerate(value._prev)]


def _view(view: View, places: dict[Placed, int], shapes: dict[Shape, int]) -> list[Any]:
    """A view for JSON, with the number of its layout. An edge that stands for one input has that input's fields."""
    items = [[shapes.setdefault(item.shape, len(shapes)), *item[3:]] for item in view.items]
    edges = [[*edge[:3], len(edge.inputs), *(edge.inputs[0] if len(edge.inputs) == 1 else ())] for edge in view.edges]
    return [view.title, places.setdefault(view.placed, len(places)), items, edges]
