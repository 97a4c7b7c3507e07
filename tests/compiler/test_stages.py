"""The stages of compiling, as text: what each pass has made of a function."""

import micrograd
from micrograd import Value, dot, take


def test_numbers_at_equal_distances_are_shown_as_a_slice():
    ws, bias = [Value(float(i)) for i in range(8)], Value(1.0)
    fast = micrograd.compile(lambda x: dot(ws[::2], x, bias).cos(), ([1.0] * 4,), parameters=[*ws, bias], backend="c")
    first, *_, last = fast.stages["trace"].splitlines()
    assert first == "%7 = dot(p[8], p[0:7:2], x[0:4])"
    assert last.startswith("g[0:7:2] += %")


def test_computed_numbers_in_a_row_are_shown_as_a_list_and_their_gradients_by_place():
    ws, x = [Value(1.0), Value(2.0), Value(3.0)], Value(0.5)
    fast = micrograd.compile(lambda: dot(ws, [x.exp(), x.sin(), x.cos()]), (), parameters=[*ws, x], backend="c")
    lines = fast.stages["trace"].splitlines()
    assert lines[3] == "%7 = dot(-0.0, p[0:3], [%1, %2, %3])"
    assert lines[4:6] == ["%9 = seed * p[0:3]", "%13 = %9[2] * %2"]


def test_all_terms_of_the_gradient_of_a_row_are_one_line():
    ws = [Value(1.0), Value(2.0), Value(3.0)]
    fast = micrograd.compile(lambda x: dot(ws, x) * dot(ws, x[::-1]), ([1.0] * 3,), parameters=ws, backend="c")
    *_, total, _, gradient = fast.stages["trace"].splitlines()
    assert total == "%24 = %12 * [x[2], x[1], x[0]] + %11 * x[0:3]"
    assert gradient == "g[0:3] += %24"


def test_the_last_pass_before_c_has_the_copies_of_results_and_what_take_adds_to_gradients():
    table = [Value(1.0), Value(2.0), Value(3.0)]
    chosen = micrograd.compile(lambda i: take(table, i) ** 2, (1.0,), parameters=table, backend="c")
    given = micrograd.compile(lambda x: [x, x * 2.0], (1.0,), backend="c")
    among = micrograd.compile(lambda i, xs: take([x.exp() for x in xs], i), (1.0, [1.0] * 5), backend="c")
    texts = "g[0][::1][x[0]] += ", "y[0] = x[0]", "y[0] = take(x[0], t0[i] for i in 5)"
    for fast, words in zip((chosen, given, among), texts, strict=True):
        assert words in fast.stages["roll"]
        assert fast.stages["roll"] == fast.ir
