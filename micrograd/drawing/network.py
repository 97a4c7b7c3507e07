"""A network as a picture: a card for each neuron, in columns, and an edge for each weight, by its sign and size."""

import math
from collections.abc import Sequence
from html import escape
from typing import Any, NamedTuple

from micrograd.drawing.plane import real
from micrograd.nn import MLP, Layer, Neuron

CARDS = 16  # cards in a column: of more, the first are shown
COLUMN, SIDE, TOP, LINE = 150, 24, 12, 17  # from one column to the next, the margins, a line of text
TALLEST, LOWEST = 84, 37  # from one card of the fullest column to the next, caption and all
CAPTION = 22  # which cards have whose column leaves room for it
NARROWEST = 320  # which the legend needs
LEGEND = ("edges: weights, solid above 0, dashed below", "in the cards: biases")


class Unit(NamedTuple):
    """A neuron, or an input where it has none: its name, and the number of each of its parameters in the model."""

    name: str
    neuron: Neuron | None = None
    weights: Sequence[int] = ()
    bias: int = -1


def layers_of(model: Any) -> list[Any]:
    """The Layers of an MLP, or a Layer or a Neuron alone; none of a model of another kind, or with computed weights."""
    layers = list(model.layers) if type(model) is MLP else [model] if type(model) in (Layer, Neuron) else []
    neurons = [n for layer in layers for n in (layer.neurons if isinstance(layer, Layer) else [layer])]
    return layers if not any(w._prev for neuron in neurons for w in (*neuron.w, neuron.b)) else []


def columns(model: Any) -> list[list[Unit]]:
    """The inputs and the layers of an MLP, a Layer or a Neuron; nothing for a model of another kind."""
    neurons = [layer.neurons if isinstance(layer, Layer) else [layer] for layer in layers_of(model)]
    if not neurons:
        return []
    number = {id(parameter): i for i, parameter in enumerate(model.parameters())}
    found = [[Unit(f"x{i}") for i in range(len(neurons[0][0].w))]]
    for k, layer in enumerate(neurons):
        units = []
        for i, neuron in enumerate(layer):
            name = "output" if k == len(neurons) - 1 else f"h{k + 1}"
            name += f" {i}" if len(layer) > 1 else ""
            units.append(Unit(name, neuron, [number[id(w)] for w in neuron.w], number[id(neuron.b)]))
        found.append(units)
    return found


def network(model: Any, *, legend: bool = True) -> str:
    """The network of an MLP, a Layer or a Neuron as an SVG element, whose colours `look` tells; "" for another model.

    A card has its unit's place among those drawn as `data-unit`; an edge has those of the units it is between as
    `data-from` and `data-to`, and its weight's among the parameters as `data-weight`.
    """
    all = columns(model)
    if not all:
        return ""
    shown = [units[:CARDS] for units in all]
    fullest = max(map(len, shown))
    pitch = min(TALLEST, max(LOWEST, 600 / fullest))
    room = CAPTION if pitch > 2 * CAPTION else 4
    side = pitch - room - 6
    more = any(len(units) > CARDS for units in all)
    width = max(2 * SIDE + COLUMN * (len(shown) - 1) + side, NARROWEST)
    bottom = TOP + pitch * fullest + LINE * more
    lines = LEGEND[: 2 if room == CAPTION else 1] if legend else ()
    height = bottom + LINE * len(lines) + TOP
    thickest = pitch / 16
    parameters = [real(parameter.data) for parameter in model.parameters()]
    weights = [parameters[i] for units in shown for unit in units for i in unit.weights]
    largest = max((abs(w) for w in weights if math.isfinite(w)), default=0.0)

    def corner(column: int, row: int) -> tuple[float, float]:
        return SIDE + COLUMN * column, TOP + pitch * (row + (fullest - len(shown[column])) / 2)

    edges, cards, before, place = [], [], 0, 0  # of the column before, and of this one, the place of the first card
    for k, units in enumerate(shown):
        for i, unit in enumerate(units):
            x, y = corner(k, i)
            for j, number in enumerate(unit.weights[:CARDS]):
                from_x, from_y = corner(k - 1, j)
                start, end, bend = from_x + side, x, (from_x + side + x) / 2
                here, there = (f"{at + side / 2:.1f}" for at in (y, from_y))
                thick = thickest * thickness(parameters[number], largest)
                title = f"weight from {shown[k - 1][j].name} to {unit.name}: {parameters[number]:.4g}"
                edges.append(
                    f'<path class="mg-edge {sign(parameters[number])}" data-weight="{number}" '
                    f'data-from="{before + j}" data-to="{place + i}" '
                    f'd="M{start:.1f} {there}C{bend:.1f} {there} {bend:.1f} {here} {end:.1f} {here}" '
                    f'stroke-width="{thick:.2f}"><title>{title}</title></path>'
                )
            cards.append(_card(unit, place + i, x, y, side, room, parameters))
        if len(all[k]) > CARDS:
            x, y = corner(k, len(units))
            cards.append(f'<text class="mg-soft" x="{x}" y="{y + 10:.1f}">and {len(all[k]) - CARDS} more</text>')
        before, place = place, place + len(units)
    cards += [
        f'<text class="mg-soft" x="{SIDE}" y="{bottom + LINE * (i + 1):.1f}">{line}</text>'
        for i, line in enumerate(lines)
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="mg-network" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" role="img" aria-label="{escape(repr(model))}">'
        f"{''.join(edges)}{''.join(cards)}</svg>"
    )


def sign(number: float) -> str:
    """The class of an edge."""
    return "plus" if number > 0 else "minus" if number < 0 else "none"


def thickness(number: float, largest: float) -> float:
    """The thickness of an edge, by its weight and the largest of all: 1 for that."""
    return max(abs(number) / largest, 0.1) if largest and math.isfinite(number) else 0.1


def _card(unit: Unit, place: int, x: float, y: float, side: float, room: float, parameters: Sequence[float]) -> str:
    """A unit's card, with its bias in it and its name below where there is room."""
    bias = "" if unit.neuron is None or room < CAPTION else _short(parameters[unit.bias])
    title = unit.name if unit.neuron is None else f"{unit.name}: {unit.neuron!r}, bias {parameters[unit.bias]:.4g}"
    texts = f'<text x="{x + side / 2:.1f}" y="{y + side + 15:.1f}" text-anchor="middle">{unit.name}</text>'
    inside = (
        f'<text class="inside" x="{x + side / 2:.1f}" y="{y + side / 2 + 4:.1f}" text-anchor="middle">{bias}</text>'
    )
    return (
        f'<g data-unit="{place}"><title>{escape(title)}</title><rect class="mg-card" x="{x:.1f}" y="{y:.1f}" '
        f'width="{side:.1f}" height="{side:.1f}" rx="5"/>{inside}{texts * (room == CAPTION)}</g>'
    )


def _short(number: float) -> str:
    """A number that fits into a card."""
    if abs(number) < 100:
        return f"{number:.2f}".replace("-0.00", "0.00")
    return f"{number:.0e}".replace("e+0", "e").replace("e+", "e")
