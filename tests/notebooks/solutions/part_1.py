"""Part 1: numbers and gradients. `Value` is the class that the notebook has come to; run its cells first.

In the notebook, `%load solutions/part_1.py` brings these functions into a cell.
"""

import math


def slope(f, x):
    h = 1e-5
    return (f(x + h) - f(x - h)) / (2 * h)


def two_paths(x):
    """The answer to exercise 2: x is used twice, so two gradients arrive, and with = the second would replace the
    first: the gradient would be x, not 2 * x.
    """
    return x * x


def sin(x):
    def _backward(grad):
        x.grad += grad * math.cos(x.data)

    return type(x)(math.sin(x.data), (x,), "sin", _backward)


def cos(x):
    def _backward(grad):
        x.grad -= grad * math.sin(x.data)

    return type(x)(math.cos(x.data), (x,), "cos", _backward)


def sqrt(x):
    root = math.sqrt(x.data)

    def _backward(grad):
        x.grad += grad / (2 * root)

    return type(x)(root, (x,), "sqrt", _backward)
