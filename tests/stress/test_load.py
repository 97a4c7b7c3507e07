"""Time and memory grow linearly with the size of a graph."""

import gc
import sys

import pytest

import micrograd
from tests.stress import load

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads the memory from /proc")


def lines(kind, n):
    """How many lines of this package run for a graph of size n, forward and backward.

    Others may run in between: a garbage collector calls those who asked for it, and unloads what earlier tests
    compiled.
    """
    count = 0
    ours = micrograd.__path__[0]

    def trace(frame, event, argument):
        nonlocal count
        count += event == "line"
        return trace if frame.f_code.co_filename.startswith(ours) else None

    before = sys.gettrace()
    gc.collect()
    gc.disable()
    sys.settrace(trace)
    try:
        root, _ = load.GRAPHS[kind](n)
        root.backward()
    finally:
        sys.settrace(before)
        gc.enable()
    return count


@pytest.mark.parametrize("kind", ["chain", "fan"])
def test_the_work_is_the_same_for_each_node(kind):
    first, second, third = (lines(kind, n) for n in (1000, 2000, 3000))
    assert third - second == second - first > 1000


def test_the_work_of_a_network_is_the_same_for_each_weight():
    first, second = lines("network", 2500), lines("network", 10_000)
    assert second < 4.0 * first


@linux
@pytest.mark.parametrize(("kind", "bytes"), [("chain", 700), ("fan", 400), ("network", 400)])
def test_a_node_takes_some_hundred_bytes(kind, bytes):
    assert load.measured(load.graph, kind, 100_000) / 100_000 < bytes


@linux
@pytest.mark.long
@pytest.mark.parametrize(("way", "steps"), [("loop in eager", 1000), ("loop in auto", 1000), ("block in auto", 20_000)])
def test_a_long_training_takes_no_more_memory_than_a_short_one(way, steps):
    assert load.measured(load.training, way, steps) < 1 << 20
