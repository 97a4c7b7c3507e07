"""Mutation testing: small errors are put into the package, one at a time, and the tests have to notice each.

`python -m tests.mutation` tries all modules, `python -m tests.mutation engine nn` some. The errors are those of
cosmic-ray; how they are run is here: a process that has imported what the tests need forks for each mutant, which
saves most of the time. What survives since it changes nothing is listed in `equivalent.diff`, with the reason.
"""

from pathlib import Path
from typing import NamedTuple

CHECKOUT = Path(__file__).resolve().parents[2]


class Equivalent(NamedTuple):
    """A change that changes nothing: the module, the lines with - and +, and why."""

    module: str
    change: tuple[str, ...]
    reason: str


def listed() -> list[Equivalent]:
    """What `equivalent.diff` lists, in blocks with an empty line between: # reason, module, and changes by - and +."""
    entries = []
    for block in Path(__file__).with_name("equivalent.diff").read_text(encoding="utf-8").split("\n\n"):
        lines = block.strip().splitlines()
        reason = " ".join(line[2:] for line in lines if line[0] == "#")
        module, *changed = [line for line in lines if line[0] != "#"]
        starts = [i for i, line in enumerate(changed) if line[0] == "-" and (i == 0 or changed[i - 1][0] == "+")]
        for start, end in zip(starts, [*starts[1:], None], strict=True):
            entries.append(Equivalent(module, tuple(changed[start:end]), reason))
    return entries
