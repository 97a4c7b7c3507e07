"""The C around a kernel: vectors, the functions that the C library lacks, and the loop over examples."""

import math
import re
from collections.abc import Sequence
from itertools import product
from typing import Any

from micrograd import scalar
from micrograd.compiler.dtype import DOUBLE, Precision
from micrograd.compiler.targets.spelling import filled, parts, spellings

CALLS = {name: function.arity for name, function in scalar.FUNCTIONS.items() if not function.composed}
"""The functions of the C library that kernels call, and of how many numbers each is."""
INSTRUCTIONS = ("sqrt", "fabs", "floor")  # of a processor
LACKING = ("quotient", "chosen", "larger", "remainder_", "take_at", "add_at")
"""The functions that the C library lacks."""

FAST_COMPILE = '"no-tree-bit-ccp", "ira-region=one"'
FOR_TILES = f'"O1", "tree-loop-vectorize", {FAST_COMPILE}'
FOR_DOUBLES = f'"no-tree-pre", "no-code-hoisting", "no-tree-slp-vectorize", "no-schedule-insns2", {FAST_COMPILE}'
"""The gcc passes that are worth their compile time: loops over tiles are already written in the best order."""

PARTS = parts("runtime.c")
PROBES = (-math.inf, -1e308, -1e3, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 1e3, 1e308, math.inf, math.nan)
"""One of them is outside of the domain of each function that has an end, or gives a result that is too large."""

OWN_NAMES = [re.fullmatch(r"v_(\w+)\(\{0\}(, \{1\})?\)", template) for template in spellings("vectors").values()]
LANE_BY_LANE = CALLS | {found[1]: 2 if found[2] else 1 for found in OWN_NAMES if found and f"v_{found[1]}" not in PARTS}
"""The functions on doubles that those of vectors call for each lane, and of how many numbers each is."""


def can_fail(name: str, errors: Any = (ArithmeticError, ValueError), numbers: Sequence[float] = PROBES) -> bool:
    """Whether a function raises such an error for any of these numbers."""
    for operands in product(numbers, repeat=CALLS[name]):
        try:
            scalar.FUNCTIONS[name](*operands)
        except errors:
            return True
    return False


def is_bounded(name: str) -> bool:
    """Whether a function's domain ends: an infinite result is a pole there, and of other functions too large."""
    return can_fail(name, scalar.DomainError, (-1.0, 0.0, 1.0))


def flag_wrappers(body: str) -> str:
    """What makes the functions of libm that are called raise floating-point flags on Windows, as they do elsewhere."""
    names = [name for name in CALLS if name not in INSTRUCTIONS and f"{name}(" in body]
    infinite = {name: "FE_DIVBYZERO" if is_bounded(name) else "FE_OVERFLOW" for name in names}
    calls = {name: f"{name}({', '.join('xy'[: CALLS[name]])})" for name in names}
    macros = [f"{calls[name]} seen(x, {calls[name]}, {infinite[name]})" for name in names]
    if "pow(" in body:
        macros.append("pow(x, y) seen(x, pow(x, y), (x) == 0.0 ? FE_DIVBYZERO : FE_OVERFLOW)")
    if "remainder_(" in body:
        macros.append("fmod(x, y) seen(x, fmod(x, y), FE_INVALID)")
    return filled(PARTS["windows"], MACROS="".join(f"#define {macro}\n" for macro in macros)) if macros else ""


def helpers(body: str) -> str:
    """The functions that the C library lacks, as far as they are called."""
    return "\n".join(PARTS[name] for name in LACKING if f"{name}(" in body)


def folds(precision: Precision) -> str:
    """The C of FOLDED(row), which makes one vector of LANES vectors: its lane i is the sum of the lanes of row[i].

    Each FOLD_n takes two vectors whose lanes are sums of n / 2 lanes, and returns one whose lanes are sums of n.
    """
    lanes, text = precision.lanes, ""
    folded = [f"row[{i}]" for i in range(lanes)]
    n = 1
    while n < lanes:
        n *= 2
        left = lanes // n  # sums of each vector that are left
        first_halves = [2 * i - i % left for i in range(lanes)]
        halves = [f"__builtin_shufflevector(a, b, {', '.join(str(i + k) for i in first_halves)})" for k in (0, left)]
        text += f"static inline V FOLD_{n}(V a, V b) {{ return {' + '.join(halves)}; }}\n"
        folded = [f"FOLD_{n}({a}, {b})" for a, b in zip(folded[::2], folded[1::2], strict=True)]
    return f"{text}#define FOLDED(row) {folded[0]}\n"


def vector_functions(body: str, precision: Precision = DOUBLE) -> str:
    """The definition of vectors, and the functions of them that are called.

    In double precision, exp and tanh compute all lanes at once; other functions call the C library for each lane.
    """
    used = body + PARTS["v_tanh"] * ("v_tanh(" in body)  # which calls v_exp
    own = [name for name in ("v_exp", "v_tanh") if f"{name}(" in used and precision == DOUBLE]
    names = {name: n for name, n in LANE_BY_LANE.items() if f"v_{name}(" in body}
    called = {name: n for name, n in names.items() if f"v_{name}" not in own}
    kind = {name: "inline" if name in INSTRUCTIONS else "CALLS_LIBM" for name in called}
    functions = [
        f"static {kind[name]} V v_{name}({', '.join(['V a', 'V b'][:n])}) "
        f"LANE_BY_LANE({name}({', '.join(['a[l]', 'b[l]'][:n])}))\n"
        for name, n in called.items()
    ]
    attribute = PARTS["calls_libm"] if "CALLS_LIBM" in kind.values() else ""
    own += [name for name in ("v_quotient", "v_larger", "v_take") if name in body]
    return PARTS["vectors"] + attribute + "".join([*functions, *map(PARTS.__getitem__, own)])
