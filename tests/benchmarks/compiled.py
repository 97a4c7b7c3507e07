"""The programs of `cold`, compiled to C: the time to trace and compile each, and that of a call with 32 examples.

Each is compiled with an empty cache, and again from the cache. A call is forward and backward: `fast.backward(packed)`,
which reads the parameters from Values and adds to their gradients, and the generated function alone, from buffer to
buffer, like tensors in PyTorch.
"""

from typing import Any

from tests.benchmarks import arrays, cold, gpt, mlp
from tests.benchmarks.cold import MANY, NETWORKS
from tests.benchmarks.harness import Benchmark, Contestant, Measure, compilation, timed

NAMES = cold.NAMES[1:]  # without the names, each of which has a length of its own


def benchmarks() -> list[Benchmark]:
    return [
        benchmark
        for name in NAMES
        for benchmark in (
            Benchmark(
                f"trace and compile: {name}",
                (Contestant("with an empty cache", from_nothing, (name,)),),
                (Contestant("again, from the cache", from_cache, (name,)),),
                rounds=3,
            ),
            Benchmark(
                f"a call with {MANY} examples: {name}",
                (Contestant("compiled to C", call, (name,)), Contestant("the function alone", call_alone, (name,))),
                (Contestant("PyTorch", call_pytorch, (name,)),),
                rounds=3,
            ),
        )
    ]


def compiled(name: str) -> tuple[Any, Any]:
    return mlp.compiled(cold.task_of(name))


def from_nothing(name: str) -> Measure:
    """Tracing and compiling, with nothing in the cache, and one run."""
    return compilation(lambda: run(name))


def from_cache(name: str) -> Measure:
    run(name)
    return timed(lambda: run(name))


def run(name: str) -> float:
    """The mean loss of the batch."""
    fast, packed = compiled(name)
    return float(fast.backward(packed))


def call(name: str) -> Measure:
    """Forward and backward of the batch."""
    from micrograd.optim import SGD

    fast, packed = compiled(name)
    return mlp.our_training("gradient", lambda: fast.backward(packed), SGD(fast.parameters), lambda: None)


def call_alone(name: str) -> Measure:
    return mlp.function_alone(*compiled(name))


def call_pytorch(name: str) -> Measure:
    import torch

    parameters, loss_of = cold.tensors(name)
    flatten = arrays.flat if name in NETWORKS else gpt.flat
    return arrays.pytorch_training("gradient", loss_of, torch.optim.SGD(parameters), lambda: None, flatten)
