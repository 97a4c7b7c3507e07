"""Mutation testing: small errors are introduced into the package, one at a time, and the tests must detect each.

`python -m tests.mutation` tries all modules, `python -m tests.mutation engine nn` some. A first run of the tests finds
which of them run each line, so that an error is met by those alone, the quickest first. Mutants that survive because
they change nothing are listed in `equivalent.txt` by function and expression, with the reason.
"""

from pathlib import Path
from typing import NamedTuple

CHECKOUT = Path(__file__).resolve().parents[2]


class Equivalent(NamedTuple):
    """A change that changes nothing, as "function: before -> after", and why."""

    change: str
    reason: str


def listed() -> list[Equivalent]:
    """What `equivalent.txt` lists, in blocks with an empty line between: # reason, and changes."""
    entries = []
    for block in Path(__file__).with_name("equivalent.txt").read_text(encoding="utf-8").split("\n\n"):
        lines = block.strip().splitlines()
        reason = " ".join(line[2:] for line in lines if line[0] == "#")
        entries += [Equivalent(line, reason) for line in lines if line[0] != "#"]
    return entries
