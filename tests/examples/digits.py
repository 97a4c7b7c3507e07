"""Trains a small network to read handwritten digits: `python -m tests.examples.digits`.

The digits are the 1,797 of 8 by 8 pixels that come with scikit-learn, a fifth of them held out to test what has been
learned. Ten epochs take a second as generated code, and about ten with `--backend eager`.
"""

import argparse
import math
import random
import sys
import time
from collections.abc import Sequence
from typing import Any

from micrograd import fit, nn, optim
from micrograd.losses import cross_entropy

CLASSES = 10
BATCH_SIZE = 16
HELD_OUT = 360  # of scikit-learn's digits

Examples = tuple[list[Any], list[int]]
"""The pixels of each image, from 0 to 1, and the digit it shows."""


def from_sklearn() -> tuple[Examples, Examples]:
    """The digits to learn from and those held out, always the same ones."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise ImportError("the digits come with scikit-learn: pip install scikit-learn") from None
    images, labels = load_digits(return_X_y=True)
    digits = list(zip((images / 16).tolist(), labels.tolist(), strict=True))
    random.Random(0).shuffle(digits)
    xs, ys = map(list, zip(*digits, strict=True))
    return (xs[HELD_OUT:], ys[HELD_OUT:]), (xs[:HELD_OUT], ys[:HELD_OUT])


def accuracy(outputs: Sequence[Any], ys: Sequence[int]) -> float:
    """The share of the outputs whose largest logit is that of the label."""
    answers = [max(range(CLASSES), key=logits.__getitem__) for logits in outputs]
    return sum(answer == y for answer, y in zip(answers, ys, strict=True)) / len(ys)


def main(arguments: Sequence[str] | None = None) -> int:
    """Train and test; 0 if the target is met, 1 if not."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.examples.digits",
        description="Teach a small network to read handwritten digits.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--limit", type=int, help="the most images to learn from, and to test with")
    parser.add_argument("--epochs", type=int, default=10, help="how often each image is shown")
    parser.add_argument("--target", type=float, default=0.95, help="the accuracy to reach")
    parser.add_argument("--backend", choices=("eager", "auto", "python", "c"), default="auto", help="how to train")
    options = parser.parse_args(arguments)
    try:
        (xs, ys), (test_xs, test_ys) = [(xs[: options.limit], ys[: options.limit]) for xs, ys in from_sklearn()]
    except ImportError as error:
        parser.error(str(error))
    model = nn.MLP(64, [32, CLASSES], activation="relu", rng=0)
    print(f"{model}, {len(xs)} digits to learn from, {len(test_xs)} to test with")
    steps = options.epochs * math.ceil(len(xs) / BATCH_SIZE)
    start = time.perf_counter()
    fit(
        model, cross_entropy, xs, ys, epochs=options.epochs, batch_size=BATCH_SIZE,
        optimizer=optim.SGD(model.parameters(), momentum=0.9), schedule=optim.cosine(0.1, steps), rng=0,
        backend=options.backend,
    )  # fmt: skip
    seconds = time.perf_counter() - start
    share = accuracy([model(x) for x in test_xs], test_ys)
    print(f"{share:.2%} are read correctly after {seconds:.1f} s; the target is {options.target:.0%}")
    return 0 if share >= options.target else 1


if __name__ == "__main__":
    sys.exit(main())
