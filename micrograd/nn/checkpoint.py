"""Models in files: JSON with the parts of a model and their numbers. Sizes are not stored: they follow."""

import math
import os
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from micrograd import files
from micrograd.engine import Value
from micrograd.errors import shown
from micrograd.nn.layers import MLP, Embedding, Layer, Neuron
from micrograd.nn.module import Module
from micrograd.validation import plain


def save(model: Module, path: str | os.PathLike[str]) -> None:
    """Save a Neuron, Layer, MLP or Embedding to a file in JSON, with every parameter to the last bit.

    Attributes whose names begin with an underscore, such as what `fit` keeps of a training, are left out. An existing
    file is replaced by the whole new one, or stays as it is.

    Raises ValueError if the model or one of its parts is of another type, an activation is not a name from
    `ACTIVATIONS`, or a parameter is not a finite float: save the `state_dict()` of such a model, as the message says.
    Raises TypeError if it is not a model, OSError if the file cannot be written.
    """
    if isinstance(path, Module):
        raise TypeError(f"the path comes second: write nn.save(model, {shown(model)})")
    if not isinstance(model, Module):
        raise TypeError(f"model is of type {type(model).__name__}: expected a {_KINDS}")
    try:
        document = encoded(model)
    except (ValueError, OverflowError, RecursionError) as error:
        name = "json" if all(isinstance(x.data, (int, float)) for x in model.parameters()) else "pickle"
        raise ValueError(
            f"nn.save cannot write this {type(model).__name__}: {error}; write {name}.dump(model.state_dict(), file), "
            f"and read it back with model.load_state_dict({name}.load(file))"
        ) from None
    files.write(document, path)


def load(path: str | os.PathLike[str]) -> Any:
    """The Neuron, Layer, MLP or Embedding that `save` wrote to a file. No code in the file is run.

    Raises ValueError if the file is damaged or holds something else, OSError if it cannot be opened.
    """
    try:
        return _decode(files.read(path))
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)} does not hold a model: {error}") from None


def encoded(model: Module) -> Any:
    """What `save` writes. Raises ValueError, OverflowError or RecursionError if `load` could not read it."""
    document = _encode(model)
    if _decode(document).state_dict() != model.state_dict():
        raise ValueError("some of its parts share a parameter, or hold numbers that a float cannot represent")
    return document


def _encode(part: Any, at: str = "model") -> Any:
    """A part of a model as JSON, or as something that `_decode` refuses."""
    if isinstance(part, Module):
        if type(part) not in _DECODERS:
            raise ValueError(f"it knows {_KINDS}, but {at} is of type {type(part).__name__}")
        public = {name: member for name, member in vars(part).items() if not name.startswith("_")}
        members = {name: _encode(member, f"{at}.{name}") for name, member in public.items()}
        return {"type": type(part).__name__, **members}
    if isinstance(part, list):
        return [_encode(member, f"{at}.{i}") for i, member in enumerate(part)]
    if isinstance(part, Value):
        number = plain(part.data)
        return float(number) if isinstance(number, int) else number
    return part


def _decode(part: Any, kind: type[Module] | None = None, at: str = "model") -> Module:
    """The module in a part of a document. Raises ValueError if it is not of this kind, or of any."""
    for known, (members, decoder) in _DECODERS.items():
        if kind in (known, None) and isinstance(part, dict) and part.get("type") == known.__name__:
            if part.keys() != {"type", *members}:
                raise ValueError(f"the {known.__name__} {at} has {shown(sorted(part))}: expected {sorted(members)}")
            return decoder(*[part[member] for member in members], at)
    expected = kind.__name__ if kind else _KINDS
    raise ValueError(f"{at} is {shown(part)}: expected a {expected}")


def _neuron(activation: Any, w: Any, b: Any, at: str) -> Neuron:
    _check_numbers([*_nonempty(w, f"{at}.w"), b], at)
    if not isinstance(activation, str):
        raise ValueError(f"{at} has the activation {shown(activation)}: expected a name from ACTIVATIONS")
    neuron = Neuron(len(w), activation, rng=0)
    neuron.w, neuron.b = [Value(x) for x in w], Value(b)
    return neuron


def _layer(neurons: Any, at: str) -> Layer:
    layer = Layer.__new__(Layer)
    layer.neurons = _parts(neurons, Neuron, f"{at}.neurons")
    if len({len(neuron.w) for neuron in layer.neurons}) > 1:
        raise ValueError(f"the neurons of {at} have different numbers of weights")
    return layer


def _mlp(layers: Any, at: str) -> MLP:
    mlp = MLP.__new__(MLP)
    mlp.layers = _parts(layers, Layer, f"{at}.layers")
    for before, after in pairwise(mlp.layers):
        if len(before.neurons) != len(after.neurons[0].w):
            raise ValueError(f"in {at}, {after!r} cannot follow {before!r}")
    return mlp


def _embedding(w: Any, at: str) -> Embedding:
    embedding = Embedding.__new__(Embedding)
    for i, row in enumerate(_nonempty(w, f"{at}.w")):
        _check_numbers(_nonempty(row, f"{at}.w.{i}"), at)
    if len(set(map(len, w))) > 1:
        raise ValueError(f"the rows of {at} have different numbers of weights")
    embedding.w = [[Value(x) for x in row] for row in w]
    return embedding


def _check_numbers(numbers: list[Any], at: str) -> None:
    for number in numbers:
        if type(number) is not float or not math.isfinite(number):
            raise ValueError(f"{at} has the parameter {shown(number)}: expected a finite float")


def _parts(parts: Any, kind: type[Module], at: str) -> list[Any]:
    return [_decode(part, kind, f"{at}.{i}") for i, part in enumerate(_nonempty(parts, at))]


def _nonempty(parts: Any, at: str) -> list[Any]:
    if not isinstance(parts, list) or not parts:
        raise ValueError(f"{at} is {shown(parts)}: expected a list with at least one item")
    return parts


_DECODERS: dict[type[Module], tuple[tuple[str, ...], Callable[..., Module]]] = {
    Neuron: (("activation", "w", "b"), _neuron),
    Layer: (("neurons",), _layer),
    MLP: (("layers",), _mlp),
    Embedding: (("w",), _embedding),
}
_KINDS = "Neuron, Layer, MLP or Embedding"
