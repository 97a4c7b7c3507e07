"""The page of a training: its curves, and its snapshots to step through.

All numbers are computed here, and page.js shows them: parameters, gradients and `activation_maps` of each snapshot.
"""

import json
import math
from array import array
from collections.abc import Iterator, Sequence
from contextlib import suppress
from html import escape
from typing import Any

from micrograd.draw import shell
from micrograd.draw.text import real
from micrograd.draw.training.boundary import plane
from micrograd.draw.training.charts import NARROW, WIDTH, chart, curves, summary
from micrograd.draw.training.maps import activation_maps
from micrograd.draw.training.network import described, names, network
from micrograd.nn import Module
from micrograd.training.history import History, Snapshot
from micrograd.validation import examples

LISTED = 500  # parameters, beyond which there is no table of them


def page(
    history: History, model: Any = None, xs: Sequence[Any] | None = None, ys: Sequence[Any] | None = None,
    at: float | None = None,
) -> str:  # fmt: skip
    """The page as HTML. The parameters and errors are those of `viz.save_training`."""
    if not isinstance(history, History):
        raise TypeError(f"history is of type {type(history).__name__}: expected the History that fit returned")
    snapshots = _snapshots(history, model)
    area = None
    if xs is not None and ys is not None:
        examples(xs, ys)
        with suppress(ValueError):  # unless each is two inputs and a number
            area = plane(xs, ys)
    maps, content = None, b""
    if area and isinstance(model, Module) and snapshots:
        maps, content = activation_maps(model, snapshots, area, at)
    failure = history.failure
    origin = f" Where it began: {failure.origin}." if failure and failure.origin else ""
    told = escape(f"{failure.message}.{origin}") if failure else ""
    document = {
        "captions": [_caption(history, snapshot) for snapshot in snapshots],
        "epochs": [snapshot.epoch for snapshot in snapshots],
        "parameters": [list(map(_rounded, snapshot.parameters)) for snapshot in snapshots],
        "gradients": [list(map(_rounded, snapshot.gradients)) for snapshot in snapshots],
        "names": names(model) if isinstance(model, Module) and len(model.parameters()) <= LISTED else [],
        **described(model),
        "bad": failure.parameters if failure else [],
        "maps": maps,
    }
    return shell.page(
        __package__,
        title=f"Training of {model!r}" if isinstance(model, Module) else "Training",
        summary=summary(history).split("\n")[0],
        main=shell.read(__package__, "page.html").format(
            failure=f'<p class="failure" role="note"><strong>!</strong> {told}</p>\n' * bool(told),
            curves="\n".join(_curves(history)),
            network=network(model, legend=False),
        ),
        data=shell.packed("document", json.dumps(document, separators=(",", ":")).encode())
        + shell.packed("maps", content),
        style=shell.CHART_STYLE,
        script=shell.read("micrograd.draw", "maps.js"),
        has_controls=len(snapshots) > 1,
    )


def _snapshots(history: History, model: Any) -> list[Snapshot]:
    """Those of the history, or the model as it is now. Raises ValueError if they are of another model."""
    if not isinstance(model, Module):
        return history.snapshots
    parameters = model.parameters()
    for snapshot in history.snapshots:
        if len(snapshot.parameters) != len(parameters):
            raise ValueError(
                f"the snapshots have {len(snapshot.parameters)} parameters, but the model has {len(parameters)}: "
                "give the model that was trained"
            )
    if history.snapshots or not parameters:
        return history.snapshots
    data, grad = (array("d", [real(getattr(p, kind)) for p in parameters]) for kind in ("data", "grad"))
    return [Snapshot(len(history.losses), data, grad)]


def _caption(history: History, snapshot: Snapshot) -> str:
    epoch, kinds = snapshot.epoch, {"loss": history.losses, "validation": history.validation_losses}
    words = ["before training" if epoch == 0 else f"epoch {epoch:.4g}"]
    for name, numbers in {**kinds, "learning rate": history.learning_rates}.items():
        if epoch and epoch == int(epoch) <= len(numbers):
            words.append(f"{name} {numbers[int(epoch) - 1]:.4g}")
    return ", ".join([*words, f"gradient norm {math.hypot(*snapshot.gradients):.3g}"])


def _curves(history: History) -> Iterator[str]:
    """The charts, for wide windows and for narrow ones: of the losses, and of the learning rate if it changed."""
    last = max([len(history.losses), *(snapshot.epoch for snapshot in history.snapshots)])
    for width in (WIDTH, NARROW):
        yield curves(history, "loss", last, width)
    if len(set(history.learning_rates)) > 1:
        for width in (WIDTH, NARROW):
            yield chart({"rate": history.learning_rates}, epochs=last, caption="learning rate", width=width, height=180)


def _rounded(number: float) -> float | str:
    """A number with the digits that are shown, as JSON can hold it; if it is not finite, its name in JavaScript."""
    return float(f"{number:.6g}") if math.isfinite(number) else json.dumps(number)
