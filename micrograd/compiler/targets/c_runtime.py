"""The C around a kernel: vectors, the functions that the C library lacks, checks, and the loop over examples."""

import math
from functools import cache

from micrograd import scalar
from micrograd.compiler.dtype import DOUBLE, Precision
from micrograd.compiler.frontend.operations import IEEE
from micrograd.compiler.targets.spelling import filled, parts

CALLS = {name: function.arity for name, function in scalar.FUNCTIONS.items() if not function.composed}
"""The functions of the C library that kernels call, and of how many numbers each is."""
INSTRUCTIONS = ("sqrt", "fabs", "floor")  # of a processor

FAST_COMPILE = '"no-tree-bit-ccp", "ira-region=one"'
FOR_TILES = f'"O1", "tree-loop-vectorize", {FAST_COMPILE}'
FOR_DOUBLES = f'"no-tree-pre", "no-code-hoisting", "no-tree-slp-vectorize", "no-schedule-insns2", {FAST_COMPILE}'
"""The gcc passes that are worth their compile time: loops over tiles are already written in the best order."""

PARTS = parts("runtime.c") | parts("products.c")
PROBES = (-math.inf, -1e308, -1e3, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 1e3, 1e308, math.inf)
"""One of them is outside of the domain of each function that has an end, or gives a result that is too large."""

NO_NUMBER, INFINITE = "((r != r) & (x == x))", "((r - r != U(0)) & (x - x == U(0)))"
TOO_LARGE = "((r == U(INFINITY)) & (x < U(INFINITY)))"
"""Results r that Python refuses: NaN if x is not NaN; an infinity if x is finite; and a faster test for large x."""


@cache
def refused(name: str, precision: Precision = DOUBLE) -> list[str]:
    """The results of a function that are errors in Python: an even number for floats that are too large."""
    found = set()
    for x in PROBES:
        operands = [x] * CALLS[name]
        try:
            scalar.FUNCTIONS[name](*operands)
        except OverflowError:
            found.add("2 * " * (precision != DOUBLE) + (TOO_LARGE if x > 0 else INFINITE))
        except (ArithmeticError, ValueError):
            found.add(NO_NUMBER if math.isnan(IEEE[name](*operands)) else INFINITE)
    return sorted(found)


def definitions(body: str, precision: Precision = DOUBLE, *, vectors: bool) -> str:
    """The functions that the C library lacks: those that the body calls, and those that these call in turn."""
    known = {
        f"{name}{precision.suffix}": PARTS[name] for name in ("chosen", "larger", "remainder_", "take_at", "add_at")
    }
    known |= _of_vectors(precision) if vectors else {name: PARTS[name] for name in ("row_exp", "row_tanh")}
    known |= _checked(precision, "v_" if vectors else "", "" if vectors else precision.suffix)
    text = ""
    for name, definition in reversed(known.items()):
        if any(f"{before}{name}(" in each for before in " (" for each in (text, body)):
            text = f"{filled(definition, SUFFIX=precision.suffix)}\n{text}"
    return text


def _of_vectors(precision: Precision) -> dict[str, str]:
    """The functions of vectors: in double precision, exp and tanh compute all lanes at once; others, lane by lane."""
    known = {}
    for name, n in (CALLS | {"remainder_": 2, "pow": 2, "fabs": 1}).items():
        kind = "inline" if name in INSTRUCTIONS else "CALLS_LIBM"
        call = f"{name}{precision.suffix}({', '.join(['a[l]', 'b[l]'][:n])})"
        known[f"v_{name}"] = f"static {kind} V v_{name}({', '.join(['V a', 'V b'][:n])}) LANE_BY_LANE({call})\n"
    own = ("v_larger", "v_take_at", "v_take", "v_add_at", *("v_exp", "v_tanh") * (precision == DOUBLE))
    return known | {name: PARTS[name] for name in own}


def _checked(precision: Precision, prefix: str, suffix: str) -> dict[str, str]:
    """Functions that note the results that are errors in Python."""
    known = {}
    for name, of in {**dict(zip(CALLS, CALLS, strict=True)), "row_exp": "exp"}.items():
        rules = " | ".join(refused(of, precision))
        call = f"{name}(x)" if name != of else f"{prefix}{name}{suffix}(x)"
        inline = "inline" if name == of else "inline __attribute__((always_inline))"  # else no loop over it has vectors
        known[f"checked_{name}"] = (
            f"static {inline} V checked_{name}(V x, M *failed)\n{{\n    const V r = {call};\n"
            f"    *failed |= {rules};\n    return r;\n}}\n"
        )
    own = {name: PARTS[name] for name in ("checked_quotient", "checked_remainder", "checked_pow", "checked_index")}
    return known | {name: filled(text, PREFIX=prefix, SUFFIX=suffix) for name, text in own.items()}
