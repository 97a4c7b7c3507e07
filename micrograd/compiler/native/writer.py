"""The C of libraries, written in this process or, for functions of examples of many shapes, in another one."""

import functools
import hashlib
import logging
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, BinaryIO, Self

from micrograd import _version
from micrograd.collector import gc_paused
from micrograd.compiler import passes
from micrograd.compiler.dtype import Precision
from micrograd.compiler.frontend.graph import Graph, Kind
from micrograd.compiler.frontend.serialized import SerializedGraph
from micrograd.compiler.native.toolchain import PROCESS_GROUP, ObjectFile, Source
from micrograd.compiler.passes import Program, jam, program, roll, schedule, share
from micrograd.compiler.passes.share import Routines
from micrograd.compiler.targets import c
from micrograd.compiler.targets.c import LibrarySource, library_source

log = logging.getLogger("micrograd")

MUCH_TO_WRITE = 1 << 20  # operands of programs, about a second of work, for which a process pays off
COMMAND = "import sys; sys.path[:] = {path!r}; from {module} import serve; serve(sys.stdin.buffer, sys.stdout.buffer)"


def c_source(
    graph: Graph,
    kind: Kind,
    tile: int,
    precision: Precision,
    programs: dict[Kind, Program] | None = None,
    shared: Sequence[bool] = (),
    routines: Routines | None = None,
) -> LibrarySource:
    """The C for a kind of call. `programs` keeps the program for each kind, which is the same for all tiles."""
    programs = {} if programs is None else programs
    with gc_paused():
        if kind not in programs:
            programs[kind] = program(graph, *graph.ends(kind))
        return library_source(graph, programs[kind], tile=tile, precision=precision, shared=shared, routines=routines)


def writer_digest() -> str:
    """What identifies the C that this version of the compiler writes: its code, and the constants it goes by now."""
    numbers = [
        (name, x)
        for module in (c, passes, jam, roll, schedule, share)
        for name, x in vars(module).items()
        if name.isupper() and type(x) is int
    ]
    return f"{_code_digest()} {numbers}"


@functools.cache
def _code_digest() -> str:
    """A hash of the version and of the compiler's files, which may be in a zip, or compiled without their source."""
    code = [file.read_bytes() for file in _files(resources.files("micrograd.compiler"))]
    return hashlib.sha256(b"\0".join([_version.__version__.encode(), *code])).hexdigest()


def _files(directory: Traversable) -> Iterator[Traversable]:
    entries = sorted(directory.iterdir(), key=lambda entry: entry.name)
    yield from [entry for entry in entries if entry.name.endswith((".py", ".pyc", ".c", ".txt"))]
    for room in [entry for entry in entries if entry.is_dir() and entry.name != "__pycache__"]:
        yield from _files(room)


class Writer:
    """Writes the C of a function's libraries, for examples of several shapes, which share routines.

    Each routine is compiled once. If there is `much_to_write`, another process does it, while this one traces: Python
    runs one thread at a time. That starts with the first library that is not in the cache, and ends with the block; if
    it fails, the rest is written in this process.
    """

    def __init__(self, much_to_write: bool) -> None:
        self.has_process = much_to_write
        self._process: subprocess.Popen[bytes] | None = None
        self._start_over()

    def _start_over(self) -> None:
        """Know no routines."""
        self._lock, self._owner = threading.Lock(), os.getpid()
        self._routines = Routines(across_programs=True)
        self._objects: dict[int, ObjectFile] = {}  # that of each routine, by its index

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.has_process = False
        if self._process:
            self._process.terminate()
            with suppress(OSError), self._process:  # closes its pipes and waits for its end
                pass

    def source(
        self,
        stored: SerializedGraph,
        kind: Kind,
        tile: int,
        precision: Precision,
        programs: dict[Kind, Program],
        shared: Sequence[bool],
    ) -> Source:
        """The C for a kind of call, as `c_source` writes it, with the object files of the routines that it links."""
        if self._owner != os.getpid():  # a forked child has no thread that could release the lock, nor the process
            self.has_process = False
            self._start_over()
        with self._lock:
            if self.has_process:
                try:
                    job = writer_digest(), stored.pickled, kind, tile, precision, shared
                    return self._linked(tile, *self._asked(job))
                except (OSError, EOFError, pickle.PickleError) as error:
                    log.info("the process that writes C has failed (%r)", error)
                    self.has_process = False
                    self._objects.clear()  # it has numbered its routines in its own way
            routines = None if tile else self._routines
            written = c_source(stored.graph(), kind, tile, precision, programs, shared, routines)
            return self._linked(tile, written, len(self._routines))

    def _asked(self, job: tuple[Any, ...]) -> tuple[LibrarySource, int]:
        """What the process replies: the C, and the number of routines so far."""
        if self._process is None:
            command = [sys.executable, "-c", COMMAND.format(path=sys.path, module=__name__)]
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                process_group=PROCESS_GROUP,
            )
        assert self._process.stdin
        assert self._process.stdout
        pickle.dump(job, self._process.stdin)
        self._process.stdin.flush()
        reply: tuple[LibrarySource, int] = pickle.load(self._process.stdout)
        return reply

    def _linked(self, tile: int, written: LibrarySource, n_routines: int) -> Source:
        """The C with the object files of its routines; those that it adds become a new one."""
        if tile:
            return Source(written.library)
        if written.routines:
            added = ObjectFile(written.routines)
            self._objects |= dict.fromkeys(range(len(self._objects), n_routines), added)
        return Source(written.library, list(dict.fromkeys(map(self._objects.__getitem__, written.called))))


def serve(jobs: BinaryIO, replies: BinaryIO) -> None:
    """Write the C for each job, until there are no more."""
    routines = Routines(across_programs=True)
    with suppress(EOFError):
        while True:
            digest, graph, kind, tile, precision, shared = pickle.load(jobs)
            if digest != writer_digest():
                raise ValueError("the code has changed since the other process imported it")
            known = None if tile else routines
            written = c_source(pickle.loads(graph), kind, tile, precision, shared=shared, routines=known)
            pickle.dump((written, len(routines)), replies)
            replies.flush()
