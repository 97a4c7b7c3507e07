"""Sparse derivatives: of a jacobian or hessian, only what is not structurally zero is traced and computed."""

from array import array
from importlib import import_module
from typing import Any, NamedTuple

from micrograd.compiler.frontend.tracer import Symbol
from micrograd.errors import shown
from micrograd.functional import Jacobian
from micrograd.trees import Shape, is_regular, replaced, shape_of


class Pattern(NamedTuple):
    """Where a matrix of some shape has numbers: their columns, row by row, and where each row begins and ends there."""

    shape: tuple[int, int]
    columns: "array[int]"
    ends: "array[int]"


class Entries:
    """The entries of a jacobian that are not structurally zero, as a function to compile.

    Its `patterns` say where they are, for the shapes of the arguments that it was called with.
    """

    def __init__(self, function: Any) -> None:
        if not isinstance(function, Jacobian):
            raise TypeError(
                f"sparse=True compiles jacobian(f) or hessian(f), which are a matrix, not {shown(function)}: "
                "leave it out, or give one of these"
            )
        self._jacobian: Jacobian | None = function
        self.patterns: dict[tuple[Shape, ...], Pattern] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_jacobian": None}  # it may be of a lambda, and has been traced

    def __call__(self, *args: Any) -> list[Any]:
        """The entries, row by row, for arguments of traced Values."""
        assert self._jacobian is not None
        symbols = [replaced(lambda x: x.data, arg) for arg in args]  # on which an operation is recorded at once
        call, rows = self._jacobian.sparse(*symbols)
        came = shape_of(call.result), shape_of(call.args)
        if not all(len(shape) == 1 and is_regular(shape) for shape in came):
            raise TypeError(
                "sparse=True is for the derivatives of a list of numbers by a list of numbers, which are a matrix, not "
                f"of a result of shape {came[0]} by an argument of shape {came[1]}: give flat lists, or leave it out"
            )
        columns, ends = array("i"), array("i", [0])
        numbers: list[Any] = []
        for row in rows:
            found = [j for j in sorted(row) if not _is_zero(row[j])]
            columns.extend(found)
            numbers += map(row.__getitem__, found)
            ends.append(len(columns))
        shape = len(call.outputs), len(call.variables)
        self.patterns[tuple(map(shape_of, args))] = Pattern(shape, columns, ends)
        return numbers

    def matrices(self, shapes: tuple[Shape, ...], n: int, numbers: Any) -> list[Any]:
        """The matrix of each of n examples, from the entries of all. Raises ModuleNotFoundError without SciPy."""
        try:
            csr_array = import_module("scipy.sparse").csr_array  # here, since only those need it who call the function
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "a sparse function returns a scipy.sparse.csr_array, and SciPy is not installed: run pip install "
                "scipy, or take only the numbers, from map(xs, out=array)"
            ) from error
        import numpy as np

        shape, columns, ends = self.patterns[shapes]
        examples = np.asarray(numbers).reshape(n, len(columns))
        return [csr_array((row, np.array(columns), np.array(ends)), shape) for row in examples]


def _is_zero(number: Any) -> bool:
    """Whether this is 0 whatever the arguments are, as of x - x, or where numbers are finite, of 0.0 * x * y."""
    constant = number.trace.constants.get(number.id) if type(number) is Symbol else number
    return type(constant) in (int, float) and constant == 0
