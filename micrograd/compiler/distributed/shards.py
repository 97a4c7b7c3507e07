"""Training on examples in shards, which the workers that compute them cache.

A step is one task for each shard: it sends the parameters, and returns the sum of the losses with its gradient, which
are then added in the order of the shards (training/compiled.py).
"""

import math
import pickle
import threading
import uuid
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

from micrograd.compiler.dataset import Buckets, bucket_by_shape
from micrograd.compiler.distributed.pool import Pool
from micrograd.compiler.distributed.worker import Task, forget, pickled
from micrograd.compiler.dtype import Precision
from micrograd.compiler.function import Function
from micrograd.core.errors import shown
from micrograd.support import validation

Sums = tuple[float, "array[float]", tuple[int, list[Any]] | None]
"""The sum of losses, its gradient if that is finite, and the first example whose loss is not, if known."""


class RemoteExamples(Sequence[Any]):
    """The inputs, or the targets, of examples in other processes: their number, and the few that are known here."""

    def __init__(self, n: int, shard: int, first: Any) -> None:
        self._n = n
        self.known = {f"[0] of shard {shard}": first}

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, i: Any) -> Any:
        return [*self.known.values()][i]


class Shards(AbstractContextManager["Shards"]):
    """The examples of a training, in parts, on the executor or executors of a Pool.

    `shards` is the number of parts, or the functions by which workers load them; None for one for each worker. `n` is
    the number of examples, if it is known.
    """

    def __init__(self, executor: Any, shards: int | Sequence[Any] | None, n: int, precision: Precision) -> None:
        self._pool = Pool(executor)
        self._precision = precision
        parts = min(n, self._pool.size) if shards is None else shards
        loaders = [None] * parts if isinstance(parts, int) else parts
        self._names = [f"shard {k}, {shown(load, 200)}" if load else f"shard {k}" for k, load in enumerate(loaders)]
        self._sources: list[Any] = [partial(loaded, load, precision) for load in loaders]
        self._starts = [n * k // len(self) for k in range(len(self) + 1)]  # the last one is where the examples end
        self._examples: Buckets | None = None
        self._program = b""  # which is sent from the first step on
        self._token = uuid.uuid4().hex

    def __len__(self) -> int:
        return len(self._sources)

    def __exit__(self, kind: Any, error: Any, at: Any) -> None:
        forget(self._token)
        self._pool.forget(self._token, wait=error is None)
        self._pool.close(wait=error is None)

    def load(self, loss: Any) -> tuple[RemoteExamples, RemoteExamples]:
        """Have the workers load all shards; some may be empty. Returns the inputs and targets as far as known."""
        try:
            tasks = [self._task(describe_shards, k, _with_checks(loss)) for k in range(len(self))]
            shards = [answer.result for answer in self._pool.answers(tasks, len(tasks))]
            self._starts = [0, *accumulate(sum(n for n, _ in shapes) for shapes in shards)]
            self._sources = [partial(load, n=self._size(k)) for k, load in enumerate(self._sources)]
            if not self._starts[-1]:
                raise ValueError("all shards are empty: there is nothing to learn from")
            xs, ys = zip(*[arguments for shapes in shards for _, arguments in shapes], strict=True)
            self._examples = bucket_by_shape((xs, ys), self._precision)
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        first = bisect_right(self._starts, 0) - 1  # of the shards that have examples
        return RemoteExamples(self._starts[-1], first, xs[0]), RemoteExamples(self._starts[-1], first, ys[0])

    def ship(self, program: Function, whole: Callable[[], Buckets], on_compiled: Callable[[int, int], None]) -> Buckets:
        """Let workers compute with this program. Returns the examples known here: if none yet, those of `whole`."""
        if self._examples is None:
            self._examples = whole()
            self._sources = [self._examples.part(range(*ends)) for ends in pairwise(self._starts)]
        else:
            program._compile_for(self._examples, on_compiled)
        self._program = pickled(program)
        return self._examples

    def sums(
        self, parameters: "array[float]", batch: Sequence[int], size: int, on_values: bool
    ) -> Iterator[tuple[int, Sums]]:
        """The sums of each shard that has examples in the batch, in their order; of an empty batch, those of all.

        `size` is the number of examples in most batches; `on_values` says that the engine computes them.
        """
        n, share, parts = len(batch) or self._starts[-1], size / len(self), self._parts(batch)
        tasks = [
            self._task(sum_on_values if on_values else sum_losses, k, parameters, numbers, 1.0 / n, share)
            for k, numbers in parts
        ]
        for answer, (k, _) in zip(self._pool.answers(tasks, len(tasks)), parts, strict=True):
            yield k, answer.result

    def _parts(self, batch: Sequence[int]) -> list[tuple[int, Sequence[int]]]:
        """The shards that a batch has examples in, with their numbers there."""
        if len(batch) in (0, self._starts[-1]):
            return [(k, range(self._size(k))) for k in range(len(self)) if self._size(k)]
        numbers = [array("q") for _ in self._sources]
        for i in batch:
            k = bisect_right(self._starts, i) - 1
            numbers[k].append(i - self._starts[k])
        return [(k, mine) for k, mine in enumerate(numbers) if mine]

    def _size(self, k: int) -> int:
        return self._starts[k + 1] - self._starts[k]

    def _task(self, do: Callable[..., Any], k: int, *arguments: Any) -> Task:
        return Task(self._names[k], do, arguments, self._token, self._program, k, self._sources[k])


def _with_checks(loss: Any) -> Any:
    """A loss that says which targets it is for, if it can be sent."""
    try:
        return loss if hasattr(loss, "check_targets") and pickle.dumps(loss) else None
    except Exception:  # whatever pickling raises
        return None


# What tasks do with a shard


def loaded(load: Any, precision: Precision, n: int | None = None) -> Buckets:
    """Load a shard by the user's function: n examples, if that is known. Arrays of this precision are used in place."""
    pair = load()
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise TypeError(f"the loader returned {shown(pair)}: expected a pair (xs, ys) of inputs and targets")
    xs, ys = validation.examples(*pair)
    if n not in (None, len(xs)):
        raise ValueError(f"the loader returned {len(xs)} examples, but {n} when it was first called")
    return bucket_by_shape((xs, ys), precision) if len(xs) else Buckets([], [])  # a filter may leave none


def describe_shards(_: Any, examples: Buckets, loss: Any) -> list[tuple[int, list[Any]]]:
    """The number of examples of each shape, and the arguments of the first. A loss, if given, checks the targets."""
    if loss is not None:
        for number in range(len(examples)):
            loss.check_targets(examples.arguments(number)[1], f"ys[{number}]")
    return [(batch.n, examples.arguments(examples.bucket.index(i))) for i, batch in enumerate(examples.batches)]


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
            arguments = examples.arguments(number)
            loss = program._function(*arguments)
            if not math.isfinite(loss.data):
                return loss.data, program.precision.zeros(0), (number, arguments)
            total += loss.data
            (loss * seed).backward()
        return total, program.precision.array([parameter.grad for parameter in program.parameters]), None
