"""Rows: many numbers as one operand, in the graph of Values as in the trace.

While a function is traced, the operations of reductions.py get their operands from `Rows`: a tuple of Values becomes a
Row, which is a Value. Its `data` is a RowSymbol, a line of the trace, and its `grad` adds up what is sent to all of its
values. So the closure of `dot` sends one product to a Row instead of one to each weight, and code that walks the graph
visits rows, not weights:

    data += w.data * x.data     a "dot" of two rows
    w.grad += grad * x.data     a term of a "combination", a sum of rows that each have a factor
    scalar.exp(x.data - y)      a row of as many numbers
    operand.grad += grad        one number for all values, if nothing else is added

A Row is either a slice of the parameters, whose sum is added to a slice of their gradients, or a stack of any traced
Values. When its turn comes in the backward pass, a stack passes an item of its sum on to each Value. All terms of a sum
are one line of the trace.

A sum of products may also be written by hand: `total = total + w * x` leaves two nodes and two lines of the trace for
each product. `join_products` turns them into a `dot`.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial, reduce
from itertools import chain, repeat
from operator import add, is_
from typing import Any

from micrograd import reductions, scalar
from micrograd.compiler.frontend.operations import CONDITIONS
from micrograd.compiler.frontend.redirect import NODE, Node, Table
from micrograd.compiler.frontend.tracer import Addition, Slice, Symbol, Trace
from micrograd.engine import Value

SHORTEST_SUM = 4  # products in a dot: with 3, tracing 100 bodies in space takes 1.4 times as long, and a call as long
"""With 8, a GPT of numbers, whose heads have 4, takes 1.1 times as long to compile."""
SHORTEST_ROW = 3  # values: a shorter row saves next to nothing
NOTHING, SUMS, ALL = range(3)
"""What a trace `keeps` of the gradients sent to Rows: usually nothing, since closures may read gradients midway; in a
loop, sums; in the last backward pass, all, even the numbers that `take` sends to single values of a slice."""


class RowSymbol:
    """A traced row: a line of a trace with several numbers as its result, or a sum of products with no line yet.

    The `products` of such a sum are a list with two lines for each product, its factor and a row; or the lines of two
    rows, to be multiplied and added up in a dot.
    """

    __slots__ = ("id", "products", "trace")

    def __init__(self, trace: Trace, id: int, products: Any = ()) -> None:
        self.trace, self.id, self.products = trace, id, products

    @property
    def recorded(self) -> "RowSymbol":
        """The row as a line of the trace: a sum of products gets one."""
        trace, products = self.trace, tuple(self.products)
        return RowSymbol(trace, trace.row("combination", products)) if products else self

    def __mul__(self, other: Any) -> "RowSymbol":
        if type(other) is RowSymbol:
            return RowSymbol(self.trace, -1, (self.id, other.id))
        return RowSymbol(self.trace, -1, [self.trace.id(other), self.id])

    __rmul__ = __mul__

    def __iadd__(self, other: Any) -> "RowSymbol":
        self.products += self.sum(other).products  # in place, as a list that grows
        return self

    def __radd__(self, start: Any) -> Any:
        trace, products, is_start = self.trace, self.products, type(start) is int and start == 0
        if products and type(products) is tuple:
            return Symbol(trace, trace.row("dot", (trace.nothing if is_start else trace.id(start), *products)))
        total = self.sum(self)
        if not is_start:
            total.products[:0] = self.sum(start).products
        return total

    def sum(self, terms: Any) -> "RowSymbol":
        """The terms, a row, a sum of rows or one number for all values, as a sum of rows of this size."""
        if type(terms) is RowSymbol:
            return terms if terms.products else terms * 1.0
        trace, row = self.trace, self.products[1] if self.products else self.id
        return RowSymbol(trace, -1, [trace.id(terms), trace.stack((trace.id(1.0),) * trace.size(row))])

    def unless(self, condition: Symbol) -> "RowSymbol":
        """The sum, but 0 where the condition holds, even if the sum is infinite or NaN there."""
        trace, n = self.trace, self.trace.size(self.products[1])
        each = [trace.row("*", pair, n) for pair in zip(self.products[::2], self.products[1::2], strict=True)]
        rows = [trace.row("where", (condition.id, trace.id(0.0), product), n) for product in each]
        return RowSymbol(trace, -1, [line for row in rows for line in (trace.id(1.0), row)])

    def total(self) -> Symbol:
        """The sum of the numbers; for a stack, a chain of additions, in which products are found later."""
        trace = self.trace
        if trace.ops[self.id] == "stack":
            return reduce(add, [Symbol(trace, line) for line in trace.operands[self.id]])
        return Symbol(trace, trace.row("sum", (self.id,)))

    def items(self) -> list[Symbol]:
        """The numbers, one by one."""
        return self.trace.unstack(self.id)

    def largest(self, _: Any) -> Symbol:
        """The largest of the numbers."""
        return Symbol(self.trace, self.trace.row("max", (self.id,)))


def _map(op: str, swapped: bool = False) -> Callable[..., RowSymbol]:
    """An elementwise operation."""

    def method(self: RowSymbol, *others: Any) -> RowSymbol:
        trace = self.trace
        lines = tuple([each.id if type(each) is RowSymbol else trace.id(each) for each in (self, *others)])
        return RowSymbol(trace, trace.row(op, lines[::-1] if swapped else lines, trace.size(self.id)))

    return method


MAPS = {
    "-": "__sub__", "neg": "__neg__", "<": "__lt__", ">": "__gt__", "==": "__eq__", "exp": "exp", "where": "where",
}  # fmt: skip
for _op, _name in MAPS.items():
    setattr(RowSymbol, _name, _map(_op))
RowSymbol.__rand__ = _map("and", swapped=True)  # type: ignore[attr-defined]


scalar.ZEROS[RowSymbol] = 0


class Row(Value):
    """Several Values as one operand. `place` is the slice of their gradients, if they are a slice of the parameters.

    It adds up the gradients sent to it, or passes them on at once, depending on what its trace `keeps`. `scatters` has
    a line for each number that was sent to only one of its values.
    """

    __slots__ = ("_sum", "place", "scatters", "values")

    data, _node = Node.data, NODE._node  # its number is in the slot; operations on it make Nodes

    def __init__(self, trace: Trace, line: int, values: tuple[Value, ...], place: Slice | None = None) -> None:
        self.data, self.values, self.place = RowSymbol(trace, line), values, place
        self._sum: Any = 0
        self.scatters: list[int] = []
        self._op, self.label, self._is_constant = "row", "", False

    @property
    def _prev(self) -> tuple[Value, ...]:
        """What it passes its gradient on to."""
        return () if self.place and self.data.trace.keeps else self.values

    @_prev.setter
    def _prev(self, values: tuple[Value, ...]) -> None:
        self.values = values  # none, where a browser frees a graph

    @property
    def grad(self) -> Any:
        """The sum of the gradients sent to the row and not yet passed on; a number, if each was one number for all."""
        return self._sum

    @grad.setter
    def grad(self, total: Any) -> None:
        if type(total) is int or self.data.trace.keeps:
            self._sum = total
        else:
            self._send(total)

    def _backward(self, grad: Any) -> None:
        if not self.place:
            self._send(grad)

    def _send(self, grad: Any) -> None:
        """Pass a gradient on to the values: a number for each, or one for all."""
        each = grad.recorded.items() if type(grad) is RowSymbol else repeat(grad)
        for value, gradient in zip(self.values, each, strict=False):
            value.grad += gradient

    def send_at(self, index: Any, grad: Any) -> None:
        """Send a gradient to the value at this index."""
        trace = self.data.trace
        if self.place and trace.keeps == ALL:
            self.scatters.append(trace.row("scatter", (index.id, trace.id(grad), self.data.id)))
        else:
            positions = RowSymbol(trace, trace.stack(tuple(map(trace.id, range(len(self.values))))))
            self.grad += scalar.where(index == positions, grad, 0)


class Rows(Table):
    """The table for the trace of a function. It makes Rows of Values in the table, and of computed ones."""

    def __init__(self, trace: Trace, index: dict[Value, int], n_trained: int, finds: bool) -> None:
        super().__init__(index, partial(trace.leaf, "p"), finds=finds)
        self.trace, self.n_trained = trace, n_trained
        self._slices: dict[tuple[Value, ...], Row] = {}
        self._stacks: dict[tuple[int, ...], Row] = {}  # by their lines

    def of(self, *operands: tuple[Any, ...]) -> Sequence[tuple[Any, ...]]:
        """Each as a tuple of one Row; or all unchanged, if they are short or not all traced."""
        if len(operands[0]) < SHORTEST_ROW:
            return operands
        rows: list[tuple[Row]] = []
        for values in operands:
            row = None if isinstance(values[0], Node) else self._slice(values)
            if row is None and (row := self._stack(values)) is None:
                return operands
            rows.append((row,))
        return rows

    def selected(self, index: Symbol, values: tuple[Value, ...]) -> Row | None:
        """The Row of the values that an index selects from, if they are parameters and the index is a traced number."""
        trace = self.trace
        is_number = index.id not in trace.constants and trace.ops[index.id] not in CONDITIONS
        return self._slice(values) if is_number else None

    def _slice(self, values: tuple[Any, ...]) -> Row | None:
        """The Row of these parameters, if they lie at equal distances and all of them, or none, are trained."""
        try:
            row = self._slices.get(values)
        except TypeError:  # some are not numbers
            return None
        if row is None and all(isinstance(value, Value) for value in values):
            for value in values if self.finds else ():
                self.takes(value)
            its = [self.index.get(value, -1) for value in values]  # -1 is a Value that the function made
            place = Slice("p", its[0], (its[-1] - its[0]) // max(len(its) - 1, 1), len(its))
            is_slice = its[0] >= 0 and place.step > 0 and its == [*place.indices]
            if is_slice and len({i < self.n_trained for i in its}) == 1:
                row = self._slices[values] = Row(self.trace, self.trace.slice(*place), values, Slice("g", *place[1:]))
        is_assigned = self.assigned and not self.assigned.keys().isdisjoint(values)
        return None if is_assigned else row

    def _stack(self, values: tuple[Any, ...]) -> Row | None:
        """The row of Values that are all traced, and neither constants nor conditions."""
        try:
            lines = tuple([value.data.id for value in values])
        except AttributeError:  # some are not traced
            return None
        row, trace = self._stacks.get(lines), self.trace
        if row is None or not all(map(is_, row.values, values)):  # hashing the arguments takes longer
            lines = tuple([trace.id(value.data) for value in values])
            is_varying = trace.constants.keys().isdisjoint(lines) and not any(value._level for value in values)
            if not is_varying or not CONDITIONS.isdisjoint([trace.ops[line] for line in lines]):
                return None
            row = self._stacks[lines] = Row(trace, trace.stack(lines), values)
        return row

    def added(self) -> list[Addition]:
        """The rows that are added to the parameters' gradients."""
        rows = [(place, row) for row in self._slices.values() if (place := row.place) and place.base < self.n_trained]
        sums = [(place, row.data.sum(row.grad).recorded.id) for place, row in rows if type(row.grad) is not int]
        return sorted([*sums, *[(place, line) for place, row in rows for line in row.scatters]])


def join_products(trace: Trace, results: Sequence[Value], nodes: Sequence[Value]) -> bool:
    """Turn each chain of `+` over several products into one `dot`; returns whether there is any.

    A chain ends at any partial sum or product that is also used elsewhere. `nodes` is everything that `results` depend
    on, operands first; all closures must be this package's own.
    """
    n_uses = Counter(chain(results, *[node._prev for node in nodes]))
    alone = {node for node in nodes if node._op == "*" and n_uses[node] == 1}  # products used once
    chains: list[tuple[list[Value], list[Value], Any]] = []  # sums, the last one first; products; the start
    inner: set[Value] = set()  # the sums in them
    sums: list[Value]
    products: list[Value]
    for total in reversed(nodes) if alone else ():
        rest, sums, products = total, [], []
        while rest._op == "+" and rest not in inner and not alone.isdisjoint(rest._prev):
            if sums and n_uses[rest] > 1:
                break
            left, right = rest._prev
            sums.append(rest)
            rest, product = (left, right) if right in alone else (right, left)
            products.append(product)
        if sums:
            inner.update(sums)
            products, start = ([*products, rest], 0) if rest in alone else (products, rest)
            if len(products) >= SHORTEST_SUM:
                chains.append((sums, products[::-1], start))
    joined = [_join(trace, *each) for each in reversed(chains)]
    return any(joined)


def _join(trace: Trace, sums: Sequence[Value], products: Sequence[Value], start: Any) -> bool:
    """Turn a chain of sums into a start plus a `dot`; returns whether its products can make one."""
    if not all(map(_has_own_line, repeat(trace), chain(sums, products))):
        return False
    ws, xs = zip(*[product._prev for product in products], strict=True)
    dot, total = reductions.dot(ws, xs, start), sums[0]
    made = dot.data.id
    if trace.ops[made] != "dot":
        return False  # a factor is constant, or is in both rows
    total._op, total._prev, total._backward = dot._op, dot._prev, dot._backward
    trace.ops[total.data.id], trace.operands[total.data.id] = "dot", trace.operands[made]
    return True


def _has_own_line(trace: Trace, node: Value) -> bool:
    """Whether the trace computes a node's number from its operands' numbers: not if the function assigned another."""
    number = node.data
    if type(number) is not Symbol or number.trace is not trace or trace.ops[number.id] != node._op:
        return False
    a, b = node._prev
    lines = trace.id(a.data), trace.id(b.data)
    return trace.operands[number.id] in (lines, lines[::-1])  # an equal one may have its operands swapped
