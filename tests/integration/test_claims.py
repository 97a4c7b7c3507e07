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
    assert {name: round(loss, 2) for name, loss in found.items()} == {"table": 2.46, 1: 2.26, 16: 2.35}
