"""Sums of products, each recorded as one operation: those of loops over numbers, and those that gradients add up.

A loop such as `total = total + w * x` leaves two nodes and two lines of the trace for each product. `join_products`
makes a `dot` of them, which is one of each, and whose gradients are traced a row at a time.

A closure adds one product at a time to the gradient of each operand. Within `joined`, a product or a sum of products
stays Pending until it is used as anything but a term of a longer sum. Most products come from a `dot`, which adds one
to the gradient of each number in a row. For these, only what they share is noted, as one term of the row's RowSums.

Parameters whose indices are at equal distances, like those of a row or a column of a matrix, form a Row. All that `dot`
adds to the gradients of a Row, however often it is used, is one Outer: a row of an outer product, or a sum of such
rows. The closure of `take` adds `where(index == i, gradient, 0)` to the gradient of each value that it may have chosen.
If these form a Row, such as a column of an embedding, a Scatter adds to the one that was chosen instead.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import chain
from operator import add
from typing import Any, NamedTuple

from micrograd import reductions, scalar
from micrograd.compiler.frontend.redirect import assign
from micrograd.compiler.frontend.tracer import CONDITIONS, Symbol, Trace
from micrograd.engine import Value

FEWEST_PRODUCTS = 3  # below which a dot saves next to nothing
SHORTEST_ROW = 3  # parameters: for fewer, an Outer would save nothing
_new = object.__new__  # which takes half the time of a call


class Row(NamedTuple):
    """The `size` parameters `base`, `base + step`, ..."""

    base: int
    step: int
    size: int

    def parameters(self) -> range:
        """Their indices."""
        return range(self.base, self.base + self.step * self.size, self.step)


class Scatter(NamedTuple):
    """Adds the line `gradient` to the gradient of the parameter that the line `position` selects from the row."""

    row: Row
    position: int
    gradient: int


class Outer(NamedTuple):
    """Adds all gradients[k] * others[k][i], lines of the trace, to the gradient of the row's i-th parameter."""

    row: Row
    gradients: tuple[int, ...]
    others: tuple[tuple[int, ...], ...]


def row(trace: Trace, lines: Sequence[int]) -> Row | None:
    """The row that these lines form, if they are parameters at equal distances."""
    leaves = [trace.leaves.get(line, ("", 0)) for line in lines]
    base, step = leaves[0][1], leaves[1][1] - leaves[0][1] if len(leaves) > 1 else 1
    found = Row(base, step, len(leaves)) if step > 0 else None
    return found if found and leaves == [("p", parameter) for parameter in found.parameters()] else None


def join_products(
    trace: Trace, nodes: Sequence[Value], results: Sequence[Value], first_use: dict[Value, int]
) -> list[Value]:
    """Turn each chain of `+` over several products into one `dot`. Returns the nodes that remain, operands first.

    A chain ends at any partial sum or product that is also used elsewhere. `nodes` is everything that `results` depend
    on, operands first; all closures must be this package's own.

    `first_use` gets the first line of the trace that uses each dot, if there is one. Sorted by it, dots are in the same
    order whether a program finishes one sum before it begins the next, or adds one product to each sum in turn.
    """
    n_uses = Counter(map(id, chain(results, chain.from_iterable([node._prev for node in nodes]))))

    def is_product(node: Value) -> bool:
        return node._op == "*" and n_uses[id(node)] == 1 and _has_own_line(trace, node)

    chains: dict[Value, tuple[Any, list[Value], list[Value]]] = {}  # by the last sum: start, products, partial sums
    for node in nodes:
        if node._op != "+":
            continue
        rest, product = node._prev
        if not is_product(product):
            rest, product = product, rest
        if not is_product(product) or not _has_own_line(trace, node):
            continue
        if rest in chains and n_uses[id(rest)] == 1:
            start, products, partial_sums = chains.pop(rest)
            partial_sums.append(rest)
        else:
            start, products, partial_sums = (0, [rest], []) if is_product(rest) else (rest, [], [])
        products.append(product)
        chains[node] = start, products, partial_sums
    chains = {total: parts for total, parts in chains.items() if len(parts[1]) >= FEWEST_PRODUCTS}
    for total, (start, products, _) in chains.items():
        ws, xs = zip(*[product._prev for product in products], strict=True)
        dot = reductions.dot(ws, xs, start)
        total._op, total._prev, total._backward = dot._op, dot._prev, dot._backward
        line, made = total.data.id, dot.data.id
        if trace.ops[made] == "dot":  # else a factor is constant
            trace.ops[line], trace.operands[line] = "dot", trace.operands[made]
    replaced = {node for _, products, partial_sums in chains.values() for node in (*products, *partial_sums)}
    nodes = [node for node in nodes if node not in replaced]
    for node in nodes if chains else ():
        if type(node.data) is Symbol:  # a `where` on a constant condition may give a plain number, which has no line
            for total in chains.keys() & node._prev:
                first_use[total] = min(first_use.get(total, node.data.id), node.data.id)
    return nodes


def _has_own_line(trace: Trace, node: Value) -> bool:
    """Whether the trace computes a node's number from its operands' numbers: not if the function assigned another."""
    number = node.data
    if type(number) is not Symbol or number.trace is not trace or trace.ops[number.id] != node._op:
        return False
    a, b = node._prev
    lines = trace.id(a.data), trace.id(b.data)
    return trace.operands[number.id] in (lines, lines[::-1])  # an equal one may have its operands swapped


class Pending(Symbol):
    """A product in a gradient, or a sum of products, which is recorded when it is first used as anything but a term.

    Its parts are the first `_n_parts` of the lines in `_parts`, a list that a longer sum may share: the two factors of
    a product; or the line that a sum starts from, and then two factors for each product. A sum that belongs to RowSums
    has no parts of its own until it is first used: `_origin` has the RowSums and the position in them.
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        """The line or the parts, whichever is missing. Once it has a line, this is a plain Symbol."""
        if name in ("_parts", "_n_parts"):
            sums, at = self._origin
            self._parts = sums.parts(at)
            self._n_parts = len(self._parts)
            return getattr(self, name)
        if name != "id":
            raise AttributeError(name)
        parts = tuple(self._parts[: self._n_parts])
        self.__class__ = Symbol  # type: ignore[assignment]
        self.id: int = self.trace.settle("*" if self._n_parts == 2 else "dot", parts).id
        return self.id

    def __add__(self, other: Any) -> Any:
        if type(other) is Pending and other._n_parts == 2:
            return other.added_to(self)
        return Symbol(self.trace, self.id) + other

    def __radd__(self, other: Any) -> Any:
        if type(other) is int and other == 0:
            return self
        if self._n_parts == 2 and type(other) is Symbol:
            if other.id in self.trace.leaves:  # the gradient before the call: nothing else is added to it
                return self.trace.settle("dot", (other.id, *self._parts))
            return self.added_to(other)
        return other + Symbol(self.trace, self.id)

    def added_to(self, total: Any) -> "Pending":
        """The total plus this product, as a longer sum."""
        parts = _parts_to_extend(self.trace, total)
        parts += self._parts
        return pending(self.trace, parts)


scalar.ZEROS[Pending] = 0


def _parts_to_extend(trace: Trace, total: Any) -> list[int]:
    """The parts of a total, to append factors to: the list of a sum itself, unless a longer sum has extended it."""
    if type(total) is not Pending:
        return [trace.start(total)]
    if total._n_parts == 2:
        return [trace.nothing, *total._parts]
    parts: list[int] = total._parts
    return parts if len(parts) == total._n_parts else parts[: total._n_parts]


def pending(trace: Trace, parts: Any) -> Pending:
    """A product or a sum of products that is not recorded yet."""
    symbol = _new(Pending)
    symbol.trace, symbol._parts, symbol._n_parts = trace, parts, len(parts)
    return symbol


class RowSums:
    """Sums of products, open until one is used: sum i is gradients[k] * rows[k][i], added up for all k."""

    def __init__(self, trace: Trace) -> None:
        self._nothing = trace.nothing
        self.gradients: list[int] = []
        self.rows: list[tuple[int, ...]] = []
        self.is_open = True

    def parts(self, at: int) -> list[int]:
        """Close the sums, and return the parts of one: its start and its factors, or two factors for a lone product."""
        self.is_open = False
        start = [self._nothing] if len(self.rows) > 1 else []
        return [*start, *chain.from_iterable(zip(self.gradients, self._columns[at], strict=True))]

    @cached_property
    def _columns(self) -> list[tuple[int, ...]]:
        """For each sum, the second factors of its terms."""
        return list(zip(*self.rows, strict=True))


class Factors:
    """Values that a `dot` multiplies by others: to the gradient of each it adds a product, or RowSums one for all."""

    def __init__(self, trace: Trace, values: tuple[Value, ...], gradients: dict[Value, Any]) -> None:
        self.values, self.distinct = values, frozenset(values)
        self._trace = trace
        self._gradients = gradients if self.distinct <= gradients.keys() else None  # None: the Values have them
        self.sums: RowSums | None = None
        self.lines = lines_of(trace, values)
        are_variable = bool(self.lines) and trace.constants.keys().isdisjoint(self.lines)
        self.share_terms = are_variable and len(self.distinct) == len(values)

    def add(self, gradient: int, lines: tuple[int, ...]) -> None:
        """Add the gradient times each of the lines to the gradient of the Value at the same position."""
        # While its sums are open, they are the gradients of the Values: whatever replaces one uses it, and closes them.
        if not (self.sums and self.sums.is_open):
            trace, totals = self._trace, self._totals()
            if {*map(type, totals)} != {int} or any(totals):  # it is not from 0 that they go on
                products = [pending(trace, (gradient, line)) for line in lines]
                self._set(list(map(add, totals, products)))
                return
            self.sums, symbols = RowSums(trace), [_new(Pending) for _ in totals]
            for at, symbol in enumerate(symbols):
                symbol.trace, symbol._origin = trace, (self.sums, at)
            self._set(symbols)  # to which RowSums refer in no cycle, which would leave the trace to the collector
        self.sums.gradients.append(gradient)
        self.sums.rows.append(lines)

    def _set(self, totals: list[Any]) -> None:
        """Let the Values have these gradients."""
        if self._gradients is None:
            assign(self.values, "grad", totals)
        else:
            self._gradients.update(zip(self.values, totals, strict=True))

    def _totals(self) -> list[Any]:
        """The gradients of the Values."""
        if self._gradients is None:
            return [value.grad for value in self.values]
        return list(map(self._gradients.__getitem__, self.values))


def lines_of(trace: Trace, values: Sequence[Value]) -> tuple[int, ...]:
    """The lines of the Values' numbers; none unless all are plain Symbols of this trace."""
    symbols = [value.data for value in values]
    if all(type(symbol) is Symbol and symbol.trace is trace for symbol in symbols):
        return tuple([symbol.id for symbol in symbols])
    return ()


class Joined:
    """Collects what is added to gradients within `joined`.

    `gradients` has the gradient of each parameter; only the first `n_trained` parameters are trained. If a closure may
    read a gradient, every addition has to reach it at once, so `add_products` and `add_at` return False.
    """

    def __init__(self, trace: Trace, gradients: dict[Value, Any], n_trained: int, are_read: bool) -> None:
        self._trace, self._gradients, self._n_trained, self._are_read = trace, gradients, n_trained, are_read
        self._factors: dict[tuple[Value, ...], Factors] = {}
        self._rows: dict[tuple[Value, ...], Row | None] = {}
        self.scatters: list[Scatter] = []

    def pop_outers(self) -> list[Outer]:
        """The Outers of the rows whose gradients are nothing but sums of products; these gradients are set to 0."""
        outers = []
        for values, factors in self._factors.items():
            row, sums = self._row_of(values), factors.sums
            if row and row.size >= SHORTEST_ROW and sums and sums.is_open:
                self._gradients.update(dict.fromkeys(values, 0))
                outers.append(Outer(row, tuple(sums.gradients), tuple(sums.rows)))
        return outers

    def add(self, op: str, lines: tuple[int, ...]) -> Symbol:
        """What `Trace.add` does within the block: a product becomes Pending."""
        constants = self._trace.constants
        if op == "*" and lines[0] not in constants and lines[1] not in constants:
            return pending(self._trace, lines)
        return self._trace.settle(op, lines)

    def add_products(self, gradient: Symbol, ws: tuple[Value, ...], xs: tuple[Value, ...]) -> bool:
        """What `Symbol.add_products` does within the block."""
        if self._are_read:
            return False
        w, x = self._factors_of(ws), self._factors_of(xs)
        is_variable = gradient.id not in self._trace.constants
        if not (is_variable and w.share_terms and x.share_terms and w.distinct.isdisjoint(xs)):
            return False
        w.add(gradient.id, x.lines)
        x.add(gradient.id, w.lines)
        return True

    def add_at(self, gradient: Symbol, index: Any, values: tuple[Value, ...]) -> bool:
        """What `Symbol.add_at` does within the block."""
        if type(index) is not Symbol or index.id in self._trace.constants or self._trace.ops[index.id] in CONDITIONS:
            return False  # a condition is not a number in every language
        row = None if self._are_read else self._row_of(values)
        if row:
            self.scatters.append(Scatter(row, index.id, gradient.id))
        return row is not None

    def _factors_of(self, values: tuple[Value, ...]) -> Factors:
        if values not in self._factors:
            self._factors[values] = Factors(self._trace, values, self._gradients)
        return self._factors[values]

    def _row_of(self, values: tuple[Value, ...]) -> Row | None:
        """The row that the Values form, if they are all trained parameters."""
        if values not in self._rows:
            lines = lines_of(self._trace, values) if self._gradients.keys() >= {*values} else ()
            found = row(self._trace, lines) if lines else None
            self._rows[values] = found if found and found.parameters()[-1] < self._n_trained else None
        return self._rows[values]


@contextmanager
def joined(trace: Trace, gradients: dict[Value, Any], n_trained: int, *, are_read: bool = False) -> Iterator[Joined]:
    """Within the block, record the products in gradients as sums. The arguments are as for what it yields."""
    trace.joined = block = Joined(trace, gradients, n_trained, are_read)
    trace.add = block.add  # type: ignore[method-assign]
    yield block
    trace.joined = None
    del trace.add
