"""Small neural networks: a Neuron is a fused dot product and an activation, a Layer is a list of Neurons, an MLP a
list of Layers; an Embedding has a list of numbers for each token. Whatever has parameters is a Module.
"""

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from numbers import Real
from reprlib import repr as short
from typing import Any

from micrograd import scalar, serialization
from micrograd.checks import Rng, count, generator, having, plain
from micrograd.engine import Value, dot, take

__all__ = ["ACTIVATIONS", "MLP", "Embedding", "Layer", "Module", "Neuron", "load", "save"]

Activation = Callable[[Value], Value]

ACTIVATIONS: dict[str, Activation] = {
    "tanh": Value.tanh,
    "relu": Value.relu,
    "leaky_relu": Value.leaky_relu,
    "sigmoid": Value.sigmoid,
    "softplus": Value.softplus,
    "gelu": Value.gelu,
    "silu": Value.silu,
    "linear": Value.__pos__,
}
"""The activations that go by a name, which is what a saved model holds."""


class Module:
    """Something with parameters: the Values among its attributes, and in the Modules, lists and dicts among them.

    A Value that was computed from others is no parameter: a Module may keep what it computes, as `self.hidden`. A copy
    is without such attributes.
    """

    def named_parameters(self) -> Iterator[tuple[str, Value]]:
        """Each parameter once, with its path as its name: `("layers.0.neurons.3.w.1", Value)`, in a fixed order."""
        seen: dict[int, Any] = {}  # which keeps them alive, so that no other can have the id
        found: list[tuple[str, Any]] = [("", self)]
        while found:
            path, part = found.pop()
            if id(part) in seen:
                continue
            seen[id(part)] = part
            if not isinstance(part, Value):
                found += [(f"{path}.{name}" if path else str(name), member) for name, member in _members(part)][::-1]
            elif not part._prev:
                yield path, part

    def parameters(self) -> list[Value]:
        """Each parameter once, in a fixed order."""
        return [parameter for _, parameter in self.named_parameters()]

    def zero_grad(self) -> None:
        """Set the gradient of each parameter to 0, since `backward` adds to it."""
        for parameter in self.parameters():
            parameter.grad = scalar.zero(parameter.data)

    def state_dict(self) -> dict[str, Any]:
        """The number of each parameter, by its name. Raises ValueError if two have the same name."""
        return {name: parameter.data for name, parameter in self._by_name().items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Set each parameter to the number by its name: what `state_dict` of a module like this one has returned.

        Raises
        ------
        ValueError
            If a name is missing, is not that of a parameter, or is that of two. Then nothing has changed, as with a
            TypeError.
        TypeError
            If something is not a number.
        """
        having("state", state, ["keys"], "a dict of numbers by name, as state_dict() returns")
        parameters = self._by_name()
        if parameters.keys() != state.keys():
            missing, unknown = sorted(parameters.keys() - state.keys()), sorted(map(str, state.keys() - parameters))
            names = f"missing: {short(missing)}, unknown: {short(unknown)}"
            raise ValueError(f"the state is of another module: {names}")
        numbers = []
        for name in parameters:
            try:
                numbers.append(Value(state[name]).data)
            except TypeError as error:
                raise TypeError(f"{name}: {error}") from None
        for parameter, number in zip(parameters.values(), numbers, strict=True):
            parameter.data = number

    def _by_name(self) -> dict[str, Value]:
        named = list(self.named_parameters())
        parameters = dict(named)
        if len(parameters) < len(named):
            name = next(name for name, parameter in named if parameters[name] is not parameter)
            raise ValueError(f"two parameters have the name {name}: change a key or an attribute on its path")
        return parameters

    def __getstate__(self) -> dict[str, Any]:
        return {name: member for name, member in vars(self).items() if not _is_computed(member)}

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        """What a notebook shows."""
        from micrograd.drawing import displays  # here, since only notebooks need it

        return displays.of_module(self)


def _members(part: Any) -> Iterable[tuple[Any, Any]]:
    """The attributes of a Module, or the items of a list, a dict or an array, with their names."""
    if isinstance(part, Module):
        return vars(part).items()
    if isinstance(part, dict):
        return part.items()
    if isinstance(part, (list, tuple)):
        return enumerate(part)
    if str(getattr(part, "dtype", "")) == "object":  # a NumPy array, perhaps of Values
        return enumerate(part.tolist())
    return ()


def _is_computed(part: Any) -> bool:
    """Whether this is a Value computed from others, or a list or dict with one in it."""
    if isinstance(part, Value):
        return bool(part._prev)
    return not isinstance(part, Module) and any(_is_computed(member) for _, member in _members(part))


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
        A `random.Random`, a NumPy generator or a seed; by default Python's global generator.

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
        rng: Rng = None,
    ) -> None:
        nin = count("nin", nin)
        self.activation = activation
        _activation(activation)
        limit = math.sqrt(6 / nin) if _name(activation) in ("relu", "leaky_relu") else math.sqrt(6 / (nin + nout))
        uniform = generator(rng).uniform
        self.w = [Value(uniform(-limit, limit)) for _ in range(nin)]
        self.b = Value(0.0)

    def __call__(self, x: Sequence[Any]) -> Value:
        """The output for `nin` Values or numbers. Raises ValueError for another number of them."""
        _check_inputs(self, len(self.w), x)
        return _activation(self.activation)(dot(self.w, x, self.b))

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
        rng: Rng = None,
    ) -> None:
        nout, rng = count("nout", nout), generator(rng)
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
    """A multi-layer perceptron: Layers one after the other, the last of which gives what `model(x)` returns.

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
        A `random.Random`, a NumPy generator or a seed for the weights; by default Python's global generator.

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
        rng: Rng = None,
    ) -> None:
        if not hasattr(nouts, "__len__") or len(nouts) == 0:
            raise ValueError(f"nouts is {nouts!r}: expected the size of each layer, such as [16, 1]")
        sizes = [count("nin", nin), *[count("nout", nout) for nout in nouts]]  # before the first number is drawn
        _activation(activation)
        _activation(output)
        rng = generator(rng)
        activations = [activation] * (len(nouts) - 1) + [output]
        self.layers = [Layer(n, m, act, rng=rng) for n, m, act in zip(sizes, sizes[1:], activations, strict=False)]

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


class Embedding(Module):
    """`n` rows of `size` weights, one row for each token, word or whatever else has a number from 0 to `n` - 1.

    `embedding(i)` is row `i`, a list of Values.

    The weights start normally distributed around 0 with a standard deviation of 1, as in `torch.nn.Embedding`.

    Parameters
    ----------
    n
        The number of rows.
    size
        The number of weights in a row.
    rng
        A `random.Random`, a NumPy generator or a seed; by default Python's global generator.

    Raises
    ------
    ValueError
        If `n` or `size` is below 1.
    """

    def __init__(self, n: int, size: int, *, rng: Rng = None) -> None:
        n, size = count("n", n), count("size", size)
        gauss = generator(rng).gauss
        self.w = [[Value(gauss(0.0, 1.0)) for _ in range(size)] for _ in range(n)]

    def __call__(self, index: Any) -> list[Value]:
        """The row at an index as `take` has it, a list of `size` Values. Raises ValueError where there is none."""
        row: list[Value] = take(self.w, index)
        return row

    def __repr__(self) -> str:
        return f"Embedding({len(self.w)}, {len(self.w[0])})"


# Saving. A file holds the parts of a model and their numbers but no sizes: these follow, and so cannot be forged.


def save(model: Module, path: str | os.PathLike[str]) -> None:
    """Save a Neuron, Layer, MLP or Embedding to a file in JSON, with every parameter to the last bit.

    A file that is there already is replaced by the whole new one, or stays as it is.

    Raises
    ------
    ValueError
        If the model is, or has a part that is, of another type; if an activation is not one of `ACTIVATIONS` by its
        name; or if a parameter is not a finite float. Of such a model, save the `state_dict()` in a way of your own.
    TypeError
        If it is no model at all.
    OSError
        If the file cannot be written.
    """
    if not isinstance(model, Module):
        raise TypeError(f"model is of type {type(model).__name__}: expected a {_KINDS}")
    try:
        document = _encoded(model)
        if _decoded(document).state_dict() != model.state_dict():
            raise ValueError("some of its parts share a parameter, or have numbers that no float is equal to")
    except (ValueError, OverflowError, RecursionError) as error:
        raise ValueError(f"this {type(model).__name__} has to be saved by its state_dict(): {error}") from None
    serialization.write(document, path)


def load(path: str | os.PathLike[str]) -> Any:
    """The Neuron, Layer, MLP or Embedding that `save` has written to a file. Nothing in the file is run.

    Raises
    ------
    ValueError
        If the file is damaged or is something else.
    OSError
        If the file cannot be opened.
    """
    try:
        return _decoded(serialization.read(path))
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)} does not hold a model: {error}") from None


def _encoded(part: Any, at: str = "model") -> Any:
    """The part of a model as JSON has it, or as something that `_decoded` will refuse."""
    if isinstance(part, Module):
        if type(part) not in _DECODERS:
            raise ValueError(f"{at} is of the class {type(part).__name__}: expected a {_KINDS}")
        members = {name: _encoded(member, f"{at}.{name}") for name, member in vars(part).items()}
        return {"type": type(part).__name__, **members}
    if isinstance(part, list):
        return [_encoded(member, f"{at}.{i}") for i, member in enumerate(part)]
    if isinstance(part, Value):
        number = plain(part.data)
        return float(number) if isinstance(number, int) else number
    return part


def _decoded(part: Any, kind: type[Module] | None = None, at: str = "model") -> Module:
    """The module of this kind, or else of any, that a part of a document stands for."""
    for known, (members, decoder) in _DECODERS.items():
        if kind in (known, None) and isinstance(part, dict) and part.get("type") == known.__name__:
            if part.keys() != {"type", *members}:
                raise ValueError(f"the {known.__name__} {at} has {short(sorted(part))}: expected {sorted(members)}")
            return decoder(*[part[member] for member in members], at)
    expected = kind.__name__ if kind else _KINDS
    raise ValueError(f"{at} is {short(part)}: expected a {expected}")


def _neuron(activation: Any, w: Any, b: Any, at: str) -> Neuron:
    _check_numbers([*_filled(w, f"{at}.w"), b], at)
    if not isinstance(activation, str):
        raise ValueError(f"{at} has the activation {short(activation)}: expected a name from ACTIVATIONS")
    neuron = Neuron(len(w), activation, rng=0)
    neuron.w, neuron.b = [Value(x) for x in w], Value(b)
    return neuron


def _layer(neurons: Any, at: str) -> Layer:
    layer = Layer.__new__(Layer)
    layer.neurons = _parts(neurons, Neuron, f"{at}.neurons")
    if len({len(neuron.w) for neuron in layer.neurons}) > 1:
        raise ValueError(f"the neurons of {at} differ in their number of weights")
    return layer


def _mlp(layers: Any, at: str) -> MLP:
    mlp = MLP.__new__(MLP)
    mlp.layers = _parts(layers, Layer, f"{at}.layers")
    for before, after in pairwise(mlp.layers):
        if len(before.neurons) != len(after.neurons[0].w):
            raise ValueError(f"{at} has a {after!r} after a {before!r}")
    return mlp


def _embedding(w: Any, at: str) -> Embedding:
    embedding = Embedding.__new__(Embedding)
    for i, row in enumerate(_filled(w, f"{at}.w")):
        _check_numbers(_filled(row, f"{at}.w.{i}"), at)
    if len(set(map(len, w))) > 1:
        raise ValueError(f"the rows of {at} differ in their number of weights")
    embedding.w = [[Value(x) for x in row] for row in w]
    return embedding


def _check_numbers(numbers: list[Any], at: str) -> None:
    for number in numbers:
        if type(number) is not float or not math.isfinite(number):
            raise ValueError(f"{at} has the parameter {short(number)}: expected a finite float")


def _parts(parts: Any, kind: type[Module], at: str) -> list[Any]:
    return [_decoded(part, kind, f"{at}.{i}") for i, part in enumerate(_filled(parts, at))]


def _filled(parts: Any, at: str) -> list[Any]:
    if not isinstance(parts, list) or not parts:
        raise ValueError(f"{at} is {short(parts)}: expected a list of at least one")
    return parts


_DECODERS: dict[type[Module], tuple[tuple[str, ...], Callable[..., Module]]] = {
    Neuron: (("activation", "w", "b"), _neuron),
    Layer: (("neurons",), _layer),
    MLP: (("layers",), _mlp),
    Embedding: (("w",), _embedding),
}
_KINDS = "Neuron, Layer, MLP or Embedding"


def _activation(activation: str | Activation) -> Activation:
    if callable(activation):
        return activation
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        raise ValueError(
            f"unknown activation {activation!r}: expected one of {', '.join(ACTIVATIONS)}, or a function of a Value"
        )
    return ACTIVATIONS[activation]


def _name(activation: str | Activation) -> str:
    return activation if isinstance(activation, str) else getattr(activation, "__name__", repr(activation))


def _check_inputs(module: Module, expected: int, x: Sequence[Any]) -> None:
    if not hasattr(x, "__len__"):
        came = "a single number" if isinstance(x, (Value, Real)) else f"{x!r:.80}"
        raise TypeError(f"{module!r} takes a list of {_inputs(expected)}, not {came}")
    if len(x) != expected:
        raise ValueError(f"{module!r} takes {_inputs(expected)}, not {len(x)}")


def _inputs(n: int) -> str:
    return f"{n} input" if n == 1 else f"{n} inputs"
