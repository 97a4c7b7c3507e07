"""Faults around a program: it is interrupted, and shares its time with threads."""

import copy
import gc
import random
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from itertools import islice
from typing import Any

import micrograd
from micrograd import Value, data, fit, losses, mean, nn, optim
from tests.helpers import ctrl_c

# Interrupted by Ctrl-C


BACKENDS = {"eager": 20, "python": 20, "c": 60}
"""The backends whose training runs are interrupted, and how many steps these take."""


class Fitting:
    """A training run by `fit`, of which the state after each whole step is known."""

    def __init__(self, backend: str) -> None:
        self.backend = backend
        self.model = nn.MLP(2, [8, 1], rng=1)
        self.optimizer = optim.Adam(self.model.parameters(), learning_rate=0.01)
        self.after = [copy.deepcopy(self.state())]
        for _ in range(BACKENDS[backend]):
            self.take(1)
            self.after.append(copy.deepcopy(self.state()))

    def take(self, steps: int) -> None:
        """Take the steps, each on one example, for in another order the last bits of a sum would differ."""
        history = fit(
            self.model, losses.mse_loss, [[0.5, -1.0]], [1.0], epochs=steps, optimizer=self.optimizer,
            rng=random.Random(1), backend=self.backend, progress=False,
        )  # fmt: skip
        if history.interrupted:
            if len(history.losses) != self.optimizer.steps:
                raise AssertionError(f"{len(history.losses)} epochs after {self.optimizer.steps} steps")
            raise KeyboardInterrupt

    def state(self) -> tuple[list[float], dict[str, Any]]:
        return numbers(self.model.parameters()), self.optimizer.state_dict()

    def start(self) -> None:
        """Go back to where the training began."""
        start, moments = self.after[0]
        for parameter, number in zip(self.model.parameters(), start, strict=True):
            parameter.data = number
        self.optimizer.load_state_dict(moments)


def numbers(parameters: Sequence[Any]) -> list[Any]:
    return [parameter.data for parameter in parameters]


def interrupt(times: int) -> Iterator[str]:
    """Press Ctrl-C at moments spread over the training, in each backend. Tells how often it came in time."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts background processes with Ctrl-C ignored
    for backend in BACKENDS:
        yield f"{in_time(Fitting(backend), times, random.Random())} of {times} in time: fit in {backend}"


def in_time(fitting: Fitting, times: int, rng: random.Random) -> int:
    """How often Ctrl-C came in time.

    Raises AssertionError if something was left half-done, the collector off, or Ctrl-C without its meaning.
    """
    found = 0
    duration = 0.0
    for i in range(times):
        fitting.start()
        delay = 1.5 * duration * (i + rng.random()) / times  # runs that are interrupted take longer
        started = time.perf_counter()
        try:
            with ctrl_c(delay if i else 60.0):
                fitting.take(BACKENDS[fitting.backend])
            duration = time.perf_counter() - started
        except KeyboardInterrupt:
            found += 1
        if fitting.state() != fitting.after[fitting.optimizer.steps]:
            raise AssertionError(f"half a step in {fitting.backend}, Ctrl-C at {delay / duration:.1%} of its time")
        if not gc.isenabled():
            raise AssertionError("the collector was left off")
        if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            raise AssertionError("Ctrl-C was left without its meaning")
    return found


# Threads


WAYS = ("fit in eager", "fit in c", "loop in python", "loop in c", "block in python", "block in c")


def train(seed: int, way: str) -> list[float]:
    """The parameters of a network, trained by `fit`, or by twenty steps in a loop or in a block."""
    if not way.startswith("fit in "):
        return numbers(list(islice(learning(way, seed), 20))[-1])
    xs, ys = data.moons(12, rng=seed)
    model = nn.MLP(2, [4, 1], rng=seed)
    options: dict[str, Any] = {"batch_size": 4, "rng": seed, "progress": False, "backend": way[len("fit in ") :]}
    optimizer = optim.Adam(model.parameters(), learning_rate=0.01)
    fit(model, losses.mse_loss, xs, ys, epochs=5, optimizer=optimizer, **options)
    return numbers(model.parameters())


def learning(way: str, seed: int) -> Iterator[list[Value]]:
    """The parameters of a network after each step on moons: in a loop by the engine, or compiled, or in a block."""
    xs, ys = data.moons(12, rng=seed)
    model = nn.MLP(2, [4, 1], rng=seed)
    optimizer = optim.Adam(model.parameters(), learning_rate=0.01)
    kind, _, backend = way.partition(" in ")

    def loss(x: Any, y: Any) -> Value:
        return losses.mse_loss(model(x), y)

    if backend != "eager":
        fast = micrograd.compile(loss, (xs[0], ys[0]), parameters=model.parameters(), backend=backend)
    with fast.training(optimizer) if kind == "block" else nullcontext() as step:
        while True:
            if step:
                step(xs, ys)
            else:
                optimizer.zero_grad()
                if backend == "eager":
                    mean(loss(x, y) for x, y in zip(xs, ys, strict=True)).backward()
                else:
                    fast.backward(xs, ys)
                optimizer.step()
            yield model.parameters()


def together(count: int, way: str) -> tuple[list[list[float]], list[list[float]]]:
    """The parameters of that many networks, trained one after the other, and all at once in threads."""
    alone = [train(seed, way) for seed in range(count)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # seconds, so that the threads come into each other's way
    try:
        with ThreadPoolExecutor(count) as pool:
            return alone, list(pool.map(train, range(count), [way] * count))
    finally:
        sys.setswitchinterval(interval)
