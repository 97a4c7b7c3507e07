"""A problem is a function and its arguments; its task: the value, or the gradient with respect to the first `by`."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tests.benchmarks.gradbench.libraries import Library

Task = Callable[[], Any]


class Problem(NamedTuple):
    """What is computed, and of what."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]

    def ours(self, by: int) -> Task:
        """The task, compiled by micrograd."""
        import micrograd

        arguments = self.arguments
        fast = micrograd.compile(self.function, [listed(x) for x in arguments])
        if not by:
            return lambda: fast(*arguments)
        out = tuple(np.empty_like(x) for x in arguments[:by]) if np.ndim(arguments[0]) else None
        return lambda: fast.value_and_grad(*arguments, argnum=tuple(range(by)), out=out)[1]

    def theirs(self, of: Library, by: int) -> Task:
        """The task, compiled if the library can."""
        arguments = [of.array(x) for x in self.arguments]
        fast = of.compiled(of.grad(self.function, by) if by else self.function)
        return lambda: fast(*arguments)


def listed(x: Any) -> Any:
    """The argument in lists, so that our function gets lists of Values."""
    return x.tolist() if isinstance(x, np.ndarray) else x


def uniform(*shape: int, low: float = 0.0, high: float = 1.0, seed: int = 0) -> Any:
    """Random data, the same for all: GradBench's files are not copied here."""
    return np.random.default_rng(seed).uniform(low, high, shape)
