"""Running the tests on mutants: a copy of the checkout, and a process that forks to run the tests in it."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.mutation import CHECKOUT

PATIENCE = 20  # seconds for one test, which takes a few at most
MEMORY = 4 << 30  # bytes

GRADIENTS = ["engine", "functional", "properties", "function", "c", "precision"]
ENGINE = ["engine", "core/number", "core/gradients", "core/levels", "core/errors", "reductions"]
NETWORKS = ["nn", "losses", "optim", "fit"]
IN_PYTHON = ["tracer", "graph", "function", "compiler/compiled", "ieee", "c", "faults"]
IN_C = ["c", "c_runtime", "library", "function", "compiler/compiled", "ieee", "faults"]
TRAINING = ["session", "scenarios", "backends", "fit", "copying", "faults"]
TESTS = {  # those of the module first
    **{name: ["scalar", *GRADIENTS] for name in ["scalar", "functions"]},
    **{name: [*GRADIENTS, *NETWORKS, "load"] for name in ENGINE},
    **{name: ["functional", "sparse", "properties"] for name in ["functional", "core/derivatives"]},
    "support/trees": ["trees", "functional", "sparse", "properties", "function"],
    "data": ["data"],
    "losses": ["losses", *NETWORKS],
    "optim": ["optim", *NETWORKS],
    "nn": NETWORKS,
    "support/files": ["files"],
    "support/collector": ["collector", "fit"],
    "compiler/stepping": ["fit", "scenarios", "backends", "shards", "faults"],
    **{
        name: ["fit", "scenarios", "backends", *NETWORKS, "data", "faults"]
        for name in ["support/validation", "support/signals"]
    },
    **{
        f"training/{name}": ["fit", "scenarios", "backends", "shards", "history", "faults"]
        for name in ["fit", "progress", "compiled", "trainer", "history"]
    },
    **{
        f"compiler/{name}": IN_PYTHON
        for name in [
            "frontend/tracer",
            "frontend/graph",
            "passes/expressions",
            "function",
            "compiled",
        ]
    },
    **{
        f"compiler/{name}": ["ir", "roll", *IN_C]
        for name in [
            "ir",
            "passes/__init__",
            "passes/vectorize",
            "passes/fuse",
            "passes/interchange",
            "passes/storage",
        ]
    },
    "compiler/passes/roll": ["roll", "ir", *IN_C],
    "compiler/passes/jam": ["jam", "ir", *IN_C],
    **{
        f"compiler/{name}": [name.rpartition("/")[2], *IN_PYTHON]
        for name in ["frontend/interpret", "frontend/wrappers", "targets/python"]
    },
    **{
        f"compiler/{name}": [name.rpartition("/")[2], *IN_C]
        for name in ["dataset", "frontend/products", "native/toolchain"]
    },
    "compiler/dtype": ["dtype"],
    "compiler/options": ["options", "function", "dtype"],
    **{
        f"compiler/{name}": IN_C
        for name in [
            "targets/c",
            "targets/c_runtime",
            "targets/spelling",
            "native/library",
        ]
    },
    **{
        f"compiler/{name}": [*TRAINING, *IN_C]
        for name in [
            "session",
            "native/buffers",
            "native/loop",
            "native/update",
            "frontend/redirect",
        ]
    },
    **{f"compiler/distributed/{name}": ["shards"] for name in ["pool", "worker", "shards", "map"]},
    "support/arrays": ["compiler/compiled", "arrays"],
    "compiler/targets/export": ["export", "javascript", "dtype"],
}


class Runner:
    """A copy of the checkout, in which a mutant takes its module's place while the tests run."""

    def __init__(self) -> None:
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
        every = sorted({name for names in TESTS.values() for name in names})
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
        path = self.directory / module
        original = path.read_text()
        path.write_text(code)
        try:
            return self.ask({"tests": TESTS[module.removeprefix("micrograd/").removesuffix(".py")], "compile": False})
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


def file_of(name: str) -> str:
    """The file of tests of this name, which the end of its path may precede: "fit", "training/compiled"."""
    room, _, module = name.rpartition("/")
    [found] = CHECKOUT.glob(f"tests/**/{room}/test_{module}.py" if room else f"tests/**/test_{module}.py")
    return str(found.relative_to(CHECKOUT))


def run_tests(names: list[str], quiet: bool) -> int:
    """Run these tests up to the first that fails, with what the fork has inherited; pytest's status."""
    import pytest

    os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.alarm(PATIENCE)
    os.dup2(os.open(os.devnull, os.O_RDWR) if quiet else 2, 1)
    if quiet:
        os.dup2(1, 2)
    for name in names:  # one after the other, since most mutants need only the first
        options = ["-x", "-q", "-n", "0", "--disable-warnings", "-p", "no:cacheprovider"]
        status = pytest.main([*options, file_of(name)], plugins=[Watchdog()])
        if status:
            return int(status)
    return 0


def serve() -> None:
    """For each line of names of tests, the outcome of running them in a fork."""
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
