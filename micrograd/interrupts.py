"""Ctrl-C, which waits while something is done that must not be left half-done."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

__all__ = ["ensured", "entering", "uninterrupted"]


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Let Ctrl-C wait until the block is done."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield  # where Ctrl-C does not arrive, or is ignored
        return
    waiting: list[Any] = []
    try:
        signal.signal(signal.SIGINT, lambda *arguments: waiting.append(arguments))
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if waiting:
            handler(*waiting[0])


@contextmanager
def ensured(leave: Callable[[], None]) -> Iterator[None]:
    """Call `leave` after the block, whole and once, whenever Ctrl-C comes."""
    left = False

    def once() -> None:
        nonlocal left
        if not left:
            with uninterrupted():
                leave()
                left = True

    try:
        try:
            yield
        finally:
            once()
    finally:
        once()  # where Ctrl-C came before it had begun


@contextmanager
def entering(block: AbstractContextManager[Any]) -> Iterator[None]:
    """Let Ctrl-C wait while a block is entered, which is left again if one has waited: no `with` would do that."""
    entered = False
    try:
        with uninterrupted():
            yield
            entered = True
    except BaseException as error:
        if entered:
            block.__exit__(type(error), error, error.__traceback__)
        raise
