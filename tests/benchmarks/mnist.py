"""Training steps of networks of MNIST's size, 784-128-10 and 512-512-10, on images of noise."""

from collections.abc import Sequence
from typing import Any

from tests.benchmarks.arrays import numpy_cross_entropy, pytorch_cross_entropy
from tests.benchmarks.data import images, set_weights
from tests.benchmarks.harness import Benchmark, Contestant, Measure
from tests.benchmarks.mlp import compiled_training

NETWORKS = [784, 128, 10], [512, 512, 10]
IMAGES = 32, 128, 512


def benchmarks() -> list[Benchmark]:
    """Steps of gradient descent and of Adam, with doubles; and of gradient descent, with floats."""
    found = [step(sizes, n, optimizer) for sizes in NETWORKS for optimizer in ("SGD", "Adam") for n in IMAGES]
    return [*found, step(NETWORKS[0], IMAGES[0], "SGD", "single")]


def step(sizes: list[int], n: int, optimizer: str, precision: str = "double") -> Benchmark:
    """A step on n images."""
    title = f"training step, MLP {'-'.join(map(str, sizes))}, {n} images"
    title += (f", {optimizer}" if optimizer != "SGD" else "") + (", single precision" if precision == "single" else "")
    arguments = "step", sizes, n, optimizer
    numpy = Contestant("NumPy by hand", numpy_cross_entropy, arguments)
    pytorch = Contestant(
        "PyTorch", pytorch_cross_entropy, (*arguments, "float32" if precision == "single" else "float64")
    )
    ours = Contestant("compiled to C", our_cross_entropy, (sizes, n, optimizer, precision))
    if precision == "single":
        return Benchmark(title, (ours,), (pytorch,), tolerance=1e-4)
    return Benchmark(title, (ours,), (numpy, pytorch))


def our_cross_entropy(sizes: Sequence[int], n: int, optimizer: str, precision: str) -> Measure:
    """The compiled loss of one image, run on all of them."""
    fast = compiled_cross_entropy(precision, sizes)
    packed = fast.pack(*images(n, sizes[0], sizes[-1]))
    return compiled_training("step", fast, packed, lambda: set_weights(fast.parameters, sizes), optimizer)


def compiled_cross_entropy(precision: str, sizes: Sequence[int]) -> Any:
    """The compiled loss of an image and the number of its class."""
    import micrograd
    from micrograd import losses, nn

    model = nn.MLP(sizes[0], list(sizes[1:]), activation="relu")
    set_weights(model.parameters(), sizes)
    loss: Any = lambda x, y: losses.cross_entropy(model(x), y)  # noqa: E731
    example, parameters = ([0.0] * sizes[0], 0), model.parameters()
    return micrograd.compile(loss, example, parameters=parameters, backend=micrograd.Backend("c", precision=precision))
