"""Triangles: loops over rows of different lengths become one, and compute what the engine does."""

import pytest

import micrograd
from micrograd import Value, dot
from micrograd.compiler.ir import Accumulate, Assign, Loop, Ref, Sum, Term, show
from micrograd.compiler.passes.jam import can_jam
from micrograd.compiler.passes.triangles import gaps, in_rows
from micrograd.losses import softmax
from tests.helpers import assert_as_engine, needs_compiler


def total(to, rounds, row, stride=1):
    return Assign(Ref("t0", to), Sum((Loop(rounds, (Term("+", (Ref("x", row, (stride,)),)),)),)))


def heads(first, rounds, apart):
    """For each of 4 heads, a row that starts `apart` from the one before."""
    copied = Assign(Ref("t0", first, (apart, 1)), Ref("x", first, (apart, 1)))
    return Loop(4, (Loop(rounds, (copied,)),))


JOINED = {
    "rounds that grow": (
        [total(i, 3 + i, 10 * i) for i in range(5)],
        "for i in 5:\n    t0[i] = sum(x[10i+j] for j in 3+i)\n",
    ),
    "uneven starts": (
        [total(i, 3 + i, 10 * i * i) for i in range(4)],
        "for i in 4:\n    t0[i] = sum(x[j+[0, 10, 40, 90][i]] for j in 3+i)\n",
    ),
    "loops of even rows": (
        [heads(100 * i, 9 - i, 20) for i in range(4)],
        "for i in 4:\n    for j in 4:\n        for k in 9-i:\n            t0[100i+20j+k] = x[100i+20j+k]\n",
    ),
    "too few": ([total(i, 3 + i, 10 * i) for i in range(3)], None),
    "equal rounds": ([total(i, 3, 10 * i * i) for i in range(5)], None),
    "other strides": ([total(i, 3 + i, 10 * i, stride=1 + i) for i in range(5)], None),
    "gradients": ([Loop(3 + i, (Accumulate(Ref("g", 9 * i, (1,)), Ref("t0", i, (0,))),)) for i in range(5)], None),
    "equal additions": ([Accumulate(Ref("g", 9), Ref("t0", 2))] * 4, None),
}


@pytest.mark.parametrize(("steps", "text"), JOINED.values(), ids=JOINED)
def test_steps_that_differ_in_rounds_become_one_loop(steps, text):
    assert show(in_rows(steps)) == (text or show(steps))


def test_rows_may_lie_at_other_distances_in_each_loop():
    steps = [heads(100 * i, 3 + i, 3 + i) for i in range(4)]
    (joined,) = in_rows(steps)
    assert joined.rounds == 16  # one for each round of the four loops
    assert joined.body[0].rounds == Ref("", 3, ((0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3),))


@pytest.mark.parametrize(("lengths", "pitch"), [
    ([1, 2, 3, 4], 5), ([4, 4, 3, 3, 2, 1], 5),
    ([1, 2, 3], 0), ([5, 5, 5, 5], 0),  # too few rows; equal ones
    ([1, 3, 2, 4], 0),  # not a triangle
    ([1, 1, 1, 1, 1, 2, 3, 20], 0),  # mostly gaps
])  # fmt: skip
def test_rows_of_a_triangle_begin_at_even_distances(lengths, pitch):
    left = [pitch - n if pitch else 0 for n in lengths]
    assert gaps(lengths, []) == left
    starts = [8 * row + i for row, n in enumerate(lengths) for i in range(n)]
    if pitch:
        each = [gap for n, gap in zip(lengths, left, strict=True) for gap in (*[0] * (n - 1), gap)]
        assert gaps([0] * len(starts), starts) == each


def test_rounds_of_different_lengths_do_not_run_together():
    for rounds, alike in ((4, True), (Ref("", 3, (1,)), False)):
        inner = Loop(rounds, (Assign(Ref("t0", 0, (10, 1)), Ref("x", 0, (0, 1))),))
        assert can_jam(Loop(5, (inner,))) is alike


def attention(n, heads=4, width=3):
    """Causal attention over n tokens, to the mean of squares; the numbers of all heads lie side by side."""
    parameters = [Value((7 * i % 11 - 5) / 20) for i in range(n * heads * width)]

    def f(x):
        numbers = [parameter + x for parameter in parameters]
        tokens = [numbers[i : i + heads * width] for i in range(0, len(numbers), heads * width)]
        found = []
        for i, token in enumerate(tokens):
            for head in (slice(k, k + width) for k in range(0, heads * width, width)):
                known = [other[head] for other in tokens[: i + 1]]
                shares = softmax([dot(token[head], other) for other in known])
                found += [dot(shares, list(column)) for column in zip(*known, strict=True)]
        return micrograd.mean([y * y for y in found])

    return micrograd.compile(f, (0.1,), parameters=parameters), f


@needs_compiler
@pytest.mark.parametrize(("n", "examples"), [(2, 17), (6, 17), (12, 17), (12, 3), (6, 3)])
def test_attention_over_earlier_tokens_computes_what_the_engine_does(n, examples):
    fast, f = attention(n)
    assert_as_engine(fast, f, [i / 10 for i in range(examples)])


def test_a_kernel_in_lanes_does_not_grow_with_the_number_of_tokens():
    few, many = (attention(n)[0].stages["roll"].count("\n") for n in (8, 16))
    assert many < 1.1 * few
