"""Small neural networks. A Module is an object with parameters, which are found in its attributes.

A Neuron is a dot product and an activation, a Layer a list of Neurons, an MLP a list of Layers; an Embedding has a row
of numbers for each token. `save` and `load` keep them in files. Weights are drawn from `rng`: a `random.Random`, a
NumPy generator or a seed; by default Python's global generator.
"""

import math
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from micrograd import scalar
from micrograd.core.display import NotebookDisplay
from micrograd.core.errors import require_ordered, shown
from micrograd.core.levels import active_levels
from micrograd.engine import Value, promote
from micrograd.reductions import dot, take
from micrograd.support import files
from micrograd.support.arrays import by_rows
from micrograd.support.signals import set_data
from micrograd.support.trees import as_lists, at_path, shape_of
from micrograd.support.validation import Rng, count, counted, generator, is_sized, require_attributes

__all__ = ["ACTIVATIONS", "MLP", "Embedding", "Layer", "Module", "Neuron", "load", "save"]

Activation = str | Callable[[Value], Value]

NAMES = ("tanh", "relu", "leaky_relu", "sigmoid", "softplus", "gelu", "silu")
ACTIVATIONS: dict[str, Callable[[Value], Value]] = {name: getattr(Value, name) for name in NAMES}
ACTIVATIONS["linear"] = Value.__pos__  # +v is v
SHOWN = 12  # modules in the text of a Module

if TYPE_CHECKING:
    from micrograd.losses import Output


class Module(NotebookDisplay):
    """An object with parameters: the Values among its attributes, and in the Modules, lists and dicts among them.

    Computed Values and constants are not parameters, so a Module may keep what it computes, as in `self.hidden`. To
    change a parameter, assign to its data, as in `b.data -= 0.1`: `b -= 0.1` would put a computed Value in its place.
    Values in a set are not parameters, since a set has no order. In a copy, constants replace computed Values, except
    within a function while its derivative is taken.
    """

    def parameters(self) -> list[Value]:
        """Each parameter once, in a fixed order."""
        return [part for part in walk(self) if isinstance(part, Value) and not (part._prev or part._is_constant)]

    def named_parameters(self) -> Iterator[tuple[str, Value]]:
        """Each parameter once, with its path as its name: `("layers.0.neurons.3.w.1", Value)`, in a fixed order.

        Raises ValueError if two have the same path, such as v and w in `{1: v, "1": w}`.
        """
        paths: dict[int, str] = {}
        taken = set[str]()
        for part in walk(self, paths=paths):
            if isinstance(part, Value) and not (part._prev or part._is_constant):
                if (name := paths[id(part)]) in taken:
                    raise ValueError(f"two parameters are named {name!r}: rename an attribute or a key")
                taken.add(name)
                yield name, part

    def zero_grad(self) -> None:
        """Set the gradient of each parameter to 0, since `backward` adds to it."""
        for parameter in self.parameters():
            parameter.grad = scalar.zero(parameter.data)

    def state_dict(self) -> dict[str, Any]:
        """The `data` of each parameter, by name."""
        return {name: parameter.data for name, parameter in self.named_parameters()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Set each parameter to its number in a dict that `state_dict` of a similar module returned.

        Raises ValueError if names are missing or unknown, TypeError if one is not a number; then nothing has changed.
        """
        require_attributes("state", state, ["keys"], "a dict, as state_dict() returns it")
        parameters = dict(self.named_parameters())
        missing, unknown = parameters.keys() - state.keys(), state.keys() - parameters.keys()
        if missing or unknown:
            names = "missing: {}, unknown: {}".format(*[shown(sorted(each, key=str)) for each in (missing, unknown)])
            raise ValueError(f"the state belongs to a different module: {names}")
        numbers = []
        for name in parameters:
            try:
                numbers.append(Value(state[name]).data)
            except TypeError as error:
                raise TypeError(f"{name}: {error}") from None
        set_data([*parameters.values()], numbers)

    def __repr__(self) -> str:
        paths: dict[int, str] = {}
        parts = [part for part in walk(members_of(self), (Value, Module), paths) if isinstance(part, Module)]
        # A module without a text of its own is only named, since modules may hold each other
        texts = [repr(x) if type(x).__repr__ is not Module.__repr__ else type(x).__name__ for x in parts[:SHOWN]]
        texts = [f"{paths[id(part)]}: {text}" for part, text in zip(parts, texts, strict=False)]
        texts += ["..."] * (len(parts) > SHOWN) + [counted(len(Module.parameters(self)), "parameter")]
        return f"{type(self).__name__}({', '.join(texts)})"

    def __getstate__(self) -> Any:
        """What copy and pickle take: computed Values detached, since their histories hold closures."""
        whole, state = (Value, Module), super().__getstate__()
        parts = walk([*members_of(self).values()], whole)[1:]
        values = [x for x in parts if isinstance(x, Value) and (x._prev or x._level) and x._level not in active_levels]
        computed = {id(x): promote(scalar.innermost(x))[0] if x._level else x.detach() for x in values}
        if not computed:
            return state
        kept = {id(part): part for part in parts if isinstance(part, whole) or not members_of(part)}
        return deepcopy(state, kept | computed)  # it copies only lists and dicts


class Neuron(Module):
    """activation(w . x + b), one Value from `nin` inputs.

    The weights start uniformly distributed within sqrt(6 / (nin + fan_out)) (Glorot and Bengio, 2010). For relu and
    leaky_relu, the limit is sqrt(6 / nin), as relus pass half of their inputs (He et al., 2015). The bias starts at 0.

    The activation is a name from `ACTIVATIONS`, or any function from Value to Value; `fan_out` is the number of neurons
    in the layer. Raises ValueError if a size is below 1 or the activation is unknown, and any error of an activation
    that cannot take a Value.
    """

    def __init__(self, nin: int, activation: Activation = "tanh", *, fan_out: int = 1, rng: Rng = None) -> None:
        uniform, limit = generator(rng).uniform, weight_limit(count("nin", nin), count("fan_out", fan_out), activation)
        self.w, self.b = [Value(uniform(-limit, limit)) for _ in range(nin)], Value(0.0)
        self.activation = activation
        activation_of(activation)(Value(0.5))  # raises an error here if it cannot take a Value

    def __call__(self, x: Sequence[Any]) -> Value:
        """The output for a list of `nin` Values or numbers. Raises ValueError for any other number of inputs."""
        return activation_of(self.activation)(dot(self.w, x, self.b))

    def __repr__(self) -> str:
        return f"Neuron({len(self.w)}, {_name(self.activation)})"


class Layer(Module):
    """`nout` Neurons with the same `nin` inputs. The output is a list of Values, or a single Value if `nout` is 1.

    Parameters and errors are as for `Neuron`.
    """

    def __init__(self, nin: int, nout: int, activation: Activation = "tanh", *, rng: Rng = None) -> None:
        rng = generator(rng)
        self.neurons = [Neuron(nin, activation, fan_out=nout, rng=rng) for _ in range(count("nout", nout))]

    def __call__(self, x: Sequence[Any], *others: Any) -> "Output":
        """The outputs for a list of `nin` Values or numbers. Raises ValueError or TypeError for anything else."""
        require_ordered("x", x, "a list of inputs")
        try:
            inputs = [xi if isinstance(xi, Value) else Value(xi) for xi in by_rows(x)]  # leaves that neurons share
        except TypeError:
            inputs = []
            at_path(promote, "x", x)  # raises an error that names the item, unless x is a batch of numbers
        if len(inputs) != (n := len(self.neurons[0].w)) or others:
            came, rows = as_lists(x), "xs.to_numpy()" if hasattr(x, "to_numpy") else "xs"
            batch = f"; for a batch, write [model(x) for x in {rows}]" * (len(shape_of(came)) > 1)
            text = counted(1 + len(others), "argument") if others else f"{shown(came)}{batch}"
            raise ValueError(f"{self!r} takes a list of length {n}, such as {shown([0.0] * n)}, not {text}")
        outputs = [neuron(inputs) for neuron in self.neurons]
        return outputs[0] if len(outputs) == 1 else outputs  # type: ignore[return-value]

    def __repr__(self) -> str:
        first = self.neurons[0]
        return f"Layer({len(first.w)} -> {len(self.neurons)}, {_name(first.activation)})"


class MLP(Module):
    """A multi-layer perceptron: Layers of `nouts` neurons in sequence. `model(x)` returns the outputs of the last one.

        model = MLP(3, [4, 4, 1], output="tanh")  # 3 inputs, two hidden layers of 4 neurons each, 1 output
        model([2.0, 3.0, -1.0])

    The last one has the activation `output`, all others `activation`: tanh, relu, leaky_relu, sigmoid, softplus, gelu,
    silu, linear, or a function from Value to Value. Raises ValueError for other names, no layers, and sizes below 1.
    """

    def __init__(
        self, nin: int, nouts: Sequence[int] = (), activation: Activation = "tanh", output: Activation = "linear",
        rng: Rng = None,
    ) -> None:  # fmt: skip
        if not is_sized(nouts) or len(nouts) == 0:
            raise ValueError(f"nin is {nin!r}, nouts is {nouts!r}: expected inputs and layers, as in MLP(3, [4, 4, 1])")
        nins, activations, rng = [nin, *nouts], [activation] * (len(nouts) - 1) + [output], generator(rng)
        activation_of(activation)  # even if no layer uses it
        self.layers = [Layer(n, m, act, rng=rng) for n, m, act in zip(nins, nouts, activations, strict=False)]

    def __call__(self, x: Sequence[Any], *others: Any) -> "Output":
        """The outputs for a list of `nin` inputs; a Value if there is one. Errors are as for `Layer`."""
        outputs: Any = self.layers[0](x, *others)
        for layer in self.layers[1:]:
            outputs = layer(outputs if isinstance(outputs, list) else [outputs])
        return outputs  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        if not all(isinstance(layer, Layer) for layer in self.layers):  # other modules were inserted
            return super().__repr__()
        layers = "".join(f" -> {len(layer.neurons)} {_name(layer.neurons[0].activation)}" for layer in self.layers)
        return f"MLP({len(self.layers[0].neurons[0].w)}{layers}, {counted(len([*self.parameters()]), 'parameter')})"


class Embedding(Module):
    """`n` rows of `size` weights, one for each token or word: `embedding(i)` is row `i`, a list of Values.

    The weights start normally distributed with mean 0 and standard deviation 1, as in `torch.nn.Embedding`. Raises
    ValueError if a size is below 1.
    """

    def __init__(self, n: int, size: int, *, rng: Rng = None) -> None:
        gauss = generator(rng).gauss
        n, size = count("n", n), count("size", size)
        self.w = [[Value(gauss(0.0, 1.0)) for _ in range(size)] for _ in range(n)]

    def __call__(self, index: Any) -> list[Value]:
        """The row at an index that `take` accepts: `size` Values. Raises ValueError if there is no such row."""
        return take(self.w, index)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"Embedding({len(self.w)}, {len(self.w[0])})"


def weight_limit(nin: int, fan_out: int, activation: Activation) -> float:
    """The largest weight with which a Neuron may start."""
    return math.sqrt(6 / nin if _name(activation) in ("relu", "leaky_relu") else 6 / (nin + fan_out))


def activation_of(activation: Activation) -> Callable[[Value], Value]:
    """The activation of that name, or the function itself. Raises ValueError for anything else."""
    found = ACTIVATIONS.get(activation) if isinstance(activation, str) else activation
    if callable(found):
        return found
    remedy = "leave it out, since cross_entropy takes logits" * ("softmax" in str(activation))
    expected = remedy or f"expected a function, or one of {', '.join(ACTIVATIONS)}"
    raise ValueError(f"unknown activation {activation!r}: {expected}")


def _name(activation: Activation) -> str:
    return activation if isinstance(activation, str) else getattr(activation, "__name__", repr(activation))


# The parts of a Module


def members_of(part: Any) -> dict[Any, Any]:
    """The attributes of a Module, or the items of a list, a dict or an array, by name; nothing for anything else."""
    if isinstance(part, Module):
        state = object.__getstate__(part)  # a pair if the class has slots
        attributes, slots = state if isinstance(state, tuple) else (state, {})
        return dict(attributes or {}, **slots)
    if isinstance(part, dict):
        return part
    if isinstance(part, (list, tuple, deque)):
        return dict(enumerate(part))
    if hasattr(type(part), "dtype") and str(part.dtype) == "object":  # a NumPy array, perhaps of Values
        return dict(enumerate(part.tolist() if part.shape else [part.item()]))
    return {}


def walk(root: Any, closed: Any = Value, paths: dict[int, str] | None = None, members: Any = members_of) -> list[Any]:
    """The root and each part of it once, in order, by their `members`; a part of a `closed` class has no parts itself.

    A dict `paths` receives the path of each part, by the part's id. Without it, a walk takes a third of the time.
    """
    seen: dict[int, Any] = {}  # keeps the parts alive, so that no other object gets the id of one
    stack = [root]
    while stack:
        part = stack.pop()
        if id(part) not in seen:
            seen[id(part)] = part
            if not isinstance(part, closed):
                found = members(part)
                stack += reversed(found.values())  # since the stack gives back the last one first
                if paths is not None:
                    start = "" if part is root else f"{paths[id(part)]}."
                    # In the stack's order, so that the last path of a part is the one by which it is visited.
                    paths |= {id(x): f"{start}{name}" for name, x in reversed(found.items()) if id(x) not in seen}
    return list(seen.values())


# Files: JSON with the parts of a model and their numbers. Sizes are not stored: they follow from the lists.

_ATTRIBUTES: dict[Any, dict[str, Any]] = {
    Neuron: {"activation": str, "w": [float], "b": float},
    Layer: {"neurons": [Neuron]},
    MLP: {"layers": [Layer]},
    Embedding: {"w": [[float]]},
}
"""The attributes of each part, each with its class; in brackets if it is a list of that class."""
_EXPECTED = {str: "a name from ACTIVATIONS", float: "a finite float", Module: "Neuron, Layer, MLP or Embedding"}


def save(model: Module, path: str | os.PathLike[str]) -> None:
    """Save a Neuron, Layer, MLP or Embedding to a file in JSON, with every parameter to the last bit.

    An existing file is replaced by the whole new one, or stays as it is. Raises TypeError unless `model` is a Module;
    ValueError, with another way to save it, if a part is of another class, an activation has no name, or a number is
    not a float.
    """
    import json  # here, since most programs save nothing

    require_attributes("model", model, ["state_dict"], "a Module, as in save(model, 'model.json')")
    try:
        content = document(model)
    except (ValueError, OverflowError, RecursionError) as error:
        raise ValueError(
            f"nn.save cannot write this {type(model).__name__}: {error}; pickle.dump(model, file) saves any number; "
            "json.dump(model.state_dict(), file) saves floats, and model.load_state_dict(json.load(file)) loads them"
        ) from None
    files.replace(path, f"{json.dumps(content)}\n".encode())


def load(path: str | os.PathLike[str]) -> Any:
    """The Neuron, Layer, MLP or Embedding that `save` wrote to a file. No code in the file is run.

    Raises ValueError if the file is damaged or holds something else, OSError if it cannot be opened.
    """
    import json

    try:
        with open(os.fspath(path), encoding="utf-8") as file:  # fspath refuses an int, an open file for `open`
            document = json.load(file, parse_int=float)
        if not isinstance(document, dict) or (document.get("format"), document.get("version")) != ("micrograd", 1):
            raise ValueError("it was not written by nn.save of this version")
        return _decoded(document.get("content"), Module)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{os.fspath(path)} does not hold a model: {error}") from None


def document(model: Module) -> dict[str, Any]:
    """What `save` writes. Raises ValueError, OverflowError or RecursionError if `load` could not read it."""
    content = _encoded(model)
    if _decoded(content, Module).state_dict() != model.state_dict():
        raise ValueError("it has shared parts, parts of your own, constants or huge ints")
    return {"format": "micrograd", "version": 1, "content": content}


def _encoded(part: Any) -> Any:
    """A part of a model as JSON, or as something that `_decoded` refuses."""
    if type(part) in _ATTRIBUTES:
        return {"type": type(part).__name__} | {name: _encoded(getattr(part, name)) for name in _ATTRIBUTES[type(part)]}
    if isinstance(part, list):
        return [_encoded(item) for item in part]
    if isinstance(part, Value):
        return float(part.data) if isinstance(part.data, int) else scalar.unwrap_numpy(part.data)
    return part


def _decoded(part: Any, kind: Any, path: str = "model") -> Any:
    """What a part of a document holds. Raises ValueError if it is not of this kind, given as in `_ATTRIBUTES`."""
    if isinstance(kind, list) and isinstance(part, list) and part:
        return [_decoded(item, kind[0], f"{path}.{i}") for i, item in enumerate(part)]
    if kind is float and isinstance(part, float) and math.isfinite(part):
        return Value(part)
    if kind is str and isinstance(part, str) and part in ACTIVATIONS:
        return part
    for found, members in _ATTRIBUTES.items() if isinstance(part, dict) else ():
        if kind in (found, Module) and part.keys() == {"type", *members} and part["type"] == found.__name__:
            module = found.__new__(found)
            for name, member in members.items():
                setattr(module, name, _decoded(part[name], member, f"{path}.{name}"))
            return module
    expected = "a list" if isinstance(kind, list) else _EXPECTED.get(kind) or f"a {kind.__name__}"
    raise ValueError(f"{path} is {shown(part)}: expected {expected}")
