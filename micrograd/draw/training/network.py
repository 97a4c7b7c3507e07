"""A network as a picture: a card for each neuron, in columns, and an edge for each weight, by its sign and size."""

import math
from collections.abc import Sequence
from html import escape
from itertools import chain, pairwise, product
from typing import Any

from micrograd.draw.text import exact, number, real
from micrograd.draw.training.charts import text
from micrograd.engine import Value
from micrograd.nn import MLP, Layer, Neuron, walk
from micrograd.support.trees import flat

CARDS = 16  # the most cards in a column; further units are counted below it
COLUMN, SIDE, TOP, LINE = 150, 24, 12, 17  # from one column to the next, the margins, a line of text
WIDE_COLUMN = 230  # in a network whose units have no captions
MAX_PITCH, MIN_PITCH = 84, 37  # from one card of the fullest column to the next, with its caption
CAPTION, WIDE = 22, 36  # the height of a card's caption, and the least side of a card with its bias inside
MIN_WIDTH, MORE = 320, 165  # for the legend, and for the names of the units of a column
LEGEND = ("edges: weights, solid above 0, dashed below", "in the cards: biases")


Unit = tuple[str, Any]  # the name of an input, and None; or of a neuron, and its Neuron
Card = tuple[Unit, float, float]  # with its upper left corner


def layers_of(model: Any) -> list[list[Neuron]]:
    """The neurons of each layer of an MLP, a Layer or a Neuron, or of a Module with just one and no other parameters.

    [] for another model, or if weights are computed.
    """
    part = next((part for _, part, _ in walk(model) if isinstance(part, (MLP, Layer, Neuron))), None)
    layers = part.layers if isinstance(part, MLP) else [part] if isinstance(part, Layer) else []
    found = [[part]] if isinstance(part, Neuron) else [layer.neurons for layer in layers]
    weights = [weight for neuron in chain(*found) for weight in (*neuron.w, neuron.b)]
    is_all = bool(found) and len(weights) == len(model.parameters())
    return found if is_all and not any(weight._prev for weight in weights) else []


def columns(model: Any) -> list[list[Unit]]:
    """The units of the inputs and of each layer of a model that `layers_of` knows; [] for another model."""
    layers = layers_of(model)
    found: list[list[Unit]] = [[(f"x{i}", None) for i in range(len(layers[0][0].w))]] if layers else []
    for k, neurons in enumerate(layers, 1):
        name = "out" if k == len(layers) else f"h{k}"
        found.append([(name + f"[{i}]" * (len(neurons) > 1), neuron) for i, neuron in enumerate(neurons)])
    return found


def names(model: Any) -> list[str]:
    """The name of each parameter: in an MLP, a Layer or a Neuron, like `h1[0].w0`; in other models, its path."""
    known: dict[int, str] = {}
    for name, neuron in chain(*columns(model)[1:]):
        known |= {id(w): f"{name}.w{k}" for k, w in enumerate(neuron.w)} | {id(neuron.b): f"{name}.b"}
    return [known.get(id(parameter), path) for path, parameter in model.named_parameters()]


def described(model: Any) -> dict[str, Any]:
    """The network for the scripts of pages: names by column; for each card its name, weights, bias and column.

    Weights and bias are indices in `model.parameters()`; the bias of an input is -1.
    """
    every, place = columns(model), {id(parameter): i for i, parameter in enumerate(model.parameters())}
    units = [
        [name, [place[id(w)] for w in neuron.w] if neuron else [], place[id(neuron.b)] if neuron else -1, k]
        for k, column in enumerate(every)
        for name, neuron in column[:CARDS]
    ]
    return {"columns": [[name for name, _ in column] for column in every], "units": units}


def units_and_outputs(model: Any, layers: Sequence[Sequence[Neuron]], x: Any) -> list[Any]:
    """What goes into each layer of a model, of units that have a card; then all outputs of the model."""
    inputs: dict[int, Any] = {}
    call = Neuron.__call__

    def remembering(self: Neuron, x: Sequence[Any]) -> Value:
        inputs[id(self)] = x
        return call(self, x)

    Neuron.__call__ = remembering  # type: ignore[method-assign]
    try:
        outputs = model(x)
    finally:
        Neuron.__call__ = call  # type: ignore[method-assign]
    return [unit for neurons in layers for unit in inputs[id(neurons[0])][:CARDS]] + flat(outputs)


def network(model: Any) -> str:
    """The network of an MLP, a Layer or a Neuron as an SVG element, for `shell.CHART_STYLE`; "" for another model."""
    every = columns(model)
    if not every:
        return ""
    fullest = min(max(map(len, every)), CARDS)
    pitch = min(MAX_PITCH, max(MIN_PITCH, 600 / fullest))
    room = CAPTION if pitch > 2 * CAPTION else 4
    side = pitch - room - 6
    across = COLUMN if room == CAPTION else WIDE_COLUMN
    cards: list[list[Card]] = []
    more = []
    for k, units in enumerate(every):
        x, top = SIDE + across * k, TOP + pitch * (fullest - min(len(units), CARDS)) / 2
        cards.append([(unit, x, top + pitch * i) for i, unit in enumerate(units[:CARDS])])
        words = f"{units[0][0]} to {units[min(len(units), CARDS) - 1][0]}" * (room < CAPTION and len(units) > 1)
        words += f" and {len(units) - CARDS} more" * (len(units) > CARDS)
        more += [text(x, TOP + pitch * fullest + 10, words or units[0][0], "mg-soft")] * (room < CAPTION)
    parts = _edges(cards, side, pitch / 16, is_dense=room < CAPTION)
    parts += [_card(*card, side, has_caption=room == CAPTION) for card in chain(*cards)]
    last = max(side, MORE * bool(more))
    width = max(2 * SIDE + across * (len(every) - 1) + last, MIN_WIDTH)
    bottom = TOP + pitch * fullest + LINE * bool(more)
    legend = LEGEND[: 1 + (side > WIDE)]
    parts += more + [text(SIDE, bottom + LINE * (i + 1), line, "mg-soft") for i, line in enumerate(legend)]
    height = bottom + LINE * len(legend) + TOP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="mg-network" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" role="img" aria-label="{escape(repr(model))}">'
        f"{''.join(parts)}</svg>"
    )


def _edges(cards: Sequence[Sequence[Card]], side: float, thickest: float, *, is_dense: bool) -> list[str]:
    """The edges between the cards of each two columns; where they are dense, straight, and fainter if smaller."""
    weights = [real(w) for (_, neuron), *_ in chain(*cards[1:]) for w in neuron.w]
    largest = max(map(abs, filter(math.isfinite, weights)), default=0.0)
    edges = []
    for before, column in pairwise(cards):
        for ((name, neuron), x, y), (j, ((source, _), left, above)) in product(column, enumerate(before)):
            weight, start = real(neuron.w[j]), left + side
            bend = (start + x) / 2
            there, here = f"{above + side / 2:.1f}", f"{y + side / 2:.1f}"
            sign = "plus" if weight > 0 else "minus" if weight < 0 else "none"
            share = max(abs(weight) / largest, 0.1) if largest and math.isfinite(weight) else 0.1
            curve = "L" if is_dense else f"C{bend:.1f} {there} {bend:.1f} {here} "
            faint = f' opacity="{share:.2f}"' * is_dense
            edges.append(
                f'<path class="mg-edge {sign}" d="M{start:.1f} {there}{curve}{x:.1f} {here}"{faint} '
                f'stroke-width="{thickest * share:.2f}">'
                f"<title>{name}.w{j}, the weight of {source}: {exact(weight)}</title></path>"
            )
    return edges


def _card(unit: Unit, x: float, y: float, side: float, *, has_caption: bool) -> str:
    """A unit's card, with its bias inside and its name below where there is room for them."""
    name, neuron = unit
    title, bias = name, ""
    if neuron:
        title, bias = f"{name}: {neuron!r}, bias {exact(neuron.b)}", number(neuron.b, int(side / 9)) * (side > WIDE)
    return (
        f'<g><title>{escape(title)}</title><rect class="mg-card" x="{x:.1f}" y="{y:.1f}" '
        f'width="{side:.1f}" height="{side:.1f}" rx="5"/>'
        f"{text(x + side / 2, y + side / 2 + 4, bias, 'inside', 'middle')}"
        f"{text(x + side / 2, y + side + 15, name, anchor='middle') * has_caption}</g>"
    )
