"""Tasks for the workers of an executor, and their answers, in the order of the tasks.

A worker keeps the program and the examples that came with a task, so they are sent only once. A worker that lacks them,
such as a new process, answers None, and everything is sent again. A program is a compiled function: it is sent as
traces, and built where it arrives.
"""

import os
import pickle
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from micrograd.core.errors import shown

MOST_KEPT = 2  # programs with their shards: one in training, and one that is called between its steps

_kept: dict[str, dict[int | None, Any]] = {}
"""What came with tasks, by token, most recently used last: the program under None, and shards under their keys."""


@dataclass(frozen=True)
class Task:
    """A function for a worker to call, with a program and examples."""

    name: str  # of the examples, for messages
    do: Callable[..., Any]  # is called with the program, the examples and the arguments
    arguments: tuple[Any, ...]
    token: str  # the key under which the worker keeps the program
    program: bytes | None  # None if the worker should have it already
    shard: int | None  # the key under which it keeps the examples; None if it does not keep them
    examples: Any  # None if the worker should have them already


def run_task(task: Task) -> tuple[Any, Exception | None] | None:
    """On a worker: the result of a task, and the error that it raised; None if something is missing here."""
    kept = _kept[task.token] = _kept.pop(task.token, {})
    for token in list(_kept)[:-MOST_KEPT]:
        _kept.pop(token, None)
    try:
        if task.program and None not in kept:
            kept[None] = pickle.loads(task.program)
        examples = task.examples
        if task.shard is not None:
            if examples is not None:
                kept[task.shard] = examples
            examples = kept.get(task.shard)
        if None not in kept or examples is None:
            return None
        return task.do(kept[None], examples, *task.arguments), None
    except Exception as error:
        error.add_note(f"in {task.name}")
        return None, error


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
                for i, (task, future) in enumerate(submitted):  # all incomplete ones are sent again together
                    if future.done() and self._answer(future) is None:
                        submitted[i] = task, self._submit(task, whole=True)
                if answer is not None:
                    task, _ = submitted.popleft()
                    result, error = answer
                    if error:
                        raise error
                    self.sent.add((task.token, task.shard))
                    yield result
        finally:
            for _, future in submitted:
                future.cancel()  # if it has not begun

    def _submit(self, task: Task, whole: bool = False) -> Any:
        """Submit a task, whole or without what was sent before; return its future."""
        if not whole and (task.token, task.shard) in self.sent:
            task = replace(task, program=None, examples=task.examples if task.shard is None else None)
        try:
            return self.executor.submit(run_task, task)
        except RuntimeError as error:  # it was shut down
            raise self._broken(error) from error

    def _answer(self, future: Any) -> tuple[Any, Exception | None] | None:
        try:
            answer: tuple[Any, Exception | None] | None = future.result()
        except Exception as error:
            raise self._broken(error) from error
        self._has_answered = True
        return answer

    def _broken(self, error: Exception) -> BrokenExecutor:
        hint = "" if self._has_answered else '; it never answered: start processes under `if __name__ == "__main__":`'
        return BrokenExecutor(f"the executor is broken: {type(error).__name__}: {error}".rstrip(".: ") + hint)
