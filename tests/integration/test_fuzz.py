"""Random nests of loops: a few programs, where the command runs many, and whether it would notice a wrong stride."""

import pytest

from micrograd.compiler.targets.c import Writer
from tests.fuzz import loops
from tests.helpers import needs_compiler

pytestmark = needs_compiler


def test_gcc_is_kept_from_taking_copies_for_aligned():
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


def test_other_compilers_agree_about_rolled_loops():
    assert loops.differences(loops.generate(1, 0), loops.ways()[4:]) == []


@pytest.mark.long
def test_a_loop_that_forgets_a_stride_is_found(monkeypatch):
    ref = Writer.ref
    monkeypatch.setattr(Writer, "ref", lambda self, place: ref(self, place._replace(strides=place.strides[:1])))
    straight, _, _, rolled, *_ = loops.ways()
    assert [rolled] in [loops.differences(loops.generate(0, index), [straight, rolled]) for index in range(3)]


def test_programs_of_loops_use_every_kind_of_line_and_roll_into_nests():
    many = [loops.generate(0, index) for index in range(300)]
    lines = [line for program in many for line, *_ in loops.unrolled(program)]
    assert {line.kind for line in lines} == {*loops.KINDS, *loops.CELL_KINDS, loops.DOT}
    assert {place.array for line in lines for place in (*line.leaves, *line.others)} == set("xwcmrs")
    assert max(len(rounds) for program in many for _, *rounds in loops.unrolled(program)) == 4
