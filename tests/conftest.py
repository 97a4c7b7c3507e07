"""What all tests can rely on."""

import signal

import pytest

from micrograd import engine


@pytest.fixture(scope="session", autouse=True)
def _ctrl_c_interrupts():
    """Ctrl-C means what it does in a terminal, also where a shell has the tests run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def two_derivatives(monkeypatch):
    """As if two derivatives were running, one inside the other."""
    monkeypatch.setattr(engine, "running", [1, 2])
