import math
import pickle
import sys
from itertools import pairwise

import pytest
from hypothesis import given

import micrograd
from micrograd import Backend, Value, dot, hessian, jacobian, scalar, where
from micrograd import sum as total
from tests.helpers import assert_close, graphs, has_compiler, random_examples, results_of, run

np = pytest.importorskip("numpy")
sparse = pytest.importorskip("scipy.sparse")


def rosenbrock(x):
    return total([100 * (b - a * a) ** 2 + (1 - a) ** 2 for a, b in pairwise(x)])


def swing(x, steps=8):
    """The gaps between the steps of a pendulum, by Heun's method: angles, velocities and torques, then the time."""
    h = x[-1] / steps

    def slope(angle, velocity, torque):
        return velocity, torque - 0.1 * velocity - 9.81 * scalar.sin(angle)

    gaps = []
    for k in range(steps):
        angle, velocity, torque, *following = x[3 * k : 3 * k + 5]
        a, b = slope(angle, velocity, torque)
        c, d = slope(angle + h * a, velocity + h * b, torque)
        gaps += [following[0] - angle - h / 2 * (a + c), following[1] - velocity - h / 2 * (b + d)]
    return gaps


def places(matrix):
    """The rows and columns of a matrix that are not zero."""
    return tuple([index.tolist() for index in np.nonzero(np.array(matrix))])


POINT = [0.1 + 0.3 * math.sin(i) for i in range(8 * 3 + 2)] + [2.0]
MULTIPLIERS = [math.cos(i) for i in range(16)]


def test_a_jacobian_is_a_csr_array_of_what_is_not_zero(backend):
    fast = micrograd.compile(jacobian(swing), (POINT,), backend=backend, sparse=True)
    dense = jacobian(swing)(POINT)
    found = fast(POINT)
    assert type(found) is sparse.csr_array
    assert found.shape == (16, 27)
    assert found.has_canonical_format
    assert fast.pattern == places(dense)
    assert found.nnz == len(fast.pattern[0]) == 16 * 5
    assert found.toarray() == pytest.approx(np.array(dense), rel=1e-13, abs=1e-13)


def test_a_hessian_is_symmetric_and_of_the_pattern_of_the_dense_one(backend):
    def lagrangian(x, multipliers):
        return total([u * u for u in x[2::3]]) * x[-1] + dot(multipliers, swing(x))

    fast = micrograd.compile(hessian(lagrangian), (POINT, MULTIPLIERS), backend=backend, sparse=True)
    dense = hessian(lagrangian)(POINT, MULTIPLIERS)
    found = fast(POINT, MULTIPLIERS).toarray()
    assert fast.pattern == places(dense)
    assert found == pytest.approx(np.array(dense), rel=1e-12, abs=1e-12)
    assert np.array_equal(found, found.T)


def test_tracing_grows_with_what_is_not_zero():
    def lines(n):
        fast = micrograd.compile(hessian(rosenbrock), ([0.5] * n,), backend="python", sparse=True)
        assert len(fast.pattern[0]) == 3 * n - 2
        return len(fast._first_graph().trace.ops)

    assert lines(80) - lines(60) == lines(40) - lines(20)


def test_half_of_a_hessian_is_computed():
    def f(x):
        return total([scalar.exp(a * b * c) for a, b, c in zip(x, x[1:], x[2:], strict=False)])

    graphs = [
        micrograd.compile(second, ([1.0] * 20,), backend="python", sparse=True)._first_graph()
        for second in (hessian(f), jacobian(micrograd.grad(f)))
    ]
    half, whole = [len(graph.trace.live(graph.outputs)) for graph in graphs]
    assert half < 0.8 * whole
    assert len(graphs[0].outputs) == len(graphs[1].outputs) == 20 + 2 * (19 + 18)


def chain(x):
    """Rows that share a long computation on one number."""
    first = x[0]
    for _ in range(100):
        first = scalar.sin(first) + 0.5 * first
    return [first * other for other in x[1:]]


def sum_and_squares(x):
    """A sum that is long, too, but on which one row depends."""
    long = 0.0
    for a in x:
        long = long + scalar.sin(a)
    return [long, *[a * a for a in x]]


def shares(x):
    """A matrix without zeros."""
    whole = sum(x)
    return [a / whole for a in x]


@pytest.mark.parametrize(("function", "each"), [
    (chain, 8 * 100), (lambda x: chain(x)[:1], 8 * 100), (sum_and_squares, 5 * 60), (shares, 3 * 60 * 60),
])  # fmt: skip
def test_derivatives_are_carried_in_the_direction_of_less_work(function, each):
    """So that the operations are some for each link, or for each number in the matrix."""
    x = [0.1 * i for i in range(1, 61)]
    fast = micrograd.compile(jacobian(function), (x,), backend="python", sparse=True)
    assert fast.pattern == places(jacobian(function)(x))
    assert fast(x).toarray() == pytest.approx(np.array(jacobian(function)(x)), rel=1e-12)
    graph = fast._first_graph()
    assert len(graph.trace.live(graph.outputs)) < each


@given(graphs())
@random_examples(40)
def test_sparse_derivatives_of_random_functions_are_the_dense_ones(graph):
    numbers, steps = graph

    for dense in jacobian(lambda xs: results_of(xs, steps)), hessian(lambda xs: run(xs, steps)):
        fast = micrograd.compile(dense, (numbers,), backend="python", sparse=True)
        matrix, expected = fast(numbers).toarray(), np.array(dense(numbers))
        assert set(zip(*places(expected), strict=True)) <= set(zip(*fast.pattern, strict=True))
        assert_close(matrix.ravel(), expected.ravel())


def test_each_matrix_is_its_own(backend):
    fast = micrograd.compile(hessian(rosenbrock), ([0.0] * 4,), backend=backend, sparse=True)
    first, second = fast([1.0, 2.0, 3.0, 4.0]), fast([1.0, 1.0, 1.0, 1.0])
    before = second.toarray()
    first.data[:] = 0.0
    first.eliminate_zeros()
    assert np.array_equal(second.toarray(), before)
    assert np.array_equal(fast([1.0, 1.0, 1.0, 1.0]).toarray(), before)


def test_map_gives_a_list_of_matrices_and_into_an_array_the_numbers_alone(backend):
    points = np.array([[0.5, 1.0, 2.0], [1.0, 2.0, 3.0], [0.0, -1.0, 1.0], [0.25, 0.5, 1.5]])
    fast = micrograd.compile(hessian(rosenbrock), (points[0],), backend=backend, sparse=True)
    expected = [hessian(rosenbrock)(x) for x in points]
    for matrices in fast.map(points), fast.map(points.tolist()), *fast.map(iter([points, points])):
        assert {type(matrix) for matrix in matrices} == {sparse.csr_array}
        for matrix, right in zip(matrices, expected, strict=True):
            assert matrix.toarray() == pytest.approx(np.array(right), rel=1e-13)
    rows, columns = fast.pattern
    out = np.empty((4, len(rows)))
    assert fast.map(points, out=out) is out
    for numbers, right in zip(out, expected, strict=True):
        assert numbers == pytest.approx(np.array(right)[rows, columns], rel=1e-13)


def test_parameters_are_read_at_each_call_and_arrays_reach_the_function(backend):
    w = Value(2.0)

    def f(x, y):
        assert isinstance(x, np.ndarray)
        return [w * x[0] * x[1] * y, x[2] * w**2, 1.0, x[0] * 0.0 + 3 * x[2]]

    fast = micrograd.compile(jacobian(f), (np.arange(3.0), 1.0), parameters=[w], backend=backend, sparse=True)
    assert fast.pattern == ([0, 0, 1, 3], [0, 1, 2, 2])
    assert fast(np.array([1.0, 2.0, 3.0]), 5.0).toarray().tolist() == [[20, 10, 0], [0, 0, 4], [0, 0, 0], [0, 0, 3]]
    w.data = 3.0
    assert fast([1.0, 2.0, 3.0], 5.0).toarray().tolist() == [[30, 15, 0], [0, 0, 9], [0, 0, 0], [0, 0, 3]]


def test_other_positions_and_precision():
    def f(scale, x):
        return [scale * a * b for a, b in pairwise(x)]

    x = [1.0, 2.0, 3.0]
    fast = micrograd.compile(jacobian(f, 1), (2.0, x), backend="python", sparse=True)
    assert fast(2.0, x).toarray().tolist() == [[4.0, 2.0, 0.0], [0.0, 6.0, 4.0]]
    if has_compiler():
        single = micrograd.compile(jacobian(f, 1), (2.0, x), backend=Backend("c", precision="single"), sparse=True)
        assert single(2.0, x).dtype == np.float32
        assert single(2.0, x).toarray().tolist() == [[4.0, 2.0, 0.0], [0.0, 6.0, 4.0]]


def vanishing(x):
    return [x[0] * 0.0 * x[1] ** 2 * x[2]]


@pytest.mark.parametrize(("f", "finite", "pattern", "matrices"), [
    (lambda x: [where(x[0] > 0, x[0] * x[1], 1.0), x[1].relu(), x[1].detach() * x[0]], False,
     ([0, 0, 1, 2], [0, 1, 1, 0]),
     {(1, 2, 3): [[2, 1, 0], [0, 1, 0], [2, 0, 0]], (-1, -2, 3): [[0, 0, 0], [0, 0, 0], [-2, 0, 0]]}),
    (lambda x: [x[0] - x[0] + x[1], x[0] * 0.0 * x[1] + x[1]], False, ([0, 1], [1, 1]), {(2, 3, 4): [[0, 1, 0]] * 2}),
    (vanishing, False, ([0, 0], [1, 2]), {}),  # infinity * 0.0 is not 0.0
    (vanishing, True, ([], []), {}),
])  # fmt: skip
def test_a_pattern_has_what_is_decided_at_a_call_but_not_what_is_zero_for_all_numbers(
    f, finite, pattern, matrices, backend
):
    fast = micrograd.compile(jacobian(f), ([1.0, 2.0, 3.0],), finite=finite, backend=backend, sparse=True)
    assert fast.pattern == pattern
    assert {x: fast([*x]).toarray().tolist() for x in matrices} == matrices


@pytest.mark.parametrize(("function", "x", "matrix"), [
    (jacobian(rosenbrock), [1.0, 2.0], [[-400.0, 200.0]]), (jacobian(lambda x: [x, 3 * x]), 1.0, [[1.0], [3.0]]),
    (jacobian(lambda x: [x]), [1.0, 2.0], [[1.0, 0.0], [0.0, 1.0]]),
    (jacobian(lambda x: [x["b"], x["a"] ** 2]), {"b": 2.0, "a": 1.0}, [[0.0, 1.0], [2.0, 0.0]]),
    (hessian(lambda x: x[0][0] ** 2 * x[1][0]), [[1.0], [3.0]], [[6.0, 2.0], [2.0, 0.0]]),
])  # fmt: skip
def test_nested_numbers_are_the_rows_and_columns_of_a_matrix_in_order(function, x, matrix):
    fast = micrograd.compile(function, (x,), sparse=True, backend="python")
    assert [found.toarray().tolist() for found in (fast(x), *fast.map([x]))] == [matrix] * 2


MATRIX = ([1.0, 2.0],)


def of_chain(**options):
    return micrograd.compile(jacobian(chain), MATRIX, **options)


@pytest.mark.parametrize(("call", "message"), [
    (lambda: micrograd.compile(lambda x: x, MATRIX, sparse=True), r"expected jacobian\(f\) or hessian\(f\)"),
    (lambda: of_chain().pattern, r"no pattern: compile .* with sparse=True"),
    (lambda: of_chain(sparse=True).vjp(*MATRIX, [1.0]), "for sparse=True"),
    (lambda: of_chain(sparse=True)(list(map(Value, *MATRIX))), "expected a real number, not Value"),
])  # fmt: skip
def test_what_is_no_matrix_or_needs_another_function_is_refused(call, message):
    with pytest.raises(TypeError, match=message):
        call()


def test_without_scipy_there_is_a_pattern_and_map_fills_arrays(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.sparse", None)
    fast = micrograd.compile(jacobian(lambda x: [x[0] * x[1], x[1]]), ([1.0, 2.0],), sparse=True)
    assert fast.pattern == ([0, 0, 1], [0, 1, 1])
    assert fast.map([[3.0, 4.0]], out=np.empty((1, 3))).tolist() == [[4.0, 3.0, 1.0]]
    with pytest.raises(ModuleNotFoundError, match="scipy"):
        fast([1.0, 2.0])


def test_a_pickle_computes_the_same():
    fast = micrograd.compile(jacobian(swing), (POINT,), sparse=True)
    other = pickle.loads(pickle.dumps(fast))
    assert (other.pattern, other(POINT).toarray().tolist()) == (fast.pattern, fast(POINT).toarray().tolist())
