"""The page of a training: its curves, and its snapshots to step through.

All numbers are computed here, and page.js shows them: for each snapshot parameters, gradients and `ActivationMaps`.
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
from micrograd.draw.theme import CHART_STYLE, CLASSES
from micrograd.draw.training.axis import labelled, share, ticks
from micrograd.draw.training.boundary import Plane, by_class, plane
from micrograd.draw.training.charts import NARROW, WIDTH, chart, curves, summary, text
from micrograd.draw.training.maps import COARSE, FINE, ActivationMaps
from micrograd.draw.training.network import described, names, network
from micrograd.nn import Module
from micrograd.training.history import History, Snapshot
from micrograd.validation import examples

LISTED = 500  # parameters, beyond which there is no table of them
LEFT, TOP, SIDE = 40, 8, 300  # margins and side of the picture of the plane
SHAPES = ("M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0", "M-4-4H4V4H-4z", "M0-5 5 4H-5z", "M0-5.5 5.5 0 0 5.5-5.5 0z")


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
    maps = ActivationMaps(model, snapshots, area, at) if area and isinstance(model, Module) and snapshots else None
    picture, failure = network(model, legend=False), history.failure
    origin = f" Where it began: {failure.origin}." if failure and failure.origin else ""
    told = escape(f"{failure.message}.{origin}") if failure else ""
    cards = " In each card: the unit's output, with stripes where it is below 0." * bool(maps)
    document = {
        "captions": [_caption(history, snapshot) for snapshot in snapshots],
        "epochs": [_rounded(snapshot.epoch) for snapshot in snapshots],
        "parameters": [list(map(_rounded, snapshot.parameters)) for snapshot in snapshots],
        "gradients": [list(map(_rounded, snapshot.gradients)) for snapshot in snapshots],
        **described(model),
        "bad": failure.parameters if failure else [],
        "maps": {"leads": maps.leads, "fine": FINE, "coarse": COARSE} if maps else None,
    }
    return shell.page(
        __package__,
        title=f"Training of {model!r}" if isinstance(model, Module) else "Training",
        summary=summary(history).split("\n")[0],
        main=_section(
            "page",
            failure=f'<p class="failure" role="note"><strong>!</strong> {told}</p>\n' * bool(told),
            curves="\n".join(_curves(history)),
            plane=_section("plane", picture=_plane(area, maps)) if area and maps else "",
            network=_section("network", picture=picture, cards=cards) if picture else "",
            parameters=_parameters(model, snapshots),
        ),
        data=shell.packed("document", json.dumps(document, separators=(",", ":")).encode())
        + shell.packed("maps", maps.bytes if maps else b""),
        style=CHART_STYLE,
        script=shell.read("micrograd.draw", "maps.js"),
        has_controls=len(snapshots) > 1,
    )


def _section(name: str, **parts: str) -> str:
    """A part of the page, from the file of that name."""
    return shell.read(__package__, f"{name}.html").format(**parts)


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


def _plane(area: Plane, maps: ActivationMaps) -> str:
    """The plane with its axes and examples as an SVG element; the page puts the map and the boundary below them."""
    right, bottom = LEFT + SIDE, TOP + SIDE

    def x(number: float) -> float:
        return LEFT + SIDE * share(number, area.left, area.right)

    def y(number: float) -> float:
        return bottom - SIDE * share(number, area.bottom, area.top)

    parts = [text(x(at), bottom + 16, words, "mg-soft", "middle") for at, words in labelled(ticks(*area[:2], 5))]
    parts += [text(LEFT - 6, y(at) + 4, words, "mg-soft", "end") for at, words in labelled(ticks(*area[2:4], 5))]
    parts += [text(right - 6, bottom - 6, "x0", "mg-soft", "end"), text(LEFT + 6, TOP + 16, "x1", "mg-soft")]
    classes = sorted(by_class(area, maps.outputs, maps.at).items())
    for i, (kind, (name, points)) in enumerate(classes):
        shape = f'class="mark" style="--mark:var(--class{kind % len(CLASSES)})" d="{SHAPES[kind % len(SHAPES)]}"'
        parts += [
            f'<path {shape} transform="translate({x(a):.1f} {y(b):.1f})"><title>({a:.4g}, {b:.4g}): target '
            f"{escape(name)}</title></path>"
            for a, b in points
        ]
        at, below = LEFT + 110 * (i % 3), bottom + 36 + 18 * (i // 3)
        parts.append(f'<path {shape} transform="translate({at + 6} {below - 4})"/>')
        parts.append(text(at + 16, below, f"target {name}"))
    height = bottom + 48 + 18 * ((len(classes) - 1) // 3)
    frame = f'x="{LEFT}" y="{TOP}" width="{SIDE}" height="{SIDE}"'
    return (
        f'<svg viewBox="0 0 {right + 10} {height}" width="{right + 10}" height="{height}" role="img" '
        f'aria-label="the model\'s output, and {len(area.points)} examples"><clipPath id="within"><rect {frame}/>'
        f'</clipPath><g id="plane" clip-path="url(#within)"></g><rect class="frame" {frame}/>{"".join(parts)}</svg>'
    )


def _parameters(model: Any, snapshots: Sequence[Snapshot]) -> str:
    """The table of parameters; the page fills in the numbers."""
    if not isinstance(model, Module) or not snapshots or len(snapshots[0].parameters) > LISTED:
        return ""
    found = names(model)
    rows = "\n".join(f'<tr><th scope="row">{escape(name)}</th><td></td><td></td></tr>' for name in found)
    return _section("parameters", n=str(len(found)), rows=rows)


def _rounded(number: float) -> float | str:
    """A number with the digits that are shown, as JSON can hold it; if it is not finite, its name in JavaScript."""
    if not math.isfinite(number):
        return json.dumps(number)
    short = float(f"{number:.5g}")
    if math.isinf(short):  # as the largest floats would be, rounded up
        return number
    return int(short) if short == int(short) and abs(short) < 1e6 else short
