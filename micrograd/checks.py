"""What comes in at the door: numbers, counts, sources of random numbers and examples, as the rest relies on them.

Whatever library they come from, numbers become Python's own here, and examples are found by their position. What cannot
be meant is an error that names the argument.
"""

import math
import random
import sys
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, Protocol, SupportsIndex

__all__ = ["Rng", "by_position", "count", "examples", "generator", "having", "listed", "number", "plain", "row"]


class Bits(Protocol):
    """What a NumPy generator has, and a seed can be made of."""

    def bytes(self, length: int, /) -> bytes:
        """So many random bytes."""


Rng = random.Random | Bits | SupportsIndex | None


def plain(value: Any) -> Any:
    """A number of whatever kind as an int or a float, so that all made from it is too; anything else as it is."""
    if type(value) in (int, float):
        return value
    if getattr(value, "shape", None) == ():
        value = value.item()
    return float(value) if isinstance(value, Real) and not isinstance(value, int) else value


def number(name: str, value: Any, least: float = 0.0, below: float = math.inf) -> float:
    """`value` as a Python number. Raises ValueError if it is none, is not finite, or is out of its range."""
    result = plain(value)
    if not isinstance(result, (int, float)) or not (least <= result < below and abs(result) <= sys.float_info.max):
        limits = [f" from {least:g}"] * (least > -math.inf) + [f" to below {below:g}"] * (below < math.inf)
        raise ValueError(f"{name} is {value!r:.80}: expected a finite number{''.join(limits)}")
    return result


def count(name: str, value: Any, least: int = 1) -> int:
    """`value` as a Python int. Raises ValueError if it is no whole number, or below the least that makes sense."""
    result = plain(value)
    if not isinstance(result, int) or not least <= result <= sys.float_info.max:
        raise ValueError(f"{name} is {value!r:.80}: expected a whole number of at least {least}, as an int")
    return result


def generator(rng: Rng) -> Any:
    """A source of random numbers: `rng` itself, one with that seed, or Python's global one.

    A generator of NumPy, whose methods have other names, gives the seed. Raises TypeError if it is something else.
    """
    source = plain(rng)
    if source is None:
        return random
    if isinstance(source, int):
        return random.Random(source)
    if hasattr(source, "gauss"):
        return source
    if hasattr(source, "bytes"):
        return random.Random(source.bytes(32))
    raise TypeError(f"rng is {rng!r:.80}: expected a random.Random, a NumPy generator or a seed (an int)")


def having(name: str, value: Any, members: Sequence[str], expected: str) -> None:
    """Raise TypeError unless `value` is an object with these members; a class is none."""
    if isinstance(value, type) or not all(hasattr(value, member) for member in members):
        raise TypeError(f"{name} is {value!r:.80}: expected {expected}")


def listed(name: str, values: Any) -> list[Any]:
    """The parameters that a list holds, or what else gives them in turn. Raises TypeError if nothing does: a model."""
    having(name, values, ["__iter__"], "a list of Values, such as model.parameters()")
    return list(values)


def by_position(name: str, items: Any) -> Any:
    """A list or an array as it is, and a table of a library such as pandas, which finds by label, as its rows.

    Raises TypeError if there is nothing to find by its position.
    """
    if hasattr(items, "__array__") and not hasattr(items, "__array_interface__"):
        items = items.__array__()
    sized = hasattr(items, "__len__") and getattr(items, "shape", None) != ()
    if not sized or not hasattr(items, "__getitem__") or isinstance(items, Mapping):
        raise TypeError(f"{name} is of type {type(items).__name__}: expected a list or an array")
    return items


def examples(xs: Any, ys: Any) -> tuple[Sequence[Any], Sequence[Any]]:
    """The inputs and targets, by their position. Raises ValueError if they are not of the same number."""
    xs, ys = by_position("xs", xs), by_position("ys", ys)
    if len(xs) != len(ys):
        raise ValueError(f"xs and ys are the inputs and targets of the same examples, but {len(xs)} and {len(ys)} long")
    return xs, ys


def row(example: Any) -> Any:
    """An array as nested lists of Python's own numbers, and a number of NumPy's as one; anything else as it is."""
    return example.tolist() if hasattr(example, "tolist") else example
