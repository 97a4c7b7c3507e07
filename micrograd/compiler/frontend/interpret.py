"""Runs graphs one operation at a time, for error messages."""

import math
from collections import ChainMap
from collections.abc import Iterator, MutableMapping, Sequence
from itertools import chain
from operator import add
from typing import Any

from micrograd.compiler.frontend.graph import CallSpec, Graph
from micrograd.compiler.frontend.operations import CONDITIONS, OPERATIONS
from micrograd.compiler.frontend.tracer import Trace
from micrograd.core.errors import WHERE_HINT

Step = tuple[int, list[Any], Any]
"""A line, the numbers of its operands, and the result or the error. Steps that follow an error do not count."""


def evaluate(trace: Trace, lines: Sequence[int], numbers: MutableMapping[int, Any]) -> Iterator[Step]:
    """Carry out some lines. `numbers` begins with constants and leaves, and receives the other values."""

    def number_of(line: int) -> Any:  # a stack may be recorded after the lines that use it
        return [numbers[i] for i in trace.operands[line]] if trace.ops[line] == "stack" else numbers[line]

    for id in lines:
        op, of = trace.ops[id], trace.operands[id]
        if op == "item":
            numbers[id] = numbers[of[0]][trace.items[id]]
        elif id in trace.loops:
            yield from _loop(trace, id, list(map(number_of, of)), numbers)
        elif op != "stack":
            operands = list(map(number_of, of))
            try:
                if size := trace.maps.get(id):
                    each = [operand if isinstance(operand, list) else [operand] * size for operand in operands]
                    numbers[id] = list(map(OPERATIONS[op], *each))
                else:
                    numbers[id] = OPERATIONS[op](*operands)
            except (ArithmeticError, ValueError) as error:
                numbers[id] = error
            yield id, operands, numbers[id]


def _loop(trace: Trace, line: int, operands: Sequence[Any], numbers: MutableMapping[int, Any]) -> Iterator[Step]:
    """Carry out a loop. The last item of its row is what each round begins with; a backward loop begins there, too."""
    loop, columns = trace.loops[line], [*operands]
    state = [] if loop.is_parallel else columns.pop(0)
    lines = trace.live(loop.ends, numbers.keys())
    totals = [0.0] * len(loop.added)
    begun: list[Any] = [None] * loop.rounds
    ys: list[Any] = [[0.0] * len(loop.outputs)] * loop.rounds
    for i in reversed(range(loop.rounds)) if loop.is_backward else range(loop.rounds):
        before = numbers[loop.forward][-1][i] if loop.is_backward else {}
        if before is None:  # the forward loop was over
            continue
        first = dict(zip(loop.state, state, strict=True))
        first |= {x: row[i] for x, row in zip(loop.xs, columns, strict=False)}
        inner = ChainMap(before | first, numbers)
        if inner.get(loop.over):
            break
        begun[i] = first
        for id, of, outcome in evaluate(trace, lines, inner):
            if isinstance(outcome, Exception):
                outcome = type(outcome)(f"{outcome}, in iteration {i} of scan(), counted from 0")
            yield id, of, outcome
        for place, each in loop.sums:
            at = slice(place.base, place.base + place.size)
            totals[at] = map(add, totals[at], inner[each] if trace.size(each) else [inner[each]])
        state, ys[i] = [list(map(inner.__getitem__, ends)) for ends in (loop.following, loop.outputs)]
    numbers[line] = [*state, *totals, *chain(*ys), begun]


def _inputs(graph: Graph, parameters: Sequence[float], x: Sequence[float]) -> dict[int, Any]:
    """The numbers of constants and leaves for one example."""
    arrays: dict[str, Any] = {"p": parameters, "x": x, "seed": (1.0,)}
    leaves = {id: arrays[array][i] for id, (array, i) in graph.trace.leaves.items() if array in arrays}
    rows = {id: [arrays[row.array][i] for i in row.indices] for id, row in graph.trace.slices.items()}
    return {**graph.trace.constants, **leaves, **rows}


def failure(
    graph: Graph, kind: CallSpec, parameters: Sequence[float], examples: Sequence[Sequence[float]]
) -> Exception | None:
    """The error of the first example that such a call cannot compute, if there is one: it names the operands."""
    lines = graph.trace.live(graph.ends(kind).lines)
    for i, x in enumerate(examples):
        operands = {}
        for id, operands[id], outcome in evaluate(graph.trace, lines, _inputs(graph, parameters, x)):
            if isinstance(outcome, Exception):
                example = f", in example {i}, counted from 0" if len(examples) > 1 else ""
                hint = WHERE_HINT if graph.has_where else ""
                return type(outcome)(f"{_derivative(graph, id, operands)}{outcome}{example}{hint}")
    return None


def _derivative(graph: Graph, id: Any, operands: dict[int, list[Any]]) -> str:
    """What a line of the backward pass is part of: the derivatives of the operations on a number, as far as known."""
    if id < graph.forward_end:
        return ""
    ops, lines = graph.trace.ops, graph.trace.operands
    while id is not None and id not in graph.gradients:
        id = next((later for later in range(id + 1, len(lines)) if id in lines[later]), None)
    on = [line for line in operands if line < graph.forward_end and graph.gradients.get(id) in lines[line]]
    of = [f"{ops[i]}({', '.join(map(repr, operands[i]))})" for i in on if ops[i] not in CONDITIONS]
    return f"the derivative of {' or '.join(of)} cannot be taken: " if of else ""


def check(graph: Graph, parameters: Sequence[float], x: Sequence[float]) -> None:
    """Raise FloatingPointError if an example makes an infinity or NaN, with the first operation that did, or failed."""
    lines = graph.trace.live([*graph.ends("backward").lines, *graph.argument_gradients])
    operands = {}
    for id, operands[id], outcome in evaluate(graph.trace, lines, _inputs(graph, parameters, x)):
        error = outcome if isinstance(outcome, Exception) else None
        if error or not all(map(math.isfinite, outcome if isinstance(outcome, list) else [outcome])):
            half = "forward" if id < graph.forward_end else "backward"
            where = f"{_derivative(graph, id, operands)}in the {half} pass, {graph.trace.ops[id]} of {operands[id]}"
            raise FloatingPointError(f"{where}: {error}" if error else f"{where} is {outcome}") from error
