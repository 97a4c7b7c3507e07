"""Calls of compiled functions as engineers make them: arrays in and out, shared arguments, some gradients, vectors."""

import copy
import math
import pickle
from array import array
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

import micrograd
from micrograd import Backend, Value, functional, nn, optim, scalar
from tests.helpers import backward, needs_compiler

SINGLE = Backend("c", precision="single")
RNG = np.random.default_rng(7)


def model(p, x, exp=scalar.exp):
    """The sum of two bumps and a line."""
    bumps = [p[3 * k] * exp(-(((x - p[3 * k + 1]) * p[3 * k + 2]) ** 2)) for k in range(2)]
    return bumps[0] + bumps[1] + 0.1 * x


def by_numpy(p, x):
    return model(np.moveaxis(p, -1, 0), x, np.exp)


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
    return True


# Arrays in, arrays out


def test_an_array_among_the_arguments_makes_arrays_of_the_results(backend):
    fast = micrograd.compile(lambda x, y: [[a * y, a + y] for a in x], ([1.0, 2.0, 3.0], 1.0), backend=backend)
    x, xs, ys = RNG.normal(size=3), RNG.normal(size=(5, 3)), RNG.normal(size=5)
    expected = np.stack([xs * ys[:, None], xs + ys[:, None]], -1)
    one, many = fast(xs[0], float(ys[0])), fast.map(xs, ys)
    for found, shape in ((one, (3, 2)), (many, (5, 3, 2))):
        assert type(found) is np.ndarray
        assert (found.dtype, found.shape, found.flags.writeable) == (np.float64, shape, True)
    close(one, expected[0])
    close(many, expected)
    assert fast(x.tolist(), 1.0) == fast(x, 1.0).tolist()
    assert fast.map(xs.tolist(), ys.tolist()) == many.tolist()
    assert fast.map(fast.pack(xs, ys)).tolist() == many.tolist()
    assert type(fast.map(list(xs), ys.tolist())) is np.ndarray
    assert type(fast.map(fast.pack(xs.tolist(), ys.tolist()))) is list


def test_an_array_with_gaps_is_refused_at_every_call(backend):
    fast = micrograd.compile(lambda x: x[0] + x[1], ([1.0, 2.0],), backend=backend)
    assert fast(np.ones(2)) == 2.0
    with pytest.raises(TypeError, match="a masked array has gaps"):
        fast(np.ma.masked_array([1.0, 2.0], [True, False]))


def test_results_of_several_shapes_are_arrays_in_lists(backend):
    fast = micrograd.compile(lambda x: [x[0], [x[1], x[0] * x[1]]], ([1.0, 2.0],), backend=backend)
    scalar_one, rest = fast(np.array([3.0, 4.0]))
    assert (scalar_one, type(scalar_one), type(rest), rest.tolist()) == (3.0, float, np.ndarray, [4.0, 12.0])
    (_, first), (one, second) = fast.map(np.array([[3.0, 4.0], [5.0, 6.0]]))
    assert (one, first.tolist(), second.tolist()) == (5.0, [4.0, 12.0], [6.0, 30.0])


def test_gradients_are_arrays_where_an_argument_is_one(backend):
    fast = micrograd.compile(lambda a, b: a * b[0] * b[1] * -1.0, (1.0, [1.0, 2.0]), backend=backend)
    value, (first, second) = fast.value_and_grad(2.0, np.array([3.0, 0.0]))
    assert (value, first, type(second), second.tolist()) == (0.0, 0.0, np.ndarray, [0.0, -6.0])
    assert math.copysign(1.0, first) == 1.0
    assert math.copysign(1.0, fast.value_and_grad(2.0, [3.0, 0.0])[1][0]) == 1.0
    nested = micrograd.compile(lambda layer: layer[0][0] * layer[1][1], ([np.ones(2), np.ones(3)],), backend=backend)
    weights, biases = nested.value_and_grad([np.array([2.0, 3.0]), np.array([4.0, 5.0, 6.0])])[1]
    assert (weights.tolist(), biases.tolist()) == ([5.0, 0.0], [0.0, 2.0, 0.0])


def test_results_are_written_into_an_array(backend):
    fast = micrograd.compile(lambda x: [x[0] * x[1], x[0]], ([1.0, 2.0],), backend=backend)
    xs = RNG.normal(size=(40, 2))
    out = np.full((40, 2), np.nan)
    for batch in (xs, xs.tolist(), fast.pack(xs), fast.pack(xs.tolist())):
        assert fast.map(batch, out=out) is out
        close(out, np.stack([xs[:, 0] * xs[:, 1], xs[:, 0]], 1))
        out[:] = np.nan
    single = micrograd.compile(lambda x: 2 * x, (1.0,), backend=backend)
    view = np.zeros((3, 4))
    assert single.map([1.0, 2.0, 3.0, 4.0], out=view[1]).tolist() == [2.0, 4.0, 6.0, 8.0]
    assert view.sum(1).tolist() == [0.0, 20.0, 0.0]


def test_an_array_may_be_overwritten_by_its_own_results(backend):
    fast = micrograd.compile(lambda x: [x[1], x[0]], ([1.0, 2.0],), backend=backend)
    xs = RNG.normal(size=(30, 2))
    expected = xs[:, ::-1].tolist()
    assert fast.map(xs, out=xs) is xs
    assert xs.tolist() == expected
    sums = micrograd.compile(lambda x: [x + 1.0, x], (1.0,), backend=backend)
    room = np.arange(60.0)
    assert sums.map(room[:30], out=room.reshape(30, 2)).tolist() == [[x + 1.0, x] for x in range(30)]


@pytest.mark.parametrize(("out", "error", "message"), [
    ([0.0] * 3, TypeError, r"out is \[0.0, 0.0, 0.0\]: expected a writable, aligned C-contiguous NumPy array of 'd'"),
    (array("d", [0.0] * 3), TypeError, "out is array.*: expected"),
    (SimpleNamespace(flags=(), dtype=float), TypeError, "out is .*: expected"),  # as a column of a table
    (np.zeros(3, np.float32), ValueError, r"out is an array of '<f4' and shape \(3,\): expected"),
    (np.zeros(3, ">f8"), ValueError, "out is an array of '>f8'"),
    (np.zeros(4), ValueError, r"out is an array of '<f8' and shape \(4,\): .*such as numpy.empty\(\(3,\), 'd'\)"),
    (np.zeros((3, 1)), ValueError, r"shape \(3, 1\)"),
    (np.zeros(6)[::2], ValueError, r"expected a writable, aligned C-contiguous"),
    (np.broadcast_to(np.zeros(3), (3,)), ValueError, "a writable, aligned"),
    (np.frombuffer(bytearray(25), "d", 3, 1), ValueError, "a writable, aligned"),  # no number is aligned
])  # fmt: skip
def test_an_array_that_results_do_not_fit_into_is_refused(out, error, message):
    fast = micrograd.compile(lambda x: 2 * x, (1.0,), backend="python")
    before = np.array(out).tolist()
    with pytest.raises(error, match=message):
        fast.map([1.0, 2.0, 3.0], out=out)
    assert np.array(out).tolist() == before


def test_results_of_several_shapes_or_chunks_are_written_nowhere():
    fast = micrograd.compile(lambda x: [x, [x, x]], (1.0,), backend="python")
    with pytest.raises(ValueError, match="out cannot have the shape of the results, .*ragged.*: leave it out"):
        fast.map([1.0], out=np.empty((1, 2)))
    with pytest.raises(ValueError, match="for a single batch"):
        fast.map(iter([[1.0]]), out=np.empty((1, 2)))
    with ThreadPoolExecutor(1) as executor, pytest.raises(ValueError, match="for a single batch"):
        fast.map([1.0], executor=executor, out=np.empty((1, 2)))


def test_chunks_and_workers_give_arrays_too(backend):
    fast = micrograd.compile(lambda x: [x, 2 * x], (1.0,), backend=backend)
    xs = np.arange(6.0)
    expected = np.stack([xs, 2 * xs], 1).tolist()
    chunks = list(fast.map(iter([xs[:2], xs[2:]])))
    assert [type(chunk) for chunk in chunks] == [np.ndarray] * 2
    assert np.concatenate(chunks).tolist() == expected
    assert list(fast.map(iter([[0.0, 1.0]]))) == [expected[:2]]
    with ThreadPoolExecutor(2) as executor:
        found = fast.map(xs, executor=executor)
        assert type(found) is np.ndarray
        assert found.tolist() == expected == fast.map(xs.tolist(), executor=executor)


# Gradients of some arguments, also into arrays, and times a vector


def test_only_the_gradients_that_are_asked_for_are_computed(backend):
    fast = micrograd.compile(lambda a, b, c: a * b[0] + b[1].sqrt() + c.log(), (1.0, [1.0, 2.0], 1.0), backend=backend)
    args = 2.0, [3.0, 0.0], 4.0
    with pytest.raises(ZeroDivisionError, match="sqrt"):
        fast.value_and_grad(*args)
    with pytest.raises(ZeroDivisionError, match="sqrt"):
        fast.value_and_grad(*args, argnum=1)
    value = 6.0 + math.log(4.0)
    for _ in range(2):
        assert fast.value_and_grad(*args, argnum=0) == pytest.approx((value, 3.0))
        assert fast.value_and_grad(*args, argnum=-1) == pytest.approx((value, 0.25))
        assert fast.value_and_grad(*args, argnum=(2, 0)) == (pytest.approx(value), (0.25, 3.0))
        assert fast.value_and_grad(*args, argnum=[0]) == (pytest.approx(value), (3.0,))
    args = 2.0, np.array([3.0, 4.0]), 4.0
    _, gradient = fast.value_and_grad(*args, argnum=1)
    assert (type(gradient), gradient.tolist()) == (np.ndarray, [2.0, 0.25])
    assert copy.deepcopy(fast).value_and_grad(2.0, [3.0, 0.0], 4.0, argnum=0)[1] == 3.0


def test_a_list_of_one_number_and_an_objective_without_parameters_say_what_to_give_scipy():
    fast = micrograd.compile(lambda x: (x - 3) ** 2, (1.0,), backend="python")
    what, give = r"got arguments of shape \(\(1,\),\), expected", r"give arguments like the example's, such as x\[0\]"
    with pytest.raises(ValueError, match=rf"{what} .* needs a single Value: {give} for a number$"):
        fast.value_and_grad(np.array([1.0]))  # as minimize does, of SciPy, whose x is a vector
    assert fast.value_and_grad(1.0) == (4.0, -4.0)
    with pytest.raises(TypeError, match=r"uses no Values, .*, write minimize\(fast.value_and_grad"):
        fast.objective([1.0])


@pytest.mark.parametrize("argnum", [2, -3, 0.5, "0", True, (0, 2), (0, None), [[0]]])
def test_only_the_position_of_an_argument_is_accepted(argnum):
    fast = micrograd.compile(lambda x, y: x * y, (1.0, 1.0), backend="python")
    with pytest.raises(TypeError, match="argnum is .*: expected the position of one of 2 arguments, or a tuple"):
        fast.value_and_grad(1.0, 2.0, argnum=argnum)


def test_gradients_are_written_into_arrays(backend):
    fast = micrograd.compile(lambda a, b: a * b[0] * b[1] * -1.0, (1.0, [1.0, 2.0]), backend=backend)
    out = np.empty(()), np.empty(2)
    for b in np.array([3.0, 0.0]), [3.0, 0.0]:
        value, gradients = fast.value_and_grad(2.0, b, out=out)
        assert (value, gradients is out) == (0.0, True)
        assert (float(out[0]), out[1].tolist()) == (0.0, [0.0, -6.0])
        assert fast.value_and_grad(2.0, b, argnum=1, out=out[1])[1] is out[1]
        out[1][:] = np.nan
    for wrong, error in ((np.empty(3), ValueError), (np.empty(2, "f"), ValueError), ([0.0, 0.0], TypeError)):
        with pytest.raises(error, match=r"C-contiguous NumPy array of 'd'.*numpy.empty\(\(2,\), 'd'\)"):
            fast.value_and_grad(2.0, [3.0, 0.0], argnum=1, out=wrong)
    for one in out[1], out[1:]:
        with pytest.raises(TypeError, match=r"expected a tuple of 2 arrays, one for each gradient"):
            fast.value_and_grad(2.0, [3.0, 0.0], out=one)


def test_backward_writes_gradients_into_an_array_and_leaves_each_grad_alone(backend):
    w, fast, xs, ys = objective(backend)
    out = np.empty(3)
    loss = fast.backward(xs, ys, out=out)
    assert [p.grad for p in w] == [0.0, 0.0, 0.0]
    assert (fast.backward(xs, ys), [p.grad for p in w]) == (loss, out.tolist())
    with ThreadPoolExecutor(2) as executor:
        other = np.empty(3)
        assert fast.backward(xs, ys, executor=executor, out=other) == pytest.approx(loss)
        close(other, out)
    with pytest.raises(ValueError, match=r"out is an array of '<f8' and shape \(2,\)"):
        fast.backward(xs, ys, out=np.empty(2))


def test_vjp_equals_that_of_functional(backend):
    def function(p, x):
        return [p[0] * x.sin(), [p[1] * x * w, x]]

    w, p, x, vector = Value(0.5), np.array([2.0, 3.0]), 0.25, [1.0, [2.0, 3.0]]
    fast = micrograd.compile(function, (p, 1.0), backend=backend, in_axes=(None, 0))
    for _ in range(2):
        value, (dp, dx) = fast.vjp(p, x, vector)
        expected = functional.vjp(lambda *args: function(*[*args]), (0, 1))(p, Value(x), vector)
        close([value[0], *value[1]], [scalar.innermost(y) for y in (expected[0][0], *expected[0][1])])
        close(dp, [math.sin(x), 2.0 * x * w.data])
        assert dx == pytest.approx(2.0 * math.cos(x) + 2.0 * 3.0 * w.data + 3.0)
        w.data = 4.0  # each call reads it
    out = np.empty(2)
    assert fast.vjp(p, x, vector, argnum=0, out=out)[1] is out
    assert out.tolist() == fast.vjp(p.tolist(), x, vector, argnum=0)[1] == dp.tolist()
    for wrong, error in ((np.empty(3), ValueError), ((out, out), TypeError)):
        with pytest.raises(error, match="out is "):
            fast.vjp(p, x, vector, argnum=0, out=wrong)
    number = micrograd.compile(lambda x: x * x, (1.0,), backend=backend)
    assert number.vjp(3.0, 0.5) == (9.0, 3.0)
    with pytest.raises(ValueError, match=r"the vector must have the shape of the result"):
        number.vjp(3.0, [1.0, 2.0])
    with pytest.raises(TypeError, match=r"given 1 argument.s.: expected the function's 1, then the vector"):
        number.vjp(3.0)


# Rows that examples select


@pytest.mark.parametrize("n", [1, 3, 40])
@pytest.mark.parametrize("kind", [np.array, list, lambda index: array("i", index)])
def test_examples_select_rows_of_tables(backend, n, kind):
    w = Value(2.0)

    def function(scale, a, b, y):
        return (w * scale * a[0] * b + a[1] - y) ** 2

    fast = micrograd.compile(function, (1.0, [1.0, 2.0], 1.0, 0.0), backend=backend, in_axes=(None, 0, 0, 0))
    tables, ys = (RNG.normal(size=(4, 2)), RNG.normal(size=7)), RNG.normal(size=n)
    index = [RNG.integers(0, len(table), n).tolist() for table in tables]
    gathered = [table[rows] for table, rows in zip(tables, index, strict=True)]
    axes = None, *map(kind, index), 0
    expected = fast.map(0.5, *gathered, ys).tolist()
    packed = fast.pack(0.5, *tables, ys, in_axes=axes)
    for found in (
        fast.map(0.5, *tables, ys, in_axes=axes), fast.map(packed), fast.map(0.5, *tables, ys, in_axes=list(axes)),
        fast.map(0.5, *[table.tolist() for table in tables], ys, in_axes=axes, out=np.empty(n)),
        fast.map(pickle.loads(pickle.dumps(packed))),
    ):  # fmt: skip
        assert (len(packed), found.tolist()) == (n, expected)
    assert packed.chosen([n - 1]).rows() == packed.rows()[n - 1 :] == [(0.5, *gathered[0][-1], gathered[1][-1], ys[-1])]
    with ThreadPoolExecutor(2) as executor:
        assert fast.map(0.5, *tables, ys, in_axes=axes, executor=executor).tolist() == pytest.approx(expected)
    assert fast.backward(packed) == pytest.approx(np.mean(expected))
    gradient, w.grad = w.grad, 0.0
    fast.backward(0.5, *gathered, ys)
    assert w.grad == pytest.approx(gradient)
    with fast.training(optim.SGD([w], 0.01)) as step:
        assert step(packed) == pytest.approx(np.mean(expected))
    ends = [rows[-1:] for rows in index]
    assert fast.map(packed.chosen(range(n - 1, n))).tolist() == pytest.approx(
        fast.map(0.5, *tables, ys[-1:], in_axes=(None, *ends, 0)).tolist()
    )


@pytest.mark.parametrize(("axes", "error", "message"), [
    (([0, 3], 0), IndexError, r"in_axes\[0\] has the index 3, but argument 1 has 3 rows, counted from 0"),
    ((0, np.array([-1, 0, 0])), IndexError, r"in_axes\[1\] has the index -1, but argument 2 has 3 rows"),
    (([0.5, 1.0, 2.0], 0), TypeError, r"in_axes\[0\] is \[0.5, 1.0, 2.0\]: expected .* a row for each"),
    ((1, 0), TypeError, r"in_axes\[0\] is 1: expected 0, None or a list of ints, a row for each example"),
    (([False, True, True], 0), TypeError, r"in_axes\[0\] is \[False, True, True\]: expected"),
    (({0, 1, 2}, 0), TypeError, r"in_axes\[0\] is \{0, 1, 2\}: expected"),
    (([0, 1, 2**63], 0), IndexError, r"in_axes\[0\] has the index 9223372036854775808, but argument 1 has 3 rows"),
    ((np.int64(0), 0), TypeError, r"in_axes\[0\] is np.int64\(0\): expected 0"),
    ((np.zeros((2, 2), int), 0), TypeError, r"in_axes\[0\] is array"),
    ([0, 1, 2], ValueError, r"an entry for each argument, .* such as \(\[2, 0, 0\],\) for one"),
    (([0, 1], 0), ValueError, r"different numbers of examples: \[2, 3\]"),
    ((None, 0), ValueError, r"in_axes is \(None, 0\), but compile was given \(0, 0\): expected an entry for"),
    (([0],), ValueError, r"in_axes is \(\[0\],\), but compile was given \(0, 0\)"),
])  # fmt: skip
def test_wrong_in_axes_are_refused(axes, error, message):
    fast = micrograd.compile(lambda x, y: x * y, (1.0, 1.0), backend="python")
    with pytest.raises(error, match=message):
        fast.map([1.0, 2.0, 3.0], [4.0, 5.0, 6.0], in_axes=axes)
    assert fast.map([1.0, 2.0], [4.0, 5.0], in_axes=0) == [4.0, 10.0]
    for given in [fast.pack([1.0], [2.0])], [iter([([1.0], [2.0])])]:
        with pytest.raises(TypeError, match="in_axes selects rows of lists and arrays, not of packed examples"):
            fast.map(*given, in_axes=([0], [0]))


def test_map_of_no_examples_returns_no_values(backend):
    fast = micrograd.compile(lambda x, y: [x[0] * y, y], ([1.0, 2.0], 1.0), backend=backend)
    with ThreadPoolExecutor(2) as executor:
        assert fast.map(fast.pack(np.zeros((0, 2)), []), executor=executor).shape == (0, 2)
    assert [fast.map([], []), fast.map([[1.0, 2.0]], [2.0], in_axes=([], [])), *fast.map(iter([([], [])]))] == [[]] * 3


# Arguments that all examples share


def test_shared_arguments_are_one_for_all_examples(backend):
    fast = micrograd.compile(model, (np.zeros(6), 0.0), backend=backend, in_axes=(None, 0))
    p = RNG.normal(size=6)
    for n in (1, 3, 33, 1000):
        xs = RNG.normal(size=n)
        for batches in ((p, xs), (p.tolist(), xs), (p, xs.tolist()), (p[::-1].copy()[::-1], xs)):
            found = fast.map(*batches)
            assert type(found) is np.ndarray
            close(found, by_numpy(p, xs))
        assert type(fast.map(p.tolist(), xs.tolist())) is list
        packed = fast.pack(p, xs)
        assert len(packed) == n
        close(fast.map(packed), by_numpy(p, xs))
        close(fast.map(packed.chosen(range(n))), by_numpy(p, xs))
        assert packed.chosen([n - 1]).rows() == packed.rows()[n - 1 :] == [(*p, xs[-1])]
        close(fast.map(pickle.loads(pickle.dumps(packed))), by_numpy(p, xs))
    close(fast(p, 0.5), by_numpy(p, 0.5))
    packed = fast.pack(p, xs)
    p[0] = 0.0
    close(fast.map(packed), by_numpy(p, xs))  # which is used where it lies


def test_examples_of_several_shapes_share_arguments_in_steps_too(backend):
    found, xs = [], [[1.0], [2.0, 3.0], [4.0], [5.0, 6.0], [7.0]]
    for axis, scale in (None, 2.0), (0, [2.0] * 5):
        w = Value(0.5)
        fast = micrograd.compile(
            lambda a, x, w=w: sum([(a * w * b - 1.0) ** 2 for b in x], Value(0.0)), (2.0, [1.0]), parameters=[w],
            backend=backend, in_axes=(axis, 0),
        )  # fmt: skip
        with fast.training(optim.SGD([w], 0.01)) as step:
            found.append([step(scale, xs), step(scale, xs), w.grad, w.data])
    np.testing.assert_allclose(*found, rtol=1e-12)


@needs_compiler
def test_threads_share_arguments(threads_pay):
    fast = micrograd.compile(model, (np.zeros(6), 0.0), backend=Backend("c", threads=2), in_axes=(None, 0))
    p, xs = RNG.normal(size=6), RNG.normal(size=500)
    close(fast.map(p, xs), by_numpy(p, xs))


@pytest.mark.parametrize(("in_axes", "message"), [
    ((None, 0, 0), r"in_axes is \(None, 0, 0\): expected, for each of the function's 2 arguments"),
    ((), "of the function's 2 arguments"), ((None, None), r"in_axes is \(None, None\): expected, .* 0 .* or None"),
    (None, "in_axes is None: expected, .* 0 .* or None"), ((0, False), "in_axes is .*: expected"),
    ("00", "in_axes is '00': expected"),
])  # fmt: skip
def test_axes_that_do_not_fit_are_refused(in_axes, message):
    with pytest.raises(ValueError, match=message):
        micrograd.compile(lambda x, y: x * y, (1.0, 1.0), backend="python", in_axes=in_axes)


def test_examples_packed_for_other_axes_are_refused():
    shared = micrograd.compile(lambda x, y: x * y, (1.0, 1.0), backend="python", in_axes=(None, 0))
    each = micrograd.compile(lambda x, y: x * y, (1.0, 1.0), backend="python")
    for one, other in ((shared, each), (each, shared)):
        with pytest.raises(TypeError, match="other in_axes or in another precision: pack them"):
            one.map(other.pack(*([1.0, 2.0] if axis == 0 else 1.0 for axis in (other.options.in_axes or (0, 0)))))
    assert np.array_equal(shared.map([1.0, 2.0], [3.0, 4.0]), [[3.0, 6.0], [4.0, 8.0]])  # no batch, but one array


# The mean over examples as a function of one vector


def objective(backend, **options):
    w = [Value(0.1), Value(0.2), Value(0.3)]
    fast = micrograd.compile(
        lambda x, y: (w[0] * x * x + w[1] * x + w[2] - y) ** 2, (0.0, 0.0), parameters=w, backend=backend, **options
    )
    xs = np.linspace(-1.0, 1.0, 41)
    return w, fast, xs, 3.0 * xs**2 - 2.0 * xs + 1.0


def test_an_objective_is_the_mean_and_its_gradient(backend):
    w, fast, xs, ys = objective(backend)
    batch = fast.pack(xs, ys)
    fun, x0 = fast.objective(batch)
    assert (type(x0), x0.dtype, x0.tolist()) == (np.ndarray, np.float64, [0.1, 0.2, 0.3])
    value, gradient = fun(x0)
    assert (type(value), type(gradient), gradient.dtype) == (float, np.ndarray, np.float64)
    assert fast.backward(batch) == value
    assert [p.grad for p in w] == gradient.tolist()
    assert [p.data for p in w] == [0.1, 0.2, 0.3]
    assert fun([0.1, 0.2, 0.3]) == (value, gradient.tolist())
    other = fun(np.array([3, -2, 1]))
    assert other[0] == pytest.approx(0.0, abs=1e-20)
    assert fun(x0)[1].tolist() == gradient.tolist()
    assert fast.objective(xs.tolist(), ys.tolist())[0](x0)[0] == value
    fast.load(np.array([3, -2, 1]))
    assert repr([p.data for p in w]) == "[3.0, -2.0, 1.0]"


@needs_compiler
def test_an_objective_has_the_precision_and_the_errors_of_its_function():
    _, fast, xs, ys = objective(SINGLE)
    fun, x0 = fast.objective(xs, ys)
    value, gradient = fun(x0)
    assert gradient.dtype == np.float32
    assert value == pytest.approx(objective("c")[1].objective(xs, ys)[0](x0)[0], rel=1e-6)
    with pytest.raises(OverflowError, match="number 2 is 1e\\+39"):
        fun([0.0, 0.0, 1e39])
    _, fast, xs, ys = objective(SINGLE, errors="ieee")
    assert fast.objective(xs, ys)[0]([0.0, 0.0, 1e38])[0] == math.inf


def test_an_objective_without_numpy_begins_from_a_list(monkeypatch):
    monkeypatch.setattr("micrograd.compiler.compiled.find_spec", lambda name: None)
    _, fast, xs, ys = objective("python")
    fun, x0 = fast.objective(xs.tolist(), ys.tolist())
    assert x0 == [0.1, 0.2, 0.3]
    assert type(fun(x0)[1]) is list


@pytest.mark.parametrize(("vector", "error", "message"), [
    ([1.0, 2.0], ValueError, r"the vector is \[1.0, 2.0\]: expected 3 numbers, one for each parameter, as in x0"),
    (np.ones((3, 1)), ValueError, "expected 3 numbers"),
    (np.ones(()), ValueError, "expected 3 numbers"),
    (1.0, ValueError, "expected 3 numbers"),
    ([1.0, None, 2.0], TypeError, "expected a real number, not None"),
    (np.ones(3, complex), TypeError, "expected real numbers"),
])  # fmt: skip
def test_a_vector_that_does_not_fit_the_parameters_is_refused(vector, error, message):
    w, fast, xs, ys = objective("python")
    fun, _ = fast.objective(xs, ys)
    for call in (fun, fast.load):
        with pytest.raises(error, match=message):
            call(vector)
    assert [p.data for p in w] == [0.1, 0.2, 0.3]


# Calls in other functions


def test_a_compiled_function_is_traced_through(backend):
    inner = micrograd.compile(model, (np.zeros(6), 0.0), backend=backend)
    outer = micrograd.compile(lambda p, x: inner(p, x) ** 2 + inner(p, 2 * x), (np.zeros(6), 0.0), backend=backend)
    plain = micrograd.compile(lambda p, x: model(p, x) ** 2 + model(p, 2 * x), (np.zeros(6), 0.0), backend=backend)
    p, xs = RNG.normal(size=(9, 6)), RNG.normal(size=9)
    assert outer.map(p, xs).tolist() == plain.map(p, xs).tolist()
    assert outer.value_and_grad(p[0], 0.5)[1][0].tolist() == plain.value_and_grad(p[0], 0.5)[1][0].tolist()
    assert micrograd.compile(inner, (np.zeros(6), 0.0), backend=backend)(p[0], 0.5) == inner(p[0], 0.5)


def test_a_compiled_function_has_the_derivatives_of_what_it_was_compiled_from(backend):
    def function(x):
        return x[0] ** 3 * x[1].sin()

    fast = micrograd.compile(function, ([1.0, 2.0],), backend=backend)
    for derivative in (functional.grad, functional.jacobian, functional.hessian):
        assert derivative(fast)([2.0, 3.0]) == derivative(function)([2.0, 3.0])
    assert functional.grad(lambda x: fast([x, 3.0]))(2.0) == functional.grad(function)([2.0, 3.0])[0]
    x = [Value(2.0), Value(3.0)]
    result = fast(x)
    result.backward()
    assert result.data == function(x).data
    assert [v.grad for v in x] == functional.grad(function)([2.0, 3.0])
    arrays = micrograd.compile(lambda x: (x * x).sum(), (np.ones(2),), backend=backend)
    assert functional.grad(lambda x: arrays([x[0], 3.0 * x[1]]))([1.0, 2.0]) == [2.0, 36.0]


def test_the_parameters_of_a_compiled_function_are_traced_through(backend):
    network = nn.MLP(2, [3, 1], rng=0)
    fast = micrograd.compile(network, ([0.0, 0.0],), parameters=network.parameters(), backend=backend)

    def gradients(network_of):
        loss = micrograd.compile(
            lambda y: (network_of([0.5, -0.5]) - y) ** 2, (0.0,), parameters=network.parameters(), backend=backend
        )
        return backward(loss, [1.0, 2.0])

    expected = gradients(network)
    assert any(expected[1:])
    assert gradients(fast) == expected
    with fast.frozen():
        assert gradients(fast) == expected
        assert type(fast([0.5, -0.5])) is float


def test_many_examples_are_no_part_of_another_function(backend):
    w = Value(1.0)
    fast = micrograd.compile(lambda x: w * x, (1.0,), parameters=[w], backend=backend)
    with pytest.raises(TypeError, match="give its .data"):
        micrograd.compile(lambda x: fast.map([x])[0], (1.0,), backend=backend)
    with pytest.raises(TypeError, match="are being traced: call the function with one example"):
        micrograd.compile(lambda x: fast.map([1.0])[0] * x, (1.0,), parameters=[w], backend=backend)


# What parameters and arguments hold


def test_backward_adds_to_gradients_of_any_number_type_and_to_nothing_else():
    v, w = Value(1.0), Value(2.0)
    fast = micrograd.compile(lambda x: v * w * x, (0.0,), parameters=[v, w], backend="python")
    for grad in None, "1", 1j:
        w.grad = grad
        with pytest.raises(TypeError, match="the grad of parameter 1 does not hold a number: "):
            fast.backward([1.0, 2.0])
        assert (v.grad, w.grad) == (0.0, grad)
    w.grad = np.float32(1)
    fast.backward([1.0, 2.0])
    assert repr(w.grad) == "2.5"


def test_an_array_s_rows_have_one_length():
    fast = micrograd.compile(lambda x: x.sum(), (np.ones((2, 2)),), backend="python")
    with pytest.raises(ValueError, match="got arguments of shape .*ragged.*: all rows of an array must have"):
        fast([[1.0], [1.0, 2.0]])
    assert fast(1.0) == 1.0  # of an array without dimensions
