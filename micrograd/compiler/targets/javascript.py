"""Writing JavaScript: a trace as functions, for a module (export.py), and the spellings that drawn pages share with it.

A small program has no loops: in straight-line code, an engine keeps numbers in registers, which takes half the time.
The functions in inlined.js are inlined where they are used. One of them is the slope of tanh, which is recognised among
the operations of a trace.
"""

import copy
import math
import re
import textwrap
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import count
from typing import Any

from micrograd.compiler.frontend.graph import Ends, Graph
from micrograd.compiler.frontend.tracer import Trace
from micrograd.compiler.ir import ARRAYS, Accumulate, Assign, Call, Loop, Ref, Sum, is_variable, of_round, refs, replace
from micrograd.compiler.passes import program
from micrograd.compiler.passes.storage import allocate
from micrograd.compiler.passes.sums import in_steps
from micrograd.compiler.targets.spelling import Printer, indented, signed, source, spellings
from micrograd.functions import tanh_slope
from micrograd.scalar import FUNCTIONS

LARGEST = 2000  # references in a function: engines do not optimize large ones; a kernel up to this has no loops
UNROLLED = 400  # references in all rounds, up to which a loop of another kernel is unrolled


def functions(name: str) -> dict[str, str]:
    """The functions and tables in a file, by name. Empty lines separate them."""
    parts = source(name).split("\n\n")
    found = [(re.search(r"function (\w+)\(|^const (\w+)", part, re.MULTILINE), part) for part in parts]
    return {(name[1] or name[2]): f"{part.rstrip()}\n\n" for name, part in found if name}


INLINED = functions("inlined.js")
LIBRARY = functions("functions.js") | {"TANH": INLINED.pop("TANH")}
"""The functions that JavaScript lacks, and the tables of those that are inlined."""
TEMPLATES = spellings("javascript") | {
    name: f"Math.{name}({{0}}{', {1}' * (function.arity - 1)})"
    for name, function in FUNCTIONS.items()
    if not function.composed and name not in LIBRARY
}
"""Each operation of a trace in JavaScript; those in functions.js are called by their names."""

CONSTANTS = {"inf": "Infinity", "-inf": "(-Infinity)", "nan": "NaN", "True": "true", "False": "false"}


def literal(number: float) -> str:
    """A constant as JavaScript writes it, to the last bit."""
    return CONSTANTS.get(repr(number)) or signed(repr(number))


def library(code: str) -> str:
    """The functions and tables of LIBRARY that this code uses, and those that these use in turn."""
    called = set[str]()
    while more := {name for name in LIBRARY.keys() - called if re.search(rf"\b{name}[(\[]", code)}:
        called |= more
        code += "".join(LIBRARY[name] for name in more)
    return "".join(text for name, text in LIBRARY.items() if name in called)


class Writer(Printer):
    """Prints what computes some lines of a graph for one example as functions in JavaScript.

    They read the example from the array x, write what is returned to y, and add gradients to g. The last function of
    the `text` is called `name`, and takes p, g and seed; all use the array t, of `temporaries` numbers.
    """

    templates = TEMPLATES

    def __init__(self, name: str, graph: Graph, ends: Ends) -> None:
        graph = copy.copy(graph)
        graph.trace = with_slopes(graph.trace)
        kernel, constants, *_ = program(graph, ends)
        most = math.inf if size(kernel) <= LARGEST else UNROLLED
        parts, self.temporaries = allocate([step for each in kernel for step in unrolled(each, most)], LARGEST, size)
        self._inlined = count()
        self._written: dict[str, int] = {}  # by variable, the number of what is inlined already and in scope
        self._table = f"{name}Constants"
        self.tables, self.table_name = {}, f"{name}Offsets"
        names = [f"{name}{i}" for i in range(len(parts))] if len(parts) > 1 else [name]
        self.text = f"const {self._table} = {array_of(constants)};\n\n" if constants else ""
        for part, steps in zip(names, parts, strict=True):
            self.text += _function(part, self.lines(in_steps(steps)))
        if len(parts) > 1:
            self.text += _function(name, [f"{part}(p, g, seed);" for part in names])
        self.text += "".join(f"const {table} = new Int32Array({[*of]});\n\n" for of, table in self.tables.items())

    def lines(self, steps: Sequence[Any], depth: int = 0, declared: Collection[str] = ()) -> Iterator[str]:
        """The lines of steps within so many loops. What they write is in scope until their loop ends."""
        outer = self._written if depth else {}
        self._written = dict(outer)
        yield from super().lines(steps, depth, declared)
        self._written = {x: number for x, number in outer.items() if self._written.get(x) == number}

    def loop(self, loop: Loop, depth: int) -> str:
        """The head of a loop."""
        return f"for (let i{depth} = 0; i{depth} < {self.rounds(loop)}; i{depth}++)"

    def switch(self, order: tuple[int, ...], n_cases: int) -> Iterator[str]:
        """The head of a loop with a switch in it."""
        yield f"const rounds = new Int32Array({n_cases});"
        yield f"for (const k of {self.table(order)}) {{"
        yield "    const i0 = rounds[k]++;"
        yield "    switch (k) {"

    def statement(self, step: Assign | Accumulate, is_new: bool) -> Iterator[str]:
        """The lines of a step: several, if a function is inlined."""
        self._written.pop(step.target.array, None)
        head = f"{'let ' * is_new}{self.ref(step.target)} {'+=' if isinstance(step, Accumulate) else '='}"
        if isinstance(step.value, Call) and step.value.op in INLINED:
            x, number = self.ref(step.value.operands[0]), next(self._inlined)
            known = self._written.setdefault(x, number) if is_variable(step.value.operands[0]) else number
            *lines, last = inlined(step.value.op, x, known)
            yield from lines * (known == number)
            yield last.replace("return", head)
        else:
            yield f"{head} {self.value(step.value)};"

    def ref(self, ref: Ref) -> str:
        """A reference; for an array that begins with "&", the array and the index."""
        array = ref.array.removeprefix("&")
        if array[0] == "=":
            return literal(float(array[1:]))
        name = self._table if array == "c" else array
        if array != ref.array:
            return f"{name}, {self.index(ref)}"
        return f"{name}[{self.index(ref)}]" if array in ARRAYS else array


def size(part: Any) -> int:
    """How many references steps make in all of their rounds."""
    return sum(math.prod(rounds) for _, rounds in refs(tuple(part)))


def unrolled(part: Any, most: float, depth: int = 0) -> Iterator[Any]:
    """A step or a term within so many loops, with the rounds of small loops one after the other."""
    if isinstance(part, Loop):
        body = [inner for each in part.body for inner in unrolled(each, most, depth + 1)]
        if size([part]) > most:
            yield Loop(part.rounds, tuple(body))
            return
        for i in range(part.rounds):
            yield from replace(tuple(body), partial(of_round, i=i, depth=depth))
    elif isinstance(part, Assign | Accumulate) and isinstance(part.value, Sum):
        parts = [inner for each in part.value.terms for inner in unrolled(each, most, depth)]
        yield part._replace(value=Sum(tuple(parts)))
    else:
        yield part


def _function(name: str, body: Iterable[str]) -> str:
    return "\n".join([f"function {name}(p, g, seed) {{", *indented(body), "}\n\n"])


def array_of(numbers: Sequence[float]) -> str:
    """The numbers as an array, to the last bit."""
    text = textwrap.fill(", ".join(literal(float(n)).strip("()") for n in numbers), 116)
    return "new Float64Array([" + (f"\n{textwrap.indent(text, '  ')},\n" if text else "") + "])"


# Inlined functions


def inlined(op: str, x: str, number: int) -> list[str]:
    """Lines that compute a function of x; the last one returns it. The number makes their variables unique."""
    body = INLINED[op].split("\n")[2:-3]
    names = {name: f"{name}{number}" for name in re.findall(r"(\w+) = ", " ".join(body))} | {"x": x}
    return [re.sub(r"(?<!\.)\b[a-z]+\b", lambda word: names.get(word[0], word[0]), line.strip()) for line in body]


def with_slopes(trace: Trace) -> Trace:
    """The trace, with the slopes of tanh as single operations."""
    found = {line: x for line in range(len(trace.ops)) if (x := _argument(trace, line)) is not None}
    if not found:
        return trace
    trace = copy.copy(trace)
    trace.ops = ["tanh_slope" if line in found else op for line, op in enumerate(trace.ops)]
    trace.operands = [(found[line],) if line in found else of for line, of in enumerate(trace.operands)]
    return trace


@cache
def _pattern() -> tuple[Trace, int, int]:
    """A trace of the slope, and its lines of x and of the slope."""
    trace = Trace()
    x = trace.leaf("x")
    return trace, x.id, tanh_slope(x, trace.record("tanh", (x,))).id


def _argument(trace: Trace, line: int) -> int | None:
    """The line of x, if a line is the slope of tanh at it."""
    pattern, x, root = _pattern()
    found: dict[int, int] = {}

    def is_like(at: int, of: int) -> bool:
        if found.setdefault(of, at) != at or of == x:
            return found[of] == at
        is_same = trace.ops[at] == pattern.ops[of] and trace.constants.get(at) == pattern.constants.get(of)
        return is_same and all(map(is_like, trace.operands[at], pattern.operands[of]))

    return found[x] if is_like(line, root) else None
