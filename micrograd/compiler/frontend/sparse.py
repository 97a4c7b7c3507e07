"""Sparse derivatives: of a jacobian or hessian, only what is not structurally zero is traced and computed."""

from importlib import import_module
from typing import Any, NamedTuple

from micrograd.compiler.frontend.graph import Shape, shape_of
from micrograd.errors import shown
from micrograd.functional import Jacobian
from micrograd.trees import replaced


class Pattern(NamedTuple):
    """Where a matrix has numbers, row by row, the columns of each in order."""

    shape: tuple[int, int]
    rows: list[int]
    columns: list[int]


class Entries:
    """The entries of a jacobian that are not structurally zero, as a function to compile.

    Attributes
    ----------
    patterns
        Where they are, for the shapes of the arguments that it was called with.
    """

    def __init__(self, function: Any) -> None:
        if not isinstance(function, Jacobian):
            raise TypeError(
                f"sparse=True is for derivatives that are a matrix, not for {shown(function)}: "
                "compile jacobian(f) or hessian(f)"
            )
        self._jacobian: Jacobian | None = function
        self.patterns: dict[tuple[Shape, ...], Pattern] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_jacobian": None}  # which may be a lambda, and is compiled

    def __call__(self, *args: Any) -> list[Any]:
        """The entries, row by row, for arguments of traced Values."""
        assert self._jacobian is not None
        symbols = [replaced(lambda x: x.data, arg) for arg in args]  # so that each operation is one, not two
        call, entries = self._jacobian.sparse(*symbols)
        shapes = shape_of(call.result), shape_of(call.args)
        if any(len(shape) != 1 for shape in shapes):
            raise TypeError(
                "sparse=True is for the derivatives of a list of numbers by a list of numbers, not of a result of "
                f"shape {shapes[0]} by an argument of shape {shapes[1]}: give flat lists"
            )
        places = [(i, j) for i, row in enumerate(entries) for j in sorted(row)]
        shape = len(call.outputs), len(call.variables)
        self.patterns[tuple(map(shape_of, args))] = Pattern(shape, [i for i, _ in places], [j for _, j in places])
        return [entries[i][j] for i, j in places]

    def matrices(self, shapes: tuple[Shape, ...], numbers: Any) -> list[Any]:
        """The matrix of each example, from the entries of all."""
        import numpy as np  # here, since only what is called needs them

        csr_array = import_module("scipy.sparse").csr_array
        shape, rows, columns = self.patterns[shapes]
        examples = np.asarray(numbers).reshape(-1, len(rows))
        ends = np.cumsum(np.bincount(rows, minlength=shape[0]))
        return [csr_array((row, np.array(columns), np.concatenate(([0], ends))), shape) for row in examples]
