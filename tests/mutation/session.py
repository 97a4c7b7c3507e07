"""A pytest plugin that collects tests and then, instead of running them all, runs the ones asked for, in a fork.

A request is a line of JSON on standard input: the name of a method of Tests, and its arguments. The answer is a line on
standard output: "outcome", and "survived", "killed" or "timed out".
"""

import gc
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import hypothesis
import pytest

PATIENCE = 30  # CPU seconds for one test; the slowest takes a few. The time limit is ten times that
MEMORY = 4 << 30  # bytes

phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)  # no shrinking
hypothesis.settings.register_profile("mutation", phases=phases)
hypothesis.settings.load_profile("mutation")


class Without:
    """A finder for `sys.meta_path`: it hides PyTorch, to save time, and Playwright: a browser takes more memory."""

    def find_spec(self, name: str, *_: Any) -> None:
        if name in ("torch", "playwright"):
            raise ModuleNotFoundError(f"{name} is left out of the mutation run", name=name)


sys.meta_path.insert(0, Without())
signal.alarm(10 * PATIENCE)  # until the tests are collected


def pytest_runtestloop(session: pytest.Session) -> bool:
    """Answer requests until there are no more."""
    signal.alarm(0)
    if session.testsfailed:  # a file could not be imported
        return False
    tests = Tests(session)
    for name, *arguments in map(json.loads, sys.stdin):
        sys.stdout.flush()
        process = os.fork()
        if process == 0:
            passed = False
            try:
                passed = getattr(tests, name)(*arguments)
            finally:
                os._exit(0 if passed else 1)
        _, status = os.waitpid(process, 0)
        with suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)  # what a test has left running
        late = os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGPROF, signal.SIGALRM)
        print("\noutcome", "survived" if status == 0 else "timed out" if late else "killed", flush=True)
    return True


class Tests:
    """What pytest has collected, and the package as it was then."""

    def __init__(self, session: pytest.Session) -> None:
        self.session = session
        self.sources = {path: path.read_text(encoding="utf-8") for path in Path("micrograd").resolve().rglob("*.py")}
        self.functions: dict[CodeType, list[FunctionType]] = {}
        """All functions of the package, by their code."""
        for it in gc.get_objects():
            if isinstance(it, FunctionType) and Path(it.__code__.co_filename) in self.sources:
                self.functions.setdefault(it.__code__, []).append(it)
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]  # one for all, with compiled C
        gc.freeze()  # a collection would write to every page, and so copy it

    def measure(self, modules: list[str]) -> bool:
        """Run all tests, and write the seconds of each and the tests that run each line to coverage.json."""
        from coverage import Coverage

        os.dup2(2, 1)
        paths = {module: str(Path("micrograd", f"{module}.py").resolve()) for module in modules}
        coverage = Coverage(data_file=None, config_file=False, include=list(paths.values()))
        coverage.start()
        seconds = {}
        for item, following in _with_next(self.session.items):
            start = time.perf_counter()
            coverage.switch_context(item.nodeid)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            seconds[item.nodeid] = time.perf_counter() - start
        coverage.stop()
        lines = {module: coverage.get_data().contexts_by_lineno(path) for module, path in paths.items()}
        Path("coverage.json").write_text(json.dumps({"seconds": seconds, "tests": lines}))
        return not self.session.testsfailed

    def run(self, names: list[str]) -> bool:
        """Run these tests until one fails, and write its name to the file "failed". Returns whether all pass."""
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        null = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(null, stream)
        items = {item.nodeid: item for item in self.session.items}
        for item, following in _with_next([items[name] for name in names]):
            signal.setitimer(signal.ITIMER_PROF, PATIENCE)
            signal.alarm(10 * PATIENCE)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self.session.testsfailed:
                Path("failed").write_text(item.nodeid)
                return False
        return True

    def run_changed(self, names: list[str], module: str) -> bool:
        """The same, with the functions of a module as its file has them now. Returns True if that cannot be done."""
        path = Path("micrograd", f"{module}.py").resolve()
        before, after = (compile(source, path, "exec") for source in (self.sources[path], path.read_text()))
        return not self._change(before, after) or self.run(names)

    def _change(self, before: CodeType, after: CodeType) -> bool:
        """Give functions their new code. Returns False if the difference is in code that runs on import."""
        parts = list(zip(_nested(before), _nested(after), strict=False))
        only_nested = _without_nested(before) == _without_nested(after)
        changed = [self._change(*part) for part in parts]
        for function in (functions := self.functions.get(before, [])):
            function.__code__ = after
        return before == after or bool(functions) or (only_nested and all(changed))


def _with_next(items: list[pytest.Item]) -> Iterator[tuple[pytest.Item, pytest.Item | None]]:
    """Each item and the one after it, for which pytest keeps fixtures."""
    return zip(items, [*items[1:], None], strict=True)


def _nested(code: CodeType) -> list[CodeType]:
    return [each for each in code.co_consts if isinstance(each, CodeType)]


def _without_nested(code: CodeType) -> tuple[CodeType, str]:
    return code.replace(co_consts=(), co_linetable=b""), repr(
        [each for each in code.co_consts if not isinstance(each, CodeType)]
    )
