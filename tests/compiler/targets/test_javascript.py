"""Exported JavaScript: in Node it computes what Python does."""

import math
import os
import random
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, Phase, given
from hypothesis import strategies as st

import micrograd
from micrograd import Value, dot, nn, optim, promote, scalar, take, where
from micrograd import sum as total
from micrograd.compiler.targets import javascript
from tests.helpers import assert_close, backward, eager, flat, graphs, lookups, random_examples, run, softmaxes
from tests.javascript import exported, in_node
from tests.operations import OPERATIONS
from tests.optimizers import ROWS


def compiled(function, example, model=None):
    """The function, for which no C compiler is asked."""
    parameters = model.parameters() if model else []
    return micrograd.compile(function, example, parameters=parameters, backend="python")


def network(sizes=(3, 8, 8, 1), activation="tanh"):
    """A network with a squared error, and examples."""
    rng = random.Random(3)
    model = nn.MLP(sizes[0], list(sizes[1:]), activation=activation, rng=1)
    xs = [[rng.uniform(-2, 2) for _ in range(sizes[0])] for _ in range(7)]
    return model, (lambda x, y: (model(x) - y) ** 2), xs, [rng.uniform(-1, 1) for _ in xs]


def numbers_of(*batches):
    """The examples as the module takes them: one after the other, each with all of its arguments, flat."""
    return [x for example in zip(*batches, strict=True) for x in flat(list(example))]


def assert_same_backward(tmp_path, fast, *batches, tolerance=1e-12):
    found = exported(tmp_path, fast, f"uses.gradients(model, {numbers_of(*batches)})")
    assert_close(found, backward(fast, *batches), tolerance)


# Operations


def points(operation):
    """Operands in the operation's domain, of which the result and the derivatives are finite."""
    for point in (*operation.points, *operation.edges):
        try:
            value, gradient = eager(lambda xs: operation.apply(*xs), list(point))
        except (ArithmeticError, ValueError):
            continue
        if all(map(math.isfinite, [value, *gradient])):
            yield list(point), [value, *gradient]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What all operations give at their points, in Node and in the engine."""
    directory = tmp_path_factory.mktemp("operations")
    script, expected = ["const results = [];"], []
    for i, operation in enumerate(OPERATIONS):
        fast = compiled(lambda xs, apply=operation.apply: apply(*xs), ([*operation.points[0]],))
        fast.export_js(directory / f"{i}.mjs")
        script.append(f'import * as m{i} from "./{i}.mjs"; results.push([]);')
        expected.append(list(points(operation)))
        for point, _ in expected[-1]:
            script.append(
                f"{{ const dx = new Float64Array({len(point)}), xs = {point}; const y = m{i}.valueAndGrad([], xs, dx);"
                f"results[{i}].push([y, ...dx, m{i}.forward([], xs)[0]]); }}"
            )
    return in_node(directory, "\n".join(script)), expected


@pytest.mark.parametrize("i", range(len(OPERATIONS)), ids=[operation.name for operation in OPERATIONS])
def test_an_operation_has_python_s_value_and_gradient(results, i):
    found, expected = results[0][i], results[1][i]
    assert len(found) == len(expected) > 0
    for numbers, (point, of_engine) in zip(found, expected, strict=True):
        for number, other in zip(numbers, [*of_engine, of_engine[0]], strict=True):
            assert number == pytest.approx(other, rel=1e-12, abs=1e-300), point


INFINITE = math.inf


def alike(x, z, factor=4.0):
    """What only looks like the slope of tanh."""
    e = scalar.exp(-2.0 * abs(x))
    return where(abs(x) < 1.0, 1.0 - z.tanh() * z.tanh(), factor * e / ((1.0 + e) * (1.0 + e)))


SPECIAL = {
    "errors": (lambda x: [scalar.log(x), 1.0 / x, x % 0.0, (x - 1.0).sqrt()], [[0.0]]),
    "remainders": (
        lambda x, y: x % y,
        [[x, y] for x in (7.5, -7.5, 6.0, -6.0, 0.0, 1e300, 1e-300) for y in (2.0, -2.0, 0.3, -0.3, INFINITE)],
    ),
    "almost slopes": (lambda x, z: [alike(x, z), alike(x, x, 5.0), alike(z, z)], [[0.3, 0.7], [2.0, 0.7], [-3.0, 2.5]]),
    "powers": (lambda x, y: x**y, [[x, y] for x in (1.0, -1.0, 2.0) for y in (INFINITE, -INFINITE, math.nan, 3.0)]),
    "indices": (lambda x, y, i: take([x * x, y * y], i), [[1.0, 2.0, i] for i in (0.0, 1.0, 2.0, -1.0, 0.5, math.nan)]),
    "tanh": (lambda x: [promote(x > 0)[0].tanh(), x.tanh()], [[math.nan], [INFINITE], [-INFINITE], [0.0], [-0.0]]),
}  # fmt: skip


@pytest.mark.parametrize("name", SPECIAL)
def test_special_numbers_follow_ieee_754(tmp_path, name):
    function, points = SPECIAL[name]
    fast = micrograd.compile(function, tuple(points[0]), backend="python", errors="ieee")
    written = str(points).replace("inf", "Infinity").replace("nan", "NaN")
    found = exported(tmp_path, fast, f"[...forward([], {written}.flat())]")
    expected = flat([fast(*point) for point in points])
    assert found == pytest.approx(expected, rel=1e-14, abs=0, nan_ok=True)
    assert [str(x) for x in found if x == 0] == [str(x) for x in expected if x == 0]


@given(st.lists(graphs(), min_size=40, max_size=40))
@random_examples(2, phases=[Phase.generate], suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_graphs_have_python_s_gradients(tmp_path, several):
    """Several in one module, with a sum that depends on each."""

    def function(leaves):
        steps = [steps for _, steps in several]
        return total(run(xs, each) for xs, each in zip(leaves, steps, strict=True))

    leaves = [numbers for numbers, _ in several]
    found = exported(tmp_path, compiled(function, (leaves,)), f"uses.slopes(model, {flat(leaves)})")
    value, gradient = eager(function, leaves)
    assert_close(found, [value, *flat(gradient)])


def test_tanh_and_its_slope_are_accurate_wherever_they_are(tmp_path):
    rng = random.Random(1)
    xs = [sign * 10 ** rng.uniform(-9, 1.5) for sign in (-1, 1) for _ in range(300)]
    xs += [x * sign for x in (0.0, 1e-300, 1 / 64, 21.99, 22.0, 300.0) for sign in (-1, 1)]
    of_xs = exported(tmp_path, compiled(lambda x: x.tanh(), (0.5,)), f"{xs}.map(x => uses.slopes(model, [x]))")
    for x, found in zip(xs, of_xs, strict=True):
        assert found == pytest.approx([math.tanh(x), 1 / math.cosh(x) ** 2], rel=5e-15, abs=0)


def test_lgamma_is_accurate_about_its_zeros_and_near_0(tmp_path):
    mp = pytest.importorskip("mpmath").mp
    near = [sign * 10.0**-k for k in range(1, 16) for sign in (1, -1)]
    xs = [zero + step for zero in (1.0, 2.0) for step in [*near, 0.2499, -0.2499, 0.25, -0.25]]
    xs += [5e-324, -5e-324, 1e-300, 1e-21, 1e-19, 1e-5, -1e-5, -0.3]
    fast = compiled(lambda x: x.lgamma(), (0.5,))
    *found, of_1, of_2 = exported(tmp_path, fast, f"[...forward([], {[*xs, 1.0, 2.0]})]")
    assert (of_1, of_2) == (0.0, 0.0)
    with mp.workdps(40):
        expected = [float(mp.log(abs(mp.gamma(mp.mpf(x))))) for x in xs]
    assert found == pytest.approx(expected, rel=1e-13, abs=0)


# Programs


@pytest.mark.parametrize(("largest", "unrolled"), [(0, 0), (50, 30), (2000, 10**9), (10**9, 30)])
def test_loops_and_straight_code_give_the_same(tmp_path, monkeypatch, largest, unrolled):
    monkeypatch.setattr(javascript, "LARGEST", largest)
    monkeypatch.setattr(javascript, "UNROLLED", unrolled)
    model, loss, xs, ys = network((3, 20, 18, 1), "relu")
    fast = compiled(loss, (xs[0], 0.0), model)
    assert_same_backward(tmp_path, fast, xs, ys)
    has_loops = "for (let i0" in (tmp_path / "model.mjs").read_text()
    assert has_loops == (largest < 10**9 and unrolled < 10**9)


def constants(x, w):
    """Sums with a table of constants, long ones, and differences."""
    rows = [total(math.sin(i * j) * x[j % 5] * w[j % 4] for j in range(40)) for i in range(12)]
    return total(a * b for a, b in zip(rows, reversed(rows), strict=True)) - rows[0] - rows[1] * 3.0 + 1e-5 * rows[2]


def attention(x, w):
    """Softmaxes of rows and of columns."""
    ws = [[w[(i + j) % 4] * j for j in range(9)] for i in range(9)]
    return softmaxes(ws, [x[i % 5] * w[i % 4] for i in range(9)], dot)


def chosen(x, w):
    """Numbers taken among computed ones, and a row of a table of parameters."""
    row = take([w[:2], w[2:]], where(x[0] > 0.5, 1, 0))
    return total(lookups([a * b for a in x for b in w])) * row[0] * row[1]


@pytest.mark.parametrize("largest", [2000, 0])
@pytest.mark.parametrize("program", [constants, attention, chosen])
def test_programs_of_loops_give_what_python_does(tmp_path, monkeypatch, program, largest):
    monkeypatch.setattr(javascript, "LARGEST", largest)
    w = [Value(x) for x in (0.5, -0.7, 1.1, 0.3)]
    fast = micrograd.compile(lambda x: program(x, w), ([0.0] * 5,), parameters=w, backend="python")
    assert_same_backward(tmp_path, fast, [[0.3, -0.2, 0.9, 0.1, 1.3], [1.0, 2.0, -1.0, 0.5, 0.0]])


# The module's interface


def test_forward_computes_one_example_or_several_into_an_array(tmp_path):
    fast = compiled(lambda x, y: [[a + y, a * y] for a in x], ([1.0, 2.0, 3.0], 0.0))
    one, other = flat(fast([1.0, 2.0, 3.0], 4.0)), flat(fast([5.0, 6.0, 7.0], 8.0))
    assert exported(tmp_path, fast, "uses.forwardIntoAnArray(model)") == [4, 6, 0, one, True, [*one, *other]]
    text = (tmp_path / "model.mjs").read_text()
    assert "backward" not in text
    assert "of shape (3, 2)" in text
    assert "x[0] to x[2], argument 1\n    x[3], argument 2" in text


def test_backward_takes_some_of_the_examples_and_value_and_grad_is_by_the_inputs(tmp_path):
    model, loss, xs, ys = network()
    fast = compiled(loss, (xs[0], 0.0), model)
    numbers = numbers_of(xs, ys)
    script = f"[...uses.gradientsOfSome(model, {numbers}, [5, 0, 5]), ...uses.slopes(model, {numbers[:4]})]"
    some = [[column[i] for i in (5, 0, 5)] for column in (xs, ys)]
    found, of_inputs = exported(tmp_path, fast, script), fast.value_and_grad(xs[0], ys[0])
    assert_close(found, [*backward(fast, *some), *flat(list(of_inputs))])


def test_numbers_that_do_not_fit_are_refused(tmp_path):
    model, loss, xs, _ = network((2, 2, 1))
    assert exported(tmp_path, compiled(loss, (xs[0], 0.0), model), "uses.refusals(model)") == [
        "RangeError: 2 inputs in all for a function of 9 parameters and 3 inputs an example",
        "RangeError: 0 inputs in all for a function of 9 parameters and 3 inputs an example",
        "RangeError: 2 parameters for a function of 9 parameters and 3 inputs",
        "RangeError: 0 numbers in g for a function of 9 parameters and 3 inputs",
        *[f"RangeError: examples {some} of 1: choose at least one; they count from 0" for some in ("0,1", -1, 0.5, "")],
        True,
    ]


def test_a_function_without_arguments_has_one_example(tmp_path):
    w = [Value(2), Value(-math.inf), Value(math.nan)]
    fast = micrograd.compile(lambda: w[0] * w[0], (), parameters=w, backend="python")
    found = exported(tmp_path, fast, "[...uses.gradients(model, []), ...parameters]")
    assert repr(found) == "[4.0, 4.0, 0.0, 0.0, 2.0, -inf, nan]"


# Training


class Halving(optim.Optimizer):
    """An optimizer of a user's, whose moment is what a reserved word names."""

    moments: ClassVar = {"default": 0.0}

    def __init__(self, parameters, learning_rate):
        super().__init__(parameters, learning_rate=learning_rate)

    def rule(self):
        rate = self.learning_rate * scalar.exp(-0.1 * self.steps)

        def update(x, grad, default):
            default = scalar.where(grad > default, grad, 0.5 * default)
            return x - rate * grad / (1.0 + abs(default)), default

        return update


TRAININGS = [
    *(
        pytest.param(row.kind, options, id=f"{row.kind.__name__}-{i}")
        for row in ROWS
        for i, options in enumerate(row.options)
    ),
    pytest.param(Halving, {"learning_rate": 0.1}, id="Halving"),
]


@pytest.mark.parametrize(("kind", "options"), TRAININGS)
def test_a_hundred_steps_lead_where_python_s_do(tmp_path, kind, options):
    model, loss, xs, ys = network((3, 4, 1))
    optimizer = kind(model.parameters(), **options)
    fast = compiled(loss, (xs[0], 0.0), model)
    found = exported(tmp_path, fast, f"uses.train(model, {numbers_of(xs, ys)})", optimizer=optimizer)
    losses = []
    for step in range(100):
        optimizer.zero_grad()
        losses.append(fast.backward(xs, ys))
        optimizer.learning_rate = options["learning_rate"] if step < 50 else 0.01
        optimizer.step()
    assert losses[-1] < losses[0]
    assert_close(found, [*[p.data for p in model.parameters()], *losses, 100])


# What comes from users


HOSTILE = "*/ globalThis.ran = true; /*"


@pytest.mark.parametrize("key", [HOSTILE, f"{HOSTILE} \\u2028 PARAMETERS", "*" + "/" * 3])
def test_a_key_of_an_argument_runs_nothing(tmp_path, key):
    """In C, the comment that it would end is the same."""
    w = Value(2.0)
    fast, usual = [
        micrograd.compile(lambda d, k=k: [w * d[k]], ({k: 1.0},), parameters=[w], backend="python") for k in (key, "a")
    ]
    assert exported(tmp_path, fast, "[forward([2], [3])[0], typeof globalThis.ran]") == [6.0, "undefined"]
    for source, other in (fast.js_source(), usual.js_source()), (fast.c_source, usual.c_source):
        assert "of shape {'" in source
        for mark in "/*", "*/":
            assert source.count(mark) == other.count(mark)


def test_the_name_of_a_moment_runs_nothing(tmp_path):
    name = 'm: 0, [(globalThis.ran = true)]: 0, "m'

    class Named(optim.Optimizer):
        moments: ClassVar = {name: 0.0}

        def rule(self):
            return lambda p, grad, m: (p - self.learning_rate * (grad + m), grad)

    w = Value(2.0)
    fast = micrograd.compile(lambda x: w * x, (1.0,), parameters=[w], backend="python")
    optimizer = Named([w], learning_rate=0.5)
    script = "[uses.twoSteps(model), typeof globalThis.ran]"
    assert exported(tmp_path, fast, script, optimizer=optimizer) == [0.5, "undefined"]


# What cannot be exported


def refused(optimizer, error, message, tmp_path, fast):
    with pytest.raises(error, match=message):
        fast.export_js(tmp_path / "model.js", optimizer=optimizer)
    assert os.listdir(tmp_path) == []


class Counting(optim.SGD):
    calls = 0

    def rule(self):
        self.calls += 1
        return super().rule()


class Stepping(optim.SGD):
    def step(self):
        super().step()


def test_an_optimizer_whose_steps_cannot_be_written_is_refused(tmp_path):
    model, loss, xs, _ = network((3, 2, 1))
    fast, parameters = compiled(loss, (xs[0], 0.0), model), model.parameters()
    refused(optim.SGD, TypeError, "optimizer is .*: expected an Optimizer", tmp_path, fast)
    refused(3, TypeError, "optimizer is 3: expected an Optimizer", tmp_path, fast)
    refused(Stepping(parameters), TypeError, r"Stepping defines its own step\(\)", tmp_path, fast)
    refused(Counting(parameters), TypeError, "the rule of Counting changes Counting.calls", tmp_path, fast)
    refused(optim.SGD(parameters[:-1]), ValueError, "the optimizer has other parameters", tmp_path, fast)
    refused(optim.SGD([Value(1.0)]), ValueError, "the optimizer has other parameters", tmp_path, fast)
    several = compiled(lambda x: [model(x)], (xs[0],), model)
    refused(optim.SGD(parameters), TypeError, "the function returns a list, but an optimizer", tmp_path, several)
