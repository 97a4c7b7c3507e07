"""What is traced in place of the user's function: it gets arrays where several numbers come for one."""

import pickle
import sys

import pytest

import micrograd

np = pytest.importorskip("numpy")


@pytest.mark.parametrize(("function", "examples", "came", "expected"), [
    (lambda x, y: x + y, (0.0, 0.0), ([1.0, 2.0], [3.0, 4.0]), [4.0, 6.0]),
    (lambda x, y: x + y, (0.0, 0.0), (5.0, [3.0, 4.0]), [8.0, 9.0]),
    (lambda x: x * 2, (0.0,), ([[1.0, 2.0], [3.0, 4.0]],), [[2.0, 4.0], [6.0, 8.0]]),
    (lambda x: x["a"] * 2, ({"a": 0.0, "b": 1.0},), ({"a": [1.0, 2.0], "b": 1.0},), [2.0, 4.0]),
    (lambda x: next(iter(x.values())) * 2, ({"b": 0.0, "a": 1.0},), ({"a": 1.0, "b": [1.0, 2.0]},), [2.0, 4.0]),
    (lambda xs: xs[0] + xs[1], ([0.0, 0.0],), ([[1.0, 2.0], [3.0, 4.0]],), [4.0, 6.0]),
    (lambda xs: xs * 2, ([0.0, 0.0],), ([1.0, 2.0],), [1.0, 2.0, 1.0, 2.0]),
])  # fmt: skip
def test_a_function_of_a_number_gets_an_array_where_several_numbers_came(function, examples, came, expected):
    as_array = [
        {key: np.array(value) for key, value in argument.items()} if isinstance(argument, dict) else np.array(argument)
        for argument in came
    ]
    fast = micrograd.compile(function, examples, backend="python")
    for arguments in (as_array, came):
        assert np.array_equal(fast(*arguments), expected)
        assert np.array_equal(fast.map(*[[argument, argument] for argument in arguments]), [expected, expected])
    assert np.array_equal(pickle.loads(pickle.dumps(fast))(*came), expected)


def test_the_eager_calls_of_a_function_of_a_number_get_an_array_too():
    fast = micrograd.compile(lambda x: x * 2, (0.0,), backend="python")
    assert micrograd.jacobian(fast)(np.array([1.0, 2.0])).tolist() == [[2.0, 0.0], [0.0, 2.0]]


def test_only_an_array_is_accepted_for_several_numbers_where_the_example_has_one(monkeypatch):
    fast = micrograd.compile(lambda x: x * 2, (0.0,), backend="python")
    with pytest.raises(ValueError, match=r"got arguments of shape .*ragged.*, expected \(\(\),\)"):
        fast([[1.0, 2.0], [3.0]])
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(ValueError, match=r"got arguments of shape \(\(2,\),\), expected \(\(\),\): .*numpy"):
        fast([1.0, 2.0])


@pytest.mark.parametrize("came", [([1.0], 2.0), (np.array([1.0]), 2.0)])
def test_a_method_that_an_array_lacks_is_an_error_about_the_shape(came):
    fast = micrograd.compile(lambda x, y: x.exp() * y, (0.0, 0.0), backend="python", in_axes=(None, 0))
    with pytest.raises(ValueError, match=r"got arguments of shape \(\(1,\), \(\)\), expected .* no attribute 'exp'"):
        fast(*came)
    with pytest.raises(ValueError, match=r"got arguments of shape \(\(2,\), \(\)\), expected .* no attribute 'exp'"):
        fast.map([1.0, 2.0], [1.0, 2.0])  # the shared argument is no batch
