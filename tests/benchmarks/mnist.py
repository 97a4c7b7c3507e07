"""Training steps of networks of MNIST's size, 784-128-10 and 512-512-10, on images of noise."""

from tests.benchmarks.arrays import numpy, pytorch
from tests.benchmarks.harness import Benchmark, Contestant
from tests.benchmarks.mlp import ours

NETWORKS = [784, 128, 10], [512, 512, 10]
IMAGES = 32, 128, 512


def benchmarks() -> list[Benchmark]:
    """Steps of gradient descent and of Adam, with doubles; and of gradient descent, with floats."""
    found = [step(sizes, n, optimizer) for sizes in NETWORKS for optimizer in ("SGD", "Adam") for n in IMAGES]
    return [*found, step(NETWORKS[0], IMAGES[0], "SGD", "single")]


def step(sizes: list[int], n: int, optimizer: str, precision: str = "double") -> Benchmark:
    title = f"training step, MLP {'-'.join(map(str, sizes))}, {n} images"
    title += (f", {optimizer}" if optimizer != "SGD" else "") + (", single precision" if precision == "single" else "")
    task = "step", "cross-entropy", sizes, n
    compiled = Contestant("compiled to C", ours, (*task, "c", optimizer, precision))
    if precision == "single":
        theirs = Contestant("PyTorch", pytorch, (*task, optimizer, "float32"))
        return Benchmark(title, (compiled,), (theirs,), tolerance=1e-4)
    others = Contestant("NumPy by hand", numpy, (*task, optimizer)), Contestant("PyTorch", pytorch, (*task, optimizer))
    return Benchmark(title, (compiled,), others)
