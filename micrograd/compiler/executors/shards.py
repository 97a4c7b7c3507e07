"""Training on examples that lie in shards, each kept by whatever worker has computed it.

A step is a task for each shard: the parameters go there, and the sum of the losses comes back with its gradient. These
are added up in the order of the shards, in a buffer that the loop of a training in one process (training.py) takes them
from: all else is as it is there. A step of which an operation may have failed is asked for again on Values, which raise
what they raise, or are whole after all.
"""

import ctypes
import pickle
import uuid
import weakref
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, count, pairwise
from operator import add
from typing import Any, Self

from micrograd.compiler import Compiled
from micrograd.compiler.batch import Examples, Packed, pool
from micrograd.compiler.executors.pool import Pool, Task
from micrograd.compiler.executors.worker import Sums, carry_out, forget, packed, survey
from micrograd.compiler.library import Sizes
from micrograd.compiler.precision import Precision
from micrograd.compiler.toolchain import build, unload

Loader = Callable[[], tuple[Any, Any]]

SUMS = """void add(double *to, const double *from, long n)
{
    for (long i = 0; i < n; i++)
        to[i] += from[i];
}

/* Stands where a program does: the mean loss is x[0], the gradient x[1], and how long that is x[2]. */
int run(const double *p, const double *const *x, const long *at, wide seed,
        double *g, double *y, double *work, long n)
{
    (void)p; (void)at; (void)seed; (void)work; (void)n;
    add(g, x[1], (long)x[2][0]);
    y[0] = x[0][0];
    return 0;
}
"""


class Unseen(Sequence[Any]):
    """The inputs, or the targets, of examples that lie elsewhere: how many there are, and some of them."""

    def __init__(self, n: int, first: Any) -> None:
        self._n = n
        self.known = {"[0] of shard 0": first}

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, i: Any) -> Any:
        return [*self.known.values()][i]


class Shards:
    """The examples of a training, in parts.

    Parameters
    ----------
    executor
        What has the workers: an Executor, a function that makes one, or a list of these.
    shards
        How many parts there are, or the functions that load them; None for a part a worker.
    n
        How many examples there are, where that is known.
    precision
        Of their numbers.

    Attributes
    ----------
    are_loaded
        Whether the examples are loaded where they are used.
    """

    def __init__(self, executor: Any, shards: int | Sequence[Loader] | None, n: int, precision: Precision) -> None:
        self._pool = Pool(executor, carry_out)
        self._precision = precision
        parts = min(n, self._pool.size) if shards is None else shards
        self.are_loaded = not isinstance(parts, int)
        self._sources: list[Any] = [None] * parts if isinstance(parts, int) else list(parts)
        self._starts = [n * k // len(self) for k in range(len(self) + 1)]  # of each, and where the last one ends
        self._examples: Examples | None = None
        self._program: bytes | None = None
        self._token, self._serials = uuid.uuid4().hex, count()

    def __len__(self) -> int:
        return len(self._sources)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, error: Any, at: Any) -> None:
        forget(self._token)
        self._pool.tell(forget, self._token, wait=error is None)
        self._pool.close(wait=error is None)

    def load(self, loss: Any) -> tuple[Unseen, Unseen]:
        """Have all shards loaded, and their targets checked. What is known of inputs and targets then."""
        try:
            tasks = [self._task(survey, k, _with_checks(loss)) for k in range(len(self))]
            surveys = [answer.result for answer in self._pool.answers(tasks, len(tasks))]
            self._starts = [0, *accumulate(sum(n for n, _ in shapes) for shapes in surveys)]
            xs, ys = zip(*[arguments for shapes in surveys for _, arguments in shapes], strict=True)
            self._examples = pool((xs, ys), (), self._precision)
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return Unseen(self._starts[-1], xs[0]), Unseen(self._starts[-1], ys[0])

    def gathered(
        self, program: Compiled, whole: Callable[[], Examples], told: Callable[[int, int], None]
    ) -> tuple["Gathered", Examples]:
        """The program for a training on these shards, and the examples that are known here, of every shape.

        `whole` gives all examples, compiled for, where they are not in shards yet.
        """
        if self._examples is None:
            self._examples = whole()
            self._sources = [self._examples.part(range(*ends)) for ends in pairwise(self._starts)]
        else:
            program._compile_for(self._examples, told)
        self._program = packed(program)
        return Gathered(program), self._examples

    def sums(
        self, do: Callable[..., Sums], parameters: "array[float]", batch: Sequence[int], size: int
    ) -> Iterator[tuple[int, Sums]]:
        """The sums of each shard that has examples in the batch, in their order.

        Parameters
        ----------
        do
            What computes them.
        batch
            The numbers of its examples; none for all.
        size
            The number of examples in most batches.
        """
        n = len(batch) or self._starts[-1]
        parts = self._parts(batch)
        share = size / len(self)
        tasks = [self._task(do, k, parameters, numbers, 1.0 / n, self._size(k), share) for k, numbers in parts]
        taken = []
        for answer, (k, numbers) in zip(self._pool.answers(tasks, len(tasks)), parts, strict=True):
            taken.append((answer.worker, answer.seconds, self._size(k) if numbers is None else len(numbers)))
            yield k, answer.result
        self._pool.watch(taken)

    def _parts(self, batch: Sequence[int]) -> list[tuple[int, "array[int] | None"]]:
        """The shards that a batch has examples in, and the numbers of these there; None for all of them."""
        if len(batch) in (0, self._starts[-1]):
            return [(k, None) for k in range(len(self))]
        numbers = [array("l") for _ in self._sources]
        for i in batch:
            k = bisect_right(self._starts, i) - 1
            numbers[k].append(i - self._starts[k])
        return [(k, mine) for k, mine in enumerate(numbers) if mine]

    def _size(self, k: int) -> int:
        return self._starts[k + 1] - self._starts[k]

    def _task(self, do: Callable[..., Any], k: int, *arguments: Any) -> Task:
        source = self._sources[k]
        name = f"shard {k}, {source!r:.200}" if self.are_loaded else f"shard {k}"
        return Task(name, do, self._token, k, self._program, source, self._precision, arguments, next(self._serials))


class Gathered(Compiled):
    """A compiled function whose losses and gradients come from shards: what a training takes its steps with.

    Attributes
    ----------
    examples
        What stands for a batch: one example, which is its loss and gradient.
    total
        The latest gradient.
    """

    sizes = Sizes(0, 0, 0)  # as of a library

    def __init__(self, program: Compiled) -> None:
        vars(self).update(vars(program))
        n = len(self.parameters)
        self._loss, self.total = self.precision.zeros(1), self.precision.zeros(n)
        buffers = [self._loss, self.total, self.precision.array([n])]
        pack = Packed(((1,), (n,), (1,)), 1, buffers, self.precision)
        self.examples = Examples([pack], [range(1)])
        self._add: Any = None
        if program._is_in_c():
            library = build(self.precision.text(SUMS))
            weakref.finalize(self, unload, library).atexit = False
            self._add, self.function = library.add, ctypes.cast(library.run, ctypes.c_void_p).value
            self._add.argtypes, self._add.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long], None

    def gather(self, sums: Iterator[tuple[int, Sums]], n: int) -> tuple[float, tuple[int, int, list[Any]] | None]:
        """Add up what the shards come to. Returns the mean loss of the n examples, and the first that has none."""
        losses = []
        memoryview(self.total)[:] = memoryview(self.precision.zeros(len(self.total)))
        for k, (loss, gradients, failed) in sums:
            losses.append(loss)
            if failed:
                return loss, (k, *failed)
            if gradients:
                self._add_up(gradients)
        self._loss[0] = sum(losses) / n
        return self._loss[0], None

    def _add_up(self, gradients: "array[float]") -> None:
        if self._add:
            self._add(self.total.buffer_info()[0], gradients.buffer_info()[0], len(gradients))
        else:
            memoryview(self.total)[:] = self.precision.array(map(add, self.total, gradients))

    # What a training takes its steps with

    def _in_c(self, examples: Examples) -> bool:
        return bool(self._add)

    def _library(self, pack: Packed, examples: Examples) -> Any:
        return self

    def check_interrupt(self) -> None:
        """Raise nothing: no thread is at work."""

    def _in_python(self, pack: Packed) -> Any:
        return self

    def gradients(
        self, parameters: Any, gradients: Sequence[float], seed: float, rows: Any
    ) -> tuple[Sequence[float], Sequence[float]]:
        """The loss, and the gradients with the total added."""
        return self._loss, list(map(add, gradients, self.total))


def _with_checks(loss: Any) -> Any:
    """A loss that says which targets it is for, if it can be sent."""
    try:
        return loss if hasattr(loss, "check_targets") and pickle.dumps(loss) else None
    except Exception:  # whatever pickling raises
        return None
