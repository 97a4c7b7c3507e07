"""Steps that are whole: Ctrl-C is noticed between two of them, and parameters are set all or none."""

import signal
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any


@contextmanager
def interrupts_noted() -> Iterator[list[int]]:
    """Within the block, a first Ctrl-C is only noted in the list; a second one raises KeyboardInterrupt at once.

    So it is where Python's own handler would raise that error: in the main thread, unless the program has set another.
    """
    noted: list[int] = []

    def note(number: int, frame: Any) -> None:
        noted.append(number)
        if len(noted) > 1:
            raise KeyboardInterrupt

    is_main = threading.current_thread() is threading.main_thread()
    is_pythons = is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_pythons:
        signal.signal(signal.SIGINT, note)
    try:
        yield noted
    finally:
        if is_pythons:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def set_data(parameters: Sequence[Any], numbers: Iterable[Any]) -> None:
    """Set the parameters' data. On an error, such as that of a frozen parameter, none has changed."""
    before = [parameter.data for parameter in parameters]
    try:
        for parameter, number in zip(parameters, numbers, strict=False):
            parameter.data = number
    except BaseException:
        set_back(parameters, before)
        raise


def set_back(parameters: Sequence[Any], before: Iterable[Any]) -> None:
    """Set the data of those parameters that have changed to what it was; a frozen one has not, and cannot be set."""
    for parameter, number in zip(parameters, before, strict=True):
        if parameter.data is not number:
            parameter.data = number
