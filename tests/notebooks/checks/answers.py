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


class NotYet(Exception):
    """What is wrong with an answer."""


def check(test: Callable) -> Callable:
    """The test of an answer, which ends in what it prints."""

    @wraps(test)
    def checked(*answer):
        print(verdict(test, *answer))

    return checked


def verdict(test: Callable, *answer: object) -> str:
    """What is said of an answer."""
    try:
        test(*answer)
    except NotYet as reason:
        return f"Not yet: {reason}"
    except Exception as error:
        if re.search(r"<locals>.* takes 0 positional arguments but 1 was given", str(error)):  # as in Karpathy's
            return "Not yet: _backward takes no argument: here it gets the gradient of the result, def _backward(grad)"
        return f"Not yet: {_place(error)}{type(error).__name__}: {error}"
    return "Right."


def _place(error: Exception) -> str:
    """The line of the answer that the error came from, if there is one."""
    others = {HERE, PACKAGE, Path(contextlib.__file__)}  # `backward` is a block of a context manager
    lines = [
        frame
        for each in (error, error.__cause__ or error)  # the engine's error, and what a closure raised
        for frame in traceback.extract_tb(each.__traceback__)
        if not others & {Path(frame.filename), *Path(frame.filename).parents}
    ]
    return f"line {lines[-1].lineno} of your cell says `{lines[-1].line}`, and that raises a " if lines else ""


def has_backward(node: object) -> bool:
    """Whether an operation can pass its gradient on; `no_derivative` stands in for a function that is missing."""
    return getattr(node._backward, "__name__", "no_derivative") != "no_derivative"


def value_of(call: str, result: object, kind: type = micrograd.Value) -> object:
    """The result of the call, which has to be a Value."""
    if result is None:
        raise NotYet(f"{call} returns nothing")
    if isinstance(result, (int, float)):
        raise NotYet(f"{call} returns the plain number {result:.6g}: return a Value, which knows where it came from")
    if not isinstance(result, kind):
        raise NotYet(f"{call} returns a {type(result).__name__}: expected a Value")
    return result


def number_of(call: str, result: object) -> float:
    """The result of the call, which has to be a number."""
    if result is None:
        raise NotYet(f"{call} returns nothing")
    if not isinstance(result, (int, float)):
        raise NotYet(f"{call} returns a {type(result).__name__}: expected a number")
    return result


def close(a: float, b: float, tolerance: float = 1e-9) -> bool:
    return math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance)


def same(what: str, found: float, expected: float) -> None:
    if not close(found, expected):
        raise NotYet(f"{what} is {found:.6g}: expected {expected:.6g}")


def same_gradients(call: str, answer: Callable, reference: Callable, **numbers: Any) -> None:
    """Whether the answer has the gradients of the reference, with respect to each number in nested lists.

    Of several results, a weighted sum is differentiated, so that none can make up for another.
    """
    found, expected = (_gradients(function, numbers) for function in (answer, reference))
    for place, gradient in expected.items():
        if not close(found[place], gradient):
            hint = ": is its way back cut off, by .data or by detach()?" if found[place] == 0 else ""
            raise NotYet(
                f"the numbers of {call} are right, but the gradient with respect to {place} is {found[place]:.6g}, "
                f"where nudging finds {gradient:.6g}{hint}"
            )


def _gradients(function: Callable, numbers: dict[str, Any]) -> dict[str, float]:
    """The gradient with respect to each number, by its place: "keys[1][0]"."""
    arguments = {name: mapped(micrograd.Value, given) for name, given in numbers.items()}
    results = flat(function(*arguments.values()))
    micrograd.sum(k * result for k, result in enumerate(results, 1)).backward()
    return {place: value.grad for name, given in arguments.items() for place, value in leaves(name, given)}


def row_of(call: str, result: object, size: int) -> list[micrograd.Value]:
    """The result of the call, which has to be a list of so many Values."""
    if result is None:
        raise NotYet(f"{call} is nothing")
    if not isinstance(result, (list, tuple)):
        raise NotYet(f"{call} is a {type(result).__name__}: expected a list with a Value for each")
    if len(result) != size:
        raise NotYet(f"{call} has {len(result)} numbers: expected {size}")
    return [value_of(f"{call}[{i}]", each) for i, each in enumerate(result)]
