"""Routines: steps that differ only in numbers become calls of one function, which compute the same."""

import pytest

from micrograd import Value, compile, dot, losses
from micrograd.compiler.ir import Accumulate, Assign, Call, Loop, Ref, Sum, Term, replace, show
from micrograd.compiler.passes import program
from micrograd.compiler.passes.share import FEWEST_CALLS, RoutineCall, Routines, shared
from micrograd.compiler.passes.storage import Slots
from micrograd.compiler.targets.c import library_source
from tests.benchmarks.programs import PROGRAMS
from tests.kernels import everything, graph_of


def expanded(step, routines, depth=0):
    """A step in which each call of a routine is replaced by the routine, with arguments in place of parameters."""
    if isinstance(step, Loop):
        return Loop(step.rounds, tuple(expanded(inner, routines, depth + 1) for inner in step.body))
    if not isinstance(step, RoutineCall):
        return step
    numbers = {f"n{i}": number for i, number in enumerate(step.numbers)}

    def inlined(part):
        if isinstance(part, Ref):
            base = numbers.get(part.base, Ref("", part.base, (0,) * depth))
            own = [numbers.get(stride, Ref("", stride)) for stride in part.strides]
            return Ref(part.array, base.base, (*base.strides, *(stride.base for stride in own)))
        if isinstance(part, Loop):
            return Loop(numbers.get(part.rounds, Ref("", part.rounds)).base, tuple(map(inlined, part.body)))
        if not isinstance(part, tuple):
            return part
        parts = map(inlined, part)
        return tuple(parts) if type(part) is tuple else type(part)(*parts)

    return inlined(routines[step.routine].step)


def check(kernel):
    """Assert that calls of routines expand to the same steps; return the routines, and the steps with calls."""
    routines = Routines()
    called, [steps] = shared([kernel], routines)
    assert called == list(range(len(routines)))
    assert show([expanded(step, routines) for step in steps]) == show(kernel)
    return routines, steps


def calls(steps):
    return sum(calls(step.body) if isinstance(step, Loop) else isinstance(step, RoutineCall) for step in steps)


def causal(n):
    """Causal attention over n positions: each attends to itself and those before it."""
    ws = [Value(0.1 * i - 0.3) for i in range(4)]

    def function(xs):
        rows = [[w * x for w in ws] for x in xs]
        read = []
        for i, row in enumerate(rows):
            weights = losses.softmax([dot(row, other) for other in rows[: i + 1]])
            read += [dot(weights, column) for column in zip(*rows[: i + 1], strict=True)]
        return dot(read, read)

    return function, ([0.3 * i - 1 for i in range(n)],), ws


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    phrased = PROGRAMS[name].make(*PROGRAMS[name].small)
    graph = graph_of(phrased.first, phrased.example, phrased.parameters)
    kernel = program(graph, *everything(graph)).kernel
    check([replace(step, Slots([kernel]).placed) for step in kernel])


def test_longer_attention_calls_the_same_number_of_routines_more_often():
    found = []
    for n in (12, 18):
        graph = graph_of(*causal(n))
        kernel = program(graph, *everything(graph)).kernel
        routines, steps = check([replace(step, Slots([kernel]).placed) for step in kernel])
        found.append((len(routines), calls(steps)))
    assert found[0][0] == found[1][0] > 5
    assert found[1][1] > found[0][1] + 20


@pytest.mark.parametrize("batch", [1, 32])
def test_code_with_routines_agrees_with_python(batch):
    function, (xs,), ws = causal(16)
    c, python = (compile(function, (xs,), parameters=ws, backend=name, batch_size=batch) for name in ("c", "python"))
    batches = [[x + 0.01 * k for x in xs] for k in range(batch)]
    gradients = []
    for fast in (c, python):
        for w in ws:
            w.grad = 0.0
        gradients.append([fast.backward(batches), *(w.grad for w in ws)])
    assert gradients[0] == pytest.approx(gradients[1], rel=1e-12, abs=1e-12)
    graph = graph_of(function, (xs,), ws)
    source = library_source(graph, program(graph, *everything(graph)), tile=batch // 32).library
    assert source.count("routine_0(") > FEWEST_CALLS


def loop(rounds, target, base, *strides):
    term = Loop(4, (Term("+", (Ref("p", base, (*strides, 1)), Ref("x", 0, (*strides, 1)))),))
    return Loop(rounds, (Assign(Ref("y", target, (1,)), Sum((term,))),))


def test_only_what_differs_between_calls_is_a_parameter():
    [routine], steps = check([loop(5, 0, 3, 4), loop(6, 5, 3, 4), loop(7, 11, 3, 4)])
    assert [routine.fixed.count(None), len(steps)] == [2, 3]  # the rounds, and where the target begins
    assert show([routine.step]) == "for i in n0:\n    y[n1+i] = sum(p[3+4i+j] * x[4i+j] for j in 4)\n"


def test_too_few_similar_steps_stay_as_they_are():
    steps = [loop(5, 0, 3, 4), loop(6, 5, 3, 4)]
    assert shared([steps], Routines()) == ([], [steps])


def test_steps_with_other_innermost_strides_share_no_routine():
    steps = [Loop(4, (Assign(Ref("y", 9 * k, (k,)), Call("neg", (Ref("x", 0, (1,)),))),)) for k in range(1, 4)]
    assert shared([steps], Routines()) == ([], [steps])


def test_a_step_that_reads_a_variable_of_an_outer_loop_is_no_routine():
    def around(k):
        term = Loop(4, (Term("+", (Ref("p", 0, (0, 1)), Ref("v0"))),))
        return [
            Assign(Ref("v0"), Call("neg", (Ref("x", k, (1,)),))),
            *(Accumulate(Ref("g", 5 * k + i, (1,)), Sum((term,))) for i in range(3)),
        ]

    steps = [Loop(3 + k, tuple(around(k) + around(k + 1)[1:])) for k in range(2)]
    assert shared([steps], Routines()) == ([], [steps])
    routines, called = check([Loop(3 + k, tuple(around(k))) for k in range(3)])
    assert (len(routines), calls(called)) == (1, 3)
