"""Writing JavaScript: a trace as functions, for a module (export.py), and the spellings that drawn pages share with it.

A small program has no loops: in straight-line code, an engine keeps numbers in registers, and takes half the time.
The functions in inlined.js are inlined where they are used: if they were called, a step of 2-16-16-1 would take 1.5
times as long. One of them is the slope of tanh, which `with_slopes` finds in a trace: 1.3 times without it.
"""

import dataclasses
import math
import re
import textwrap
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

from micrograd.compiler.frontend.graph import Ends, Graph
from micrograd.compiler.frontend.operations import COMMUTATIVE
from micrograd.compiler.frontend.tracer import Symbol
from micrograd.compiler.ir import Accumulate, Assign, Call, Loop, Ref, Sum, is_variable, of_round, refs
from micrograd.compiler.passes.pipeline import program
from micrograd.compiler.passes.storage import allocate
from micrograd.compiler.passes.sums import in_steps
from micrograd.compiler.targets.spelling import Printer, parts, signed, spellings
from micrograd.functions import tanh_slope
from micrograd.scalar import FUNCTIONS

LARGEST = 2000  # references in a function: engines do not optimize large ones; a kernel up to this has no loops
UNROLLED = 400  # references in all rounds, up to which a loop of another kernel is unrolled

INLINED = parts("inlined.js")
LIBRARY = {name: f"{text}\n" for name, text in {**parts("functions.js"), "TANH": INLINED.pop("TANH")}.items()}
"""The functions that JavaScript lacks, and the tables of those that are inlined."""
INLINED = {name: textwrap.dedent("\n".join(text.splitlines()[2:-1])) for name, text in INLINED.items()}
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


class Writer(Printer):
    """Prints what computes some lines of a graph for one example as functions in JavaScript.

    They read the example from the array x, write what is returned to y, and add gradients to g. All use the array t, of
    `temporaries` numbers.
    """

    templates, literal, address = TEMPLATES, staticmethod(literal), "{}, {}"
    function, counter, zeros = "function", "let", "const rounds = new Int32Array({});"

    def __init__(self, graph: Graph, ends: Ends) -> None:
        kernel, self.constants, *_ = program(with_slopes(graph), ends)
        most = math.inf if size(kernel) <= LARGEST else UNROLLED
        found, self.temporaries = allocate([step for each in kernel for step in unrolled(each, most)], LARGEST, size)
        self.parts = list(map(in_steps, found))
        self.parameters = {name: name for name in ("p", "g", "seed")}
        self._inlined: dict[Ref, int] = {}  # by variable, the number in the names of what is inlined already
        self._numbers = count()

    def array(self, name: str, numbers: Sequence[float]) -> str:
        """The declaration of an array."""
        return f"const {name} = {array_of(numbers)};\n\n"

    def statement(self, step: Assign | Accumulate, is_new: bool) -> Iterator[str]:
        """The lines of a step: several, if a function is inlined."""
        head = f"{'let ' * is_new}{self.ref(step.target)} {'+=' if isinstance(step, Accumulate) else '='}"
        self._inlined.pop(step.target, None)
        if not (isinstance(step.value, Call) and step.value.op in INLINED):
            yield f"{head} {self.value(step.value)};"
            return
        (x,), new = step.value.operands, next(self._numbers)
        is_kept = type(x) is Ref and is_variable(x)  # what uses a variable shares a scope
        number = self._inlined.setdefault(x, new) if is_kept else new
        text = re.sub(r"\b(within|[abcdks])\b", rf"\g<1>{number}", INLINED[step.value.op])
        *lines, last = re.sub(r"\bx\b", self.value(x), text).splitlines()
        yield from lines * (number == new)
        yield last.replace("return", head)


def size(part: Any) -> int:
    """How many references steps make in all of their rounds."""
    return sum(math.prod(rounds) for _, rounds in refs(tuple(part)))


def unrolled(part: Any, most: float, depth: int = 0) -> Iterator[Any]:
    """A step or a term inside `depth` loops, with the rounds of small loops written out one after the other."""
    if isinstance(part, Loop):
        body = [inner for each in part.body for inner in unrolled(each, most, depth + 1)]
        if size([part]) > most or part.may_skip:
            yield Loop(part.rounds, tuple(body))
            return
        for i in range(part.rounds):
            yield from of_round(tuple(body), i, depth)
    elif isinstance(part, Assign | Accumulate) and isinstance(part.value, Sum):
        terms = [inner for each in part.value.terms for inner in unrolled(each, most, depth)]
        yield part._replace(value=Sum(tuple(terms)))
    else:
        yield part


def array_of(numbers: Sequence[float]) -> str:
    """The numbers as an array of floats or ints, exact to the last bit."""
    kind = "Int32Array" if numbers and isinstance(numbers[0], int) else "Float64Array"
    text = textwrap.fill(", ".join(literal(n).strip("()") for n in numbers), 116)
    return f"new {kind}([" + (f"\n{textwrap.indent(text, '  ')},\n" if text else "") + "])"


def with_slopes(graph: Graph) -> Graph:
    """The graph, with the slopes of tanh as single operations: the lines that the engine's formula leads to again."""
    trace, n = graph.trace.reopened({}), len(graph.trace.ops)
    for line, (op, of) in enumerate(zip(trace.ops, trace.operands, strict=True)):
        trace.known[op][of[::-1] if op in COMMUTATIVE and of[0] > of[1] else of] = line
    trace.known["constant"] = {x: line for line, x in trace.constants.items() if x and x is not True}
    for line in [line for line, op in enumerate(trace.ops) if op == "tanh"]:
        (x,) = trace.operands[line]
        slope = tanh_slope(Symbol(trace, x), Symbol(trace, line)).id
        if slope < n:
            trace.ops[slope], trace.operands[slope] = "tanh_slope", (x,)
    return dataclasses.replace(graph, trace=trace)
