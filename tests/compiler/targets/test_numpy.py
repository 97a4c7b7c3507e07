"""Code for NumPy: the same numbers and errors as those of Python, and what it is used for."""

import copy
import math
import pickle
import random
import subprocess
import sys

import pytest

import micrograd
from micrograd import Value, dot, losses, take, where
from micrograd.compiler import CompilerError
from micrograd.compiler.ir import Ref
from micrograd.compiler.targets import numpy as numpy_target
from micrograd.nn import MLP
from micrograd.optim import SGD, Adam
from micrograd.training import fit
from tests.helpers import CompiledOperation, assert_close, flat, moons, softmaxes
from tests.operations import OPERATIONS

np = pytest.importorskip("numpy")
arrays = pytest.importorskip("micrograd.compiler.targets.arrays")


def ids(operations):
    return [operation.name for operation in operations]


def in_both(function, *batches, parameters=()):
    """The values of all examples, their mean and its gradients, and the first one's, in NumPy and in Python."""
    results = []
    for backend in ("numpy", "python"):
        fast = micrograd.compile(function, [batch[0] for batch in batches], parameters=parameters, backend=backend)
        numbers = flat(fast.map(*batches))
        if isinstance(fast.map(*batches)[0], float):
            numbers += flat(list(fast.value_and_grad(*[batch[0] for batch in batches])))
            if parameters:
                for parameter in parameters:
                    parameter.grad = 0.0
                numbers += [fast.backward(*batches), *[parameter.grad for parameter in parameters]]
        results.append(numbers)
    return results


def agrees(function, *batches, parameters=()):
    """Whether NumPy and Python compute the same."""
    ours, theirs = in_both(function, *batches, parameters=parameters)
    for number, other in zip(ours, theirs, strict=True):
        if not math.isfinite(other):
            assert repr(number) == repr(other)
        else:
            assert abs(number - other) <= 1e-12 * max(1.0, abs(other))
    return True


@pytest.mark.parametrize("operation", OPERATIONS, ids=ids(OPERATIONS))
def test_every_operation_is_that_of_python(operation):
    ours, theirs = (CompiledOperation(operation, backend) for backend in ("numpy", "python"))
    points = [*operation.points, *operation.edges]
    for number, other in zip(ours.map(points), theirs.map(points), strict=True):
        assert_close([number / max(1.0, abs(other))], [other / max(1.0, abs(other))])
    for point in operation.points:
        assert_close(flat(ours.value_and_grad(point)), flat(theirs.value_and_grad(point)))


def random_numbers(*shape, seed=0):
    """Nested lists of numbers."""
    rng = random.Random(seed)

    def numbers(first, *rest):
        return [numbers(*rest) if rest else rng.uniform(-1, 1) for _ in range(first)]

    return numbers(*shape)


N = 7
WEIGHTS = [Value(x) for x in random_numbers(60, seed=1)]


def heat(x):
    for _ in range(10):
        x = [x[0], *[x[i] + 0.1 * (x[i - 1] - 2 * x[i] + x[i + 1]) for i in range(1, len(x) - 1)], x[-1]]
    return dot(x, x)


def recurrent(xs):
    h = [Value(0.0)] * 4
    for x in xs:
        h = [dot([*h, *x], WEIGHTS[7 * i : 7 * i + 7]).tanh() for i in range(4)]
    return micrograd.sum(h)


def embedded(tokens, k):
    table = [WEIGHTS[i : i + 4] for i in range(0, 40, 4)]
    rows = [[take([row[j] for row in table], token) for j in range(4)] for token in tokens]
    return losses.cross_entropy([dot(rows[0], row) for row in rows[1:]], k)


PROGRAMS = {
    "heat": (heat, random_numbers(N, 12)),
    "recurrent": (recurrent, random_numbers(N, 5, 3)),
    "embedded": (embedded, [[(3 * i + j) % 10 for j in range(5)] for i in range(N)], [i % 4 for i in range(N)]),
    "matrices": (
        lambda a, b: micrograd.sum([dot(row, column).tanh() for row in a for column in zip(*b, strict=True)]),
        random_numbers(N, 4, 5), random_numbers(N, 5, 6),
    ),
    "outer": (lambda x: [[a * b for a in x] for b in x], random_numbers(N, 5)),
    "running sum": (lambda x: [micrograd.sum(x[:i]) * x[0] for i in range(1, 9)], random_numbers(N, 9)),
    "shared weights": (
        lambda x: micrograd.sum([WEIGHTS[i + j] * x[i] * x[j] * WEIGHTS[3] for i in range(6) for j in range(6)]),
        random_numbers(N, 6),
    ),
    "weights alone": (lambda x: x + 3 * micrograd.sum([w * w for w in WEIGHTS]), random_numbers(N)),
    "one number added up": (lambda x: [(lambda v: v + v + v + v)(each.exp()) for each in x], random_numbers(N, 6)),
    "branches": (
        lambda x, y: [where((a > y) & (a < 0.5) | (y < 0), a.exp() * WEIGHTS[0], y % 0.7) for a in x],
        random_numbers(N, 6), random_numbers(N, seed=2),
    ),
    "chosen": (lambda x, k: take([x[0] * x[1], WEIGHTS[0], x[2], 3.0], k) ** 2, random_numbers(N, 3), [0, 1, 2, 3] * 2),
    "softmaxes": (lambda x: softmaxes(x, [WEIGHTS[i : i + 9] for i in range(9)]), random_numbers(N, 9)),
    "constants": (lambda x: [x[i] * 0.37**i + 0.11 * i for i in range(12)], random_numbers(N, 12)),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_compute_what_they_do_in_python(name):
    function, *batches = PROGRAMS[name]
    batches = [batch[:N] for batch in batches]
    assert agrees(function, *batches, parameters=WEIGHTS)


def test_a_network_does_for_any_number_of_examples(monkeypatch):
    model, loss, points, labels = moons(10)
    for size in (1, 2, 10):
        assert agrees(loss, points[:size], labels[:size], parameters=model.parameters())
    monkeypatch.setattr("micrograd.compiler.targets.arrays.CACHE", 0)
    monkeypatch.setattr("micrograd.compiler.targets.arrays.FEWEST_EXAMPLES", 3)
    assert agrees(loss, points, labels, parameters=model.parameters())


FAILING = {
    "a division by 0": (lambda x: 1 / x, 0.0),
    "infinity by 0": (lambda x: x * 1e300 * 1e300 / (x - x), 1.0),
    "a logarithm of 0": (lambda x: x.log(), 0.0),
    "a logarithm": (lambda x: x.log(), -1.0),
    "a root": (lambda x: x.sqrt(), -2.0),
    "an inverse": (lambda x: x.asin(), 2.0),
    "an overflow": (lambda x: x.exp(), 1000.0),
    "a square": (lambda x: x**2, 1e200),
    "a power": (lambda x: x**0.5, -1.0),
    "a remainder": (lambda x: 1 % x, 0.0),
    "an index": (lambda x: take([x, 2.0], x), 0.5),
}


@pytest.mark.parametrize("name", FAILING)
@pytest.mark.parametrize("flags", [True, False])
def test_what_fails_raises_what_python_raises(name, flags, monkeypatch):
    from micrograd.compiler.targets import arrays as target

    monkeypatch.setattr(target, "_has_flags", lambda: flags)
    monkeypatch.setattr(target, "NAMESPACE", {**target.NAMESPACE, **target._functions()})
    if not flags:
        monkeypatch.setattr(target, "RAISES", {"all": "ignore"})
    function, x = FAILING[name]
    errors = []
    for backend in ("numpy", "python"):
        fast = micrograd.compile(function, (1.0,), backend=backend)
        with pytest.raises((ArithmeticError, ValueError)) as error:
            fast.map([1.0 if name != "infinity by 0" else 0.5, x])
        errors.append((error.type, str(error.value).partition(", in line")[0]))
    assert errors[0] == errors[1]
    assert "in example" in errors[0][1]


def test_infinite_products_are_no_errors():
    fast = micrograd.compile(lambda x: x * 1e200 * 1e200, (1.0,), backend="numpy")
    assert fast.map([1.0, -1.0, 0.0]) == [math.inf, -math.inf, 0.0]


def no_compiler(*_):
    raise CompilerError("there is no compiler")


def test_auto_takes_numpy_where_there_is_no_compiler(monkeypatch):
    monkeypatch.setattr("micrograd.compiler.function.CBackend.__init__", no_compiler)
    assert "compiled to NumPy" in repr(micrograd.compile(lambda x: x * 2, (1.0,)))
    monkeypatch.setattr("micrograd.compiler.function.find_spec", lambda name: None)
    fast = micrograd.compile(lambda x: x * 2, (1.0,))
    assert "compiled to Python" in repr(fast)
    assert fast(3.0) == 6.0


def test_numpy_is_not_imported_for_another_backend():
    program = (
        "import sys, micrograd; micrograd.compile(lambda x: x * 2, (1.0,), backend='python')(1.0);"
        "assert 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("make", [lambda p: SGD(p, 0.1, momentum=0.5), lambda p: Adam(p, 0.05)])
def test_a_training_takes_the_steps_that_python_takes(make):
    results = []
    for backend in ("numpy", "python"):
        model, loss, points, labels = moons(10)
        fast = micrograd.compile(loss, (points[0], labels[0]), parameters=model.parameters(), backend=backend)
        with fast.training(make(model.parameters())) as step:
            numbers = [step(points, labels) for _ in range(5)]
        history = fit(
            model, lambda output, y: (1 - y * output).relu(), points, labels, optimizer=make(model.parameters()),
            epochs=3, batch_size=4, rng=1, backend=backend,
        )  # fmt: skip
        results.append([*numbers, *history.losses, *[p.data for p in model.parameters()]])
    assert_close(*results)


def test_without_numpy_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr("micrograd.compiler.function.find_spec", lambda name: None)
    with pytest.raises(ImportError, match="pip install numpy"):
        micrograd.compile(lambda x: x * x, (1.0,), backend="numpy")
    assert micrograd.compile(lambda x: x * x, (3.0,), backend="python")(3.0) == 9.0


def test_options_that_need_c_are_errors():
    for options in ({"precision": "single"}, {"threads": 2}):
        with pytest.raises(ValueError, match='^backend "numpy" .*give backend="c"'):
            micrograd.compile(lambda x: x, (1.0,), backend="numpy", **options)


def test_a_copy_and_a_pickle_compute_the_same():
    model, loss, points, labels = moons(10)
    fast = micrograd.compile(loss, (points[0], labels[0]), parameters=model.parameters(), backend="numpy")
    expected = fast.map(points, labels)
    for other in (copy.deepcopy(fast), pickle.loads(pickle.dumps(fast))):
        assert other.map(points, labels) == expected
        assert "compiled to NumPy" in repr(other)


def test_its_source_is_made_of_vector_statements():
    model = MLP(2, [16, 16, 1])
    fast = micrograd.compile(model, ([0.0, 0.0],), parameters=model.parameters(), backend="numpy")
    assert " @ " in fast.source
    assert "for " not in fast.source


def test_without_floating_point_flags_results_are_checked_themselves(monkeypatch):
    assert arrays._checked(np.log)(np.ones(1)) == 0.0
    with np.errstate(all="ignore"), pytest.raises(FloatingPointError, match="not finite"):
        arrays._checked(np.exp)(np.full(1, 1e9))
    assert arrays._has_flags()
    monkeypatch.setattr(np, "log", lambda x: x)
    assert not arrays._has_flags()


@pytest.mark.parametrize(("base", "meets"), [(11, True), (9, False), (30, False)])
def test_a_later_round_may_read_what_an_earlier_one_wrote_going_down(base, meets):
    assert numpy_target._meets(Ref("t0", 10, (-1,)), (5,), Ref("t0", base, (-1,)), (5,), 0) == meets


@pytest.mark.parametrize("backend", ["python", "numpy"])
@pytest.mark.parametrize(
    ("function", "examples", "came", "expected"),
    [
        (lambda x, y: x + y, (0.0, 0.0), ([1.0, 2.0], [3.0, 4.0]), [4.0, 6.0]),
        (lambda x, y: x + y, (0.0, 0.0), (5.0, [3.0, 4.0]), [8.0, 9.0]),
        (lambda x: x * 2, (0.0,), ([[1.0, 2.0], [3.0, 4.0]],), [[2.0, 4.0], [6.0, 8.0]]),
        (lambda x: x["a"] * 2, ({"a": 0.0, "b": 1.0},), ({"a": [1.0, 2.0], "b": 1.0},), [2.0, 4.0]),
        (lambda xs: xs[0] + xs[1], ([0.0, 0.0],), ([[1.0, 2.0], [3.0, 4.0]],), [4.0, 6.0]),
        (lambda xs: xs * 2, ([0.0, 0.0],), ([1.0, 2.0],), [1.0, 2.0, 1.0, 2.0]),
    ],
)
def test_a_function_of_a_number_gets_an_array_where_several_numbers_came(backend, function, examples, came, expected):
    as_array = [
        {key: np.array(value) for key, value in argument.items()} if isinstance(argument, dict) else np.array(argument)
        for argument in came
    ]
    fast = micrograd.compile(function, examples, backend=backend)
    for arguments in (as_array, came):
        assert np.array_equal(fast(*arguments), expected)
        assert np.array_equal(fast.map(*[[argument, argument] for argument in arguments]), [expected, expected])
    assert np.array_equal(pickle.loads(pickle.dumps(fast))(*came), expected)


def test_the_eager_calls_of_a_function_of_a_number_get_an_array_too():
    fast = micrograd.compile(lambda x: x * 2, (0.0,), backend="python")
    assert micrograd.jacobian(fast)(np.array([1.0, 2.0])).tolist() == [[2.0, 0.0], [0.0, 2.0]]


def test_what_is_no_array_is_refused_where_the_example_has_a_number(monkeypatch):
    fast = micrograd.compile(lambda x: x * 2, (0.0,), backend="python")
    with pytest.raises(ValueError, match="expected a number, as in the example of this argument, not rows of unequal"):
        fast([[1.0, 2.0], [3.0]])
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(ValueError, match="expected a number, .*: give compile one of a list"):
        fast([1.0, 2.0])


@pytest.mark.parametrize("came", [([1.0], 2.0), (np.array([1.0]), 2.0)])
def test_a_method_that_an_array_lacks_is_an_error_about_the_shape(came):
    fast = micrograd.compile(lambda x, y: x.exp() * y, (0.0, 0.0), backend="python", in_axes=(None, 0))
    with pytest.raises(ValueError, match=r"got arguments of shape \(\(1,\), \(\)\), expected .* no attribute 'exp'"):
        fast(*came)
    with pytest.raises(ValueError, match=r"got arguments of shape \(\(2,\), \(\)\), expected .* no attribute 'exp'"):
        fast.map([1.0, 2.0], [1.0, 2.0])  # the shared argument is no batch


def test_an_array_for_a_number_that_has_no_gradient_is_an_error_about_the_shape():
    fast = micrograd.compile(lambda x: (x - 3) ** 2, (0.0,), backend="python")
    with pytest.raises(ValueError, match=r"got arguments of shape \(\(1,\),\), expected .* needs a single Value"):
        fast.value_and_grad(np.array([1.0]))  # as scipy.optimize.minimize gives for one unknown
