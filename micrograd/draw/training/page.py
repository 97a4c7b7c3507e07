"""The page of a training: its curves, and its snapshots to step through.

All numbers are computed here, and page.js shows them: parameters, gradients and, as maps of bytes, the output of the
model and of its units around the examples, at each snapshot.
"""

import copy
import json
import math
from array import array
from collections.abc import Sequence
from contextlib import suppress
from html import escape
from typing import Any

from micrograd.draw import shell
from micrograd.draw.text import real
from micrograd.draw.training.boundary import Plane, by_class, evaluator, margins, plane, threshold
from micrograd.draw.training.charts import NARROW, WIDTH, chart, curves, labelled, share, summary, ticks
from micrograd.draw.training.network import CARDS, columns, described, layers_of, names, network, units_and_outputs
from micrograd.nn import Module
from micrograd.support.validation import examples
from micrograd.training.history import History, Snapshot

LISTED = 500  # parameters, beyond which there is no table of them
FINE, COARSE = 32, 16  # points along each side of the plane, for the boundary and for a unit's card


def page(history: History, model: Any = None, xs: Any = None, ys: Any = None, at: float | None = None) -> str:
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
        maps, content = _maps(model, snapshots, area, at)
    widths, rates = (WIDTH, NARROW), history.learning_rates
    epochs = max([len(history.losses), *(snapshot.epoch for snapshot in history.snapshots)])
    charts = [curves(history, "loss", epochs, width) for width in widths]
    if len(set(rates)) > 1:
        charts += [chart({"rate": rates}, epochs=epochs, caption="learning rate", width=w, height=180) for w in widths]
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
            curves="\n".join(charts),
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
    if others := {len(snapshot.parameters) for snapshot in history.snapshots} - {len(parameters)}:
        remedy = "give the model that was trained"
        raise ValueError(f"the snapshots have {others.pop()} parameters, but the model has {len(parameters)}: {remedy}")
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


def _rounded(number: float) -> float | str:
    """A number with the digits that are shown, as JSON can hold it; if it is not finite, its name in JavaScript."""
    return float(f"{number:.6g}") if math.isfinite(number) else json.dumps(number)


def _maps(model: Module, snapshots: Sequence[Snapshot], area: Plane, at: float | None) -> tuple[dict[str, Any], bytes]:
    """What page.js draws in the plane: the ticks of its axes and the examples of each class, and all maps as bytes.

    Each snapshot has `leads` maps of `FINE` by `FINE` points, as maps.js describes them: one for each class (of two
    classes, only for the second), of its margin over the others; then one of `COARSE` by `COARSE` points for each unit
    that has a card. `at` is the output at which the class changes, for a model with one output.
    """
    model = copy.deepcopy(model)  # whose parameters may be changed
    layers = layers_of(model)
    fine, some = area.grid(FINE), range(0, FINE, FINE // COARSE)
    coarse = [row * FINE + column for row in some for column in some]
    evaluate = evaluator(lambda x: units_and_outputs(layers or [model], x), model.parameters())
    inner = sum(min(len(units), CARDS) for units in columns(model)[1:-1])
    frames = []
    for snapshot in reversed(snapshots):  # the last tells best whether outputs are probabilities
        for parameter, number in zip(model.parameters(), snapshot.parameters, strict=True):
            parameter.data = number
        found = evaluate(fine)
        last = [numbers[inner:] for numbers in found]
        at = threshold(last) if at is None else at
        # Margins are squashed so that small ones are visible and large ones do not dominate.
        leads = [[x / (0.25 + abs(x)) for x in lead] for lead in margins(last, at)[len(last[0]) == 1 :]]
        units = [*zip(*fine, strict=True), *zip(*found, strict=True)][: inner + CARDS + 2] if layers else []
        frames.append(b"".join(map(_map, leads + [[unit[i] for i in coarse] for unit in units])))
    assert at is not None
    across, up = area[:2], area[2:4]
    classes = [
        [kind % 12, name, [[share(x, *across), share(y, *up), f"({x:.4g}, {y:.4g})"] for x, y in points]]
        for kind, name, points in by_class(area, len(last[0]), at)
    ]
    axes = [[[share(tick, *ends), words] for tick, words in labelled(ticks(*ends, 5))] for ends in (across, up)]
    plan = {"leads": len(leads), "fine": FINE, "coarse": COARSE, "ticks": axes, "classes": classes}
    return plan, b"".join(reversed(frames))


def _map(numbers: Sequence[float]) -> bytes:
    """Numbers from -1 to 1 as bytes; if some are larger, all are scaled down."""
    largest = max((abs(x) for x in numbers if math.isfinite(x)), default=0.0)
    scale = 127 / max(largest, 1.0)
    return bytes(128 + round(scale * x) if math.isfinite(x) else 0 for x in numbers)
