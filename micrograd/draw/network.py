"""The units of a network: the neurons of an MLP, a Layer or a Neuron, in columns, with the names that drawings use."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

from micrograd.engine import Value
from micrograd.nn import MLP, Layer, Module, Neuron, walk
from micrograd.support.trees import flat

CARDS = 16  # the most cards in a column of the playground; further units are counted below it


def layers_of(model: Any) -> list[list[Neuron]]:
    """The neurons of each layer of an MLP, a Layer or a Neuron, or of a Module with just one and no other parameters.

    [] for another model, or if weights are computed.
    """
    part = next((part for part in walk(model) if isinstance(part, (MLP, Layer, Neuron))), None)
    layers = part.layers if isinstance(part, MLP) else [part] if isinstance(part, Layer) else []
    found = [[part]] if isinstance(part, Neuron) else [layer.neurons for layer in layers if isinstance(layer, Layer)]
    weights = [weight for neuron in chain(*found) for weight in (*neuron.w, neuron.b)]
    return found if sorted(map(id, weights)) == sorted(map(id, model.parameters())) else []


def described(model: Any, inputs: Sequence[str] = ()) -> dict[str, Any]:
    """A network for the scripts of pages, as `layers_of` finds it; `inputs` are names for the first of its inputs.

    `columns` has the names of its units; `units`, for each with a card, the name, weights, bias and column. Weights and
    bias are indices in `model.parameters()`; the bias of an input is -1. `names` has the name of each parameter: one
    like `h1[0].w0` in a neuron, elsewhere its path, or `p0`, `p1`, ... if the model is not a Module.
    """
    layers, at = layers_of(model), {id(parameter): i for i, parameter in enumerate(model.parameters())}
    names = [*dict(model.named_parameters())] if isinstance(model, Module) else [f"p{i}" for i in range(len(at))]
    columns = [[*inputs, *map("x{}".format, range(len(inputs), len(layers[0][0].w)))]] if layers else []
    units = [[name, [], -1, 0] for column in columns for name in column[:CARDS]]
    for k, neurons in enumerate(layers, 1):
        layer = "out" if k == len(layers) else f"h{k}"
        columns.append([layer + f"[{i}]" * (len(neurons) > 1) for i in range(len(neurons))])
        for i, (name, neuron) in enumerate(zip(columns[k], neurons, strict=True)):
            weights, bias = [at[id(w)] for w in neuron.w], at[id(neuron.b)]
            names[bias] = f"{name}.b"
            for j, weight in enumerate(weights):
                names[weight] = f"{name}.w{j}"
            units += [[name, weights, bias, k]] * (i < CARDS)
    return {"columns": columns, "units": units, "names": names}


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
