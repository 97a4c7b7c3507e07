"""Fusion: neighbouring loops are joined where no round needs what a later one of the first does."""

import pytest

from micrograd.compiler.ir import Accumulate, Assign, Call, Loop, Ref
from micrograd.compiler.passes.dependence import is_parallel
from micrograd.compiler.passes.fuse import fuse


def loop(to, of, rounds=5, step=Assign):
    return Loop(rounds, (step(to, Call("exp", (of,))),))


def at(base, *strides, array="t"):
    return Ref(array, base, strides)


X = at(0, 1, array="x")
JOINED = {
    "what the same round has set": (loop(at(0, 1), X), loop(at(9, 1), at(0, 1))),
    "what an earlier round has set": (loop(at(1, 1), X), loop(at(9, 1), at(0, 1))),
    "what an earlier round has set, backwards": (loop(at(4, -1), X), loop(at(9, 1), at(5, -1))),
    "other places in every round": (loop(at(0, 2), X), loop(at(1, 2), X)),
    "other numbers": (loop(at(0, 1), X), loop(at(9, 1), X)),
    "both only read": (loop(at(10, 1), at(4, 0)), loop(at(20, 1), at(4, 0))),
    "one number after all rounds": (loop(at(0, 1), X), loop(at(9, 1), at(5, 1))),
}
APART = {
    "what a later round has set": (loop(at(0, 1), X), loop(at(9, 1), at(1, 1))),
    "what a later round has set, backwards": (loop(at(4, -1), X), loop(at(9, 1), at(3, -1))),
    "what a later round has read": (loop(at(9, 1), at(0, 1)), loop(at(1, 1), X)),
    "the order of all": (loop(at(0, 1), X), loop(at(9, 1), at(4, -1))),
    "one number": (loop(at(0, 1), X), loop(at(9, 1), at(2, 0))),
    "uneven places": (loop(at(0, (0, 3, 1, 7, 2)), X), loop(at(9, 1), at(0, (0, 3, 1, 7, 2)))),
    "a gradient": (loop(at(0, 0, array="g"), X, step=Accumulate), loop(at(0, 0, array="g"), X, step=Accumulate)),
    "other rounds": (loop(at(0, 1), X), loop(at(9, 1), X, rounds=6)),
}


@pytest.mark.parametrize("pair", [*JOINED.values(), *APART.values()], ids=[*JOINED, *APART])
def test_neighbours_are_joined_or_kept_apart(pair):
    first, second = pair
    assert fuse(pair) == ([Loop(5, (*first.body, *second.body))] if pair in JOINED.values() else list(pair))


N = 516
NEXT = [Ref("t", base + N - 1) for base in (0, 2 * N, 4 * N)]
ALMOST = {
    "the first is longer": (
        (loop(at(0, 1), X, N), loop(at(2 * N, 1), at(0, 1), N - 1)),
        [Assign(NEXT[0], Call("exp", (Ref("x", N - 1),)))],
    ),
    "the second is longer, and needs a number between": (
        (loop(at(0, 1), X, N - 1), Assign(NEXT[0], Ref("x")), loop(at(2 * N, 1), at(0, 1), N)),
        [Assign(NEXT[0], Ref("x")), Assign(NEXT[1], Call("exp", (NEXT[0],)))],
    ),
    "no": ((loop(at(0, 1), X, N), loop(at(2 * N, 1), at(0, 1), N - 3)), None),
    "few rounds": ((loop(at(0, 1), X, 513), loop(at(2 * N, 1), at(0, 1), 512)), None),
    "the rest is read first": ((loop(at(0, 1), X, N), loop(at(2 * N, 1), at(1, 1), N - 1)), None),
    "a number between": ((loop(at(0, 1), X, N - 1), Assign(Ref("t", 5), X), loop(at(2 * N, 1), at(0, 1), N)), None),
}


@pytest.mark.parametrize(("steps", "rest"), ALMOST.values(), ids=ALMOST)
def test_loops_join_that_have_almost_the_same_number_of_rounds(steps, rest):
    joined = Loop(N - 1, (*steps[0].body, *steps[-1].body))
    assert fuse(steps) == (list(steps) if rest is None else [joined, *rest])


def line(to, of):
    return Assign(to, Call("exp", (of,)))


MOVED = {
    "past a number": line(at(30), at(5)),
    "past a loop": loop(at(30, 1), at(40, 1), rounds=6),
    "past what reads the same": loop(at(30, 1), X, rounds=5 + 1),
}
STAYS = {
    "what it needs is set between": line(at(2), at(40)),
    "what it sets is read between": line(at(30), at(11)),
    "what it sets is set between": loop(at(8, 1), X, rounds=2),
    "a gradient": loop(at(1, 1, array="g"), X, rounds=3, step=Accumulate),
}


@pytest.mark.parametrize("between", [*MOVED.values(), *STAYS.values()], ids=[*MOVED, *STAYS])
def test_a_loop_joins_one_ahead_of_steps_that_have_nothing_to_do_with_it(between):
    first = loop(at(0, 1), X)
    second = Loop(5, (line(at(9, 1), at(0, 1)), Accumulate(at(0, 1, array="g"), at(9, 1))))
    joined = [Loop(5, (*first.body, *second.body)), between]
    assert fuse([first, between, second]) == (joined if between in MOVED.values() else [first, between, second])


def nest(to, of):
    return Loop(3, (loop(to, of),))


def test_neighbouring_nests_of_loops_are_joined_if_the_same_round_allows_it():
    first, second = nest(at(0, 10, 1), at(0, 0, 1, array="x")), nest(at(50, 10, 1), at(0, 10, 1))
    between, joined = line(at(90), at(91)), Loop(3, (Loop(5, (*first.body[0].body, *second.body[0].body)),))
    assert fuse([first, between, second]) == [first, between, second]
    assert fuse([between, first, second]) == [between, joined]
    later = nest(at(50, 10, 1), at(1, 10, 1))  # in the same round of the loop around, of a later one within
    assert fuse([first, later]) == [Loop(3, (*first.body, *later.body))]


V = Ref("v0")
ALONE = {  # loops within one of 3 rounds, which moves by 100
    "other arrays": [Assign(at(0, 0, 1), at(0, 0, 1, array="x"))],
    "the same number": [Assign(at(0, 0, 1), at(0, 0, 1))],
    "other numbers of each round": [Assign(at(0, 100, 2), at(1, 100, 2))],
    "numbers beyond all rounds": [Assign(at(0, 100, 1), at(205, 0, 1)), Assign(at(210, 0, 1), at(0, 100, 1))],
    "a variable of its own": [Assign(V, at(0, 0, 1, array="x")), Assign(at(0, 0, 1), V)],
}
TOGETHER = {
    "what the round before has set": [Assign(at(1, 100, 1), at(0, 100, 1))],
    "what the next round sets": [Assign(at(0, 100, 1), at(1, 100, 1))],
    "numbers of another round of the loop around": [Assign(at(0, 100, 1), at(202, 0, 1))],
    "one number": [Assign(at(9, 0, 0), at(0, 0, 1, array="x"))],
    "a sum": [Assign(V, Call("+", (V, at(0, 0, 1))))],
}


@pytest.mark.parametrize("body", [*ALONE.values(), *TOGETHER.values()], ids=[*ALONE, *TOGETHER])
def test_parallel(body):
    assert is_parallel(Loop(5, tuple(body)), (3,)) == (body in ALONE.values())
