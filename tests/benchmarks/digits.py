"""Handwritten digits learned by `fit` as in the example `digits`, by both scalar engines, PyTorch and scikit-learn.

All take the same steps from the same weights. The scalar engines train for one epoch on few digits by plain gradient
descent, after compiling. The others train for many epochs on the example's training digits, with momentum; everything
that `fit` does before its first step is included, except the C compiler, whose libraries are in the cache. PyTorch
takes its batches from a DataLoader as in its tutorials, or by index.
"""

import warnings
from collections.abc import Callable, Iterable
from typing import Any

from tests.benchmarks.arrays import pytorch_mlp
from tests.benchmarks.data import digits, orders, set_weights, weights
from tests.benchmarks.harness import Benchmark, Contestant, Measure, from_first_step, timed
from tests.benchmarks.values import Descent, cross_entropy, mean, scalar_engine, their_mlp, their_value

SIZES = (64, 32, 10)
MOST = 0.25  # the largest of the weights at the start
FEW, MANY = 64, 1437  # digits
BATCH_SIZE = 16
LEARNING_RATE = 0.1
MOMENTUM = 0.9
EPOCHS = 60
DEFAULT_SIZES, DEFAULT_SIZE, DEFAULT_RATE = (64, 100, 10), 200, 1e-3  # MLPClassifier's defaults, with Adam


def benchmarks() -> list[Benchmark]:
    """An epoch with the three ways to run our engine, then many epochs of compiled C."""
    backends = (("eager", "eager"), ("compiled to Python", "python"), ("compiled to C", "c"))
    return [
        Benchmark(
            f"an epoch of {FEW} digits, MLP 64-32-10",
            tuple(Contestant(name, learn, (backend, FEW, 1, 0.0, False)) for name, backend in backends),
            (scalar_engine(learn_theirs),),
            rounds=3,
        ),
        Benchmark(
            f"{EPOCHS} epochs of {MANY:,} digits, MLP 64-32-10, momentum, tracing included",
            (Contestant("compiled to C", learn, ("c", MANY, EPOCHS, MOMENTUM, True)),),
            (
                Contestant("PyTorch", pytorch, (EPOCHS, True)),
                Contestant("PyTorch, batches by index", pytorch, (EPOCHS, False)),
                Contestant("MLPClassifier", scikit_learn, (EPOCHS,)),
            ),
            rounds=3,
        ),
        Benchmark(
            f"{EPOCHS} epochs of {MANY:,} digits, MLP 64-100-10, Adam, batches of {DEFAULT_SIZE}, tracing included",
            (Contestant("compiled to C", learn, ("c", MANY, EPOCHS, 0.0, True, True)),),
            (Contestant("MLPClassifier", scikit_learn, (EPOCHS, True)),),
            rounds=3,
            tolerance=1e-2,  # its Adam adds eps to another number
        ),
    ]


def learn(backend: str, n: int, epochs: int, momentum: float, traced: bool, by_default: bool = False) -> Measure:
    """By `fit`: with the time it takes to trace the network, or from the first step on; or as MLPClassifier does."""
    from micrograd import fit, losses, nn, optim

    xs, ys = digits(n)
    sizes, batch_size = (DEFAULT_SIZES, DEFAULT_SIZE) if by_default else (SIZES, BATCH_SIZE)

    def train(schedule: Callable[[int], float] | None = None) -> float:
        model = nn.MLP(sizes[0], list(sizes[1:]), activation="relu")
        parameters = model.parameters()
        set_weights(parameters, sizes, MOST)
        optimizer: Any = (
            optim.Adam(parameters, DEFAULT_RATE)
            if by_default
            else optim.SGD(parameters, LEARNING_RATE, momentum=momentum)
        )
        history = fit(
            model, losses.cross_entropy, xs, ys, epochs=epochs, batch_size=batch_size,
            optimizer=optimizer, schedule=schedule, rng=0, progress=False, backend=backend,
        )  # fmt: skip
        return history.losses[-1]

    return timed(train) if traced else from_first_step(train, LEARNING_RATE)


def learn_theirs() -> Measure:
    """An epoch in micrograd 0.1.0."""
    their_value()  # adds exp and log to it
    model: Any = their_mlp(SIZES, MOST)
    optimizer = Descent(model.parameters(), LEARNING_RATE)
    xs, ys = digits(FEW)

    def epoch() -> float:
        set_weights(optimizer.parameters, SIZES, MOST)
        total = 0.0
        for batch in batches(orders(FEW, 1)[0]):
            loss = mean([cross_entropy(model(xs[i]), ys[i]) for i in batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.data * len(batch)
        return total / FEW

    return timed(epoch)


def pytorch(epochs: int, loads: bool) -> Measure:
    """In PyTorch, with batches from a DataLoader, or by index."""
    import torch
    from torch.nn.functional import cross_entropy
    from torch.utils.data import DataLoader, TensorDataset

    xs, ys = map(torch.tensor, digits(MANY))
    xs = xs.double()
    data, drawn = TensorDataset(xs, ys), orders(MANY, epochs)

    def batches_of(order: list[int]) -> Iterable[Any]:
        if loads:
            return DataLoader(data, BATCH_SIZE, sampler=order)
        return ((xs[batch], ys[batch]) for batch in torch.tensor(order).split(BATCH_SIZE))

    def train() -> float:
        model, parameters = pytorch_mlp(SIZES, MOST)
        optimizer = torch.optim.SGD(parameters, LEARNING_RATE, momentum=MOMENTUM)
        for order in drawn:
            total = 0.0
            for x, y in batches_of(order):
                loss = cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss.item() * len(y)
        return total / MANY

    return timed(train)


def scikit_learn(epochs: int, by_default: bool = False) -> Measure:
    """Learning by scikit-learn's MLPClassifier with our settings, or `by_default`, with its own, but no weight decay.

    A warm start gives it the same initial weights.
    """
    import numpy as np
    from sklearn.neural_network import MLPClassifier

    xs, ys = map(np.array, digits(MANY))
    drawn = [np.array(order) for order in orders(MANY, epochs)]

    class Orders(np.random.RandomState):
        """Puts the digits, which each epoch reorders as the last has left them, in the order of all."""

        def shuffle(self, numbers: Any) -> None:
            numbers[:] = next(self.steps)

    inverses = [np.arange(MANY), *map(np.argsort, drawn)]
    steps = [inverse[order] for inverse, order in zip(inverses, drawn, strict=False)]
    settings: Any = {"alpha": 0.0, "max_iter": 1, "tol": 0.0, "n_iter_no_change": epochs + 1, "warm_start": True}
    sizes = DEFAULT_SIZES if by_default else SIZES
    if not by_default:
        settings |= {"hidden_layer_sizes": SIZES[1:-1], "batch_size": BATCH_SIZE, "learning_rate_init": LEARNING_RATE}
        settings |= {"solver": "sgd", "momentum": MOMENTUM, "nesterovs_momentum": False}
    model = MLPClassifier(**settings)
    warnings.simplefilter("ignore")  # that it has not converged
    model.fit(xs, ys)
    model.set_params(max_iter=epochs, random_state=Orders())

    def train() -> float:
        model.random_state.steps = iter(steps)
        layers = [np.array(layer) for layer in weights(sizes, MOST)]
        model.coefs_ = [layer[:, :-1].T.copy() for layer in layers]
        model.intercepts_ = [layer[:, -1].copy() for layer in layers]
        model.loss_curve_, model.n_iter_ = [], 0
        return float(model.fit(xs, ys).loss_curve_[-1])

    return timed(train)


def batches(order: list[int]) -> list[list[int]]:
    return [order[start : start + BATCH_SIZE] for start in range(0, len(order), BATCH_SIZE)]
