"""The example reads digits, scikit-learn's and those of MNIST, and says what it lacks.

The required accuracy, 95% of the held-out digits, needs all its epochs: `python -m tests.examples.digits`.
"""

import gzip
import random
import struct
import sys

import pytest

from tests.examples import digits
from tests.helpers import refusal


@pytest.fixture
def mnist(tmp_path):
    """Files of small images, 4 by 3: label i has row i % 4 bright on a noisy ground."""
    rng = random.Random(0)
    for part, count in (("train", 60), ("t10k", 12)):
        labels = [i % 4 for i in range(count)]
        rows = [row == y for y in labels for row in range(4)]
        pixels = [rng.randrange(200, 256) if bright else rng.randrange(60) for bright in rows for _ in range(3)]
        for kind, content in (
            ("images-idx3", struct.pack(">HBB3I", 0, 8, 3, count, 4, 3) + bytes(pixels)),
            ("labels-idx1", struct.pack(">HBBI", 0, 8, 1, count) + bytes(labels)),
        ):
            (tmp_path / f"{part}-{kind}-ubyte.gz").write_bytes(gzip.compress(content))
    return tmp_path


def test_five_epochs_of_a_few_hundred_digits_are_enough_for_85_percent(capsys):
    pytest.importorskip("sklearn")
    assert digits.main(["--limit", "300", "--epochs", "5", "--target", "0.85"]) == 0
    output, progress = capsys.readouterr()
    assert output.startswith("MLP(64 -> 32 relu -> 10 linear, 2410 parameters), 300 digits to learn from, 300 to test")
    assert "the target being 85%" in output
    assert "epoch 5/5" in progress


def test_the_digits_held_out_are_none_of_those_to_learn_from():
    pytest.importorskip("sklearn")
    (xs, ys), (test_xs, test_ys) = digits.from_sklearn()
    assert (len(xs), len(ys), len(test_xs), len(test_ys)) == (1437, 1437, 360, 360)
    assert not {tuple(x) for x in xs} & {tuple(x) for x in test_xs}
    assert {pixel for x in xs for pixel in x} == {i / 16 for i in range(17)}
    assert set(ys) == set(test_ys) == set(range(10))


@pytest.mark.parametrize("backend", ["eager", "auto", "python"])
def test_files_of_mnist_are_learned_in_their_own_size(mnist, backend, capsys):
    assert digits.main(["--mnist", str(mnist), "--epochs", "10", "--hidden", "6", "--backend", backend]) == 0
    output = capsys.readouterr().out
    assert output.startswith("MLP(12 -> 6 relu -> 10 linear, 148 parameters), 60 digits to learn from, 12 to test with")
    assert "100.00% are read correctly" in output


def test_an_accuracy_below_the_target_is_status_1(mnist, capsys):
    assert digits.main(["--mnist", str(mnist), "--epochs", "1", "--learning-rate", "1e-9"]) == 1
    assert "100.00%" not in capsys.readouterr().out


def test_without_scikit_learn_the_error_names_the_package(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    assert "pip install scikit-learn, or" in refusal(digits.main, capsys)


def test_files_that_are_missing_or_not_whole_are_named(mnist, capsys):
    images = mnist / "t10k-images-idx3-ubyte.gz"
    images.write_bytes(gzip.compress(gzip.decompress(images.read_bytes())[:-1]))
    assert f"{images} is not a whole file of MNIST" in refusal(digits.main, capsys, "--mnist", str(mnist))
    images.unlink()
    assert str(images) in refusal(digits.main, capsys, "--mnist", str(mnist))
