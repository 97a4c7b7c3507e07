"""Lanes: rounds of a loop in strips, with sums in parts."""

from micrograd.compiler.ir import Assign, Call, Loop, Ref, Sum, Term, show
from micrograd.compiler.passes.rounds import in_lanes

OWN, TOTAL = Ref("t1", 0, (0,)), Ref("t2", 3, (0,))
STEPS = (
    Assign(OWN, Call("neg", (Ref("x", 5, (2,)),))),
    Assign(TOTAL, Sum((Term("+", (TOTAL,)), Term("-", (OWN, Ref("p", 1, (0,)))), Term("+", (Ref("p", 1, (0,)),))))),
)
IN_LANES = """\
for i in 8:
    t2p[24+i] = -0.0
for i in 1:
    for j in 16:
        t1[j] = neg(x[5+32i+2j])
    t2[3] = t2[3] + p[1] * 16.0
    for j in 8:
        t2p[24+j] = t2p[24+j] - t1[j] * p[1] - t1[8+j] * p[1]
for i in 1:
    for j in 5:
        t1[j] = neg(x[37+10i+2j])
        t2p[24+j] = t2p[24+j] - t1[j] * p[1]
    t2[3] = t2[3] + p[1] * 5.0
for i in 1:
    t2[3+i] = t2[3+i] + sum(t2p[24+8i+j] for j in 8)
"""


def test_a_sum_in_lanes_has_parts_and_neighbouring_steps_share_a_loop_over_lanes():
    assert show(in_lanes([Loop(21, STEPS, parallel=True)])) == IN_LANES


def test_few_rounds_are_not_in_lanes():
    assert in_lanes([loop := Loop(15, STEPS, parallel=True)]) == [loop]
