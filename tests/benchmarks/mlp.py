"""A training step of a small network: MLP 2-16-16-1 with relu, the hinge loss of 100 points, gradient descent.

Scalar engines process the points one by one, array libraries all points at once, and compiled code runs the loss of one
point on all of them, packed once as the others hold theirs in arrays. Its steps are those of
`with fast.training(optimizer) as step`, where parameters and gradients are in buffers. Forward and backward are also
measured alone: by `fast.backward(packed)`, which reads parameters from Values and adds to their gradients, and by the
generated function alone, from buffer to buffer.
"""

import ctypes
from array import array
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tests.benchmarks.arrays import numpy, pytorch, tight_pytorch
from tests.benchmarks.data import RATE, RATES, examples, points, set_weights
from tests.benchmarks.harness import Benchmark, Contestant, Measure, optimized, training
from tests.benchmarks.values import mean, scalar_engine, their_mlp, their_training

SIZES = [2, 16, 16, 1]
POINTS = 100


class Task(NamedTuple):
    """What is compiled: the loss of an example, the parameters, and a batch: a list for each argument."""

    loss: Callable[..., Any]
    parameters: list[Any]
    batch: tuple[Any, ...]


def benchmarks() -> list[Benchmark]:

    def arrays(kind: str) -> tuple[Contestant, ...]:
        return (
            Contestant("NumPy by hand", numpy, (kind, "hinge", SIZES, POINTS)),
            Contestant("PyTorch", pytorch, (kind, "hinge", SIZES, POINTS)),
            Contestant("PyTorch, tightest calls", tight_pytorch, (kind, SIZES, POINTS)),
        )

    def compiled(kind: str, backend: str) -> Contestant:
        return Contestant(f"compiled to {backend}", ours, (kind, "hinge", SIZES, POINTS, backend.lower()))

    return [
        Benchmark(
            f"training step, MLP 2-16-16-1, {POINTS} points",
            (Contestant("eager", our_eager_hinge), compiled("step", "Python"), compiled("step", "C")),
            (scalar_engine(their_hinge), *arrays("step")),
        ),
        Benchmark(
            f"forward and backward, MLP 2-16-16-1, {POINTS} points", (compiled("gradient", "C"),), arrays("gradient")
        ),
        Benchmark(
            "forward and backward, the generated function alone",
            (Contestant("compiled to C", our_function),),
            arrays("gradient"),
        ),
    ]


def our_eager_hinge() -> Measure:
    """Each point through the network, with the fused operations."""
    from micrograd import mean
    from micrograd.optim import SGD

    task = network("hinge", SIZES, POINTS)
    optimizer = SGD(task.parameters, RATE)

    def gradient() -> float:
        loss = mean(map(task.loss, *task.batch))
        loss.backward()
        return loss.data

    return our_training("step", gradient, optimizer, lambda: set_weights(optimizer.parameters, SIZES))


def ours(
    kind: str,
    loss: str,
    sizes: Sequence[int],
    n: int,
    backend: str = "c",
    optimizer: str = "SGD",
    precision: str = "double",
) -> Measure:
    """The loss of one example compiled, and run on n."""
    fast, packed = compiled(network(loss, sizes, n), backend, precision)
    return compiled_training(kind, fast, packed, lambda: set_weights(fast.parameters, sizes), optimizer)


def compiled(task: Task, backend: str = "c", precision: str = "double") -> tuple[Any, Any]:
    """The compiled loss of one example, and the batch, packed for it."""
    import micrograd

    function, parameters, batch = task
    example = tuple([argument[0] for argument in batch])
    chosen = micrograd.Backend(backend, precision=precision)
    fast = micrograd.compile(function, example, parameters=parameters, backend=chosen)
    return fast, fast.pack(*batch)


def network(loss: str, sizes: Sequence[int], n: int) -> Task:
    """The network, with the weights of all, and n examples."""
    from micrograd import losses, nn

    model = nn.MLP(sizes[0], list(sizes[1:]), activation="relu")
    set_weights(model.parameters(), sizes)
    functions: dict[str, Callable[..., Any]] = {
        "hinge": lambda x, y: (1 - y * model(x)).relu(),
        "cross-entropy": lambda x, y: losses.cross_entropy(model(x), y),
    }
    return Task(functions[loss], model.parameters(), examples(loss, sizes, n))


def compiled_training(
    kind: str, fast: Any, packed: Any, set_parameters: Callable[[], None], optimizer: str = "SGD"
) -> Measure:
    """A step of an optimizer with a compiled loss, in a block that is never left, or a gradient."""
    from micrograd import optim

    steps_by = getattr(optim, optimizer)(fast.parameters, RATES[optimizer])
    if kind == "gradient":
        return our_training(kind, lambda: fast.backward(packed), steps_by, set_parameters)
    steps = fast.training(steps_by).__enter__()
    return training(kind, lambda: steps(packed), float, set_parameters)


def our_training(
    kind: str, gradient: Callable[[], float], optimizer: Any, set_parameters: Callable[[], None]
) -> Measure:
    """A step of one of our optimizers, or a gradient."""
    return optimized(kind, gradient, optimizer, set_parameters, lambda: [p.grad for p in optimizer.parameters])


def our_function() -> Measure:
    """The gradient of the hinge loss by the generated function alone."""
    return function_alone(*compiled(network("hinge", SIZES, POINTS)))


def function_alone(fast: Any, packed: Any) -> Measure:
    """The gradient by the generated function, with buffers for parameters, gradients and results."""
    numbers = memoryview(array("d", [p.data for p in fast.parameters]))
    gradients, results = ctypes.create_string_buffer(numbers.nbytes), array("d", bytes(8 * len(packed)))
    call = fast._code[packed.shapes].call("backward", packed, results, gradients, 1 / len(packed))

    def gradient() -> float:
        call.run(numbers)
        return float(call.total / len(packed))

    def restart() -> None:
        ctypes.memset(gradients, 0, len(gradients))

    return training("gradient", gradient, gradient, restart, lambda: list(memoryview(gradients).cast("B").cast("d")))


def their_hinge() -> Measure:
    model = their_mlp(SIZES)
    parameters = model.parameters()
    xs, ys = points(POINTS)

    def gradient() -> float:
        loss = mean([(1 + -y * model(x)).relu() for x, y in zip(xs, ys, strict=True)])
        loss.backward()
        return float(loss.data)

    return their_training(gradient, parameters, lambda: set_weights(parameters, SIZES))
