"""The page of a training: its curves, and its snapshots to go through one by one, in one file that asks for no other.

All numbers are computed here, and replay.js shows them: for each snapshot parameters and gradients, and maps (`Film`).
"""

import base64
import copy
import json
import math
import zlib
from array import array
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from micrograd.checks import examples
from micrograd.drawing import displays
from micrograd.drawing.curves import chart, ticks
from micrograd.drawing.look import CLASSES, DRAWN, variables
from micrograd.drawing.network import CARDS, columns, layers_of, network
from micrograd.drawing.plane import Plane, by_class, evaluator, margins, plane, real, spaced, threshold
from micrograd.history import History, Snapshot
from micrograd.nn import Module

FINE, COARSE = 32, 16  # points along each side of the plane, for the boundary and for a unit's card
LISTED = 500  # parameters, of which there is a table
LEFT, TOP, SIDE = 40, 8, 300  # of the picture of the plane: margins, and its own side
SHAPES = ("M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0", "M0-5 5 4H-5z", "M-4-4H4V4H-4z", "M0-5.5 5.5 0 0 5.5-5.5 0z")

PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none';script-src 'unsafe-inline';style-src 'unsafe-inline';img-src data:">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<header><h1>{title}</h1><p>{summary}</p></header>
<main>
{failure}{controls}<div class="columns">
<section class="curves" aria-label="curves"><div class="wide" tabindex="0" role="group" aria-label="charts">
{curves}
</div></section>
{plane}{network}</div>
{parameters}</main>
<script type="text/plain" id="document">{document}</script>
<script type="text/plain" id="maps">{maps}</script>
<script>
{script}</script>
</body>
</html>
"""
CONTROLS = """\
<section class="controls" aria-label="replay">
<div class="buttons">
<button type="button" id="first" aria-label="first snapshot"
 title="first (Home)"><svg viewBox="0 0 16 16" aria-hidden="true"><path d="M3 3h2v10H3zM13 3v10L6 8z"/></svg></button>
<button type="button" id="back" aria-label="snapshot before"
 title="back (←)"><svg viewBox="0 0 16 16" aria-hidden="true"><path d="M11 3v10L4 8z"/></svg></button>
<button type="button" id="play" title="play (space)">Play</button>
<button type="button" id="forward" aria-label="next snapshot"
 title="forward (→)"><svg viewBox="0 0 16 16" aria-hidden="true"><path d="M5 3v10l7-5z"/></svg></button>
<button type="button" id="last" aria-label="last snapshot"
 title="last (End)"><svg viewBox="0 0 16 16" aria-hidden="true"><path d="M11 3h2v10h-2zM3 3v10l7-5z"/></svg></button>
</div>
<input type="range" id="at" min="0" max="{last}" value="{last}" step="1" aria-label="snapshot">
<output id="told" for="at"></output>
</section>
"""
NETWORK = """\
<section class="network" aria-label="network"><h2>Network</h2>
<fieldset><legend>Edges show</legend>
<label><input type="radio" name="edges" value="weights" checked> weights</label>
<label><input type="radio" name="edges" value="gradients"> gradients</label></fieldset>
<p class="key"><span class="plus">solid blue: above 0</span> · <span class="minus">dashed orange: below 0</span> · the
thicker, the larger.{cards} </p>
<div class="wide" tabindex="0" role="group" aria-label="network">{picture}</div>
</section>
<section class="unit" id="unit" aria-label="the chosen unit" aria-live="polite">
<p class="key">Choose a card of the network to see its numbers.</p></section>
"""
PLANE = """\
<section class="plane" aria-label="plane"><h2>What the model says</h2>
<p class="key">Shades: what it says of each point; the line is where that changes. Marks: the examples.</p>
{picture}</section>
"""
PARAMETERS = """\
<details><summary>All {n} parameters at this snapshot</summary>
<div class="wide" tabindex="0" role="group" aria-label="parameters">
<table><thead><tr><th scope="col">parameter</th><th scope="col">number</th><th scope="col">gradient</th></tr></thead>
<tbody id="parameters">
{rows}
</tbody></table></div></details>
"""


def page(
    history: History,
    model: Any = None,
    xs: Sequence[Any] | None = None,
    ys: Sequence[Any] | None = None,
    at: float | None = None,
) -> str:
    """The page as HTML. The parameters and errors are those of `viz.save_training`."""
    if not isinstance(history, History):
        raise TypeError(f"save_training shows what fit has returned, a History, not a {type(history).__name__}")
    snapshots = _snapshots(history, model)
    layers = columns(model)
    area = _area(xs, ys)
    film = Film(model, snapshots, area, at) if area and isinstance(model, Module) and snapshots else None
    title = f"Training of {model!r}" if isinstance(model, Module) else "Training"
    maps = " In each card: where the unit's output is above 0, and with stripes where it is below." * bool(film)
    document = {
        "told": [_told(history, snapshot) for snapshot in snapshots],
        "epochs": [_short(snapshot.epoch) for snapshot in snapshots],
        "parameters": [list(map(_short, snapshot.parameters)) for snapshot in snapshots],
        "gradients": [list(map(_short, snapshot.gradients)) for snapshot in snapshots],
        "columns": [[unit.name for unit in units] for units in layers],
        "units": [[u.name, list(u.weights), u.bias, k - 1] for k, units in enumerate(layers) for u in units[:CARDS]],
        "bad": history.failure.parameters if history.failure else [],
        "maps": {"leads": film.leads, "fine": FINE, "coarse": COARSE} if film else None,
    }
    return PAGE.format(
        title=escape(title),
        summary=escape(displays.summary(history).split("\n")[0]),
        style=variables(":root") + DRAWN + _file("replay.css"),
        failure=_failure(history),
        controls=CONTROLS.format(last=len(snapshots) - 1) if len(snapshots) > 1 else "",
        curves="\n".join(_curves(history)),
        network=NETWORK.format(picture=network(model, legend=False), cards=maps) if layers else "",
        plane=_plane(area, film) if area and film else "",
        parameters=_parameters(model, snapshots),
        document=_packed(json.dumps(document, separators=(",", ":")).encode()),
        maps=_packed(film.maps if film else b""),
        script=_file("replay.js"),
    )


class Film:
    """What a model says around the examples at each snapshot, as maps: a byte for each point, row by row from below.

    128 stands for 0, more for what is above it and less for what is below; 0 for what is no number.

    Attributes
    ----------
    maps
        For each snapshot: a map of `FINE` by `FINE` points for each class, by how much it is ahead of the others (of
        two classes, the second); then one of `COARSE` by `COARSE` for each unit that has a card.
    leads
        The number of the first kind.
    outputs, at
        How many outputs the model has, and where one output goes over from a class to the other.
    """

    def __init__(self, model: Module, snapshots: Sequence[Snapshot], area: Plane, at: float | None) -> None:
        model = copy.deepcopy(model)  # whose parameters may be changed
        layers = layers_of(model)
        steps = layers or [model]
        fine = [(x, y) for y in spaced(area.bottom, area.top, FINE) for x in spaced(area.left, area.right, FINE)]
        some = range(0, FINE, FINE // COARSE)
        coarse = [row * FINE + column for row in some for column in some]
        self.outputs = 1

        def outputs(x: Any) -> list[Any]:
            """What the units of each layer say, and in the end the model."""
            found: list[Any] = []
            for i, step in enumerate(steps):
                x = step(x)
                x = list(x) if isinstance(x, (list, tuple)) else [x]
                found += x if i == len(steps) - 1 else x[:CARDS]
            self.outputs = len(x)
            return found

        says = evaluator(outputs, model.parameters())
        reels = []
        for snapshot in reversed(snapshots):  # of which the last tells best whether outputs are probabilities
            for parameter, number in zip(model.parameters(), snapshot.parameters, strict=True):
                parameter.data = number
            found = says(fine)
            last = [numbers[-self.outputs :] for numbers in found]
            at = threshold(last) if at is None else at
            leads = margins(last, at)[self.outputs == 1 :]
            shown = len(found[0]) - max(self.outputs - CARDS, 0) if layers else 0
            units = [*zip(*fine, strict=True), *zip(*found, strict=True)][: shown and shown + 2]
            reels.append(b"".join(map(_lead, leads)) + b"".join(_map([unit[i] for i in coarse]) for unit in units))
        assert at is not None
        self.maps, self.leads, self.at = b"".join(reversed(reels)), len(leads), at


def _lead(numbers: Sequence[float]) -> bytes:
    """A map of by how much a class is ahead, so that a little is seen and much is no more than enough."""
    return _map([x / (0.25 + abs(x)) if math.isfinite(x) else x for x in numbers])


def _map(numbers: Sequence[float]) -> bytes:
    """Numbers as bytes: those from -1 to 1 by what they are, all of them smaller where there are larger ones."""
    largest = max((abs(x) for x in numbers if math.isfinite(x)), default=0.0)
    scale = 127 / max(largest, 1.0)
    return bytes(128 + round(scale * x) if math.isfinite(x) else 0 for x in numbers)


def _snapshots(history: History, model: Any) -> list[Snapshot]:
    """Those of the history, or what the model is now. Raises ValueError if they are of another model."""
    if not isinstance(model, Module):
        return history.snapshots
    parameters = model.parameters()
    for snapshot in history.snapshots:
        if len(snapshot.parameters) != len(parameters):
            raise ValueError(
                f"the snapshots have {len(snapshot.parameters)} parameters and the model {len(parameters)}: "
                "give the model that was trained"
            )
    if history.snapshots or not parameters:
        return history.snapshots
    data = array("d", [real(parameter.data) for parameter in parameters])
    grad = array("d", [real(parameter.grad) for parameter in parameters])
    return [Snapshot(len(history.losses), data, grad)]


def _told(history: History, snapshot: Snapshot) -> str:
    """A snapshot in words."""
    epoch, kinds = snapshot.epoch, {"loss": history.losses, "validation": history.validation_losses}
    words = ["before training" if epoch == 0 else f"epoch {epoch:.4g}"]
    for name, numbers in {**kinds, "learning rate": history.learning_rates}.items():
        if epoch and epoch == int(epoch) <= len(numbers):
            words.append(f"{name} {numbers[int(epoch) - 1]:.4g}")
    return ", ".join([*words, f"gradient norm {math.hypot(*snapshot.gradients):.3g}"])


def _failure(history: History) -> str:
    failure = history.failure
    if failure is None:
        return ""
    origin = f" Where it began: {failure.origin}." if failure.origin else ""
    return f'<p class="failure" role="note"><strong>!</strong> {escape(failure.message + "." + origin)}</p>\n'


def _curves(history: History) -> Iterator[str]:
    """The charts: of the losses, and of the learning rate if that has changed."""
    last = max([len(history.losses), *(snapshot.epoch for snapshot in history.snapshots)])
    yield displays.curves(history, "loss", last)
    if len(set(history.learning_rates)) > 1:
        yield chart({"rate": history.learning_rates}, epochs=last, caption="learning rate", height=150)


def _area(xs: Sequence[Any] | None, ys: Sequence[Any] | None) -> Plane | None:
    """The plane of the examples, if they are of two inputs and a number."""
    if xs is None or ys is None:
        return None
    examples(xs, ys)
    try:
        return plane(xs, ys)
    except ValueError:
        return None


def _plane(area: Plane, film: Film) -> str:
    """The plane with its axes and examples; the page puts the map and its lines below them."""
    right, bottom = LEFT + SIDE, TOP + SIDE

    def x(number: float) -> float:
        return LEFT + SIDE * (number - area.left) / (area.right - area.left)

    def y(number: float) -> float:
        return bottom - SIDE * (number - area.bottom) / (area.top - area.bottom)

    parts = [
        f'<text class="mg-soft" x="{x(tick):.1f}" y="{bottom + 16}" text-anchor="middle">{tick:.6g}</text>'
        for tick in ticks(area.left, area.right, 5)
    ]
    parts += [
        f'<text class="mg-soft" x="{LEFT - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:.6g}</text>'
        for tick in ticks(area.bottom, area.top, 5)
    ]
    classes = sorted(by_class(area, film.outputs, film.at).items())
    for i, (kind, (name, points)) in enumerate(classes):
        shape = f'class="mark" style="--mark:var(--class{kind % len(CLASSES)})" d="{SHAPES[kind % len(SHAPES)]}"'
        parts += [
            f'<path {shape} transform="translate({x(a):.1f} {y(b):.1f})"><title>({a:.4g}, {b:.4g}): target '
            f"{escape(name)}</title></path>"
            for a, b in points
        ]
        at, below = LEFT + 110 * (i % 3), bottom + 36 + 18 * (i // 3)
        parts.append(f'<path {shape} transform="translate({at + 6} {below - 4})"/>')
        parts.append(f'<text x="{at + 16}" y="{below}">target {escape(name)}</text>')
    height = bottom + 48 + 18 * ((len(classes) - 1) // 3)
    frame = f'x="{LEFT}" y="{TOP}" width="{SIDE}" height="{SIDE}"'
    return PLANE.format(
        picture=f'<svg viewBox="0 0 {right + 10} {height}" width="{right + 10}" height="{height}" role="img" '
        f'aria-label="what the model says, and {len(area.points)} examples"><clipPath id="within"><rect {frame}/>'
        f'</clipPath><g id="plane" clip-path="url(#within)"></g><rect class="frame" {frame}/>{"".join(parts)}</svg>'
    )


def _parameters(model: Any, snapshots: Sequence[Snapshot]) -> str:
    """The table of parameters, whose numbers the page puts in."""
    if not isinstance(model, Module) or not snapshots or len(snapshots[0].parameters) > LISTED:
        return ""
    names = [name for name, _ in model.named_parameters()]
    rows = "\n".join(f'<tr><th scope="row">{escape(name)}</th><td></td><td></td></tr>' for name in names)
    return PARAMETERS.format(n=len(names), rows=rows)


def _short(number: float) -> float | str:
    """A number with the digits that are shown, as JSON can hold it; what is not finite as JavaScript calls it."""
    if not math.isfinite(number):
        return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    short = float(f"{number:.5g}")
    return int(short) if short == int(short) and abs(short) < 1e6 else short


def _packed(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content, 9)).decode()


def _file(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
