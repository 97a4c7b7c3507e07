"""micrograd 0.1.0, which our engine is compared with, and the operations that it lacks, in its own style."""

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

from tests.benchmarks.data import RATE, set_weights
from tests.benchmarks.harness import Contestant, Measure, installed, optimized


def scalar_engine(prepare: Callable[..., Measure], *arguments: Any) -> Contestant:
    """micrograd 0.1.0 as a contestant for a task."""
    return Contestant("micrograd 0.1.0", prepare, arguments, path=installed("micrograd==0.1.0"))


def their_value() -> Any:
    """The class Value of micrograd 0.1.0, which must come first on the path."""
    sys.setrecursionlimit(1_000_000)  # its backward recurses once per node of a path
    from micrograd.engine import Value  # of micrograd 0.1.0

    value: Any = Value

    def exp(self: Any) -> Any:
        out = value(math.exp(self.data), (self,), "exp")

        def _backward() -> None:
            self.grad += out.data * out.grad

        out._backward = _backward
        return out

    def log(self: Any) -> Any:
        out = value(math.log(self.data), (self,), "log")

        def _backward() -> None:
            self.grad += out.grad / self.data

        out._backward = _backward
        return out

    value.exp, value.log = exp, log
    return value


def softmax(logits: Sequence[Any]) -> list[Any]:
    """e^x of each, divided by their sum; all less the largest, so that none overflows."""
    largest = max(logit.data for logit in logits)
    powers = [(logit - largest).exp() for logit in logits]
    total = sum(powers)
    return [power / total for power in powers]


def cross_entropy(logits: Sequence[Any], target: int) -> Any:
    return -softmax(logits)[target].log()


def dot(ws: Sequence[Any], xs: Sequence[Any]) -> Any:
    return sum(w * x for w, x in zip(ws, xs, strict=True))


def mean(xs: Sequence[Any]) -> Any:
    return sum(xs) * (1 / len(xs))


def their_mlp(sizes: Sequence[int], most: float = 1.0) -> Any:
    """The relu network of micrograd 0.1.0, with the weights that all contestants have."""
    from micrograd import nn  # of micrograd 0.1.0

    model: Any = nn.MLP(sizes[0], list(sizes[1:]))
    set_weights(model.parameters(), sizes, most)
    return model


class Descent:
    """Gradient descent at a fixed rate, with the methods of our optimizers."""

    def __init__(self, parameters: Sequence[Any], rate: float = RATE) -> None:
        self.parameters, self.rate = parameters, rate

    def zero_grad(self) -> None:
        for p in self.parameters:
            p.grad = 0

    def step(self) -> None:
        for p in self.parameters:
            p.data -= self.rate * p.grad


def their_training(
    gradient: Callable[[], float], parameters: Sequence[Any], set_parameters: Callable[[], None]
) -> Measure:
    """A step of gradient descent."""
    return optimized("step", gradient, Descent(parameters), set_parameters, list)
