"""Products in gradients: they are recorded when their sum is complete, as one operation.

A closure adds a product at a time to the gradient of each operand. Within `joined`, a product and a sum of products are
Pending until they are used as anything but a term of a longer sum. Most products come from a `dot`, which adds one to
the gradient of each number in a row: of these, only what they have in common is noted, as one term of the row's Sums.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, repeat
from operator import is_, itemgetter
from typing import Any

from micrograd import levels
from micrograd.compiler.frontend.scatter import Outer, Row, Scatter, row
from micrograd.compiler.frontend.tracer import CONDITIONS, Symbol, Trace
from micrograd.engine import Value

SHORTEST_ROW = 3  # parameters, below which nothing is won
_new = object.__new__  # which takes half the time of a call


class Pending(Symbol):
    """A product in a gradient, or a sum of products, which is recorded when it is first used as anything but a term.

    It is the first `_n` of the lines `_parts`, which a longer sum may share: two factors; or what a sum starts from,
    and then two factors for each product. If it is one of a `_row`, these are listed when they are first needed.
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        """The line, or the parts of one of a row, whichever is missing. With a line, this is a plain Symbol."""
        if name == "_parts":
            sums, at = self._row
            self._parts = sums.parts(at, self._n)
            return self._parts
        if name != "id":
            raise AttributeError(name)
        parts = tuple(self._parts[: self._n])
        self.__class__ = Symbol  # type: ignore[assignment]
        self.id: int = self.trace.settle("*" if self._n == 2 else "dot", parts).id
        return self.id

    def __add__(self, other: Any) -> Any:
        if type(other) is Pending and other._n == 2:
            return other.added(self)
        return Symbol(self.trace, self.id) + other

    def __radd__(self, other: Any) -> Any:
        if type(other) is int and other == 0:
            return self
        if self._n == 2 and type(other) is Symbol:
            if other.id in self.trace.leaves:  # what the gradient was before: this is all that is added
                return self.trace.settle("dot", (other.id, *self._parts))
            return self.added(other)
        return other + Symbol(self.trace, self.id)

    def added(self, total: Any) -> "Pending":
        """The sum with this product as its last term."""
        parts = starts_of(self.trace, total)
        parts += self._parts
        return pending(self.trace, parts)


levels.numbers.add(Pending)


def starts_of(trace: Trace, total: Any) -> list[int]:
    """The parts of a sum that goes on from this one. It may share the list of a Pending sum."""
    if type(total) is not Pending:
        return [trace.start(total)]
    if total._n == 2:
        return [trace.nothing, *total._parts]
    parts: list[int] = total._parts
    return parts if len(parts) == total._n else parts[: total._n]


def pending(trace: Trace, parts: Any) -> Pending:
    """A product or a sum of products that is not recorded yet."""
    symbol = _new(Pending)
    symbol.trace, symbol._parts, symbol._n = trace, parts, len(parts)
    return symbol


class Sums:
    """A sum for each number of a row: what it starts from, and terms, each a gradient times a line of another row."""

    def __init__(self, starts: list[list[int]], nothing: int) -> None:
        self.starts, self._nothing = starts, nothing
        self.gradients: list[int] = []
        self.rows: list[tuple[int, ...]] = []

    def parts(self, at: int, n: int) -> list[int]:
        """The first n parts of one of the sums; two are the first product, without a start."""
        start = [] if n == 2 else self.starts[at] or [self._nothing]
        products = zip(self.gradients[: (n - len(start)) // 2], map(itemgetter(at), self.rows), strict=False)
        return [*start, *chain.from_iterable(products)]


class Factors:
    """Values that a `dot` multiplies by others, so that the gradient of each has a product added at once."""

    def __init__(self, trace: Trace, values: tuple[Value, ...], of_parameters: dict[Value, Any]) -> None:
        self.values, self.distinct = values, frozenset(values)
        self._trace, self._gradients = trace, of_parameters if self.distinct <= of_parameters.keys() else None
        self._sums = Sums([], 0)
        self._latest: list[Pending] = []
        self.lines = lines_of(trace, values)
        are_variable = bool(self.lines) and trace.constants.keys().isdisjoint(self.lines)
        self.are_added_to = are_variable and len(self.distinct) == len(values)

    def add(self, gradient: int, lines: tuple[int, ...]) -> None:
        """Add the gradient times each of the lines to the gradients of the Values."""
        trace, totals = self._trace, self._totals()
        if not self._are_sums(totals):
            self._sums = Sums([_parts_of(trace, total) for total in totals], trace.nothing)
        sums = self._sums
        sums.gradients.append(gradient)
        sums.rows.append(lines)
        self._latest = []
        for at, total in enumerate(totals):
            symbol = _new(Pending)
            symbol.trace, symbol._row, symbol._n = trace, (sums, at), _length_after(total)
            self._latest.append(symbol)
        if self._gradients is None:
            deque(map(setattr, self.values, repeat("grad"), self._latest), maxlen=0)
        else:
            self._gradients.update(zip(self.values, self._latest, strict=True))

    def outer(self, row: Row | None) -> Outer | None:
        """What was added, if these are the parameters of a row, and nothing else was added to their gradients."""
        sums, gradients = self._sums, self._gradients
        if not row or row.size < SHORTEST_ROW or gradients is None:
            return None
        if any(sums.starts) or not self._are_sums(self._totals()):
            return None
        gradients.update(dict.fromkeys(self.values, 0))
        return Outer(row, tuple(sums.gradients), tuple(sums.rows))

    def _totals(self) -> list[Any]:
        """The gradients of the Values."""
        if self._gradients is None:
            return [value.grad for value in self.values]
        return list(map(self._gradients.__getitem__, self.values))

    def _are_sums(self, totals: list[Any]) -> bool:
        """Whether these are the sums so far: nothing else has used one, or added to it."""
        are_latest = bool(self._latest) and all(map(is_, totals, self._latest))
        return are_latest and {*map(type, totals)} == {Pending}


def _parts_of(trace: Trace, total: Any) -> list[int]:
    """The parts of a sum that goes on from this one; none if it is the exact 0."""
    return [] if type(total) is int else [*starts_of(trace, total)]


def _length_after(total: Any) -> int:
    """How many parts a sum has after a product was added."""
    if type(total) is Pending:
        return 5 if total._n == 2 else total._n + 2
    return 3 if type(total) is Symbol else 2


def lines_of(trace: Trace, values: Sequence[Value]) -> tuple[int, ...]:
    """The lines of the Values' numbers; none if one is not a plain Symbol of this trace."""
    symbols = [value.data for value in values]
    if all(type(symbol) is Symbol and symbol.trace is trace for symbol in symbols):
        return tuple([symbol.id for symbol in symbols])
    return ()


class Joined:
    """What is added to gradients within `joined`; the first `learnt` parameters have `gradients`."""

    def __init__(self, trace: Trace, gradients: dict[Value, Any], learnt: int) -> None:
        self._trace, self._gradients, self._learnt = trace, gradients, learnt
        self._factors: dict[tuple[Value, ...], Factors] = {}
        self._rows: dict[tuple[Value, ...], Row | None] = {}
        self.scatters: list[Scatter] = []

    def outers(self) -> list[Outer]:
        """The rows of parameters whose gradients are sums of products. What they had is 0 now."""
        found = [factors.outer(self._row(factors.values)) for factors in self._factors.values()]
        return [outer for outer in found if outer]

    def add(self, op: str, lines: tuple[int, ...]) -> Symbol:
        """As the Trace's: a product is Pending."""
        constants = self._trace.constants
        if op == "*" and lines[0] not in constants and lines[1] not in constants:
            return pending(self._trace, lines)
        return self._trace.settle(op, lines)

    def add_products(self, gradient: Symbol, ws: tuple[Value, ...], xs: tuple[Value, ...]) -> bool:
        """As that of a Symbol."""
        w, x = self._factors_of(ws), self._factors_of(xs)
        is_variable = gradient.id not in self._trace.constants
        if not (is_variable and w.are_added_to and x.are_added_to and w.distinct.isdisjoint(xs)):
            return False
        w.add(gradient.id, x.lines)
        x.add(gradient.id, w.lines)
        return True

    def add_at(self, gradient: Symbol, index: Any, values: tuple[Value, ...]) -> bool:
        """As that of a Symbol."""
        if type(index) is not Symbol or index.id in self._trace.constants or self._trace.ops[index.id] in CONDITIONS:
            return False  # a condition is no number in all languages
        row = self._row(values)
        if row:
            self.scatters.append(Scatter(row, index.id, gradient.id))
        return row is not None

    def _factors_of(self, values: tuple[Value, ...]) -> Factors:
        if values not in self._factors:
            self._factors[values] = Factors(self._trace, values, self._gradients)
        return self._factors[values]

    def _row(self, values: tuple[Value, ...]) -> Row | None:
        """The row that the Values are, if they are all learnt parameters."""
        if values not in self._rows:
            lines = lines_of(self._trace, values)
            found = row(self._trace, lines) if lines else None
            self._rows[values] = found if found and found.parameters()[-1] < self._learnt else None
        return self._rows[values]


@contextmanager
def joined(trace: Trace, gradients: dict[Value, Any], learnt: int) -> Iterator[Joined]:
    """Within the block, products in gradients are recorded as sums. The dict has the gradients of the parameters."""
    trace.joined = block = Joined(trace, gradients, learnt)
    trace.add = block.add  # type: ignore[method-assign]
    yield block
    trace.joined = None
    del trace.add
