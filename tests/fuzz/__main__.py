"""The command: `python -m tests.fuzz --programs N --seed N`."""

import argparse
import multiprocessing
import sys
import time
from collections.abc import Iterable
from contextlib import ExitStack
from functools import partial
from typing import NamedTuple

from tests.fuzz.compare import Failure, Outcome, compare
from tests.fuzz.engines import ENGINES
from tests.fuzz.programs import Step, code, generate, is_legal
from tests.fuzz.shrink import shrink

BATCH = 50  # programs in one compiled function


class Progress(NamedTuple):
    """What came of a batch of programs with so many steps."""

    programs: int
    steps: int
    outcome: Outcome


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Run random programs in all engines.")
    parser.add_argument("--programs", type=int, default=10_000, help="how many (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="which ones (default: %(default)s)")
    parser.add_argument("--index", type=int, help="the one of this number alone, printed as code")
    parser.add_argument("--against", default="torch,python", help=f"engines of {','.join(ENGINES)} (%(default)s)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default: %(default)s)")
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
    with ExitStack() as stack:
        run = stack.enter_context(multiprocessing.Pool(options.jobs)).imap if options.jobs > 1 else map
        return report(run(partial(fuzz, against, options.seed), batches))


def fuzz(against: list[str], seed: int, indices: range) -> Progress:
    """What comes of these programs."""
    programs = [generate(seed, index) for index in indices]
    steps = sum(isinstance(node, Step) for program in programs for node in program)
    return Progress(len(programs), steps, compare(programs, against))


def report(batches: Iterable[Progress]) -> int:
    """Tell what comes of the batches as they are done, up to a failure; the exit status."""
    programs = steps = left_out = 0
    began = shown = time.monotonic()
    failures: list[Failure] = []
    for batch in batches:
        programs, steps = programs + batch.programs, steps + batch.steps
        left_out += batch.outcome.left_out
        failures = batch.outcome.failures
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
    program = shrink(failure.program, lambda p: bool(is_legal(p) and compare([p], [failure.engine]).failures))
    (smallest, *_) = compare([program], [failure.engine]).failures
    return f"{code(program)}\n# eager: {smallest.ours}\n# {failure.engine}: {smallest.theirs}"


if __name__ == "__main__":
    sys.exit(main())
