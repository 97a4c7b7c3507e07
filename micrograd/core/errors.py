"""Error messages: what was given, what was expected, what to do."""

from collections.abc import Mapping
from typing import Any

NO_PLAIN_NUMBER = (
    "float(value) would detach it from the graph: use .data for the number, a method such as v.exp() for the function, "
    "or micrograd's scalar.exp(v.data) in your own operation"
)


def shown(value: Any, room: int = 80) -> str:
    """The repr of a value for a message, shortened with "..." if it is longer than `room`."""
    text = repr(value)
    if len(text) <= room:
        return text
    return text[: text.rfind(" ", 0, room - 3) + 1 or room - 3] + "..."


def require_ordered(name: str, items: Any, expected: str = "a list or an array") -> None:
    """Raise TypeError for a dict, of which only the keys would be used, and for a set, whose order is arbitrary."""
    if isinstance(items, (Mapping, set, frozenset)):
        raise TypeError(f"{name} is of type {type(items).__name__}: expected {expected}")


def not_copied(value: Any) -> str:
    """Why a Value with a history can be neither copied nor pickled."""
    return (
        f"the result of {expression(value)} cannot be copied or pickled, since its history holds closures: "
        "copy the leaves, or its .detach(), instead"
    )


def expression(node: Any) -> str:
    """The operation and its operands' numbers, for errors."""
    operands = [repr(operand.data) for operand in node._prev[:5]] + ["..."] * (len(node._prev) > 5)
    return f"{node._op}({', '.join(operands)})"
