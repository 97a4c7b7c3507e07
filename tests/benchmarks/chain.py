"""A long chain, y = y * c + d again and again: the time to build and differentiate it, and the bytes of a node."""

import tracemalloc
from typing import Any

from tests.benchmarks.harness import Benchmark, Contestant, Measure, timed
from tests.benchmarks.values import operands_of, scalar_engines, value_of

STEPS = 20_000


def benchmarks() -> list[Benchmark]:
    """With c and d as leaves that the steps share, and as plain numbers."""
    return [
        Benchmark(
            f"{title}, c and d {operands}",
            (Contestant("eager", task, ("ours", operands)),),
            scalar_engines(task, operands),
            **settings,
        )
        for title, task, settings in (
            (f"chain of {STEPS:,} steps", chain, {}),
            ("memory of a node", memory_of_a_node, {"unit": "bytes", "rounds": 1}),
        )
        for operands in ("Values", "numbers")
    ]


def chain(engine: str, operands: str) -> Measure:
    """The chain built and differentiated."""
    value = _value(engine)

    def build_and_differentiate() -> float:
        x, y = _chain(value, operands)
        y.backward()
        return float(x.grad)

    return timed(build_and_differentiate)


def memory_of_a_node(engine: str, operands: str) -> Measure:
    """The bytes that the chain takes, divided by the number of its nodes: operations and leaves."""
    value = _value(engine)

    def measure() -> tuple[float, float]:
        tracemalloc.start()
        _, y = _chain(value, operands)
        size, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        seen, waiting = {id(y)}, [y]
        while waiting:
            for operand in operands_of(waiting.pop()):
                if id(operand) not in seen:
                    seen.add(id(operand))
                    waiting.append(operand)
        return size / len(seen), y.data

    return measure


def _value(engine: str) -> Any:
    if engine != "ours":
        return value_of(engine)
    from micrograd import Value

    return Value


def _chain(value: Any, operands: str) -> tuple[Any, Any]:
    """The start x and the end y of the chain."""
    c, d = (value(0.9999), value(0.01)) if operands == "Values" else (0.9999, 0.01)
    x = y = value(1.0)
    for _ in range(STEPS):
        y = y * c + d
    return x, y
