"""What a kernel of the compiler computes, step by step: the reference for its passes and targets."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from operator import add
from typing import Any, NamedTuple

from micrograd.compiler.dtype import DOUBLE, Precision
from micrograd.compiler.frontend.graph import CallSpec, Ends, Graph, traced
from micrograd.compiler.frontend.interpret import _inputs, evaluate
from micrograd.compiler.frontend.operations import OPERATIONS
from micrograd.compiler.ir import Accumulate, Loop, Ref, Scatter, Skip, Step, Sum, Switch, is_variable, offset, start
from micrograd.compiler.passes.pipeline import Program, program
from micrograd.compiler.targets.c import library_source
from micrograd.support.trees import flat as flatten
from micrograd.support.trees import shape_of

SPECIAL: dict[str, Callable[..., Any]] = {
    "condition": lambda holds: 1.0 if holds else 0.0,
    "truth": lambda number: number != 0.0,
    "quotient": OPERATIONS["/"],
}
"""The operations of kernels that those of a trace become."""


class Computed(NamedTuple):
    """The array of results, and that of gradients."""

    results: list[float]
    gradients: list[float]


class Machine:
    """The memory of a kernel: what has not been set cannot be read."""

    def __init__(self, memory: dict[str, Sequence[float]], gradients: Sequence[float]) -> None:
        self._cells = {(array, i): number for array, numbers in memory.items() for i, number in enumerate(numbers)}
        self.gradients = list(gradients)

    def run(self, steps: Sequence[Step], rounds: tuple[int, ...] = ()) -> None:
        """Carry out steps in these rounds of the loops around."""
        for step in steps:
            if isinstance(step, Loop):
                for i in range(_rounds(step, rounds)):
                    self.run(step.body, (*rounds, i))
            elif isinstance(step, Switch):
                carried_out: Counter[int] = Counter()
                for case in step.order:
                    self.run(step.cases[case], (*rounds, carried_out[case]))
                    carried_out[case] += 1
            elif isinstance(step, Skip):
                if self._read(step.number, rounds):
                    break
            elif isinstance(step, Scatter):
                _, at = place(step.row, (*rounds, self._index(self._read(step.position, rounds), step.size)))
                self.gradients[at] += self._read(step.value, rounds)
            else:
                value = self._value(step.value, rounds)
                array, at = place(step.target, rounds)
                if array == "g":
                    assert isinstance(step, Accumulate)
                    self.gradients[at] += value
                else:  # a layer adds to its sums
                    sums = [self._cells[array, at]] if isinstance(step, Accumulate) else []
                    self._cells[array, at] = reduce(add, [*sums, value])

    def results(self, n: int) -> list[float]:
        return [self._cells["y", i] for i in range(n)]

    def _read(self, ref: Ref, rounds: tuple[int, ...]) -> float:
        return float(ref.array[1:]) if ref.array[0] == "=" else self._cells[place(ref, rounds)]

    def _value(self, value: Any, rounds: tuple[int, ...]) -> Any:
        if isinstance(value, Ref):
            return self._read(value, rounds)
        if isinstance(value, Sum):
            numbers = list(self._terms(value.terms, rounds))
            return OPERATIONS["max"](numbers) if start(value.terms) == Ref("=-inf") else reduce(add, numbers)
        op, *sizes = value.op.split()
        if op == "take_at":
            index, row = value.operands
            step, size = map(int, sizes)
            array, base = place(row, rounds)
            return self._cells[array.removeprefix("&"), base + step * self._index(self._value(index, rounds), size)]
        operands = [number for operand in value.operands for number in self._operand(operand, rounds)]
        if op[:2] == "**" and len(op) > 2:
            return OPERATIONS["**"](operands[0], float(op[2:]))
        return {**OPERATIONS, **SPECIAL}[op](*operands)

    def _operand(self, operand: Any, rounds: tuple[int, ...]) -> Iterator[Any]:
        if isinstance(operand, Loop):
            yield from (self._read(operand.body[0], (*rounds, i)) for i in range(operand.rounds))
        else:
            yield self._value(operand, rounds)

    def _terms(self, terms: Sequence[Any], rounds: tuple[int, ...]) -> Iterator[float]:
        for term in terms:
            if isinstance(term, Loop):
                for i in range(_rounds(term, rounds)):
                    yield from self._terms(term.body, (*rounds, i))
            else:
                product = self._read(term.factors[0], rounds)
                for factor in term.factors[1:]:
                    product *= self._read(factor, rounds)
                yield -product if term.sign == "-" else product

    def _index(self, number: float, size: int) -> int:
        assert number == int(number)
        assert 0 <= number < size
        return int(number)


def _rounds(loop: Loop, rounds: Sequence[int]) -> int:
    """The number of rounds of a loop; if it varies, the one for these rounds of the loops around it."""
    return loop.rounds if isinstance(loop.rounds, int) else index(loop.rounds, rounds)


def place(ref: Ref, rounds: Sequence[int]) -> tuple[str, int]:
    """The array and the index of a reference in these rounds of the loops around."""
    if is_variable(ref):
        return ref.array, 0
    assert len(ref.strides) in (0, len(rounds))
    return ref.array, index(ref, rounds)


def index(ref: Ref, rounds: Sequence[int]) -> int:
    """The index of a reference in these rounds of the loops around."""
    return ref.base + sum(offset(stride, i) for i, stride in zip(rounds, ref.strides, strict=False))


def graph_of(function: Callable[..., Any], example: Sequence[Any], parameters: Sequence[Any] = ()) -> Graph:
    return traced(function, [shape_of(argument) for argument in example], parameters)


def everything(graph: Graph) -> Ends:
    """All that the graph computes: the results with the gradients of arguments, and those that add up."""
    return graph.ends("backward")._replace(returned=[*graph.outputs, *graph.argument_gradients])


def interpreted(made: Program, parameters: Sequence[Any], example: Sequence[Any]) -> Computed:
    """What a kernel computes for an example, if the gradients are 0.25 before."""
    numbers = [parameter.data for parameter in parameters], list(map(float, flatten(list(example))))
    machine = Machine({"p": numbers[0], "x": numbers[1], "c": made.constants, "seed": [1.0]}, [0.25] * len(parameters))
    machine.run(made.kernel)
    return Computed(machine.results(made.n_results), machine.gradients)


def c_source(graph: Graph, kind: CallSpec, tile: int, precision: Precision = DOUBLE, threads: int = 1) -> str:
    """The C for a kind of call, in which each thread has at least 8 examples."""
    made = program(graph, graph.ends(kind))
    return library_source(made, precision, tile=tile, threads=threads, least=8)


def straight(graph: Graph, parameters: Sequence[Any], example: Sequence[Any]) -> Computed:
    """What the lines of a graph come to, one after the other, if the gradients are 0.25 before."""
    ends = everything(graph)
    values = _inputs(graph, [parameter.data for parameter in parameters], list(map(float, flatten(list(example)))))
    for _, _, outcome in evaluate(graph.trace, graph.trace.live(ends.lines), values):
        assert not isinstance(outcome, Exception)
    gradients = [0.25] * len(parameters)
    for place, line in ends.added:
        for i, gradient in zip(place.indices, flatten(values[line]), strict=True):
            gradients[i] += gradient
    return Computed([float(values[line]) for line in ends.returned], gradients)
