"""Errors are put where they should be, and the mutants listed as changing nothing are in the code."""

from tests.mutation import CHECKOUT, listed
from tests.mutation.mutants import mutants


def test_each_listed_mutant_is_there_and_has_a_reason():
    files = [file.read_text(encoding="utf-8") for file in (CHECKOUT / "micrograd").rglob("*.py")]
    there = {mutant.change for source in files for mutant in mutants("", source)}
    entries = listed()
    for entry in entries:
        assert entry.change in there, entry
        assert len(entry.reason) > 10, entry
    assert len({entry.change for entry in entries}) == len(entries)
