"""Operations in the page: JavaScript and formulas, made of what the engine itself does.

Each operation of a graph is carried out once more by the engine, on the compiler's symbols, forward and backward. The
statements of that trace become a function in JavaScript, and its expressions the formulas that the page shows: so an
operation is defined in the engine alone.
"""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from micrograd import engine
from micrograd.compiler.statements import Statements
from micrograd.compiler.trace import CONDITIONS, Trace
from micrograd.drawing.fold import maker
from micrograd.drawing.text import number, plain
from micrograd.engine import Value

FUNCTIONS = (
    "abs", "exp", "expm1", "log", "log1p", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh",
    "asinh", "acosh", "atanh",
)  # fmt: skip
TEMPLATES = {
    **{op: f"{{0}} {op} {{1}}" for op in "+-*/"},
    **{op: f"({{0}} {op} {{1}})" for op in CONDITIONS},
    "==": "({0} === {1})",
    "!=": "({0} !== {1})",
    "and": "({0} && {1})",
    "or": "({0} || {1})",
    "condition": "({0} ? 1 : 0)",
    "truth": "{0}",
    "neg": "-{0}",
    "where": "({0} ? {1} : {2})",
    "relu": "({0} <= 0 ? 0 : {0})",
    "leaky_relu": "({0} <= 0 ? {1} * {0} : {0})",
    "%": "remainder({0}, {1})",
    "**": "Math.pow({0}, {1})",
    **{function: f"Math.{function}({{0}})" for function in FUNCTIONS},
}
"""What each operation of a trace looks like; sigmoid, softplus, erf, erfc and remainder are functions of the page's."""

LONG = 16  # operands, with more of which an operation is shown without formulas
CONSTANTS = {"inf": "Infinity", "nan": "NaN", "True": "true", "False": "false"}


@dataclass
class Traced:
    """What statements are made of."""

    trace: Trace
    gradients: dict[int, int] = field(default_factory=dict)


class Operation(NamedTuple):
    """An operation as JavaScript, and as formulas with `{0}`, `{1}`, ... for its operands and `{y}` for its result."""

    code: str  # what comes of the operands v, and what each of them gets of the gradient g
    value: str
    derivatives: list[str]


def operation(value: Value) -> Operation | None:
    """The operation that made a Value; None if it is none of the engine's."""
    n = len(value._prev)
    if not maker(value):
        return None
    trace, slopes = Trace(), Trace()
    try:
        result, gradients = _traced(trace, value, trace.leaf("seed"))
        code = f"[v=>{_function(trace, [result])},(v,g)=>{_function(trace, gradients)}]"
        result, derivatives = _traced(slopes, value, 1)
    finally:
        trace.close()
        slopes.close()
    if n > LONG:
        return Operation(code, "", [])
    return Operation(code, _formula(slopes, result), [_formula(slopes, line, result) for line in derivatives])


def key(value: Value) -> tuple[Any, ...]:
    """What tells operations apart: equal for Values that are made in the same way."""
    return maker(value) or str(value._op), len(value._prev), *sorted((k, repr(x)) for k, x in _given(value).items())


def _given(value: Value) -> dict[str, Any]:
    """What an operation of the engine was given besides its operands, as its closure knows it."""
    name = maker(value)
    if name in ("Value.__pow__", "Value.__rpow__"):
        constant = value._prev[name == "Value.__pow__"]
        varies = name == "Value.__pow__" and inspect.getclosurevars(value._backward).nonlocals["varies"]  # type: ignore[arg-type]
        return {} if varies else {"other": plain(constant.data)}
    if name not in ("Value.leaky_relu", "Value.clip", "where"):
        return {}
    known = inspect.getclosurevars(value._backward).nonlocals  # type: ignore[arg-type]
    return {name: plain(known[name]) for name in ("slope", "low", "high", "condition") if name in known}


def _again(value: Value, operands: Sequence[Value]) -> Value:
    """The operation that made a Value, carried out on other operands."""
    name, given = maker(value), _given(value)
    n = len(operands) // 2
    match name:
        case "dot":
            return engine.dot(operands[:n], operands[n:-1], operands[-1])
        case "sum" | "mean":
            return engine.sum(operands) if name == "sum" else engine.mean(operands)
        case "where":
            return engine.where(bool(given["condition"]), *operands)
        case "_take":
            return engine.take(operands, 0)  # type: ignore[no-any-return]
        case "Value.__pow__" | "Value.__rpow__" if given:
            result = getattr(Value, name.removeprefix("Value."))(operands[name == "Value.__rpow__"], given["other"])
        case _:
            result = getattr(Value, name.removeprefix("Value."))(*operands, **given)
    return result  # type: ignore[no-any-return]


def _traced(trace: Trace, value: Value, seed: Any) -> tuple[int, list[int]]:
    """The lines of an operation's result, and of what each operand gets of the gradient."""
    operands = [Value(trace.leaf("v", i)) for i in range(len(value._prev))]
    result = _again(value, operands)
    result._backward(seed)  # type: ignore[misc]
    return trace.id(result.data), [trace.id(operand.grad) for operand in operands]


def _function(trace: Trace, results: Sequence[int]) -> str:
    """The body of a function that returns these lines."""
    statements = Statements(Traced(trace), results, TEMPLATES, sums=True)
    names = {id: "g" if array == "seed" else f"v[{i}]" for id, (array, i) in trace.leaves.items()}
    for id, constant in trace.constants.items():
        text = repr(constant)
        names[id] = f"({text.replace('inf', 'Infinity')})" if text[0] == "-" else CONSTANTS.get(text, text)
    lines = []
    for id, template, operands in statements:
        names[id] = f"t{id}"
        lines.append(f"const t{id}={template.format(*[names[operand] for operand in operands])};")
    return f"{{{''.join(lines)}return[{','.join(names[id] for id in results)}]}}"


# Formulas

LEVELS = {"+": 1, "-": 1, "*": 2, "/": 2, "%": 2, "neg": 2, "**": 3}  # how tightly an operation binds its operands
POWERS = {2: "²", 3: "³"}


def _formula(trace: Trace, line: int, result: int | None = None) -> str:
    """A line as an expression of the operands, and of the result."""
    return _expression(trace, line, result)[0]


def _expression(trace: Trace, line: int, result: int | None) -> tuple[str, int]:
    """The expression, and how tightly its last operation binds."""
    if line == result:
        return "{y}", 4
    if line in trace.leaves:
        return f"{{{trace.leaves[line][1]}}}", 4
    if line in trace.constants:
        constant = trace.constants[line]
        return (str(constant).lower() if isinstance(constant, bool) else number(constant)), 4 if constant >= 0 else 1
    op, operands = trace.ops[line], trace.operands[line]
    level = LEVELS.get(op, 1 if op in CONDITIONS else 0 if op == "where" else 4)

    def inner(i: int, least: int) -> str:
        text, binds = _expression(trace, operands[i], result)
        return text if binds >= least else f"({text})"

    if op == "*" and operands[0] == operands[1]:
        return f"{inner(0, 4)}²", 3
    if op == "**":
        exponent = trace.constants.get(operands[1])
        return inner(0, 4) + (POWERS[int(exponent)] if exponent in POWERS else f"^{inner(1, 4)}"), 3
    if op == "neg":
        return f"−{inner(0, 3)}", level
    if op == "-" and trace.constants.get(operands[0]) == 0:  # how a gradient that is subtracted begins
        return f"−{inner(1, 2)}", 2
    if op == "where":
        return f"{inner(1, 1)} if {inner(0, 0)} else {inner(2, 1)}", level
    if op in LEVELS or op in CONDITIONS:
        sign = {"-": "−", "*": "×", "/": "÷"}.get(op, op)
        return f"{inner(0, max(level, 1))} {sign} {inner(1, level + (op in '-/%'))}", level
    return f"{op}({', '.join(inner(i, 0) for i in range(len(operands)))})", 4
