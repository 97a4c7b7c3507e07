"""How a function is compiled: what "auto" stands for, and what a backend cannot do is refused."""

import copy
import math
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest

import micrograd
from micrograd import Backend, Value
from micrograd.functional import grad, hessian, jacobian
from micrograd.support.trees import flat
from tests.helpers import close


def test_in_a_browsers_python_auto_is_python_and_no_compiler_is_looked_for(monkeypatch, caplog):
    monkeypatch.setattr("sys.platform", "emscripten")
    searches = []
    monkeypatch.setattr("micrograd.compiler.function.require_compiler", lambda: searches.append(1))
    fast = micrograd.compile(lambda x: x * x, (1.0,))
    assert repr(fast) == "<<lambda> compiled to Python, 0 parameters>"
    assert (fast(3.0), caplog.messages, searches) == (9.0, [], [])


@pytest.mark.parametrize(("backend", "message"), [
    ({"name": "numpy"}, "^backend is 'numpy': expected 'auto', 'c', 'python' or, for fit, 'eager'$"),
    ({"name": None}, "^backend is None: expected 'auto', "),
    ({"threads": 0}, "^threads is 0: expected an int, 1 or greater$"),
    ({"precision": "half"}, "^unknown precision 'half': expected \"double\" or \"single\"$"),
    ({"precision": 4}, "^unknown precision 4: expected"),
    ({"name": "python", "threads": 2, "precision": "single"},
     r'^backend "python" computes in doubles and in one thread: give Backend\("c", \.\.\.\)$'),
    ({"name": "eager", "executor": ThreadPoolExecutor},
     r'^backend "eager" computes in doubles and in one thread of this process: give Backend\("c", '),
])  # fmt: skip
def test_what_a_backend_cannot_do_is_refused(backend, message):
    with pytest.raises(ValueError, match=message):
        Backend(**backend)


class Here:
    """An executor that computes at once, and counts."""

    def __init__(self):
        self.pool, self.calls = ThreadPoolExecutor(1), 0

    def submit(self, *call):
        self.calls += 1
        return self.pool.submit(*call)


def test_the_executor_of_a_backend_computes_many_examples_unless_another_one_is_given():
    default, other, w = Here(), Here(), Value(3.0)
    fast = micrograd.compile(lambda x: w * x, (1.0,), parameters=[w], backend=Backend("python", executor=default))
    assert fast(2.0) == 6.0
    assert default.calls == 0
    assert fast.map([1.0, 2.0]) == [3.0, 6.0]
    assert fast.backward([1.0, 2.0]) == 4.5
    assert (default.calls > 1, w.grad) == (True, 1.5)
    calls = default.calls
    assert fast.map([1.0, 2.0], executor=other) == [3.0, 6.0]
    assert (default.calls, other.calls > 0) == (calls, True)


def test_what_is_no_executor_is_refused():
    w = Value(3.0)
    fast = micrograd.compile(lambda x: w * x, (1.0,), parameters=[w], backend=Backend("python", executor=5))
    for call in fast.map, fast.backward, lambda *of: fast.map(*of, executor=print):
        with pytest.raises(TypeError, match="executor is .*: expected an executor, such as a Process"):
            call([1.0, 2.0])


def test_copies_and_pickles_have_no_executor_and_compute_here():
    fast = micrograd.compile(lambda x: 2 * x, (1.0,), backend=Backend("python", executor=Here()))
    for other in copy.deepcopy(fast), pickle.loads(pickle.dumps(fast)):
        assert other.map([1.0, 2.0]) == [2.0, 4.0]
        assert other.options.backend == Backend("python")
        assert other.options.backend.executor is None


# Finite numbers


def product(a, b):
    return [[sum(x * y for x, y in zip(row, column, strict=True)) for column in zip(*b, strict=True)] for row in a]


def arm(angles):
    """Where the hand of an arm with four joints is, by products of matrices with zeros and ones."""
    place = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    for length, x in zip((0.4, 0.3, 0.5, 0.2), angles, strict=True):
        turn = [[x.cos(), -x.sin(), 0.0], [x.sin(), x.cos(), 0.0], [0.0, 0.0, 1.0]]
        place = product(product(place, turn), [[1.0, 0.0, length], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    return [row[2] for row in place[:2]]


def distance(angles):
    return sum((x - goal) ** 2 for x, goal in zip(arm(angles), (0.1, 0.2), strict=True))


def operations(fast):
    graph = fast._first_graph()
    return len(graph.trace.live(graph.outputs))


@pytest.mark.parametrize(
    ("function", "share"),
    [(arm, 2.5), (distance, 2.5), (jacobian(arm), 1.7), (grad(distance), 2.2), (hessian(distance), 1.3)],
    ids=["arm", "distance", "jacobian", "grad", "hessian"],  # of which a hessian leaves zeros out by itself
)
def test_structural_zeros_of_finite_numbers_vanish(function, share, backend):
    angles = [0.1, 0.2, 0.3, 0.4]
    fast, finite = [micrograd.compile(function, (angles,), backend=backend, finite=on) for on in (False, True)]
    assert operations(finite) < operations(fast) / share
    assert close(*[list(flat(compiled(angles))) for compiled in (fast, finite)])
    trace = pickle.loads(pickle.dumps(finite))._first_graph().trace
    assert trace.finite
    assert not [op for op, lines in zip(trace.ops, trace.operands, strict=True)
                if op in "+*" and any(trace.constants.get(line) == 0 for line in lines)]  # fmt: skip


ZEROS = {
    "x * 0.0": (lambda x: x * 0.0, 0.0), "0.0 * x": (lambda x: 0.0 * x, 0.0), "x * -0.0": (lambda x: x * -0.0, 0.0),
    "0.0 / x": (lambda x: 0.0 / x, 0.0), "x - x": (lambda x: x - x, 0.0), "x + 0.0": (lambda x: x + 0.0, 3.0),
    "0.0 + x": (lambda x: 0.0 + x, 3.0), "0.0 - x": (lambda x: 0.0 - x, -3.0),
}  # fmt: skip


@pytest.mark.parametrize("name", ZEROS)
def test_only_finite_numbers_make_a_product_with_zero_zero(name, backend):
    function, result = ZEROS[name]
    finite = micrograd.compile(function, (1.0,), backend=backend, finite=True)
    assert finite(3.0) == result
    assert operations(finite) <= 2
    fast = micrograd.compile(function, (1.0,), backend=backend)
    for x in (3.0, -0.0, 0.0, math.inf, math.nan):
        if name != "0.0 / x" or x:
            assert repr(fast(x)).replace("-nan", "nan") == repr(function(Value(x)).data).replace("-nan", "nan")
