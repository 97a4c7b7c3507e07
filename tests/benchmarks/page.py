"""The measurements as lines of text, as a page in Markdown, and as charts."""

import json
import os
import platform
import re
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import mode
from typing import Any

import micrograd
from micrograd.compiler.native.toolchain import CompilerError, find_compiler
from tests.benchmarks import charts
from tests.benchmarks.harness import Benchmark, Contestant, Measure, Measured

LIBRARIES = ("numpy", "torch", "scikit-learn", "jax")
BASE, C = "micrograd 0.1.0", "compiled to C"
RIVALS = ("NumPy by hand", "PyTorch", "PyTorch, tightest calls", "PyTorch, batches by index", "MLPClassifier")
"""The contestants that charts show beside ours: with micrograd 0.1.0, and with C."""


def machine() -> str:
    """One line on what the numbers were measured on, and with which versions."""
    try:
        cpu = re.findall(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())[0]
    except (OSError, IndexError):
        cpu = platform.processor() or platform.machine()
    python = f"{platform.python_implementation()} {platform.python_version()}"
    versions = ", ".join([f"micrograd {micrograd.__version__}", python, *map(_version, LIBRARIES), _c_compiler()])
    return f"{versions}; {platform.system()} {platform.machine()}, {os.cpu_count()} x {cpu}"


def table(measured: Measured) -> Iterator[list[str]]:
    """The rows of a table: each contestant, its median, and how many times that of each of ours it is."""
    benchmark = measured.benchmark
    ours = [contestant.name for contestant in benchmark.ours]
    yield [benchmark.title, "median", *[f"times {name}" for name in ours]]
    for name, cost in measured.medians.items():
        yield [name, _told(cost, benchmark.unit), *[charts.times(measured.ratio(name, to)) for to in ours]]


def comparison(group: Sequence[Measured]) -> Iterator[list[str]]:
    """The rows of one table for a group. For each benchmark: our median and range, the others' medians over ours,
    earlier measurements, and the cost of the first round."""
    others = list(dict.fromkeys(name for m in group for name in m.medians if name != m.benchmark.ours[0].name))
    earlier = list(dict.fromkeys(name for m in group for name in m.benchmark.earlier))
    heads = [*(f"{name} ÷ ours" for name in others), *(f"{name}, earlier" for name in earlier)]
    yield ["", "ours", "range", *heads, "to compile", *(f"{name}, to compile" for name in others)]
    for m in group:
        ours = m.benchmark.ours[0].name
        yield [
            m.benchmark.title,
            _told(m.medians[ours], m.benchmark.unit),
            " to ".join(_told(cost, m.benchmark.unit) for cost in m.ranges[ours]),
            *(charts.times(m.ratio(name, ours)) if name in m.medians else "" for name in others),
            *(charts.times(m.benchmark.earlier[name]) if name in m.benchmark.earlier else "" for name in earlier),
            *(f"{m.first[name]:.2g} s" if name in m.first else "" for name in (ours, *others)),
        ]


def in_brief(group: Sequence[Measured]) -> Iterator[str]:
    """For each program of a group, the others' medians over ours, from least to greatest; and where we lose."""
    others = list(dict.fromkeys(other.name for m in group for other in m.benchmark.others))
    ratios: dict[str, dict[str, list[float]]] = {}
    behind = []
    for m in group:
        of_program = ratios.setdefault(m.benchmark.title.partition(":")[0], {name: [] for name in others})
        for other in m.benchmark.others:
            ratio = m.ratio(other.name, m.benchmark.ours[0].name)
            of_program[other.name].append(ratio)
            if ratio < 1:
                behind.append(f"- {m.benchmark.title}: {other.name} takes {charts.times(ratio)} times as long")
    rows = [["", *(f"{name} ÷ ours" for name in others)]]
    for program, found in ratios.items():
        ends = [dict.fromkeys(map(charts.times, (min(r), max(r)))) if r else () for r in found.values()]
        rows.append([program, *map(" to ".join, ends)])
    yield from lines(rows)
    yield "\nWe lose here:\n" if behind else "\nThere is no problem on which we are slower."
    yield from behind


def tables(group: Sequence[Measured]) -> Iterator[Iterator[list[str]]]:
    """The tables of a group: one for each benchmark, or one for all."""
    if all(measured.benchmark.is_row for measured in group):
        yield comparison(group)
    else:
        yield from map(table, group)


def lines(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table in Markdown."""
    for i, row in enumerate(rows):
        yield f"| {' | '.join(row)} |"
        if i == 0:
            yield f"| --- | {' | '.join(['---:'] * (len(row) - 1))} |"


def markdown(machines: dict[str, str], groups: dict[str, tuple[str, list[Measured]]]) -> Iterator[str]:
    """The lines of the page.

    By the name of each group of benchmarks there is what it was measured on; and what it is about, and what came.
    """
    usual = mode(machines.values())
    yield "# How fast\n"
    yield (
        "Medians of contestants that took turns in one run, each in a separate process with one thread, and the ratios "
        "to ours. The machine is shared, so only the ratios are meaningful, not the absolute times. One command writes "
        "this page and its charts, in a checkout:\n"
    )
    yield '    pip install ".[benchmarks]" && python -m tests.benchmarks\n'
    yield f"Measured with {usual}. The numbers are in [measured.json](measured.json).\n"
    yield "![Speed of the engine relative to micrograd 0.1.0](../pictures/benchmarks.svg)\n"
    yield "![How many times as long as compiled C array libraries take](../pictures/libraries.svg)\n"
    for name, (about, measured) in groups.items():
        yield f"## {name}\n\n{about}\n"
        if machines[name] != usual:
            yield f"Measured with {machines[name]}.\n"
        for each in tables(measured):
            yield from lines(each)
            yield ""


def with_gradbench(text: str, group: Sequence[Measured]) -> str:
    """A page with the group in brief. This replaces the table in its section, and what follows the table."""
    before, heading, rest = text.partition("\n## GradBench\n")
    about, _, old = rest.partition("\n| ")
    _, following, after = old.partition("\n## ")
    return "".join([before, heading, about, *(f"\n{line}" for line in in_brief(group)), "\n", following, after])


def draw_engines(measured: Iterable[Measured]) -> str:
    """A chart of the speed of our engine relative to micrograd 0.1.0, for each task that it can do."""
    groups = {
        m.benchmark.title: [(ours.name, m.ratio(BASE, to=ours.name), charts.OURS) for ours in m.benchmark.ours]
        for m in measured
        if BASE in m.medians and m.benchmark.unit == "s"
    }
    return charts.ratios(groups, BASE, f"times as fast as {BASE}", 60, 180)


def draw_libraries(measured: Iterable[Measured]) -> str:
    """A chart of the time that the libraries take relative to our C: faster ones are on its left."""
    groups = {
        m.benchmark.title: [(name, m.ratio(name, to=C), charts.OTHERS) for name in m.medians if name in RIVALS]
        for m in measured
        if C in m.medians and any(name in RIVALS for name in m.medians)
    }
    return charts.ratios(groups, C, f"times as long as {C}", 210, 190)


def stored(machines: dict[str, str], measured: dict[str, list[Measured]]) -> str:
    """All that the page and its charts are made of, as JSON: what was measured on what, by group."""
    rows = {
        name: [
            [m.benchmark.title, m.benchmark.unit, len(m.benchmark.ours), m.medians]
            + [m.ranges, m.first, m.benchmark.earlier] * m.benchmark.is_row
            for m in results
        ]
        for name, results in measured.items()
    }
    return json.dumps({"machines": machines, "measured": rows}, indent=1) + "\n"


def recalled(text: str) -> tuple[dict[str, str], dict[str, list[Measured]]]:
    found = json.loads(text)

    def measured(title: str, unit: str, ours: int, medians: dict[str, float], *row: dict[str, Any]) -> Measured:
        contestants = [Contestant(name, _over) for name in medians]
        ranges, first, earlier = row or ({}, {}, {})
        found = Benchmark(
            title, tuple(contestants[:ours]), tuple(contestants[ours:]), unit, earlier=earlier, is_row=bool(row)
        )
        return Measured(found, medians, ranges, first)

    return found["machines"], {name: [measured(*m) for m in results] for name, results in found["measured"].items()}


def _over() -> Measure:
    raise NotImplementedError("what is recalled was measured before, and cannot be measured again")


def _version(library: str) -> str:
    try:
        return f"{library} {version(library)}"
    except PackageNotFoundError:
        return f"no {library}"


def _c_compiler() -> str:
    try:
        return find_compiler(os.environ.get("CC"), os.environ.get("PATH")).version.splitlines()[0]
    except CompilerError:
        return "no C compiler"


def _told(cost: float, unit: str) -> str:
    """A cost with its unit, such as 1.23 ms."""
    if unit != "s":
        return f"{cost:.0f} {unit}"
    for scale, name in ((1, "s"), (1e3, "ms"), (1e6, "us")):
        if cost * scale >= 1:
            return f"{cost * scale:.3g} {name}"
    return f"{cost * 1e9:.3g} ns"
