"""The code of an arm's inverse kinematics on a Cortex-M4, in floats, compiled by ziglang: how many bytes it takes."""

import os
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tests.benchmarks.harness import Benchmark, Contestant, Measure

ARM = [0.1, 0.5, -0.4, 0.3], [0.2, 0.3, 0.4]  # angles and target
TARGET = ("-target", "thumb-linux-musleabihf", "-mcpu=cortex_m4", "-std=c99", "-O2", "-ffunction-sections")


def benchmarks() -> list[Benchmark]:
    """The code of a step, with elimination as ours or with the library's own solution of linear equations."""
    ours = {"exported C, finite=True": True, "exported C": False}
    others = {"CasADi SX, elimination as ours": True, "CasADi SX, its solve": False}
    return [
        Benchmark(
            "code of a step of an arm with four joints, floats on a Cortex-M4",
            tuple(Contestant(name, our_code, (finite,)) for name, finite in ours.items()),
            tuple(Contestant(name, casadi_code, (alike,)) for name, alike in others.items()),
            unit="bytes",
            rounds=1,
        )
    ]


def tip(angles: Any, cos: Callable[[Any], Any], sin: Callable[[Any], Any]) -> list[Any]:
    """Where the tip of the arm on its turntable is."""
    reach = height = slope = 0.0
    for length, angle in zip((0.3, 0.25, 0.15), angles[1:], strict=True):
        slope += angle
        reach += length * cos(slope)
        height += length * sin(slope)
    return [reach * cos(angles[0]), reach * sin(angles[0]), height]


def solved(rows: Any, xs: Any) -> list[Any]:
    """The solution of linear equations, by elimination."""
    if not rows:
        return []
    (pivot, *others), *below = rows
    factors = [row[0] / pivot for row in below]
    rest = [[a - f * b for a, b in zip(row[1:], others, strict=True)] for row, f in zip(below, factors, strict=True)]
    solution = solved(rest, [x - f * xs[0] for x, f in zip(xs[1:], factors, strict=True)])
    return [(xs[0] - sum(a * x for a, x in zip(others, solution, strict=True))) / pivot, *solution]


def moved(rows: Any, angles: Any, error: Any) -> list[Any]:
    """A damped step: angles + J' (J J' + 0.01 I)^-1 error, where J has these rows."""

    def product(xs: Any, ys: Any) -> Any:
        return sum(x * y for x, y in zip(xs, ys, strict=True))

    weights = solved([[product(a, b) + (0.01 if a is b else 0.0) for b in rows] for a in rows], error)
    columns = zip(*rows, strict=True)
    return [angle + product(column, weights) for angle, column in zip(angles, columns, strict=True)]


def our_code(finite: bool) -> Measure:
    """By `export_c`."""
    import micrograd
    from micrograd import jacobian, scalar

    def step(angles: Any, target: Any) -> list[Any]:
        at = partial(tip, cos=scalar.cos, sin=scalar.sin)
        error = [to - x for to, x in zip(target, at(angles), strict=True)]
        return moved(jacobian(at)(angles), angles, error)

    fast = micrograd.compile(step, ARM, finite=finite)
    return code(lambda directory: fast.export_c(directory / "arm.c", precision="single"), sum(fast(*ARM)))


def casadi_code(alike: bool) -> Measure:
    """By `generate`."""
    import casadi

    angles, target = casadi.SX.sym("angles", 4), casadi.SX.sym("target", 3)
    at = casadi.vertcat(*tip(casadi.vertsplit(angles), casadi.cos, casadi.sin))
    jacobian, error = casadi.jacobian(at, angles), target - at
    if alike:
        rows = [[jacobian[i, k] for k in range(4)] for i in range(3)]
        result = casadi.vertcat(*moved(rows, casadi.vertsplit(angles), casadi.vertsplit(error)))
    else:
        squares = casadi.mtimes(jacobian, jacobian.T) + 0.01 * casadi.SX.eye(3)
        result = angles + casadi.mtimes(jacobian.T, casadi.solve(squares, error))
    fast = casadi.Function("arm", [angles, target], [result])

    def export(directory: Path) -> None:
        generator = casadi.CodeGenerator("arm.c", {"casadi_real": "float"})
        generator.add(fast)
        generator.generate(f"{directory}{os.sep}")

    return code(export, float(casadi.sum1(fast(*ARM))))


def code(export: Callable[[Path], object], result: float) -> Measure:
    """The bytes of the functions that compute, without those that tell of inputs and outputs; clang compiles them."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        export(directory)
        command = [sys.executable, "-m", "ziglang", "cc", *TARGET, "-c", "arm.c", "-o", "arm.o"]
        subprocess.run(command, cwd=directory, check=True)
        found = sections((directory / "arm.o").read_bytes())
    size = sum(n for name, n in found.items() if name in (".text.arm", ".text.arm_f0", ".text.arm_forward"))
    return lambda: (size, result)


def sections(image: bytes) -> dict[str, int]:
    """The sections of a 32-bit ELF file, each with its size."""
    (table,), (count, names) = struct.unpack_from("<I", image, 32), struct.unpack_from("<HH", image, 48)
    headers = [struct.unpack_from("<10I", image, table + 40 * i) for i in range(count)]
    start = headers[names][4]
    return {image[start + h[0] : image.index(b"\0", start + h[0])].decode(): h[5] for h in headers}
