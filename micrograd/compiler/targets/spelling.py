"""Text in any language: files with words to fill in, and expressions, from a table of each operation's spelling."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import islice
from typing import Any

from micrograd.compiler.ir import (
    Accumulate,
    Assign,
    Call,
    Expression,
    Layer,
    Loop,
    Offsets,
    Ref,
    Scatter,
    Step,
    Sum,
    Switch,
    Term,
    general,
    is_variable,
)
from micrograd.compiler.passes.expressions import Node, numbers


def source(name: str, **words: object) -> str:
    """The text of a file beside this one, with its words in capitals replaced."""
    return filled(files(__package__).joinpath(name).read_text(encoding="utf-8").rstrip("\n") + "\n", **words)


def filled(text: str, **words: object) -> str:
    """A text with its words in capitals replaced: one alone on its line by whole lines, perhaps none."""
    return re.sub("(?m)^[A-Z]{4,}\n|[A-Z]{4,}", lambda word: str(words.get(word[0].strip(), word[0])), text)


def parts(name: str) -> dict[str, str]:
    """The parts of a file in C, by the names that comments give them."""
    _, *found = re.split(r"\n/\* PART (\w+) \*/\n", source(name))
    return dict(zip(found[::2], found[1::2], strict=True))


@cache
def spellings(language: str) -> dict[str, str]:
    """The templates for `call` in a language, from its column of spelling.txt, where a dot stands for no template."""
    columns = zip(*[re.split(" {2,}", line) for line in source("spelling.txt").splitlines()], strict=True)
    templates = {language: words for language, *words in columns}
    return {op: word for op, word in zip(templates["operation"], templates[language], strict=True) if word != "."}


def call(value: Any, text: Callable[[Any], str], templates: Mapping[str, str]) -> str:
    """An operation as text: a Call, or an operand that `text` prints.

    A template has `{0}`, `{1}`, ... for the operands, `{*}` for all but the first, SIZE for the number of these, or for
    the last number in the operation's name, and STEP for the one before. A power to a constant has its own template,
    such as "**2", or that of "**"; a "quotient" has that of "/"; others look like calls.
    """
    if not isinstance(value, Call):
        return text(value)
    op, *sizes = value.op.split(" ")
    operands = [call(operand, text, templates) for operand in value.operands]
    like_a_call = f"{op}({', '.join(f'{{{i}}}' for i in range(len(operands)))})"
    template = templates.get(op) or templates.get(general(op)) or like_a_call
    *steps, size = sizes or [str(len(operands) - 1)]
    others = ", ".join(f"{{{i}}}" for i in range(1, len(operands)))
    return template.replace("{*}", others).replace("STEP", "".join(steps)).replace("SIZE", size).format(*operands)


def terms(node: Node, text: Callable[[Any], str], templates: Mapping[str, str]) -> list[str]:
    """The terms of a sum, each with its sign; or anything else as the only term."""
    if isinstance(node.form, Call):
        return ["+ " + call(node.form, lambda position: text(node.operands[position]), templates)]
    runs: Any = node.form
    if runs[0][0] == ">":
        return [f"+ largest([{', '.join(map(text, numbers(node.columns[0])))}])"]
    found: list[str] = []
    columns = iter(node.columns)
    for sign, width, _ in runs:
        for lines in zip(*map(numbers, islice(columns, width)), strict=True):
            factors = list(map(text, lines))
            found.append(f"{sign} {templates['*'].format(*factors) if width > 1 else factors[0]}")
    return found


def total(parts: Sequence[str]) -> str:
    """Terms with their signs as one text."""
    return " ".join(parts).removeprefix("+ ")


def signed(number: str) -> str:
    """A number as an operand: a negative one in parentheses."""
    return f"({number})" if number[0] == "-" else number


class Printer(ABC):
    """Prints the steps of a kernel whose sums are steps, in a language with braces."""

    templates: Mapping[str, str]
    tables: dict[Offsets, str]
    """The names of the tables of offsets in what is printed."""
    table_name = "offsets"

    def lines(self, steps: Sequence[Step], depth: int = 0, declared: Collection[str] = ()) -> Iterator[str]:
        """The lines of steps within so many loops, where these variables are declared."""
        known = {*declared}
        for step in steps:
            if isinstance(step, Loop):
                yield f"{self.loop(step, depth)} {{"
                yield from indented(self.lines(step.body, depth + 1, known))
                yield "}"
            elif isinstance(step, Switch):
                yield from ("{", *indented(self.switch(step.order, len(step.cases))))
                for i, case in enumerate(step.cases):
                    yield f"        case {i}: {{"
                    yield from indented(indented(indented(self.lines(case, depth + 1, known))))
                    yield from ("            break;", "        }")
                yield from ("        }", "    }", "}")
            elif isinstance(step, Scatter):
                row = step.row._replace(array=f"&{step.row.array}")
                operands = map(self.ref, (row, step.position, step.value))
                yield f"{self.templates['add_at'].format(*operands, step.step, step.size)};"
            elif isinstance(step, Layer):
                refs = step.target, step.weights, step.numbers
                places = [self.ref(ref._replace(array=f"&{ref.array}", strides=ref.strides[:depth])) for ref in refs]
                strides = [*step.target.strides[depth:], *step.weights.strides[depth:], step.numbers.strides[-1]]
                yield f"layer({', '.join(map(str, [*places, *strides, step.rows, step.width]))});"
            else:
                is_new = is_variable(step.target) and step.target.array not in known
                known.add(step.target.array)
                yield from self.statement(step, is_new)

    def value(self, value: Expression) -> str:
        """A value as text: a sum of terms, or the largest of all, or an operation."""
        if isinstance(value, Call) and isinstance(row := value.operands[-1], Loop):
            array, base, (*outer, step) = row.body[0]
            value = self.take(value.operands[0], Ref(array, base, tuple(outer)), step, row.rounds)
        if not isinstance(value, Sum):
            return call(value, self.ref, self.templates)
        text = ""
        for term in value.terms:
            assert isinstance(term, Term)
            product = " * ".join(map(self.ref, term.factors))
            if term.sign != ">":
                text += f" {term.sign} {product}"
            else:
                text = self.templates["larger"].format(text, product) if text else product
        return text.strip().removeprefix("+ ")

    def take(self, index: Any, first: Ref, step: int, size: int) -> Call:
        """The number at an index, of numbers that are so far apart."""
        return Call(f"take_at {step} {size}", (index, first._replace(array=f"&{first.array}")))

    def index(self, ref: Ref) -> str:
        """Where in its array a reference is, by the counters i0, i1, ... of the loops around it, and by `tables`."""
        steps = [
            f"{self.table(n)}[i{depth}]" if not isinstance(n, int) else f"{n} * i{depth}" if n != 1 else f"i{depth}"
            for depth, n in enumerate(ref.strides)
            if n
        ]
        return " + ".join([str(ref.base)] * (ref.base != 0 or not steps) + steps).replace("+ -", "- ")

    def table(self, offsets: Offsets) -> str:
        """The name of a table of offsets."""
        return self.tables.setdefault(offsets, f"{self.table_name}{len(self.tables)}")

    def rounds(self, loop: Loop) -> str:
        """The number of rounds of a loop; if it varies, the one for this round of the case."""
        return str(loop.rounds) if isinstance(loop.rounds, int) else f"{self.table(loop.rounds)}[i0]"

    @abstractmethod
    def loop(self, loop: Loop, depth: int) -> str:
        """The head of a loop over i0, i1, ..."""

    @abstractmethod
    def switch(self, order: tuple[int, ...], n_cases: int) -> Iterator[str]:
        """The head of a loop over k with a switch in it; i0 is the round of the case."""

    @abstractmethod
    def statement(self, step: Assign | Accumulate, is_new: bool) -> Iterator[str]:
        """The lines of a step; with `is_new`, it declares its target."""

    @abstractmethod
    def ref(self, ref: Ref) -> str:
        """A reference; for an array that begins with "&", its address."""


def indented(lines: Iterable[str]) -> Iterator[str]:
    """The lines, four columns to the right."""
    return (f"    {line}" for line in lines)
