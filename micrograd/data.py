"""Training data: tiny data sets, mini-batches, and preparing data for training.

A data set is two lists of the same length, `(xs, ys)`: the inputs of each example and its target. Random functions take
an `rng`: a `random.Random`, a NumPy generator or a seed; by default Python's global generator.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from micrograd.engine import Value
from micrograd.support.arrays import array_of
from micrograd.support.trees import flat
from micrograd.support.validation import Rng, by_position, count, examples, generator, is_sized, number, plain

__all__ = ["Scaling", "batches", "circles", "moons", "spirals", "standardize", "train_test_split", "xor"]

Points = tuple[list[list[float]], list[int]]
Curve = Callable[[int, float], tuple[float, float]]
"""Takes a class and how far along its curve, from 0 to 1; returns a point."""

# Tiny data sets: two numbers in, a class out


def xor() -> Points:
    """The four examples of "one or the other, but not both", which no single neuron can learn."""
    return [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], [0, 1, 1, 0]


def moons(n: int = 100, noise: float = 0.1, rng: Rng = None) -> Points:
    """`n` points on two interleaving half circles of radius 1, half on each, one class after the other.

    Returns the points, `[x0, x1]` each, and their classes: 0 for the upper half circle, 1 for the lower one. `noise` is
    the standard deviation of the normal noise added to both coordinates.

    Raises ValueError if `n` is below 0, or the noise is negative or not finite.
    """

    def half_circle(y: int, t: float) -> tuple[float, float]:
        cos, sin = math.cos(math.pi * t), math.sin(math.pi * t)
        return (1.0 - cos, 0.5 - sin) if y else (cos, sin)

    return _sample_noisy_curves(half_circle, 2, n, noise, rng)


def circles(n: int = 100, noise: float = 0.1, rng: Rng = None, *, factor: float = 0.5) -> Points:
    """A circle of radius 1, class 0, around one of radius `factor`, class 1. Everything else is as in `moons`."""
    radii = 1.0, number("factor", factor)
    return _sample_noisy_curves(lambda y, t: _polar(radii[y], t), 2, n, noise, rng)


def spirals(n: int = 100, noise: float = 0.02, rng: Rng = None, *, arms: int = 2) -> Points:
    """Spirals that wind once around the origin, out to radius 1, a class for each arm. All else is as in `moons`."""
    arms = count("arms", arms)
    return _sample_noisy_curves(lambda y, t: _polar(t, y / arms + t), arms, n, noise, rng)


def _polar(radius: float, turns: float) -> tuple[float, float]:
    return radius * math.cos(math.tau * turns), radius * math.sin(math.tau * turns)


def _sample_noisy_curves(curve: Curve, classes: int, n: int, noise: float, rng: Rng) -> Points:
    """`n` points, evenly spaced along the curve of each class, plus noise."""
    n, noise = count("n", n, least=0), number("noise", noise)
    gauss = generator(rng).gauss
    xs, ys = [], []
    for y in range(classes):
        points = n // classes + (y < n % classes)
        for i in range(points):
            xs.append([coordinate + gauss(0.0, noise) for coordinate in curve(y, (i + 0.5) / points)])
            ys.append(y)
    return xs, ys


def batches(xs: Sequence[Any], ys: Sequence[Any], size: int, rng: Rng = None) -> Iterator[tuple[list[Any], list[Any]]]:
    """All examples once, in random order, `size` at a time; the last batch may be smaller.

    The inputs and targets are lists, arrays or tables with a row for each example. Raises ValueError if their lengths
    differ, there are none or the size is below 1, and TypeError if one cannot be indexed by position, such as a dict.
    """
    xs, ys = examples(xs, ys)
    size, order = count("size", size), list(range(len(xs)))
    generator(rng).shuffle(order)
    chosen = (order[start : start + size] for start in range(0, len(order), size))
    return (([xs[i] for i in batch], [ys[i] for i in batch]) for batch in chosen)


def train_test_split(
    xs: Sequence[Any], ys: Sequence[Any], test_size: float = 0.25, rng: Rng = None, *,
    stratify: Sequence[Any] | None = None,
) -> tuple[Any, Any, Any, Any]:  # fmt: skip
    """Shuffle the examples and split them in two: train_xs, test_xs, train_ys, test_ys, as in scikit-learn.

    Arrays and tables give arrays, anything else lists. `test_size` is a share below 1, or a number of examples.
    `stratify` has each example's class, such as `ys`: each class has its share in both parts, to within an example.

    Raises ValueError if the lengths differ or a part would be empty, TypeError if an argument has no items by position.
    """
    xs, ys = examples(xs, ys)
    n, given = len(xs), plain(test_size)
    size = count("test_size", given) if isinstance(given, int) else round(number("test_size", given, below=1) * n)
    if not 0 < size < n:
        raise ValueError(f"test_size is {given}: expected one that divides {n} examples into two parts")
    order = list(range(n))
    generator(rng).shuffle(order)
    classes = [0] * n if stratify is None else list(map(plain, by_position("stratify", stratify)))
    if len(classes) != n:
        raise ValueError(f"stratify has {len(classes)} classes: expected {n}, one for each example")
    members: dict[Any, list[int]] = {}
    for i in order:
        members.setdefault(classes[i], []).append(i)
    chosen, end = set[int](), 0
    for group in members.values():  # its share of `size`, rounded so that the shares add up
        start, end = end, end + len(group)
        chosen.update(group[: end * size // n - start * size // n])
    train, test = [i for i in order if i not in chosen], [i for i in order if i in chosen]

    def selected(items: Any) -> Any:
        is_array = hasattr(items, "__array_interface__")
        return (items[part] if is_array else [items[i] for i in part] for part in (train, test))

    return *selected(xs), *selected(ys)


class Scaling(NamedTuple):
    """What `standardize` did: call it to do the same to other numbers. JSON stores it as a pair."""

    mean: Any  # a list or an array with the mean of each column; for a single column, its mean
    deviation: Any

    def __call__(self, xs: Any) -> Any:
        """The numbers minus the mean, over the deviation.

        `xs` is a table or a row of one; or, if a single column was standardized, a column or one number. Arrays and
        tables give an array, lists give lists. A number may also be a Value, such as a prediction.

        Raises ValueError if a number is not finite, or a row has another length; TypeError if `xs` has no items.
        """
        return self._each(xs, lambda x, mean, deviation: (x - mean) / deviation)

    def inverse(self, xs: Any) -> Any:
        """The numbers times the deviation, plus the mean: predictions in the targets' units. All else as in a call."""
        return self._each(xs, lambda x, mean, deviation: x * deviation + mean)

    def _each(self, xs: Any, change: Callable[[Any, Any, Any], Any]) -> Any:
        is_table = is_sized(self.mean)
        xs = by_position("xs", xs) if is_table or is_sized(xs) else xs
        is_one = not _are_rows(xs) if is_table else not is_sized(xs)
        numbers = _finite("xs", xs, 1 + is_table - is_one, len(self.mean) if is_table else None)
        if hasattr(xs, "__array_interface__"):  # its dtype is object if a table has bools beside floats
            return change(array_of(flat(numbers), xs.shape) if xs.dtype == object else xs, *self)
        of_one = (lambda row: [*map(change, row, *self)]) if is_table else (lambda x: change(x, *self))
        return of_one(numbers) if is_one else [*map(of_one, numbers)]


def standardize(xs: Sequence[Any]) -> tuple[Any, Scaling]:
    """The numbers with mean 0 and standard deviation 1 in each column, and a `Scaling` to do the same to others.

        train_xs, scaling = data.standardize(train_xs)
        test_xs = scaling(test_xs)

    `xs` is a list, an array or a table with a row of numbers for each example, or with a single number for each, such
    as targets; a list gives lists, the others an array. A `deviation` divides by the number of examples, as in
    scikit-learn. A column of equal numbers becomes zeros.

    Raises ValueError if there are no numbers, rows are not equally long, or a number is not finite; TypeError if `xs`
    or one of its rows has no items by position.
    """
    xs = by_position("xs", xs)
    if len(xs) == 0 or (_are_rows(xs) and len(xs[0]) == 0):
        raise ValueError("xs is empty: expected at least one row of numbers")
    if not _are_rows(xs):
        scaling = Scaling(*_mean_and_deviation(_finite("xs", xs, 1)))
    else:
        columns = zip(*_finite("xs", xs, 2, len(xs[0])), strict=True)
        scaling = Scaling(*map(list, zip(*map(_mean_and_deviation, columns), strict=True)))
    return scaling(xs), scaling


def _mean_and_deviation(column: Sequence[float]) -> tuple[float, float]:
    mean = math.fsum(column) / len(column) if min(column) < max(column) else column[0]
    return mean, math.hypot(*[x - mean for x in column]) / math.sqrt(len(column)) or 1.0


def _are_rows(xs: Any) -> bool:
    """Whether these are rows of numbers, not numbers; text counts as a number that is not converted yet."""
    return len(xs) > 0 and is_sized(xs[0]) and not isinstance(xs[0], str)


def _finite(name: str, x: Any, depth: int, width: int | None = None) -> Any:
    """A Value or a float; at a depth of 1 a list of `width` of these, at 2 rows of them. False and True are 0 and 1."""
    if depth == 0:
        n = plain(x)
        return x if isinstance(x, Value) else float(number(name, int(n) if isinstance(n, bool) else n, -math.inf))
    found = [_finite(f"{name}[{i}]", item, depth - 1, width) for i, item in enumerate(by_position(name, x))]
    if depth == 1 and width not in (None, len(found)):
        raise ValueError(f"{name} has {len(found)} numbers: expected {width}, one for each column")
    return found
