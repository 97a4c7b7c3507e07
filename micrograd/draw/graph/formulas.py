"""Operations in the page: JavaScript and formulas, derived from the engine's own definitions.

The engine repeats each operation of a graph on the compiler's symbols, forward and backward. The statements of that
trace become a function in JavaScript, its expressions the formulas that the page shows: so an operation is defined in
the engine alone.
"""

import operator
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

from micrograd import losses, reductions, scalar
from micrograd.compiler.frontend.operations import CONDITIONS, OPERATIONS
from micrograd.compiler.frontend.tracer import Trace
from micrograd.compiler.passes.expressions import expressions
from micrograd.compiler.targets.javascript import TEMPLATES, literal
from micrograd.compiler.targets.spelling import terms, total
from micrograd.draw.graph.drawn import POWERS, SIGNS, operation_of
from micrograd.draw.text import number
from micrograd.engine import Value

MAX_OPERANDS = 16  # of an operation with formulas


def operations(values: Sequence[Value]) -> tuple[list[int], list[tuple[str, list[Any]]]]:
    """The number of the operation that made each Value; and what `operation` returns for each of these numbers."""
    keys = [(operation_of(value), str(value._op), len(value._prev), repr(_constants(value))) for value in values]
    known = dict(zip(keys, values, strict=True))
    numbers = {key: i for i, key in enumerate(known)}
    return [numbers[key] for key in keys], list(map(operation, known.values()))


def operation(value: Value) -> tuple[str, list[Any]]:
    """The operation that made a Value: its JavaScript; and its name, its formula and the formulas of its derivatives.

    The JavaScript is two functions: the result for operands v, and their gradients for the gradient g of the result;
    or `null` for a user's own operation. Formulas have `{0}`, `{1}`, ... for the operands, and `{y}` for the result.
    """
    op, n, name = operation_of(value), len(value._prev), str(value._op)
    if not op:
        return "null", [name, "", []]
    with closing(Trace()) as trace:
        result, gradients = _traced(trace, value, trace.leaf("seed"))
        code = f"[v=>{_function(trace, [result])},(v,g)=>{_function(trace, gradients)}]"
    if n > MAX_OPERANDS or op == "cross_entropy":  # whose gradients are too long to read
        return code, [name, "", []]
    if op in TEXTBOOK:
        return code, [name, *TEXTBOOK[op](range(n))]
    with closing(Trace(keeps_composed=True)) as trace:
        result, gradients = _traced(trace, value, 1)
    return code, [name, _expression(trace, result)[0], [_expression(trace, line, result)[0] for line in gradients]]


def _constants(value: Value) -> dict[Any, Any]:
    """The constants of an operation by name; for a power, the plain numbers among its operands, by place."""
    if value._op == "**":
        return {i: scalar.innermost(x.data) for i, x in enumerate(value._prev) if x._is_constant}
    return {name: scalar.innermost(constant) for name, constant in value._constants.items()}


# How to repeat those operations for which neither `OPERATIONS` nor `reductions` has a function of that name.
CALLS: dict[str, Callable[..., Any]] = {
    "dot": lambda *xs: reductions.dot(xs[: (n := len(xs) // 2)], xs[n : 2 * n], *xs[2 * n :]),
    "//": operator.floordiv,
    "take": lambda *operands: reductions.take(operands, 0),
    "where": lambda *operands, condition: reductions.where(bool(condition), *operands),
    "binary_cross_entropy": losses.binary_cross_entropy_with_logits,
    "cross_entropy": lambda *operands, **constants: losses.cross_entropy_node(operands, **constants),
    "softmax": lambda x, norm: losses.softmax_node(x, norm, scalar.exp(x.data - norm.data), "softmax"),
    "log_softmax": lambda x, norm: losses.softmax_node(x, norm, x.data - norm.data, "log_softmax"),
}
# The formulas of operations that the engine computes in another way, which is accurate but harder to read.
TEXTBOOK: dict[str, Callable[[range], tuple[str, list[str]]]] = {
    "tanh": lambda places: ("tanh({0})", ["1 − {y}²"]),
    "//": lambda places: ("floor({0} ÷ {1})", ["0", "0"]),
    "%": lambda places: ("{0} % {1}", ["1", "−floor({0} ÷ {1})"]),
    "atan2": lambda places: ("atan2({0}, {1})", ["{1} ÷ ({1}² + {0}²)", "−({0} ÷ ({1}² + {0}²))"]),
    "logsumexp": lambda places: (
        f"log({' + '.join(map('exp({{{}}})'.format, places))})",
        [*map("exp({{{}}} − {{y}})".format, places)],
    ),
}


def _traced(trace: Trace, value: Value, seed: Any) -> tuple[int, list[int]]:
    """The lines of an operation's result and of its operands' gradients."""
    operands = [Value(trace.leaf("v", i)) for i in range(len(value._prev))]
    op, arguments, constants = value._op, list[Any](operands), _constants(value)
    if op == "**":
        arguments, constants = [constants.get(i, x) for i, x in enumerate(operands)], {}
    if op in ("sum", "mean", "logsumexp"):
        arguments = [operands]
    call: Callable[..., Value] = CALLS.get(op) or getattr(reductions, op, None) or OPERATIONS[op]
    result = call(*arguments, **constants)
    result._backward(seed)
    return trace.id(result.data), [trace.id(operand.grad) for operand in operands]


def _function(trace: Trace, results: Sequence[int]) -> str:
    """The body of a function that returns these lines."""
    names = {id: "g" if array == "seed" else f"v[{i}]" for id, (array, i) in trace.leaves.items()}
    names |= {id: literal(constant) for id, constant in trace.constants.items()}
    lines = []
    for node in expressions(trace, results):
        names[node.line] = f"t{node.line}"
        lines.append(f"const t{node.line}={total(terms(node, names.__getitem__, TEMPLATES))};")
    return f"{{{''.join(lines)}return[{','.join(names[id] for id in results)}]}}"


# Formulas

SYMBOLS = SIGNS | {"==": "=", "!=": "≠", "<=": "≤", ">=": "≥"}
LEVELS = {"+": 1, "-": 1, "*": 2, "/": 2, "%": 2, "neg": 2, "**": 3}  # how tightly an operation binds its operands


def _expression(trace: Trace, line: int, result: int | None = None) -> tuple[str, int]:
    """A line as an expression of the operands and the result, and how tightly its last operation binds."""
    if line == result:
        return "{y}", 4
    if line in trace.leaves:
        return f"{{{trace.leaves[line][1]}}}", 4
    if line in trace.constants:
        return number(constant := trace.constants[line], 9), 4 if constant >= 0 else 1
    op, operands = trace.ops[line], trace.operands[line]
    if op == "max":  # its operand is a row
        operands = trace.operands[operands[0]]
    level = LEVELS.get(op, 1 if op in CONDITIONS else 0 if op == "where" else 4)

    def inner(i: int, least: int) -> str:
        text, binds = _expression(trace, operands[i], result)
        return text if binds >= least else f"({text})"

    if op == "*" and operands[0] == operands[1]:
        return f"{inner(0, 4)}²", 3
    if op == "**":
        return inner(0, 4) + (POWERS.get(inner(1, 0)) or f"^{inner(1, 4)}"), 3
    if op == "neg":
        return f"−{inner(0, 3)}", level
    if op == "-" and trace.constants.get(operands[0]) == 0:  # as a gradient starts that is subtracted from 0
        return f"−{inner(1, 2)}", 2
    if op == "where":
        is_chain = trace.ops[operands[2]] == "where"  # whose last case is the one for all others
        return f"{inner(1, 1)} if {inner(0, 0)}, {inner(2, 0) if is_chain else f'otherwise {inner(2, 1)}'}", level
    if op in LEVELS or op in CONDITIONS:
        return f"{inner(0, max(level, 1))} {SYMBOLS.get(op, op)} {inner(1, level + (op in '-/%'))}", level
    return f"{op}({', '.join(inner(i, 0) for i in range(len(operands)))})", 4
