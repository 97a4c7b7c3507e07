"""Snapshots of a training: how many there are, when they are taken, and what they contain."""

import math
import pickle
from array import array
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import pytest

from micrograd import Value, nn
from micrograd.data import moons
from micrograd.losses import mse_loss
from micrograd.optim import SGD
from micrograd.training import fit
from micrograd.training.history import Diverged, Failure, History, Recorder, Snapshot

XS, YS = moons(12, rng=1)


def recorded(most, epochs, end=None):
    """The epochs of the snapshots of a training."""
    snapshots = []
    recorder = Recorder(snapshots, [Value(1.0)], most)
    with recorder.recording(lambda: epochs if end is None else end):
        for epoch in range(1, epochs + 1):
            recorder.epoch(epoch)
    return [snapshot.epoch for snapshot in snapshots]


@pytest.mark.parametrize(
    ("most", "epochs", "expected"),
    [
        (5, 0, [0]),
        (5, 4, [0, 1, 2, 3, 4]),
        (5, 5, [0, 2, 4, 5]),
        (5, 16, [0, 4, 8, 12, 16]),
        (5, 17, [0, 4, 8, 12, 17]),
        (2, 9, [0, 9]),
        (3, 7, [0, 4, 7]),
    ],
)
def test_snapshots_are_evenly_spread_with_the_first_and_the_last(most, epochs, expected):
    assert recorded(most, epochs) == expected


@pytest.mark.parametrize("most", [2, 3, 10])
def test_there_are_never_more_than_asked_for(most):
    for epochs in range(100):
        assert len(recorded(most, epochs, end=epochs + 0.5)) <= most


def test_a_training_that_ends_within_an_epoch_has_a_last_snapshot_there():
    assert recorded(5, 2, end=2.5) == [0, 1, 2, 2.5]
    assert recorded(3, 2, end=2.5) == [0, 1, 2.5]


def test_a_snapshot_holds_the_parameters_and_the_gradients_of_the_step_before():
    model, seen = nn.MLP(2, [2, 1], rng=1), []

    class Seen(SGD):
        def step(self):
            before = [p.grad for p in self.parameters]
            super().step()
            seen.append((array("d", [p.data for p in self.parameters]), array("d", before)))

    first = array("d", [p.data for p in model.parameters()])
    history = fit(
        model, mse_loss, XS, YS, epochs=3, batch_size=4, snapshots=9, progress=False,
        optimizer=Seen(model.parameters(), 0.1),
    )  # fmt: skip
    assert history.snapshots == [
        Snapshot(0, first, array("d", [0.0] * 9)),
        *[Snapshot(epoch, *seen[3 * epoch - 1]) for epoch in (1, 2, 3)],
    ]


@pytest.mark.parametrize("executor", [False, True])
def test_a_frozen_layer_has_the_gradients_of_the_step_and_not_their_sum(backend, executor):
    def gradients(backend, **options):
        model = nn.MLP(2, [2, 1], rng=1)
        frozen = SGD(model.layers[1].parameters(), 0.0)
        history = fit(
            model, mse_loss, XS, YS, epochs=3, optimizer=frozen, snapshots=9, progress=False, backend=backend, **options
        )
        assert [p.grad for p in model.parameters()] == pytest.approx(list(history.snapshots[-1].gradients))
        return [list(snapshot.gradients) for snapshot in history.snapshots[1:]]

    first = gradients("eager")[0]
    with ThreadPoolExecutor(1) if executor else nullcontext() as pool:
        for found in gradients("eager") + gradients(backend, executor=pool):  # each time of the same parameters
            assert found == pytest.approx(first, rel=1e-9)


def test_without_being_asked_for_there_are_none():
    assert fit(nn.Neuron(2), mse_loss, XS, YS, epochs=2, progress=False).snapshots == []


@pytest.mark.parametrize("most", [0, 1, 2.5, "all"])
def test_a_number_below_the_first_and_the_last_is_refused(most):
    with pytest.raises(ValueError, match=f"snapshots is {most!r}: expected an int, 2 or greater"):
        fit(nn.Neuron(2), mse_loss, XS, YS, epochs=2, snapshots=most)


def test_ctrl_c_within_an_epoch_leaves_a_snapshot_of_what_the_model_is():
    calls = iter(range(12 + 4))

    def loss(prediction, target):
        if next(calls, None) is None:
            raise KeyboardInterrupt
        return mse_loss(prediction, target)

    model = nn.Neuron(2, rng=1)
    history = fit(model, loss, XS, YS, epochs=9, batch_size=4, snapshots=5, progress=False)
    assert history.interrupted
    assert [snapshot.epoch for snapshot in history.snapshots] == [0, 1, 1 + 4 / 12]
    assert list(history.snapshots[-1].parameters) == [p.data for p in model.parameters()]


# Where a NaN comes from


def diverged(model, xs, ys, loss=mse_loss, rate=0.1, **options):
    with pytest.raises(Diverged) as caught:
        fit(
            model, loss, xs, ys, epochs=50, batch_size=1, snapshots=4, rng=1, progress=False,
            optimizer=SGD(model.parameters(), rate), **options,
        )  # fmt: skip
    failure = caught.value.history.failure
    assert str(caught.value) == failure.message
    assert failure == caught.value.failure
    return caught.value.history


def test_an_input_that_is_not_finite_is_found():
    history = diverged(nn.Neuron(2, rng=1), [[1.0, 2.0], [1.0, math.nan]], [0.0, 0.0])
    assert history.failure.what == "the loss is nan"
    assert history.failure.origin == "an input is nan"
    assert history.failure.parameters == []
    assert history.failure.epoch in (0.0, 0.5)
    assert history.losses == []


def test_the_operation_that_was_too_large_is_found_with_its_parameters():
    model = nn.Neuron(2, "linear", rng=1)
    model.w[1].data = -1e200
    history = diverged(model, [[0.0, 1e200]], [0.0], loss=lambda p, y: p * 1.0)
    assert history.failure.origin.startswith("dot(")
    assert history.failure.origin.endswith(" is -inf")
    assert history.failure.parameters == [0, 1, 2]
    assert [snapshot.epoch for snapshot in history.snapshots] == [0]


def test_the_gradients_that_are_not_finite_are_found():
    model = nn.Neuron(2, "linear", rng=1)
    model.w[1].data = 1e-200
    history = diverged(model, [[0.0, 1e200]], [0.0], loss=lambda p, y: p * 1e200)
    assert history.failure.origin == "1 of 3 gradients are not finite"
    assert history.failure.parameters == [1]
    assert history.snapshots[-1].gradients[1] == math.inf


def test_a_step_too_far_has_no_other_origin():
    history = diverged(nn.Neuron(1, "linear", rng=1), [[1e10]], [0.0], loss=lambda p, y: p * 1e-5, rate=1e305)
    assert (history.failure.origin, history.failure.parameters) == ("", [])


def test_a_validation_loss_that_is_not_finite_is_told():
    history = diverged(nn.Neuron(1, rng=1), [[1.0]], [0.0], validation=([[1.0]], [math.inf]))
    assert history.failure.message.startswith("the validation loss is inf after epoch 1")
    assert history.failure.epoch == 1


def test_the_error_travels():
    error = Diverged(Failure(1.5, "the loss is nan", "the loss is nan in epoch 2", "", [0]), History([1.0]))
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.failure, again.history) == (str(error), error.failure, error.history)
