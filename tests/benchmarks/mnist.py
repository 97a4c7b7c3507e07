"""A training step of a network of MNIST's size, 784-128-10, on 32 images of noise."""

from typing import Any

from tests.benchmarks.arrays import numpy_cross_entropy, pytorch_cross_entropy
from tests.benchmarks.data import images, set_weights
from tests.benchmarks.harness import Benchmark, Contestant, Measure
from tests.benchmarks.mlp import compiled_training

SIZES = [784, 128, 10]
IMAGES = 32


def benchmarks() -> list[Benchmark]:
    """A step, with doubles and with floats."""
    arguments = "step", SIZES, IMAGES
    return [
        Benchmark(
            f"training step, MLP 784-128-10, {IMAGES} images",
            (Contestant("compiled to C", our_cross_entropy),),
            (
                Contestant("NumPy by hand", numpy_cross_entropy, arguments),
                Contestant("PyTorch", pytorch_cross_entropy, arguments),
            ),
        ),
        Benchmark(
            f"training step, MLP 784-128-10, {IMAGES} images, single precision",
            (Contestant("compiled to C", our_cross_entropy, ("single",)),),
            (Contestant("PyTorch", pytorch_cross_entropy, (*arguments, "float32")),),
            tolerance=1e-4,
        ),
    ]


def our_cross_entropy(precision: str = "double") -> Measure:
    """The compiled loss of one image, run on all of them."""
    fast = compiled_cross_entropy(precision)
    packed = fast.pack(*images(IMAGES, SIZES[0], SIZES[-1]))
    return compiled_training("step", fast, packed, lambda: set_weights(fast.parameters, SIZES))


def compiled_cross_entropy(precision: str = "double") -> Any:
    """The compiled loss of an image and the number of its class."""
    import micrograd
    from micrograd import losses, nn

    model = nn.MLP(SIZES[0], SIZES[1:], activation="relu")
    set_weights(model.parameters(), SIZES)
    loss: Any = lambda x, y: losses.cross_entropy(model(x), y)  # noqa: E731
    example, parameters = ([0.0] * SIZES[0], 0), model.parameters()
    return micrograd.compile(loss, example, parameters=parameters, backend=micrograd.Backend("c", precision=precision))
