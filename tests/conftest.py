"""What all tests can rely on."""

import os
import signal

import pytest

from micrograd import engine
from micrograd.compiler import CompilerError, toolchain


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


def has_compiler():
    """Whether there is a C compiler here."""
    try:
        toolchain.find_compiler(os.environ.get("CC"), os.environ.get("PATH"))
    except CompilerError:
        return False
    return True


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A directory for what is compiled, so that nothing is left in the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(params=["python", "c"])
def backend(request, cache):
    """What a function is compiled to."""
    if request.param == "c" and not has_compiler():
        pytest.skip("there is no C compiler here")
    return request.param
