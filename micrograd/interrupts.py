"""Ctrl-C, and other signals, which wait while something is done that must not be left half-done."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

__all__ = ["ensured", "entering", "uninterrupted"]


NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGALRM", "SIGUSR1", "SIGUSR2")
SIGNALS = [getattr(signal, name) for name in NAMES if hasattr(signal, name)]  # of which a handler may raise something


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Let Ctrl-C, and other signals that the program has handlers for, wait until the block is done."""
    here = threading.current_thread() is threading.main_thread()  # where signals arrive
    handlers = {number: handler for number in SIGNALS if here and callable(handler := signal.getsignal(number))}
    waiting: list[Any] = []
    over = False

    def wait(*arguments: Any) -> None:
        if over:  # where the handler of another signal has raised something before all were set back
            handlers[arguments[0]](*arguments)
        else:
            waiting.append(arguments)

    def call() -> None:
        with ExitStack() as calls:  # all of them, whatever they raise
            for arguments in waiting:
                calls.callback(handlers[arguments[0]], *arguments)

    try:
        with ExitStack() as after:
            after.callback(call)
            for number, handler in handlers.items():  # Ctrl-C is set back last
                after.callback(signal.signal, number, handler)
                signal.signal(number, wait)
            yield
    finally:
        over = True


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
