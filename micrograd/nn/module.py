"""Module: an object with parameters, which are found in its attributes."""

import warnings
from collections import deque
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from micrograd import scalar
from micrograd.display import Displayed
from micrograd.engine import Value
from micrograd.errors import shown
from micrograd.validation import require_attributes


class Module(Displayed):
    """An object with parameters: the Values among its attributes, and in the Modules, lists and dicts among them.

    A Value computed from others is not a parameter, so a Module may keep what it computes, as `self.hidden`. A copy
    omits computed Values: where a list or a dict also holds other things, it has None in their places.
    """

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        """The output for the inputs. Each subclass defines its own."""
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
        """The number of each parameter, by name. Raises ValueError if two have the same name."""
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
        for parameter, number in zip(parameters.values(), numbers, strict=True):
            parameter.data = number

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
                state[name] = deepcopy(member, memo)  # copies the lists and dicts alone
        return state


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


def _is_computed(part: Any) -> bool:
    return isinstance(part, Value) and bool(part._prev)


def _is_trainable(part: Any) -> bool:
    return isinstance(part, Module) or (isinstance(part, Value) and not part._prev)


def _is_mixed(members: list[Any]) -> bool:
    """Whether some of the Values are computed from others, and some are not."""
    return len({bool(member._prev) for member in members if isinstance(member, Value)}) > 1


def _is_made_from(part: Any, parameters: set[Any]) -> bool:
    """Whether this is a Value computed from these parameters and plain numbers alone."""
    if not _is_computed(part):
        return False
    seen, found = {part}, [part]
    while found:
        for operand in found.pop()._prev:
            if not (operand._prev or operand._op == "constant" or operand in parameters):
                return False
            if operand not in seen:
                seen.add(operand)
                found.append(operand)
    return True
