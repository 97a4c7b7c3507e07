"""A network as a picture: a card for each neuron, in columns, and an edge for each weight, by its sign and size."""

import math
from collections.abc import Sequence
from html import escape
from itertools import chain, pairwise, product
from typing import Any

from micrograd.draw.text import number, real
from micrograd.draw.training.charts import text
from micrograd.engine import Value
from micrograd.nn import MLP, Layer, Neuron, walk
from micrograd.support.trees import flat

CARDS = 16  # the most cards in a column; further units are counted below it
COLUMN, SIDE, TOP, LINE = 230, 24, 12, 17  # from one column to the next, the margins, a line of text
MAX_PITCH, GAP = 64, 8  # the largest pitch of the cards in a column, and the gap between them
HEIGHT, WIDTH = 600, 420  # the most for the cards, and the least for the whole picture, with its legend
WIDE = 36  # the least side of a card with text inside
FAINT = 0.25  # the least opacity of an edge; the largest weight has 1
LEGEND = "edges: weights, solid above 0, dashed below"


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
    pitch = min(MAX_PITCH, HEIGHT / fullest)
    side, bottom = pitch - GAP, TOP + pitch * fullest + LINE
    cards: list[list[Card]] = []
    captions = []
    for k, units in enumerate(every):
        shown = units[:CARDS]
        x, top = SIDE + COLUMN * k, TOP + pitch * (fullest - len(shown)) / 2
        cards.append([(unit, x, top + pitch * i) for i, unit in enumerate(shown)])
        names = shown[0][0] + f" to {shown[-1][0]}" * (len(shown) > 1)
        captions.append(text(x, bottom, names + f" and {len(units) - CARDS} more" * (len(units) > CARDS)))
    width, height = max(SIDE + COLUMN * len(every), WIDTH), bottom + 2 * LINE
    legend = text(SIDE, bottom + LINE + 4, LEGEND + "; in the cards: biases" * (side > WIDE), "mg-soft")
    parts = [*_edges(cards, side), *(_card(*card, side) for card in chain(*cards)), *captions, legend]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="mg-network" viewBox="0 0 {width} {height:.0f}" '
        f'width="{width}" height="{height:.0f}" role="img" aria-label="{escape(repr(model))}">{"".join(parts)}</svg>'
    )


def _edges(cards: Sequence[Sequence[Card]], side: float) -> list[str]:
    """The edges between neighbouring columns: the smaller the weight, the thinner and fainter the edge."""
    weights = [real(w) for (_, neuron), *_ in chain(*cards[1:]) for w in neuron.w]
    largest = max(map(abs, filter(math.isfinite, weights)), default=0.0)
    edges = []
    for before, column in pairwise(cards):
        for ((name, neuron), x, y), (j, ((source, _), left, above)) in product(column, enumerate(before)):
            weight = real(neuron.w[j])
            sign = "plus" if weight > 0 else "minus" if weight < 0 else "none"
            share = max(abs(weight) / largest, FAINT) if largest and math.isfinite(weight) else FAINT
            edges.append(
                f'<path class="mg-edge {sign}" d="M{left + side:.1f} {above + side / 2:.1f}L{x:.1f} {y + side / 2:.1f}"'
                f' opacity="{share:.2f}" stroke-width="{side * share / 12:.2f}">'
                f"<title>{name}.w{j}, the weight of {source}: {number(weight)}</title></path>"
            )
    return edges


def _card(unit: Unit, x: float, y: float, side: float) -> str:
    """A unit's card; inside, if there is room, a neuron's bias or an input's name."""
    name, neuron = unit
    title, inside = name, name
    if neuron:
        title, inside = f"{name}: {neuron!r}, bias {number(neuron.b)}", number(neuron.b, int(side / 9))
    return (
        f'<g><title>{escape(title)}</title><rect class="mg-card" x="{x:.1f}" y="{y:.1f}" '
        f'width="{side:.1f}" height="{side:.1f}" rx="5"/>'
        f"{text(x + side / 2, y + side / 2 + 4, inside * (side > WIDE), 'inside', 'middle')}</g>"
    )
