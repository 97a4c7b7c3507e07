"""The command: `python -m tests.fuzz --programs N --seed N`."""

import argparse
import sys
import time

from tests.fuzz.compare import Failure, compare
from tests.fuzz.engines import ENGINES
from tests.fuzz.programs import Step, code, generate, is_legal
from tests.fuzz.shrink import shrink, simpler

BATCH = 50  # programs in one compiled function


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Run random programs in all engines.")
    parser.add_argument("--programs", type=int, default=10_000, help="how many (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="which ones (default: %(default)s)")
    parser.add_argument("--index", type=int, help="the one of this number alone, printed as code")
    parser.add_argument("--against", default="torch,python", help=f"engines of {','.join(ENGINES)} (%(default)s)")
    parser.add_argument("--batch", type=int, default=BATCH, help="programs in a compiled function (%(default)s)")
    options = parser.parse_args()
    against = options.against.split(",")
    for name in against:
        if name not in ENGINES:
            parser.error(f"there is no engine {name!r}: choose from {', '.join(ENGINES)}")

    if options.index is None:
        starts = range(0, options.programs, options.batch)
        batches = [range(start, min(start + options.batch, options.programs)) for start in starts]
    else:
        batches = [range(options.index, options.index + 1)]
        print(code(generate(options.seed, options.index)))
    return report(batches, options.seed, against)


def report(batches: list[range], seed: int, against: list[str]) -> int:
    """Run the programs of these numbers up to one that fails, and tell what comes of them; the exit status."""
    programs = steps = left_out = 0
    began = shown = time.monotonic()
    failures: list[Failure] = []
    for indices in batches:
        batch = [generate(seed, index) for index in indices]
        outcome = compare(batch, against)
        programs += len(batch)
        steps += sum(isinstance(node, Step) for program in batch for node in program)
        left_out += outcome.left_out
        failures = outcome.failures
        if failures:
            break
        if time.monotonic() - shown > 10:
            shown = time.monotonic()
            print(f"{programs:,} programs, {programs / (shown - began):.0f} a second", flush=True)
    print(
        f"{programs:,} programs of {steps:,} steps in {time.monotonic() - began:.0f} s; "
        f"{left_out:,} left out, whose derivative is not finite or made of rounding errors; {len(failures)} failed"
    )
    if failures:
        print(f"\n{described(failures[0])}")
    return 1 if failures else 0


def described(failure: Failure) -> str:
    """The smallest program that fails as this one does, as code, and what the engines say."""
    program = shrink(failure.program, simpler, lambda p: bool(is_legal(p) and compare([p], [failure.engine]).failures))
    (smallest, *_) = compare([program], [failure.engine]).failures
    return f"{code(program)}\n# eager: {smallest.ours}\n# {failure.engine}: {smallest.theirs}"


if __name__ == "__main__":
    sys.exit(main())
