"""The command: `python -m tests.benchmarks [group ...]`."""

import argparse
from importlib import import_module

from tests.benchmarks import page
from tests.benchmarks.harness import CHECKOUT, run

GROUPS = ("mlp", "gpt", "digits", "mnist", "compiled", "phrases", "cold", "gradbench")
HERE, PICTURES = CHECKOUT / "tests" / "benchmarks", CHECKOUT / "tests" / "pictures"
SPEED = CHECKOUT / "tests" / "pages" / "speed.md"

parser = argparse.ArgumentParser(
    prog="python -m tests.benchmarks",
    description="Compare with other libraries. Without a name, all groups are measured, and the page is written.",
)
parser.add_argument("groups", nargs="*", metavar="group", help=f"which comparisons: {', '.join(GROUPS)}")
parser.add_argument(
    "--redraw", action="store_true", help="write the page from the last measurements; measure only the groups named"
)
options = parser.parse_args()
chosen = options.groups
for name in chosen:
    if name not in GROUPS:
        parser.error(f"there is no group {name!r}: choose from {', '.join(GROUPS)}")

machines, results = page.recalled((HERE / "measured.json").read_text(encoding="utf-8")) if options.redraw else ({}, {})
print(page.machine())
groups = {}
known_or_chosen = [name for name in GROUPS if name in results or name in chosen]
for name in known_or_chosen if options.redraw else chosen or GROUPS:
    module = import_module(f"tests.benchmarks.{name}")
    print(f"\n{name}: {module.__doc__.strip()}\n")
    measured = []
    known = options.redraw and name not in chosen
    for result in results[name] if known else map(run, module.benchmarks()):
        measured.append(result)
        print(*page.lines(page.table(result)), "", sep="\n", flush=True)
    machines[name] = machines[name] if known else page.machine()
    groups[name] = module.__doc__.strip(), measured

if options.redraw or not chosen:
    results = {name: measured for name, (_, measured) in groups.items()}
    compared = [m for measured in results.values() for m in measured]
    for path, text in (
        (HERE / "measured.json", page.stored(machines, results)),
        (PICTURES / "benchmarks.svg", page.draw_engines(compared)),
        (PICTURES / "libraries.svg", page.draw_libraries(compared)),
        (HERE / "README.md", "\n".join(page.markdown(machines, groups))),
        (SPEED, page.with_gradbench(SPEED.read_text(encoding="utf-8"), results.get("gradbench", []))),
    ):
        path.write_text(text, encoding="utf-8")
        print(f"written: {path}")
