"""A training step of a network of the size that MNIST asks for, 784-128-10, on 32 images of noise."""

from typing import Any

from tests.benchmarks.arrays import numpy_cross_entropy, pytorch_cross_entropy
from tests.benchmarks.data import RATE, images, set_weights
from tests.benchmarks.harness import Benchmark, Contestant, Measure, compilation
from tests.benchmarks.mlp import our_training

SIZES = [784, 128, 10]
IMAGES = 32


def benchmarks() -> list[Benchmark]:
    """What it takes to compile it, and a step."""
    arguments = "step", SIZES, IMAGES
    return [
        Benchmark("trace and compile MLP 784-128-10", (Contestant("to C", compile_cross_entropy),), rounds=1),
        Benchmark(
            f"training step, MLP 784-128-10, {IMAGES} images",
            (Contestant("compiled to C", our_cross_entropy),),
            (
                Contestant("NumPy by hand", numpy_cross_entropy, arguments),
                Contestant("PyTorch", pytorch_cross_entropy, arguments),
            ),
        ),
    ]


def compile_cross_entropy() -> Measure:
    """Tracing and compiling, and one run."""
    return compilation(lambda: compiled_cross_entropy().backward(*examples()))


def our_cross_entropy() -> Measure:
    """The compiled loss of one image, run on all of them."""
    from micrograd.optim import SGD

    fast = compiled_cross_entropy()
    packed, optimizer = fast.pack(*examples()), SGD(fast.parameters, RATE)
    return our_training(
        "step", lambda: fast.backward(packed), optimizer, lambda: set_weights(optimizer.parameters, SIZES)
    )


def compiled_cross_entropy() -> Any:
    """The compiled loss of an image and the vector of its class, 1 there and 0 elsewhere."""
    import micrograd
    from micrograd import dot, losses, nn

    model = nn.MLP(SIZES[0], SIZES[1:], activation="relu")
    set_weights(model.parameters(), SIZES)
    (x, *_), (y, *_) = examples()
    loss: Any = lambda x, y: -dot(losses.log_softmax(model(x)), y)  # noqa: E731
    return micrograd.compile(loss, (x, y), parameters=model.parameters(), backend="c")


def examples() -> tuple[list[list[float]], list[list[float]]]:
    """The images, each with the vector of its class."""
    xs, ys = images(IMAGES, SIZES[0], SIZES[-1])
    return xs, [[float(i == y) for i in range(SIZES[-1])] for y in ys]
