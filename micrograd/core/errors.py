"""Error messages: what was given, what was expected, what to do."""

import linecache
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from traceback import walk_stack, walk_tb
from types import FrameType
from typing import Any

from micrograd.scalar import DomainError

WHERE_HINT = "; where() computes both of its branches, so choose a safe operand first: f(where(condition, x, 1.0))"
"""Ends a message if the graph has a `where`: the branch not chosen may be the cause."""
POWER_HINT = "; if the exponent is a constant, write it as a number, as in x ** 2, or as exponent.detach()"
"""Ends a message about a power with a variable exponent, since the derivative by that contains log(x)."""
PACKAGE = f"{Path(sys._getframe().f_code.co_filename).parents[1]}{os.sep}"  # as its code has it
BETWEEN = ("contextlib", "numpy")  # modules that call this package for the user


class PlainNumberError(TypeError):
    """A Value came where Python or a library needs a plain number."""


def shown(value: Any) -> str:
    """The repr of a value for a message, shortened with "..." if it is longer than 80 characters."""
    text = repr(value)
    end = {"[": "...]", "(": "...)", "{": "...}"}.get(text[:1], "...")
    return text if len(text) <= 80 else text[: text.rfind(" ", 0, 77) + 1 or 77] + end


def users_line(error: BaseException | None = None) -> str:
    """Where in the user's code we are, or an error arose: the innermost line outside of this package and NumPy."""
    inwards = walk_tb(error.__traceback__) if error else reversed(list(walk_stack(sys._getframe(1))))
    outside = [(frame.f_code.co_filename, line) for frame, line in inwards if _is_users(frame)]
    return "".join(f"{name}:{n}, `{linecache.getline(name, n).strip() or 'no source'}`" for name, n in outside[-1:])


def _is_users(frame: FrameType) -> bool:
    module = str(frame.f_globals.get("__name__")).partition(".")[0]
    return module not in BETWEEN and not frame.f_code.co_filename.startswith(PACKAGE)


def require_ordered(name: str, items: Any, expected: str = "a list or an array") -> None:
    """Raise TypeError for a dict, since only its keys would be used, and for a set, since its order is arbitrary."""
    if isinstance(items, (Mapping, set, frozenset)):
        raise TypeError(f"{name} is of type {type(items).__name__}: expected {expected}")


def note_arguments(error: BaseException, name: str, numbers: Sequence[Any]) -> None:
    """Tell the error of a call with these numbers as its arguments how to pass them as a single one."""
    if len(numbers) > 1:
        error.add_note(f"{name} has {len(numbers)} arguments: if the function takes one, a list, write ({numbers!r},)")


def expression(node: Any) -> str:
    """The operation and its operands' numbers, for errors."""
    operands = [repr(operand.data) for operand in node._prev[:5]] + ["..."] * (len(node._prev) > 5)
    return f"{node._op}({', '.join(operands)})"


def no_derivative(grad: Any) -> None:
    """The `_backward` of an operation that was given none: doing nothing would silently give gradients of 0."""
    raise NotImplementedError("an operation has no derivative: give its Value a _backward, or detach() its operands")


def raise_with_context(error: BaseException, node: Any, nodes: list[Any]) -> None:
    """Replace an error in a node's `_backward` with one that names the operation, where that helps."""
    for kind in (ZeroDivisionError, OverflowError, ArithmeticError, DomainError, ValueError):
        if isinstance(error, kind):
            hint = POWER_HINT if node._op == "**" and isinstance(error, DomainError) else ""
            hint += WHERE_HINT if any(each._op == "where" for each in nodes) else ""
            raise kind(f"the derivative of {expression(node)} cannot be taken: {error}{hint}") from error
    if node._backward is no_derivative:
        raise NotImplementedError(f"{expression(node)} has no derivative: give its Value a _backward") from None
    if isinstance(error, TypeError) and hasattr(node._backward, "__code__") and not arose_in(error, node._backward):
        raise TypeError(f"the _backward of {expression(node)} must take the gradient alone: {error}") from error


def arose_in(error: BaseException, *functions: Any) -> bool:
    """Whether an error was raised inside one of these functions, not by the attempt to call one."""
    codes = [getattr(function, "__code__", None) for function in functions]
    return any(frame.f_code in codes for frame, _ in walk_tb(error.__traceback__))
