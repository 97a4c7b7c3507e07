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
from pathlib import Path
from types import SimpleNamespace

import pytest

import micrograd
from micrograd import Backend, Value
from micrograd.compiler import CompilerError
from micrograd.compiler.native import toolchain
from micrograd.compiler.passes import lower
from micrograd.compiler.targets.spelling import middles
from tests.helpers import assert_as_engine, has_compiler, needs_compiler, wait_until

# Which compiler is chosen, and how it is called


@pytest.fixture
def shell():
    """Write a program in the language of the shell. `$REAL` is the true compiler, with the usual `$PATH`."""
    if not has_compiler():
        pytest.skip("there is no C compiler here")
    path = os.environ["PATH"]
    real = shlex.join(toolchain.find_compiler(os.environ.get("CC"), path).command)

    def write(file, script):
        file.write_text(f'#!/bin/sh\nREAL="{real}"\nNAME="{file.name}"\nPATH="{path}"\n{script}\n')
        file.chmod(0o755)
        return str(file)

    return write


@pytest.fixture
def programs(shell, tmp_path, monkeypatch):
    """Make shell scripts the only programs there are, without ziglang."""
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(directory))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(toolchain.importlib.util, "find_spec", lambda name: None)
    return lambda name, script, directory=directory: shell(directory / name, script)


def found(cc=None):
    return toolchain.find_compiler.__wrapped__(cc, os.environ["PATH"])


NAMED = '[ "$1" = --version ] && { echo "$NAME 1.0"; exit 0; }\n'
BUILDS = NAMED + 'exec $REAL "$@"'
BROKEN = NAMED + 'echo "$NAME: no headers" >&2; exit 1'
KNOWS = Path(__file__).with_name("knows.sh").read_text()
WIDEST = "-march=native -mprefer-vector-width=512"


@pytest.mark.parametrize(("flags", "native"), [
    ("-march=native -mcpu=native", WIDEST), ("-march=native", WIDEST), ("-mcpu=native",) * 2, ("", "")
])  # fmt: skip
def test_a_compiler_is_given_the_flags_that_it_knows(programs, flags, native):
    programs("cc", f'KNOWN="{flags}"\n{KNOWS}')
    assert found().native == tuple(native.split())
    assert toolchain.build("int answer(void) { return 42; }\n")().answer() == 42


ZIG = {"python of its own": f"shift 3\n{BUILDS}"}
MAC = {"cc": BUILDS, "clang": BUILDS}  # where a program in /usr/bin, as this cc, may open a dialog
CHOSEN = {
    "the first": ({"cc": BUILDS, "gcc": BUILDS}, "linux", "cc"),
    "the next, if one cannot build": ({"cc": BROKEN, "gcc": BUILDS}, "linux", "gcc"),
    "not ziglang": ({"cc": BUILDS} | ZIG, "linux", "cc"),
    "ziglang at last": ({"cc": BROKEN, "gcc": BROKEN, "clang": BROKEN} | ZIG, "linux", *ZIG),
    "ziglang first on Windows": ({"cc": BUILDS} | ZIG, "win32", *ZIG),
    "Apple's": (MAC | {"xcode-select": "echo /Library/Developer"}, "darwin", "cc"),
    "not Apple's without developer tools": (MAC | {"xcode-select": "exit 2"}, "darwin", "clang"),
    "not Apple's without what tells": (MAC, "darwin", "clang"),
}


@pytest.mark.parametrize(("there", "system", "chosen"), CHOSEN.values(), ids=CHOSEN)
def test_a_compiler_is_chosen(programs, monkeypatch, there, system, chosen):
    for name, script in there.items():
        program = programs(name, script)
        if name in ZIG:
            monkeypatch.setattr(toolchain.importlib.util, "find_spec", lambda name: name == "ziglang")
            monkeypatch.setattr(sys, "executable", program)
    which = shutil.which
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/cc" if name == "cc" else which(name))
    command = found().command
    assert (Path(command[0]).name, command[1:]) == (chosen, ("-m", "ziglang", "cc") if chosen in ZIG else ())


def test_if_none_can_build_each_says_why(programs):
    programs("cc", BROKEN)
    programs("clang", BROKEN)
    with pytest.raises(CompilerError, match=r"(?s)install gcc.*failed:\ncc: no headers\n.*failed:\nclang: no headers"):
        found()


def test_cc_may_be_a_path_with_spaces_or_a_command_with_options(programs, tmp_path):
    directory = tmp_path / "Program Files"
    directory.mkdir()
    clang = programs("clang", BUILDS, directory)
    assert found(clang).command == (clang,)
    programs("clang", BUILDS)
    assert found("clang -O1").command == ("clang", "-O1")
    assert (found("clang").native, found("clang -march=x86-64").native) == (tuple(WIDEST.split()), ())


@pytest.fixture
def fake(shell, tmp_path, monkeypatch):
    """Make `$CC` a script that was found to work; it notes each call in a file."""

    def make(script, name="fake-cc"):
        calls = tmp_path / f"{name}-calls"
        monkeypatch.setenv("CC", shell(tmp_path / name, BUILDS))
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_CACHE_HOME", str(tmp_path / "probed"))
            toolchain.find_compiler(os.environ["CC"], os.environ["PATH"])
        shell(tmp_path / name, f'{NAMED}echo call >> "{calls}"\n{script}')
        return lambda: len(calls.read_text().splitlines()) if calls.exists() else 0

    return make


# What it builds, and keeps


def answer(n):
    return f"int answer(void) {{ return {n}; }}\n"


def built(n=42):
    return toolchain.build(answer(n))().answer()


def files(own_cache):
    return sorted(path for path in own_cache.iterdir() if path.suffix == ".so")


def compiled(backend):
    return micrograd.compile(lambda x: 2 * x, (1.0,), backend=backend)


def called(backend):
    """A function whose library for single calls has been built."""
    fast = compiled(backend)
    assert fast(1.0) == 2.0
    return fast


def test_without_a_compiler_c_says_what_to_install_and_auto_is_python(own_cache, monkeypatch, tmp_path, caplog):
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(toolchain.importlib.util, "find_spec", lambda name: None)
    for backend in "c", Backend("c", precision="single"):
        with pytest.raises(CompilerError, match=r'here: install gcc or clang, or pip install ziglang, or .*"python"'):
            compiled(backend)
    assert compiled(Backend("auto", precision="single"))(0.1) == 0.2
    assert "compiled to Python instead of C, in double precision: no C compiler works here" in caplog.text
    caplog.clear()
    for _ in range(3):
        fast = compiled("auto")
        assert fast(2.0) == 4.0
        assert "Python" in repr(fast)
    assert [record.levelname for record in caplog.records if "compiled to Python" in record.message] == ["WARNING"]


NO_COMPILERS = {"": "", "garbage": "\x00\x01garbage", "no interpreter": "#!/nonexistent/interpreter\n"}


@pytest.mark.parametrize("cc", ["/nonexistent/cc", "no-such-compiler-here", 'gcc "', "  ", "false", *NO_COMPILERS])
def test_a_wrong_cc_is_named(own_cache, monkeypatch, tmp_path, cc):
    if cc in NO_COMPILERS:
        file = tmp_path / "cc"
        file.write_text(NO_COMPILERS[cc])
        file.chmod(0o755)
        cc = str(file)
    monkeypatch.setenv("CC", cc)
    with pytest.raises(CompilerError, match=re.escape(f"no C compiler works here: $CC is {cc!r}; unset or")):
        compiled("c")
    assert "Python" in repr(compiled("auto"))


def test_what_a_failing_compiler_says_is_passed_on(own_cache, fake):
    fake(r"printf 'no \377 way: garbage\n' >&2; exit 1")
    with pytest.raises(CompilerError, match=r"fake-cc .* failed:\nno \ufffd way: garbage"):
        called("auto")
    assert list(own_cache.iterdir()) == []
    fake("seq -w 9999 >&2; exit 1")
    with pytest.raises(CompilerError) as error:
        called("c")
    assert str(error.value).partition(" failed:\n")[2] == "".join(f"{n}\n" for n in range(9600, 10000))


@pytest.mark.parametrize("done", [":", 'echo garbage > "$2"', ': > "$2"'], ids=["nothing", "garbage", "an empty file"])
def test_a_compiler_that_only_claims_success_is_found_out(own_cache, fake, done):
    fake(f'while [ "$1" != -o ]; do shift; done; {done}')
    with pytest.raises(CompilerError, match="cannot be built"):
        called("auto")
    assert list(own_cache.iterdir()) == []


def test_a_library_is_compiled_once_for_each_text_compiler_flag_and_processor(own_cache, fake, monkeypatch):
    calls = fake('exec $REAL "$@"')
    assert [built(), built(), calls()] == [42, 42, 1]
    assert [built(43), calls()] == [43, 2]
    assert len(list(own_cache.iterdir())) == len(files(own_cache)) == 2
    assert stat.S_IMODE(own_cache.stat().st_mode) == 0o700
    calls = fake('exec $REAL "$@"', name="another-cc")
    assert [built(), calls()] == [42, 1]
    monkeypatch.setattr(toolchain, "FLAGS", [*toolchain.FLAGS, "-O1"])
    assert [built(), calls()] == [42, 2]
    monkeypatch.setattr(toolchain, "_processor", lambda: "another")
    assert [built(), calls()] == [42, 3]


@pytest.mark.parametrize("content", [b"", b"garbage"])
def test_a_damaged_library_is_built_anew(own_cache, fake, content):
    calls = fake('exec $REAL "$@"')
    built()
    (file,) = files(own_cache)
    file.unlink()  # a library that is loaded already must not be written into
    file.write_bytes(content)
    assert [built(), calls(), built(), calls()] == [42, 2, 42, 2]


def no_home(cache, monkeypatch):
    def home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", home)


def failing_in_the_cache(where, name, error):
    def make(cache, monkeypatch):
        def failing(*args):
            if str(cache) in str(args):
                raise error
            return function(*args)

        cache.mkdir(parents=True, mode=0o700)
        function = getattr(where, name)
        monkeypatch.setattr(where, name, failing)

    return make


NO_CACHE = [
    (lambda cache, patch: [cache.mkdir(parents=True), cache.chmod(0o770)], "others can write to it"),
    (lambda cache, patch: [cache.mkdir(0o700, True), patch.setattr(os, "getuid", lambda: 12345)],
     "owned by someone else"),
    (lambda cache, patch: [cache.parent.mkdir(), cache.write_text("mine")], "exists"),
    (no_home, "home directory"),
    (failing_in_the_cache(Path, "write_text", PermissionError(errno.EACCES, "denied")), "denied"),  # even for root
    (failing_in_the_cache(toolchain, "_run", CompilerError("cc failed:\nNo space left on device")), "No space left"),
]  # fmt: skip


@needs_compiler
@pytest.mark.parametrize(("make", "reason"), NO_CACHE)
def test_without_a_cache_of_the_users_own_libraries_are_built_elsewhere(own_cache, monkeypatch, caplog, make, reason):
    make(own_cache, monkeypatch)
    caplog.set_level(logging.INFO, "micrograd")
    assert built() == 42
    assert reason in caplog.text
    assert not own_cache.is_dir() or not [*own_cache.iterdir()]


@needs_compiler
def test_where_there_are_no_user_ids_a_cache_is_the_users_own(own_cache, monkeypatch):
    monkeypatch.delattr(os, "getuid")
    assert built() == 42
    assert len(files(own_cache)) == 1


@pytest.mark.parametrize(("system", "place"), [("linux", ".cache"), ("darwin", "Library/Caches")])
def test_the_cache_is_where_the_system_has_caches(monkeypatch, tmp_path, system, place):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert toolchain._cache_directory() == tmp_path / place / "micrograd"


def in_a_process(own_cache, cc, barrier, limit, results, numbers):
    """Build libraries and use them, again after another process may have removed them."""
    os.environ["XDG_CACHE_HOME"], os.environ["CC"], toolchain.LIMIT = str(own_cache.parent), cc, limit
    barrier.wait()
    libraries = [toolchain.build(answer(n))() for n in numbers]
    results.put([*map(built, numbers), *(library.answer() for library in libraries)])


@pytest.mark.parametrize("numbers", [[[1], [1]], [[1, 2, 3, 4], [4, 3, 2, 1]]], ids=["the same", "above the limit"])
def test_two_processes_may_build_at_once(own_cache, fake, numbers):
    fake('sleep 0.1; exec $REAL "$@"')
    shutil.copytree(own_cache.parent.parent / "probed" / "micrograd", own_cache)  # what the compiler was tried on
    limit = 3 * files(own_cache)[0].stat().st_size
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(2), context.Queue()
    shared = own_cache, os.environ["CC"], barrier, limit, results
    processes = [context.Process(target=in_a_process, args=(*shared, order)) for order in numbers]
    for process in processes:
        process.start()
    assert sorted(results.get(timeout=600) for _ in processes) == sorted(order * 2 for order in numbers)
    for process in processes:
        process.join(600)
        assert process.exitcode == 0
    assert len(files(own_cache)) == len(list(own_cache.iterdir())) <= 3


def test_the_oldest_libraries_are_removed_above_the_limit(own_cache, fake, monkeypatch):
    calls = fake('exec $REAL "$@"')
    for n in (1, 2, 3):
        built(n)
        for file in files(own_cache):  # all of them longer ago
            os.utime(file, ns=(0, file.stat().st_mtime_ns - 10**10))
    size = files(own_cache)[0].stat().st_size
    monkeypatch.setattr(toolchain, "LIMIT", 3 * size)
    assert [built(4), calls(), len(files(own_cache))] == [4, 4, 3]
    assert [built(2), built(3), built(4), calls()] == [2, 3, 4, 4]
    assert [built(1), calls()] == [1, 5]
    monkeypatch.setattr(toolchain, "LIMIT", size - 1)
    assert [built(5), files(own_cache)] == [5, []]


KILLED = """
from micrograd.compiler.native import toolchain
toolchain.build("int answer(void) { return 1; }")()
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="a process cannot be killed by a signal")
def test_a_compiler_ends_with_the_process_that_started_it_and_leaves_nothing(own_cache, fake, tmp_path):
    fake(f"(trap 'touch {tmp_path}/ended; exit' TERM; touch {tmp_path}/begun; sleep 60 & wait) & wait")
    process = subprocess.Popen([sys.executable, "-c", KILLED])
    wait_until(lambda: (tmp_path / "begun").exists())
    assert len([*own_cache.iterdir()]) == 1
    process.kill()
    process.wait()
    wait_until(lambda: (tmp_path / "ended").exists() and not [*own_cache.iterdir()])


@pytest.mark.parametrize(
    ("words", "name"), [("", ".*fake-cc"), (" ziglang", "ziglang; the first time can take a minute or two")]
)
def test_a_slow_compilation_says_that_it_is_under_way(own_cache, fake, monkeypatch, caplog, words, name):
    said = own_cache.parent / "said"
    slow = f"[ $1 = --version ] || until [ -e {said} ]; do sleep 0.01; done"
    fake(f'[ "$1" = ziglang ] && shift; {slow}; exec $REAL "$@"')
    monkeypatch.setenv("CC", f"{os.environ['CC']}{words}")
    monkeypatch.setattr(toolchain, "PATIENCE", 0.05)
    monkeypatch.setattr(toolchain.log, "warning", lambda *words: toolchain.log.error(*words) or said.touch())
    built()
    assert re.search(rf"still compiling \d lines of C with {name}", caplog.text)


def test_a_slow_trace_says_that_it_is_under_way_and_a_quick_one_nothing(monkeypatch, caplog):
    monkeypatch.setattr(toolchain, "PATIENCE", 600.0)
    micrograd.compile(lambda x: x, (1.0,), backend="python")
    assert caplog.text == ""
    monkeypatch.setattr(toolchain, "PATIENCE", 0.05)

    def function(x):
        wait_until(lambda: caplog.text)
        return x

    micrograd.compile(function, (1.0,), backend="python")
    assert "still tracing function" in caplog.text
    caplog.clear()
    micrograd.compile(micrograd.hessian(function), (1.0,), backend="python", sparse=True)
    assert "still tracing hessian" in caplog.text


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
            [sys.executable, "-c", AGAIN], env=environment, cwd=Path(__file__).parents[3], check=True, timeout=600
        )
        found.append(files(own_cache))
    assert len(found[0]) == 4  # one for each kind of call, and the one that tells whether the compiler works
    assert found[1] == found[0]


@pytest.mark.parametrize("sizes", [[5], [0, 0], [15, 7, 6, 6, 5], [23, 14, 10, 5], [9] * 12])
@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_each_compiler_has_about_as_much_of_a_text(sizes, jobs):
    found = middles({str(i): size * 100 * "x" for i, size in enumerate(sizes)})
    shares = [0] * jobs
    for i, size in enumerate(sizes):
        shares[found[str(i)] * jobs // 1000] += size  # as MINE has it in runtime.c
    assert max(shares) <= sum(sizes) / jobs + max(sizes)
    assert min(found.values()) < 1000 / jobs or jobs > len(sizes)
    assert [*found] == [str(i) for i in sorted(range(len(sizes)), key=lambda i: -sizes[i])]


@needs_compiler
@pytest.mark.parametrize("n", [1, 40], ids=["an example", "lanes"])
def test_several_compilers_share_a_long_text(n, own_cache, monkeypatch):
    commands, run = [], toolchain._run
    monkeypatch.setattr(lower, "LINES", 2)  # of each function
    monkeypatch.setattr(lower, "REFERENCES", 4)
    monkeypatch.setattr(toolchain, "LONG", 100)
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    monkeypatch.setattr(toolchain, "_run", lambda given, files: commands.append(len(given)) or run(given, files))
    ws = [Value(0.1 * i - 0.3) for i in range(8)]

    def model(x):
        return micrograd.sum([(w * x).tanh() * (x + i).exp() ** w for i, w in enumerate(ws)])

    fast = micrograd.compile(model, (1.0,), parameters=ws, backend="c")
    assert_as_engine(fast, model, [0.1 * i for i in range(n)])
    assert max(commands) > 1
    assert not [path for path in own_cache.iterdir() if path.suffix not in (".so", ".h")]


@pytest.mark.parametrize(("thread", "beside", "jobs"), [
    ("MainThread", 0, 2), ("MainThread", 1, 2), ("MainThread", 2, 1),
    (toolchain.BUILDER, 1, 1), (toolchain.BUILDER, 2, 0),
])  # fmt: skip
def test_a_build_that_python_waits_for_leaves_others_half_a_processor_each(thread, beside, jobs, monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    threads = [SimpleNamespace(name=toolchain.BUILDER)] * beside
    its = SimpleNamespace(enumerate=lambda: threads, current_thread=lambda: SimpleNamespace(name=thread))
    monkeypatch.setattr(toolchain, "threading", its)
    assert toolchain._jobs("#if MINE\n" * 4 * toolchain.LONG) == jobs
