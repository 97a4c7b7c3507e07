"""The finished network that reads digits: the course begins with it, and students build it in part 4.

`reader.json` has its weights, to three decimals. `python -m tests.notebooks.reader` trains it again: 64 pixels, 16
neurons and ten scores, on 1,000 of the digits that `digits.py` draws.
"""

from pathlib import Path

from micrograd import fit, losses, nn, optim

try:
    from .digits import digits
except ImportError:  # in a notebook beside it
    from digits import digits

FILE = Path(__file__).with_name("reader.json")


def trained() -> nn.MLP:
    """The reader, trained from the same seed each time, with its weights rounded."""
    xs, ys = digits(1000, rng=3)
    model = nn.MLP(64, [16, 10], rng=1)
    adam = optim.AdamW(model.parameters(), learning_rate=0.01, weight_decay=0.1)
    fit(model, losses.cross_entropy, xs, ys, epochs=20, batch_size=10, optimizer=adam, rng=1, backend="auto")
    for weight in model.parameters():
        weight.data = round(weight.data, 3)
    return model


def reader() -> nn.MLP:
    """The stored reader: it takes a list of 64 pixels and returns a score for each of the ten digits."""
    return nn.load(FILE)


def pixels(drawing: str) -> list[float]:
    """An image of 8 by 8 pixels from a drawing in text: # is ink, + is half as dark, everything else is paper."""
    rows = [row.strip() for row in drawing.strip().splitlines()]
    return [{"#": 1.0, "+": 0.5}.get(ink, 0.0) for row in [*rows, *[""] * 8][:8] for ink in row.ljust(8)[:8]]


if __name__ == "__main__":
    nn.save(trained(), FILE)
