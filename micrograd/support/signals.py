"""Whole steps: Ctrl-C is noticed between two of them, and either all parameters are set or none."""

import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any


@contextmanager
def interrupts_noted() -> Iterator[list[int]]:
    """In the block, the first Ctrl-C is only noted in the list; a second one raises KeyboardInterrupt at once.

    This applies only in the main thread, and if the program has not replaced Python's own handler.
    """
    noted: list[int] = []

    def note(number: int, frame: Any) -> None:
        noted.append(number)
        if len(noted) > 1:
            raise KeyboardInterrupt

    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield noted
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def finish(action: Callable[[], None]) -> None:
    """Call an action that may be repeated. If Ctrl-C interrupts it, repeat it, then raise the KeyboardInterrupt."""
    try:
        action()
    except KeyboardInterrupt:
        action()
        raise


def set_data(parameters: Sequence[Any], numbers: Iterable[Any]) -> None:
    """Set the parameters' data. After an error, such as a frozen parameter's, none has changed."""
    before = [parameter.data for parameter in parameters]
    try:
        for parameter, number in zip(parameters, numbers, strict=False):
            parameter.data = number
    except BaseException:
        set_back(parameters, before)
        raise


def set_back(parameters: Sequence[Any], before: Iterable[Any]) -> None:
    """Restore the data of all parameters that have changed; a frozen one has not, and cannot be set."""
    for parameter, number in zip(parameters, before, strict=True):
        if parameter.data is not number:
            parameter.data = number
