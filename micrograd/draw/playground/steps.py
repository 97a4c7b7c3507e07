"""The graph page of one example: the playground opens it with the numbers of any other example, and of its weights."""

import copy
from typing import Any

from micrograd.draw.graph.drawn import DrawnGraph
from micrograd.draw.graph.page import page
from micrograd.engine import Value
from micrograd.trees import flat

MOST = 1000  # parameters, above which the graph is too large to be read


def steps(model: Any, loss: Any, x: Any, y: Any, names: list[str]) -> dict[str, Any] | None:
    """The page of the loss of an example, and where its leaves are among the page's numbers: None if it has no page.

    `x` and `y` are the inputs and the target of the example, `names` has the name of each parameter.
    """
    if len(names) > MOST:
        return None
    inputs, target = _values(x, "x"), _values(y, "y")
    try:
        model = copy.deepcopy(model)
        parameters = model.parameters()
        for parameter, name in zip(parameters, names, strict=True):
            parameter.data, parameter.grad = float(parameter.data), 0.0
            parameter.label = parameter.label or name
        root = loss(model(inputs), target)
        root.label = root.label or "loss"
        places = {id(value): i for i, value in enumerate(DrawnGraph(root).values)}
        html = page(root)
    except (ArithmeticError, AttributeError, TypeError, ValueError):  # the engine may refuse what the compiler takes
        return None
    leaves = [*parameters, *flat(inputs), *flat(target)]
    return {"html": html, "places": [places.get(id(leaf), -1) for leaf in leaves]}


def _values(example: Any, name: str) -> Any:
    """The numbers in nested lists as Values, which are named by their places."""
    if isinstance(example, (list, tuple)):
        return [_values(part, f"{name}{i}") for i, part in enumerate(example)]
    return Value(float(example), label=name)
