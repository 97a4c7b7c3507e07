"""GradBench: 12 programs by other people, written as users of each library would write them, against PyTorch and JAX.

We wrote the programs of github.com/gradbench/gradbench from their descriptions. They run at their default sizes, on
random data of the same shape, in doubles and on one processor. All results have to agree to a relative 1e-8 first.
Ratios are the others' medians over ours, so above 1 we are ahead. "To compile" is the time to trace, compile and run
once, with an empty cache. PyTorch is left out where its loops in Python take a minute. C++ by hand and Tapenade were
measured once, on 24 November, on another machine (2 shared cores with AVX2), with GradBench's own programs: their
ratios compare with our code of that day.
"""

import os
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from tests.benchmarks.gradbench import clusters, descent, geometry, libraries, steps, sums
from tests.benchmarks.gradbench.problem import Problem, Task
from tests.benchmarks.harness import Benchmark, Contestant, Measure, compilation, repeated

OURS, PYTORCH, JAX = "micrograd", "PyTorch", "JAX"
LIBRARIES = {PYTORCH: ("torch", libraries.PyTorch), JAX: ("jax", libraries.JAX)}
CPP, TAPENADE = "C++ by hand", "Tapenade"


class Program(NamedTuple):
    """A program: our version, the version for array libraries, how many arguments to differentiate with respect to, and
    which libraries to run against."""

    ours: Callable[..., Problem | Task]
    theirs: Callable[..., Problem | Task]
    by: int = 0
    others: tuple[str, ...] = (PYTORCH, JAX)


class Row(NamedTuple):
    """A program at one size, and how many times as long others took on the day they were measured."""

    program: Program
    size: tuple[int, ...] = ()
    cpp: float = 0.0
    tapenade: float = 0.0


GMM = Program(clusters.our_gmm, clusters.their_gmm, 4)
WHOLE_GMM = Program(partial(clusters.our_gmm, whole=True), clusters.their_gmm, 4)
HT = Program(geometry.our_ht, geometry.their_ht)
BA = Program(geometry.our_ba, geometry.their_ba)
LSTM = Program(steps.our_lstm, steps.their_lstm, 2)
ODE, ODE_GRADIENT = (Program(steps.our_ode, steps.their_ode, by) for by in (0, 1))
COST = Program(clusters.our_kmeans_cost, clusters.their_kmeans_cost)
DIRECTION = Program(clusters.our_kmeans_direction, clusters.their_kmeans_direction)
LLSQ = Program(sums.our_llsq, sums.their_llsq, 1)
LSE, LSE_GRADIENT = (Program(sums.our_lse, sums.their_lse, by) for by in (0, 1))
PARTICLE = Program(descent.our_particle, descent.their_particle, 0, (JAX,))
SADDLE = Program(descent.our_saddle, descent.their_saddle, 0, (JAX,))
DET = Program(sums.our_det, sums.their_det, 1)
HELLO = Program(sums.our_square, sums.their_square, 1)

ROWS = {
    "gmm, gradient: d 10, k 25": Row(GMM, (10, 25), 3.0, 3.5),
    "gmm, gradient: d 64, k 25": Row(GMM, (64, 25), 1.7, 1.7),
    "gmm, gradient: d 64, k 100": Row(GMM, (64, 100), 1.3, 1.5),
    "gmm, gradient: d 10, k 5, one function with its data": Row(WHOLE_GMM, (10, 5)),
    "ht, jacobian: 100 points": Row(HT, (100,), 110, 1600),
    "ht, jacobian: 1,600 points": Row(HT, (1600,)),
    "ht, jacobian: 12,800 points": Row(HT, (12800,)),
    "ba, jacobian: 31,843 observations": Row(BA, (49, 7776, 31843), 0.54, 1.6),
    "ba, jacobian: 225,911 observations": Row(BA, (257, 65132, 225911)),
    "ba, jacobian: 383,937 observations": Row(BA, (88, 64298, 383937), 1.7, 2.8),
    "lstm, gradient: 2 layers, 1,024 steps": Row(LSTM, (2, 1024), 0.19, 0.11),
    "lstm, gradient: 2 layers, 4,096 steps": Row(LSTM, (2, 4096)),
    "lstm, gradient: 6 layers, 1,024 steps": Row(LSTM, (6, 1024)),
    "ode, value: n 1,000, s 10": Row(ODE, (1000, 10, 0), 0.09),
    "ode, value: n 1,000, s 100": Row(ODE, (1000, 100, 0)),
    "ode, value: n 10,000, s 10": Row(ODE, (10000, 10, 0)),
    "ode, gradient: n 1,000, s 10": Row(ODE_GRADIENT, (1000, 10, 1)),
    "ode, gradient: n 1,000, s 100": Row(ODE_GRADIENT, (1000, 100, 1)),
    "ode, gradient: n 10,000, s 10": Row(ODE_GRADIENT, (10000, 10, 1)),
    "kmeans, cost: k 10, n 1,000, d 8": Row(COST, (10, 1000, 8)),
    "kmeans, cost: k 100, n 1,000, d 16": Row(COST, (100, 1000, 16), 0.68),
    "kmeans, cost: k 1,000, n 10,000, d 16": Row(COST, (1000, 10000, 16)),
    "kmeans, direction: k 10, n 1,000, d 8": Row(DIRECTION, (10, 1000, 8), 0.14),
    "kmeans, direction: k 100, n 1,000, d 16": Row(DIRECTION, (100, 1000, 16), 0.23),
    "kmeans, direction: k 1,000, n 10,000, d 16": Row(DIRECTION, (1000, 10000, 16), 0.19),
    "llsq, gradient: m 128, n 16": Row(LLSQ, (128, 16), 0.19),
    "llsq, gradient: m 128, n 1,024": Row(LLSQ, (128, 1024)),
    "llsq, gradient: m 128, n 16,392": Row(LLSQ, (128, 16392), 3.1),
    "lse, value: n 2,500": Row(LSE, (2500,), 0.71),
    "lse, value: n 20,000": Row(LSE, (20000,)),
    "lse, value: n 160,000": Row(LSE, (160000,)),
    "lse, gradient: n 2,500": Row(LSE_GRADIENT, (2500,), 0.43),
    "lse, gradient: n 20,000": Row(LSE_GRADIENT, (20000,), 0.66),
    "lse, gradient: n 160,000": Row(LSE_GRADIENT, (160000,), 0.57),
    "particle": Row(PARTICLE),
    "saddle": Row(SADDLE),
    "det, gradient: 5": Row(DET, (5,), 0.33),
    "det, gradient: 6": Row(DET, (6,), 1.9),
    "det, gradient: 7": Row(DET, (7,), 7.5),
    "hello, derivative": Row(HELLO, (), 0.004),
}


def benchmarks() -> list[Benchmark]:
    """Each row, with the libraries that are installed."""
    return [
        Benchmark(
            title,
            (Contestant(OURS, prepared, (OURS, title)),),
            tuple(Contestant(name, prepared, (name, title)) for name in row.program.others if installed(name)),
            rounds=3,
            tolerance=1e-8,
            earlier={name: ratio for name, ratio in ((CPP, row.cpp), (TAPENADE, row.tapenade)) if ratio},
            is_row=True,
        )
        for title, row in ROWS.items()
    ]


def installed(name: str) -> bool:
    return find_spec(LIBRARIES[name][0]) is not None


def task(who: str, program: Program, size: tuple[int, ...], library: Any) -> Task:
    found = program.ours(*size) if who == OURS else program.theirs(library, *size)
    if not isinstance(found, Problem):
        return found
    return found.ours(program.by) if who == OURS else found.theirs(library, program.by)


def prepared(who: str, title: str) -> Measure:
    """A contestant: its first turn compiles, and the others run. Libraries are imported before."""
    if hasattr(os, "sched_setaffinity"):  # whatever XLA_FLAGS say, JAX shares long loops among all processors it finds
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    import_module("micrograd.compiler.native")
    library = None if who == OURS else LIBRARIES[who][1]()
    row, run, found = ROWS[title], None, 0.0

    def first() -> float:
        nonlocal run
        run = task(who, row.program, row.size, library)
        return checksum(run())

    def measure() -> tuple[float, float]:
        nonlocal found
        if run:
            return repeated(run, lambda: found)()
        cost, found = compilation(first)()
        return cost, found

    return measure


def checksum(result: Any) -> float:
    """One number for all, in which none can cancel another."""
    numbers = flat(result)
    weights = 1 + np.arange(len(numbers)) % 7
    return float((abs(numbers) + numbers / 2) @ weights)


def flat(result: Any) -> Any:
    if isinstance(result, list | tuple):
        return np.concatenate([flat(part) for part in result])
    return np.asarray(result).reshape(-1)
