"""Axes from a lowest to a highest number: their ends, positions along them, and ticks at round numbers.

Everything here works for all finite floats, including the largest and the smallest: no difference of two overflows.
"""

import math
import sys
from collections.abc import Sequence
from decimal import Decimal

LARGEST = sys.float_info.max
FLAT = 1e-4  # the margin of a single number, as a part of it: enough for different labels
ULPS = 1000  # the least span of an axis, so that the places along it are different floats


def widened(low: float, high: float, margin: float, least: float) -> tuple[float, float]:
    """The ends of an axis with a margin on each side: a part of the extent, or at least `least` if that is 0."""
    extent = min(high - low, LARGEST)
    by = max(margin * extent or max(least, FLAT * abs(low)), ULPS * math.ulp(max(abs(low), abs(high))))
    return max(low - by, -LARGEST), min(high + by, LARGEST)


def share(number: float, low: float, high: float) -> float:
    """The position of a number between low (0) and high (1); 0 if they are equal."""
    if math.isinf(high - low):
        number, low, high = number / 2, low / 2, high / 2
    return (number - low) / (high - low) if high > low else 0.0


def spaced(low: float, high: float, n: int) -> list[float]:
    """`n` evenly spaced numbers from low to high."""
    return [low * (1 - i / (n - 1)) + high * (i / (n - 1)) for i in range(n)]


def ticks(low: float | Decimal, high: float | Decimal, most: int) -> list[float]:
    """Round numbers from low to high: multiples of 1, 2 or 5 times a power of ten."""
    first, last = Decimal(low), Decimal(high)
    rough = (last - first) / most
    power = Decimal(1).scaleb(rough.adjusted())
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * (1 - Decimal("1e-9")))
    found = [float(i * step) for i in range(math.ceil(first / step), math.floor(last / step) + 1)]
    return [tick for tick in found if math.isfinite(tick)]


def labelled(numbers: Sequence[float]) -> list[tuple[float, str]]:
    """Different numbers in ascending order with different texts, of six digits if these are enough."""
    found = ([f"{number:.{digits}g}" for number in numbers] for digits in range(6, 18))
    return next(list(zip(numbers, texts, strict=True)) for texts in found if len(set(texts)) == len(texts))
