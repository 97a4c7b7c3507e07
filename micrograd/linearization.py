"""A graph to first order: how the result of each operation changes with each of its operands.

A `_backward` is linear in the gradient that it takes: called once with a gradient of 1, it gives the derivatives of its
operation, which carry derivatives either way, from the variables forward or from the results backward. So there is no
second table of derivatives; and as they are of the type of the numbers (floats, Fractions, Values of enclosing
derivatives, a compiler's symbols), what is made of them has derivatives in turn.

All directions are carried at once, each only to the nodes that it reaches: the work grows with the derivatives that are
not structurally zero (Griewank and Walther, Evaluating Derivatives, 2008, chapter 7).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from micrograd import errors, scalar
from micrograd.engine import Value
from micrograd.levels import require_double

PLAIN = (float, int)

Row = dict[int, Any]
"""A derivative in each direction, without those that are structurally zero."""

Edges = Mapping[Value, Sequence[tuple[Value, Any]]]
"""For each node its neighbours, with the derivative of the result by the operand; None stands for 1."""


class Linearization:
    """The derivatives of outputs by variables, Values of one level."""

    def __init__(self, variables: Sequence[Value], outputs: Sequence[Value]) -> None:
        self._variables, self._outputs = variables, outputs
        self._operands: dict[Value, list[tuple[Value, Any]]] = {variable: [] for variable in variables}
        end = Value(0.0)
        end._prev = tuple(outputs)
        nodes, leaves = end._topological_order()
        require_double(leaves)
        node = end
        try:
            for node in nodes[:-1]:
                self._operands[node] = [edge for edge in _partials(node) if edge[0] in self._operands]
        except BaseException as error:
            errors.raise_with_context(error, node, nodes[:-1])
            raise

    def forward(self, tangents: Iterable[Row]) -> list[Row]:
        """The derivatives of each output in directions, whose components each variable has in its row."""
        return _carried(self._variables, tangents, self._users(), self._outputs)

    def backward(self, weights: Iterable[Row]) -> list[Row]:
        """The derivatives by each variable of sums of the outputs, whose weights each output has in its row."""
        return _carried(self._outputs, weights, self._from_the_end(), self._variables)

    def jacobian(self, *, forward: bool) -> list[Row]:
        """The derivatives of each output by the variables, by their numbers, carried in that direction."""
        if forward:
            return self.forward({i: 1} for i in range(len(self._variables)))
        rows: list[Row] = [{} for _ in self._outputs]
        for i, column in enumerate(self.backward({j: 1} for j in range(len(self._outputs)))):
            for j, number in column.items():
                rows[j][i] = number
        return rows

    def is_cheaper_forward(self) -> bool:
        """Whether the jacobian has fewer products if carried forward."""
        return _work(self._variables, self._users()) < _work(self._outputs, self._from_the_end())

    def _from_the_end(self) -> Edges:
        return dict(reversed(self._operands.items()))

    def _users(self) -> Edges:
        users: dict[Value, list[tuple[Value, Any]]] = {node: [] for node in self._operands}
        for node, operands in self._operands.items():
            for operand, partial in operands:
                users[operand].append((node, partial))
        return users


def _partials(node: Value) -> list[tuple[Value, Any]]:
    """The operands of a node, each with the derivative by it, without those that are structurally zero."""
    zero = scalar.zero(node.data)
    operands = dict.fromkeys(node._prev)
    for operand in operands:
        operand.grad = zero
    node._backward(zero + 1)  # type: ignore[misc]  # if it is None, the error is explained
    is_plain = type(node.data) in PLAIN
    edges = []
    for operand in operands:
        partial = operand.grad
        if type(partial) in PLAIN:
            if partial == 0 and not is_plain:
                continue
            if partial == 1:
                partial = None
        edges.append((operand, partial))
    return edges


def _carried(starts: Sequence[Value], rows: Iterable[Row], edges: Edges, ends: Sequence[Value]) -> list[Row]:
    """What arrives at the ends, if each start has its row. The nodes of the edges are in order."""
    arrived: dict[Value, Row] = {}
    for node, row in zip(starts, rows, strict=True):
        arrived.setdefault(node, {}).update(row)
    wanted, found = {*ends}, {}
    for node, neighbours in edges.items():
        row = arrived.pop(node, {})
        if node in wanted:
            found[node] = row
        for other, partial in neighbours if row else ():
            sums = arrived.setdefault(other, {})
            for direction, number in row.items():
                term = number if partial is None else number * partial
                sums[direction] = sums[direction] + term if direction in sums else term
    return [found.get(node, {}) for node in ends]


def _work(starts: Sequence[Value], edges: Edges) -> int:
    """How many products `_carried` would compute with a direction for each start: bits say which reach a node."""
    arrived: dict[Value, int] = {}
    for i, node in enumerate(starts):
        arrived[node] = arrived.get(node, 0) | 1 << i
    work = 0
    for node, neighbours in edges.items():
        bits = arrived.pop(node, 0)
        for other, _ in neighbours:
            arrived[other] = arrived.get(other, 0) | bits
        work += bits.bit_count() * len(neighbours)
    return work
