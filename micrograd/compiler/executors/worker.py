"""What a worker does: it keeps the programs and the examples that came with tasks, and carries tasks out.

A program travels as any compiled function does, as the trace that code is generated from, and is built where it
arrives. If there is no compiler, Python computes it there, which the answer says.
"""

import math
import os
import pickle
import socket
import threading
import time
from array import array
from typing import Any

from micrograd import checks
from micrograd.compiler import Compiled
from micrograd.compiler.batch import Examples, pool
from micrograd.compiler.executors.pool import Answer, Task
from micrograd.compiler.precision import Precision

MOST_KEPT = 2  # functions whose programs and shards a process keeps
IN_PYTHON = "computes in Python, since C is not to be had there; its own log says why"


class Kept:
    """A program and the shards that belong to it, as far as this process has them."""

    def __init__(self) -> None:
        self.program: Compiled | None = None
        self._in_c = False
        self._shards: dict[int, Examples] = {}
        self._lock = threading.Lock()  # for threads that share them

    def take(self, task: Task) -> Examples | None:
        """Keep what comes with a task. Returns its examples, if all that it takes is here."""
        if self.program is None and task.program is not None:
            with self._lock:
                self.program = _unpacked(task.program)
                self._in_c = self.program.backend != "python"
        if task.shard is None:
            examples = task.source
        else:
            if task.source is not None and task.shard not in self._shards:
                self._shards[task.shard] = loaded(task.source, task.precision)
            examples = self._shards.get(task.shard)
        return examples if self.program or task.do is survey else None

    def remark(self) -> str | None:
        """What is to be said of the results."""
        return IN_PYTHON if self._in_c and self.program and not self.program._is_in_c() else None


_kept: dict[str, Kept] = {}  # by token, that of the latest task last
_lock = threading.Lock()


def carry_out(task: Task) -> Answer | None:
    """The answer to a task; None if this process does not have all that it takes."""
    try:
        with _lock:
            kept = _kept[task.token] = _kept.pop(task.token) if task.token in _kept else Kept()
            for token in list(_kept)[:-MOST_KEPT]:
                del _kept[token]
        examples = kept.take(task)
        if examples is None:
            return None
        started = time.perf_counter()
        result = task.do(kept.program, examples, *task.arguments)
        return Answer(result, name(), time.perf_counter() - started, kept.remark())
    except Exception as error:
        raise _portable(error, f"in {task.name}, on {name()}") from error.__cause__


def forget(token: str, serial: int = 0) -> None:
    """Keep nothing under this token any longer. `serial` tells one such call from another."""
    with _lock:
        _kept.pop(token, None)


def _begin_anew() -> None:
    """In the child of a fork, where the thread that held the lock is no more."""
    global _lock
    _lock = threading.Lock()
    _kept.clear()


getattr(os, "register_at_fork", lambda **hooks: None)(after_in_child=_begin_anew)  # where processes can fork


def name() -> str:
    """What this process is called in a log."""
    return f"process {os.getpid()} on {socket.gethostname()}"


def packed(program: Compiled) -> bytes:
    """A program, to be sent."""
    return _version() + b"\n" + pickle.dumps(program)


def _unpacked(sent: bytes) -> Compiled:
    version, _, pickled = sent.partition(b"\n")
    if version != _version():
        raise RuntimeError(
            f"micrograd {_version().decode()} is installed here, and {version.decode()} where the program comes from: "
            "install the same on all machines"
        )
    program: Compiled = pickle.loads(pickled)
    program.backend = "auto" if program._is_in_c() else "python"
    return program


def _version() -> bytes:
    from micrograd import __version__  # here, where all of it is loaded

    return __version__.encode()


def loaded(source: Any, precision: Precision) -> Examples:
    """The examples of a shard: those that came, or what its loader gives, arrays of doubles where they lie."""
    if isinstance(source, Examples):
        return source
    pair = source()
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise TypeError(f"the loader returned {pair!r:.80}: expected a pair (xs, ys) of inputs and targets")
    return pool(checks.examples(*pair), (), precision)


def _portable(error: Exception, note: str) -> Exception:
    """An error with a note, or where it would not travel, another one that says the same."""
    error.add_note(note)
    try:
        pickle.loads(pickle.dumps(error))
        return error
    except Exception:
        told = RuntimeError(f"{type(error).__name__}: {error}")
        told.add_note(note)
        return told


# What is done with a program and examples


def survey(_: Any, examples: Examples, checked: Any) -> list[tuple[int, list[Any]]]:
    """How many examples there are of each shape, and the arguments of the first one. `checked` is a loss."""
    if checked is not None:
        for number in range(len(examples)):
            checked.check_targets(examples.arguments(number)[1], f"ys[{number}]")
    return [(pack.n, examples.arguments(examples.kind.index(kind))) for kind, pack in enumerate(examples.packs)]


Sums = tuple[float, "array[float]", tuple[int, list[Any]] | None]
"""The sum of losses, its gradient unless that is not finite, and the first example whose loss is not, if known."""


def gradient(
    program: Compiled,
    examples: Examples,
    parameters: "array[float]",
    numbers: "array[int] | None",
    seed: float,
    n: int,
    size: float,
) -> Sums:
    """The losses of these examples, or all, and their gradient times seed. NaN if an operation may have failed.

    `n` is how many there are in the shard, and `size` how many the calls are compiled for.
    """
    gradients = program.precision.zeros(len(parameters))
    total = 0.0
    _check_size(examples, n)
    for kind, pack in enumerate(examples.packs):
        at = None
        if numbers is not None:
            at = array("l", [examples.place[number] for number in numbers if examples.kind[number] == kind])
        if at is None or at:
            total += program._add_gradients(parameters, gradients, seed, pack, at, size * pack.n / len(examples))
    return total, gradients if math.isfinite(total) else program.precision.zeros(0), None


def _check_size(examples: Examples, n: int) -> None:
    """Raise ValueError if a loader has given others than the first time."""
    if len(examples) != n:
        raise ValueError(f"the loader gave {len(examples)} examples, and {n} when it was called first")


_turn = threading.Lock()  # of a thread on the Values of a program


def on_values(
    program: Compiled,
    examples: Examples,
    parameters: "array[float]",
    numbers: "array[int] | None",
    seed: float,
    n: int,
    size: float,
) -> Sums:
    """The same as the engine computes it, or its error."""
    _check_size(examples, n)
    with _turn:
        for parameter, number in zip(program.parameters, parameters, strict=True):
            parameter.data, parameter.grad = number, 0.0
        total = 0.0
        for number in range(len(examples)) if numbers is None else numbers:
            arguments = examples.arguments(number)
            loss = program._function(*arguments)
            if not math.isfinite(loss.data):
                return loss.data, program.precision.zeros(0), (number, arguments)
            total += loss.data
            (loss * seed).backward()
        return total, program.precision.array([parameter.grad for parameter in program.parameters]), None
