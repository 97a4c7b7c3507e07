"""The worker's side: it caches the programs and examples that come with tasks, and runs the tasks.

A program is a compiled function. It is pickled as the trace that code is generated from, and built where it arrives: in
Python if there is no compiler, which the answer remarks on.
"""

import os
import pickle
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, NamedTuple

from micrograd import _version
from micrograd.compiler.function import Function

MOST_CACHED = 2  # programs, with their shards
IN_PYTHON = "computes in Python instead of C; its own log says why"

_serials = count()


@dataclass(frozen=True)
class Task:
    """A call of a function, with a program and examples, for a worker to make."""

    name: str  # of the examples, for messages
    do: Callable[..., Any]  # is called with the program, the examples and the arguments
    arguments: tuple[Any, ...]
    token: str  # the key under which the worker caches the program
    program: bytes | None  # None if the worker should have it; b"" if the task needs none
    shard: int | None  # the key under which it caches the examples; None if it does not
    source: Any  # the examples; None if the worker should have them
    serial: int = field(default_factory=_serials.__next__)  # some executors compute equal calls only once

    def without_cached(self) -> "Task":
        """The task for a worker that has the program, and the shard."""
        return replace(self, program=None, source=self.source if self.shard is None else None)


class Answer(NamedTuple):
    """A worker's answer to a task."""

    result: Any
    worker: str  # its name
    remark: str | None  # about all of its results, for the log


_caches: dict[str, dict[int | None, Any]] = {}
"""A cache for each token, the most recently used one last. It has shards by their numbers, and under None their program
and whether that ran in C where it came from."""
_lock = threading.Lock()


def run_task(task: Task) -> Answer | None:
    """The answer to a task; None if this process lacks something that it needs."""
    try:
        with _lock:
            cache = _caches[task.token] = _caches.pop(task.token, {})
            for token in list(_caches)[:-MOST_CACHED]:
                del _caches[token]
            if task.program and None not in cache:  # threads share the cache
                program = _unpickled(task.program)
                cache[None] = program, program._is_in_c()
        source = task.source
        if task.shard is not None:
            if source is not None and task.shard not in cache:
                cache[task.shard] = source
            source = cache.get(task.shard)
        program, came_in_c = cache.get(None, (None, False))
        if source is None or (program is None and task.program is None):
            return None
        result = task.do(program, source, *task.arguments)
        return Answer(result, name(), IN_PYTHON if came_in_c and not program._is_in_c() else None)
    except Exception as error:
        raise _portable(error, f"in {task.name}, on {name()}") from error.__cause__


def forget(token: str, serial: int = 0) -> None:
    """Free what is cached under this token. `serial` makes each such call a different one."""
    with _lock:
        _caches.pop(token, None)


def _forked() -> None:
    """Begin with an empty cache in the child of a fork, where no thread is left to release the lock."""
    global _lock
    _lock = threading.Lock()
    _caches.clear()


getattr(os, "register_at_fork", lambda **hooks: None)(after_in_child=_forked)  # Windows cannot fork


def name() -> str:
    """The name of this process in a log."""
    return f"process {os.getpid()} on {socket.gethostname()}"


def pickled(program: Function) -> bytes:
    """A program with the version of micrograd, to be sent."""
    return pickle.dumps((_version.__version__, pickle.dumps(program)))


def _unpickled(sent: bytes) -> Function:
    version, content = pickle.loads(sent)
    if version != _version.__version__:
        raise RuntimeError(
            f"micrograd {_version.__version__} is installed here, but {version} where the program comes from: install "
            "the same version on all machines"
        )
    program: Function = pickle.loads(content)
    options = program.options
    if options.backend.name == "c":  # Python computes it if there is no compiler here
        program.options = replace(options, backend=replace(options.backend, name="auto"))
    return program


def _portable(error: Exception, note: str) -> Exception:
    """The error with a note; if it cannot be pickled, a RuntimeError with the same message."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        error = RuntimeError(f"{type(error).__name__}: {error}")
    error.add_note(note)
    return error
