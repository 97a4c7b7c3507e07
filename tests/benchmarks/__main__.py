"""The command: `python -m tests.benchmarks [name ...]`."""

import argparse
from importlib import import_module
from pkgutil import iter_modules

from tests import benchmarks
from tests.benchmarks.harness import machine, report

names = [module.name for module in iter_modules(benchmarks.__path__) if module.name not in ("__main__", "harness")]

parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description="Compare with other libraries.")
parser.add_argument("names", nargs="*", metavar="name", help=f"which comparisons: {', '.join(names)} (default: all)")
chosen = parser.parse_args().names or names
for name in chosen:
    if name not in names:
        parser.error(f"there is no benchmark {name!r}: choose from {', '.join(names)}")

print(machine())
for name in chosen:
    module = import_module(f"tests.benchmarks.{name}")
    print(f"\n{name}: {(module.__doc__ or '').strip()}\n")
    for line in report(module.benchmarks(), getattr(module, "conclude", None)):
        print(line, flush=True)
