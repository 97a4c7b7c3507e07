"""Calls with one example: its buffers, and the generated code that works on them, are prepared once.

After that, a call only copies the arguments' numbers, reads the parameters, runs the code and copies the results. C
reads large arrays where they are.
"""

import struct
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from micrograd.compiler.dataset import Batch, address, begins_with_array, check_out, numbers_of
from micrograd.compiler.dtype import DOUBLE, Precision
from micrograd.compiler.frontend.graph import CallSpec
from micrograd.compiler.native.library import NativeCode
from micrograd.compiler.targets.python import PythonCode
from micrograd.core.errors import shown
from micrograd.support.arrays import are_plain, as_ndarray, is_array
from micrograd.support.trees import Shape, is_regular, nested, places, shapes_in, size

Code = PythonCode | NativeCode

FAILURES = (ArithmeticError, ValueError, TypeError, struct.error)  # the last two if a parameter is not a number
LARGE = 1 << 15  # numbers: from here on, copying them takes longer than using an array where it is


class Slot:
    """A buffer, `view`, for the numbers of an argument or a result: each call overwrites them.

    If an argument has many numbers, C may read them from the caller's array instead, for one call: then the pointer at
    the index `at` of `pointers` leads there.
    """

    pointers: Any = None
    at = 0

    def __init__(self, shape: Shape, view: memoryview, precision: Precision) -> None:
        self.shape, self.view, self._precision, self.is_regular = shape, view, precision, is_regular(shape)
        self._fill = struct.Struct(f"={len(view)}d").pack_into
        self._plain: tuple[type, ...] = ()  # the types that need no conversion
        if precision == DOUBLE and len(shape) < 2 and self.is_regular:
            self._plain = (list,) if shape else (float, int)
        self._array: Any = None  # the buffer as an array, once one was given

    @cached_property
    def array(self) -> Any:
        """The buffer as an array; a flat one for dicts, or lists of different lengths."""
        return as_ndarray(self.view).reshape(self.shape if self.is_regular else -1)

    def take(self, x: Any) -> bool:
        """Take an argument's numbers. Returns whether it has arrays; raises an error if it does not have this shape."""
        kind, array = type(x), self._array
        fits = array is not None and kind is type(array) and x.shape == self.shape and x.dtype == array.dtype
        if self.pointers:
            in_place = fits and x.flags.carray
            self.pointers[self.at] = address(x if in_place else self.view)
            if in_place:
                return True
        if fits:
            array[...] = x
            return True
        if kind in self._plain:
            if kind is not list:
                self.view[0] = x
                return False
            if are_plain(x):
                self._fill(self.view, 0, *x)
                return False
        self.view[:] = numbers_of(x, self.shape, self._precision)
        if is_array(x) and self.view:
            self._array = self.array
        return begins_with_array(x)

    def read(self, as_arrays: bool) -> Any:
        """The numbers in their shape, as a new array or as lists."""
        if not self.shape:
            return self.view[0]
        if self.is_regular and (as_arrays or len(self.shape) == 1):  # what follows takes longer
            return self.array.copy() if as_arrays else self.view.tolist()
        return nested(self.array.copy() if as_arrays else self.view, self.shape)


class Example:
    """One example, and a call of some kind on it. Each call overwrites its numbers and its results.

    If the function itself `returns_gradients`, in a tuple beside a value, they are apart from it.
    """

    def __init__(self, code: Code, kind: CallSpec, returns_gradients: bool) -> None:
        graph, precision = code.graph, code.precision
        self.shapes = graph.shapes
        rooms = [memoryview(precision.zeros(size(shape))) for shape in self.shapes]
        self._slots = [Slot(shape, room, precision) for shape, room in zip(self.shapes, rooms, strict=True)]
        packed = Batch(self.shapes, 1, rooms, precision, (0,) * len(rooms), False)
        shapes = (graph.output_shape, *([self.shapes[i] for i in kind] if isinstance(kind, tuple) else ()))
        results = memoryview(precision.zeros(sum(map(size, shapes))))
        if returns_gradients:
            value, gradients = shapes_in(graph.output_shape)
            shapes = (value, *shapes_in(gradients))
        self._value, *self._gradients = [Slot(shape, results[part], precision) for part, shape in places(shapes)]
        self.call: Any = code.call(kind, packed, results)
        for i, slot in enumerate(self._slots if isinstance(code, NativeCode) else ()):
            if slot.is_regular and len(slot.view) >= LARGE:
                slot.pointers, slot.at = packed.pointers, 2 * i
        self._as_arrays = False

    def take(self, args: Sequence[Any]) -> bool:
        """Take new arguments. Returns False if they have other shapes, or are not numbers."""
        try:
            self._as_arrays = True in [*map(Slot.take, self._slots, args)]
        except FAILURES:
            return False
        return len(args) == len(self._slots)

    def value(self) -> Any:
        """The function's result, in its shape."""
        return self._value.read(self._as_arrays)

    def both(self, is_one: bool, out: Any = None) -> tuple[Any, Any]:
        """The result, and the gradients with respect to the arguments in a tuple, each in its shape, or the only one:
        in `out`, if given.

        Raises TypeError or ValueError if arrays in `out` do not fit, and then none has changed.
        """
        gradients, as_arrays = self._gradients, self._as_arrays
        if out is None:
            found = [gradient.read(as_arrays) for gradient in gradients]
        else:
            found, n = [out] if is_one else out, len(gradients)
            if not isinstance(found, (list, tuple)) or len(found) != n:
                raise TypeError(f"out is {shown(out)}: expected a tuple of {n} arrays, one for each gradient")
            for room, gradient in zip(found, gradients, strict=True):
                check_out(room, gradient.shape, gradient.view.format)
            for room, gradient in zip(found, gradients, strict=True):
                room[...] = gradient.array
        return self.value(), found[0] if is_one else tuple(found)
