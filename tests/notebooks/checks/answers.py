"""What all checks share: their verdicts, and what an answer has to be."""

import contextlib
import math
import re
import traceback
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import micrograd
from micrograd.support.trees import flat, leaves, mapped

HERE = Path(__file__).parent
PACKAGE = Path(micrograd.__file__).parent
RIGHT: set[str] = set()
"""The names of the checks that an answer has passed, for `tests.notebooks.mark`."""
HINTS = {
    r"takes 0 positional arguments but 1 was given": "here it gets the gradient of the result: def _backward(grad)",
    r"_backward\(\) missing 1 required": "each _backward takes its node's gradient: v._backward(v.grad)",
    r"'NoneType' object is not callable": "a leaf has no _backward",
    r"__init__\(\) takes from 2 to 4 positional arguments but 5": "this class takes no name for the operation",
    r"must be real number, not \w+": "the number is its .data",
}
"""Hints for errors that students often meet, by a pattern in Python's message."""


class NotYet(Exception):
    """What is wrong with an answer."""


def check(test: Callable, name: str = "") -> Callable:
    """Turn a test of an answer into a check that prints its verdict. By default, it has the name of the test.

    The test raises NotYet if the answer is wrong, and may return a remark if it is right.
    """

    @wraps(test)
    def checked(*answer):
        print(verdict(name or test.__name__, test, *answer))

    return checked


def verdict(name: str, test: Callable, *answer: object) -> str:
    """What the check of that name says about an answer."""
    try:
        remark = test(*answer)
    except NotYet as reason:
        return f"Not yet: {reason}"
    except Exception as error:
        place, kind = _place(error, answer), type(error).__name__
        hints = "".join(f"; {hint}" for said, hint in HINTS.items() if re.search(said, str(error)))
        return f"Not yet: {f'{place}, and that raises {with_article(kind)}' if place else kind}: {error}{hints}"
    RIGHT.add(name)
    return f"Right. {remark or ''}".rstrip()


def with_article(noun: str) -> str:
    return f"{'an' if noun[0] in 'AEIOUaeiou' or noun == 'ndarray' else 'a'} {noun}"


def _place(error: Exception, answer: tuple[object, ...]) -> str:
    """The line of the answer that the error came from, or else the line of an earlier cell, if there is one."""
    others = {HERE, PACKAGE, Path(contextlib.__file__)}  # `backward` is a block of a context manager
    lines = [
        frame
        for each in (error, error.__cause__ or error)  # the engine's error, and what a closure raised
        for frame in traceback.extract_tb(each.__traceback__)
        if not others & {Path(frame.filename), *Path(frame.filename).parents}
    ]
    if not lines:
        return ""
    files = {function.__code__.co_filename for function in answer if hasattr(function, "__code__")}
    own = [frame for frame in lines if not files or frame.filename in files]
    return (
        f"line {own[-1].lineno} of your cell says `{own[-1].line}`" if own else f"a cell above says `{lines[-1].line}`"
    )


def reached(node: Any, nodes: dict[int, Any] | None = None) -> dict[int, Any]:
    """A node and all that it was computed from, by id, each after its operands."""
    nodes = {} if nodes is None else nodes
    if id(node) not in nodes:
        for operand in getattr(node, "_prev", ()):
            reached(operand, nodes)
        nodes[id(node)] = node
    return nodes


def leads_back(call: str, node: Any, **operands: Any) -> None:
    """Whether a node has operands in a tuple, a `_backward` where it belongs, and a way back to each of these."""
    if not isinstance(node._prev, (tuple, list, set)):  # a set, as in Karpathy's
        raise NotYet(f"the operands of {call} are not in a tuple: if there is only one, a comma follows it, as in (x,)")
    nodes = reached(node)
    for name, operand in operands.items():
        if id(operand) not in nodes:
            found = f"operands, but not {name}" if node._prev else "no operands"
            raise NotYet(f"{call} has {found}: backward() does not find its way to {name}")
    if getattr(node._backward, "__name__", "no_derivative") == "no_derivative":  # it stands in for a missing function
        if callable(getattr(node, "_op", None)):
            raise NotYet(f"{call} has its _backward where the operation's name, `_op`, should be: the name comes first")
        raise NotYet(f"{call} has no _backward: the way back ends there, and no gradient gets through")


def returned(call: str, result: object, kind: Any, expected: str, verb: str = "returns") -> Any:
    """The result of the call, which has to be of this kind."""
    if result is None:
        raise NotYet(f"{call} {verb} nothing")
    if not isinstance(result, kind):
        raise NotYet(f"{call} {verb} {with_article(type(result).__name__)}: expected {expected}")
    return result


def value_of(call: str, result: object, kind: type = micrograd.Value, verb: str = "returns") -> Any:
    """The result of the call, which has to be a Value."""
    if isinstance(result, (int, float)):
        raise NotYet(f"{call} {verb} the plain number {result:.6g}: return a Value, which knows where it came from")
    of_notebook = " of the class in this notebook" * (kind is not micrograd.Value)
    return returned(call, result, kind, f"a Value{of_notebook}", verb)


def number_of(call: str, result: object) -> float:
    """The result of the call, which has to be a number."""
    return returned(call, result, (int, float), "a number")


def close(a: float, b: float, tolerance: float = 1e-9) -> bool:
    return math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance)


def same(what: str, found: float, expected: float) -> None:
    if not close(found, expected):
        raise NotYet(f"{what} is {apart(found, ': expected ', expected)}")


def apart(found: float, between: str, expected: float) -> str:
    """Two numbers with a text between them: with six digits, or as many as it takes to tell them apart."""
    digits = next((n for n in range(6, 17) if f"{found:.{n}g}" != f"{expected:.{n}g}"), 17)
    return f"{found:.{digits}g}{between}{expected:.{digits}g}"


def unread(node: Any) -> str:
    """A hint, if the node's `_backward` returns gradients."""
    return ": nothing reads what _backward returns" if node._backward(0.0) is not None else ""


def same_gradients(call: str, answer: Callable, reference: Callable, **numbers: Any) -> None:
    """Whether the answer has the gradients of the reference, with respect to each number in nested lists.

    If there are several results, their weighted sum is differentiated, so that errors in them cannot cancel.
    """
    found, expected = (_gradients(function, numbers) for function in (answer, reference))
    for place, gradient in expected.items():
        if not close(found[place], gradient):
            hint = ": is its way back cut off, by .data or by detach()?" if found[place] == 0 else ""
            numbers = apart(found[place], ", where nudging finds ", gradient)
            raise NotYet(f"{call} has the right numbers, but the gradient with respect to {place} is {numbers}{hint}")


def _gradients(function: Callable, numbers: dict[str, Any]) -> dict[str, float]:
    """The gradient with respect to each number, by its place: "keys[1][0]"."""
    arguments = {name: mapped(micrograd.Value, given) for name, given in numbers.items()}
    results = flat(function(*arguments.values()))
    micrograd.sum(k * result for k, result in enumerate(results, 1)).backward()
    return {place: value.grad for name, given in arguments.items() for place, value in leaves(name, given)}


def row_of(call: str, result: object, size: int) -> list[micrograd.Value]:
    """The result of the call, which has to be a list of that many Values."""
    returned(call, result, (list, tuple), "a list with a Value for each", "is")
    if len(result) != size:
        raise NotYet(f"{call} has the length {len(result)}: expected {size}")
    return [value_of(f"{call}[{i}]", each, verb="is") for i, each in enumerate(result)]
