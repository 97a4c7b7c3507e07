"""Lanes: rounds of a loop in strips, with sums in parts; and sums in the loops that compute their terms."""

import pytest

from micrograd.compiler.ir import Assign, Call, Loop, Ref, Sum, Switch, Term, show
from micrograd.compiler.passes.lanes import MANY, in_lanes, with_sums

OWN, TOTAL = Ref("t1", 0, (0,)), Ref("t2", 3, (0,))
STEPS = (
    Assign(OWN, Call("neg", (Ref("x", 5, (2,)),))),
    Assign(TOTAL, Sum((Term("+", (TOTAL,)), Term("-", (OWN, Ref("p", 1, (0,)))), Term("+", (Ref("p", 1, (0,)),))))),
)
IN_LANES = """\
for i in 8:
    tt2p[24+i] = -0.0
for i in 1:
    for j in 16:
        t1[j] = neg(x[5+32i+2j])
    for j in 8:
        tt2p[24+j] = tt2p[24+j] - t1[j] * p[1] + p[1] - t1[8+j] * p[1] + p[1]
for i in 5:
    t1[0] = neg(x[37+2i])
    t2[3] = t2[3] - t1[0] * p[1] + p[1]
for i in 1:
    t2[3+i] = t2[3+i] + sum(tt2p[24+8i+j] for j in 8)
"""


def test_a_sum_in_lanes_has_parts_and_neighbouring_steps_share_a_loop_over_lanes():
    assert show(in_lanes([Loop(21, STEPS, parallel=True)])) == IN_LANES


def test_a_sum_in_a_round_has_its_lanes_inside():
    step = Assign(TOTAL, Sum((Term("+", (TOTAL,)), Loop(3, (Term("+", (Ref("x", 5, (2, 50)),)),)))))
    _, strips, _ = in_lanes([Loop(32, (step,), parallel=True)])
    terms = " + ".join([f"x[{5 + 2 * 8 * i}+64i+50j+2k]" for i in range(4)])
    expected = f"for i in 1:\n    for j in 3:\n        for k in 8:\n            tt2p[24+k] = tt2p[24+k] + {terms}\n"
    assert show([strips]) == expected


def test_what_only_one_round_reads_has_one_place_for_all_rounds():
    own, read_later, total = Ref("t1", 7, (1,)), Ref("t1", 23, (1,)), Ref("t2", 0, (0,))
    both = Assign(own, Call("neg", (Ref("x", 0, (1,)),))), Assign(read_later, Call("abs", (own,)))
    loop = Loop(16, (*both, Assign(total, Sum((Term("+", (total,)), Term("+", (own,)))))))
    _, strips, *_ = in_lanes([loop, Loop(16, (Assign(Ref("y", 0, (1,)), read_later),))])
    expected = """\
for i in 1:
    for j in 16:
        t1_7[j] = neg(x[16i+j])
        t1[23+16i+j] = abs(t1_7[j])
    for j in 8:
        tt2p[j] = tt2p[j] + t1_7[j] + t1_7[8+j]
"""
    assert show([strips]) == expected


def at(array, base, *strides):
    return Ref(array, base, strides)


@pytest.mark.parametrize("loop", [
    Loop(15, STEPS, parallel=True),
    Loop(32, (Assign(TOTAL, Sum((Term("+", (TOTAL,)), Term("+", (at("t1", 0, 1),))))), Assign(at("t1", 1, 1), OWN))),
])  # fmt: skip
def test_few_rounds_and_a_sum_of_what_earlier_rounds_set_are_not_in_lanes(loop):
    assert in_lanes([loop]) == [loop]


def exps(to, of, *more, rounds=MANY):
    return Loop(rounds, (Assign(to, Call("exp", (of,))), *more))


def total(to, *factors, sign="+", first=(), rounds=MANY):
    return Assign(to, Sum((*first, Loop(rounds, (Term(sign, factors),)))))


X, A, B, C = at("x", 0, 1), at("t0", 0, 1), at("t0", MANY, 1), at("t1", 0, 1)
BOTH = exps(A, X, Assign(B, Call("neg", (A,))))


def test_sums_of_many_numbers_join_the_loop_that_computes_them():
    later = [total(at("t2", 0), A, X, first=(Term("-", (at("p", 0),)),)), Loop(2, (Assign(C, Call("sin", (X,))),))]
    kernel = [BOTH, *later, total(at("t2", 1), B), exps(at("y", 0, 1), B)]
    expected = f"""\
t2[0] = - p[0]
t2[1] = -0.0
for i in {MANY}:
    t0[i] = exp(x[i])
    t0[{MANY}+i] = neg(t0[i])
    t2[0] = t2[0] + t0[i] * x[i]
    t2[1] = t2[1] + t0[{MANY}+i]
    y[i] = exp(t0[{MANY}+i])
for i in 2:
    t1[i] = sin(x[i])
"""
    assert show(with_sums(kernel)) == expected


SUM = total(at("t2", 0), A)
APART = {
    "few numbers": [exps(A, X, rounds=MANY - 1), total(at("t2", 0), A, rounds=MANY - 1)],
    "numbers of later rounds": [exps(A, X), total(at("t2", 0), at("t0", 1, 1))],
    "a round reads the one before": [exps(at("t0", 1, 1), A), total(at("t2", 0), at("t0", 1, 1))],
    "a step between sets a factor": [exps(A, X), exps(C, X, rounds=2 * MANY), total(at("t2", 0), A, C)],
    "one of several cases sets a factor": [exps(A, X), Switch((0, 0), ((Assign(C, X),),)), total(at("t2", 0), A, C)],
    "it adds to a number that was computed": [exps(A, X), total(at("t2", 0), A, first=(Term("+", (at("t1", 9),)),))],
    "it multiplies by another sum": [exps(A, X), SUM, total(at("t2", 1), A, at("t2", 0, 0))],
    "the largest": [exps(A, X), total(at("t2", 0), A, sign=">")],
    "operations that take one number": [exps(A, X, Assign(B, Call("sin", (X,)))), SUM],
}


@pytest.mark.parametrize("kernel", APART.values(), ids=APART)
def test_other_sums_stay_apart(kernel):
    *_, last = with_sums(kernel)
    assert last.value.terms[-1] == kernel[-1].value.terms[-1]
