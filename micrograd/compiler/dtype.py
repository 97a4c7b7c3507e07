"""The precision of numbers in C: doubles, or floats."""

import math
from array import array
from collections.abc import Sequence
from typing import Any, NamedTuple

VECTOR_BYTES = 64  # the widest
REMEDY = 'give precision="double"'
LARGEST = (2 - 2**-23) * 2.0**127  # number in single precision


class Precision(NamedTuple):
    """The type of numbers in C, where it is called `real`.

    It has a code for `array` and the like, a size in bytes, a type in C and an integer type of the same size, a suffix
    for functions and literals, and a number of binary digits that are stored after the first.
    """

    code: str
    size: int
    type: str
    integer: str
    suffix: str
    digits: int

    @property
    def lanes(self) -> int:
        """How many numbers there are in the widest vectors."""
        return VECTOR_BYTES // self.size

    def literal(self, number: float) -> str:
        """A literal in C with every bit of a number."""
        if number != number:
            return "NAN"
        text = "INFINITY" if math.isinf(number) else f"{abs(float(number))!r}{self.suffix}"
        return f"(-{text})" if number < 0 else f"-{text}" if math.copysign(1.0, number) < 0 else text

    def zeros(self, n: int) -> "array[float]":
        """An array of n zeros."""
        return array(self.code, [0.0]) * n

    def array(self, numbers: Sequence[Any], name: str = "number") -> "array[float]":
        """An array of the numbers. Raises TypeError for the first that is not one, OverflowError if too large."""
        if isinstance(numbers, memoryview) and numbers.format == self.code:
            return array(self.code, numbers.tobytes())
        doubles = numbers if isinstance(numbers, array) else array("d")
        if doubles is not numbers:
            try:
                doubles.extend(numbers)
            except (TypeError, OverflowError) as error:
                raise TypeError(f"{name} {len(doubles)} does not hold a number: {error}") from None
        if self == DOUBLE:
            return doubles
        floats = array(self.code, doubles)
        if math.inf in floats or -math.inf in floats:
            for i, number in enumerate(doubles):
                self.check(f"{name} {i}", number)
        return floats

    def check(self, name: str, number: float) -> None:
        """Raise OverflowError if a number is finite, but would not be in this precision."""
        if self == SINGLE and LARGEST < abs(number) < math.inf:
            raise OverflowError(f"{name} is {number!r}, beyond the range of single precision, {LARGEST:.3g}: {REMEDY}")


DOUBLE = Precision("d", 8, "double", "long long", "", 52)
SINGLE = Precision("f", 4, "float", "int", "f", 23)
PRECISIONS = {"double": DOUBLE, "single": SINGLE}


def named(name: str) -> Precision:
    """The precision with this name. Raises ValueError if there is none."""
    if name not in PRECISIONS:
        raise ValueError(f'unknown precision {name!r}: expected "double" or "single"')
    return PRECISIONS[name]
