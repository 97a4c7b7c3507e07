"""The caller's side: tasks go to an executor, and their answers come in the order of the tasks.

A worker keeps what came with a task, so that is sent only once. If it is missing, as in a new process, the worker
answers None, and everything is sent again.
"""

import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import BrokenExecutor
from itertools import islice
from typing import Any

from micrograd.compiler.distributed.worker import Answer, Task, run_task
from micrograd.core.errors import shown


class Workers:
    """The workers of an executor."""

    def __init__(self, executor: Any) -> None:
        if not hasattr(executor, "submit"):
            raise TypeError(f"executor is {shown(executor)}: expected an executor, as in concurrent.futures")
        self.executor = executor
        self.sent: set[tuple[str, int | None]] = set()  # tokens and shards that a worker has
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
                for task in islice(coming, ahead - len(submitted)):
                    submitted.append((task, self._submit(task)))
                if not submitted:
                    return
                answer = self._answer(submitted[0][1])
                for i, (task, future) in enumerate(submitted):  # all that are done: they are sent again together
                    if future.done() and self._answer(future) is None:
                        submitted[i] = task, self._submit(task, whole=True)
                if answer is not None:
                    task, _ = submitted.popleft()
                    if answer.error:
                        raise answer.error
                    self.sent.add((task.token, task.shard))
                    yield answer.result
        finally:
            for _, future in submitted:
                future.cancel()  # if it has not begun

    def _submit(self, task: Task, whole: bool = False) -> Any:
        """Submit a task, whole or without what was sent before; return its future."""
        is_kept = not whole and (task.token, task.shard) in self.sent
        try:
            return self.executor.submit(run_task, task.without_kept() if is_kept else task)
        except RuntimeError as error:  # it was shut down
            raise self._broken(error) from error

    def _answer(self, future: Any) -> Answer | None:
        try:
            answer: Answer | None = future.result()
        except Exception as error:
            raise self._broken(error) from error
        self._has_answered = True
        return answer

    def _broken(self, error: Exception) -> BrokenExecutor:
        hint = "" if self._has_answered else '; it never answered: start processes under `if __name__ == "__main__":`'
        return BrokenExecutor(f"the executor is broken: {type(error).__name__}: {error}".rstrip(".: ") + hint)
