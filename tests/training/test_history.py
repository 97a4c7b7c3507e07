"""The history of a training run: what it shows, and how a number that is not finite ends it."""

import pickle

import pytest

from micrograd.compiler.dataset import shape_error
from micrograd.compiler.stepping import NotFinite
from micrograd.training.history import Diverged, Failure, History

FAILURE = Failure(1.5, "the loss is nan", "the loss is nan in epoch 2")
ERRORS = [Diverged("nan"), NotFinite("the loss is inf"), shape_error((1,), (2,)), shape_error((1,), (2,), "call map")]


@pytest.mark.parametrize(("history", "shown"), [
    (History(), "0 epochs"),
    (History([0.5], [], [0.1]), "1 epoch, loss 0.5 to 0.5"),
    (History([1.0, 0.5, 0.25], [2.0, 0.75, 1.0], [0.1] * 3, interrupted=True),
     "3 epochs, loss 1 to 0.25, lowest validation loss 0.75 in epoch 2, interrupted"),
    (History([1.0] * 10_000, failure=FAILURE), "10,000 epochs, loss 1 to 1, ended as the loss is nan"),
    (History([3e122, 1e125, 4e127]), "3 epochs, loss 3e+122 to 4e+127 (it has grown)"),
    (History([1e-3, 1.0]), "2 epochs, loss 0.001 to 1"),
    (History([1e-3, 1.001]), "2 epochs, loss 0.001 to 1.001 (it has grown)"),
    (History([0.0, 1.0]), "2 epochs, loss 0 to 1"),
    (History([-1.0, 1e9]), "2 epochs, loss -1 to 1e+09"),
    (History([1e-9, 1e308]), "2 epochs, loss 1e-09 to 1e+308 (it has grown)"),
])  # fmt: skip
def test_a_history_shows_the_outcome_and_not_all_its_numbers(history, shown):
    assert repr(history) == f"History({shown})"


@pytest.mark.parametrize("error", ERRORS, ids=repr)
def test_errors_travel_as_from_a_process_of_a_pool(error):
    error.history = History([1.0], failure=FAILURE)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), vars(again)) == (str(error), vars(error))
