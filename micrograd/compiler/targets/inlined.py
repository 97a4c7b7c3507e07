"""The functions in inlined.js, which generated JavaScript writes out where it uses them.

The slope of tanh is one of them: a trace has the operations that it consists of, among which it is recognised.
"""

import copy
import re
from functools import cache
from importlib.resources import files

from micrograd.compiler.frontend.tracer import Trace
from micrograd.functions import tanh_slope


@cache
def _parts() -> tuple[str, dict[str, list[str]]]:
    """The tables, and the lines in the body of each function, by its name."""
    text = files(__package__).joinpath("inlined.js").read_text(encoding="utf-8")
    _, tables, *functions = text.rstrip("\n").split("\n\n")
    names = [re.findall(r"function (\w+)", function)[0] for function in functions]
    return tables, {name: function.split("\n")[2:-1] for name, function in zip(names, functions, strict=True)}


def tables(code: str) -> str:
    """The tables, if the code uses them."""
    return f"{_parts()[0]}\n\n" if "TANH[" in code else ""


def is_inlined(op: str) -> bool:
    """Whether an operation is written out."""
    return op in _parts()[1]


def inlined(op: str, x: str, number: int) -> list[str]:
    """Lines that compute a function of x, the last of which returns it; their variables are told apart by a number."""
    body = _parts()[1][op]
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
    pairs = [(line, root)]
    while pairs:
        at, of = pairs.pop()
        if found.setdefault(of, at) != at:
            return None
        if of != x:
            if trace.ops[at] != pattern.ops[of] or trace.constants.get(at) != pattern.constants.get(of):
                return None
            pairs += zip(trace.operands[at], pattern.operands[of], strict=True)
    return found[x]
