"""Readers of data sets in files: IDX, the format of MNIST, and text with numbers in columns."""

import csv
import gzip
import math
import os
import struct
import sys
import zlib
from array import array
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, Any

from micrograd.errors import require_ordered, shown
from micrograd.validation import plain

__all__ = ["read_csv", "read_idx"]

_IDX_TYPES = {0x08: "B", 0x09: "b", 0x0B: "h", 0x0C: "i", 0x0D: "f", 0x0E: "d"}
_CHUNK = 1 << 20


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
        piece = file.read(min(missing, _CHUNK))
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
    if labels is None:
        number = _number(cell)
        with suppress(ValueError):
            return int(cell)
        return number
    if cell not in labels:
        raise ValueError(f"{shown(cell, 40)} is not among the labels {labels}")
    return labels.index(cell)
