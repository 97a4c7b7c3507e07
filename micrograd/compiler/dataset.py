"""Data sets as buffers of numbers: doubles, or floats for single precision.

What holds real numbers by position will do: lists, NumPy's arrays, and through the protocols that these share, tables
of pandas and tensors of PyTorch. An array of such numbers is used where it lies, anything else is copied.
"""

import ctypes
import math
from array import array
from collections.abc import Callable, Iterator, Mapping, MappingView, Sequence, Set
from numbers import Real
from typing import Any

from micrograd.compiler.dtype import DOUBLE, Precision
from micrograd.compiler.frontend.graph import Shape, shape_of, size, unflatten
from micrograd.engine import Value
from micrograd.errors import shown

NO_LISTS = (Mapping, MappingView, Set, str, bytes, bytearray)
"""What has a length, but no numbers one after the other."""


class ShapeError(ValueError):
    """Arguments whose shape is not what the function takes."""

    def __init__(self, came: Any, expected: Any, why: object) -> None:
        super().__init__(f"got arguments of shape {came}, expected {expected}: {why}")


class Packed:
    """The examples for each argument, one after the other as numbers of a precision.

    Attributes
    ----------
    shapes
        The shape of an example of each argument.
    n
        The number of examples.
    pointers
        Where the numbers of each argument begin, as an array in C.
    columns
        The numbers of each argument, and how many an example has.
    """

    def __init__(
        self, shapes: tuple[Shape, ...], n: int, buffers: Sequence[Any], precision: Precision = DOUBLE
    ) -> None:
        self.shapes = shapes
        self.n = n
        self.precision = precision
        self._buffers = buffers
        self._exports = [memoryview(buffer) for buffer in buffers]  # keep them where they are
        self.pointers = (ctypes.c_void_p * len(self._exports))(*map(_address, self._exports))
        code: Any = precision.code
        flat = [view.cast("B").cast(code) for view in self._exports]
        self.columns = list(zip(flat, map(size, shapes), strict=True))
        self._rows: tuple[list[bytes], list[tuple[float, ...]]] = [], []

    def __len__(self) -> int:
        return self.n

    def __repr__(self) -> str:
        shapes = ", ".join(map(str, self.shapes))
        return f"<{self.n} packed examples of arguments of shape {shapes}>"

    def expect(self, precision: Precision) -> None:
        """Raise TypeError if the numbers are not of this precision."""
        if self.precision != precision:
            raise TypeError(
                f"got examples packed in {self.precision.name} precision, expected {precision.name}: pack them "
                "with the function that takes them"
            )

    def __reduce__(self) -> tuple[Any, ...]:
        buffers = [array(self.precision.code, bytes(memoryview(buffer).cast("B"))) for buffer in self._buffers]
        return Packed, (self.shapes, self.n, buffers, self.precision)

    def refill(self, arguments: Sequence[Any]) -> bool:
        """Replace the only example by another of the same shape, if that is of Python's numbers and flat lists."""
        if self.precision != DOUBLE or len(arguments) != len(self.shapes):
            return False
        try:
            for buffer, shape, argument in zip(self._buffers, self.shapes, arguments, strict=True):
                if not shape and type(argument) in (float, int):
                    buffer[0] = argument
                elif shape == (len(argument),) and type(argument) is list and are_plain(argument):
                    buffer[: len(argument)] = array("d", argument)
                else:
                    return False
        except (TypeError, OverflowError):
            return False
        return True

    def part(self, start: int, stop: int) -> "Packed":
        """The examples from one up to another, where they lie."""
        parts = [view[step * start : step * stop] for view, step in self.columns]
        buffers = [array(self.precision.code, x or [0.0]) if x.readonly or not x else x for x in parts]
        return Packed(self.shapes, stop - start, buffers, self.precision)

    def row(self, i: int) -> tuple[float, ...]:
        """All numbers of an example."""
        return tuple(x for view, step in self.columns for x in view[i * step : (i + 1) * step])

    def rows(self) -> list[tuple[float, ...]]:
        """All numbers of each example, as they are now: those that are used where they lie may have been changed."""
        now = [bytes(memoryview(buffer).cast("B")) for buffer in self._buffers]
        before, rows = self._rows
        if now != before or not rows:
            code: Any = self.precision.code
            columns = []
            for numbers, step in zip(now, map(size, self.shapes), strict=True):
                column = memoryview(numbers).cast(code).tolist()
                columns.append([column[i * step : (i + 1) * step] for i in range(self.n)])
            rows = [tuple(number for column in columns for number in column[i]) for i in range(self.n)]
            self._rows = now, rows
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
        self.kind, self.place = array("q", [0]) * n, array("q", [0]) * n
        for kind, numbers in enumerate(members):
            for place, number in enumerate(numbers):
                self.kind[number], self.place[number] = kind, place

    def __len__(self) -> int:
        return len(self.kind)

    def of_each_shape(self, batch: Sequence[int]) -> Iterator[tuple[Packed, "array[int] | None"]]:
        """Of each shape that the batch has: its examples, and the places in the batch; None for all as they come."""
        for kind, pack in enumerate(self.packs):
            places = array("q", [self.place[i] for i in batch if self.kind[i] == kind])
            if places:
                yield pack, None if isinstance(batch, range) and len(places) == pack.n else places

    def share(self, pack: Packed) -> float:
        """How many examples of this shape there are in a batch, on average."""
        return self.size * pack.n / len(self)

    def part(self, numbers: range) -> "Examples":
        """These among the examples, which are counted from 0 there."""
        packs, members = [], []
        for kind, pack in enumerate(self.packs):
            mine = [number for number in numbers if self.kind[number] == kind]
            if mine:
                packs.append(pack.part(self.place[mine[0]], self.place[mine[-1]] + 1))
                members.append([number - numbers.start for number in mine])
        return Examples(packs, members)

    def arguments(self, number: int) -> list[Any]:
        """The arguments of an example, as numbers and nested lists of numbers."""
        pack = self.packs[self.kind[number]]
        numbers = iter(pack.row(self.place[number]))
        return [unflatten(numbers, shape) for shape in pack.shapes]


def pool(batches: Sequence[Any], known: Sequence[tuple[Shape, ...]], precision: Precision = DOUBLE) -> Examples:
    """The examples of each argument as buffers, those of each shape for themselves."""
    try:
        packed = pack(batches, known, precision)
        return Examples([packed], [range(packed.n)])
    except ShapeError:
        members: dict[tuple[Shape, ...], list[int]] = {}
        for number in range(len(batches[0])):
            members.setdefault(tuple(shape_of(batch[number]) for batch in batches), []).append(number)
        packs = [
            pack([[batch[i] for i in numbers] for batch in batches], [shapes], precision)
            for shapes, numbers in members.items()
        ]
        return Examples(packs, list(members.values()))


def pack(batches: Sequence[Any], known: Sequence[tuple[Shape, ...]], precision: Precision = DOUBLE) -> Packed:
    """The examples of each argument as buffers. `known` are shapes to try first."""
    batches = _each(_examples, batches, precision)
    lengths = [len(batch) for batch in batches]
    if len(set(lengths)) > 1:
        raise ValueError(f"the arguments have different numbers of examples: {lengths}")
    n = lengths[0] if lengths else 1
    if n == 0:
        raise ValueError("there are no examples")
    for shapes in known:
        try:
            return Packed(shapes, n, _each(_buffer, batches, precision, shapes), precision)
        except _Mismatch:
            pass
    try:
        shapes = tuple(map(_first_shape, batches))
        return Packed(shapes, n, _each(_buffer, batches, precision, shapes), precision)
    except _Mismatch as mismatch:
        came, expected = mismatch.args
        raise ShapeError(came, expected, "all examples must have the shape of the first") from None


class _Mismatch(Exception):
    """The shape that numbers came in, and the one that was expected."""


def _each(
    function: Callable[..., Any], batches: Sequence[Any], precision: Precision, *of_arguments: Sequence[Any]
) -> list[Any]:
    """What the function makes of each argument; an error about its numbers names it."""
    results: list[Any] = []
    try:
        for batch, *others in zip(batches, *of_arguments, strict=True):
            results.append(function(batch, precision, *others))
    except (TypeError, OverflowError) as error:
        raise type(error)(f"argument {len(results) + 1}: {error}") from None
    return results


def _address(view: Any) -> int:
    """Where the numbers of a buffer begin: of one that nobody may write to, its array tells."""
    if view.readonly:
        return int(view.obj.__array_interface__["data"][0])
    return ctypes.addressof(ctypes.c_char.from_buffer(view))


def _is_whole_array(view: Any) -> bool:
    """Whether `_address` knows where it begins."""
    return hasattr(view.obj, "__array_interface__") and bool(view.obj.nbytes == view.nbytes)


def _examples(batch: Any, precision: Precision) -> Any:
    """A batch, in a form that has a length and is indexed by position."""
    if isinstance(batch, (list, tuple)):
        return batch
    if isinstance(batch, NO_LISTS) or not hasattr(batch, "__len__"):
        raise TypeError(f"expected a list or an array of examples, not {shown(batch)}")
    len(batch)  # which an array of no dimensions has not
    return _plain(batch, precision)


def _plain(tree: Any, precision: Precision = DOUBLE) -> Any:
    """An array or a table as a view of numbers, or as a list of its objects; what has no such form, as it is."""
    if isinstance(tree, NO_LISTS):
        raise TypeError(f"expected a number, or a list or an array of numbers, not {shown(tree)}")
    if hasattr(type(tree), "filled"):
        raise TypeError("a masked array has gaps: fill them with .filled(number)")
    if hasattr(tree, "__array__"):
        numbers = tree.__array__()
        if numbers.dtype.kind == "O":
            return numbers.tolist()
        if numbers.dtype.kind not in "biuf":
            raise TypeError(f"expected real numbers, not {numbers.dtype}")
        if precision != DOUBLE and numbers.dtype.kind == "f" and numbers.dtype.itemsize > precision.size:
            sizes = abs(numbers)
            precision.check("a number", float(sizes[sizes < math.inf].max(initial=0.0)))
        return memoryview(numbers.__array__(precision.code))  # which are the same where they are of its type already
    try:
        view = memoryview(tree)
        return view if view.format == precision.code else view.tolist()
    except (TypeError, NotImplementedError):  # there is no buffer, or Python cannot read its format
        return tree


def _first_shape(batch: Any) -> Shape:
    """The shape of the first example."""
    return (batch.shape or ())[1:] if isinstance(batch, memoryview) else shape_of(next(iter(batch)))


def _buffer(batch: Any, precision: Precision, shape: Shape) -> "memoryview | array[float]":
    """The numbers of a batch, one after the other: where they lie, or in an array of our own."""
    if isinstance(batch, memoryview):
        _expect(shape, _first_shape(batch))
        if batch.c_contiguous and batch.nbytes and (not batch.readonly or _is_whole_array(batch)):
            return batch
        numbers = precision.zeros(0)
        numbers.frombytes(batch.tobytes())
    else:
        doubles = array("d")
        if not shape and are_plain(batch):
            doubles.extend(iter(batch))
        else:
            for example in batch:
                _extend(doubles, example, shape)
        numbers = precision.array(doubles)
    if len(numbers) != len(batch) * size(shape):  # code in C relies on it
        raise ValueError(f"the {type(batch).__name__} of length {len(batch)} yielded {len(numbers)} numbers")
    return numbers or precision.zeros(1)  # no buffer is quite empty


def _extend(numbers: "array[float]", tree: Any, shape: Shape) -> None:
    """Append the numbers of a tree of that shape."""
    if not isinstance(tree, (list, tuple, Real)):
        tree = _plain(tree)
    if isinstance(tree, memoryview):
        _expect(shape, tree.shape)
        numbers.frombytes(tree.tobytes())
    elif not shape:
        _expect(shape, shape_of(tree))
        try:
            numbers.append(tree)
        except TypeError:
            remedy = ": give its .data, and get gradients from value_and_grad" if isinstance(tree, Value) else ""
            raise TypeError(f"expected a real number, not {shown(tree)}{remedy}") from None
    else:
        ragged = shape[0] == "ragged"
        if not hasattr(tree, "__len__") or len(tree) != (len(shape) - 1 if ragged else shape[0]):
            raise _Mismatch(shape_of(tree), shape)
        if len(shape) == 1:
            if are_plain(tree):
                numbers.extend(iter(tree))
                return
            _expect(shape, shape_of(tree))
        for i, branch in enumerate(tree):
            _extend(numbers, branch, shape[i + 1] if ragged else shape[1:])


def are_plain(numbers: Any) -> bool:
    """Whether these are Python's own numbers, which an array takes all at once."""
    return {float, int}.issuperset(map(type, numbers))


def _expect(shape: Shape, came: Any) -> None:
    if came != shape:
        raise _Mismatch(came, shape)
