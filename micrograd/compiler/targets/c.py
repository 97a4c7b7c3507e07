"""Writing C: a trace as C99, for a library that is loaded here (library.py) or a file to use elsewhere (export.py).

The loops of a kernel (ir.py) are printed in functions of about 150 lines. A library for many examples computes a tile
of them at once: vectors with an example in each lane, and up to four vectors for each weight that is read; a layer adds
up several of its sums at once (layers.py), and other rounds that read the same numbers are jammed, to load them once
(jam.py). A library for few examples computes them one by one, and
uses the lanes for dot products.

In lanes, sums are added up in the engine's order, except gradients: that of a parameter is first added up over a tile,
where the terms of a sum of products are added one by one. The long sums of a layer are multiplied and added with one
rounding where the processor can, so their last bits may differ from the engine's. The dot product of one example is
added up in eight parts, so its last bits may differ between few examples and many, and it may overflow where numbers
near 1e308 cancel. The last bits of exp and tanh may differ, too: in lanes, they are computed by vector arithmetic
instead of the C library.

Examples are counted by int64_t inside a library and outside, since on Windows a long has 32 bits and their numbers may
take more than 16 GB. The numbers of one example were traced one by one: a long counts them.
"""

import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby, zip_longest

from micrograd.compiler.dtype import DOUBLE, Precision
from micrograd.compiler.frontend.graph import Graph
from micrograd.compiler.frontend.operations import CONDITIONS
from micrograd.compiler.ir import ARRAYS, Accumulate, Assign, Loop, Ref, Sum, innermost, is_variable
from micrograd.compiler.passes import Program
from micrograd.compiler.passes.interchange import interchanged
from micrograd.compiler.passes.jam import jam
from micrograd.compiler.passes.layers import with_layers
from micrograd.compiler.passes.storage import allocate
from micrograd.compiler.passes.sums import in_steps
from micrograd.compiler.targets.c_runtime import CALLS, FOR_DOUBLES, FOR_TILES, PARTS, definitions, refused
from micrograd.compiler.targets.spelling import Printer, filled, indented, index, spellings

LINES = 150  # of a function: gcc takes 2.4 s for 7,500 lines in lanes, and 2.8 if they are in functions of 600
MANY_LINES = 500  # outside loops, above which a tile is one vector: 900 take 1.16 times as long, a quarter to compile
CACHE = 1 << 20  # bytes, beyond which a tile is smaller: 256-256-10 takes 602 us on AVX-512, and 768 with half of it
TILES = (4, 2, 1)  # vectors of examples in a tile

TOTAL = CONDITIONS | {
    *("+", "-", "*", "dot", "neg", "abs", "where", "largest"),
    *(name for name in CALLS if not refused(name)),
}
"""The operations that have a result for all operands, even if infinite; the others may raise in Python."""


def templates(precision: Precision = DOUBLE, *, vectors: bool, checks: bool = False) -> dict[str, str]:
    """Each operation in C, on vectors or on numbers; with `checks`, noting where Python raises errors."""
    operands = ["", "{0}", "{0}, {1}"]
    calls = {op: f"v_{op}({operands[n]})" if vectors else f"{op}SUFFIX({operands[n]})" for op, n in CALLS.items()}
    found = {**spellings("c"), **calls, **(spellings("vectors") if vectors else {})}
    if checks:
        found |= {op: f"checked_{op}({{0}}, failed)" for op in CALLS if refused(op, precision)}
        found |= {
            "quotient": "checked_quotient({0}, {1}, failed)",
            "**-1": "checked_quotient(U(1), {0}, failed)",
            "**": "checked_pow({0}, {1}, failed)",
            "%": "checked_remainder({0}, {1}, failed)",
            **{op: found[op].replace("{0}", "checked_index({0}, SIZE, failed)") for op in ("take", "take_at")},
        }
    return {op: template.replace("SUFFIX", precision.suffix) for op, template in found.items()}


class Writer(Printer):
    """Prints a program as functions in C: arithmetic on `vectors`, with an example in each lane, or on numbers.

    With `dots`, long dot products call a function `dot`. With `checks`, `failed` is set where Python raises an error.
    With `once`, what is the same in all lanes is computed, and set or added to numbers. `passes` has the parts of the
    kernel after each pass.
    """

    def __init__(
        self,
        program: Program,
        precision: Precision = DOUBLE,
        *,
        vectors: bool,
        dots: bool = False,
        checks: bool = False,
        once: bool = False,
    ) -> None:
        self.vectors, self.checks, self.once, self.literal = vectors, checks, once, precision.literal
        self.type, self.for_lane, self.lane = "real", "", ""
        if vectors:
            self.type, self.for_lane, self.lane = ("V", "", "") if once else ("T", "FOR_LANES ", "[k]")
        self.uniform = {*"pcghd", *"y" * once}  # arrays that have a number for all lanes
        self.is_hoisted = once or program.before is not None
        self.templates = templates(precision, vectors=vectors, checks=checks)
        self.constants = program.constants
        self.straight = sum(not isinstance(step, Loop) for step in program.kernel)
        kernel = program.kernel
        if not once:
            kernel = with_layers(kernel) if vectors else interchanged(kernel)
        parts, self.temporaries = allocate(kernel, LINES)
        steps = [in_steps(part, dots=dots, totals=vectors and not once) for part in parts]
        jammed = [jam(part) if vectors else part for part in steps]
        self._bodies = [[*self.lines(part)] for part in jammed]
        self.passes = {"layers": [kernel], "storage": parts, "sums": steps, "jam": jammed}

    def source(self, name: str) -> str:
        """Functions that compute one example, or one in each lane: the last is called `name`."""
        text = ""
        if self.constants:
            text += f"static const real {name}_c[] = {{\n{self._table()}\n}};\n\n#define c {name}_c\n"
        parts = [f"{name}_{i}" for i in range(len(self._bodies))] if len(self._bodies) > 1 else [name]
        for part, body in zip(parts, self._bodies, strict=True):
            text += self._function(part, body)
        if len(parts) > 1:
            arguments = "p, x, seed, g, y, t" + ", failed" * self.checks + ", h, d" * self.is_hoisted
            text += self._function(name, [f"{part}({arguments});" for part in parts])
        return text + ("#undef c\n" if self.constants else "")

    def _function(self, name: str, lines: Sequence[str]) -> str:
        of_example, result = ("T", "real") if self.once else (self.type, self.type)
        takes = f"const real *restrict p, const {of_example} *restrict x, const {of_example} seed, real *restrict g, "
        takes += f"{result} *restrict y, {self.type} *restrict t"
        unused = "(void)p; (void)x; (void)seed; (void)g; (void)y; (void)t;"
        if self.checks:
            takes, unused = f"{takes}, M *restrict failed", f"{unused} (void)failed;"
        if self.is_hoisted:
            takes, unused = f"{takes}, const real *restrict h, real *restrict d", f"{unused} (void)h; (void)d;"
        head = f"static void {name}({takes})"
        return "\n".join([head, "{", *indented([unused, *lines]), "}\n\n"])

    def _table(self) -> str:
        """The constants, as many on a line as there is room for."""
        numbers = ", ".join(map(self.literal, self.constants))
        return textwrap.fill(numbers, 120, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)

    def loop(self, loop: Loop, depth: int) -> str:
        """The head of a loop."""
        counter = "volatile long" if not self.vectors and _adds_several(loop) else "long"
        return f"for ({counter} i{depth} = 0; i{depth} < {loop.rounds}; i{depth}++)"

    def statement(self, step: Assign | Accumulate, is_new: bool) -> Iterator[str]:
        """The lines of a step: what is added to a gradient is the total of a variable's lanes."""
        target, text = self.ref(step.target), self.value(step.value)
        if self.vectors and step.target.array in self.uniform:
            number = f"({text})[0]" if self.once else f"total({text.removesuffix(self.lane)})"
            yield f"{target[2:-1]} {'+=' if isinstance(step, Accumulate) else '='} {number};"
        elif isinstance(step, Accumulate):
            yield f"{target} += {text};"
        elif not is_new:
            yield f"{self.for_lane}{target} = {text};"
        elif self.vectors:
            yield from (f"{self.type} {step.target.array};", f"{self.for_lane}{target} = {text};")
        else:
            yield f"real {target} = {text};"

    def ref(self, ref: Ref) -> str:
        """A reference: in vectors, one number for all lanes is U(number)."""
        array = ref.array
        if array[0] == "=":
            text = self.literal(float(array[1:]))
            return f"U({text})" if self.vectors else text
        if array.removeprefix("&") not in ARRAYS:
            return array + self.lane
        element = f"{array}[{index(ref)}]"
        if self.vectors and array in self.uniform:
            return f"U({element})"
        if array in ("x", "y", "t"):
            return element + ("[0]" if self.once and array == "x" else self.lane)
        return element


def _adds_several(loop: Loop) -> bool:
    """Whether a loop adds several terms a round to a variable.

    gcc 12 gets sums wrong when it vectorizes such a loop, or unrolls one, that reads an array in reverse: a volatile
    counter keeps it from doing so.
    """
    if not all(isinstance(step, Assign) and is_variable(step.target) for step, _ in innermost(loop)):
        return False
    step = loop.body[0]
    return len(loop.body) > 1 or isinstance(step, Loop) or (isinstance(step.value, Sum) and len(step.value.terms) > 2)


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

    It computes up to `tile` vectors of examples at once, or if that is 0, one example after the other. A tile is
    smaller if its numbers would not stay in the processor's cache, or if the code has many lines and few loops.
    `shared` says which arguments all examples share. Up to `threads` threads share the examples, if each gets at least
    `least` of them.
    """
    ieee = graph.trace.ieee
    writer = Writer(program, precision, vectors=tile > 0, dots=tile == 0, checks=not ieee)
    gather = once = ""
    k = offset = 0
    for (size, is_shared), alike in groupby(zip_longest(graph.sizes, shared, fillvalue=False)):
        count = len(list(alike))
        line = f"gather(xs + {offset}, x + {k}, {count}, {size}, examples);\n"
        once, gather = (f"{once}    {line}", gather) if is_shared else (once, f"{gather}        {line}")
        k, offset = k + count, offset + count * size
    overflow = "0"
    if not ieee and (precision != DOUBLE or "**" in program.operations):
        overflow = f"fetestexcept(FE_OVERFLOW) ? {1 if precision == DOUBLE else 2} : 0"
    body, failure, more, before, after = writer.source("one"), "" if ieee else ", &failed", "0", "", ""
    if program.before and program.after:
        first, last = (
            Writer(part, precision, vectors=True, checks=not ieee, once=True)
            for part in (program.before, program.after)
        )
        body = first.source("before") + body + last.source("after")
        n, n_held = max(first.temporaries, last.temporaries), program.before.n_results
        more = f"LANES * {n} + {n_held + program.n_sums}"
        before = (
            f"    V *once = (V *)(t + {writer.temporaries});\n    real *h = (real *)(once + {n}), *d = h + {n_held};\n"
            f"    for (int64_t i = 0; i < {program.n_sums}; i++)\n        d[i] = 0;\n"
            f"    before(p, xs, 0, g, h, once{failure}, 0, 0);\n"
        )
        failure += ", h, d"
        after = f"    after(p, xs, 0, g, 0, once{failure});\n"
    text = "\n".join([
        "#include <fenv.h>\n#include <math.h>\n#include <stdint.h>\n" + "#include <string.h>\n" * (threads > 1),
        PARTS["no_patterns"] + PARTS["passes"],
        f"typedef {precision.type} real;\n",
        PARTS["vectors"] + PARTS["tiles"] if tile else PARTS["doubles"],
        definitions(body, precision, vectors=tile > 0),
        PARTS["contract"] + PARTS["layer"] if "layer(" in body else "",
        body,
        PARTS["call"] + (PARTS["gather"] if gather or once else ""),
        PARTS["run"],
        PARTS["add"] + PARTS["threads"] if threads > 1 else PARTS["one_thread"],
    ])  # fmt: skip
    return filled(
        text,
        PASSES=FOR_TILES if tile else FOR_DOUBLES,
        NUMBERS=offset + program.n_results + writer.temporaries,
        SIZES="".join(f"FITS({n}) ? {n} : " for n in TILES if 1 < n <= tile and writer.straight <= MANY_LINES),
        LIMIT=CACHE,
        INTEGER=precision.integer,
        INPUTS=offset,
        OUTPUTS=program.n_results,
        VALUES=len(graph.outputs),
        CLEAR="" if overflow == "0" else "    feclearexcept(FE_OVERFLOW);\n",
        ONCE=once,
        GATHER=gather,
        FAILURE=failure,
        BEFORE=before,
        AFTER=after,
        MORE=more,
        RESULT=overflow,
        THREADS=threads,
        LEAST=least,
        COUNT=graph.n_parameters,
    )
