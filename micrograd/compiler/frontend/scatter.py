"""Additions to the gradients of many parameters at once, each recorded as one operation.

Such parameters form a Row: their indices are at equal distances, like those of a row or a column of a matrix.

The closure of `take` adds `where(index == i, gradient, 0)` to the gradient of each value that it may have chosen. If
these values form a Row, such as a column of an embedding, a Scatter adds to the one that was chosen instead.

The closure of `dot` adds products to the gradients of its operands. If these form a Row, such as a row of a matrix, all
that is added to their gradients, however often the Row is used, is one Outer: a row of an outer product, or a sum of
such rows.
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
    """Adds gradients[0] * others[0][i] + gradients[1] * others[1][i] + ... to the gradient of the row's i-th parameter.

    The gradients and the others are lines of the trace.
    """

    row: Row
    gradients: tuple[int, ...]
    others: tuple[tuple[int, ...], ...]


def row(trace: Trace, lines: Sequence[int]) -> Row | None:
    """The row that these lines form, if they are parameters at equal distances."""
    leaves = [trace.leaves.get(line, ("", 0)) for line in lines]
    base, step = leaves[0][1], leaves[1][1] - leaves[0][1] if len(leaves) > 1 else 1
    found = Row(base, step, len(leaves)) if step > 0 else None
    return found if found and leaves == [("p", parameter) for parameter in found.parameters()] else None
