"""The check of part 2: the reader's own engine, compared with micrograd's, operation by operation."""

import math
from collections import Counter
from collections.abc import Callable
from functools import partial

import micrograd

from .answers import NotYet, apart, close, leads_back, reached, same, unread, value_of, verdict

ENGINE = {
    "+": ["a + b", "a + 2", "2 + a", "a + 0.5", "0.5 + a"],
    "*": ["a * b", "a * 2", "2 * a", "a * 0.5", "0.5 * a"],
    "backward": [],
    "**": ["a**3", "a**0.5", "a**-1", "b**2", "(0 * a)**2"],
    "tanh": ["a.tanh()"],
    "-": ["-a", "a - b", "a - 2", "2 - a", "a - 0.5", "0.5 - a"],
    "/": ["a / b", "a / 2", "2 / a", "a / 0.5", "0.5 / a"],
    "exp": ["a.exp()"],
    "log": ["a.log()"],
    "relu": ["a.relu()", "(-1 * a).relu()"],
}
"""What a reader's engine is asked to compute, by the line of its verdict."""
HINTS = {
    "a * b": (lambda a, b: (a, b), "the larger b is, the faster a moves a * b"),
    "a**3": (lambda a, b: (3 * a**3, 0), "the exponent in the slope is smaller by 1"),
    "a**0.5": (lambda a, b: (a**-0.5, 0), "the exponent is a factor of the slope, too"),
    "a - b": (lambda a, b: (1, 1), "when b grows, a - b falls"),
    "a / b": (lambda a, b: (1 / b, 1 / b), "b stands below the line: when it grows, a / b falls"),
    "a.exp()": (lambda a, b: (a, 0), "the slope of exp is the result, not the operand"),
    "a.log()": (lambda a, b: (1 / math.log(a), 0), "the slope of log is one over the operand, not over the result"),
    "a.tanh()": (lambda a, b: (1 - a**2, 0), "the square in the slope is the square of the result, not of the operand"),
    "(-1 * a).relu()": (lambda a, b: (-1, 0), "below 0 relu is flat"),
}
"""Gradients with respect to a and b that are easy to get wrong in this way, and a hint for each."""

FIRST = ("+", "*")
"""Others are often written with these, so these are checked first."""
CORE = {*FIRST, "backward", "**", "tanh"}
"""What the rest of part 2 needs."""


def engine(kind: type) -> type:
    """Compare a class with micrograd's Value, operation by operation. Returns it if the core is right, else Value."""
    if kind is micrograd.Value:
        print("This is micrograd's own class: run the cell with yours again, then this one.")
        return kind
    verdicts: dict[str, str] = {}
    for name, texts in ENGINE.items():
        missing = [first for first in FIRST if verdicts.get(first, "Right.") != "Right."]
        gradients = _by_node if name in FIRST else _by_graph if verdicts.get("backward") == "Right." else None
        test = _order if name == "backward" else partial(_operations, texts, gradients)
        if missing and name not in FIRST:
            verdicts[name] = f"Not yet: get {' and '.join(missing)} right first"
        else:
            verdicts[name] = verdict(f"engine {name}", test, kind)
        print(f"{name:8}  {verdicts[name]}")
    missing = [name for name in verdicts if name in CORE and verdicts[name] != "Right."]
    print("What follows runs on", f"micrograd's Value; open: {', '.join(missing)}." if missing else "your class.")
    return micrograd.Value if missing else kind


def _operations(texts: list[str], gradients: Callable | None, kind: type) -> None:
    """Whether formulas of two numbers have the same results and gradients as with micrograd's Value."""
    formulas = {text: eval(compile(f"lambda a, b: {text}", __file__, "eval")) for text in texts}
    for text, formula in formulas.items():
        node = value_of(text, formula(*map(kind, NUMBERS)), kind)
        same(f"with a = 1.5 and b = -2, the number in {text}", node.data, formula(*map(micrograd.Value, NUMBERS)).data)
    if gradients is None:
        raise NotYet("the numbers are right; to check the gradients, get backward right first")
    for text, formula in formulas.items():
        expected = dict(zip("ab", _by_graph(micrograd.Value, formula), strict=True))
        leaves = dict(zip("ab", map(kind, NUMBERS), strict=True))
        leads_back(text, node := formula(**leaves), **{name: leaves[name] for name in leaves if expected[name]})
        mistakes, hint = HINTS.get(text, (lambda a, b: (None, None), ""))
        found = gradients(kind, formula)
        for name, gradient, truth, mistake in zip("ab", found, expected.values(), mistakes(*NUMBERS), strict=True):
            if not close(gradient, truth):
                because = f": {hint}" if mistake is not None and close(gradient, mistake) else unread(node)
                numbers = apart(gradient, f" with respect to {name}, but nudging finds ", truth)
                raise NotYet(f"{text} has the gradient {numbers}{because}")
        for usage, reason in [
            ({"times": 3}, "in ({0}) * 3 it is not: does _backward multiply by the gradient it is given?"),
            ({"same": True}, "not where b is a, the same number twice: one of the two paths is lost"),
            ({"plus": 1}, "in {0} + {1} it is not: {1} has two paths now, and one of them is lost"),
        ]:
            found, truths = gradients(kind, formula, **usage), _by_graph(micrograd.Value, formula, **usage)
            for name, gradient, truth in zip("ab", found, truths, strict=True):
                if not close(gradient, truth):
                    raise NotYet(f"the gradient of {text} is right, but {reason.format(text, name)}")


NUMBERS = 1.5, -2.0


def _by_graph(kind: type, formula: Callable, times: float = 1, plus: float = 0, same: bool = False) -> list[float]:
    """The gradients of formula(a, b) * times, or plus a + b, with respect to a and b, which may be the same."""
    a, b = map(kind, NUMBERS)
    result = formula(a, a if same else b)
    result = result * times if times != 1 else result
    (result + a + b if plus else result).backward()
    return [a.grad, b.grad]


def _by_node(kind: type, formula: Callable, times: float = 1, plus: float = 0, same: bool = False) -> list[float]:
    """The same of a single operation, without backward()."""
    a, b = map(kind, NUMBERS)
    node = formula(a, a if same else b)
    a.grad, b.grad = a.grad + plus, b.grad + plus
    node._backward(times)
    return [a.grad, b.grad]


def _order(kind: type) -> None:
    """Whether each `_backward` is called once, and after all that need it."""
    x = kind(2.0)
    x.backward()
    if x.grad != 1:
        raise NotYet(f"after x.backward(), x.grad is {x.grad:g}: x moves as fast as itself")

    def formula(a, b):
        c = value_of("a * b", a * b, kind)
        d = value_of("c + a", c + a, kind)
        return c * d + d * c  # whichever operand a walk visits first, in one of the two c comes before d

    result, calls = formula(a := kind(2.0), b := kind(-3.0)), Counter()
    nodes = {key: node for key, node in reached(result).items() if node._prev}
    for key, node in nodes.items():

        def _backward(grad, key=key, original=node._backward):
            calls[key] += 1
            original(grad)

        node._backward = _backward
    result.backward()
    text = "with c = a * b and d = c + a, in c * d + d * c"
    if left := len(nodes) - len(calls):
        asked = "is never asked for its gradients" if left == 1 else "are never asked for their gradients"
        raise NotYet(f"{text}, {left} of {len(nodes)} operations {asked}")
    if most := max(calls.values()) - 1:
        raise NotYet(f"{text}, the _backward of one number is called {most + 1} times: once is right")
    if not close(a.grad, 48) or not close(b.grad, -40):
        of_one, early = "get the gradient of its own number", "wait for all nodes that use its number to pass theirs on"
        reason = of_one if (a.grad, b.grad) == (-2, 2) else early
        numbers = f"a.grad is {a.grad:g} and b.grad {b.grad:g}, not 48 and -40"
        raise NotYet(f"{text}, where a is 2 and b is -3, {numbers}: does each _backward {reason}?")
    (a * b).backward()
    if not close(a.grad, 48 - 3):
        raise NotYet("after backward() of a second result, a.grad is that result's gradient alone: gradients add up")
