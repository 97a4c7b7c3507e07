"""Pausing the garbage collector."""

import gc
from contextlib import ExitStack

import pytest

from micrograd.support.collector import gc_paused


@pytest.fixture(autouse=True)
def enabled():
    """Leave the collector on, whatever a test does."""
    gc.enable()
    yield
    gc.enable()


@pytest.mark.parametrize("before", [True, False])
def test_the_collector_is_off_in_the_block_and_then_as_it_was(before):
    (gc.enable if before else gc.disable)()
    with gc_paused():
        assert not gc.isenabled()
        with gc_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled() is before


@pytest.mark.parametrize("first", [0, 1])
def test_blocks_that_overlap_leave_it_on(first):
    """As of two threads, whichever ends first."""
    blocks = ExitStack(), ExitStack()
    for block in blocks:
        block.enter_context(gc_paused())
    assert not gc.isenabled()
    blocks[first].close()
    blocks[1 - first].close()
    assert gc.isenabled()
