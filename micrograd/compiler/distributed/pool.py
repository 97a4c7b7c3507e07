"""Tasks on one Executor or several, until all are answered, whatever goes wrong on the way.

An executor may break, as one of processes does when any of them dies. If there is a function that makes executors, a
new one takes its place; otherwise the other executors take its tasks. Tasks that have been answered are not repeated.
A worker caches what it needs for a task, so that is sent only once. If it is missing, as in a new process, the worker
answers None, and everything is sent again.
"""

import logging
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import BrokenExecutor, CancelledError
from contextlib import AbstractContextManager, ExitStack, suppress
from itertools import count, islice
from queue import Empty, SimpleQueue
from typing import Any

from micrograd.compiler.distributed.worker import Answer, Task, forget, run_task
from micrograd.compiler.native.toolchain import warn_once
from micrograd.core.errors import shown

log = logging.getLogger("micrograd")

MOST_FAILURES = 3  # of executors that were made one after the other, without an answer in between
PATIENCE = 60.0  # seconds without an answer until the log says so
SHUTDOWN_TIMEOUT = 1.0  # seconds that workers have to free what they cached
TICK = 1.0  # seconds between checks for Ctrl-C, where it does not interrupt a wait


class WorkersLost(BrokenExecutor):
    """There is no working executor left."""

    history: Any = None  # of `fit`, up to the last whole step


class ExecutorSlot:
    """An executor, or the latest one from a function that makes them."""

    def __init__(self, given: Any) -> None:
        self._make = given if callable(given) and (isinstance(given, type) or not hasattr(given, "submit")) else None
        self.executor = given if self._make is None else given()
        if not hasattr(self.executor, "submit"):
            came = f"executor is {shown(given)}" if self._make is None else f"executor() is {shown(self.executor)}"
            raise TypeError(
                f"{came}: expected a concurrent.futures.Executor, such as ProcessPoolExecutor(), a function that "
                "returns one, or a list of these"
            )
        self.sent: set[tuple[str, int | None]] = set()  # tokens and shards
        self.workers: set[str] = set()  # the names of those that have answered
        self.failures = 0  # since the last answer

    def size(self) -> int:
        """The number of workers, as far as the executor tells."""
        sizes = (getattr(self.executor, name, None) for name in ("_max_workers", "num_workers"))
        return next((n for n in sizes if isinstance(n, int) and n > 0), os.cpu_count() or 1)

    def renew(self, error: BaseException) -> bool:
        """Replace the broken executor. Returns False if that is not possible, or has failed too often."""
        self.failures += 1
        self.sent.clear()
        if self._make is None or self.failures > MOST_FAILURES:
            return False
        log.warning("an executor is broken and is being replaced: %s", _described(error))
        self.close(wait=False)
        self.executor = self._make()
        return True

    def noted(self, task: Task, answer: Answer) -> Answer:
        """The answer, after which this worker is known to work, and to have cached what it was sent."""
        self.failures = 0
        self.sent.add((task.token, task.shard))
        self.workers.add(answer.worker)
        if answer.remark:
            warn_once(f"{answer.worker} {answer.remark}")
        return answer

    def close(self, wait: bool) -> None:
        """Shut down the executor if it was made here."""
        if self._make is not None:
            with suppress(Exception):  # it may be broken, or shut down already
                self.executor.shutdown(wait=wait)

    def remedy(self, error: BaseException) -> str:
        """What to do about the error that broke it."""
        if not isinstance(error, (BrokenExecutor, CancelledError)):
            return "if it was shut down, as at the end of its `with` block, use it inside the block"
        again = f"{MOST_FAILURES} replacements have broken, too" if self.failures > 1 else ""
        if not self.workers:
            return f'{again and again + "; "}it never answered: start processes under `if __name__ == "__main__":`'
        return (again and f"{again}, before they gave an answer") or (
            f"give a function that creates an executor, as in executor=lambda: ProcessPoolExecutor({self.size()}), "
            "which is called again when one breaks, or a list of several executors"
        )


class Pool(AbstractContextManager["Pool"]):
    """The executors that share the tasks: an Executor, a function that makes one, or a list of these."""

    def __init__(self, given: Any) -> None:
        self.slots: list[ExecutorSlot] = []  # those that work
        with ExitStack() as undo:
            undo.callback(self.close, wait=False)
            for one in given if isinstance(given, (list, tuple)) else [given]:
                self.slots.append(ExecutorSlot(one))
            undo.pop_all()
        if not self.slots:
            raise ValueError("executor is an empty list: expected at least one executor")
        self.size = sum(slot.size() for slot in self.slots)

    def __exit__(self, kind: Any, error: Any, at: Any) -> None:
        self.close(wait=error is None)

    def close(self, wait: bool) -> None:
        """Shut down the executors that were made here."""
        for slot in self.slots:
            slot.close(wait)

    def answers(self, tasks: Iterable[Task], ahead: int) -> Iterator[Answer]:
        """The answers to the tasks, in their order. At most `ahead` tasks are submitted before their turn."""
        submitted: dict[int, Submitted] = {}
        answers: dict[int, Answer] = {}  # whose turn has not come yet
        coming, turns, done = enumerate(tasks), count(), SimpleQueue[int]()
        try:
            while True:
                for i, task in islice(coming, ahead - len(submitted) - len(answers)):
                    submitted[i] = self._submit(i, task, done)
                if not submitted and not answers:
                    return
                turn = next(turns)
                while turn not in answers:
                    i = _next_done(done, submitted)
                    task, slot, executor, future = submitted.pop(i)
                    try:
                        answer = future.result()
                    except (BrokenExecutor, CancelledError) as error:
                        self._replace(slot, executor, error)
                        submitted[i] = self._submit(i, task, done)
                    else:
                        if answer is None:
                            submitted[i] = self._submit(i, task, done, whole=True)
                        else:
                            answers[i] = slot.noted(task, answer)
                yield answers.pop(turn)
        finally:
            for *_, future in submitted.values():
                future.cancel()  # if it has not begun

    def _submit(self, i: int, task: Task, done: "SimpleQueue[int]", whole: bool = False) -> "Submitted":
        """Give a task to its executor: whole, or without what that has been sent before. Its number goes to `done`."""
        while True:
            slot = self.slots[(i if task.shard is None else task.shard) % len(self.slots)]
            executor = slot.executor
            cached = not whole and (task.token, task.shard) in slot.sent
            try:
                future = executor.submit(run_task, task.without_cached() if cached else task)
            except RuntimeError as error:  # it is broken, or shut down
                self._replace(slot, executor, error)
            else:
                future.add_done_callback(lambda _: done.put(i))
                return task, slot, executor, future

    def forget(self, token: str, wait: bool) -> None:
        """Free what is cached under this token in the workers that have answered, if they can be reached."""
        futures = []
        for slot in self.slots:
            with suppress(Exception):  # it may be broken, or shut down
                futures += [slot.executor.submit(forget, token, i) for i in range(len(slot.workers))]
        deadline = time.monotonic() + SHUTDOWN_TIMEOUT * wait
        for future in futures:
            with suppress(Exception):  # a worker may be busy
                future.result(timeout=max(0.0, deadline - time.monotonic()))

    def _replace(self, slot: ExecutorSlot, executor: Any, error: BaseException) -> None:
        """Renew a broken executor, unless that has been done; or let others take its tasks; or raise WorkersLost."""
        if slot not in self.slots or slot.executor is not executor or slot.renew(error):
            return
        self.slots.remove(slot)
        if self.slots:
            log.warning("an executor is broken, and the others take over its tasks: %s", _described(error))
            return
        reason = f"{_described(error)}; {slot.remedy(error)}"
        raise WorkersLost(f"the executor is broken, and no worker is left: {reason}") from error


Submitted = tuple[Task, ExecutorSlot, Any, Any]
"""A task, where it is, the executor there and its future."""


def _next_done(done: "SimpleQueue[int]", submitted: Mapping[int, Submitted]) -> int:
    """Wait for a task to be done. Returns its number."""
    deadline = time.monotonic() + PATIENCE
    while True:
        with suppress(Empty):
            return done.get(timeout=TICK)
        if time.monotonic() > deadline:
            names = ", ".join(task.name for task, *_ in submitted.values())
            warn_once(f"no answer for {PATIENCE:g} s: waiting for {names:.200}")


def _described(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".rstrip(".: ")
