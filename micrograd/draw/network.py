"""The units of a network: the neurons of an MLP, a Layer or a Neuron, in columns, with the names that drawings use."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

from micrograd.engine import Value
from micrograd.nn import MLP, Layer, Neuron, walk
from micrograd.support.trees import flat

CARDS = 16  # the most cards in a column of the playground; further units are counted below it

Unit = tuple[str, Any]  # the name of an input, and None; or of a neuron, and its Neuron


def layers_of(model: Any) -> list[list[Neuron]]:
    """The neurons of each layer of an MLP, a Layer or a Neuron, or of a Module with just one and no other parameters.

    [] for another model, or if weights are computed.
    """
    part = next((part for part in walk(model) if isinstance(part, (MLP, Layer, Neuron))), None)
    layers = part.layers if isinstance(part, MLP) else [part] if isinstance(part, Layer) else []
    found = [[part]] if isinstance(part, Neuron) else [layer.neurons for layer in layers]
    weights = [weight for neuron in chain(*found) for weight in (*neuron.w, neuron.b)]
    is_all = bool(found) and len(weights) == len([*model.parameters()])
    return found if is_all and not any(weight._prev for weight in weights) else []


def columns(model: Any, inputs: Sequence[str] = ()) -> list[list[Unit]]:
    """The units of the inputs, with names for the first ones, and of each layer of a model; [] if it has none."""
    layers = layers_of(model)
    others = map("x{}".format, range(len(inputs), len(layers[0][0].w))) if layers else ()
    found: list[list[Unit]] = [[(name, None) for name in (*inputs, *others)]] if layers else []
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


def described(model: Any, inputs: Sequence[str]) -> dict[str, Any]:
    """The network for the scripts of pages: names by column; for each card its name, weights, bias and column.

    Weights and bias are indices in `model.parameters()`; the bias of an input is -1.
    """
    every, place = columns(model, inputs), {id(parameter): i for i, parameter in enumerate(model.parameters())}
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


def at_zero(model: Any) -> Value | None:
    """The output of a model that `layers_of` knows for inputs of 0, several as one Value; None for another model."""
    layers = layers_of(model)
    outputs = [Value(0.0, label=f"x{i}") for i in range(len(layers[0][0].w))] if layers else []
    for neurons in layers:
        outputs = [neuron(outputs) for neuron in neurons]
    n = len(outputs)
    return Value(0.0, tuple(outputs), f"{n} outputs") if n > 1 else outputs[0] if outputs else None
