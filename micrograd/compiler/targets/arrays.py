"""The NumPy backend: a graph as functions on arrays (numpy.py writes them), for where there is no C compiler.

Only this module imports NumPy, and only what uses this backend imports it.
"""

import math
import operator
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from micrograd import scalar
from micrograd.compiler.dataset import Packed
from micrograd.compiler.frontend.graph import ForKinds, Graph, Kind, SerializedGraph, name_of
from micrograd.compiler.frontend.interpret import failure
from micrograd.compiler.frontend.tracer import QUIET
from micrograd.compiler.passes import program
from micrograd.compiler.targets.numpy import Writer
from micrograd.compiler.targets.python import Numbers, PythonBackend

CACHE = 1 << 22  # bytes, beyond which fewer examples are computed at once
FEWEST_EXAMPLES = 64
RAISES: Any = {"divide": "raise", "over": "raise", "invalid": "raise"}
CALL, STATEMENT = 600, 105  # operations of Python that take as long as a call, and as one on arrays


# What generated functions call


def _divided(divide: Callable[..., Any], x: Any, y: Any) -> Any:
    """A quotient or a remainder. Raises FloatingPointError if a divisor is 0: infinity / 0 raises no flag."""
    if np.count_nonzero(y) < np.size(y):
        raise FloatingPointError("division by zero")
    return divide(x, y)


def _is_index(index: Any, size: int) -> Any:
    return (index >= 0) & (index < size) & (index % 1 == 0)


def _whole(index: Any, size: int) -> Any:
    """Indices as integers."""
    if not np.all(_is_index(index, size)):
        raise FloatingPointError("an index is out of range")
    return np.asarray(index).astype(np.int64)


def _whole_or_none(index: Any, size: int) -> Any:
    """Indices, and NaN in place of what is none."""
    return np.where(_is_index(index, size), index, math.nan)


def _at(numbers: Any, at: Any) -> Any:
    """The numbers at indices, or NaN."""
    return np.where(at >= 0, numbers[np.where(at >= 0, at, 0).astype(np.int64)], math.nan)


def _take(index: Any, *values: Any) -> Any:
    at, *columns = np.broadcast_arrays(_whole(index, len(values)), *values)
    return np.take_along_axis(np.stack(columns), at[None], 0)[0]


def _take_or_none(index: Any, *values: Any) -> Any:
    is_index = _is_index(index, len(values))
    return np.where(is_index, _take(np.where(is_index, index, 0), *values), math.nan)


def _add_at(gradients: Any, at: Any, values: Any, shape: tuple[int, ...]) -> None:
    """Add values to the gradients at these indices; where there is none, add nothing."""
    at, values = np.broadcast_to(at, shape), np.broadcast_to(values, shape)
    np.add.at(gradients, at[at >= 0].astype(np.int64), values[at >= 0])


def _on_arrays(functions: Mapping[str, Callable[..., Any]]) -> dict[str, Any]:
    """These functions on arrays: NumPy's, whose inverse ones have longer names, or where it has none, one by one."""
    found: dict[str, Any] = {}
    for name in [name for name, function in scalar.FUNCTIONS.items() if not function.composed]:
        found[name] = getattr(np, name, None) or getattr(np, name.replace("a", "arc", 1), None)
        found[name] = found[name] or np.vectorize(functions[name], [float])
    return found


def _checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that checks its results itself, where the processor has no flags, as in WebAssembly."""

    def checked(*operands: Any) -> Any:
        results = function(*operands)
        if not np.isfinite(results).all():
            raise FloatingPointError("a result is not finite")
        return results

    return checked


def _has_flags() -> bool:
    try:
        with np.errstate(divide="raise"):
            np.log(np.zeros(1))
    except FloatingPointError:
        return True
    return False


def _functions() -> dict[str, Any]:
    """The operations that may fail, by their names in generated code."""
    found = _on_arrays({name: function.__wrapped__ for name, function in scalar.FUNCTIONS.items()})
    found |= {"quotient": partial(_divided, operator.truediv), "remainder": partial(_divided, np.remainder)}
    found |= {"power": operator.pow, "take": _take}
    return found if _has_flags() else {name: _checked(function) for name, function in found.items()}


NAMESPACE = {**vars(np), "whole": _whole, "at": operator.getitem, "add_at": _add_at, **_functions()}
QUIET_NAMESPACE = {
    "quotient": operator.truediv,
    "remainder": np.remainder,
    "power": operator.pow,
    "take": _take_or_none,
    "whole": _whole_or_none,
    "at": _at,
    **_on_arrays(QUIET),
}


class NumpyBackend(PythonBackend):
    """A graph as functions on NumPy's arrays, each compiled when it is first called.

    An operation that fails raises what Python raises: the processor's flags tell that one may have failed, and then the
    examples are computed again step by step. With `few_in_python`, Python computes what takes so few operations that
    NumPy would be slower.
    """

    language = "NumPy"

    def __init__(self, stored: SerializedGraph, *, few_in_python: bool) -> None:
        super().__init__(stored)
        self._few_in_python = few_in_python
        self._kernels, self._operations = ForKinds(_Kernel, stored), ForKinds(_operations, stored)

    def _is_for_python(self, kind: Kind, n: int) -> bool:
        """Whether Python computes n examples faster, one operation after the other."""
        operations: int = n * self._operations[kind]
        return operations < CALL or operations < CALL + STATEMENT * self._kernels[kind].statements

    def run(
        self, kind: Kind, parameters: Numbers, seed: float, packed: Packed, results: Any, gradients: Any, at: Any = None
    ) -> None:
        """Call a generated function, as `PythonBackend.run` does."""
        if self._few_in_python and self._is_for_python(kind, packed.n if at is None else len(at)):
            super().run(kind, parameters, seed, packed, results, gradients, at)
            return
        kernel, x = self._kernels[kind], _columns(packed)
        if at is not None:
            x = x[:, at]
        try:
            with np.errstate(**{"all": "ignore"} if self.stored.quiet else RAISES):
                y, g = kernel(parameters, seed, x)
        except FloatingPointError:
            error = failure(self.stored.graph(), kind, parameters, packed, at)
            if error:
                raise error from None
            with np.errstate(all="ignore"):  # a product may be infinite, as in Python
                y, g = kernel(parameters, seed, x)
        np.asarray(memoryview(results)).reshape(y.T.shape)[...] = y.T
        if gradients is not None:
            np.asarray(memoryview(gradients))[...] += g

    def source(self) -> str:
        """The functions, made to be read."""
        return "\n\n".join(self._kernels[kind].source for kind in self.stored.graph().kinds)


def _operations(graph: Graph, kind: Kind) -> int:
    """The number of operations for an example; a dot counts as many."""
    graph = graph.in_lines()
    operands = graph.trace.operands
    return sum(max(1, len(operands[line]) - 1) for line in graph.trace.live(graph.results(kind)))


class _Kernel:
    """A generated function: called with the parameters, the seed and columns of examples, it returns y and g."""

    def __init__(self, graph: Graph, kind: Kind) -> None:
        writer = Writer(graph, program(graph, *graph.ends(kind)))
        self.source, self.statements = writer.source(name_of(kind)), writer.statements
        self._tile = max(FEWEST_EXAMPLES, CACHE // (8 * writer.size + 1))
        quiet = QUIET_NAMESPACE if graph.trace.quiet else {}
        functions = {**NAMESPACE, **quiet, "c": np.array(writer.constants), "places": np.arange(graph.n_parameters)}
        exec(compile(self.source, "<compiled by micrograd>", "exec"), functions)
        self._function = functions[name_of(kind)]

    def __call__(self, parameters: Sequence[float], seed: float, x: Any) -> tuple[Any, Any]:
        is_buffer = isinstance(parameters, memoryview) and parameters.format == "d"
        numbers: Any = parameters if is_buffer else struct.pack(f"{len(parameters)}d", *parameters)
        p = np.frombuffer(numbers)
        g = np.zeros(len(p))
        parts = [np.ascontiguousarray(x[:, i : i + self._tile]) for i in range(0, x.shape[1], self._tile)]
        return np.concatenate([self._function(p, part, seed, g, part.shape[1]) for part in parts], 1), g


def _columns(packed: Packed) -> Any:
    """The examples as columns."""
    n, rows = packed.n, []
    for (numbers, step), is_shared in zip(packed.columns, packed.shared, strict=True):
        many = 1 if is_shared else n
        rows.append(np.broadcast_to(np.asarray(numbers)[: many * step].reshape(many, step).T, (step, n)))
    return np.concatenate(rows) if rows else np.empty((0, packed.n))
