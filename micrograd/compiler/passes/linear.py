"""What can be computed after the loop over examples, because it is linear in sums over them.

A linear function of a sum equals the sum of the function's values. So where the backward pass is linear in a number,
with factors that are the same for all examples, the loop only has to add up that number.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from micrograd.compiler.frontend.graph import Ends
from micrograd.compiler.frontend.rounds import is_linear
from micrograd.compiler.frontend.tracer import Slice, Trace

Chains = dict[int, tuple[list[int], list[int]]]
"""For each row, the lines of its links, last one first: those that are moved out of the loop, and the others."""


class Moved(NamedTuple):
    """The lines of the numbers that are computed after the loop, and the rows that are partly computed there."""

    numbers: set[int]
    chains: Chains


class Sums(NamedTuple):
    """What the loop adds up in the array "d": the places of numbers and of rows, and the size of the array."""

    numbers: dict[int, tuple[str, int]]
    rows: dict[int, Slice]
    size: int


def moved_lines(trace: Trace, varying: Sequence[int], ends: Ends, uniform: set[int]) -> Moved:
    """The lines that can be computed after the loop: they are linear, and no line that stays in the loop needs them."""
    ops, operands = trace.ops, trace.operands
    chains = _chains(trace, varying, ends, uniform)
    top = {line: row for row, parts in chains.items() for part in parts for line in part}
    scaled = {line for links, _ in chains.values() for line in links}
    found, needed = set[int](), {*ends.returned, *(row for _, row in ends.rows)} - chains.keys()  # in the loop
    for line in reversed(varying):
        if line in top and top[line] not in needed:
            needed.update(() if line in scaled else operands_of(trace, line)[1:])
        elif line not in needed and line not in trace.maps and is_linear(trace, line, uniform):
            found.add(line)
        elif ops[line] != "stack":
            needed.update(operands_of(trace, line))
    for row in needed.intersection(chains):
        del chains[row]
    return Moved({line for line in found if ops[line] != "item" or operands[line][0] in chains}, chains)


def _chains(trace: Trace, varying: Sequence[int], ends: Ends, uniform: set[int]) -> Chains:
    """The sums of uniform rows times varying numbers that are only added to gradients, or only used by items."""
    uses = Counter([i for line in varying for i in trace.operands[line]] + [row for _, row in ends.rows])
    items = Counter([trace.operands[line][0] for line in varying if line in trace.items])
    found: Chains = {}
    alone = {row for _, row in ends.rows if uses[row] == 1}.union(row for row, n in items.items() if uses[row] == n)
    for row in alone - trace.maps.keys():
        links = trace.links(row)
        parts: tuple[list[int], list[int]] = [], []
        for line in links:
            _, number, other, *_ = trace.operands[line]
            is_scaled = trace.ops[line] == "axpy" and other in uniform and number not in uniform
            parts[not is_scaled].append(line)
        if parts[0] and all(uses[line] == 1 for line in links[1:]):
            found[row] = parts
    return found


def sums_for(trace: Trace, moved: Moved, uniform: set[int], added: set[int]) -> Sums:
    """The sums that the moved lines are computed from.

    For a row that is partly moved, this is the sum of its other links, unless the row is `added` to gradients.
    """
    read = [i for line in moved.numbers for i in trace.operands[line]]
    read += [trace.operands[line][1] for links, _ in moved.chains.values() for line in links]
    begun = {line for line, (array, _) in trace.leaves.items() if array == "g"}
    lines = sorted({*read} - uniform - moved.numbers - begun - moved.chains.keys())
    numbers, rows, n = dict[int, tuple[str, int]](), dict[int, Slice](), 0
    in_rows = {line for line in lines if line in trace.items and trace.operands[line][0] not in trace.maps}
    whole = {trace.operands[line][0] for line in in_rows}
    whole.update(row for row, (_, others) in moved.chains.items() if others and row not in added)
    for row in sorted(whole):
        rows[row] = Slice("d", n, 1, trace.size(trace.operands[row][-1]))
        n += rows[row].size
    for line in lines:
        if line in in_rows:
            numbers[line] = "d", rows[trace.operands[line][0]].base + trace.items[line]
        else:
            numbers[line], n = ("d", n), n + 1
    return Sums(numbers, rows, n)


def operands_of(trace: Trace, line: int) -> list[int]:
    """What a line is computed from. A stack may be recorded after the lines that use it, so its numbers replace it."""
    return [i for of in trace.operands[line] for i in (trace.operands[of] if trace.ops[of] == "stack" else (of,))]
