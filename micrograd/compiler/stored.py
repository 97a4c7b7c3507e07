"""A graph between two uses: as bytes, a twentieth of its size, which code for another kind of call is written from.

So it travels, too: to a copy, to another process and to another machine.
"""

import ctypes
import gc
import hashlib
import pickle
import weakref
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from micrograd.compiler.graph import Graph, Shape, flatten, shape_of, unflatten
from micrograd.compiler.trace import OPERATIONS
from micrograd.engine import Value, promote, take
from micrograd.interrupts import ensured

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
    n_outputs
        How many numbers come out.
    digest
        What tells it from every other graph, in any process.
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
        self.n_outputs = len(graph.outputs)
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
            with uncollected():
                graph = pickle.loads(self._bytes)
            self._graph = weakref.ref(graph)
        return graph


class Recalled:
    """A function where it is not known itself: what its graphs say of it, for Values of the shapes that they are of."""

    def __init__(self, name: str, parameters: Sequence[Value], graphs: dict[tuple[Shape, ...], Stored]) -> None:
        self.__name__ = name
        self._parameters, self._graphs = parameters, graphs

    def __call__(self, *args: Any) -> Any:
        """The function's result."""
        stored = self._graphs.get(tuple(map(shape_of, args)))
        if stored is None:
            raise TypeError(
                f"{self.__name__} was compiled elsewhere, and cannot be traced here: before you copy or pickle it, "
                "call it with arguments of this shape"
            )
        graph, flat = stored.graph(), [x for argument in args for x in flatten(argument)]
        numbers = graph.numbers(self._parameters, flat)
        for id in graph.trace.needed(graph.outputs):
            op, operands = graph.trace.ops[id], [numbers[operand] for operand in graph.trace.operands[id]]
            numbers[id] = take(operands[1:], operands[0]) if op == "take" else OPERATIONS[op](*operands)
        return unflatten(iter(promote(*[numbers[id] for id in graph.outputs])), graph.output_shape)


@contextmanager
def uncollected() -> Iterator[None]:
    """Spare Python the search for garbage in a graph that is being made, where there is none: a sixth of the time."""
    enabled = gc.isenabled()

    def leave() -> None:
        if enabled:
            gc.enable()

    with ensured(leave):
        gc.disable()
        yield


def give_back() -> None:
    """Let the system have what is free of this process's memory, which Python and the C library would keep."""
    gc.collect()  # so that Python empties its lists of spare objects, each of which keeps much else
    with suppress(OSError, AttributeError, TypeError):  # where the C library is another than glibc, or out of reach
        ctypes.CDLL(None).malloc_trim(0)
