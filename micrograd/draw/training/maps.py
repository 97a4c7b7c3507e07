"""A model's output and its units' outputs around the examples, at each snapshot of a training, as maps of bytes."""

import copy
import math
from collections.abc import Sequence
from typing import Any

from micrograd.draw.training.boundary import Plane, evaluator, margins, threshold
from micrograd.draw.training.network import CARDS, columns, layers_of
from micrograd.nn import Module
from micrograd.training.history import Snapshot

FINE, COARSE = 32, 16  # points along each side of the plane, for the boundary and for a unit's card


class ActivationMaps:
    """Maps of one byte for each point, row by row from below: 128 is an output of 0, more is above, less is below.

    A byte of 0 is an output that is not finite.

    For each snapshot, `bytes` has a map of `FINE` by `FINE` points for each class, of its margin over the others (with
    two classes, only for the second), `leads` in all; then one of `COARSE` by `COARSE` for each unit that has a card.
    `outputs` is how many outputs the model has, `at` the output at which the class changes if it has one.
    """

    def __init__(self, model: Module, snapshots: Sequence[Snapshot], area: Plane, at: float | None) -> None:
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
        self.bytes, self.leads, self.outputs, self.at = b"".join(reversed(frames)), len(leads), len(last[0]), at


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
