"""Writes the C of libraries: in this process or, if there is much to write for several shapes, in another."""

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
from micrograd.compiler import passes
from micrograd.compiler.dtype import Precision
from micrograd.compiler.frontend.graph import CallSpec, Graph, SerializedGraph
from micrograd.compiler.native.background import raise_if_abandoned
from micrograd.compiler.native.toolchain import PROCESS_GROUP, ObjectFile, Source
from micrograd.compiler.passes import Program, jam, program, roll, schedule, share
from micrograd.compiler.passes.share import Routines
from micrograd.compiler.targets import c
from micrograd.compiler.targets.c import LibrarySource, library_source
from micrograd.support.collector import gc_paused

log = logging.getLogger("micrograd")

MUCH_TO_WRITE = 1 << 20  # operands: above this, about a second of writing, starting a process pays off
IN_WRITER = "MICROGRAD_IN_WRITER"  # set in the process, lest a program that embeds Python starts itself without end
BEFORE_REPLY = b"\nthe C:\n"
SERVER_CODE = (
    "import sys; sys.path[:] = {path!r}; from {module} import serve; serve(sys.stdin.buffer, sys.stdout.buffer)"
)


def c_source(
    graph: Graph,
    kind: CallSpec,
    tile: int,
    precision: Precision,
    programs: dict[CallSpec, Program] | None = None,
    shared: Sequence[bool] = (),
    routines: Routines | None = None,
) -> LibrarySource:
    """The C for a kind of call. `programs` caches the program of each kind, which all tiles share."""
    programs = {} if programs is None else programs
    with gc_paused():
        if kind not in programs:
            programs[kind] = program(graph, *graph.ends(kind))
        return library_source(graph, programs[kind], tile=tile, precision=precision, shared=shared, routines=routines)


def writer_digest() -> str:
    """Identifies the C that this compiler writes: a hash of its code, and its integer constants, which tests change."""
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
    for subdirectory in [entry for entry in entries if entry.is_dir() and entry.name != "__pycache__"]:
        yield from _files(subdirectory)


class LibraryWriter:
    """Writes the C of a function's libraries, one for each shape of examples. Those without tiles share routines.

    With `uses_process`, another process writes the C while this one traces, since Python runs one thread at a time. The
    process starts with the first library that is not in the cache, and ends when the `with` block does. If it fails,
    this process writes the rest.
    """

    def __init__(self, *, uses_process: bool) -> None:
        is_python = not getattr(sys, "frozen", False) and IN_WRITER not in os.environ
        self.uses_process, self._is_open = uses_process and is_python, True
        self._process: subprocess.Popen[bytes] | None = None
        self._starter = 0  # the process that has started it
        self._reset()

    def _reset(self) -> None:
        """Forget all routines and object files, and take a new lock."""
        self._lock, self._owner = threading.Lock(), os.getpid()
        self._routines = Routines(across_programs=True)
        self._objects: dict[int, ObjectFile] = {}  # the object file of each routine, by the routine's index

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.uses_process = self._is_open = False
        if self._process and self._starter == os.getpid():  # a forked child must leave it to its parent
            self._process.kill()
            with suppress(OSError), self._process:  # `with` closes the pipes and waits for the process to end
                pass

    def source(
        self,
        stored: SerializedGraph,
        kind: CallSpec,
        tile: int,
        precision: Precision,
        programs: dict[CallSpec, Program],
        shared: Sequence[bool],
    ) -> Source:
        """The C for a kind of call, as `c_source` writes it, and the object files to link.

        The other process does not use `programs`.
        """
        # A forked child lacks the thread that may hold the lock, and must not use its parent's process.
        if self._owner != os.getpid():
            self.uses_process = False
            self._reset()
        with self._lock:
            if self.uses_process:
                try:
                    job = writer_digest(), stored.pickled, kind, tile, precision, shared
                    return self._with_objects(*self._ask(job))
                except Exception as error:  # it has ended: what is no complete reply may raise anything
                    log.info("the process that writes C has ended (%r): this process writes the rest", error)
                    self.uses_process = False
            raise_if_abandoned(self._is_open)  # after an error or a Ctrl-C, no thread goes on
            if not self._routines:
                self._objects.clear()  # their indices are those of the process's routines, not of `_routines`
            shared_routines = None if tile else self._routines
            written = c_source(stored.graph(), kind, tile, precision, programs, shared, shared_routines)
            return self._with_objects(written, len(self._routines))

    def _ask(self, job: tuple[Any, ...]) -> tuple[LibrarySource, int]:
        """Send a job to the process, which the first one starts. Returns the C, and how many routines the process has.

        Raises EOFError if the process ends.
        """
        if self._process is None:
            self._starter = os.getpid()
            command = [sys.executable, "-c", SERVER_CODE.format(path=sys.path, module=__name__)]
            self._process = subprocess.Popen(
                command,
                env={**os.environ, IN_WRITER: "1"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                process_group=PROCESS_GROUP,
            )
        jobs: Any = self._process.stdin
        replies: Any = self._process.stdout
        pickle.dump(job, jobs)
        jobs.flush()
        while (line := replies.readline()) != BEFORE_REPLY[1:]:  # before, there may be what a sitecustomize.py prints
            if not line:
                raise EOFError("the process has ended")
        reply: tuple[LibrarySource, int] = pickle.load(replies)
        return reply

    def _with_objects(self, written: LibrarySource, n_routines: int) -> Source:
        """The C with the object files to link. New routines, up to `n_routines`, go into a new object file."""
        if written.routines:
            added = ObjectFile(written.routines)
            self._objects |= dict.fromkeys(range(len(self._objects), n_routines), added)
        return Source(written.library, tuple(dict.fromkeys(map(self._objects.__getitem__, written.called))))


def serve(jobs: BinaryIO, replies: BinaryIO) -> None:
    """Reply to each job, until the input ends, with its C and the number of routines so far.

    Raises ValueError if a job comes from a process with other code or constants of the compiler.
    """
    routines = Routines(across_programs=True)
    with suppress(EOFError):
        while True:
            digest, pickled, kind, tile, precision, shared = pickle.load(jobs)
            if digest != writer_digest():
                raise ValueError("the compiler's code or constants differ from those of the process that asks")
            shared_routines = None if tile else routines
            graph = pickle.loads(pickled)
            written = c_source(graph, kind, tile, precision, shared=shared, routines=shared_routines)
            replies.write(BEFORE_REPLY)
            pickle.dump((written, len(routines)), replies)
            replies.flush()
