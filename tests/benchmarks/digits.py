"""Digits learnt in a second (samples/s), as the example `digits` does it, against micrograd 0.1.0 on the same network.

All take the same steps of plain gradient descent from the same weights. micrograd 0.1.0 has no exp and no log, which
are written here with what its operations are made of. Without scikit-learn, the digits are random pixels.
"""

import math
import random
from collections.abc import Callable
from typing import Any

from tests.benchmarks.harness import OURS, Benchmark, Contestant, Measure, installed, timed

DIGITS = 64
BATCH_SIZE = 16
LEARNING_RATE = 0.1


def benchmarks() -> list[Benchmark]:
    """The same digits learnt with the three ways to run our engine."""
    theirs = Contestant("micrograd 0.1.0", learn_theirs, path=installed("micrograd==0.1.0"))
    ways: list[tuple[str, Callable[..., Measure], tuple[str, ...]]] = [
        ("eager", learn, ()),
        ("compiled to Python", learn_compiled, ("python",)),
        ("compiled", learn_compiled, ("auto",)),
    ]
    return [
        Benchmark(f"digits, MLP 64-32-10, {way}", (Contestant(OURS, ours, arguments), theirs), "samples/s", rounds=3)
        for way, ours, arguments in ways
    ]


def learn() -> Measure:
    """The example's training."""
    from micrograd import fit, nn, optim
    from micrograd.losses import cross_entropy

    xs, ys = _digits()
    model = with_fixed_weights(nn.MLP(64, [32, 10], activation="relu"))
    optimizer = optim.SGD(model.parameters(), LEARNING_RATE)
    how: dict[str, Any] = {"epochs": 1, "batch_size": BATCH_SIZE, "optimizer": optimizer, "rng": 0, "progress": False}
    return _timed(lambda: fit(model, cross_entropy, xs, ys, **how).losses[0])


def learn_compiled(backend: str) -> Measure:
    """The example's compiled training: the time to pack the digits is in it, that to compile the network is not."""
    from micrograd import nn, optim
    from tests.examples.digits import compiled_loss, fit_compiled

    xs, ys = _digits()
    model = with_fixed_weights(nn.MLP(64, [32, 10], activation="relu"))
    loss = compiled_loss(model, xs[0], backend)
    how: dict[str, Any] = {
        "epochs": 1,
        "optimizer": optim.SGD(model.parameters(), LEARNING_RATE),
        "schedule": optim.constant(LEARNING_RATE),
        "rng": 0,
    }
    return _timed(lambda: fit_compiled(loss, xs, ys, **how)[0])


def learn_theirs() -> Measure:
    """The same with micrograd 0.1.0."""
    from micrograd import nn  # here the other one

    xs, ys = _digits()
    model: Any = with_fixed_weights(nn.MLP(64, [32, 10]))

    def epoch() -> float:
        order = list(range(DIGITS))
        random.Random(0).shuffle(order)  # as `batches` does
        total = 0.0
        for start in range(0, DIGITS, BATCH_SIZE):
            batch = order[start : start + BATCH_SIZE]
            losses = [_their_cross_entropy(model(xs[i]), ys[i]) for i in batch]
            loss: Any = sum(losses) * (1.0 / len(losses))
            model.zero_grad()
            loss.backward()
            for p in model.parameters():
                p.data -= LEARNING_RATE * p.grad
            total += loss.data * len(batch)
        return total / DIGITS

    return _timed(epoch)


def _their_cross_entropy(logits: Any, target: int) -> Any:
    """The logarithm of the sum of e^x, less the target's x; all x less the largest, so that no power overflows."""
    largest = max(logit.data for logit in logits)
    shifted = [logit - largest for logit in logits]
    return _log(sum(map(_exp, shifted))) - shifted[target]


def _exp(x: Any) -> Any:
    """e^x, an operation of micrograd 0.1.0 as its own are."""
    out = type(x)(math.exp(x.data), (x,), "exp")

    def _backward() -> None:
        x.grad += out.data * out.grad

    out._backward = _backward
    return out


def _log(x: Any) -> Any:
    """The natural logarithm, an operation of micrograd 0.1.0 as its own are."""
    out = type(x)(math.log(x.data), (x,), "log")

    def _backward() -> None:
        x.grad += out.grad / x.data

    out._backward = _backward
    return out


def _timed(epoch: Callable[[], float]) -> Measure:
    """The seconds that an epoch takes for each digit, and its mean loss."""
    measure = timed(epoch)

    def per_digit() -> tuple[float, float]:
        seconds, loss = measure()
        return seconds / DIGITS, loss

    return per_digit


def _digits() -> tuple[list[list[float]], list[int]]:
    """The first of scikit-learn's digits, or random ones."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        rng = random.Random(0)
        xs = [[rng.randrange(17) / 16 for _ in range(64)] for _ in range(DIGITS)]
        return xs, [rng.randrange(10) for _ in range(DIGITS)]
    images, labels = load_digits(return_X_y=True)
    return (images[:DIGITS] / 16).tolist(), labels[:DIGITS].tolist()


def with_fixed_weights(model: Any) -> Any:
    """The model with weights that depend on nothing but their order."""
    rng = random.Random(1)
    for parameter in model.parameters():
        parameter.data = rng.uniform(-0.25, 0.25)
    return model
