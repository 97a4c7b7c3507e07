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

PYTEST = [
    "pytest",
    "-p",
    "tests.mutation.session",
    "-p",
    "no:cacheprovider",
    "-n",
    "0",
    "-q",
    "-s",
    "--disable-warnings",
]


class Session:
    """A process that has collected tests and runs those it is asked for: see session.py."""

    def __init__(self, directory: Path, tests: Iterable[str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", *PYTEST, *tests],
            cwd=directory,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},  # a mutant's could be taken for the next one's
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def outcome(self, *request: Any) -> str:
        """What comes of a request: "killed", "timed out" or "survived"."""
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

    Functions get the mutant's code in a fork of a process that has imported all tests. If they do not notice, a process
    of its own imports the mutant and runs them again, since the error may be in what runs only then.
    """

    def __init__(self, tests: list[str]) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="mutation-"))
        files = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard"], cwd=CHECKOUT, capture_output=True, text=True, check=True
        ).stdout
        for file in files.splitlines():
            (self.directory / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(CHECKOUT / file, self.directory / file)
        self.session = Session(self.directory, tests)
        self.kills: Counter[str] = Counter()

    def coverage(self, modules: list[str]) -> "Coverage":
        """What the tests run of the modules. Raises RuntimeError if one fails."""
        if self.session.outcome("measure", modules) != "survived":
            raise RuntimeError("the tests fail as it is: see python -m pytest")
        return Coverage(**json.loads((self.directory / "coverage.json").read_text()))

    def outcome(self, mutant: Mutant, tests: list[str]) -> str:
        """Whether the tests notice; those that have noticed most so far come first."""
        tests = sorted(tests, key=lambda test: -self.kills[test])
        path = self.directory / "micrograd" / f"{mutant.module}.py"
        original = path.read_text(encoding="utf-8")
        path.write_text(mutant.source, encoding="utf-8")
        try:
            outcome = self.session.outcome("run_changed", tests, mutant.module)
            if outcome == "survived":
                files = dict.fromkeys(test.partition("::")[0] for test in tests)
                with closing(Session(self.directory, files)) as session:
                    outcome = session.outcome("run", tests)
            if outcome == "killed" and (failed := self.directory / "failed").exists():
                self.kills[failed.read_text()] += 1
            return outcome
        finally:
            path.write_text(original, encoding="utf-8")

    def close(self) -> None:
        """End the process and remove the copy."""
        self.session.close()
        shutil.rmtree(self.directory)


class Coverage:
    """Which tests run which lines of modules, and how many seconds each takes."""

    def __init__(self, seconds: dict[str, float], lines: dict[str, dict[str, list[str]]]) -> None:
        self.seconds = seconds
        self.lines = {module: {int(n): tests for n, tests in found.items()} for module, found in lines.items()}

    def tests_of(self, mutant: Mutant) -> list[str]:
        """The tests that run the line of the error, or else the code around it, the quickest first.

        What runs when the module is imported is run by no test.
        """
        lines = self.lines[mutant.module]
        for span in (*mutant.spans, lines):
            if tests := {test for line in span for test in lines.get(line, ())}:
                break
        return sorted(tests, key=self.seconds.__getitem__)
