"""Arguments and results of functions as trees: numbers in lists, tuples, dicts, NumPy arrays and pandas tables.

The numbers of a tree have an order: from left to right, and in a dict by its sorted keys, as in JAX. The shape of a
tree is everything except its numbers. An error about a number says where in the tree it is: `args[0]['k'][2]`.
"""

from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import accumulate, islice, pairwise, starmap
from typing import Any

from micrograd.engine import Value
from micrograd.support.arrays import are_plain, array_of, by_rows, is_array

Shape = tuple[Any, ...]
"""() for a number, (3, 2) for three lists of two, ("ragged", (2,), (3,)) for a list of different shapes, and
(Keys(["a", "b"]), (2,), ()) for a dict."""


class Keys(tuple[Any, ...]):
    """The keys of a dict, in order."""

    __slots__ = ()


def branches(tree: Any) -> Sequence[Any] | None:
    """What a container holds, in order; None for anything else, such as a number or an array."""
    if isinstance(tree, dict):
        return [tree[key] for key in keys(tree)]
    return tree if isinstance(tree, (list, tuple, range)) else None


def keys(tree: Any) -> Sequence[Any]:
    """The indices or keys of a container's branches, in order. Raises TypeError if keys cannot be sorted."""
    return Keys(sorted(tree)) if isinstance(tree, dict) else range(len(tree))


def leaves(path: str, tree: Any) -> Iterator[tuple[str, Any]]:
    """The numbers in a tree, in order, each with how Python would index it."""
    tree = as_lists(tree)
    inside = branches(tree)
    if inside is None:
        yield path, tree
    else:
        for key, branch in zip(keys(tree), inside, strict=True):
            yield from leaves(f"{path}[{key!r}]", branch)


def mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    """The function applied to each number in a tree, in nested lists and dicts."""
    return unflatten(map(function, flat(tree)), shape_of(tree))


def replaced(function: Callable[[Any], Any], tree: Any) -> Any:
    """The function applied to each number in a tree, in lists, tuples, dicts and arrays like its own."""
    if isinstance(tree, (float, Value)):
        return function(tree)
    inside = branches(tree)
    if inside is None:
        return filled(by_rows(tree), map(function, flat(tree)))
    found = _joined(keys(tree), [replaced(function, branch) for branch in inside])
    if isinstance(tree, tuple):
        return tree._make(found) if hasattr(tree, "_make") else tuple(found)  # a named tuple has _make
    return dict.fromkeys(tree) | found if isinstance(tree, dict) else found  # its keys keep their order


def at_path(function: Callable[[Any], Any], path: str, tree: Any) -> Any:
    """What `replaced` makes of a tree. A TypeError about one of its numbers says where it is."""
    try:
        return replaced(function, tree)
    except TypeError as error:
        taken = list[Any]()
        with suppress(TypeError):
            taken.extend(map(function, flat(tree)))  # up to the one that is refused
        where, _ = next(islice(leaves(path, tree), len(taken), None))
        raise TypeError(f"{where}: {error}") from None


def flat(tree: Any) -> list[Any]:
    """The numbers in a tree, in order."""
    if isinstance(tree, (float, Value)):
        return [tree]
    tree = as_lists(tree)
    inside = branches(tree)
    if inside is None:
        return [tree]
    return list(inside) if _are_numbers(inside) else [number for branch in inside for number in flat(branch)]


def _are_numbers(branches: Sequence[Any]) -> bool:
    """Whether all of these are numbers or Values, so that nothing is inside."""
    return all(issubclass(kind, (float, int, Value)) for kind in {*map(type, branches)})


def filled(tree: Any, numbers: Iterator[Any]) -> Any:
    """The next numbers in the shape of a tree: an array for an array, a dict for a dict, otherwise nested lists."""
    if is_array(tree):
        return array_of(list(islice(numbers, tree.size)), tree.shape)
    inside = branches(tree)
    if inside is None:
        return unflatten(numbers, shape_of(tree))
    return _joined(keys(tree), [filled(branch, numbers) for branch in inside])


def has_array(tree: Any) -> bool:
    """Whether there is an array in a tree."""
    return is_array(tree) or any(map(has_array, branches(tree) or ()))


def _joined(keys: Any, parts: list[Any]) -> Any:
    """The branches as a dict with these keys, or as a list if these are not the keys of a dict."""
    return dict(zip(keys, parts, strict=True)) if isinstance(keys, Keys) else parts


def as_lists(tree: Any) -> Any:
    """A table of pandas or an array as nested lists, one without dimensions as a number; anything else as it is."""
    tree = by_rows(tree)
    return tree.tolist() if hasattr(tree, "tolist") else tree


def plain_numbers(numbers: Any) -> list[Any]:
    """The numbers as Python's own: NumPy's would impose their precision on everything computed from them."""
    return numbers if are_plain(numbers) else list(map(as_lists, numbers))


# Shapes


def shape_of(tree: Any) -> Shape:
    """The shape of a tree."""
    if not isinstance(tree, (list, tuple, range, array, dict)):
        shape = getattr(tree, "shape", ())
        return tuple(shape) if isinstance(shape, (tuple, list)) else ()
    if isinstance(tree, (list, tuple)) and _are_numbers(tree):
        return (len(tree),)  # as below, but faster
    shapes = [shape_of(branch) for branch in branches(as_lists(tree)) or ()]
    if isinstance(tree, dict):
        return keys(tree), *shapes
    if any(shape != shapes[0] for shape in shapes):
        return ("ragged", *shapes)
    return (len(tree), *shapes[0]) if shapes else (0,)


def described(shape: Shape) -> str:
    """A shape, or several in a tuple, for errors: a dict has braces, as in {'k': (3,)}."""
    if not isinstance(shape, tuple):
        return repr(shape)
    if shape and isinstance(shape[0], Keys):
        return f"{{{', '.join(f'{key!r}: {described(of)}' for key, of in zip(*shape[:1], shape[1:], strict=True))}}}"
    return f"({', '.join(map(described, shape))}{',' * (len(shape) == 1)})"


INTS = frozenset((int,))


def is_regular(shape: Shape) -> bool:
    """Whether this is the shape of an array."""
    return INTS.issuperset(map(type, shape))


def shapes_in(shape: Shape) -> tuple[Shape, ...]:
    """The shapes of the branches of a list or dict."""
    return (shape[1:],) * shape[0] if type(shape[0]) is int else shape[1:]


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
    return _joined(shape[0], [unflatten(numbers, branch) for branch in shapes_in(shape)])


def nested(numbers: Any, shape: Shape) -> Any:
    """The numbers in that shape: from a NumPy array, as arrays without copies; from an array or a view, as lists."""
    if not shape:
        return float(numbers[0])
    if not is_regular(shape):  # lists and dicts only where the shapes in them differ
        return _joined(shape[0], [nested(numbers[at], of) for at, of in places(shapes_in(shape))])
    if not isinstance(numbers, (array, memoryview)):
        return numbers.reshape(shape)
    if len(shape) == 1:
        return numbers.tolist()
    if 0 in shape:
        return unflatten(iter(()), shape)
    view: Any = memoryview(numbers)
    return view.cast("B").cast(view.format, shape).tolist()


@lru_cache
def places(shapes: tuple[Shape, ...]) -> list[tuple[slice, Shape]]:
    """For each shape, the slice of its numbers among all, and the shape."""
    ends = accumulate(map(size, shapes), initial=0)
    return list(zip(starmap(slice, pairwise(ends)), shapes, strict=True))
