"""Background tasks: threads that wait for a C compiler while Python goes on."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from functools import cache
from typing import Generic, TypeVar

Result = TypeVar("Result")
THREAD_NAME = "micrograd-compiler"


@cache
def _slots(process: int) -> threading.Semaphore:
    """The slots for tasks of a process: one more than there are processors, since each mostly waits for a compiler."""
    return threading.Semaphore(1 + (os.cpu_count() or 1))


def raise_if_abandoned() -> None:
    """Raise CancelledError in a task's thread once the main thread has ended, since the interpreter waits for it."""
    if threading.current_thread().name == THREAD_NAME and not threading.main_thread().is_alive():
        raise CancelledError


class BackgroundTask(Generic[Result]):
    """Work in another thread, which waits for a slot; `result` waits for the work.

    A forked child inherits the task but not its thread; and once the main thread has ended, the task is cancelled. In
    either case, `result` does the work itself.
    """

    def __init__(self, work: Callable[[], Result]) -> None:
        self._work, self._process = work, os.getpid()
        self._future: Future[Result] = Future()
        try:
            threading.Thread(target=self._run, name=THREAD_NAME).start()
        except RuntimeError:  # the interpreter is shutting down
            self._future.cancel()

    def result(self) -> Result:
        """Return what the work returned, or raise what it raised."""
        if self._future.done() or self._process == os.getpid():
            with suppress(CancelledError):
                return self._future.result()
        return self._work()

    def _run(self) -> None:
        with _slots(self._process):
            try:
                raise_if_abandoned()
                self._future.set_result(self._work())
            except BaseException as error:
                self._future.set_exception(error)
