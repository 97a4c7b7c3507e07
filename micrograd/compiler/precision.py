"""The precision of numbers in C: all of it is written for doubles, and in single precision the same text is for floats.

What is to be a double in either, as a learning rate is, has the type `wide`; numbers in such a line are doubles, too.
"""

import math
import re
from array import array
from collections.abc import Iterable
from typing import NamedTuple

from micrograd import scalar

VECTOR_BYTES = 64  # of the widest
REMEDY = 'give precision="double"'
LARGEST = (2 - 2**-23) * 2.0**127  # of the numbers in single precision
SMALLEST = 2.0**-150  # which is rounded to 0

_WIDE, _TYPES = re.compile(r"\bwide\b"), re.compile(r"\b(double|long long)\b")
_FUNCTIONS = "|".join([*scalar.FUNCTIONS, "fabs", "fmod", "pow", "copysign", "remainder_", "take_at", "add_at"])
_LITERAL = r"(?<![\w.])(?P<literal>\d+\.\d*(e[+-]?\d+)?|\d+e[+-]?\d+)(?![\w.])"
_NUMBERS = re.compile(rf"\b({_FUNCTIONS})(?=\()|{_LITERAL}")


class Precision(NamedTuple):
    """How many digits numbers have in C.

    Attributes
    ----------
    name
        What users call it.
    code
        The type of a number for `array`, `struct` and `memoryview`.
    size
        The bytes that it takes.
    """

    name: str
    code: str
    size: int

    @property
    def lanes(self) -> int:
        """How many numbers there are in the widest vectors."""
        return VECTOR_BYTES // self.size

    def text(self, source: str) -> str:
        """The C of a source."""
        if self == SINGLE:
            lines = [line if _WIDE.search(line) else _NUMBERS.sub(_in_single, line) for line in source.split("\n")]
            source = _TYPES.sub(lambda found: "float" if found[0] == "double" else "int", "\n".join(lines))
        return _WIDE.sub("double", source)

    def format(self, n: int) -> str:
        """That of so many numbers for `struct`, by which one too large is an error."""
        return f"={n}{self.code}"

    def zeros(self, n: int) -> "array[float]":
        """So many numbers, all 0."""
        return array(self.code, bytes(self.size * n))

    def array(self, numbers: Iterable[float], name: str = "a number") -> "array[float]":
        """The numbers, one after the other. Raises OverflowError if one is too large for it."""
        doubles = numbers if isinstance(numbers, array) else array("d", numbers)
        if self == DOUBLE:
            return doubles
        floats = array(self.code, doubles)
        if math.inf in floats or -math.inf in floats:
            for number in doubles:
                self.check(name, number)
        return floats

    def check(self, name: str, number: float) -> None:
        """Raise OverflowError if a number is finite, but would not be in this precision."""
        if self == SINGLE and LARGEST < abs(number) < math.inf:
            raise OverflowError(f"{name} is {number!r}, and single precision ends at {LARGEST:.3g}: {REMEDY}")


def _in_single(found: re.Match[str]) -> str:
    if found["literal"] and not SMALLEST < float(found[0]) <= LARGEST and float(found[0]):
        return (
            "INFINITY" if float(found[0]) > 1.0 else "0.0f"
        )  # which they are rounded to, of which compilers would warn
    return f"{found[0]}f"


DOUBLE = Precision("double", "d", 8)
SINGLE = Precision("single", "f", 4)
PRECISIONS = DOUBLE, SINGLE


def named(name: str) -> Precision:
    """The precision of that name."""
    for precision in PRECISIONS:
        if precision.name == name:
            return precision
    raise ValueError(f'unknown precision {name!r}: expected "double" or "single"')
