"""Random nests of loops: a few programs, where the command runs many, and whether it would notice a wrong stride."""

import pytest

from micrograd.compiler.targets.c import Writer
from tests.fuzz import loops
from tests.helpers import has_compiler


@pytest.fixture
def nests(monkeypatch, capsys):
    """The exit status of the command for loops and what it prints, with the first compiler alone, which starts soon."""
    if not has_compiler():
        pytest.skip("there is no C compiler")
    ways = loops.ways()[:4]
    monkeypatch.setattr(loops, "ways", lambda: ways)

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["loops", *map(str, arguments)])
        status = loops.main()
        return status, capsys.readouterr().out

    return run


@pytest.mark.long
def test_rolled_loops_give_what_straight_code_does_with_and_without_optimization(nests):
    status, output = nests("--programs", 1)
    assert status == 0, output
    assert output.count("loops from ") == 3
    assert output.count("straight, ") == 1


def test_gcc_is_kept_from_taking_copies_for_aligned(nests):
    assert loops.differences(loops.generate(0, 9), loops.ways()[2:3]) == []  # without that, a crash of gcc 12's code


def place(array, base, *strides):
    return loops.Place(array, base, strides)


FAILED = {
    "reads of earlier rounds": (
        loops.Loop(6, (loops.Loop(1, (loops.Loop(1, (loops.Line(
            "dot",
            (place("c", 7, 0, -1, 0), place("w", 7, 0, 0, 1)),
            (place("r", 37, -6, 3, 1), place("x", 11, 4, -1, -1)),
            place("s", 6, 1, 1, 1),
        ),)),)),)),
    ),
    "totals of sums": (
        loops.Loop(4, (loops.Loop(8, (loops.Line(
            "total of sums",
            (place("w", 10, 1, 1), place("w", 3, 1, 4)),
            (place("s", 11, 1, 1), place("m", 9, 0, 1)),
            place("s", 9, 0, 1),
        ),)),)),
    ),
    "choices in reverse": (
        loops.Loop(4, (loops.Loop(2, (loops.Line(
            "branch",
            (place("w", 12, -3, 1), place("c", 9, 1, -1)),
            (place("x", 0, 0, 1), place("m", 11, -2, 1)),
            place("s", 10, -1, 4),
        ),)),)),
    ),
}  # fmt: skip
"""Programs that once computed wrong numbers in C."""


@pytest.mark.parametrize("program", FAILED.values(), ids=FAILED)
def test_programs_that_once_failed(program):
    _, first, second, *_ = loops.ways()
    assert loops.differences(program, [first, second]) == []


def test_other_compilers_agree_about_rolled_loops(monkeypatch, nests):
    monkeypatch.undo()
    assert loops.differences(loops.generate(1, 0), loops.ways()[4:]) == []


@pytest.mark.long
def test_a_loop_that_forgets_a_stride_is_found_and_shrunk(monkeypatch, nests):
    ref = Writer.ref
    monkeypatch.setattr(Writer, "ref", lambda self, place: ref(self, place._replace(strides=place.strides[:1])))
    straight, _, _, rolled = loops.ways()
    monkeypatch.setattr(loops, "ways", lambda: [straight, rolled])  # without optimization
    status, output = nests("--programs", 12)
    assert status == 1
    assert output.count("Line(") <= 1, output  # the sums of what a program leaves are a nest themselves
    assert "straight, " not in output


def test_programs_of_loops_use_every_kind_of_line_and_roll_into_nests():
    many = [loops.generate(0, index) for index in range(300)]
    lines = [line for program in many for line, *_ in loops.unrolled(program)]
    assert {line.kind for line in lines} == {*loops.KINDS, *loops.CELL_KINDS, loops.DOT}
    assert {place.array for line in lines for place in (*line.leaves, *line.others)} == set("xwcmrs")
    assert max(len(rounds) for program in many for _, *rounds in loops.unrolled(program)) == 4
