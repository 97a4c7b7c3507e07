"""Where does an infinity or NaN come from? A trace, carried out step by step."""

import math
from collections.abc import Sequence

from micrograd.compiler.graph import Graph
from micrograd.compiler.trace import OPERATIONS


def check(graph: Graph, parameters: Sequence[float], x: Sequence[float]) -> None:
    """Compute the outputs and gradients for one example.

    Raises
    ------
    FloatingPointError
        Naming the first operation that made an infinity or NaN, or could not be carried out, and its operands.
    """
    trace = graph.trace
    arrays = {"p": parameters, "x": x, "seed": (1.0,), "g": [0.0] * graph.n_parameters}
    numbers = dict(trace.constants)
    numbers |= {id: arrays[array][i] for id, (array, i) in trace.leaves.items()}
    results = [*graph.outputs, *(graph.parameter_gradients or ()), *(graph.argument_gradients or ())]
    for id in trace.needed(results):
        op, operands = trace.ops[id], [numbers[operand] for operand in trace.operands[id]]
        where = f"in the {'forward' if id < graph.forward_end else 'backward'} pass, {op} of {operands}"
        try:
            numbers[id] = OPERATIONS[op](*operands)
        except (ArithmeticError, ValueError) as error:
            raise FloatingPointError(f"{where}: {error}") from error
        if not math.isfinite(numbers[id]):
            raise FloatingPointError(f"{where} is {numbers[id]}")
