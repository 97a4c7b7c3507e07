"""Data sets as buffers of numbers: doubles, or floats for single precision.

Whatever holds real numbers by position will do: lists, NumPy's arrays, and tables of pandas and tensors of PyTorch,
through the protocols that these share. An array that C can read is used where it lies, anything else is copied.
"""

import ctypes
import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, MappingView, Sequence, Set
from dataclasses import dataclass, replace
from itertools import chain, repeat
from numbers import Real
from operator import add
from typing import Any

from micrograd.compiler.dtype import DOUBLE, Precision
from micrograd.core.errors import shown
from micrograd.engine import Value
from micrograd.support import trees, validation
from micrograd.support.arrays import are_plain, is_array, numpy_class
from micrograd.support.trees import Shape, as_lists, shape_of, size

Shapes = tuple[Shape, ...]
"""The shapes of a function's arguments."""

NO_LISTS = (Mapping, MappingView, Set, str, bytes, bytearray)
"""What has a length, but no numbers one after the other."""


class ShapeError(ValueError):
    """Arguments whose shape is not what the function takes."""


def shape_error(came: Any, expected: Any, why: str = "all examples must have the shape of the first") -> ShapeError:
    """The error for arguments of a shape that is not the expected one."""
    return ShapeError(f"got arguments of shape {trees.described(came)}, expected {trees.described(expected)}: {why}")


class TracedError(TypeError):
    """A Value came where compiled code needs a number: the function itself takes it."""


Axes = tuple[Any, ...]
"""For each argument, which row an example uses: 0, its own; None, the only one; an array, the one with this index."""


@dataclass(eq=False, repr=False)
class Batch:
    """The n examples for each argument, one after the other, as numbers of a precision. Each argument has a shape.

    `pointers` is an array in C with the addresses of each argument's numbers and of its indices in `axes`. Of
    examples to train on, a step takes about `typical`; the code for so many also computes fewer.
    """

    shapes: Shapes
    n: int
    buffers: Sequence[Any]
    precision: Precision
    axes: Axes
    as_arrays: bool  # whether results are arrays, since an argument is
    typical: float = 0.0  # or 0 if calls compute all of them

    def __post_init__(self) -> None:
        self.buffers = [memoryview(buffer) for buffer in self.buffers]  # memory with views cannot move
        self.pointers = (ctypes.c_void_p * (2 * len(self.buffers)))()
        self.pointers[::2] = [*map(address, self.buffers)]
        self.pointers[1::2] = [address(axis) if type(axis) is array else None for axis in self.axes]

    def __len__(self) -> int:
        return self.n

    def __repr__(self) -> str:
        return f"<{self.n} packed examples of arguments of shape {', '.join(map(str, self.shapes))}>"

    def __reduce__(self) -> tuple[Any, ...]:
        buffers = [array(self.precision.code, buffer.tobytes()) for buffer in self.buffers]
        return Batch, (self.shapes, self.n, buffers, self.precision, self.axes, self.as_arrays, self.typical)

    def chosen(self, indices: Sequence[int]) -> "Batch":
        """The examples with these indices: a range of them where they lie, others by their rows."""
        buffers, axes = list(self.buffers), list(self.axes)
        for k, (shape, axis) in enumerate(zip(self.shapes, axes, strict=True)):
            if isinstance(axis, array):
                axes[k] = array("q", map(axis.__getitem__, indices))
            elif axis == 0 and isinstance(indices, range):
                buffers[k] = buffers[k][size(shape) * indices.start : size(shape) * indices.stop]
            elif axis == 0:
                axes[k] = array("q", indices)
        return replace(self, n=len(indices), buffers=buffers, axes=tuple(axes))

    def rows(self) -> list[tuple[float, ...]]:
        """All numbers of each example."""
        rows: Iterable[tuple[float, ...]] = repeat((), self.n)
        for buffer, shape, axis in zip(self.buffers, self.shapes, self.axes, strict=True):
            step = size(shape)
            at = repeat(0, self.n) if axis is None else range(self.n) if axis == 0 else axis
            rows = map(add, rows, [tuple(buffer[step * i : step * i + step]) for i in at])
        return list(rows)


class Buckets:
    """Examples of one or several shapes, in a batch for each.

    For each example, `bucket` is the number of its batch, and `slot` its position in that.
    """

    def __init__(self, batches: Sequence[Batch], members: Sequence[Sequence[int]]) -> None:
        self.batches, n = batches, sum(map(len, members))
        self.bucket, self.slot = array("q", [0]) * n, array("q", range(n))
        for bucket, numbers in enumerate(members if len(batches) > 1 else ()):
            for slot, number in enumerate(numbers):
                self.bucket[number], self.slot[number] = bucket, slot

    def __len__(self) -> int:
        return len(self.bucket)

    def parts(self, numbers: Sequence[int]) -> Iterator[Batch]:
        """These examples, by their batches."""
        for bucket, batch in enumerate(self.batches):
            mine = numbers if len(self.batches) == 1 else [self.slot[i] for i in numbers if self.bucket[i] == bucket]
            if mine:
                yield batch.chosen(mine)

    def arguments(self, number: int) -> list[Any]:
        """The arguments of an example, as numbers and nested lists of numbers."""
        batch = self.batches[self.bucket[number]]
        numbers = chain(*batch.chosen([self.slot[number]]).rows())
        return [trees.unflatten(numbers, shape) for shape in batch.shapes]


def bucket_by_shape(batches: Sequence[Any], precision: Precision = DOUBLE, axes: Axes | None = None) -> Buckets:
    """The examples of each argument as buffers, in a batch for each shape."""
    try:
        batch = pack(batches, precision, axes)
        return Buckets([batch], [range(batch.n)])
    except ShapeError:
        of_each = list(zip(batches, axes or (0,) * len(batches), strict=True))
        members: dict[Shapes, list[int]] = {}
        arguments = [repeat(x) if axis is None else as_lists(x) for x, axis in of_each]
        for i, example in enumerate(zip(*arguments, strict=False)):  # as many as the arguments that are not shared
            members.setdefault(tuple(map(shape_of, example)), []).append(i)
        of_shapes = [
            pack([x if axis is None else [x[i] for i in numbers] for x, axis in of_each], precision, axes)
            for numbers in members.values()
        ]
        return Buckets(of_shapes, list(members.values()))


def pack(batches: Sequence[Any], precision: Precision = DOUBLE, axes: Axes | None = None) -> Batch:
    """The examples of each argument as buffers, in the shape of the first one; or a batch that was packed before."""
    axes = (0,) * len(batches) if axes is None else axes
    if len(batches) == 1 and isinstance(packed := batches[0], Batch):
        are_alike = packed.axes == axes or [a is None for a in packed.axes] == [a is None for a in axes]
        if packed.precision != precision or (not are_alike and len(packed.axes) == len(axes)):
            other = "with other in_axes or in another precision"
            raise TypeError(f"got examples packed {other}: pack them with the function that takes them")
        return packed
    if len(batches) != (n := len(axes)):
        raise ValueError(f"the function takes {validation.counted(n, 'argument')}, not {len(batches)}")
    columns = []
    for k, (batch, axis) in enumerate(zip(batches, axes, strict=True), 1):
        try:
            columns.append(_column(batch, axis, precision))
        except (TypeError, OverflowError) as error:
            found = trees.leaves("", batch[0] if isinstance(batch, tuple) and len(batch) == 1 else batch)
            place = next((f" (at {path})" for path, x in found if path and not isinstance(x, Real)), "")
            raise type(error)(f"argument {k}: {error}{place}") from None
    shapes, rows, buffers = zip(*columns, strict=True) if columns else ((), (), ())
    axes = tuple(map(_indices, range(n), axes, rows))
    lengths = [of if axis == 0 else len(axis) for axis, of in zip(axes, rows, strict=True) if axis is not None] or [1]
    if len(set(lengths)) > 1:
        raise ValueError(f"the arguments have different numbers of examples: {lengths}")
    return Batch(shapes, lengths[0], buffers, precision, axes, any(map(begins_with_array, batches)))


def _indices(k: int, axis: Any, rows: int) -> "int | array[int] | None":
    """An axis; if it is indices, a copy as an array. They are checked here, since C does not check them."""
    if axis is None or (type(axis) is int and axis == 0):
        return axis
    of_numpy = hasattr(axis, "__array__")
    indices = axis.__array__() if of_numpy else axis
    if of_numpy:
        is_right = indices.ndim == 1 and indices.dtype.kind in "iu"
    else:
        is_right = isinstance(axis, (list, tuple, range, array)) and {*map(type, axis)} <= {int}
    if not is_right:
        raise TypeError(f"in_axes[{k}] is {shown(axis)}: expected 0, None or a list of ints, a row for each example")
    if len(indices):
        ends = (indices.min(), indices.max()) if of_numpy else (min(axis), max(axis))
        for i in ends:
            if not 0 <= i < rows:
                came = f"in_axes[{k}] has the index {i}, but argument {k + 1}"
                raise IndexError(f"{came} has {rows} rows, counted from 0")
    return array("q", indices.astype("q").tobytes() if of_numpy else indices)


def _column(batch: Any, axis: Any, precision: Precision) -> tuple[Shape, int, Any]:
    """The shape of an argument's rows, the number of rows, and their numbers: in place, or copied to an array.

    An argument that all examples share has one row.
    """
    is_shared, is_list = axis is None, isinstance(batch, (list, tuple))
    examples: Any = batch if is_list and not is_shared else _plain(batch, precision)
    if is_array(examples):
        n, *shape = (1, *examples.shape) if is_shared else examples.shape
        return tuple(shape), n, examples.reshape(-1)
    if not is_shared and (isinstance(examples, (*NO_LISTS, Batch)) or not validation.is_sized(examples)):
        raise TypeError(f"expected a list or an array of examples, not {shown(batch)}")
    examples = [examples] if is_shared else examples if is_list else list(examples)
    shape_of_each = shape_of(examples[0]) if examples else ()
    are_numbers = not shape_of_each and are_plain(examples)
    doubles = array("d", examples if are_numbers else ())
    for example in () if are_numbers else examples:  # one by one, so that an error names the shape of an example
        _extend(doubles, example, shape_of_each)
    return shape_of_each, len(examples), precision.array(doubles)


def address(numbers: Any) -> int:
    """Where the numbers of an array begin, Python's or NumPy's, or of a buffer."""
    if type(numbers) is array:
        return numbers.buffer_info()[0]
    return ctypes.addressof(_Start.from_buffer(numbers))


_Start = ctypes.c_char * 0


def is_native(array: Any, code: str) -> bool:
    """Whether C can use a NumPy array in place: it has this type, and is contiguous, writable and aligned."""
    return bool(array.dtype.char == code and array.dtype.isnative and array.flags.carray)


def check_out(out: Any, shape: tuple[Any, ...], code: str) -> None:
    """Raise TypeError or ValueError unless results of this shape can be written into an array."""
    is_array = hasattr(getattr(out, "flags", None), "carray")  # also one without dimensions, for a number
    if is_array and out.shape == shape and is_native(out, code):
        return
    if not trees.is_regular(shape):
        raise ValueError(f"out cannot have the shape of the results, {shape}: leave it out, for nested lists")
    came = f"an array of {out.dtype.str!r} and shape {out.shape}" if is_array else shown(out)
    expected = f"a writable, aligned C-contiguous NumPy array of {code!r}, such as numpy.empty({shape}, {code!r})"
    raise (ValueError if is_array else TypeError)(f"out is {came}: expected {expected}")


def begins_with_array(batch: Any) -> bool:
    """Whether this is an array or a dict that has one, or the first item in a list is, at whatever depth."""
    while isinstance(batch, (list, tuple)) and batch:
        batch = batch[0]
    return trees.has_array(batch)


def _plain(tree: Any, precision: Precision = DOUBLE) -> Any:
    """An array or a table as an array that C can use, the same one if it can, or as a list of its objects; anything
    else as lists, or as it is.
    """
    if type(tree) is numpy_class("ndarray") and is_native(tree, precision.code):
        return tree
    if hasattr(type(tree), "filled"):
        raise TypeError("a masked array has gaps: fill them with .filled(number)")
    if not hasattr(tree, "__array__"):
        return as_lists(tree)
    import numpy as np  # here, since only users of arrays need it

    numbers = tree.__array__()
    if numbers.dtype.kind == "O":
        return numbers.tolist()
    if numbers.dtype.kind not in "biuf":
        raise TypeError(f"expected real numbers, not {numbers.dtype}")
    if precision != DOUBLE and numbers.dtype.kind == "f" and numbers.dtype.itemsize > precision.size:
        sizes = abs(numbers)
        precision.check("a number", float(sizes[sizes < math.inf].max(initial=0.0)))
    return np.require(numbers, precision.code, ["C", "ALIGNED", "WRITEABLE"])


def _extend(numbers: "array[float]", tree: Any, shape: Shape) -> None:
    """Append the numbers of a tree of that shape."""
    if isinstance(tree, (list, tuple)) and shape[:1] == (len(tree),):  # without flat lists, in half the time
        if len(shape) > 1:
            for branch in tree:
                _extend(numbers, branch, shape[1:])
            return None
        if are_plain(tree):
            return numbers.fromlist([*tree])  # in a quarter of the time that extend takes
    if not isinstance(tree, (list, tuple, dict, Real)):
        tree = _plain(tree)
        if isinstance(tree, NO_LISTS):
            raise TypeError(f"expected a number, or a list or an array of numbers, not {shown(tree)}")
    if (came := shape_of(tree)) != shape:
        raise shape_error(came, shape)
    if is_array(tree):
        return numbers.frombytes(tree.tobytes())
    found = trees.flat(tree)
    try:
        return numbers.extend(found)
    except TypeError:
        number = next((x for x in found if not isinstance(x, Real)), found[0])
        why = f"expected a real number, not {shown(number)}"
        if isinstance(number, Value):
            raise TracedError(f"{why}: give its .data, and get gradients from value_and_grad") from None
        raise TypeError(why) from None


def numbers_of(tree: Any, shape: Shape, precision: Precision) -> "array[float]":
    """The numbers of a tree of this shape."""
    numbers = array("d")
    _extend(numbers, tree, shape)
    return precision.array(numbers)
