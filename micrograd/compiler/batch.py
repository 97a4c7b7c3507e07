"""Data sets as buffers of doubles."""

import ctypes
from array import array
from collections.abc import Mapping, Sequence
from typing import Any

from micrograd.compiler.graph import Shape, shape_of, size, unflatten


class ShapeError(ValueError):
    """Arguments whose shape is not what the function takes."""

    def __init__(self, came: Any, expected: Any, why: object) -> None:
        super().__init__(f"arguments of shape {came} came, {expected} was expected: {why}")


class Packed:
    """The examples for each argument, one after the other as doubles.

    Attributes
    ----------
    shapes
        The shape of an example of each argument.
    n
        The number of examples.
    pointers
        Where the doubles of each argument begin, as an array in C.
    """

    def __init__(self, shapes: tuple[Shape, ...], n: int, batches: Sequence[Any]) -> None:
        self.shapes = shapes
        self.n = n
        buffers = [_buffer(batch, shape) for batch, shape in zip(batches, shapes, strict=True)]
        self._buffers = buffers
        self._copied = all(buffer is not batch for buffer, batch in zip(buffers, batches, strict=True))
        self._exports = [ctypes.c_char.from_buffer(buffer) for buffer in buffers]  # keep them where they are
        self.pointers = (ctypes.c_void_p * len(buffers))(*map(ctypes.addressof, self._exports))
        self._rows: list[tuple[float, ...]] | None = None

    def __len__(self) -> int:
        return self.n

    def rows(self) -> list[tuple[float, ...]]:
        """All numbers of each example."""
        if self._rows is not None:
            return self._rows
        columns = []
        for buffer, shape in zip(self._buffers, self.shapes, strict=True):
            numbers = memoryview(buffer).cast("B").cast("d").tolist()
            step = size(shape)
            columns.append([numbers[i * step : (i + 1) * step] for i in range(self.n)])
        rows: list[tuple[float, ...]] = [
            tuple(number for column in columns for number in column[i]) for i in range(self.n)
        ]
        if self._copied:  # else the user may change the numbers where they lie
            self._rows = rows
        return rows


class Examples:
    """Examples of one or several shapes.

    Attributes
    ----------
    packs
        Those of each shape.
    kind, place
        Of each example: the number of its shape, and where it is among those of that shape.
    size
        How many there are in a batch.
    """

    def __init__(self, packs: Sequence[Packed], members: Sequence[Sequence[int]]) -> None:
        self.packs = packs
        self.size = sum(map(len, members))
        n = sum(map(len, members))
        self.kind, self.place = array("l", [0]) * n, array("l", [0]) * n
        for kind, numbers in enumerate(members):
            for place, number in enumerate(numbers):
                self.kind[number], self.place[number] = kind, place

    def __len__(self) -> int:
        return len(self.kind)

    def share(self, pack: Packed) -> float:
        """How many examples of this shape there are in a batch, on average."""
        return self.size * pack.n / len(self)

    def arguments(self, number: int) -> list[Any]:
        """The arguments of an example, as numbers and nested lists of numbers."""
        pack = self.packs[self.kind[number]]
        numbers = iter(pack.rows()[self.place[number]])
        return [unflatten(numbers, shape) for shape in pack.shapes]


def pool(batches: Sequence[Any], known: Sequence[tuple[Shape, ...]]) -> Examples:
    """The examples of each argument as buffers, those of each shape for themselves."""
    try:
        packed = pack(batches, known)
        return Examples([packed], [range(packed.n)])
    except ShapeError:
        members: dict[tuple[Shape, ...], list[int]] = {}
        for number in range(len(batches[0])):
            members.setdefault(tuple(shape_of(batch[number]) for batch in batches), []).append(number)
        packs = [pack([[b[i] for i in numbers] for b in batches], [shapes]) for shapes, numbers in members.items()]
        return Examples(packs, list(members.values()))


def pack(batches: Sequence[Any], known: Sequence[tuple[Shape, ...]]) -> Packed:
    """The examples of each argument as buffers. `known` are shapes to try first."""
    for k, batch in enumerate(batches):
        if not hasattr(batch, "__len__") or isinstance(batch, Mapping):
            raise TypeError(f"argument {k + 1} is a list or an array of examples, not a {type(batch).__name__}")
    lengths = [len(batch) for batch in batches]
    if len(set(lengths)) > 1:
        raise ValueError(f"the arguments have different numbers of examples: {lengths}")
    n = lengths[0] if lengths else 1
    if n == 0:
        raise ValueError("there are no examples")
    for shapes in known:
        try:
            return Packed(shapes, n, batches)
        except _Mismatch:
            pass
    shapes = tuple(shape_of(_first(batch)) for batch in batches)
    try:
        return Packed(shapes, n, batches)
    except _Mismatch as mismatch:
        raise ShapeError(
            shape_of(mismatch.args[0]), mismatch.args[1], "all examples have the shape of the first"
        ) from None


class _Mismatch(Exception):
    """A tree that is not of the shape: both are its arguments."""


def _buffer(batch: Any, shape: Shape) -> Any:
    """The numbers of a batch as doubles one after the other: itself, if that is what it is."""
    if not isinstance(batch, (list, tuple)):
        if hasattr(batch, "__array__") and not hasattr(batch, "__array_interface__"):
            batch = batch.__array__()  # of a library such as pandas, whose tables have the names of columns as items
        try:
            view = memoryview(batch)
        except TypeError:
            pass
        else:
            if view.shape is not None and view.shape[1:] != shape:
                raise _Mismatch(_first(batch), shape)
            if view.format == "d" and view.c_contiguous and not view.readonly and view.nbytes:
                return batch
            batch = view.tolist() if isinstance(batch, memoryview) else batch
    numbers = array("d")
    for example in batch:
        _extend(numbers, example, shape)
    if len(numbers) != len(batch) * size(shape):  # code in C relies on it
        raise ValueError(f"a {type(batch).__name__} of length {len(batch)} gave {len(numbers)} numbers")
    return numbers or array("d", [0.0])  # no buffer is quite empty


def _first(batch: Any) -> Any:
    """The first example; of a memoryview as a list, since it has no rows."""
    return (batch.tolist() if isinstance(batch, memoryview) else batch)[0]


def _extend(numbers: "array[float]", tree: Any, shape: Shape) -> None:
    """Append the numbers of a tree of that shape."""
    if not shape:
        if shape_of(tree) != ():
            raise _Mismatch(tree, shape)
        numbers.append(tree)
        return
    ragged = shape[0] == "ragged"
    n = len(shape) - 1 if ragged else shape[0]
    if isinstance(tree, Mapping) or not hasattr(tree, "__len__") or len(tree) != n:
        raise _Mismatch(tree, shape)
    if len(shape) == 1:
        if not {float, int}.issuperset(map(type, tree)) and shape_of(tree) != shape:
            raise _Mismatch(tree, shape)
        numbers.extend(iter(tree))
        return
    for i, branch in enumerate(tree):
        _extend(numbers, branch, shape[i + 1] if ragged else shape[1:])
