"""The inputs of all contestants: the same points, images and weights, made with the standard library only."""

import random
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

RATE = 0.1
"""The learning rate of each training step."""
RATES = {"SGD": RATE, "Adam": 1e-9}
"""The learning rates of repeated steps. Adam's is so small that no loss depends on the moments of earlier steps."""


def points(n: int) -> tuple[list[list[float]], list[float]]:
    """Points in the plane, labelled 1 within a circle and -1 outside."""
    rng = random.Random(0)
    xs = [[rng.gauss(0, 1), rng.gauss(0, 1)] for _ in range(n)]
    return xs, [1.0 if x * x + y * y < 1.4 else -1.0 for x, y in xs]


def images(n: int, pixels: int, classes: int) -> tuple[list[list[float]], list[int]]:
    """Images of noise, each with the number of its class."""
    rng = random.Random(0)
    return [[rng.uniform(0, 0.1) for _ in range(pixels)] for _ in range(n)], [i % classes for i in range(n)]


def examples(loss: str, sizes: Sequence[int], n: int) -> tuple[list[list[float]], list[Any]]:
    """What a network of these sizes learns by this loss: points by "hinge", images by "cross-entropy"."""
    return points(n) if loss == "hinge" else images(n, sizes[0], sizes[-1])


def digits(n: int) -> tuple[list[list[float]], list[int]]:
    """The first of scikit-learn's digits."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    return (images[:n] / 16).tolist(), labels[:n].tolist()


def orders(n: int, epochs: int) -> list[list[int]]:
    """The order of n examples in each epoch of a `fit` whose `rng` is 0."""
    rng, numbers = random.Random(0), [list(range(n)) for _ in range(epochs)]
    for order in numbers:
        rng.shuffle(order)
    return numbers


def weights(sizes: Sequence[int], most: float = 1.0) -> list[list[list[float]]]:
    """The weights of a network of these sizes: layer by layer, a row for each neuron, its bias last."""
    rng = random.Random(1)
    return [[[rng.uniform(-most, most) for _ in range(n + 1)] for _ in range(m)] for n, m in pairwise(sizes)]


def set_weights(parameters: Sequence[Any], sizes: Sequence[int], most: float = 1.0) -> None:
    """Give the parameters of an MLP, in the order in which both micrograds have them, these weights."""
    numbers = [number for layer in weights(sizes, most) for row in layer for number in row]
    for parameter, number in zip(parameters, numbers, strict=True):
        parameter.data = number


def numbers(n: int, most: float = 0.3) -> list[float]:
    """Numbers around 0, always the same."""
    rng = random.Random(1)
    return [rng.uniform(-most, most) for _ in range(n)]
