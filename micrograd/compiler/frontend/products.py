"""Products in gradients: they are recorded when their sum is complete, as one operation.

A closure adds a product at a time to the gradient of each operand. Within `joined`, a product and a sum of products are
Pending until they are used as anything but a term of a longer sum. Most products come from a `dot`, which adds one to
the gradient of each number in a row: of these, only what they have in common is noted, as one term of the row's Sums.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import chain, repeat
from operator import is_, itemgetter
from typing import Any

from micrograd import levels
from micrograd.compiler.frontend.scatter import Row, Scatter, row
from micrograd.compiler.frontend.tracer import CONDITIONS, Symbol, Trace
from micrograd.engine import Value

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

    def __init__(self, starts: list[list[int]]) -> None:
        self.starts = starts
        self.gradients: list[int] = []
        self.rows: list[Sequence[int]] = []

    def parts(self, at: int, n: int) -> list[int]:
        """The first n parts of one of the sums; two are the first product, without a start."""
        start = self.starts[at] if n > 2 else []
        products = zip(self.gradients[: (n - len(start)) // 2], map(itemgetter(at), self.rows), strict=False)
        return [*start, *chain.from_iterable(products)]


class Factors:
    """Values that a `dot` multiplies by others, so that the gradient of each has a product added at once."""

    def __init__(self, trace: Trace, values: Sequence[Value], of_parameters: dict[Value, Any]) -> None:
        self.values, self.distinct = values, frozenset(values)
        self._trace, self._gradients = trace, of_parameters if self.distinct <= of_parameters.keys() else None
        self._sums = Sums([])
        self._latest: list[Pending] = []
        self.lines = lines_of(trace, values)
        are_variable = bool(self.lines) and trace.constants.keys().isdisjoint(self.lines)
        self.are_added_to = are_variable and len(self.distinct) == len(values)

    def add(self, gradient: int, lines: Sequence[int]) -> None:
        """Add the gradient times each of the lines to the gradients of the Values."""
        gradients, trace = self._gradients, self._trace
        totals = [v.grad for v in self.values] if gradients is None else list(map(gradients.__getitem__, self.values))
        if not (self._latest and all(map(is_, totals, self._latest)) and {*map(type, totals)} == {Pending}):
            self._sums = Sums([[*starts_of(trace, total)] for total in totals])  # as something used or added to one
        sums = self._sums
        sums.gradients.append(gradient)
        sums.rows.append(lines)
        self._latest = []
        for at, total in enumerate(totals):
            symbol = _new(Pending)
            symbol.trace, symbol._row, symbol._n = trace, (sums, at), _length_after(total)
            self._latest.append(symbol)
        if gradients is None:
            deque(map(setattr, self.values, repeat("grad"), self._latest), maxlen=0)
        else:
            gradients.update(zip(self.values, self._latest, strict=True))


def _length_after(total: Any) -> int:
    """How many parts a sum has after a product was added."""
    if type(total) is Pending:
        return 5 if total._n == 2 else total._n + 2
    return 3 if type(total) is Symbol else 2


def lines_of(trace: Trace, values: Sequence[Value]) -> list[int]:
    """The lines of the Values' numbers; none if one is not a plain Symbol of this trace."""
    symbols = [value.data for value in values]
    if all(type(symbol) is Symbol and symbol.trace is trace for symbol in symbols):
        return [symbol.id for symbol in symbols]
    return []


@contextmanager
def joined(trace: Trace, of_parameters: dict[Value, Any], learnt: int) -> Iterator[list[Scatter]]:
    """Within the block, products in gradients are recorded as sums. The dict has the gradients of the parameters.

    The block gets a list that receives what is added at an index to the gradients of the `learnt` first parameters.
    """
    scatters: list[Scatter] = []

    def add(op: str, lines: tuple[int, ...]) -> Symbol:
        if op == "*" and lines[0] not in trace.constants and lines[1] not in trace.constants:
            return pending(trace, lines)
        return trace.settle(op, lines)

    @cache
    def factors(values: tuple[Value, ...]) -> Factors:
        return Factors(trace, values, of_parameters)

    def add_products(gradient: Symbol, ws: tuple[Value, ...], xs: tuple[Value, ...]) -> bool:
        w, x = factors(ws), factors(xs)
        may = w.are_added_to and x.are_added_to and w.distinct.isdisjoint(xs) and gradient.id not in trace.constants
        if may:
            w.add(gradient.id, x.lines)
            x.add(gradient.id, w.lines)
        return may

    @cache
    def row_of(values: tuple[Value, ...]) -> Row | None:
        found = row(trace, lines) if (lines := lines_of(trace, values)) else None
        return found if found and found.parameters()[-1] < learnt else None

    def add_at(gradient: Symbol, index: Any, values: tuple[Value, ...]) -> bool:
        is_number = type(index) is Symbol and trace.ops[index.id] not in CONDITIONS  # which are no numbers in C
        found = row_of(values) if is_number and index.id not in trace.constants else None
        if found:
            scatters.append(Scatter(found, index.id, gradient.id))
        return found is not None

    trace.add, trace.add_products, trace.add_at = add, add_products, add_at  # type: ignore[method-assign, assignment]
    yield scatters
    del trace.add, trace.add_products, trace.add_at
