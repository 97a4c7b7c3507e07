"""A trace as expressions: the first pass of the compiler.

A sum becomes one expression with all of its terms and their factors; so does a dot product, however it was written. A
condition is part of the expressions that it decides.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence, Set
from functools import cache
from itertools import chain, count, repeat, zip_longest
from typing import Any, NamedTuple

from micrograd.compiler.frontend.operations import CONDITIONS
from micrograd.compiler.frontend.rounds import Scan
from micrograd.compiler.frontend.tracer import Addition, Slice, Trace
from micrograd.compiler.ir import Call
from micrograd.compiler.passes.hoist import moved_lines

SUMS = frozenset(("+", "-", "dot"))
ROWS = frozenset(("stack", "combination", "scatter", "item"))
AGAIN = CONDITIONS | {"item"}
"""What a backward loop computes again, as it does rows, instead of reading it."""
REDUCTIONS = {"sum": "+", "max": ">"}
"""The sign of the terms, for each operation that reduces a row to a number."""
LONG_CONDITION = 8  # numbers, above which a condition is computed once, as 1 or 0: copies of nested ones fill 4 GB


Run = tuple[str, int]
"""The sign of like terms, and how many factors each has."""
Column = tuple[int, ...] | Slice
"""Numbers that are read one after the other: the first factors of all terms of a run, or the second ones.

A slice is of an array, or of a computed row, which has a node: then its line stands for the array.
"""


class Node(NamedTuple):
    """The value of a line of the trace, from the numbers in its columns.

    Its form is a Call, whose operands are other Calls and positions in the only column; or for a sum, its runs of
    terms, each with a column for each factor. For the largest of some numbers, the sign of the terms is ">".

    A row is a node of `size` numbers, each the same Call or sum of its own operands. The columns have these operands,
    and a column with a single line is one number for all.
    """

    line: Any  # None for an addition; the row's line and the position for a number of a row without a line of its own
    form: Call | tuple[Run, ...]
    columns: tuple[Column, ...]
    to: Slice | None = None  # the gradient, or gradients, that it is added to
    size: int = 0
    items: tuple[Any, ...] = ()  # the lines of the numbers of a row or loop, unless they are added to gradients
    round: "Round | None" = None  # of a loop, whose columns are its operands, and one with the numbers from outside

    def singly(self) -> "Iterator[Node]":
        """A node for each number that is needed if this is a row; otherwise, the node itself."""
        if not self.size:
            yield self
            return
        each = [numbers(column) if length(column) > 1 else repeat(column[0], self.size) for column in self.columns]
        items = self.items or [(self.line, i) for i in range(self.size)]
        to = [Slice(*place, 1, 1) for place in self.to.places] if self.to else repeat(None)
        for line, place, operands in zip(items, to, zip(*each, strict=True), strict=False):
            if line is not None:
                columns = (operands,) if isinstance(self.form, Call) else tuple([(number,) for number in operands])
                yield Node(line, self.form, columns, place)

    @property
    def read(self) -> Iterator[Any]:
        """All lines that it is computed from, and the arrays."""
        return chain(*[(column.array,) if isinstance(column, Slice) else column for column in self.columns])


class Round(NamedTuple):
    """A round of a loop: its nodes, and the lines of the outputs that something needs, by their positions.

    `kept` are lines of a forward loop that its backward loop needs.
    """

    loop: Scan
    nodes: list[Node]
    outputs: dict[int, int]
    kept: tuple[int, ...]


def expressions(
    trace: Trace, results: Sequence[int], added: Sequence[Addition] = (), *,
    named: Collection[int] = (), given: Set[int] = frozenset(), backward: float = math.inf,
) -> list[Node]:  # fmt: skip
    """The lines of a trace as nodes, each after its operands.

    Lines in `results` and `named` become nodes of their own, lines in `added` are added to gradients, and lines in
    `given` are not computed. From the line `backward` on, every sum that uses a product computes it: if products were
    stored, 32 examples of bodies in a plane would take 1.15 times as long.
    """
    ops, operands = trace.ops, trace.operands
    live = trace.live([*results, *(line for _, line in added)], given)
    loops = {line: trace.loops[line] for line in live if line in trace.loops}
    kept: dict[int, set[int]] = defaultdict(set)
    for loop in loops.values():
        kept[loop.forward].update(_kept(trace, loop))
    sums = [(ops[line], operands[line][: 1 if ops[line] == "dot" else 2]) for line in live if ops[line] in SUMS]
    sums += [("", (line,)) for _, line in added if not trace.size(line)]
    stay = chain(*[operands[line] for line in live if ops[line] not in SUMS or line in trace.maps])
    merger = _Merger(trace, sums, {*results, *named, *stay})
    for line in live:
        if ops[line] == "item":
            merger.items[operands[line][0]][trace.items[line]] = line
    for row in merger.items.keys() - trace.maps.keys():
        merger.add_items(row)
    joined = _repeated(trace, loops, merger.items)
    for line in live:
        op, of = ops[line], operands[line]
        if line in trace.maps:
            if line in loops and line not in joined.values():
                merger.add_loop(line, sorted(kept[line] | kept[loops[line].forward]), backward)
            elif line not in loops:
                merger.add_call(line, op, of)
        elif op in SUMS:
            merger.add_sum(line, op, of)
        elif op in ROWS:
            if merger.items.get(line):
                merger.add_row(line)
        elif (
            op == "*"
            and (line in merger.sum_of or (line >= backward and merger.may_repeat(line)))
            and merger.conditions.keys().isdisjoint(of)
        ):
            merger.factors[line] = of
        else:
            merger.add_call(line, op, of)
    for to, line in added:
        if not trace.size(line):
            merger.add_to(line, to)
        elif ops[line] != "scatter":
            merger.add_row(line, to)
    for line in joined.values():  # what depends on a loop's sums follows the loop that repeats it
        needs, parts = {*merger.items[line].values()}, (list[Node](), list[Node]())
        for node in merger.nodes:
            is_later = not needs.isdisjoint(node.read)
            needs.update((node.line, *node.items) if is_later else ())
            parts[is_later].append(node)
        merger.nodes = [*chain(*parts)]
    return merger.nodes


def scatters(trace: Trace, added: Sequence[Addition]) -> list[tuple[int, int, Slice]]:
    """The numbers to scatter into slices of gradients: the lines of the index and the number, and the slice."""
    each = [(trace.operands[line], place) for place, line in added if trace.ops[line] == "scatter"]
    return sorted((of[0], of[1], place) for of, place in each)  # so they advance evenly


def _repeated(trace: Trace, loops: dict[int, Scan], items: dict[int, dict[int, int]]) -> dict[int, int]:
    """Loops that only add up, by the loops that repeat them. A repeating loop computes both, and gets all their items.

    It must not depend on the other loop's sums. A fit of exponentials to 2,000 points then takes 0.76 times as long.
    """
    found = dict[int, int]()
    for line, loop in loops.items():
        of = loop.forward
        may_join = loop.is_parallel and of in loops and of not in found.values()
        if may_join and of not in trace.reached(trace.operands[line]) and all(i in loops[of].added for i in items[of]):
            items[line] |= items[of]
            found[line] = of
    return found


def _kept(trace: Trace, loop: Scan) -> list[int]:
    """The lines of a forward loop that its backward loop reads; it computes conditions, rows and items again."""
    if not loop.is_backward:
        return []
    forward = trace.loops[loop.forward]
    varying = trace.dependent((*forward.state, *forward.xs), loop.forward)

    def is_kept(line: int) -> bool:
        is_computed = line in varying and bool(trace.operands[line])
        return is_computed and trace.ops[line] not in AGAIN and not trace.size(line)

    return [*filter(is_kept, trace.reached(loop.ends, is_kept))]


def _after(trace: Trace, loop: Scan, sums: list[Addition], needed: list[int]) -> tuple[dict[Slice, int], list[int]]:
    """The sums that can be computed after a loop, each with its term; and the lines that the loop adds up instead.

    If all rounds multiply lines by the same factors to get a term, its sum is the same expression of the sums of these
    lines. Terms that a round itself needs stay in the loop, as do all terms if they need more lines than there are
    sums. The gradient of gmm, written whole, takes 0.84 of the time.
    """
    forward = trace.loops[loop.forward] if loop.forward >= 0 else loop
    varying = trace.dependent([*loop.state, *loop.xs, *forward.state, *forward.xs])
    stay = {*needed, *[line for _, line in sums if trace.size(line)]}
    lines = [*filter(varying.__contains__, trace.live([*stay, *[line for _, line in sums]]))]
    moved, added = moved_lines(trace, lines, stay, {*chain(*map(trace.operands.__getitem__, lines))} - varying)
    terms = {to: line for to, line in sums if line in moved and not trace.size(line)}
    are_numbers = not any(trace.size(line) or trace.ops[line] in CONDITIONS for line in added)
    return (terms, added) if are_numbers and len(added) <= len(terms) else ({}, [])


Form = Call | None
"""An operation on the positions of lines; None for a line itself."""
Terms = list[tuple[str, Any]]
"""The terms of a sum so far, run by run: their sign, and a list of lines for each factor, or whole columns."""


class _Merger:
    """The nodes so far, and the lines that wait to become part of another line's node.

    `sums` has the operation and the operands of each sum, without the rows of a dot; for a number that is added to a
    gradient, "" and the number. The lines in `stay` are needed outside sums.
    """

    def __init__(self, trace: Trace, sums: Sequence[tuple[str, Sequence[int]]], stay: set[int]) -> None:
        self.nodes: list[Node] = []
        self.items: dict[int, dict[int, int]] = defaultdict(dict)  # of each row, the lines of its numbers
        self.conditions: dict[int, tuple[Call, tuple[int, ...]]] = {}  # without nodes: their forms and lines
        self.factors: dict[int, tuple[Any, ...]] = {}  # of terms that are products: lines, or columns to add up
        uses = Counter(chain(*[of for _, of in sums]))
        self.sum_of = {line: (op, of[0]) for op, of in sums for line in of if uses[line] == 1 and line not in stay}
        """For a line that only one sum uses: the sum's operation, "" for a gradient, and the sum's first operand."""
        self._sums: dict[int, Terms] = {}  # the sums that another sum continues
        self._trace, self._stay = trace, stay

    def may_repeat(self, line: int) -> bool:
        """Whether only sums use a product: then each can have it as a term."""
        return line not in self._stay and self._trace.constants.keys().isdisjoint(self._trace.operands[line])

    def _special(self, op: str, operands: Sequence[int]) -> str:
        """The operation, or its special case: a power to a constant, a quotient whose divisor may be 0, and a slice
        with its step and size.
        """
        if op == "take_at":
            of = self._trace.slices[operands[1]]
            return f"take_at {of.step} {of.size}"
        if op == "/" and not self._trace.constants.get(operands[1]):
            return "quotient"
        if op == "**" and (constant := self._trace.constants.get(operands[1])) is not None:
            return f"**{constant:.17g}"  # all digits: 2.0000001 is not 2
        return op

    def add_row(self, line: int, to: Slice | None = None) -> None:
        """Add the node of a combination, for its items or for an addition to a slice."""
        of, constants, n = self._trace.operands[line], self._trace.constants, self._trace.size(line)
        pairs = zip(of[::2], of[1::2], strict=True)
        terms = [(row,) if constants.get(number) == 1 else (number, row) for number, row in pairs]
        form, columns = tuple([("+", len(term)) for term in terms]), tuple(map(self._column, chain(*terms)))
        lines = () if to else tuple(map(self.items[line].get, range(n)))
        self.nodes.append(Node(None if to else line, form, columns, to, n, lines))

    def add_items(self, row: int) -> None:
        """Turn the items that are terms of a sum into products, and remove them from the row's items."""
        items = self.items[row]
        terms = [i for i, line in items.items() if self.sum_of.get(line, "-")[0] in ("", "+")]
        of = self._trace.operands[row] if terms else ()
        numbers, rows = of[::2], [*map(self._column, of[1::2])]
        slices: list[Slice] = [row for row in rows if isinstance(row, Slice)]
        if not slices:
            for i in terms:
                column: Any = tuple([row[i] for row in rows])
                self.factors[items.pop(i)] = (numbers, column) if len(column) > 1 else (*numbers, *column)
            return
        array, base, inner, _ = slices[0]
        step = (slices[-1].base - base) // max(len(rows) - 1, 1) or 1
        if slices == [Slice(array, base + k * step, inner, slices[0].size) for k in range(len(rows))]:
            for i in terms:
                self.factors[items.pop(i)] = numbers, Slice(array, base + i * inner, step, len(rows))

    def add_loop(self, line: int, kept: Sequence[int], backward: float) -> None:
        """Add the node of a loop. A forward loop computes the `kept` lines, and its backward loop reads them."""
        trace, loop, items = self._trace, self._trace.loops[line], self.items[line]
        computed, given = ((), kept) if loop.is_backward else (kept, ())
        n_rows = (not loop.is_parallel) + len(loop.xs) + loop.is_backward
        rows, outside = trace.operands[line][:n_rows], trace.operands[line][n_rows:]
        columns = (*map(self._column, rows), tuple(map(self._number, outside)))
        outputs = {j: end for j, end in enumerate(loop.outputs) if not items.keys().isdisjoint(loop.of_output(j))}
        needed = [of for of in loop.sums if any(loop.added[i] in items for i in of[0].indices)]
        sums = [(to, each) for to, each in needed if each != trace.nothing]
        results = [*loop.following, *outputs.values(), *computed]
        terms, added = _after(trace, loop, sums, results) if sums else ({}, [])
        sums = [*[each for each in sums if each[0] not in terms], *zip(terms, added, strict=False)]
        nodes = expressions(trace, [*results, *added], sums, given={*outside, *given}, backward=backward)
        lines = [*map(items.get, range(loop.size))]
        after = expressions(trace, [*terms.values()], given={*outside, *added})
        for to, instead in zip_longest(terms, added):  # in place of a sum, the loop adds up a line, or nothing
            at = loop.added[to.base]
            after.append(Node(lines[at], (("+", 1),), ((terms[to],),)))
            lines[at] = instead
        body = Round(loop, nodes, outputs, tuple(kept))
        self.nodes.append(Node(line, Call(f"scan {line}", ()), columns, items=tuple(lines), round=body))
        self.nodes += after

    def _column(self, row: int) -> Column:
        """The numbers of a row; or for a number, a column with this number alone."""
        trace = self._trace
        if row in trace.maps:
            return Slice(self._number(row), 0, 1, trace.maps[row])
        return trace.slices.get(row) or (trace.operands[row] if trace.ops[row] == "stack" else (row,))

    def add_sum(self, line: int, op: str, operands: Sequence[int]) -> None:
        """Add a sum, a difference or a dot: as a node, unless another sum continues it."""
        left, *right = operands
        terms = [] if left == self._trace.nothing else self._begun(left)
        if op == "dot":
            terms.append(("+", tuple(map(self._column, right))))
        else:
            self._add_term(terms, right[0], op)
        if line in self.sum_of and self.sum_of[line][1] == line:
            self._sums[line] = terms
        else:
            self._close(line, terms)

    def add_to(self, line: int, to: Slice) -> None:
        """Add a number to a gradient."""
        self._close(None, self._begun(line), to)

    def _begun(self, line: int) -> Terms:
        """The first terms of a sum: the terms of a line that is a sum, or else the line itself."""
        terms = self._sums.pop(line, None) or []
        if not terms:
            self._add_term(terms, line)
        return terms

    def _add_term(self, terms: Terms, line: int, sign: str = "+") -> None:
        """Add a line: a product as its factors."""
        factors = self.factors.get(line) or (self._number(line),)
        if type(factors[0]) is not int:
            terms.append((sign, factors))
            return
        before, columns = terms[-1] if terms else ("", ())
        if before == sign and type(columns) is list and len(columns) == len(factors):
            for column, factor in zip(columns, factors, strict=True):
                column.append(factor)
        else:
            terms.append((sign, [[factor] for factor in factors]))

    def _close(self, line: int | None, terms: Terms, to: Slice | None = None) -> None:
        runs = tuple([(sign, len(columns)) for sign, columns in terms])
        found = [tuple(column) if type(column) is list else column for _, columns in terms for column in columns]
        self.nodes.append(Node(line, runs, tuple(found), to))

    def add_call(self, line: int, op: str, operands: tuple[int, ...]) -> None:
        """Add any other operation: a condition becomes part of what it decides, unless it is long."""
        if op in REDUCTIONS:
            self._close(line, [(REDUCTIONS[op], (self._column(operands[0]),))])
            return
        n_conditions = len(operands) if op in ("and", "or") else op == "where"
        forms: tuple[Form, ...] = (None,) * len(operands)
        read = operands
        if n_conditions or not self.conditions.keys().isdisjoint(operands):
            parts = [self._operand(of, decides=i < n_conditions) for i, of in enumerate(operands)]
            forms, read = tuple([form for form, _ in parts]), tuple([each for _, of in parts for each in of])
        form = _form(self._special(op, operands), forms)
        if op not in CONDITIONS:
            self._add_node(line, form, read)
            return
        self.conditions[line] = form, read
        if len(read) > LONG_CONDITION:
            self._number(line)

    def _add_node(self, line: int, form: Call, operands: tuple[int, ...]) -> None:
        """Add a node for an operation on lines."""
        if size := self._trace.maps.get(line, 0):
            found = self.items.get(line)
            items = tuple([found.get(i, (line, i)) for i in range(size)]) if found else ()
            self.nodes.append(Node(line, form, tuple(map(self._column, operands)), size=size, items=items))
        else:
            self.nodes.append(Node(line, form, (operands,)))

    def _operand(self, line: int, decides: bool) -> tuple[Form, tuple[int, ...]]:
        """The form of an operand and its lines: a condition if it decides, otherwise a number."""
        if condition := self.conditions.get(line):
            form, read = condition
            return (form if decides else Call("condition", (form,))), read
        return Call("truth", (0,)) if decides else None, (line,)

    def _number(self, line: int) -> int:
        """A line as a number: a condition gets a node."""
        if condition := self.conditions.pop(line, None):
            form, read = condition
            self._add_node(line, Call("condition", (form,)), read)
        return line


@cache
def _form(op: str, operands: tuple[Form, ...]) -> Call:
    """The form of an operation, from the forms of its operands: it reads their lines one after the other."""
    positions = count()

    def placed(form: Any) -> Any:
        return Call(form.op, tuple(map(placed, form.operands))) if type(form) is Call else next(positions)

    return Call(op, tuple(map(placed, operands)))


def numbers(column: Column) -> Sequence[Any]:
    """The numbers of a column: their lines, or their places in an array or a row."""
    return column.places if isinstance(column, Slice) else column


def length(column: Column) -> int:
    """How many numbers a column has."""
    return column.size if isinstance(column, Slice) else len(column)
