"""Scatter: the gradient of a `take` as one addition at an index.

The closure of `take` adds `where(index == i, gradient, 0)` to the gradient of each value that it may have chosen. If
the values are parameters at equal distances, such as a column of an embedding, all these terms together are one
addition to one element of an array.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from micrograd.compiler.frontend.tracer import CONDITIONS, Trace


class Row(NamedTuple):
    """The `size` parameters `base`, `base + step`, ..."""

    base: int
    step: int
    size: int

    def parameters(self) -> range:
        """Their indices."""
        return range(self.base, self.base + self.step * self.size, self.step)


class Scatter(NamedTuple):
    """Adds the line `gradient` to the gradient of the parameter that the line `position` selects from the row."""

    row: Row
    position: int
    gradient: int


class Term(NamedTuple):
    """`where(index == i, gradient, 0)` in a sum, after `nth` equal terms."""

    position: int
    gradient: int
    i: int
    nth: int


Part = tuple[int, ...]
"""What a sum adds: a line, or the factors of products, two of each."""


def row(trace: Trace, lines: Sequence[int]) -> Row | None:
    """The row of parameters that these lines are, if they lie at equal distances."""
    leaves = [trace.leaves.get(line, ("", 0)) for line in lines]
    base, step = leaves[0][1], leaves[1][1] - leaves[0][1] if len(leaves) > 1 else 1
    found = Row(base, step, len(leaves)) if step > 0 else None
    return found if found and leaves == [("p", parameter) for parameter in found.parameters()] else None


def scatter(trace: Trace, gradients: Sequence[int]) -> tuple[list[int], list[Scatter]]:
    """The lines of the parameters' gradients without what is scattered, and the scatters."""
    rows: dict[int, list[Row]] = defaultdict(list)  # by the line of the index
    for index, *values in [trace.operands[line] for line, op in enumerate(trace.ops) if op == "take"]:
        of = row(trace, values)
        if of and trace.ops[index] not in CONDITIONS:  # a condition is not a number in all languages
            rows[index].append(of)
    taken = {parameter for each in rows.values() for of in each for parameter in of.parameters()}
    sums = {parameter: _terms(trace, gradients[parameter]) for parameter in sorted(taken)}
    left = {(parameter, term) for parameter, terms in sums.items() for _, term in terms if term}
    scatters = []
    for first in sorted({term for _, term in left if term.i == 0}):
        for of in rows[first.position]:
            if (of.base, first) not in left:
                continue
            whole = {(parameter, first._replace(i=i)) for i, parameter in enumerate(of.parameters())}
            if whole <= left:
                left -= whole
                scatters.append(Scatter(of, first.position, first.gradient))
    rest = list(gradients)
    for parameter, terms in sums.items():
        before, *others = [part for part, term in terms if not term or (parameter, term) in left]
        if 1 + len(others) < len(terms):
            total = trace.nothing
            for part in others:
                total = trace.add("+" if len(part) == 1 else "dot", (total, *part)).id
            rest[parameter] = trace.add("+", (*before, total)).id
    return rest, scatters


def _terms(trace: Trace, line: int) -> list[tuple[Part, Term | None]]:
    """The parts that a sum adds up, each as a Term if it has that form."""
    seen: Counter[tuple[int, int, int]] = Counter()
    terms: list[tuple[Part, Term | None]] = []
    for outer in reversed(list(_spine(trace, line))):
        for inner in reversed(list(_spine(trace, *outer))) if len(outer) == 1 else [outer]:
            match = _match(trace, *inner)
            terms.append((inner, Term(*match, seen[match]) if match else None))
            if match:
                seen[match] += 1
    return terms


def _spine(trace: Trace, line: int) -> Iterator[Part]:
    """The parts of a sum that was added from left to right, the last one first."""
    while trace.ops[line] in ("+", "dot"):
        line, *last = trace.operands[line]
        yield tuple(last)
    if line != trace.nothing:
        yield (line,)


def _match(trace: Trace, line: int, *others: int) -> tuple[int, int, int] | None:
    """The index, the gradient and the i of `where(index == i, gradient, 0)`."""
    if others or trace.ops[line] != "where":
        return None
    condition, gradient, other = trace.operands[line]
    if trace.ops[condition] != "==" or trace.constants.get(other) != 0:
        return None
    index, i = trace.operands[condition]
    number = float(trace.constants.get(i, math.nan))
    return (index, gradient, int(number)) if number.is_integer() else None
