"""The functions in inlined.js, which generated JavaScript writes out where it uses them.

The slope of tanh is one of them: a trace has the operations that it consists of, among which it is recognised.
"""

import copy
import re
from functools import cache

from micrograd.compiler.frontend.tracer import Trace
from micrograd.compiler.targets.spelling import source
from micrograd.functions import tanh_slope


def functions(name: str) -> dict[str, str]:
    """The functions in a file, where empty lines separate them, by name."""
    parts = source(name).split("\n\n")
    return {found[1]: f"{part.rstrip()}\n\n" for part in parts if (found := re.search(r"function (\w+)\(", part))}


INLINED = functions("inlined.js")


def tables(code: str) -> str:
    """The tables, if the code uses them."""
    return source("inlined.js").split("\n\n")[1] + "\n\n" if "TANH[" in code else ""


def inlined(op: str, x: str, number: int) -> list[str]:
    """Lines that compute a function of x, the last of which returns it; their variables are told apart by a number."""
    body = INLINED[op].split("\n")[2:-3]
    names = {name: f"{name}{number}" for name in re.findall(r"(\w+) = ", " ".join(body))} | {"x": x}
    return [re.sub(r"(?<!\.)\b[a-z]+\b", lambda word: names.get(word[0], word[0]), line.strip()) for line in body]


def with_slopes(trace: Trace) -> Trace:
    """The trace, with the slopes of tanh as single operations."""
    found = {line: x for line in range(len(trace.ops)) if (x := _argument(trace, line)) is not None}
    if not found:
        return trace
    trace = copy.copy(trace)
    trace.ops = ["tanh_slope" if line in found else op for line, op in enumerate(trace.ops)]
    trace.operands = [(found[line],) if line in found else of for line, of in enumerate(trace.operands)]
    return trace


@cache
def _pattern() -> tuple[Trace, int, int]:
    """A trace of the slope, and its lines of x and of the slope."""
    trace = Trace()
    x = trace.leaf("x")
    return trace, x.id, tanh_slope(x, trace.record("tanh", (x,))).id


def _argument(trace: Trace, line: int) -> int | None:
    """The line of x, if a line is the slope of tanh at it."""
    pattern, x, root = _pattern()
    found: dict[int, int] = {}

    def is_like(at: int, of: int) -> bool:
        if found.setdefault(of, at) != at or of == x:
            return found[of] == at
        is_same = trace.ops[at] == pattern.ops[of] and trace.constants.get(at) == pattern.constants.get(of)
        return is_same and all(map(is_like, trace.operands[at], pattern.operands[of]))

    return found[x] if is_like(line, root) else None
