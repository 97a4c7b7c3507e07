"""Drawings of the graph that leads to a Value, as SVG, DOT text and a page; plots of training runs; the playground.

`to_svg`, `save_svg` and `save_html` draw the graph folded, so that a network stays readable, and need no other package;
so does `draw_dot`, which needs the package graphviz. `draw_graph` shows every Value. Plots need matplotlib.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from micrograd.core.errors import shown
from micrograd.draw import dot
from micrograd.draw.dot import draw_graph
from micrograd.draw.graph.drawn import LIMIT
from micrograd.draw.graph.svg import to_svg
from micrograd.draw.training.charts import plot_boundary, plot_history, sparkline
from micrograd.engine import Value
from micrograd.support.files import replace

if TYPE_CHECKING:
    import graphviz  # type: ignore[import-untyped]

__all__ = [
    "draw_dot", "draw_graph", "plot_boundary", "plot_history", "save_html", "save_playground", "save_svg", "sparkline",
    "to_svg",
]  # fmt: skip

SIDES = {"LR": "e", "TB": "s", "RL": "w", "BT": "n"}  # where edges leave a node, for each direction of the drawing


def draw_dot(
    root: Value, format: str = "svg", rankdir: str = "LR", *, folded: bool = True, limit: float | None = None
) -> "graphviz.Digraph":
    """The cards of `to_svg` or, if not `folded`, the drawing of `draw_graph`, as a `graphviz.Digraph`.

    A notebook displays it, `.render("name")` writes it to a file and `.pipe()` returns it as bytes, in any `format`
    that Graphviz's program `dot` knows. On a machine without `dot`, notebooks and `.pipe()` get the SVG of `to_svg`.
    `rankdir` is the direction from operands to results: LR, from left to right, or TB, RL, BT. `limit` is the largest
    number of Values to draw, by default that of `to_svg` or of `draw_graph`.

    Raises TypeError if `root` is not a Value, and ValueError if the graph is beyond the limit, or the format or
    direction is unknown.
    """
    from graphviz import Digraph, ExecutableNotFound

    class Drawing(Digraph):  # type: ignore[misc]
        """A Digraph that notebooks display even on a machine without `dot`."""

        def pipe(self, format: str | None = None, *args: Any, encoding: str | None = None, **options: Any) -> Any:
            try:
                return super().pipe(format, *args, encoding=encoding, **options)
            except ExecutableNotFound:
                if (format or self.format) != "svg":
                    raise
            return svg() if encoding else svg().encode()

        def __repr__(self) -> str:
            return "<a drawing: notebooks show it, and .render('name') writes it to a file>"

    if rankdir not in SIDES:
        raise ValueError(f"unknown rankdir {rankdir!r}: expected one of {', '.join(SIDES)}")
    limit = limit if limit is not None else LIMIT if folded else dot.LIMIT
    svg = partial(to_svg, root, folded=folded, limit=limit)
    return Drawing(
        format=format,
        graph_attr=dot.STYLE["graph"] | {"rankdir": rankdir},
        node_attr=dot.STYLE["node"],
        edge_attr=dot.STYLE["edge"] | {"tailport": SIDES[rankdir]},
        body=dot.cards(root, limit, rankdir) if folded else dot.body(root, limit),
    )


def save_svg(root: Value, path: str | os.PathLike[str], *, limit: float = LIMIT) -> None:
    """Write the drawing of `to_svg` to a file: completely, or not at all.

    Raises what `to_svg` raises, ValueError if the name is that of another kind of file, and OSError if the file cannot
    be written.
    """
    _require_kind(path, ".svg", "; Graphviz draws other formats: draw_dot(root, '{0}').render(outfile='{1}')")
    replace(path, to_svg(root, limit=limit).encode())


def save_html(root: Value, path: str | os.PathLike[str], *, learning_rate: float = 0.1, limit: float = LIMIT) -> None:
    """Write a page that steps through the graph that leads to `root`: one HTML file that works offline.

    It shows the graph folded, as `to_svg` does, and runs forward and then backward, operation by operation. "Take a
    step" moves the weights and biases of neurons against their gradients; without neurons, all leaves other than
    constants. The page has the gradients that `backward()` left, or would leave, and leaves the Values as they are.

    Raises what `save_svg` raises and what `backward()` would raise, TypeError if a number cannot become a float, such
    as an interval, and ValueError if the learning rate is not above 0.
    """
    from micrograd.draw.graph.page import page  # not at the top: it needs the compiler

    _require_kind(path, ".html")
    replace(path, page(root, learning_rate, limit).encode())


def save_playground(
    model: Any, loss: Callable[[Any, Any], Any], xs: Sequence[Any], ys: Sequence[Any], path: str | os.PathLike[str], *,
    optimizer: Any = None, validation: tuple[Sequence[Any], Sequence[Any]] | None = None,
    choices: Mapping[str, Any] | None = None, lesson: Sequence[Mapping[str, Any]] = (),
) -> None:  # fmt: skip
    """Write a page that trains a model in the browser: one HTML file that works offline.

    The model is a Module or another object that has `parameters()` and can be called on an input, with at most 20,000
    parameters; or a dict of such models by name, for the reader to choose from. With `choices`, it is a class or
    function that makes one, and the reader chooses its keyword arguments: for each, give a dict of labels and values,
    or a list of strings. The loss, the inputs `xs`, the targets `ys` and the pair of both for `validation` are as for
    `fit`, with at most 1,000,000 numbers in examples of one shape. The optimizer is an `Optimizer` of the model's
    parameters or a function that makes one from parameters; by default Adam with a learning rate of 0.01. `choices` may
    offer several such functions as `optimizer`. A `lesson` is a list of questions, asked before training: dicts with
    its `text`, the `answers`, what to say `after`, and settings.

    Raises TraceError if the model or the loss cannot be compiled, ValueError for too many parameters or numbers,
    numbers that are not finite, and a lesson that cannot be shown, TypeError for another kind of model or optimizer,
    and what the class or function and `save_svg` raise.
    """
    from micrograd.draw.playground.page import page  # not at the top: it needs the compiler

    _require_kind(path, ".html")
    replace(path, page(model, loss, xs, ys, optimizer, validation, choices, lesson).encode())


def _require_kind(path: str | os.PathLike[str], kind: str, other: str = "") -> None:
    """Raise an error unless this names a file of this kind; `other` says how to draw another kind."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"path is {shown(path)}: expected the name of a file, such as 'drawing{kind}'")
    file = Path(path)
    if file.suffix.lower() not in ("", kind):
        remedy = f"name the file {file.with_suffix(kind).name!r}, not {file.name!r}"
        raise ValueError(f"this writes {kind[1:].upper()}: {remedy}{other.format(file.suffix[1:], file.name)}")
