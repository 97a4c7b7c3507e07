"""The Trainer of `fit`: gradients from the engine, then the update, step by step. Generated code is in compiled.py.

Whoever computes, the examples come in the same order, and the losses are the same but for rounding.
"""

import math
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from micrograd.compiler.stepping import NotFinite, OptimizerLike, Update
from micrograd.engine import Value
from micrograd.optim import Schedule
from micrograd.reductions import mean
from micrograd.support.collector import gc_paused
from micrograd.support.trees import as_lists
from micrograd.support.validation import number
from micrograd.training.history import Diverged, Failure

if TYPE_CHECKING:
    from micrograd.compiler.session import CompiledGradients

Table = tuple[Sequence[Any], Sequence[Any]]
"""Inputs and targets, by position."""


class Model(Protocol):
    """What `fit` needs of a Module."""

    def __call__(self, x: Any, /) -> Any:
        """The prediction for one input."""

    def parameters(self) -> list[Value]:
        """The parameters that the optimizer may change."""


class EagerGradients:
    """Gradients from the engine. While `is_unchecked`, the next loss has to depend on the model's parameters."""

    def __init__(self, model: Model, loss: Callable[[Any, Any], Any], train_data: Table, update: Update) -> None:
        self.model, self.loss, self.train_data, self.update = model, loss, train_data, update
        self.is_unchecked = True

    @gc_paused()
    def __call__(self, batch: Sequence[int]) -> float:
        """The mean loss of a batch, after setting its gradients on the parameters; the graph is freed."""
        xs, ys = self.train_data
        loss = mean([self.loss_of(as_lists(xs[i]), as_lists(ys[i])) for i in batch])
        self.check_dependence(loss)
        return self.update.differentiate(loss)

    def warn_eager_step(self) -> None:
        """Log nothing: the user chose the engine."""

    @gc_paused()
    def losses(self, data: Table) -> list[float]:
        """The loss of each example, one graph at a time."""
        xs, ys = data
        return [self.loss_of(as_lists(xs[i]), as_lists(ys[i])).data for i in range(len(xs))]

    def loss_of(self, x: Any, y: Any) -> Value:
        """The loss of one example. If it raises TypeError, a note says that it is not called with a batch."""
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


class Sampler:
    """Draws batches of examples: in each epoch all of them, in a new random order, or without `rng` all at once."""

    def __init__(self, n: int, size: int, rng: Any) -> None:
        self.n, self.size, self.rng = n, size, rng
        self.order = array("q", range(n))
        self.position = n  # how many of `order` have been taken: all, where the next epoch has not been shuffled
        self.batches = -(-n // size)

    @property
    def left(self) -> int:
        """The number of batches left in this epoch."""
        return -(-(self.n - self.position) // self.size)

    def draw(self, shuffle: Callable[[Any, Any], None] | None = None) -> Sequence[int]:
        """The next batch, for whose epoch the examples are shuffled if it is the first: by `rng`, or as it would."""
        if self.rng is None:
            return range(self.n)
        if self.position == self.n:
            self.position = 0
            if shuffle is not None:
                shuffle(self.order, self.rng)
            else:
                order = list(range(self.n))
                self.rng.shuffle(order)
                self.order = array("q", order)
        return self.order[self.position : self.position + self.size]


@dataclass(eq=False, repr=False)
class Trainer:
    """Takes one step after the other: computes the gradients of a batch, then updates the parameters, or neither."""

    gradients: "EagerGradients | CompiledGradients"
    update: Callable[[], None]
    optimizer: OptimizerLike
    sampler: Sampler
    schedule: Schedule | None
    validation_losses: Callable[[], list[float]]
    block: AbstractContextManager[Any] = field(default_factory=nullcontext)  # in which the steps are to be taken

    def __post_init__(self) -> None:
        self.steps = self.epoch = self.seen = 0  # steps taken, the epoch of the last one, examples seen in that
        self._total = 0.0  # of the losses of the examples seen in this epoch
        self._ready = 0.0  # the loss whose gradients are ready

    @property
    def loss(self) -> float:
        """The mean loss of the examples seen in this epoch."""
        return self._total / self.seen if self.seen else math.nan  # where the first step is yet to be taken

    @property
    def progress(self) -> float:
        """The number of epochs trained, the last of them perhaps in part."""
        return self.epoch - 1 + self.seen / self.sampler.n if self.epoch else 0.0

    def fetch_gradients(self) -> None:
        """Compute the gradients of the next step: what takes long, and Ctrl-C may interrupt."""
        batch = self._begin_step()
        with self._diverging():
            self._ready = self.gradients(batch)

    def advance(self) -> list[tuple[float, float]]:
        """Take one step or more. Returns the mean loss and last rate of each epoch that ends."""
        with self._diverging():
            self.update()
        self.gradients.warn_eager_step()
        return self._count([self._ready], [self.optimizer.learning_rate])

    def evaluate(self) -> float:
        """The mean loss of the validation examples."""
        losses = self.validation_losses()
        for loss in losses:
            if not math.isfinite(loss):
                what = f"the validation loss is {loss!r}"
                raise Diverged(Failure(self.progress, what, f"{what} after epoch {self.epoch}", "", []))
        return float(sum(losses) / len(losses))

    def _begin_step(self, shuffle: Callable[[Any, Any], None] | None = None) -> Sequence[int]:
        """Draw the batch of the next step, and set its learning rate."""
        batch = self.sampler.draw(shuffle)
        if self.schedule is not None:
            self.optimizer.learning_rate = self._rate_of(self.steps)
        return batch

    def _rate_of(self, step: int) -> float:
        assert self.schedule is not None
        return number(f"schedule({step})", self.schedule(step))

    def _count(self, losses: Sequence[float], rates: Sequence[float]) -> list[tuple[float, float]]:
        """Count steps with these losses and learning rates. Returns what `advance` does."""
        n, size = self.sampler.n, self.sampler.size
        epoch, seen, total = self.epoch, self.seen, self._total
        ended = []
        for loss, rate in zip(losses, rates, strict=True):
            if seen in (0, n):
                epoch, seen, total = epoch + 1, 0, 0.0
            taken = min(size, n - seen)
            seen += taken
            total += loss * taken
            if seen == n:
                ended.append((total / n, rate))
        self.steps += len(losses)
        self.epoch, self.seen, self._total = epoch, seen, total
        if losses:
            self.sampler.position = seen
        return ended

    @contextmanager
    def _diverging(self) -> Iterator[None]:
        """Say of a number that is not finite in which step that is."""
        try:
            yield
        except NotFinite as error:
            epoch = self.epoch + (self.seen in (0, self.sampler.n))
            rate = float(self.optimizer.learning_rate)
            message = f"{error.what} in epoch {epoch}, step {self.steps + 1}, at a learning rate of {rate!r}"
            raise Diverged(Failure(self.progress, error.what, message, error.origin, error.parameters)) from None
