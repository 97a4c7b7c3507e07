"""Trains a small network to read handwritten digits: `python -m tests.examples.digits`.

The digits are the 1,797 of 8 by 8 pixels that come with scikit-learn, a fifth of them held out to test what has been
learned. Ten epochs take a second as generated code, and about ten with `--backend eager`. Where you have the files of
MNIST, they can be used instead, here only some of them:

    python -m tests.examples.digits --limit 10000 \
        --train-images train-images-idx3-ubyte.gz --train-labels train-labels-idx1-ubyte.gz \
        --test-images t10k-images-idx3-ubyte.gz --test-labels t10k-labels-idx1-ubyte.gz
"""

import argparse
import gzip
import math
import random
import struct
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
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
        raise ImportError(
            "the digits come with scikit-learn: pip install scikit-learn, or name the files of MNIST"
        ) from None
    images, labels = load_digits(return_X_y=True)
    digits = list(zip((images / 16).tolist(), labels.tolist(), strict=True))
    random.Random(0).shuffle(digits)
    xs, ys = map(list, zip(*digits, strict=True))
    return (xs[HELD_OUT:], ys[HELD_OUT:]), (xs[:HELD_OUT], ys[:HELD_OUT])


def from_files(images: str, labels: str) -> Examples:
    """The digits in two files of MNIST."""
    pixels, (_, *sizes) = bytes_in(images)
    ys, _ = bytes_in(labels)
    width, shades = math.prod(sizes), [byte / 255 for byte in range(256)]  # floats that all images share
    xs = [[shades[pixel] for pixel in pixels[i : i + width]] for i in range(0, len(pixels), width)]
    if not len(xs) == len(ys) > 0:
        raise ValueError(f"{images} holds {len(xs)} images and {labels} {len(ys)} labels: expected as many, and some")
    if max(ys) >= CLASSES:
        raise ValueError(f"{labels} holds something else than the labels 0 to {CLASSES - 1}")
    return xs, [*ys]


def bytes_in(path: str) -> tuple[bytes, tuple[int, ...]]:
    """The numbers in a file of MNIST, which may be compressed with gzip, and how many there are in each dimension."""
    with open(path, "rb") as file:
        content = file.read()
    if content.startswith(b"\x1f\x8b"):
        content = gzip.decompress(content)
    with suppress(IndexError, struct.error):  # it ends in the middle of them
        shape = struct.unpack_from(f">{content[3]}I", content, 4)
        numbers = content[4 + 4 * len(shape) :]
        if content.startswith(b"\0\0\x08") and shape and len(numbers) == math.prod(shape):  # 8: one byte for each
            return numbers, shape
    raise ValueError(f"{path} is not a whole file of MNIST")


def accuracy(outputs: Sequence[Any], ys: Sequence[int]) -> float:
    """The share of the outputs whose largest logit is that of the label."""
    answers = [max(range(CLASSES), key=logits.__getitem__) for logits in outputs]
    return sum(answer == y for answer, y in zip(answers, ys, strict=True)) / len(ys)


def main(arguments: Sequence[str] | None = None) -> int:
    """Train and test; 0 if the target is met, 1 if not."""
    options, (xs, ys), (test_xs, test_ys) = parsed(arguments)
    model = nn.MLP(len(xs[0]), [options.hidden, CLASSES], activation="relu", rng=options.seed)
    print(f"{model}, {len(xs)} digits to learn from, {len(test_xs)} to test with")
    steps = options.epochs * math.ceil(len(xs) / BATCH_SIZE)
    start = time.perf_counter()
    fit(
        model,
        cross_entropy,
        xs,
        ys,
        epochs=options.epochs,
        batch_size=BATCH_SIZE,
        optimizer=optim.SGD(model.parameters(), options.learning_rate, momentum=0.9),
        schedule=optim.cosine(options.learning_rate, steps),
        rng=options.seed,
        backend=options.backend,
    )
    seconds = time.perf_counter() - start
    share = accuracy([model(x) for x in test_xs], test_ys)
    print(f"{share:.2%} are read correctly, the target being {options.target:.0%}, after {seconds:.1f} s")
    return 0 if share >= options.target else 1


def parsed(arguments: Sequence[str] | None) -> tuple[argparse.Namespace, Examples, Examples]:
    """The options, and the digits to learn from and to test with that they name."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.examples.digits",
        description="Teach a small network to read handwritten digits: scikit-learn's, or those of four MNIST files.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    files = [f"--{part}-{kind}" for part in ("train", "test") for kind in ("images", "labels")]
    for file in files:
        parser.add_argument(file, metavar="FILE", help="a file of MNIST, plain or compressed with gzip")
    parser.add_argument("--limit", type=int, help="the most images to learn from, and to test with")
    parser.add_argument("--hidden", type=int, default=32, help="the number of hidden neurons")
    parser.add_argument("--epochs", type=int, default=10, help="how often each image is shown")
    parser.add_argument("--learning-rate", type=float, default=0.1, help="the initial learning rate; it decays to 0")
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of the initial weights and of the order of the images"
    )
    parser.add_argument("--target", type=float, default=0.95, help="the accuracy to reach")
    parser.add_argument(
        "--backend", choices=("eager", "auto", "python", "c"), default="auto", help="what takes the steps"
    )
    options = parser.parse_args(arguments)
    for name in ("limit", "hidden", "epochs", "learning_rate"):
        number = getattr(options, name)
        if number is not None and not 0 < number < math.inf:
            parser.error(f"argument --{name.replace('_', '-')}: {number} is not a positive, finite number")
    paths = [options.train_images, options.train_labels, options.test_images, options.test_labels]
    if any(paths) and not all(paths):
        parser.error(f"{', '.join(files)} go together: name all four or none")
    try:
        train, test = (from_files(*paths[:2]), from_files(*paths[2:])) if all(paths) else from_sklearn()
    except (OSError, EOFError, ValueError, ImportError) as error:
        parser.error(str(error))
    (xs, ys), (test_xs, test_ys) = [(xs[: options.limit], ys[: options.limit]) for xs, ys in (train, test)]
    if len(xs[0]) != len(test_xs[0]):
        parser.error(f"the images to learn from have {len(xs[0])} pixels, those to test with {len(test_xs[0])}")
    return options, (xs, ys), (test_xs, test_ys)


if __name__ == "__main__":
    sys.exit(main())
