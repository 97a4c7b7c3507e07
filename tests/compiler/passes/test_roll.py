"""Rolling: repeated steps become loops, and repeated loops become nests, which compute the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from micrograd import Value
from micrograd.compiler.ir import Accumulate, Assign, Call, Loop, Ref, Sum, Term, show
from micrograd.compiler.passes.pipeline import Program
from micrograd.compiler.passes.roll import LONGEST_BODY, MOST_PERIODS, repeats, reroll
from tests.helpers import random_examples
from tests.kernels import interpreted

LEAVES = {"p": [2.0 - k % 5 for k in range(60)], "x": [0.5 + k * k % 7 for k in range(60)]}


def computed(kernel, n):
    parameters = list(map(Value, LEAVES["p"]))
    return interpreted(Program(kernel, [], n, [], {}), parameters, (LEAVES["x"],))


def check_rolled(steps, n):
    """Roll steps that set n results; see that they compute the same, by as many steps; return them."""
    kernel = reroll(steps)
    assert computed(kernel, n) == computed(steps, n)
    assert carried_out(kernel) == len(steps)
    return kernel


def carried_out(kernel):
    return sum(step.rounds * carried_out(step.body) if isinstance(step, Loop) else 1 for step in kernel)


def rounds(kernel):
    """Those of the outermost loops; 1 for a step."""
    return [step.rounds if isinstance(step, Loop) else 1 for step in kernel]


def neg(to, array, k):
    return Assign(Ref("y", to), Call("neg", (Ref(array, k),)))


def product(to, a, b):
    return Assign(Ref("y", to), Call("*", (Ref("x", a), Ref("p", b))))


@pytest.mark.parametrize("stride", [1, 3, -1, -2, 0])
def test_operands_may_advance_by_any_stride(stride):
    (loop,) = check_rolled([product(k, 30 + stride * k, k) for k in range(7)], 7)
    value = Call("*", (Ref("x", 30, (stride,)), Ref("p", 0, (1,))))
    assert loop == Loop(7, (Assign(Ref("y", 0, (1,)), value),))


def test_a_round_may_have_several_steps_up_to_a_limit():
    ops = ["neg", "abs", "exp", "tanh"]
    rounds = [(4 * k + i, op, 2 * k + i) for k in range(5) for i, op in enumerate(ops)]
    steps = [Assign(Ref("y", to), Call(op, (Ref("x", of),))) for to, op, of in rounds]
    (loop,) = check_rolled(steps, 20)
    assert (loop.rounds, [step.value.op for step in loop.body]) == (5, ops)
    for period, found in ((LONGEST_BODY, 3), (LONGEST_BODY + 1, 1)):
        kinds = list(range(period)) * 3
        assert next(repeats(kinds, [(0,)] * len(kinds)))[2] == found


def test_periods_above_the_limit_are_not_tried():
    for period, found in ((MOST_PERIODS, 3), (MOST_PERIODS + 1, 1)):
        bases = [(i * i,) for i in range(period)] * 3  # within a round, at no even distance
        assert next(repeats([0] * len(bases), bases))[2] == found


def test_loops_that_repeat_are_a_nest_and_neighbouring_nests_one():
    steps = [product(6 * i + j, j, 6 * i + j) for i in range(5) for j in range(6)]
    assert show(check_rolled(steps, 30)) == "for i in 5:\n    for j in 6:\n        y[6i+j] = x[j] * p[6i+j]\n"


def test_terms_of_a_sum_are_rolled_within_the_loops_around_it():
    terms = [Term("+", (Ref("p", 3 * k, (9,)), Ref("x", k, (0,)))) for k in range(3)]
    (loop,) = reroll(terms, 1)
    assert loop == Loop(3, (Term("+", (Ref("p", 0, (9, 3)), Ref("x", 0, (0, 1)))),))


def test_gradients_that_add_up_are_rolled_where_they_lie():
    steps = [Accumulate(Ref("g", 3 * k), Call("*", (Ref("x", k), Ref("p", 7)))) for k in range(6)]
    (loop,) = check_rolled(steps, 0)
    assert loop.body[0].target == Ref("g", 0, (3,))
    assert rounds(check_rolled([*steps, *[Accumulate(Ref("g", 3 * k), Ref("x", 3)) for k in range(6)]], 0)) == [6, 6]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(-3, 3)), max_size=60), st.sampled_from([1, LONGEST_BODY]))
@random_examples(200)
def test_repeats_cover_each_step_once_advance_evenly_and_are_as_long_as_possible(steps, longest):
    kinds, bases = [kind for kind, _ in steps], [(base, 2 * i) for i, (_, base) in enumerate(steps)]

    def is_even(start, end, period):
        rounds = range(start + period, end)
        strides = [[b - a for a, b in zip(bases[k - period], bases[k], strict=True)] for k in rounds if k < len(steps)]
        return end <= len(steps) and all(
            kinds[k] == kinds[k - period] and strides[i] == strides[i % period] for i, k in enumerate(rounds)
        )

    reached = 0
    for start, period, rounds in repeats(kinds, bases, longest=longest):
        assert start == reached
        assert period <= longest
        assert rounds == 1 or rounds >= 3
        reached += period * rounds
        assert is_even(start, reached, period)
        if longest == 1:
            assert not is_even(start, start + 3 if rounds == 1 else reached + 1, 1)
    assert reached == len(steps)


@st.composite
def kernels(draw):
    """Steps as nested loops leave them, which read results of earlier steps, with faults in the pattern."""
    steps = []

    def operand(source, rounds):
        array, base, strides = source
        at = base + sum(i * stride for i, stride in zip(rounds, strides, strict=False))
        return Ref("y", at % len(steps)) if array == "y" and steps else Ref("xp"[at % 2], (20 + at) % 60)

    number = st.integers(-2, 2)
    sources = st.tuples(st.sampled_from("xy"), st.integers(0, 12), st.tuples(number, number, number))
    for _ in range(draw(st.integers(1, 4))):
        outer, inner = draw(st.integers(1, 5)), draw(st.integers(1, 6))
        step = st.tuples(st.sampled_from(["neg", "tanh", "sum"]), sources, sources)
        body = draw(st.lists(step, min_size=1, max_size=3))
        for i in range(outer):
            for j in range(inner):
                for op, a, b in body:
                    x, y = operand(a, (i, j)), operand(b, (i, j))
                    value = Sum((Term("+", (x,)), Term("-", (y,)))) if op == "sum" else Call(op, (x,))
                    steps.append(Assign(Ref("y", len(steps)), value))
    return steps


@given(kernels())
@random_examples(50)
def test_rolled_loops_compute_what_the_straight_steps_do(steps):
    check_rolled(steps, len(steps))
