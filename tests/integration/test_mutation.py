"""The list of mutants that change nothing matches the current code."""

import ast

from tests.mutation import CHECKOUT, listed, run
from tests.mutation.changes import change, expressions

SOURCE = """
@cache
def size(self):
    return len(self.parts[0]) - 1

class Box:
    limit = -1.0

    def full(self):
        for part in self.parts:
            if part > self.limit and part:
                break
"""


def test_each_listed_mutant_is_of_an_expression_that_is_there_and_has_a_reason():
    there = {
        f"{function}: {expression} -> "
        for file in (CHECKOUT / "micrograd").rglob("*.py")
        for function, expression in expressions(ast.parse(file.read_text(encoding="utf-8")))
    }
    entries = listed()
    for entry in entries:
        assert entry.change.partition(" -> ")[0] + " -> " in there, entry
        assert len(entry.reason) > 10, entry
    assert len({entry.change for entry in entries}) == len(entries)


def test_modules_and_the_tests_that_they_are_tried_with_are_there():
    paths = [CHECKOUT / "micrograd" / name for name in run.ALSO]
    assert [path for path in paths if not (path.is_dir() or path.with_suffix(".py").is_file())] == []
    assert [name for names in run.ALSO.values() for name in names if len(run.files_of(name)) != 1] == []
    assert run.tests_of("support/files") == ["tests/support/test_files.py"]
    assert run.tests_of("draw/shell") == []


def test_a_change_is_named_by_its_function_and_expression_wherever_they_are():
    for before, after, named in (
        ("parts[0]", "parts[1]", "size: self.parts[0] -> self.parts[1]"),
        (") - 1", ") - 2", "size: len(self.parts[0]) - 1 -> len(self.parts[0]) - 2"),
        ("@cache\n", "", "size: cache -> nothing"),
        ("-1.0", "-2.0", "Box: limit = -1.0 -> limit = -2.0"),
        (" > ", " >= ", "Box.full: part > self.limit -> part >= self.limit"),
        ("in self.parts:", "in []:", "Box.full: self.parts -> []"),
        ("break", "continue", "Box.full: break -> continue"),
    ):
        for lines_above in ("", "import math\n\n"):
            old = lines_above + SOURCE
            assert str(change(old, old.replace(before, after))) == named
