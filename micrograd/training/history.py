"""The record of a training run: the losses of its epochs, and how it ended."""

from dataclasses import dataclass, field

from micrograd.core.display import NotebookDisplay
from micrograd.support.validation import counted


@dataclass
class Failure:
    """Where a training run met an infinity or NaN: after `epoch` epochs, with a fraction for one that was under way.

    `what` names it, as in "the loss is nan"; `message` adds the step and what to try.
    """

    epoch: float
    what: str
    message: str


@dataclass(repr=False)
class History(NotebookDisplay):
    """What happened in each whole epoch, and how the training ended.

    For each epoch, `losses` has the mean loss of the training examples, each measured when its step used it;
    `validation_losses` has the mean loss of the validation examples after the epoch, if there are any (one fewer if an
    infinity or NaN ended the training between the two); and `learning_rates` has the rate of the epoch's last step.
    `interrupted` is True if Ctrl-C ended the training, and `failure` describes the infinity or NaN, if one did.
    """

    losses: list[float] = field(default_factory=list)
    validation_losses: list[float] = field(default_factory=list)
    learning_rates: list[float] = field(default_factory=list)
    interrupted: bool = False
    failure: Failure | None = None

    def __repr__(self) -> str:
        return f"History({self.summary()})"

    @property
    def has_grown(self) -> bool:
        """Whether the last loss is more than a thousand times the first one."""
        return bool(self.losses) and self.losses[-1] / 1000 > self.losses[0] > 0

    def summary(self) -> str:
        """The outcome in words: "3 epochs, loss 0.7 to 0.2, lowest validation loss 0.3 in epoch 2"."""
        losses, validation = self.losses, self.validation_losses
        words = counted(len(losses), "epoch")
        words += f", loss {losses[0]:.4g} to {losses[-1]:.4g}" if losses else ""
        words += " (it has grown)" if self.has_grown else ""
        best = min(validation, default=0.0)
        words += f", lowest validation loss {best:.4g} in epoch {1 + validation.index(best)}" if validation else ""
        ending = f", ended as {self.failure.what}" if self.failure else ""
        return words + (", interrupted" if self.interrupted else ending)


class Diverged(FloatingPointError):
    """A loss or a parameter is infinite or NaN. The error has the `history` of `fit` up to that point."""

    history: History
