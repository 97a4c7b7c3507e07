"""The engine against micrograd 0.1.0, which has to be told that it may recurse once per node of a chain."""

import random
import sys
import tracemalloc
from typing import Any

from tests.benchmarks.harness import OURS, Benchmark, Contestant, Measure, installed, timed

STEPS = 20_000  # of the chain y = y * c + d


def benchmarks() -> list[Benchmark]:
    """Time of a training step and of a long chain, and memory of a node."""
    original = installed("micrograd==0.1.0")

    def both(title: str, ours: Any, theirs: Any, *arguments: Any, **settings: Any) -> Benchmark:
        contestants = (
            Contestant(OURS, ours, arguments),
            Contestant("micrograd 0.1.0", theirs, arguments, path=original),
        )
        return Benchmark(title, contestants, **settings)

    memory = {"unit": "bytes", "rounds": 1}
    return [
        both("training step, MLP 2-16-16-1, 100 points", our_training_step, their_training_step, target=20),
        both("chain of 20,000 steps, c and d Values", chain, chain, "Values", target=2),
        both("chain of 20,000 steps, c and d numbers", chain, chain, "numbers", target=2),
        both("memory of a node, c and d Values", memory_of_a_node, memory_of_a_node, "Values", **memory),
        both("memory of a node, c and d numbers", memory_of_a_node, memory_of_a_node, "numbers", target=2, **memory),
    ]


def our_training_step() -> Measure:
    """Hinge loss and L2, with the fused operations."""
    from micrograd import dot, mean, nn

    points, labels = circle()
    model = with_fixed_weights(nn.MLP(2, [16, 16, 1], activation="relu"))

    def step() -> float:
        model.zero_grad()
        hinge = mean((1 - label * model(point)).relu() for point, label in zip(points, labels, strict=True))
        parameters = model.parameters()
        loss = hinge + 1e-4 * dot(parameters, parameters)
        loss.backward()
        for p in parameters:
            p.data -= 0.1 * p.grad
        return loss.data

    return timed(step)


def their_training_step() -> Measure:
    """The same as the example that comes with micrograd 0.1.0 has it."""
    from micrograd import nn  # here the other one

    points, labels = circle()
    model: Any = with_fixed_weights(nn.MLP(2, [16, 16, 1]))

    def step() -> float:
        model.zero_grad()
        losses = [(1 + -label * model(point)).relu() for point, label in zip(points, labels, strict=True)]
        loss: Any = sum(losses) * (1.0 / len(losses)) + 1e-4 * sum(p * p for p in model.parameters())
        loss.backward()
        for p in model.parameters():
            p.data -= 0.1 * p.grad
        return loss.data

    return timed(step)


def chain(operands: str) -> Measure:
    """The chain built and differentiated, by either library."""
    sys.setrecursionlimit(10 * STEPS)  # for 0.1.0

    def build_and_differentiate() -> float:
        x, y = _chain(operands)
        y.backward()
        return x.grad

    return timed(build_and_differentiate)


def memory_of_a_node(operands: str) -> Measure:
    """The bytes that the chain takes, divided by the number of its nodes: operations and leaves."""

    def measure() -> tuple[float, float]:
        tracemalloc.start()
        _, y = _chain(operands)
        size, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        seen, waiting = {id(y)}, [y]
        while waiting:
            for operand in waiting.pop()._prev:
                if id(operand) not in seen:
                    seen.add(id(operand))
                    waiting.append(operand)
        return size / len(seen), y.data

    return measure


def _chain(operands: str) -> tuple[Any, Any]:
    """The start x and the end y of the chain, with c and d as leaves that its steps share or as plain numbers."""
    from micrograd.engine import Value

    c, d = (Value(0.9999), Value(0.01)) if operands == "Values" else (0.9999, 0.01)
    x = y = Value(1.0)
    for _ in range(STEPS):
        y = y * c + d
    return x, y


def circle() -> tuple[list[list[float]], list[float]]:
    """100 points, labelled 1 within a circle and -1 outside."""
    rng = random.Random(0)
    points = [[rng.gauss(0, 1), rng.gauss(0, 1)] for _ in range(100)]
    return points, [1.0 if x * x + y * y < 1.4 else -1.0 for x, y in points]


def with_fixed_weights(model: Any) -> Any:
    """The model with weights that depend on nothing but their order."""
    rng = random.Random(1)
    for parameter in model.parameters():
        parameter.data = rng.uniform(-1, 1)
    return model
