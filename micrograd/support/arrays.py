"""NumPy's arrays, without importing NumPy before there is one: whoever has an array has imported it."""

import sys
from collections.abc import Sequence
from typing import Any


def is_array(x: Any) -> bool:
    """Whether this is an array of NumPy's; one without dimensions is a number."""
    kind = getattr(sys.modules.get("numpy"), "ndarray", ())  # another thread may be importing it
    return isinstance(x, kind) and bool(x.shape)


def empty(shape: Sequence[int], code: str = "d") -> Any:
    """An array of that shape, of doubles, or for the code "f" of floats, to write numbers into."""
    import numpy as np  # here, since only those need it who have an array

    return np.empty(shape, code)


def viewed(numbers: Any) -> Any:
    """The numbers of a buffer, where they lie, as an array."""
    import numpy as np

    return np.asarray(memoryview(numbers))


def are_plain(numbers: Any) -> bool:
    """Whether all of these are Python's own numbers, which an array takes at once."""
    return {float, int}.issuperset(map(type, numbers))


def array_of(numbers: Sequence[Any], shape: Sequence[int]) -> Any:
    """The flat numbers as an array of that shape: of doubles, or of objects if there are others than Python's own."""
    array = empty((len(numbers),), "d" if are_plain(numbers) else "O")
    array[:] = numbers
    return array.reshape(shape)
