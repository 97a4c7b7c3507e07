"""The list of mutants that change nothing is about the code as it is."""

from tests.mutation import CHECKOUT, listed


def test_each_listed_mutant_is_of_a_line_that_is_there_and_has_a_reason():
    entries = listed()
    for entry in entries:
        lines = [line.strip() for line in (CHECKOUT / entry.module).read_text(encoding="utf-8").splitlines()]
        removed = [line[2:] for line in entry.change if line[0] == "-"]
        assert removed, entry
        assert [line for line in removed if line not in lines] == [], entry
        assert len(entry.reason) > 10, entry
    assert len({(entry.module, entry.change) for entry in entries}) == len(entries)
