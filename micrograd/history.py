"""What is known of a training when it is over: the losses of its epochs, snapshots on the way, and how it ended."""

import math
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from micrograd.engine import Value

__all__ = ["Diverged", "Failure", "History", "Recorder", "Snapshot"]


@dataclass
class Snapshot:
    """The parameters of a model at one time of its training.

    Attributes
    ----------
    epoch
        How many epochs had been learnt; 0 before the first step, and no whole number where the training was ended
        within an epoch.
    parameters, gradients
        The numbers of `model.parameters()`, and their gradients as the step before has left them; or as the next one
        has, if these were not finite and so ended the training.
    """

    epoch: float
    parameters: "array[float]"
    gradients: "array[float]"


@dataclass
class Failure:
    """How a training came to a number that is infinite or NaN.

    Attributes
    ----------
    epoch
        How many epochs had been learnt, as in a Snapshot.
    what
        What was not finite: "the loss is nan".
    message
        The same, with the step in which it was, and what to try.
    origin
        The operation that made it of finite numbers, an input that was not finite, or the gradients that were not;
        empty where none of these is known.
    parameters
        The parameters that were in it, or whose gradients were not finite, by their place in `model.parameters()`.
    """

    epoch: float
    what: str
    message: str
    origin: str
    parameters: list[int]


@dataclass
class History:
    """What happened in each whole epoch, and how the training ended.

    Attributes
    ----------
    losses
        The mean loss of the training examples, each at the time it was seen.
    validation_losses
        The mean loss of the validation examples after the epoch, if there are any.
    learning_rates
        The learning rate of the last step.
    interrupted
        Whether Ctrl-C ended the training.
    snapshots
        The parameters and gradients at some of the epochs, if `fit` was asked for them.
    failure
        What was infinite or NaN, if that ended the training.
    """

    losses: list[float] = field(default_factory=list)
    validation_losses: list[float] = field(default_factory=list)
    learning_rates: list[float] = field(default_factory=list)
    interrupted: bool = False
    snapshots: list[Snapshot] = field(default_factory=list, repr=False)
    failure: Failure | None = None

    def add(self, epochs: Sequence[tuple[float, float]], *validation_losses: float) -> None:
        """Note the mean loss and the last learning rate of epochs, and the validation losses after them."""
        self.losses += [loss for loss, _ in epochs]
        self.learning_rates += [rate for _, rate in epochs]
        self.validation_losses += validation_losses

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        """What a notebook shows."""
        from micrograd.drawing import displays  # here, since only notebooks need it

        return displays.of_history(self)


class Diverged(FloatingPointError):
    """A training has come to a number that is infinite or NaN. The `history` of `fit` up to there is the error's."""

    def __init__(self, failure: Failure, history: History | None = None) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.history = History() if history is None else history

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.failure, self.history)


class Course(Protocol):
    """What a recorder needs to know of a training."""

    @property
    def progress(self) -> float:
        """How many epochs have been learnt."""


class Recorder:
    """Takes snapshots of the parameters after epochs, evenly spread however many these become.

    It begins with every epoch; whenever there are too many, every second snapshot is dropped, and from there on every
    second epoch is passed over.

    Parameters
    ----------
    snapshots
        Where they are kept.
    parameters
        Whose numbers are kept.
    most
        How many are kept, the first and the last among them.
    """

    def __init__(self, snapshots: list[Snapshot], parameters: list[Value], most: int) -> None:
        self.snapshots, self.parameters, self.most = snapshots, parameters, most
        self.every = 1

    def due(self, epoch: int) -> int:
        """The next epoch, after this one, that may have a snapshot."""
        return epoch - epoch % self.every + self.every

    @contextmanager
    def recording(self, course: Course) -> Iterator[None]:
        """Take the first snapshot before the block, and the last one however that ends."""
        self.epoch(0)
        try:
            yield
        finally:
            last = self._taken(course.progress)
            if last.epoch != self.snapshots[-1].epoch or not all(map(math.isfinite, last.gradients)):
                self.snapshots[self.most - 1 :] = [last]

    def epoch(self, epoch: int) -> None:
        """After so many epochs."""
        if epoch % self.every:
            return
        self.snapshots.append(self._taken(epoch))
        if len(self.snapshots) > self.most:
            self.every *= 2
            self.snapshots[:] = [snapshot for snapshot in self.snapshots if snapshot.epoch % self.every == 0]

    def _taken(self, epoch: float) -> Snapshot:
        data = array("d", [parameter.data for parameter in self.parameters])
        return Snapshot(epoch, data, array("d", [parameter.grad for parameter in self.parameters]))
