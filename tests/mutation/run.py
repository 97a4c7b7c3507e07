"""Running the tests on mutants: a copy of the checkout, and a process that forks to run the tests in it."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.mutation import CHECKOUT

PATIENCE = 20  # seconds for one test, which takes a few at most
MEMORY = 4 << 30  # bytes

GRADIENTS = ["engine", "functional", "properties", "function", "c", "precision"]
NETWORKS = ["nn", "losses", "optim", "fit"]
FITS = ["fit", "scenarios", "backends", "shards", "history", "faults"]
IN_PYTHON = ["tracer", "graph", "function", "compiler/compiled", "ieee", "c", "faults"]
IN_C = ["c", "c_runtime", "library", "function", "compiler/compiled", "ieee", "faults"]
TRAINING = ["session", "scenarios", "backends", "fit", "copying", "faults"]
TRIED = {
    "scalar functions": ["scalar", *GRADIENTS],
    "reductions": [*GRADIENTS, *NETWORKS, "rows"],
    "engine core/number core/gradients core/levels core/errors": [*GRADIENTS, *NETWORKS, "load"],
    "functional core/derivatives": ["functional", "sparse", "properties"],
    "nn losses optim": NETWORKS,
    "data support/files compiler/dtype": [],
    "support/trees": ["functional", "sparse", "properties", "function"],
    "support/arrays": ["compiler/compiled"],
    "support/collector": ["fit"],
    "support/validation support/signals": [*FITS, *NETWORKS, "data"],
    "training compiler/stepping": FITS,
    "compiler/compiled compiler/function compiler/frontend compiler/targets/python": IN_PYTHON,
    "compiler/dataset compiler/targets": IN_C,
    "compiler/ir compiler/passes": ["ir", "roll", *IN_C],
    "compiler/session compiler/native compiler/frontend/redirect": [*TRAINING, *IN_C],
    "compiler/options": ["function", "dtype"],
    "compiler/targets/export": ["javascript", "dtype"],
    "compiler/distributed": ["shards"],
}
"""What modules, or all modules of a room, are tried with after the tests of their own name; the longest name counts."""

ALSO = {name: tests for names, tests in TRIED.items() for name in names.split()}


def files_of(name: str) -> list[str]:
    """The files of tests of this name, which the end of its path may precede: "fit", "training/compiled"."""
    room, _, module = name.rpartition("/")
    found = sorted(CHECKOUT.glob(f"tests/**/test_{module}.py"))
    found = [file for file in found if file.parent.name == room.rpartition("/")[2]] or found
    return [file.relative_to(CHECKOUT).as_posix() for file in found]


def tests_of(module: str) -> list[str]:
    """The files of tests that a module is tried with, its own first; none if no errors are put into it."""
    names = [name for name in ALSO if name == module or module.startswith(f"{name}/")]
    if not names:
        return []
    return [*dict.fromkeys(file for name in (module, *ALSO[max(names, key=len)]) for file in files_of(name))]


MODULES = [
    module
    for file in sorted((CHECKOUT / "micrograd").rglob("*.py"))
    if tests_of(module := file.relative_to(CHECKOUT / "micrograd").with_suffix("").as_posix())
]


class Runner:
    """A copy of the checkout, in which a mutant of one of the modules takes its place while the tests run."""

    def __init__(self, modules: Iterable[str]) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="mutation-"))
        files = subprocess.run(["git", "ls-files"], cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout
        for file in files.splitlines():
            (self.directory / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(CHECKOUT / file, self.directory / file)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.mutation.run"],
            cwd=self.directory,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "", "XDG_CACHE_HOME": str(self.directory / "cache")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        every = sorted({file for module in modules for file in tests_of(module)})
        if self.ask({"tests": every, "compile": True}) != "survived":
            raise RuntimeError("the tests fail as it is: see python -m pytest")
        for directory in self.directory.glob("micrograd/**/__pycache__"):
            shutil.rmtree(directory)  # that of the tests stays

    def ask(self, request: dict[str, Any]) -> str:
        """What comes of running tests."""
        assert self.process.stdin
        assert self.process.stdout
        print(json.dumps(request), file=self.process.stdin, flush=True)
        return self.process.stdout.readline().strip()

    def outcome(self, module: str, code: str) -> str:
        """Whether the tests notice: "killed", "timed out" or "survived"."""
        path = self.directory / "micrograd" / f"{module}.py"
        original = path.read_text()
        path.write_text(code)
        try:
            return self.ask({"tests": tests_of(module), "compile": False})
        finally:
            path.write_text(original)

    def close(self) -> None:
        """End the process and remove the copy."""
        self.process.communicate()
        shutil.rmtree(self.directory)


class Watchdog:
    """A plugin of pytest: a test that does not come to an end ends the process."""

    def pytest_runtest_logstart(self) -> None:
        signal.alarm(PATIENCE)


class Without:
    """A finder for `sys.meta_path`: these are not installed. PyTorch takes its time, and a browser more memory."""

    def find_spec(self, name: str, *_: Any) -> None:
        if name in ("torch", "playwright"):
            raise ModuleNotFoundError(f"{name} is left out of the mutation run", name=name)


def run_tests(files: list[str], quiet: bool) -> int:
    """Run these tests up to the first that fails, with what the fork has inherited; pytest's status."""
    import pytest

    os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.alarm(PATIENCE)
    os.dup2(os.open(os.devnull, os.O_RDWR) if quiet else 2, 1)
    if quiet:
        os.dup2(1, 2)
    for file in files:  # one after the other, since most mutants need only the first
        options = ["-x", "-q", "-n", "0", "--disable-warnings", "-p", "no:cacheprovider"]
        status = pytest.main([*options, file], plugins=[Watchdog()])
        if status:
            return int(status)
    return 0


def serve() -> None:
    """For each line of files of tests, the outcome of running them in a fork."""
    for name in ("hypothesis", "mpmath", "numpy", "pytest"):  # once, for all forks
        import_module(name)
    import hypothesis

    phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)  # no shrinking
    hypothesis.settings.register_profile("mutation", phases=phases)
    hypothesis.settings.load_profile("mutation")
    sys.meta_path.insert(0, Without())
    for request in map(json.loads, sys.stdin):
        process = os.fork()
        if process == 0:
            status = 1
            try:
                sys.dont_write_bytecode = not request["compile"]
                status = run_tests(request["tests"], quiet=not request["compile"])
            finally:
                os._exit(status)
        _, status = os.waitpid(process, 0)
        with suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)  # what a test has started and left behind
        survived, late = status == 0, os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM
        print("survived" if survived else "timed out" if late else "killed", flush=True)


if __name__ == "__main__":
    serve()
