"""Handwritten digits learnt as the example `digits` does it, and by other scalar engines on the same network.

All take the same steps of plain gradient descent from the same weights. Without scikit-learn, the digits are random
pixels.
"""

import random
from typing import Any

from tests.benchmarks.harness import Benchmark, Contestant, Measure, timed
from tests.benchmarks.values import cross_entropy, descend, mean, mlp_of, scalar_engines, value_of, zero_grad

SIZES = (64, 32, 10)
DIGITS = 64
BATCH_SIZE = 16
LEARNING_RATE = 0.1


def benchmarks() -> list[Benchmark]:
    """The same digits learnt with the three ways to run our engine."""
    return [
        Benchmark(
            f"an epoch of {DIGITS} digits, MLP 64-32-10",
            (
                Contestant("eager", learn),
                Contestant("compiled to Python", learn_compiled, ("python",)),
                Contestant("compiled to C", learn_compiled, ("c",)),
            ),
            scalar_engines(learn_theirs),
            rounds=3,
        )
    ]


def learn() -> Measure:
    """The example's training."""
    from micrograd import fit, losses, nn, optim

    xs, ys = _digits()
    model = with_fixed_weights(nn.MLP(64, [32, 10], activation="relu"))
    optimizer = optim.SGD(model.parameters(), LEARNING_RATE)
    how: dict[str, Any] = {"epochs": 1, "batch_size": BATCH_SIZE, "optimizer": optimizer, "rng": 0, "progress": False}
    return timed(lambda: fit(model, losses.cross_entropy, xs, ys, **how).losses[0])


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
    return timed(lambda: fit_compiled(loss, xs, ys, **how)[0])


def learn_theirs(engine: str) -> Measure:
    """The same in another scalar engine."""
    value_of(engine)  # with exp and log
    model: Any = with_fixed_weights(mlp_of(engine, SIZES))
    parameters = model.parameters()
    xs, ys = _digits()

    def epoch() -> float:
        order = list(range(DIGITS))
        random.Random(0).shuffle(order)  # as `batches` does
        total = 0.0
        for start in range(0, DIGITS, BATCH_SIZE):
            batch = order[start : start + BATCH_SIZE]
            loss = mean([cross_entropy(model(xs[i]), ys[i]) for i in batch])
            zero_grad(parameters)
            loss.backward()
            descend(parameters, LEARNING_RATE)
            total += loss.data * len(batch)
        return total / DIGITS

    return timed(epoch)


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
