"""The example reads the digits of scikit-learn, and names a package that is missing.

The required accuracy, 95% of the held-out digits, needs all its epochs: `python -m tests.examples.digits`.
"""

import sys

import pytest

from tests.examples import digits
from tests.helpers import refusal


@pytest.mark.parametrize("backend", ["eager", "auto", "python"])
def test_a_few_epochs_are_enough_for_85_percent_of_the_digits_that_are_held_out(backend, capsys):
    pytest.importorskip("sklearn")
    few = ["--limit", "300", "--epochs", "5", "--backend", backend]
    assert [digits.main([*few, "--target", target]) for target in ("0.85", "0.999")] == [0, 1]
    output, progress = capsys.readouterr()
    assert output.startswith("MLP(64 -> 32 relu -> 10 linear, 2,410 parameters), 300 digits to learn from, 300 to test")
    assert "the target is 85%" in output
    assert "epoch 5/5" in progress
    (xs, ys), (test_xs, test_ys) = digits.from_sklearn()
    assert (len(xs), len(ys), len(test_xs), len(test_ys)) == (1437, 1437, 360, 360)
    assert not {*map(tuple, xs)} & {*map(tuple, test_xs)}
    assert {pixel for x in xs for pixel in x} == {i / 16 for i in range(17)}


def test_without_scikit_learn_the_error_names_the_package(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    assert "pip install scikit-learn" in refusal(digits.main, capsys)
