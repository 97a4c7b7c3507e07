"""The loop of a training run in C: it shuffles as Python does."""

import random
from array import array
from ctypes import CFUNCTYPE, c_int64

import pytest

from micrograd import Value, compile
from micrograd.compiler.dataset import address
from micrograd.compiler.native import loop, toolchain
from micrograd.compiler.native.library import POINTER
from micrograd.compiler.native.update import UpdateKernel
from micrograd.optim import SGD
from tests.helpers import has_compiler, interrupt_while, needs_compiler


@pytest.fixture(scope="module")
def shuffled(cache):
    """A function to the numbers below n in random order, so many times, one after the other."""
    if not has_compiler():
        pytest.skip("there is no C compiler here")
    library = toolchain.build(loop.source(UpdateKernel(SGD([Value(1.0)]))))()
    shuffle = CFUNCTYPE(None, POINTER, POINTER, c_int64)(("shuffle", library))

    def shuffled(n, times, rng):
        orders = [array("q", range(n)) for _ in range(times)]
        for order in orders:
            with loop.random_state(rng) as state:
                shuffle(state, address(order), n)
        return [i for order in orders for i in order]

    return shuffled


def orders(n, times, rng):
    """What Python makes of it."""
    order = []
    for _ in range(times):
        numbers = list(range(n))
        rng.shuffle(numbers)
        order += numbers
    return order


@pytest.mark.parametrize("n", [*range(1, 40), 63, 64, 65, 255, 256, 257, 1000, 1023, 1024, 4097, 70_000])
def test_c_shuffles_as_python_does(n, shuffled):
    for seed in range(3):
        one, other = random.Random(seed), random.Random(seed)
        for rng in one, other:  # any position in the state, and half of a gauss
            for _ in range(seed * 211 % 700):
                rng.getrandbits(32)
            rng.gauss()
        times = 1 + 2000 // n
        assert shuffled(n, times, one) == orders(n, times, other)
        assert one.getstate() == other.getstate()
        assert one.gauss() == other.gauss()


@needs_compiler
def test_a_step_that_ctrl_c_interrupts_is_counted():
    """Python notices Ctrl-C when C has taken the step."""
    w = Value(0.0)
    fast, optimizer = compile(lambda x: w * x, (1.0,), parameters=[w], backend="c"), SGD([w], 1.0)
    batch = fast.pack([1.0] * 1_000_000)

    with fast.training(optimizer) as step:
        step(batch)
        for _ in range(5):
            interrupt_while(lambda: step(batch), 0.01)
            assert w.data == pytest.approx(-optimizer.steps)
