"""Whole processes against PyTorch: from the start of Python to the end of a short training, with an empty cache.

Imports, tracing and the C compiler are included. A training is 1,000 steps of Adam on a batch of 32 examples, in
doubles and on one thread; that of the names is 10,080 steps, of one name each, and that of 784-128-10 2,000.
"""

import math
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from itertools import chain
from string import ascii_lowercase
from typing import Any

from tests.benchmarks import gpt, mlp
from tests.benchmarks.arrays import pytorch_network
from tests.benchmarks.data import orders
from tests.benchmarks.harness import CHECKOUT, Benchmark, Contestant, Measure, timed
from tests.benchmarks.programs import PROGRAMS

OURS, PYTORCH = "micrograd", "PyTorch"
STEPS = 1000
MANY = 32
RATE = 1e-3
NETWORKS = {"digits 64-32-10": [64, 32, 10], "784-128-10": [784, 128, 10]}
TEXTS, TRANSFORMER = "names, GPT of 4,192 weights, 12 lengths", "transformer, 2 layers, 16 tokens"
NAMES = (TEXTS, TRANSFORMER, *NETWORKS, "heat equation", "two convolutions, taps skipped", "LSTM")
LENGTHS, OF_EACH = range(3, 15), 10  # of names, as their letters


def benchmarks() -> list[Benchmark]:
    """A training in a process of each."""
    return [
        Benchmark(
            f"a whole process: {name}",
            (Contestant(OURS, process, (OURS, name)),),
            (Contestant(PYTORCH, process, (PYTORCH, name)),),
            rounds=3,
            tolerance=1e-3,  # rounding grows from step to step
        )
        for name in NAMES
    ]


def process(who: str, name: str) -> Measure:
    """The time of a process, and the last loss, which it prints."""

    def run() -> float:
        with tempfile.TemporaryDirectory() as cache:
            # Modules stay compiled from one process to the next, as pip leaves them where it installs a package.
            environment = {**os.environ, "XDG_CACHE_HOME": cache, "PYTHONDONTWRITEBYTECODE": ""}
            command = [sys.executable, "-m", __spec__.name, who, name]
            done = subprocess.run(command, cwd=CHECKOUT, env=environment, stdout=subprocess.PIPE, check=True)
        return float(done.stdout)

    return timed(run)


def batch_of(example: Any) -> list[Any]:
    """Examples like this one, each a little larger than the one before."""

    def scaled(tree: Any, factor: float) -> Any:
        return [scaled(branch, factor) for branch in tree] if isinstance(tree, list) else tree * factor

    return [scaled(example, 1 + i / MANY) for i in range(MANY)]


def spelled() -> list[list[int]]:
    """The tokens of names that nobody has, some of each length."""
    rng = random.Random(0)
    return gpt.names(["".join(rng.choices(ascii_lowercase, k=n)) for n in LENGTHS for _ in range(OF_EACH)])


def epochs(steps: int) -> int:
    """How often each name is shown, for ten times as many steps."""
    return -(-10 * steps // len(spelled()))


def sequences() -> list[list[int]]:
    """Texts of as many tokens as there may be, and one more, which follows them."""
    rng = random.Random(0)
    return [rng.choices(range(gpt.VOCABULARY), k=gpt.CONTEXT + 1) for _ in range(MANY)]


def ours(name: str, steps: int = STEPS) -> float:
    """The last loss of our training; of names, the mean of the last epoch."""
    from micrograd import fit
    from micrograd.optim import Adam

    if name == TEXTS:
        model = gpt.our_gpt()
        options: Any = {"batch_size": 1, "rng": 0, "progress": False, "optimizer": Adam(model.parameters(), RATE)}
        examples = model.task(spelled()).batch
        return fit(model, model.loss, *examples, epochs=epochs(steps), backend="c", **options).losses[-1]
    task = task_of(name)
    fast, packed = mlp.compiled(task)
    with fast.training(Adam(task.parameters, RATE)) as step:
        for _ in range(steps):
            loss = step(packed)
    return float(loss)


def task_of(name: str) -> mlp.Task:
    """What each program but the names compiles."""
    if name == TRANSFORMER:
        return gpt.our_gpt(2).task(sequences())
    if name in NETWORKS:
        return mlp.network("cross-entropy", NETWORKS[name], MANY)
    program = PROGRAMS[name].make(*PROGRAMS[name].full)
    return mlp.Task(program.first, program.parameters, (batch_of(program.example[0]),))


def pytorch(name: str, steps: int = STEPS) -> float:
    """The last loss of PyTorch's, or their mean, as of ours."""
    import torch

    parameters, loss_of = tensors(name)
    optimizer = torch.optim.Adam(parameters, RATE)
    n = 1
    if name == TEXTS:
        n, steps = len(spelled()), len(spelled()) * epochs(steps)
    found = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()
        found.append(float(loss.detach()))
    return sum(found[-n:]) / n


def tensors(name: str) -> tuple[list[Any], Callable[[], Any]]:
    """The parameters in PyTorch, in doubles and for one thread, and a function that gives the loss of the batch."""
    import torch

    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    if name in NETWORKS:
        return pytorch_network("cross-entropy", NETWORKS[name], MANY)
    if name in (TEXTS, TRANSFORMER):
        return texts() if name == TEXTS else transformer()
    shapes_of, mean_loss = TENSORS[name]
    program, shapes = PROGRAMS[name].make(*PROGRAMS[name].full), shapes_of(*PROGRAMS[name].full)
    numbers = torch.tensor([value.data for value in program.parameters])
    parts = zip(numbers.split([math.prod(shape) for shape in shapes]), shapes, strict=True)
    parameters = [part.reshape(shape).clone().requires_grad_() for part, shape in parts]
    batch = torch.tensor(batch_of(program.example[0]))
    return parameters, lambda: mean_loss(batch, *parameters)


def heat(x: Any, k: Any) -> Any:
    import torch

    _, steps = PROGRAMS["heat equation"].full
    for _ in range(steps):
        inner = x[:, 1:-1] + k * (x[:, :-2] - 2 * x[:, 1:-1] + x[:, 2:])
        x = torch.cat([x[:, :1], inner, x[:, -1:]], 1)
    return (x * x).mean()


def convolutions(x: Any, *kernels: Any) -> Any:
    """The convolutions of PyTorch."""
    import torch

    x = x.unsqueeze(1)
    for kernel in kernels:
        x = torch.nn.functional.conv2d(x, kernel, padding=1).relu()
    return (x * x).mean()


def lstm(batch: Any, gates: Any) -> Any:
    """The LSTM, with the four gates in one product."""
    import torch

    h = c = torch.zeros(MANY, len(gates) // 4)
    for x in batch.unbind(1):
        a, f, o, new = (torch.cat([x, h], 1) @ gates[:, :-1].T + gates[:, -1]).chunk(4, 1)
        c = f.sigmoid() * c + a.sigmoid() * new.tanh()
        h = o.sigmoid() * c.tanh()
    return (h * h).mean()


TENSORS: dict[str, tuple[Callable[..., list[tuple[int, ...]]], Callable[..., Any]]] = {
    "heat equation": (lambda cells, steps: [(1,)], heat),
    "two convolutions, taps skipped": (lambda size, n: [(n, 1, 3, 3), (n, n, 3, 3)], convolutions),
    "LSTM": (lambda width, steps: [(4 * width, 2 * width + 1)], lstm),
}
"""The shapes of a program's parameters, by its size; and its mean loss of a batch."""


def texts() -> tuple[list[Any], Callable[[], Any]]:
    """The GPT on one name after the other, in the order of `fit`."""
    import torch

    pairs = [(text[:-1], text[1:]) for text in map(torch.tensor, spelled())]
    order = chain.from_iterable(orders(len(pairs), epochs(STEPS)))
    weights = gpt.pytorch_weights()
    return [*weights.values()], lambda: gpt.pytorch_loss(weights, *pairs[next(order)])


def transformer() -> tuple[list[Any], Callable[[], Any]]:
    import torch

    batch = torch.tensor(sequences())
    weights = gpt.pytorch_weights(2)
    return [*weights.values()], lambda: gpt.pytorch_loss(weights, batch[:, :-1], batch[:, 1:])


if __name__ == "__main__":
    who, task_name = sys.argv[1:]
    print(repr({OURS: ours, PYTORCH: pytorch}[who](task_name, 2 * STEPS if task_name == "784-128-10" else STEPS)))
