"""The record of a training: the losses of its epochs, snapshots, and how it ended."""

import math
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from micrograd.core.display import NotebookDisplay
from micrograd.engine import Value


@dataclass
class Snapshot:
    """The parameters of a model at one point of its training, and their gradients, as `model.parameters()` has them.

    `epoch` is the number of epochs trained: 0 before the first step, and not a whole number if the training ended
    within an epoch. The gradients are from the step before; or from the next one, if these were not finite and so
    ended the training.
    """

    epoch: float
    parameters: "array[float]"
    gradients: "array[float]"


@dataclass
class Failure:
    """Where a training met a number that is infinite or NaN, after `epoch` epochs as in a Snapshot.

    `what` says which, "the loss is nan", and `message` also in which step, and what to try. `origin` is the operation
    that computed it from finite numbers, an input that was not finite, or the gradients that were not; it is empty if
    none of these is known. `parameters` are those involved, or whose gradients were not finite, by their positions in
    `model.parameters()`.
    """

    epoch: float
    what: str
    message: str
    origin: str
    parameters: list[int]


@dataclass
class History(NotebookDisplay):
    """What happened in each whole epoch, and how the training ended.

    `losses` has the mean loss of the training examples, each when it was seen, and `validation_losses` that of the
    validation examples after the epoch, if there are any: one fewer if Ctrl-C or a number that is not finite ended the
    training between the two. `learning_rates` are those of the last steps. `interrupted` says that Ctrl-C ended the
    training, and `failure` what was infinite or NaN, if that did. `snapshots` are the parameters and gradients at some
    of the epochs, if `fit` was asked for them.
    """

    losses: list[float] = field(default_factory=list)
    validation_losses: list[float] = field(default_factory=list)
    learning_rates: list[float] = field(default_factory=list)
    interrupted: bool = False
    snapshots: list[Snapshot] = field(default_factory=list, repr=False)
    failure: Failure | None = None


class Diverged(FloatingPointError):
    """A loss or a parameter is infinite or NaN. The error has the `history` of `fit` up to there."""

    def __init__(self, failure: Failure, history: History | None = None) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.history = history or History()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.failure, self.history)


class Recorder:
    """Takes at most so many snapshots of the parameters after epochs, evenly spread however many these become."""

    def __init__(self, snapshots: list[Snapshot], parameters: list[Value], most: int) -> None:
        self.snapshots, self.parameters, self.most = snapshots, parameters, most
        self.every = 1

    def due(self, epoch: int) -> int:
        """The next epoch, after this one, that may have a snapshot."""
        return epoch - epoch % self.every + self.every

    @contextmanager
    def recording(self, progress: Callable[[], float]) -> Iterator[None]:
        """Take the first snapshot before the block, and the last, at the epoch by `progress`, however that ends."""
        self.epoch(0)
        try:
            yield
        finally:
            last = self._taken(progress())
            if last.epoch != self.snapshots[-1].epoch or not all(map(math.isfinite, last.gradients)):
                self.snapshots[self.most - 1 :] = [last]

    def epoch(self, epoch: int) -> None:
        """Take a snapshot after this epoch, if it is due."""
        if epoch % self.every:
            return
        self.snapshots.append(self._taken(epoch))
        if len(self.snapshots) > self.most:
            self.every *= 2  # from here on, every second epoch is passed over
            self.snapshots[:] = [snapshot for snapshot in self.snapshots if snapshot.epoch % self.every == 0]

    def _taken(self, epoch: float) -> Snapshot:
        numbers = array("d", [p.data for p in self.parameters]), array("d", [p.grad for p in self.parameters])
        return Snapshot(epoch, *numbers)
