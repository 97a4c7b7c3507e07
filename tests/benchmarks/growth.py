"""How the cost of forward and backward grows with the network and with the batch: compiled C against PyTorch.

From 10 to 100,000 weights: networks 2-n-n-1, 32 points. From 1 to 100,000 points: the network 2-16-16-1.
"""

import random
from collections.abc import Iterator
from itertools import pairwise, takewhile
from typing import Any

from tests.benchmarks.compiler import MLP, PYTORCH, compiled_hinge, our_task, pytorch_task
from tests.benchmarks.harness import OURS, Benchmark, Contestant, Measure

WIDTHS = (2, 8, 30, 98, 314)  # about 10, 100, ... 100,000 weights
POINTS = (1, 10, 100, 1_000, 10_000, 100_000)
BATCH = 32


def benchmarks() -> list[Benchmark]:
    """The networks by their size, then the batches by theirs."""
    sizes = [((2, n, n, 1), BATCH) for n in WIDTHS] + [(MLP, n) for n in POINTS]
    return [
        Benchmark(
            f"gradient, {_weights(mlp):,} weights, {points:,} points",
            (
                Contestant(f"{OURS}, c", ours, (mlp, points)),
                Contestant(PYTORCH, pytorch, (mlp, points)),
            ),
            rounds=3,
        )
        for mlp, points in sizes
    ]


def conclude(medians: list[list[float]]) -> Iterator[str]:
    """The largest sizes up to which we lead."""
    leads = [ours < theirs for ours, theirs in medians]
    for sizes, won, what in (
        ([_weights((2, n, n, 1)) for n in WIDTHS], leads[: len(WIDTHS)], f"weights, with {BATCH} points"),
        (list(POINTS), leads[len(WIDTHS) :], f"points, with {_weights(MLP)} weights"),
    ):
        led = [size for size, _ in takewhile(lambda pair: pair[1], zip(sizes, won, strict=True))]
        yield f"we lead PyTorch up to {max(led, default=0):,} {what}"


def ours(mlp: list[int], points: int) -> Measure:
    """The loss of one point compiled, and run on all of them."""
    fast, model = compiled_hinge(mlp, "c")
    return our_task("gradient", fast, fast.pack(*_points(points)), model)


def pytorch(mlp: list[int], points: int) -> Measure:
    """All points at once in tensors."""
    return pytorch_task("gradient", mlp, *_points(points))


def _weights(mlp: Any) -> int:
    return sum((n + 1) * m for n, m in pairwise(mlp))


def _points(n: int) -> tuple[list[list[float]], list[float]]:
    rng = random.Random(0)
    return [[rng.uniform(-1, 1), rng.uniform(-1, 1)] for _ in range(n)], [rng.choice((-1.0, 1.0)) for _ in range(n)]
