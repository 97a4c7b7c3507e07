"""Large graphs and long training runs: memory grows linearly with a graph, and not at all with the length of a run."""

import math
import tracemalloc
from itertools import islice

import pytest

from micrograd import Value, nn, sum
from tests.stress.faults import learning


def chain(n):
    """x + x + ... + x, one addition after the other; and what its gradients have to be."""
    y = x = Value(1.0)
    for _ in range(n):
        y = y + x
    return y, lambda: x.grad == n + 1


def fan(n):
    """The sum of n inputs, as one node."""
    xs = [Value(float(i)) for i in range(n)]
    return sum(xs), lambda: all(x.grad == 1.0 for x in xs)


def network(n):
    """A network of two layers and about n weights."""
    width = math.isqrt(n)
    model = nn.MLP(width, [width, 1], rng=1)
    xs = [Value((i + 1) / width) for i in range(width)]
    rows = [(neuron.b, w, x) for neuron in model.layers[0].neurons for w, x in zip(neuron.w, xs, strict=True)]
    return model(xs), lambda: all(w.grad == b.grad * x.data != 0 for b, w, x in rows)


@pytest.fixture
def _memory(no_collector):
    """What Python's objects take, without the collector, as in `fit`."""
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.usefixtures("_memory")
@pytest.mark.parametrize(("graph", "most"), [(chain, 700), (fan, 400), (network, 400)])
def test_a_node_takes_some_hundred_bytes(graph, most):
    root, are_right = graph(100_000)
    root.backward()
    assert tracemalloc.get_traced_memory()[1] / 100_000 < most
    assert are_right()


@pytest.mark.usefixtures("_memory")
def test_nothing_is_kept_of_sums_of_many_lengths():
    values = [Value(1.0) for _ in range(100_000)]
    before, _ = tracemalloc.get_traced_memory()
    assert all(sum(values[i:]).data == 100_000 - i for i in range(20))
    assert tracemalloc.get_traced_memory()[0] - before < 1 << 20


@pytest.mark.long
@pytest.mark.usefixtures("_memory")
@pytest.mark.parametrize(("way", "steps"), [("loop in eager", 1000), ("loop in auto", 1000), ("block in auto", 20_000)])
def test_a_long_training_takes_no_more_memory_than_a_short_one(way, steps):
    training = learning(way, 1)
    taken = [tracemalloc.get_traced_memory()[0] for n in (100, steps) if list(islice(training, n))[-1]]
    assert taken[1] - taken[0] < 1 << 20
