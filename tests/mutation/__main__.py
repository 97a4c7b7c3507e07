"""Mutation testing: small errors are introduced into the package, one at a time, and the tests must detect each.

`python -m tests.mutation` tries all modules, `python -m tests.mutation engine nn` some. A first run of the tests finds
which of them run each line; only these run with an error in it, the quickest first. A few mutants survive because they
change nothing.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from tests.mutation.mutants import Mutant, mutants
from tests.mutation.run import CHECKOUT, Runner

PACKAGE = CHECKOUT / "micrograd"
MODULES = sorted(file.relative_to(PACKAGE).with_suffix("").as_posix() for file in PACKAGE.rglob("*.py"))
TESTS = [f"tests/{room}" for room in ("engine", "nn", "support", "training", "compiler")]
OUTCOMES = ("killed", "timed out", "survived")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description="Put errors into the package.")
    parser.add_argument("modules", nargs="*", metavar="module", default=MODULES, help="as in: engine core/levels")
    parser.add_argument("--tests", nargs="+", metavar="PATH", default=TESTS, help=f"default: {' '.join(TESTS)}")
    parser.add_argument("--results", type=Path, default="mutation.jsonl", help="for a run to go on from: %(default)s")
    options = parser.parse_args()
    sources = {name: (PACKAGE / f"{name}.py").read_text(encoding="utf-8") for name in options.modules}
    wanted = [mutant for module, source in sources.items() for mutant in mutants(module, source)]
    return report(tried(wanted, Runner(options.modules, options.tests), options.results), len(wanted))


def tried(wanted: list[Mutant], runner: Runner, path: Path) -> Iterator[tuple[Mutant, str]]:
    """Each mutant and its outcome. Mutants that are dead in the file of results are not tried."""
    with closing(runner), path.open("a+") as results:
        results.seek(0)
        dead = {tuple(key): outcome for key, outcome in map(json.loads, results)}
        for mutant in wanted:
            key = (mutant.module, mutant.change, mutant.nth)
            outcome = dead.get(key) or runner.outcome(mutant)
            if outcome in ("killed", "timed out") and key not in dead:
                print(json.dumps([key, outcome]), file=results, flush=True)
            yield mutant, outcome


def report(outcomes: Iterator[tuple[Mutant, str]], total: int) -> int:
    """Print the mutants that survive as they are found, and a table of the shares that die; 1 if any survives."""
    counts: dict[str, Counter[str]] = {}
    for i, (mutant, outcome) in enumerate(outcomes, 1):
        if outcome == "survived":
            print("", mutant.module, mutant.change, sep="\n", flush=True)
        for row in (mutant.module, "all"):
            counts.setdefault(row, Counter())[outcome] += 1
        if i % 100 == 0:
            print(f"{i} of {total}", file=sys.stderr, flush=True)
    print(f"\n{'':<34}{'mutants':>12}", *[f"{name:>11}" for name in OUTCOMES], f"{'dead':>9}")
    for row in (*[row for row in counts if row != "all"], "all"):
        numbers = [counts[row][name] for name in OUTCOMES]
        n = sum(numbers)
        print(f"{row:<34}{n:>12}", *[f"{number:>11}" for number in numbers], f"{1 - numbers[-1] / n:>9.1%}")
    return 1 if counts["all"]["survived"] else 0


if __name__ == "__main__":
    sys.exit(main())
