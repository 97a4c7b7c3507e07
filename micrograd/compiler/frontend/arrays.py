"""Arrays as arguments: where the example of an argument has an array, the function gets one at each call."""

from collections.abc import Callable, Sequence
from itertools import chain, repeat
from operator import is_not
from typing import Any

from micrograd.engine import Value
from micrograd.trees import flat, is_regular, shape_of


def on_arrays(function: Callable[..., Any], example_args: Sequence[Any]) -> Callable[..., Any]:
    """The function, taking numbers and nested lists, which it gets as arrays where the example arguments are arrays.

    Where an example argument has a number and a call gives several, the function gets an array too, which does the
    arithmetic of a number; `*` would repeat a list. A list may be longer than in the example: its further items are
    treated as the last one is.
    """
    kinds = _kinds(list(example_args))

    def given_arrays(*arguments: Any) -> Any:
        return function(*_with_arrays(list(arguments), kinds))

    given_arrays.__name__ = getattr(function, "__name__", "function")
    return given_arrays


def _kinds(tree: Any) -> Any:
    """The class of an array or a table; for a list or a dict, those of its items; None for a number."""
    if isinstance(tree, dict):
        return {key: _kinds(branch) for key, branch in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [_kinds(branch) for branch in tree]
    if not hasattr(tree, "__array__") or getattr(tree, "shape", None) == ():
        return None
    import numpy as np  # here, since only those need it who have an array

    return type(np.asanyarray(tree))


def _with_arrays(tree: Any, kinds: Any) -> Any:
    """A tree of Values or numbers, with arrays of these kinds in place of some branches; itself if there are none."""
    if isinstance(kinds, dict) and isinstance(tree, dict):
        branches = {key: _with_arrays(branch, kinds.get(key, [])) for key, branch in tree.items()}
        return branches if any(branches[key] is not tree[key] for key in tree) else tree
    if kinds and isinstance(kinds, list) and isinstance(tree, (list, tuple)):
        items = [_with_arrays(*pair) for pair in zip(tree, chain(kinds, repeat(kinds[-1])), strict=False)]
        return items if any(map(is_not, items, tree)) else tree
    if isinstance(kinds, (dict, list)) or (kinds is None and not isinstance(tree, (list, tuple))):
        return tree
    shape = shape_of(tree)
    if not shape or not is_regular(shape):
        came = "rows of unequal length" if shape else "a number"
        expected = "a number" if kinds is None else "an array"
        raise ValueError(f"expected {expected}, as in the example of this argument, not {came}")
    try:
        import numpy as np
    except ModuleNotFoundError:  # so it is a list that came for a number
        raise ValueError("expected a number, as in the example of this argument: give compile one of a list") from None
    numbers = flat(tree)
    dtype = object if any(isinstance(number, Value) for number in numbers) else float
    return np.array(numbers, dtype).reshape(shape).view(kinds or np.ndarray)
