"""The check of part 6: a transformer."""

import math
from collections.abc import Callable

import micrograd
from micrograd import losses

from .answers import NotYet, check, close, row_of, same_gradients


@check
def attention(answer: Callable) -> None:
    query, keys, values = (
        [1.0, -1.0, 2.0, 0.5, -0.3],
        [[1.0, 0.0, 1.0, 2.0, 0.5], [0.5, 1.0, -1.0, 0.0, 1.0], [-0.5, 0.2, 0.3, 1.0, -1.0]],
        [[1.0, 5.0, 0.5, -1.0], [3.0, -2.0, 1.5, 2.0], [0.0, 1.0, -4.0, 0.7]],
    )
    root, length = math.sqrt(len(query)), len(query)

    def mixed(shares, rows):
        return [sum(share * row[i] for share, row in zip(shares, rows, strict=True)) for i in range(len(rows[0]))]

    def divided(divisors):
        shares = losses.softmax([product / divisor for product, divisor in zip(products, divisors, strict=True)])
        return mixed([share.data for share in shares], values)

    products = [sum(q * k for q, k in zip(query, key, strict=True)) for key in keys]
    expected = [each.data for each in _attend(query, keys, values)]
    result = answer([micrograd.Value(q) for q in query], keys, values)
    if isinstance(result, (list, tuple)) and len(result) == len(query):
        raise NotYet("the result is as long as a key: it is the values that are mixed")
    found = [each.data for each in row_of("the result", result, len(values[0]))]
    if not all(map(close, found, expected)):
        mistakes = {
            "without the square root": divided([1.0] * len(keys)),
            "divided by the length itself, not its square root": divided([length] * len(keys)),
            "divided by the square root of the number of keys": divided([math.sqrt(len(keys))] * len(keys)),
            "divided by the size of the query, not by the square root of how many numbers it has": divided(
                [math.hypot(*query)] * len(keys)
            ),
            "divided by the sizes of the keys": divided([math.hypot(*key) for key in keys]),
            "with the products as shares, without softmax": mixed([product / root for product in products], values),
            "with equal shares": mixed([1 / len(keys)] * len(keys), values),
        }
        hints = [f": that is {name}" for name, mistake in mistakes.items() if all(map(close, found, mistake))]
        raise NotYet(f"the result begins with {found[0]:.6g}, not {expected[0]:.6g}{''.join(hints[:1])}")
    same_gradients("the result", answer, _attend, query=query, keys=keys, values=values)


def _attend(query: list, keys: list, values: list) -> list:
    shares = losses.softmax([micrograd.dot(query, key) / math.sqrt(len(query)) for key in keys])
    return [micrograd.dot(shares, column) for column in zip(*values, strict=True)]
