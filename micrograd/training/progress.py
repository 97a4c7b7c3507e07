"""How a training run reports its progress: to a terminal, a notebook or a log."""

import math
import shutil
import sys
import time
from contextlib import AbstractContextManager
from typing import TextIO

from micrograd.compiler.stepping import Sampler
from micrograd.core import display
from micrograd.training.history import History


class Progress(AbstractContextManager["Progress"]):
    """Reports after steps to a terminal or a notebook, in a place that updates, and after epochs to a log."""

    def __init__(self, stream: bool | TextIO, epochs: int, history: History) -> None:
        is_notebook = stream is True and "IPython" in sys.modules
        self.notebook = display.notebook().live(history, epochs) if is_notebook else None
        self.stream = None if self.notebook else sys.stderr if stream is True else stream or None
        self.terminal = getattr(self.stream, "isatty", bool)()
        self.interval = 0.1 if self.terminal else 0.5 if self.notebook else 1.0
        self.epochs, self.history = epochs, history
        self.started = self.begun = self.due = time.monotonic()
        self.head = self.ending = ""  # of the latest message, and of the last one

    def __exit__(self, *error: object) -> None:
        if self.head:
            self._show(f"in {_clock(time.monotonic() - self.started)}{self.ending}")
        if self.terminal:
            self._write("\n")

    def step(self, sampler: Sampler, loss: float, rate: float, has_ended: bool) -> None:
        """Report where the training is after some steps. `loss` is the mean in an epoch that has not ended.

        The message waits until the next is due or the training is over.
        """
        if not (has_ended or self.terminal or self.notebook):
            return
        now, losses, n = time.monotonic(), self.history.losses, sampler.n
        passed, loss = (len(losses), losses[-1]) if has_ended else (sampler.steps / sampler.per_epoch, loss)
        rest, speed = (self.epochs - passed) * n, passed * n / max(now - self.begun, 1e-9)
        validation = f"  validation {self.history.validation_losses[-1]:.4g}" if self.history.validation_losses else ""
        self.head = f"epoch {math.ceil(passed)}/{self.epochs}  loss {loss:.4g}{validation}  rate {rate:.3g}  "
        self.head += f"{speed:,.0f} examples/s  "
        if rest and now >= self.due:
            self.due = now + self.interval
            self._show(f"{_clock(rest / speed)} left")

    def _show(self, ending: str) -> None:
        message = self.head + ending
        if self.notebook:
            self.notebook(message)
        elif self.stream and self.terminal:
            width = shutil.get_terminal_size().columns - 1
            self._write("\r" + message[:width].ljust(width))
        else:
            self._write(f"{message}\n")
            self.head = self.head.partition("loss")[0]  # an early end repeats only the epoch

    def _write(self, text: str) -> None:
        """Write the text until the reader goes away: that does not end the training."""
        if self.stream is not None:
            try:
                print(text, end="", file=self.stream, flush=True)
            except (OSError, ValueError):  # the latter if the stream is closed
                self.stream = None


def _clock(seconds: float) -> str:
    """A time as minutes and seconds; from an hour on, as hours, minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"
