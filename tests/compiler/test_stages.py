"""The stages of compiling, as text: what each pass has made of a function."""

import micrograd
from micrograd import Value, dot, nn, take

TRACE = """\
%7 = dot(p[8], p[0:7:2], x[0:4])
%8 = cos(%7)
%10 = %8 * p[9]
%12 = seed * p[9]
%13 = seed * %8
%14 = sin(%7)
%15 = %12 * %14
%16 = neg(%15)
%18 = axpy(-0.0, %16, x[0:4])
%25 = g[8] + %16
%27 = g[9] + %13
y[0] = %10
g[8] = %25
g[9] = %27
g[0:7:2] += %18
"""


def columns():
    """A function of every other parameter, and of two more."""
    ws, bias, scale = [Value(float(i)) for i in range(8)], Value(1.0), Value(2.0)
    return lambda x: dot(ws[::2], x, bias).cos() * scale, [*ws, bias, scale]


def test_the_trace_is_a_line_for_each_operation_and_for_each_gradient():
    function, parameters = columns()
    fast = micrograd.compile(function, ([1.0] * 4,), parameters=parameters, backend="c")
    assert fast.stages["trace"] == TRACE


def test_computed_numbers_in_a_row_are_shown_as_a_list_and_their_gradients_by_place():
    ws, x = [Value(1.0), Value(2.0), Value(3.0)], Value(0.5)
    fast = micrograd.compile(lambda: dot(ws, [x.exp(), x.sin(), x.cos()]), (), parameters=[*ws, x], backend="c")
    lines = fast.stages["trace"].splitlines()
    assert lines[3] == "%7 = dot(-0.0, p[0:3], [%1, %2, %3])"
    assert lines[6] == "%14 = %10[2] * %2"


def test_each_pass_has_its_text_and_the_passes_before_c_end_in_what_ir_shows():
    model = nn.MLP(3, [8, 1], activation="relu")
    fast = micrograd.compile(lambda x: model(x) ** 2, ([1.0] * 3,), parameters=model.parameters(), backend="c")
    stages = fast.stages
    assert [*stages] == ["trace", "level blocks", "fuse", "roll", "products", "layers", "storage", "sums", "jam"]
    assert stages["roll"] == fast.ir
    assert len(set(stages.values())) > 5


def test_the_last_pass_before_c_has_the_copies_of_results_and_what_take_adds_to_gradients():
    table = [Value(1.0), Value(2.0), Value(3.0)]
    chosen = micrograd.compile(lambda i: take(table, i) ** 2, (1.0,), parameters=table, backend="c")
    given = micrograd.compile(lambda x: [x, x * 2.0], (1.0,), backend="c")
    among = micrograd.compile(lambda i, xs: take([x.exp() for x in xs], i), (1.0, [1.0] * 5), backend="c")
    texts = "g[0][::1][x[0]] += ", "y[0] = x[0]", "y[0] = take(x[0], t0[i] for i in 5)"
    for fast, words in zip((chosen, given, among), texts, strict=True):
        assert words in fast.stages["roll"]
        assert fast.stages["roll"] == fast.ir
