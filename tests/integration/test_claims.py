"""What the course says about trainings holds over several seeds: the notebooks' own cells compute it again."""

import random
from collections import Counter
from itertools import pairwise
from math import log
from statistics import mean

import pytest

from micrograd import fit

pytest.importorskip("nbclient")

from tests import notebooks
from tests.examples.names import END, lines

pytestmark = pytest.mark.long


def cells(number, *parts, until="\0"):
    """What the cells with these texts define, each up to a text that its experiment begins with."""
    code = [cell.source for cell in notebooks.read(notebooks.NOTEBOOKS[number - 1]).cells if cell.cell_type == "code"]
    namespace = {}
    for part in parts:
        [source] = [source for source in code if part in source]
        exec(source.partition(until)[0], namespace)
    return namespace


@pytest.fixture(scope="module")
def names():
    """The names of part 6 and its functions, with compiled trainings."""
    namespace = cells(6, "NAMES =", "table = ", "def trained", until="model, nearsighted =")
    return namespace | {"trained": compiled(namespace["trained"])}


def compiled(trained):
    """The notebook's function, which trains in C where it can."""
    trained.__globals__["fit"] = lambda *given, **options: fit(*given, **options | {"backend": "auto"})
    return trained


def test_a_transformer_beats_one_that_sees_the_last_letter_and_both_the_table(names):
    texts, trained, loss = names["texts"], names["trained"], names["mean_loss"]
    assert f"{names['table']:.3f}" == "1.952"
    far, near = ([loss(trained(texts, seed, sight=sight), texts) for seed in range(6)] for sight in (16, 1))
    assert 1.70 <= min(far) <= max(far) <= 1.76
    assert 1.79 <= min(near) <= max(near) <= 1.86


def test_a_transformer_does_worse_on_new_names_than_one_that_sees_the_last_letter(names):
    found = Counter()
    for split in range(10):
        texts = random.Random(100 + split).sample(names["texts"], len(names["texts"]))
        new, old = texts[:20], texts[20:]
        for sight in 16, 1:
            found[sight] += names["mean_loss"](names["trained"](old, split, sight=sight), new) / 10
        pairs = Counter(pair for text in old for pair in pairwise(text))
        starts = Counter(first for text in old for first in text[:-1])
        size = len(names["alphabet"])
        found["table"] -= (
            mean(log((pairs[pair] + 0.3) / (starts[pair[0]] + 0.3 * size)) for text in new for pair in pairwise(text))
            / 10
        )
    assert {name: round(loss, 2) for name, loss in found.items()} == {"table": 2.53, 1: 2.40, 16: 2.48}


def test_a_transformer_does_better_on_new_names_if_it_learns_from_thousands(names, monkeypatch):
    pytest.importorskip("names")
    words = sorted({word.lower() for line in lines(None) for word in line.split()[:1] if len(word) <= 14})
    random.Random(5).shuffle(words)
    alphabet = ["", *sorted(set("".join(words)))]
    monkeypatch.setitem(names["trained"].__globals__, "alphabet", alphabet)
    texts = [[END, *map(alphabet.index, word), END] for word in words]
    new, old = texts[:300], texts[300:]
    assert len(old) == 4863
    far, near = (
        [names["mean_loss"](names["trained"](old, seed, steps=3000, sight=sight), new) for seed in range(3)]
        for sight in (16, 1)
    )
    assert 2.19 < min(far) < max(far) < 2.234 < min(near) < max(near) < 2.26
