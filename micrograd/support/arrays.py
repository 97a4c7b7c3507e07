"""NumPy's arrays. NumPy is imported only where there is an array, so the program has imported it already."""

import sys
from collections.abc import Sequence
from typing import Any

PLAIN = frozenset((float, int))


def numpy_class(name: str) -> Any:
    """A class of NumPy's, or () for isinstance if NumPy is not imported yet; another thread may be importing it."""
    return getattr(sys.modules.get("numpy"), name, ())


def is_array(x: Any) -> bool:
    """Whether this is a NumPy array; one without dimensions is a number."""
    return isinstance(x, numpy_class("ndarray")) and bool(x.shape)


def by_rows(x: Any) -> Any:
    """A table of pandas as an array of its rows, since iteration gives column names; all else as it is."""
    return x.to_numpy() if hasattr(x, "to_numpy") else x


def empty(shape: Sequence[int], code: str = "d") -> Any:
    """An array of that shape to write numbers into: of doubles, or of floats for the code "f"."""
    import numpy as np  # not at the top: most programs have no arrays

    return np.empty(shape, code)


def as_ndarray(numbers: Any) -> Any:
    """The numbers of a buffer as an array, without a copy."""
    import numpy as np

    return np.asarray(memoryview(numbers))


def are_plain(numbers: Any) -> bool:
    """Whether all of these are Python's floats and ints, and so need no conversion."""
    return PLAIN.issuperset(map(type, numbers))


def array_of(numbers: Sequence[Any], shape: Sequence[int]) -> Any:
    """The flat numbers as an array of that shape: of doubles, or of objects if not all are Python's own numbers."""
    array = empty((len(numbers),), "d" if are_plain(numbers) else "O")
    array[:] = numbers
    return array.reshape(shape)
