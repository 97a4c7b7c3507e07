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
for i in 2:
    for j in 5:
        t0[2+j] = t0[2+j] - p[37+36i+j] * x[8+8i] - p[46+36i+j] * x[10+8i]\
 - p[55+36i+j] * x[12+8i] - p[64+36i+j] * x[14+8i]
"""
LAST = "for i in 5:\n    t0[2+i] = t0[2+i] - p[109+i] * x[24] - p[118+i] * x[26]"
ADDED = f"{BY_FOUR}{LAST}\n"
AT_ONCE = "p[0] - p[1+i] * x[0] - p[10+i] * x[2] + x[3+i] * x[3+i] - p[0]"
FOUR = " - p[1+i] * x[0] - p[10+i] * x[2] - p[19+i] * x[4] - p[28+i] * x[6]\n"
LAST_TWO = "for i in 5:\n    t0[2+i] = t0[2+i] - p[37+i] * x[8] - p[46+i] * x[10]" + " + x[3+i] * x[3+i] - p[0]" * 2
FOLLOWING = f"{BY_FOUR}{LAST} + x[3+i] * x[3+i] - p[0]\n"


@pytest.mark.parametrize(("step", "expected"), [
    (Assign(T, Sum((TERMS,))), f"{FOUR}{ADDED}"),
    (Assign(T, Sum((TERMS._replace(rounds=12),))), f"{FOUR}{BY_FOUR}"),
    (Assign(T, Sum((FIRST, TERMS))), f"p[0]{FOUR}{ADDED}"),
    (Assign(T, Sum((FIRST, TERMS, *REST))), f"p[0]{FOUR}{FOLLOWING}"),
    (Assign(T, Sum((FIRST, TWO, *REST))), f"{AT_ONCE}\n"),
    (Assign(T, Sum((FIRST, TERMS._replace(rounds=6), *REST, *REST))), f"p[0]{FOUR}{LAST_TWO}\n"),
    (Accumulate(T, Sum((TERMS, *REST))), re.sub("= t0.*?]", "+=", f"{FOUR}{FOLLOWING}").replace("+= +", "+=")),
])  # fmt: skip
def test_a_sum_is_added_up_in_order_around_its_only_loop(step, expected):
    sign = "+=" if isinstance(step, Accumulate) else "="
    assert show(interchanged([Loop(5, (step,))])) == f"for i in 5:\n    t0[2+i] {sign} {expected}".replace("=  ", "= ")


def test_a_sum_with_two_loops_stays():
    assert interchanged([loop := Loop(5, (Assign(T, Sum((TERMS, FIRST, TERMS))),))]) == [loop]
