"""The C around a kernel: vectors, the functions that the C library lacks, checks, and the loop over examples."""

import math
from functools import cache

from micrograd import scalar
from micrograd.compiler.dtype import DOUBLE, Precision
from micrograd.compiler.frontend.operations import IEEE
from micrograd.compiler.targets.spelling import filled, parts, used

CALLS = {name: function.arity for name, function in scalar.FUNCTIONS.items() if not function.composed}
"""The functions of the C library that kernels call, and of how many numbers each is."""
INSTRUCTIONS = ("sqrt", "fabs", "floor")  # of a processor
OF_NUMBERS = "chosen", "larger", "remainder_", "take_at", "add_at"
ALWAYS = "inline __attribute__((always_inline))"  # else no loop that calls it has vectors

FAST_COMPILE = '"no-tree-bit-ccp", "ira-region=one"'
FOR_TILES = f'"O1", "no-tree-dominator-opts", "tree-loop-vectorize", {FAST_COMPILE}'
FOR_DOUBLES = (
    '"no-tree-pre", "no-code-hoisting", "no-gcse", "no-tree-vrp", "no-tree-slp-vectorize", "no-schedule-insns2", '
    f"{FAST_COMPILE}"
)
"""The gcc passes that are worth their compile time: loops over tiles are already written in the best order.

With gcse and tree-vrp, the step of a GPT takes gcc 0.97 s instead of 0.82, and runs as fast. In lanes, the dominator
passes take 0.02 to 0.15 of gcc's time, and steps run as fast without them.
"""

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
    return used(_known(precision, vectors), body)


@cache
def _known(precision: Precision, vectors: bool) -> dict[str, str]:
    """All functions that the C library lacks.

    On vectors, exp and tanh compute all lanes at once, with fused multiply-add where the processor
    has it (0.83 of the time). Other functions take one lane after the other.
    """
    prefix, suffix = ("v_", "") if vectors else ("", precision.suffix)
    texts = {f"{name}{precision.suffix}": PARTS[name] for name in OF_NUMBERS} | {"max": PARTS["max"]}
    if vectors:
        for name, n in (CALLS | {"remainder_": 2, "pow": 2, "fabs": 1}).items():
            kind = "inline" if name in INSTRUCTIONS else "CALLS_LIBM"
            call = f"{name}SUFFIX({', '.join(['a[l]', 'b[l]'][:n])})"
            texts[f"v_{name}"] = f"static {kind} V v_{name}({', '.join(['V a', 'V b'][:n])}) LANE_BY_LANE({call})\n"
        texts |= {name: text for name, text in PARTS.items() if name.startswith("v_")}
    inline = "CONTRACTED __attribute__((noinline))" if vectors else ALWAYS
    of = "v" if vectors else "row"
    texts |= {f"{of}_{name}": filled(PARTS[name], NAME=of, KIND=inline) for name in ("exp", "tanh")}
    texts = {name: filled(text, SUFFIX=precision.suffix) for name, text in texts.items()}
    for name, of in {**dict(zip(CALLS, CALLS, strict=True)), "row_exp": "exp"}.items():
        kind, call = ("inline", f"{prefix}{name}{suffix}") if name == of else (ALWAYS, name)
        rules = " | ".join(refused(of, precision))
        texts[f"checked_{name}"] = filled(PARTS["checked"], KIND=kind, NAME=name, CALL=call, RULES=rules)
    checked = {name: text for name, text in PARTS.items() if name.startswith("checked_")}
    texts |= {name: filled(text, PREFIX=prefix, SUFFIX=suffix) for name, text in checked.items()}
    return {name: f"{text}\n" for name, text in texts.items()}
