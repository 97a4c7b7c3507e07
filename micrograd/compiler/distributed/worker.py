"""The worker's side: it runs tasks, and keeps the programs and examples that came with them.

A program is a compiled function. It is pickled as the trace that code is generated from, and built where it arrives.
"""

import pickle
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, NamedTuple

MOST_KEPT = 2  # programs with their shards: one in training, and one that is called between its steps

_serials = count()


@dataclass(frozen=True)
class Task:
    """A call of a function, with a program and examples, for a worker to make."""

    name: str  # of the examples, for messages
    do: Callable[..., Any]  # is called with the program, the examples and the arguments
    arguments: tuple[Any, ...]
    token: str  # the key under which the worker keeps the program
    program: bytes | None  # None if the worker should have it already
    shard: int | None  # the key under which it keeps the examples; None if it does not
    examples: Any  # None if the worker should have them already
    serial: int = field(default_factory=_serials.__next__)  # some executors compute equal calls only once

    def without_kept(self) -> "Task":
        """The task for a worker that has the program, and the shard."""
        return replace(self, program=None, examples=self.examples if self.shard is None else None)


class Answer(NamedTuple):
    """A worker's answer to a task."""

    result: Any
    error: Exception | None  # raised by the task; errors that a future raises are the executor's


_kept: dict[str, dict[int | None, Any]] = {}
"""What came with tasks, by token, the most recently used last: the program under None, and shards by their keys."""


def run_task(task: Task) -> Answer | None:
    """The answer to a task; None if this process lacks something that it needs."""
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
        return Answer(task.do(kept[None], examples, *task.arguments), None)
    except Exception as error:
        error.add_note(f"in {task.name}")
        return Answer(None, _portable(error))


def forget(token: str) -> None:
    """Free what this process keeps under the token."""
    _kept.pop(token, None)


def _portable(error: Exception) -> Exception:
    """The error; if it cannot be pickled, a RuntimeError with the same message and notes."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        portable = RuntimeError(f"{type(error).__name__}: {error}")
        vars(portable).update(__notes__=error.__notes__)
        return portable
    return error
