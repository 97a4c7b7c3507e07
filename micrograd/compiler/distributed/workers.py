"""Tasks for the workers of an executor, and their answers, in the order of the tasks.

A worker keeps the program and the examples that came with a task, so they are sent only once. A worker that lacks them,
such as a new process, answers None, and everything is sent again. A program is a compiled function: it is sent as
traces, and built where it arrives.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from micrograd.core.errors import shown

MOST_KEPT = 2  # programs with their shards: one in training, and one that is called between its steps

_kept: dict[str, dict[str, Any]] = {}
"""The programs and examples that came with tasks, by token and name; the most recently used are last."""


@dataclass(frozen=True)
class Task:
    """A function for a worker to call, with arguments, and what the worker `keeps` for later tasks with this token."""

    name: str  # of the examples, for messages
    do: Callable[..., Any]
    arguments: tuple[Any, ...]
    token: str
    keeps: dict[str, Any]  # by name: a program or examples, or None if the worker should have it already


def run_task(task: Task) -> tuple[Any, Exception | None] | None:
    """On a worker: the result of a task, and the error that it raised; None if something is missing here."""
    came = {name: part for name, part in task.keeps.items() if part is not None}
    kept = _kept[task.token] = _kept.pop(task.token, {}) | came
    for token in list(_kept)[:-MOST_KEPT]:
        _kept.pop(token, None)
    if not task.keeps.keys() <= kept.keys():
        return None
    try:
        return task.do(*map(kept.__getitem__, task.keeps), *task.arguments), None
    except Exception as error:
        error.add_note(f"in {task.name}")
        return None, error


class Workers:
    """The workers of an executor."""

    def __init__(self, executor: Any) -> None:
        if not hasattr(executor, "submit"):
            raise TypeError(f"executor is {shown(executor)}: expected an executor, as in concurrent.futures")
        self.executor = executor
        self.sent: set[tuple[str, str]] = set()  # the tokens and names of what a worker has
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
                self.sent.update((task.token, name) for name in task.keeps)
                yield result
        finally:
            for _, future in submitted:
                future.cancel()  # if it has not begun

    def _submit(self, task: Task, whole: bool = False) -> Any:
        """Submit a task, whole or without what was sent before; return its future."""
        if not whole:
            keeps = {name: None if (task.token, name) in self.sent else part for name, part in task.keeps.items()}
            task = replace(task, keeps=keeps)
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
