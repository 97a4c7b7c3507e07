"""A trace as expressions: the first pass of the compiler.

A sum becomes one expression with all of its terms, products included, so that a dot product is one, however it was
written. A condition is part of the expressions that it decides.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from functools import cache
from itertools import chain, groupby
from typing import Any, NamedTuple

from micrograd.compiler.frontend.products import Outer, row
from micrograd.compiler.frontend.tracer import CONDITIONS, OPERATIONS, Trace
from micrograd.compiler.ir import Call, Ref

SUMS = frozenset(("+", "-", "dot"))
PLAIN = OPERATIONS.keys() - SUMS - CONDITIONS - {"where", "take", "largest"}
"""Operations that become a Call whose operands are just numbers."""
LONG_CONDITION = 8  # numbers compared, above which a condition is computed once, as 1 or 0, whatever uses it


Run = tuple[str, int, int]
"""The sign of alike terms, how many factors each has, and how many terms there are."""
Column = tuple[int, ...]
"""Lines: the first factors of all terms of a run, or the second ones; or all operands of a Call."""


class Node(NamedTuple):
    """The value of a line of the trace, from the lines in its columns.

    Its form is a Call, whose operands are other Calls and positions in the only column; or for a sum, its runs of
    terms, each with a column for each factor. The largest of some numbers has terms with the sign ">". If the form is
    an Outer, the node is what it adds to the gradients of all its parameters, and its line is beyond the trace's.
    """

    line: int
    form: Call | tuple[Run, ...] | Outer
    columns: tuple[Column, ...]
    parameter: int = -1  # the index of the one (for an Outer, the first) whose gradient it is added to; -1 for none

    @property
    def operands(self) -> Column:
        """All lines that it is computed from."""
        return tuple(chain(*self.columns))


Terms = list[tuple[str, tuple[Column, ...]]]
"""The terms of a sum so far, some at a time: their sign, and a column for each of their factors."""


class Expressions(list[Node]):
    """The nodes that some results need, each after its operands.

    The lines in `results`, `named` and `outers` are nodes of their own. What is added to a gradient is added `in_order`
    as the engine does it, a part at a time; else the parts are added up first.

    `live` are the operations among the lines that the results need; `rows` has the first of the parameters that a
    negative line stands for, an operand of `take_at`.
    """

    def __init__(
        self, trace: Trace, results: Sequence[int], *, named: Collection[int] = (), in_order: bool = False,
        outers: Sequence[Outer] = (),
    ) -> None:  # fmt: skip
        super().__init__()
        columns = {column: column for outer in outers for column in (outer.gradients, *outer.others)}
        self.live = trace.live([*results, *chain(*columns)])
        self.rows: dict[int, Ref] = {}
        self._trace = trace
        self._in_order = in_order
        ops, operands = trace.ops, trace.operands
        self._factors: dict[int, tuple[Column, ...]] = {}  # of each dot: equal columns are one object
        besides_factors = []  # for each live line, its operands without those
        for line in self.live:
            of = operands[line]
            if ops[line] == "dot":
                self._factors[line] = tuple([columns.setdefault(each, each) for each in (of[1::2], of[2::2])])
                of = of[:1]
            besides_factors.append(of)
        uses = Counter(chain.from_iterable(besides_factors))
        once = {line for line in self.live if uses[line] == 1}.difference(results, named, *columns)  # these stay nodes
        self._sum = [0] * len(ops)  # the line of the sum or difference that alone uses a line, or 0
        for line, of in zip(self.live, besides_factors, strict=True):
            if ops[line] in SUMS and not once.isdisjoint(of):
                for operand in once.intersection(of):
                    self._sum[operand] = line
        self._nothing = {line for line, number in trace.constants.items() if repr(number) == "-0.0"}  # starts of sums
        conditions = {line for line in self.live if ops[line] in CONDITIONS}
        self._with_conditions = {column for column in columns if not conditions.isdisjoint(column)}
        self._parameter = {line: i for line, (array, i) in trace.leaves.items() if array == "g"}
        self._conditions: dict[int, Call] = {}  # over lines
        self._numbers: set[int] = set()  # conditions that have a node
        self._products: dict[int, tuple[int, ...]] = {}
        self._sums: dict[int, Terms] = {}
        for line in self.live:
            op, of = ops[line], operands[line]
            if op == "*" and self._is_term(line) and self._conditions.keys().isdisjoint(of):
                self._products[line] = of
            elif op in SUMS:
                self._add_sum(line, op)
            elif op in PLAIN and self._conditions.keys().isdisjoint(of):
                self.append(Node(line, _plain(self._special(op, of), len(of)), (of,)))
            else:
                self._add_call(line, op)
        for line, outer in enumerate(outers, len(ops)):
            factors = outer.gradients, *outer.others
            self.append(Node(line, outer, tuple(map(self._as_numbers, factors)), outer.row.base))

    def _is_term(self, line: int) -> bool:
        """Whether a line is used once, as a term of a sum."""
        user = self._sum[line]
        return user > 0 and (self._trace.ops[user] != "dot" or self._trace.operands[user][0] == line)

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
            terms.append(("+", self._dot_factors(line)))
        elif right:
            self._add_term(terms, right[0], op)
        if self._sum[line] and self._continues(line):
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

    def _dot_factors(self, line: int) -> tuple[Column, ...]:
        """The factors of a dot, as two columns of numbers."""
        factors = self._factors[line]
        return tuple(map(self._as_numbers, factors)) if self._with_conditions else factors

    def _as_numbers(self, column: Column) -> Column:
        """The column: each condition in it gets a node, as a number."""
        if column in self._with_conditions:
            for line in column:
                self._number(line)
        return column

    def _add_term(self, terms: Terms, line: int, sign: str = "+") -> None:
        """Add a line: a product as its factors."""
        if line in self._products:
            a, b = self._products.pop(line)
            terms.append((sign, ((a,), (b,))))
            return
        if line in self._sums:
            self._close(line, self._sums.pop(line))
        terms.append((sign, ((self._number(line),),)))

    def _close(self, line: int, terms: Terms, parameter: int = -1) -> None:
        if len(terms) == 1:  # the common case
            sign, factors = terms[0]
            self.append(Node(line, ((sign, len(factors), len(factors[0])),), factors, parameter))
            return
        runs: list[Run] = []
        columns: list[Column] = []
        for (sign, width), alike in groupby(terms, lambda term: (term[0], len(term[1]))):
            first, *others = [factors for _, factors in alike]
            columns += [tuple(chain(*column)) for column in zip(first, *others, strict=True)] if others else first
            runs.append((sign, width, len(columns[-1])))
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
        elif op == "take" and (of := row(self._trace, operands[1:])):
            start = -1 - len(self.rows)
            self.rows[start] = Ref("&p", of.base)
            self.append(Node(line, Call(f"take_at {of.step} {of.size}", (0, 1)), ((self._number(operands[0]), start),)))
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
    """A tree with positions in `operands`, which it fills, in place of lines."""
    if isinstance(part, Call):
        return Call(part.op, tuple([_form(inner, operands) for inner in part.operands]))
    operands.append(part)
    return len(operands) - 1


def _size(value: Any) -> int:
    """How many operands a tree of operations has."""
    return sum(map(_size, value.operands)) if isinstance(value, Call) else 1
