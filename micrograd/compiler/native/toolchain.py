"""From C to a loaded library: the machine's compiler, and a cache of the libraries that it has built.

A library's file is named by a hash of all that it is built from: the C, or the graph and the code that turns it into C;
the compiler with its flags; the processor. It gets this name once it is complete, so processes may build the same
library at once. Without a directory that only the user can write to, libraries are built in a temporary one. Adding a
library removes the oldest ones, until the rest fit in LIMIT bytes. A loaded library stays loaded, like a module.
"""

import ctypes
import functools
import hashlib
import importlib.util
import logging
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")
Text = str | Callable[[], str]  # or a function that makes it
log = logging.getLogger("micrograd")

FLAGS = [
    "-std=gnu99", "-O2", "-fPIC", "-shared",
    "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math",  # these change no bit of a result
    "-fvect-cost-model",  # gcc: vectors also where -O2 would not check for overlaps; others do so anyway
    "--param=iv-max-considered-uses=60",  # not 250: gcc compiles 4,000 lines in lanes in 0.85 of the time
    "--param=iv-consider-all-candidates-bound=10",  # not 40: 0.90 to 0.94; without ivopts, steps take 1.1 times as long
]  # fmt: skip
NATIVE = ("-march=native", "-mprefer-vector-width=512"), ("-mcpu=native",), ()
"""Flags that allow all instructions of this processor, best first: many compilers for ARM know only the second."""
LONG = 250  # lines of C for each of several compilers: gcc takes 0.03 s for what all of them read, and 0.1 for the rest
LIMIT = 1 << 28  # bytes of libraries in the cache
UNUSABLE = "the cache for compiled libraries cannot be used"
PATIENCE = 2.0  # seconds until the log says what takes so long
PROBE = """#include <fenv.h>
#include <math.h>
#include <stdint.h>

double probe(double x)
{
    feclearexcept(FE_ALL_EXCEPT);
    return exp(x);
}
"""
"""A compiler works if it builds this library from headers and libm. It is used with the first flags that do."""
WATCHED = """exec 3<&0
(trap '' TERM; read _ <&3; kill 0; rm -rf "$0") 2>/dev/null &
"$@" </dev/null
status=$?
kill -KILL $!
exit $status
"""
"""Lets a shell run a command. When the shell's input ends, it kills the command and everything that it started, and
removes the directory $0."""


class CompilerError(RuntimeError):
    """There is no C compiler, or it failed."""


warn_once = functools.cache(log.warning)
"""Log a message unless it has been logged before."""


@contextmanager
def notice(what: str) -> Iterator[None]:
    """Log what is going on if the block takes longer than PATIENCE."""
    timer = threading.Timer(PATIENCE, log.warning, ["still %s", what])
    try:
        with suppress(RuntimeError):  # a browser has no threads, a subinterpreter no daemon threads
            timer.daemon = True
            timer.start()
        yield
    finally:
        timer.cancel()


# Which compiler


class Compiler(NamedTuple):
    """A C compiler."""

    command: tuple[str, ...]  # the words of a call
    version: str  # the output of --version
    native: tuple[str, ...]  # flags for this processor


@functools.lru_cache
def find_compiler(cc: str | None, path: str | None) -> Compiler:
    """The first compiler that works: `$CC`, or one of cc, gcc, clang and the one in ziglang.

    It compiles for this processor, unless `$CC` names another one, as in `gcc -march=haswell`.

    The result is cached for `cc` and `path`, which are `$CC` and `$PATH`. Raises CompilerError if no compiler works.
    """
    failures = {}
    for command in _candidates(cc):
        if (version := _output(*command, "--version")) is None:
            continue
        names_one = any(word.startswith(("-march", "-mcpu")) for word in command)
        for native in NATIVE[-1:] if names_one else NATIVE:
            try:
                compiler = Compiler(command, version, native)
                build(PROBE, compiler=compiler)()  # it stays in the cache like any other library
                return compiler
            except CompilerError as error:
                failures[command] = f"\n{error}"  # the last one, without flags
    remedy = f"$CC is {cc!r}; unset or correct it" if cc else "install gcc or clang, or pip install ziglang"
    raise CompilerError(f'no C compiler works here: {remedy}, or use backend="python"{"".join(failures.values())}')


def _candidates(cc: str | None) -> list[tuple[str, ...]]:
    """The commands to try, in order. `$CC` is a path, even one with spaces, or words; without it, the usual ones."""
    if cc:
        return [(cc,) if os.path.isfile(cc) else tuple(cc.split())]
    # On a Mac without Apple's developer tools, these programs would only offer to install them.
    is_bare = sys.platform == "darwin" and not _output("xcode-select", "-p")
    names = [name for name in ("cc", "gcc", "clang") if not (is_bare and shutil.which(name) == f"/usr/bin/{name}")]
    ziglang = [(sys.executable, "-m", "ziglang", "cc")] if importlib.util.find_spec("ziglang") else []
    # On Windows, other compilers often lack headers, or build for another system.
    found = [(name,) for name in names]
    return [*ziglang, *found] if sys.platform == "win32" else [*found, *ziglang]


def _output(*command: str) -> str | None:
    """The output of a program; None if there is no such program, or it fails."""
    try:
        result = subprocess.run(command, capture_output=True, text=True, errors="replace")
    except OSError:
        return None
    return result.stdout if result.returncode == 0 else None


def require_compiler() -> Compiler:
    """The compiler of this environment. Raises CompilerError if none works."""
    return find_compiler(os.environ.get("CC"), os.environ.get("PATH"))


# What it builds


BUILDER = "micrograd builds a library"  # the name of a thread


@functools.cache
def _slots(process: int) -> threading.Semaphore:
    """How many compilers a process starts at once: one more than there are processors."""
    return threading.Semaphore(1 + (os.cpu_count() or 1))


def ahead(work: Callable[[], T]) -> Callable[[], T]:
    """Do the work in a thread, while Python goes on. Returns a function that waits for the result; if the thread has
    none, it does the work again.

    The interpreter does not wait for the thread at exit.
    """
    found: list[T] = []

    def run() -> None:
        with _slots(os.getpid()), suppress(Exception):  # the work raises it again
            found.append(work())

    def wait() -> T:
        with suppress(IndexError, RuntimeError):  # a wait before this one was interrupted; no thread could start
            threads.pop().join()  # in a forked child, this returns at once
        return found[0] if found else work()

    threads: list[threading.Thread] = []
    with suppress(RuntimeError):  # a subinterpreter has no daemon threads; the interpreter is shutting down
        threads.append(threading.Thread(target=run, name=BUILDER, daemon=True))
        threads[0].start()
    return wait


def build(
    text: Text, key: str = "", compiler: Compiler | None = None, *, early: bool = False
) -> Callable[[], ctypes.CDLL]:
    """Return a function that loads the library of a text in C, from the cache or compiled.

    With a key, `text` is a function. `build` calls it, if the library is not in the cache, in this thread: threads that
    run Python hold one another up (a GPT for 12 lengths of names begins to learn after 0.87 of the time). If `early`,
    the compiler starts now, too. Raises CompilerError if there is no compiler; the function that it returns raises it
    if the compiler rejects the text, or there is no room for the library.
    """
    words, version, native = compiler or require_compiler()
    command = [*words, *FLAGS, *native]
    content = "\0".join([key or str(text), *command, version, _processor()])
    name = hashlib.sha256(content.encode()).hexdigest()[:32] + ".so"
    if cache := _cache_directory():
        with suppress(OSError):  # it is missing or damaged
            library = ctypes.CDLL(str(cache / name))
            return lambda: library
    work = partial(_compiled, text if isinstance(text, str) else text(), command, name, cache)
    return ahead(work) if early else work


def _compiled(text: str, command: list[str], name: str, cache: Path | None) -> ctypes.CDLL:
    """Compile a text to a library, load it, and keep it in the cache. Raises CompilerError if the text is rejected."""
    compiler = "ziglang; the first time can take a minute or two" if "ziglang" in command else command[0]
    try:
        with tempfile.TemporaryDirectory(dir=cache, ignore_cleanup_errors=True) as room:  # Windows locks libraries
            source, built, jobs = Path(room, "source.c"), Path(room, name), _jobs(text)
            source.write_text(text)
            objects = [source.with_suffix(f".{i}.o") for i in range(jobs)] if jobs > 1 else []
            parts = [
                [*command, "-c", f"-DJOBS={jobs}", f"-DJOB={i}", str(source), "-o", str(its)]
                for i, its in enumerate(objects)
            ]
            with notice(f"compiling {text.count(chr(10)):,} lines of C with {compiler}"):
                _run(parts, room)
                _run([[*command, *map(str, objects or [source]), "-o", str(built), "-lm"]], room)
            library = ctypes.CDLL(str(built))  # if this fails, the file is not kept
            if cache:
                built.replace(cache / name)
                _tidy(cache)
        return library
    except (OSError, CompilerError) as error:  # the compiler may run out of room, too
        if not cache:
            raise CompilerError(f"the library cannot be built: {error}") from error
        log.info("%s: %s", UNUSABLE, error)
        return _compiled(text, command, name, None)


def _jobs(text: str) -> int:
    """How many compilers share a text: fewer beside other builds, or for a short text. A build ahead of its use counts
    itself, since Python keeps a processor busy meanwhile. While Python waits, other builds count half, since they may
    soon be over: beside that of the loop, digits' library then takes two compilers, and the process 0.9 of the time.
    """
    builders = sum(thread.name == BUILDER for thread in threading.enumerate())
    busy = builders if threading.current_thread().name == BUILDER else builders // 2
    return min((os.cpu_count() or 1) - busy, text.count("\n") // LONG, text.count("#if MINE"))


def _run(commands: list[list[str]], room: str) -> None:
    """Run compilers side by side. Raises CompilerError if one fails.

    They end when an exception ends this function, and when this process ends, even if it is killed: then the pipes to
    their shells close, and these remove the `room` that they work in. Each has its own process group, so that a Ctrl-C
    in the terminal does not end it: another thread may need what it builds.
    """
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    shell = os.name == "posix"
    before, group = ([WATCHED, room], 0) if shell else ([], None)
    pipes |= {"shell": shell, "process_group": group, "text": True, "errors": "replace"}
    with ExitStack() as stack:
        started = [stack.enter_context(subprocess.Popen([*before, *command], **pipes)) for command in commands]
        errors = [process.stderr.read() for process in started]  # type: ignore[union-attr]
    for command, process, error in zip(commands, started, errors, strict=True):
        if process.returncode != 0:
            raise CompilerError(f"{shlex.join(command)} failed:\n{error[-2000:]}")


def _tidy(directory: Path) -> None:
    """Remove the oldest libraries, until the rest fit in LIMIT bytes."""
    room = LIMIT
    with suppress(OSError):  # another process may be tidying up, too
        for file in sorted(directory.glob("*.so"), key=lambda file: -file.stat().st_mtime_ns):
            room -= file.stat().st_size
            if room < 0:
                file.unlink()


def _cache_directory() -> Path | None:
    """The user's directory for compiled libraries; None if there is none that only the user can write to."""
    base = os.environ.get("XDG_CACHE_HOME")
    caches = "Library/Caches" if sys.platform == "darwin" else ".cache"
    try:
        directory = Path(base or Path.home() / caches) / "micrograd"
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = directory.stat()
        if hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & 0o022):  # private on Windows
            raise OSError(f"{directory} is owned by someone else, or others can write to it")
        return directory
    except (OSError, RuntimeError) as error:  # a RuntimeError says that the user has no home directory
        log.info("%s: %s", UNUSABLE, error)
        return None


@functools.cache
def _processor() -> str:
    """A description of this processor. Processors with other instructions have other descriptions."""
    file = Path("/proc/cpuinfo")
    windows = "model name: " + os.environ.get("PROCESSOR_IDENTIFIER", "")
    lines = file.read_text().splitlines() if file.exists() else [windows]
    return "\n".join(sorted({line for line in lines if line.startswith(("flags", "Features", "model name"))}))
