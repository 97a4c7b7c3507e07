"""The history of a training run: what it shows, and how a number that is not finite ends it."""

import math
import pickle

import pytest

from micrograd import nn
from micrograd.losses import mse_loss
from micrograd.optim import SGD
from micrograd.training import fit
from micrograd.training.history import Diverged, Failure, History

FAILURE = Failure(1.5, "the loss is nan", "the loss is nan in epoch 2")


@pytest.mark.parametrize(
    ("history", "shown"),
    [
        (History(), "0 epochs"),
        (History([0.5], [], [0.1]), "1 epoch, loss 0.5 to 0.5"),
        (
            History([1.0, 0.5, 0.25], [2.0, 0.75, 1.0], [0.1] * 3, interrupted=True),
            "3 epochs, loss 1 to 0.25, lowest validation loss 0.75 in epoch 2, interrupted",
        ),
        (History([1.0] * 10_000, failure=FAILURE), "10000 epochs, loss 1 to 1, ended as the loss is nan"),
        (History([3e122, 1e125, 4e127]), "3 epochs, loss 3e+122 to 4e+127 (it has grown)"),
        (History([1e-3, 1.0]), "2 epochs, loss 0.001 to 1"),
        (History([1e-3, 1.001]), "2 epochs, loss 0.001 to 1.001 (it has grown)"),
        (History([0.0, 1.0]), "2 epochs, loss 0 to 1"),
        (History([-1.0, 1e9]), "2 epochs, loss -1 to 1e+09"),
        (History([1e-9, 1e308]), "2 epochs, loss 1e-09 to 1e+308 (it has grown)"),
    ],
)
def test_a_history_shows_the_outcome_and_not_all_its_numbers(history, shown):
    assert repr(history) == f"History({shown})"


def diverged(model, xs, ys, loss=mse_loss, rate=0.1, **options):
    with pytest.raises(Diverged) as caught:
        fit(
            model, loss, xs, ys, epochs=50, batch_size=1, rng=1, progress=False,
            optimizer=SGD(model.parameters(), rate), **options,
        )  # fmt: skip
    failure = caught.value.history.failure
    assert str(caught.value) == failure.message
    assert failure == caught.value.failure
    return caught.value.history


def test_a_failure_says_which_number_was_not_finite_and_when():
    history = diverged(nn.Neuron(2, rng=1), [[1.0, 2.0], [1.0, math.nan]], [0.0, 0.0])
    assert (history.failure.what, history.losses) == ("the loss is nan", [])
    assert history.failure.epoch in (0.0, 0.5)
    history = diverged(nn.Neuron(1, "linear", rng=1), [[1e10]], [0.0], loss=lambda p, y: p * 1e-5, rate=1e305)
    assert history.failure.what == "a parameter is -inf"
    history = diverged(nn.Neuron(1, rng=1), [[1.0]], [0.0], validation=([[1.0]], [math.inf]))
    assert history.failure.message.startswith("the validation loss is inf after epoch 1")
    assert history.failure.epoch == 1


def test_the_error_travels():
    error = Diverged(FAILURE, History([1.0]))
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.failure, again.history) == (str(error), error.failure, error.history)
