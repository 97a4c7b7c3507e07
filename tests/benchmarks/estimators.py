"""The estimators against scikit-learn's of the same arguments: `python -m tests.benchmarks.estimators`.

They take turns at the same epochs of 1,437 digits: with scikit-learn's defaults, and with small batches. Then both
learn four data sets with the defaults and ten seeds, each seed with its own quarter held out to test.
"""

import warnings
from functools import partial
from typing import Any

from tests.benchmarks import page
from tests.benchmarks.harness import Benchmark, Contestant, Measure, compilation, run, timed

DIGITS, SEEDS = 1437, 10
TASKS = {
    "64-100-10, batches of 200": {"max_iter": 60},
    "64-100-10 tanh, batches of 200": {"max_iter": 60, "activation": "tanh"},
    "64-32-10, batches of 16": {"max_iter": 60, "hidden_layer_sizes": (32,), "batch_size": 16},
}
CACHES = "later fits", "the first fit, libraries cached", "the first fit, nothing cached"
DATA = {
    "digits": "MLPClassifier",
    "wine": "MLPClassifier",
    "breast_cancer": "MLPClassifier",
    "diabetes": "MLPRegressor",
}


def benchmarks() -> list[Benchmark]:
    """60 epochs of the digits by Adam, at three states of the caches."""
    return [
        Benchmark(
            f"60 epochs of {DIGITS:,} digits, MLP {task}",
            tuple(Contestant(cached, learn, (task, "micrograd.estimators", cached)) for cached in CACHES),
            (Contestant("scikit-learn", learn, (task, "sklearn.neural_network", CACHES[0])),),
            rounds=3,
            tolerance=1e-4,  # as the penalty in the loss is interpolated
        )
        for task in TASKS
    ]


def learn(task: str, module: str, cached: str) -> Measure:
    """A fit by the classifier of a module."""
    from sklearn.datasets import load_digits

    model = estimator(module, "MLPClassifier", random_state=0, tol=0.0, n_iter_no_change=10**6, **TASKS[task])
    X, y = load_digits(return_X_y=True)
    X, y = X[:DIGITS] / 16, y[:DIGITS]

    def fit() -> float:
        return float(model.fit(X, y).loss_)

    def first_fit() -> float:
        from micrograd import estimators

        nonlocal model
        estimators._pickled.cache_clear()
        model = model.__class__(**model.get_params())
        return fit()

    if cached == CACHES[0]:
        return timed(fit)
    return timed(first_fit) if cached == CACHES[1] else compilation(first_fit)


def estimator(module: str, kind: str, **options: Any) -> Any:
    """The estimator of that name in a module, which does not warn that it has not converged."""
    from importlib import import_module

    warnings.simplefilter("ignore")
    return getattr(import_module(module), kind)(**options)


def scores(module: str, data: str) -> list[float]:
    """The accuracy, or R^2, on the examples held out, for each seed."""
    from sklearn import datasets
    from sklearn.model_selection import train_test_split
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, y = getattr(datasets, f"load_{data}")(return_X_y=True)
    found = []
    for seed in range(SEEDS):
        train_X, test_X, train_y, test_y = train_test_split(X, y, random_state=seed)
        model = make_pipeline(StandardScaler(), estimator(module, DATA[data], random_state=seed))
        found.append(model.fit(train_X, train_y).score(test_X, test_y))
    return found


def main() -> None:
    """Measure and print both."""
    from numpy import mean, std

    print(__doc__, page.machine(), sep="\n")
    for measured in map(run, benchmarks()):
        print("", *page.text(measured), sep="\n", flush=True)
    print(f"\n{'mean score of ten seeds':<26}{'micrograd':>12}{'scikit-learn':>14}{'standard error':>16}")
    for data in DATA:
        ours, theirs = map(partial(scores, data=data), ("micrograd.estimators", "sklearn.neural_network"))
        print(
            f"{data:<26}{mean(ours):>12.4f}{mean(theirs):>14.4f}{std(theirs, ddof=1) / SEEDS**0.5:>16.4f}", flush=True
        )


if __name__ == "__main__":
    from tests.benchmarks import estimators  # of which the processes of the contestants know the name

    estimators.main()
