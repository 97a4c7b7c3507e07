"""Background tasks: threads that wait for a C compiler while Python goes on."""

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from typing import Generic, TypeVar

Result = TypeVar("Result")


@cache
def _threads(process: int) -> ThreadPoolExecutor:
    """The threads of a process: one more than there are processors, since each mostly waits for a compiler."""
    return ThreadPoolExecutor(1 + (os.cpu_count() or 1), "micrograd-compiler")


class BackgroundTask(Generic[Result]):
    """Work that starts at once in another thread; `result` waits for it.

    A forked child inherits the task but not its thread: there, `result` does the work itself. It also does so at the
    exit of the interpreter, when no thread can start.
    """

    def __init__(self, work: Callable[[], Result]) -> None:
        self._work, self._process = work, os.getpid()
        self._future: Future[Result] | None = None
        with suppress(RuntimeError):  # the interpreter is shutting down
            self._future = _threads(self._process).submit(work)

    def result(self) -> Result:
        """Return what the work returned, or raise what it raised."""
        if self._future and (self._future.done() or self._process == os.getpid()):
            return self._future.result()
        return self._work()
