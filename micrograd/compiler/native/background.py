"""Background tasks: threads that wait for a C compiler while Python goes on."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import cache
from typing import Any


@cache
def _slots(process: int) -> threading.Semaphore:
    """The slots for tasks of a process: one more than there are processors, since each mostly waits for a compiler."""
    return threading.Semaphore(1 + (os.cpu_count() or 1))


class BackgroundTask:
    """Work in another thread, which waits for a slot; `result` waits for the work.

    The interpreter does not wait for the thread when it ends. Where there is no such thread, as in a forked child or
    when the interpreter is shutting down, `result` does the work itself.
    """

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work, self._process = work, os.getpid()
        self._future: Future[Any] = Future()
        try:
            threading.Thread(target=self._run, name="micrograd-compiler", daemon=True).start()
        except RuntimeError:  # the interpreter is shutting down
            self._process = 0

    def result(self) -> Any:
        """Return what the work returned, or raise what it raised."""
        return self._future.result() if self._process == os.getpid() else self._work()

    def _run(self) -> None:
        with _slots(self._process):
            try:
                self._future.set_result(self._work())
            except BaseException as error:
                self._future.set_exception(error)
