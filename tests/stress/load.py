"""Graphs of a thousand to ten million nodes: time and memory, each measured in a separate process."""

import gc
import json
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


def measure(kind: str, n: int) -> dict[str, float]:
    """What a graph of size n takes: seconds of this program, of the kernel that finds it the memory, and bytes."""
    from resource import RUSAGE_SELF, getrusage  # which Windows lacks

    gc.disable()  # as `fit` does
    before = peak()
    started = getrusage(RUSAGE_SELF)
    root, check = GRAPHS[kind](n)
    built = getrusage(RUSAGE_SELF)
    root.backward()
    done = getrusage(RUSAGE_SELF)
    memory = peak() - before
    if not check():
        raise AssertionError(f"the gradients of a {kind} of {n} are wrong")
    return {
        "forward": built.ru_utime - started.ru_utime,
        "backward": done.ru_utime - built.ru_utime,
        "kernel": done.ru_stime - started.ru_stime,
        "bytes": memory,
    }


def measured(kind: str, n: int) -> dict[str, float]:
    """`measure` in a process of its own, whose peak is that of this graph alone."""
    program = f"from tests.stress.load import *; print(json.dumps(measure({kind!r}, {n})))"
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True)
    return dict(json.loads(done.stdout))


def main(longest: int) -> None:
    """Print the table: with linear growth, what a node takes is the same from row to row."""
    print("graph          size   forward  backward    kernel      memory   a node: time  memory")
    for kind, largest in ("chain", longest), ("fan", longest // 10), ("network", longest // 100):
        for exponent in range(3, round(math.log10(largest)) + 1):
            n = 10**exponent
            m = measured(kind, n)
            print(
                f"{kind:7} {n:11,}  {m['forward']:6.2f} s  {m['backward']:6.2f} s  {m['kernel']:6.2f} s"
                f"  {m['bytes'] / 2**20:6,.0f} MiB       {(m['forward'] + m['backward']) / n * 1e6:5.2f} us"
                f"  {m['bytes'] / n:4.0f} B",
                flush=True,
            )
