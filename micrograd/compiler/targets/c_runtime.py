"""The C around a kernel: vectors, the functions that the C library lacks, and the loop over examples."""

from micrograd import scalar

CALLS = {name: function.arity for name, function in scalar.FUNCTIONS.items() if not function.composed}
"""The functions of the C library that kernels call, and of how many numbers each is."""
INSTRUCTIONS = ("sqrt", "fabs", "floor")  # of a processor

NO_PATTERNS = """#if defined(__GNUC__) && !defined(__clang__) /* gcc 12 may take copies for aligned */
#pragma GCC optimize("no-tree-loop-distribute-patterns")
#endif
"""
PASSES = """#if defined(__OPTIMIZE__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize({passes})
#endif
"""
FAST_COMPILE = '"no-tree-bit-ccp", "ira-region=one"'
FOR_TILES = f'"O1", "tree-loop-vectorize", {FAST_COMPILE}'
FOR_DOUBLES = f'"no-tree-pre", "no-code-hoisting", "no-tree-slp-vectorize", "no-schedule-insns2", {FAST_COMPILE}'
"""The gcc passes that are worth their compile time: loops over tiles are already written in the best order."""

HELPERS = {
    "quotient": """const volatile double unit = 1.0; /* which no compiler divides by 0.0 itself, without a flag */

static inline double quotient(double x, double y)
{
    return (y == 0.0 ? unit : x) / y; /* so that inf / 0.0 is seen in the floating-point flags as 1.0 / 0.0 is */
}
""",
    "larger": """inline double larger(double a, double b)
{
    return a > b ? a : b;
}
""",
    "remainder_": """double remainder_(double x, double y)
{
    double r = fmod(y == 0.0 ? 1.0 : x, y); /* has the sign of x, Python's remainder that of y */
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
    if (index >= 0.0 && index < size && index == (double)(long)index)
        row[step * (long)index] += gradient;
}
""",
}

V_QUOTIENT = """static inline V v_quotient(V x, V y)
{
    return choose(y == U(0.0), U(unit), x) / y;
}
"""
V_LARGER = """static inline V v_larger(V a, V b)
{
    return choose(a > b, a, b);
}
"""
WINDOWS = """#ifdef _WIN32 /* where some of libm's functions, those of MinGW, raise no floating-point flags */
static double seen(double x, double result, int infinite)
{
    if (isnan(result) && !isnan(x))
        feraiseexcept(FE_INVALID);
    if (isinf(result) && isfinite(x))
        feraiseexcept(infinite);
    return result;
}
%s#endif
"""
"""What raises those that an operation has to raise which has no number as its result, by macros for the functions."""
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
APART = """#if defined(__GNUC__) && !defined(__clang__) /* vector registers are cleared before libm is called */
#define APART __attribute__((noinline, optimize("expensive-optimizations")))
#else
#define APART inline
#endif
"""
NOINLINE = """#if defined(__GNUC__) && !defined(__clang__) /* gcc 12 loses what routines read if it sees their calls */
#define NOINLINE __attribute__((noipa))
#else
#define NOINLINE __attribute__((noinline))
#endif
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


UNALIGNED = "typedef double W __attribute__((vector_size(BYTES), aligned(sizeof(double)), may_alias));\n"
GATHER = """/* Copies arguments of one size, for the examples from b on, into lanes: so many, or the first again. */
static inline void gather(T *to, const double *const *x, int64_t arguments, int64_t size,
                          const int64_t *at, int64_t b, int64_t m)
{
    for (int64_t k = 0; k < arguments; k++)
        for (int64_t l = 0; l < WIDTH; l++) {
            int64_t e = b + (l < m ? l : 0);
            const double *from = x[k] + (at ? at[e] : e) * size;
            for (int64_t i = 0; i < size; i++)
                ((double *)&to[k * size + i])[l] = from[i];
        }
}
"""
RUN = """const int64_t room = {room}; /* bytes for work */

int run(const double *p, const double *const *x, const int64_t *at, wide seed,
        double *g, double *y, double *work, int64_t n)
{{
    feclearexcept(FE_ALL_EXCEPT);
    T *xs = (T *)(((uintptr_t)work + 63) & ~(uintptr_t)63), *ys = xs + {inputs};
    T *t = ys + {outputs}, seeds;
{once}    for (int64_t b = 0, m = n % WIDTH ? n % WIDTH : WIDTH; b < n; b += m, m = WIDTH) {{
        for (int64_t l = 0; l < WIDTH; l++) /* those that repeat an example have no gradient */
            ((double *)&seeds)[l] = l < m ? seed : 0.0;
{gather}        one(p, xs, seeds, g, ys, t);
        for (int64_t l = 0; l < m; l++)
            for (int64_t i = 0; i < {outputs}; i++)
                y[(b + l) * {outputs} + i] = ((double *)&ys[i])[l];
    }}
    return {failed};
}}
"""
ADD = """void add(double *to, const double *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] += from[i];
}
"""


def is_bounded(name: str) -> bool:
    """Whether a function's domain ends: an infinite result is a pole there, and of other functions too large."""
    for x in (-1.0, 0.0, 1.0):
        try:
            scalar.FUNCTIONS[name](*[x] * CALLS[name])
        except scalar.DomainError:
            return True
    return False


def seen(body: str) -> str:
    """What makes the functions of libm that are called raise floating-point flags on Windows, as they do elsewhere."""
    names = [name for name in CALLS if name not in INSTRUCTIONS and f"{name}(" in body]
    infinite = {name: "FE_DIVBYZERO" if is_bounded(name) else "FE_OVERFLOW" for name in names}
    calls = {name: f"{name}({', '.join('xy'[: CALLS[name]])})" for name in names}
    macros = [f"{calls[name]} seen(x, {calls[name]}, {infinite[name]})" for name in names]
    if "pow(" in body:
        macros.append("pow(x, y) seen(x, pow(x, y), (x) == 0.0 ? FE_DIVBYZERO : FE_OVERFLOW)")
    if "remainder_(" in body:
        macros.append("fmod(x, y) seen(x, fmod(x, y), FE_INVALID)")
    return WINDOWS % "".join(f"#define {macro}\n" for macro in macros) if macros else ""


def helpers(body: str) -> str:
    """The functions that the C library lacks, as far as they are called."""
    return "\n".join(f"static {code}" for name, code in HELPERS.items() if f"{name}(" in body)


def vector_functions(body: str) -> str:
    """The definition of vectors, and the functions of them that are called."""
    called = {name: n for name, n in {**CALLS, "fabs": 1, "pow": 2, "remainder_": 2}.items() if f"v_{name}(" in body}
    kind = {name: "inline" if name in INSTRUCTIONS else "APART" for name in called}
    functions = [
        f"static {kind[name]} V v_{name}({', '.join(['V a', 'V b'][:n])}) "
        f"LANE_BY_LANE({name}({', '.join(['a[l]', 'b[l]'][:n])}))\n"
        for name, n in called.items()
    ]
    rest = "".join(
        text for name, text in (("v_quotient", V_QUOTIENT), ("v_larger", V_LARGER), ("v_take", ROWS)) if name in body
    )
    return VECTORS + (APART if "APART" in kind.values() else "") + "".join(functions) + rest
