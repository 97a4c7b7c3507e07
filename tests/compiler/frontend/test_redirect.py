"""Where a Value's numbers are: each state as this thread and others see it, and what may end or begin meanwhile."""

import copy
import pickle
import threading
from array import array
from contextlib import ExitStack, contextmanager

import pytest

import micrograd
from micrograd import Value
from micrograd.compiler.frontend import redirect


class Weight(Value):
    """A subclass of a user's own."""


@pytest.fixture(params=[Value, Weight])
def value(request):
    return request.param(1.5, label="w")


@contextmanager
def stored(value):
    data = array("d", [value.data])
    with redirect.held("stored", [value], data=[memoryview(data)], grad=[memoryview(array("d", [0.5]))]):
        data[0] = 2.5  # a step in C
        yield


STATES = {
    "plain": lambda value: ExitStack(),
    "traced": lambda value: redirect.symbols(redirect.Table({value: 0}, lambda i: 7.5, lambda i: 8.5)),
    "stored": stored,
    "frozen": lambda value: redirect.held("frozen", [value]),
}


def seen_elsewhere(value):
    found = []
    thread = threading.Thread(target=lambda: found.append((value.data, value.grad)))
    thread.start()
    thread.join()
    return found[0]


@pytest.mark.parametrize(("states", "here", "elsewhere", "afterwards"), [
    (["plain"], (1.5, 0.0), (1.5, 0.0), (3.0, 4.0)),
    (["traced"], (7.5, 8.5), (1.5, 0.0), (1.5, 0.0)),
    (["stored"], (2.5, 0.5), (2.5, 0.5), (3.0, 4.0)),
    (["frozen"], (1.5, 0.0), (1.5, 0.0), (1.5, 4.0)),
    (["stored", "frozen"], (2.5, 0.5), (2.5, 0.5), (2.5, 4.0)),
    (["frozen", "stored"], (2.5, 0.5), (2.5, 0.5), (2.5, 4.0)),
    (["stored", "traced"], (7.5, 8.5), (2.5, 0.5), (2.5, 0.5)),
    (["frozen", "traced"], (7.5, 8.5), (1.5, 0.0), (1.5, 0.0)),
    (["traced", "traced", "frozen", "frozen"], (7.5, 8.5), (1.5, 0.0), (1.5, 0.0)),
])  # fmt: skip
def test_every_state_shows_the_number_and_takes_or_refuses_another(states, here, elsewhere, afterwards, value):
    kind = type(value)
    with ExitStack() as stack:
        for state in states:
            stack.enter_context(STATES[state](value))
        assert (value.data, value.grad) == here
        assert seen_elsewhere(value) == elsewhere
        assert type(value * 2) is (redirect.Node if "traced" in states and kind is Value else kind)
        assert type(value)(1.0).data == 1.0
        if "frozen" in states and "traced" not in states:
            with pytest.raises(RuntimeError, match=r"frozen parameter, Value\(.*leave the block of frozen"):
                value.data = 3.0
        else:
            value.data = 3.0
        value.grad = 4.0
    assert (value.data, value.grad) == afterwards
    assert type(value) is kind


def test_a_trace_sets_back_what_it_replaced_and_nothing_that_another_thread_did(value):
    other = type(value)(1.0)

    def train():
        value.data, value.grad = 3.0, 4.0

    with redirect.symbols(redirect.Table({}, float)):
        assert value * other == 1.5
        other.data, other.grad = 5.0, 6.0
        thread = threading.Thread(target=train)
        thread.start()
        thread.join()
    assert (value.data, value.grad, other.data, other.grad) == (3.0, 4.0, 1.0, 0.0)
    with redirect.held("frozen", [value]), redirect.symbols(redirect.Table({}, float)):
        assert value * other == 3.0


def test_a_value_is_copied_as_what_it_is_whatever_begins_or_ends_meanwhile(value):
    """Another thread may begin or end a trace between any two steps of a copy."""
    original = type(value)
    kind = Value if original is Value else None  # pickle finds no class within a test
    for state in "traced", "stored", "frozen":
        plain = value.__reduce__, value._node
        with STATES[state](value):
            moved = value.__reduce__, value._node
            for copied in copy.copy(value), copy.deepcopy(value), kind and pickle.loads(pickle.dumps(value)):
                assert copied is None or type(copied) is original
            assert plain[0]()[1] == (original,)
        assert moved[0]()[1] == (type(value),)
        assert type(moved[1](1.0, (), "", None)) is type(value)


def test_no_value_is_stored_twice(value):
    other = Value(3.0)
    with stored(value):
        zeros = [memoryview(array("d", [0.0, 0.0]))]
        with pytest.raises(ValueError, match="another training block in C holds a parameter of this function"):
            redirect.held("stored", [other, value], data=zeros, grad=zeros).__enter__()
        assert type(other) is Value
        value.data = 4.0
        assert (value.data, other.data) == (4.0, 3.0)
    assert value.data == 4.0


@pytest.mark.parametrize("fails_in", ["the function", "its backward pass"])
def test_a_trace_that_fails_leaves_the_engine_and_its_values_as_they_were(fails_in):
    w = Value(2.0)

    def function(x):
        def _backward(grad):
            raise KeyError("here")

        if fails_in == "the function":
            raise KeyError("here")
        return Value(w.data * x.data, (w, x), "own", _backward)

    with pytest.raises(KeyError, match="here"):
        micrograd.compile(function, (1.0,), parameters=[w], backend="python")
    assert (type(w), w.data, w.grad) == (Value, 2.0, 0.0)
    (w * 3.0).backward()
    assert w.grad == 3.0
    assert not redirect._blocks
    assert redirect.thread.table is None
