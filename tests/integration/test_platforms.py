"""Code for other systems, built and run: Windows, ARM and the Mac."""

import math
import os
import random
import shutil
import subprocess
import sys
from array import array
from importlib.util import find_spec
from pathlib import Path

import pytest

import micrograd
from micrograd import Value, scalar
from micrograd.compiler.frontend.graph import traced
from micrograd.compiler.native import loop, toolchain
from micrograd.compiler.native.update import UpdateKernel
from micrograd.compiler.targets.export import export_c
from micrograd.nn import MLP
from micrograd.optim import SGD, Adam
from tests.compiler.native.test_loop import orders
from tests.helpers import grads, leaves
from tests.kernels import c_source
from tests.operations import FUNCTIONS, OPERATORS

pytestmark = pytest.mark.long

CALLER, MAIN = (Path(__file__).with_name(name).read_text() for name in ("caller.c", "shuffles.c"))


class Target:
    """A system to compile for: its compiler, flags for its processor, and the command that runs its programs here."""

    def __init__(self, compiler, native=(), runs=(), suffix="", environment=None):
        self.compiler, self.native, self.runs, self.suffix = list(compiler), list(native), list(runs), suffix
        self.environment = os.environ | (environment or {})

    def compile(self, directory, *arguments):
        self._done(directory, *self.compiler, *map(str, arguments), "-lm")

    def library(self, directory, source):
        """The source, as a library is built."""
        (directory / "program.c").write_text(source)
        file = directory / f"program{self.suffix or '.so'}"
        self.compile(directory, *toolchain.FLAGS, *self.native, "program.c", "-o", file)
        return file

    def call(self, directory, source, numbers, size):
        """What the library gives for these numbers; it is loaded on Windows, and elsewhere a part of the program."""
        (directory / "caller.c").write_text(CALLER)
        if self.suffix == ".dll":
            self.library(directory, source)
            self.compile(directory, "caller.c", "-o", "caller.exe")
        else:
            (directory / "program.c").write_text(source)
            flags = [flag for flag in toolchain.FLAGS if flag not in ("-shared", "-fPIC")]
            self.compile(directory, *flags, *self.native, "-static", "caller.c", "program.c", "-o", "caller.exe")
        return self.run(directory, numbers, size)

    def run(self, directory, numbers, size):
        """The results of the caller."""
        (directory / "numbers").write_bytes(array("d", numbers).tobytes())
        self._done(directory, *self.runs, "./caller.exe", "numbers", "results")
        results = array("d", (directory / "results").read_bytes())
        assert len(results) == size
        return list(results)

    def prints(self, directory, source):
        """The words that a program prints; it ends at once where C leaves undefined what it does."""
        (directory / "program.c").write_text(source)
        trap = "-fsanitize-trap=undefined" if "ziglang" in self.compiler else "-fsanitize-undefined-trap-on-error"
        flags = ["-std=gnu99", "-O1", "-fsanitize=undefined", trap, *([] if self.suffix else ["-static"])]
        self.compile(directory, *flags, "program.c", "-o", "program.exe")
        self._done(directory, *self.runs, "./program.exe")
        return (directory / "output").read_text().split()

    def _done(self, directory, *command):
        with (directory / "output").open("w") as output, (directory / "errors").open("w") as errors:  # with a pipe,
            done = subprocess.run(  # wine's server would keep it open
                command, cwd=directory, env=self.environment, timeout=1200, stdout=output, stderr=errors
            )
        assert done.returncode == 0, (directory / "errors").read_text(errors="replace")[-3000:]


@pytest.fixture(scope="module")
def ziglang(tmp_path_factory):
    """A function that gives the compiler of ziglang for a target. All share one cache, as its first steps are slow."""
    if not find_spec("ziglang"):
        pytest.skip("pip install ziglang")
    cache = os.environ.get("ZIG_GLOBAL_CACHE_DIR") or str(tmp_path_factory.mktemp("zig"))

    def target(name, **options):
        environment = {"ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache, **options.pop("environment", {})}
        command = [sys.executable, "-m", "ziglang", "cc", "-target", name]
        return Target(command, environment=environment, **options)

    return target


@pytest.fixture(scope="module")
def wine(tmp_path_factory):
    """The options of a target whose programs wine runs."""
    program = shutil.which("wine64") or "/usr/lib/wine/wine64"
    if not os.access(program, os.X_OK):
        pytest.skip("apt-get install wine64")
    prefix = str(tmp_path_factory.mktemp("wine") / "prefix")
    environment = {"WINEPREFIX": prefix, "WINEDEBUG": "-all", "WINEDLLOVERRIDES": "mscoree,mshtml="}
    return {"runs": [program], "suffix": ".dll", "environment": environment}


GCC = {"Windows": "x86_64-w64-mingw32-gcc", "aarch64": "aarch64-linux-gnu-gcc"}
ZIGLANG = {"Windows": "x86_64-windows-gnu", "aarch64": "aarch64-linux-musl"}


@pytest.fixture(scope="module", params=["Windows, gcc", "aarch64, gcc", "Windows, ziglang", "aarch64, ziglang"])
def target(request):
    """A system whose programs can be run here."""
    system, compiler = request.param.split(", ")
    if system == "Windows":
        options = {"native": ["-march=native", "-mprefer-vector-width=512"], **request.getfixturevalue("wine")}
    else:
        emulator = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
        options = {"runs": [emulator or pytest.skip("apt-get install qemu-user")]}
    if compiler == "ziglang":
        return request.getfixturevalue("ziglang")(ZIGLANG[system], **options)
    return Target([shutil.which(GCC[system]) or pytest.skip(f"there is no {GCC[system]}")], **options)


def raises(function, x):
    """Whether Python has no number for it."""
    try:
        function(x)
    except (ValueError, ArithmeticError):
        return True
    return False


ROWS = [(row.apply, point) for row in (*FUNCTIONS, *OPERATORS) for point in row.points]
HARD = (-math.inf, -1000.0, -2.0, -1.0, 0.0, 1.0, 2.0, 1000.0, math.inf)
ERRORS = [
    *[(row.apply, x) for row in FUNCTIONS if row.arity == 1 for x in HARD if raises(row.apply, x)],
    (lambda x: x**0.5, -1.0), (lambda x: x**1000, 10.0), (lambda x: x**-1.0, 0.0),
    (lambda x: 2.0**x, 10000.0), (lambda x: 1.0 / x, 0.0), (lambda x: 1.0 % x, 0.0),
]  # fmt: skip
"""What Python has no number for."""


def numbers_of(*parts):
    return [float(x) for part in parts for x in part]


def every(xs):
    """All operations, and those of errors, each of numbers of its own."""
    each = iter(xs)
    return [f(*[next(each) for _ in point]) for f, point in ROWS] + [f(next(each)) for f, _ in ERRORS]


@pytest.mark.parametrize("tile", [0, 1])
def test_every_operation_gives_pythons_numbers_and_errors_in_a_library(target, tmp_path, tile):
    good = [x for _, point in ROWS for x in point] + [1.5 if f is scalar.acosh else 0.5 for f, _ in ERRORS]
    first, width = len(good) - len(ERRORS), 1 + len(ROWS) + len(ERRORS)
    examples = [good]
    for i, (f, x) in enumerate(ERRORS):
        with pytest.raises((ArithmeticError, ValueError)):
            f(Value(x))
        examples.append([*good[: first + i], x, *good[first + i + 1 :]])
    sizes = 0, len(good), width - 1, 1, len(examples)
    source = c_source(traced(every, ((len(good),),), []), "forward", tile)
    results = target.call(tmp_path, source, numbers_of(sizes, *examples), len(examples) * width)
    assert results[0] == 0.0
    assert results[1:width] == pytest.approx(every(good), rel=1e-14)
    assert [flags % 2 for flags in results[width::width]] == [1.0] * len(ERRORS)


def network():
    """The graph of a loss, its parameters, examples, and the losses of all with the gradients of their sum."""
    model = MLP(4, [9, 9, 1])

    def loss(xs):
        return (model(xs[:4]) - xs[4].sin()).softplus() ** 2

    examples = [[math.sin(5 * i + j) for j in range(5)] for i in range(37)]
    losses = [loss(leaves(example)) for example in examples]
    micrograd.sum(losses).backward()
    expected = [*[value.data for value in losses], *grads(model.parameters())]
    return traced(loss, ((5,),), model.parameters()), model.parameters(), examples, expected


@pytest.mark.parametrize(("tile", "threads"), [(0, 1), (1, 1), (4, 1), (1, 3)])
def test_a_network_has_pythons_losses_and_gradients_in_a_library(target, tmp_path, tile, threads):
    graph, parameters, examples, expected = network()
    source = c_source(graph, "backward", tile, threads=threads)
    sizes = len(parameters), 5, 1, len(examples), 1
    numbers = numbers_of(sizes, (p.data for p in parameters), *examples)
    flags, *results = target.call(tmp_path, source, numbers, 1 + len(expected))
    assert flags == 0.0
    assert results == pytest.approx(expected, rel=1e-12, abs=1e-14)


def write_export(directory, graph, parameters):
    header, rest = export_c(graph, [parameter.data for parameter in parameters])
    (directory / "model.h").write_text(header)
    (directory / "model.c").write_text(header + rest)


def test_an_exported_network_has_pythons_numbers(target, tmp_path):
    graph, parameters, examples, expected = network()
    write_export(tmp_path, graph, parameters)
    (tmp_path / "caller.c").write_text(CALLER)
    flags = ["-std=c99", "-O2", "-ffp-contract=off", "-DMODEL", *([] if target.suffix else ["-static"])]
    target.compile(tmp_path, *flags, "caller.c", "model.c", "-o", "caller.exe")
    sizes, rows = (len(parameters), 5, 6, 1, len(examples)), 7 * len(examples)
    numbers = numbers_of(sizes, (p.data for p in parameters), *examples)
    results = target.run(tmp_path, numbers, rows + len(parameters))
    assert results[1:rows:7] + results[rows:] == pytest.approx(expected, rel=1e-12, abs=1e-14)


MAGIC = {
    "aarch64-macos": bytes.fromhex("cffaedfe 0c000001"),
    "x86_64-macos": bytes.fromhex("cffaedfe 07000001"),
    "aarch64-linux-musl": b"\x7fELF",
    "x86_64-windows-gnu": b"MZ",
}
"""How a library for these systems begins."""


@pytest.mark.parametrize("name", MAGIC)
def test_libraries_the_loop_of_a_training_and_exports_build_for(ziglang, tmp_path, name):
    target = ziglang(name)
    graph, parameters, _, _ = network()
    for tile, threads in ((0, 1), (4, 3)):
        file = target.library(tmp_path, c_source(graph, "backward", tile, threads=threads))
        content = file.read_bytes()
        assert content.startswith(MAGIC[name])
        assert b"run\0" in content
        assert b"room\0" in content
    source = loop.source(UpdateKernel(Adam(parameters, clip_grad_norm=1.0)))
    assert b"shuffle\0" in target.library(tmp_path, source).read_bytes()
    write_export(tmp_path, graph, parameters)
    flags = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic"]
    target.compile(tmp_path, *flags, "-c", "model.c", "-o", "model.o")


def test_a_training_is_what_it_is_here_and_shuffles_as_python_does(target, tmp_path):
    """C and Python lay out a job alike: its size and its last field are where ctypes has them."""
    expected = [loop.ctypes.sizeof(loop.LoopArguments), loop.LoopArguments.taken.offset]
    for n, times in (7, 20), (257, 2), (70_000, 1):
        expected += orders(n, times, random.Random(3))
    words = ", ".join(f"{word}u" for word in random.Random(3).getstate()[1])
    source = loop.source(UpdateKernel(SGD([Value(1.0)]))) + MAIN.replace("WORDS", words)
    assert [*map(int, target.prints(tmp_path, source))] == expected
