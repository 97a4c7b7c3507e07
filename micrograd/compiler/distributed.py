"""Compiled functions on many processes and machines, with any executor like those of `concurrent.futures`.

A task has the same answer on every worker and at any time, and answers are added up in the order of the tasks, so the
results do not depend on which worker answers first. Whether a task is tried again is up to the executor, as with Dask's
`retries`. A worker keeps the program and the examples that came with a task, so they are sent only once; a worker that
lacks them, such as a new process, answers None, and they are sent again. A program is a compiled function: it is sent
as traces, and built where it arrives.

`map` and `backward` have a task for each chunk, or for a worker's part of the examples. Only a few chunks are in flight
at a time: the next one is taken from its iterator when there is room. In training, any task may come to any worker, so
each keeps all examples. A step is one task for each shard of its batch.
"""

import os
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from functools import reduce
from itertools import chain, islice, pairwise
from operator import add
from typing import Any

from micrograd.compiler.dataset import Batch, Buckets
from micrograd.compiler.frontend.graph import CallSpec
from micrograd.compiler.function import Function
from micrograd.support.validation import require_attributes

PREFETCH = 2  # tasks in flight for each worker, so that it does not wait for the next
MOST_KEPT = 2  # tokens: one for training, and one for a function that is called between the steps

_kept: dict[str, tuple[Any, ...]] = {}
"""What came with tasks, by their tokens; the most recently used comes last."""
_sent: set[str] = set()
"""The tokens of what has been sent to a worker."""


Task = tuple[str, Callable[..., Any], tuple[Any, ...]]
"""The token of what the task needs, the function to call, and its arguments."""


def run_task(token: str, kept: Any, do: Any, arguments: Sequence[Any]) -> tuple[Any, Exception | None] | None:
    """On a worker: what `do(*kept, *arguments)` returns, and the error that it raised; None if what it keeps is missing
    here. Later tasks with this token may come without it.
    """
    if (kept := kept or _kept.get(token)) is None:
        return None
    _kept.pop(token, None)
    _kept[token] = kept
    for other in list(_kept)[:-MOST_KEPT]:
        _kept.pop(other, None)
    try:
        return do(*kept, *arguments), None
    except Exception as error:
        return None, error


class Workers:
    """The workers of an executor: `n`, or one per processor if it does not say how many. They keep what tasks need."""

    def __init__(self, executor: Any, *kept: Any) -> None:
        require_attributes("executor", executor, ["submit"], "an executor, such as a ProcessPoolExecutor")
        self.executor, self._kept = executor, kept
        counts = (getattr(executor, name, None) for name in ("_max_workers", "num_workers"))
        self.n: int = next(filter(None, counts), os.cpu_count() or 1)

    def results(self, tasks: Iterable[Task]) -> Iterator[Any]:
        """The results of the tasks, in order; a few are submitted ahead. Raises a task's error, or BrokenExecutor."""
        coming, submitted, ahead = iter(tasks), deque[tuple[Task, Any]](), PREFETCH * self.n
        try:
            while True:
                submitted += [(task, self._submit(task)) for task in islice(coming, ahead - len(submitted))]
                if not submitted:
                    return
                task, future = submitted[0]
                result, error = _asked(future.result) or _asked(self._submit(task, whole=True).result)
                submitted.popleft()
                if error:
                    raise error
                _sent.add(task[0])
                yield result
        finally:
            for _, future in submitted:
                future.cancel()  # if it has not begun

    def _submit(self, task: Task, whole: bool = False) -> Any:
        """Submit a task, whole or without what was sent before; return its future."""
        token, *call = task
        return _asked(self.executor.submit, run_task, token, self._kept if whole or token not in _sent else None, *call)


def _asked(call: Callable[..., Any], *arguments: Any) -> Any:
    """What a call of the executor or of a future returns. Raises BrokenExecutor if it fails, or was shut down."""
    try:
        return call(*arguments)
    except Exception as error:
        raise BrokenExecutor(f"the executor is broken: {type(error).__name__}: {error}".rstrip(".: ")) from error


@contextmanager
def _noted(name: str) -> Iterator[None]:
    """Note in an error which examples it is about."""
    try:
        yield
    except Exception as error:
        error.add_note(f"in {name}")
        raise


# Map and backward


def mapped(fast: Function, batches: Sequence[Any], executor: Any) -> Any:
    """The function's values for many examples; for chunks, an iterator over the values of each chunk."""
    found = _results(fast, "forward", batches, executor)
    if fast._are_chunks(batches):
        return found
    first, *others = found
    if isinstance(first, list):
        return [*chain(first, *others)]
    import numpy as np  # here, since only users of arrays need it

    return np.concatenate([first, *others])


def mean(fast: Function, batches: Sequence[Any], executor: Any) -> tuple[float, Sequence[float]]:
    """The mean of the function over all examples, and its gradient."""
    total, gradient, n = -0.0, array("d", bytes(8 * len(fast.leaves))), 0
    for loss, of_chunk, size in _results(fast, "backward", batches, executor):
        total, gradient, n = total + loss, array("d", map(add, gradient, of_chunk)), n + size
    if n == 0:
        raise ValueError("the iterator of chunks is exhausted: there are no examples")
    return total / n, [number / n for number in gradient]


def _results(fast: Function, kind: CallSpec, batches: Sequence[Any], executor: Any) -> Iterator[Any]:
    """What `computed` returns for each chunk, on the executor or here."""
    numbers = fast.precision.array(fast._numbers(), "parameter")
    workers = None if executor is None else Workers(executor, fast)
    chunks = _chunks(fast, kind, batches, workers)  # this may compile for other shapes, and change the token
    tasks = ((fast.token, computed, (kind, name, chunk, numbers)) for name, chunk in chunks)
    yield from workers.results(tasks) if workers else (do(fast, *arguments) for _, do, arguments in tasks)


def _chunks(fast: Function, kind: CallSpec, batches: Sequence[Any], workers: Any) -> Iterator[tuple[str, Batch]]:
    """Names and batches: the chunks, or if there are none, a part of the examples for each of the workers."""
    if fast._are_chunks(batches):
        for i, chunk in enumerate(batches[0]):
            of_one = isinstance(chunk, Batch) or len(fast._shapes) == 1
            with _noted(name := f"chunk {i}"):
                packed = fast._packed([chunk] if of_one else chunk, kind=kind)
            yield name, packed
    else:
        whole = fast._packed(batches, kind=kind)
        n = min(workers.n, whole.n) or 1
        for start, stop in pairwise(whole.n * k // n for k in range(n + 1)):
            yield f"the examples {start} to {stop - 1}; the error counts them from 0", whole.chosen(range(start, stop))


# What tasks do


def computed(fast: Function, kind: CallSpec, name: str, chunk: Batch, numbers: "array[float]") -> Any:
    """A chunk's values, in their shape; for "backward", their sum, its gradient and their number. Errors name it."""
    with _noted(name):
        if kind == "backward":
            return *fast._sums([chunk], numbers, 1.0), chunk.n
        return fast._unflattened(chunk.shapes, chunk.n, fast._values(chunk, numbers))


def shard(
    fast: Function, examples: Buckets, batch: Sequence[int], numbers: "array[float]", seed: float
) -> tuple[float, "array[float]"]:
    """The sum of the losses for a part of a training's batch, and its gradient, times `seed`."""
    return fast._sums(examples.parts(batch), memoryview(numbers), seed)


# Training


class Shards:
    """The examples of a training run on the workers of an executor: each worker computes a part of a batch."""

    def __init__(self, executor: Any, fast: Function, examples: Buckets) -> None:
        self._fast, self._n, self._token = fast, len(examples), os.urandom(16).hex()
        self._workers = Workers(executor, fast, examples)

    def sums(self, batch: Sequence[int], numbers: Sequence[float], seed: float) -> tuple[float, "array[float]"]:
        """The sum of the losses for a batch, and its gradient, times `seed`."""
        batch = batch if len(batch) < self._n else range(self._n)  # in the same order at each step
        numbers, parts = self._fast.precision.array(numbers, "parameter"), min(len(batch), self._workers.n)
        ends = [len(batch) * k // parts for k in range(parts + 1)]
        tasks = [(self._token, shard, (batch[start:stop], numbers, seed)) for start, stop in pairwise(ends)]
        losses, gradients = zip(*self._workers.results(tasks), strict=True)
        return sum(losses), reduce(lambda a, b: array(a.typecode, map(add, a, b)), gradients)
