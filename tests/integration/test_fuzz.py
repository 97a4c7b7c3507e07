"""Random nests of loops: a few programs, where the command runs many, and whether it would notice a wrong stride."""

import pytest

from micrograd import dot, where
from micrograd.compiler.targets.c import Writer
from tests.fuzz import loops
from tests.helpers import needs_compiler

pytestmark = needs_compiler


def test_gcc_is_kept_from_taking_copies_for_aligned():
    assert loops.differences(loops.generate(0, 9), loops.ways()[2:3]) == []  # without that, a crash of gcc 12's code


def reads_of_earlier_rounds(of):
    for _ in range(6):
        of.m.append(dot([of.c[7 - k] for k in range(11)], [of.m[-1 - (1 - k) % len(of.m)] for k in range(11)]))


def totals_of_sums(of):
    for i in range(4):
        for j in range(8):
            products = of.w[10 + i + j] * of.s[11 + i + j].tanh() + of.w[3 + i + 4 * j] * of.m[9 + j]
            of.s[9 + j] = of.s[9 + j] + products


def choices_in_reverse(of):
    for i in range(4):
        for j in range(2):
            x, m = of.x[j], of.m[11 - 2 * i + j]
            of.m.append(where(x > m, of.w[12 - 3 * i + j] * x, of.c[9 + i - j] * m))


@pytest.mark.parametrize("nest", [reads_of_earlier_rounds, totals_of_sums, choices_in_reverse])
def test_programs_that_once_computed_wrong_numbers_in_c(nest):
    _, first, second, *_ = loops.ways()
    assert loops.differences([nest], [first, second]) == []


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
    lines = [line for program in many for nest in program for line in loops.lines(nest)]
    assert {line.kind for line in lines} == {*loops.KINDS, *loops.CELL_KINDS, loops.DOT}
    assert {place.array for line in lines for place in (*line.leaves, *line.others)} == set("xwcmrs")
    assert max(len(line.cell.strides) for line in lines) == 4
