"""The memory of a training run: a step's memory is freed when the step is over, without the collector's help."""

import gc
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import micrograd
from micrograd import data, losses, mean, nn, optim

MIB = 1 << 20
WARM_UP = 100  # steps, until the allocator has all it needs


def _status(field: str) -> int:
    """The bytes that Linux reports of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"Linux reports no {field}")


def resident() -> int:
    """The bytes of memory that this process has in use."""
    return _status("VmRSS")


def peak() -> int:
    """The most bytes of memory that this process has had in use."""
    return _status("VmHWM")


def train(steps: int, way: str) -> int:
    """Train with the collector off. Returns by how many bytes the memory has grown after the first hundred steps."""
    gc.disable()
    xs, ys = data.moons(20, rng=1)
    model = nn.MLP(2, [8, 1], rng=1)
    optimizer = optim.Adam(model.parameters(), learning_rate=0.01)

    def loss(x, y):
        return losses.mse_loss(model(x), y)

    def engine() -> None:
        optimizer.zero_grad()
        mean(loss(x, y) for x, y in zip(xs, ys, strict=True)).backward()
        optimizer.step()

    def compiled() -> None:
        optimizer.zero_grad()
        fast.backward(xs, ys)
        optimizer.step()

    fast = micrograd.compile(loss, (xs[0], ys[0]), parameters=model.parameters())
    before = 0
    with fast.training(optimizer) if way == "block" else nullcontext() as step:
        ways = {"eager": engine, "compiled": compiled, "block": lambda: step(xs, ys)}
        for i in range(steps):
            if i == WARM_UP:
                before = resident()
            ways[way]()
        return resident() - before


def growth(steps: int, way: str = "eager") -> int:
    """`train` in a process of its own."""
    program = f"from tests.stress.memory import *; print(train({steps}, {way!r}))"
    return int(subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True).stdout)
