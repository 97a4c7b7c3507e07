"""The backend in a browser: a graph as functions in JavaScript, which Pyodide runs beside Python, on Python's buffers.

What an operation that fails gives in JavaScript, an infinity or NaN, is noticed: then the generated Python is called,
and raises what it raises.
"""

from array import array
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Any

from micrograd.compiler.dataset import Packed
from micrograd.compiler.frontend.graph import Graph
from micrograd.compiler.targets.c import TOTAL
from micrograd.compiler.targets.javascript import TEMPLATES, Writer, library
from micrograd.compiler.targets.python import PythonBackend

NOTHING = array("d")
CHECKED = {op: text if op in TOTAL else f"checked({text})" for op, text in TEMPLATES.items()}


class BrowserBackend:
    """A graph as functions in JavaScript, each written when it is first called.

    Attributes
    ----------
    stored
        The graph.
    """

    language = "JavaScript"

    def __init__(self, graph: Graph) -> None:
        self._in_python = PythonBackend(graph)
        self.stored = self._in_python.stored
        self._modules: dict[str, Callable[..., bool]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_modules": {}}

    def forward(self, parameters: Sequence[float], packed: Packed) -> "array[float]":
        """The outputs for each example, one after the other."""
        results = self.results("forward", parameters, 0.0, packed)
        return self._in_python.forward(parameters, packed) if results is None else results

    def backward(
        self, parameters: Sequence[float], seed: float, packed: Packed
    ) -> tuple[Sequence[float], Sequence[float]]:
        """The output for each example, and the gradient of their sum times `seed` by each parameter."""
        gradients = array("d", [0.0]) * len(parameters)
        results = self.results("backward", parameters, seed, packed, gradients)
        return self._in_python.backward(parameters, seed, packed) if results is None else (results, gradients)

    def value_and_grad(self, parameters: Sequence[float], packed: Packed) -> "array[float]":
        """The output for the first example, and its gradient with respect to each number in it."""
        results = self.results("value_and_grad", parameters, 1.0, packed)
        return self._in_python.value_and_grad(parameters, packed) if results is None else results

    def gradients(
        self,
        parameters: Sequence[float],
        gradients: Sequence[float],
        seed: float,
        packed: Packed,
        at: Sequence[int] | None = None,
    ) -> tuple[Sequence[float], Sequence[float]]:
        """The outputs for the examples at these places, or all, and the gradients with theirs added.

        Raises FloatingPointError if an operation may have failed.
        """
        sums = array("d", gradients)
        results = self.results("backward", parameters, seed, packed, sums, at)
        if results is None:
            raise FloatingPointError("an operation may have failed")
        return results, sums

    def results(
        self,
        kind: str,
        parameters: Sequence[float],
        seed: float,
        packed: Packed,
        gradients: Any = NOTHING,
        at: Sequence[int] | None = None,
    ) -> "array[float] | None":
        """The results for the examples, all or those at these places; None if an operation may have failed.

        Adds the gradients times `seed` to the buffer `gradients`.
        """
        if kind not in self._modules:
            self._modules[kind] = _module(self.stored.graph(), kind)
        graph, n = self.stored, packed.n if at is None else len(at)
        results = array("d", [0.0]) * (n * (1 + sum(graph.sizes) if kind == "value_and_grad" else graph.n_outputs))
        places = NOTHING if at is None else array("d", at)
        columns = [_doubles(column) for column, _ in packed.columns]
        called = self._modules[kind]
        return results if called(n, seed, _doubles(parameters), gradients, results, places, *columns) else None


def _doubles(numbers: Any) -> Any:
    """The numbers as a buffer of doubles: where they are, if they are in one."""
    in_place = not isinstance(numbers, list) and memoryview(numbers).format == "d"
    return numbers if in_place else array("d", numbers)


def _module(graph: Graph, kind: str) -> Callable[..., bool]:
    """The function `examples` of browser.js for a graph."""
    results = [*graph.outputs, *((graph.argument_gradients or []) if kind == "value_and_grad" else [])]
    writer = Writer("one", graph, results, (graph.parameter_gradients or []) if kind == "backward" else [], CHECKED)
    sizes = {"INPUTS": sum(graph.sizes), "RESULTS": len(results), "TEMPORARIES": writer.temporaries}
    return run("examples", writer.text, SIZES=list(graph.sizes), **sizes)


def run(called: str, code: str, **words: object) -> Callable[..., bool]:
    """The function of that name in browser.js, beside generated code; words in capitals are replaced."""
    from pyodide.code import run_js  # type: ignore[import-not-found]  # which is nowhere else

    text = files(__package__).joinpath("browser.js").read_text(encoding="utf-8")
    words = {"INPUTS": 0, "RESULTS": 0, "TEMPORARIES": 0, "SIZES": [], "MOMENTS": [], "CALLED": called, **words}
    for word, replacement in {**words, "CODE": code + library(code)}.items():
        text = text.replace(word, str(replacement))
    module: Callable[..., bool] = run_js(text)
    return module
