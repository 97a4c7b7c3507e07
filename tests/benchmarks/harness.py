"""What all comparisons share: processes that take turns, and medians.

Each contestant runs in a separate process, since libraries clash (two are named micrograd) and disturb each other
(threads, garbage). The processes take turns, A B A B, so that other load on the machine affects all of them equally.
Each keeps Python's default garbage collector settings. Contestants also return the result they computed: a comparison
whose results differ is rejected.
"""

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[2]
LEAST = 0.05  # seconds for which a short task is repeated

Measure = Callable[[], tuple[float, float]]
"""One measurement: what it cost (seconds or bytes), and the result that was computed."""


@dataclass(frozen=True)
class Contestant:
    """One way to do a task: what it is called, and a function of a module with its arguments, numbers, texts or lists.

    The function imports the library, prepares the task and returns the `Measure`.
    """

    name: str
    prepare: Callable[..., Measure]
    arguments: tuple[Any, ...] = ()
    path: Path | None = None  # a directory in which its imports are looked up first


@dataclass(frozen=True)
class Benchmark:
    """One task: what is done, our ways to do it, and those that are compared with each of them."""

    title: str
    ours: tuple[Contestant, ...]
    others: tuple[Contestant, ...] = ()
    unit: str = "s"  # or "lines"
    rounds: int = 5  # in which each is measured, after one to warm up
    tolerance: float = 1e-6  # how much results may differ, in relation to them
    earlier: dict[str, float] = field(default_factory=dict)
    """How many times as much others cost when they were measured once, on another day."""
    is_row: bool = False
    """Whether it is a row in the table of its group, with the cost of the first round, that is, of compiling."""


@dataclass(frozen=True)
class Measured:
    """The results of a benchmark, by the contestants' names, ours first: the median cost, the least and the greatest,
    and the cost of the first round, which warms up."""

    benchmark: Benchmark
    medians: dict[str, float]
    ranges: dict[str, list[float]] = field(default_factory=dict)
    first: dict[str, float] = field(default_factory=dict)

    def ratio(self, name: str, to: str) -> float:
        """How many times as much one contestant costs as another."""
        return self.medians[name] / self.medians[to]


def run(benchmark: Benchmark) -> Measured:
    """Let the contestants take turns.

    Raises
    ------
    RuntimeError
        If they computed different results, or one of them ended.
    """
    contestants = benchmark.ours + benchmark.others
    costs: dict[str, list[float]] = {contestant.name: [] for contestant in contestants}
    first_costs = {}
    with ExitStack() as stack:
        processes = [stack.enter_context(_start(contestant)) for contestant in contestants]
        for i in range(benchmark.rounds + 1):
            results = {}
            for contestant, process in zip(contestants, processes, strict=True):
                cost, results[contestant.name] = _turn(contestant, process)
                if i > 0:
                    costs[contestant.name].append(cost)
                else:
                    first_costs[contestant.name] = cost
            first, *rest = results.values()
            if not all(math.isclose(result, first, rel_tol=benchmark.tolerance) for result in rest):
                raise RuntimeError(f"{benchmark.title}: the contestants computed different results: {results}")
    medians = {name: statistics.median(c) for name, c in costs.items()}
    return Measured(benchmark, medians, {name: [min(c), max(c)] for name, c in costs.items()}, first_costs)


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


def training(
    kind: str,
    step: Callable[[], float],
    gradient: Callable[[], float],
    restart: Callable[[], None],
    gradients: Callable[[], list[float]] = list,
) -> Measure:
    """The measurement of a "step" of training, or of a "gradient", which is forward and backward alone.

    The result is the loss after a step, or a checksum of the gradients.
    """

    def result() -> float:
        restart()
        if kind == "step":
            step()
            return step()
        return gradient() + sum(i * g for i, g in enumerate(gradients()))

    return repeated(step if kind == "step" else gradient, result)


def from_first_step(fit: Callable[[Callable[[int], float]], float], rate: float) -> Measure:
    """The measurement of a training run by `fit` once all is compiled.

    It begins when the schedule, which is given to `fit`, is asked for the rate of the first one.
    """
    from micrograd.optim import constant

    started = 0.0

    def noted(step: int) -> float:
        nonlocal started
        if step == 0:
            started = time.perf_counter()
        return rate

    schedule: Any = constant(rate)
    schedule._rate = noted  # within one of ours, which `fit` may ask for many rates at once

    def measure() -> tuple[float, float]:
        result = fit(schedule)
        return time.perf_counter() - started, result

    return measure


def optimized(
    kind: str,
    gradient: Callable[[], float],
    optimizer: Any,
    set_parameters: Callable[[], None],
    gradients: Callable[[], list[float]],
) -> Measure:
    """The `training` of an optimizer with `zero_grad` and `step`, ours or PyTorch's."""

    def step() -> float:
        optimizer.zero_grad()
        loss = gradient()
        optimizer.step()
        return loss

    def restart() -> None:
        set_parameters()
        optimizer.zero_grad()

    return training(kind, step, gradient, restart, gradients)


def compilation(compile_and_run: Callable[[], float]) -> Measure:
    """The measurement of a compilation, each with an empty cache."""

    def run() -> float:
        with tempfile.TemporaryDirectory() as directory:
            os.environ["XDG_CACHE_HOME"] = directory
            return compile_and_run()

    return timed(run)


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


def _start(contestant: Contestant) -> subprocess.Popen[str]:
    """A process that waits for its turns; leaving its context closes its input, which ends it."""
    function = contestant.prepare
    order = [str(contestant.path or ""), function.__module__, function.__qualname__, *contestant.arguments]
    # NumPy's BLAS chooses the best kernels and blocks for the processor.
    variables = {name: value for name, value in os.environ.items() if not name.startswith("OPENBLAS_")}
    return subprocess.Popen(
        [sys.executable, "-m", __spec__.name, json.dumps(order)],
        cwd=CHECKOUT,
        env={**variables, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},  # one thread, as ours has
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _turn(contestant: Contestant, process: subprocess.Popen[str]) -> tuple[float, float]:
    assert process.stdin
    assert process.stdout
    with suppress(BrokenPipeError):  # has it ended, there is no answer
        os.write(process.stdin.fileno(), b"\n")
    answer = process.stdout.readline()
    if not answer:
        raise RuntimeError(f"{contestant.name} has ended with status {process.wait()}: {process.args}")
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


if __name__ == "__main__":
    _serve()
