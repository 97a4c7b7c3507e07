"""The C backend: a trace as C99, for a library that is loaded here or for a file to take elsewhere.

Straight-line code in one piece would take a C compiler minutes for a large graph: the statements are rolled back into
loops over arrays, and split into functions. A library for many examples computes on vectors with an example in each
lane; one for few examples, or for a large model, computes them one by one, and its dot products use the lanes.

In lanes, sums are added up in the order of the engine. The dot product of one example is added up in eight parts: so
its last bits may differ between few examples and many, and where numbers near 1e308 cancel, it may overflow.
"""

from __future__ import annotations

import ctypes
import math
import struct
import threading
import weakref
import zlib
from array import array
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from micrograd import scalar
from micrograd.compiler.batch import Packed
from micrograd.compiler.check import failure
from micrograd.compiler.graph import Graph
from micrograd.compiler.roll import Element, Line, Loop, roll
from micrograd.compiler.statements import Statements
from micrograd.compiler.stored import Stored
from micrograd.compiler.toolchain import build, unload
from micrograd.compiler.trace import CONDITIONS

LINES = 150  # lines of C in a function
MOST_LANES = 8
MANY_CONSTANTS = 64  # above which they are kept in a table
FEW_PARAMETERS = 20_000  # up to which each lane has gradients of its own
FEW_EXAMPLES = 4  # up to which they are computed one by one

FUNCTIONS = {
    "sigmoid": "{ double e = exp(-fabs(x)); return x < 0.0 ? e / (1.0 + e) : 1.0 / (1.0 + e); }",
    "softplus": "{ double small = log1p(exp(-fabs(x))); return x < 0.0 ? small : x + small; }",
}
"""The functions of `scalar` that the C library lacks; the others it has by the same name."""

HELPERS = {
    **{name: f"double {name}(double x)\n{code}\n" for name, code in FUNCTIONS.items()},
    "remainder_": """double remainder_(double x, double y)
{
    double r = fmod(x, y); /* has the sign of x, Python's remainder that of y */
    if (r == 0.0)
        return copysign(r, y);
    return (r < 0.0) == (y < 0.0) ? r : r + y;
}
""",
    "take_at": """double take_at(const double *row, long step, long size, double index)
{
    volatile double none = 0.0;
    if (!(index >= 0.0 && index < size && index == (double)(long)index))
        return none / none; /* not a number, which is seen in the floating-point flags */
    return row[step * (long)index];
}
""",
    "add_at": """void add_at(double *row, long step, long size, double index, double gradient)
{
    if (index >= 0.0 && index < size)
        row[step * (long)index] += gradient;
}
""",
}

ARITHMETIC = {
    **{op: f"{{0}} {op} {{1}}" for op in ("+", "-", "*", "/")},
    **{op: f"({{0}} {op} {{1}})" for op in ("<", "<=", ">", ">=", "==", "!=")},
    "neg": "(-{0})",
    "**2": "({0} * {0})",
    "**3": "({0} * {0} * {0})",
    "%": "remainder_({0}, {1})",
    "**": "pow({0}, {1})",
    "abs": "fabs({0})",
    "sigmoid": "sigmoid({0})",
    "softplus": "softplus({0})",
    "take": "take_at((const double[]){{{*}}}, 1, SIZE, {0})",
    "take_at": "take_at({1}, STEP, SIZE, {0})",
    "add_at": "add_at({}, STEP, SIZE, {}, {})",
}
SCALAR = {
    **ARITHMETIC,
    "and": "({0} && {1})",
    "or": "({0} || {1})",
    "where": "({0} ? {1} : {2})",
    "relu": "({0} <= 0.0 ? 0.0 : {0})",
    "leaky_relu": "({0} <= 0.0 ? {1} * {0} : {0})",
    "condition": "({0} ? 1.0 : 0.0)",
    "truth": "({0} != 0.0)",
}


CALLS = tuple(name for name in scalar.FUNCTIONS if name not in SCALAR)
VECTOR = {
    **ARITHMETIC,
    **{op: f"v_{op}({{0}})" for op in (*CALLS, *FUNCTIONS)},
    "abs": "v_fabs({0})",
    "%": "v_remainder_({0}, {1})",
    "**": "v_pow({0}, {1})",
    "and": "({0} & {1})",
    "or": "({0} | {1})",
    "where": "choose({0}, {1}, {2})",
    "relu": "choose({0} <= U(0.0), U(0.0), {0})",
    "leaky_relu": "choose({0} <= U(0.0), {1} * {0}, {0})",
    "condition": "choose({0}, U(1.0), U(0.0))",
    "truth": "({0} != U(0.0))",
    "take": "v_take((const V[]){{{*}}}, SIZE, {0})",
    "take_at": "v_take_at({1}, STEP, SIZE, {0})",
    "add_at": "v_add_at({}, STEP, SIZE, {}, {})",
}
ROWS = """static inline V v_take_at(const double *row, long step, long size, V index)
{
    V r;
    for (int l = 0; l < LANES; l++)
        r[l] = take_at(row, step, size, index[l]);
    return r;
}

static inline V v_take(const V *values, long size, V index)
{
    V r;
    for (int l = 0; l < LANES; l++)
        r[l] = take_at((const double *)values + l, LANES, size, index[l]);
    return r;
}

static inline void v_add_at(V *row, long step, long size, V index, V gradient)
{
    for (int l = 0; l < LANES; l++)
        add_at((double *)row + l, LANES * step, size, index[l], gradient[l]);
}
"""
VECTORS = """#ifdef __AVX512F__
#define LANES 8
#else
#define LANES 4
#endif
typedef double V __attribute__((vector_size(8 * LANES)));
typedef long long M __attribute__((vector_size(8 * LANES)));

static inline V U(double x)
{
    V v;
    for (int l = 0; l < LANES; l++)
        v[l] = x;
    return v;
}

static inline V choose(M condition, V a, V b)
{
    return (V)((condition & (M)a) | (~condition & (M)b));
}

#define ONE(f) static inline V v_##f(V a) { V r; for (int l = 0; l < LANES; l++) r[l] = f(a[l]); return r; }
#define TWO(f) static inline V v_##f(V a, V b) { V r; for (int l = 0; l < LANES; l++) r[l] = f(a[l], b[l]); return r; }
"""


DOUBLES = """#define LANES 1
typedef double V;
typedef double W __attribute__((vector_size(64), aligned(8), may_alias));

static inline double dot(double start, const double *a, const double *b, long n)
{
    W sums = {0.0};
    long i = 0;
    for (; i + 8 <= n; i += 8)
        sums += *(const W *)(a + i) * *(const W *)(b + i);
    for (; i < n; i++)
        start += a[i] * b[i];
    return start + (((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7])));
}
"""


TOTAL = CONDITIONS | {
    *("+", "-", "*", "neg", "abs", "where"),
    *("relu", "leaky_relu", "sigmoid", "softplus", "tanh", "erf", "erfc", "atan", "asinh"),
}
"""The operations that have a result, if an infinite one, for all operands; the others may raise in Python."""


UNALIGNED = "typedef double W __attribute__((vector_size(8 * LANES), aligned(8), may_alias));\n"


class Writer:
    """Writes the operations that some results need as functions in C.

    Parameters
    ----------
    graph
        The traced function.
    results
        The lines to put into the array y, one after the other.
    accumulated
        The lines that end in the array g.
    vectors
        Whether the arithmetic is on vectors V, with one example in each lane, or on doubles.
    dots
        Whether long dot products are left to a function `dot`.
    """

    def __init__(
        self, graph: Graph, results: Sequence[int], accumulated: Sequence[int], *, vectors: bool, dots: bool = False
    ) -> None:
        self.graph = graph
        self.results = results
        self.vectors = vectors
        self.dots = dots
        self.type = "V" if vectors else "double"
        templates = VECTOR if vectors else SCALAR
        scatters = graph.scatters if accumulated else []
        statements = Statements(graph, [*results, *accumulated], templates, sums=False, scatters=scatters)
        self.table = _constants(graph, statements, [*results, *accumulated])
        places = {id: Element(array, i) for id, (array, i) in graph.trace.leaves.items()}
        places |= {id: Element(literal(number)) for id, number in graph.trace.constants.items()}
        places |= {id: Element("c", i) for i, id in enumerate(self.table)}
        places |= {id: Element(f"&{array}", row.base) for id, (array, row) in statements.rows.items()}
        loops, _ = roll(statements, places, statements.accumulator, results)
        chunks = list(_chunks(loops))
        targets = [places[id] for id in results]
        self._slots = _slots(chunks, targets)
        self.temporaries = len(self._slots)
        self._bodies = ["".join(map(self._loop, chunk)) for chunk in chunks]
        self._bodies[-1] += "".join(f"    y[{i}] = {self._element(place)};\n" for i, place in enumerate(targets))

    def source(self, name: str) -> str:
        """Functions that compute one example, or one in each lane: the last is called `name`."""
        head = (
            f"(const double *restrict p, const {self.type} *restrict x, {self.type} seed, "
            f"{self.type} *restrict g, {self.type} *restrict y, {self.type} *restrict t)"
        )
        text = ""
        if self.table:
            numbers = ",\n    ".join(literal(self.graph.trace.constants[id]) for id in self.table)
            text += f"static const double {name}_c[] = {{\n    {numbers}\n}};\n\n#define c {name}_c\n"
        parts = [f"{name}_{i}" for i in range(len(self._bodies))] if len(self._bodies) > 1 else [name]
        unused = "    (void)p; (void)x; (void)seed; (void)g; (void)y; (void)t;\n"
        for part, body in zip(parts, self._bodies, strict=True):
            text += f"static void {part}{head}\n{{\n{unused}{body}}}\n\n"
        if len(parts) > 1:
            calls = "".join(f"    {part}(p, x, seed, g, y, t);\n" for part in parts)
            text += f"static void {name}{head}\n{{\n{calls}}}\n\n"
        return text + ("#undef c\n" if self.table else "")

    def _leaf(self, array: str, index: str) -> str:
        if array == "seed":
            return "seed"
        if array[0] == "&":
            return f"{array}[{index}]"
        if array in ("x", "g", "y", "t"):
            return f"{array}[{index}]"
        uniform = f"{array}[{index}]" if array in ("p", "c") else array  # else it is the literal of a constant
        return f"U({uniform})" if self.vectors else uniform

    def _loop(self, loop: Loop) -> str:
        if loop.rounds == 1:
            (line,) = loop.lines
            target = line.every or line.last
            if target is None:
                return f"    {self._text(line)};\n"
            local = f"const {self.type} " if target and target.array == "t" and target.base not in self._slots else ""
            return f"    {local}{self._element(target)} = {self._text(line)};\n"
        if self.dots and _is_dot(loop):
            return self._dot(loop)
        carried, body, after = "", "", ""
        carrier: dict[int, str] = {}  # what holds a line's result from one round to the next
        for line in loop.lines:
            named = "" if "add_at(" in line.template else f"const {self.type} v{line.number} = "
            body += f"            {named}{self._text(line)};\n"
            if line.every:
                body += f"            {self._element(line.every)} = v{line.number};\n"
        for line in loop.lines:
            for i, operand in enumerate(line.operands):
                if isinstance(operand, tuple) and not isinstance(operand, Element):
                    carried += f"        {self.type} b{line.number}_{i} = {self._element(operand[0])};\n"
                    body += f"            b{line.number}_{i} = v{operand[1]};\n"
                    carrier[operand[1]] = f"b{line.number}_{i}"
        for line in loop.lines:
            if line.last and line.number in carrier:
                after += f"        {self._element(line.last)} = {carrier[line.number]};\n"
            elif line.last:
                body += f"            {self._element(line.last)} = v{line.number};\n"
        return (
            f"    {{\n{carried}        for (long i = 0; i < {loop.rounds}; i++) {{\n{body}        }}\n{after}    }}\n"
        )

    def _dot(self, loop: Loop) -> str:
        """A dot product, summed in several lanes."""
        (line,) = loop.lines
        start, a, b = line.operands
        first, second = (self._element(operand._replace(stride=0)) for operand in (a, b))
        call = f"dot({self._element(start[0])}, &{first}, &{second}, {loop.rounds})"
        return f"    {self._element(line.last)} = {call};\n"

    def _text(self, line: Line) -> str:
        texts = []
        for i, operand in enumerate(line.operands):
            if isinstance(operand, Element):
                texts.append(self._element(operand))
            else:
                texts.append(f"v{operand}" if isinstance(operand, int) else f"b{line.number}_{i}")
        return line.template.format(*texts)

    def _element(self, element: Element | None) -> str:
        assert element is not None
        array, base, stride = element
        if array == "t":
            if base not in self._slots:
                return f"t{base}"
            base = self._slots[base]
        if not stride:
            return self._leaf(array, str(base))
        advance = "i" if stride == 1 else f"{stride} * i"
        return self._leaf(array, f"{base} + {advance}" if base else advance)


def _constants(graph: Graph, statements: Statements, results: Sequence[int]) -> list[int]:
    """The constants that go into a table, so that loops can run over them: none, if they are few."""
    operands = {operand for statement in statements for operand in statement.operands}
    used = [id for id in graph.trace.constants if id in operands or id in results]
    return used if len(used) > MANY_CONSTANTS else []


def _chunks(loops: Sequence[Loop]) -> Iterator[list[Loop]]:
    """The loops in groups that make a function each."""
    chunk: list[Loop] = []
    lines = 0
    for loop in loops:
        chunk.append(loop)
        lines += 1 if loop.rounds == 1 else 4 + len(loop.lines)
        if lines > LINES:
            yield chunk
            chunk, lines = [], 0
    yield chunk


def _slots(chunks: Sequence[Sequence[Loop]], results: Sequence[Element]) -> dict[int, int]:
    """Where in the array t its elements go; those that only single statements of one function use go to variables."""
    users: dict[int, set[int]] = {}
    looped: set[int] = set()
    last = len(chunks) - 1
    for number, loop in [(i, loop) for i, chunk in enumerate(chunks) for loop in chunk] + [(last, None)]:
        for element in _elements(loop) if loop else results:
            if element.array == "t":
                rounds = loop.rounds if loop else 1
                indices = {element.base + i * element.stride for i in range(rounds if element.stride else 1)}
                for index in indices:
                    users.setdefault(index, set()).add(number)
                if rounds > 1:
                    looped.update(range(min(indices), max(indices) + 1))  # what lies between keeps them apart
    shared = {index for index, functions in users.items() if len(functions) > 1}
    return {index: slot for slot, index in enumerate(sorted(looped | shared))}


def _elements(loop: Loop) -> Iterator[Element]:
    """All that a loop reads and writes."""
    for line in loop.lines:
        for operand in (*line.operands, line.every, line.last):
            if isinstance(operand, Element):
                yield operand
            elif isinstance(operand, tuple):
                yield operand[0]


def _is_dot(loop: Loop) -> bool:
    """Whether a loop adds up the products of neighbouring elements of two arrays, and only the sum is needed."""
    line = loop.lines[0]
    if len(loop.lines) > 1 or line.template != "{} + {} * {}" or line.every or not line.last:
        return False
    start, a, b = line.operands
    return type(start) is tuple and all(
        isinstance(x, Element) and x.stride == 1 and x.array in ("p", "x", "t") for x in (a, b)
    )


def literal(number: float) -> str:
    """A number as C writes it, to the last bit."""
    if math.isfinite(number):
        return repr(float(number)) if number >= 0 else f"({float(number)!r})"
    return "NAN" if number != number else "INFINITY" if number > 0 else "(-INFINITY)"


def library_source(
    graph: Graph, results: Sequence[int], accumulated: Sequence[int], *, vectors: bool
) -> tuple[str, int]:
    """A library with one function, `run`, that computes the results for many examples; the doubles it works on."""
    writer = Writer(graph, results, accumulated, vectors=vectors, dots=not vectors)
    gather = ""
    offset = 0
    for k, size in enumerate(graph.sizes):
        gather += GATHER.format(size=size, offset=offset, k=k)
        offset += size
    n_gradients = graph.n_parameters if accumulated and vectors else 0
    body = writer.source("one")
    sums = "gs" if vectors else "g"
    types = vector_functions(body) if vectors else DOUBLES
    total = TOTAL.issuperset(graph.trace.ops[id] for id in graph.trace.needed([*results, *accumulated]))
    failed = "0" if total else "fetestexcept(FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW)"
    source = "\n".join(
        [
            "#include <fenv.h>\n#include <math.h>\n#include <stdint.h>\n",
            helpers(types + body),
            types,
            body,
            RUN.format(
                inputs=offset, outputs=len(results), gradients=n_gradients, gather=gather, sums=sums, failed=failed
            ),
        ]
    )
    return source, (offset + len(results) + n_gradients + writer.temporaries) * MOST_LANES + 8


def helpers(body: str) -> str:
    """The functions that the C library lacks, as far as they are called."""
    return "\n".join(f"static {code}" for name, code in HELPERS.items() if f"{name}(" in body)


def vector_functions(body: str) -> str:
    """The definition of vectors, and the functions of them that are called."""
    one = [name for name in (*CALLS, *FUNCTIONS, "fabs") if f"v_{name}(" in body]
    two = [name for name in ("pow", "remainder_") if f"v_{name}(" in body]
    macros = "".join([f"ONE({name})\n" for name in one] + [f"TWO({name})\n" for name in two])
    return VECTORS + macros + (ROWS if "v_take" in body else "")


GATHER = """        for (long l = 0; l < LANES; l++) {{
            long e = b + (l < m ? l : 0);
            const double *from = x[{k}] + (at ? at[e] : e) * {size};
            for (long i = 0; i < {size}; i++)
                ((double *)&xs[{offset} + i])[l] = from[i];
        }}
"""
RUN = """int run(const double *p, const double *const *x, const long *at, double seed,
        double *g, double *y, double *work, long n)
{{
    feclearexcept(FE_ALL_EXCEPT);
    V *xs = (V *)(((uintptr_t)work + 63) & ~(uintptr_t)63), *ys = xs + {inputs}, *gs = ys + {outputs};
    V *t = gs + {gradients};
    for (long i = 0; i < {gradients} * LANES; i++)
        ((double *)gs)[i] = 0.0;
    V seeds;
    for (long l = 0; l < LANES; l++)
        ((double *)&seeds)[l] = seed;
    for (long b = 0, m = n % LANES ? n % LANES : LANES; b < n; b += m, m = LANES) {{
{gather}        one(p, xs, seeds, {sums}, ys, t);
        for (long i = 0; i < {gradients}; i++)
            for (long l = m; l < LANES; l++) /* which repeat the first example where there are few, before all others */
                ((double *)&gs[i])[l] = 0.0;
        for (long l = 0; l < m; l++)
            for (long i = 0; i < {outputs}; i++)
                y[(b + l) * {outputs} + i] = ((double *)&ys[i])[l];
    }}
    for (long i = 0; i < {gradients}; i++)
        for (long l = 0; l < LANES; l++)
            g[i] += ((double *)&gs[i])[l];
    return {failed};
}}
"""


class CBackend:
    """A graph as libraries in C, one for each kind of call, built when it is first made.

    Parameters
    ----------
    graph
        The traced function.
    n
        How many examples most calls will have: what these need is built at once.

    Raises
    ------
    CompilerError
        If there is no C compiler, or it fails.
    """

    def __init__(self, graph: Graph, n: float = math.inf) -> None:
        self.stored = Stored(graph)
        self._written: dict[tuple[str, bool], _Written] = {}
        self._libraries: dict[tuple[str, bool], _Library] = {}
        n = n if graph.sizes else 1  # without arguments, each call has one example
        self.library("forward" if graph.parameter_gradients is None else "backward", n)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_libraries": {}}  # which are built anew, or found in the cache

    def forward(self, parameters: Sequence[float], packed: Packed) -> Sequence[float]:
        """The outputs for each example, one after the other."""
        return self.library("forward", packed.n)(parameters, 0.0, packed)[0]

    def backward(
        self, parameters: Sequence[float], seed: float, packed: Packed
    ) -> tuple[Sequence[float], Sequence[float]]:
        """The output for each example, and the gradient of their sum times `seed` by each parameter."""
        return self.library("backward", packed.n)(parameters, seed, packed)

    def value_and_grad(self, parameters: Sequence[float], packed: Packed) -> Sequence[float]:
        """The output for the first example, and its gradient with respect to each number in it."""
        return self.library("value_and_grad", 1)(parameters, 1.0, packed)[0]

    def library(self, kind: str, n: float) -> _Library:
        """What computes calls of a kind with so many examples: as many at once as there are lanes, or one by one."""
        vectors = n > FEW_EXAMPLES and self.stored.n_parameters <= FEW_PARAMETERS
        if (kind, vectors) not in self._written:
            graph = self.stored.graph()
            results = [*graph.outputs, *((graph.argument_gradients or []) if kind == "value_and_grad" else [])]
            accumulated = (graph.parameter_gradients or []) if kind == "backward" else []
            source, work_size = library_source(graph, results, accumulated, vectors=vectors)
            self._written[kind, vectors] = _Written(zlib.compress(source.encode(), 1), work_size, len(results))
        if (kind, vectors) not in self._libraries:
            self._libraries[kind, vectors] = _Library(self.stored, kind, self._written[kind, vectors])
        return self._libraries[kind, vectors]


class _Written(NamedTuple):
    """The C of a library, compressed; the doubles that it works on, and the results that it has for an example."""

    source: bytes
    work_size: int
    n_results: int


class _Library:
    """The loaded library for a kind of call.

    Where C went on with an infinity or NaN, and Python would not have, the call is an error as it is in Python: the
    processor's floating-point flags tell that it may be so, and then the examples are gone through step by step.
    """

    def __init__(self, stored: Stored, kind: str, written: _Written) -> None:
        self._stored = stored
        self._kind = kind
        self.work_size, self._n_results = written.work_size, written.n_results
        library = build(zlib.decompress(written.source).decode())
        weakref.finalize(self, unload, library).atexit = False  # when threads may be at work in it
        self._run = library.run
        pointer = ctypes.c_void_p
        self._run.argtypes = [ctypes.c_char_p, *[pointer] * 2, ctypes.c_double, *[pointer] * 3, ctypes.c_long]
        self._run.restype = ctypes.c_int
        self.function = ctypes.cast(self._run, pointer).value  # for code in C to call
        self._doubles = struct.Struct(f"{stored.n_parameters}d")
        self._local = threading.local()

    def __call__(
        self, parameters: Sequence[float], seed: float, packed: Packed
    ) -> tuple[Sequence[float], Sequence[float]]:
        """The results for each example, one after the other, and the gradients."""
        numbers = self._doubles.pack(*parameters)  # three times as fast as an array
        gradients = ctypes.create_string_buffer(len(numbers))
        results = array("d", bytes(8 * packed.n * self._n_results))
        if self.run(numbers, seed, packed, gradients, results):
            error = failure(self._stored.graph(), self._kind, parameters, packed)
            if error:
                raise error
        return results, self._doubles.unpack(gradients)

    def run(
        self, numbers: bytes, seed: float, packed: Packed, gradients: ctypes.Array[Any], results: array[float]
    ) -> int:
        """The generated function alone, on the doubles in these buffers: adds to gradients, overwrites results.

        Other than 0 if an operation may have failed: an overflow, a division by 0, an operand outside the domain.
        """
        work = getattr(self._local, "work", None)
        if work is None:  # each thread has its own
            work = self._local.work = (ctypes.c_double * self.work_size)()
        flags = self._run(numbers, packed.pointers, None, seed, gradients, results.buffer_info()[0], work, packed.n)
        return int(flags)
