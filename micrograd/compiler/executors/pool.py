"""Tasks on an Executor, or on several, until they are answered; and what goes wrong there.

An executor may break, as one of processes does with the death of any of them: a new one takes its place where there is
a function that makes one, else the others have its tasks. What has been answered stays answered, and is not asked for
again. What a worker needs for a task is sent with it the first time, and kept there: where it is not, as in a process
that is new or another one than before, the answer is None, and all is sent.
"""

import logging
import os
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError
from contextlib import suppress
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, NamedTuple, Self

log = logging.getLogger("micrograd")

MOST_FAILURES = 3  # of an executor that is made anew, one after the other without an answer in between
SLOW, SLOW_STEPS, TRIFLE = 5.0, 5, 1e-3  # times as long as the others; in how many steps; seconds that are no matter
TICK = 1.0  # seconds, after which Ctrl-C is heard where a wait cannot be interrupted


class Task(NamedTuple):
    """What a worker is asked to do.

    Attributes
    ----------
    name
        What examples it is about.
    do
        A function of a program, of examples, and of the arguments.
    token
        By which the worker keeps the program.
    shard
        By which it keeps the examples; None if it does not.
    program, source
        The program, and the examples or a function that loads them; None where the worker should have them.
    arguments
        What else the function takes.
    serial
        A number that no other task has, lest an executor take two for the same.
    """

    name: str
    do: Callable[..., Any]
    token: str
    shard: int | None
    program: bytes | None
    source: Any
    arguments: tuple[Any, ...]
    serial: int


class Answer(NamedTuple):
    """What the function has returned, and how: the worker's name, the seconds it took, and what is to be said of it."""

    result: Any
    worker: str
    seconds: float
    remark: str | None


class WorkersLost(BrokenExecutor):
    """No executor is left that works.

    Attributes
    ----------
    history
        That of `fit` up to there.
    """

    history: Any = None


class Place:
    """An executor, and what it has been sent; or a function that makes one, and another one when that is broken."""

    def __init__(self, given: Any) -> None:
        submits = hasattr(given, "submit") and not isinstance(given, type)
        if not submits and not callable(given):
            raise TypeError(
                f"executor is {given!r:.80}: expected a concurrent.futures.Executor, such as ProcessPoolExecutor(), a "
                "function that makes one, or a list of these"
            )
        self._make = None if submits else given
        self.executor = given if submits else given()
        self.failures = 0
        self.sent: set[tuple[str, int | None]] = set()  # tokens and shards
        self.workers: set[str] = set()  # which have answered

    def remade(self, error: BaseException) -> bool:
        """Whether there is a new executor in place of the broken one."""
        self.failures += 1
        self.sent.clear()
        if self._make is None or self.failures > MOST_FAILURES:
            return False
        log.warning("an executor is broken and made anew: %s", _described(error))
        self.close(wait=False)
        self.executor = self._make()
        return True

    def light(self, task: Task) -> Task:
        """The task without what has been sent already."""
        known = (task.token, task.shard) in self.sent
        source = task.source if task.shard is None else None
        return task._replace(program=None, source=source) if known else task

    def size(self) -> int:
        """How many workers there are, as far as the executor tells."""
        told = (getattr(self.executor, name, None) for name in ("_max_workers", "num_workers"))
        return next((n for n in told if isinstance(n, int) and n > 0), os.cpu_count() or 1)

    def close(self, wait: bool) -> None:
        """Shut down what was made here."""
        if self._make is not None:
            with suppress(Exception):  # of what is broken, or has been shut down by others
                self.executor.shutdown(wait=wait)


class Pool:
    """All executors that tasks are given to.

    Parameters
    ----------
    given
        An Executor, a function that makes one, or a list of these.
    work
        What a worker does with a task.
    """

    def __init__(self, given: Any, work: Callable[[Task], Answer | None]) -> None:
        self._work = work
        self.places: list[Place] = []
        try:
            for one in given if isinstance(given, (list, tuple)) else [given]:
                self.places.append(Place(one))
        except BaseException:
            self.close(wait=False)
            raise
        if not self.places:
            raise ValueError("executor is an empty list: give at least one")
        self.size = sum(place.size() for place in self.places)
        self._remarks: set[str] = set()
        self._slow: Counter[str] = Counter()  # steps in a row

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close(wait=error is None)

    def close(self, wait: bool) -> None:
        """Shut down the executors that were made here."""
        for place in self.places:
            place.close(wait)

    def answers(self, tasks: Iterable[Task], ahead: int) -> Iterator[Answer]:
        """What the tasks come to, in their order; so many of them are under way, or wait for their turn, at a time."""
        coming, done = enumerate(tasks), SimpleQueue[tuple[int, Any]]()
        waiting: dict[int, tuple[Task, Place, Any, Any]] = {}
        answered: dict[int, Answer] = {}

        def submit(i: int, task: Task, whole: bool = False) -> None:
            while True:
                place = self.places[(i if task.shard is None else task.shard) % len(self.places)]
                executor = place.executor
                try:
                    future = executor.submit(self._work, task if whole else place.light(task))
                except RuntimeError as error:  # it is broken, or shut down
                    self._replace(place, executor, error)
                else:
                    waiting[i] = task, place, executor, future
                    future.add_done_callback(lambda future: done.put((i, future)))
                    return

        def receive() -> None:
            i, future = _next(done)
            task, place, executor, _ = waiting.pop(i)
            try:
                answer = future.result()
            except (BrokenExecutor, CancelledError) as error:
                self._replace(place, executor, error)
                submit(i, task)
                return
            place.failures = 0
            if answer is None:
                submit(i, task, whole=True)
            else:
                place.sent.add((task.token, task.shard))
                place.workers.add(answer.worker)
                self._say(answer)
                answered[i] = answer

        try:
            i = 0
            while True:
                for number, task in coming:
                    submit(number, task)
                    if len(waiting) + len(answered) >= ahead:
                        break
                if not waiting and not answered:
                    return
                while i not in answered:
                    receive()
                yield answered.pop(i)
                i += 1
        finally:
            for *_, future in waiting.values():
                future.cancel()

    def forget(self, function: Callable[[str], None], token: str) -> None:
        """Call the function with the token where tasks of this token have been done, as far as that can be reached."""
        function(token)  # of executors in this process
        for place in self.places:
            with suppress(Exception):  # of what is broken, or has been shut down
                for i in range(len(place.workers)):
                    place.executor.submit(function, token, i)

    def watch(self, taken: Sequence[tuple[str, float, int]]) -> None:
        """Name a worker, once, that has been much slower than the others for some steps.

        `taken` is the worker of each task of a step, the seconds it took, and the examples it was for.
        """
        for worker in {worker for worker, seconds, _ in taken if seconds > TRIFLE}:
            own, others = ([s / n for other, s, n in taken if (other == worker) is same] for same in (True, False))
            times = statistics.median(own) / max(statistics.median(others), 1e-12) if others else 1.0
            self._slow[worker] = self._slow[worker] + 1 if times > SLOW else 0
            if self._slow[worker] == SLOW_STEPS:
                self._once(f"{worker} is slow: an example takes it {times:.0f} times as long as the others")

    def _replace(self, place: Place, executor: Any, error: BaseException) -> None:
        """Have another executor in place of a broken one, or let the others have its tasks. Raises WorkersLost."""
        if place not in self.places or place.executor is not executor or place.remade(error):
            return
        self.places.remove(place)
        if self.places:
            log.warning("an executor is broken, and the others go on with its shards: %s", _described(error))
            return
        remedy = (
            "give a function that makes an executor in its place, as in executor=lambda: ProcessPoolExecutor(4), which "
            "is called again when one is broken, or a list of several executors"
            if place.failures == 1
            else f"it was made anew {MOST_FAILURES} times, and has broken again each time before it gave an answer"
        )
        raise WorkersLost(f"the executor is broken, and no worker is left: {_described(error)}; {remedy}") from error

    def _say(self, answer: Answer) -> None:
        if answer.remark:
            self._once(f"{answer.worker} {answer.remark}")

    def _once(self, message: str) -> None:
        subject = message.partition(":")[0]
        if subject not in self._remarks:
            self._remarks.add(subject)
            log.warning(message)


def _next(done: "SimpleQueue[tuple[int, Any]]") -> tuple[int, Any]:
    while True:
        with suppress(Empty):
            return done.get(timeout=TICK)


def _described(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".removesuffix(": ")
