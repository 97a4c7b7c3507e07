"""A trace as expressions: the first pass of the compiler.

A sum becomes one expression with all of its terms, products included, so that a dot product is one, however it was
written. A condition is part of the expressions that it decides.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from itertools import chain, repeat
from operator import add
from typing import Any, NamedTuple

from micrograd.compiler.frontend.operations import CONDITIONS, OPERATIONS
from micrograd.compiler.frontend.tracer import Slice, Trace
from micrograd.compiler.ir import Call

SUMS = frozenset(("+", "-", "dot"))
ROWS = frozenset(("stack", "axpy", "scatter", "item"))
PLAIN = OPERATIONS.keys() - SUMS - CONDITIONS - {"where", "take", "take_at", "largest"}
"""Operations that become a Call whose operands are just numbers."""
LONG_CONDITION = 8  # numbers compared, above which a condition is computed once, as 1 or 0, whatever uses it


Run = tuple[str, int, int]
"""The sign of alike terms, how many factors each has, and how many terms there are."""
Lines = tuple[int, ...]
Column = Lines | Slice
"""Numbers that are read one after the other: the first factors of all terms of a run, or the second ones."""


class Node(NamedTuple):
    """The value of a line of the trace, from the numbers in its columns.

    Its form is a Call, whose operands are other Calls and positions in the only column; or for a sum, its runs of
    terms, each with a column for each factor. The largest of some numbers has terms with the sign ">".

    A row is a node of `size` numbers: the sum of rows, each times a number. Its first column has these numbers, and the
    others are the rows.
    """

    line: int
    form: Call | tuple[Run, ...]
    columns: tuple[Column, ...]
    parameter: int = -1  # the index of the (first) gradient that it is added to; -1 for none
    step: int = 1  # from there to the next one
    size: int = 0
    items: tuple[int | None, ...] = ()  # the lines of a row's numbers, unless they are added to gradients

    def singly(self) -> "Iterator[Node]":
        """A node for each number of a row that is needed; of any other node, itself.

        What several products add to a gradient has its own node, since it is added up first.
        """
        if not self.size:
            yield self
            return
        factors, *rows = self.columns
        adds = self.parameter >= 0
        lines = repeat(self.line, self.size) if adds else self.items
        for i, (line, *others) in enumerate(zip(lines, *map(numbers, rows), strict=True)):
            if adds and len(factors) > 1:
                line = self.line, i
            if line is not None:
                parameter = self.parameter + i * self.step if adds and len(factors) == 1 else -1
                yield Node(line, self.form, (factors, tuple(others)), parameter)
            if adds and len(factors) > 1:
                yield Node(line, (("+", 1, 1),), ((line,),), self.parameter + i * self.step)

    @property
    def operands(self) -> Lines:
        """All lines that it is computed from."""
        return tuple(chain(*[column for column in self.columns if not isinstance(column, Slice)]))


Terms = list[tuple[str, tuple[Column, ...]]]
"""The terms of a sum so far, some at a time: their sign, and a column for each of their factors."""


class Expressions(list[Node]):
    """The nodes that some results need, each after its operands.

    The lines in `results` and `named` are nodes of their own; `rows` are added to slices of gradients. If `in_order`,
    the parts of a gradient are added to it one at a time, as in the engine; else they are added up first.

    `live` has the operations among the lines that the results need. `scatters` has, for each number added somewhere in
    a slice of gradients, the slice, the line of the index in it, and the line of the number.
    """

    def __init__(
        self, trace: Trace, results: Sequence[int], rows: Sequence[tuple[Slice, int]] = (), *,
        named: Collection[int] = (), in_order: bool = False, backward: float = math.inf,
    ) -> None:  # fmt: skip
        super().__init__()
        self.live = trace.live([*results, *(line for _, line in rows)])
        self.scatters: list[tuple[Slice, int, int]] = []
        self._trace = trace
        self._in_order = in_order
        ops, operands = trace.ops, trace.operands
        in_rows = chain(*[operands[line] for line in self.live if ops[line] in ROWS])
        numbers = [line for line in self.live if ops[line] not in ROWS]
        terms = [operands[line][:1] if ops[line] == "dot" else operands[line] for line in numbers]
        uses = Counter(chain.from_iterable(terms))
        stay = {*results, *named, *in_rows}  # as nodes
        once = {line for line in self.live if uses[line] == 1} - stay
        added, subtracted = [
            Counter(chain(*[of for line, of in zip(numbers, terms, strict=True) if ops[line] == op])) for op in "+-"
        ]
        self._sum: dict[int, int] = {}  # the sum or difference that alone uses a line
        for line, of in zip(numbers, terms, strict=True):
            if ops[line] in SUMS and not once.isdisjoint(of):
                self._sum.update(dict.fromkeys(once.intersection(of), line))
        self._nothing = {line for line, number in trace.constants.items() if repr(number) == "-0.0"}  # starts of sums
        self._parameter = {line: i for line, (array, i) in trace.leaves.items() if array == "g"}
        self._conditions: dict[int, Call] = {}  # over lines
        self._numbers: set[int] = set()  # conditions that have a node
        self._products: dict[int, tuple[int, ...]] = {}
        self._sums: dict[int, Terms] = {}

        def is_term(line: int) -> bool:
            """Whether only sums use a product: in the backward pass, several may, as storing it takes longer."""
            if line in self._sum or line < backward or line in stay:
                return line in self._sum
            only_sums = uses[line] == added[line] + subtracted[line] and subtracted[line] <= 1
            return only_sums and trace.constants.keys().isdisjoint(operands[line])

        self._sums_of_rows: dict[int, tuple[Column, Column]] = {}  # items that are terms of a sum, and their factors
        items: dict[int, dict[int, int]] = {}  # of each row, the lines of its other numbers
        for line in self.live:
            if ops[line] == "item":
                items.setdefault(operands[line][0], {})[trace.items[line]] = line
        for row, found in items.items():
            for i in [i for i, line in found.items() if ops[self._sum.get(line, line)] == "+"]:
                if factors := self._factors(row, i):
                    self._sums_of_rows[found.pop(i)] = factors
        for line in self.live:
            op, of = ops[line], operands[line]
            if op in ROWS:
                if items.get(line):
                    self.extend(self._row(line, items[line]))
            elif op == "*" and is_term(line) and self._conditions.keys().isdisjoint(of):
                self._products[line] = of  # in each sum that uses it: multiplying again is faster than storing
            elif op in SUMS:
                self._add_sum(line, op)
            elif op in PLAIN and self._conditions.keys().isdisjoint(of):
                self.append(Node(line, _plain(self._special(op, of), len(of)), (of,)))
            else:
                self._add_call(line, op)
        for place, line in rows:
            self.scatters += [(place, one, other) for op, one, other in trace.parts(line) if op == "scatter"]
            for node in self._row(line, {}):
                self.append(node._replace(parameter=place.base, step=place.step, items=()))

    def _factors(self, row: int, i: int) -> tuple[Column, Column] | None:
        """The two columns whose products add up to the i-th number of a row, if there are such columns."""
        numbers, *rows = self._columns(row)
        slices = [row for row in rows if isinstance(row, Slice)]
        if not slices:
            return numbers, tuple([column[i] for column in rows])  # type: ignore[misc]
        first, last = slices[0], slices[-1]
        step = (last.base - first.base) // max(len(rows) - 1, 1) or 1
        found = first._replace(step=step, size=len(rows))
        if slices != [first._replace(base=base) for base in found.indices]:
            return None
        return numbers, found._replace(base=first.base + i * first.step)

    def _columns(self, row: int) -> tuple[Column, ...]:
        """What a row adds up: numbers, and for each the row that it multiplies."""
        found = [(number, other) for op, number, other in self._trace.parts(row) if op == "axpy"]
        numbers, rows = zip(*found, strict=True) if found else ((), ())
        return numbers, *map(self._column, rows)

    def _row(self, line: int, items: dict[int, int]) -> Iterator[Node]:
        """The node of a row, if anything other than scatters adds to it."""
        columns = self._columns(line)
        if len(columns) > 1:
            size = _length(columns[1])
            lines = tuple(map(items.get, range(size)))
            yield Node(line, (("+", 2, len(columns) - 1),), columns, size=size, items=lines)

    def _column(self, row: int) -> Column:
        """The numbers of a row."""
        return self._trace.slices.get(row) or self._trace.operands[row]

    def _add_sum(self, line: int, op: str) -> None:
        left, *right = self._trace.operands[line]
        parameter = self._parameter.get(left, -1) if op != "-" else -1
        if parameter >= 0:
            self._parameter[line] = parameter
            if op == "+" and right[0] in self._sums and left not in self._sums:
                left = right.pop()  # a sum that is added as it is
        terms = self._sums.pop(left, None) or []
        if not terms and parameter < 0 and not (op == "dot" and left in self._nothing):
            self._add_term(terms, left)
        if op == "dot":
            terms.append(("+", tuple(map(self._column, right))))
        elif right:
            self._add_term(terms, right[0], op)
        if line in self._sum and self._continues(line):
            self._sums[line] = terms
        else:
            self._close(line, terms, parameter)

    def _continues(self, line: int) -> bool:
        """Whether the sum that alone uses a sum adds to it from the right, or adds it to a gradient."""
        user = self._sum[line]
        op, left = self._trace.ops[user], self._trace.operands[user][0]
        if line in self._parameter:
            return left == line and op != "-"
        return left == line or (op == "+" and left in self._parameter and not self._in_order)

    def _add_term(self, terms: Terms, line: int, sign: str = "+") -> None:
        """Add a line: a product as its factors."""
        if line in self._products:
            a, b = self._products[line]
            terms.append((sign, ((a,), (b,))))
            return
        if line in self._sums_of_rows:
            terms.append((sign, self._sums_of_rows[line]))
            return
        if line in self._sums:
            self._close(line, self._sums.pop(line))
        terms.append((sign, ((self._number(line),),)))

    def _close(self, line: int, terms: Terms, parameter: int = -1) -> None:
        runs: list[Run] = []
        columns: list[Column] = []
        single: tuple[str, int] | None = None  # the sign and the number of factors of the last term, if it has lines
        for sign, factors in terms:
            width, before = len(factors), single
            single = (sign, width) if type(factors[-1]) is tuple and len(factors[-1]) == 1 else None
            if single and single == before:
                columns[-width:] = map(add, columns[-width:], factors)
                runs[-1] = sign, width, runs[-1][2] + 1
            else:
                columns += factors
                runs.append((sign, width, _length(factors[0])))
        self.append(Node(line, tuple(runs), tuple(columns), parameter))

    def _add_call(self, line: int, op: str) -> None:
        operands = self._trace.operands[line]
        if op in CONDITIONS:
            condition = Call(op, tuple([self._operand(o, op in ("and", "or")) for o in operands]))
            self._conditions[line] = condition
            if _size(condition) > LONG_CONDITION:
                self._number(line)
        elif op == "largest":
            self.append(Node(line, ((">", 1, len(operands)),), (tuple(map(self._number, operands)),)))
        elif op == "take_at":
            of = self._trace.slices[operands[1]]
            self.append(Node(line, Call(f"take_at {of.step} {of.size}", (0, 1)), (operands,)))
        else:
            decides = op == "where"
            tree = Call(
                self._special(op, operands),
                tuple([self._operand(o, decides and not i) for i, o in enumerate(operands)]),
            )
            self._append(line, tree)

    def _append(self, line: int, tree: Call) -> None:
        operands: list[int] = []
        form = _form(tree, operands)
        self.append(Node(line, form, (tuple(operands),)))

    def _operand(self, line: int, decides: bool) -> Any:
        """A line as an operand: of what decides, as a condition, and elsewhere as a number."""
        if line in self._conditions and line not in self._numbers:
            return self._conditions[line] if decides else Call("condition", (self._conditions[line],))
        return Call("truth", (line,)) if decides else line

    def _number(self, line: int) -> int:
        """A line as a number: a condition gets a node."""
        if line in self._conditions and line not in self._numbers:
            self._numbers.add(line)
            self._append(line, Call("condition", (self._conditions[line],)))
        return line

    def _special(self, op: str, operands: Sequence[int]) -> str:
        """The operation, or its special case: a power to a constant, a quotient whose divisor may be 0."""
        constant = self._trace.constants.get(operands[-1])
        if op == "/" and not constant:
            return "quotient"
        return f"{op}{constant:.17g}" if op == "**" and constant is not None else op  # 2.0000001 is not 2


@cache
def _plain(op: str, n: int) -> Call:
    """An operation on n numbers."""
    return Call(op, tuple(range(n)))


def _form(part: Any, operands: list[int]) -> Any:
    """A tree whose lines are appended to `operands`, with their positions in their place."""
    if isinstance(part, Call):
        return Call(part.op, tuple([_form(inner, operands) for inner in part.operands]))
    operands.append(part)
    return len(operands) - 1


def _size(value: Any) -> int:
    """How many operands a tree of operations has."""
    return sum(map(_size, value.operands)) if isinstance(value, Call) else 1


def numbers(column: Column) -> Sequence[Any]:
    """The numbers of a column: lines, or their places in an array."""
    return column.places if isinstance(column, Slice) else column


def _length(column: Column) -> int:
    """How many numbers a column has."""
    return column.size if isinstance(column, Slice) else len(column)
