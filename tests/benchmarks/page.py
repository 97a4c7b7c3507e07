"""What was measured, as lines of text, as a page in Markdown, and as charts."""

import os
import platform
import re
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import micrograd
from micrograd.compiler.toolchain import CompilerError, find_compiler
from tests.benchmarks.growth import curves
from tests.benchmarks.harness import Measured

LIBRARIES = ("numpy", "torch", "scikit-learn", "casadi")
OURS = "C0"  # a colour
MARKERS = {
    "eager": ("o", OURS),
    "compiled to Python": ("s", OURS),
    "compiled to C": ("D", OURS),
    "micrograd 0.1.0": ("o", "C7"),
    "microgpt's form": ("s", "C7"),
    "NumPy by hand": ("^", "C2"),
    "PyTorch": ("v", "C1"),
    "PyTorch, tightest calls": ("x", "C1"),
}
"""The contestants that charts show, each with its marker and colour."""


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
        yield [name, _told(cost, benchmark.unit), *[_ratio(measured.ratio(name, to)) for to in ours]]


def text(measured: Measured) -> Iterator[str]:
    """The table for a terminal."""
    title, *rows = table(measured)
    yield f"{title[0]:<62}" + "".join(f"{column:>26}" for column in title[1:])
    for name, *columns in rows:
        yield f"  {name:<60}" + "".join(f"{column:>26}" for column in columns)


def markdown(groups: dict[str, tuple[str, list[Measured], list[str]]]) -> Iterator[str]:
    """The lines of the page: by the name of each group of benchmarks what it is about, what came, and conclusions."""
    yield "# How fast\n"
    yield (
        "Medians of contestants that took turns in one run, each in a process and a thread of its own, and how many "
        "times those of ours they are. Absolute times are those of a machine that others share: the ratios count. "
        "This page and its charts are written by one command, in a checkout:\n"
    )
    yield '    pip install ".[benchmarks]" && python -m tests.benchmarks\n'
    yield f"Measured with {machine()}.\n"
    yield "![How many times as fast as micrograd 0.1.0 each is](../pictures/benchmarks.svg)\n"
    yield "![How the time grows](../pictures/growth.svg)\n"
    for name, (about, measured, conclusions) in groups.items():
        yield f"## {name}\n\n{about}\n"
        for result in measured:
            head, *rows = table(result)
            yield from _row(head)
            yield from _row(["---", *["---:"] * (len(head) - 1)])
            for row in rows:
                yield from _row(row)
            yield ""
        yield from (f"- {conclusion}" for conclusion in conclusions)
        if conclusions:
            yield ""


def draw_speeds(measured: Iterable[Measured], path: Path) -> None:
    """A chart of how many times as fast as micrograd 0.1.0 each contestant is, a row for each task that it can do."""
    rows = [m for m in measured if "micrograd 0.1.0" in m.medians and m.benchmark.unit == "s"]
    pyplot = _pyplot()
    figure, axes = pyplot.subplots(figsize=(9, 0.55 * len(rows) + 1.6), layout="constrained")
    for name, (marker, color) in MARKERS.items():
        label = f"here: {name}" if color == OURS else name
        places = [(m.ratio("micrograd 0.1.0", to=name), -i) for i, m in enumerate(rows) if name in m.medians]
        axes.plot(*zip(*places, strict=True), marker, color=color, label=label, markersize=7)
    axes.set_yticks([-i for i in range(len(rows))], [m.benchmark.title.replace(", ", ",\n", 1) for m in rows])
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel("times as fast as micrograd 0.1.0")
    axes.grid(axis="x", alpha=0.3)
    figure.legend(loc="outside upper center", ncols=4, frameon=False)
    figure.savefig(path)
    pyplot.close(figure)


def draw_growth(measured: list[Measured], path: Path) -> None:
    """Charts of the time by size, in seconds."""
    pyplot = _pyplot()
    figure, both = pyplot.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
    for axes, (what, sizes, results) in zip(both, curves(measured), strict=True):
        for name in results[0].medians:
            marker, color = MARKERS[name]
            axes.loglog(sizes, [result.medians[name] for result in results], f"{marker}-", color=color, label=name)
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.set_xlabel(what)
        axes.grid(alpha=0.3)
    both[0].set_ylabel("seconds, training step")
    both[0].legend(frameon=False)
    figure.savefig(path)
    pyplot.close(figure)


def _pyplot():  # type: ignore[no-untyped-def]
    """Matplotlib, which draws text as text and the same file from the same numbers."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "micrograd", "font.size": 9})
    from matplotlib import pyplot

    return pyplot


def _row(columns: Iterable[str]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"


def _version(library: str) -> str:
    try:
        return f"{library} {version(library)}"
    except PackageNotFoundError:
        return f"no {library}"


def _c_compiler() -> str:
    try:
        return find_compiler(os.environ.get("CC"), os.environ.get("PATH"))[1].splitlines()[0]
    except CompilerError:
        return "no C compiler"


def _ratio(ratio: float) -> str:
    """A ratio with three digits, such as 0.0123 or 12,300."""
    return f"{float(f'{ratio:.3g}'):,.0f}" if ratio >= 100 else f"{ratio:.3g}"


def _told(cost: float, unit: str) -> str:
    """A cost with its unit, such as 1.23 ms."""
    if unit != "s":
        return f"{cost:.0f} {unit}"
    for scale, name in ((1, "s"), (1e3, "ms"), (1e6, "us")):
        if cost * scale >= 1:
            return f"{cost * scale:.3g} {name}"
    return f"{cost * 1e9:.3g} ns"
