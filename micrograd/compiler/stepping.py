"""The second half of every training step: from gradients to changed parameters, as a whole or not at all.

`fit`, or the block of a compiled function, brings the gradients; the optimizer's step, the check of its result and the
rollback are here.
"""

import math
from collections.abc import Sequence
from typing import Protocol

from micrograd.core.errors import expression
from micrograd.engine import Value
from micrograd.support.signals import set_back


class OptimizerLike(Protocol):
    """What training needs of an optimizer."""

    learning_rate: float

    def step(self) -> None:
        """Change the parameters by their gradients."""

    def zero_grad(self) -> None:
        """Set the gradients to 0."""


class NotFinite(FloatingPointError):
    """A loss or a parameter that is infinite or NaN: `what` names it; `origin`, `parameters` are as in a `Failure`."""

    def __init__(self, name: str, number: float, origin: str = "", parameters: Sequence[int] = ()) -> None:
        self.what, self.origin, self.parameters = f"{name} is {number!r}", origin, list(parameters)
        super().__init__(
            f"{self.what}: the parameters are those from before this step; "
            "try a lower learning rate, or inputs on a smaller scale"
        )


class Update:
    """Applies an optimizer to parameters that have their gradients."""

    def __init__(self, parameters: Sequence[Value], optimizer: OptimizerLike) -> None:
        self.parameters, self.optimizer = parameters, optimizer
        # The optimizer may change only some of the model's parameters, and others besides.
        self.all_parameters = list({id(parameter): parameter for parameter in (*parameters, *self.trained())}.values())

    def differentiate(self, loss: Value) -> float:
        """Replace all gradients by those of the loss. Returns its number; raises NotFinite if it is not finite."""
        if not math.isfinite(loss.data):
            raise NotFinite("the loss", loss.data, *self._origin(loss))
        for parameter in self.all_parameters:  # also those of frozen layers
            parameter.grad = 0.0
        self.optimizer.zero_grad()
        loss.backward()
        return float(loss.data)

    def __call__(self) -> None:
        """Take the optimizer's step; on an error or NotFinite, set all back."""
        optimizer = self.optimizer
        before, state = [p.data for p in self.all_parameters], dict(getattr(optimizer, "__dict__", {}))
        try:
            optimizer.step()
            for parameter in self.all_parameters:
                if not math.isfinite(parameter.data):
                    raise NotFinite("a parameter", parameter.data, *self._gradients())
        except BaseException:
            set_back(self.all_parameters, before)
            for name, value in state.items():
                setattr(optimizer, name, value)
            raise

    def trained(self) -> Sequence[Value]:
        """The parameters that the optimizer changes; its attribute may also be a method, as of PyTorch's models."""
        changed = getattr(self.optimizer, "parameters", None)
        return changed if isinstance(changed, (list, tuple)) else self.parameters

    def _origin(self, loss: Value) -> tuple[str, list[int]]:
        """The first number on the way to the loss that is not finite, and the parameters that it was made of."""
        nodes, leaves = loss._topological_order()
        first = next(value for value in (*leaves, *nodes) if not math.isfinite(value.data))
        origin = f"{expression(first)} is {first.data!r}" if first._prev else f"an input is {first.data!r}"
        operands = set(first._prev)
        return origin, [i for i, parameter in enumerate(self.parameters) if parameter in operands]

    def _gradients(self) -> tuple[str, list[int]]:
        """The gradients that are not finite, in words, and the parameters they belong to."""
        bad = [i for i, parameter in enumerate(self.parameters) if not math.isfinite(parameter.grad)]
        return f"{len(bad)} of {len(self.parameters)} gradients are not finite" if bad else "", bad
