"""How a function is compiled: what a backend cannot do is refused, and what "auto" stands for."""

from types import SimpleNamespace

import pytest

import micrograd


def test_in_a_browsers_python_auto_is_python_and_no_compiler_is_looked_for(monkeypatch, caplog):
    monkeypatch.setattr("micrograd.compiler.options.sys", SimpleNamespace(platform="emscripten"))
    monkeypatch.setattr("micrograd.compiler.function.require_compiler", lambda: pytest.fail("a search"))
    fast = micrograd.compile(lambda x: x * x, (1.0,))
    assert repr(fast) == "<<lambda> compiled to Python, 0 parameters>"
    assert (fast(3.0), caplog.messages) == (9.0, [])
