"""How a function is compiled: the options of `compile` and `fit`, checked once and passed along together."""

import math
import sys
from dataclasses import dataclass
from typing import Any

from micrograd.compiler.dtype import DOUBLE, Precision
from micrograd.core.errors import shown
from micrograd.support import validation

CHOICES: dict[str, tuple[Any, ...]] = {
    "backend": ("auto", "c", "python"),
    "finite": (True, False),
    "errors": ("raise", "ieee"),
    "sparse": (True, False),
}


@dataclass(frozen=True)
class Options:
    """The options of a compiled function.

    A new one is a field and its check here, and an argument of `compile`, which documents it. All that compiles gets
    them, here and in workers. Raises ValueError if one is out of its range, or the backend does not support it.
    """

    backend: str = "auto"
    batch_size: float = math.inf
    threads: int = 1
    precision: Precision = DOUBLE
    finite: bool = False
    errors: str = "raise"
    in_axes: Any = 0
    sparse: bool = False

    def __post_init__(self) -> None:
        for name, choices in CHOICES.items():
            value = getattr(self, name)
            if not isinstance(value, type(choices[0])) or value not in choices:
                raise ValueError(f"{name} is {shown(value)}: expected {' or '.join(map(repr, choices))}")
        if self.batch_size != math.inf:
            object.__setattr__(self, "batch_size", validation.number("batch_size", self.batch_size, least=1))
        object.__setattr__(self, "threads", validation.count("threads", self.threads))
        several = isinstance(self.in_axes, (list, tuple))
        axes = tuple(self.in_axes) if several else (self.in_axes,)
        if not all(axis is None or (type(axis) is int and axis == 0) for axis in axes) or (axes and 0 not in axes):
            raise ValueError(
                f"in_axes is {shown(self.in_axes)}: expected 0 for an argument with an example for each result, and "
                "None for one that all share, which at least one does not: (None, 0), for instance"
            )
        object.__setattr__(self, "in_axes", axes if several else 0)
        if self.backend == "python" and self.precision != DOUBLE:
            raise ValueError('backend "python" computes in doubles: give backend="c" with precision="single"')
        if self.backend == "python" and self.threads > 1:
            raise ValueError(f'backend "python" runs in one thread: give backend="c" with threads={self.threads}')

    @property
    def in_python(self) -> bool:
        """Whether no C compiler is looked for: with "auto", in a browser's Python, which has none."""
        return self.backend == "python" or (self.backend == "auto" and sys.platform == "emscripten")

    @property
    def quiet(self) -> bool:
        """Whether an operation that fails gives an infinity or NaN, and not an error."""
        return self.errors == "ieee"

    def shared(self, n: int) -> tuple[bool, ...]:
        """Which of n arguments are one for all examples. Raises ValueError if `in_axes` is of another number."""
        axes = self.in_axes if isinstance(self.in_axes, tuple) else (self.in_axes,) * n
        if len(axes) != n:
            raise ValueError(f"in_axes is {axes}: expected {n} of them, one for each argument of the function")
        return tuple(axis is None for axis in axes)


DEFAULTS = Options()
