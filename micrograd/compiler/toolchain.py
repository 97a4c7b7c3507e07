"""From C to a loaded library: the compiler of this machine, and a cache of what it has built.

A library's file is named by a hash of all that made it (its source or what that is written from, flags, compiler
version, processor) and a hash of its own content, so a damaged or foreign file is not what its name says, and is built
anew. The cache is a directory that only the user can write to; where there is none, libraries are built in a temporary
directory for this process alone.
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
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from micrograd.interrupts import uninterrupted

log = logging.getLogger("micrograd")

FLAGS = [
    "-std=gnu99", "-O2", "-march=native", "-fPIC", "-shared",
    "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math",  # what may change no bit of a result
]  # fmt: skip
PATIENCE = 2.0  # seconds, after which a compilation says that it is under way


class CompilerError(RuntimeError):
    """There is no C compiler, or it failed."""


@functools.lru_cache
def say_once(message: str) -> None:
    """Log what would be the same again."""
    log.warning(message)


@functools.lru_cache
def find_compiler(cc: str | None, path: str | None) -> tuple[tuple[str, ...], str]:
    """The command of a C compiler and its version: `$CC`, cc, gcc, clang, or the one in ziglang.

    `cc` and `path` are those of the environment: with others, the answer is another.

    Raises
    ------
    CompilerError
        If none of them works.
    """
    zig = [f"{shlex.quote(sys.executable)} -m ziglang cc"] if importlib.util.find_spec("ziglang") else []
    for candidate in [cc] if cc else ["cc", "gcc", "clang", *zig]:
        try:
            command = tuple(shlex.split(candidate))
            version = subprocess.run([*command, "--version"], capture_output=True, text=True, errors="replace")
        except (OSError, ValueError, IndexError):
            continue  # there is none of that name, or it is no program
        if version.returncode == 0:
            return command, version.stdout
    remedy = (
        f"$CC is {cc!r}; unset it, or name one that works"
        if cc
        else "tried cc, gcc, clang and ziglang; install gcc or clang, or pip install ziglang"
    )
    raise CompilerError(f'no C compiler works here: {remedy}, or use backend="python"')


def build(source: str | Callable[[], str], made_of: str = "") -> ctypes.CDLL:
    """The source, compiled and loaded.

    Parameters
    ----------
    source
        The text, or a function that writes it, which is called if the cache has no library of what it is `made_of`.
    made_of
        All that makes that text what it is.

    Raises
    ------
    CompilerError
        If there is no compiler, or it rejects the source.
    """
    command, version = find_compiler(os.environ.get("CC"), os.environ.get("PATH"))
    flags = [*FLAGS, *(["-mprefer-vector-width=512"] if platform.machine() in ("x86_64", "AMD64") else [])]
    text = source if isinstance(source, str) else made_of
    machine = platform.machine(), platform.platform(), _processor()
    key = hashlib.sha256("\0".join([text, *command, version, *flags, *machine]).encode()).hexdigest()[:32]
    directory = _cache_directory()
    if directory is not None:
        library = _load(directory, key)
        if library is not None:
            return library
        try:
            return _compile_into(directory, key, _written(source), [*command, *flags])
        except OSError as error:
            log.info("the cache %s cannot be used (%s)", directory, error)
    try:
        with tempfile.TemporaryDirectory(prefix="micrograd-", ignore_cleanup_errors=True) as temporary:
            return _compile_into(Path(temporary), key, _written(source), [*command, *flags])
    except OSError as error:
        raise CompilerError(f"the library cannot be built: {error}") from error


def _written(source: str | Callable[[], str]) -> str:
    return source if isinstance(source, str) else source()


def unload(library: ctypes.CDLL) -> None:
    """Give back the memory that a library takes, after which none of its functions may be called."""
    getattr(_ctypes, "dlclose" if os.name == "posix" else "FreeLibrary")(library._handle)


def _load(directory: Path, key: str) -> ctypes.CDLL | None:
    """The library that was built for this key, if its file is ours and whole."""
    for file in sorted(directory.glob(f"{key}-*.so")):
        try:
            content = file.read_bytes()
            if file.is_symlink() or file.name != _file_name(key, content) or not _is_private(file):
                raise OSError("it is not what it was when it was built")
            return ctypes.CDLL(str(file))
        except OSError as error:
            log.warning("%s is not used and built anew: %s", file, error)
            _remove(file)
    return None


def _remove(file: Path) -> None:
    try:
        file.unlink()
    except OSError as error:
        log.info("%s cannot be removed: %s", file, error)


def _file_name(key: str, content: bytes) -> str:
    return f"{key}-{hashlib.sha256(content).hexdigest()[:32]}.so"


def _compile_into(directory: Path, key: str, source: str, command: list[str]) -> ctypes.CDLL:
    with tempfile.TemporaryDirectory(prefix="build-", dir=directory, ignore_cleanup_errors=True) as temporary:
        c_file, built = Path(temporary, "program.c"), Path(temporary, "program.so")
        c_file.write_text(source)
        compiler = "ziglang" if "ziglang" in command else command[0]  # which is Python there
        with notice(f"compiling {source.count(chr(10)):,} lines of C with {compiler}"):
            result = subprocess.run(
                [*command, str(c_file), "-o", str(built), "-lm"], capture_output=True, text=True, errors="replace"
            )
        if result.returncode != 0:
            if shutil.disk_usage(directory).free < 1 << 20:
                raise OSError("the disk is full")
            raise CompilerError(f"{shlex.join(command)} failed:\n{result.stderr[-2000:]}")
        library = ctypes.CDLL(str(built))  # what cannot be loaded is not kept
        built.chmod(0o700)  # whatever the umask is: a file that others can write to is not loaded again
        os.replace(built, directory / _file_name(key, built.read_bytes()))
    return library


def _cache_directory() -> Path | None:
    """The user's cache directory for compiled libraries, which nobody else can write to; None if there is none."""
    try:
        base = Path.home() / "Library" / "Caches" if sys.platform == "darwin" else Path.home() / ".cache"
        directory = Path(os.environ.get("XDG_CACHE_HOME") or base) / "micrograd"
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_private(directory):
            raise OSError("others can write to it, or own it")
    except (OSError, RuntimeError) as error:
        log.info("there is no cache for compiled libraries: %s", error)
        return None
    return directory


def _is_private(path: Path) -> bool:
    if not hasattr(os, "getuid"):  # on Windows, where a profile is the user's own
        return True
    status = path.stat()
    return status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


@functools.lru_cache
def _processor() -> str:
    """What tells this processor from others that cannot run code for it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return "\n".join(sorted({line for line in lines if line.startswith(("flags", "Features", "model name"))}))


@contextmanager
def notice(what: str) -> Iterator[None]:
    """Say in the log what is going on if it takes longer than a user would wait without a word."""
    timer = threading.Timer(PATIENCE, log.warning, ["%s takes more than %g s", what, PATIENCE])
    timer.daemon = True
    try:
        with suppress(RuntimeError), uninterrupted():  # where there are no threads, as in a browser, nothing is said
            timer.start()
        yield
    finally:
        with uninterrupted():  # for a Ctrl-C amid the locks of a thread would leave it waiting forever
            timer.cancel()
