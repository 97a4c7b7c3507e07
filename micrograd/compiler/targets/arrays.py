"""The NumPy backend: a graph as functions on arrays (numpy.py writes them), for where there is no C compiler.

Only this module imports NumPy, and only what uses this backend imports it.
"""

import operator
import struct
from array import array
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from micrograd import scalar
from micrograd.collector import gc_paused
from micrograd.compiler.dataset import Packed
from micrograd.compiler.frontend.graph import Graph
from micrograd.compiler.frontend.interpret import failure
from micrograd.compiler.frontend.serialized import SerializedGraph
from micrograd.compiler.targets.numpy import Writer

CACHE = 1 << 22  # bytes, beyond which fewer examples are computed at once
FEWEST_EXAMPLES = 64
RAISES: Any = {"divide": "raise", "over": "raise", "invalid": "raise"}


# What generated functions call


def _check_divisor(divisor: Any) -> None:
    """Raise FloatingPointError if one is 0: infinity / 0 raises no flag."""
    if np.count_nonzero(divisor) < np.size(divisor):
        raise FloatingPointError("division by zero")


def _quotient(x: Any, y: Any) -> Any:
    _check_divisor(y)
    return x / y


def _remainder(x: Any, y: Any) -> Any:
    _check_divisor(y)
    return np.remainder(x, y)


def _whole(index: Any, size: int) -> Any:
    """Indices as integers."""
    if not np.all((index >= 0) & (index < size) & (index % 1 == 0)):
        raise FloatingPointError("an index is out of range")
    return np.asarray(index).astype(np.int64)


def _take(index: Any, *values: Any) -> Any:
    at, *columns = np.broadcast_arrays(_whole(index, len(values)), *values)
    return np.take_along_axis(np.stack(columns), at[None], 0)[0]


def _add_at(gradients: Any, at: Any, values: Any, shape: tuple[int, ...]) -> None:
    np.add.at(gradients, np.broadcast_to(at, shape), np.broadcast_to(values, shape))


def _on_arrays(name: str) -> Callable[..., Any]:
    """A function on arrays: NumPy's, whose inverse functions have longer names, or ours on each number."""
    ufunc = np.frompyfunc(scalar.value_of(name), scalar.arity(name), 1)
    found: Any = getattr(np, name, None) or getattr(np, name.replace("a", "arc", 1), None)
    return found or (lambda *operands: np.asarray(ufunc(*operands), float))


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
    found = {name: _on_arrays(name) for name in scalar.FUNCTIONS if not scalar.is_composed(name)}
    found |= {"power": operator.pow, "quotient": _quotient, "remainder": _remainder, "take": _take}
    return found if _has_flags() else {name: _checked(function) for name, function in found.items()}


NUMPY = (
    *("abs", "broadcast_to", "einsum", "empty", "float64", "full", "inf", "int64", "maximum", "nan", "ndarray"),
    *("tensordot", "where"),
)
NAMESPACE = {
    **{name: getattr(np, name) for name in NUMPY},
    "whole": _whole,
    "add_at": _add_at,
    **_functions(),
}


class NumpyBackend:
    """A graph as functions on NumPy's arrays, each compiled when it is first called.

    An operation that fails raises what Python raises: the processor's flags tell that one may have failed, and then the
    examples are computed again step by step.

    Attributes
    ----------
    stored
        The graph.
    """

    language = "NumPy"

    def __init__(self, graph: Graph) -> None:
        self.stored = SerializedGraph(graph)
        self._kernels: dict[str, _Kernel] = {}
        self._kernel("backward" if self.stored.is_differentiable else "forward")

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_kernels": {}}

    def forward(self, parameters: Sequence[float], packed: Packed) -> Sequence[float]:
        """The outputs for each example, one after the other."""
        return self._call("forward", parameters, 0.0, packed)[0]

    def backward(
        self, parameters: Sequence[float], seed: float, packed: Packed
    ) -> tuple[Sequence[float], Sequence[float]]:
        """The output for each example, and the gradient of their sum times `seed` by each parameter."""
        return self._call("backward", parameters, seed, packed)

    def value_and_grad(self, parameters: Sequence[float], packed: Packed) -> Sequence[float]:
        """The output for the first example, and its gradient with respect to each number in it."""
        return self._call("value_and_grad", parameters, 1.0, packed)[0]

    def gradients(
        self,
        parameters: Sequence[float],
        gradients: Sequence[float],
        seed: float,
        packed: Packed,
        at: Sequence[int] | None,
    ) -> tuple[Sequence[float], Sequence[float]]:
        """The outputs for the examples at these places, or all, and the gradients with theirs added.

        Raises FloatingPointError if an operation may have failed.
        """
        x = _columns(packed)
        with np.errstate(**RAISES):
            y, g = self._kernel("backward")(parameters, seed, x if at is None else x[:, at])
        return array("d", y.tobytes()), array("d", (g + gradients).tobytes())

    def source(self) -> str:
        """The functions, made to be read."""
        kinds = ["forward", *(["backward", "value_and_grad"] if self.stored.is_differentiable else [])]
        return "\n\n".join(self._kernel(kind).source for kind in kinds)

    def _call(
        self, kind: str, parameters: Sequence[float], seed: float, packed: Packed
    ) -> tuple[Sequence[float], Sequence[float]]:
        kernel, x = self._kernel(kind), _columns(packed)
        try:
            with np.errstate(**RAISES):
                y, g = kernel(parameters, seed, x)
        except FloatingPointError:
            error = failure(self.stored.graph(), kind, parameters, packed)
            if error:
                raise error from None
            with np.errstate(all="ignore"):  # a product may be infinite, as in Python
                y, g = kernel(parameters, seed, x)
        return array("d", y.T.tobytes()), array("d", g.tobytes())

    def _kernel(self, kind: str) -> "_Kernel":
        if kind not in self._kernels:
            with gc_paused():
                self._kernels[kind] = _Kernel(self.stored.graph(), kind)
        return self._kernels[kind]


class _Kernel:
    """A generated function: called with the parameters, the seed and columns of examples, it returns y and g."""

    def __init__(self, graph: Graph, kind: str) -> None:
        results = [*graph.outputs, *((graph.argument_gradients or []) if kind == "value_and_grad" else [])]
        writer = Writer(graph, results, (graph.parameter_gradients or []) if kind == "backward" else [])
        self.source = writer.source(kind)
        self._tile = max(FEWEST_EXAMPLES, CACHE // (8 * writer.size + 1))
        functions = {**NAMESPACE, "c": np.array(writer.constants), "places": np.arange(graph.n_parameters)}
        exec(compile(self.source, "<compiled by micrograd>", "exec"), functions)
        self._function = functions[kind]

    def __call__(self, parameters: Sequence[float], seed: float, x: Any) -> tuple[Any, Any]:
        p, n = np.frombuffer(struct.pack(f"{len(parameters)}d", *parameters)), x.shape[1]
        g = np.zeros(len(p))
        if n <= self._tile:
            return self._function(p, np.ascontiguousarray(x), seed, g, n), g
        parts = [np.ascontiguousarray(x[:, i : i + self._tile]) for i in range(0, n, self._tile)]
        return np.concatenate([self._function(p, part, seed, g, part.shape[1]) for part in parts], 1), g


def _columns(packed: Packed) -> Any:
    """The examples as columns."""
    rows = [np.asarray(numbers)[: packed.n * step].reshape(packed.n, step).T for numbers, step in packed.columns]
    return np.concatenate(rows) if rows else np.empty((0, packed.n))
