"""Text in any language: files with words to fill in, and expressions, from a table of each operation's spelling."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate, chain, islice
from pathlib import Path
from types import MappingProxyType
from typing import Any

from micrograd.compiler.ir import (
    Accumulate,
    Assign,
    Call,
    Expression,
    Kernel,
    Loop,
    Offsets,
    Ref,
    Scatter,
    Skip,
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
    text = Path(__file__).with_name(name).read_text(encoding="utf-8")  # importing importlib.resources takes 4 ms
    return filled(text.rstrip("\n") + "\n", **words)


def filled(text: str, **words: object) -> str:
    """A text with its words in capitals replaced: one alone on its line by whole lines, perhaps none."""
    return re.sub("(?m)^[A-Z]{4,}\n|[A-Z]{4,}", lambda word: str(words.get(word[0].strip(), word[0])), text)


def parts(name: str) -> dict[str, str]:
    """The parts of a file in C or JavaScript, by the names that comments give them."""
    _, *found = re.split(r"\n(?:/\*|//) PART (\w+)(?: \*/)?\n", source(name))
    return dict(zip(found[::2], found[1::2], strict=True))


def used(known: Mapping[str, str], code: str) -> str:
    """The texts of the functions and tables that code uses, directly or through others."""
    found = set[str]()
    while more := (known.keys() & re.findall(r"\b(\w+)[(\[]", code)) - found:
        found |= more
        code = "".join(known[name] for name in more)
    return "".join(text for name, text in known.items() if name in found)


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
        operands = numbers(node.columns[0])
        return ["+ " + call(node.form, lambda position: text(operands[position]), templates)]
    runs: Any = node.form
    if runs[0][0] == ">":
        return [f"+ largest([{', '.join(map(text, numbers(node.columns[0])))}])"]
    found: list[str] = []
    columns = iter(node.columns)
    for sign, width in runs:
        for lines in zip(*map(numbers, islice(columns, width)), strict=True):
            factors = list(map(text, lines))
            found.append(f"{sign} {templates['*'].format(*factors) if width > 1 else factors[0]}")
    return found


def total(parts: Sequence[str]) -> str:
    """Terms with their signs as one text."""
    return " ".join(parts).removeprefix("+ ")


def assignments(
    start: str, nodes: Sequence[Node], name: Callable[[int], str], templates: Mapping[str, str]
) -> list[str]:
    """Statements that compute nodes, one each; `start` comes before the name, such as "const"."""
    return [f"{start} t{node.line} = {total(terms(node, name, templates))};" for node in nodes]


def signed(number: str) -> str:
    """A number as an operand: a negative one in parentheses."""
    return f"({number})" if number[0] == "-" else number


class Printer(ABC):
    """Prints the `parts` of a kernel, whose sums are steps, as functions in a language with braces."""

    templates: Mapping[str, str]
    parts: Sequence[Kernel]
    constants: Sequence[float]
    parameters: Mapping[str, str]
    """The parameters of each function, and how it declares them."""
    literal: Callable[[float], str]
    function, counter, zeros = "static void", "long", "long rounds[{}] = {{0}};"
    """How functions, counters of loops, and zeros for the rounds of each case of a switch are declared."""
    address = "&{}[{}]"

    def source(self, name: str, others: Mapping[str, str] = MappingProxyType({})) -> str:
        """Functions that compute one example, the last called `name`, after the arrays of numbers that they read.

        Then `middles` has those of these functions and of the texts in `others`.
        """
        self.name, self._tables = name, dict[Offsets, str]()
        names = [f"{name}_{i}" for i in range(len(self.parts))] if len(self.parts) > 1 else [name]
        bodies = [list(self.lines(part)) for part in self.parts]
        if len(names) > 1:
            bodies.append([f"{part}({', '.join(self.parameters)});" for part in names])
            names.append(name)
        self.middles = middles({**dict(zip(names, map("".join, bodies), strict=True)), **others})
        constants = [self.array(f"{name}_c", list(map(float, self.constants)))] if self.constants else []
        tables = [self.array(table, offsets) for offsets, table in self._tables.items()]
        return "".join([*constants, *tables, *map(self.function_of, names, bodies)])

    def lines(self, steps: Sequence[Step], depth: int = 0, declared: Collection[str] = ()) -> Iterator[str]:
        """The lines of steps inside `depth` loops, where the variables in `declared` are known."""
        known = {*declared}
        for step in steps:
            if isinstance(step, Loop) and step.layer:
                yield self.layer(step.rounds, step.body[0], depth)
            elif isinstance(step, Loop):
                yield from block(self.loop(step, depth), self.lines(step.body, depth + 1, known))
            elif isinstance(step, Switch):
                case, cases = f"{self.table(step.order)}[k]", list[str]()
                for i, body in enumerate(step.cases):
                    cases += block(f"case {i}:", [*self.lines(body, depth + 1, known), "break;"])
                some_repeat = len(step.order) > len(step.cases)
                zeros = [self.zeros.format(len(step.cases))] * some_repeat
                count = [f"{self.counter} i0 = rounds[{case}]++;"] * some_repeat
                rounds = block(self.head("k", len(step.order)), [*count, *block(f"switch ({case})", cases)])
                yield from block("", [*zeros, *rounds])
            elif isinstance(step, Skip):
                yield f"if ({self.condition(step.number)}) continue;"
            elif isinstance(step, Scatter):
                array, base, (*outer, stride) = step.row
                operands = map(self.ref, (Ref(f"&{array}", base, tuple(outer)), step.position, step.value))
                yield f"{self.templates['add_at'].format(*operands, stride, step.size)};"
            else:
                is_new = is_variable(step.target) and step.target.array not in known
                known.add(step.target.array)
                yield from self.statement(step, is_new)

    def layer(self, rows: int, step: Any, depth: int) -> str:
        """The call that computes a layer: this step, for each row."""
        ((width, ((_, factors),), *_),) = step.value.terms
        refs = step.target, *factors
        places = [self.ref(ref._replace(array=f"&{ref.array}", strides=ref.strides[:depth])) for ref in refs]
        strides = [*chain(*[ref.strides[depth:] for ref in refs[:2]]), factors[1].strides[-1]]
        return f"layer({', '.join(map(str, [*places, *strides, rows, self.index(width)]))});"

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
        """The number at an index, among `size` numbers that are `step` apart."""
        return Call(f"take_at {step} {size}", (index, first._replace(array=f"&{first.array}")))

    def index(self, ref: Ref | int) -> str:
        """A number, or the index of a reference by the counters i0, i1, ... of the loops around it and by `tables`."""
        if isinstance(ref, int):
            return str(ref)
        steps = [
            f"{self.table(n)}[i{depth}]" if not isinstance(n, int) else f"{n} * i{depth}" if n != 1 else f"i{depth}"
            for depth, n in enumerate(ref.strides)
            if n
        ]
        return " + ".join([str(ref.base)] * (ref.base != 0 or not steps) + steps).replace("+ -", "- ")

    def table(self, offsets: Offsets) -> str:
        """The name of a table of offsets."""
        return self._tables.setdefault(offsets, f"{self.name}_offsets{len(self._tables)}")

    def loop(self, loop: Loop, depth: int) -> str:
        """The head of a loop over i0, i1, ...; the loops around it may change how many rounds it has."""
        return self.head(f"i{depth}", self.index(loop.rounds))

    def head(self, name: str, rounds: object) -> str:
        """The head of a loop that counts its rounds."""
        return f"for ({self.counter} {name} = 0; {name} < {rounds}; {name}++)"

    def function_of(self, name: str, lines: Iterable[str]) -> str:
        """A function of these lines."""
        return "\n".join([*block(self.declaration(name), lines), "\n"])

    def declaration(self, name: str) -> str:
        """The head of a function."""
        return f"{self.function} {name}({', '.join(self.parameters.values())})"

    @abstractmethod
    def array(self, name: str, numbers: Sequence[float]) -> str:
        """The declaration of an array of constants, or of offsets, which are ints."""

    @abstractmethod
    def statement(self, step: Assign | Accumulate, is_new: bool) -> Iterator[str]:
        """The lines of a step; with `is_new`, it declares its target."""

    def condition(self, ref: Ref) -> str:
        """Whether a number is not 0."""
        return f"{self.ref(ref)} != 0"

    def ref(self, ref: Ref) -> str:
        """A reference; its address if the array begins with "&", and its index if it has no array."""
        array = ref.array.removeprefix("&")
        if not array:
            return self.index(ref)
        if array[0] == "=":
            return self.literal(float(array[1:]))
        if is_variable(ref) or array == "seed":
            return array
        element = "{}[{}]" if array == ref.array else self.address
        return element.format(f"{self.name}_c" if array == "c" else array, self.index(ref))


def middles(texts: Mapping[str, str]) -> dict[str, int]:
    """Where the middle of each text is, in thousandths of all of them, the longest first."""
    names = sorted(texts, key=lambda name: -len(texts[name]))
    sizes = [1 + len(texts[name]) for name in names]
    return {
        name: 500 * (2 * end - size) // sum(sizes)
        for name, size, end in zip(names, sizes, accumulate(sizes), strict=True)
    }


def block(head: str, lines: Iterable[str]) -> list[str]:
    """Lines in braces after a head."""
    return [f"{head} {{".lstrip(), *indented(lines), "}"]


def indented(lines: Iterable[str]) -> Iterator[str]:
    """The lines, four columns to the right."""
    return (f"    {line}" for line in lines)
