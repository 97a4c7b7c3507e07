"""Tasks on an Executor, or on several, until they are answered; and what goes wrong there.

An executor may break, as one of processes does with the death of any of them: a new one takes its place where there is
a function that makes one, else the others have its tasks. What has been answered stays answered, and is not asked for
again. What a worker needs for a task is sent with it the first time, and kept there: where it is not, as in a process
that is new or another one than before, the answer is None, and all is sent.
"""

import logging
import os
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError
from contextlib import ExitStack, suppress
from itertools import count, islice
from pickle import PicklingError
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, NamedTuple, Self

from micrograd.compiler.precision import Precision

log = logging.getLogger("micrograd")

MOST_FAILURES = 3  # of an executor that is made anew, one after the other without an answer in between
SLOW, SLOW_STEPS, TRIFLE = 5.0, 5, 1e-3  # times as long as the others; in how many steps; seconds that are no matter
PATIENCE = 60.0  # seconds without any answer, after which the log says so
FAREWELL = 1.0  # seconds that workers have to hear that a training is over
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
    precision
        Of the numbers in the examples.
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
    precision: Precision
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
        self._make = given if callable(given) and (isinstance(given, type) or not hasattr(given, "submit")) else None
        self.executor = given if self._make is None else given()
        if not hasattr(self.executor, "submit"):
            came = f"executor is {given!r:.80}" if self._make is None else f"executor() is {self.executor!r:.80}"
            raise TypeError(
                f"{came}: expected a concurrent.futures.Executor, such as ProcessPoolExecutor(), a function that makes "
                "one, or a list of these"
            )
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

    Attributes
    ----------
    places
        Those that work.
    size
        How many workers there are, as far as the executors tell.
    """

    def __init__(self, given: Any, work: Callable[[Task], Answer | None]) -> None:
        self.work = work
        self.places: list[Place] = []
        with ExitStack() as made:
            made.callback(self.close, wait=False)
            for one in given if isinstance(given, (list, tuple)) else [given]:
                self.places.append(Place(one))
            made.pop_all()
        if not self.places:
            raise ValueError("executor is an empty list: give at least one")
        self.size = sum(place.size() for place in self.places)
        self._told: set[str] = set()
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
        under_way, coming, turns = UnderWay(self), enumerate(tasks), count()
        try:
            while True:
                for i, task in islice(coming, ahead - len(under_way)):
                    under_way.submit(i, task)
                if not len(under_way):
                    return
                yield under_way.answer(next(turns))
        finally:
            under_way.cancel()

    def heard(self, place: Place, task: Task, answer: Answer) -> None:
        """Take note of who has answered."""
        place.sent.add((task.token, task.shard))
        place.workers.add(answer.worker)
        if answer.remark:
            self.say_once(f"{answer.worker} {answer.remark}")

    def tell(self, function: Callable[[str, int], None], token: str, wait: bool) -> None:
        """Call the function with the token where tasks of this token have been done, as far as that can be reached."""
        asked = []
        for place in self.places:
            with suppress(Exception):  # of what is broken, or has been shut down
                asked += [place.executor.submit(function, token, i) for i in range(len(place.workers))]
        deadline = time.monotonic() + FAREWELL * wait
        for future in asked:
            with suppress(Exception):  # if the workers have something else to do, for one
                future.result(timeout=max(0.0, deadline - time.monotonic()))

    def watch(self, taken: Sequence[tuple[str, float, int]]) -> None:
        """Name a worker, once, that has been much slower than the others for some steps.

        `taken` is the worker of each task of a step, the seconds it took, and the examples it was for.
        """
        for worker in {worker for worker, seconds, _ in taken if seconds > TRIFLE}:
            own, others = ([s / n for other, s, n in taken if (other == worker) is same] for same in (True, False))
            times = statistics.median(own) / max(statistics.median(others), 1e-12) if others else 1.0
            self._slow[worker] = self._slow[worker] + 1 if times > SLOW else 0
            if self._slow[worker] == SLOW_STEPS:
                self.say_once(f"{worker} is slow", f": it takes {times:.0f} times as long for an example as the others")

    def replace(self, place: Place, executor: Any, error: BaseException) -> None:
        """Have another executor in place of a broken one, or let the others have its tasks.

        Raises
        ------
        WorkersLost
            If there is none left.
        """
        if place not in self.places or place.executor is not executor or place.remade(error):
            return
        self.places.remove(place)
        if self.places:
            log.warning("an executor is broken, and the others go on with its tasks: %s", _described(error))
            return
        remedy = _remedy(place, error)
        raise WorkersLost(
            f"the executor does not work, and no worker is left: {_described(error)}; {remedy}"
        ) from error

    def say_once(self, message: str, more: str = "") -> None:
        """Log a message, if it is new."""
        if message not in self._told:
            self._told.add(message)
            log.warning("%s%s", message, more)


class UnderWay:
    """Tasks that are under way, by their numbers, and answers whose turn has not come yet."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._asked: dict[int, tuple[Task, Place, Any, Any]] = {}  # with the executor, and its future
        self._answers: dict[int, Answer] = {}
        self._done: SimpleQueue[int] = SimpleQueue()

    def __len__(self) -> int:
        return len(self._asked) + len(self._answers)

    def submit(self, i: int, task: Task, whole: bool = False) -> None:
        """Give a task to its executor, without what that has been sent already, or whole."""
        while True:
            places = self._pool.places
            place = places[(i if task.shard is None else task.shard) % len(places)]
            executor = place.executor
            try:
                future = executor.submit(self._pool.work, task if whole else place.light(task))
            except RuntimeError as error:  # since it is broken, or shut down
                self._pool.replace(place, executor, error)
            else:
                self._asked[i] = task, place, executor, future
                future.add_done_callback(lambda _: self._done.put(i))
                return

    def answer(self, turn: int) -> Answer:
        """The answer to the task of this number; as it comes, or once it has come."""
        while turn not in self._answers:
            self._receive()
        return self._answers.pop(turn)

    def cancel(self) -> None:
        """Ask for nothing any longer."""
        for *_, future in self._asked.values():
            future.cancel()

    def _receive(self) -> None:
        """Wait for a task to be done. If it is not answered, it is given to an executor again."""
        i = self._next()
        task, place, executor, future = self._asked.pop(i)
        try:
            answer = future.result()
        except (BrokenExecutor, CancelledError) as error:
            self._pool.replace(place, executor, error)
            self.submit(i, task)
            return
        except (PicklingError, AttributeError, TypeError) as error:
            if not hasattr(error, "__notes__"):  # as it has if it comes from a worker
                error.add_note(
                    f"{task.name} cannot be sent: let what loads it be a function of a module, or a partial of it"
                )
            raise
        if answer is None:
            self.submit(i, task, whole=True)
        else:
            place.failures = 0
            self._answers[i] = answer
            self._pool.heard(place, task, answer)

    def _next(self) -> int:
        """The number of a task that is done."""
        patience = time.monotonic() + PATIENCE
        while True:
            with suppress(Empty):
                return self._done.get(timeout=TICK)
            if time.monotonic() > patience:
                names = ", ".join(task.name for task, *_ in self._asked.values())
                self._pool.say_once(f"no answer for {PATIENCE:g} s", f": waiting for {names:.200}")


def _remedy(place: Place, error: BaseException) -> str:
    """What to do about an executor that does not work."""
    if not isinstance(error, (BrokenExecutor, CancelledError)):
        return "if it was shut down, as at the end of its `with` block, use it within"
    if not place.workers:
        again = f"{MOST_FAILURES} that were made in its place have broken, too; " if place.failures > 1 else ""
        return (
            f'{again}it gave no answer at all: start processes under `if __name__ == "__main__":`, and let functions '
            "that load shards be in a module that the processes can import"
        )
    if place.failures > 1:
        return f"{MOST_FAILURES} that were made in its place have broken, too, before they gave an answer"
    return (
        "give a function that makes an executor, as in executor=lambda: ProcessPoolExecutor(4), which is called again "
        "when one is broken, or a list of several executors"
    )


def _described(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".rstrip(".: ")
