"""Programs about clusters of points: a mixture of Gaussians, and k-means."""

import math
from typing import Any

import numpy as np

import micrograd
from micrograd import dot, jvp, logsumexp, minimum, scan
from micrograd import sum as total
from tests.benchmarks.gradbench.libraries import Library
from tests.benchmarks.gradbench.problem import Problem, Task, uniform

POINTS, GAMMA = 1000, 1.0  # of a mixture: the points, and the precision of the prior

# gmm: the gradient of the logarithm of the posterior of a mixture with respect to its weights, its means, and the
# precisions. These are triangular matrices: logarithms of the diagonal, and what is below it, column by column


def mixture(d: int, k: int, n: int) -> tuple[Any, ...]:
    """alpha, mu, q, l, and the points."""
    below = uniform(k, d * (d - 1) // 2, low=-0.5, high=0.5, seed=3)
    return uniform(k), uniform(k, d, seed=1), uniform(k, d, low=-0.5, high=0.5, seed=2), below, uniform(n, d, seed=4)


def constant(d: int, k: int) -> float:
    """What does not depend on parameters or points, without the prior's k gamma functions' part of it."""
    nu = d + 1
    gammas = d * (d - 1) / 4 * math.log(math.pi) + sum(math.lgamma((nu - j) / 2) for j in range(d))
    return k * (nu * d * math.log(GAMMA / math.sqrt(2)) - gammas)


def our_gmm(d: int, k: int, n: int = POINTS, *, whole: bool = False) -> Task:
    """The gradient of the mean over all points (computed by `objective`), times n; or as one function with its data."""
    *parameters, points = mixture(d, k, n)
    by_column = np.argsort(np.tril_indices(d, -1)[1], kind="stable")
    by_row = by_column.argsort()  # the place of each entry in its column
    parameters[3] = parameters[3][:, by_row]

    def whitened(x: list[Any], mean: list[Any], q: list[Any], below: list[Any]) -> list[Any]:
        """The triangular matrix, here row by row, times x - mean."""
        apart = [a - b for a, b in zip(x, mean, strict=True)]
        rows = [below[i * (i - 1) // 2 :][:i] for i in range(d)]
        return [dot(row, apart[:i], q[i].exp() * apart[i]) for i, row in enumerate(rows)]

    def posterior(x: list[Any], alpha: list[Any], mu: list[Any], q: list[Any], below: list[Any]) -> Any:
        """The share of one point in the logarithm of the posterior."""
        betas = [
            a + total(q_k) - total(z * z for z in whitened(x, m, q_k, l_k)) / 2
            for a, m, q_k, l_k in zip(alpha, mu, q, below, strict=True)
        ]
        squares = total((2 * value).exp() for row in q for value in row) + total(v * v for row in below for v in row)
        prior = constant(d, k) - GAMMA**2 / 2 * squares
        return logsumexp(betas) - logsumexp(alpha) - d / 2 * math.log(2 * math.pi) + prior / n

    def in_columns(gradient: Any) -> Any:
        rows = gradient[-parameters[3].size :].reshape(k, -1)
        return np.concatenate([gradient[: -rows.size], rows[:, by_column].ravel()])

    if whole:
        arguments = [*parameters, points]

        def posteriors(*args: Any) -> Any:
            return scan(lambda sum_before, x: (sum_before + posterior(x, *args[:4]), None), 0.0, args[4])[0]

        fast = micrograd.compile(posteriors, [x.tolist() for x in arguments])
        gradient, ends = np.empty(sum(x.size for x in parameters)), np.cumsum([x.size for x in parameters])
        parts = zip(np.split(gradient, ends), parameters, strict=False)
        out = tuple([part.reshape(x.shape) for part, x in parts])

        def task() -> Any:
            fast.value_and_grad(*arguments, argnum=(0, 1, 2, 3), out=out)
            return in_columns(gradient)

        return task

    values = [np.vectorize(micrograd.Value, otypes=[object])(x).tolist() for x in parameters]
    leaves = [v for rows in values for row in rows for v in (row if isinstance(row, list) else [row])]
    fast = micrograd.compile(lambda x: posterior(x, *values), (points[0].tolist(),), parameters=leaves)
    fun, x = fast.objective(points)
    return lambda: n * in_columns(fun(x)[1])


def their_gmm(of: Library, d: int, k: int, n: int = POINTS) -> Problem:
    """All points and all clusters in one product."""
    columns, rows = np.triu_indices(d, 1)

    def posterior(alpha: Any, mu: Any, q: Any, below: Any, points: Any) -> Any:
        matrices = of.filled(of.np.exp(q), below, rows, columns)
        z = of.np.einsum("kij,nkj->nki", matrices, points[:, None] - mu)
        betas = alpha + q.sum(1) - (z * z).sum(2) / 2
        prior = constant(d, k) - GAMMA**2 / 2 * (matrices * matrices).sum()
        each = of.logsumexp(betas, 1) - of.logsumexp(alpha, 0) - d / 2 * math.log(2 * math.pi)
        return each.sum() + prior

    return Problem(posterior, mixture(d, k, n))


# kmeans: the sum of squared distances to the nearest centroid; and Newton's direction, the gradient divided by the
# diagonal of the hessian (the hessian is 0 elsewhere)


def clusters(k: int, n: int, d: int) -> tuple[Any, Any]:
    """The centroids, each of which is one of the points, and the points."""
    points = uniform(n, d)
    return points[-k:].copy(), points


def nearest(centroids: list[list[Any]], point: list[Any]) -> Any:
    """The square of the distance to the nearest centroid, from products, as array programmers write it."""
    return dot(point, point) + minimum(*[dot(c, c) - 2 * dot(c, point) for c in centroids])


def our_kmeans_cost(k: int, n: int, d: int) -> Task:
    centroids, points = clusters(k, n, d)
    fast = micrograd.compile(nearest, (centroids.tolist(), points[0].tolist()), in_axes=(None, 0))
    out = np.empty(n)
    return lambda: fast.map(centroids, points, out=out).sum()


def our_kmeans_direction(k: int, n: int, d: int) -> Task:
    """Newton's direction: the hessian is diagonal, so its product with ones is its diagonal."""
    centroids, points = clusters(k, n, d)
    values = [[micrograd.Value(x) for x in row] for row in centroids.tolist()]
    parameters, ones = [value for row in values for value in row], [[1.0] * d] * k

    def slope(point: list[Any]) -> Any:
        return jvp(nearest)(values, point, ones)[1]

    def cost(point: list[Any]) -> Any:
        return nearest(values, point)

    example = (points[0].tolist(),)
    (cost_at, x), (slope_at, _) = [
        micrograd.compile(f, example, parameters=parameters).objective(points) for f in (cost, slope)
    ]
    return lambda: cost_at(x)[1] / slope_at(x)[1]


def their_kmeans_cost(of: Library, k: int, n: int, d: int) -> Problem:
    """The cost, with all products in one."""

    def cost(centroids: Any, points: Any) -> Any:
        squares = (points * points).sum(1)[:, None] + (centroids * centroids).sum(1) - 2 * points @ centroids.T
        return of.lowest(squares, 1).sum()

    return Problem(cost, clusters(k, n, d))


def their_kmeans_direction(of: Library, k: int, n: int, d: int) -> Problem:
    """Newton's direction, likewise."""

    def direction(centroids: Any, points: Any) -> Any:
        gradient, diagonal = of.hvp(their_kmeans_cost(of, 1, 1, 1).function, centroids, points)
        return gradient / diagonal

    return Problem(direction, clusters(k, n, d))
