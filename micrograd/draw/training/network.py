"""A network as a picture: a card for each neuron, in columns, and an edge for each weight, by its sign and size."""

import math
from collections.abc import Sequence
from html import escape
from itertools import chain
from typing import Any, NamedTuple

from micrograd.draw.training.boundary import real
from micrograd.nn import MLP, Layer, Neuron

CARDS = 16  # the most cards in a column; further units are counted below it
COLUMN, SIDE, TOP, LINE = 150, 24, 12, 17  # from one column to the next, the margins, a line of text
MAX_PITCH, MIN_PITCH = 84, 37  # from one card of the fullest column to the next, with its caption
CAPTION = 22  # the height of a card's caption, if its column leaves room for it
MIN_WIDTH = 320  # for the legend
LEGEND = ("edges: weights, solid above 0, dashed below", "in the cards: biases")


class Unit(NamedTuple):
    """A neuron or an input: its name, and the index of each of its parameters in the model."""

    name: str
    neuron: Neuron | None = None
    weights: Sequence[int] = ()
    bias: int = -1


def layers_of(model: Any) -> list[Any]:
    """The Layers of an MLP, or a single Layer or Neuron; [] for another model, or if weights are computed."""
    layers = list(model.layers) if type(model) is MLP else [model] if type(model) in (Layer, Neuron) else []
    neurons = [n for layer in layers for n in (layer.neurons if isinstance(layer, Layer) else [layer])]
    return layers if not any(w._prev for neuron in neurons for w in (*neuron.w, neuron.b)) else []


def columns(model: Any) -> list[list[Unit]]:
    """The units of the inputs and of each layer of an MLP, a Layer or a Neuron; [] for another model."""
    neurons = [layer.neurons if isinstance(layer, Layer) else [layer] for layer in layers_of(model)]
    if not neurons:
        return []
    number = {id(parameter): i for i, parameter in enumerate(model.parameters())}
    found = [[Unit(f"x{i}") for i in range(len(neurons[0][0].w))]]
    for k, layer in enumerate(neurons):
        units = []
        for i, neuron in enumerate(layer):
            name = "out" if k == len(neurons) - 1 else f"h{k + 1}"
            name += f"[{i}]" if len(layer) > 1 else ""
            units.append(Unit(name, neuron, [number[id(w)] for w in neuron.w], number[id(neuron.b)]))
        found.append(units)
    return found


def names(model: Any) -> list[str]:
    """The name of each parameter of an MLP, a Layer or a Neuron, as `h1[0].w0`; of others, its path."""
    found = [name for name, _ in model.named_parameters()]
    for unit in chain.from_iterable(columns(model)[1:]):
        for k, i in enumerate(unit.weights):
            found[i] = f"{unit.name}.w{k}"
        found[unit.bias] = f"{unit.name}.b"
    return found


def network(model: Any, *, legend: bool = True) -> str:
    """The network of an MLP, a Layer or a Neuron as an SVG element, to be shown with `theme.CHART_STYLE`.

    The result is "" for another model. `data-unit` of a card is its index among the drawn units; `data-from` and
    `data-to` of an edge are those of its ends, and `data-weight` is the index of its weight among the parameters.
    """
    every = columns(model)
    if not every:
        return ""
    shown = [units[:CARDS] for units in every]
    fullest = max(map(len, shown))
    pitch = min(MAX_PITCH, max(MIN_PITCH, 600 / fullest))
    room = CAPTION if pitch > 2 * CAPTION else 4
    side = pitch - room - 6
    parameters = [real(parameter.data) for parameter in model.parameters()]
    tops = [TOP + pitch * (fullest - len(units)) / 2 for units in shown]
    corners = [[(SIDE + COLUMN * k, top + pitch * i) for i in range(CARDS + 1)] for k, top in enumerate(tops)]

    parts = _edges(shown, corners, side, pitch / 16, parameters)
    first = 0  # the index of the first card of the column
    for units, hidden, places in zip(shown, [len(units) - CARDS for units in every], corners, strict=True):
        for i, unit in enumerate(units):
            parts.append(_card(unit, first + i, *places[i], side, room, parameters))
        if hidden > 0:
            x, y = places[CARDS]
            parts.append(f'<text class="mg-soft" x="{x}" y="{y + 10:.1f}">and {hidden} more</text>')
        first += len(units)
    width = max(2 * SIDE + COLUMN * (len(shown) - 1) + side, MIN_WIDTH)
    bottom = TOP + pitch * fullest + LINE * any(len(units) > CARDS for units in every)
    lines = LEGEND[: 2 if room == CAPTION else 1] if legend else ()
    parts += [
        f'<text class="mg-soft" x="{SIDE}" y="{bottom + LINE * (i + 1):.1f}">{line}</text>'
        for i, line in enumerate(lines)
    ]
    height = bottom + LINE * len(lines) + TOP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="mg-network" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" role="img" aria-label="{escape(repr(model))}">'
        f"{''.join(parts)}</svg>"
    )


def _edges(
    shown: Sequence[Sequence[Unit]], corners: Sequence[Sequence[tuple[float, float]]], side: float, thickest: float,
    parameters: Sequence[float],
) -> list[str]:  # fmt: skip
    """The edges between the cards of each two columns."""
    weights = [parameters[i] for units in shown for unit in units for i in unit.weights]
    largest = max((abs(w) for w in weights if math.isfinite(w)), default=0.0)
    edges, first = [], 0  # the index of the first card of the column before
    for k in range(1, len(shown)):
        for i, unit in enumerate(shown[k]):
            for j, number in enumerate(unit.weights[:CARDS]):
                (start, from_y), (end, y) = corners[k - 1][j], corners[k][i]
                start += side
                bend = (start + end) / 2
                here, there = f"{y + side / 2:.1f}", f"{from_y + side / 2:.1f}"
                weight = parameters[number]
                edges.append(
                    f'<path class="mg-edge {_sign(weight)}" data-weight="{number}" '
                    f'data-from="{first + j}" data-to="{first + len(shown[k - 1]) + i}" '
                    f'd="M{start:.1f} {there}C{bend:.1f} {there} {bend:.1f} {here} {end:.1f} {here}" '
                    f'stroke-width="{thickest * _thickness(weight, largest):.2f}">'
                    f"<title>{unit.name}.w{j}, the weight of {shown[k - 1][j].name}: {weight:.4g}</title></path>"
                )
        first += len(shown[k - 1])
    return edges


def _sign(number: float) -> str:
    """The CSS class of an edge."""
    return "plus" if number > 0 else "minus" if number < 0 else "none"


def _thickness(number: float, largest: float) -> float:
    """The thickness of an edge, relative to that of the largest weight."""
    return max(abs(number) / largest, 0.1) if largest and math.isfinite(number) else 0.1


def _card(unit: Unit, place: int, x: float, y: float, side: float, room: float, parameters: Sequence[float]) -> str:
    """A unit's card, with its bias inside and its name below if there is room."""
    bias = "" if unit.neuron is None or room < CAPTION else _short(parameters[unit.bias])
    title = unit.name if unit.neuron is None else f"{unit.name}: {unit.neuron!r}, bias {parameters[unit.bias]:.4g}"
    middle, inside = f"{x + side / 2:.1f}", f"{y + side / 2 + 4:.1f}"
    name = f'<text x="{middle}" y="{y + side + 15:.1f}" text-anchor="middle">{unit.name}</text>'
    return (
        f'<g data-unit="{place}"><title>{escape(title)}</title><rect class="mg-card" x="{x:.1f}" y="{y:.1f}" '
        f'width="{side:.1f}" height="{side:.1f}" rx="5"/>'
        f'<text class="inside" x="{middle}" y="{inside}" text-anchor="middle">{bias}</text>'
        f"{name * (room == CAPTION)}</g>"
    )


def _short(number: float) -> str:
    """A number that fits into a card."""
    if abs(number) < 100:
        return f"{number:.2f}".replace("-0.00", "0.00")
    return f"{number:.0e}".replace("e+0", "e").replace("e+", "e")
