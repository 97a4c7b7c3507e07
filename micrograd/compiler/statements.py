"""Statements: the operations that some results need, as lines of a language yet to choose.

A statement is a template and the lines that fill it. What is used once, by a sum, is written into it, so that a dot
product reads as one; a condition is written where it is used; a gradient that adds up does so in place.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import count
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
        self.accumulator = {id: i for id, (array, i) in trace.leaves.items() if array == "g"}
        uses = dict.fromkeys(results, 2)  # a result must have a name
        user: dict[int, int] = {}
        for id in needed:
            for operand in trace.operands[id]:
                uses[operand] = uses.get(operand, 0) + 1
                user[operand] = id
            if trace.operands[id][0] in self.accumulator:
                self.accumulator[id] = self.accumulator[trace.operands[id][0]]
        starts = {} if sums else self._starts(trace, needed, uses, user)
        inlined: dict[int, tuple[str, tuple[int, ...]]] = {}

        for id in needed:
            op, operands = trace.ops[id], trace.operands[id]
            if operands[-1] in self.accumulator:
                continue  # all has been added there
            of = row(trace, operands[1:]) if op == "take" else None
            if of:
                op, operands = "take_at", (operands[0], self._row("p", of))
            text = ""
            leaves: list[int] = []
            for literal, field in _pieces(templates, _form(trace, op, operands, templates), len(operands)):
                text += literal
                if field is not None:
                    operand = operands[field]
                    inner, inner_leaves = inlined.get(operand, ("{}", (operand,)))
                    is_condition = operand in inlined and trace.ops[operand] in CONDITIONS
                    if is_condition and not _takes_condition(op, field):
                        inner = templates["condition"].replace("{0}", inner)
                    elif _takes_condition(op, field) and not is_condition:
                        inner = templates["truth"].replace("{0}", inner)
                    text += inner  # a sum only as the first operand of another, which reads the same
                    leaves.extend(inner_leaves)
            if of:
                text = _sized(text, of)
            if id in starts:
                text = templates["+"].replace("{0}", "{}").replace("{1}", text)
                leaves.insert(0, starts[id])
            if op in CONDITIONS:  # may have a name as a number, 1 or 0
                stays = len(text) > WIDTH
                text = templates["condition"].replace("{0}", text) if stays else text
            elif uses[id] > 1 or id in graph.gradients or id in self.accumulator or id in starts or len(text) > WIDTH:
                stays = True
            elif op == "*":
                stays = trace.ops[user[id]] not in ("+", "-")
            else:
                into_sum = op in ("+", "-") and trace.ops[user[id]] in ("+", "-") and trace.operands[user[id]][0] == id
                stays = not (sums and into_sum)
            if stays:
                self.append(Statement(id, text, tuple(leaves)))
            else:
                inlined[id] = text, tuple(leaves)
        for of, index, gradient in scatters:
            operands = self._row("g", of), index, gradient
            self.append(Statement(next(self._others), _sized(templates["add_at"], of), operands))

    def _starts(
        self, trace: Trace, needed: Sequence[int], uses: Mapping[int, int], user: Mapping[int, int]
    ) -> dict[int, int]:
        """What to add the products to that sums begin with, so that each statement of a sum is alike.

        That is -0.0, which changes no number; or where the sum will be added to what has added up, that at once.
        """

        def is_product(id: int) -> bool:
            return trace.ops[id] == "*" and uses[id] == 1

        starts = {}
        for id in needed:
            if is_product(id) and trace.ops[user[id]] == "+":
                first, second = trace.operands[user[id]]
                if first == id and is_product(second):
                    starts[id] = self.zero
        for id in needed:
            leaf, *total = trace.operands[id]
            if leaf in self.accumulator and leaf in trace.leaves:
                while trace.ops[total[-1]] == "+" and uses[total[-1]] == 1:
                    total.append(trace.operands[total[-1]][0])
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


_parsed: dict[tuple[int, str, int], list[tuple[str, int | None]]] = {}


def _pieces(templates: Mapping[str, str], op: str, arity: int) -> list[tuple[str, int | None]]:
    """A template as pairs of a literal and the operand that follows it."""
    key = id(templates), op, arity
    if key not in _parsed:
        template = templates.get(op) or f"{op}({', '.join(f'{{{i}}}' for i in range(arity))})"
        if "{*}" in template:
            template = template.replace("{*}", ", ".join(f"{{{i}}}" for i in range(1, arity)))
            template = template.replace("SIZE", str(arity - 1))
        parts = re.split(r"\{(\d+)\}", template)
        fields = [int(part) for part in parts[1::2]]
        _parsed[key] = list(zip(parts[::2], [*fields, None], strict=True))
    return _parsed[key]
