"""The backend in a browser: a graph as functions in JavaScript, which Pyodide runs beside Python, on Python's buffers.

What an operation that fails gives in JavaScript, an infinity or NaN, is noticed: then the generated Python is called,
and raises what it raises.
"""

from array import array
from collections.abc import Callable
from typing import Any

from micrograd.compiler.dataset import Packed
from micrograd.compiler.frontend.graph import Graph, Kind
from micrograd.compiler.frontend.serialized import ForKinds, SerializedGraph
from micrograd.compiler.targets.c import TOTAL
from micrograd.compiler.targets.inlined import source, tables
from micrograd.compiler.targets.javascript import TEMPLATES, Writer, library
from micrograd.compiler.targets.python import Numbers, PythonBackend

NOTHING = array("d")
CALL = 3000  # operations that Python takes as long for as for a call of JavaScript
CHECKED = {op: text if op in TOTAL else f"checked({text})" for op, text in TEMPLATES.items()}


class CheckedWriter(Writer):
    """A Writer of functions that count what may have failed."""

    templates = CHECKED


class BrowserBackend(PythonBackend):
    """A graph as functions in JavaScript, each written when it is first called."""

    language = "JavaScript"

    def __init__(self, stored: SerializedGraph) -> None:
        super().__init__(stored)
        self._modules, self._operations = ForKinds(_module, stored), ForKinds(_operations, stored)

    def run(
        self, kind: Kind, parameters: Numbers, seed: float, packed: Packed, results: Any, gradients: Any, at: Any = None
    ) -> None:
        """Call a generated function, as `PythonBackend.run` does: that of Python for few operations."""
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
    return len(graph.trace.live(graph.results(kind)))


def _doubles(numbers: Any) -> Any:
    """The numbers as a buffer of doubles: where they are, if they are in one."""
    in_place = not isinstance(numbers, (list, tuple)) and memoryview(numbers).format == "d"
    return numbers if in_place else array("d", numbers)


def _module(graph: Graph, kind: Kind) -> Callable[..., bool]:
    """The function `examples` of browser.js for a graph."""
    results, accumulated = graph.ends(kind)
    writer = CheckedWriter("one", graph, results, accumulated)
    sizes = {"INPUTS": sum(graph.sizes), "RESULTS": len(results), "TEMPORARIES": writer.temporaries}
    return run("examples", writer.text, SIZES=list(graph.sizes), **sizes)


def run(called: str, code: str, **words: object) -> Callable[..., bool]:
    """The function of that name in browser.js, beside generated code; words in capitals are replaced."""
    from pyodide.code import run_js  # type: ignore[import-not-found]  # which is nowhere else

    words = {"INPUTS": 0, "RESULTS": 0, "TEMPORARIES": 0, "SIZES": [], "MOMENTS": [], "CALLED": called, **words}
    module: Callable[..., bool] = run_js(source("browser.js", CODE=tables(code) + code + library(code), **words))
    return module
