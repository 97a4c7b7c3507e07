"""Background tasks: threads that wait for a C compiler, or for the process that writes C, while Python goes on."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cache
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")
THREAD_NAME = "micrograd-compiler"


@cache
def _slots(process: int) -> threading.Semaphore:
    """The slots for tasks of a process: one more than there are processors, since each mostly waits for a compiler."""
    return threading.Semaphore(1 + (os.cpu_count() or 1))


def raise_if_abandoned(is_needed: bool = True) -> None:
    """Raise CancelledError in a task's thread whose result nobody waits for.

    That is so once the main thread has ended, since the interpreter waits for the thread.
    """
    if threading.current_thread().name == THREAD_NAME and not (is_needed and threading.main_thread().is_alive()):
        raise CancelledError


class BackgroundTask(Generic[Result]):
    """Work in another thread, which waits for a slot unless `needs_slot` is False; `result` waits for the work.

    A forked child inherits the task but not its thread; and once the main thread has ended, the task is cancelled. In
    either case, `result` does the work itself.
    """

    def __init__(self, work: Callable[[], Result], *, needs_slot: bool = True) -> None:
        self._work, self._process = work, os.getpid()
        self._slot: AbstractContextManager[Any] = _slots(self._process) if needs_slot else nullcontext()
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
        with self._slot:
            try:
                raise_if_abandoned()
                self._future.set_result(self._work())
            except BaseException as error:
                self._future.set_exception(error)
