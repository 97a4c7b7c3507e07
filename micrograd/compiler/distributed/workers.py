"""Tasks for the workers of an executor, and their answers, in the order of the tasks.

A worker keeps the program and the examples that came with a task, so they are sent only once. A worker that lacks them,
such as a new process, answers None, and everything is sent again. A program is a compiled function: it is sent as
traces, and built where it arrives.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor
from itertools import islice
from typing import Any, NamedTuple

from micrograd.core.errors import shown

MOST_KEPT = 2  # tokens: one of a training, and one of a function that is called between its steps

_kept: dict[str, tuple[Any, ...]] = {}
"""What came with tasks, by their token; the most recently used is last."""
_sent: set[str] = set()
"""The tokens of what some worker has."""


class Task(NamedTuple):
    """A function for a worker to call, on what the worker keeps for later tasks with this token, and on arguments."""

    name: str  # of the examples, for messages
    do: Callable[..., Any]
    arguments: tuple[Any, ...]
    token: str
    kept: tuple[Any, ...] | None  # a program, perhaps with examples; None if the worker should have it already


def run_task(task: Task) -> tuple[Any, Exception | None] | None:
    """On a worker: the result of a task, and the error that it raised; None if what it keeps is missing here."""
    if (kept := task.kept or _kept.get(task.token)) is None:
        return None
    _kept.pop(task.token, None)
    _kept[task.token] = kept
    for token in list(_kept)[:-MOST_KEPT]:
        _kept.pop(token, None)
    try:
        return task.do(*kept, *task.arguments), None
    except Exception as error:
        error.add_note(f"in {task.name}")
        return None, error


class Workers:
    """The workers of an executor."""

    def __init__(self, executor: Any) -> None:
        if not hasattr(executor, "submit"):
            raise TypeError(f"executor is {shown(executor)}: expected an executor, as in concurrent.futures")
        self.executor = executor
        self._has_answered = False

    @property
    def n(self) -> int:
        """The number of workers, as far as the executor tells."""
        counts = (getattr(self.executor, name, None) for name in ("_max_workers", "num_workers"))
        return next(filter(None, counts), os.cpu_count() or 1)

    def results(self, tasks: Iterable[Task], ahead: int) -> Iterator[Any]:
        """The results of the tasks, in their order. At most `ahead` tasks are submitted before their turn.

        Raises whatever a task raised, or BrokenExecutor if the executor fails.
        """
        coming, submitted = iter(tasks), deque[tuple[Task, Any]]()
        try:
            while True:
                submitted += [(task, self._submit(task)) for task in islice(coming, ahead - len(submitted))]
                if not submitted:
                    return
                task, future = submitted[0]
                result, error = self._answer(future) or self._answer(self._submit(task, whole=True))
                submitted.popleft()
                if error:
                    raise error
                _sent.add(task.token)
                yield result
        finally:
            for _, future in submitted:
                future.cancel()  # if it has not begun

    def _submit(self, task: Task, whole: bool = False) -> Any:
        """Submit a task, whole or without what was sent before; return its future."""
        if task.token in _sent and not whole:
            task = task._replace(kept=None)
        try:
            return self.executor.submit(run_task, task)
        except RuntimeError as error:  # it was shut down
            raise self._broken(error) from error

    def _answer(self, future: Any) -> Any:
        try:
            answer = future.result()
        except Exception as error:
            raise self._broken(error) from error
        self._has_answered = True
        return answer

    def _broken(self, error: Exception) -> BrokenExecutor:
        hint = "" if self._has_answered else '; it never answered: start processes under `if __name__ == "__main__":`'
        return BrokenExecutor(f"the executor is broken: {type(error).__name__}: {error}".rstrip(".: ") + hint)
