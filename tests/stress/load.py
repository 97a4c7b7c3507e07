"""Graphs of any size, and trainings of any length: the memory that each takes, measured in its own process."""

import gc
import math
import subprocess
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from micrograd import Value, nn, sum
from tests.stress.faults import learning

Check = Callable[[], bool]
WARM_UP = 100  # steps, until the allocator has all it needs


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


def memory(field: str) -> int:
    """The bytes that Linux reports of this process: "VmRSS", which it has in use, or "VmHWM", the most so far."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"Linux reports no {field}")


def graph(kind: str, n: int) -> int:
    """The bytes that a graph of size n takes, forward and backward."""
    gc.disable()  # as `fit` does
    before = memory("VmHWM")
    root, check = GRAPHS[kind](n)
    root.backward()
    taken = memory("VmHWM") - before
    if not check():
        raise AssertionError(f"the gradients of a {kind} of {n} are wrong")
    return taken


def training(way: str, steps: int) -> int:
    """By how many bytes the memory grows after the first hundred steps, with the collector off."""
    gc.disable()
    for i, _ in enumerate(islice(learning(way, 1), steps)):
        if i == WARM_UP:
            before = memory("VmRSS")
    return memory("VmRSS") - before


def measured(what: Callable[..., int], *arguments: object) -> int:
    """A graph or a training in a process of its own, whose memory is its alone."""
    program = f"from tests.stress.load import *; print({what.__name__}{arguments!r})"
    return int(subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True).stdout)
