"""Programs of nested loops, compiled with and without rolling: `python -m tests.fuzz.loops`.

Their strides are positive and negative. They carry values, accumulate in place, look numbers up in a table of
constants, and read what earlier iterations wrote. Eager, straight and rolled code must give the same loss and
gradients, and rolled code must do so with every compiler on this machine, without optimization and at the level in use:
for one example, whose dot products are vectorized, and for many, with one example in each lane.
"""

import os
import random
import shlex
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import patch

import mpmath
from mpmath import mpf

import micrograd
from micrograd import Value, scalar
from micrograd.compiler import CompilerError
from micrograd.compiler.native import library, toolchain
from micrograd.compiler.passes import lower, pipeline, roll
from tests.helpers import backward

ROUNDS = (4, 4, 5, 6, 7, 9, 17, 1, 2)
FEWEST, MOST = 20, 120  # lines that a nest carries out
CELLS = 60
SIZES = {"x": 60, "w": 140, "c": 140}
EXAMPLES = 6  # more than are computed one by one, and no whole number of lanes
LINES = 30  # of C in a function, so that most programs take several
STRAIGHT = 10**9  # rounds that no loop has
TOLERANCE = 1e-12
"""The relative disagreement that is allowed, besides what the rounding errors of the program explain."""
BITS, MARGIN = (36, 39, 42, 45), 16
"""The bits to which a program is rounded to see its errors, and how many times as large they may be."""


class Place(NamedTuple):
    """A number in an array; for each loop around, the outermost first, its round times a stride is added to `base`.

    The arrays are the ones in `run`, but "m" has only the results of earlier nests; "r" has all, the last one first.
    """

    array: str
    base: int
    strides: tuple[int, ...]

    def index(self, rounds: Sequence[int]) -> int:
        return self.base + sum(i * stride for i, stride in zip(rounds, self.strides, strict=True))

    def read(self, memory: Any, rounds: Sequence[int], further: int = 0) -> Any:
        if self.array == "r":
            return memory.m[-1 - (self.base % 3 + further) % len(memory.m)]
        array = getattr(memory, self.array)
        number = array[(self.index(rounds) + further) % (memory.before if self.array == "m" else len(array))]
        return number.tanh() if self.array == "s" else number  # so that no cell grows by itself


KINDS: dict[str, Callable[..., Any]] = {
    "product": lambda u, v, a, b: u * a, "difference": lambda u, v, a, b: 0.5 * a - u * b,
    "sum of products": lambda u, v, a, b: u * a + v * b + 0.1 * u, "squashed": lambda u, v, a, b: (a + b).tanh(),
    "quotient": lambda u, v, a, b: a / (1 + b * b), "branch": lambda u, v, a, b: micrograd.where(a > b, u * a, v * b),
}  # fmt: skip
"""How lines compute what they append to "m"."""
CELL_KINDS: dict[str, Callable[..., Any]] = {
    "total": lambda cell, u, v, a, b: cell + u * a, "total of sums": lambda cell, u, v, a, b: cell + (u * a + v * b),
    "carried": lambda cell, u, v, a, b: 0.5 * cell + u * a, "reset": lambda cell, u, v, a, b: u * a,
}  # fmt: skip
"""How lines compute the next number in a cell."""
DOT = "dot"
"""A fused sum of products of neighbours, forwards or backwards. Lines append it to "m"."""


class Line(NamedTuple):
    """A number computed from two leaves and two other numbers, appended to "m" or put into a cell."""

    kind: str
    leaves: tuple[Place, Place]
    others: tuple[Place, Place]
    cell: Place

    def __call__(self, memory: Any, *rounds: int) -> None:
        if self.kind == DOT:
            n, direction = 4 + self.leaves[1].base % 8, 1 - self.leaves[1].base % 2 * 2
            rows = [
                [place.read(memory, rounds, direction * i) for i in range(n)]
                for place in (self.leaves[0], self.others[0])
            ]
            memory.m.append(micrograd.dot(*rows))
            return
        operands = [place.read(memory, rounds) for place in (*self.leaves, *self.others)]
        if self.kind in KINDS:
            memory.m.append(KINDS[self.kind](*operands))
        else:
            k = self.cell.index(rounds) % CELLS
            memory.s[k] = CELL_KINDS[self.kind](memory.s[k], *operands)


class Loop(NamedTuple):
    """Lines and loops, repeated for so many rounds."""

    rounds: int
    body: "tuple[Line | Loop, ...]"

    def __call__(self, memory: Any, *rounds: int) -> None:
        for i in range(self.rounds):
            for step in self.body:
                step(memory, *rounds, i)


Program = Sequence[Callable[[Any], None]]
"""Nests, one after the other, each a function of the arrays."""


def lines(step: Line | Loop) -> list[Line]:
    """The lines of a nest."""
    return [step] if isinstance(step, Line) else [line for inner in step.body for line in lines(inner)]


def generate(seed: int, index: int) -> tuple[Loop, ...]:
    """The program of that number."""
    rng = random.Random(f"loops {seed} {index}")

    def place(arrays: Sequence[str], rounds: Sequence[int]) -> Place:
        """A place that goes through an array as through a matrix, or less regularly, forwards or backwards."""
        strides, step = [0] * len(rounds), 1
        for loop in rng.sample(range(len(rounds)), rng.choice((1, len(rounds)))):
            strides[loop] = step * rng.choice((1, 1, 1, -1))
            step *= rng.choice((1, rounds[loop], rounds[loop], rounds[loop], 3))
        least = sum(min(0, (n - 1) * stride) for n, stride in zip(rounds, strides, strict=True))
        return Place(rng.choice(arrays), rng.randrange(12) - least, tuple(strides))

    def loop(rounds: tuple[int, ...]) -> Loop:
        steps: list[Line | Loop] = []
        for _ in range(rng.choice((1, 1, 2))):
            if len(rounds) < rng.choice((2, 2, 3, 4)):
                steps.append(loop((*rounds, rng.choice(ROUNDS))))
            else:
                kind = rng.choice((*KINDS, *CELL_KINDS, *CELL_KINDS, DOT))
                leaves, others = (tuple(place(arrays, rounds) for _ in range(2)) for arrays in ("xwwc", "mmxxrs"))
                steps.append(Line(kind, leaves, others, place("s", rounds)))  # type: ignore[arg-type]
        return Loop(rounds[-1], tuple(steps))

    def count(step: Line | Loop) -> int:
        return step.rounds * sum(map(count, step.body)) if isinstance(step, Loop) else 1

    def nest() -> Loop:
        while True:
            found = loop((rng.choice(ROUNDS),))
            if FEWEST <= count(found) <= MOST:
                return found

    return tuple(nest() for _ in range(rng.randint(1, 3)))


def run(program: Program, x: Sequence[Any], w: Sequence[Any], c: Sequence[float]) -> Any:
    """A number that depends on all results, `m`, and on what is left in the cells, `s`."""
    memory = SimpleNamespace(x=x, w=w, c=c, m=list(x), s=[0.5 * number for number in (*x, *w)][:CELLS])
    for nest in program:
        memory.before = len(memory.m)
        nest(memory)
    weights = [c[i % len(c)] for i in range(len(memory.m))]
    return micrograd.dot(memory.m, weights) + micrograd.mean([number * number for number in memory.s])


class Way(NamedTuple):
    """A way to compile a program: into loops of so many rounds at least, by a compiler, at a level, in an order."""

    fewest: int
    compiler: str
    level: str
    order: str = "level"


def ways() -> list[Way]:
    """Straight code and loops by the first compiler here, and loops by the others: gcc, and clang or zig's."""
    zig = f"{shlex.quote(sys.executable)} -m ziglang cc" if find_spec("ziglang") else ""
    first, *others = [cc for cc in (which("gcc"), which("clang") or zig) if cc] or [""]
    if not first:
        raise CompilerError("there is none of gcc, clang and ziglang here")
    level = next(flag for flag in toolchain.FLAGS if flag[:2] == "-O")
    looped = [Way(2, cc, option) for cc in (first, *others) for option in (level, "-O0")]
    others = [Way(2, first, "-O0", order="trace"), Way(2, first, level, order="tables")]
    return [Way(STRAIGHT, first, "-O0"), Way(roll.FEWEST_ROUNDS, first, level), *looped, *others]


def numbers() -> tuple[list[list[float]], list[float], list[float]]:
    """The examples, the parameters and the constants: small, so that programs do not grow."""
    rng = random.Random(0)
    x, w, c = ([rng.uniform(-0.15, 0.15) for _ in range(EXAMPLES * SIZES[array])] for array in "xwc")
    return [x[i::EXAMPLES] for i in range(EXAMPLES)], w[: SIZES["w"]], c[: SIZES["c"]]


def eager(program: Program, number: Callable[[float], Any] = float) -> list[Any]:
    """The loss of all examples, and its gradient; then the gradients of the first one alone."""
    examples, w, c = numbers()
    found: list[Any] = []
    for count in (EXAMPLES, 1):
        ws = [Value(number(p)) for p in w]
        xs = [[Value(number(x)) for x in example] for example in examples[:count]]
        loss = micrograd.mean([run(program, x, ws, c) for x in xs])
        loss.backward(number(1.0))
        found += [loss.data, *(p.grad for p in ws)]
    return [*found, *(x.grad for x in xs[0])]


def compiled(program: Program, way: Way) -> list[float]:
    """The same in C."""
    examples, w, constants = numbers()
    ws = [Value(p) for p in w]
    found: list[float] = []
    flags = [way.level if flag[:2] == "-O" else flag for flag in toolchain.FLAGS]
    with (
        patch.object(roll, "FEWEST_ROUNDS", way.fewest),
        patch.object(toolchain, "FLAGS", flags),
        patch.object(library, "own_code", lambda: repr(way)),  # so that each way builds its own
        patch.multiple(pipeline, MANY_CONSTANTS=4, ORDERS=(way.order,)),
        patch.multiple(lower, LINES=LINES, REFERENCES=2 * LINES),
        patch.dict(os.environ, CC=way.compiler),
    ):
        fast = micrograd.compile(lambda x: run(program, x, ws, constants), (examples[0],), parameters=ws, backend="c")
        for count in (EXAMPLES, 1):
            found += backward(fast, examples[:count])
        _, by_x = fast.value_and_grad(examples[0])
    return [*found, *by_x]


def bounds(program: Program, ours: list[float]) -> list[float]:
    """How far two right answers may be apart: by what rounding to fewer bits changes, as far as it shrinks with them.

    Where rounding decides which way a branch goes, that is as far as the branches are.
    """
    found = []
    with patch.dict(scalar.REGISTERED), patch.dict(scalar.ZEROS):
        scalar.register(mpf, mpmath)
        for bits in BITS:
            with mpmath.workprec(bits):
                rounded = eager(program, mpf)
            found.append([abs(float(x) - y) * 2.0 ** (bits - 53) for x, y in zip(rounded, ours, strict=True)])
    return [MARGIN * max(errors) for errors in zip(*found, strict=True)]


def differences(program: Program, ways: Sequence[Way]) -> list[Way]:
    """The ways that do not give what the eager engine does, within the tolerance and what rounding explains."""
    ours = eager(program)
    allowed = [TOLERANCE * abs(x) + bound for x, bound in zip(ours, bounds(program, ours), strict=True)]

    def agrees(theirs: list[float]) -> bool:
        return all(abs(x - y) <= most for x, y, most in zip(ours, theirs, allowed, strict=True))

    return [way for way in ways if not agrees(compiled(program, way))]


def main() -> int:
    """Compile programs in all ways until one fails; the exit status."""
    parser = ArgumentParser(prog="python -m tests.fuzz.loops", description="Compile random nests of loops.")
    parser.add_argument("--programs", type=int, default=1000, help="how many (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="which ones (default: %(default)s)")
    options, every = parser.parse_args(), ways()
    zigs = os.environ.get("ZIG_GLOBAL_CACHE_DIR") or str(Path.home() / ".cache" / "zig")  # its C library, above all
    with (
        tempfile.TemporaryDirectory() as cache,
        patch.dict(os.environ, XDG_CACHE_HOME=cache, ZIG_GLOBAL_CACHE_DIR=zigs),
    ):
        for number in range(options.programs):
            program = generate(options.seed, number)
            if failed := differences(program, every):
                print(f"program {number} differs: {failed}\n{program}")
                return 1
    print(f"{options.programs:,} programs agree: {every}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
