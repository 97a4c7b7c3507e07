"""How a training reports its progress: to a terminal, a notebook or a log."""

import os
import sys
import time
from contextlib import suppress
from typing import Self, TextIO

from micrograd import display
from micrograd.training.history import History


class Progress:
    """Reports to a terminal or a notebook after steps, in a place that updates itself, and to a log after epochs."""

    def __init__(self, stream: bool | TextIO, epochs: int, examples: int, history: History) -> None:
        is_notebook = stream is True and "IPython" in sys.modules
        self.notebook = display.notebook().live(history, epochs) if is_notebook else None
        self.stream = None if self.notebook else sys.stderr if stream is True else stream or None
        self.terminal = self.stream is not None and _is_terminal(self.stream)
        self.interval = 0.1 if self.terminal else 0.5 if self.notebook else 1.0
        self.epochs, self.examples, self._history = epochs, examples, history
        self.started = self.due = time.monotonic()
        self.validation = ""
        self.pending_message = ""
        self.head = ""  # of the latest message, unless that is the last one

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        try:
            if self.head and (self.pending_message or self.terminal or self.notebook):  # it ends before its last epoch
                self.pending_message = f"{self.head}in {_clock(time.monotonic() - self.started)}"
            self._show()
            if self.terminal:
                self._write("\n")
        except KeyboardInterrupt:  # the training is over: keep its history
            self._history.interrupted = True

    def compiled(self, shapes: int, of: int) -> None:
        """Report how many of the shapes of the examples are compiled."""
        if of > 1:
            self.pending_message = f"compiled {shapes} of {of} shapes"
            self._show()

    def step(self, epoch: int, seen: int, loss: float, rate: float) -> None:
        """Report a step after which the epoch has seen so many examples, their mean loss and the learning rate."""
        if self.terminal or self.notebook:
            self._update(epoch, seen, loss, rate)

    def epoch(self, epoch: int, loss: float, rate: float, validation: float | None) -> None:
        """Report an epoch, its mean losses and the learning rate."""
        self.validation = "" if validation is None else f"  validation {validation:.4g}"
        self._update(epoch, self.examples, loss, rate)

    def _update(self, epoch: int, seen: int, loss: float, rate: float) -> None:
        """Show the message, or keep it until the next is due or the training is over."""
        now = time.monotonic()
        done = (epoch - 1) * self.examples + seen
        speed = done / max(now - self.started, 1e-9)
        rest = self.epochs * self.examples - done
        head = (
            f"epoch {epoch}/{self.epochs}  loss {loss:.4g}{self.validation}  rate {rate:.3g}  {speed:,.0f} examples/s  "
        )
        self.head = head if rest else ""
        self.pending_message = head + (f"{_clock(rest / speed)} left" if rest else f"in {_clock(now - self.started)}")
        if now >= self.due:
            self.due = now + self.interval
            self._show()

    def _show(self) -> None:
        message, self.pending_message = self.pending_message, ""
        if not message:
            return
        if self.notebook:
            self.notebook(message)
        elif self.stream and self.terminal:
            width = _columns(self.stream) - 1
            self._write("\r" + message[:width].ljust(width))
        else:
            self._write(f"{message}\n")

    def _write(self, text: str) -> None:
        """Write the text while somebody reads: a reader who goes away does not end the training."""
        if self.stream is not None:
            try:
                print(text, end="", file=self.stream, flush=True)
            except (OSError, ValueError):  # the latter if the stream is closed
                self.stream = None


def _clock(seconds: float) -> str:
    """A time as minutes and seconds."""
    return "{}:{:02}".format(*divmod(round(seconds), 60))


def _is_terminal(stream: TextIO) -> bool:
    """Whether the stream is an open terminal."""
    with suppress(OSError, ValueError):
        return stream.isatty()
    return False


def _columns(terminal: TextIO) -> int:
    """The width of a terminal; 80 if it does not know."""
    with suppress(OSError, ValueError):  # the latter if the stream is closed
        return os.get_terminal_size(terminal.fileno()).columns or 80
    return 80
