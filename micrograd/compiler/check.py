"""A trace, carried out step by step: where does an infinity or NaN come from, and what cannot be computed at all?"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from micrograd.compiler.batch import Packed
from micrograd.compiler.graph import Graph
from micrograd.compiler.trace import CONDITIONS, OPERATIONS

Step = tuple[int, list[Any], Any]
"""A line, the numbers of its operands, and the result or the error that it comes to."""


def replay(graph: Graph, results: Sequence[int], parameters: Sequence[float], x: Sequence[float]) -> Iterator[Step]:
    """What it takes to compute the results for one example; to be left at the first step that cannot be carried out."""
    trace = graph.trace
    numbers = graph.numbers(parameters, x)
    for id in trace.needed(results):
        operands = [numbers[operand] for operand in trace.operands[id]]
        try:
            numbers[id] = OPERATIONS[trace.ops[id]](*operands)
        except (ArithmeticError, ValueError) as error:
            numbers[id] = error  # with which nothing more can be computed
        yield id, operands, numbers[id]


def failure(graph: Graph, kind: str, parameters: Sequence[float], packed: Packed) -> Exception | None:
    """The error of the first example that such a call cannot compute, if there is one: it names the operands."""
    for i, x in enumerate(packed.rows()):
        numbers = {}
        for id, numbers[id], outcome in replay(graph, graph.results(kind), parameters, x):
            if isinstance(outcome, Exception):
                example = f", in example {i}, counted from 0" if packed.n > 1 else ""
                return type(outcome)(f"{_derivative(graph, id, numbers)}{outcome}{example}")
    return None


def _derivative(graph: Graph, id: Any, numbers: dict[int, list[Any]]) -> str:
    """What a line of the backward pass is part of: the derivatives of the operations on a number, as far as known."""
    if id < graph.forward_end:
        return ""
    ops, lines = graph.trace.ops, graph.trace.operands
    while id is not None and id not in graph.gradients:
        id = next((later for later in range(id + 1, len(lines)) if id in lines[later]), None)
    on = [line for line in numbers if line < graph.forward_end and graph.gradients.get(id) in lines[line]]
    of = [f"{ops[i]}({', '.join(map(repr, numbers[i]))})" for i in on if ops[i] not in CONDITIONS]
    return f"the derivative of {' or '.join(of)} cannot be taken: " if of else ""


def check(graph: Graph, parameters: Sequence[float], x: Sequence[float]) -> None:
    """Compute the outputs and gradients for one example.

    Raises
    ------
    FloatingPointError
        Naming the first operation that made an infinity or NaN, or could not be carried out, and its operands.
    """
    results = [*graph.results("backward"), *(graph.argument_gradients or ())]
    for id, operands, outcome in replay(graph, results, parameters, x):
        half = "forward" if id < graph.forward_end else "backward"
        where = f"in the {half} pass, {graph.trace.ops[id]} of {operands}"
        if isinstance(outcome, Exception):
            raise FloatingPointError(f"{where}: {outcome}") from outcome
        if not math.isfinite(outcome):
            raise FloatingPointError(f"{where} is {outcome}")
