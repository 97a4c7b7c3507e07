"""Arguments and results of functions as trees: numbers in nested lists, tuples, NumPy's arrays and pandas' tables."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from micrograd.arrays import array_of, is_array
from micrograd.engine import Value


def mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    """The function of each number in a tree, in nested lists."""
    if isinstance(tree, (float, Value)):
        return function(tree)
    tree = as_lists(tree)
    return [mapped(function, branch) for branch in tree] if isinstance(tree, (list, tuple)) else function(tree)


def replaced(function: Callable[[Any], Any], tree: Any) -> Any:
    """The function of each number in a tree, in lists, tuples and arrays like its own."""
    if isinstance(tree, list):
        return [replaced(function, branch) for branch in tree]
    if isinstance(tree, tuple):
        branches = [replaced(function, branch) for branch in tree]
        return tree._make(branches) if hasattr(tree, "_make") else tuple(branches)  # which a named tuple has
    tree = _by_position(tree)
    if not hasattr(tree, "astype") or not tree.ndim:  # a number, or a tensor of PyTorch, which cannot hold Values
        return mapped(function, tree)
    array = tree.astype(object)
    array.flat = [function(number) for number in array.flat]
    return array


def flat(tree: Any) -> list[Any]:
    """The numbers in a tree, in order."""
    numbers: list[Any] = []
    mapped(numbers.append, tree)
    return numbers


def filled(tree: Any, numbers: Iterator[Any]) -> Any:
    """The next numbers in the shape of a tree: an array for an array, nested lists for anything else."""
    if isinstance(tree, (list, tuple)):
        return [filled(branch, numbers) for branch in tree]
    if is_array(tree):
        return array_of(list(islice(numbers, tree.size)), tree.shape)
    return mapped(lambda _: next(numbers), tree)


def stacked(tree: Any, numbers: Sequence[Any], inner: Sequence[int] = ()) -> Any:
    """The numbers as an array in the shape of nested lists, then in the inner one; None if the lists are ragged."""
    outer = _shape(tree)
    return None if outer is None else array_of(numbers, (*outer, *inner)) if outer or inner else numbers[0]


def has_array(tree: Any) -> bool:
    """Whether there is an array in nested lists."""
    return any(map(has_array, tree)) if isinstance(tree, (list, tuple)) else is_array(tree)


def as_lists(tree: Any) -> Any:
    """A table or an array as nested lists, one without dimensions as a number; anything else as it is."""
    tree = _by_position(tree)
    return tree.tolist() if hasattr(tree, "tolist") else tree


def _by_position(tree: Any) -> Any:
    """A table or a Series of pandas as an array; anything else as it is."""
    return tree.to_numpy() if hasattr(tree, "to_numpy") else tree


def _shape(tree: Any) -> tuple[int, ...] | None:
    """The lengths of nested lists, level by level; None if they are ragged."""
    if not isinstance(tree, list):
        return ()
    first, *others = {_shape(branch) for branch in tree} or {()}
    return None if others or first is None else (len(tree), *first)
