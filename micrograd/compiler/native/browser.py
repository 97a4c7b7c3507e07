"""The backend in a browser: generated JavaScript, which Pyodide runs beside Python, on Python's buffers.

If an operation yields an infinity or NaN in JavaScript, the generated Python is called, and raises the error. In a
training, steps are an optimizer's rule in JavaScript, on gradients by the backend.
"""

import math
from array import array
from collections.abc import Callable, Sequence
from typing import Any

from micrograd.compiler.dataset import Examples, Packed
from micrograd.compiler.dtype import DOUBLE
from micrograd.compiler.frontend.graph import ForKinds, Graph, Kind, SerializedGraph
from micrograd.compiler.native.buffers import Buffers
from micrograd.compiler.native.toolchain import CompilerError
from micrograd.compiler.native.update import UpdateKernel
from micrograd.compiler.targets.c import TOTAL
from micrograd.compiler.targets.export import js_update
from micrograd.compiler.targets.javascript import TEMPLATES, Writer, library
from micrograd.compiler.targets.python import Numbers, PythonBackend
from micrograd.compiler.targets.spelling import source

NOTHING = array("d")
CALL = 3000  # operations that take Python as long as a call of JavaScript does
CHECKED = {op: text if op in TOTAL else f"checked({text})" for op, text in TEMPLATES.items()}
"""The templates of the operations; those that may fail count their failures."""


class BrowserBackend(PythonBackend):
    """A graph as functions in JavaScript, each written when it is first called."""

    language = "JavaScript"

    def __init__(self, stored: SerializedGraph) -> None:
        super().__init__(stored)
        self._modules, self._operations = ForKinds(_module, stored), ForKinds(_operations, stored)

    def run(
        self, kind: Kind, parameters: Numbers, seed: float, packed: Packed, results: Any, gradients: Any, at: Any = None
    ) -> None:
        """Call a generated function, as `PythonBackend.run` does: the one in Python if there are few operations."""
        n, sums = packed.n if at is None else len(at), NOTHING if gradients is None else gradients[:]
        is_short = n * self._operations[kind] < CALL
        found = None if is_short else self.results(kind, parameters, seed, packed, sums, at)
        if found is None:
            super().run(kind, parameters, seed, packed, results, gradients, at)
            return
        memoryview(results)[:] = found
        if gradients is not None:
            gradients[:] = sums

    def results(
        self, kind: Kind, parameters: Numbers, seed: float, packed: Packed, gradients: Any, at: Numbers | None = None
    ) -> "array[float] | None":
        """The results for the examples, all or those at these places; None if an operation may have failed.

        Adds the gradients times `seed` to the buffer `gradients`.
        """
        n = packed.n if at is None else len(at)
        results = array("d", [0.0]) * (n * self.stored.n_results(kind))
        places = NOTHING if at is None else array("d", at)
        steps = [0.0 if shared else step for (_, step), shared in zip(packed.columns, packed.shared, strict=True)]
        columns = [_doubles(column) for column, _ in packed.columns]
        given = _doubles(parameters), gradients, results, places, array("d", steps), *columns
        return results if self._modules[kind](n, seed, *given) else None


def _operations(graph: Graph, kind: Kind) -> int:
    graph = graph.in_lines()
    return len(graph.trace.live(graph.results(kind)))


def _doubles(numbers: Any) -> Any:
    """The numbers as a buffer of doubles: themselves if they are one, else a copy."""
    in_place = not isinstance(numbers, (list, tuple)) and memoryview(numbers).format == "d"
    return numbers if in_place else array("d", numbers)


def _module(graph: Graph, kind: Kind) -> Callable[..., bool]:
    """The function `examples` of browser.js for a graph."""
    results, accumulated = graph.ends(kind)
    writer = Writer("one", graph, results, accumulated, CHECKED)
    sizes = {"INPUTS": sum(graph.sizes), "RESULTS": len(results), "TEMPORARIES": writer.temporaries}
    return run("examples", writer.text, SIZES=list(graph.sizes), **sizes)


def run(called: str, code: str, **words: object) -> Callable[..., bool]:
    """The function of that name in browser.js, beside generated code; words in capitals are replaced."""
    from pyodide.code import run_js  # type: ignore[import-not-found]  # only Pyodide has it

    words = {"INPUTS": 0, "RESULTS": 0, "TEMPORARIES": 0, "SIZES": [], "MOMENTS": [], "CALLED": called, **words}
    module: Callable[..., bool] = run_js(source("browser.js", CODE=code + library(code), **words))
    return module


class BrowserLoop:
    """Takes steps as a NativeLoop does, which documents the methods, but each by calls from Python.

    Raises CompilerError if the norm of the gradients is limited, or their precision.
    """

    def __init__(self, function: Any, buffers: Buffers, max_norm: float | None) -> None:
        if max_norm is not None or buffers.precision != DOUBLE:
            raise CompilerError("steps in JavaScript are in doubles, and clip no gradients")
        self.kernel = UpdateKernel(buffers.optimizer, None)
        code = js_update(self.kernel, CHECKED).replace("export ", "")
        self._step = run("step", code, MOMENTS=self.kernel.moments)
        self._function, self._buffers, self._ranges = function, buffers, array("d", buffers.ranges())
        self._examples: Examples | None = None

    def bind(self, examples: Examples) -> None:
        """Let the next steps be on these examples."""
        self._examples = examples

    def run_steps(
        self,
        rates: "array[float]",
        losses: "array[float]",
        *,
        order: "array[int] | None" = None,
        size: int = 1,
        position: int = 0,
        rng: Any = None,
    ) -> int:
        """Take steps up to one that fails, which changes nothing. Returns how many, which `optimizer.steps` counts."""
        buffers, n = self._buffers, len(self._examples or [0])
        attributes = vars(buffers.optimizer)
        for step, rate in enumerate(rates):
            numbers = buffers.numbers[:]
            batch = range(n) if order is None else order[position : position + size]
            if not self._is_taken(batch, rate, losses, step):
                buffers.numbers[:] = numbers
                return step
            attributes["steps"] += 1
            position += len(batch)
        return len(rates)

    def _is_taken(self, batch: Sequence[int], rate: float, losses: "array[float]", step: int) -> bool:
        """Take a step on these examples, and note their mean loss. False if it is not whole."""
        buffers = self._buffers
        if self._examples is not None:
            buffers.grads[:] = buffers.precision.zeros(buffers.n)
            losses[step] = 0.0
            for pack, places in self._examples.of_each_shape(batch):
                backend = self._function._backends[pack.shapes]
                results = backend.results("backward", buffers.data, 1 / len(batch), pack, buffers.grads, places)
                if results is None:
                    return False
                losses[step] += sum(results) / len(batch)
        taken = vars(buffers.optimizer)["steps"]
        return math.isfinite(losses[step]) and self._step(buffers.n, rate, taken, buffers.numbers, self._ranges)
