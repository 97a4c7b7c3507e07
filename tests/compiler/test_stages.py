"""The stages of compiling, as text: what each pass has made of a function."""

import pytest

import micrograd
from micrograd import Value, dot, take

WS = [Value(float(i)) for i in range(8)]


@pytest.mark.parametrize(("function", "lines"), [
    (lambda x: dot(WS[::2], x, WS[7]).cos(), {0: "%7 = dot(p[7], p[0:7:2], x[0:4])", -1: "g[0:7:2] += %18"}),
    (lambda x: dot(WS[:3], [WS[3].exp(), WS[3].sin(), WS[3].cos()]),
     {3: "%11 = dot(-0.0, p[0:3], [%5, %6, %7])", 4: "%13 = seed * p[0:3]", 5: "%17 = %13[2] * %6"}),
    (lambda x: dot(WS[:3], x[:3]) * dot(WS[:3], x[2::-1]),
     {-3: "%25 = %13 * [x[2], x[1], x[0]] + %12 * x[0:3]", -1: "g[0:3] += %25"}),
], ids=["a slice", "a list", "a gradient in one line"])  # fmt: skip
def test_a_row_is_shown_as_a_slice_or_a_list_and_all_terms_of_its_gradient_in_one_line(function, lines):
    shown = micrograd.compile(function, ([1.0] * 4,), parameters=WS, backend="c").stages["trace"].splitlines()
    assert {place: shown[place] for place in lines} == lines


def test_the_last_pass_before_c_has_the_copies_of_results_and_what_take_adds_to_gradients():
    table = [Value(1.0), Value(2.0), Value(3.0)]
    chosen = micrograd.compile(lambda i: take(table, i) ** 2, (1.0,), parameters=table, backend="c")
    given = micrograd.compile(lambda x: [x, x * 2.0], (1.0,), backend="c")
    among = micrograd.compile(lambda i, xs: take([x.exp() for x in xs], i), (1.0, [1.0] * 5), backend="c")
    texts = "g[0][::1][x[0]] += ", "y[0] = x[0]", "y[0] = take(x[0], t0[i] for i in 5)"
    for fast, words in zip((chosen, given, among), texts, strict=True):
        assert words in fast.stages["roll"]
        assert fast.stages["roll"] == fast.ir
