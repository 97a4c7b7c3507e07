"""A model's output and its units' outputs around the examples, at each snapshot of a training, as maps of bytes."""

import copy
import math
from collections.abc import Sequence
from typing import Any

from micrograd.draw.training.axis import labelled, share, ticks
from micrograd.draw.training.boundary import Plane, by_class, evaluator, margins, threshold
from micrograd.draw.training.network import CARDS, columns, layers_of
from micrograd.nn import Module
from micrograd.training.history import Snapshot

FINE, COARSE = 32, 16  # points along each side of the plane, for the boundary and for a unit's card


def activation_maps(
    model: Module, snapshots: Sequence[Snapshot], area: Plane, at: float | None
) -> tuple[dict[str, Any], bytes]:
    """What page.js draws in the plane: the ticks of its axes and the examples of each class, and all maps as bytes.

    A map has one byte for each point, row by row from below: 128 is an output of 0, more is above, less is below, and 0
    is an output that is not finite. Each snapshot has `leads` maps of `FINE` by `FINE` points, one for each class (of
    two classes, only for the second), of its margin over the others; then one of `COARSE` by `COARSE` points for each
    unit that has a card. `at` is the output at which the class changes, for a model with one output.
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
        leads = margins(last, at)[len(last[0]) == 1 :]
        units = [*zip(*fine, strict=True), *zip(*found, strict=True)][: inner + CARDS + 2] if layers else []
        frames.append(b"".join(map(_lead, leads)) + b"".join(_map([unit[i] for i in coarse]) for unit in units))
    assert at is not None
    across, up = area[:2], area[2:4]
    classes = [
        [kind % 12, name, [[share(x, *across), share(y, *up), f"({x:.4g}, {y:.4g})"] for x, y in points]]
        for kind, name, points in by_class(area, len(last[0]), at)
    ]
    axes = [[[share(tick, *ends), words] for tick, words in labelled(ticks(*ends, 5))] for ends in (across, up)]
    described = {"leads": len(leads), "fine": FINE, "coarse": COARSE, "ticks": axes, "classes": classes}
    return described, b"".join(reversed(frames))


def units_and_outputs(layers: Sequence[Any], x: Any) -> list[Any]:
    """The outputs of the units that have a card, of all layers but the last one, and those of the last one."""
    found: list[Any] = []
    for i, layer in enumerate(layers):
        x = layer(x)
        x = list(x) if isinstance(x, (list, tuple)) else [x]
        found += x[: CARDS if i < len(layers) - 1 else None]
    return found


def _lead(margins: Sequence[float]) -> bytes:
    """A map of margins, squashed so that small ones are visible and large ones do not dominate."""
    return _map([x / (0.25 + abs(x)) if math.isfinite(x) else x for x in margins])


def _map(numbers: Sequence[float]) -> bytes:
    """Numbers from -1 to 1 as bytes; if some are larger, all are scaled down."""
    largest = max((abs(x) for x in numbers if math.isfinite(x)), default=0.0)
    scale = 127 / max(largest, 1.0)
    return bytes(128 + round(scale * x) if math.isfinite(x) else 0 for x in numbers)
