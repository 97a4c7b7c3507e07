"""Steps of a training run: which examples each takes, and how its gradients change all parameters, or none.

A training is a Loop that takes steps and returns their losses: the Engine, or generated code (session.py).
"""

import math
from array import array
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from micrograd.engine import Value
from micrograd.reductions import mean
from micrograd.support.collector import gc_paused
from micrograd.support.signals import set_back


class OptimizerLike(Protocol):
    """What training needs from an optimizer."""

    learning_rate: float

    def step(self) -> None:
        """Change the parameters by their gradients."""

    def zero_grad(self) -> None:
        """Set the gradients to 0."""


class Sampler:
    """Which examples each step takes: in each epoch all `n`, `size` at a time, shuffled by `rng` or as they come.

    `position` is how many of this epoch have been taken; it stays at `n` until the next epoch is shuffled.
    """

    def __init__(self, n: int, size: int, rng: Any = None, examples: Any = None) -> None:
        self.n, self.size, self.rng = n, size, rng
        self.examples = examples  # in Buckets, as generated code takes them
        self.order = array("q", range(n))
        self.position, self.steps = n, 0
        self.per_epoch = -(-n // size)

    @property
    def left(self) -> int:
        """The number of batches left in this epoch."""
        return -(-(self.n - self.position) // self.size)

    def next(self) -> Sequence[int]:
        """The numbers of the examples in the next step; the first step of an epoch shuffles them."""
        if self.position == self.n:
            self.position = 0
            if self.rng is not None:
                order = list(range(self.n))
                self.rng.shuffle(order)
                self.order = array("q", order)
        return range(self.n) if self.rng is None else self.order[self.position : self.position + self.size]

    def count(self) -> None:
        """Count a step that was taken."""
        self.steps += 1
        self.position = min(self.position + self.size, self.n)


class Loop(Protocol):
    """What takes the steps of a training run."""

    def take(self, sampler: Sampler, rates: Sequence[float]) -> Sequence[float]:
        """Take some steps at these learning rates, up to one that fails, and count them. Returns their losses.

        A step that fails changes nothing. If it is the first, generated code returns no losses. The engine then takes
        it, and raises NotFinite if a loss or a parameter is not finite, or whatever the model, the loss or the
        optimizer raises.
        """

    def values(self) -> list[float]:
        """The losses of the validation examples."""


class NotFinite(FloatingPointError):
    """A loss or a parameter is infinite or NaN, as the argument says."""

    def __str__(self) -> str:
        remedy = "try a lower learning rate, or inputs on a smaller scale"
        return f"{self.args[0]}: the parameters are those from before this step; {remedy}"


class Engine:
    """Takes steps one at a time: the engine's `backward` on the mean of `loss_of`, then the optimizer's `step`.

    `loss_of` takes the `arguments` of an example in `data`, by default in what the sampler holds; `validation` has the
    examples to measure. `parameters` are the model's, and the first loss must depend on one. The optimizer may change
    only some of them, and other Values too.
    """

    def __init__(
        self, parameters: Sequence[Value], optimizer: OptimizerLike, loss_of: Callable[..., Value],
        data: Any = None, validation: Any = None,
    ) -> None:  # fmt: skip
        self.parameters, self.optimizer, self.loss_of = parameters, optimizer, loss_of
        self.data, self.validation = data, validation
        self.all_parameters = list(dict.fromkeys([*parameters, *self.trained()]))

    def check_dependence(self, loss: Value) -> None:
        """Raise ValueError if a loss other than 0 does not depend on the parameters."""
        if loss.data != 0 and set(self.parameters).isdisjoint(loss._topological_order()[1]):
            raise ValueError("the loss does not depend on the parameters: compute it from predictions, not .data")

    def take(self, sampler: Sampler, rates: Sequence[float]) -> Sequence[float]:
        """Take a step at the optimizer's rate."""
        loss = self._differentiate(sampler)
        self.update()
        sampler.count()
        return [loss]

    def loss(self, i: int, data: Any = None) -> Value:
        """The loss of an example in `data`, by default one to train on. An error gets a note that names it."""
        data = data or self.data
        try:
            return self.loss_of(*data.arguments(i))
        except Exception as error:
            error.add_note(f"in {'validation ' if data is self.validation else ''}example {i}, counted from 0")
            raise

    @gc_paused()
    def _differentiate(self, sampler: Sampler) -> float:
        """Set all gradients from the mean loss of the next examples, and return this loss; the graph is freed."""
        data = self.data or sampler.examples
        loss = mean([self.loss(i, data) for i in sampler.next()])
        if not math.isfinite(loss.data):
            raise NotFinite(f"the loss is {loss.data!r}")
        if sampler.steps == 0:
            self.check_dependence(loss)
        for parameter in self.all_parameters:  # also those of frozen layers
            parameter.grad = 0.0
        self.optimizer.zero_grad()
        loss.backward()
        return float(loss.data)

    @gc_paused()
    def values(self) -> list[float]:
        """The losses of the validation examples, one graph at a time."""
        return [self.loss(i, self.validation).data for i in range(len(self.validation))]

    def update(self) -> None:
        """Take the optimizer's step along the gradients; on an error or NotFinite, set everything back."""
        optimizer = self.optimizer
        before, state = [p.data for p in self.all_parameters], dict(getattr(optimizer, "__dict__", {}))
        try:
            optimizer.step()
            for parameter in self.all_parameters:
                if not math.isfinite(parameter.data):
                    raise NotFinite(f"a parameter is {parameter.data!r}")
        except BaseException:
            set_back(self.all_parameters, before)
            getattr(optimizer, "__dict__", {}).update(state)
            raise

    def trained(self) -> Sequence[Value]:
        """The optimizer's `parameters` if that is a list, and not a method as in PyTorch's models; else the model's."""
        changed = getattr(self.optimizer, "parameters", None)
        return changed if isinstance(changed, (list, tuple)) else self.parameters
