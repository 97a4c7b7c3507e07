"""Graphs of any size, and the memory that each takes, measured in its own process."""

import gc
import math
import subprocess
import sys
from collections.abc import Callable

from micrograd import Value, nn, sum
from tests.stress.memory import peak

Check = Callable[[], bool]


def chain(n: int) -> tuple[Value, Check]:
    """x + x + ... + x, one addition after the other."""
    x = Value(1.0)
    y = x
    for _ in range(n):
        y = y + x
    return y, lambda: x.grad == n + 1


def fan(n: int) -> tuple[Value, Check]:
    """The sum of n inputs, as one node."""
    xs = [Value(float(i)) for i in range(n)]
    return sum(xs), lambda: all(x.grad == 1.0 for x in xs)


def network(n: int) -> tuple[Value, Check]:
    """A network of two layers and about n weights."""
    width = math.isqrt(n)
    model = nn.MLP(width, [width, 1], rng=1)
    xs = [Value((i + 1) / width) for i in range(width)]
    neurons = model.layers[0].neurons
    return model(xs), lambda: all(
        w.grad == neuron.b.grad * x.data != 0 for neuron in neurons for w, x in zip(neuron.w, xs, strict=True)
    )


GRAPHS = {"chain": chain, "fan": fan, "network": network}


def measure(kind: str, n: int) -> int:
    """The bytes that a graph of size n takes, forward and backward."""
    gc.disable()  # as `fit` does
    before = peak()
    root, check = GRAPHS[kind](n)
    root.backward()
    memory = peak() - before
    if not check():
        raise AssertionError(f"the gradients of a {kind} of {n} are wrong")
    return memory


def measured(kind: str, n: int) -> int:
    """`measure` in a process of its own, whose peak is that of this graph alone."""
    program = f"from tests.stress.load import *; print(measure({kind!r}, {n}))"
    return int(subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True).stdout)
