"""The command: `python -m tests.benchmarks [group ...]`."""

import argparse
from importlib import import_module

from tests.benchmarks import page
from tests.benchmarks.harness import CHECKOUT, run

GROUPS = ("mlp", "gpt", "digits", "mnist", "chain", "compiling", "growth", "scaling")

parser = argparse.ArgumentParser(
    prog="python -m tests.benchmarks",
    description="Compare with other libraries. Without a name, all groups are measured, and the page is written.",
)
parser.add_argument("groups", nargs="*", metavar="group", help=f"which comparisons: {', '.join(GROUPS)}")
chosen = parser.parse_args().groups
for name in chosen:
    if name not in GROUPS:
        parser.error(f"there is no group {name!r}: choose from {', '.join(GROUPS)}")

print(page.machine())
groups = {}
for name in chosen or GROUPS:
    module = import_module(f"tests.benchmarks.{name}")
    print(f"\n{name}: {module.__doc__.strip()}\n")
    measured = []
    for benchmark in module.benchmarks():
        measured.append(run(benchmark))
        print(*page.text(measured[-1]), "", sep="\n", flush=True)
    conclusions = list(module.conclude(measured)) if hasattr(module, "conclude") else []
    print(*conclusions, sep="\n")
    groups[name] = module.__doc__.strip(), measured, conclusions

if not chosen:
    pictures = CHECKOUT / "tests" / "pictures"
    page.draw_speeds([m for _, measured, _ in groups.values() for m in measured], pictures / "benchmarks.svg")
    page.draw_growth(groups["growth"][1], pictures / "growth.svg")
    path = CHECKOUT / "tests" / "benchmarks" / "README.md"
    path.write_text("\n".join(page.markdown(groups)), encoding="utf-8")
    print(f"\nwritten: {path}")
