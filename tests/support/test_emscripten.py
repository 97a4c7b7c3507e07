"""As in a browser's Python: what is freed, and when. `test_pyodide.py` runs it there, on graphs of any length."""

import gc
import importlib
import sys
import weakref

import pytest

import micrograd
from micrograd import Value, grad
from micrograd.support import emscripten


@pytest.fixture
def _browser(monkeypatch):
    """As if this were Pyodide."""
    monkeypatch.setattr(sys, "platform", "emscripten")
    monkeypatch.setattr(Value, "__del__", lambda node: None, raising=False)  # so that none is left behind
    importlib.reload(micrograd)


@pytest.fixture
def _collector_off():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_only_in_a_browser_has_a_value_something_to_do_when_it_is_freed():
    assert not hasattr(Value, "__del__")


@pytest.mark.usefixtures("_browser", "_collector_off")
class TestInABrowser:
    def test_a_graph_is_freed_as_soon_as_it_goes_out_of_use(self):
        x = y = Value(2.0)
        nodes = []
        for _ in range(1000):
            y = y * 1.0 + x * 0.0
            nodes += [weakref.ref(node) for node in (y, *y._prev)]
        y.backward()
        assert x.grad == 1.0
        del y
        assert [node for node in nodes if node() is not None] == []
        assert x._prev == ()

    def test_what_is_still_in_use_is_kept(self):
        x = Value(2.0)
        middle = x * 3.0
        result = middle.exp() * middle
        del result
        middle.backward()
        assert x.grad == 3.0

    def test_derivatives_inside_derivatives_are_freed_too(self):
        nodes = []

        def cube(x):
            y = x * x * x
            nodes.extend(weakref.ref(node) for node in (x, y, x.data, y.data))
            return y

        assert grad(grad(cube))(2.0) == 12.0
        assert [node for node in nodes if node() is not None] == []

    @pytest.mark.filterwarnings("error")
    def test_a_value_that_cannot_be_made_is_freed_without_a_word(self):
        with pytest.raises(TypeError, match="a Value holds a number"):
            Value("2")

    def test_what_an_interruption_leaves_is_freed_with_the_next_graph(self, monkeypatch):
        class Interrupted(list):
            before = True

            def pop(self):
                if self.before:
                    self.before = False
                    raise KeyboardInterrupt
                return super().pop()

        monkeypatch.setattr(emscripten, "_handed_over", Interrupted())
        x = Value(2.0)
        y, z = x * 1.0, x * 1.0
        nodes = [weakref.ref(node._prev[1]) for node in (y, z)]
        with pytest.raises(KeyboardInterrupt):
            emscripten.release(y)
        assert None not in [node() for node in nodes]
        del z
        assert [node() for node in nodes] == [None, None]
