"""How the time of a training step grows with the network and with the batch.

From 10 to 100,000 weights: networks 2-n-n-1, batches of 32. From 1 to 100,000 examples a batch: the network 2-16-16-1.
"""

from collections.abc import Sequence
from itertools import pairwise

from tests.benchmarks.arrays import numpy_hinge, pytorch_hinge
from tests.benchmarks.harness import Benchmark, Contestant, Measured
from tests.benchmarks.mlp import our_hinge

WIDTHS = (2, 8, 30, 98, 314)  # about 10, 100, ... 100,000 weights
POINTS = (1, 10, 100, 1_000, 10_000, 100_000)
BY_WEIGHTS = [([2, width, width, 1], 32) for width in WIDTHS]
BY_POINTS = [([2, 16, 16, 1], n) for n in POINTS]


def benchmarks() -> list[Benchmark]:
    """The networks by their size, then the batches by theirs."""
    return [
        Benchmark(
            f"training step, {count(sizes):,} weights, a batch of {n:,}",
            (Contestant("compiled to C", our_hinge, ("step", sizes, n, "c")),),
            (
                Contestant("NumPy by hand", numpy_hinge, ("step", sizes, n)),
                Contestant("PyTorch", pytorch_hinge, ("step", sizes, n)),
            ),
            rounds=3,
        )
        for sizes, n in BY_WEIGHTS + BY_POINTS
    ]


def count(sizes: Sequence[int]) -> int:
    """The number of weights in a network."""
    return sum((n + 1) * m for n, m in pairwise(sizes))


def curves(measured: list[Measured]) -> list[tuple[str, list[int], list[Measured]]]:
    """What grows, its sizes, and what was measured at each."""
    weights, points = measured[: len(BY_WEIGHTS)], measured[len(BY_WEIGHTS) :]
    return [
        (f"weights, with a batch of {BY_WEIGHTS[0][1]}", [count(sizes) for sizes, _ in BY_WEIGHTS], weights),
        (f"examples a batch, with {count(BY_POINTS[0][0])} weights", [n for _, n in BY_POINTS], points),
    ]
