"""Sums of products in gradients: each is recorded as one operation, once it is complete.

A closure adds one product at a time to the gradient of each operand. Within `joined`, a product or a sum of products
stays Pending until it is used as anything but a term of a longer sum. Most products come from a `dot`, which adds one
to the gradient of each number in a row. For these, only what they share is noted, as one term of the row's RowSums.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import chain, repeat
from operator import add
from typing import Any

from micrograd import scalar
from micrograd.compiler.frontend.scatter import Outer, Row, Scatter, row
from micrograd.compiler.frontend.tracer import CONDITIONS, Symbol, Trace
from micrograd.engine import Value

SHORTEST_ROW = 3  # parameters: for fewer, an Outer would save nothing
_new = object.__new__  # which takes half the time of a call


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
    """The parts of a total, as a list to which the factors of another product can be appended.

    This is the list of a Pending sum itself unless a longer sum has extended that already.
    """
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
    """Sums of products, one for each number of a row: sum i is starts[i] plus gradients[k] * rows[k][i] for all k.

    Each start is a list of the line that the sum starts from, empty if there is none. Terms can be added while
    `is_open`: until one of the sums is used.
    """

    def __init__(self, trace: Trace, starts: list[list[int]]) -> None:
        self.starts, self._nothing = starts, trace.nothing
        self.gradients: list[int] = []
        self.rows: list[tuple[int, ...]] = []
        self.is_open = True

    def new_symbols(self, trace: Trace) -> list[Pending]:
        """A new symbol for each sum. No reference to them is kept: a cycle would leave the trace to the collector."""
        symbols = [_new(Pending) for _ in self.starts]
        for at, symbol in enumerate(symbols):
            symbol.trace, symbol._origin = trace, (self, at)
        return symbols

    def parts(self, at: int) -> list[int]:
        """Close the sums, and return the parts of one: its start and its factors, or two factors for a lone product."""
        self.is_open = False
        start = self.starts[at] or ([self._nothing] if len(self.rows) > 1 else [])
        return [*start, *chain.from_iterable(zip(self.gradients, self._columns[at], strict=True))]

    @cached_property
    def _columns(self) -> list[tuple[int, ...]]:
        """For each sum, the second factors of its terms."""
        return list(zip(*self.rows, strict=True))


class Factors:
    """Values that a `dot` multiplies by others: it adds a product to the gradient of each of them.

    They `share_terms` if a term of RowSums can stand for all of these products.
    """

    def __init__(self, trace: Trace, values: tuple[Value, ...], gradients: dict[Value, Any]) -> None:
        self.values, self.distinct = values, frozenset(values)
        self._trace = trace
        self._gradients = gradients if self.distinct <= gradients.keys() else None  # None: the Values have them
        self._sums: RowSums | None = None
        self.lines = lines_of(trace, values)
        are_variable = bool(self.lines) and trace.constants.keys().isdisjoint(self.lines)
        self.share_terms = are_variable and len(self.distinct) == len(values)

    def add(self, gradient: int, lines: tuple[int, ...]) -> None:
        """Add the gradient times each of the lines to the gradient of the Value at the same position."""
        # While its sums are open, they are the gradients of the Values: whatever replaces one uses it, and closes them.
        if not (self._sums and self._sums.is_open):
            trace, totals = self._trace, self._totals()
            if Pending in {*map(type, totals)}:  # RowSums would have to copy their parts
                products = [pending(trace, (gradient, line)) for line in lines]
                self._set(list(map(add, totals, products)))
                return
            self._sums = RowSums(trace, [_start_of(trace, total) for total in totals])
            self._set(self._sums.new_symbols(trace))
        self._sums.gradients.append(gradient)
        self._sums.rows.append(lines)

    def pop_outer(self, row: Row | None) -> Outer | None:
        """What was added, as an Outer; the gradients are set to 0.

        None unless these are the parameters of the row, and nothing else was added to their gradients.
        """
        sums, gradients = self._sums, self._gradients
        if not row or row.size < SHORTEST_ROW or gradients is None:
            return None
        if not (sums and sums.is_open) or any(sums.starts):
            return None
        gradients.update(dict.fromkeys(self.values, 0))
        return Outer(row, tuple(sums.gradients), tuple(sums.rows))

    def _set(self, totals: list[Any]) -> None:
        """Let the Values have these gradients."""
        if self._gradients is None:
            deque(map(setattr, self.values, repeat("grad"), totals), maxlen=0)
        else:
            self._gradients.update(zip(self.values, totals, strict=True))

    def _totals(self) -> list[Any]:
        """The gradients of the Values."""
        if self._gradients is None:
            return [value.grad for value in self.values]
        return list(map(self._gradients.__getitem__, self.values))


def _start_of(trace: Trace, total: Any) -> list[int]:
    """The parts that a sum starts from if it continues this total, which is not Pending."""
    return [] if type(total) is int and total == 0 else [trace.start(total)]


def lines_of(trace: Trace, values: Sequence[Value]) -> tuple[int, ...]:
    """The lines of the Values' numbers; none unless all are plain Symbols of this trace."""
    symbols = [value.data for value in values]
    if all(type(symbol) is Symbol and symbol.trace is trace for symbol in symbols):
        return tuple([symbol.id for symbol in symbols])
    return ()


class Joined:
    """Collects what is added to gradients within `joined`.

    `gradients` has the gradient of each parameter; only the first `learnt` parameters are trained. If a closure may
    read a gradient, every addition has to reach it at once, so `add_products` and `add_at` return False.
    """

    def __init__(self, trace: Trace, gradients: dict[Value, Any], learnt: int, are_read: bool) -> None:
        self._trace, self._gradients, self._learnt, self._are_read = trace, gradients, learnt, are_read
        self._factors: dict[tuple[Value, ...], Factors] = {}
        self._rows: dict[tuple[Value, ...], Row | None] = {}
        self.scatters: list[Scatter] = []

    def pop_outers(self) -> list[Outer]:
        """The Outers of the rows whose gradients are nothing but sums of products; these gradients are set to 0."""
        found = [factors.pop_outer(self._row_of(factors.values)) for factors in self._factors.values()]
        return [outer for outer in found if outer]

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
            self._rows[values] = found if found and found.parameters()[-1] < self._learnt else None
        return self._rows[values]


@contextmanager
def joined(trace: Trace, gradients: dict[Value, Any], learnt: int, *, are_read: bool = False) -> Iterator[Joined]:
    """Within the block, record the products in gradients as sums. The arguments are as for what it yields."""
    trace.joined = block = Joined(trace, gradients, learnt, are_read)
    trace.add = block.add  # type: ignore[method-assign]
    yield block
    trace.joined = None
    del trace.add
