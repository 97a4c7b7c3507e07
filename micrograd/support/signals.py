"""Whole steps: Ctrl-C is noticed between two of them, and either all parameters are set or none."""

import signal
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import compress, repeat
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


def assign(values: Iterable[Any], name: str, to: Iterable[Any]) -> None:
    """Set an attribute of each. Ctrl-C can only interrupt this where Python code computes or stores a number."""
    deque(map(setattr, values, repeat(name), to), 0)  # in two thirds of the time that a loop takes


def set_data(parameters: Sequence[Any], numbers: Iterable[Any]) -> None:
    """Set the parameters' data. After an error, such as a frozen parameter's, none has changed."""
    before = [parameter.data for parameter in parameters]
    try:
        assign(parameters, "data", numbers)
    except BaseException:
        set_back(parameters, before)
        raise


def set_back(parameters: Sequence[Any], before: Sequence[Any]) -> None:
    """Restore the data of all parameters that have changed; a frozen one has not, and cannot be set."""
    changed = [parameter.data is not number for parameter, number in zip(parameters, before, strict=True)]
    assign(compress(parameters, changed), "data", compress(before, changed))
