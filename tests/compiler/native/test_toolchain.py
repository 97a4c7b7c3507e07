"""Which C compiler is chosen, how it is called, and what becomes of what it builds."""

import errno
import logging
import multiprocessing
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

import micrograd
from micrograd.compiler import CompilerError
from micrograd.compiler.native import toolchain
from micrograd.compiler.targets import c
from tests.helpers import has_compiler, needs_compiler

CLANG = shutil.which("clang-14")


# Which compiler is chosen, and how it is called


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Make shell scripts the only programs there are; `$REAL` is the true compiler. Without ziglang."""
    if not has_compiler():
        pytest.skip("there is no C compiler here")
    real = shlex.join(toolchain.find_compiler(os.environ.get("CC"), os.environ.get("PATH")).command)
    path = os.environ["PATH"]
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(directory))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(toolchain.importlib.util, "find_spec", lambda name: None)

    def make(name, script, directory=directory):
        file = directory / name
        file.write_text(f'#!/bin/sh\nREAL="{real}"\nNAME="{name}"\nPATH="{path}"\n{script}\n')
        file.chmod(0o755)
        return str(file)

    return make


def found(cc=None):
    return toolchain.find_compiler(cc, os.environ["PATH"])


BUILDS = '[ "$1" = --version ] && { echo "$NAME 1.0"; exit 0; }\nexec $REAL "$@"'
BROKEN = '[ "$1" = --version ] && { echo "$NAME 1.0"; exit 0; }\necho "$NAME: no headers" >&2; exit 1'


def knows(*flags):
    """A compiler that knows those flags alone of the ones for a processor."""
    return (
        '[ "$1" = --version ] && { echo "Apple clang version 14.0.0"; exit 0; }\n'
        'for word in "$@"; do shift; case $word in\n'
        + "".join(f"{flag}) ;;\n" for flag in flags)
        + "-march=*|-mcpu=*) echo \"does not support '$word'\" >&2; exit 1;;\n"
        '*) set -- "$@" "$word";;\n'
        'esac; done; exec $REAL "$@"'
    )


@pytest.mark.parametrize(
    ("flags", "native"),
    [
        (["-march=native", "-mcpu=native"], ("-march=native",)),
        (["-march=native"], ("-march=native",)),
        (["-mcpu=native"], ("-mcpu=native",)),
        ([], ()),
    ],
)
def test_a_compiler_is_given_the_flags_that_it_knows(programs, flags, native):
    programs("cc", knows(*flags))
    assert found().native == native
    assert toolchain.build("int answer(void) { return 42; }\n").answer() == 42


@needs_compiler
@pytest.mark.skipif(not CLANG, reason="apt-get install clang-14")
def test_clang_14_for_the_mac_is_given_the_flags_that_it_knows(programs):
    """It is asked as Apple's is, and another builds; Apple's own knows -mcpu=native, as it knows Apple's processors."""
    ask = f'[ "$1" = --version ] && exec {CLANG} --target=arm64-apple-macos11 --version'
    check = f"{CLANG} --target=arm64-apple-macos11 $word -c -x c /dev/null -o /dev/null || exit 1"
    strip = f'for word in "$@"; do shift; case $word in -m*=native) {check};; *) set -- "$@" "$word";; esac; done'
    programs("cc", f'{ask}\n{strip}\nexec $REAL "$@"')
    assert found().native in [("-mcpu=native",), ()]
    assert found().version.startswith("Debian clang version 14")
    assert toolchain.build("int answer(void) { return 42; }\n").answer() == 42


def test_what_a_compiler_knows_is_asked_once(programs, tmp_path):
    programs("cc", f'[ "$1" = --version ] || echo >> {tmp_path}/calls\n{BUILDS}')
    for _ in range(3):
        assert toolchain.find_compiler.__wrapped__(None, os.environ["PATH"]).command == ("cc",)
    assert (tmp_path / "calls").read_text() == "\n"


def test_a_compiler_that_cannot_build_makes_room_for_the_next(programs):
    programs("cc", BROKEN)
    programs("gcc", BUILDS)
    assert found() == (("gcc",), "gcc 1.0\n", ("-march=native",))


def test_a_compiler_that_cannot_build_makes_room_for_ziglang(programs, monkeypatch, tmp_path):
    for name in ("cc", "gcc", "clang"):
        programs(name, BROKEN)
    zig = programs("python of its own", f"shift 3\n{BUILDS}", tmp_path)
    monkeypatch.setattr(toolchain.importlib.util, "find_spec", lambda name: name == "ziglang")
    monkeypatch.setattr(sys, "executable", zig)
    assert found().command == (zig, "-m", "ziglang", "cc")


def test_if_none_can_build_each_says_why(programs):
    programs("cc", BROKEN)
    programs("clang", BROKEN)
    with pytest.raises(CompilerError, match=r"(?s)tried cc.*failed:\ncc: no headers\n.*failed:\nclang: no headers"):
        found()


def test_clang_for_msvc_is_refused_by_name(programs):
    clang = programs("clang", 'echo "clang version 18.1.8"; echo "Target: x86_64-pc-windows-msvc"')
    for cc, command in ((None, "clang"), (clang, clang)):
        with pytest.raises(CompilerError, match=f"{re.escape(command)} builds for MSVC, which is not supported"):
            found(cc)


def test_on_windows_ziglang_comes_first(programs, monkeypatch, tmp_path):
    programs("cc", BUILDS)
    zig = programs("python", f"shift 3\n{BUILDS}", tmp_path)
    monkeypatch.setattr(sys, "executable", zig)
    monkeypatch.setattr(toolchain.importlib.util, "find_spec", lambda name: name == "ziglang")
    assert found().command == ("cc",)
    toolchain.find_compiler.cache_clear()
    monkeypatch.setattr(sys, "platform", "win32")
    assert found().command == (zig, "-m", "ziglang", "cc")
    toolchain.find_compiler.cache_clear()


@pytest.mark.parametrize(
    ("tools", "expected"), [("exit 2", "clang"), ("echo /Library/Developer", "cc"), (None, "clang")]
)
def test_on_a_mac_without_developer_tools_what_would_ask_for_them_is_not_called(
    programs, monkeypatch, tmp_path, tools, expected
):
    """A program in /usr/bin opens a dialog there; one that a user has installed does not."""
    programs("cc", BUILDS)
    programs("clang", BUILDS)
    if tools:
        programs("xcode-select", tools)
    which = toolchain.shutil.which
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(toolchain.shutil, "which", lambda name: "/usr/bin/cc" if name == "cc" else which(name))
    assert found().command == (expected,)


def test_cc_may_be_a_path_with_spaces(programs, tmp_path):
    directory = tmp_path / "Program Files"
    directory.mkdir()
    clang = programs("clang", BUILDS, directory)
    assert found(clang).command == (clang,)
    assert found(f"'{clang}' -O1").command == (clang, "-O1")


@pytest.mark.parametrize(
    ("cc", "command"),
    [
        (r"C:\LLVM\bin\clang.exe", (r"C:\LLVM\bin\clang.exe",)),
        (
            r"C:\LLVM\bin\clang.exe --target=x86_64-w64-windows-gnu",
            (r"C:\LLVM\bin\clang.exe", "--target=x86_64-w64-windows-gnu"),
        ),
        (r'"C:\Program Files\LLVM\bin\clang.exe" -O1', (r"C:\Program Files\LLVM\bin\clang.exe", "-O1")),
    ],
)
def test_on_windows_a_backslash_is_part_of_a_path(monkeypatch, cc, command):
    monkeypatch.setattr(sys, "platform", "win32")
    assert toolchain._words(cc) == command


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Make `$CC` a script that was found to work; it notes each call in a file and has the true compiler as `$REAL`."""
    if not has_compiler():
        pytest.skip("there is no C compiler here")
    real = shlex.join(toolchain.find_compiler(os.environ.get("CC"), os.environ.get("PATH")).command)

    def make(script, name="fake-cc"):
        file = tmp_path / name
        calls = tmp_path / f"{name}-calls"
        head = (
            f'#!/bin/sh\nREAL="{real}"\nif [ "$1" = --version ]; then echo {name}; exit 0; fi\necho call >> "{calls}"\n'
        )
        file.write_text(head + 'exec $REAL "$@"\n')
        file.chmod(0o755)
        monkeypatch.setenv("CC", str(file))
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_CACHE_HOME", str(tmp_path / "probed"))
            toolchain.find_compiler(str(file), os.environ.get("PATH"))
        calls.unlink(missing_ok=True)
        file.write_text(head + script + "\n")
        return lambda: len(calls.read_text().splitlines()) if calls.exists() else 0

    return make


# What it builds, and keeps


def answer(n):
    return f"int answer(void) {{ return {n}; }}\n"


def built(n=42):
    return toolchain.build(answer(n)).answer()


def files(own_cache):
    return sorted(path for path in own_cache.iterdir() if path.suffix == ".so")


def compiled(backend):
    return micrograd.compile(lambda x: 2 * x, (1.0,), backend=backend)


def called(backend):
    """A function whose library for single calls has been built."""
    fast = compiled(backend)
    assert fast(1.0) == 2.0
    return fast


def no_compiler(monkeypatch, tmp_path):
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(toolchain.importlib.util, "find_spec", lambda name: None)


def test_without_a_compiler_c_says_what_to_install(own_cache, monkeypatch, tmp_path):
    no_compiler(monkeypatch, tmp_path)
    with pytest.raises(
        CompilerError, match=r'clang and ziglang; install gcc or clang, or pip install ziglang, or .*"python"'
    ):
        compiled("c")


def test_without_a_compiler_auto_falls_back_to_python_and_says_so_once(own_cache, monkeypatch, tmp_path, caplog):
    no_compiler(monkeypatch, tmp_path)
    for _ in range(3):
        fast = compiled("auto")
        assert fast(2.0) == 4.0
        assert "Python" in repr(fast)
    assert [record.levelname for record in caplog.records if "compiled to Python" in record.message] == ["WARNING"]


@needs_compiler
@pytest.mark.parametrize("backend", ["auto", "c"])
def test_a_compiler_that_goes_away_between_two_calls_is_replaced_by_python_unless_c_was_asked_for(
    own_cache, monkeypatch, tmp_path, backend
):
    fast = compiled(backend)
    no_compiler(monkeypatch, tmp_path)
    if backend == "c":
        with pytest.raises(CompilerError):
            fast.value_and_grad(2.0)  # a library that is built when it is first needed
    else:
        assert fast.value_and_grad(2.0) == (4.0, 2.0)
        assert "Python" in repr(fast)


@needs_compiler
def test_with_a_compiler_auto_is_c(own_cache):
    assert "compiled to C" in repr(compiled("auto"))


@pytest.mark.parametrize("cc", ["/nonexistent/cc", "no-such-compiler-here", 'gcc "', "  ", "false"])
def test_a_wrong_cc_is_named(own_cache, monkeypatch, cc):
    monkeypatch.setenv("CC", cc)
    with pytest.raises(CompilerError, match=re.escape(f"$CC is {cc!r}; unset it")):
        compiled("c")
    assert "Python" in repr(compiled("auto"))


@pytest.mark.parametrize("content", ["", "\x00\x01garbage", "#!/nonexistent/interpreter\n"])
def test_a_compiler_that_is_no_program_is_no_compiler(own_cache, monkeypatch, tmp_path, content):
    file = tmp_path / "cc"
    file.write_text(content)
    file.chmod(0o755)
    monkeypatch.setenv("CC", str(file))
    with pytest.raises(CompilerError, match="no C compiler works here"):
        compiled("c")


def test_the_compiler_of_ziglang_is_used_where_there_is_no_other(monkeypatch, tmp_path):
    python = tmp_path / "a python"
    python.write_text('#!/bin/sh\necho "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr(toolchain.importlib.util, "find_spec", lambda name: name == "ziglang")
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(toolchain, "_probed", lambda compiler: compiler)
    command, version, _ = toolchain.find_compiler.__wrapped__(None, str(tmp_path))
    assert command == (str(python), "-m", "ziglang", "cc")
    assert version == "-m ziglang cc --version\n"


def test_what_a_failing_compiler_says_is_passed_on(own_cache, fake):
    fake(r"printf 'no \377 way: garbage\n' >&2; exit 1")
    with pytest.raises(CompilerError, match=r"fake-cc .* failed:\nno \ufffd way: garbage"):
        called("c")
    assert "Python" in repr(called("auto"))
    assert list(own_cache.iterdir()) == []
    fake("seq -w 9999 >&2; exit 1")
    with pytest.raises(CompilerError) as error:
        called("c")
    assert str(error.value).partition(" failed:\n")[2] == "".join(f"{n}\n" for n in range(9600, 10000))


@pytest.mark.parametrize(
    "script",
    [
        "exit 0",
        'while [ "$1" != -o ]; do shift; done; echo garbage > "$2"',
        'while [ "$1" != -o ]; do shift; done; : > "$2"',
    ],
    ids=["nothing", "garbage", "an empty file"],
)
def test_a_compiler_that_only_says_it_has_done_it_is_found_out(own_cache, fake, script):
    fake(script)
    with pytest.raises(CompilerError, match="cannot be built"):
        called("c")
    assert "Python" in repr(called("auto"))
    assert list(own_cache.iterdir()) == []


@needs_compiler
def test_a_library_is_compiled_once(own_cache, fake):
    calls = fake('exec $REAL "$@"')
    assert [built(), built(), calls()] == [42, 42, 1]
    assert [built(43), calls()] == [43, 2]
    assert len(files(own_cache)) == 2
    assert all(re.fullmatch(r"[0-9a-f]{32}-[0-9a-f]{32}\.so", file.name) for file in files(own_cache))
    assert stat.S_IMODE(own_cache.stat().st_mode) == 0o700


@needs_compiler
def test_another_compiler_or_flag_or_processor_builds_anew(own_cache, fake, monkeypatch):
    fake('exec $REAL "$@"')
    built()
    calls = fake('exec $REAL "$@"', name="another-cc")
    assert [built(), calls()] == [42, 1]
    monkeypatch.setattr(toolchain, "FLAGS", [*toolchain.FLAGS, "-O1"])
    assert [built(), calls()] == [42, 2]
    monkeypatch.setattr(toolchain, "_processor", lambda: "another")
    assert [built(), calls()] == [42, 3]


def truncate(file):
    file.write_bytes(file.read_bytes()[:-100])


def flip(file):
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def empty(file):
    file.write_bytes(b"")


def swap(file):
    """A library of another's in place of ours."""
    other = next(path for path in files(file.parent) if path != file)
    shutil.copy(other, file)


def link(file):
    content = file.read_bytes()
    file.unlink()
    elsewhere = file.parent.parent / "elsewhere.so"
    elsewhere.write_bytes(content)
    file.symlink_to(elsewhere)


@needs_compiler
def test_a_library_is_kept_whoever_may_write_what_the_user_makes(own_cache, fake, caplog):
    calls = fake('exec $REAL "$@"')
    before = os.umask(0o002)
    try:
        assert [built(), built(), calls()] == [42, 42, 1]
    finally:
        os.umask(before)
    assert [stat.S_IMODE(file.stat().st_mode) for file in files(own_cache)] == [0o700]
    assert stat.S_IMODE(own_cache.stat().st_mode) == 0o700
    assert caplog.text == ""


def open_to_all(file):
    file.chmod(0o666)


@needs_compiler
@pytest.mark.parametrize("damage", [truncate, flip, empty, swap, link, open_to_all], ids=lambda damage: damage.__name__)
def test_a_damaged_or_foreign_file_is_built_anew_with_a_warning(own_cache, caplog, damage):
    built(43)
    (before,) = files(own_cache)
    built(42)
    (file,) = set(files(own_cache)) - {before}
    content = file.read_bytes()
    copied = own_cache / "kept"
    copied.write_bytes(content)
    file.unlink()  # a library that is loaded already must not be written into
    shutil.copy(copied, file)
    copied.unlink()
    damage(file)
    assert built(42) == 42
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "rebuilding" in caplog.text
    assert file.read_bytes() == content
    assert not file.is_symlink()


@needs_compiler
def test_a_file_that_cannot_be_removed_does_no_harm(own_cache, caplog):
    caplog.set_level(logging.INFO, "micrograd")
    built()
    (file,) = files(own_cache)
    file.unlink()
    file.mkdir()
    (file / "inside").touch()
    assert built() == 42
    assert "cannot be removed" in caplog.text
    assert "cannot be used" in caplog.text


@needs_compiler
def test_a_cache_that_others_can_write_to_is_not_used(own_cache, caplog):
    caplog.set_level(logging.INFO, "micrograd")
    for mode in (0o770, 0o707):
        own_cache.mkdir(parents=True, exist_ok=True)
        own_cache.chmod(mode)
        assert built() == 42
        assert list(own_cache.iterdir()) == []
    assert "others can write to it" in caplog.text


@needs_compiler
def test_a_cache_of_another_user_is_not_used(own_cache, monkeypatch):
    own_cache.mkdir(parents=True, mode=0o700)
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert built() == 42
    assert list(own_cache.iterdir()) == []


@needs_compiler
def test_where_there_are_no_user_ids_a_cache_is_the_users_own(own_cache, monkeypatch):
    monkeypatch.delattr(os, "getuid")
    assert built() == 42
    assert len(files(own_cache)) == 1


@needs_compiler
def test_a_file_in_place_of_the_cache_does_no_harm(own_cache):
    own_cache.parent.mkdir()
    own_cache.write_text("mine")
    assert built() == 42
    assert own_cache.read_text() == "mine"


@needs_compiler
def test_a_user_without_a_home_has_no_cache(monkeypatch):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", no_home)
    assert toolchain._cache_directory() is None
    assert built() == 42


@pytest.mark.parametrize(("system", "place"), [("linux", ".cache"), ("darwin", "Library/Caches")])
def test_the_cache_is_where_the_system_has_caches(monkeypatch, tmp_path, system, place):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert toolchain._cache_directory() == tmp_path / place / "micrograd"


def refusing(monkeypatch, refused, error):
    """Let no temporary directory be made in some directories."""
    true = toolchain.tempfile.TemporaryDirectory

    def temporary(*args, dir=None, **options):
        if refused(dir):
            raise error
        return true(*args, dir=dir, **options)

    monkeypatch.setattr(toolchain.tempfile, "TemporaryDirectory", temporary)


@needs_compiler
def test_a_read_only_cache_does_no_harm(own_cache, monkeypatch, caplog):
    caplog.set_level(logging.INFO, "micrograd")
    built(43)
    own_cache.chmod(0o500)
    if os.access(own_cache, os.W_OK):  # root may write anywhere
        refusing(monkeypatch, lambda dir: dir == own_cache, PermissionError(errno.EACCES, "Permission denied"))
    try:
        assert [built(43), built(42)] == [43, 42]
    finally:
        own_cache.chmod(0o700)
    assert "cannot be used" in caplog.text
    assert len(files(own_cache)) == 1


@needs_compiler
def test_a_full_disk_under_the_cache_does_no_harm(own_cache, fake, monkeypatch):
    """The compiler fails, as it does where there is no room, as long as it is to write into the cache."""
    calls = fake(f'case "$*" in *{own_cache}*) echo "No space left on device" >&2; exit 1;; esac; exec $REAL "$@"')
    disk = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: disk)
    for free in (0, 2**20 - 1):  # bytes
        disk = disk._replace(free=free)
        assert built() == 42
    assert calls() == 4
    assert list(own_cache.iterdir()) == []
    disk = disk._replace(free=2**20)
    with pytest.raises(CompilerError, match="No space left on device"):
        built()


@needs_compiler
def test_a_full_disk_everywhere_is_an_error_that_says_so(own_cache, monkeypatch):
    refusing(monkeypatch, lambda dir: True, OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(CompilerError, match="No space left on device"):
        called("c")
    assert "Python" in repr(called("auto"))


def build_at_once(barrier, results, own_cache, cc):
    os.environ["XDG_CACHE_HOME"], os.environ["CC"] = str(own_cache.parent), cc
    barrier.wait()
    results.put(built())


@needs_compiler
def test_two_processes_may_build_the_same_at_once(own_cache, fake):
    calls = fake('sleep 0.3; exec $REAL "$@"')
    shutil.copytree(own_cache.parent.parent / "probed" / "micrograd", own_cache)
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(2), context.Queue()
    processes = [
        context.Process(target=build_at_once, args=(barrier, results, own_cache, os.environ["CC"])) for _ in range(2)
    ]
    for process in processes:
        process.start()
    assert [results.get(timeout=60) for _ in processes] == [42, 42]
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert calls() == 2
    assert [built(), calls()] == [42, 2]
    assert len(files(own_cache)) == len(list(own_cache.iterdir())) == 2  # with what the compiler was tried on


def keep_building(own_cache, cc, limit, numbers, results):
    """Build and use libraries, and ask each what it is as long as another process may remove it."""
    os.environ["XDG_CACHE_HOME"], os.environ["CC"], toolchain.LIMIT = str(own_cache.parent), cc, limit
    libraries = {n: toolchain.build(answer(n)) for n in numbers}
    results.put([toolchain.build(answer(n)).answer() for n in numbers] + [libraries[n].answer() for n in numbers])


@needs_compiler
def test_processes_may_use_and_tidy_a_cache_at_once(own_cache, fake):
    fake('exec $REAL "$@"')
    built(1)
    size = files(own_cache)[0].stat().st_size
    limit = 2 * size + size // 2
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    numbers = [1, 2, 3, 4]
    processes = [
        context.Process(target=keep_building, args=(own_cache, os.environ["CC"], limit, order, results))
        for order in (numbers, numbers[::-1])
    ]
    for process in processes:
        process.start()
    assert sorted(results.get(timeout=120) for _ in processes) == [numbers * 2, numbers[::-1] * 2]
    for process in processes:
        process.join(60)
    assert 1 <= len(files(own_cache)) <= 3
    assert len(files(own_cache)) == len(list(own_cache.iterdir()))


@needs_compiler
def test_the_libraries_that_were_used_least_recently_are_removed_above_the_limit(own_cache, fake, monkeypatch):
    calls = fake('exec $REAL "$@"')
    for n in (1, 2, 3):
        built(n)
        for file in files(own_cache):  # all of them longer ago
            os.utime(file, ns=(0, file.stat().st_mtime_ns - 10**10))
    size = files(own_cache)[0].stat().st_size
    assert built(1) == 1  # which is used again
    monkeypatch.setattr(toolchain, "LIMIT", 3 * size)
    assert [built(4), calls(), len(files(own_cache))] == [4, 4, 3]
    assert [built(1), built(3), built(4), calls()] == [1, 3, 4, 4]
    assert [built(2), calls()] == [2, 5]
    monkeypatch.setattr(toolchain, "LIMIT", size - 1)
    assert [built(5), files(own_cache)] == [5, []]


KILLED = """
from micrograd.compiler.native import toolchain
toolchain.build("int answer(void) { return 1; }")
"""


@needs_compiler
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="a process cannot be killed by a signal")
@pytest.mark.parametrize("cached", [True, False], ids=["a cache", "no cache"])
def test_what_killed_processes_leave_is_removed_later(own_cache, fake, monkeypatch, tmp_path, cached):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    if not cached:
        own_cache.parent.mkdir()
        own_cache.write_text("in place of the directory")
    fake(f"touch {tmp_path}/begun; sleep 60")
    environment = {**os.environ, "TMPDIR": str(temporary)}
    process = subprocess.Popen([sys.executable, "-c", KILLED], env=environment, start_new_session=True)
    while not (tmp_path / "begun").exists():
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    directory = own_cache if cached else temporary
    (left,) = directory.iterdir()
    fake('exec $REAL "$@"')
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    assert [built(2), left.exists()] == [2, True]  # for it may be at work
    os.utime(left, (0, time.time() - toolchain.ABANDONED - 1))
    assert [built(3), left.exists()] == [3, False]


@needs_compiler
def test_a_library_that_another_process_removes_meanwhile_is_built_again_without_a_word(
    own_cache, fake, monkeypatch, caplog
):
    calls = fake('exec $REAL "$@"')
    built()
    true = toolchain._file_name

    def removed(key, content):
        for file in files(own_cache):
            file.unlink()
        return true(key, content + b"?") if calls() == 1 else true(key, content)

    monkeypatch.setattr(toolchain, "_file_name", removed)
    assert [built(), calls(), caplog.text] == [42, 2, ""]


@needs_compiler
def test_a_slow_compilation_says_that_it_is_under_way(own_cache, fake, monkeypatch, caplog):
    monkeypatch.setattr(toolchain, "PATIENCE", 0.05)
    fake('sleep 0.5; exec $REAL "$@"')
    built()
    assert re.search(r"still compiling 1 lines of C with .*fake-cc", caplog.text)


@needs_compiler
def test_ziglang_is_called_by_its_name_and_not_by_that_of_python(own_cache, fake, monkeypatch, caplog):
    fake('[ "$1" = ziglang ] && shift; sleep 0.5; exec $REAL "$@"')
    monkeypatch.setenv("CC", f"{os.environ['CC']} ziglang")
    monkeypatch.setattr(toolchain, "PATIENCE", 0.05)
    built()
    assert "lines of C with ziglang; the first time can take a minute or two" in caplog.text


def test_a_slow_trace_says_that_it_is_under_way(monkeypatch, caplog):
    monkeypatch.setattr(toolchain, "PATIENCE", 0.05)
    micrograd.compile(lambda x: time.sleep(0.5) or x, (1.0,), backend="python")
    assert "still tracing the function" in caplog.text


def test_nothing_is_said_of_what_is_quick(caplog):
    micrograd.compile(lambda x: x, (1.0,), backend="python")
    assert caplog.text == ""


def test_a_processor_that_linux_does_not_describe_is_asked_of_python(monkeypatch):
    def missing(path):
        raise FileNotFoundError(path)

    monkeypatch.setattr(Path, "read_text", missing)
    monkeypatch.setattr(toolchain.platform, "processor", lambda: "abacus")
    assert toolchain._processor.__wrapped__() == "abacus"


def test_a_machine_of_another_kind_gets_no_flags_of_this_one(own_cache, fake, monkeypatch, tmp_path):
    fake(f'echo "$@" > {tmp_path}/arguments; exit 1')
    for machine, there in (("x86_64", True), ("aarch64", False)):
        monkeypatch.setattr(toolchain.platform, "machine", lambda machine=machine: machine)
        with pytest.raises(CompilerError):
            built()
        assert ("-mprefer-vector-width=512" in (tmp_path / "arguments").read_text()) == there
    assert "-ffast-math" not in (tmp_path / "arguments").read_text()


AGAIN = """
from micrograd import Value, compile, dot, losses, where

ws = [Value(0.1 * i - 0.3) for i in range(40)]

def function(xs, y):
    hidden = [dot(ws[4 * i : 4 * i + 4], xs).tanh() for i in range(10)]
    chosen = [where(x > 0.1, x.exp(), 7.5 * w) for x, w in zip(hidden, ws)]
    return losses.cross_entropy(chosen, y) + sum(w * w for w in ws)

fast = compile(function, ([0.1] * 4, 3), parameters=ws, backend="c")
fast([0.1] * 4, 3)
fast.backward([[0.1] * 4] * 40, [3] * 40)
fast.value_and_grad([0.1] * 4, 3)
"""


@needs_compiler
def test_the_next_process_finds_what_the_last_one_compiled(own_cache):
    found = []
    for seed in "0", "1":
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run(
            [sys.executable, "-c", AGAIN], env=environment, cwd=Path(__file__).parents[3], check=True, timeout=120
        )
        found.append(files(own_cache))
    assert len(found[0]) == 4  # one for each kind of call, and the one that tells whether the compiler works
    assert found[1] == found[0]


@needs_compiler
def test_another_text_in_c_is_another_library(own_cache, monkeypatch):
    assert compiled("c")(1.0) == 2.0
    monkeypatch.setitem(c.PARTS, "run", c.PARTS["run"].replace("OUTPUTS + i] =", "OUTPUTS + i] = 10.0 *"))
    assert compiled("c")(1.0) == 20.0


@needs_compiler
def test_threads_may_build_at_once(own_cache):
    values, barrier = [], threading.Barrier(4)

    def work():
        barrier.wait()
        values.append(built())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert values == [42] * 4
    assert len(files(own_cache)) == 1
