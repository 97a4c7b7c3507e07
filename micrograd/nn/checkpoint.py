"""Models in files: JSON with the parts of a model and their numbers. Sizes are not stored: they follow."""

import math
import os
from itertools import pairwise
from typing import Any

from micrograd.core.errors import shown
from micrograd.engine import Value
from micrograd.nn.layers import MLP, Embedding, Layer, Module, Neuron, activation_of
from micrograd.support import files
from micrograd.support.validation import plain


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
        if type(part) not in _MEMBERS:
            raise ValueError(f"it knows {_KINDS}, but {at} is of type {type(part).__name__}")
        members = {name: _encode(member, f"{at}.{name}") for name, member in vars(part).items() if name[:1] != "_"}
        return {"type": type(part).__name__, **members}
    if isinstance(part, list):
        return [_encode(member, f"{at}.{i}") for i, member in enumerate(part)]
    if isinstance(part, Value):
        number = plain(part.data)
        return float(number) if isinstance(number, int) else number
    return part


def _decode(part: Any, kind: Any = Module, at: str = "model") -> Any:
    """What a part of a document holds. Raises ValueError if it is not of this kind, which is as in `_MEMBERS`."""
    if isinstance(kind, list):
        if not isinstance(part, list) or not part:
            raise ValueError(f"{at} is {shown(part)}: expected a list with at least one item")
        return [_decode(item, kind[0], f"{at}.{i}") for i, item in enumerate(part)]
    if kind is float:
        if type(part) is not float or not math.isfinite(part):
            raise ValueError(f"the parameter {at} is {shown(part)}: expected a finite float")
        return Value(part)
    if kind is str:
        if not isinstance(part, str):
            raise ValueError(f"{at} is {shown(part)}: expected a name from ACTIVATIONS")
        activation_of(part)
        return part
    known = {of.__name__: of for of in _MEMBERS if issubclass(of, kind)}
    found = known.get(str(part.get("type"))) if isinstance(part, dict) else None
    if found is None:
        raise ValueError(f"{at} is {shown(part)}: expected a {_KINDS if kind is Module else kind.__name__}")
    if part.keys() != {"type", *_MEMBERS[found]}:
        raise ValueError(f"the {found.__name__} {at} has {shown(sorted(part))}: expected {[*_MEMBERS[found]]}")
    module = found.__new__(found)
    for name, member in _MEMBERS[found].items():
        setattr(module, name, _decode(part[name], member, f"{at}.{name}"))
    _check_sizes(module, at)
    return module


def _check_sizes(module: Module, at: str) -> None:
    """Raise ValueError if the parts of a module do not go together."""
    if isinstance(module, Layer) and len({len(neuron.w) for neuron in module.neurons}) > 1:
        raise ValueError(f"the neurons of {at} have different numbers of weights")
    if isinstance(module, Embedding) and len(set(map(len, module.w))) > 1:
        raise ValueError(f"the rows of {at} have different numbers of weights")
    for before, after in pairwise(module.layers) if isinstance(module, MLP) else ():
        if len(before.neurons) != len(after.neurons[0].w):
            raise ValueError(f"in {at}, {after!r} cannot follow {before!r}")


_MEMBERS: dict[type[Module], dict[str, Any]] = {
    Neuron: {"activation": str, "w": [float], "b": float},
    Layer: {"neurons": [Neuron]},
    MLP: {"layers": [Layer]},
    Embedding: {"w": [[float]]},
}
"""What the attributes of each part are: of a class, or lists of that."""
_KINDS = "Neuron, Layer, MLP or Embedding"
