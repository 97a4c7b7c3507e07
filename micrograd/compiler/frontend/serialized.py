"""A graph between two uses: as bytes, a twentieth of its size, from which code for another kind of call is generated.

So it can also be copied, and sent to another process or machine.
"""

import hashlib
import pickle
import weakref
import zlib
from collections.abc import Callable
from typing import Any

from micrograd.collector import gc_paused
from micrograd.compiler.frontend.graph import Graph


class SerializedGraph:
    """A graph that takes little room until it is asked for.

    Attributes
    ----------
    shapes, sizes, output_shape, n_parameters, argnum
        Those of the graph.
    quiet
        Whether an operation that fails gives an infinity or NaN, and not an error.
    is_differentiable
        Whether it has gradients.
    uses
        For each parameter, 1 if the result depends on it, else 0.
    n_results
        How many numbers a call of each kind computes for an example, but for the gradients that it adds up.
    n_operands
        How many operands the operations of each kind of call have, about: a measure of its work for an example.
    digest
        Tells it from every other graph, in any process.
    """

    def __init__(self, graph: Graph) -> None:
        self.shapes = graph.shapes
        self.sizes = graph.sizes
        self.output_shape = graph.output_shape
        self.n_parameters, self.argnum = graph.n_parameters, graph.argnum
        self.quiet = graph.trace.quiet
        self.is_differentiable = graph.parameter_gradients is not None
        scattered = {parameter for scatter in graph.scatters for parameter in scatter.row.parameters()}
        ends = graph.parameter_gradients or ()
        self.uses = bytes(line not in graph.trace.leaves or i in scattered for i, line in enumerate(ends))
        self.n_results = {kind: len(graph.ends(kind)[0]) for kind in ("forward", "backward", "value_and_grad")}
        operands = graph.trace.operands
        self.n_operands = dict.fromkeys(self.n_results, sum(map(len, operands)))
        self.n_operands["forward"] = sum(map(len, operands[: graph.forward_end]))
        self._bytes = pickle.dumps(graph)
        self.digest = hashlib.sha256(self._bytes).hexdigest()
        self._graph: Callable[[], Graph | None] = weakref.ref(graph)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_bytes": zlib.compress(self._bytes, 1), "_graph": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _bytes=zlib.decompress(state["_bytes"]), _graph=lambda: None)

    def graph(self) -> Graph:
        """The graph, which is freed when it is no longer in use."""
        graph = self._graph()
        if graph is None:
            with gc_paused():
                graph = pickle.loads(self._bytes)
            self._graph = weakref.ref(graph)
        return graph
