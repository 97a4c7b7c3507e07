"""Running the tests on mutants, in a copy of the checkout."""

import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from coverage import Coverage

from tests.mutation.mutants import Mutant

CHECKOUT = Path(__file__).resolve().parents[2]
SLOW = ("mpmath", "numpy", "scipy.optimize", "sklearn.datasets", "uncertainties")
"""What tests import, and what takes long: it is there before a process is forked for them."""
LEFT_OUT = ("torch", "playwright")  # to save time, and the memory of a browser
FIRST = 20  # tests that run before all others do: most mutants die by one of them
PATIENCE = 120
"""CPU seconds for the tests of a mutant, besides ten times what they take; it may take ten times as long in all."""
MEMORY = 4 << 30  # bytes

hypothesis.settings.register_profile("mutation", phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate))


class Measuring:
    """A plugin of pytest: the seconds of each test, and the tests that run each line of some files."""

    def __init__(self, paths: dict[str, str], to: Path) -> None:
        self.paths, self.to, self.seconds = paths, to, dict[str, float]()
        self.coverage = Coverage(data_file=None, config_file=False, include=list(paths.values()))
        self.coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.coverage.switch_context(item.nodeid)
        start = time.perf_counter()
        result = yield
        self.seconds[item.nodeid] = time.perf_counter() - start
        return result

    def pytest_sessionfinish(self) -> None:
        self.coverage.stop()
        lines = {module: self._tests_of(path) for module, path in self.paths.items()}
        self.to.write_text(json.dumps({"seconds": self.seconds, "tests": lines}))

    def _tests_of(self, path: str) -> dict[int, list[str]]:
        contexts = self.coverage.get_data().contexts_by_lineno(path)
        return {line: [test for test in tests if test] for line, tests in contexts.items()}  # "": on import


class Choosing:
    """A plugin of pytest: these tests alone, in this order; the one that fails is written to a file."""

    def __init__(self, names: list[str], failed: Path) -> None:
        self.names, self.failed = names, failed

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        found = {item.nodeid: item for item in items}
        items[:] = [found[name] for name in self.names]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.write_text(report.nodeid)


class Runner:
    """A copy of the checkout, in which a mutant takes the place of its module while the tests run.

    They run in a fork of this process, which imports no test and nothing of the package itself. Raises RuntimeError if
    a test fails without any mutant.
    """

    def __init__(self, modules: list[str], tests: list[str]) -> None:
        for name in SLOW:
            import_module(name)
        self.directory = Path(tempfile.mkdtemp(prefix="mutation-"))
        hidden = shutil.ignore_patterns(".*", "__pycache__")
        shutil.copytree(CHECKOUT, self.directory, ignore=hidden, dirs_exist_ok=True)
        self.failed, measured = self.directory / "failed", self.directory / "measured.json"
        paths = {module: str(self.directory / "micrograd" / f"{module}.py") for module in modules}
        if self._outcome(tests, lambda: Measuring(paths, measured)) != "survived":
            raise RuntimeError("the tests fail without any mutant: see python -m pytest")
        self.seconds, self.tests = json.loads(measured.read_text()).values()
        self.kills: Counter[str] = Counter()

    def outcome(self, mutant: Mutant) -> str:
        """The outcome of the tests that run the error, or else the code around it: "killed", "timed out" or "survived".

        The tests that have killed most mutants so far come first, then the quickest. If no test runs the error, because
        it runs on import, all tests that run the code around it do, or all that run the module.
        """
        lines = self.tests[mutant.module]
        around = [{test for line in span for test in lines.get(str(line), ())} for span in mutant.spans]
        found = next(filter(None, around), set().union(*lines.values()))
        tests = sorted(found, key=lambda test: (-self.kills[test], self.seconds[test]))
        path = self.directory / "micrograd" / f"{mutant.module}.py"
        original = path.read_text(encoding="utf-8")
        path.write_text(mutant.source, encoding="utf-8")
        try:
            outcome = self._outcome_of(tests[:FIRST])
            return outcome if outcome != "survived" else self._outcome_of(tests[FIRST:])
        finally:
            path.write_text(original, encoding="utf-8")

    def _outcome_of(self, tests: list[str]) -> str:
        """The outcome of these tests, which end with the first that fails."""
        if not tests:
            return "survived"
        files = {test.partition("::")[0] for test in tests}
        seconds = PATIENCE + 10 * sum(self.seconds[test] for test in tests)
        outcome = self._outcome(["-x", *files], lambda: Choosing(tests, self.failed), int(seconds))
        if outcome == "killed" and self.failed.exists():
            self.kills[self.failed.read_text()] += 1
            self.failed.unlink()
        return outcome

    def _outcome(self, arguments: list[str], plugin: Callable[[], Any], seconds: int = 100 * PATIENCE) -> str:
        """The outcome of pytest in a fork with these arguments and so many seconds of CPU time."""
        process = os.fork()
        if process == 0:
            status = 1
            try:
                os.setpgid(0, 0)
                resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
                resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
                signal.alarm(10 * seconds)
                status = self._pytest(arguments, plugin)
            finally:
                os._exit(status)
        _, status = os.waitpid(process, 0)
        with suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)  # what a test has left running
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGALRM):
            return "timed out"
        return "killed" if status else "survived"

    def _pytest(self, arguments: list[str], plugin: Callable[[], Any]) -> int:
        """Pytest in the copy, its output nowhere; the exit status."""
        null = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(null, stream)
        os.chdir(self.directory)
        sys.path[0] = str(self.directory)
        sys.dont_write_bytecode = True  # a mutant's bytecode could pass for the next one's
        for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
            del sys.modules[name]  # those of the checkout
        sys.modules |= dict.fromkeys(LEFT_OUT)  # type: ignore[arg-type]  # None: such a module is not found
        hypothesis.settings.load_profile("mutation")
        return int(pytest.main(["-n", "0", *arguments], plugins=[plugin()]))

    def close(self) -> None:
        """Remove the copy."""
        shutil.rmtree(self.directory)
