"""How a function is compiled: what "auto" stands for, and what a backend cannot do is refused."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

import micrograd
from micrograd import Backend, Value


def test_in_a_browsers_python_auto_is_python_and_no_compiler_is_looked_for(monkeypatch, caplog):
    monkeypatch.setattr("micrograd.compiler.options.sys", SimpleNamespace(platform="emscripten"))
    monkeypatch.setattr("micrograd.compiler.function.require_compiler", lambda: pytest.fail("a search"))
    fast = micrograd.compile(lambda x: x * x, (1.0,))
    assert repr(fast) == "<<lambda> compiled to Python, 0 parameters>"
    assert (fast(3.0), caplog.messages) == (9.0, [])


@pytest.mark.parametrize(
    ("backend", "message"),
    [
        ({"name": "numpy"}, "^backend is 'numpy': expected 'auto', 'c', 'python' or, for fit, 'eager'$"),
        ({"name": None}, "^backend is None: expected 'auto', "),
        ({"threads": 0}, "^threads is 0: expected an int, 1 or greater$"),
        ({"precision": "half"}, "^unknown precision 'half': expected \"double\" or \"single\"$"),
        ({"precision": 4}, "^unknown precision 4: expected"),
        (
            {"name": "python", "threads": 2, "precision": "single"},
            r'^backend "python" computes in doubles and in one thread: give '
            r"Backend\(\"c\", threads=2, precision='single'\)$",
        ),
        (
            {"name": "eager", "executor": ThreadPoolExecutor},
            r'^backend "eager" computes in doubles and in one thread of this process: give '
            r'Backend\("c", executor=.*ThreadPoolExecutor',
        ),
    ],
)  # fmt: skip
def test_what_a_backend_cannot_do_is_refused(backend, message):
    with pytest.raises(ValueError, match=message):
        Backend(**backend)


@pytest.mark.parametrize(
    ("backend", "message"), [("C", "^backend is 'C': expected"), ("eager", '^backend "eager" is for fit: call the')]
)
def test_what_compiles_nothing_is_refused(backend, message):
    with pytest.raises(ValueError, match=message):
        micrograd.compile(lambda x: x, (1.0,), backend=backend)


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


def test_copies_and_pickles_have_no_executor_and_compute_here():
    fast = micrograd.compile(lambda x: 2 * x, (1.0,), backend=Backend("python", executor=Here()))
    for other in copy.deepcopy(fast), pickle.loads(pickle.dumps(fast)):
        assert other.map([1.0, 2.0]) == [2.0, 4.0]
        assert other.options.backend == Backend("python")
        assert other.options.backend.executor is None
