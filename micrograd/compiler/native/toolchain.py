"""From C to a loaded library: the machine's compiler, and a cache of the libraries that it has built.

A library's file name has a hash of everything that went into it (the C, flags, compiler version, processor) and a hash
of its content: a damaged or foreign file does not match, and is built again.
The cache is a directory that only the user can write to; without one, libraries are built in a temporary directory.

Whenever a library is added, the least recently used ones above LIMIT bytes are removed, and so are build directories
that are ABANDONED seconds old, since their processes were killed. (Their age has to tell: a process may run on another
machine with the same home.) A process keeps the libraries it has loaded: either the system keeps the memory of a
removed file, or, as Windows does, refuses to remove it.
"""

import _ctypes
import ctypes
import functools
import hashlib
import importlib.util
import logging
import os
import platform
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from micrograd.compiler.native.background import raise_if_abandoned

log = logging.getLogger("micrograd")

FLAGS = [
    "-std=gnu99", "-O2", "-fPIC", "-shared",
    "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math",  # these change no bit of a result
]  # fmt: skip
LIMIT = 1 << 28  # bytes of libraries in the cache
ABANDONED = 86_400.0  # seconds: no build takes that long
NATIVE = ("-march=native",), ("-mcpu=native",), ()
"""Flags that allow all instructions of this processor, best first: many compilers for ARM know only the second."""
PROBE = """#include <fenv.h>
#include <math.h>
#include <stdint.h>

double probe(double x)
{
    feclearexcept(FE_ALL_EXCEPT);
    return exp(x);
}
"""
"""A compiler is used if it builds this library, which needs the headers and the libm that generated code needs."""
PROCESS_GROUP = 0 if os.name == "posix" else None  # a new one: a Ctrl-C in the terminal ends no compiler in a thread
PATIENCE = 2.0  # seconds until the log says what takes so long
TICK = 0.1  # seconds between checks whether the result of a compiler is still needed


class CompilerError(RuntimeError):
    """There is no C compiler, or it failed."""


@functools.lru_cache
def warn_once(message: str) -> None:
    """Log a message unless it has been logged before."""
    log.warning(message)


class Compiler(NamedTuple):
    """A C compiler."""

    command: tuple[str, ...]  # the words of a call
    version: str  # the output of --version
    native: tuple[str, ...] = ()  # flags for this processor


@functools.lru_cache
def find_compiler(cc: str | None, path: str | None) -> Compiler:
    """The first compiler that works: `$CC`, or one of cc, gcc, clang and the one in ziglang.

    The result is cached for `cc` and `path`, which are `$CC` and `$PATH`. Raises CompilerError if no compiler works.
    """
    failures = ""
    for command in [_words(cc)] if cc else _candidates():
        version = _output(*command, "--version")
        if version is not None:
            try:
                return _probed(Compiler(command, version))
            except CompilerError as error:
                failures += f"\n{error}"
    remedy = (
        f"$CC is {cc!r}; unset it, or set it to one that works"
        if cc
        else "tried cc, gcc, clang and ziglang; install gcc or clang, or pip install ziglang"
    )
    raise CompilerError(f'no C compiler works here: {remedy}, or use backend="python"{failures}')


def _words(cc: str) -> tuple[str, ...]:
    """The words of a command, as a shell would split it, or the path of a program, which may have spaces in it."""
    if os.path.isfile(cc):
        return (cc,)
    words = shlex.shlex(cc, posix=True, punctuation_chars=False)
    words.whitespace_split, words.commenters = True, ""
    if sys.platform == "win32":
        words.escape = ""  # a backslash separates directories
    try:
        return tuple(words)
    except ValueError:  # an unclosed quotation
        return (cc,)


def _candidates() -> list[tuple[str, ...]]:
    """The commands to try, in order."""
    ziglang: list[tuple[str, ...]] = (
        [(sys.executable, "-m", "ziglang", "cc")] if importlib.util.find_spec("ziglang") else []
    )
    others: list[tuple[str, ...]] = [(name,) for name in ("cc", "gcc", "clang") if not _opens_a_dialog(name)]
    if sys.platform == "win32":  # other compilers there often lack headers, or build for another system
        return ziglang + others
    return others + ziglang


def _opens_a_dialog(name: str) -> bool:
    """Whether a command would only offer to install Apple's developer tools, as on a Mac without them."""
    return sys.platform == "darwin" and shutil.which(name) == f"/usr/bin/{name}" and not _output("xcode-select", "-p")


def _output(*command: str) -> str | None:
    """The output of a program; None if there is no such program, or it fails."""
    try:
        result = subprocess.run(command, capture_output=True, text=True, errors="replace")
    except (OSError, ValueError):
        return None
    return result.stdout if result.returncode == 0 else None


def _probed(compiler: Compiler) -> Compiler:
    """The compiler with the best flags for this processor. Raises CompilerError if it cannot build a library.

    The library stays in the cache like any other, so that a compiler is tried only once.
    """
    if "windows-msvc" in compiler.version:
        raise CompilerError(
            f"{shlex.join(compiler.command)} builds for MSVC, which is not supported: "
            "pip install ziglang, or give clang --target=x86_64-w64-windows-gnu and the libraries of MinGW"
        )
    for native in NATIVE:
        try:
            build(PROBE, compiler._replace(native=native))
        except CompilerError as error:
            failure = error  # the last one, without flags, is raised
        else:
            return compiler._replace(native=native)
    raise failure


def build(text: str, compiler: Compiler | None = None) -> ctypes.CDLL:
    """Compile and load a text. Raises CompilerError if there is no compiler, or it rejects the text."""
    return prepare_build(text, compiler)()


def require_compiler() -> Compiler:
    """The compiler of this environment. Raises CompilerError if none works."""
    return find_compiler(os.environ.get("CC"), os.environ.get("PATH"))


def prepare_build(text: str, compiler: Compiler | None = None) -> Callable[[], ctypes.CDLL]:
    """Look for the library of a text in the cache. Returns a function that returns it, from any thread.

    The function compiles the text if it was not in the cache. Raises CompilerError as `build` does.
    """
    words, version, native = compiler or require_compiler()
    vectors = ["-mprefer-vector-width=512"] if platform.machine() in ("x86_64", "AMD64") else []
    flags = [*FLAGS, *native, *vectors]
    machine = platform.machine(), platform.platform(), _processor()
    key = hashlib.sha256("\0".join([text, *words, version, *flags, *machine]).encode()).hexdigest()[:32]
    directory = _cache_directory()
    library = directory and _load(directory, key)
    if library:
        return lambda: library
    return partial(_compile_and_load, directory, key, text, [*words, *flags])


def _compile_and_load(directory: Path | None, key: str, text: str, command: list[str]) -> ctypes.CDLL:
    """Build the library in the cache, or in a temporary directory if there is no cache, and load it."""
    if directory is not None:
        try:
            library = _compile_into(directory, key, text, command)
            _tidy(directory)
            return library
        except OSError as error:
            log.info("the cache %s cannot be used (%s)", directory, error)
    try:
        _remove_abandoned(Path(tempfile.gettempdir()), "micrograd-build-*")  # Windows keeps loaded libraries
        with tempfile.TemporaryDirectory(prefix="micrograd-build-", ignore_cleanup_errors=True) as temporary:
            return _compile_into(Path(temporary), key, text, command)
    except OSError as error:
        raise CompilerError(f"the library cannot be built: {error}") from error


def function_of(library: ctypes.CDLL, name: str, kind: Any) -> Any:
    """A function in a library, which must be kept. (One that ctypes looks up refers to itself, and to the library.)"""
    return kind(ctypes.addressof(ctypes.c_char.in_dll(library, name)))


def _opened(file: Path) -> ctypes.CDLL:
    """The library in a file, which is unloaded when nothing refers to it any more."""
    library = ctypes.CDLL(str(file))
    close = getattr(_ctypes, "dlclose" if os.name == "posix" else "FreeLibrary")
    weakref.finalize(library, close, library._handle).atexit = False  # when threads may be at work in it
    return library


def _load(directory: Path, key: str) -> ctypes.CDLL | None:
    """The library that was built for this key, if its file is the user's and undamaged."""
    for file in sorted(directory.glob(f"{key}-*.so")):
        try:
            content = file.read_bytes()
            if file.is_symlink() or file.name != _file_name(key, content) or not _is_private(file):
                raise OSError("it has changed since it was built")
            with suppress(OSError):
                os.utime(file)  # the time of its last use
            return _opened(file)
        except OSError as error:
            if not os.path.lexists(file):
                continue  # another process has removed it
            log.warning("rebuilding %s: %s", file, error)
            _remove(file)
    return None


def _remove(file: Path) -> None:
    try:
        file.unlink()
    except OSError as error:
        log.info("%s cannot be removed: %s", file, error)


def _tidy(directory: Path) -> None:
    """Remove abandoned builds, and above LIMIT the least recently used libraries."""
    _remove_abandoned(directory, "build-*")
    with suppress(OSError):  # another process may be tidying up, too
        statuses = [(file, file.lstat()) for file in directory.glob("*.so")]
        room = LIMIT
        for file, status in sorted(statuses, key=lambda pair: pair[1].st_mtime_ns, reverse=True):
            room -= status.st_size
            if room < 0:
                _remove(file)


def _remove_abandoned(directory: Path, pattern: str) -> None:
    """Remove the directories of processes that were killed, or could not remove a loaded library on Windows."""
    with suppress(OSError):
        for path in directory.glob(pattern):
            if path.lstat().st_mtime < time.time() - ABANDONED:
                shutil.rmtree(path, ignore_errors=True)


def _file_name(key: str, content: bytes) -> str:
    return f"{key}-{hashlib.sha256(content).hexdigest()[:32]}.so"


def _compile_into(directory: Path, key: str, text: str, command: list[str]) -> ctypes.CDLL:
    with tempfile.TemporaryDirectory(prefix="build-", dir=directory, ignore_cleanup_errors=True) as temporary:
        built = _compiled(Path(temporary), text, command)
        library = _opened(built)  # if this fails, the file is not kept
        built.chmod(0o700)  # whatever the umask: `_load` refuses files that others can write to
        built.replace(directory / _file_name(key, built.read_bytes()))
    return library


def _compiled(directory: Path, text: str, command: list[str]) -> Path:
    """Compile a text to a library. Raises CompilerError if it is rejected, OSError on a full disk."""
    c_file, built = directory / "program.c", directory / "program.so"
    c_file.write_text(text)
    slow = "ziglang; the first time can take a minute or two"  # it builds a C library, too
    compiler = slow if "ziglang" in command else command[0]
    with notice(f"compiling {text.count(chr(10)):,} lines of C with {compiler}"):
        status, errors = _run([*command, str(c_file), "-o", str(built), "-lm"])
    if status != 0:
        if shutil.disk_usage(directory).free < 1 << 20:
            raise OSError("the disk is full")
        raise CompilerError(f"{shlex.join(command)} failed:\n{errors[-2000:]}")
    return built


def _run(command: list[str]) -> tuple[int, str]:
    """Run a compiler. Returns its exit status and its errors. An exception ends it, with all that it has started."""
    options: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "process_group": PROCESS_GROUP}
    with subprocess.Popen(command, text=True, errors="replace", **options) as process:
        try:
            while process.returncode is None:
                raise_if_abandoned()
                with suppress(subprocess.TimeoutExpired):
                    errors = process.communicate(timeout=TICK)[1]
        except BaseException:
            with suppress(ProcessLookupError):  # it has just ended
                os.killpg(process.pid, signal.SIGTERM) if hasattr(os, "killpg") else process.terminate()
            raise
    return process.returncode, errors


def _cache_directory() -> Path | None:
    """The user's cache directory for compiled libraries; None without one that only the user can write to."""
    try:
        base = Path.home() / "Library" / "Caches" if sys.platform == "darwin" else Path.home() / ".cache"
        directory = Path(os.environ.get("XDG_CACHE_HOME") or base) / "micrograd"
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_private(directory):
            raise OSError("it is owned by someone else, or others can write to it")
    except (OSError, RuntimeError) as error:
        log.info("there is no cache for compiled libraries: %s", error)
        return None
    return directory


def _is_private(path: Path) -> bool:
    if not hasattr(os, "getuid"):  # on Windows, a profile is private
        return True
    status = path.stat()
    return status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


@functools.lru_cache
def _processor() -> str:
    """A description of this processor that differs from those of processors with other instructions."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return "\n".join(sorted({line for line in lines if line.startswith(("flags", "Features", "model name"))}))


@contextmanager
def notice(what: str) -> Iterator[None]:
    """Log what is going on if the block takes longer than PATIENCE."""
    timer = threading.Timer(PATIENCE, log.warning, ["still %s", what])
    timer.daemon = True
    try:
        with suppress(RuntimeError):  # a browser has no threads
            timer.start()
        yield
    finally:
        timer.cancel()
