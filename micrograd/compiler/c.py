"""Writing C: a trace as C99, for a library that is loaded here (library.py) or a file to take elsewhere (export.py).

Straight-line code in one piece would take a C compiler minutes for a large graph: the statements are rolled back into
nests of loops over arrays, and split into functions. A library for many examples computes a tile of them at once:
vectors with an example in each lane, and up to four vectors for each weight that is read. One for few examples computes
them one by one, and its dot products use the lanes.

In lanes, sums are added up in the order of the engine, but for a gradient's: that of a parameter adds up over a tile
first, and the terms of a sum of products are added there one by one. The dot product of one example is added up in
eight parts: so its last bits may differ between few examples and many, and where numbers near 1e308 cancel, it may
overflow.
"""

import math
from bisect import bisect
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter

from micrograd import scalar
from micrograd.compiler.graph import Graph
from micrograd.compiler.precision import DOUBLE, VECTOR_BYTES, Precision
from micrograd.compiler.roll import ZERO, Element, Line, Loop, Program, elements, roll
from micrograd.compiler.statements import Statements
from micrograd.compiler.trace import CONDITIONS

LINES = 150  # lines of C in a function
MANY_LINES = 500  # outside of loops, above which a tile is one vector: more would be unrolled in each
MANY_CONSTANTS = 8  # above which they are kept in a table
CACHE = 1 << 19  # bytes, beyond which a tile is smaller

NO_PATTERNS = """#if defined(__GNUC__) && !defined(__clang__) /* gcc 12 may take copies for aligned */
#pragma GCC optimize("no-tree-loop-distribute-patterns")
#endif
"""
PASSES = """#if defined(__OPTIMIZE__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize({passes})
#endif
"""
FOR_TILES = '"O1", "tree-loop-vectorize"'
FOR_DOUBLES = '"no-tree-pre", "no-code-hoisting", "no-tree-slp-vectorize", "no-schedule-insns2"'
"""The passes of gcc that are worth their time: loops over tiles are written as they are to be carried out."""
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

static inline void v_add_at(double *row, long step, long size, V index, V gradient)
{
    for (int l = 0; l < LANES; l++)
        add_at(row, step, size, index[l], gradient[l]);
}
"""
VECTORS = """#ifdef __AVX512F__
#define BYTES 64
#else
#define BYTES 32
#endif
enum { LANES = BYTES / sizeof(double) };
typedef double V __attribute__((vector_size(BYTES)));
typedef long long M __attribute__((vector_size(BYTES)));

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

#define LANE_BY_LANE(call) { V r; for (int l = 0; l < LANES; l++) r[l] = call; return r; }
"""


TILES = """#define TILE {tile}
#define WIDTH (LANES * TILE)
#define EACH _Pragma("GCC unroll 8") for (int k = 0; k < TILE; k++)
typedef V T[TILE]; /* a number for each example of a tile */

static inline double total(const V *tile)
{{
    typedef double H __attribute__((vector_size(BYTES / 2)));
    typedef double Q __attribute__((vector_size(BYTES / 4)));
    union {{ V v; H h[2]; }} whole = {{ .v = tile[0] }};
    for (int k = 1; k < TILE; k++)
        whole.v += tile[k];
    union {{ H h; Q q[2]; }} half = {{ .h = whole.h[0] + whole.h[1] }};
    Q quarter = half.q[0] + half.q[1];
    double sum = quarter[0];
    for (int l = 1; l < LANES / 4; l++)
        sum += quarter[l];
    return sum;
}}

"""
DOUBLES = """#define WIDTH 1
typedef double T;
typedef double W __attribute__((vector_size(8 * sizeof(double)), aligned(sizeof(double)), may_alias));

static inline double dot(double start, const double *a, const double *b, long n)
{
    W sums = {0.0};
    const long whole = n / 8 * 8;
    for (long i = 0; i < whole; i += 8)
        sums += *(const W *)(a + i) * *(const W *)(b + i);
    for (long i = whole; i < n; i++)
        start += a[i] * b[i];
    return start + (((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7])));
}
"""


TOTAL = CONDITIONS | {
    *("+", "-", "*", "neg", "abs", "where"),
    *("relu", "leaky_relu", "sigmoid", "softplus", "tanh", "erf", "erfc", "atan", "asinh"),
}
"""The operations that have a result, if an infinite one, for all operands; the others may raise in Python."""


UNALIGNED = "typedef double W __attribute__((vector_size(BYTES), aligned(sizeof(double)), may_alias));\n"


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
        self.type = "T" if vectors else "double"
        self.each, self.k = ("EACH ", "[k]") if vectors else ("", "")  # a statement is of each vector of a tile
        templates = VECTOR if vectors else SCALAR
        scatters = graph.scatters if accumulated else []
        statements = Statements(graph, [*results, *accumulated], templates, sums=False, scatters=scatters)
        self.operations = statements.operations
        self.table = _constants(graph, statements, [*results, *accumulated])
        places = {id: Element(array, i) for id, (array, i) in graph.trace.leaves.items()}
        places |= {id: Element(literal(number)) for id, number in graph.trace.constants.items()}
        places |= {id: Element("c", i) for i, id in enumerate(self.table)} | {statements.zero: ZERO}
        places |= {id: Element(f"&{array}", row.base) for id, (array, row) in statements.rows.items()}
        program = roll(statements, places, statements.accumulator, results, graph.gradients)
        chunks = list(_chunks(program))
        self.straight = sum(isinstance(step, Line) for step in program)
        self._slots = _Slots(chunks)
        self.temporaries, self.sums = self._slots.sizes["t"], self._slots.sizes["s"]
        zeros = [f"for (long i = 0; i < {self.sums}; i++)", f"    {self._set('s[i]', self._leaf(ZERO.array, ''))}"]
        self._bodies = [[text for step in chunk for text in self._step(step)] for chunk in chunks]
        self._bodies[0][:0] = zeros if self.sums else []

    def source(self, name: str) -> str:
        """Functions that compute one example, or one in each lane: the last is called `name`."""
        head = (
            f"(const double *restrict p, const {self.type} *restrict x, const {self.type} seed, "
            f"double *restrict g, {self.type} *restrict y, "
            f"{self.type} *restrict t, {self.type} *restrict s)"
        )
        text = ""
        if self.table:
            numbers = ",\n    ".join(literal(self.graph.trace.constants[id]) for id in self.table)
            text += f"static const double {name}_c[] = {{\n    {numbers}\n}};\n\n#define c {name}_c\n"
        parts = [f"{name}_{i}" for i in range(len(self._bodies))] if len(self._bodies) > 1 else [name]
        unused = "    (void)p; (void)x; (void)seed; (void)g; (void)y; (void)t; (void)s;\n"
        for part, body in zip(parts, self._bodies, strict=True):
            lines = "".join(f"{line}\n" for line in _indented(body))
            text += f"static void {part}{head}\n{{\n{unused}{lines}}}\n\n"
        if len(parts) > 1:
            calls = "".join(f"    {part}(p, x, seed, g, y, t, s);\n" for part in parts)
            text += f"static void {name}{head}\n{{\n{calls}}}\n\n"
        return text + ("#undef c\n" if self.table else "")

    def _leaf(self, array: str, index: str) -> str:
        if array == "seed":
            return f"seed{self.k}"
        if array[0] in "&g":
            return f"{array}[{index}]"
        if array in ("x", "y", "t", "s"):
            return f"{array}[{index}]{self.k}"
        uniform = f"{array}[{index}]" if array in ("p", "c") else array  # else it is the literal of a constant
        return f"U({uniform})" if self.vectors else uniform

    def _step(self, step: Line | Loop, depth: int = 0) -> list[str]:
        """The lines of C for a line or a loop within so many loops."""
        if isinstance(step, Loop):
            return [self._dot(step)] if self.dots and _is_dot(step) else self._loop(step, depth)
        if step.every is None:
            return [f"{self.each}{self._text(step)};"]
        if self.vectors and step.every.array == "g":
            return self._add_total(step, [self._set("a", self._term(step))])
        target = self._element(step.every)
        name = target.removesuffix(self.k)
        return self._declare(name, self._text(step)) if name.isidentifier() else [self._set(name, self._text(step))]

    def _set(self, name: str, text: str) -> str:
        """A statement that sets a variable, or an element of an array, in all lanes."""
        return f"{self.each}{name}{self.k} = {text};"

    def _declare(self, name: str, text: str, const: str = "const ") -> list[str]:
        """A new variable, which changes no more unless it is not const."""
        return [f"T {name};", self._set(name, text)] if self.vectors else [f"{const}double {name} = {text};"]

    def _add_total(self, line: Line, lines: Sequence[str]) -> list[str]:
        """What adds the sum over a tile of `a`, to be computed by the lines, to the gradient that a line adds to."""
        assert line.every is not None
        sign = line.template[3]
        return ["{", *_indented(["T a;", *lines, f"{self._element(line.every)} {sign}= total(a);"]), "}"]

    def _term(self, line: Line) -> str:
        """What a line adds to a gradient, or takes away from it."""
        return self._text(line)[len(self._element(line.every)) + 3 :]

    def _loop(self, loop: Loop, depth: int) -> list[str]:
        """A loop, whose lines may refer to one another, or to what another was in the round before."""
        lines = [step for step in loop.body if isinstance(step, Line)]
        operands = [(line.number, i, operand) for line in lines for i, operand in enumerate(line.operands)]
        carriers = [(f"b{line}_{i}", *operand) for line, i, operand in operands if type(operand) is tuple]
        carried = {number: name for name, _, number in carriers}  # what holds a line's result until the next round
        named = {operand for _, _, operand in operands if isinstance(operand, int)} | set(carried)
        body, after = [], []
        for step in loop.body:
            if isinstance(step, Loop) or (step.number not in named and not step.last):
                body += self._step(step, depth + 1)
                continue
            body += self._declare(f"v{step.number}", self._text(step))
            if step.every:
                body.append(self._copy(step.every, f"v{step.number}"))
            if step.last and step.number in carried:
                after.append(self._copy(step.last, carried[step.number]))
            elif step.last:
                body.append(self._copy(step.last, f"v{step.number}"))
        if len(carriers) == len(loop.body) == 1 and not lines[0].every:  # a sum, and nothing else
            body = [self._set(carriers[0][0], self._text(lines[0]))]
        else:
            body += [self._set(name, f"v{number}{self.k}") for name, _, number in carriers]
        # gcc 12 adds up wrongly what has several terms a round, if these lie in an array in reverse and it makes a
        # vector of them. It makes none where the counter is volatile.
        counter = "volatile long" if not self.vectors and _is_chain(lines) else "long"
        head = f"for ({counter} i{depth} = 0; i{depth} < {loop.rounds}; i{depth}++)"
        if self.vectors and len(loop.body) == len(lines) == 1 and lines[0].every and _stays(lines[0].every, "g"):
            added = self._set("a", f"a[k] + {self._term(lines[0])}")
            return self._add_total(lines[0], [self._set("a", "U(0.0)"), head, f"    {added}"])
        text = [head, *_indented(body)] if len(body) == 1 else [f"{head} {{", *_indented(body), "}"]
        if carriers:
            before = [text for name, start, _ in carriers for text in self._declare(name, self._element(start), "")]
            return ["{", *_indented([*before, *text, *after]), "}"]
        return text

    def _copy(self, to: Element, name: str) -> str:
        return self._set(self._element(to).removesuffix(self.k), name + self.k)

    def _dot(self, loop: Loop) -> str:
        """A dot product, summed in several lanes."""
        line = loop.body[0]
        assert isinstance(line, Line)
        start, *factors = line.operands
        a, b = map(self._element, (_lowest(factor, loop.rounds) for factor in factors))
        return f"{self._element(line.last)} = dot({self._element(start[0])}, &{a}, &{b}, {loop.rounds});"

    def _text(self, line: Line) -> str:
        texts = []
        for i, operand in enumerate(line.operands):
            if isinstance(operand, Element):
                texts.append(self._element(operand))
            else:
                texts.append((f"v{operand}" if isinstance(operand, int) else f"b{line.number}_{i}") + self.k)
        return line.template.format(*texts)

    def _element(self, element: Element | None) -> str:
        assert element is not None
        array, base, strides = element
        if array[0] in "t+":
            slot = self._slots[array, base]
            if isinstance(slot, str):
                return slot + self.k
            array, base = "s" if array[0] == "+" else "t", slot
        terms = [f"{stride} * i{k}" if stride != 1 else f"i{k}" for k, stride in enumerate(strides) if stride]
        return self._leaf(array, " + ".join([str(base)] * (not terms or base != 0) + terms))


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _constants(graph: Graph, statements: Statements, results: Sequence[int]) -> list[int]:
    """The constants that go into a table, so that loops can run over them: none, if they are few.

    Whole numbers come first, as one counts; the others as they are first used.
    """
    operands = {operand for statement in statements for operand in statement.operands}
    numbers = graph.trace.constants
    used = [id for id in numbers if id in operands or id in results]
    used.sort(key=lambda id: numbers[id] if float(numbers[id]).is_integer() else math.inf)
    return used if len(used) > MANY_CONSTANTS else []


def _chunks(program: Program) -> Iterator[Program]:
    """The program in parts that make a function each."""
    chunk: Program = []
    lines = 0
    for step in program:
        length = _length(step)
        if chunk and lines + length > LINES:
            yield chunk
            chunk, lines = [], 0
        chunk.append(step)
        lines += length
    yield chunk


def _length(step: Line | Loop) -> int:
    """How many lines of C a step has, about."""
    return 1 if isinstance(step, Line) else 4 + sum(map(_length, step.body))


class _Slots:
    """Where in the arrays t and s the elements go; those that only single lines of one function use go to variables.

    What lies between elements that a loop uses keeps them apart.

    Attributes
    ----------
    sizes
        How many elements t and s have.
    """

    def __init__(self, chunks: Sequence[Program]) -> None:
        spans: dict[str, set[tuple[int, int]]] = defaultdict(set)
        user: dict[tuple[str, int], int] = {}
        for number, step in [(number, step) for number, chunk in enumerate(chunks) for step in chunk]:
            for (name, base, strides), rounds in elements(step):
                if name[0] == "+" or (name[0] == "t" and (rounds or user.setdefault((name, base), number) != number)):
                    reach = [(n - 1) * stride for n, stride in zip(rounds, strides, strict=True)]
                    spans[name].add((base + sum(min(r, 0) for r in reach), base + sum(max(r, 0) for r in reach) + 1))
        self.sizes = {"t": 0, "s": 0}
        self._variables: dict[tuple[str, int], str] = {}
        self._ranges: dict[str, list[tuple[int, int, int]]] = {}  # first and end in an array, and the slot of the first
        for name, found in spans.items():
            home = "s" if name[0] == "+" else "t"
            ranges = self._ranges[name] = []
            for first, end in _united(found):
                ranges.append((first, end, self.sizes[home]))
                self.sizes[home] += end - first

    def __getitem__(self, place: tuple[str, int]) -> int | str:
        """The slot of an element, or the name of a variable."""
        name, index = place
        ranges = self._ranges.get(name, [])
        at = bisect(ranges, index, key=itemgetter(0)) - 1
        if at >= 0 and index < ranges[at][1]:
            return ranges[at][2] + index - ranges[at][0]
        return self._variables.setdefault(place, f"t{len(self._variables)}")


def _united(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The ranges, first and end each, with those that overlap made one."""
    united: list[tuple[int, int]] = []
    for first, end in sorted(spans):
        if united and first < united[-1][1]:
            united[-1] = united[-1][0], max(end, united[-1][1])
        else:
            united.append((first, end))
    return united


def _is_dot(loop: Loop) -> bool:
    """Whether a loop adds up the products of neighbouring elements of two arrays, and only the sum is needed."""
    line = loop.body[0]
    if len(loop.body) > 1 or isinstance(line, Loop) or line.template != "{} + {} * {}" or line.every or not line.last:
        return False
    start, *factors = line.operands
    if type(start) is not tuple or not all(isinstance(x, Element) and x.array[0] in "pxt+" for x in factors):
        return False
    return [x.strides[-1] for x in factors] in ([1, 1], [-1, -1])


def _is_chain(lines: Sequence[Line]) -> bool:
    """Whether several lines of a loop's round may add to one number."""
    carried = [(line.number, operand[1]) for line in lines for operand in line.operands if type(operand) is tuple]
    added = [line.every for line in lines if line.every and line.every.strides[-1] == 0]
    return any(reader != number for reader, number in carried) or len(set(added)) < len(added)


def _stays(element: Element, array: str) -> bool:
    """Whether it is the same element of this array in each round of a loop."""
    return element.array == array and element.strides[-1] == 0


def _lowest(element: Element, rounds: int) -> Element:
    """The first of neighbouring elements that a loop goes through forwards or backwards."""
    array, base, (*outer, stride) = element
    return Element(array, base + min(0, stride * (rounds - 1)), tuple(outer))


def literal(number: float) -> str:
    """A number as C writes it, to the last bit."""
    if math.isfinite(number):
        return repr(float(number)) if number >= 0 else f"({float(number)!r})"
    return "NAN" if number != number else "INFINITY" if number > 0 else "(-INFINITY)"


def library_source(
    graph: Graph, results: Sequence[int], accumulated: Sequence[int], *, tile: int, precision: Precision = DOUBLE
) -> str:
    """A library with one function, `run`, that computes the results for many examples, and the `room` it works in.

    It computes so many vectors of examples at once, or if `tile` is 0, one example after the other. A tile is smaller
    where its numbers would not stay in the processor's cache, from which each weight is read once for all of it, or
    where the code has many lines and few loops.
    """
    writer = Writer(graph, results, accumulated, vectors=tile > 0, dots=tile == 0)
    numbers = sum(graph.sizes) + len(results) + writer.temporaries + writer.sums
    while tile > 1 and (writer.straight > MANY_LINES or tile * numbers * VECTOR_BYTES > CACHE):
        tile //= 2
    gather = ""
    k = offset = 0
    for size, alike in groupby(graph.sizes):
        count = len(list(alike))
        gather += f"        gather(xs + {offset}, x + {k}, {count}, {size}, at, b, m);\n"
        k, offset = k + count, offset + count * size
    body = writer.source("one")
    types = vector_functions(body) + TILES.format(tile=tile) if tile else DOUBLES
    failed = "0" if writer.operations <= TOTAL else "fetestexcept(FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW) != 0"
    if precision != DOUBLE:  # there what is too large for it, and not for Python, is no failure by itself
        failed = f"({failed.replace(' | FE_OVERFLOW', '')}) | (fetestexcept(FE_OVERFLOW) ? 2 : 0)"
    source = "\n".join(
        [
            "#include <fenv.h>\n#include <math.h>\n#include <stdint.h>\n",
            NO_PATTERNS + PASSES.format(passes=FOR_TILES if tile else FOR_DOUBLES),
            helpers(types + body),
            types,
            body,
            GATHER if gather else "",
            RUN.format(
                inputs=offset,
                outputs=len(results),
                temporaries=writer.temporaries,
                gather=gather,
                failed=failed,
                room=(numbers * max(tile, 1) + 1) * VECTOR_BYTES,
            ),
        ]
    )
    return precision.text(source)


def helpers(body: str) -> str:
    """The functions that the C library lacks, as far as they are called."""
    return "\n".join(f"static {code}" for name, code in HELPERS.items() if f"{name}(" in body)


def vector_functions(body: str) -> str:
    """The definition of vectors, and the functions of them that are called."""
    one = [name for name in (*CALLS, *FUNCTIONS, "fabs") if f"v_{name}(" in body]
    two = [name for name in ("pow", "remainder_") if f"v_{name}(" in body]
    functions = [f"static inline V v_{name}(V a) LANE_BY_LANE({name}(a[l]))\n" for name in one]
    functions += [f"static inline V v_{name}(V a, V b) LANE_BY_LANE({name}(a[l], b[l]))\n" for name in two]
    return VECTORS + "".join(functions) + (ROWS if "v_take" in body else "")


GATHER = """/* Copies arguments of one size, for the examples from b on, into lanes: so many, or the first again. */
static inline void gather(T *to, const double *const *x, long arguments, long size, const long *at, long b, long m)
{
    for (long k = 0; k < arguments; k++)
        for (long l = 0; l < WIDTH; l++) {
            long e = b + (l < m ? l : 0);
            const double *from = x[k] + (at ? at[e] : e) * size;
            for (long i = 0; i < size; i++)
                ((double *)&to[k * size + i])[l] = from[i];
        }
}
"""
RUN = """const long room = {room}; /* bytes for work */

int run(const double *p, const double *const *x, const long *at, wide seed,
        double *g, double *y, double *work, long n)
{{
    feclearexcept(FE_ALL_EXCEPT);
    T *xs = (T *)(((uintptr_t)work + 63) & ~(uintptr_t)63), *ys = xs + {inputs};
    T *t = ys + {outputs}, *s = t + {temporaries}, seeds;
    for (long b = 0, m = n % WIDTH ? n % WIDTH : WIDTH; b < n; b += m, m = WIDTH) {{
        for (long l = 0; l < WIDTH; l++) /* those that repeat an example have no gradient */
            ((double *)&seeds)[l] = l < m ? seed : 0.0;
{gather}        one(p, xs, seeds, g, ys, t, s);
        for (long l = 0; l < m; l++)
            for (long i = 0; i < {outputs}; i++)
                y[(b + l) * {outputs} + i] = ((double *)&ys[i])[l];
    }}
    return {failed};
}}

void add(double *to, const double *from, long n)
{{
    for (long i = 0; i < n; i++)
        to[i] += from[i];
}}
"""
