"""Calls with one example: its buffers, and the generated code that works on them, are prepared once.

After that, a call only copies the arguments' numbers, reads the parameters, runs the code and copies the results.
"""

import struct
from collections.abc import Sequence
from typing import Any

from micrograd.compiler.dataset import Batch, begins_with_array, numbers_of
from micrograd.compiler.dtype import DOUBLE, Precision
from micrograd.compiler.frontend.graph import CallSpec
from micrograd.compiler.native.library import CBackend
from micrograd.compiler.targets.python import PythonBackend
from micrograd.support.arrays import are_plain, as_ndarray, is_array
from micrograd.support.trees import Shape, is_regular, nested, places, size

Backend = PythonBackend | CBackend

FAILURES = (ArithmeticError, ValueError, TypeError, struct.error)  # the last two if a parameter is not a number


class Slot:
    """A buffer for the numbers of an argument: each call overwrites them."""

    def __init__(self, shape: Shape, precision: Precision, room: int = 1) -> None:
        self.shape, self._precision = shape, precision
        self.numbers = precision.zeros(max(size(shape), room))  # no buffer may be empty
        self.view = memoryview(self.numbers)
        self._fill = struct.Struct(f"={size(shape)}d").pack_into
        self._plain: tuple[type, ...] = ()  # the types that need no conversion
        if precision == DOUBLE and len(shape) < 2 and is_regular(shape):
            self._plain = (list,) if shape else (float, int)
        self._array: Any = None  # the same buffer as an array, once an argument was one

    def take(self, x: Any) -> bool:
        """Copy an argument's numbers. Returns whether it has arrays; raises an error if it does not have this shape."""
        kind, array = type(x), self._array
        if array is not None and kind is type(array) and x.shape == self.shape and x.dtype == array.dtype:
            array[...] = x
            return True
        if kind in self._plain:
            if kind is not list:
                self.numbers[0] = x
                return False
            if are_plain(x):
                self._fill(self.numbers, 0, *x)
                return False
        numbers = numbers_of(x, self.shape, self._precision)
        self.view[: len(numbers)] = numbers
        if is_array(x) and numbers:
            self._array = as_ndarray(self.view[: len(numbers)]).reshape(self.shape)
        return begins_with_array(x)


class Single:
    """One example, and a call of some kind on it. Each call overwrites its numbers and its results."""

    def __init__(self, backend: Backend, kind: CallSpec) -> None:
        self.graph, precision = backend.graph, backend.precision
        shapes, self._output_shape = self.graph.shapes, self.graph.output_shape
        self._gradients = places([shapes[i] for i in kind] if isinstance(kind, tuple) else [])
        self._slots = [Slot(shape, precision) for shape in shapes]
        self._results = precision.zeros(self.graph.n_results(kind))
        self._arrays: Any = None  # the results as an array
        self._as_arrays = False
        self.packed = Batch(shapes, 1, [slot.numbers for slot in self._slots], precision, (0,) * len(shapes), False)
        self.call = backend.call(kind, self.packed, self._results)

    def take(self, args: Sequence[Any]) -> bool:
        """Copy new arguments. Returns False if they have other shapes, or are not numbers."""
        try:
            self._as_arrays = True in [*map(Slot.take, self._slots, args)]
        except FAILURES:
            return False
        return len(args) == len(self._slots)

    def copy(self, start: int = 0) -> Any:
        """The results from index `start` on, as an array if an argument is one."""
        if not self._as_arrays:
            return self._results[start:]
        if self._arrays is None:
            self._arrays = as_ndarray(self._results)
        return self._arrays[start:].copy()

    def value(self) -> Any:
        """The function's result, in its shape."""
        return nested(self.copy(), self._output_shape) if self._output_shape else self._results[0]

    def both(self) -> tuple[Any, list[Any]]:
        """The result, and the gradients with respect to the arguments, each in its shape."""
        flat = self.copy(1)
        return self._results[0], [
            nested(flat[place], shape) if shape else float(flat[place.start]) for place, shape in self._gradients
        ]
