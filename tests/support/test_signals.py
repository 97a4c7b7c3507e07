"""Ctrl-C noted within a block, and parameters that are set all or none."""

import math
import signal
import threading
from _thread import interrupt_main

import pytest

from micrograd import Value
from micrograd.compiler.frontend.redirect import held
from micrograd.support.signals import interrupts_noted, set_back, set_data


def press():
    signal.raise_signal(signal.SIGINT)


def test_a_handler_of_the_programs_own_is_called_as_ever():
    called = []
    before = signal.signal(signal.SIGINT, lambda *arguments: called.append(arguments))
    try:
        with interrupts_noted() as noted:
            press()
        assert not noted
        press()
        assert len(called) == 2
    finally:
        signal.signal(signal.SIGINT, before)


def test_blocks_within_the_block_and_in_other_threads_leave_it_to_the_block():
    def inner():
        with interrupts_noted() as notes:
            found.append(notes)

    found = []
    with interrupts_noted() as noted:
        inner()
        thread = threading.Thread(target=inner)
        thread.start()
        thread.join()
        press()
    assert (len(noted), found) == (1, [[], []])


@pytest.mark.parametrize("number", [0.0, -0.0, math.nan, 1])
def test_numbers_are_set_all_or_none(number):
    one, two = parameters = [Value(number), Value(number)]
    set_data(parameters, [3.0, 4.0])
    assert (one.data, two.data) == (3.0, 4.0)
    set_data(parameters, [number, number])
    with held("frozen", [two]), pytest.raises(RuntimeError, match="the data of a frozen parameter"):
        set_data(parameters, [3.0, 4.0])
    assert one.data is two.data is number


def test_ctrl_c_comes_after_all_numbers_are_set_back():
    kind = type("Pressing", (float,), {"__del__": staticmethod(interrupt_main)})  # presses it when it goes out of use
    parameters = [Value(kind(1.0)) for _ in range(3)]
    with pytest.raises(KeyboardInterrupt):
        set_back(parameters, [2.0, 3.0, 4.0])
    assert [parameter.data for parameter in parameters] == [2.0, 3.0, 4.0]
