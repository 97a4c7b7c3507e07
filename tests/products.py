"""Functions whose gradients contain products, each with an example and its parameters."""

from typing import Any

from micrograd import Value, dot, losses, nn, take
from tests.benchmarks import programs

NUMBERS = [0.1 * (i % 7) - 0.2 for i in range(40)]


def network(*sizes: int) -> tuple[Any, ...]:
    model = nn.MLP(sizes[0], sizes[1:], activation="tanh", rng=1)
    return lambda x, y: losses.cross_entropy(model(x), y), (NUMBERS[: sizes[0]], 1), model.parameters()


def matrix(rows: int, columns: int) -> list[list[Value]]:
    return [[Value(0.02 * (i % 5) - 0.03 * (j % 3)) for j in range(columns)] for i in range(rows)]


def times(rows: Any, xs: Any) -> Any:
    return [dot(row, xs) for row in rows]


def used_twice() -> tuple[Any, ...]:
    """One matrix in two layers; its elements also add up to a penalty."""
    rows = matrix(16, 16)
    weights = [w for row in rows for w in row]
    function = lambda xs: dot(h := times(rows, [h.tanh() for h in times(rows, xs)]), h) + dot(weights, weights)  # noqa: E731
    return function, (NUMBERS[:16],), weights


def several() -> tuple[Any, ...]:
    """Two matrices, one of them transposed, and a row whose numbers are separate arguments."""
    a, b = matrix(16, 17), matrix(17, 16)

    def function(*xs: Any) -> Any:
        hidden = [x * x for x in xs]
        across = [sum(row[j] * h for row, h in zip(b, hidden, strict=True)) for j in range(16)]
        return dot([h.tanh() for h in times(a, xs)], across)

    return function, tuple(NUMBERS[:17]), [w for row in (*a, *b) for w in row]


def difference() -> tuple[Any, ...]:
    """Terms that are added make a product; terms that are subtracted do not."""
    a, b = matrix(16, 16), matrix(16, 16)
    function = lambda xs: dot(left := times(a, xs), left) - dot(right := times(b, xs), right)  # noqa: E731
    return function, (NUMBERS[:16],), [w for row in (*a, *b) for w in row]


def spanning() -> tuple[Any, ...]:
    rows = matrix(9, 20)
    function = lambda xs, ys: sum(h * h for h in times(rows, [*xs, *ys]))  # noqa: E731
    return function, (NUMBERS[:10], NUMBERS[:10]), [w for row in rows for w in row]


def looked_up() -> tuple[Any, ...]:
    """A table, of which one row is taken by a computed index, and all but the first are a matrix."""
    rows = matrix(17, 16)
    return lambda i, xs: dot(take(rows, i), times(rows[1:], xs)), (3, NUMBERS[:16]), [w for row in rows for w in row]


def one_factor() -> tuple[Any, ...]:
    """A row whose weights all have the same factors: one loop, which cannot be both the rows and the columns."""
    weights = [w for row in matrix(2, 40) for w in row]
    return lambda x: dot(weights, [x.tanh()] * 80) ** 2, (0.5,), weights


def same_rows() -> tuple[Any, ...]:
    """A matrix whose rows all have the same gradient."""
    rows = matrix(16, 17)
    return lambda xs: sum(times(rows, xs)) ** 2, (NUMBERS[:17],), [w for row in rows for w in row]


def recurrent() -> tuple[Any, ...]:
    of = programs.lstm(16, 5)
    return of.first, of.example, of.parameters


CASES = {
    "a network": network(20, 20, 16), "a small network": network(2, 7, 3),
    "a matrix used twice, and elsewhere": used_twice(), "several products over one row": several(),
    "steps": recurrent(), "a difference": difference(), "a row that spans two arguments": spanning(),
    "a table": looked_up(), "weights with the same factors": one_factor(),
    "the same gradient for all rows": same_rows(),
}  # fmt: skip
