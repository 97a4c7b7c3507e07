"""Training data: tiny data sets, mini-batches, and readers of real files.

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
from typing import Any, BinaryIO

from micrograd.errors import require_ordered, shown
from micrograd.validation import Rng, count, examples, generator, number, plain

__all__ = ["batches", "circles", "moons", "read_csv", "read_idx", "spirals", "xor"]

Points = tuple[list[list[float]], list[int]]
Curve = Callable[[float], tuple[float, float]]

# Tiny data sets: two numbers in, a class out


def xor() -> Points:
    """The four examples of "one or the other, but not both", which no single neuron can learn."""
    return [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], [0, 1, 1, 0]


def moons(n: int = 100, noise: float = 0.1, rng: Rng = None) -> Points:
    """Two interleaving half circles of radius 1.

    Parameters
    ----------
    n
        The number of points, divided evenly among the classes, one class after the other.
    noise
        The standard deviation of the normal noise added to both coordinates.
    rng
        A `random.Random`, a NumPy generator or a seed; by default Python's global generator.

    Returns
    -------
    xs, ys
        The points, `[x0, x1]` each, and their classes: 0 for the upper half circle, 1 for the lower one.

    Raises
    ------
    ValueError
        If `n` is below 0, or the noise is negative or not finite.
    TypeError
        If `rng` is not a source of random numbers.
    """

    def upper(t: float) -> tuple[float, float]:
        return math.cos(math.pi * t), math.sin(math.pi * t)

    def lower(t: float) -> tuple[float, float]:
        return 1.0 - math.cos(math.pi * t), 0.5 - math.sin(math.pi * t)

    return _sample_noisy_curves([upper, lower], n, noise, rng)


def circles(n: int = 100, noise: float = 0.1, rng: Rng = None, *, factor: float = 0.5) -> Points:
    """A circle of radius 1, class 0, around one of radius `factor`, class 1.

    The parameters and errors are those of `moons`.
    """

    def circle(radius: float) -> Curve:
        return lambda t: (radius * math.cos(math.tau * t), radius * math.sin(math.tau * t))

    return _sample_noisy_curves([circle(1.0), circle(number("factor", factor))], n, noise, rng)


def spirals(n: int = 100, noise: float = 0.02, rng: Rng = None, *, arms: int = 2, turns: float = 1.0) -> Points:
    """Spirals that wind out from the origin to radius 1, each `turns` times around it: a class for each arm.

    The other parameters and the errors are those of `moons`.
    """

    def spiral(start: float) -> Curve:
        return lambda t: (t * math.cos(math.tau * (start + turns * t)), t * math.sin(math.tau * (start + turns * t)))

    arms, turns = count("arms", arms), number("turns", turns, least=-math.inf)
    return _sample_noisy_curves([spiral(arm / arms) for arm in range(arms)], n, noise, rng)


def _sample_noisy_curves(curves: Sequence[Curve], n: int, noise: float, rng: Rng) -> Points:
    """`n` points, evenly spaced along the curves, plus noise. The class of a point is the index of its curve."""
    n, noise = count("n", n, least=0), number("noise", noise)
    gauss = generator(rng).gauss
    xs, ys = [], []
    for y, curve in enumerate(curves):
        points = n // len(curves) + (y < n % len(curves))
        for i in range(points):
            xs.append([coordinate + gauss(0.0, noise) for coordinate in curve((i + 0.5) / points)])
            ys.append(y)
    return xs, ys


# Mini-batches


def batches(xs: Sequence[Any], ys: Sequence[Any], size: int, rng: Rng = None) -> Iterator[tuple[list[Any], list[Any]]]:
    """All examples once, in random order, `size` at a time; the last batch may be smaller.

    Parameters
    ----------
    xs, ys
        The inputs and targets of the examples: lists, arrays or tables with a row for each. They are not changed.
    size
        The number of examples in a batch.
    rng
        A `random.Random`, a NumPy generator or a seed; by default Python's global generator.

    Raises
    ------
    ValueError
        If the two are not of the same length, or the size is below 1.
    TypeError
        If one of the two has no items by position, such as a dict.
    """
    xs, ys = examples(xs, ys)
    chosen = shuffled(len(xs), count("size", size), generator(rng))
    return (([xs[i] for i in batch], [ys[i] for i in batch]) for batch in chosen)


# Readers of real files

_IDX_TYPES = {0x08: "B", 0x09: "b", 0x0B: "h", 0x0C: "i", 0x0D: "f", 0x0E: "d"}
_CHUNK = 1 << 20


def read_idx(path: str | os.PathLike[str], *, limit: int = 1 << 30) -> list[Any]:
    """The numbers of a file in IDX, the format of the MNIST digits, plain or compressed with gzip.

    Parameters
    ----------
    path
        The file.
    limit
        The maximum number of bytes to read, since a few kilobytes of gzip can fill any amount of memory.

    Returns
    -------
    items
        Numbers, if the file has one dimension, such as labels. Otherwise a flat `array` for each item along the first
        dimension: 784 numbers for an image of 28 by 28. Numbers are those in the file (0 to 255 for MNIST), and take
        as many bytes in memory as there.

    Raises
    ------
    ValueError
        If the file is damaged, holds something else, or exceeds the limit.
    OSError
        If the file cannot be opened.
    """
    with open(path, "rb") as file:
        compressed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        try:
            if not compressed:
                return _read_idx(file, limit)
            with gzip.GzipFile(fileobj=file) as unpacked:
                return _read_idx(unpacked, limit)  # type: ignore[arg-type]  # it reads like a file
        except (ValueError, EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(f"{os.fspath(path)} is not a whole IDX file: {error}") from None


def _read_idx(file: BinaryIO, limit: int) -> list[Any]:
    zeros, code, dimensions = struct.unpack(">HBB", _exactly(file, 4))
    if zeros != 0 or code not in _IDX_TYPES or dimensions == 0:
        raise ValueError(
            f"it begins with {bytes([*divmod(zeros, 256), code, dimensions]).hex(' ')}, which no IDX file does"
        )
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


def _exactly(file: BinaryIO, size: int) -> bytearray:
    """The next `size` bytes, read in pieces, so that a forged size allocates no memory."""
    content = bytearray()
    while missing := size - len(content):
        piece = file.read(min(missing, _CHUNK))
        if not piece:
            raise ValueError(f"it ends {missing} bytes early")
        content += piece
    return content


def read_csv(
    path: str | os.PathLike[str],
    target: int = -1,
    *,
    header: bool = False,
    labels: Sequence[str] | None = None,
    delimiter: str = ",",
) -> tuple[list[list[float]], list[float]]:
    """The examples of a text file: one per line, numbers separated by commas.

    Parameters
    ----------
    path
        The file, in UTF-8.
    target
        The column of the targets, counted from 0, or from the end if negative. The others are the inputs.
    header
        Whether to skip the first line, which holds the names of the columns.
    labels
        The words in the target's column, if it holds words: each becomes its index in this list.
    delimiter
        The character between columns.

    Returns
    -------
    xs, ys
        The inputs, a list of floats each, and the targets: ints if they are written as ints, otherwise floats.

    Raises
    ------
    ValueError
        If the file has no examples, lines of different lengths, a single column, no such column, or a cell that is not
        a finite number. The message names the line.
    TypeError
        If the target is not an int, or the labels are a string, a dict or a set.
    OSError
        If the file cannot be opened.
    """
    if not isinstance(plain(target), int) or isinstance(target, bool):
        raise TypeError(f"target is {shown(target)}: expected the index of a column: 0 for the first, -1 for the last")
    if isinstance(labels, str):
        raise TypeError(f"labels is {labels!r}: expected a list of words")
    require_ordered("labels", labels, "a list of words")
    words = None if labels is None else list(labels)
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
                if words is None and not (xs or hint or _is_number(cell)) and cell.strip():
                    hint = f"; if the targets are words, list them, as in labels=[{shown(cell, 40)}, ...]"
                ys.append(_label(cell, words))
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
    if (other := _separator(row)) and other != delimiter:
        return f"; delimiter={other!r} separates its columns"
    return "" if header or any(map(_is_number, row)) else "; header=True skips a line of names"


def _separator(row: list[str]) -> str | None:
    """The character that seems to separate columns within the cells of a line, if there is one."""
    words = [cell for cell in row if not _is_number(cell)]
    candidates = ";\t|"
    if len(row) == 1:  # beside others, a comma may be decimal, and a space part of a label
        candidates += ", "
    return next((candidate for candidate in candidates if any(candidate in word.strip() for word in words)), None)


def _number(cell: str) -> float:
    if not cell.strip():
        raise ValueError("a number is missing")
    if not _is_number(cell) or not math.isfinite(float(cell)):
        raise ValueError(f"{shown(cell, 40)} is not a finite number")
    return float(cell)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # Python reads 1_0 as 10


def _label(cell: str, labels: list[str] | None) -> float:
    if labels is not None:
        if cell not in labels:
            raise ValueError(f"{shown(cell, 40)} is not among the labels {labels}")
        return labels.index(cell)
    number = _number(cell)
    try:
        return int(cell)
    except ValueError:
        return number


# Shared with `training`


def shuffled(n: int, size: int, rng: Any) -> Iterator[list[int]]:
    """The positions of `n` examples in random order, `size` at a time; the last list may be shorter."""
    order = list(range(n))
    rng.shuffle(order)
    return (order[start : start + size] for start in range(0, n, size))
