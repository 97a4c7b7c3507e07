"""`map` and `backward` on an executor, and of more examples than there is room for: chunk by chunk, each computed once.

A chunk is what the call takes without chunks. A few of them are under way at a time, so an iterator is asked for the
next one only when there is room; results come in the order of the chunks.
"""

import math
import uuid
import weakref
from array import array
from collections.abc import Iterator, Sequence
from itertools import chain, count, pairwise
from operator import add
from typing import Any

from micrograd.compiler import Compiled
from micrograd.compiler.batch import Packed
from micrograd.compiler.executors.pool import Pool, Task
from micrograd.compiler.executors.worker import carry_out, packed

AHEAD = 2  # chunks for each worker, lest it wait for the next

_programs: "weakref.WeakKeyDictionary[Compiled, Program]" = weakref.WeakKeyDictionary()
_serials = count()


class Program:
    """A compiled function as it is sent, and what workers keep it by; for the shapes that it knows by now."""

    def __init__(self, fast: Compiled) -> None:
        self.shapes = len(fast._backends)
        self.token, self.sent = uuid.uuid4().hex, packed(fast)


def mapped(fast: Compiled, batches: Sequence[Any], executor: Any) -> Any:
    """The function's values for many examples; of chunks, an iterator of a list for each."""
    lists = (fast._listed(*result) for result in _results(fast, values, batches, executor))
    return lists if fast._are_chunks(batches) else list(chain.from_iterable(lists))


def mean(fast: Compiled, batches: Sequence[Any], executor: Any) -> tuple[float, Sequence[float]]:
    """The mean of the function over all examples, and its gradient."""
    losses, sizes = [], []
    total = array("d", bytes(8 * len(fast.parameters)))
    for loss, gradients, size in _results(fast, sums, batches, executor):
        losses.append(loss)
        sizes.append(size)
        total = array("d", map(add, total, gradients))
    n = sum(sizes)
    if n == 0:
        raise ValueError("the iterator of chunks is at its end: there are no examples")
    return math.fsum(losses) / n, [gradient / n for gradient in total]


def _results(fast: Compiled, do: Any, batches: Sequence[Any], executor: Any) -> Iterator[Any]:
    """What the function `do` makes of each chunk, on the executor or here."""
    parameters = array("d", fast._numbers())
    if executor is None:
        for _, chunk in _chunks(fast, batches, 1):
            yield do(fast, chunk, parameters)
        return

    def tasks() -> Iterator[Task]:
        for name, chunk in _chunks(fast, batches, pool.size):
            program = _programs.get(fast)
            if program is None or program.shapes != len(fast._backends):
                program = _programs[fast] = Program(fast)
            else:  # the workers may have it from before
                for place in pool.places:
                    place.sent.add((program.token, None))
            yield Task(
                name, do, program.token, None, program.sent, chunk, fast.precision, (parameters,), next(_serials)
            )

    with Pool(executor, carry_out) as pool:
        for answer in pool.answers(tasks(), AHEAD * pool.size):
            yield answer.result


def _chunks(fast: Compiled, batches: Sequence[Any], workers: int) -> Iterator[tuple[str, Packed]]:
    """The chunks that came, or a part of the examples for each worker; with their names."""
    if fast._are_chunks(batches):
        for i, chunk in enumerate(batches[0]):
            of_one = isinstance(chunk, Packed) or len(fast._shapes) == 1
            if not of_one and not isinstance(chunk, tuple):
                raise TypeError(f"chunk {i} is {chunk!r:.80}: expected a tuple with a batch for each argument")
            yield f"chunk {i}", fast._packed([chunk] if of_one else chunk)
    else:
        whole = fast._packed(batches)
        n = min(workers, whole.n)
        for start, stop in pairwise(whole.n * k // n for k in range(n + 1)):
            yield f"the examples {start} to {stop - 1}", whole.part(start, stop)


# What a worker does with a chunk


def values(fast: Compiled, chunk: Packed, parameters: "array[float]") -> tuple[Any, int, "array[float]"]:
    """The function's values for the examples of a chunk, flat, and what shape they are to have."""
    return chunk.shapes, chunk.n, array("d", fast._run("forward", chunk, parameters=parameters))


def sums(fast: Compiled, chunk: Packed, parameters: "array[float]") -> tuple[float, "array[float]", int]:
    """The sum of the function's values for a chunk, its gradient, and how many examples there are."""
    fast._check_differentiable(chunk)
    losses, gradients = fast._run("backward", chunk, 1.0, parameters=parameters)
    return math.fsum(losses), array("d", gradients), chunk.n
