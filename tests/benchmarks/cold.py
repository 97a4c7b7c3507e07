"""Whole processes against PyTorch: from the start of Python to the end of a short training, with an empty cache.

Imports, tracing and the C compiler are included. A training is 1,000 steps of Adam on a batch of 32 examples, in
doubles and on one thread; that of the names is 10,080 steps, of one name each, and that of 784-128-10 2,000.
"""

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
from tests.benchmarks.programs import PROGRAMS, Phrased

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
    from micrograd.optim import Adam

    if name == TEXTS:
        model = gpt.our_gpt()
        adam = Adam(model.parameters(), RATE)
        return gpt.fitted(model, spelled(), epochs=epochs(steps), optimizer=adam, backend="c")
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
    return TENSORS[name](torch, name)


def _tensors(torch: Any, name: str, *shapes: tuple[int, ...]) -> tuple[Phrased, Any, list[Any]]:
    """The program, its batch, and its parameters in these shapes."""
    program = PROGRAMS[name].make(*PROGRAMS[name].full)
    numbers = torch.tensor([value.data for value in program.parameters])
    sizes = [torch.Size(shape).numel() for shape in shapes]
    parts = [part.reshape(shape) for part, shape in zip(numbers.split(sizes), shapes, strict=True)]
    return program, torch.tensor(batch_of(program.example[0])), [part.clone().requires_grad_() for part in parts]


def heat(torch: Any, name: str) -> tuple[list[Any], Callable[[], Any]]:
    """The heat equation on tensors."""
    _, steps = PROGRAMS[name].full
    _, batch, (k,) = _tensors(torch, name, (1,))

    def loss() -> Any:
        x = batch
        for _ in range(steps):
            inner = x[:, 1:-1] + k * (x[:, :-2] - 2 * x[:, 1:-1] + x[:, 2:])
            x = torch.cat([x[:, :1], inner, x[:, -1:]], 1)
        return (x * x).mean()

    return [k], loss


def convolutions(torch: Any, name: str) -> tuple[list[Any], Callable[[], Any]]:
    """The convolutions of PyTorch."""
    _, n = PROGRAMS[name].full
    _, batch, (first, second) = _tensors(torch, name, (n, 1, 3, 3), (n, n, 3, 3))

    def loss() -> Any:
        x = batch.unsqueeze(1)
        for kernel in (first, second):
            x = torch.nn.functional.conv2d(x, kernel, padding=1).relu()
        return (x * x).mean()

    return [first, second], loss


def lstm(torch: Any, name: str) -> tuple[list[Any], Callable[[], Any]]:
    """The LSTM, with the four gates in one product."""
    width, _ = PROGRAMS[name].full
    _, batch, (gates,) = _tensors(torch, name, (4 * width, 2 * width + 1))

    def loss() -> Any:
        h = c = torch.zeros(MANY, width)
        for x in batch.unbind(1):
            a, f, o, new = (torch.cat([x, h], 1) @ gates[:, :-1].T + gates[:, -1]).chunk(4, 1)
            c = f.sigmoid() * c + a.sigmoid() * new.tanh()
            h = o.sigmoid() * c.tanh()
        return (h * h).mean()

    return [gates], loss


def texts(torch: Any, name: str) -> tuple[list[Any], Callable[[], Any]]:
    """The GPT on one name after the other, in the order of `fit`."""
    pairs = [(text[:-1], text[1:]) for text in map(torch.tensor, spelled())]
    order = chain.from_iterable(orders(len(pairs), epochs(STEPS)))
    weights = gpt.pytorch_weights()
    return [*weights.values()], lambda: gpt.pytorch_loss(weights, *pairs[next(order)])


def transformer(torch: Any, name: str) -> tuple[list[Any], Callable[[], Any]]:
    """The GPT with two layers."""
    batch = torch.tensor(sequences())
    weights = gpt.pytorch_weights(2)
    return [*weights.values()], lambda: gpt.pytorch_loss(weights, batch[:, :-1], batch[:, 1:])


TENSORS = {
    TEXTS: texts,
    TRANSFORMER: transformer,
    "heat equation": heat,
    "two convolutions, taps skipped": convolutions,
    "LSTM": lstm,
}

if __name__ == "__main__":
    who, task_name = sys.argv[1:]
    print(repr({OURS: ours, PYTORCH: pytorch}[who](task_name, 2 * STEPS if task_name == "784-128-10" else STEPS)))
