"""Kernels compute what the engine does, in every order; two phrasings of a program become about the same one."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import micrograd
from micrograd import Value, dot, logsumexp, take, where
from micrograd.compiler.frontend.graph import Ends
from micrograd.compiler.ir import Loop, Scatter, refs, span
from micrograd.compiler.passes import pipeline
from micrograd.compiler.passes.jam import jam
from micrograd.compiler.passes.layers import with_layers
from micrograd.compiler.passes.pipeline import length, program
from micrograd.compiler.passes.storage import allocate
from micrograd.compiler.passes.sums import in_steps
from micrograd.support.trees import flat as flatten
from micrograd.support.trees import unflatten
from tests.benchmarks.programs import PROGRAMS, differentiated, predators
from tests.helpers import attention, lookups, products, random_examples, softmaxes
from tests.kernels import everything, graph_of, interpreted
from tests.operations import OPERATIONS


@pytest.fixture(params=pipeline.ORDERS)
def order(request, monkeypatch):
    """The order of the steps of a kernel."""
    monkeypatch.setattr(pipeline, "ORDERS", (request.param,))
    return request.param


def eager(function, example, parameters):
    """The results, the gradients of the arguments, and those of the parameters, which are 0.25 before."""
    shapes = [graph_of(lambda *args: 0.0, example).shapes][0]
    numbers = [Value(float(number)) for number in flatten(list(example))]
    remaining = iter(numbers)
    for parameter in parameters:
        parameter.grad = 0.25
    result = function(*[unflatten(remaining, shape) for shape in shapes])
    results = list(flatten(result))
    if isinstance(result, Value):
        result.backward()
        results += [number.grad for number in numbers]
    return [value.data if isinstance(value, Value) else value for value in results], [p.grad for p in parameters]


def in_parts(kernel, **options):
    """The kernel as C prints it, in parts of few lines, so that they share numbers."""
    parts, n = allocate(kernel, 5)
    steps = in_steps([step for part in parts for step in part], **options)
    assert all(span(ref, rounds)[1] < n for ref, rounds in refs(tuple(steps)) if ref.array == "t")
    return steps


def check(function, example, parameters=(), of=4):
    """See that the kernels of a function compute what the engine does; return the one with all gradients.

    There is one for each kind of call, of which so many are checked.
    """
    graph = graph_of(function, example, parameters)
    ends = everything(graph)
    expected, gradients = eager(function, example, parameters)
    parts = [ends, graph.ends("backward"), Ends(ends.returned), graph.ends("forward")][:of]
    programs = [program(graph, part) for part in parts]
    for (lines, *added), made in zip(parts, programs, strict=True):
        for kernel in (
            made.kernel,
            in_parts(with_layers(made.kernel, lanes=False)),
            jam(in_parts(made.kernel, totals=True)),
        ):
            computed = interpreted(made._replace(kernel=kernel), parameters, example)
            assert computed.results == pytest.approx(expected[: len(lines)], rel=1e-12, abs=1e-12)
            if any(added):
                assert computed.gradients == pytest.approx(gradients, rel=1e-12, abs=1e-12)
    return programs[0]


@pytest.mark.usefixtures("order")
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda row: row.name)
def test_every_operation(operation):
    for point in operation.points[:2]:
        numbers = [float(number) for number in point]
        check(operation.apply, numbers)
        check(lambda *xs: micrograd.sum([operation.apply(*xs)] * 2), numbers)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name, order):
    phrased = PROGRAMS[name].make(*PROGRAMS[name].small)
    for function in (phrased.first, phrased.second) if order == "level" else (phrased.second,):
        check(function, phrased.example, phrased.parameters, of=4 if order == "level" else 1)


@pytest.mark.usefixtures("order")
def test_lookups_choices_and_conditions():
    rows = [[Value(0.1 * i + j) for j in range(3)] for i in range(4)]
    parameters = [value for row in rows for value in row]

    def function(i, xs):
        row = take(rows, i)
        chosen = [where((x > 0) & (y < 2), x * y, y - x) for x, y in zip(xs, row, strict=True)]
        return dot(chosen, row) + take(xs, i - 1) * (xs[0] > xs[1]) + (xs[2] > 0)

    made = check(function, (2.0, [0.5, -0.3, 0.7]), parameters)
    assert any(isinstance(step, Scatter) for step in flat(made.kernel))
    for xs in ([0.0, 0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6], [0.0, 0.3, 0.4, 0.5, 0.3, 0.2, 0.1, 0.7]):
        check(lambda xs: micrograd.sum(lookups(xs)), (xs,))


def flat(kernel):
    for step in kernel:
        yield from flat(step.body) if isinstance(step, Loop) else [step]


@pytest.mark.usefixtures("order")
@pytest.mark.parametrize("n", [2, 3, 5])
def test_what_a_sum_reads_is_whole_in_a_loop_that_another_has_joined(n):
    ws = [[Value(0.3 * i - 0.2 * j) for j in range(n)] for i in range(n)]

    for multiply in (dot, products):
        parameters = [w for row in ws for w in row]
        check(lambda xs, of=multiply: attention(ws, xs, of), ([0.1 * k - 0.2 for k in range(n)],), parameters)


@pytest.mark.usefixtures("order")
def test_conditions_as_factors():
    ws = [Value(0.1 * k - 0.2) for k in range(5)]
    check(lambda xs: dot(ws, [x > 0.1 for x in xs]), ([0.1, -0.3, 0.5, 0.7, 0.2],), ws)


@pytest.mark.usefixtures("order")
def test_sums_in_a_loop_that_begin_with_results_of_earlier_rounds():
    def recurrence(xs):
        state = xs[:2]
        for _ in range(5):
            state.append(micrograd.sum([0.3 * state[-2], 0.4 * state[-1], *(x * x for x in xs)]))
        return dot(state, state)

    check(recurrence, ([0.1 * k - 0.2 for k in range(9)],))


# Two phrasings


LINES = {
    "heat equation": 36, "bodies in a plane": 201, "LSTM": 255, "two convolutions, taps skipped": 101,
    "Hessian of predators and prey": 564, "gradient of predators and prey": 156, "Jacobian of residuals": 35,
    "filter": 24, "mixture of Gaussians": 44, "springs": 98, "soft clusters": 34, "arm of many joints": 18,
    "polynomial": 16,
}  # fmt: skip
"""At most, in either phrasing, at the small size."""


@pytest.mark.parametrize("name", PROGRAMS)
def test_two_phrasings_become_about_the_same_kernel(name):
    phrased = PROGRAMS[name].make(*PROGRAMS[name].small)
    lines = []
    for function in (phrased.first, phrased.second):
        graph = graph_of(function, phrased.example, phrased.parameters)
        lines.append(length(program(graph, graph.ends("backward")).kernel))
    assert max(lines) <= LINES[name]
    assert max(lines) <= 1.25 * min(lines)


def test_a_long_sequential_program_keeps_the_order_of_its_trace(monkeypatch):
    def lengths():
        graphs = [graph_of(phrased.first, phrased.example) for phrased in steps]
        return [length(program(graph, graph.ends("forward")).kernel) for graph in graphs]

    steps = [differentiated(predators, "grad", n) for n in (20, 40)]
    in_trace_order = lengths()
    assert length(check(steps[0].first, steps[0].example, of=1).kernel) == in_trace_order[0] == in_trace_order[1]
    monkeypatch.setattr(pipeline, "SMALL_BLOCKS", 0)
    assert max(in_trace_order) < 0.9 * min(lengths())


def test_a_sequential_program_that_is_much_shorter_by_level_goes_by_level():
    """Two recurrences, advanced in an irregular order."""

    def function(x, y):
        rng, steps = random.Random(0), [0, 0]
        while min(steps) < 300:
            if steps[0] == steps[1] or (steps[0] < 300 and rng.random() < 0.5):
                x = (0.9 * x).tanh()
                steps[0] += 1
            else:
                y = (0.8 * y).sin()
                steps[1] += 1
        return [x, y]

    assert length(check(function, (0.3, 0.4)).kernel) < 50


@pytest.mark.usefixtures("order")
def test_the_largest_of_many_numbers():
    ws = [[Value(0.3 * ((5 * i + 3 * j) % 7) - 1) for j in range(9)] for i in range(9)]
    check(lambda xs: softmaxes(ws, xs, dot), ([0.2 * ((4 * i) % 9) - 0.7 for i in range(9)],), flatten(ws))


KINDS = {
    "product": lambda a, b, c: 0.5 * (a * b), "sum": lambda a, b, c: 0.3 * (a + b * c - c),
    "tanh": lambda a, b, c: (a + b).tanh(), "quotient": lambda a, b, c: a / (1 + b * b),
    "where": lambda a, b, c: where(a > b, b * c, a), "dot": lambda a, b, c: dot([0.2 * a, b, c], [b, c, 0.1 * a]),
    "logsumexp": lambda a, b, c: 0.3 * logsumexp([a, b, c]), "difference": lambda a, b, c: 0.5 * (a - b),
}  # fmt: skip


PLACES = st.tuples(st.integers(0, 30), st.sampled_from([1, 1, 1, 2, -1, 0, 3]))
LEVELS = st.tuples(st.sampled_from(list(KINDS)), st.integers(1, 7), st.lists(PLACES, min_size=3, max_size=3))


@st.composite
def functions(draw):
    """Functions of 12 numbers and 12 parameters: levels of alike operations, on operands at even and odd distances."""
    levels = draw(st.lists(LEVELS, min_size=1, max_size=8))

    def function(xs, ws):
        made = [*xs, *ws]
        for kind, n, places in levels:
            rows = [[made[-1 - (base + stride * k) % len(made)] for k in range(n)] for base, stride in places]
            for a, b, c in zip(*rows, strict=True):
                made.append(KINDS[kind](a, b, c))
        return micrograd.mean([number * number for number in made[24:]])

    return function


@given(functions())
@random_examples(30)
def test_kernels_of_random_functions_compute_what_the_engine_does(function):
    ws = [Value(0.07 * k - 0.4) for k in range(12)]
    for order in pipeline.ORDERS:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pipeline, "ORDERS", (order,))
            check(lambda xs: function(xs, ws), ([0.3 - 0.05 * k for k in range(12)],), ws)


def test_a_power_to_any_constant_is_shown_as_a_power():
    for exponent in 2, 0.5, 1e-05, -3.5:
        fast = micrograd.compile(lambda x, n=exponent: x**n, (1.5,), backend="python")
        assert f"x[0] ** {float(exponent)!r}" in fast.ir
