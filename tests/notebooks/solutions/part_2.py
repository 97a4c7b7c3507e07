"""Part 2: a network by hand. The engine in a hundred lines, a layer, and mini-batches."""

import math
import random


class Value:
    """A number that remembers what it was computed from, and knows its gradient after backward()."""

    def __init__(self, data, _prev=(), _backward=None):
        self.data = data
        self.grad = 0.0
        self._prev = _prev
        self._backward = _backward

    def __repr__(self):
        return f"Value({self.data:g}, grad {self.grad:g})"

    # Two operations have slopes of their own, and a power has one

    def __add__(self, other):
        other = other if isinstance(other, Value) else Value(other)

        def _backward(grad):
            self.grad += grad
            other.grad += grad

        return Value(self.data + other.data, (self, other), _backward)

    def __mul__(self, other):
        other = other if isinstance(other, Value) else Value(other)

        def _backward(grad):
            self.grad += grad * other.data
            other.grad += grad * self.data

        return Value(self.data * other.data, (self, other), _backward)

    def __pow__(self, exponent):
        def _backward(grad):
            self.grad += grad * exponent * self.data ** (exponent - 1)

        return Value(self.data**exponent, (self,), _backward)

    # Back through the graph: each node after all that use it, which is the order of "operands first", reversed

    def backward(self):
        order, seen = [], set()

        def visit(node):
            if node not in seen:
                seen.add(node)
                for operand in node._prev:
                    visit(operand)
                order.append(node)

        visit(self)
        self.grad = 1.0
        for node in reversed(order):
            if node._backward:
                node._backward(node.grad)

    # The other operators, in terms of these

    def __radd__(self, other):
        return self + other

    def __rmul__(self, other):
        return self * other

    def __neg__(self):
        return self * -1

    def __sub__(self, other):
        return self + other * -1

    def __rsub__(self, other):
        return self * -1 + other

    def __truediv__(self, other):
        return self * other**-1

    def __rtruediv__(self, other):
        return self**-1 * other

    # Functions

    def exp(self):
        result = math.exp(self.data)

        def _backward(grad):
            self.grad += grad * result

        return Value(result, (self,), _backward)

    def log(self):
        def _backward(grad):
            self.grad += grad / self.data

        return Value(math.log(self.data), (self,), _backward)

    def tanh(self):
        result = math.tanh(self.data)

        def _backward(grad):
            self.grad += grad * (1 - result**2)

        return Value(result, (self,), _backward)

    def relu(self):
        def _backward(grad):
            self.grad += grad * (self.data > 0)

        return Value(max(self.data, 0.0), (self,), _backward)


def layer(weights, biases, x):
    return [sum((w * xi for w, xi in zip(ws, x, strict=True)), b).tanh() for ws, b in zip(weights, biases, strict=True)]


def batches(xs, ys, size):
    """The loss becomes restless: each step goes downhill on a few examples, which may be uphill for all.

    But a pass over the data takes many steps instead of one, and so the network learns in fewer passes.
    """
    order = random.sample(range(len(xs)), len(xs))
    for start in range(0, len(order), size):
        chosen = order[start : start + size]
        yield [xs[i] for i in chosen], [ys[i] for i in chosen]
