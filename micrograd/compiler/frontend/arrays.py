"""Arrays as arguments: where the example of an argument has an array, the function gets one at each call."""

from collections.abc import Callable, Sequence
from itertools import chain, repeat
from typing import Any

from micrograd.engine import Value
from micrograd.trees import flat, is_regular, shape_of


def on_arrays(function: Callable[..., Any], example_args: Sequence[Any]) -> Callable[..., Any]:
    """The function, taking numbers and nested lists, which it gets as arrays where the example arguments are arrays.

    A list may be longer than in the example: its further items are treated as the last one is.
    """
    kinds = _kinds(list(example_args))
    if kinds is None:
        return function

    def given_arrays(*arguments: Any) -> Any:
        return function(*_with_arrays(list(arguments), kinds))

    given_arrays.__name__ = getattr(function, "__name__", "function")
    return given_arrays


def _kinds(tree: Any) -> Any:
    """The class of an array or a table; for a list or a dict, those of its items; None if there are none."""
    if isinstance(tree, dict):
        of_items = {key: _kinds(branch) for key, branch in tree.items()}
        return of_items if any(of_items.values()) else None
    if isinstance(tree, (list, tuple)):
        kinds = [_kinds(branch) for branch in tree]
        return kinds if any(kinds) else None
    if not hasattr(tree, "__array__") or getattr(tree, "shape", None) == ():
        return None
    import numpy as np  # here, since only those need it who have an array

    return type(np.asanyarray(tree))


def _with_arrays(tree: Any, kinds: Any) -> Any:
    """A tree of Values or numbers, with arrays of these kinds in place of some branches."""
    if isinstance(kinds, dict):
        return {key: _with_arrays(branch, kinds.get(key)) for key, branch in tree.items()}
    if isinstance(kinds, list):
        return [_with_arrays(*pair) for pair in zip(tree, chain(kinds, repeat(kinds[-1])), strict=False)]
    if kinds is None:
        return tree
    shape = shape_of(tree)
    if not shape or not is_regular(shape):
        came = "rows of unequal length" if shape else "a number"
        raise ValueError(f"expected an array, as in the example of this argument, not {came}")
    import numpy as np

    numbers = flat(tree)
    dtype = object if any(isinstance(number, Value) for number in numbers) else float
    return np.array(numbers, dtype).reshape(shape).view(kinds)
