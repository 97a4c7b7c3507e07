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
from micrograd.compiler.frontend.graph import Graph, Kind
from micrograd.trees import size


class SerializedGraph:
    """A graph that takes little room until it is asked for, with some of its attributes.

    `uses` has for each parameter 1 if the result depends on it, else 0. `pickled` is the graph as bytes, and
    `digest` identifies it in any process.
    """

    def __init__(self, graph: Graph) -> None:
        self.shapes, self.sizes, self.output_shape = graph.shapes, graph.sizes, graph.output_shape
        self.n_parameters, self._n_outputs = graph.n_parameters, size(graph.output_shape)
        self.quiet, self.vanishes_with_seed = graph.trace.quiet, graph.vanishes_with_seed
        self.is_differentiable = graph.parameter_gradients is not None
        rows = [row for row, *_ in (*graph.scatters, *graph.outers)]
        added_to = {parameter for row in rows for parameter in row.parameters()}
        ends = graph.parameter_gradients or ()
        self.uses = bytes(line not in graph.trace.leaves or i in added_to for i, line in enumerate(ends))
        operands, in_outers = graph.trace.operands, sum(2 * len(o.gradients) * o.row.size for o in graph.outers)
        self._n_operands = [sum(map(len, operands[: graph.forward_end])), in_outers + sum(map(len, operands))]
        self.pickled = pickle.dumps(graph)
        self.digest = hashlib.sha256(self.pickled).hexdigest()
        self._graph: Callable[[], Graph | None] = weakref.ref(graph)

    def n_results(self, kind: Kind) -> int:
        """How many numbers a call computes for an example, but for the gradients that it adds up."""
        return self._n_outputs + (sum(map(self.sizes.__getitem__, kind)) if isinstance(kind, tuple) else 0)

    def n_operands(self, kind: Kind) -> int:
        """How many operands the operations of a call have, at most."""
        return self._n_operands[kind != "forward"]

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "pickled": zlib.compress(self.pickled, 1), "_graph": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, pickled=zlib.decompress(state["pickled"]), _graph=lambda: None)

    def graph(self) -> Graph:
        """The graph, which is freed when it is no longer in use."""
        graph = self._graph()
        if graph is None:
            with gc_paused():
                graph = pickle.loads(self.pickled)
            self._graph = weakref.ref(graph)
        return graph


class ForKinds(dict[Kind, Any]):
    """What `make` makes of a graph for each kind of call, made on first use. A copy makes its own."""

    def __init__(self, make: Callable[[Graph, Kind], Any], stored: SerializedGraph) -> None:
        self._make, self._stored = make, stored

    def __missing__(self, kind: Kind) -> Any:
        with gc_paused():
            made = self[kind] = self._make(self._stored.graph(), kind)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return ForKinds, (self._make, self._stored)
