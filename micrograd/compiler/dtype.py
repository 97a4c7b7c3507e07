"""The precision of numbers in C: templates are written for doubles, and become floats in single precision.

What is a double in both, such as a learning rate, has the type `wide`; all numbers in such a line are doubles.
"""

import math
import re
from array import array
from collections.abc import Iterable
from typing import NamedTuple

from micrograd import scalar

VECTOR_BYTES = 64  # the widest
REMEDY = 'give precision="double"'
LARGEST = (2 - 2**-23) * 2.0**127  # number in single precision
SMALLEST = 2.0**-150  # number that is rounded to 0

_WIDE, _TYPES = re.compile(r"\bwide\b"), re.compile(r"\b(double|long long)\b")
_OTHERS = ("fabs", "fmod", "pow", "copysign", "chosen", "larger", "remainder_", "take_at", "add_at")
_FUNCTIONS = "|".join([*scalar.FUNCTIONS, *_OTHERS])
_LITERAL = r"(?<![\w.])(?P<literal>\d+\.\d*(e[+-]?\d+)?|\d+e[+-]?\d+)(?![\w.])"
_NUMBERS = re.compile(rf"\b({_FUNCTIONS})(?=\()|{_LITERAL}")


class Precision(NamedTuple):
    """The type of numbers in C: its name for users, its code in `array` and the like, and its size in bytes."""

    name: str
    code: str
    size: int

    @property
    def lanes(self) -> int:
        """How many numbers there are in the widest vectors."""
        return VECTOR_BYTES // self.size

    def text(self, source: str) -> str:
        """C that was written for doubles, in this precision."""
        if self == SINGLE:
            lines = [line if _WIDE.search(line) else _NUMBERS.sub(_in_single, line) for line in source.split("\n")]
            source = _TYPES.sub(lambda found: "float" if found[0] == "double" else "int", "\n".join(lines))
        return _WIDE.sub("double", source)

    def zeros(self, n: int) -> "array[float]":
        """An array of n zeros."""
        return array(self.code, [0.0]) * n

    def array(self, numbers: Iterable[float], name: str = "a number") -> "array[float]":
        """An array of the numbers. Raises OverflowError if one is too large."""
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
            raise OverflowError(f"{name} is {number!r}, beyond the range of single precision, {LARGEST:.3g}: {REMEDY}")


def _in_single(found: re.Match[str]) -> str:
    """A function or a literal with the suffix of floats; what compilers would warn of is rounded here."""
    number = float(found["literal"] or 1.0)
    if number > LARGEST:
        return "INFINITY"
    return f"{found[0]}f" if number == 0 or number > SMALLEST else "0.0f"


DOUBLE = Precision("double", "d", 8)
SINGLE = Precision("single", "f", 4)


def named(name: str) -> Precision:
    """The precision of that name."""
    for precision in (DOUBLE, SINGLE):
        if precision.name == name:
            return precision
    raise ValueError(f'unknown precision {name!r}: expected "double" or "single"')
