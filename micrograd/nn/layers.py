"""Small neural networks. A Module is an object with parameters, which are found in its attributes.

A Neuron is a dot product and an activation, a Layer a list of Neurons, an MLP a list of Layers; an Embedding has a row
of numbers for each token. Weights are drawn from `rng`: a `random.Random`, a NumPy generator or a seed; by default
Python's global generator.
"""

import math
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from numbers import Real
from typing import TYPE_CHECKING, Any

from micrograd import scalar
from micrograd.core.display import Displayed
from micrograd.core.errors import require_ordered, shown
from micrograd.engine import Value
from micrograd.reductions import dot, take
from micrograd.support.signals import set_data
from micrograd.support.validation import Rng, count, generator, is_sized, require_attributes


class Module(Displayed):
    """An object with parameters: the Values among its attributes, and in the Modules, lists and dicts among them.

    A Value computed from others is not a parameter, so a Module may keep what it computes, as `self.hidden`. A copy
    omits computed Values: where a list or a dict also holds other things, it has None in their places.
    """

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        """The output for the inputs. Each subclass defines it."""
        remedy = "rename its forward() to __call__" if hasattr(self, "forward") else "define one to call it"
        raise TypeError(f"{type(self).__name__} is a Module without a __call__: {remedy}")

    if not TYPE_CHECKING:  # pragma: no branch - type checkers would accept any attribute

        def __getattr__(self, name):
            remedy = ": call the Module itself, as in model(x)" if name == "forward" else ""
            message = f"{type(self).__name__!r} object has no attribute {name!r}{remedy}"
            raise AttributeError(message, name=name, obj=self)

    def __setattr__(self, name: str, value: Any) -> None:
        before = {part for part in _inside(vars(self).get(name)) if _is_trainable(part)}
        if before and any(_is_made_from(part, before) for part in _inside(value)):
            warnings.warn(
                f"{type(self).__name__}.{name} was a parameter, but a Value computed from it is not one: to change a "
                "parameter, assign to its data, as in `b.data -= 0.1`", stacklevel=2,
            )  # fmt: skip
        super().__setattr__(name, value)

    def named_parameters(self) -> Iterator[tuple[str, Value]]:
        """Each parameter once, with its path as its name: `("layers.0.neurons.3.w.1", Value)`, in a fixed order."""
        for path, part, members in walk(vars(self), into_modules=True):
            if isinstance(part, Value) and not part._prev:
                yield path, part
            elif isinstance(part, (set, frozenset)) and any(map(_is_trainable, part)):
                message = f"the Values in {path} are not parameters, since a set has no order: keep them in a list"
                warnings.warn(message, stacklevel=2)
            elif not isinstance(part, (Module, dict)) and _is_mixed(members):
                warnings.warn(
                    f"some Values in {path} are parameters, but others are computed and so are not: to change a "
                    "parameter, assign to its data, as in `w[0].data -= 0.1`", stacklevel=2,
                )  # fmt: skip

    def parameters(self) -> list[Value]:
        """Each parameter once, in a fixed order."""
        return [parameter for _, parameter in self.named_parameters()]

    def zero_grad(self) -> None:
        """Set the gradient of each parameter to 0, since `backward` adds to it."""
        for parameter in self.parameters():
            parameter.grad = scalar.zero(parameter.data)

    def state_dict(self) -> dict[str, Any]:
        """The `data` of each parameter, by name. Raises ValueError if two have the same name."""
        return {name: parameter.data for name, parameter in self._by_name().items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Set each parameter to its number in a dict that `state_dict` of a similar module returned.

        Raises ValueError if a name is missing, is not that of a parameter, or is that of two, TypeError if one has
        something other than a number. On any error, nothing has changed.
        """
        require_attributes("state", state, ["keys"], "a dict of numbers by name, as state_dict() returns")
        parameters = self._by_name()
        if parameters.keys() != state.keys():
            missing, unknown = sorted(parameters.keys() - state.keys()), sorted(map(str, state.keys() - parameters))
            names = f"missing: {shown(missing)}, unknown: {shown(unknown)}"
            raise ValueError(f"the state belongs to a different module: {names}")
        numbers = []
        for name in parameters:
            try:
                numbers.append(Value(state[name]).data)
            except TypeError as error:
                raise TypeError(f"{name}: {error}") from None
        set_data([*parameters.values()], numbers)

    def _by_name(self) -> dict[str, Value]:
        parameters: dict[str, Value] = {}
        for name, parameter in self.named_parameters():
            if parameters.setdefault(name, parameter) is not parameter:
                raise ValueError(f"two parameters have the name {name}: change a key or an attribute on its path")
        return parameters

    def __getstate__(self) -> dict[str, Any]:
        state, memo = {}, {}
        for name, member in vars(self).items():
            inside = _inside(member)
            if not any(map(_is_computed, inside)):
                state[name] = member
            elif not all(map(_is_computed, inside)):
                memo.update({id(part): None if _is_computed(part) else part for part in inside})
                state[name] = deepcopy(member, memo)  # copies only the lists and dicts
        return state


Activation = Callable[[Value], Value]

if TYPE_CHECKING:

    class Output(Value, Sequence[Value]):
        """What type checkers take the output of a Layer to be; it is a Value or a list, depending on its size."""


_METHODS = ("tanh", "relu", "leaky_relu", "sigmoid", "softplus", "gelu", "silu")
ACTIVATIONS: dict[str, Activation] = {name: getattr(Value, name) for name in _METHODS} | {"linear": Value.__pos__}
"""The activations by name. A saved model stores the name."""


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
        """The row at an index that `take` accepts: `size` Values. Raises ValueError if there is no such row."""
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
        raise ValueError(f"unknown activation {activation!r}: expected a function, or one of {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[activation]


def _name(activation: str | Activation) -> str:
    return activation if isinstance(activation, str) else getattr(activation, "__name__", repr(activation))


def _check_inputs(module: Module, expected: int, x: Any) -> None:
    if type(x) is list and len(x) == expected and type(x[0]) is Value:  # from the layer before
        return
    inputs = f"{expected} input" + "s" * (expected != 1)
    require_ordered("x", x, f"a list of {inputs}")
    if not is_sized(x) or isinstance(x, str):
        came = "a single number" if isinstance(x, (Value, Real)) else f"{shown(x)}"
        raise TypeError(f"{module!r} takes a list of {inputs}, not {came}")
    first = next(iter(x), None)
    if getattr(x, "ndim", 1) > 1 or (is_sized(first) and not isinstance(first, str)):
        raise TypeError(
            f"{module!r} takes one list of {inputs}, not many: for the rows of a table X, write "
            "[model(x) for x in X] or list(map(model, X))"
        )
    if len(x) != expected:
        raise ValueError(f"{module!r} takes {inputs}, not {len(x)}")


# The parts of a Module


def walk(root: Any, into_modules: bool) -> Iterator[tuple[str, Any, list[Any]]]:
    """Each part of a Module, a list or a dict once, with its path and its members, in a fixed order."""
    seen: dict[int, Any] = {}  # keeps the parts alive, so that no other gets the id of one
    found: list[tuple[str, Any]] = [("", root)]
    while found:
        path, part = found.pop()
        if id(part) in seen:
            continue
        seen[id(part)] = part
        if isinstance(part, Value) or (isinstance(part, Module) and not into_modules):
            yield path, part, []
        else:
            members = _members(part)
            yield path, part, list(members.values())
            found += [(f"{path}.{name}" if path else str(name), member) for name, member in members.items()][::-1]


def _members(part: Any) -> dict[Any, Any]:
    """The attributes of a Module, or the items of a list, a dict or an array, by name."""
    if isinstance(part, Module):
        return vars(part)
    if isinstance(part, dict):
        return part
    if isinstance(part, (list, tuple, deque)):
        return dict(enumerate(part))
    if str(getattr(part, "dtype", "")) == "object":  # a NumPy array, perhaps of Values
        return dict(enumerate(part.tolist() if part.shape else [part.item()]))
    return {}


def _inside(member: Any) -> list[Any]:
    """An attribute, or what it holds if it is a list or a dict, at any depth. Modules are not entered."""
    return [part for _, part, members in walk(member, into_modules=False) if not members]


def _is_mixed(members: list[Any]) -> bool:
    """Whether some of the Values are computed from others, and some are not."""
    return len({bool(member._prev) for member in members if isinstance(member, Value)}) > 1


def _is_computed(part: Any) -> bool:
    return isinstance(part, Value) and bool(part._prev)


def _is_trainable(part: Any) -> bool:
    return isinstance(part, Module) or (isinstance(part, Value) and not part._prev)


def _is_made_from(part: Any, parameters: set[Any]) -> bool:
    """Whether this is a Value computed from these parameters and plain numbers alone."""
    return _is_computed(part) and all(x._op == "constant" or x in parameters for x in part._topological_order()[1])
