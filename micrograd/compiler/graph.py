"""A traced function: what it takes, what it gives, and the operations between."""

import re
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from numbers import Real
from typing import Any

from micrograd import engine
from micrograd.compiler.elsewhere import symbols
from micrograd.compiler.scatter import Scatter, scatter
from micrograd.compiler.trace import NO_NUMBER, Argument, Symbol, Trace, TraceError, users_line
from micrograd.engine import Value
from micrograd.interrupts import ensured

Shape = tuple[Any, ...]
"""() for a number, (3, 2) for three lists of two, ("ragged", (2,), (3,)) for a list of unlike things."""


class Graph:
    """The forward and the backward pass of a function, as one trace.

    Parameters
    ----------
    function, shapes, parameters
        What is traced, the shapes of its arguments, and the Values that gradients are with respect to.
    to_roll
        Whether the backward pass goes back through the operations as they were carried out, so that what is alike lies
        together. Else it goes the engine's way, whose sums it then has to the last bit.

    Attributes
    ----------
    outputs
        The lines of the results, flat; `output_shape` is their shape.
    parameter_gradients, argument_gradients
        The lines that the gradients end in, flat; None where the function does not return a single Value.
    scatters
        What is added to the parameters' gradients besides, at indices known only later.
    forward_end
        The line at which the backward pass begins.
    gradients
        The line of the gradient of a line, for those that are a node's.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        shapes: Sequence[Shape],
        parameters: Sequence[Value],
        *,
        to_roll: bool = True,
    ) -> None:
        self.trace = trace = Trace()
        self.shapes = tuple(shapes)
        self.sizes = [size(shape) for shape in shapes]
        self.n_parameters = len(parameters)
        inputs = [Value(trace.leaf("x", i)) for i in range(sum(self.sizes))]
        for x in inputs:
            x.__class__ = Argument
        flat = iter(inputs)
        arguments = [unflatten(flat, shape) for shape in shapes]
        grads: dict[Value, Any] = {}

        def watch(nodes: list[Value], leaves: list[Value]) -> None:
            """Keep the gradients of the user's constants, who wants no symbols in them."""
            if to_roll:
                nodes[:] = _in_order(nodes)
            for value in (*nodes, *leaves):
                if type(value.data) is not Symbol:
                    grads.setdefault(value, value.grad)

        before = engine.watcher.get()

        def leave() -> None:
            engine.watcher.set(before)
            deque(map(setattr, grads.keys(), repeat("grad"), grads.values()), maxlen=0)
            trace.close()

        with ensured(leave):
            engine.watcher.set(watch)
            with symbols(parameters, [trace.leaf("p", i) for i in range(len(parameters))]):
                self._trace_forward(_called(function, arguments), parameters, inputs)

    def results(self, kind: str) -> list[int]:
        """The lines that are computed in a "forward" call, or one for "backward" or "value_and_grad"."""
        lines = list(self.outputs)
        if kind == "backward":
            lines += self.parameter_gradients or ()
            lines += [line for scatter in self.scatters for line in scatter[1:]]
        elif kind == "value_and_grad":
            lines += self.argument_gradients or ()
        return lines

    def numbers(self, parameters: Sequence[Any], x: Sequence[Any]) -> dict[int, Any]:
        """What constants and leaves are, by their lines, for one example: a seed of 1, and gradients from 0 on."""
        arrays = {"p": parameters, "x": x, "seed": (1.0,), "g": [0.0] * self.n_parameters}
        leaves = {id: arrays[array][i] for id, (array, i) in self.trace.leaves.items()}
        return {**self.trace.constants, **leaves}

    def _trace_forward(self, result: Any, parameters: Sequence[Value], inputs: Sequence[Value]) -> None:
        self.output_shape = shape_of(result)
        values = list(flatten(result))
        _check_symbolic([value for value in values if isinstance(value, Value)])
        self.outputs = [self._output(value) for value in values]
        self.forward_end = len(self.trace.ops)
        self.gradients: dict[int, int] = {}
        self.parameter_gradients: list[int] | None = None
        self.scatters: list[Scatter] = []
        self.argument_gradients: list[int] | None = None
        if self.output_shape == ():
            self._trace_backward(result if isinstance(result, Value) else Value(result), parameters, inputs)

    def _output(self, value: Any) -> int:
        """The line of a result of the function."""
        if isinstance(value, Value):
            value = value.data
        if not isinstance(value, (Real, bool)):
            raise TypeError(f"the function returns {value!r:.80}: expected a Value or nested lists of them")
        return self.trace.result(value)

    def _trace_backward(self, result: Value, parameters: Sequence[Value], inputs: Sequence[Value]) -> None:
        trace = self.trace
        nodes, _ = result._history()
        for i, parameter in enumerate(parameters):
            parameter.grad = trace.leaf("g", i) + parameter.grad
        for x in inputs:
            x.grad = 0  # what a backward() within the function has left there is no part of the gradient
        result.backward(trace.leaf("seed"))
        lines = [trace.id(parameter.grad) for parameter in parameters]
        self.parameter_gradients, self.scatters = scatter(trace, lines)
        self.argument_gradients = [trace.id(x.grad) for x in inputs]
        for node in [*nodes, *inputs, *parameters]:
            known = type(node.data) is not Symbol or node.data.id in trace.constants
            if not known and type(node.grad) is Symbol:
                self.gradients.setdefault(node.grad.id, node.data.id)


def _in_order(nodes: Sequence[Value]) -> list[Value]:
    """The nodes as they were computed, each after its operands; they come in another such order."""
    line: dict[int, int] = {}
    for node in nodes:
        data = node.data
        while isinstance(data, Value):
            data = data.data
        # What is as an earlier result was, or is simplified to it, may have operands that came later.
        own = data.id if type(data) is Symbol else 0
        line[id(node)] = max([own, *[line.get(id(operand), 0) for operand in node._prev]])
    return sorted(nodes, key=lambda node: line[id(node)])


def _called(function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    """The function's result. Raises TraceError where an argument was to be a plain number or an index of Python's."""
    try:
        return function(*arguments)
    except (TypeError, IndexError) as error:
        if "a Value does not turn into a plain number" in str(error):
            raise TraceError(f"{users_line(error)}: {NO_NUMBER}") from error
        if not re.search("Value|valid indices", str(error)) or not re.search("indices|as an integer", str(error)):
            raise
        raise TraceError(
            f"{users_line(error)}: {error}. While a function is compiled, the numbers in its arguments are not known "
            "yet: write take(values, index) of micrograd for values[index], and give what range() needs as a constant"
        ) from error


def _check_symbolic(values: Sequence[Value]) -> None:
    """Raise ValueError if something on the way to these has lost the symbols it was computed from."""
    end = Value(0.0)
    end._prev = tuple(values)
    for node in end._history()[0]:
        numbers = [operand.data for operand in node._prev]
        chosen = node._op == "where" and any(number is node.data for number in numbers)
        lost = type(node.data) is not Symbol and any(type(number) is Symbol for number in numbers)
        if lost and not chosen and node is not end:
            raise ValueError(
                f"the result of {node._op}, {node.data!r}, does not follow the operands it was computed from: "
                "if that was done before the function was called, do it within the function; if it is an "
                "operation of your own with a constant result, add 0 times its operand's data"
            )


LISTS = (list, tuple, range, array)


def shape_of(tree: Any) -> Shape:
    """The shape of a number, a nested list of numbers or a NumPy array."""
    if isinstance(tree, LISTS):
        shapes = [shape_of(branch) for branch in tree]
        if any(shape != shapes[0] for shape in shapes):
            return ("ragged", *shapes)
        return (len(tree), *shapes[0]) if shapes else (0,)
    shape = getattr(tree, "shape", ())
    return tuple(shape) if isinstance(shape, (tuple, list)) else ()


def size(shape: Shape) -> int:
    """How many numbers there are in the shape."""
    if shape[:1] == ("ragged",):
        return sum(map(size, shape[1:]))
    return shape[0] * size(shape[1:]) if shape else 1


def flatten(tree: Any) -> Iterator[Any]:
    """The numbers in a nested list or a NumPy array, from left to right."""
    if isinstance(tree, LISTS):
        for branch in tree:
            yield from flatten(branch)
    elif getattr(tree, "shape", ()):
        yield from flatten(tree.tolist())
    else:
        yield tree


def unflatten(numbers: Iterator[Any], shape: Shape) -> Any:
    """The next numbers, in that shape."""
    if not shape:
        return next(numbers)
    if shape[0] == "ragged":
        return [unflatten(numbers, branch) for branch in shape[1:]]
    return [unflatten(numbers, shape[1:]) for _ in range(shape[0])]
