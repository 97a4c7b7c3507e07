"""What a notebook shows of a Value, a Module and a History, and of a training while it runs. No display ever raises."""

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from micrograd.drawing.curves import Mark, chart, sparkline
from micrograd.drawing.look import alone

if TYPE_CHECKING:
    from micrograd.engine import Value
    from micrograd.nn import Module
    from micrograd.training import History

Bundle = dict[str, str]
DRAWN = 20_000  # Values, of more of which no picture is drawn unasked
LARGE = 20_000  # parameters, of which no picture is drawn unasked


def of_value(value: "Value") -> Bundle:
    """The graph that leads to a Value; as text its `repr`, and nothing else for a leaf."""
    from micrograd.viz import to_svg

    bundle = {"text/plain": _text(value)}
    with suppress(Exception):
        if value._prev:
            bundle["image/svg+xml"] = to_svg(value, limit=DRAWN)
    return bundle


def of_module(module: "Module") -> Bundle:
    """The network of a model, where it is one of layers; as text its `repr`, and how many parameters it has."""
    from micrograd.drawing.network import network

    bundle = {"text/plain": _text(module)}
    with suppress(Exception):
        n = len(module.parameters())
        if "parameters" not in bundle["text/plain"]:
            bundle["text/plain"] += f", {n} parameter{'s' * (n != 1)}"
        if n <= LARGE and (picture := network(module)):
            bundle["image/svg+xml"] = alone(picture)
    return bundle


def of_history(history: "History") -> Bundle:
    """The curves of a training; as text its outcome and the curve of its losses."""
    bundle = {"text/plain": _text(history)}
    with suppress(Exception):
        bundle["text/plain"] = summary(history)
        if history.losses:
            caption = bundle["text/plain"].split("\n")[0]
            bundle["image/svg+xml"] = alone(curves(history, caption, len(history.losses)))
    return bundle


def summary(history: "History") -> str:
    """How a training went, in words and a line of characters."""
    losses, validation, failure = history.losses, history.validation_losses, history.failure
    words = f"{len(losses)} epoch{'s' * (len(losses) != 1)}"
    words += f", loss {losses[0]:.4g} to {losses[-1]:.4g}" if losses else ""
    if validation:
        best = min(range(len(validation)), key=validation.__getitem__)
        words += f", lowest validation loss {validation[best]:.4g} in epoch {best + 1}"
    words += ", interrupted" if history.interrupted else f", ended as {failure.what}" if failure else ""
    return f"{words}\n{sparkline(losses)}" if losses else words


def curves(history: "History", caption: str, epochs: float) -> str:
    """The losses of a training as an SVG element."""
    lines = {"loss": history.losses} | ({"validation": history.validation_losses} if history.validation_losses else {})
    failure = history.failure
    marks = [Mark(failure.epoch, failure.what)] if failure else []
    return chart(lines, epochs=max(epochs, failure.epoch if failure else 0), caption=caption, marks=marks)


def live(history: "History", epochs: int) -> "Callable[[str], None] | None":
    """What shows a line of text and the curves so far in the notebook that runs this program, always in one place.

    None where no notebook does; nothing is imported to find out.
    """
    ipython = sys.modules.get("IPython")
    shell = getattr(ipython, "get_ipython", lambda: None)()
    if getattr(shell, "kernel", None) is None:
        return None
    handle: Any = None

    def show(line: str) -> None:
        nonlocal handle
        with suppress(Exception):
            bundle = {"text/plain": line, "image/svg+xml": alone(curves(history, line, epochs))}
            if handle is None:
                handle = ipython.display.display(bundle, raw=True, display_id=True)  # type: ignore[union-attr]
            else:
                handle.update(bundle, raw=True)

    return show


def _text(thing: Any) -> str:
    """Its `repr`, or Python's own where that raises."""
    try:
        return repr(thing)
    except Exception:
        return object.__repr__(thing)
