"""Examples in parts: for training, and for `map` and `backward` on an executor or in chunks too large for memory.

Only a few chunks are in flight at a time: the next one is taken from its iterator when there is room. Results come in
the order of the chunks. In training, each worker keeps the examples, since any task may come to it, and a step is one
task for each shard of its batch. The task takes the parameters and the numbers of the examples, and returns the sum of
the losses and its gradient; these are added in the order of the shards.
"""

import math
import uuid
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from functools import reduce
from itertools import chain, pairwise
from operator import add
from typing import Any

from micrograd.compiler.dataset import Batch, Buckets
from micrograd.compiler.distributed.workers import Task, Workers
from micrograd.compiler.function import Function
from micrograd.core.errors import shown
from micrograd.support.arrays import concatenated

PREFETCH = 2  # chunks in flight for each worker, so that it does not wait for the next


def mapped(fast: Function, batches: Sequence[Any], executor: Any) -> Any:
    """The function's values for many examples; for chunks, an iterator over the values of each chunk."""
    found = _results(fast, values, batches, executor)
    if fast._are_chunks(batches):
        return found
    first, *others = found
    return [*chain(first, *others)] if isinstance(first, list) else concatenated([first, *others])


def mean(fast: Function, batches: Sequence[Any], executor: Any) -> tuple[float, Sequence[float]]:
    """The mean of the function over all examples, and its gradient."""
    losses, sizes = [], []
    total = array("d", bytes(8 * len(fast.leaves)))
    for loss, gradients, size in _results(fast, sums, batches, executor):
        losses.append(loss)
        sizes.append(size)
        total = array("d", map(add, total, gradients))
    n = sum(sizes)
    if n == 0:
        raise ValueError("the iterator of chunks is exhausted: there are no examples")
    return math.fsum(losses) / n, [gradient / n for gradient in total]


def _results(fast: Function, do: Any, batches: Sequence[Any], executor: Any) -> Iterator[Any]:
    """The results of `do` for each chunk, computed on the executor or here."""
    parameters = array("d", fast._numbers())
    if executor is None:
        for name, chunk in _chunks(fast, batches, 1):
            with _noted(name):
                result = do(fast, chunk, parameters)
            yield result
        return

    workers = Workers(executor)
    chunks = _chunks(fast, batches, workers.n)  # which may compile the function for other shapes, with another token
    tasks = (Task(name, do, (chunk, parameters), fast.token, (fast,)) for name, chunk in chunks)
    yield from workers.results(tasks, PREFETCH * workers.n)


def _chunks(fast: Function, batches: Sequence[Any], workers: int) -> Iterator[tuple[str, Batch]]:
    """The chunks, or if there are none, a part of the examples for each worker; with their names."""
    if fast._are_chunks(batches):
        for i, chunk in enumerate(batches[0]):
            of_one = isinstance(chunk, Batch) or len(fast._shapes) == 1
            if not of_one and not isinstance(chunk, tuple):
                raise TypeError(f"chunk {i} is {shown(chunk)}: expected a tuple with a batch for each argument")
            with _noted(name := f"chunk {i}"):
                packed = fast._packed([chunk] if of_one else chunk)
            yield name, packed
    else:
        whole = fast._packed(batches)
        n = min(workers, whole.n)
        for start, stop in pairwise(whole.n * k // n for k in range(n + 1)):
            yield f"the examples {start} to {stop - 1}; the error counts them from 0", whole.part(start, stop)


@contextmanager
def _noted(name: str) -> Iterator[None]:
    """Add a note to an error: the part of the examples that it is about."""
    try:
        yield
    except Exception as error:
        error.add_note(f"in {name}")
        raise


# What tasks do with a chunk


def values(fast: Function, chunk: Batch, parameters: "array[float]") -> Any:
    """The function's values for a chunk, in their shape."""
    numbers, *_ = fast._run("forward", chunk, parameters=parameters)
    return fast._unflattened(chunk.shapes, chunk.n, numbers)


def sums(fast: Function, chunk: Batch, parameters: "array[float]") -> tuple[float, "array[float]", int]:
    """The sum of the function's values for a chunk, its gradient, and the number of examples."""
    fast._compiled_for(chunk, "backward")
    losses, gradients, _ = fast._run("backward", chunk, parameters=parameters)
    return math.fsum(losses), array("d", gradients), chunk.n


# Training


class Shards:
    """The examples of a training run on the workers of an executor: each worker computes a part of a batch."""

    def __init__(self, executor: Any, program: Function, examples: Buckets) -> None:
        self._workers, self._token = Workers(executor), uuid.uuid4().hex
        examples = copy(examples)
        examples.size /= min(examples.size, self._workers.n)  # one worker's share of a step
        self._kept = program, examples

    def sums(
        self, examples: Buckets, parameters: "array[float]", batch: Sequence[int], seed: float
    ) -> tuple[float, "array[float]"]:
        """The sum of the losses for a batch, or NaN if an operation may have failed, and its gradient, times `seed`."""
        batch = batch if len(batch) < len(examples) else range(len(batch))  # in the same order at each step
        parts = min(len(batch), self._workers.n)
        tasks = [
            Task(f"shard {k}", Function._sums, (parameters, batch[start:stop], seed), self._token, self._kept)
            for k, (start, stop) in enumerate(pairwise(len(batch) * k // parts for k in range(parts + 1)))
        ]
        losses, gradients = zip(*self._workers.results(tasks, len(tasks)), strict=True)
        return sum(losses), reduce(lambda a, b: array(a.typecode, map(add, a, b)), gradients)
