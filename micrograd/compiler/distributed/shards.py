"""Training on examples in shards, one for each worker, which caches it.

A step is one task for each shard: it sends the parameters, and returns the sum of the losses with its gradient, which
are then added in the order of the shards (training/compiled.py).
"""

import math
import threading
import uuid
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import pairwise
from typing import Any

from micrograd.compiler.dataset import Buckets
from micrograd.compiler.distributed.pool import Pool
from micrograd.compiler.distributed.worker import Task, forget, pickled
from micrograd.compiler.function import Function

Sums = tuple[float, "array[float]", int | None]
"""The sum of losses, its gradient if that is finite, and which example's loss is not, if known."""


class Shards(AbstractContextManager["Shards"]):
    """The examples of a training, in parts, on the executor or executors of a Pool."""

    def __init__(self, executor: Any) -> None:
        self._pool = Pool(executor)
        self._token = uuid.uuid4().hex

    def __exit__(self, kind: Any, error: Any, at: Any) -> None:
        forget(self._token)
        self._pool.forget(self._token, wait=error is None)
        self._pool.close(wait=error is None)

    def ship(self, program: Function, examples: Buckets) -> None:
        """Let workers compute with this program, which they are sent with the first step, and so are the examples."""
        n, parts = len(examples), min(len(examples), self._pool.size)
        self._starts = [n * k // parts for k in range(parts + 1)]  # the last one is where the examples end
        self._examples = [examples.part(range(*ends)) for ends in pairwise(self._starts)]
        self._program = pickled(program)

    def sums(self, parameters: "array[float]", batch: Sequence[int], size: int, on_values: bool) -> Iterator[Sums]:
        """The sums of each shard that has examples in the batch, in their order.

        `size` is the number of examples in most batches; `on_values` says that the engine computes them.
        """
        do, share = sum_on_values if on_values else sum_losses, size / len(self._examples)
        parts = self._parts(batch)
        tasks = [
            Task(f"shard {k}", do, (parameters, numbers, 1.0 / len(batch), share), self._token, self._program, k,
                 self._examples[k])
            for k, numbers in parts
        ]  # fmt: skip
        for answer, (k, _) in zip(self._pool.answers(tasks, len(tasks)), parts, strict=True):
            loss, gradients, failed = answer.result
            yield loss, gradients, None if failed is None else self._starts[k] + failed

    def _parts(self, batch: Sequence[int]) -> list[tuple[int, Sequence[int]]]:
        """The shards that a batch has examples in, with their numbers there."""
        if len(batch) == self._starts[-1]:
            return [(k, range(stop - start)) for k, (start, stop) in enumerate(pairwise(self._starts))]
        numbers = [array("q") for _ in self._examples]
        for i in batch:
            k = bisect_right(self._starts, i) - 1
            numbers[k].append(i - self._starts[k])
        return [(k, mine) for k, mine in enumerate(numbers) if mine]


# What tasks do with a shard


def sum_losses(
    program: Function, examples: Buckets, parameters: "array[float]", numbers: Sequence[int], seed: float, size: float
) -> Sums:
    """The sum of losses and its gradient, times `seed`; code is built for batches of `size`, which most steps have."""
    examples.size = size
    total, gradients = program._sums(parameters, examples, numbers, seed)
    return total, gradients if math.isfinite(total) else program.precision.zeros(0), None


_turn = threading.Lock()  # for the Values of a program, which threads share


def sum_on_values(
    program: Function, examples: Buckets, parameters: "array[float]", numbers: Sequence[int], seed: float, _: float
) -> Sums:
    """The same sums as those of `sum_losses`, by the engine. Raises what the engine raises."""
    with _turn:
        for parameter, number in zip(program.parameters, parameters, strict=True):
            parameter.data, parameter.grad = number, 0.0
        total = 0.0
        for number in numbers:
            loss = program._function(*examples.arguments(number))
            if not math.isfinite(loss.data):
                return loss.data, program.precision.zeros(0), number
            total += loss.data
            (loss * seed).backward()
        return total, program.precision.array([parameter.grad for parameter in program.parameters]), None
