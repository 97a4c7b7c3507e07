"""Small neural networks: a Neuron is a fused dot product and an activation, a Layer is a list of Neurons, an MLP a
list of Layers. Whatever has parameters is a Module.
"""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from micrograd.engine import Value, dot

__all__ = ["ACTIVATIONS", "MLP", "Layer", "Module", "Neuron"]

Activation = Callable[[Value], Value]

ACTIVATIONS: dict[str, Activation] = {
    "tanh": Value.tanh,
    "relu": Value.relu,
    "leaky_relu": Value.leaky_relu,
    "sigmoid": Value.sigmoid,
    "softplus": Value.softplus,
    "linear": Value.__pos__,
}


class Module:
    """Something with parameters: the Values among its attributes, and those of the Modules and lists among them."""

    def named_parameters(self) -> Iterator[tuple[str, Value]]:
        """Each parameter once, with its path as its name: `("layers.0.neurons.3.w.1", Value)`, in a fixed order."""
        seen: set[int] = set()
        for name, value in _walk("", vars(self).items()):
            if id(value) not in seen:
                seen.add(id(value))
                yield name, value

    def parameters(self) -> list[Value]:
        """Each parameter once, in a fixed order."""
        return [parameter for _, parameter in self.named_parameters()]

    def zero_grad(self) -> None:
        """Set the gradient of each parameter to 0, since `backward` adds to it."""
        for parameter in self.parameters():
            parameter.grad = 0.0


def _walk(prefix: str, members: Any) -> Iterator[tuple[str, Value]]:
    """The Values among the (name, member) pairs, and within those of them that hold others."""
    for name, member in members:
        path = f"{prefix}{name}"
        if isinstance(member, Value):
            yield path, member
        elif isinstance(member, Module):
            yield from _walk(f"{path}.", vars(member).items())
        elif isinstance(member, (list, tuple)):
            yield from _walk(f"{path}.", enumerate(member))


class Neuron(Module):
    """activation(w . x + b), one Value from `nin` inputs.

    The weights start uniformly distributed, the bias at 0: by Glorot and Bengio (2010) within sqrt(6 / (nin + nout)),
    and for the relus, which let half of their inputs through, by He et al. (2015) within sqrt(6 / nin).

    Parameters
    ----------
    nin
        The number of inputs.
    activation
        A name from `ACTIVATIONS`, or any function from Value to Value.
    nout
        The number of neurons in its layer.
    rng
        A `random.Random` or a seed; by default Python's global generator.

    Raises
    ------
    ValueError
        If a size is below 1 or the activation is unknown.
    """

    def __init__(
        self,
        nin: int,
        activation: str | Activation = "tanh",
        *,
        nout: int = 1,
        rng: random.Random | int | None = None,
    ) -> None:
        _check_size("nin", nin)
        self.activation = activation
        self._activate = _activation(activation)
        limit = math.sqrt(6 / nin) if activation in ("relu", "leaky_relu") else math.sqrt(6 / (nin + nout))
        uniform = _generator(rng).uniform
        self.w = [Value(uniform(-limit, limit)) for _ in range(nin)]
        self.b = Value(0.0)

    def __call__(self, x: Sequence[Any]) -> Value:
        """The output for `nin` Values or numbers. Raises ValueError for another number of them."""
        _check_inputs(self, len(self.w), x)
        return self._activate(dot(self.w, x, self.b))

    def __repr__(self) -> str:
        return f"Neuron({len(self.w)}, {_name(self.activation)})"


class Layer(Module):
    """`nout` Neurons that see the same `nin` inputs: a list of Values, or a Value alone where `nout` is 1.

    The parameters and errors are those of `Neuron`.
    """

    def __init__(
        self,
        nin: int,
        nout: int,
        activation: str | Activation = "tanh",
        *,
        rng: random.Random | int | None = None,
    ) -> None:
        _check_size("nout", nout)
        rng = _generator(rng)
        self.neurons = [Neuron(nin, activation, nout=nout, rng=rng) for _ in range(nout)]

    def __call__(self, x: Sequence[Any]) -> Any:
        """The outputs for `nin` Values or numbers. Raises ValueError for another number of them."""
        _check_inputs(self, len(self.neurons[0].w), x)
        x = [xi if isinstance(xi, Value) else Value(xi) for xi in x]  # leaves that the neurons share
        outputs = [neuron(x) for neuron in self.neurons]
        return outputs[0] if len(outputs) == 1 else outputs

    def __repr__(self) -> str:
        first = self.neurons[0]
        return f"Layer({len(first.w)} -> {len(self.neurons)}, {_name(first.activation)})"


class MLP(Module):
    """A multi-layer perceptron: Layers one after the other.

    Parameters
    ----------
    nin
        The number of inputs.
    nouts
        The number of neurons in each layer, the last of which gives the outputs.
    activation
        The activation of all layers but the last: a name from `ACTIVATIONS`, or any function from Value to Value.
    output
        The activation of the last layer.
    rng
        A `random.Random` or a seed for the weights; by default Python's global generator.

    Raises
    ------
    ValueError
        If a size is below 1, there are no layers, or an activation is unknown.
    """

    def __init__(
        self,
        nin: int,
        nouts: Sequence[int],
        activation: str | Activation = "tanh",
        output: str | Activation = "linear",
        rng: random.Random | int | None = None,
    ) -> None:
        if not nouts:
            raise ValueError("nouts is empty: an MLP has the size of at least one layer, such as [16, 1]")
        rng = _generator(rng)
        sizes = [nin, *nouts]
        activations = [activation] * (len(nouts) - 1) + [output]
        self.layers = [Layer(n, m, act, rng=rng) for n, m, act in zip(sizes, nouts, activations, strict=False)]

    def __call__(self, x: Sequence[Any]) -> Any:
        """The outputs for `nin` Values or numbers: a list, or a Value alone where the last layer has one neuron.

        Raises ValueError for another number of inputs.
        """
        _check_inputs(self, len(self.layers[0].neurons[0].w), x)
        for layer in self.layers[:-1]:
            x = layer(x)
            x = x if isinstance(x, list) else [x]
        return self.layers[-1](x)

    def __repr__(self) -> str:
        layers = "".join(f" -> {len(layer.neurons)} {_name(layer.neurons[0].activation)}" for layer in self.layers)
        return f"MLP({len(self.layers[0].neurons[0].w)}{layers}, {len(self.parameters())} parameters)"


def _activation(activation: str | Activation) -> Activation:
    if callable(activation):
        return activation
    if activation not in ACTIVATIONS:
        raise ValueError(
            f"unknown activation {activation!r}: expected one of {', '.join(ACTIVATIONS)}, or a function of a Value"
        )
    return ACTIVATIONS[activation]


def _name(activation: str | Activation) -> str:
    return activation if isinstance(activation, str) else getattr(activation, "__name__", repr(activation))


def _generator(rng: random.Random | int | None) -> Any:
    """A source of random numbers: `rng` itself, one with that seed, or Python's global one."""
    return random if rng is None else random.Random(rng) if isinstance(rng, int) else rng


def _check_size(name: str, size: int) -> None:
    if not isinstance(size, int) or size < 1:
        raise ValueError(f"{name} is {size!r}: expected a whole number of at least 1")


def _check_inputs(module: Module, expected: int, x: Sequence[Any]) -> None:
    if not hasattr(x, "__len__"):
        raise TypeError(f"{module!r} takes a list of {expected} inputs, not a {type(x).__name__}")
    if len(x) != expected:
        raise ValueError(f"{module!r} takes {expected} inputs, not {len(x)}")
