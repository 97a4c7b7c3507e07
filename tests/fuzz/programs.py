"""Programs: what they are, how one is generated at random, and how it looks as code.

A program is a list of nodes. Node `i` has the result `v{i}`: it is a number, and so a leaf, or a step, an operation
on earlier results and on constants. The value of the program is the sum of the results that no step uses.
"""

import math
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import micrograd
from micrograd import Value, scalar
from tests.fuzz.bounded import Bounded
from tests.operations import FUNCTIONS, OPERATORS


class Kind(NamedTuple):
    """A kind of step: the operation for Values, the same in PyTorch, whose module comes first, and the step as code."""

    name: str
    apply: Callable[..., Any]
    torch: Callable[..., Any]
    code: Callable[..., str]  # from the names of its operands
    arity: int | None  # the number of operands; None for any


@dataclass(frozen=True)
class Step:
    """An operation on operands: the number of an earlier node is an int, a constant is a float."""

    kind: str
    operands: tuple[int | float, ...]


Program = list[float | Step]


def _pairs(apply, operands):
    """A fused product of a list with odd length: factors, as many others, and a bias."""
    n = len(operands) // 2
    return apply(operands[:n], operands[n : 2 * n], operands[-1])


def _tensors(torch, operands):
    return torch.stack([torch.as_tensor(x, dtype=torch.float64) for x in operands])


WRITTEN = {
    "neg": "-{0}",
    "pos": "+{0}",
    "leaky_relu with a slope": "leaky_relu({0}, 0.25)",
    "clip": "clip({0}, -1.0, 2.0)",
    "polygamma": "polygamma({0}, 2)",
}


def _code(name):
    """How a row of the table looks as code: unless it is listed above, its name is a function's or an expression."""
    if name.isidentifier() and name not in WRITTEN:
        return lambda *xs: f"{name}({', '.join(xs)})"
    return WRITTEN.get(name, re.sub(r"\b[xy]\b", lambda found: {"x": "{0}", "y": "{1}"}[found[0]], name)).format


def _of_tensors(function):
    """PyTorch's functions of two tensors, one of which may be a number."""
    return lambda t, *xs: function(t, *[t.as_tensor(x, dtype=t.float64) for x in xs])


FUSED = [
    Kind(
        "dot",
        lambda *xs: _pairs(micrograd.dot, xs),
        lambda t, *xs: _pairs(lambda ws, xs, b: t.dot(_tensors(t, ws), _tensors(t, xs)) + b, xs),
        lambda *xs: _pairs(lambda ws, xs, b: f"dot([{', '.join(ws)}], [{', '.join(xs)}], {b})", xs),
        None,
    ),
    Kind(
        "sum",
        lambda *xs: micrograd.sum(xs),
        lambda t, *xs: _tensors(t, xs).sum(),
        lambda *xs: f"sum([{', '.join(xs)}])",
        None,
    ),
    Kind(
        "mean",
        lambda *xs: micrograd.mean(xs),
        lambda t, *xs: _tensors(t, xs).mean(),
        lambda *xs: f"mean([{', '.join(xs)}])",
        None,
    ),
    Kind(
        "where",
        lambda x, y, a, b: micrograd.where(x > y, a, b),
        lambda t, x, y, a, b: t.where(x > y, a, b),
        "where({0} > {1}, {2}, {3})".format,
        4,
    ),
    Kind(
        "take",
        lambda x, y, a, b, c: micrograd.take([a, b, c], (x > y) + (x > a)),
        lambda t, x, y, a, b, c: t.where((x > y) & (x > a), c, t.where((x > y) | (x > a), b, a)),
        "take([{2}, {3}, {4}], ({0} > {1}) + ({0} > {2}))".format,
        5,
    ),
]
PRECISE = {  # where PyTorch computes 1 - t * t, (1 - s) * s, y + 1 and 1 + erf, which cancel
    "sigmoid": lambda t, x: t.where(x < 0, t.sigmoid(x), 1 / (1 + t.exp(-x))),
    "expm1": lambda t, x: t.where(abs(x) < 1, t.expm1(x), t.exp(x) - 1),
    "gelu": lambda t, x: x * (0.5 * t.erfc(-(0.5**0.5) * x)),
}
KINDS = {
    kind.name: kind
    for kind in [
        *[
            Kind(row.name, row.apply, PRECISE.get(row.name, _of_tensors(row.torch)), _code(row.name), row.arity)
            for row in FUNCTIONS + OPERATORS
        ],
        *FUSED,
    ]
}
LEGAL = {  # where there is a derivative, and PyTorch's formula for it neither cancels nor overflows nor underflows
    "tanh": lambda x: abs(x) < 300,
    "sigmoid": lambda x: abs(x) < 300,
    "asin": lambda x: abs(x) < 0.999,
    "acos": lambda x: abs(x) < 0.999,
    "atanh": lambda x: abs(x) < 0.999,
    "acosh": lambda x: 1.001 < x < 1e150,
    "asinh": lambda x: abs(x) < 1e150,
    "x % y": lambda x, y: abs(x) < 1e4 * abs(y),
    "x / y": lambda x, y: y != 0 and (x == 0 or 1e-290 < abs(x / y / y) < 1e290),
    "x ** y": lambda x, y: (x > 0 and abs((y - 1) * math.log(x)) < 660) or (x == 0 and y >= 1),
    "sqrt": lambda x: x > 0,
    "cbrt": lambda x: x != 0,
    "0.0 ** x": lambda x: x >= 0,
    "lgamma": lambda x: 2.5 < x < 1e150,
    "digamma": lambda x: 2.5 < x < 1e150,
    "polygamma": lambda x: 0.2 < x < 1e50,
    "atan2": lambda y, x: 1e-140 < abs(x) + abs(y) < 1e140,
    "hypot": lambda x, y: 1e-140 < abs(x) + abs(y) < 1e140,
}
MAGNITUDES = (1.0, 1.0, 1.0, 8.0, 60.0)  # powers of ten between which the numbers of a program lie
EDGES = (0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 3.0, -2.0)
LEAST_DIGITS = 1e-11  # a step whose result has a larger relative error is not taken


def generate(seed: int, index: int) -> Program:
    """The program of that number: the same for the same seed and index, whatever ran before."""
    rng = random.Random(f"{seed} {index}")
    magnitude = rng.choice(MAGNITUDES)
    largest = 10.0 ** (3 * magnitude)

    def number():
        if rng.random() < 0.1:
            return rng.choice(EDGES)
        size = 10 ** rng.uniform(-magnitude, magnitude / 2)
        return rng.choice((-1, 1)) * (round(size, 3) if 1e-3 < size < 1e3 else float(f"{size:.3e}"))

    program: Program = [number() for _ in range(rng.randint(1, 6))]
    values = [Value(Bounded(x)) for x in program]
    length = rng.choices((rng.randint(1, 12), rng.randint(12, 50), 500), (85, 14.5, 0.5))[0]
    deep = rng.random() < 0.4  # a chain, in which each step uses the one before
    kinds = list(KINDS.values())
    for _ in range(6 * length):
        kind = rng.choice(kinds)
        arity = rng.choice((3, 5, 9)) if kind.arity is None else kind.arity
        operands = [
            number() if arity > 1 and rng.random() < 0.15 else len(program) - 1 - int(len(program) * rng.random() ** 3)
            for _ in range(arity)
        ]
        for place in {0, 2} & set(range(arity)):  # some operands, those of a condition among them, are no constants
            if type(operands[place]) is float:
                operands[place] = rng.randrange(len(program))
        if deep:
            operands[rng.randrange(arity)] = len(program) - 1
        step = Step(kind.name, tuple(operands))
        result = _taken(step, values, largest)
        if result is not None:
            program.append(step)
            values.append(result)
            length -= 1
            if not length:
                break
    return program


def is_legal(program: Program) -> bool:
    """Whether each step of the program could have been taken, if numbers of any size are."""
    values: list[Value] = []
    for node in program:
        if isinstance(node, Step) and not any(type(x) is int for x in node.operands):
            return False  # nothing but constants
        value = _taken(node, values, 1e300) if isinstance(node, Step) else Value(Bounded(node))
        if value is None:
            return False
        values.append(value)
    return True


def _taken(step: Step, values: list[Value], largest: float) -> Value | None:
    """The result of a step, if it is legal, neither too large nor too small, and has enough right digits."""
    operands = [values[x] if type(x) is int else x for x in step.operands]
    numbers = [x.data.number if isinstance(x, Value) else x for x in operands]
    if step.kind in LEGAL and not LEGAL[step.kind](*numbers):
        return None
    try:
        result = KINDS[step.kind].apply(*operands)
    except (ArithmeticError, ValueError):
        return None
    if not isinstance(result.data, Bounded):  # x ** 0, which is exact
        return type(result)(Bounded(float(result.data)), result._prev, result._op, result._backward)
    number, error = abs(result.data.number), result.data.error
    fits = number == 0 or 1 / largest < abs(number) < largest
    return result if fits and error <= LEAST_DIGITS * abs(number) + 1e-300 else None


def evaluate(program: Program, leaf: Callable[[float], Any], compute: Callable[..., Any]) -> list[Any]:
    """The result of each node, where `leaf` makes the leaves and `compute` does a step of a kind on its operands."""
    results: list[Any] = []
    for node in program:
        if isinstance(node, Step):
            operands = [results[x] if type(x) is int else x for x in node.operands]
            results.append(compute(KINDS[node.kind], operands))
        else:
            results.append(leaf(node))
    return results


def total(program: Program, results: list[Any]) -> Any:
    """The value of the program: the sum of the results that no step uses."""
    value, *others = [results[i] for i in ends(program)]
    for other in others:
        value = value + other
    return value


def leaves(program: Program) -> list[int]:
    """The nodes that are numbers."""
    return [i for i, node in enumerate(program) if not isinstance(node, Step)]


def ends(program: Program) -> list[int]:
    """The nodes that no step uses."""
    used = {x for node in program if isinstance(node, Step) for x in node.operands if type(x) is int}
    return [i for i in range(len(program)) if i not in used]


def code(program: Program) -> str:
    """The program as code that runs as it stands."""
    lines = []
    for i, node in enumerate(program):
        if isinstance(node, Step):
            operands = [f"v{x}" if type(x) is int else f"({x!r})" if x < 0 else repr(x) for x in node.operands]
            lines.append(f"v{i} = {KINDS[node.kind].code(*operands)}")
        else:
            lines.append(f"v{i} = Value({node!r})")
    called = set(re.findall(r"\w+(?=\()", "\n".join(lines)))
    fused = ["Value", *sorted(called & {kind.name for kind in FUSED})]
    functions = sorted(called & set(scalar.__all__) - {"where"})
    head = [f"from micrograd import {', '.join(fused)}"]
    head += [f"from micrograd.scalar import {', '.join(functions)}"] if functions else []
    inputs = [f"v{i}.grad" for i in leaves(program)]
    tail = [f"total = {' + '.join(f'v{i}' for i in ends(program))}", "total.backward()"]
    return "\n".join([*head, "", *lines, *tail, f"print(total.data, [{', '.join(inputs)}])"])
