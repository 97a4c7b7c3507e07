"""Trains a small GPT to invent names: `python -m tests.examples.names`.

The network is microgpt's: one layer with 4 heads, 16 numbers a token, rmsnorm, causal attention, a relu network, no
biases. Each step uses one name, of any length; with `--backend c`, each length is compiled once.
"""

import argparse
import random
from pathlib import Path
from typing import Any

from micrograd import Value, dot, fit, nn, optim
from micrograd.losses import cross_entropy, softmax

WIDTH, HEADS, CONTEXT = 16, 4, 16
END = 0  # the token before and after each name
TEMPERATURE = 0.5  # below 1, what is likely is drawn more often yet

Vector = list[Any]


class GPT(nn.Module):
    """Predicts each token from those before it, of which attention sees the last few: `sight` many."""

    def __init__(self, vocabulary: int, rng: random.Random, sight: int = CONTEXT) -> None:
        def matrix(rows: int, columns: int) -> list[Vector]:
            return [[Value(rng.gauss(0, 0.08)) for _ in range(columns)] for _ in range(rows)]

        self.tokens, self.positions = (nn.Embedding(n, WIDTH, rng=rng) for n in (vocabulary, CONTEXT))
        self.query, self.key, self.value, self.attended = (matrix(WIDTH, WIDTH) for _ in range(4))
        self.widen, self.narrow = matrix(4 * WIDTH, WIDTH), matrix(WIDTH, 4 * WIDTH)
        self.logits = matrix(vocabulary, WIDTH)
        self.sight = sight

    def __call__(self, tokens: Vector) -> list[Vector]:
        """For each token, the logits of the one that follows it."""
        past: list[tuple[Vector, Vector]] = []
        return [self.following(token, past) for token in tokens]

    def following(self, token: Any, past: list[tuple[Vector, Vector]]) -> Vector:
        """The logits of what follows a token, whose key and value join those of the past."""
        x = rmsnorm(added(self.tokens(token), self.positions(len(past))))
        normed = rmsnorm(x)
        past.append((linear(self.key, normed), linear(self.value, normed)))
        x = added(x, linear(self.attended, attention(linear(self.query, normed), past[-self.sight :])))
        x = added(x, linear(self.narrow, [h.relu() for h in linear(self.widen, rmsnorm(x))]))
        return linear(self.logits, x)


def added(x: Vector, y: Vector) -> Vector:
    """The sum of two vectors."""
    return [xi + yi for xi, yi in zip(x, y, strict=True)]


def linear(matrix: list[Vector], x: Vector) -> Vector:
    """The product of a matrix and a vector."""
    return [dot(row, x) for row in matrix]


def rmsnorm(x: Vector) -> Vector:
    """The vector, scaled to a mean square of 1."""
    scale = (dot(x, x) / len(x) + 1e-5) ** -0.5
    return [xi * scale for xi in x]


def attention(query: Vector, past: list[tuple[Vector, Vector]]) -> Vector:
    """In each head, the mean of the past values: the more alike query and key, the larger the share of the value."""
    size, output = WIDTH // HEADS, []
    for head in (slice(start, start + size) for start in range(0, WIDTH, size)):
        shares = softmax([dot(query[head], key[head]) * size**-0.5 for key, _ in past])
        output += [dot(shares, column) for column in zip(*[value[head] for _, value in past], strict=True)]
    return output


def invented(model: GPT, alphabet: list[str], rng: random.Random) -> str:
    """A name, drawn letter by letter."""
    tokens, past = [END], []
    while len(past) < CONTEXT and (not past or tokens[-1] != END):
        shares = softmax([logit / TEMPERATURE for logit in model.following(tokens[-1], past)])
        tokens += rng.choices(range(len(alphabet)), [share.data for share in shares])
    return "".join(alphabet[token] for token in tokens)


def lines(file: str | None) -> list[str]:
    """Those of the file, or of the lists of first names in the package `names`; each begins with a name."""
    if file is not None:
        return Path(file).read_text(encoding="utf-8").splitlines()
    try:
        from names import FILES
    except ImportError:
        raise ImportError("the names come with a package: pip install names, or use --file") from None
    return [line for kind in ("female", "male") for line in lines(FILES[f"first:{kind}"])]


def main(arguments: list[str] | None = None) -> None:
    """Train, and print what the network comes up with."""
    parser = argparse.ArgumentParser(prog="python -m tests.examples.names", description="Teach a GPT to invent names.")
    parser.add_argument(
        "--file", help="a text file with a name at the start of each line, used instead of the package names"
    )
    parser.add_argument("--steps", type=int, default=1000, help="how many names to train on (default: %(default)s)")
    parser.add_argument(
        "--backend", choices=["eager", "python", "c", "auto"], default="eager", help="what runs the training; see `fit`"
    )
    parser.add_argument("--seed", type=int, default=0, help="of all that is random")
    options = parser.parse_args(arguments)
    if options.steps < 1:
        parser.error(f"argument --steps: {options.steps} is not a number from 1")
    rng = random.Random(options.seed)
    try:
        names = sorted({word.lower() for line in lines(options.file) for word in line.split()[:1]})
        if not names:
            raise ValueError(f"{options.file} has no names: expected one on each line")
    except (OSError, ValueError, ImportError) as error:
        parser.error(str(error))
    alphabet = ["", *sorted(set("".join(names)))]  # the first of them is END
    lessons = [[END, *map(alphabet.index, name), END][: CONTEXT + 1] for name in rng.choices(names, k=options.steps)]
    model = GPT(len(alphabet), rng)
    print(f"{len(names):,} names, an alphabet of {len(alphabet) - 1} letters, {len(model.parameters()):,} weights")
    fit(
        model, cross_entropy, [tokens[:-1] for tokens in lessons], [tokens[1:] for tokens in lessons],
        epochs=1, batch_size=1, optimizer=optim.Adam(model.parameters(), betas=(0.85, 0.99)),
        schedule=optim.linear(0.01, options.steps), backend=options.backend, rng=rng,
    )  # fmt: skip
    print(*(invented(model, alphabet, rng) for _ in range(20)), sep="\n")


if __name__ == "__main__":
    main()
