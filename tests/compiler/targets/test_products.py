"""Products in C: blocks of any number of examples, with the gradients of compiled Python."""

import math
import platform
import random

import pytest

import micrograd
from micrograd import Backend, losses, nn, optim
from tests.helpers import assert_close, backward, grads, needs_compiler
from tests.products import CASES, NUMBERS, matrix, network, times

pytestmark = needs_compiler
ON_X86 = platform.machine() in ("x86_64", "AMD64")


def examples(example, n):
    """n examples: the numbers of an argument vary, but a class does not."""
    rng = random.Random(n)

    def other(tree):
        if isinstance(tree, list):
            return [other(branch) for branch in tree]
        return tree if isinstance(tree, int) else tree + rng.uniform(-0.5, 0.5)

    return [[other(argument) for _ in range(n)] for argument in example]


def gradients(function, example, parameters, arguments, backend, **options):
    """The mean over a batch, and its gradients."""
    return backward(micrograd.compile(function, example, parameters=parameters, backend=backend, **options), *arguments)


@pytest.mark.parametrize("name", CASES)
def test_c_computes_the_gradients_of_compiled_python_and_compiles_without_a_warning(name, no_warnings):
    function, example, parameters = CASES[name]
    both = [micrograd.compile(function, example, parameters=parameters, backend=of) for of in ("c", "python")]
    for n in 1, 5, 127, 300:
        assert_close(*[backward(fast, *examples(example, n)) for fast in both])


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", CASES)
def test_gradients_of_a_step_replace_those_of_the_last_ones(name, threads, threads_pay):
    function, example, parameters = CASES[name]
    fast = micrograd.compile(function, example, parameters=parameters, backend=Backend("c", threads=threads))
    with fast.training(optim.SGD(parameters, learning_rate=1e-300)) as step:  # which changes no weight
        for n in 127, 5, 300:
            loss = step(*examples(example, n))
        found = [loss, *grads(parameters)]
    assert_close(found, gradients(function, example, parameters, examples(example, 300), "python"))


@pytest.mark.skipif(not ON_X86, reason="these are flags for x86")
@pytest.mark.parametrize("flags", ["", "-mno-avx512f", "-mno-avx512f -mno-fma", "-mno-avx -Werror"])
@pytest.mark.parametrize("precision", ["double", "single"])
def test_products_work_on_any_processor_in_any_precision(monkeypatch, own_cache, flags, precision):
    monkeypatch.setenv("CC", f"cc {flags} -O1")
    function, example, parameters = network(35, 23, 17, 3)
    arguments = examples(example, 150)
    expected = gradients(function, example, parameters, arguments, "python")
    result = gradients(function, example, parameters, arguments, Backend("c", precision=precision))
    assert result == pytest.approx(expected, rel=1e-3 if precision == "single" else 1e-9, abs=1e-6)


@pytest.mark.parametrize("special", [math.inf, math.nan])
def test_infinities_and_nan_reach_the_same_gradients_as_in_python(special):
    rows = matrix(16, 16)
    parameters = [w for row in rows for w in row]

    def function(xs, on):
        return sum(micrograd.where(on > 0.5, h.relu(), 0.0) for h in times(rows, xs))

    example = NUMBERS[:16], 1.0
    arguments = [[[0.5] * 16 for _ in range(40)], [1.0] * 20 + [0.0] * 20]
    arguments[0][3][2] = math.inf
    arguments[0][30][5] = special  # in an example that is masked
    expected, result = (
        gradients(function, example, parameters, arguments, backend, errors="ieee") for backend in ("python", "c")
    )
    assert result == pytest.approx(expected, nan_ok=True)
    assert {*map(math.isfinite, expected[1:])} == {True, False}


@pytest.mark.parametrize("axis", [0, 1])
def test_all_examples_may_share_a_row(axis):
    rows = matrix(16, 20)

    def function(*arguments):
        return sum((h * arguments[1 - axis]).tanh() for h in times(rows, arguments[axis]))

    example = tuple([NUMBERS[:20] if i == axis else 0.5 for i in range(2)])
    shared = [[*example[axis]] if i == axis else [0.01 * k for k in range(140)] for i in range(2)]
    parameters = [w for row in rows for w in row]
    options = {"in_axes": tuple([None if i == axis else 0 for i in range(2)])}
    assert_close(*[gradients(function, example, parameters, shared, way, **options) for way in ("c", "python")])


def test_batches_of_a_training_are_drawn_by_index():
    xs, ys = examples((NUMBERS[:20], 1), 200)
    histories = []
    for backend in "c", "python":
        model = nn.MLP(20, [18, 10], rng=1)
        optimizer = optim.SGD(model.parameters(), learning_rate=0.1)
        options = {"optimizer": optimizer, "epochs": 2, "batch_size": 70, "rng": 1, "backend": backend}
        histories.append(micrograd.fit(model, losses.cross_entropy, xs, ys, **options).losses)
    assert_close(*histories)


def test_examples_may_select_rows_of_a_table(no_warnings):
    function, example, parameters = CASES["a network"]
    table, classes = examples(example, 9)
    index = [i * i % 9 for i in range(150)]
    fast = micrograd.compile(function, example, parameters=parameters, backend="c")
    found = backward(fast, fast.pack(table, [classes[i] for i in index], in_axes=(index, 0)))
    gathered = [table[i] for i in index], [classes[i] for i in index]
    assert_close(found, gradients(function, example, parameters, gathered, "python"))
