"""Compiled loops of `scan` against the engine, which runs each round: values and gradients, in every language."""

import math
import random
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from micrograd import Value, compile, dot, grad, logsumexp, maximum, minimum, scan, take, where
from micrograd.compiler.passes import pipeline
from tests.compiler.targets.test_export import run_exported
from tests.fuzz import scans
from tests.helpers import assert_as_engine, flat, needs_compiler, own, random_examples
from tests.javascript import exported

N = 12


def mixed(w, s, xs):
    """A dict of states in its own order, xs in lists, all ys, the last state, and parameters in rows and alone."""

    def step(state, x):
        total, before = state.values()
        h = [dot(w[3 * i : 3 * i + 3], [*before, x[0]]).tanh() for i in range(2)]
        return {"total": total + h[0] * x[1] * w[6], "h": h}, [h[1] * w[7], x[0]]

    state, ys = scan(step, {"total": 0.0, "h": s[:2]}, xs)
    return state["total"] * state["h"][1] + sum(a * b * 0.1 for a, b in ys) + ys[3][0]


def two(w, s, xs):
    """A loop over what another loop returns, and one over the same xs backwards."""
    state, ys = scan(lambda h, x: ((h + w[0] * x[0]).tanh(), h * w[1]), s[0], xs)
    back, zs = scan(lambda h, xy: ((h * w[2] - xy["y"] * xy["x"][1]).tanh(), h), state, {"x": xs[::-1], "y": ys})
    return back * state + zs[5]


def looked_up(w, s, xs):
    """A number of parameters chosen by x; a smooth maximum; a choice; and a state that does not change."""

    def step(state, x):
        chosen = take(w[:5], where(x[0] > 0, 1, 3)) + state[1]
        smooth = logsumexp([state[0] * w[5], chosen, w[6], x[1]])
        return [where(smooth > 1, smooth * 0.5, smooth + w[7]), state[1]], None

    (a, b), _ = scan(step, s[:2], xs)
    return a * b


def outside(w, s, xs):
    """A loop that shares what it takes from, and whose maximum it captures, with operations before and after it."""
    some = w[:5]

    def step(state, x):
        return (state + take(some, where(x[0] > 0, 1, 3)) * x[1] + maximum(*some) * w[1]).tanh(), state

    end, ys = scan(step, s[0] * take(some, where(s[1] > 0, 0, 2)), xs)
    return end * take(some, where(s[0] > 0, 2, 3)) + maximum(*ys) + ys[2] * ys[3] + minimum(*some)


def of_constants(w, s, xs):
    """No arguments in the loop: constants as state and xs, some equal, and rows of computed numbers."""
    rows = [w[i] * w[i + 1] for i in range(4)]
    data = [[math.sin(i), 1.0, i % 3, 0.5] for i in range(N)]
    (h, first), ys = scan(lambda h, x: ([(dot(rows, x) + h[0]).tanh(), h[0]], h[1] * 1.0), [0.5, 1], data)
    return h * first + sum(y * y for y in ys) + s[0] * xs[0][0]


def until(w, s, xs):
    """A loop that ends early, and one that does not; loops that some examples end at once, since their steps have no
    value there: a short one, and one whose end is known before it begins."""
    a, _ = scan(lambda v, _: (v * 0.7 + w[0] * 0.01, None), s[0] + 2.0, length=30, until=lambda v: (0.5 - v).relu())
    b, _ = scan(lambda v, x: ([v[0] + x[0] * w[1], v[1] + 1.0], None), [s[1], 0.0], xs, until=lambda v: v[0] > 1e9)
    end = lambda v: abs(v - s[0]) < 0.1  # noqa: E731
    step = lambda v, x: (v - w[2] * x[0] / (v - s[0]) + dot(w[:4], [0.1 / (v - s[0])] * 4).tanh(), None)  # noqa: E731
    c, _ = scan(step, s[0] - (s[1] > 0), xs[:5], until=end)
    d, _ = scan(lambda v, _: (v / 2 + 1 / v, None), s[0] * (s[1] < 0), length=9, until=lambda v: s[1] >= 0)
    return a * b[0] + b[1] + c * d


def shared(w, s, xs):
    """What is costly and the same for all examples, inside and outside."""
    scale = w[0].exp()
    state, ys = scan(lambda h, x: (h * w[1].sigmoid() * 0.5 + x[0] * scale, h), s[0], xs)
    return state * scale + sum(ys) * w[2].sin()


def constant(w, s, xs):
    """Numbers that do not depend on the state, although they were computed from it."""
    state, _ = scan(lambda h, x: (h * 0.5 + (w[0] * h) ** 0 + 0.0 * (w[1] * h) * x[0], None), s[0], xs)
    return state * w[2]


def unused(w, s, xs):
    """A y that nothing uses, although it needs a number that has a gradient elsewhere."""
    c = w[0] * w[1]
    state, _ = scan(lambda h, x: (h * w[2] + x[0], (h + c) * 0.5), s[0], xs)
    return state + c


def rows(w, s, xs):
    """Sums over rows, which run in lanes; what one of them computes for each row, another takes as its rows."""
    scale = w[0].exp()

    def step(sums, x):
        h = [dot(w[3 * i : 3 * i + 3], [*s, x[0]], x[1]).tanh() for i in range(2)]
        inner, _ = scan(lambda t, v: (t * 0.5 + v * x[1], None), h[0], w)
        chosen = take(w[:5], where(x[0] > 0, 1, 3)) * scale - logsumexp([*h, inner])
        less = sums["less"] - h[1] * inner
        y = [x[1] * v for v in h]
        return {"sum": sums["sum"] + chosen, "less": less, "n": sums["n"] + 1.0, "as it is": sums["as it is"]}, y

    sums, ys = scan(step, {"sum": s[0], "less": 0.0, "n": 0.0, "as it is": s[1]}, xs)
    total, _ = scan(lambda t, yx: (dot(yx["y"], yx["x"], t), None), sums["less"], {"y": ys, "x": xs})
    return sums["sum"] * total * sums["as it is"] / sums["n"]


def nested(w, s, xs):
    """In each round, a loop whose states start from neighbouring parameters."""

    def step(state, x):
        inner, _ = scan(lambda t, v: ([t[0] * x[1] + v * t[1], t[1].sin()], None), w[1:3], w)
        return (state * inner[0] + inner[1]).tanh(), inner[0] * x[0]

    end, ys = scan(step, s[0], xs)
    return end + sum(ys) * s[1]


def alone(w, s, xs):
    """A sum, of what is chosen, and nothing else."""
    return scan(lambda t, x: (t + (x[0] > 0) * s[0] * w[0], x[1] * s[1]), 1.0, xs)[0]


def quotients(w, s, xs):
    """A sum of fifths, added up as wholes; the gradients' loop computes the same wholes, before the sum is read."""
    scale = w[0].exp()
    total, ys = scan(lambda t, x: (t + 0.2 * (x[1] / (scale * x[0] + 3.0)), x[0] * x[1]), 1.0, xs)
    return total + ys[3]


def carried(w, s, xs):
    """A number that stays as it is, beside a sum that nothing uses."""
    return scan(lambda t, x: ([t[0], t[1] + x[0] * w[0]], None), s, xs)[0][0] * w[1]


def squared(w, s, xs):
    """A sum of squares of sums."""

    def step(state, x):
        total, _ = scan(lambda t, v: (t + v * x[0], None), 0.0, w)
        return state + total * total, None

    return scan(step, s[0], xs)[0] * s[1]


def inner_sums(w, s, xs):
    """In each round, a sum with a state that is not used, and a loop that ends early, in a loop that adds up."""

    def step(state, x):
        (total, _), _ = scan(lambda t, _: ([t[0] + x[0] * w[0], t[1] + x[1] * w[1]], None), [x[1], 0.1], length=9)
        early, _ = scan(lambda t, _: (t + w[2] * w[2], None), x[0], length=9, until=lambda t: t > 0.5)
        return [state[0] + (total.tanh() + early), state[1]], None

    return scan(step, s, xs)[0][0]


PROGRAMS = [nested, inner_sums, constant, unused, mixed, two, looked_up, outside, of_constants, until, shared, rows]
PROGRAMS += [alone, carried, squared, quotients]
each_program = pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)


def numbers(seed, n=N):
    rng = random.Random(seed)
    return [rng.uniform(-1, 1) for _ in range(2)], [[rng.uniform(-1, 1) for _ in range(2)] for _ in range(n)]


def parameters():
    rng = random.Random(0)
    return [Value(rng.uniform(-1, 1)) for _ in range(8)]


def engine(program, s, xs):
    """The value, and the gradients with respect to the parameters and to all arguments."""
    w, s, xs = parameters(), [Value(v) for v in s], [[Value(v) for v in x] for x in xs]
    result = program(w, s, xs)
    result.backward()
    return result.data, [v.grad for v in w], [v.grad for v in [*s, *flat(xs)]]


def close(numbers):
    return pytest.approx(numbers, rel=1e-9, abs=1e-12)


def ends_early(y, length=20):
    """A bounded loop, whose first state is the argument."""
    step = lambda s, _: ([s[0] * 0.9, s[1] + s[0] ** 2], None)  # noqa: E731
    (a, b), _ = scan(step, [y, 0.0], length=length, until=lambda s: s[0] < 0.5)
    return a * b


@pytest.mark.parametrize("function", [grad(ends_early), grad(grad(ends_early))])
def test_until_chooses_in_each_round_that_is_traced_by_itself(function, backend):
    fast = compile(function, (0.9,), backend=backend)
    assert "scan" not in fast.stages["trace"]
    for y in 0.4, 0.7, 0.9:  # it ends at once, or early
        assert fast(y) == close(function(y))


@needs_compiler
def test_until_ends_loops_in_every_language(tmp_path):
    fast = compile(ends_early, (0.9,), backend="c")
    fast.export_js(tmp_path / "model.mjs")
    texts = fast.c_source, (tmp_path / "model.mjs").read_text(), compile(ends_early, (0.9,), backend="python").source
    assert [(text.count("break"), text.count("continue")) for text in texts] == [(0, 3), (0, 4), (3, 0)]
    assert fast.ir.count("continue") == 1
    assert fast.map([0.4, 0.7, 0.9] * 9) == close([ends_early(y) for y in [0.4, 0.7, 0.9] * 9])
    assert fast.value_and_grad(0.9) == close((ends_early(0.9), grad(ends_early)(0.9)))


@pytest.mark.parametrize("factor", [1.0, 0.5])
def test_states_change_places_in_a_loop_that_may_end(factor, backend):
    def function(x):
        (a, b), _ = scan(lambda s, _: ([s[1], s[0] * factor], None), [x, 2.0], length=9, until=lambda s: False)
        return a + 3 * b

    fast = compile(function, (1.0,), backend=backend)
    assert fast.value_and_grad(1.5) == close((function(1.5), grad(function)(1.5)))


def compiled(program, example, **options):
    """The program, compiled for such an example, with its own parameters; its value and gradients are the engine's."""
    w = parameters()
    fast = compile(partial(program, w), example, parameters=w, **options)
    example = numbers(2, len(example[1]))
    value, of_w, of_x = engine(program, *example)
    assert fast(*example) == close(value)
    found, gradients = fast.value_and_grad(*example, argnum=(0, 1))
    assert [found, *flat(gradients)] == close([value, *of_x])
    assert fast.backward(*[[each] for each in example]) == close(value)
    assert [v.grad for v in w] == close(of_w)
    return fast, w


@each_program
def test_values_and_gradients_are_those_of_the_engine(program, backend):
    fast, w = compiled(program, numbers(1), backend=backend)
    assert "scan" in fast.stages["trace"]
    columns = map(list, zip(*[numbers(seed) for seed in range(40)], strict=True))
    assert_as_engine(fast, partial(program, w), *columns, tolerance=1e-11)


@needs_compiler
@pytest.mark.parametrize("n", [16, 40, 101, 128])
def test_sums_over_many_rows_run_in_strips(n):
    compiled(rows, numbers(2, n), backend="c")


@pytest.mark.parametrize(("of", "loops"), [(lambda s: s, 1), (lambda s: s / N, 1), (lambda s: s.log(), 2)])
def test_a_sum_is_part_of_its_backward_loop_unless_that_depends_on_it(of, loops, backend):
    def function(w, xs):
        return of(scan(lambda s, x: (s + (x * w).exp(), None), 2.0, xs)[0])

    w, v, xs = Value(0.3), Value(0.3), [0.1 * i for i in range(N)]
    fast = compile(partial(function, w), (xs,), backend=backend)
    assert fast.ir.count(f"for i in {N}:") == loops
    (expected := function(v, xs)).backward()
    assert [fast(xs), fast.backward([xs]), w.grad] == close([expected.data, expected.data, v.grad])


def test_a_loop_whose_gradient_takes_no_step(backend):
    fast = compile(lambda x: scan(lambda s, _: (s + 1.0, None), x, length=20)[0] * x, (1.0,), backend=backend)
    assert fast.value_and_grad(2.0) == close((44.0, 24.0))


@needs_compiler
@each_program
def test_loops_in_a_program_in_trace_order(program, monkeypatch):
    for name, value in {"MANY_LINES": 0, "SMALL_BLOCKS": math.inf, "length": lambda kernel: 0}.items():
        monkeypatch.setattr(pipeline, name, value)
    fast, _ = compiled(program, numbers(1), backend="c")
    assert "level blocks" not in fast.stages


@each_program
@pytest.mark.parametrize("language", ["c", "js"])
def test_exported(program, language, tmp_path):
    s, xs = numbers(2)
    x = [*s, *flat(xs)]
    w = parameters()
    fast = compile(partial(program, w), numbers(1), parameters=w, backend="python")
    value, of_w, of_x = engine(program, s, xs)
    if language == "c":
        found = run_exported(fast, tmp_path, x, 1, len(w))
        assert found == close([value, value, *of_x, *[2 * grad for grad in of_w]])
    else:
        found = exported(tmp_path, fast, f"[...uses.slopes(model, {x}), ...uses.gradients(model, {x})]")
        assert found == close([value, *of_x, value, *of_w])


def test_parameters_in_a_loop_are_found():
    w, example = parameters(), numbers(2)
    fast = compile(partial(mixed, w), numbers(1), backend="python")
    assert {*fast.parameters} == {*w}
    assert fast(*example) == close(engine(mixed, *example)[0])
    fast = compile(lambda s: scan(lambda s, _: (s * w[0], None), s, length=0)[0] + w[1], (1.0,), backend="python")
    assert fast.parameters == w[1:2]


def logs(x):
    state, ys = scan(lambda s, _: (s - 1.0, s.log()), x, length=1000)
    return state + ys[-1]


@pytest.mark.parametrize("function", [logs, lambda x: scan(lambda s, _: (s - 1.0, 1.0 / s), x, length=1000)[1][-1]])
def test_an_error_names_the_round(function, backend):
    fast = compile(function, (2000.0,), parameters=[], backend=backend)
    for call in (fast, fast.value_and_grad, fast.check):
        with pytest.raises((ArithmeticError, ValueError), match=r"in iteration 700 of scan\(\), counted from 0"):
            call(700.0)


def test_what_a_step_stores_elsewhere_is_traced_round_by_round(backend):
    calls = Value(0.0)

    def function(x):
        seen = []
        calls.grad += 1.0  # this is called twice

        def step(s, _):
            seen.append(s * s)
            return s * 0.5, None

        return scan(step, x, length=10)[0] + sum(seen) + calls.grad

    fast = compile(function, (1.0,), parameters=[], backend=backend)
    assert fast(1.5) == close(function(1.5))


doubled = own(lambda x: 2 * x, lambda x, grad: x.grad + 2 * grad)
"""An operation of the user's own, whose closure might read gradients midway."""


@pytest.mark.parametrize("function", [
    lambda x: scan(lambda s, _: (doubled(s) * 0.5 + x, None), x, length=10)[0],
    lambda x: scan(lambda s, _: (s * x, None), x, length=7)[0],
    lambda x: scan(lambda s, y: (s * x + y[0], None), x, [[1.0], [1.0, 2.0], *[[3.0]] * 8])[0],
    lambda x: scan(lambda s, i: (s * [x, x * x][int(i)], None), x, [0, 1, 1, 0, 1, 0, 1, 1, 0])[0],
    lambda x: scan(lambda s, i: ([*s, x] if i == 3 else s, None), [x], range(9))[0][0],
    lambda x: scan(lambda s, _: (s, x * x), None, length=9)[1][8],
    lambda x: scan(lambda s, _: (s[:1], None), [x, x], length=9)[0][0],
    grad(lambda x: scan(lambda s, _: (s * x.sin(), None), x, length=9)[0]),
])  # fmt: skip
def test_other_loops_are_traced_round_by_round(function):
    fast = compile(function, (1.5,), parameters=[], backend="python")
    assert "scan" not in fast.stages["trace"]
    value, slope = fast.value_and_grad(1.5)
    assert value == close(function(Value(1.5)).data)
    assert slope == close(grad(function)(1.5))


@needs_compiler
def test_a_sum_over_rows_of_weights_goes_on_from_round_to_round():
    """In lanes, sums of a layer are added up several at a time: these are no layer, since each starts from the last."""
    rng = random.Random(0)
    rows = [[Value(rng.gauss(0, 1)) for _ in range(40)] for _ in range(9)]
    xs = [[rng.gauss(0, 1) for _ in range(40)] for _ in range(40)]

    def function(x):
        return scan(lambda s, w: (dot(w, x, s), None), x[0], rows)[0]

    fast = compile(function, (xs[0],), parameters=flat(rows), backend="c")
    assert list(fast.map(xs)) == close([function(x).data for x in xs])


def test_the_time_to_compile_does_not_grow_with_the_rounds():
    def lines(n):
        w = parameters()
        return len(compile(partial(mixed, w), numbers(1, n), parameters=w, backend="c").ir.splitlines())

    assert lines(50) == lines(400)


def test_constant_xs_are_a_table_whatever_they_repeat(backend):
    def function(x):
        return scan(lambda s, y: (s * 0.5 + y * x, None), x, [float(i % 3 == 0) for i in range(100)])[0]

    fast = compile(function, (1.0,), parameters=[], backend=backend)
    assert len(fast.ir.splitlines()) < 20
    assert fast(2.0) == close(function(2.0))


@given(st.integers(0, 2**32))
@random_examples(40)
def test_random_loops(index):
    scans.check(index)


def test_a_gradient_of_zeros_stays_in_its_loop():
    p, q, r = parameters = Value(0.3), Value(-0.4), Value(0.5)

    def f(xs):  # the second result of a round is not used
        return scan(lambda s, x: (s * x, where(p > q, r, x)), 1.0, xs)[0]

    fast = compile(f, ([0.5] * 8,), parameters=parameters, backend="python")
    assert fast.value_and_grad([0.5] * 8) == (0.5**8, [0.5**7] * 8)
