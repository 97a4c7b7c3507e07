"""The compiler against the libraries that interpret: micrograd 0.1.0 node by node, PyTorch tensor by tensor (one
thread, the whole batch as tensors, written as usual and as tightly as it allows), CasADi instruction by instruction.

The batch is packed once, as the others hold theirs in tensors. Forward and backward are measured twice: as all of
`fast.backward(packed)`, which reads the parameters from Values and adds to the gradients in them, number by number;
and as the generated function alone, which has them in buffers, as PyTorch has its tensors and CasADi its arguments.
"""

import ctypes
import os
import random
import tempfile
from array import array
from collections.abc import Callable, Sequence
from importlib.metadata import version
from itertools import pairwise
from typing import Any

from tests.benchmarks.engine import circle, with_fixed_weights
from tests.benchmarks.harness import OURS, Benchmark, Contestant, Measure, installed, repeated, timed

PYTORCH = f"PyTorch {version('torch')}"
RATE = 0.1
MLP = (2, 16, 16, 1)
MNIST = (784, 128, 10)


def benchmarks() -> list[Benchmark]:
    """A training step, its forward and backward pass alone, and a network of the size of MNIST."""
    original = installed("micrograd==0.1.0")

    def ours(kind: str, backend: str) -> Contestant:
        return Contestant(f"{OURS}, {backend}", our_hinge, (kind, backend))

    def theirs(kind: str, target: float) -> Contestant:
        return Contestant("micrograd 0.1.0", their_hinge, (kind,), original, target)

    def pytorch(kind: str, target: float | None) -> list[Contestant]:
        return [
            Contestant(PYTORCH, pytorch_hinge, (kind,), target=target),
            Contestant("as tight as can be", tight_pytorch_hinge, (kind,), target=target),
        ]

    casadi = Contestant(f"CasADi {version('casadi')} SX", casadi_hinge, target=20)
    return [
        Benchmark(
            "training step, MLP 2-16-16-1, 100 points",
            (ours("step", "python"), theirs("step", 100)),
            rounds=5,
        ),
        Benchmark(
            "training step, MLP 2-16-16-1, 100 points",
            (ours("step", "c"), theirs("step", 5_000), *pytorch("step", 2)),
            rounds=5,
        ),
        Benchmark(
            "its forward and backward pass alone",
            (ours("gradient", "c"), theirs("gradient", 15_000), *pytorch("gradient", None)),
            rounds=5,
        ),
        Benchmark(
            "the same, the generated function alone",
            (Contestant(f"{OURS}, c", our_function), *pytorch("gradient", 10), casadi),
        ),
        Benchmark("trace and compile MLP 2-16-16-1", (Contestant(f"{OURS}, python", compile_hinge, ("python",)),)),
        Benchmark("trace and compile MLP 2-16-16-1", (Contestant(f"{OURS}, c", compile_hinge, ("c",)),), rounds=3),
        Benchmark(
            "trace and compile 784-128-10, at most 10 s",
            (Contestant(f"{OURS}, c", compile_mnist),),
            rounds=1,
        ),
        Benchmark(
            "training step, MLP 784-128-10, 32 examples",
            (Contestant(f"{OURS}, c", our_mnist), Contestant(PYTORCH, pytorch_mnist)),
            rounds=5,
        ),
    ]


# The hinge loss of an MLP on points in the plane. A task is a "step" of training or a "gradient".


def our_hinge(kind: str, backend: str) -> Measure:
    """The loss of one point compiled, and run on all of them."""
    fast, model = compiled_hinge(MLP, backend)
    return our_task(kind, fast, fast.pack(*circle()), model)


def compiled_hinge(sizes: Sequence[int], backend: str) -> tuple[Any, Any]:
    """The compiled loss of one point, and the network."""
    import micrograd
    from micrograd import nn

    model = with_fixed_weights(nn.MLP(sizes[0], list(sizes[1:]), activation="relu"))

    def loss(x: Any, y: Any) -> Any:
        return (1 - y * model(x)).relu()

    example = [0.0] * sizes[0], 0.0
    return micrograd.compile(loss, example, parameters=model.parameters(), backend=backend), model


def our_task(kind: str, fast: Any, packed: Any, model: Any) -> Measure:
    """A step or a gradient of a compiled loss."""
    from micrograd.optim import SGD

    parameters = model.parameters()
    optimizer = SGD(parameters, RATE)

    def gradient() -> float:
        return fast.backward(packed)

    def step() -> float:
        optimizer.zero_grad()
        loss = fast.backward(packed)
        optimizer.step()
        return loss

    def restart() -> None:
        with_fixed_weights(model)
        optimizer.zero_grad()

    return task(kind, step, gradient, restart, lambda: [p.grad for p in parameters])


def our_function() -> Measure:
    """The gradient by the generated function alone."""
    fast, _ = compiled_hinge(MLP, "c")
    packed = fast.pack(*circle())
    run, numbers, gradients, results = function_alone(fast, packed)

    def gradient() -> float:
        run(numbers, 1 / len(packed), packed, gradients, results)
        return sum(results) / len(packed)

    def restart() -> None:
        ctypes.memset(gradients, 0, len(gradients))

    return task("gradient", gradient, gradient, restart, lambda: list(memoryview(gradients).cast("B").cast("d")))


def function_alone(fast: Any, packed: Any) -> tuple[Any, bytes, Any, Any]:
    """The generated backward function, the parameters, and buffers for the gradients and the results."""
    library = fast._backends[packed.shapes]._library("backward", vectors=len(packed) > 1)
    numbers = array("d", [p.data for p in fast.parameters]).tobytes()
    return library.run, numbers, ctypes.create_string_buffer(len(numbers)), array("d", bytes(8 * len(packed)))


def their_hinge(kind: str) -> Measure:
    """The same in micrograd 0.1.0."""
    from micrograd import nn  # here the other one

    points, labels = circle()
    model: Any = nn.MLP(MLP[0], list(MLP[1:]))
    parameters = model.parameters()

    def gradient() -> float:
        losses = [(1 + -label * model(point)).relu() for point, label in zip(points, labels, strict=True)]
        loss: Any = sum(losses) * (1.0 / len(losses))
        loss.backward()
        return loss.data

    def step() -> float:
        model.zero_grad()
        loss = gradient()
        for p in model.parameters():
            p.data -= RATE * p.grad
        return loss

    def restart() -> None:
        with_fixed_weights(model)
        model.zero_grad()

    return task(kind, step, gradient, restart, lambda: [p.grad for p in parameters])


def pytorch_hinge(kind: str) -> Measure:
    """The same in PyTorch as people write it."""
    return pytorch_task(kind, MLP, *circle())


def pytorch_task(kind: str, sizes: Sequence[int], points: Any, labels: Any) -> Measure:
    """The hinge loss of an MLP of these sizes on all points at once."""
    import torch

    model, weights = pytorch_mlp(sizes)
    x, y = torch.tensor(points), torch.tensor(labels)[:, None]
    optimizer = torch.optim.SGD(model.parameters(), RATE)

    def gradient() -> float:
        loss = (1 - y * model(x)).relu().mean()
        loss.backward()
        return loss.item()

    def step() -> float:
        optimizer.zero_grad()
        loss = gradient()
        optimizer.step()
        return loss

    def restart() -> None:
        optimizer.zero_grad()
        set_weights(weights, sizes)

    return task(kind, step, gradient, restart, lambda: flat([p.grad for p in weights]))


def tight_pytorch_hinge(kind: str) -> Measure:
    """The same in as few calls of PyTorch as it takes: fused products, in place, no modules, gradients not stored."""
    import torch

    points, labels = circle()
    _, weights = pytorch_mlp(MLP)
    x, y = torch.tensor(points), torch.tensor(labels)[:, None]
    addmm = torch.addmm
    gradients: Any = ()

    def gradient() -> float:
        nonlocal gradients
        w1, b1, w2, b2, w3, b3 = weights
        hidden = addmm(b2, addmm(b1, x, w1.t()).relu_(), w2.t()).relu_()
        loss = (1 - y * addmm(b3, hidden, w3.t())).relu_().mean()
        gradients = torch.autograd.grad(loss, weights)
        return loss.item()

    def step() -> float:
        loss = gradient()
        with torch.no_grad():
            torch._foreach_add_(weights, gradients, alpha=-RATE)
        return loss

    return task(kind, step, gradient, lambda: set_weights(weights, MLP), lambda: flat(gradients))


def casadi_hinge() -> Measure:
    """Loss and gradient of one point as an SX function, mapped over all points with both summed."""
    import casadi
    import numpy

    def parameter() -> Any:
        parameters.append(casadi.SX.sym(f"p{len(parameters)}"))
        return parameters[-1]

    parameters: list[Any] = []
    x, y = casadi.SX.sym("x", MLP[0]), casadi.SX.sym("y")
    outputs = [x[i] for i in range(MLP[0])]
    for i, (n, m) in enumerate(pairwise(MLP)):
        rows = [([parameter() for _ in range(n)], parameter()) for _ in range(m)]
        outputs = [casadi.dot(casadi.vertcat(*w), casadi.vertcat(*outputs)) + b for w, b in rows]
        if i < len(MLP) - 2:
            outputs = [casadi.fmax(output, 0) for output in outputs]
    p = casadi.vertcat(*parameters)
    loss = casadi.fmax(1 - y * outputs[0], 0)
    one = casadi.Function("one", [p, x, y], [loss, casadi.gradient(loss, p)])
    points, labels = circle()
    n = len(points)
    everything = one.map("everything", "serial", n, [0], [0, 1])

    rng = random.Random(1)
    total, gradients = numpy.zeros(1), numpy.zeros(len(parameters))
    arguments = [
        numpy.array([rng.uniform(-1, 1) for _ in parameters]),
        numpy.array(points).ravel(),
        numpy.array(labels),
    ]
    buffer, run = everything.buffer()  # called without a copy of arguments or results, which have to be kept alive
    for i, argument in enumerate(arguments):
        buffer.set_arg(i, memoryview(argument))
    buffer.set_res(0, memoryview(total))
    buffer.set_res(1, memoryview(gradients))

    def gradient() -> float:
        run()
        return total[0] / n

    kept = buffer, arguments
    return task("gradient", gradient, gradient, lambda: None, lambda: (gradients / n).tolist() if kept else [])


def task(
    kind: str,
    step: Callable[[], float],
    gradient: Callable[[], float],
    restart: Callable[[], None],
    gradients: Callable[[], list[float]],
) -> Measure:
    """The measurement of a step, with the loss after the first as its result, or of a gradient, with a checksum."""

    def result() -> float:
        restart()
        if kind == "step":
            step()
            return step()
        return gradient() + sum(i * g for i, g in enumerate(gradients()))

    return repeated(step if kind == "step" else gradient, result)


def compile_hinge(backend: str) -> Measure:
    """Tracing and compiling, with nothing in the cache."""
    return compilation(lambda: compiled_hinge(MLP, backend)[0].backward(*circle()))


def compilation(compile_and_run: Callable[[], float]) -> Measure:
    """The time of a compilation, each with a cache directory of its own."""

    def run() -> float:
        with tempfile.TemporaryDirectory() as directory:
            os.environ["XDG_CACHE_HOME"] = directory
            return compile_and_run()

    return timed(run)


# A network of the size that MNIST asks for, on random images.


def compile_mnist() -> Measure:
    """Tracing and compiling, and one run."""
    return compilation(lambda: compiled_mnist()[0].backward(*_images()))


def our_mnist() -> Measure:
    """The compiled cross-entropy of one image, run on all of them."""
    fast, model = compiled_mnist()
    return our_task("step", fast, fast.pack(*_images()), model)


def compiled_mnist() -> tuple[Any, Any]:
    """The compiled loss of an image and the vector of its class, 1 there and 0 elsewhere; and the network."""
    import micrograd
    from micrograd import dot, losses, nn

    model = with_fixed_weights(nn.MLP(MNIST[0], list(MNIST[1:]), activation="relu"))

    def loss(x: Any, y: Any) -> Any:
        return -dot(losses.log_softmax(model(x)), y)

    example = [0.0] * MNIST[0], [0.0] * MNIST[-1]
    return micrograd.compile(loss, example, parameters=model.parameters(), backend="c"), model


def pytorch_mnist() -> Measure:
    """The same in PyTorch."""
    import torch

    model, weights = pytorch_mlp(MNIST)
    images, classes = _images()
    x, y = torch.tensor(images), torch.tensor(classes).argmax(1)
    optimizer = torch.optim.SGD(model.parameters(), RATE)

    def step() -> float:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    return task("step", step, step, lambda: set_weights(weights, MNIST), list)


def _images() -> tuple[list[list[float]], list[list[float]]]:
    """32 images of noise, each with the vector of its class."""
    rng = random.Random(0)
    images = [[rng.uniform(0, 0.1) for _ in range(MNIST[0])] for _ in range(32)]
    return images, [[float(i % MNIST[-1] == k) for k in range(MNIST[-1])] for i in range(32)]


# PyTorch with one thread and doubles, and the same weights as the others have.


def pytorch_mlp(sizes: Sequence[int]) -> tuple[Any, list[Any]]:
    """A network of linear layers and relus, and its weights."""
    import torch

    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    layers: list[Any] = []
    for n, m in pairwise(sizes):
        layers += [torch.nn.Linear(n, m), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers[:-1])
    weights = list(model.parameters())
    set_weights(weights, sizes)
    return model, weights


def set_weights(weights: Sequence[Any], sizes: Sequence[int]) -> None:
    """The weights that `with_fixed_weights` gives to our networks, neuron by neuron."""
    import torch

    rng = random.Random(1)
    with torch.no_grad():
        for i, (n, m) in enumerate(pairwise(sizes)):
            rows = torch.tensor([[rng.uniform(-1, 1) for _ in range(n + 1)] for _ in range(m)])
            weights[2 * i].copy_(rows[:, :-1])
            weights[2 * i + 1].copy_(rows[:, -1])


def flat(weights: Sequence[Any]) -> list[float]:
    """Numbers in the shapes of the weights, in the order in which our networks have them: a neuron's, then its bias."""
    import torch

    layers = zip(weights[::2], weights[1::2], strict=True)
    return torch.cat([torch.cat([w, b[:, None]], 1).flatten() for w, b in layers]).tolist()  # type: ignore[no-any-return]
