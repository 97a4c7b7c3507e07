"""What all tests share."""

import gc
import os
import shutil
import signal
from pathlib import Path

import pytest

if shutil.which("cc") and os.access(Path(__file__).with_name("quick-cc"), os.X_OK):
    os.environ.setdefault("CC", str(Path(__file__).with_name("quick-cc")))  # before a file asks which compiler there is

from micrograd import scalar
from micrograd.compiler.native import library, toolchain
from micrograd.core import levels
from tests.helpers import needs_compiler
from tests.pages.browser import npm


def pytest_collection_finish(session):
    """Leave all tests, and what they import, out of the garbage collector's walks: it would take seconds each time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _ctrl_c_interrupts():
    """Ctrl-C means what it does in a terminal, also where a shell has the tests run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def threads_pay(monkeypatch):
    """Threads share whatever there is to do, however little."""
    monkeypatch.setattr(library, "A_THREAD", 0)
    monkeypatch.setattr(library, "A_GRADIENT", 0)


@pytest.fixture
def no_kinds(monkeypatch):
    """No types of numbers are registered at first, and those that a test registers are forgotten after it."""
    monkeypatch.setattr(scalar, "REGISTERED", {})
    monkeypatch.setattr(scalar, "ZEROS", dict(scalar.ZEROS))


@pytest.fixture
def no_collector():
    """Python's garbage collector, off."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def two_derivatives(monkeypatch):
    """As if two derivatives were running, one inside the other."""
    monkeypatch.setattr(levels, "active_levels", [1, 2])


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory):
    """One directory for what all tests compile, so that nothing is compiled twice or left in the user's."""
    directory = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        directory = directory.parent
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(directory / "compiled"))
        # A test may change how a graph becomes C, so its C is the key.
        patch.setattr(library, "build", lambda text, key, early: toolchain.build(text(), early=early))
        yield


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """A cache for one test, which is empty yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    toolchain.warn_once.cache_clear()
    return tmp_path / "cache" / "micrograd"


@pytest.fixture
def optimized(monkeypatch):
    """The C compiler, and not the one without optimization."""
    monkeypatch.setenv("CC", "cc")


@pytest.fixture
def no_warnings(monkeypatch):
    """Make gcc's warnings errors, but not clang's, which include unused functions."""
    if "clang" not in toolchain.require_compiler().version:
        monkeypatch.setattr(toolchain, "FLAGS", [*toolchain.FLAGS, "-Wall", "-Wextra", "-Werror"])


@pytest.fixture(params=["python", *[pytest.param(each, marks=needs_compiler) for each in ("c", "interpreter")]])
def backend(request, monkeypatch):
    """What a function is compiled to: Python, C, or C with every program in double precision interpreted."""
    if request.param == "interpreter":
        monkeypatch.setattr(library, "should_interpret", lambda *_: True)
    return request.param.replace("interpreter", "c")


AXE = "4.10.3"
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")  # since an event loop runs meanwhile
def browser():
    """A Chromium, driven by Playwright."""
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    program = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if not program:
        pytest.skip("there is no Chromium: apt-get install chromium-headless-shell, or set CHROMIUM to its path")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def opened(browser):
    """A function that opens a page; nothing may go wrong on it, or be asked for."""
    contexts, troubles = [], []

    def opened(path, fragment="", **options):
        contexts.append(browser.new_context(**options))
        tab = contexts[-1].new_page()
        tab.set_default_timeout(120_000)  # for a busy machine
        tab.on("console", lambda message: troubles.append(message.text))
        tab.on("pageerror", lambda error: troubles.append(str(error)))
        tab.on("dialog", lambda dialog: troubles.append(dialog.message))
        local = ("file:", "data:", "blob:")
        tab.on("request", lambda request: request.url.startswith(local) or troubles.append(request.url))
        tab.goto(path.as_uri() + fragment)
        return tab

    yield opened
    for context in contexts:
        context.close()
    assert troubles == []


@pytest.fixture(scope="session")
def axe(request):
    """The source of axe-core, which npm brings where it can."""
    directory = request.config.cache.mkdir(f"axe-core-{AXE}")
    try:
        package = npm("axe-core", AXE, directory, "--fetch-retries=0", "--fetch-timeout=120000")
    except RuntimeError as error:
        pytest.skip(str(error))
    return (package / "axe.min.js").read_text(encoding="utf-8")
