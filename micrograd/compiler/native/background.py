"""Work in other threads, where Python waits for a C compiler."""

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from typing import Generic, TypeVar

Result = TypeVar("Result")


@cache
def _threads(process: int) -> ThreadPoolExecutor:
    """As many threads as there are processors, and one more: each mostly waits for another process."""
    return ThreadPoolExecutor(1 + (os.cpu_count() or 1), "micrograd-compiler")


class Background(Generic[Result]):
    """The result of some work, which begins at once in another thread.

    What a forked child inherits has no such thread: there, the work is done when its result is asked for. So it is at
    the end of the interpreter, when no thread can start.
    """

    def __init__(self, work: Callable[[], Result]) -> None:
        self._work, self._process = work, os.getpid()
        self._future: Future[Result] | None = None
        with suppress(RuntimeError):  # the interpreter is shutting down
            self._future = _threads(self._process).submit(work)

    def result(self) -> Result:
        """The result, or the error that the work has raised."""
        if self._future and (self._future.done() or self._process == os.getpid()):
            return self._future.result()
        return self._work()
