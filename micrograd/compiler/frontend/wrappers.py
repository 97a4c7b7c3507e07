"""Stand-ins for the user's function: one that takes arrays, the entries of a jacobian, and one for copies."""

from array import array
from collections.abc import Callable, Sequence
from importlib import import_module
from itertools import chain, repeat
from typing import Any, NoReturn

from micrograd.compiler.frontend.tracer import Symbol
from micrograd.engine import Value
from micrograd.functional import Jacobian
from micrograd.support.arrays import are_plain
from micrograd.support.trees import Shape, flat, is_regular, replaced, shape_of
from micrograd.support.validation import require_attributes


def on_arrays(function: Callable[..., Any], example_args: Sequence[Any]) -> Callable[..., Any]:
    """The function, taking numbers and nested lists; it gets arrays where the example arguments are arrays, and dicts
    with their keys in the order of the example's.

    Where an example argument has a number and a call gives several, the function gets an array too: it computes as a
    number does, while `*` would repeat a list. A list may be longer than in the example: its further items are treated
    as the last one is.
    """
    kinds = _kinds(list(example_args))

    def given_arrays(*arguments: Any) -> Any:
        return function(*_with_arrays(list(arguments), kinds))

    return given_arrays


def _kinds(tree: Any) -> Any:
    """The class of an array or a table; for a list or a dict, the classes of its items; None for a number."""
    if isinstance(tree, dict):
        return {key: _kinds(branch) for key, branch in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [None][: len(tree)] if are_plain(tree) else [_kinds(branch) for branch in tree]
    if not hasattr(tree, "__array__") or getattr(tree, "shape", None) == ():
        return None
    import numpy as np  # here, since only users of arrays need it

    return type(np.asanyarray(tree))


def _with_arrays(tree: Any, kinds: Any) -> Any:
    """A tree of Values or numbers, with arrays of these kinds in place of some branches, and dicts in their order."""
    if isinstance(kinds, dict) and isinstance(tree, dict):
        ordered = [key for key in dict.fromkeys([*kinds, *tree]) if key in tree]
        return {key: _with_arrays(tree[key], kinds.get(key, [])) for key in ordered}
    is_nested = isinstance(tree, (list, tuple)) and (kinds != [None] or list in map(type, tree))
    if kinds and isinstance(kinds, list) and is_nested:
        return [_with_arrays(*pair) for pair in zip(tree, chain(kinds, repeat(kinds[-1])), strict=False)]
    if isinstance(kinds, (dict, list)) or (kinds is None and not isinstance(tree, (list, tuple))):
        return tree
    import numpy as np

    numbers, shape = flat(tree), shape_of(tree)
    if not is_regular(shape):
        raise ValueError("all rows of an array must have the same shape")
    dtype = object if any(isinstance(number, Value) for number in numbers) else float
    return np.array(numbers, dtype).reshape(shape).view(kinds or np.ndarray)


def elsewhere(name: str, *args: Any) -> NoReturn:
    """Raise TypeError: copies of a compiled function call this, since the user's function may not be picklable."""
    problem = f"{name} was compiled elsewhere and cannot be traced here: to call it with Values, compile it here"
    raise TypeError(f"{problem}; to call it with this shape, do so once before you copy or pickle it")


class Entries:
    """The entries of a jacobian that are not structurally zero.

    Each row belongs to a number of the result, and each column to a number of the argument, however these are nested.
    For all shapes that its arguments have had, `patterns` has the shape of the matrix, the column of each entry, row by
    row, and where each row begins and ends among the entries.
    """

    def __init__(self, function: Any) -> None:
        require_attributes("function", function, ["sparse"], "jacobian(f) or hessian(f), for sparse=True")
        self._jacobian: Jacobian = function
        self.patterns: dict[tuple[Shape, ...], tuple[tuple[int, int], array[int], array[int]]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {"patterns": self.patterns}  # the jacobian may be of a lambda, and has been traced

    def __call__(self, *args: Any) -> list[Any]:
        """The entries, row by row, for arguments of traced Values."""
        symbols = [replaced(lambda x: x.data, arg) for arg in args]  # on which an operation is recorded at once
        call, rows = self._jacobian.sparse(*symbols)
        columns, ends = array("i"), array("i", [0])
        numbers: list[Any] = []
        for row in rows:
            found = [j for j in sorted(row) if not _is_zero(row[j])]
            columns.extend(found)
            numbers += map(row.__getitem__, found)
            ends.append(len(columns))
        self.patterns[tuple(map(shape_of, args))] = (len(call.outputs), len(call.variables)), columns, ends
        return numbers

    def matrices(self, shapes: tuple[Shape, ...], n: int, numbers: Any) -> list[Any]:
        """The matrix of each of n examples, from the entries of all."""
        csr_array = import_module("scipy.sparse").csr_array  # imported here, since only a call of the function needs it
        import numpy as np

        shape, columns, ends = self.patterns[shapes]
        examples = np.asarray(numbers).reshape(n, len(columns))
        return [csr_array((row, np.array(columns), np.array(ends)), shape) for row in examples]


def _is_zero(number: Any) -> bool:
    """Whether this is 0 whatever the arguments are, as of x - x, or where numbers are finite, of 0.0 * x * y."""
    constant = number.trace.constants.get(number.id) if type(number) is Symbol else number
    return type(constant) in (int, float) and constant == 0
