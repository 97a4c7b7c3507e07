"""The scalar engines that ours is compared with: micrograd 0.1.0, and microgpt's form of Value.

Operations that either lacks for a task are added here in its own style.
"""

import math
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from tests.benchmarks.data import RATE, set_weights
from tests.benchmarks.harness import Contestant, Measure, installed, training


def scalar_engines(prepare: Callable[..., Measure], *arguments: Any) -> tuple[Contestant, Contestant]:
    """Both engines at a task, whose first argument is "micrograd" or "microgpt"."""
    return (
        Contestant("micrograd 0.1.0", prepare, ("micrograd", *arguments), path=installed("micrograd==0.1.0")),
        Contestant("microgpt's form", prepare, ("microgpt", *arguments)),
    )


def value_of(engine: str) -> Any:
    """The class of Values of "micrograd", which has to be the first on the path, or of "microgpt"."""
    sys.setrecursionlimit(1_000_000)  # both recurse once per node of a path
    if engine == "microgpt":
        return Value
    from micrograd.engine import Value as TheirValue  # here the other one

    value: Any = TheirValue

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


class Value:
    """A node in the form that A. Karpathy's microgpt (2026) gave it: no closures, but the derivative by each operand.

    It is computed together with the value, and `backward` multiplies and adds.
    """

    __slots__ = ("data", "derivatives", "grad", "operands")

    def __init__(self, data: Any, operands: Any = (), derivatives: Any = ()) -> None:
        self.data = data
        self.grad = 0
        self.operands = operands
        self.derivatives = derivatives

    def __add__(self, other: Any) -> "Value":
        other = other if isinstance(other, Value) else Value(other)
        return Value(self.data + other.data, (self, other), (1, 1))

    def __mul__(self, other: Any) -> "Value":
        other = other if isinstance(other, Value) else Value(other)
        return Value(self.data * other.data, (self, other), (other.data, self.data))

    def __pow__(self, power: float) -> "Value":
        return Value(self.data**power, (self,), (power * self.data ** (power - 1),))

    def exp(self) -> "Value":
        result = math.exp(self.data)
        return Value(result, (self,), (result,))

    def log(self) -> "Value":
        return Value(math.log(self.data), (self,), (1 / self.data,))

    def relu(self) -> "Value":
        return Value(max(0, self.data), (self,), (float(self.data > 0),))

    def __neg__(self) -> "Value":
        return self * -1

    def __sub__(self, other: Any) -> "Value":
        return self + (-other)

    def __truediv__(self, other: Any) -> "Value":
        return self * other**-1

    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, other: Any) -> "Value":
        return other + (-self)

    def backward(self) -> None:
        """Add the derivative of this Value by each node to the node's `grad`."""
        order: list[Value] = []
        seen: set[Value] = set()

        def visit(node: Value) -> None:
            if node not in seen:
                seen.add(node)
                for operand in node.operands:
                    visit(operand)
                order.append(node)

        visit(self)
        self.grad = 1
        for node in reversed(order):
            for operand, derivative in zip(node.operands, node.derivatives, strict=True):
                operand.grad += derivative * node.grad


def softmax(logits: Sequence[Any]) -> list[Any]:
    """e^x of each, divided by their sum; all less the largest, so that none overflows."""
    largest = max(logit.data for logit in logits)
    powers = [(logit - largest).exp() for logit in logits]
    total = sum(powers)
    return [power / total for power in powers]


def cross_entropy(logits: Sequence[Any], target: int) -> Any:
    """The negative logarithm of the target's share."""
    return -softmax(logits)[target].log()


def dot(ws: Sequence[Any], xs: Sequence[Any]) -> Any:
    """The sum of the products."""
    return sum(w * x for w, x in zip(ws, xs, strict=True))


def mean(xs: Sequence[Any]) -> Any:
    """The sum, divided by how many there are."""
    return sum(xs) * (1 / len(xs))


def mlp_of(engine: str, sizes: Sequence[int], most: float = 1.0) -> Any:
    """A network with relus, micrograd's own or that of `Value`, and the weights that all have."""
    if engine == "microgpt":
        model: Any = MLP(sizes)
    else:
        from micrograd import nn  # here the other one

        model = nn.MLP(sizes[0], list(sizes[1:]))
    set_weights(model.parameters(), sizes, most)
    return model


class MLP:
    """A network of this module's Values: a relu after each layer but the last."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.layers = [[[Value(0.0) for _ in range(n + 1)] for _ in range(m)] for n, m in pairwise(sizes)]

    def parameters(self) -> list[Any]:
        return [p for layer in self.layers for row in layer for p in row]

    def __call__(self, x: Sequence[Any]) -> Any:
        for layer in self.layers[:-1]:
            x = [(dot(ws, x) + b).relu() for *ws, b in layer]
        outputs = [dot(ws, x) + b for *ws, b in self.layers[-1]]
        return outputs[0] if len(outputs) == 1 else outputs


def their_training(
    gradient: Callable[[], float], parameters: Sequence[Any], set_parameters: Callable[[], None]
) -> Measure:
    """A step of gradient descent."""

    def step() -> float:
        zero_grad(parameters)
        loss = gradient()
        descend(parameters, RATE)
        return loss

    def restart() -> None:
        set_parameters()
        zero_grad(parameters)

    return training("step", step, gradient, restart)


def descend(parameters: Sequence[Any], rate: float) -> None:
    """A step of gradient descent."""
    for p in parameters:
        p.data -= rate * p.grad


def zero_grad(parameters: Sequence[Any]) -> None:
    """Forget the gradients."""
    for p in parameters:
        p.grad = 0
