"""Displays in a notebook: a Value, a Module, a History and a running training. No display ever raises an error."""

import base64
import sys
from collections.abc import Callable
from contextlib import suppress
from html import escape
from typing import Any

from micrograd.core.display import Bundle
from micrograd.draw.graph.svg import to_svg
from micrograd.draw.network import at_zero
from micrograd.draw.shell import standalone
from micrograd.draw.training.charts import curves, sparkline
from micrograd.engine import Value
from micrograd.nn import Module
from micrograd.support.validation import counted
from micrograd.training.history import History

MOST = 20_000  # Values in an automatic display
_shown_live: list[tuple[int, Any]] = []  # the id of the latest History shown live, and the cell that showed it


def bundle(thing: Any) -> Bundle:
    """The display of a Value, a Module or a History: its text, and its picture if it has one."""
    text, picture = object.__repr__(thing), ""
    with suppress(Exception):
        text = repr(thing)
        root = thing
        if isinstance(thing, Module):
            n = len([*thing.parameters()])
            text += f", {counted(n, 'parameter')}" * ("parameter" not in text)
            root = at_zero(thing) if n <= MOST else None
        if isinstance(root, Value) and root._prev:  # a leaf has no graph
            picture = to_svg(root, limit=MOST)
        elif isinstance(thing, History):
            text = thing.summary()
            if thing.losses and _shown_live != [(id(thing), _cell())]:  # otherwise this cell has shown the curves
                picture = standalone(curves(thing, text, len(thing.losses)))
                text += f"\n{sparkline(thing.losses)}"
    return _pictured(text, picture)


def _pictured(text: str, picture: str) -> Bundle:
    """The display of a text with its picture, if it has one: as SVG, and as an image in HTML.

    JupyterLab shows no SVG in a notebook that it does not trust, but it does show the image. Other programs insert the
    SVG into their page, where each picture's style would apply to the others too.
    """
    if not picture:
        return {"text/plain": text}
    image = base64.b64encode(picture.encode()).decode()
    words = escape(text.split("\n")[0])
    html = f'<img alt="{words}" src="data:image/svg+xml;base64,{image}">'
    return {"text/plain": text, "image/svg+xml": picture, "text/html": html}


def _cell() -> Any:
    """The number of the cell that the notebook is running; None outside notebooks."""
    shell: Any = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell.execution_count if getattr(shell, "kernel", None) is not None else None


def live(history: History, epochs: int) -> Callable[[str], None] | None:
    """A function that shows a line of text and the curves so far, always in the same place; None outside notebooks."""
    cell, handle = _cell(), None
    if cell is None:
        return None

    def show(line: str) -> None:
        nonlocal handle
        with suppress(Exception):
            bundle = _pictured(line, standalone(curves(history, line, epochs)))
            if handle is None:
                handle = sys.modules["IPython"].display.display(bundle, raw=True, display_id=True)
                _shown_live[:] = [(id(history), cell)]
            else:
                handle.update(bundle, raw=True)

    return show
