"""Arguments and results of functions as trees: numbers in lists, tuples, dicts, NumPy's arrays and pandas' tables.

The numbers of a tree have an order, from left to right; those of a dict that of its sorted keys, as in JAX. Its shape
is what it has besides the numbers. An error about a number says where in the tree it is: `args[0]['k'][2]`.
"""

from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, islice
from typing import Any

from micrograd.arrays import array_of, is_array
from micrograd.engine import Value
from micrograd.errors import shown

Shape = tuple[Any, ...]
"""() for a number, (3, 2) for three lists of two, ("ragged", (2,), (3,)) for a list of different shapes, and
(Keys(["a", "b"]), (2,), ()) for a dict."""


class Keys(tuple[Any, ...]):
    """The keys of a dict, in order."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"dict{super().__repr__()}"


def items(tree: Any) -> Sequence[tuple[Any, Any]] | None:
    """The branches of a list, a tuple, a dict, an array or a table, each with its index or key; None for a number."""
    if isinstance(tree, dict):
        try:
            return [(key, tree[key]) for key in sorted(tree)]
        except TypeError:
            raise TypeError(f"the keys of {shown(tree)} have no order: expected words, for instance") from None
    tree = as_lists(tree)
    return [*enumerate(tree)] if isinstance(tree, (list, tuple, range)) else None


def leaves(path: str, tree: Any) -> Iterator[tuple[str, Any]]:
    """The numbers in a tree, in order, each with how Python would index it."""
    pairs = items(tree)
    if pairs is None:
        yield path, tree
    else:
        for key, branch in pairs:
            yield from leaves(f"{path}[{key!r}]", branch)


def mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    """The function of each number in a tree, in nested lists and dicts."""
    if isinstance(tree, (float, Value)):
        return function(tree)
    if isinstance(tree, (list, tuple)):
        return [mapped(function, branch) for branch in tree]
    pairs = items(tree)
    if pairs is None:
        return function(as_lists(tree))
    found = {key: mapped(function, branch) for key, branch in pairs}
    return found if isinstance(tree, dict) else list(found.values())


def replaced(function: Callable[[Any], Any], tree: Any) -> Any:
    """The function of each number in a tree, in lists, tuples, dicts and arrays like its own."""
    if isinstance(tree, list):
        return [replaced(function, branch) for branch in tree]
    if isinstance(tree, tuple):
        branches = [replaced(function, branch) for branch in tree]
        return tree._make(branches) if hasattr(tree, "_make") else tuple(branches)  # which a named tuple has
    if isinstance(tree, dict):
        return {key: replaced(function, branch) for key, branch in items(tree) or ()}
    tree = _by_position(tree)
    if not hasattr(tree, "astype") or not tree.ndim:  # a number, or a tensor of PyTorch, which cannot hold Values
        return mapped(function, tree)
    array = tree.astype(object)
    array.flat = [function(number) for number in array.flat]
    return array


def at_path(function: Callable[[Any], Any], path: str, tree: Any) -> Any:
    """What `replaced` makes of a tree. A TypeError about one of its numbers says where it is."""
    try:
        return replaced(function, tree)
    except TypeError:
        for where, leaf in leaves(path, tree):
            try:
                function(leaf)
            except TypeError as error:
                raise TypeError(f"{where}: {error}") from None
        raise


def flat(tree: Any) -> list[Any]:
    """The numbers in a tree, in order."""
    numbers: list[Any] = []
    mapped(numbers.append, tree)
    return numbers


def filled(tree: Any, numbers: Iterator[Any]) -> Any:
    """The next numbers in the shape of a tree: an array for an array, a dict for a dict, otherwise nested lists."""
    if isinstance(tree, (list, tuple)):
        return [filled(branch, numbers) for branch in tree]
    if isinstance(tree, dict):
        return {key: filled(branch, numbers) for key, branch in items(tree) or ()}
    if is_array(tree):
        return array_of(list(islice(numbers, tree.size)), tree.shape)
    return mapped(lambda _: next(numbers), tree)


def stacked(tree: Any, numbers: Sequence[Any], inner: Sequence[int] = ()) -> Any:
    """The numbers as an array in the shape of nested lists, then in the inner one; None if they are not one array."""
    outer = shape_of(tree)
    if not is_regular(outer):
        return None
    return array_of(numbers, (*outer, *inner)) if outer or inner else numbers[0]


def has_array(tree: Any) -> bool:
    """Whether there is an array in nested lists and dicts."""
    if isinstance(tree, dict):
        tree = list(tree.values())
    return any(map(has_array, tree)) if isinstance(tree, (list, tuple)) else is_array(tree)


def as_lists(tree: Any) -> Any:
    """A table or an array as nested lists, one without dimensions as a number; anything else as it is."""
    tree = _by_position(tree)
    return tree.tolist() if hasattr(tree, "tolist") else tree


def _by_position(tree: Any) -> Any:
    """A table or a Series of pandas as an array; anything else as it is."""
    return tree.to_numpy() if hasattr(tree, "to_numpy") else tree


# Shapes


def shape_of(tree: Any) -> Shape:
    """The shape of a tree."""
    if isinstance(tree, dict):
        pairs = items(tree) or ()
        return Keys([key for key, _ in pairs]), *[shape_of(branch) for _, branch in pairs]
    if isinstance(tree, (list, tuple, range, array)):
        shapes = [shape_of(branch) for branch in tree]
        if any(shape != shapes[0] for shape in shapes):
            return ("ragged", *shapes)
        return (len(tree), *shapes[0]) if shapes else (0,)
    shape = getattr(tree, "shape", ())
    return tuple(shape) if isinstance(shape, (tuple, list)) else ()


def is_regular(shape: Shape) -> bool:
    """Whether this is the shape of an array."""
    return {int}.issuperset(map(type, shape))


def branches(shape: Shape) -> Sequence[Shape]:
    """The shapes of the branches of a list or dict."""
    return [shape[1:]] * shape[0] if type(shape[0]) is int else shape[1:]


def size(shape: Shape) -> int:
    """How many numbers there are in the shape."""
    if not shape:
        return 1
    return shape[0] * size(shape[1:]) if type(shape[0]) is int else sum(map(size, shape[1:]))


def unflatten(numbers: Iterator[Any], shape: Shape) -> Any:
    """The next numbers, in that shape."""
    if not shape:
        return next(numbers)
    if len(shape) == 1 and is_regular(shape):
        return list(islice(numbers, shape[0]))
    return _joined(shape, [unflatten(numbers, branch) for branch in branches(shape)])


def nested(numbers: Any, shape: Shape) -> Any:
    """The numbers of an array, in that shape: as arrays if it is one of NumPy's, else as nested lists.

    Of a regular shape, C makes all of the lists at once.
    """
    if is_array(numbers):
        return _split(numbers, shape)
    if not shape or not is_regular(shape) or 0 in shape:
        return unflatten(iter(numbers.tolist()), shape)
    code: Any = numbers.typecode
    return memoryview(numbers).cast("B").cast(code, shape).tolist()


def _split(numbers: Any, shape: Shape) -> Any:
    """Parts of an array, without copies: lists and dicts only where the shapes in them differ."""
    if is_regular(shape):
        return numbers.reshape(shape) if shape else float(numbers[0])
    ends = list(accumulate(map(size, branches(shape)), initial=0))
    parts = zip(ends, ends[1:], branches(shape), strict=False)
    return _joined(shape, [_split(numbers[i:j], branch) for i, j, branch in parts])


def _joined(shape: Shape, parts: list[Any]) -> Any:
    """The branches of this shape as a list, or as a dict."""
    return dict(zip(shape[0], parts, strict=True)) if isinstance(shape[0], Keys) else parts
