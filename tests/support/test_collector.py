"""Pausing the garbage collector, with one count for all threads."""

import gc
import signal
import threading
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
def test_blocks_that_overlap_leave_it_off_until_the_last_has_ended(first):
    """As of two threads: what one of them finds is the other's doing."""
    blocks = ExitStack(), ExitStack()
    for block in blocks:
        block.enter_context(gc_paused())
    blocks[first].close()
    assert not gc.isenabled()
    blocks[1 - first].close()
    assert gc.isenabled()


def test_a_pause_that_begins_while_that_of_another_thread_ends_does_not_last(monkeypatch):
    first, disable = ExitStack(), gc.disable
    first.enter_context(gc_paused())
    other = threading.Thread(target=first.close)

    def late():
        other.start()
        other.join(0.2)  # in which the other thread would turn the collector on, if it were not kept from it
        disable()

    monkeypatch.setattr(gc, "disable", late)
    with gc_paused():
        other.join()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_ctrl_c_as_the_collector_is_paused_leaves_it_on(monkeypatch):
    pause = gc.disable

    def pressed():
        pause()
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(gc, "disable", pressed)
    with pytest.raises(KeyboardInterrupt), gc_paused():
        pytest.fail("the block was entered")
    assert gc.isenabled()
