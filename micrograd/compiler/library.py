"""The C backend: a graph as loaded libraries, one for each kind of call, whose examples several threads may share."""

import ctypes
import functools
import hashlib
import math
import struct
import threading
import weakref
from array import array
from collections.abc import Iterable, Sequence
from operator import or_
from pathlib import Path
from typing import Any, NamedTuple

from micrograd.compiler import c, roll
from micrograd.compiler.batch import Packed
from micrograd.compiler.c import library_source
from micrograd.compiler.check import failure
from micrograd.compiler.graph import Graph
from micrograd.compiler.precision import DOUBLE, REMEDY, Precision
from micrograd.compiler.stored import Stored, uncollected
from micrograd.compiler.toolchain import build, unload
from micrograd.interrupts import uninterrupted

FEW_EXAMPLES = 4  # up to which they are computed one by one
TILE_SIZES = (4, 2, 1)  # vectors of examples that are computed at once

POINTER = ctypes.c_void_p
RUN = ctypes.CFUNCTYPE(
    ctypes.c_int, *[POINTER] * 3, ctypes.c_double, *[POINTER] * 3, ctypes.c_long
)  # p, x, at, seed, g, y, work, n


class CBackend:
    """A graph as libraries in C, one for each kind of call, built when it is first made.

    Parameters
    ----------
    graph
        The traced function.
    n
        How many examples most calls will have: what these need is built at once.
    threads
        How many share the examples of a call.
    precision
        Of the numbers, in C and in the buffers.

    Raises
    ------
    CompilerError
        If there is no C compiler, or it fails.
    """

    def __init__(self, graph: Graph, n: float = math.inf, threads: int = 1, precision: Precision = DOUBLE) -> None:
        check_constants(graph, precision)
        self.stored = Stored(graph)
        self.threads = threads
        self.precision = precision
        self._libraries: dict[tuple[str, int], Library] = {}
        n = n if graph.sizes else 1  # without arguments, each call has one example
        self.library("forward" if graph.parameter_gradients is None else "backward", n)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_libraries": {}}  # which are built anew, or found in the cache

    def forward(self, parameters: Sequence[float], packed: Packed) -> Sequence[float]:
        """The outputs for each example, one after the other."""
        return self.library("forward", packed.n)(parameters, 0.0, packed)[0]

    def backward(
        self, parameters: Sequence[float], seed: float, packed: Packed
    ) -> tuple[Sequence[float], Sequence[float]]:
        """The output for each example, and the gradient of their sum times `seed` by each parameter."""
        return self.library("backward", packed.n)(parameters, seed, packed)

    def value_and_grad(self, parameters: Sequence[float], packed: Packed) -> Sequence[float]:
        """The output for the first example, and its gradient with respect to each number in it."""
        return self.library("value_and_grad", 1)(parameters, 1.0, packed)[0]

    def library(self, kind: str, n: float) -> "Library":
        """What computes calls of a kind with so many examples: a tile of them at once, or one by one."""
        tile = tile_size(n / self.threads, self.precision.lanes)
        if (kind, tile) not in self._libraries:
            self._libraries[kind, tile] = Library(self.stored, kind, tile, self.precision, self.threads)
        return self._libraries[kind, tile]


def check_constants(graph: Graph, precision: Precision) -> None:
    """Raise OverflowError if a constant of the function is too large."""
    for id, number in graph.trace.constants.items():
        if id < graph.forward_end:  # those of derivatives are there to tell numbers too large for them
            precision.check("a constant", number)


def tile_size(n: float, lanes: int = DOUBLE.lanes) -> int:
    """How many vectors of examples are computed at once, where most calls have n examples; 0 for one by one."""
    return 0 if n <= FEW_EXAMPLES else next(size for size in TILE_SIZES if size * lanes <= n or size == 1)


def written(stored: Stored, kind: str, tile: int, precision: Precision) -> str:
    """The C for a kind of call."""
    graph = stored.graph()
    results = [*graph.outputs, *((graph.argument_gradients or []) if kind == "value_and_grad" else [])]
    accumulated = (graph.parameter_gradients or []) if kind == "backward" else []
    with uncollected():
        return library_source(graph, results, accumulated, tile=tile, precision=precision)


def writer() -> str:
    """What tells this writer of C from every other: its code, and the numbers that rule it, as they are now."""
    numbers = [
        (name, x) for module in (c, roll) for name, x in vars(module).items() if name.isupper() and type(x) is int
    ]
    return f"{_code()} {numbers}"


@functools.cache
def _code() -> str:
    files = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


class Sizes(NamedTuple):
    """How many parameters a library has, and results for an example; the bytes that it works on beside these."""

    parameters: int
    results: int
    room: int


class Library:
    """The loaded library for a kind of call.

    Where C went on with an infinity or NaN, and Python would not have, the call is an error as it is in Python: the
    processor's floating-point flags tell that it may be so, and then the examples are gone through step by step.

    Attributes
    ----------
    sizes
        Of the buffers that it needs.
    function
        The address of what computes a call, for code in C.
    """

    def __init__(self, stored: Stored, kind: str, tile: int, precision: Precision, threads: int) -> None:
        self._stored, self._kind, self._precision = stored, kind, precision
        made_of = f"{stored.digest} {kind} {tile} {precision.name} {writer()}"
        library = build(lambda: written(stored, kind, tile, precision), made_of)
        n_results = stored.n_outputs + (sum(stored.sizes) if kind == "value_and_grad" else 0)
        self.sizes = Sizes(stored.n_parameters, n_results, ctypes.c_long.in_dll(library, "room").value)
        weakref.finalize(self, unload, library).atexit = False  # when threads may be at work in it
        self._run: Any = RUN(("run", library))
        self._shared = Shared(library, threads, self.sizes, precision) if threads > 1 else None
        self._run = self._shared.function if self._shared else self._run
        self.function = ctypes.cast(self._run, POINTER).value
        self._numbers = struct.Struct(precision.format(stored.n_parameters))
        self._local = threading.local()

    def __call__(
        self, parameters: Sequence[float], seed: float, packed: Packed
    ) -> tuple[Sequence[float], Sequence[float]]:
        """The results for each example, one after the other, and the gradients."""
        numbers = self._numbers.pack(*parameters)  # three times as fast as an array
        gradients = ctypes.create_string_buffer(len(numbers))
        results = self._precision.zeros(packed.n * self.sizes.results)
        flags = self.run(numbers, seed, packed, gradients, results)
        if flags:
            self._check(flags, parameters, packed, [*results, *self._numbers.unpack(gradients)])
        return results, self._numbers.unpack(gradients)

    def run(
        self,
        numbers: bytes | int,
        seed: float,
        packed: Packed,
        gradients: ctypes.Array[Any] | int,
        results: "array[float]",
        at: "array[int] | None" = None,
    ) -> int:
        """The generated function alone, on the numbers in these buffers: adds to gradients, overwrites results.

        It computes the examples that are at these places, or all.

        Odd if an operation may have failed: a division by 0, an operand outside the domain, and in double precision an
        overflow. In single precision that is 2 of the result: numbers too large for it go on as infinities.
        """
        work = getattr(self._local, "work", None)
        if work is None:  # each thread has its own
            work = self._local.work = ctypes.create_string_buffer(self.sizes.room)
        places, n = (None, packed.n) if at is None else (at.buffer_info()[0], len(at))
        flags = self._run(numbers, packed.pointers, places, seed, gradients, results.buffer_info()[0], work, n)
        self.check_interrupt()
        return int(flags)

    def _check(self, flags: int, parameters: Sequence[float], packed: Packed, numbers: Iterable[float]) -> None:
        """Raise what a call with these flags and results would have raised in Python, or is too large for C."""
        beyond = self._precision != DOUBLE and not all(map(math.isfinite, numbers))
        if flags & 1 or beyond:
            error = failure(self._stored.graph(), self._kind, parameters, packed)
            if error or beyond:
                raise error or OverflowError(f"a number on the way is beyond single precision: {REMEDY}")

    def check_interrupt(self) -> None:
        """Raise the Ctrl-C that came while threads were at work."""
        if self._shared:
            self._shared.check_interrupt()


class Shared:
    """What stands in for a library's `run`: threads, each with a part of the examples.

    The calls are side by side, since ctypes lets go of Python's lock. The gradients are added in the order of the
    parts, so no result depends on which is done first.
    """

    def __init__(self, library: ctypes.CDLL, threads: int, sizes: Sizes, precision: Precision) -> None:
        self._run, self._add = RUN(("run", library)), library.add
        self._add.argtypes, self._add.restype = [POINTER, POINTER, ctypes.c_long], None
        self._threads, self._sizes, self._precision = threads, sizes, precision
        self._interrupt: BaseException | None = None
        this = weakref.ref(self)  # lest the function keep what keeps it
        self.function = RUN(lambda *call: this()._called(*call))  # type: ignore[union-attr]

    def check_interrupt(self) -> None:
        """Raise the Ctrl-C that came meanwhile."""
        interrupt, self._interrupt = self._interrupt, None
        if interrupt:
            raise interrupt

    def _called(self, *call: Any) -> int:
        """A call from C, through which no exception passes."""
        try:
            with uninterrupted():  # else there would be threads at work in buffers that are gone
                return self._divided(*call)
        except BaseException as error:
            self._interrupt = error
            return 1

    def _divided(self, p: int, x: int, at: int | None, seed: float, g: int, y: int, work: int, n: int) -> int:
        precision, sizes = self._precision, self._sizes
        count = min(self._threads, max(1, n // precision.lanes))
        starts = [n * k // count for k in range(count + 1)]
        order = array("l", range(n)) if at is None else None
        first = order.buffer_info()[0] if order else at
        assert first is not None
        buffers = [(precision.zeros(sizes.parameters), array("b", bytes(sizes.room))) for _ in starts[2:]]
        flags = [0] * count

        def run(k: int, g: int, work: int) -> None:
            begin, size = starts[k], starts[k + 1] - starts[k]
            results = y + precision.size * begin * sizes.results
            flags[k] = self._run(p, x, first + array("l").itemsize * begin, seed, g, results, work, size)

        others = [
            threading.Thread(target=run, args=(k, *(buffer.buffer_info()[0] for buffer in pair)))
            for k, pair in enumerate(buffers, 1)
        ]
        try:
            for thread in others:
                thread.start()
            run(0, g, work)
        finally:
            for thread in others:
                if thread.ident:  # it was started
                    thread.join()
        for gradients, _ in buffers:
            self._add(g, gradients.buffer_info()[0], sizes.parameters)
        return functools.reduce(or_, flags)
