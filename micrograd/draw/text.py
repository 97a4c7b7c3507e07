"""Numbers and labels as text, and the width of text."""

import json
import math
import re
from bisect import bisect
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import accumulate
from typing import Any

from micrograd.core.errors import shown
from micrograd.draw.shell import read
from micrograd.engine import Value
from micrograd.scalar import innermost
from micrograd.support.trees import flat

# The width of each character in the widest font of the stack, that of cards.css.
EMS = {c: float(ems) for ems, some in json.loads(read(__package__, "widths.json")).items() for c in some}
# A visible symbol for each character that XML cannot hold, and for line breaks.
CONTROLS = dict.fromkeys([*range(32), 0x7F, *range(0xD800, 0xE000), 0xFFFE, 0xFFFF], "\ufffd")


def real(x: Any) -> float:
    """The float nearest to a number of any kind, or to a Value's; NaN for anything but a real number."""
    x = innermost(x)
    try:
        return math.nan if hasattr(x, "sigmoid") else float(x)  # a traced number has no value yet
    except OverflowError:
        return math.inf if x > 0 else -math.inf
    except (TypeError, ValueError):
        return math.nan


def finite_rows(table: Sequence[Any], expected: str, *, size: int = 0, kind: str = "") -> list[list[float]]:
    """The numbers of each example. Raises ValueError unless each has `size` finite ones (0: as many as the first)."""
    rows = [list(map(real, flat(example))) for example in table]
    for i, (example, row) in enumerate(zip(table, rows, strict=True)):
        if len(row) != (size or len(rows[0])) or not all(map(math.isfinite, row)):
            raise ValueError(f"{kind}example {i} is {shown(example)}: {expected}")
    return rows


def signed(text: str) -> str:
    """The text with a minus sign in place of a hyphen before each number in it."""
    return re.sub(r"-(?=[\di])", "−", text)


def number(x: Any, room: float = math.inf) -> str:
    """A number with four significant digits, a short int or fraction as it is; fewer digits if there is no room."""
    x = innermost(x)
    if isinstance(x, (int, Fraction)) and max(abs(x.numerator), x.denominator) >= 1_000_000:
        x = Decimal(x.numerator) / x.denominator
    if not isinstance(x, (float, Decimal)):
        text = signed(str(x))
        if len(text.removeprefix("−")) <= room or math.isnan(real(x)):  # a minus has its own room
            return text
        x = real(x)
    texts = [signed(f"{x:{form}}") for form in (".4g", ".3g", ".2g", ".1g", ".0e")]
    texts = [re.sub(r"e(−?)\+?0*(?=\d)", r"e\1", text) for text in texts]  # −1.5e−07 as −1.5e−7
    return next((text for text in texts[:4] if len(text.removeprefix("−")) <= room), min(texts[3:], key=len))


def width(text: str) -> float:
    """The largest width of the text in any font of the stack, in ems; unknown characters are 1 em wide."""
    return sum(EMS.get(c, 1.0) for c in text)


def label(value: Value) -> str:
    """The label of a Value, of any type, as one line of text that XML can hold."""
    return str(value.label).translate(CONTROLS)


def fitted(text: str, ems: float) -> str:
    """The text cut to at most `ems` ems."""
    if width(text) <= ems:
        return text
    return text[: bisect(list(accumulate(map(width, text))), ems - 1)] + "…"
