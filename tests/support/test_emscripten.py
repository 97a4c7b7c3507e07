"""As in a browser's Python: what is freed, and when. `test_pyodide.py` runs it there, on graphs of any length."""

import importlib
import sys
import weakref

import pytest

import micrograd
from micrograd import Value, dot, grad


@pytest.fixture
def _browser(monkeypatch):
    """As if this were Pyodide."""
    monkeypatch.setattr(sys, "platform", "emscripten")
    monkeypatch.setattr(Value, "__del__", lambda node: None, raising=False)  # so that none is left behind
    importlib.reload(micrograd)


def test_only_in_a_browser_has_a_value_something_to_do_when_it_is_freed():
    assert not hasattr(Value, "__del__")


@pytest.mark.usefixtures("_browser", "no_collector")
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

    def test_derivatives_inside_derivatives_are_freed_too(self):
        nodes = []

        def cube(x):
            y = x * x * x
            nodes.extend(weakref.ref(node) for node in (x, y, x.data, y.data))
            return y

        assert grad(grad(cube))(2.0) == 12.0
        assert [node for node in nodes if node() is not None] == []

    @pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
    def test_a_value_that_cannot_be_made_and_a_trace_with_rows_are_freed_silently(self):
        with pytest.raises(TypeError, match="a Value holds a number"):
            Value("2")
        ws = [Value(1.0), Value(2.0), Value(3.0)]
        fast = micrograd.compile(lambda xs: dot(ws, xs), ([1.0, 1.0, 1.0],), parameters=ws, backend="python")
        assert fast([1.0, 2.0, 3.0]) == 14.0
