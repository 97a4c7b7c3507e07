"""Argument validation: numbers, counts, sources of random numbers and examples.

Numbers from any library become Python numbers, and examples are found by position. Errors name the argument.
"""

import math
import random
import sys
from collections.abc import Sequence
from numbers import Real
from typing import Any, cast

from micrograd import scalar
from micrograd.core.errors import require_ordered, shown

Rng = Any  # a random.Random, a NumPy generator or a seed; None for Python's global generator


def plain(value: Any) -> Any:
    """A number of NumPy or PyTorch as an int or a float, so that results are too; anything else as it is."""
    if type(value) in (int, float) or scalar.registered(value) is not None:
        return value
    value = scalar.unwrap_numpy(value)
    return float(value) if isinstance(value, Real) and not isinstance(value, int) else value


def number(name: str, value: Any, least: float = 0.0, below: float = math.inf, *, finite: bool = True) -> float:
    """`value` as a Python number. Raises ValueError if it is not a number, not `finite`, or out of its range."""
    result = plain(value)
    is_number = (type(result) in (int, float) or scalar.registered(result) is not None) and result >= least
    if not is_number or (finite and not (result < below and abs(result) <= sys.float_info.max)):
        limits = [f", {least:g} or greater"] * (least > -math.inf) + [f" and below {below:g}"] * (below < math.inf)
        raise ValueError(f"{name} is {shown(value)}: expected a {'finite ' * finite}number{''.join(limits)}")
    return cast(float, result)


def positive(name: str, value: Any) -> float:
    """`value` as a Python number above 0. Raises ValueError otherwise."""
    if result := number(name, value):
        return result
    raise ValueError(f"{name} is 0: expected a number above 0")


def count(name: str, value: Any, least: int = 1) -> int:
    """`value` as a Python int. Raises ValueError if it is not one, or is below `least`."""
    result = plain(value)
    if type(result) is not int or result < least:
        raise ValueError(f"{name} is {shown(value)}: expected an int, {least} or greater")
    return result


def counted(n: int, thing: str) -> str:
    """How many there are of a thing, in words."""
    return f"{n:,} {thing}{'s' * (n != 1)}"


def flag(name: str, value: Any) -> bool:
    """`value` as True or False. Raises ValueError if it is neither."""
    if not isinstance(found := plain(value), bool):
        raise ValueError(f"{name} is {found!r}: expected True or False")
    return found


def generator(rng: Rng) -> Any:
    """A source of random numbers: `rng` itself, a new one with that seed, or Python's global one; else a TypeError."""
    source = plain(rng)
    if source is None:
        return random
    if isinstance(source, int):
        return random.Random(source)
    if hasattr(source, "gauss"):
        return source
    if hasattr(source, "bytes"):  # a NumPy generator, whose methods have other names, gives the seed
        return random.Random(source.bytes(32))
    raise TypeError(f"rng is {shown(rng)}: expected a random.Random, a NumPy generator or a seed (an int)")


def positions(name: str, places: Any, n: int) -> tuple[int, ...]:
    """One or several positions among n arguments, from 0. Raises TypeError for anything else."""
    of_each = tuple(map(plain, places if isinstance(places, (list, tuple)) else (places,)))
    if not all(type(place) is int and -n <= place < n for place in of_each):
        of = counted(n, "argument")
        raise TypeError(f"{name} is {shown(places)}: expected the position of one of {of}, or a tuple of them")
    return tuple(place % n for place in of_each)


def require_attributes(name: str, value: Any, members: Sequence[str], expected: str) -> None:
    """Raise TypeError unless `value` is an object, not a class, with these attributes."""
    if isinstance(value, type) or not all(hasattr(value, member) for member in members):
        raise TypeError(f"{name} is {shown(value)}: expected {expected}")


def as_list(name: str, values: Any) -> list[Any]:
    """The parameters in a list or another iterable. Raises TypeError for anything else, such as a model."""
    expected = "a list of Values, such as model.parameters()"
    require_attributes(name, values, ["__iter__"], expected)
    require_ordered(name, values, expected)
    return list(values)


def is_sized(items: Any) -> bool:
    """Whether these items have a length: an array without dimensions has none."""
    return hasattr(items, "__len__") and getattr(items, "shape", None) != ()


def by_position(name: str, items: Any) -> Any:
    """A list or an array as it is, a pandas table as an array. Raises TypeError for anything without positions."""
    require_ordered(name, items)
    if hasattr(items, "__array__") and not hasattr(items, "__array_interface__"):
        items = items.__array__()
    if not is_sized(items) or not hasattr(items, "__getitem__"):
        raise TypeError(f"{name} is of type {type(items).__name__}: expected a list or an array")
    return items


def examples(xs: Any, ys: Any, names: Sequence[str] = ("xs", "ys")) -> tuple[Sequence[Any], Sequence[Any]]:
    """The inputs and targets, by position. Raises ValueError if their lengths differ or there are none."""
    xs, ys = map(by_position, names, (xs, ys))
    if len(xs) != len(ys):
        raise ValueError(f"{' and '.join(names)} must have the same length, not {len(xs)} and {len(ys)}")
    if len(xs) == 0:
        raise ValueError(f"{names[0]} is empty: expected at least one example")
    return xs, ys


def pair(validation: Any) -> tuple[Any, Any]:
    """The inputs and targets of validation examples. Raises ValueError unless it is a pair."""
    if not isinstance(validation, (tuple, list)) or len(validation) != 2:
        raise ValueError(f"validation is {shown(validation)}: expected a pair (xs, ys) of inputs and targets")
    xs, ys = validation
    return xs, ys
