"""Programs that add up: the logarithm of a sum, least squares, a determinant by minors, and a square."""

from typing import Any

import numpy as np

import micrograd
from micrograd import Value, maximum
from micrograd import sum as total
from tests.benchmarks.gradbench.libraries import Library
from tests.benchmarks.gradbench.problem import Problem, Task, uniform

# lse: the logarithm of a sum of exponentials, shifted by the largest term


def our_lse(n: int) -> Problem:
    """log(exp(x[0]) + exp(x[1]) + ...)."""

    def lse(xs: list[Any]) -> Any:
        largest = maximum(*xs)
        return largest + total((x - largest).exp() for x in xs).log()

    return Problem(lse, (uniform(n),))


def their_lse(of: Library, n: int) -> Problem:

    def lse(xs: Any) -> Any:
        largest = xs.max()
        return largest + of.np.log(of.np.exp(xs - largest).sum())

    return Problem(lse, (uniform(n),))


# llsq: a polynomial through the signs of n points between -1 and 1; the gradient with respect to the coefficients


def our_llsq(m: int, n: int) -> Task:
    """The gradient of the mean over all points (computed by `objective`), times n."""
    coefficients, ts = [Value(x) for x in uniform(m)], np.linspace(-1, 1, n)

    def square(t: Any, sign: Any) -> Any:
        y = 0.0
        for coefficient in reversed(coefficients):
            y = y * t + coefficient
        return (sign - y) ** 2 / 2

    fun, x = micrograd.compile(square, (0.0, 0.0), parameters=coefficients).objective(ts, np.sign(ts))
    return lambda: n * fun(x)[1]


def their_llsq(of: Library, m: int, n: int) -> Problem:
    """All powers of all points in a matrix."""

    def objective(x: Any, ts: Any) -> Any:
        powers = ts[:, None] ** of.array(np.arange(m, dtype=float))
        return ((of.np.sign(ts) - powers @ x) ** 2).sum() / 2

    return Problem(objective, (uniform(m), np.linspace(-1, 1, n)))


# det: a determinant, by expansion along the first row


def our_det(n: int) -> Problem:
    """Minor by minor."""

    def det(rows: list[list[Any]]) -> Any:
        first, *below = rows
        minors = [[row[:j] + row[j + 1 :] for row in below] for j in range(len(first))]
        return total((-1) ** j * x * det(minors[j]) for j, x in enumerate(first)) if below else first[0]

    return Problem(det, (uniform(n, n),))


def their_det(of: Library, n: int) -> Problem:
    """All minors of a level stacked."""

    def det(matrices: Any) -> Any:
        size = matrices.shape[-1]
        if size == 1:
            return matrices[..., 0, 0]
        others = np.array([[k for k in range(size) if k != j] for j in range(size)])
        minors = matrices[..., 1:, others].swapaxes(-2, -3)
        return (of.array((-1.0) ** np.arange(size)) * matrices[..., 0, :] * det(minors)).sum(-1)

    return Problem(det, (uniform(n, n),))


# hello: the derivative of a square


def our_square() -> Problem:
    return Problem(lambda x: x * x, (3.0,))


def their_square(of: Library) -> Problem:
    return our_square()
