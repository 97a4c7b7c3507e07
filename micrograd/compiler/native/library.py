"""A graph in C, as loaded libraries, one for each kind of call, in one thread or several."""

import ctypes
import hashlib
import math
import struct
import sys
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from micrograd._version import __version__
from micrograd.compiler.dataset import Batch, address
from micrograd.compiler.dtype import DOUBLE, REMEDY, Precision, named
from micrograd.compiler.frontend.graph import CallSpec, Graph
from micrograd.compiler.native.toolchain import build
from micrograd.compiler.options import Options
from micrograd.compiler.passes.pipeline import Program, program, program_for_many
from micrograd.compiler.targets.bytecode import bytecode, interpreter, n_operations
from micrograd.compiler.targets.c import TILES, library_source
from micrograd.core.errors import PACKAGE
from micrograd.support.collector import gc_paused

FEW_EXAMPLES = 4  # or fewer are computed one by one
A_THREAD = 1 << 25  # operands of additions and products, about a millisecond: a thread takes 20 us to begin and end
A_GRADIENT = 100  # operands that take as long as adding a parameter's gradient to that of another thread
A_TILE = 0.25  # vectors of examples that take as long as starting another tile takes in small networks
A_LINE, A_LIBRARY = 10_000, 10_000_000
"""How many operations, at 3 ns each, the interpreter carries out while a line of a trace is compiled (50 us in a GPT),
and in the time that any library takes, however short.
"""
A_ROW = 16  # operands in rows that take the interpreter as long as an operation
WRITING = 300  # operations that take it as long as writing the words of one: a loop of 5,000 rounds compiles sooner
SHORT = 100  # lines: a shorter program compiles as fast as the interpreter itself does the first time

POINTER = ctypes.c_void_p
RUN = ctypes.CFUNCTYPE(ctypes.c_int, POINTER)
"""The entry point of a library, which takes `CallArguments`."""

allocated = ctypes.pythonapi.PyByteArray_FromStringAndSize
"""Returns a bytearray, from None and a number of bytes: not cleared, since clearing 500 kB takes 8 us."""
allocated.argtypes, allocated.restype = (ctypes.c_char_p, ctypes.c_ssize_t), ctypes.py_object


class CallArguments(ctypes.Structure):
    """What generated code is called with; `call` in runtime.c documents the fields."""

    _fields_ = (
        *((name, POINTER) for name in ("p", "x", "at")),
        ("seed", ctypes.c_double),
        *((name, POINTER) for name in ("g", "y", "work", "program")),
        ("n", ctypes.c_int64),
        ("sum", ctypes.c_double),
        ("sets", ctypes.c_int64),
    )


class NativeCode:
    """A graph as libraries in C, one for each kind of call, built on first use.

    Raises OverflowError if a constant of the function is too large for the precision.
    """

    def __init__(self, graph: Graph, options: Options) -> None:
        self.graph, self.options, self.precision = graph, options, named(options.backend.precision)
        check_constants(graph, self.precision)
        self._programs: dict[tuple[CallSpec, bool], Program] = {}  # by whether many examples are computed at once
        self._libraries: dict[tuple[CallSpec, int], Any] = {}  # by the size of a tile; or functions that build them
        self.pack_into = struct.Struct(f"={graph.n_parameters}{self.precision.code}").pack_into  # parameters

    def call(
        self, kind: CallSpec, packed: Batch, results: Any, gradients: Any = None, seed: float = 1.0
    ) -> "NativeCall":
        """A call like that of `PythonCode.call`, on buffers in the precision."""
        return NativeCall(self, self.library(kind, packed.typical or packed.n), packed, results, gradients, seed)

    def library(self, kind: CallSpec, n: float, uses: float = math.inf, *, early: bool = False) -> Any:
        """The library for a kind of call with n examples, which it computes in tiles or one by one. For only a few
        `uses` by all these calls, it may be the interpreter. `early` says that it need not be loaded yet. The cache
        finds a library by its graph: the passes, which often take longer than tracing, are needed only once.

        Raises CompilerError if it cannot be built.
        """
        graph, precision = self.graph, self.precision
        threads = self.options.backend.threads if isinstance(kind, str) else 1  # these may share the examples of a call
        least = self._least(kind) if threads > 1 else 1  # then operands need not be counted
        n = n if threads == 1 else n / max(1, int(min(threads, n / least)))
        # In the last tile, lanes may share an example, and the seed of its gradient.
        tile = tile_size(n, precision.lanes) if kind != "backward" or graph.scales_with_seed else 0
        if (kind, tile) not in self._libraries:
            if precision == DOUBLE and should_interpret(graph, kind, uses):
                self._libraries[kind, tile] = interpreted(graph, kind)
            else:
                text = partial(self._text, kind, tile=tile, threads=threads, least=least)
                key = repr((own_code(), graph, kind, tile, precision, threads, least))
                self._libraries[kind, tile] = partial(loaded, build(text, key, early=early))
        found = self._libraries[kind, tile]
        if not (early or isinstance(found, Library)):  # of what was found: another thread may have loaded it since
            found = self._libraries[kind, tile] = found()
        return found

    @gc_paused()
    def _text(self, kind: CallSpec, tile: int, **options: int) -> str:
        """A library in C. Libraries of several tile sizes share a program: its passes take longer than printing it."""
        key = kind, tile > 0
        if key not in self._programs:
            self._programs[key] = (program_for_many if tile else program)(self.graph, self.graph.ends(kind))
        return library_source(self._programs[key], self.precision, tile=tile, **options)

    def _least(self, kind: CallSpec) -> int:
        """How many examples keep a thread busy for long enough."""
        work = A_THREAD + A_GRADIENT * self.graph.n_parameters
        return max(self.precision.lanes, math.ceil(work / max(1, self.graph.n_operands[kind != "forward"])))


@cache
def own_code() -> str:
    """A hash of all that turns a graph into C: this package's code, and the version of Python, whose errors C notes."""
    files = sorted(file for file in Path(PACKAGE).rglob("*.*") if file.suffix in (".py", ".c", ".txt"))
    versions = f"{__version__} {sys.version}".encode()
    return hashlib.sha256(b"".join([versions, *[file.read_bytes() for file in files]])).hexdigest()


def check_constants(graph: Graph, precision: Precision) -> None:
    """Raise OverflowError if a constant of the function is too large."""
    for id, number in graph.trace.constants.items():
        if id < graph.forward_end:  # derivatives use constants to recognize numbers too large for them
            precision.check("a constant", number)


@cache
def tile_size(n: float, lanes: int = DOUBLE.lanes) -> int:
    """The vectors of examples in a tile, if most calls have n examples; 0 to compute them one by one.

    Unused lanes of the last tile compute, too. For 200 examples, a network 64-100-10 takes 88 us with four vectors in a
    tile (24 lanes are unused), and 81 us with two (8 are unused).
    """
    return 0 if n <= FEW_EXAMPLES else min(TILES, key=lambda size: math.ceil(n / (size * lanes)) * (size + A_TILE))


class Library(NamedTuple):
    """The function of a library, the bytes that a call needs for temporaries, and for the interpreter, its program."""

    run: Any
    room: int
    program: bytearray | None = None


def loaded(wait: Callable[[], ctypes.CDLL]) -> Library:
    """Wait until a library is built, and return what calls need of it."""
    library = wait()
    return Library(RUN(("run", library)), ctypes.c_int64.in_dll(library, "room").value)


def should_interpret(graph: Graph, kind: CallSpec, uses: float) -> bool:
    """Whether the interpreter can run a program, and finishes this many uses before a library would be built."""
    trace, n = graph.trace, len(graph.trace.ops) - len(graph.trace.leaves)
    ends_early = any(loop.over >= 0 for loop in trace.loops.values())  # interpreted, it goes on, and a step may fail
    if uses == math.inf or n < SHORT or ends_early:
        return False
    work = n + graph.n_operands[kind != "forward"] // A_ROW + sum(n_operations(trace, loop) for loop in trace.loops)
    return (uses + WRITING) * work <= A_LINE * n + A_LIBRARY


def interpreted(graph: Graph, kind: CallSpec) -> Callable[[], Library]:
    """A function that returns the interpreter with its program for a kind of call."""
    wait, (program, n) = _interpreter(), bytecode(graph, kind)
    return lambda: Library(RUN(("run", wait())), n * ctypes.sizeof(ctypes.c_double), program)


@cache
def _interpreter() -> Callable[[], ctypes.CDLL]:
    """A function that waits for the interpreter, which is built while Python goes on."""
    return build(interpreter, f"interpreter {own_code()}", early=True)


class NativeCall:
    """A call of a generated function, prepared once and repeated, by one thread at a time.

    It adds to the gradients, if there are any, and overwrites the results.
    """

    def __init__(
        self, code: NativeCode, library: Library, packed: Batch, results: Any, gradients: Any, seed: float
    ) -> None:
        self.code, self.library, work = code, library, allocated(None, library.room)
        self._used = packed, results, gradients, work
        self._in_place: Any = ()  # the parameters, if C reads them where they are: a buffer, or () if there are none
        self._fill: Any = None  # otherwise, it packs them into the call's own buffer, and `_in_place` is None
        g = None if gradients is None else address(gradients) or address(results)  # NULL if it is empty
        program = library.program and address(library.program)
        self._arguments = CallArguments(
            None, ctypes.addressof(packed.pointers), None, seed, g, address(results), address(work), program, packed.n
        )
        self._go: Callable[[], int] = partial(library.run, ctypes.addressof(self._arguments))

    @property
    def addresses(self) -> tuple[int | None, int]:
        """Where its function and its arguments are, for code in C that makes the call."""
        return ctypes.cast(self.library.run, POINTER).value, ctypes.addressof(self._arguments)

    def run(self, parameters: Sequence[float]) -> int:
        """Make the call. Where Python raises an error, C goes on with an infinity or NaN, and then this returns 1.

        Raises OverflowError if a result in single precision is then infinite or NaN.
        """
        if parameters is not self._in_place:
            if type(parameters) is memoryview and parameters.format == self.code.precision.code:
                self._arguments.p, self._in_place = address(parameters), parameters
            else:
                if self._in_place is not None:
                    own = self.code.precision.zeros(self.code.graph.n_parameters)
                    self._fill = partial(self.code.pack_into, own, 0)
                    self._arguments.p, self._in_place = address(own), None
                self._fill(*parameters)
        if (failed := self._go()) and self.code.precision != DOUBLE and not self.code.graph.trace.ieee:
            _, results, gradients, _ = self._used
            if not all(map(math.isfinite, chain(results, gradients or ()))):
                raise OverflowError(f"an intermediate number is beyond the range of single precision: {REMEDY}")
        return failed & 1

    @property
    def total(self) -> float:
        """The sum of the results, if there are gradients."""
        return float(self._arguments.sum)
