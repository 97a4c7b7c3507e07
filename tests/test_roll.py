"""Rolling: what repeats becomes loops, and loops that repeat become nests, which compute the same."""

import math
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from micrograd.compiler.roll import LONGEST_PERIOD, ZERO, Element, Line, Loop, elements, roll
from micrograd.compiler.statements import Statement
from tests.test_properties import GRAPHS


def straight(lines):
    """Statements from a template and operands each, which are negative for leaves and else the number of a line."""
    return [Statement(id, template, operands) for id, (template, operands) in enumerate(lines)]


def evaluate(template, numbers):
    return eval(template.format(*map(repr, numbers)), {})


def interpret(program, memory):
    """Do what the program says, with `memory[array][index]`."""
    for step in program:
        perform(step, memory, ())


def place(element, rounds):
    return element.array, element.base + sum(i * stride for i, stride in zip(rounds, element.strides, strict=True))


def perform(step, memory, rounds, now=None, before=None):
    """Do a line or a loop in these rounds of the loops around; `now` and `before` are what lines came to."""

    def read(element):
        array, index = place(element, rounds)
        return float(array) if element.array == ZERO.array else memory[array][index]

    if isinstance(step, Loop):
        before = None
        for i in range(step.rounds):
            now = {}
            for inner in step.body:
                perform(inner, memory, (*rounds, i), now, before)
            before = now
        for line in step.body:
            if isinstance(line, Line) and line.last:
                array, index = place(line.last, (*rounds, 0))
                memory[array][index] = before[line.number]
        return
    numbers = []
    for operand in step.operands:
        if isinstance(operand, Element):
            numbers.append(read(operand))
        elif isinstance(operand, int):
            numbers.append(now[operand])
        else:
            numbers.append(before[operand[1]] if before else read(operand[0]))
    result = evaluate(step.template, numbers)
    if now is not None:
        now[step.number] = result
    if step.every:
        array, index = place(step.every, rounds)
        memory[array][index] = result


def count(steps):
    """How many lines are carried out."""
    return sum(1 if isinstance(step, Line) else step.rounds * count(step.body) for step in steps)


def check_rolled(lines, places, results, accumulator=(), gradients=()):
    """Roll the lines; see that the program computes the same; return it without what copies the results."""
    accumulator = dict(accumulator)
    memory = {"x": [0.5 + k * k % 7 for k in range(60)], "p": [2.0 - k % 5 for k in range(60)], "g": [0.25] * 60}
    expected, sums = {}, list(memory["g"])
    for statement in straight(lines):
        numbers = []
        for operand in statement.operands:
            if operand >= 0:
                numbers.append(expected[operand])
            elif places[operand] == ZERO:
                numbers.append(-0.0)
            else:
                array, index, _ = places[operand]
                numbers.append((sums if array == "g" else memory[array])[index])
        expected[statement.id] = evaluate(statement.template, numbers)
        if statement.id in accumulator:
            sums[accumulator[statement.id]] = expected[statement.id]
    program = roll(straight(lines), dict(places), accumulator, results, dict(gradients))
    memory |= {"y": [math.nan] * len(results)}
    for array in {element.array for step in program for element, _ in elements(step)} - set(memory):
        memory[array] = defaultdict(lambda array=array: -0.0 if array[0] == "+" else math.nan)
    interpret(program, memory)
    assert memory["y"] == [expected[id] for id in results]
    assert memory["g"] == sums
    assert count(program) == len(lines) + len(results)
    return [step for step in program if "y" not in {element.array for element, _ in elements(step)}]


def leaf(array, k):
    return -1 - k - 100 * ["x", "p", "g"].index(array)


PLACES = {leaf(array, k): Element(array, k) for array in "xpg" for k in range(60)} | {-1000: ZERO}


def rounds(program):
    """Those of the outermost loops; 1 for a line."""
    return [1 if isinstance(step, Line) else step.rounds for step in program]


def test_a_sum_is_rolled_into_one_loop_with_a_carried_value():
    lines = [("{} * {}", (leaf("x", 0), leaf("p", 0)))]
    lines += [("{} + {} * {}", (k, leaf("x", k + 1), leaf("p", k + 1))) for k in range(8)]
    loops = check_rolled(lines, PLACES, [8])
    assert rounds(loops) == [1, 8]
    (line,) = loops[1].body
    assert line.operands[0] == (loops[0].every._replace(strides=(0,)), 0)
    assert line.operands[1:] == (Element("x", 1, (1,)), Element("p", 1, (1,)))
    assert (line.every, line.last) == (None, Element("t1", 0, (0,)))


@pytest.mark.parametrize("stride", [1, 3, -1, -2, 0])
def test_operands_may_advance_by_any_stride(stride):
    lines = [("{} * {}", (leaf("x", 30 + stride * k), leaf("p", k))) for k in range(7)]
    (loop,) = check_rolled(lines, PLACES, range(7))
    assert loop == (
        7,
        (Line(0, "{} * {}", (Element("x", 30, (stride,)), Element("p", 0, (1,))), Element("t0", 0, (1,))),),
    )


def test_too_few_rounds_stay_as_they_are():
    lines = [("-{}", (leaf("x", k),)) for k in range(4)]
    assert rounds(check_rolled(lines[:3], PLACES, range(3))) == [1, 1, 1]
    assert rounds(check_rolled(lines, PLACES, range(4))) == [4]


def test_a_round_of_up_to_16_statements_is_found_and_parted_and_one_of_up_to_128_as_it_stands():
    for period, found in ((16, [4] * 16), (17, [4]), (128, [4]), (129, [1] * 4 * 129)):
        lines = [(f"{{}} + {i}.0", (leaf("x", k),)) for k in range(4) for i in range(period)]
        assert rounds(check_rolled(lines, PLACES, range(len(lines)))) == found


def test_a_run_ends_where_the_stride_or_the_template_or_the_array_changes():
    for odd in (("-{}", (leaf("x", 9),)), ("+{}", (leaf("x", 5),)), ("-{}", (leaf("p", 5),))):
        lines = [("-{}", (leaf("x", k),)) for k in range(5)] + [odd] + [("-{}", (leaf("x", k),)) for k in range(6, 11)]
        assert rounds(check_rolled(lines, PLACES, range(11))) == [5, 1, 5]


def test_rounds_of_several_lines_are_found_and_what_is_independent_is_parted():
    lines = []
    for k in range(6):
        lines += [("{} * {}", (leaf("x", k), leaf("p", k))), ("{} - {}", (3 * k, leaf("p", 20 - k))),
                  ("{} + {}", (leaf("x", 2 * k), leaf("x", 40)))]  # fmt: skip
    loops = check_rolled(lines, PLACES, [1, 4, 7, 10, 13, 16, 2, 5])
    assert [(loop.rounds, [line.number for line in loop.body]) for loop in loops] == [(6, [0, 1]), (6, [2])]


def test_what_one_line_carries_to_another_keeps_them_together():
    lines = [("-{}", (leaf("x", 0),)), ("-{}", (leaf("x", 1),))]
    for k in range(6):
        lines += [("{} + {}", (2 * k + 1, leaf("x", k))), ("{} * {}", (2 * k, leaf("p", 0)))]
    loops = check_rolled(lines, PLACES, [len(lines) - 1, len(lines) - 2])
    assert max(len(loop.body) for loop in loops if isinstance(loop, Loop)) == 2


def test_a_number_in_the_middle_of_a_run_may_be_needed_after_it():
    lines = [("-{}", (leaf("x", 0),))] + [("{} + {}", (k, leaf("x", k + 1))) for k in range(9)]
    for needed in ([5], [9, 4], [1], [9, 8], range(10)):
        loops = check_rolled([*lines, ("{} * {}", (needed[0], leaf("p", 0)))], PLACES, [*needed, 10])
        assert rounds(loops) == [1, 9, 1]


def test_what_reaches_back_more_than_a_round_is_not_mistaken():
    lines = [("-{}", (leaf("x", 0),)), ("-{}", (leaf("x", 5),))]
    lines += [("{} + {}", (k + 1, k)) for k in range(10)]
    check_rolled(lines, PLACES, [11])


def test_a_first_round_that_refers_to_another_line_is_not_mistaken():
    lines = []
    for k in range(6):
        lines += [("-{}", (leaf("x", k),)), ("{} + {}", (2 * max(k - 1, 0), leaf("p", k)))]
    check_rolled(lines, PLACES, range(12))
    lines = []
    for k in range(6):
        lines += [("-{}", (leaf("x", 2 * k),)), ("-{}", (leaf("x", 2 * k + 1),))]
        lines += [("{} + {}", (3 * k + (k > 0), leaf("p", k)))]
    check_rolled(lines, PLACES, range(18))


def test_gradients_that_add_up_are_rolled_where_they_lie():
    lines = [("{} + {} * {}", (leaf("g", 3 * k), leaf("x", k), leaf("p", 7))) for k in range(6)]
    (loop,) = check_rolled(lines, PLACES, [], {k: 3 * k for k in range(6)})
    assert loop.body[0].every == Element("g", 0, (3,))
    again = lines + [("{} + {}", (k, leaf("x", 3))) for k in range(6)]
    check_rolled(again, PLACES, [], {k: 3 * (k % 6) for k in range(12)})


@st.composite
def programs(draw):
    """Lines that repeat, with strides, carried values and faults in the pattern."""
    lines, accumulator, free = [], {}, set(range(60))
    for _ in range(draw(st.integers(1, 4))):
        body = draw(st.lists(st.tuples(
            st.sampled_from(["-{}", "{} + {}", "{} * {} - {}", "{} - {}"]),
            st.lists(st.tuples(st.sampled_from(["x", "p", "line"]), st.integers(0, 12), st.integers(-2, 2)), min_size=3,
                     max_size=3),
        ), min_size=1, max_size=4))  # fmt: skip
        for k in range(draw(st.integers(1, 8))):
            for template, operands in body:
                places = []
                for kind, base, stride in operands[: template.count("{}")]:
                    at = len(lines) - 1 - base
                    array = "x" if kind == "line" else kind
                    places.append(at if kind == "line" and at >= 0 else leaf(array, 20 + base + stride * k))
                lines.append((template, tuple(places)))
        if draw(st.booleans()):
            cells = sorted(draw(st.sets(st.sampled_from(sorted(free)), max_size=6))) if len(free) > 6 else []
            for cell in cells:
                accumulator[len(lines)] = cell
                lines.append(("{} + {}", (leaf("g", cell), draw(st.integers(0, len(lines) - 1)))))
                free.discard(cell)
    results = draw(st.lists(st.integers(0, len(lines) - 1), max_size=6, unique=True))
    return lines, [id for id in results if id not in accumulator], accumulator


@given(programs())
@settings(GRAPHS, max_examples=400)
def test_rolled_loops_compute_what_the_straight_lines_do(program):
    lines, results, accumulator = program
    shortened = [(f"(({template}) % 1009.0)", operands) for template, operands in lines]  # so that nothing overflows
    check_rolled(shortened, PLACES, results, accumulator)


# Nests


def test_a_matrix_times_a_vector_is_a_nest():
    lines = []
    for i in range(5):
        for j in range(6):
            lines.append(("{} + {} * {}", (len(lines) - 1 if j else -1000, leaf("p", 6 * i + j), leaf("x", j))))
    (rows,) = check_rolled(lines, PLACES, range(5, 30, 6))
    (columns,) = rows.body
    (line,) = columns.body
    assert (rows.rounds, columns.rounds) == (5, 6)
    assert line.operands == ((Element("-0.0", 0, (0, 0)), 0), Element("p", 0, (6, 1)), Element("x", 0, (0, 1)))
    assert line.last == Element("t0", 0, (1, 0))


def far_sums(terms, n):
    """The lines of sums that get their terms in turns, and those of the results."""
    lines, sums = [], [-1000] * n
    for i in range(terms):
        for j in range(n):
            lines.append(("{} + {} * {}", (sums[j], leaf("p", i + j), leaf("x", i))))
            sums[j] = len(lines) - 1
    return lines, sums


def test_sums_whose_terms_are_far_from_one_another_are_added_up_in_place():
    lines, sums = far_sums(5, LONGEST_PERIOD + 1)
    (terms,) = check_rolled(lines, PLACES, sums)
    (each,) = terms.body
    (line,) = each.body
    assert (terms.rounds, each.rounds) == (5, LONGEST_PERIOD + 1)
    assert line.every == line.operands[0] == Element("+", 0, (0, 1))
    lines, sums = far_sums(4, 7)
    assert "+" not in {element.array for step in check_rolled(lines, PLACES, sums) for element, _ in elements(step)}


def test_a_gradient_lies_in_its_array_as_what_it_is_of_does_in_its_own():
    lines, sums = far_sums(5, LONGEST_PERIOD + 1)
    forward = [("-{}", (leaf("x", j),)) for j in range(20)]
    lines = forward + [(text, (a + 20 if a >= 0 else a, b, c)) for text, (a, b, c) in lines]
    sums = [id + 20 for id in sums]
    _, nest = check_rolled(lines, PLACES, [*range(20), *sums], gradients={id: 19 - j for j, id in enumerate(sums)})
    assert nest.body[0].body[0].every == Element("+t0", 19, (0, -1))
    check_rolled(lines, PLACES, [*range(20), *sums], gradients=dict.fromkeys(sums, 7))  # but no two in one place


@st.composite
def nests(draw):
    """Lines as loops within loops leave them: strides in both directions, sums, tables, reads of earlier rounds."""
    lines, accumulator, gradients, results = [], {}, {}, {}

    def number(spread):
        return draw(st.integers(-spread, spread))

    def body(depth):
        steps = []
        for _ in range(draw(st.integers(1, 3))):
            if depth < 3 and draw(st.booleans()):
                steps.append((draw(st.sampled_from([1, 3, 4, 5, 6, LONGEST_PERIOD + 1][: 6 - depth])), body(depth + 1)))
            else:
                kind = draw(st.sampled_from(["map", "map", "sum", "gradient"]))
                sources = [
                    (draw(st.sampled_from(["x", "p", "line", "before"])), number(3), [number(2) for _ in range(3)])
                    for _ in range(2)
                ]
                steps.append((kind, sources, number(3), [draw(st.integers(0, 3)) for _ in range(3)]))
        return steps

    def operand(source, rounds):
        array, base, strides = source
        at = base + sum(i * stride for i, stride in zip(rounds, strides, strict=False))
        if array in ("x", "p"):
            return leaf(array, (30 + at) % 60)
        if len(readable) <= 6:
            return leaf("x", base + 3)
        return readable[at % len(readable) if array == "before" else len(readable) - 4 - base]

    def emit(steps, rounds, where):
        for k, step in enumerate(steps):
            if len(step) == 2:
                for i in range(step[0]):
                    emit(step[1], (*rounds, i), (*where, k))
                continue
            if len(lines) > 1500:
                return
            kind, sources, base, strides = step
            a, b = (operand(source, rounds) for source in sources)
            at = base + sum(i * stride for i, stride in zip(rounds, strides, strict=False))
            id = len(lines)
            if kind == "map":
                lines.append(("({} - {}) % 1009.0", (a, b)))
                readable.append(id)
            elif kind == "sum":
                cell = *where, k, at
                lines.append(("{} + {} * {}", (results.get(cell, -1000), a, b)))
                results[cell] = id
                if id % 97 == 0:
                    readable.append(id)
            else:
                cell = (7 * len(where) + at) % 60
                before = gradient.get(cell, leaf("g", cell))
                lines.append(("{} + {} * {}", (before, a, b)))
                accumulator[id], gradient[cell] = cell, id

    readable, gradient = [], {}
    for _ in range(draw(st.integers(1, 3))):
        steps = body(0)
        emit(steps, (), (len(lines),))
        readable += list(results.values())[-40:]
        gradients |= {id: id * 7 // 10 for id in list(results.values())[-10:]}
    needed = draw(st.lists(st.sampled_from(readable), max_size=30)) if readable else []
    return lines, needed, accumulator, gradients


@given(nests())
@settings(GRAPHS, max_examples=300)
def test_nests_compute_what_the_straight_lines_do(program):
    lines, results, accumulator, gradients = program
    check_rolled(lines, PLACES, results, accumulator, gradients)
