"""Displays in a notebook, for a Value, a Module, a History and a running training. No display ever raises."""

import base64
import sys
from collections.abc import Callable
from contextlib import suppress
from html import escape
from typing import Any

from micrograd.display import Bundle
from micrograd.draw.graph.svg import to_svg
from micrograd.draw.theme import standalone
from micrograd.draw.training.charts import curves, summary
from micrograd.draw.training.network import network
from micrograd.engine import Value
from micrograd.nn import Module
from micrograd.training.history import History

MAX_VALUES, MAX_PARAMETERS = 20_000, 20_000  # in a picture that nobody asked for


def bundle(thing: Any) -> Bundle:
    """The display of a Value, a Module or a History: its text, and its picture if it has one."""
    bundle = {"text/plain": object.__repr__(thing)}
    with suppress(Exception):
        bundle["text/plain"] = repr(thing)
    with suppress(Exception):
        if isinstance(thing, Value) and thing._prev:  # a leaf has no graph
            bundle["image/svg+xml"] = to_svg(thing, limit=MAX_VALUES)
        elif isinstance(thing, Module):
            _module(thing, bundle)
        elif isinstance(thing, History):
            _history(thing, bundle)
    return _pictured(bundle)


def _pictured(bundle: Bundle) -> Bundle:
    """Add the picture as an image in HTML, which JupyterLab also shows of a notebook that it does not trust.

    There it does not show SVG, and other programs insert SVG into their page, where one picture's style meets others.
    """
    if "image/svg+xml" in bundle:
        image = base64.b64encode(bundle["image/svg+xml"].encode()).decode()
        words = escape(bundle["text/plain"].split("\n")[0])
        bundle["text/html"] = f'<img alt="{words}" src="data:image/svg+xml;base64,{image}">'
    return bundle


def _module(module: Module, bundle: Bundle) -> None:
    """Add the network of a model of layers, and the number of its parameters to the text."""
    n = len(module.parameters())
    if "parameters" not in bundle["text/plain"]:
        bundle["text/plain"] += f", {n} parameter{'s' * (n != 1)}"
    if n <= MAX_PARAMETERS and (picture := network(module)):
        bundle["image/svg+xml"] = standalone(picture)


def _history(history: History, bundle: Bundle) -> None:
    """Replace the text by the outcome of a training and its losses as a sparkline, and add the curves.

    In the cell that has shown them while it trained, the outcome alone.
    """
    bundle["text/plain"] = summary(history)
    caption = bundle["text/plain"].split("\n")[0]
    if _shown_live and _shown_live[-1] == (id(history), _cell()):
        bundle["text/plain"] = caption
    elif history.losses:
        bundle["image/svg+xml"] = standalone(curves(history, caption, len(history.losses)))


_shown_live: list[tuple[int, Any]] = []
"""The latest History that was shown while it trained, by its id, and the cell that shows it."""


def _cell() -> Any:
    """The number of the cell that the notebook runs; None outside of notebooks."""
    shell: Any = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell.execution_count if getattr(shell, "kernel", None) is not None else None


def live(history: History, epochs: int) -> Callable[[str], None] | None:
    """A function that shows a line of text and the curves so far in the running notebook, always in one place.

    None outside of notebooks; nothing is imported to find out.
    """
    cell = _cell()
    if cell is None:
        return None
    handle: Any = None

    def show(line: str) -> None:
        nonlocal handle
        with suppress(Exception):
            bundle = _pictured({"text/plain": line, "image/svg+xml": standalone(curves(history, line, epochs))})
            if handle is None:
                handle = sys.modules["IPython"].display.display(bundle, raw=True, display_id=True)
                _shown_live[:] = [(id(history), cell)]
            else:
                handle.update(bundle, raw=True)

    return show
