"""Interchange: sums with their terms in the outer loop."""

import re

import pytest

from micrograd.compiler.ir import Accumulate, Assign, Loop, Ref, Sum, Term, show
from micrograd.compiler.passes.interchange import interchanged

X, B, T = Ref("x", 3, (1,)), Ref("p", 0, (0,)), Ref("t0", 2, (1,))
FIRST, REST = Term("+", (B,)), (Term("+", (X, X)), Term("-", (B,)))
TERMS = Loop(14, (Term("-", (Ref("p", 1, (1, 9)), Ref("x", 0, (0, 2)))),))
TWO = TERMS._replace(rounds=2)
BY_FOUR = """\
for i in 3:
    for j in 5:
        t0[2+j] = t0[2+j] - p[1+36i+j] * x[8i] - p[10+36i+j] * x[2+8i] - p[19+36i+j] * x[4+8i] - p[28+36i+j] * x[6+8i]
"""
LAST = "for i in 5:\n    t0[2+i] = t0[2+i] - p[109+i] * x[24] - p[118+i] * x[26]"
ADDED = f"{BY_FOUR}{LAST}\n"
AT_ONCE = "p[0] - p[1+i] * x[0] - p[10+i] * x[2] + x[3+i] * x[3+i] - p[0]"
SIX = " ".join([f"- p[{1 + 9 * k}+i] * x[{2 * k}]" for k in range(6)] + ["+ x[3+i] * x[3+i] - p[0]"] * 2)
SIX = f"for i in 5:\n    t0[2+i] = t0[2+i] {SIX}\n"
FOLLOWING = f"{BY_FOUR}{LAST} + x[3+i] * x[3+i] - p[0]\n"


@pytest.mark.parametrize(("step", "expected"), [
    (Assign(T, Sum((TERMS,))), f"for i in 5:\n    t0[2+i] = -0.0\n{ADDED}"),
    (Assign(T, Sum((TERMS._replace(rounds=12),))), f"for i in 5:\n    t0[2+i] = -0.0\n{BY_FOUR}"),
    (Assign(T, Sum((FIRST, TERMS))), f"for i in 5:\n    t0[2+i] = p[0]\n{ADDED}"),
    (Assign(T, Sum((FIRST, TERMS, *REST))), f"for i in 5:\n    t0[2+i] = p[0]\n{FOLLOWING}"),
    (Assign(T, Sum((FIRST, TWO, *REST))), f"for i in 5:\n    t0[2+i] = {AT_ONCE}\n"),
    (Assign(T, Sum((FIRST, TERMS._replace(rounds=6), *REST, *REST))), f"for i in 5:\n    t0[2+i] = p[0]\n{SIX}"),
    (Accumulate(T, Sum((TERMS, *REST))), re.sub("= t0.*?]", "+=", FOLLOWING).replace("+= +", "+=")),
])  # fmt: skip
def test_a_sum_is_added_up_in_order_around_its_only_loop(step, expected):
    assert show(interchanged([Loop(5, (step,))])) == expected


def test_a_sum_with_two_loops_stays():
    assert interchanged([loop := Loop(5, (Assign(T, Sum((TERMS, FIRST, TERMS))),))]) == [loop]
