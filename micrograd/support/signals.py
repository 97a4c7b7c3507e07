"""Ctrl-C and other signals, postponed during operations that must not be interrupted; parameters set, all or none."""

import _signal  # type: ignore[import-not-found]  # without the enumerations of `signal`, which are slow
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain, repeat
from typing import Any

NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGALRM", "SIGUSR1", "SIGUSR2")
SIGNALS = [int(getattr(signal, name)) for name in NAMES if hasattr(signal, name)]  # their handlers may raise exceptions


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Postpone Ctrl-C, and other signals that the program has handlers for, until the block has ended."""
    here = threading.current_thread() is threading.main_thread()  # only there do signals arrive
    handlers = {number: handler for number in SIGNALS if here and callable(handler := _signal.getsignal(number))}
    over = False
    with ExitStack() as calls:  # calls the handlers of all signals that came, whatever they raise

        def wait(number: int, frame: Any) -> None:
            if over:  # the handler of another signal has raised an exception before all were restored
                handlers[number](number, frame)
            else:
                calls.callback(handlers[number], number, frame)

        try:
            with ExitStack() as after:
                for number, handler in handlers.items():  # that of Ctrl-C is restored last
                    after.callback(_signal.signal, number, handler)
                    _signal.signal(number, wait)
                yield
        finally:
            over = True
            for number, handler in handlers.items():
                if _signal.getsignal(number) is wait:  # another handler has raised an exception where it would be set
                    _signal.signal(number, handler)


@contextmanager
def finally_uninterrupted(leave: Callable[[], object]) -> Iterator[None]:
    """Call `leave` after the block, once and uninterrupted, whenever Ctrl-C comes."""
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
        once()  # if Ctrl-C came before the other call had begun


def set_data(parameters: Sequence[Any], numbers: Iterable[Any], then: Iterable[Any] = ()) -> None:
    """Set the parameters' data and exhaust `then`; Ctrl-C cannot come between. After an error, all is as before."""
    before = [parameter.data for parameter in parameters]
    done: list[bool] = []
    try:  # in C, which is not interrupted; a parameter that is frozen raises an error
        deque(chain(map(setattr, parameters, repeat("data"), numbers), then, map(done.append, [True])), maxlen=0)
    except BaseException:
        restore(parameters, [] if done else before)  # a Ctrl-C that came afterwards undoes nothing
        raise


def restore(parameters: Sequence[Any], numbers: Sequence[Any]) -> None:
    """Set the data of the parameters back to the numbers, if there are any, where it has changed."""
    with uninterrupted():
        for parameter, number in zip(parameters, numbers, strict=False):
            now = parameter.data
            if now is not number and repr(now) != repr(number):  # a frozen one has not changed, and cannot be set
                parameter.data = number
