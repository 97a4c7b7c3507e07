"""Traced numbers: what is folded, simplified and recorded, and how a question for the number is answered."""

import inspect
import math
import re
from contextlib import suppress
from fractions import Fraction

import numpy as np
import pytest

import micrograd
from micrograd import Value, dot, functional, mean, nn, scalar, where
from micrograd.compiler import TraceError
from tests.helpers import backward, bits, close, compiled, eager

PARAMETER = Value(1.0)


def test_conditions_serve_as_numbers_and_numbers_as_conditions(backend):
    def function(x):
        numbers = [x > 0, (x > 0) * 1.0, (x > 0) * x + (x <= 0), where(x > 0, x > 1, x), -(x > 0), (x > 0) + 0.0]
        return [*numbers, (x > 0) ^ (x > 1), True ^ (x > 0), where(x - 2, x, 5.0), where(x * (x > 1), x, 5.0)]

    fast = micrograd.compile(function, (1.0,), backend=backend)
    for x in (-1.0, 0.5, 2.0):
        assert fast(x) == [1.0 * (v.data if isinstance(v, Value) else v) for v in function(Value(x))]
        assert set(map(type, fast(x))) == {float}


KNOWN_IN_PART = [
    lambda x: (x > 0) & True & (x < 2), lambda x: False & (x > 0), lambda x: (x > 0) | False | (x < -1),
    lambda x: True | (x > 0), lambda x: True & (x > 0), lambda x: (x > 0) & False, lambda x: False | (x > 0),
    lambda x: (x > 0) | True,
]  # fmt: skip


@pytest.mark.parametrize("condition", KNOWN_IN_PART)
def test_a_condition_with_one_known_operand_is_decided_by_the_other(condition):
    fast = micrograd.compile(lambda x: where(condition(x), x, 5 * x), (1.0,), backend="python")
    for x in (-2.0, 1.0, 3.0):
        assert fast(x) == (x if condition(x) else 5 * x)
    assert not re.search("True|False", fast.source)


@pytest.mark.parametrize("constant", [-2.0, -1.0, -0.5, 0.5, 1.0, 2.0, 0.0])
def test_constants_beside_every_operator_compute_what_they_do_in_eager(constant, backend):
    def function(x):
        c = constant
        results = [x + c, c + x, x - c, c - x, x * c, c * x, c / x, c % x, x**c]
        return [*results, x / c, x % c] if c else results

    fast = micrograd.compile(function, (1.0,), backend=backend)
    for x in (0.75, 3.0):
        assert close(fast(x), [v.data for v in function(Value(x))])
    if constant < 0 and backend == "python":
        assert f"x0 * ({constant})" in fast.source
    for i in range(len(fast(1.0))):
        one = micrograd.compile(lambda x, i=i: function(x)[i] * 1.5, (1.0,), backend="python")
        assert close(one.value_and_grad(0.75), eager(lambda x, i=i: function(x)[i] * 1.5, 0.75))


SIGNS = [
    lambda x: 0 - x, lambda x: 0.0 - x, lambda x: x + 0.0, lambda x: 0.0 + x, lambda x: x - 0.0, lambda x: x - 0,
    lambda x: -0.0 - x, lambda x: -0.0 + x, lambda x: x - -0.0, lambda x: x * 1, lambda x: -1 * x, lambda x: x / -1,
    lambda x: -x, lambda x: x * 0.0, lambda x: x**1, lambda x: x**3, lambda x: x * x, abs, lambda x: x.relu(),
    lambda x: x.leaky_relu(), lambda x: x.sin(), lambda x: x % 2, lambda x: x % -2, lambda x: where(x > 0, x, 0.0),
    lambda x: dot([-1.0, x], [x, 0.0], 0.0), lambda x: dot([-1.0], [x], -0.0), lambda x: mean([x, -x]),
    lambda x: micrograd.sum([x, x]), lambda x: 1e-300 * (x - 1e-300) * 1e-300, lambda x: 1 / (1 / (x + 1e-320)) * x,
    lambda x: abs(-x),
]  # fmt: skip


@pytest.mark.parametrize("x", [0.0, -0.0])
def test_a_zero_has_the_sign_that_the_engine_gives_it(backend, x):
    values = [function(Value(x)).data for function in SIGNS]
    fast = micrograd.compile(lambda x: [function(x) for function in SIGNS], (1.0,), backend=backend)
    for results in (fast(x), *fast.map([x] * 5)):
        assert bits(results) == bits(values)
    w = Value(x)
    functions = [*SIGNS, lambda x: micrograd.sum([function(x) for function in SIGNS])]
    for function in functions[0 if backend == "python" else -1 :]:
        found = backward(micrograd.compile(lambda f=function: f(w), (), parameters=[w], backend=backend))
        fast = micrograd.compile(function, (1.0,), backend=backend)
        assert bits(found) == bits(list(fast.value_and_grad(x))) == bits(list(eager(function, x)))


def test_the_exact_zero_that_sums_start_from_is_not_added(backend):
    """So a sum of zeros that are -0.0 is -0.0 too, where the engine has 0.0; both are 0."""
    fast = micrograd.compile(lambda x: dot([-1.0, -2.0], [x, x]) + 0, (1.0,), backend=backend)
    assert fast(0.0) == 0.0
    assert "0.0 +" not in fast.source
    assert "+ 0" not in fast.source


LIKE_THE_ENGINE = [
    lambda x: where(True, x, -x), lambda x: where(False, x, -x), lambda x: x * 1 + 0 - 0.0, lambda x: 1 * x / 1,
    lambda x: 0 + x**1, lambda x: x * x**0, lambda x: 0 - x, lambda x: +x, lambda x: x * +x.data, lambda x: x - (-3.0),
    lambda x: x + Value(2.0) * 3.0 - Value(1.5).exp(), lambda x: (-2.0) ** 2 * x, lambda x: (-3.0) % x,
    lambda x: x.leaky_relu(slope=0.3), lambda x: x * np.float64(2.0) * np.float32(0.5) * np.int64(3),
    lambda x: x * Fraction(1, 3), lambda x: x * 2**60, lambda x: scalar.atan2(x.data, x * x),
    lambda x: scalar.hypot(x.data, x * x), lambda x: micrograd.sum([*{x * 2: 1, x * 2: 2}]),
]  # fmt: skip
"""Constants that are folded, and numbers and conditions beside Values."""


@pytest.mark.parametrize("function", LIKE_THE_ENGINE)
def test_a_small_function_gives_what_the_engine_does(function):
    fast = micrograd.compile(function, (1.0,), backend="python")
    for x in (-1.5, 0.5):
        assert fast.value_and_grad(x) == eager(function, x)


def test_long_conditions_have_names(backend):
    """Each use of a condition used to write it again: half a million characters here, and too many parentheses."""

    def function(xs):
        condition = everywhere = xs[0] > 0
        for x in xs[1:]:
            condition = (condition & (x > 0)) | (condition & (x < -1))
            everywhere = everywhere & (x != 0)
        return where(condition, xs[0], 0.0) + where(everywhere, 2.0, 3.0) + condition * 7

    n = 250
    fast = micrograd.compile(function, ([0.0] * n,), backend=backend)
    assert len(fast.source) < 500 * n
    examples = [[1.0] * n, [1.0] * (n - 1) + [-0.5], [1.0, -2.0] * (n // 2), [1.0] * (n - 1) + [0.0], [-1.0] * n]
    assert fast.map(examples) == [function([Value(x) for x in xs]).data for xs in examples] == [10, 2, 10, 3, 3]


@pytest.mark.parametrize("exponent", [1.0000001, 2.0000001, 2.9999999, 8.9999999, -1.0000001])
def test_an_exponent_beside_a_whole_number_is_not_taken_for_it(backend, exponent):
    fast = micrograd.compile(lambda x: x**exponent, (1.0,), backend=backend)
    expected = [3.0**exponent, exponent * 3.0 ** (exponent - 1)]
    assert list(fast.value_and_grad(3.0)) == pytest.approx(expected, rel=1e-14)
    if backend == "python":
        with pytest.raises(ValueError, match="a fractional power of a negative number is not real"):
            fast(-3.0)


@pytest.mark.parametrize(("function", "text"), [
    (lambda x: (0 + 1 * x * 1 / 1) ** 1, "return [x0]"),
    (functional.grad(functional.grad(lambda x: x**2)), "return [2.0]"),
    (lambda x: [abs(x), abs(-x)], "t0 = abs(x0)\n    return [t0, t0]"),
    (lambda x: (x.exp(), x.sin())[1], "t0 = sin(x0)\n    return [t0]"),
    (lambda x: [x * 2 + 1, (2 * x).exp(), (x * 2).exp()], "t0 = x0 * 2.0\n    t1 = t0 + 1.0\n    t2 = exp(t0)"),
])  # fmt: skip
def test_nothing_is_computed_twice_or_in_vain(function, text):
    assert text in micrograd.compile(function, (1.0,), backend="python").source


def test_infinite_and_undefined_constants_compile(backend):
    fast = micrograd.compile(lambda x: [x * math.inf, x - math.inf, x * math.nan, x * -0.0], (1.0,), backend=backend)
    assert fast(2.0)[:2] == [math.inf, -math.inf]
    assert math.isnan(fast(2.0)[2])
    assert math.copysign(1.0, fast(2.0)[3]) == -1.0
    with pytest.raises(ZeroDivisionError):
        micrograd.compile(lambda x: x / 0.0, (1.0,), backend=backend)(1.0)


BRANCH, LOOKUP = ("scalar.where", "&, | and ^ True"), ("take(values, index)",)
PLAIN, TEXT = ("x.floor()", "scalar", "take("), ("format it at each call",)


@pytest.mark.parametrize(("remedies", "function"), [
    (BRANCH, lambda x: x if x > 0 else -x),
    (BRANCH, lambda x: x if x else -x),
    (BRANCH, lambda x: where(~(x > 2), 1.0, x)),
    (BRANCH, lambda x: max(x, 1.0)),
    (BRANCH, lambda x: x * (x in [1.0, 2.0])),
    (PLAIN, lambda x: x * float(x.data)),
    (PLAIN, lambda x: x * int(x.data)),
    (PLAIN, lambda x: x * complex(x.data).real),
    (PLAIN, lambda x: x * math.exp(x)),
    (PLAIN, lambda x: x * math.floor(x.data)),
    (PLAIN, lambda x: x * math.ceil(x.data)),
    (PLAIN, lambda x: x * math.trunc(x.data)),
    (PLAIN, lambda x: x * round(x.data)),
    (PLAIN, lambda x: x * round(x.data, 2)),
    (PLAIN, lambda x: [1.0, 2.0][x.data]),
    (PLAIN, lambda x: range(x.data)[0]),
    (LOOKUP, lambda x: [1.0][x]),
    (LOOKUP, lambda x: np.eye(2)[x]),
    (LOOKUP, lambda x: [1.0, 2.0][:x][0]),
    (BRANCH, lambda x: 1 < x < 2),
    (BRANCH, lambda x: np.max(np.array([x, x]))),
    (BRANCH, lambda x: functional.grad(lambda v: v if v > 0 else -v)(x)),
    (TEXT, lambda x: f"{x.data:.3f}"),
    (TEXT, lambda x: f"{x:.3f}"),
    (LOOKUP, lambda x: {0: 1.0, 1: 5.0}.get(x, 2.0) * x),
    (LOOKUP, lambda x: {0: 1.0, 1: 5.0}.get(x.data, 2.0) * x),
    (LOOKUP, lambda x: x * len({x.data, x.data})),
    (LOOKUP, lambda x: x * len({x, x})),
    (LOOKUP, lambda x: x * {PARAMETER.data: 2.0}.get(1.0, 3.0)),
])  # fmt: skip
def test_a_question_for_the_number_is_answered_at_the_users_line_with_the_remedy(remedies, function):
    with pytest.raises(TraceError) as error:
        micrograd.compile(function, (1.0,), parameters=[PARAMETER], backend="python")
    line = function.__code__.co_firstlineno
    text = inspect.getsourcelines(function)[0][0].strip()
    assert str(error.value).startswith(f"{__file__}:{line}, `{text}`: ")
    assert [remedy for remedy in remedies if remedy not in str(error.value)] == []


@pytest.mark.parametrize(("ask", "message"), [
    (lambda x: x if x > 2.0 else -x, r"`\(lambda x: x if x > 2\.0 else -x, .*: this needs the number itself"),
    (lambda x: {0: 1.0}[x] * x, "take"),
])  # fmt: skip
def test_a_question_for_the_number_is_an_error_even_if_the_function_catches_it(ask, message):
    def function(x):
        with suppress(Exception):
            return ask(x)
        return 3.0 * x

    with pytest.raises(TraceError, match=message):
        micrograd.compile(function, (1.0,), backend="python")


def test_a_line_without_source_is_named_by_its_number():
    namespace = {}
    exec("def f(x):\n    return x if x > 0 else -x", namespace)
    with pytest.raises(TraceError, match=re.escape("<string>:2, `no source`: ")):
        micrograd.compile(namespace["f"], (1.0,), backend="python")


def test_a_traced_number_shows_itself_as_one():
    shown = []
    compiled(lambda x: shown.extend([(2 * x)._repr_mimebundle_(), repr(x.data), f"{x.data}"]) or x)
    assert "traced number" in shown[-3]["image/svg+xml"]
    assert re.fullmatch(r"<traced number \d+>", shown[-2])
    assert shown[-1] == shown[-2]


def test_a_traced_condition_chooses_between_values():
    fast = micrograd.compile(lambda x: (x.data > 0).where(x, 2 * x), (1.0,), backend="python")
    assert [fast.value_and_grad(x) for x in (3.0, -3.0)] == [(3.0, 1.0), (-6.0, 2.0)]


def test_a_traced_number_that_is_kept_is_no_parameter_and_cannot_be_used_outside():
    class Model(nn.Module):
        def __call__(self, x):
            self.kept = x * 2
            return self.kept + 1

    model = Model()
    assert compiled(model)(3.0) == 7.0
    with pytest.raises(TraceError, match=r"test_tracer.py:\d+, `model.kept \* 3`: .*kept after its function"):
        model.kept * 3
    with pytest.raises(TraceError, match="kept after its function"):
        model.kept * model.kept
    for function in (lambda x: x * model.kept, lambda x: model.kept, lambda x: [x, model.kept]):
        with pytest.raises(TraceError, match="used outside the compiled function"):
            compiled(lambda x, function=function: setattr(model, "input", x) or function(x))
        assert model.parameters() == []


def test_a_whole_quotient_is_that_of_python_with_the_sign_of_its_zero(backend):
    fast = micrograd.compile(lambda x, y: x // y, (1.0, 1.0), backend=backend)
    for x in (0.0, -0.0, 1.0, -7.5, 0.3, -1e300, -1e-20, 4503599627370497.0):
        for y in (1.0, -1.0, 2.0, -0.1, math.inf, -math.inf):
            assert repr(fast(x, y)) == repr(x // y), (x, y)


@pytest.mark.parametrize("masked", [lambda x: (x > 0) & 2, lambda x: (x > 0) ^ 2])
def test_masking_a_condition_with_other_bits_is_refused(masked):
    with pytest.raises(TypeError, match="unsupported operand"):
        micrograd.compile(lambda x: where(masked(x), 10.0, x), (1.0,), backend="python")
