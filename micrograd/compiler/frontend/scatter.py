"""Additions to the gradients of many parameters at equal distances, which are recorded as one.

The closure of `take` adds `where(index == i, gradient, 0)` to the gradient of each value that it may have chosen. If
these are parameters such as a column of an embedding, it is one addition to one element of an array instead: a Scatter.

The closure of `dot` adds products to the gradients of its operands. If these are parameters such as a row of a matrix,
all that is added to them, however often the row is used, is one Outer: a row of an outer product, or a sum of such.
"""

from collections.abc import Sequence
from typing import NamedTuple

from micrograd.compiler.frontend.tracer import Trace


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


class Outer(NamedTuple):
    """Adds the sum of products to the gradient of each parameter of a row: of `gradients` and a line of each other row.

    That of the first parameter has the first line of each, and so on.
    """

    row: Row
    gradients: tuple[int, ...]
    others: tuple[tuple[int, ...], ...]


def row(trace: Trace, lines: Sequence[int]) -> Row | None:
    """The row of parameters that these lines are, if they lie at equal distances."""
    leaves = [trace.leaves.get(line, ("", 0)) for line in lines]
    base, step = leaves[0][1], leaves[1][1] - leaves[0][1] if len(leaves) > 1 else 1
    found = Row(base, step, len(leaves)) if step > 0 else None
    return found if found and leaves == [("p", parameter) for parameter in found.parameters()] else None
