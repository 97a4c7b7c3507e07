"""Errors are put where they should be, and the mutants listed as changing nothing are in the code."""

import ast

from tests.mutation import CHECKOUT, listed
from tests.mutation.mutants import mutants

SOURCE = """
@cache
def size(self):
    return len(self.parts[0]) - (
        1
    )

class Box:
    limit: float = -1.0  # ä

    def full(self):
        for part in self.parts:
            if part > self.limit and part:
                break
        return f"{not part}", zip(part, part, strict=True)
"""
FOUND = {
    "size: cache -> lambda it: it": ("@cache", "@(lambda it: it)"),
    "size: self.parts[0] -> self.parts[1]": ("[0]", "[(1)]"),
    "size: self.parts[0] -> self.parts[-1]": ("[0]", "[(-1)]"),
    "size: len(self.parts[0]) - 1 -> len(self.parts[0]) - 2": ("        1", "        (2)"),
    "size: len(self.parts[0]) - 1 -> len(self.parts[0]) - 0": ("        1", "        (0)"),
    "size: len(self.parts[0]) - 1 -> len(self.parts[0]) + 1": (
        "len(self.parts[0]) - (\n        1\n    )",
        "(len(self.parts[0]) + 1\n\n)",
    ),
    "Box: limit: float = -1.0 -> limit: float = +1.0": ("-1.0", "(+1.0)"),
    "Box: limit: float = -1.0 -> limit: float = -2.0": ("1.0", "(2.0)"),
    "Box: limit: float = -1.0 -> limit: float = -0.0": ("1.0", "(0.0)"),
    "Box.full: self.parts -> []": ("self.parts:", "([]):"),
    "Box.full: part > self.limit -> part >= self.limit": ("part > self.limit", "(part >= self.limit)"),
    "Box.full: part > self.limit -> part <= self.limit": ("part > self.limit", "(part <= self.limit)"),
    "Box.full: part > self.limit and part -> part > self.limit or part": (
        "part > self.limit and part",
        "(part > self.limit or part)",
    ),
    "Box.full: part > self.limit and part -> not (part > self.limit and part)": (
        "part > self.limit and part",
        "(not (part > self.limit and part))",
    ),
    "Box.full: break -> continue": ("break", "continue"),
    "Box.full: {not part} -> {part}": ('f"{not part}"', "(f'{part}')"),
}


def test_each_listed_mutant_is_there_and_has_a_reason():
    files = [file.read_text(encoding="utf-8") for file in (CHECKOUT / "micrograd").rglob("*.py")]
    there = {mutant.change for source in files for mutant in mutants("", source)}
    entries = listed()
    for entry in entries:
        assert entry.change in there, entry
        assert len(entry.reason) > 10, entry
    assert len({entry.change for entry in entries}) == len(entries)


def test_an_error_is_named_by_its_function_and_expression_and_leaves_the_other_lines_where_they_are():
    for lines_above in ("", "import math\n\n"):
        source = lines_above + SOURCE
        found = {mutant.change: mutant.source for mutant in mutants("box", source)}
        assert found == {change: source.replace(*words, 1) for change, words in FOUND.items()}
        for changed in found.values():
            ast.parse(changed)
            assert changed.count("\n") == source.count("\n")
