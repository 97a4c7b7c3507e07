"""The fuzzer: some programs, of which its command runs many, and whether it would notice a wrong derivative."""

from importlib.util import find_spec

import pytest

from micrograd import Value
from micrograd.compiler.targets.c import Writer
from micrograd.compiler.targets.python import TEMPLATES
from tests.fuzz import engines, loops, programs
from tests.fuzz.__main__ import described, main
from tests.fuzz.bounded import Bounded, UndecidedError
from tests.fuzz.compare import compare
from tests.fuzz.programs import KINDS, Step, code, generate, is_legal
from tests.helpers import has_compiler
from tests.javascript import needs_node


@pytest.fixture
def fuzz(monkeypatch, capsys):
    """The command's exit status and what it prints."""

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["fuzz", *map(str, arguments)])
        status = main()
        return status, capsys.readouterr().out

    return run


def test_compiled_python_and_pytorch_agree_with_the_eager_engine(fuzz):
    against = "torch,python" if find_spec("torch") else "python"
    status, output = fuzz("--programs", 200, "--against", against, "--batch", 20)
    assert status == 0, output
    assert "200 programs" in output


@pytest.mark.parametrize(("against", "programs"), [("c", 20), pytest.param("javascript", 40, marks=needs_node)])
def test_compiled_c_and_exported_javascript_agree_with_the_eager_engine(fuzz, against, programs):
    if against == "c" and not has_compiler():
        pytest.skip("there is no C compiler here")
    status, output = fuzz("--programs", programs, "--against", against, "--batch", 20)
    assert status == 0, output


def planted(kind):
    """The kind, with a derivative that is wrong in the seventh digit."""

    def apply(*operands):
        node = kind.apply(*operands)
        if any(node is operand for operand in operands):  # +x is x
            node = node * 1.0
        closure = node._backward
        node._backward = lambda grad: closure(grad * (1 + 1e-7))
        return node

    return kind._replace(apply=apply)


@pytest.mark.parametrize("name", KINDS)
def test_a_derivative_that_is_wrong_in_the_seventh_digit_is_found_and_shrunk_to_one_step(name, monkeypatch):
    if name in ("x ** 0", "0.0 ** x", "floor", "x // y"):
        pytest.skip("its derivative is 0")
    pytest.importorskip("torch")
    monkeypatch.setitem(programs.KINDS, name, planted(KINDS[name]))
    for index in range(1000):
        failures = compare([generate(2, index)], ["torch"]).failures
        if failures:
            break
    else:
        pytest.fail("not found in 1000 programs")
    output = described(failures[0])
    lines = [line for line in output.splitlines() if line.startswith("v")]
    assert sum("Value(" not in line for line in lines) == 1, output


def test_what_is_printed_runs_and_gives_the_gradients_that_it_says(capsys):
    for index in range(100):
        program = generate(3, index)
        exec(code(program), {})
        (result,) = engines.eager([program])
        assert capsys.readouterr().out == f"{result.value!r} {result.gradient!r}\n"


def test_a_wrong_template_of_compiled_python_is_found(monkeypatch, fuzz):
    monkeypatch.setitem(TEMPLATES, "atan", "-atan({0})")
    status, output = fuzz("--programs", 500, "--against", "python")
    assert status == 1
    assert output.count("atan(v") == 1, output
    assert output.count("Value(") == 1


def test_a_program_follows_from_the_seed_and_the_index(fuzz):
    assert generate(5, 7) == generate(5, 7)
    assert len({repr(generate(seed, index)) for seed in range(10) for index in range(10)}) == 100
    status, output = fuzz("--seed", 5, "--index", 7, "--against", "python")
    assert status == 0
    assert output.startswith(code(generate(5, 7)))


def test_programs_use_every_operation_and_reach_a_depth_of_500():
    many = [generate(0, index) for index in range(1000)]
    assert {node.kind for program in many for node in program if isinstance(node, Step)} == set(KINDS)
    assert max(map(depth, many)) >= 400
    assert all(map(is_legal, many))


def depth(program):
    depths = []
    for node in program:
        operands = [x for x in node.operands if type(x) is int] if isinstance(node, Step) else []
        depths.append(1 + max(depths[x] for x in operands) if operands else 0)
    return max(depths)


def test_a_bound_holds_what_cancellation_leaves_of_a_number():
    x = Bounded(1e8) * Bounded(1 / 3)
    difference = x - Bounded(1e8 / 3)
    assert 1e-9 < difference.error < 1e-6


def test_what_rounding_decides_is_undecided():
    with pytest.raises(UndecidedError):
        _ = Bounded(1.0, 1e-9) > Bounded(1.0)
    with pytest.raises(UndecidedError):
        _ = Bounded(6.0, 1e-9) % 2.0
    assert Value(Bounded(0.0)).relu().data.number == 0


# Loops


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
