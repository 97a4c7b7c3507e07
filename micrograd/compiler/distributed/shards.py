"""Training on examples in shards: each worker keeps one.

A step is one task for each shard. The task takes the parameters, and returns the sum of the losses and its gradient;
training/compiled.py adds these in the order of the shards.
"""

import pickle
import uuid
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from micrograd.compiler.dataset import Buckets
from micrograd.compiler.distributed.workers import Task, Workers
from micrograd.compiler.function import Function


class Shards:
    """The examples of a training, in parts. The workers of an executor get them with the first step."""

    def __init__(self, executor: Any, program: Function, examples: Buckets) -> None:
        self._workers = Workers(executor)
        n, parts = len(examples), min(len(examples), self._workers.n)
        self._starts = [n * k // parts for k in range(parts + 1)]  # the last one is where the examples end
        self._examples = [examples.part(range(*ends)) for ends in pairwise(self._starts)]
        self._token, self._program = uuid.uuid4().hex, pickle.dumps(program)

    def sums(
        self, parameters: "array[float]", batch: Sequence[int], size: int
    ) -> Iterator[tuple[float, "array[float]"]]:
        """The sum of losses of each shard that has examples in the batch, in their order, and its share of the gradient
        of the mean loss; a sum is NaN if an operation may have failed. `size` is that of most batches.
        """
        share = size / len(self._examples)
        tasks = [
            Task(f"shard {k}", sum_losses, (parameters, numbers, 1.0 / len(batch), share), self._token, self._program,
                 k, self._examples[k])
            for k, numbers in self._parts(batch)
        ]  # fmt: skip
        return self._workers.results(tasks, len(tasks))

    def _parts(self, batch: Sequence[int]) -> list[tuple[int, Sequence[int]]]:
        """The shards that a batch has examples in, with their numbers there."""
        if len(batch) == self._starts[-1]:
            return [(k, range(stop - start)) for k, (start, stop) in enumerate(pairwise(self._starts))]
        numbers = [array("q") for _ in self._examples]
        for i in batch:
            k = bisect_right(self._starts, i) - 1
            numbers[k].append(i - self._starts[k])
        return [(k, mine) for k, mine in enumerate(numbers) if mine]


def sum_losses(
    program: Function, examples: Buckets, parameters: "array[float]", numbers: Sequence[int], seed: float, size: float
) -> tuple[float, "array[float]"]:
    """The sum of losses and its gradient, times `seed`; code is built for `size`, the size of most batches."""
    examples.size = size
    return program._sums(parameters, examples, numbers, seed)
