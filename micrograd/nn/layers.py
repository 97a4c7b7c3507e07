"""A Neuron is a dot product and an activation, a Layer a list of Neurons, an MLP a list of Layers; an Embedding has a
row of numbers for each token.

Weights are drawn from `rng`: a `random.Random`, a NumPy generator or a seed; by default Python's global generator.
"""

import math
from collections.abc import Callable, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any

from micrograd.engine import Value
from micrograd.errors import require_ordered, shown
from micrograd.nn.module import Module
from micrograd.reductions import dot, take
from micrograd.validation import Rng, count, generator

Activation = Callable[[Value], Value]

if TYPE_CHECKING:

    class Output(Value, Sequence[Value]):
        """What a type checker takes the output of a Layer for, which is a Value or a list by the size of the Layer."""


_METHODS = ("tanh", "relu", "leaky_relu", "sigmoid", "softplus", "gelu", "silu")
ACTIVATIONS: dict[str, Activation] = {name: getattr(Value, name) for name in _METHODS} | {"linear": Value.__pos__}
"""The activations by name. A saved model holds the name."""


class Neuron(Module):
    """activation(w . x + b), one Value from `nin` inputs.

    The weights start uniformly distributed within sqrt(6 / (nin + nout)), after Glorot and Bengio (2010), or for the
    relus, which pass half of their inputs, within sqrt(6 / nin), after He et al. (2015). The bias starts at 0.

    The activation is a name from `ACTIVATIONS`, or any function from Value to Value; `nout` is the number of neurons in
    the layer. Raises ValueError if a size is below 1 or the activation is unknown.
    """

    def __init__(self, nin: int, activation: str | Activation = "tanh", *, nout: int = 1, rng: Rng = None) -> None:
        nin = count("nin", nin)
        self.activation = activation
        activation_of(activation)
        limit, uniform = weight_limit(nin, nout, activation), generator(rng).uniform
        self.w = [Value(uniform(-limit, limit)) for _ in range(nin)]
        self.b = Value(0.0)

    def __call__(self, x: Sequence[Any]) -> Value:
        """The output for `nin` Values or numbers. Raises ValueError for any other number of inputs."""
        _check_inputs(self, len(self.w), x)
        return activation_of(self.activation)(dot(self.w, x, self.b))

    def __repr__(self) -> str:
        return f"Neuron({len(self.w)}, {_name(self.activation)})"


class Layer(Module):
    """`nout` Neurons with the same `nin` inputs. The output is a list of Values, or a single Value if `nout` is 1.

    The parameters and errors are those of `Neuron`.
    """

    def __init__(self, nin: int, nout: int, activation: str | Activation = "tanh", *, rng: Rng = None) -> None:
        nout, rng = count("nout", nout), generator(rng)
        self.neurons = [Neuron(nin, activation, nout=nout, rng=rng) for _ in range(nout)]

    def __call__(self, x: Sequence[Any]) -> "Output":
        """The outputs for `nin` Values or numbers. Raises ValueError for any other number of inputs."""
        _check_inputs(self, len(self.neurons[0].w), x)
        x = [xi if isinstance(xi, Value) else Value(xi) for xi in x]  # leaves that the neurons share
        outputs = [neuron(x) for neuron in self.neurons]
        return outputs[0] if len(outputs) == 1 else outputs  # type: ignore[return-value]

    def __repr__(self) -> str:
        first = self.neurons[0]
        return f"Layer({len(first.w)} -> {len(self.neurons)}, {_name(first.activation)})"


class MLP(Module):
    """A multi-layer perceptron: Layers of `nouts` neurons in sequence. `model(x)` returns the outputs of the last one.

    The last one has the activation `output`, all others `activation`. The errors are those of `Neuron`; to have no
    layers is a ValueError.
    """

    def __init__(
        self, nin: int, nouts: Sequence[int], activation: str | Activation = "tanh",
        output: str | Activation = "linear", rng: Rng = None,
    ) -> None:  # fmt: skip
        require_ordered("nouts", nouts, "the size of each layer, such as [16, 1]")
        if not hasattr(nouts, "__len__") or len(nouts) == 0:
            raise ValueError(f"nouts is {shown(nouts)}: expected the size of each layer, such as [16, 1]")
        sizes = [count("nin", nin), *[count("nout", nout) for nout in nouts]]  # before the first number is drawn
        activation_of(activation)
        activation_of(output)
        rng = generator(rng)
        activations = [activation] * (len(nouts) - 1) + [output]
        self.layers = [Layer(n, m, act, rng=rng) for n, m, act in zip(sizes, sizes[1:], activations, strict=False)]

    def __call__(self, x: Sequence[Any]) -> "Output":
        """The outputs for `nin` inputs, or the one Value of a single neuron. Raises ValueError for more or fewer."""
        _check_inputs(self, len(self.layers[0].neurons[0].w), x)
        for layer in self.layers[:-1]:
            x = layer(x)
            x = x if isinstance(x, list) else [x]
        return self.layers[-1](x)

    def __repr__(self) -> str:
        layers = "".join(f" -> {len(layer.neurons)} {_name(layer.neurons[0].activation)}" for layer in self.layers)
        return f"MLP({len(self.layers[0].neurons[0].w)}{layers}, {len(self.parameters())} parameters)"


class Embedding(Module):
    """`n` rows of `size` weights, one for each token or word: `embedding(i)` is row `i`, a list of Values.

    The weights start normally distributed with mean 0 and standard deviation 1, as in `torch.nn.Embedding`. Raises
    ValueError if `n` or `size` is below 1.
    """

    def __init__(self, n: int, size: int, *, rng: Rng = None) -> None:
        n, size = count("n", n), count("size", size)
        gauss = generator(rng).gauss
        self.w = [[Value(gauss(0.0, 1.0)) for _ in range(size)] for _ in range(n)]

    def __call__(self, index: Any) -> list[Value]:
        """The row at an index that `take` accepts, a list of `size` Values. Raises ValueError if there is none."""
        row: list[Value] = take(self.w, index)
        return row

    def __repr__(self) -> str:
        return f"Embedding({len(self.w)}, {len(self.w[0])})"


def weight_limit(nin: int, nout: int, activation: str | Activation) -> float:
    """The largest weight with which a Neuron may start."""
    return math.sqrt(6 / nin if _name(activation) in ("relu", "leaky_relu") else 6 / (nin + nout))


def activation_of(activation: str | Activation) -> Activation:
    """The activation of that name, or the function itself. Raises ValueError if the name is unknown."""
    if callable(activation):
        return activation
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        raise ValueError(
            f"unknown activation {activation!r}: expected one of {', '.join(ACTIVATIONS)}, or a function of a Value"
        )
    return ACTIVATIONS[activation]


def _name(activation: str | Activation) -> str:
    return activation if isinstance(activation, str) else getattr(activation, "__name__", repr(activation))


def _check_inputs(module: Module, expected: int, x: Any) -> None:
    if type(x) is list and len(x) == expected and type(x[0]) is Value:  # from the layer before
        return
    inputs = f"{expected} input" + "s" * (expected != 1)
    require_ordered("x", x, f"a list of {inputs}")
    if not _has_items(x):
        came = "a single number" if isinstance(x, (Value, Real)) else f"{shown(x)}"
        raise TypeError(f"{module!r} takes a list of {inputs}, not {came}")
    if getattr(x, "ndim", 1) > 1 or _has_items(next(iter(x), None)):
        raise TypeError(
            f"{module!r} takes one list of {inputs}, not many: for the rows of a table X, write "
            "[model(x) for x in X] or list(map(model, X))"
        )
    if len(x) != expected:
        raise ValueError(f"{module!r} takes {inputs}, not {len(x)}")


def _has_items(x: Any) -> bool:
    return hasattr(x, "__len__") and getattr(x, "shape", None) != () and not isinstance(x, str)
