"""Training steps on several processes, measured with one and two; and on up to 1,000 machines, which is a simulation.

Each step uses all examples, one shard for each worker. Measured were the time of an example in one process, and the
round trip of a message: the parameters to a worker and the gradient from it, pickled, through ProcessPoolExecutor. The
simulation uses these times, a network with a latency and a bandwidth, and one driver, which sends and receives one
message after the other; workers compute in parallel. No other machine was involved.
"""

import heapq
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from typing import Any, NamedTuple

from tests.benchmarks.data import images, points, set_weights
from tests.benchmarks.growth import count
from tests.benchmarks.harness import Benchmark, Contestant, Measure, Measured, from_first_step

NETWORKS = {"2-16-16-1": 50_000, "30-102-10": 5_000, "784-128-10": 1_000}  # and the examples of a step
MESSAGES = 16  # one after the other to a single worker, by which a message is measured
STEPS = 20
WORKERS = (2, 10, 100, 1_000)


class Network(NamedTuple):
    """What is between driver and workers: seconds, and bytes a second."""

    latency: float
    bandwidth: float

    def __str__(self) -> str:
        return f"{self.latency * 1e3:g} ms and {self.bandwidth * 8 / 1e9:g} Gbit/s"


WIRES = [Network(latency, gigabits * 1e9 / 8) for latency in (1e-4, 1e-3) for gigabits in (1, 10)]


def benchmarks() -> list[Benchmark]:
    """For each network a step on no, one and two worker processes; and what a message takes."""
    return [
        Benchmark(
            f"training step, MLP {name}, {_weights(name):,} weights, {n:,} examples",
            (Contestant("in one process", our_steps, (name, n, 0)),),
            (
                Contestant("on 1 worker process", our_steps, (name, n, 1)),
                Contestant("on 2 worker processes", our_steps, (name, n, 2)),
            ),
            rounds=3,
        )
        for name, n in NETWORKS.items()
    ] + [
        Benchmark(
            f"a message of {_weights(name):,} weights, there and back",
            (Contestant("on 1 worker process", our_messages, (name,)),),
            rounds=3,
        )
        for name in NETWORKS
    ]


def our_steps(name: str, n: int, workers: int, messages: int = 1) -> Measure:
    """Steps by `fit` on n examples, with so many messages for all workers."""
    from micrograd import Backend, fit, losses, nn, optim

    sizes = list(map(int, name.split("-")))
    model = nn.MLP(sizes[0], sizes[1:], activation="relu")
    xs, ys = points(n) if sizes[-1] == 1 else images(n, sizes[0], sizes[-1])
    loss: Any = losses.hinge_loss if sizes[-1] == 1 else losses.cross_entropy

    def train(schedule: Any) -> float:
        set_weights(model.parameters(), sizes)
        optimizer = optim.SGD(model.parameters(), 0.01)
        with ProcessPoolExecutor(workers) if workers else nullcontext() as pool:
            backend = Backend("c", executor=[pool] * messages if pool else None)
            options = {"optimizer": optimizer, "schedule": schedule, "epochs": STEPS, "progress": False}
            return fit(model, loss, xs, ys, backend=backend, **options).losses[-1]

    return from_first_step(train, 0.01, STEPS, first=1)  # when all workers have their shards


def our_messages(name: str) -> Measure:
    """What each of the messages of a step takes, where there is next to nothing to compute."""
    measure = our_steps(name, MESSAGES, 1, MESSAGES)

    def a_message() -> tuple[float, float]:
        cost, result = measure()
        return cost / MESSAGES, result

    return a_message


def simulated(weights: int, work: float, message: float, workers: int, network: Network) -> float:
    """The seconds of a step on so many workers, by events.

    Parameters
    ----------
    weights
        The number of weights: a message has 8 bytes for each.
    work
        The seconds that all examples take in one process.
    message
        The seconds that driver and worker have to do with a message there and back, half of them each.
    """
    wire = 8 * weights / network.bandwidth
    busy = 0.0
    answers: list[float] = []
    for _ in range(workers):  # sent one after the other
        busy += max(message / 4, wire)
        heapq.heappush(answers, busy + 2 * network.latency + message / 2 + work / workers)
    while answers:  # received as they come
        busy = max(busy, heapq.heappop(answers)) + max(message / 4, wire)
    return busy


def conclude(measured: list[Measured]) -> Iterator[str]:
    """How much faster two processes are, and what the simulation says."""
    steps, messages = measured[: len(NETWORKS)], measured[len(NETWORKS) :]
    for (name, n), step in zip(NETWORKS.items(), steps, strict=True):
        ratio = step.ratio("in one process", to="on 2 worker processes")
        yield f"MLP {name}, {n:,} examples: two worker processes take {ratio:.2f} times as many steps a second as one."
    for (name, n), step, one in zip(NETWORKS.items(), steps, messages, strict=True):
        work, message = step.medians["in one process"], one.medians["on 1 worker process"]
        for network in WIRES:
            speeds = [1 / simulated(_weights(name), work, message, workers, network) for workers in WORKERS]
            told = ", ".join(f"{speed:,.3g} on {workers:,}" for speed, workers in zip(speeds, WORKERS, strict=True))
            least = [_pays_from(name, work / n, message, workers, network) for workers in (2, 100)]
            yield (
                f"Simulated: {_weights(name):,} weights, {n:,} examples, a network of {network}: steps a second {told} "
                f"workers; {1 / work:,.3g} in one process. It pays from {least[0]:,} examples a step on 2 workers, and "
                f"from {least[1]:,} on 100."
            )


def _pays_from(name: str, an_example: float, message: float, workers: int, network: Network) -> int:
    """The number of examples a step, to two digits, from which the workers are faster than one process."""
    n = 1.0
    while simulated(_weights(name), n * an_example, message, workers, network) >= n * an_example:
        n *= 1.05
    return int(float(f"{n:.2g}"))


def _weights(name: str) -> int:
    return count(list(map(int, name.split("-"))))
