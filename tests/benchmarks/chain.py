"""A long chain, y = y * c + d again and again with numbers c and d: the time to build and differentiate it."""

from tests.benchmarks.harness import Benchmark, Contestant, Measure, timed
from tests.benchmarks.values import scalar_engine, their_value

STEPS = 20_000


def benchmarks() -> list[Benchmark]:
    """The chain in both scalar engines."""
    return [
        Benchmark(
            f"chain of {STEPS:,} steps, c and d numbers",
            (Contestant("eager", chain, (True,)),),
            (scalar_engine(chain, False),),
        )
    ]


def chain(ours: bool) -> Measure:
    """The chain built and differentiated."""
    if ours:
        from micrograd import Value as value
    else:
        value = their_value()

    def build_and_differentiate() -> float:
        x = y = value(1.0)
        for _ in range(STEPS):
            y = y * 0.9999 + 0.01
        y.backward()
        return float(x.grad)

    return timed(build_and_differentiate)
