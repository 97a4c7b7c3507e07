"""How a function is compiled: the options of `compile` and `fit`, checked once and passed along together."""

import math
from dataclasses import dataclass

from micrograd import validation
from micrograd.compiler.dtype import DOUBLE, Precision
from micrograd.errors import shown

BACKENDS = ("auto", "c", "numpy", "python")
IN_PYTHON = ("numpy", "python")  # which need no C compiler


@dataclass(frozen=True)
class Options:
    """The options of a compiled function.

    A new one is a field and its check here, and an argument of `compile`, which documents it. All that compiles gets
    them, here and in workers.

    Raises
    ------
    ValueError
        If an option is out of its range, or the backend does not support it.
    """

    backend: str = "auto"
    batch_size: float = math.inf
    threads: int = 1
    precision: Precision = DOUBLE
    finite: bool = False
    sparse: bool = False

    def __post_init__(self) -> None:
        if self.backend not in BACKENDS:
            raise ValueError(f'unknown backend {self.backend!r}: expected "auto", "c", "numpy" or "python"')
        if self.batch_size != math.inf:
            object.__setattr__(self, "batch_size", validation.number("batch_size", self.batch_size, least=1))
        object.__setattr__(self, "threads", validation.count("threads", self.threads))
        for name in ("finite", "sparse"):
            if not isinstance(value := getattr(self, name), bool):
                raise ValueError(f"{name} is {shown(value)}: expected True or False")
        if self.backend in IN_PYTHON and self.precision != DOUBLE:
            raise ValueError(f'backend "{self.backend}" computes in doubles: give backend="c" with precision="single"')
        if self.backend in IN_PYTHON and self.threads > 1:
            raise ValueError(
                f'backend "{self.backend}" runs in one thread: give backend="c" with threads={self.threads}'
            )
