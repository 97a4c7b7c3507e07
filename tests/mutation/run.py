"""Running the tests on mutants, in a copy of the checkout."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from tests.mutation import CHECKOUT
from tests.mutation.mutants import Mutant

PYTEST = ["pytest", "-p", "tests.mutation.session", "-n", "0", "-s"]


class Session:
    """A process that has collected tests and runs those it is asked for: see session.py."""

    def __init__(self, directory: Path, tests: Iterable[str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", *PYTEST, *tests],
            cwd=directory,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},  # a mutant's bytecode could pass for the next one's
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def outcome(self, *request: Any) -> str:
        """The outcome of a request: "killed", "timed out" or "survived"."""
        assert self.process.stdin
        assert self.process.stdout
        with suppress(BrokenPipeError):
            print(json.dumps(request), file=self.process.stdin, flush=True)
        for line in self.process.stdout:
            if line.startswith("outcome "):
                return line.removeprefix("outcome ").strip()
        return "killed"  # the tests cannot even be imported

    def close(self) -> None:
        """End the process."""
        self.process.communicate()


class Runner:
    """A copy of the checkout, in which a mutant takes the place of its module while the tests run.

    Functions get the mutant's code in a fork of a process that has imported all tests. If they pass, another process
    imports the mutant and runs them again, since the error may be in code that runs only on import. Raises
    RuntimeError if a test fails without any mutant.
    """

    def __init__(self, modules: list[str], tests: list[str]) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="mutation-"))
        hidden = shutil.ignore_patterns(".*", "__pycache__")
        shutil.copytree(CHECKOUT, self.directory, ignore=hidden, dirs_exist_ok=True)
        self.session = Session(self.directory, tests)
        if self.session.outcome("measure", modules) != "survived":
            raise RuntimeError("the tests fail without any mutant: see python -m pytest")
        measured = json.loads((self.directory / "coverage.json").read_text())
        self.seconds: dict[str, float] = measured["seconds"]
        self.tests: dict[str, dict[str, list[str]]] = measured["tests"]
        self.kills: Counter[str] = Counter()

    def outcome(self, mutant: Mutant) -> str:
        """The outcome of the tests that run the error, or else the code around it.

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
            outcome = self.session.outcome("run_changed", tests, mutant.module)
            if outcome == "survived":
                with closing(Session(self.directory, {test.partition("::")[0] for test in tests})) as session:
                    outcome = session.outcome("run", tests)
        finally:
            path.write_text(original, encoding="utf-8")
        if outcome == "killed" and (failed := self.directory / "failed").exists():
            self.kills[failed.read_text()] += 1
        return outcome

    def close(self) -> None:
        """End the process and remove the copy."""
        self.session.close()
        shutil.rmtree(self.directory)
