"""How a function is compiled: the options of `compile` and `fit`, checked once and passed along together."""

import sys
from dataclasses import dataclass, field
from typing import Any

from micrograd.compiler.dtype import named
from micrograd.core.errors import shown
from micrograd.support import validation


@dataclass(frozen=True)
class Backend:
    """How generated code runs, for `compile` and `fit`. They also take just the name, if it needs no other options.

    Raises ValueError if an option is out of range, or the backend cannot do it.

    Parameters
    ----------
    name
        "c" for generated C (this needs a C compiler); "python" for generated Python; "auto" for C if there is a
        compiler, otherwise Python; and "eager", for `fit` only, for the engine.
    threads
        How many threads may share the examples of a call or a step in C. Each gets about a millisecond of work or more.
    precision
        "double", or "single" for floats in C. If a number beyond 3.4e38 makes a result or gradient infinite or NaN, a
        call raises OverflowError; in a training run, the engine takes the step, in doubles.
    executor
        The executor whose workers compute: from `concurrent.futures`, or anything with the same `submit`, such as
        Dask's `client.get_executor()`. Copies and pickles have none. What workers send is unpickled: use only workers
        whose programs you would run.
    """

    name: str = "auto"
    threads: int = 1
    precision: str = "double"
    executor: Any = field(default=None, compare=False)  # generated code is the same for any

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or self.name not in ("auto", "c", "python", "eager"):
            raise ValueError(f"backend is {shown(self.name)}: expected 'auto', 'c', 'python' or, for fit, 'eager'")
        object.__setattr__(self, "threads", validation.count("threads", self.threads))
        named(self.precision)
        is_eager = self.name == "eager"
        needs_c = self.threads > 1 or self.precision != "double" or (is_eager and self.executor is not None)
        if needs_c and (is_eager or self.name == "python"):
            where = "one thread" + " of this process" * is_eager
            raise ValueError(f'backend "{self.name}" computes in doubles and in {where}: give Backend("c", ...)')

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "executor": None}

    @property
    def is_python(self) -> bool:
        """Whether the code is Python, without a search for a C compiler: a browser has none."""
        return self.name == "python" or (self.name == "auto" and sys.platform == "emscripten")

    @classmethod
    def of(cls, given: "str | Backend") -> "Backend":
        """The backend itself, or the one with that name."""
        return given if isinstance(given, Backend) else cls(given)


@dataclass(eq=False)
class Options:
    """The options of a compiled function, for all code that compiles it. Raises ValueError if one is out of range."""

    backend: Backend = Backend()
    finite: bool = False
    errors: str = "raise"
    in_axes: Any = 0
    sparse: bool = False

    def __post_init__(self) -> None:
        if self.backend.name == "eager":
            raise ValueError('backend "eager" is for fit: call the function itself, or give "auto", "c" or "python"')
        validation.flag("finite", self.finite), validation.flag("sparse", self.sparse)
        if self.errors not in ("raise", "ieee"):
            raise ValueError(f"errors is {shown(self.errors)}: expected 'raise' or 'ieee'")

    def axes(self, n: int) -> tuple[int | None, ...]:
        """`in_axes` for each of n arguments. Raises ValueError if they are not as `compile` says."""
        axes = each_axis(self.in_axes, n)
        are_known = all(axis is None or (type(axis) is int and axis == 0) for axis in axes)
        if len(axes) != n or not are_known or (n and 0 not in axes):
            each = f"for each of the function's {validation.counted(n, 'argument')}"
            raise ValueError(
                f"in_axes is {shown(self.in_axes)}: expected, {each}, 0 if it has an example for each result (at least "
                "one must), or None if all results share it"
            )
        return axes


def each_axis(in_axes: Any, n: int) -> tuple[Any, ...]:
    """What a list or tuple has for each argument; anything else stands for all n of them."""
    return tuple(in_axes) if isinstance(in_axes, (list, tuple)) else (in_axes,) * n


DEFAULTS = Options()
