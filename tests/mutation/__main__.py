"""The command: `python -m tests.mutation [module ...] [--jobs N] [--results FILE]`."""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from multiprocessing.pool import ThreadPool
from pathlib import Path
from queue import SimpleQueue

from tests.mutation import CHECKOUT, listed
from tests.mutation.changes import change
from tests.mutation.mutants import Mutant, mutants, mutated
from tests.mutation.run import MODULES, Runner

OUTCOMES = ("killed", "timed out", "survived", "equivalent")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description="Put errors into the package.")
    parser.add_argument("modules", nargs="*", metavar="module", help=f"which: {', '.join(MODULES)} (default: all)")
    parser.add_argument("--jobs", type=int, default=1, help="how many at once (default: %(default)s)")
    parser.add_argument(
        "--results", type=Path, default="mutation.jsonl", help="where a broken run goes on: %(default)s"
    )
    options = parser.parse_args()
    for name in options.modules:
        if name not in MODULES:
            parser.error(f"there is no module {name!r}: choose from {', '.join(MODULES)}")
    sources = {
        module: (CHECKOUT / "micrograd" / f"{module}.py").read_text(encoding="utf-8")
        for module in options.modules or MODULES
    }
    wanted = [mutant for module, source in sources.items() for mutant in mutants(module, source)]
    return report(tried(wanted, sources, options.jobs, options.results), len(wanted))


def tried(wanted: list[Mutant], sources: dict[str, str], jobs: int, path: Path) -> Iterator[tuple[str, str, str]]:
    """The module, the change and the outcome of each mutant. What the file of results knows is not tried again."""
    known = dict(map(json.loads, path.read_text().splitlines())) if path.exists() else {}
    with ExitStack() as stack:
        results = stack.enter_context(path.open("a"))
        runners: SimpleQueue[Runner] = SimpleQueue()
        for _ in range(jobs):
            runners.put(stack.enter_context(closing(Runner(sources))))

        def one(mutant: Mutant) -> tuple[str, str, str]:
            code = mutated(mutant, sources[mutant.module])
            changed = str(change(sources[mutant.module], code))
            key = json.dumps([*mutant, changed])
            if key not in known:
                runner = runners.get()
                known[key] = runner.outcome(mutant.module, code)
                runners.put(runner)
                print(json.dumps([key, known[key]]), file=results, flush=True)
            return mutant.module, changed, known[key]

        yield from stack.enter_context(ThreadPool(jobs)).imap(one, wanted)


def report(outcomes: Iterator[tuple[str, str, str]], total: int) -> int:
    """Print the mutants that survive as they are found, and a table; 0 if each of them is listed, 1 if not.

    The table has the share of mutants that die, of all, and as the score, of those that are not listed as equivalent.
    """
    equivalent = {entry.change for entry in listed()}
    counts: dict[str, Counter[str]] = {}
    for i, (module, changed, outcome) in enumerate(outcomes, 1):
        if outcome == "survived":
            if changed in equivalent:
                outcome = "equivalent"
            else:
                print("", module, changed, sep="\n", flush=True)
        for row in (module, "all"):
            counts.setdefault(row, Counter())[outcome] += 1
        if i % 100 == 0:
            print(f"{i} of {total}", file=sys.stderr, flush=True)
    print(f"\n{'':<34}{'mutants':>12}", *[f"{name:>11}" for name in OUTCOMES], f"{'dead':>9}{'score':>9}")
    for row in (*[row for row in counts if row != "all"], "all"):
        numbers = [counts[row][name] for name in OUTCOMES]
        dead, n = numbers[0] + numbers[1], sum(numbers)
        score = dead / (n - counts[row]["equivalent"])
        print(f"{row:<34}{n:>12}", *[f"{number:>11}" for number in numbers], f"{dead / n:>9.1%}{score:>9.1%}")
    return 1 if counts["all"]["survived"] else 0


if __name__ == "__main__":
    sys.exit(main())
