"""Part 5: the bridge."""

import numpy as np


def relu(x):
    def _backward(grad):
        x.grad += grad * (x.data > 0)

    return type(x)(np.maximum(x.data, 0), (x,), _backward)


def add_bias(x, b):
    """Each number in b is used once for each row, so its gradients from all rows add up, as for any number."""

    def _backward(grad):
        x.grad += grad
        b.grad += grad.sum(axis=0)

    return type(x)(x.data + b.data, (x, b), _backward)
