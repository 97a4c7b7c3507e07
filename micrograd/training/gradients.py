"""The gradients of a batch, by the engine; generated code's are in compiler/session.py, workers' in sharded.py."""

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from micrograd.engine import Value
from micrograd.reductions import mean
from micrograd.stepping import Update
from micrograd.validation import row

Table = tuple[Sequence[Any], Sequence[Any]]
"""Inputs and targets, by their positions."""


class Model(Protocol):
    """What `fit` needs of a Module."""

    def __call__(self, x: Any, /) -> Any:
        """The prediction for one input."""

    def parameters(self) -> list[Value]:
        """The parameters that the optimizer may change."""


class EagerGradients:
    """Gradients by the engine. While `is_unchecked`, the next loss has to depend on the model's parameters."""

    def __init__(self, model: Model, loss: Callable[[Any, Any], Any], train_data: Table, update: Update) -> None:
        self.model, self.loss, self.train_data, self.update = model, loss, train_data, update
        self.is_unchecked = True

    def __call__(self, batch: Sequence[int]) -> float:
        """The mean loss of a batch, whose gradients the parameters have then; its graph is freed."""
        xs, ys = self.train_data
        loss = mean([self.loss_of(row(xs[i]), row(ys[i])) for i in batch])
        self.check_dependence(loss)
        return self.update.differentiate(loss)

    def warn_eager_step(self) -> None:
        """Log nothing: the engine was asked for."""

    def losses(self, data: Table) -> list[float]:
        """The loss of each example, one graph at a time."""
        xs, ys = data
        return [self.loss_of(row(xs[i]), row(ys[i])).data for i in range(len(xs))]

    def loss_of(self, x: Any, y: Any) -> Value:
        """The loss of one example. A TypeError of the loss notes what it is called with, as it may be for a batch."""
        prediction = self.model(x)
        try:
            loss = self.loss(prediction, y)
        except TypeError as error:
            error.add_note("fit calls the loss with one prediction and its target, not with lists of a whole batch")
            raise
        try:
            return loss if isinstance(loss, Value) else Value(loss)
        except TypeError as error:
            raise TypeError(f"the loss of an example must be a single number: {error}") from None

    def check_dependence(self, loss: Value) -> None:
        """Raise ValueError if the first loss, unless it is 0 already, does not depend on any of the parameters."""
        if self.is_unchecked and loss.data != 0 and math.isfinite(loss.data):
            _, leaves = loss._topological_order()
            if set(self.update.parameters).isdisjoint(leaves):
                raise ValueError(
                    "the loss does not depend on the model's parameters: compute it from the prediction itself, a "
                    "Value, not from its .data"
                )
        self.is_unchecked = False
