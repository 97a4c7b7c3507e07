"""A network as a picture: a card for each neuron, in columns, and an edge for each weight, by its sign and size."""

import math
from collections.abc import Sequence
from html import escape
from itertools import chain, pairwise, product
from typing import Any, NamedTuple

from micrograd.draw.text import real
from micrograd.draw.training.charts import text
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


Card = tuple[Unit, float, float]  # with its upper left corner


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
    for k, layer in enumerate(neurons, 1):
        name = "out" if k == len(neurons) else f"h{k}"
        known = [(neuron, [number[id(w)] for w in neuron.w], number[id(neuron.b)]) for neuron in layer]
        found.append([Unit(name + f"[{i}]" * (len(layer) > 1), *parts) for i, parts in enumerate(known)])
    return found


def described(model: Any) -> dict[str, Any]:
    """The network for the scripts of pages: names by column; for each card its name, weights, bias and column."""
    every = columns(model)
    return {
        "columns": [[unit.name for unit in units] for units in every],
        "units": [[u.name, list(u.weights), u.bias, k] for k, units in enumerate(every) for u in units[:CARDS]],
    }


def units_and_outputs(layers: Sequence[Any], x: Any) -> list[Any]:
    """The outputs of the units that have a card, of all layers but the last one, and those of the last one."""
    found: list[Any] = []
    for i, layer in enumerate(layers):
        x = layer(x)
        x = list(x) if isinstance(x, (list, tuple)) else [x]
        found += x[: CARDS if i < len(layers) - 1 else None]
    return found


def names(model: Any) -> list[str]:
    """The name of each parameter of an MLP, a Layer or a Neuron, as `h1[0].w0`; of others, its path."""
    found = [name for name, _ in model.named_parameters()]
    for unit in chain.from_iterable(columns(model)[1:]):
        for k, i in enumerate(unit.weights):
            found[i] = f"{unit.name}.w{k}"
        found[unit.bias] = f"{unit.name}.b"
    return found


def network(model: Any) -> str:
    """The network of an MLP, a Layer or a Neuron as an SVG element, for `shell.CHART_STYLE`; "" for another model."""
    every = columns(model)
    if not every:
        return ""
    fullest = min(max(map(len, every)), CARDS)
    pitch = min(MAX_PITCH, max(MIN_PITCH, 600 / fullest))
    room = CAPTION if pitch > 2 * CAPTION else 4
    side = pitch - room - 6
    parameters = [real(parameter.data) for parameter in model.parameters()]
    columns_of_cards, more = [], []
    for k, units in enumerate(every):
        x, top = SIDE + COLUMN * k, TOP + pitch * (fullest - min(len(units), CARDS)) / 2
        columns_of_cards.append([(unit, x, top + pitch * i) for i, unit in enumerate(units[:CARDS])])
        if len(units) > CARDS:
            more.append(text(x, TOP + pitch * CARDS + 10, f"and {len(units) - CARDS} more", "mg-soft"))
    parts = _edges(columns_of_cards, side, pitch / 16, parameters)
    for unit, x, y in chain.from_iterable(columns_of_cards):
        parts.append(_card(unit, x, y, side, parameters, has_caption=room == CAPTION))
    width = max(2 * SIDE + COLUMN * (len(every) - 1) + side, MIN_WIDTH)
    bottom = TOP + pitch * fullest + LINE * bool(more)
    legend = LEGEND[: 2 if room == CAPTION else 1]
    parts += more + [text(SIDE, bottom + LINE * (i + 1), line, "mg-soft") for i, line in enumerate(legend)]
    height = bottom + LINE * len(legend) + TOP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="mg-network" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" role="img" aria-label="{escape(repr(model))}">'
        f"{''.join(parts)}</svg>"
    )


def _edges(cards: Sequence[Sequence[Card]], side: float, thickest: float, parameters: Sequence[float]) -> list[str]:
    """The edges between the cards of each two columns."""
    weights = [parameters[i] for unit, *_ in chain.from_iterable(cards) for i in unit.weights]
    largest = max(map(abs, filter(math.isfinite, weights)), default=0.0)
    edges = []
    for before, column in pairwise(cards):
        for (b, x, y), (j, (a, left, above)) in product(column, enumerate(before)):
            weight, start = parameters[b.weights[j]], left + side
            bend = (start + x) / 2
            there, here = f"{above + side / 2:.1f}", f"{y + side / 2:.1f}"
            sign = "plus" if weight > 0 else "minus" if weight < 0 else "none"
            share = max(abs(weight) / largest, 0.1) if largest and math.isfinite(weight) else 0.1
            edges.append(
                f'<path class="mg-edge {sign}" '
                f'd="M{start:.1f} {there}C{bend:.1f} {there} {bend:.1f} {here} {x:.1f} {here}" '
                f'stroke-width="{thickest * share:.2f}">'
                f"<title>{b.name}.w{j}, the weight of {a.name}: {weight:.4g}</title></path>"
            )
    return edges


def _card(unit: Unit, x: float, y: float, side: float, parameters: Sequence[float], *, has_caption: bool) -> str:
    """A unit's card; if there is room for a caption, with its name below and its bias inside."""
    bias, title = "", unit.name
    if unit.neuron:
        title += f": {unit.neuron!r}, bias {parameters[unit.bias]:.4g}"
        bias = _short(parameters[unit.bias]) * has_caption
    return (
        f'<g><title>{escape(title)}</title><rect class="mg-card" x="{x:.1f}" y="{y:.1f}" '
        f'width="{side:.1f}" height="{side:.1f}" rx="5"/>'
        f"{text(x + side / 2, y + side / 2 + 4, bias, 'inside', 'middle')}"
        f"{text(x + side / 2, y + side + 15, unit.name, anchor='middle') * has_caption}</g>"
    )


def _short(number: float) -> str:
    """A number that fits into a card."""
    if abs(number) < 100:
        return f"{number:.2f}".replace("-0.00", "0.00")
    return f"{number:.0e}".replace("e+0", "e").replace("e+", "e")
