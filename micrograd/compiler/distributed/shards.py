"""Training on examples in shards: each worker keeps one.

A step is one task for each shard. The task takes the parameters, and returns the sum of the losses and its gradient;
these are added in the order of the shards.
"""

import uuid
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from functools import reduce
from itertools import pairwise
from operator import add
from typing import Any

from micrograd.compiler.dataset import Buckets
from micrograd.compiler.distributed.workers import Task, Workers
from micrograd.compiler.function import Function


class Shards:
    """The examples of a training run, in parts, whose losses and gradients the workers of an executor compute."""

    def __init__(self, executor: Any, program: Function, examples: Buckets) -> None:
        self._workers, self._function = Workers(executor), program
        n, parts = len(examples), min(len(examples), self._workers.n)
        self._starts = [n * k // parts for k in range(parts + 1)]  # the last one is where the examples end
        self._examples = [examples.part(range(*ends)) for ends in pairwise(self._starts)]
        self._token = uuid.uuid4().hex

    def sums(
        self, examples: Buckets, parameters: "array[float]", batch: Sequence[int], seed: float
    ) -> tuple[float, "array[float]"]:
        """The sum of the losses for a batch, or NaN if an operation may have failed, and its gradient, times `seed`.

        Each shard that has examples in the batch computes its share of both.
        """
        tasks = [
            Task(f"shard {k}", Function._sums, (parameters, numbers, seed), self._token,
                 {"program": self._function, f"shard {k}": self._examples[k]})
            for k, numbers in self._parts(batch)
        ]  # fmt: skip
        losses, parts = zip(*self._workers.results(tasks, len(tasks)), strict=True)
        return sum(losses), reduce(lambda a, b: array(a.typecode, map(add, a, b)), parts)

    def _parts(self, batch: Sequence[int]) -> list[tuple[int, Sequence[int]]]:
        """The shards that a batch has examples in, with their numbers there."""
        if len(batch) == self._starts[-1]:
            return [(k, range(stop - start)) for k, (start, stop) in enumerate(pairwise(self._starts))]
        numbers = [array("q") for _ in self._examples]
        for i in batch:
            k = bisect_right(self._starts, i) - 1
            numbers[k].append(i - self._starts[k])
        return [(k, mine) for k, mine in enumerate(numbers) if mine]
