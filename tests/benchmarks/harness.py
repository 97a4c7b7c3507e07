"""What all comparisons share: processes that take turns, medians, and a table.

Each contestant lives in a process of its own, since libraries clash (two are named micrograd) and disturb each other
(threads, garbage). The processes take turns, A B A B, so that whatever else the machine does meets all of them alike,
and each keeps its garbage collector as Python sets it. Contestants also give the result they computed: a comparison in
which the results differ is refused.
"""

import json
import math
import os
import platform
import re
import statistics
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[2]
OURS = "micrograd " + tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["version"]
LEAST = 0.05  # seconds for which a short task is repeated

Measure = Callable[[], tuple[float, float]]
"""One measurement: what it cost (seconds, bytes, seconds per sample), and the result that was computed."""


@dataclass(frozen=True)
class Contestant:
    """One library at one task.

    Parameters
    ----------
    name
        The library and its version.
    prepare
        A function of a module: imports the library, prepares the task, returns the `Measure`.
    arguments
        What it is called with: numbers and strings.
    path
        A directory in which its imports are looked up first.
    target
        The ratio, its cost to ours, that we want to reach.
    """

    name: str
    prepare: Callable[..., Measure]
    arguments: tuple[Any, ...] = ()
    path: Path | None = None
    target: float | None = None


@dataclass(frozen=True)
class Benchmark:
    """One task: our contestant first, then those that are compared with it.

    Parameters
    ----------
    title
        What is done.
    contestants
        Ours and the others.
    unit
        "s", "bytes", or such as "samples/s", in which seconds per sample are told.
    target
        The ratio that we want to reach, for the contestants that have none of their own.
    rounds
        How often each is measured, after one round to warm up.
    """

    title: str
    contestants: tuple[Contestant, ...]
    unit: str = "s"
    target: float | None = None
    rounds: int = 11


Conclude = Callable[[list[list[float]]], Iterator[str]]
"""What a module has to say in the end, from the medians of its benchmarks."""


def report(benchmarks: list[Benchmark], conclude: Conclude | None = None) -> Iterator[str]:
    """The lines of a table, each as soon as it is measured."""
    measured = []
    row = "{:<46} {:<24} {:>15} {:>9} {:>9}".format
    yield row("task", "library", "median", "ratio", "target")
    for benchmark in benchmarks:
        medians = _medians(benchmark)
        measured.append(medians)
        for i, (contestant, median) in enumerate(zip(benchmark.contestants, medians, strict=True)):
            ratio = f"{median / medians[0]:.2f}x"
            goal = contestant.target or benchmark.target
            target = "" if i == 0 or goal is None else f"{goal:g}x"
            yield row("" if i else benchmark.title, contestant.name, _format(median, benchmark.unit), ratio, target)
    if conclude:
        yield from conclude(measured)


def timed(task: Callable[[], float]) -> Measure:
    """The measurement of a task's time."""

    def measure() -> tuple[float, float]:
        start = time.perf_counter()
        result = task()
        return time.perf_counter() - start, result

    return measure


def repeated(task: Callable[[], object], result: Callable[[], float]) -> Measure:
    """The measurement of the mean time of a task that takes microseconds. The result is computed apart from it."""

    def measure() -> tuple[float, float]:
        computed = result()
        n, start = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - start) < LEAST:
            task()
            n += 1
        return elapsed / n, computed

    return measure


def installed(requirement: str) -> Path:
    """The directory, outside the checkout, that holds this one package; installed there by pip the first time."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "micrograd-benchmarks"
    directory = cache / requirement
    if not directory.exists():
        partial = cache / f"{requirement}.{os.getpid()}"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(partial), requirement]
        subprocess.run(pip, check=True)
        partial.rename(directory)
    return directory


def machine() -> str:
    """One line on what the numbers were measured on."""
    try:
        cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())[1]  # type: ignore[index]
    except (OSError, TypeError):
        cpu = platform.processor() or platform.machine()
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{python}, {platform.system()} {platform.machine()}, {os.cpu_count()} x {cpu}"


def _medians(benchmark: Benchmark) -> list[float]:
    """The median cost of each contestant."""
    costs: list[list[float]] = [[] for _ in benchmark.contestants]
    with ExitStack() as stack:
        processes = [stack.enter_context(_start(contestant)) for contestant in benchmark.contestants]
        for i in range(benchmark.rounds + 1):
            results = []
            for process, costs_of_one in zip(processes, costs, strict=True):
                cost, result = _turn(process)
                results.append(result)
                if i > 0:
                    costs_of_one.append(cost)
            if not all(math.isclose(result, results[0], rel_tol=1e-6) for result in results):
                raise RuntimeError(f"{benchmark.title}: the contestants computed different results: {results}")
    return [statistics.median(c) for c in costs]


def _start(contestant: Contestant) -> subprocess.Popen[str]:
    """A process that waits for its turns; leaving its context closes its input, which ends it."""
    function = contestant.prepare
    order = [str(contestant.path or ""), function.__module__, function.__qualname__, *contestant.arguments]
    return subprocess.Popen(
        [sys.executable, "-m", __spec__.name, json.dumps(order)],
        cwd=CHECKOUT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _turn(process: subprocess.Popen[str]) -> tuple[float, float]:
    """One measurement."""
    assert process.stdin
    assert process.stdout
    process.stdin.write("\n")
    process.stdin.flush()
    answer = process.stdout.readline()
    if not answer:
        raise RuntimeError(f"a contestant has ended with status {process.wait()}: {process.args}")
    cost, result = json.loads(answer)
    return cost, result


def _serve() -> None:
    """The process of a contestant: one measurement for each line that comes in."""
    path, module, function, *arguments = json.loads(sys.argv[1])
    if path:
        sys.path.insert(0, path)
    measure = getattr(import_module(module), function)(*arguments)
    for _ in sys.stdin:
        print(json.dumps(measure()), flush=True)


def _format(cost: float, unit: str) -> str:
    if unit.endswith("/s"):
        return f"{1 / cost:.0f} {unit}"
    if unit != "s":
        return f"{cost:.0f} {unit}"
    for scale, name in ((1, "s"), (1e3, "ms"), (1e6, "us")):
        if cost * scale >= 1:
            return f"{cost * scale:.3g} {name}"
    return f"{cost * 1e9:.3g} ns"


if __name__ == "__main__":
    _serve()
