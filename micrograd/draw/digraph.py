"""A `graphviz.Digraph` that Graphviz's program `dot` draws or, on a machine without it, `to_svg`."""

import os
from pathlib import Path
from typing import Any

from graphviz import Digraph, ExecutableNotFound  # type: ignore[import-untyped]

from micrograd.draw import dot
from micrograd.draw.graph.svg import to_svg
from micrograd.engine import Value

Name = str | os.PathLike[str]  # of a file
SIDES = {"LR": "e", "TB": "s", "RL": "w", "BT": "n"}  # where edges leave a node, for each direction of the drawing


def digraph(root: Value, format: str, rankdir: str, limit: float) -> Digraph:
    """The Digraph of `viz.draw_dot`."""
    if rankdir not in SIDES:
        raise ValueError(f"unknown rankdir {rankdir!r}: expected one of {', '.join(SIDES)}")
    drawing = Drawing(
        format=format,
        graph_attr=dot.STYLE["graph"] | {"rankdir": rankdir},
        node_attr=dot.STYLE["node"],
        edge_attr=dot.STYLE["edge"] | {"tailport": SIDES[rankdir]},
        body=dot.body(root, limit),
    )
    drawing.root = root
    return drawing


class Drawing(Digraph):  # type: ignore[misc]
    """The Digraph of the graph that leads to `root`."""

    root: Value | None = None  # which a copy of the drawing does not have

    def pipe(self, format: str | None = None, *args: Any, encoding: str | None = None, **options: Any) -> Any:
        """The drawing as bytes, or as text in the given encoding."""
        try:
            return super().pipe(format, *args, encoding=encoding, **options)
        except ExecutableNotFound as error:
            svg = self._svg(format, error)
            return svg if encoding else svg.encode()

    def render(self, *args: Any, outfile: Name | None = None, **options: Any) -> str:
        """Write the DOT text to a file, and the drawing beside it or to `outfile`; return the drawing's path."""
        try:
            path: str = super().render(*args, outfile=outfile, **options)
        except ExecutableNotFound as error:  # after the DOT text is written
            path = os.fspath(outfile or f"{self.filepath}.svg")
            svg = self._svg(Path(path).suffix[1:] if outfile else options.get("format"), error)
            Path(path).write_text(svg, encoding="utf-8")
        return path

    def _svg(self, format: str | None, error: ExecutableNotFound) -> str:
        """The SVG of `to_svg`; raises the error if that is not the format."""
        if self.root is None or (format or self.format) != "svg":
            raise error
        return to_svg(self.root)
