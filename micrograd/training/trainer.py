"""A Trainer lets a Loop take the steps of `fit`, and records the results.

The Loop is the engine, or generated code (compiled.py). Whichever takes the steps, the examples come in the same order,
and the losses are the same up to rounding.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from micrograd.compiler.stepping import Batches, Engine, Loop, NotFinite
from micrograd.engine import Value
from micrograd.optim import Schedule, depends_on_step_only
from micrograd.support.signals import set_back
from micrograd.support.trees import as_lists
from micrograd.support.validation import number
from micrograd.training.history import Failure, History

PACE = 0.05  # seconds of steps in one call of a Loop: between them, progress is reported and Ctrl-C noticed


@dataclass(frozen=True)
class Table:
    """Inputs and targets, by position."""

    xs: Sequence[Any]
    ys: Sequence[Any]

    def __len__(self) -> int:
        return len(self.xs)

    def arguments(self, i: int) -> tuple[Any, Any]:
        """An input and its target, as numbers and nested lists."""
        return as_lists(self.xs[i]), as_lists(self.ys[i])


class Model(Protocol):
    """What `fit` needs from a Module."""

    def __call__(self, x: Any, /) -> Any:
        """The prediction for one input."""

    def parameters(self) -> list[Value]:
        """The parameters that the optimizer may change."""


def example_loss(model: Model, loss: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Value]:
    """The loss of one example, as a function. A note on a TypeError says what `fit` expects."""

    def loss_of(x: Any, y: Any) -> Value:
        prediction = model(x)
        try:
            found = loss(prediction, y)
            return found if isinstance(found, Value) else Value(found)
        except TypeError as error:
            error.add_note("fit calls the loss with one prediction and its target, and expects a single number")
            raise

    return loss_of


class Trainer:
    """Lets a `loop` take steps at the rates of a schedule, and records each epoch in a history.

    The loop is the engine, unless generated code takes its place. With patience, what is trained is kept as it was
    after the epoch with the lowest validation loss.
    """

    def __init__(
        self, engine: Engine, batches: Batches, schedule: Schedule | None, epochs: int, patience: int | None
    ) -> None:
        self.loop: Loop = engine
        self.batches, self.history, self.optimizer = batches, History(), engine.optimizer
        self._trained, self._validates = engine.trained, engine.validation is not None
        self._schedule, self._epochs, self._patience = schedule, epochs, patience
        self._total = 0.0  # of the losses of the examples seen in this epoch
        self._pace = 1  # how many steps the loop may take at a time
        self._best = 0  # the epoch with the lowest validation loss
        self._kept: tuple[Sequence[Value], Sequence[Any]] = (), ()

    @property
    def loss(self) -> float:
        """The mean loss of the examples seen in this epoch."""
        return self._total / self.batches.seen

    @property
    def is_over(self) -> bool:
        """Whether all epochs, or the patience, have passed."""
        ended = len(self.history.losses)
        return ended == self._epochs or (self._patience is not None and ended - self._best >= self._patience)

    def advance(self) -> bool:
        """Take one or more steps, at most to the end of an epoch to validate after. Returns whether one has ended."""
        batches, n_before = self.batches, len(self.history.losses)
        last = n_before + 1 if self._validates else self._epochs
        rates = self._rates(min(self._pace, last * batches.per_epoch - batches.steps))
        started = time.perf_counter()
        losses = self.loop.take(batches, rates)
        seconds = time.perf_counter() - started
        n = len(losses)
        self._pace = 2 * n if seconds < PACE / 2 else n if seconds < PACE else -(-n // 2)
        self._record(losses, rates)
        has_ended = len(self.history.losses) > n_before
        if has_ended and self._validates:
            self._validate()
        return has_ended

    def set_back(self) -> str:
        """Set what is trained back to the best epoch, if kept. Returns, in words, when the parameters are from."""
        set_back(*self._kept)
        of_best = f"of epoch {self._best}, with the lowest validation loss"
        return of_best if self._kept[0] else "after the last completed step"

    def _rates(self, most: int) -> list[float]:
        """The learning rates of the next steps; only of one if the schedule is a user's, since it may read anything."""
        if self._schedule is None:
            return [self.optimizer.learning_rate] * most
        steps, n = self.batches.steps, most if depends_on_step_only(self._schedule) else 1
        rates = [number(f"schedule({step})", self._schedule(step)) for step in range(steps, steps + n)]
        self.optimizer.learning_rate = rates[0]
        return rates

    def _record(self, losses: Sequence[float], rates: Sequence[float]) -> None:
        """Add up the losses of the latest steps, and record the mean of each epoch that has ended in the history."""
        n, size, per_epoch = self.batches.n, self.batches.size, self.batches.per_epoch
        for step, (loss, rate) in enumerate(zip(losses, rates, strict=False), self.batches.steps - len(losses)):
            index = step % per_epoch
            taken = min(size, n - index * size)
            self._total = loss * taken + (self._total if index else 0.0)
            if index == per_epoch - 1:
                self.history.losses.append(self._total / n)
                self.history.learning_rates.append(rate)

    def _validate(self) -> None:
        """Record the mean loss of the validation examples, and with patience keep the best parameters."""
        losses, found = self.loop.values(), self.history.validation_losses
        for loss in losses:
            if not math.isfinite(loss):
                raise NotFinite("the validation loss", loss)
        found.append(float(sum(losses) / len(losses)))
        if not self._best or found[-1] < found[self._best - 1]:
            self._best = len(found)
            if self._patience is not None:
                trained = list(self._trained())
                self._kept = trained, [parameter.data for parameter in trained]

    def failure(self, what: str) -> Failure:
        """What to record about a number that is not finite: a validation loss, or a number in the next step."""
        batches, history = self.batches, self.history
        if self._validates and len(history.losses) > len(history.validation_losses):
            where = f"after epoch {batches.epoch}"
        else:
            epoch, rate = 1 + batches.steps // batches.per_epoch, float(self.optimizer.learning_rate)
            where = f"in epoch {epoch}, step {batches.steps + 1}, at a learning rate of {rate!r}"
        progress = batches.epoch - 1 + batches.seen / batches.n if batches.steps else 0.0
        return Failure(progress, what, f"{what} {where}")
