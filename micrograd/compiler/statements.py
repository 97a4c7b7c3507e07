"""Statements: the operations that some results need, as lines of a language yet to choose.

A statement is a template and the lines that fill it. What is used once, by a sum, is written into it, so that a dot
product reads as one; a condition is written where it is used; a gradient that adds up does so in place.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, count
from typing import NamedTuple, Protocol

from micrograd.compiler.scatter import Row, Scatter, row
from micrograd.compiler.trace import CONDITIONS, Trace

WIDTH = 60  # characters of a template, after which a long sum is broken up


class Traced(Protocol):
    """What statements are made of: a trace, and the lines of the gradients that are a node's, by their lines."""

    trace: Trace
    gradients: dict[int, int]


class Statement(NamedTuple):
    """Line `id` is `template`, with the lines `operands` in place of its `{}`. A negative line is no number."""

    id: int
    template: str
    operands: tuple[int, ...]


class Statements(list[Statement]):
    """The statements for `results`, in order.

    Parameters
    ----------
    templates
        What each operation looks like, with `{0}`, `{1}`, ... for its operands, `{*}` for all but the first; others
        look like calls.
    sums
        Whether sums are written into sums. Else each statement of a sum of products adds one of them.

    Attributes
    ----------
    accumulator
        The number of the parameter whose gradient a line holds, for the lines where a gradient adds up.
    zero
        The negative line that stands for -0.0.
    rows
        The array and the row of it that a negative line stands for.
    operations
        All that are carried out.
    scattered
        The numbers of the parameters whose gradients are added to at an index.
    """

    def __init__(
        self,
        graph: Traced,
        results: Sequence[int],
        templates: Mapping[str, str],
        *,
        sums: bool,
        scatters: Sequence[Scatter] = (),
    ) -> None:
        super().__init__()
        trace = graph.trace
        self.rows: dict[int, tuple[str, Row]] = {}
        self.scattered = {parameter for scatter in scatters for parameter in scatter.row.parameters()}
        self._others = count(-1, -1)
        self.zero = next(self._others)
        results = [*results, *(line for scatter in scatters for line in scatter[1:])]
        needed = trace.needed(results)
        ops, lines = trace.ops, trace.operands
        accumulator = self.accumulator = {id: i for id, (array, i) in trace.leaves.items() if array == "g"}
        self.operations = {ops[id] for id in needed}
        uses = Counter(chain.from_iterable([lines[id] for id in needed]))
        uses.update(dict.fromkeys(results, 2))  # a result must have a name
        user = {operand: id for id in needed for operand in lines[id]}
        for id in needed:
            if lines[id][0] in accumulator:
                accumulator[id] = accumulator[lines[id][0]]
        starts = {} if sums else self._starts(trace, needed, uses, user)
        named = {id for id in needed if uses[id] > 1}.union(graph.gradients, accumulator, starts)
        texts: dict[int, str] = {}  # of what is written where it is used
        filling: dict[int, tuple[int, ...]] = {}  # what fills these
        write = _Written(templates)

        for id in needed:
            op, operands = ops[id], lines[id]
            if operands[-1] in accumulator:
                continue  # all has been added there
            of = row(trace, operands[1:]) if op == "take" else None
            if of:
                op, operands = "take_at", (operands[0], self._row("p", of))
            form = _form(trace, op, operands, templates) if op == "**" else op
            if len(operands) == 2:  # most: this is half as long
                inner: tuple[str, ...] = texts.get(operands[0], "{}"), texts.get(operands[1], "{}")
            else:
                inner = tuple([texts.get(operand, "{}") for operand in operands])
            text, fields = write[form, inner]
            leaves: list[int] = []
            for field in fields:
                operand = operands[field]
                if operand in filling:
                    leaves += filling[operand]
                else:
                    leaves.append(operand)
            if of:
                text = _sized(text, of)
            if id in starts:
                text = templates["+"].replace("{0}", "{}").replace("{1}", text)
                leaves.insert(0, starts[id])
            if op in CONDITIONS:  # may have a name as a number, 1 or 0
                stays = len(text) > WIDTH
                text = templates["condition"].replace("{0}", text) if stays else text
            elif id in named or len(text) > WIDTH:
                stays = True
            elif op == "*":
                stays = ops[user[id]] not in ("+", "-")
            else:
                into_sum = op in ("+", "-") and ops[user[id]] in ("+", "-") and lines[user[id]][0] == id
                stays = not (sums and into_sum)
            if stays:
                self.append(Statement(id, text, tuple(leaves)))
            else:
                texts[id], filling[id] = text, tuple(leaves)
        for of, index, gradient in scatters:
            operands = self._row("g", of), index, gradient
            self.append(Statement(next(self._others), _sized(templates["add_at"], of), operands))

    def _starts(
        self, trace: Trace, needed: Sequence[int], uses: Mapping[int, int], user: Mapping[int, int]
    ) -> dict[int, int]:
        """What to add the products to that sums begin with, so that each statement of a sum is alike.

        That is -0.0, which changes no number; or where the sum will be added to what has added up, that at once.
        """
        ops, lines = trace.ops, trace.operands
        products = {id for id in needed if ops[id] == "*" and uses[id] == 1}
        starts = {}
        for id in products:
            if ops[user[id]] == "+":
                first, second = lines[user[id]]
                if first == id and second in products:
                    starts[id] = self.zero
        for id in needed:
            leaf, *total = lines[id]
            if leaf in self.accumulator and leaf in trace.leaves:
                while ops[total[-1]] == "+" and uses[total[-1]] == 1:
                    total.append(lines[total[-1]][0])
                if total[-1] in starts:
                    starts[total[-1]] = leaf
                    self.accumulator |= dict.fromkeys(total, self.accumulator[leaf])
        return starts

    def _row(self, array: str, of: Row) -> int:
        """A line that stands for a row of an array."""
        line = next(self._others)
        self.rows[line] = array, of
        return line


def _form(trace: Trace, op: str, operands: tuple[int, ...], templates: Mapping[str, str]) -> str:
    """The operation, or its form for the constant exponent where there is a template for that: `**2`."""
    # All digits: 2.0000001 is not 2.
    special = f"{op}{trace.constants[operands[1]]:.17g}" if op == "**" and operands[1] in trace.constants else op
    return special if special in templates else op


def _sized(text: str, of: Row) -> str:
    """A template with what tells the elements of a row from its first."""
    return text.replace("STEP", str(of.step)).replace("SIZE", str(of.size))


def _takes_condition(op: str, position: int) -> bool:
    """Whether the operand there is a condition; elsewhere a condition stands for 0 or 1."""
    return op in ("and", "or") or (op == "where" and position == 0)


class _Written(dict[tuple[str, tuple[str, ...]], tuple[str, tuple[int, ...]]]):
    """By an operation and the templates of its operands, `{}` for lines: its template, and which operands fill it."""

    def __init__(self, templates: Mapping[str, str]) -> None:
        super().__init__()
        self._templates = templates
        self._conditions: set[str] = set()

    def __missing__(self, key: tuple[str, tuple[str, ...]]) -> tuple[str, tuple[int, ...]]:
        op, inner = key
        text = ""
        fields = []
        for literal, field in self._pieces(op, len(inner)):
            text += literal
            if field is not None:
                operand = inner[field]
                is_condition = operand in self._conditions
                if is_condition and not _takes_condition(op, field):
                    operand = self._templates["condition"].replace("{0}", operand)
                elif _takes_condition(op, field) and not is_condition:
                    operand = self._templates["truth"].replace("{0}", operand)
                text += operand  # a sum only as the first operand of another, which reads the same
                fields.append(field)
        if op in CONDITIONS:
            self._conditions.add(text)
        self[key] = text, tuple(fields)
        return self[key]

    def _pieces(self, op: str, arity: int) -> Iterator[tuple[str, int | None]]:
        """A template as pairs of a literal and the operand that follows it."""
        template = self._templates.get(op) or f"{op}({', '.join(f'{{{i}}}' for i in range(arity))})"
        if "{*}" in template:
            template = template.replace("{*}", ", ".join(f"{{{i}}}" for i in range(1, arity)))
            template = template.replace("SIZE", str(arity - 1))
        parts = re.split(r"\{(\d+)\}", template)
        return zip(parts[::2], [*map(int, parts[1::2]), None], strict=True)
