"""Writing C: a trace as C99, for a library that is loaded here (library.py) or a file to use elsewhere (export.py).

The loops of a kernel (ir.py) are printed in functions of about 150 lines. A library for many examples computes a tile
of them at once: vectors with an example in each lane, up to four vectors for each weight that is loaded. A library for
few examples computes them one by one, with vectors for dot products and layers. lower.py has the passes of both.

In lanes, sums are added up in the engine's order, except gradients: that of a parameter is first added up over a tile,
where the terms of a sum of products are added one by one, or over a block. The long sums of a layer and the gradients
of matrices use fused multiply-add where the processor has it, so their last bits may differ from the engine's. For few
examples, dot products and sums of neighbouring numbers are added up in eight parts, so their last bits may differ
between few examples and many, and they may overflow where numbers near 1e308 cancel. The last bits of exp and tanh may
differ, too: in lanes and in loops over one example's numbers, vector arithmetic replaces the C library.

Examples are counted by int64_t inside a library and outside, since on Windows a long has 32 bits and their numbers may
take more than 16 GB. The numbers of one example were traced one by one: a long counts them.
"""

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, compress, groupby
from typing import Any

from micrograd.compiler.dtype import DOUBLE, Precision
from micrograd.compiler.frontend.operations import CONDITIONS
from micrograd.compiler.ir import Accumulate, Assign, Call, Loop, Ref, calls, general, is_variable, refs
from micrograd.compiler.passes.lower import lower
from micrograd.compiler.passes.pipeline import Program
from micrograd.compiler.passes.products import Product, alone, arguments_of
from micrograd.compiler.targets.c_runtime import CALLS, FOR_DOUBLES, FOR_TILES, PARTS, definitions, refused
from micrograd.compiler.targets.spelling import Printer, block, filled, spellings

MANY_LINES = 500  # outside loops, above which a tile is one vector: 900 take 1.16 times as long, a quarter to compile
CACHE = 1 << 20  # bytes, beyond which a tile is smaller: 256-256-10 takes 602 us on AVX-512, and 768 with half of it
LONG_LOOP = 256  # rounds, above which it has addresses of its own: a mixture takes 1.09 times as long if 125 suffice
TILES = (4, 2, 1)  # vectors of examples in a tile

TOTAL = CONDITIONS | {*"+-*", "dot", "neg", "abs", "where", "max", "sum", *(op for op in CALLS if not refused(op))}
"""The operations that have a result for all operands, even if infinite; the others may raise in Python."""


def templates(precision: Precision = DOUBLE, *, vectors: bool, checks: bool = False) -> dict[str, str]:
    """Each operation in C, on vectors or on numbers; with `checks`, noting where Python raises errors."""
    operands = ["", "{0}", "{0}, {1}"]
    called = {op: f"v_{op}({operands[n]})" if vectors else f"{op}SUFFIX({operands[n]})" for op, n in CALLS.items()}
    found = {**spellings("c"), **called, **(spellings("vectors") if vectors else {})}
    if checks:
        found |= {op: f"checked_{op}({{0}}, failed)" for op in CALLS if refused(op, precision)} | spellings("checked")
        found |= {op: found[op].replace("{0}", "checked_index({0}, SIZE, failed)") for op in found if "take" in op}
    return {op: template.replace("SUFFIX", precision.suffix) for op, template in found.items()}


MODES = {"file": ("real", "", ""), "one": ("real", "", ""), "lanes": ("T", "FOR_LANES ", "[k]"), "once": ("V", "", "")}
"""What functions compute: an example, in a file or in a library; one in each lane; or what is the same for all.

For each mode: the type of numbers, and what is written before a statement and after a number of each lane.
"""


class Writer(Printer):
    """Prints a program as functions in C, in one of the MODES: with arithmetic on numbers or on vectors.

    In a library for one example, loops over neighbouring numbers become calls and vectors, and y may have the gradients
    after the value. Except in files and with IEEE errors, `failed` is set where Python raises an error.
    """

    def __init__(self, program: Program, precision: Precision, mode: str) -> None:
        once, self.graph = mode == "once", program.graph
        self.is_file, self.vectors = mode == "file", mode in ("lanes", "once")
        self.function = "static void" if self.is_file else "PART void"
        self.once, self.returns_gradients = once, mode == "one" and program.n_results > len(self.graph.outputs)
        self.literal, self.constants = precision.literal, program.constants
        self.type, self.for_lane, self.lane = MODES[mode]
        self.uniform = {*"pcghdu", *"xy" * once}  # arrays with one number for all lanes
        checks = not (self.is_file or self.graph.trace.ieee)
        self.templates = templates(precision, vectors=self.vectors, checks=checks)
        example = "real" if once else self.type
        types = {"p": "const real *", "x": f"const {example} *", "seed": f"const {example} ", "g": "real *"}
        types |= {"y": f"{example} *", "t": f"{self.type} *"}
        if not self.is_file:
            types |= {"failed": "M *", "h": "const real *", "d": "real *", "block": "R *", "u": "const real *"}
        self.parts, self.temporaries, self.products, self.block, _, self.inputs = lower(program, mode)
        steps = tuple(chain(*self.parts))
        self.alone = alone(self.products, steps)
        types = {name: type for of, type in types.items() for name in (self.inputs if of == "x" else [of])}
        self.parameters = {name: f"{type.replace('*', '*restrict ')}{name}" for name, type in types.items()}
        shared, sizes = self.graph.shared, self.graph.sizes
        self.reads_shared = any(  # from x, by loops that also read other arguments
            ref.array == "&x" or (ref.array == "x" and any(shared[arguments_of(ref, rounds, sizes)]))
            for ref, rounds in refs(steps)
        )

    def function_of(self, name: str, lines: Iterable[str]) -> str:
        """A function of these lines; it may leave some of its parameters unused. If several compilers share a library,
        one of them compiles it, and the others only declare it.
        """
        text = super().function_of(name, [" ".join(f"(void){each};" for each in self.parameters), *lines])
        if self.is_file:
            return text
        return f"#if MINE({self.middles[name]})\n{text.rstrip()}\n#else\n{self.declaration(name)};\n#endif\n\n"

    def array(self, name: str, numbers: Sequence[float]) -> str:
        """The declaration of an array."""
        kind = "real" if isinstance(numbers[0], float) else "short" if max(map(abs, numbers)) < 1 << 15 else "int"
        text = ", ".join(map(self.literal if kind == "real" else str, numbers))
        lines = textwrap.wrap(text, 116, break_on_hyphens=False)
        return "\n".join(block(f"static const {kind} {name}[] =", lines)) + ";\n\n"

    def products_source(self) -> str:
        """A function that adds the products of n examples of a block to gradients, if there are any."""
        lines = [line for product in self.products for line in self._product(product)]
        arguments = "const column *x, const int64_t *examples, const real *block, real *g, long n, int sets"
        start = "int64_t room[BLOCK];", "(void)x; (void)examples; (void)room; (void)sets;"
        return "\n".join([*block(f"static void products({arguments})", [*start, *lines]), "\n"]) if lines else ""

    def clear(self, n: int) -> str:
        """Lines that set all n gradients to 0, except those that products set."""
        zeros, end = list[tuple[str, str, int]](), 0  # a loop, where in it, and how many
        for (rows, width), (_, first, (row, _)), *_ in self.alone:
            between = f"for (long i = 0; i < {row * (rows - 1)}; i += {row}) "
            zeros += [("", f"{end}", first - end), (between, f"{first + width} + i", row - width)]
            end = first + row * (rows - 1) + width
        zeros.append(("", f"{end}", n - end))
        lines = [f"{loop}memset(g + {at}, 0, sizeof(real) * {count});\n" for loop, at, count in zeros if count]
        return textwrap.indent("".join(lines), 8 * " ")

    def _product(self, product: Product) -> Iterator[str]:
        """The call of a product, in the loops around it."""
        (*around, rows, columns), sizes = product.rounds, self.graph.sizes
        for depth, rounds in enumerate(around):
            yield f"for (long i{depth} = 0; i{depth} < {rounds}; i{depth}++)"
        g, a, b = (self.index(ref._replace(strides=ref.strides[:-2])) for ref in product[1:])
        b_next, g_row = product.b.strides[-1], product.target.strides[-2]
        sets = "sets" if product in self.alone else 0
        of_b = f"block + ROW * ({b}), ROW * {b_next}, 1, 0"
        if product.b.array == "x":
            k = arguments_of(product.b, product.rounds, sizes).start
            start, size = sum(sizes[:k]), 0 if self.graph.shared[k] else sizes[k]
            of_b = f"x[{k}].numbers + {b} - {start}, {b_next}, {size}, rows(x + {k}, examples, n, room)"
        yield f"product(block + ROW * ({a}), {of_b}, g + {g}, {g_row}, {rows}, {columns}, n, {sets});"

    def loop(self, loop: Loop, depth: int) -> str:
        """The head of a loop."""
        head = super().loop(loop, depth)
        if loop.in_order and not self.vectors:  # gcc 12 gets some such sums wrong when it vectorizes or unrolls them
            head = head.replace("long", "volatile long")
        if not loop.parallel:
            return head
        arrays = sorted({ref.array for ref, _ in refs(loop)} & {"t", "y", *self.inputs})
        return f"{''.join(f'HIDDEN({array}) ' for array in arrays if loop.rounds > LONG_LOOP)}PARALLEL {head}"

    def statement(self, step: Assign | Accumulate, is_new: bool) -> Iterator[str]:
        """The lines of a step: what is added to a gradient is the total of a variable's lanes."""
        target, text = self.ref(step.target), self.value(step.value)
        sign = "+=" if isinstance(step, Accumulate) else "="
        if self.returns_gradients and step.target.array == "y" and step.target != Ref("y"):
            text = f"0 + ({text})"  # no gradient is -0.0
        if self.vectors and step.target.array in self.uniform:
            number = f"({text})[0]" if self.once else f"total({text.removesuffix(self.lane)})"
            yield f"{target[2:-1]} {sign} {number};"
        elif is_new and not self.for_lane:
            yield f"{self.type} {target} {sign} {text};"
        else:
            yield from [f"{self.type} {step.target.array};"] * is_new
            yield f"{self.for_lane}{target} {sign} {text};"

    def condition(self, ref: Ref) -> str:
        """Whether a number is not 0; in lanes, whether it is 0 in none of them."""
        if not self.vectors:
            return super().condition(ref)
        number = self.ref(ref)
        return f"v_every(&{number}, 1)" if self.once else f"v_every({number.removesuffix(self.lane)}, TILE)"

    def take(self, index: Any, first: Ref, step: int, size: int) -> Call:
        """The number at an index; in vectors, each lane reads its own numbers, if it has any."""
        if not self.vectors or first.array in self.uniform:
            return super().take(index, first, step, size)
        tile = "" if self.once else "TILE*"
        return Call(f"v_take {tile}{step} {size}", (index, first))

    def ref(self, ref: Ref) -> str:
        """A reference: in vectors, one number for all lanes is U(number)."""
        text, array = super().ref(ref), ref.array
        if self.vectors and (array[0] == "=" or array in self.uniform):
            return f"U({text})"
        return text + self.lane * (is_variable(ref) or array in ("x", "y", "t", "block", "seed"))


def library_source(
    program: Program, precision: Precision = DOUBLE, *, tile: int, threads: int = 1, least: int = 1
) -> str:
    """A library: `run` runs a program for many examples, and `room` is how many bytes that takes.

    It computes up to `tile` vectors of examples at once, or if that is 0, one example after the other. A tile is
    smaller if its numbers would not stay in the processor's cache, or if the code has many lines and few loops. Up to
    `threads` threads share the examples, if each gets at least `least` of them.
    """
    graph, mode = program.graph, "lanes" if tile else "one"
    writer = Writer(program, precision, mode)
    hoisted = {"before": program.before, "after": program.after}
    once = {name: Writer(part, precision, "once") for name, part in hoisted.items() if part}
    products = writer.products_source()
    run = "\n".join([
        PARTS["gather"] if writer.inputs == ["x"] else "",
        PARTS["product"] + products if products else "",
        PARTS["run"],
        PARTS["add"] + PARTS["threads"] if threads > 1 else PARTS["one_thread"],
    ])  # fmt: skip
    body = "".join([*[part.source(name) for name, part in once.items()], writer.source("one", {"run": run})])
    text = "\n".join([
        "#include <fenv.h>\n#include <math.h>\n#include <stdint.h>\n#include <string.h>\n",
        PARTS["no_patterns"] + filled(PARTS["passes"], PASSES=FOR_TILES if tile else FOR_DOUBLES) + PARTS["jobs"],
        f"typedef {precision.type} real;\n",
        PARTS["register"] + (PARTS["vectors"] + PARTS["tiles"] + PARTS["in_register"] if tile else PARTS["doubles"]),
        PARTS[f"layer_{mode}"] if "layer(" in body else "",
        PARTS["call"],
        PARTS["block"] if products else PARTS["no_block"],
        definitions(body, precision, vectors=tile > 0),
        body,
        f"#if MINE({writer.middles['run']})\n{run}#endif\n",
    ])  # fmt: skip
    around = {name.upper(): PARTS[name] if part else "" for name, part in hoisted.items()}
    around["DELIVER"] = PARTS["lanes"] if tile else ""
    operations = calls(tuple([tuple(part.kernel) for part in (program, *hoisted.values()) if part]))
    may_overflow = not graph.trace.ieee and (precision != DOUBLE or "**" in map(general, operations))
    return filled(
        filled(text, **_arguments(writer, tile), **around),
        RESULTS="ys" if tile else f"c->y + b * {program.n_results}",
        CLEAR=writer.clear(graph.n_parameters),
        INTEGER=precision.integer,
        SUFFIX=precision.suffix,
        DIGITS=precision.digits,
        LIMIT=CACHE,
        TILES=tile if sum(not isinstance(step, Loop) for step in program.kernel) <= MANY_LINES else 1,
        INPUTS=sum(graph.sizes) if writer.inputs == ["x"] else 0,
        SHARED=sum(compress(graph.sizes, graph.shared)) if tile else 0,
        OUTPUTS=program.n_results if tile else 0,
        VALUES=program.n_results,
        TEMPORARIES=writer.temporaries,
        ITEMS=writer.block,
        HOISTED=max([0, *(each.temporaries for each in once.values())]),
        HELD=program.before.n_results if program.before else 0,
        TOTALS=program.n_sums,
        OVERFLOWS=may_overflow + (may_overflow and precision != DOUBLE),
        THREADS=threads,
        LEAST=least,
        COUNT=graph.n_parameters,
    )


def _arguments(writer: Writer, tile: int) -> dict[str, str]:
    """Where an example's arguments are: in place, or in `xs`, copied by the lines in EACH.

    The lines in ALIKE copy shared arguments once: in lanes, to `u`, and to `xs` only if a loop reads them from there.
    """
    sizes, shared = writer.graph.sizes, writer.graph.shared
    if writer.inputs != ["x"]:
        rows = ["0" if is_shared else "examples[0]" for is_shared in shared]
        places = [f"numbers_of(x + {k}, {row}, {n})" for k, (row, n) in enumerate(zip(rows, sizes, strict=True))]
        return {"ARGUMENTS": ", ".join(places), "ALIKE": "", "EACH": ""}
    lines = {True: "", False: ""}
    k = offset = 0
    for (size, is_shared), alike in groupby(zip(sizes, shared, strict=True)):
        count = len(list(alike))
        line = f"gather(xs + {offset}, x + {k}, {count}, {size}, examples);"
        if is_shared and tile:
            line = f"share(u + {offset}, x + {k}, {count}, {size});" + line * writer.reads_shared
        lines[is_shared] += f"    {line}\n"
        k, offset = k + count, offset + count * size
    return {"ARGUMENTS": "xs", "ALIKE": lines[True], "EACH": lines[False]}
