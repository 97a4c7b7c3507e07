"""Writing C: a trace as C99, for a library that is loaded here (library.py) or a file to take elsewhere (export.py).

The loops of a kernel (ir.py) are printed in functions of about 150 lines. A library for many examples computes a tile
of them at once: vectors with an example in each lane, and up to four vectors for each weight that is read; rounds that
read the same numbers are jammed, to load them once (jam.py). A library for few examples computes them one by one, and
uses the lanes for dot products.

In lanes, sums are added up in the engine's order, except gradients: that of a parameter is first added up over a tile,
where the terms of a sum of products are added one by one. The dot product of one example is added up in eight parts,
so its last bits may differ between few examples and many, and it may overflow where numbers near 1e308 cancel. The
last bits of exp and tanh may differ, too: in lanes, they are computed by vector arithmetic instead of the C library.

Examples are counted by int64_t inside a library and outside, since on Windows a long has 32 bits and their numbers may
take more than 16 GB. The numbers of one example, which were traced one by one, are counted by long.
"""

import math
import textwrap
from collections.abc import Sequence
from itertools import groupby, takewhile, zip_longest
from typing import Any

from micrograd.compiler.dtype import DOUBLE, VECTOR_BYTES, Precision
from micrograd.compiler.frontend.graph import Graph
from micrograd.compiler.frontend.tracer import CONDITIONS
from micrograd.compiler.ir import ARRAYS, Accumulate, Loop, Ref, Scatter, Sum, Term, start
from micrograd.compiler.passes import Program
from micrograd.compiler.passes.interchange import interchanged, is_dot
from micrograd.compiler.passes.jam import JAM_FACTOR, can_jam, shifted
from micrograd.compiler.passes.storage import allocate
from micrograd.compiler.targets.c_runtime import (
    CALLS,
    FOR_DOUBLES,
    FOR_TILES,
    PARTS,
    can_fail,
    flag_wrappers,
    folds,
    helpers,
    vector_functions,
)
from micrograd.compiler.targets.spelling import added, call, filled, index, spellings

LINES = 150  # lines of C in a function
MANY_LINES = 500  # outside loops, above which a tile is one vector, since each line is unrolled over the tile
LONG_ROW = 96  # gradients: a loop that adds to at least so many adds to a vector of them at a time
LONG = 8  # terms, above which a sum takes several statements
CACHE = 1 << 19  # bytes, beyond which a tile is smaller

SCALAR = spellings("c")
VECTOR = {
    **SCALAR,
    **{op: f"v_{op}({', '.join(['{0}', '{1}'][:n])})" for op, n in CALLS.items()},
    **spellings("vectors"),
}
TOTAL = CONDITIONS | {
    *("+", "-", "*", "dot", "neg", "abs", "where", "largest"),
    *(name for name in CALLS if not can_fail(name)),
}
"""The operations with a result, which may be infinite, for all operands; the others may raise in Python."""


class Writer:
    """Prints a program as functions in C: arithmetic on `vectors` V, with an example in each lane, or on doubles.

    With `dots`, long dot products call a function `dot`. With `checks_division`, every division by 0 raises a
    floating-point flag, even that of an infinity or NaN.
    """

    def __init__(self, program: Program, *, vectors: bool, dots: bool = False, checks_division: bool = False) -> None:
        self.vectors = vectors
        self.dots = dots
        self.type = "T" if vectors else "double"
        self.each_vector, self.of_vector = ("EACH ", "[k]") if vectors else ("", "")  # of a tile
        self.templates = dict(VECTOR if vectors else SCALAR)
        if checks_division:
            quotient, one = ("v_quotient", "U(1.0)") if vectors else ("quotient", "1.0")
            self.templates |= {"quotient": f"{quotient}({{0}}, {{1}})", "**-1": f"{quotient}({one}, {{0}})"}
        kernel = program.kernel if vectors else interchanged(program.kernel)
        self.constants = program.constants
        self.straight = sum(not isinstance(step, Loop) for step in kernel)
        parts, self.temporaries = allocate(kernel, LINES)
        self._bodies = [[line for step in part for line in self._step(step)] for part in parts]

    def _head(self, name: str) -> str:
        """The head of a function."""
        return (
            f"void {name}(const double *restrict p, const {self.type} *restrict x, const {self.type} seed, "
            f"double *restrict g, {self.type} *restrict y, {self.type} *restrict t)"
        )

    def _function(self, head: str, lines: Sequence[str]) -> str:
        """The text of a function."""
        unused = "(void)p; (void)x; (void)seed; (void)g; (void)y; (void)t;"
        return "\n".join([head, "{", *_indented([unused, *lines]), "}\n\n"])

    def source(self, name: str) -> str:
        """Functions that compute one example, or one in each lane: the last is called `name`."""
        text = ""
        if self.constants:
            text += f"static const double {name}_c[] = {{\n{_table(self.constants)}\n}};\n\n#define c {name}_c\n"
        parts = [f"{name}_{i}" for i in range(len(self._bodies))] if len(self._bodies) > 1 else [name]
        for part, body in zip(parts, self._bodies, strict=True):
            text += self._function(f"static {self._head(part)}", body)
        if len(parts) > 1:
            text += self._function(f"static {self._head(name)}", [f"{part}(p, x, seed, g, y, t);" for part in parts])
        return text + ("#undef c\n" if self.constants else "")

    def _step(self, step: Any) -> list[str]:
        """The lines of C for an outermost step: if rounds of a loop can be jammed, so many at a time."""
        if self._adds_to_row(step, 0) or not (self.vectors and isinstance(step, Loop) and can_jam(step)):
            return self._lines([step], 0)
        whole = step.rounds // JAM_FACTOR * JAM_FACTOR
        jammed = zip(*[[shifted(inner, k) for inner in step.body] for k in range(JAM_FACTOR)], strict=True)
        lines = _for(0, whole, [line for copies in jammed for line in self._lines(copies, 1)], by=JAM_FACTOR)
        if whole < step.rounds:
            lines += _for(0, step.rounds, [line for each in step.body for line in self._lines([each], 1)], first=whole)
        return lines

    def _lines(self, steps: Sequence[Any], depth: int) -> list[str]:
        """The lines for one step in several rounds of an outer loop, or in one: these share its inner loops."""
        step = steps[0]
        if self._adds_to_row(step, depth):
            return self._row_loop(steps, depth)
        if isinstance(step, Loop):
            inner = zip(*[each.body for each in steps], strict=True)
            return _for(depth, step.rounds, [line for copies in inner for line in self._lines(copies, depth + 1)])
        single = [line for each in steps for line in self._single(each)]
        if single:
            return single
        names = _names("a", steps)
        lines = self._added_up([each.value for each in steps], names, depth)
        outside = []
        for each, a in zip(steps, names, strict=True):
            target = self._ref(each.target)
            name = target.removesuffix(self.of_vector)
            if isinstance(each, Accumulate):
                lines.append(f"{target} += {f'total({a})' if self.vectors else a};")
            else:
                lines.append(f"{self.each_vector}{target} = {a}{self.of_vector};")
            outside += [f"{self.type} {name};"] if name.isidentifier() else []
        return [*outside, "{", *_indented(lines), "}"]

    def _adds_to_row(self, step: Any, depth: int) -> bool:
        """Whether this is a loop that adds sums over examples to many gradients next to each other."""
        if not (self.vectors and isinstance(step, Loop) and len(step.body) == 1):
            return False
        inner = step.body[0]
        adds_sums = isinstance(inner, Accumulate) and isinstance(inner.value, Sum)
        return step.rounds >= LONG_ROW and adds_sums and inner.target.strides[depth:] == (1,)

    def _row_loop(self, steps: Sequence[Any], depth: int) -> list[str]:
        """The lines for a loop that `_adds_to_row` accepts, or for jammed copies of it: LANES gradients at a time."""
        rounds, inner = steps[0].rounds, [step.body[0] for step in steps]
        names, rows = _names("a", steps), _names("row", steps)
        body = self._added_up([each.value for each in inner], names, depth + 1)
        to_rows = [f"{row}[i{depth} - first] = lane_sums({a});" for row, a in zip(rows, names, strict=True)]
        targets = [self._ref(each.target._replace(strides=each.target.strides[:-1])) for each in inner]
        block = [
            f"V {', '.join(f'{row}[LANES]' for row in rows)};",
            '_Pragma("GCC unroll 8")',
            *_for(depth, "first + LANES", ["{", *_indented([*body, *to_rows]), "}"], first="first"),
            *(f"add_totals(&{target} + first, {row});" for target, row in zip(targets, rows, strict=True)),
        ]
        head = f"for (long first = 0; first < WHOLE_ROWS({rounds}); first += LANES) {{"
        rest = _for(depth, rounds, self._lines(inner, depth + 1), first=f"WHOLE_ROWS({rounds})")
        return [head, *_indented(block), "}", *rest]

    def _single(self, step: Any) -> list[str]:
        """The lines for a step without loops; none for a sum that takes several statements."""
        if isinstance(step, Scatter):
            row, position, value = map(self._ref, (step.row, step.position, step.value))
            add_at = "v_add_at" if self.vectors else "add_at"
            return [f"{self.each_vector}{add_at}(&{row}, {step.step}, {step.size}, {position}, {value});"]
        if not isinstance(step.value, Sum):
            text = call(step.value, self._ref, self.templates)
        elif len(step.value.terms) > LONG or any(isinstance(term, Loop) for term in step.value.terms):
            return []
        else:
            text = self._sum(step.value.terms)
        adds, target = isinstance(step, Accumulate), self._ref(step.target)
        name = target.removesuffix(self.of_vector)
        if not (adds and self.vectors):
            if name.isidentifier():
                return self._declare(name, text, "const ")
            return [f"{target} += {text};" if adds else f"{self.each_vector}{target} = {text};"]
        return ["{", *_indented([*self._declare("a", text), f"{target} += total(a);"]), "}"]

    def _declare(self, name: str, text: str, const: str = "") -> list[str]:
        """A new variable."""
        if self.vectors:
            return [f"T {name};", f"{self.each_vector}{name}[k] = {text};"]
        return [f"{const}double {name} = {text};"]

    def _added_up(self, values: Sequence[Any], names: Sequence[str], depth: int) -> list[str]:
        """Sums with loops, as variables of these names."""
        lines = []
        n = len([*takewhile(lambda term: isinstance(term, Term), values[0].terms[:LONG])])
        for value, a in zip(values, names, strict=True):
            lines += self._declare(a, self._sum(value.terms[:n]) if n else self._ref(start(value.terms)))
        rest = zip(*[value.terms[n:] for value in values], strict=True)
        return lines + [line for terms in rest for line in self._added(terms, names, depth)]

    def _added(self, terms: Sequence[Any], names: Sequence[str], depth: int) -> list[str]:
        """What adds a term, or a loop of terms, to each of these variables."""
        if isinstance(terms[0], Term):
            return [
                f"{self.each_vector}{a}{self.of_vector} = {self._sum([term], a + self.of_vector)};"
                for term, a in zip(terms, names, strict=True)
            ]
        term = terms[0]
        if self.dots and is_dot(term):
            a, b = (self._ref(_lowest(factor, term.rounds)) for factor in term.body[0].factors)
            return [f"a = dot(a, &{a}, &{b}, {term.rounds});"]
        inner = zip(*[loop.body for loop in terms], strict=True)
        body = [line for each in inner for line in self._added(each, names, depth + 1)]
        # gcc 12 gets sums wrong when it vectorizes several terms a round (or an unrolled loop) that read an array in
        # reverse; a volatile counter keeps it from doing so.
        several = len(term.body) > 1 or isinstance(term.body[0], Loop)
        return _for(depth, term.rounds, body, "volatile long" if several and not self.vectors else "long")

    def _sum(self, terms: Sequence[Any], text: str = "") -> str:
        """The terms added to `text`, or the largest of all."""
        return added(terms, self._ref, self.templates["larger"], text)

    def _ref(self, ref: Ref) -> str:
        array = ref.array
        if array[0] == "=":
            text = literal(float(array[1:]))
            return f"U({text})" if self.vectors else text
        if array not in ARRAYS:
            return array + self.of_vector
        element = f"{array}[{index(ref)}]"
        if array in ("x", "y", "t"):
            return element + self.of_vector
        return f"U({element})" if self.vectors and array in ("p", "c") else element


def _names(name: str, steps: Sequence[Any]) -> list[str]:
    """A name for each step: numbered, if there are several."""
    return [f"{name}{k}" for k in range(len(steps))] if len(steps) > 1 else [name]


def _for(
    depth: int, end: int | str, body: Sequence[str], counter: str = "long", *, first: int | str = 0, by: int = 1
) -> list[str]:
    """A loop over i0, i1, ..."""
    step = f"i{depth}++" if by == 1 else f"i{depth} += {by}"
    head = f"for ({counter} i{depth} = {first}; i{depth} < {end}; {step})"
    return [head, *_indented(body)] if len(body) == 1 else [f"{head} {{", *_indented(body), "}"]


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _lowest(ref: Ref, rounds: int) -> Ref:
    """The element with the lowest index among adjacent ones that a loop reads, forwards or backwards."""
    *outer, stride = ref.strides
    return Ref(ref.array, ref.base if stride > 0 else ref.base - (rounds - 1), tuple(outer))


def _table(numbers: Sequence[float]) -> str:
    """The numbers of an array, as many on a line as there is room for."""
    numbers_in_c = ", ".join(map(literal, numbers))
    return textwrap.fill(numbers_in_c, 120, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)


def literal(number: float) -> str:
    """A number as C writes it, to the last bit."""
    if math.isfinite(number):
        return repr(float(number)) if number >= 0 else f"({float(number)!r})"
    return "NAN" if number != number else "INFINITY" if number > 0 else "(-INFINITY)"


def library_source(
    graph: Graph,
    program: Program,
    *,
    tile: int,
    precision: Precision = DOUBLE,
    shared: Sequence[bool] = (),
    threads: int = 1,
    least: int = 1,
) -> str:
    """A library with the function `run`, which runs a graph's program for many examples, and the size `room` it needs.

    Up to so many `threads` share the examples, with at least as many as `least` for each.

    It computes `tile` vectors of examples at once, or if that is 0, one example after the other. A tile is smaller if
    its numbers would not stay in the processor's cache, from which each weight is read once for the whole tile, or if
    the code has many lines and few loops. `shared` says which arguments all examples share.
    """
    ieee = graph.trace.ieee
    writer = Writer(program, vectors=tile > 0, dots=tile == 0, checks_division=not ieee)
    numbers = sum(graph.sizes) + program.n_results + writer.temporaries
    while tile > 1 and (writer.straight > MANY_LINES or tile * numbers * VECTOR_BYTES > CACHE):
        tile //= 2
    gather = once = ""
    k = offset = 0
    for (size, is_shared), alike in groupby(zip_longest(graph.sizes, shared, fillvalue=False)):
        count = len(list(alike))
        if is_shared:
            once += f"    gather(xs + {offset}, x + {k}, {count}, {size}, 0, 0, 1);\n"
        else:
            gather += f"        gather(xs + {offset}, x + {k}, {count}, {size}, at, b, m);\n"
        k, offset = k + count, offset + count * size
    failed = (
        "0" if ieee or program.operations <= TOTAL else "fetestexcept(FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW) != 0"
    )
    if precision != DOUBLE and not ieee:  # an overflow that Python would not have is not a failure by itself
        failed = f"({failed.replace(' | FE_OVERFLOW', '')}) | (fetestexcept(FE_OVERFLOW) ? 2 : 0)"
    body, types = writer.source("one"), PARTS["doubles"]
    if tile:
        types = vector_functions(body, precision) + filled(PARTS["tiles"], SIZE=tile)
        types += filled(PARTS["rows"], FOLDS=folds(precision)) if "add_totals(" in body else ""
    run = filled(PARTS["run"], INPUTS=offset, OUTPUTS=program.n_results, ONCE=once, GATHER=gather, FAILED=failed)
    room = (numbers * max(tile, 1) + 1) * VECTOR_BYTES
    whole = PARTS["one_thread"]
    if threads > 1:
        whole = filled(PARTS["threads"], THREADS=threads, LEAST=least, COUNT=graph.n_parameters)
    parts = (
        "#include <fenv.h>\n#include <math.h>\n#include <stdint.h>\n" + "#include <string.h>\n" * (threads > 1),
        PARTS["no_patterns"] + filled(PARTS["passes"], PASSES=FOR_TILES if tile else FOR_DOUBLES),
        "" if failed == "0" else flag_wrappers(types + body),
        helpers(types + body),
        types,
        body,
        PARTS["gather"] if gather or once else "",
        run,
        PARTS["add"] if threads > 1 else "",
        filled(whole, ROOM=room),
    )
    return precision.text("\n".join(parts))
