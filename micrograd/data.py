"""Training data: tiny data sets, mini-batches, what is done before training, readers of files.

A data set is two lists of the same length, `(xs, ys)`: the inputs of each example and its target. Random functions take
an `rng`: a `random.Random`, a NumPy generator or a seed; by default Python's global generator.
"""

import csv
import gzip
import math
import os
import struct
import sys
import zlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import IO, Any, NamedTuple

from micrograd.core.errors import require_ordered, shown
from micrograd.support.validation import Rng, by_position, count, examples, generator, number, plain

__all__ = [
    "Scaling", "batches", "circles", "moons", "read_csv", "read_idx", "spirals", "standardize", "train_test_split",
    "xor",
]  # fmt: skip

Points = tuple[list[list[float]], list[int]]
Curve = Callable[[int, float], tuple[float, float]]
"""From a class and the share of its curve that lies behind to a point."""

_IDX_TYPES = {0x08: "B", 0x09: "b", 0x0B: "h", 0x0C: "i", 0x0D: "f", 0x0E: "d"}

# Tiny data sets: two numbers in, a class out


def xor() -> Points:
    """The four examples of "one or the other, but not both", which no single neuron can learn."""
    return [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], [0, 1, 1, 0]


def moons(n: int = 100, noise: float = 0.1, rng: Rng = None) -> Points:
    """`n` points on two interleaving half circles of radius 1, divided evenly, one class after the other.

    Returns the points, `[x0, x1]` each, and their classes: 0 for the upper half circle, 1 for the lower one. `noise` is
    the standard deviation of the normal noise that is added to both coordinates.

    Raises ValueError if `n` is below 0, or the noise is negative or not finite.
    """

    def half_circle(y: int, t: float) -> tuple[float, float]:
        cos, sin = math.cos(math.pi * t), math.sin(math.pi * t)
        return (1.0 - cos, 0.5 - sin) if y else (cos, sin)

    return _sample_noisy_curves(half_circle, 2, n, noise, rng)


def circles(n: int = 100, noise: float = 0.1, rng: Rng = None, *, factor: float = 0.5) -> Points:
    """A circle of radius 1, class 0, around one of radius `factor`, class 1. All else is as in `moons`."""
    radii = 1.0, number("factor", factor)
    return _sample_noisy_curves(lambda y, t: _polar(radii[y], t), 2, n, noise, rng)


def spirals(n: int = 100, noise: float = 0.02, rng: Rng = None, *, arms: int = 2, turns: float = 1.0) -> Points:
    """Spirals from the origin to radius 1, `turns` times around it, a class for each arm. All else is as in `moons`."""
    arms, turns = count("arms", arms), number("turns", turns, least=-math.inf)
    return _sample_noisy_curves(lambda y, t: _polar(t, y / arms + turns * t), arms, n, noise, rng)


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

    The inputs and targets are lists, arrays or tables with a row for each example. Raises ValueError if they are not of
    the same length or the size is below 1, TypeError if one has no items by position, such as a dict.
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
    """The examples in random order, in two parts, to learn from and to test with: train_xs, test_xs, train_ys, test_ys.

    That is the order of scikit-learn's function. The parts are arrays if they come from arrays or tables, else lists.
    `test_size` is a share below 1, or an int. `stratify` has the class of each example, such as `ys`: both parts get
    the same share of each class, as far as that goes.

    Raises ValueError if the arguments are not of the same length or one of the parts would be empty, TypeError if an
    argument has no items by position, such as a dict.
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
    quantile = {i: (k + 0.5) / len(group) for group in members.values() for k, i in enumerate(group)}
    chosen = set(sorted(order, key=quantile.__getitem__)[:size])
    parts = [i for i in order if i not in chosen], [i for i in order if i in chosen]

    def selected(items: Any, part: list[int]) -> Any:
        return items[part] if hasattr(items, "__array_interface__") else [items[i] for i in part]

    return selected(xs, parts[0]), selected(xs, parts[1]), selected(ys, parts[0]), selected(ys, parts[1])


class Scaling(NamedTuple):
    """What `standardize` has done to inputs: call it to do the same to others."""

    mean: list[float]
    deviation: list[float]

    def __call__(self, xs: Any) -> Any:
        """The inputs minus the mean, over the deviation: an array of an array or a table, otherwise lists.

        Raises ValueError if one has other than as many finite numbers as those that were standardized.
        """
        xs = by_position("xs", xs)
        rows = _finite_rows(xs, len(self.mean))
        if hasattr(xs, "__array_interface__"):
            return (xs - self.mean) / self.deviation
        return [[(x - mean) / scale for x, mean, scale in zip(numbers, *self, strict=True)] for numbers in rows]


def standardize(xs: Sequence[Any]) -> tuple[Any, Scaling]:
    """The inputs with mean 0 and standard deviation 1 in each column, and what does the same to others.

        train_xs, scaling = data.standardize(train_xs)
        test_xs = scaling(test_xs)

    The inputs are a list, an array or a table with a row of numbers for each example; what is returned is as `Scaling`
    returns it, with lists of the `mean` and the `deviation` of each column (divided by the number of examples, as in
    scikit-learn). A column of equal numbers becomes one of zeros: it has a deviation of 0, and 1 stands in for that.

    Raises ValueError if there are no inputs, they are not equally long, or a number is not finite, and says where, or
    if those of a column are too large for doubles; TypeError if `xs` or one of its rows has no items by position.
    """
    columns = [*zip(*_finite_rows(by_position("xs", xs)), strict=True)]
    root = math.sqrt(len(xs))
    try:
        means = [math.fsum(column) / len(column) if min(column) < max(column) else column[0] for column in columns]
        deviations = [math.hypot(*[x - mean for x in c]) / root or 1.0 for c, mean in zip(columns, means, strict=True)]
    except OverflowError:
        deviations = [math.inf]
    if math.inf in deviations:
        raise ValueError("the numbers of a column are too large for doubles: give them on a smaller scale")
    scaling = Scaling(means, deviations)
    return scaling(xs), scaling


def _finite_rows(xs: Any, width: int | None = None) -> list[list[float]]:
    """The inputs as lists of floats, all of this length, or of that of the first."""
    rows = []
    for i, x in enumerate(xs):
        numbers = [float(number(f"xs[{i}][{j}]", n, -math.inf)) for j, n in enumerate(by_position(f"xs[{i}]", x))]
        width = len(numbers) if width is None else width
        if len(numbers) != width:
            raise ValueError(f"xs[{i}] has {len(numbers)} numbers: expected {width}, as there are columns")
        rows.append(numbers)
    if not rows:
        raise ValueError("xs is empty: expected at least one row of numbers")
    return rows


# Data sets in files: IDX, the format of MNIST, and text with numbers in columns


def read_idx(path: str | os.PathLike[str], *, limit: int = 1 << 30) -> list[Any]:
    """The numbers of a file in IDX, the format of the MNIST digits, plain or compressed with gzip.

    Returns a list of numbers, if the file has one dimension, such as labels. Otherwise a flat `array` for each item
    along the first dimension: 784 numbers for an image of 28 by 28. Numbers are those in the file (0 to 255 for MNIST),
    and take as many bytes in memory as there: at most `limit`, since a few kilobytes of gzip can fill any memory.

    Raises ValueError if the file is damaged, holds something else or exceeds the limit, OSError if it cannot be opened.
    """
    with open(path, "rb") as file:
        compressed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        try:
            return _read_idx(gzip.GzipFile(fileobj=file) if compressed else file, limit)
        except (ValueError, EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(f"{os.fspath(path)} is not a whole IDX file: {error}") from None


def _read_idx(file: IO[bytes] | gzip.GzipFile, limit: int) -> list[Any]:
    zeros, code, dimensions = struct.unpack(">HBB", _exactly(file, 4))
    if zeros != 0 or code not in _IDX_TYPES or dimensions == 0:
        start = bytes([*divmod(zeros, 256), code, dimensions])
        raise ValueError(f"it begins with {start.hex(' ')}, which no IDX file does")
    count, *shape = struct.unpack(f">{dimensions}I", _exactly(file, 4 * dimensions))
    numbers = array(_IDX_TYPES[code])
    width = math.prod(shape)
    if width == 0:
        raise ValueError(f"it claims {count} items without numbers")
    size = count * width * numbers.itemsize
    if size > limit:
        raise ValueError(f"it claims more numbers than fit into the limit of {limit} bytes")
    numbers.frombytes(_exactly(file, size))
    if file.read(1):
        raise ValueError(f"it has more data after the {count} items that it claims")
    if sys.byteorder == "little":
        numbers.byteswap()
    return [numbers[i : i + width] for i in range(0, len(numbers), width)] if shape else numbers.tolist()


def _exactly(file: IO[bytes] | gzip.GzipFile, size: int) -> bytearray:
    """The next `size` bytes, read in pieces, so that a forged size allocates no memory."""
    content = bytearray()
    while missing := size - len(content):
        piece = file.read(min(missing, 1 << 20))
        if not piece:
            raise ValueError(f"it ends {missing} bytes early")
        content += piece
    return content


def read_csv(
    path: str | os.PathLike[str], target: int = -1, *, header: bool = False, labels: Sequence[str] | None = None,
    delimiter: str = ",",
) -> tuple[list[list[float]], list[float]]:  # fmt: skip
    """The examples of a text file in UTF-8, one per line: the inputs, a list of floats each, and the targets.

    Targets are ints if they are written as ints, otherwise floats. `header` skips the first line, which holds the names
    of the columns; `target` is the column of the targets, counted from 0, or from the end if negative; `labels` are the
    words in it, if it holds words, each of which becomes its index in this list.

    Raises ValueError if the file has no examples, lines of different lengths, a single column, no such column, or a
    cell that is not a finite number, and names the line; TypeError if the target is not an int, or the labels are a
    string, a dict or a set; OSError if the file cannot be opened.
    """
    if not isinstance(plain(target), int) or isinstance(target, bool):
        raise TypeError(f"target is {shown(target)}: expected the index of a column: 0 for the first, -1 for the last")
    if isinstance(labels, str):
        raise TypeError(f"labels is {labels!r}: expected a list of words")
    require_ordered("labels", labels, "a list of words")
    labels = None if labels is None else list(labels)
    xs: list[list[float]] = []
    ys = []
    with open(path, encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=delimiter, strict=True)
        hint = ""
        try:
            rows = filter(None, reader)  # blank lines hold no cells
            columns = len(next(rows, [])) if header else None
            for row in rows:
                columns = columns or len(row)
                hint = _remedy(row, delimiter, header, is_first=not xs)
                if len(row) != columns:
                    came = f"{len(row)} column{'s' * (len(row) != 1)}"
                    raise ValueError(f"it has {came}, but the first line has {columns}")
                if columns == 1:
                    raise ValueError("it has only one column: expected the inputs of an example and its target")
                if not -columns <= target < columns:
                    raise ValueError(f"there is no column {target} among its {columns}")
                cell = row.pop(target)
                if labels is None and not (xs or hint or _is_number(cell)) and cell.strip():
                    hint = f"; if the targets are words, list them, as in labels=[{shown(cell, 40)}, ...]"
                ys.append(_label(cell, labels))
                xs.append([_number(cell) for cell in row])
        except UnicodeDecodeError as error:
            raise ValueError(f"{os.fspath(path)} is not text in UTF-8: {error}") from None
        except (ValueError, csv.Error) as error:
            raise ValueError(f"{os.fspath(path)}, line {reader.line_num}: {error}{hint}") from None
    if not xs:
        raise ValueError(f"{os.fspath(path)} holds no examples")
    return xs, ys


def _remedy(row: list[str], delimiter: str, header: bool, is_first: bool) -> str:
    """The end of an error's message about a line: what to do, or nothing. Most hints need the first line."""
    if row[0].lstrip().startswith("#"):
        return "; comments are not skipped: remove them"
    if not is_first:
        return ""
    words = [cell.strip() for cell in row if not _is_number(cell)]
    separators = ";\t|" + ", " * (len(row) == 1)  # beside others, a comma may be decimal, and a space part of a label
    found = next((separator for separator in separators if any(separator in word for word in words)), delimiter)
    if found != delimiter:
        return f"; delimiter={found!r} separates its columns"
    return "" if header or len(words) < len(row) else "; header=True skips a line of names"


def _number(cell: str) -> float:
    if not _is_number(cell) or not math.isfinite(float(cell)):
        raise ValueError(f"{shown(cell, 40)} is not a finite number" if cell.strip() else "a number is missing")
    return float(cell)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # Python reads 1_0 as 10


def _label(cell: str, labels: list[str] | None) -> float:
    if labels is None:
        number = _number(cell)
        with suppress(ValueError):
            return int(cell)
        return number
    if cell not in labels:
        raise ValueError(f"{shown(cell, 40)} is not among the labels {labels}")
    return labels.index(cell)
