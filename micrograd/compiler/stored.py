"""A graph between two uses: as bytes, a twentieth of its size, which code for another kind of call is written from."""

import ctypes
import gc
import pickle
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from micrograd.compiler.graph import Graph

MANY_LINES = 50_000  # of a trace, above which the memory that was taken for it is given back


class Stored:
    """A graph that takes little room until it is asked for.

    Attributes
    ----------
    shapes, sizes, output_shape, n_parameters
        Those of the graph.
    is_differentiable
        Whether it has gradients.
    uses
        Of each parameter, 1 if the result depends on it, else 0.
    is_large
        Whether memory should be given back after it was used.
    """

    def __init__(self, graph: Graph) -> None:
        self.shapes = graph.shapes
        self.sizes = graph.sizes
        self.output_shape = graph.output_shape
        self.n_parameters = graph.n_parameters
        self.is_differentiable = graph.parameter_gradients is not None
        scattered = {parameter for scatter in graph.scatters for parameter in scatter.row.parameters()}
        ends = graph.parameter_gradients or ()
        self.uses = bytes(line not in graph.trace.leaves or i in scattered for i, line in enumerate(ends))
        self.is_large = len(graph.trace.ops) > MANY_LINES
        self._bytes = pickle.dumps(graph)
        self._graph = weakref.ref(graph)

    def graph(self) -> Graph:
        """The graph, which is freed when it is no longer in use."""
        graph = self._graph()
        if graph is None:
            with uncollected():
                graph = pickle.loads(self._bytes)
            self._graph = weakref.ref(graph)
        return graph


@contextmanager
def uncollected() -> Iterator[None]:
    """Spare Python the search for garbage in a graph that is being made, where there is none: a sixth of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def give_back() -> None:
    """Let the system have what is free of this process's memory, which Python and the C library would keep."""
    gc.collect()  # so that Python empties its lists of spare objects, each of which keeps much else
    with suppress(OSError, AttributeError, TypeError):  # where the C library is another than glibc, or out of reach
        ctypes.CDLL(None).malloc_trim(0)
