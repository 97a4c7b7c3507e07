"""Dicts as arguments and results, of derivatives and of compiled functions."""

import pickle
from array import array
from collections import OrderedDict

import numpy as np
import pytest

import micrograd
from micrograd import grad, gradcheck, hessian, hvp, jacobian, jvp, value_and_grad, vjp
from micrograd.support.trees import Keys, flat, leaves, nested, shape_of, size, unflatten

TREE = {"w": [[1.0, 2.0], [3.0, 4.0]], "b": {"x": 0.5}}
NONE = {**TREE, "b": {"x": None}}
OTHER = {"b": {"x": 0.25}, "w": [[2.0, 0.0], [1.0, -1.0]]}


def model(p, x):
    return (p["w"][0][0] * x + p["w"][1][1] * p["b"]["x"]) ** 2


GRADIENT = {"b": {"x": 32.0}, "w": [[16.0, 0.0], [0.0, 4.0]]}
"""That of the model by TREE, for x = 2."""


def test_the_numbers_of_a_dict_have_the_order_of_its_keys_whatever_that_of_its_items():
    assert flat(TREE) == [0.5, 1.0, 2.0, 3.0, 4.0]
    assert flat({"b": 1.0, "a": [2.0, 3.0]}) == flat({"a": [2.0, 3.0], "b": 1.0}) == [2.0, 3.0, 1.0]
    assert [path for path, _ in leaves("p", {"b": [0.0, (1.0,)], 'a"': np.zeros(1)})] == [
        "p['a\"'][0]", "p['b'][0]", "p['b'][1][0]",
    ]  # fmt: skip


@pytest.mark.parametrize(("tree", "shape", "n"), [
    (TREE, (Keys(["b", "w"]), (Keys(["x"]), ()), (2, 2)), 5),
    ([TREE, OTHER], (2, Keys(["b", "w"]), (Keys(["x"]), ()), (2, 2)), 10),
    ([{"a": 1.0}, {"b": 1.0}], ("ragged", (Keys(["a"]), ()), (Keys(["b"]), ())), 2),
    ({}, (Keys(),), 0),
    (1.5, (), 1),
    ({"a": [[], []]}, (Keys(["a"]), (2, 0)), 0),
    ({1: [1.0, [2.0]]}, (Keys([1]), ("ragged", (), (1,))), 2),
])  # fmt: skip
def test_a_shape_has_the_keys_of_dicts_and_numbers_go_back_into_it(tree, shape, n):
    assert shape_of(tree) == shape
    assert size(shape) == n
    assert unflatten(iter(flat(tree)), shape) == tree == nested(array("d", flat(tree)), shape)
    assert pickle.loads(pickle.dumps(shape)) == shape


def test_a_gradient_is_a_dict_like_the_argument():
    assert grad(model)(TREE, 2.0) == GRADIENT
    assert value_and_grad(model, (0, 1))(TREE, 2.0) == (16.0, [GRADIENT, 8.0])
    assert list(grad(model)(TREE, 2.0)) == ["b", "w"]
    assert grad(lambda p: p["a"] * p["b"])(OrderedDict(b=2.0, a=3.0)) == {"a": 2.0, "b": 3.0}
    assert list(TREE) == ["w", "b"]
    assert gradcheck(model, (TREE, 2.0))


def test_the_function_gets_a_copy_of_a_dict():
    def f(p):
        p["a"] = p["a"] * p.pop("b")
        return p["a"]

    tree = {"a": 2.0, "b": 3.0}
    assert grad(f)(tree) == {"a": 3.0, "b": 2.0}
    assert tree == {"a": 2.0, "b": 3.0}


def square(p):
    return {"s": p["a"] + p["b"], "p": [p["a"] * p["b"] ** 2]}


def test_derivatives_nest_in_dicts():
    point, direction = {"b": 3.0, "a": 2.0}, {"b": 1.0, "a": 0.0}
    assert jacobian(square)(point) == {"p": [{"a": 9.0, "b": 12.0}], "s": {"a": 1.0, "b": 1.0}}
    assert hessian(lambda p: square(p)["p"][0])(point) == {"a": {"a": 0.0, "b": 6.0}, "b": {"a": 6.0, "b": 4.0}}
    assert jvp(square)(point, direction) == ({"p": [18.0], "s": 5.0}, {"p": [12.0], "s": 1.0})
    assert vjp(square)(point, {"s": 1.0, "p": [2.0]})[1] == {"a": 19.0, "b": 25.0}
    assert hvp(lambda p: square(p)["p"][0])(point, direction) == {"a": 6.0, "b": 4.0}
    assert hvp(lambda p: square(p)["p"][0])(point, [0.0, 1.0]) == {"a": 6.0, "b": 4.0}


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: grad(model)({"w": [[1.0, "x"]]}, 2.0), TypeError, r"^args\[0\]\['w'\]\[0\]\[1\]: .* str: 'x'$"),
    (lambda: grad(model, 1)(TREE, [1.0, None]), TypeError, r"^args\[1\]\[1\]: a Value holds a number"),
    (lambda: grad(model, -1)(TREE, None), TypeError, r"^args\[1\]: a Value holds a number"),
    (lambda: grad(model)({1: 1.0, "a": 2.0}, 2.0), TypeError, "not supported between instances of"),
    (lambda: hvp(square)({"a": 1.0, "b": 2.0}, {"a": 1.0, "c": 2.0}), TypeError, "grad.. expects"),
    (
        lambda: jvp(square)({"a": 1.0, "b": 2.0}, {"a": 1.0, "c": 2.0}),
        ValueError,
        r"shape of x, {'a': \(\), 'b': \(\)}, not {'a': \(\), 'c': \(\)}",
    ),
    (lambda: jvp(lambda x: x[0])([1.0, 2.0], {"a": 1.0, "b": 2.0}), ValueError, r"shape of x, \(2,\), not {'a'"),
])  # fmt: skip
def test_an_error_says_where_in_the_dict_it_is(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_compiled_function_takes_and_returns_dicts(backend):
    fast = micrograd.compile(model, (TREE, 2.0), backend=backend)
    assert fast(OTHER, 3.0) == pytest.approx(model(OTHER, 3.0))
    assert fast.map([TREE, OTHER], [1.0, 2.0]) == pytest.approx([model(TREE, 1.0), model(OTHER, 2.0)])
    assert fast.map(fast.pack((TREE, OTHER), [1.0, 2.0])) == fast.map([TREE, OTHER], [1.0, 2.0])
    assert fast.value_and_grad(TREE, 2.0) == (16.0, (GRADIENT, 8.0))
    assert fast.value_and_grad(TREE, 2.0, argnum=0) == (16.0, GRADIENT)
    shared = micrograd.compile(model, (TREE, 2.0), backend=backend, in_axes=(None, 0))
    assert shared.map(TREE, [1.0, 2.0]) == pytest.approx([model(TREE, 1.0), model(TREE, 2.0)])
    results = micrograd.compile(square, ({"a": 0.0, "b": 0.0},), backend=backend)
    assert results({"b": 3.0, "a": 2.0}) == {"p": [18.0], "s": 5.0}
    assert results.map([{"b": 3.0, "a": 2.0}] * 2) == [{"p": [18.0], "s": 5.0}] * 2
    both = micrograd.compile(value_and_grad(model), (TREE, 2.0), backend=backend)
    assert both(TREE, 2.0) == [16.0, GRADIENT]


def test_arrays_in_the_dicts_of_a_compiled_function(backend):
    def f(p):
        return {"y": p["w"] @ p["x"], "w": p["w"] * p["s"]}

    point = {"w": np.array([1.0, 2.0]), "x": np.array([3.0, 4.0]), "s": 2.0}
    fast = micrograd.compile(f, (point,), backend=backend)
    for result in (fast(point), fast.map([point] * 2)[1]):
        assert (result["y"], list(result["w"])) == (11.0, [2.0, 4.0])
    assert type(fast(point)["w"]) is np.ndarray
    _, gradient = micrograd.compile(lambda p: f(p)["y"], (point,), backend=backend).value_and_grad(point)
    assert {key: type(x) for key, x in gradient.items()} == {"s": float, "w": np.ndarray, "x": np.ndarray}
    assert gradient["w"].tolist() == [3.0, 4.0]


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda fast: fast({**TREE, "w": [[1.0, "x"]]}, 2.0), TypeError, r"argument 1: .*\['w'\]\[0\]\[1\]"),
    (lambda fast: fast.map([TREE, NONE], [1.0, 2.0]), TypeError, r"\(at \[1\]\['b'\]\['x'\]\)$"),
    (lambda fast: fast({**TREE, "b": {"y": 1.0}}, 2.0), ValueError, r"got .*{'y': \(\)}.*no key 'x'$"),
    (lambda fast: fast([1.0], 2.0), ValueError, "got arguments of shape"),
    (lambda fast: fast.map([TREE, 1.0], [1.0, 2.0]), ValueError, r"of shape \(\), expected {'b': {'x': \(\)}"),
    (lambda fast: fast.map([1.0, TREE], [1.0, 2.0]), ValueError, r"got .* of shape {'b': .*}, expected \(\)"),
    (lambda fast: fast.map(TREE, 1.0), TypeError, "argument 1: expected a list or an array of examples"),
])  # fmt: skip
def test_what_a_compiled_function_of_dicts_does_not_take(call, error, message):
    fast = micrograd.compile(model, (TREE, 2.0), backend="python")
    with pytest.raises(error, match=message):
        call(fast)
