"""The data sets have the right shapes, batches contain every example, and columns are brought to one scale."""

import collections
import json
import math
import random

import numpy as np
import pytest

from micrograd import Value
from micrograd.data import Scaling, batches, circles, moons, spirals, standardize, train_test_split, xor
from tests.helpers import Table

# Data sets


def test_xor_is_one_or_the_other_but_not_both():
    assert sorted(zip(*xor(), strict=True)) == [([0, 0], 0), ([0, 1], 1), ([1, 0], 1), ([1, 1], 0)]


@pytest.mark.parametrize("make", [moons, circles, spirals])
def test_a_data_set_follows_from_its_seed_or_generator(make):
    assert make(30, rng=7) == make(30, rng=7) == make(30, rng=random.Random(7))
    assert make(30, rng=7) != make(30, rng=8)
    random.seed(7)
    assert make(30) == make(30, rng=7)
    for kind in (np.random.default_rng, np.random.RandomState):
        rng = kind(7)
        first = make(30, rng=rng)
        assert first == make(30, rng=kind(7)) != make(30, rng=kind(8))
        assert first != make(30, rng=rng)  # which it is used on from where it stands


@pytest.mark.parametrize("make", [moons, circles, spirals])
@pytest.mark.parametrize("n", [0, 1, 2, 7, 100])
def test_the_points_are_shared_out_evenly_among_the_classes(make, n):
    xs, ys = make(n, rng=1)
    assert len(xs) == len(ys) == n
    assert collections.Counter(ys) == collections.Counter({0: (n + 1) // 2, 1: n // 2})
    assert all(len(x) == 2 and set(map(type, x)) == {float} for x in xs)


def test_moons_without_noise_are_two_half_circles():
    for (a, b), y in zip(*moons(50, noise=0), strict=True):
        if y == 0:
            assert (math.hypot(a, b), b > 0) == (pytest.approx(1), True)
        else:
            assert (math.hypot(a - 1, b - 0.5), b < 0.5) == (pytest.approx(1), True)


def test_circles_without_noise_have_the_radius_1_and_the_factor():
    xs, ys = circles(50, noise=0, factor=0.3)
    assert [math.hypot(*x) for x in xs] == pytest.approx([0.3 if y else 1 for y in ys])
    assert len(set(map(tuple, xs))) == 50
    assert [sum(x[i] for x in xs) for i in (0, 1)] == pytest.approx([0, 0], abs=1e-12)


def test_spirals_without_noise_wind_out_evenly():
    xs, ys = spirals(90, noise=0, arms=3)
    for arm in range(3):
        points = [x for x, y in zip(xs, ys, strict=True) if y == arm]
        assert [math.hypot(*point) for point in points] == pytest.approx([(i + 0.5) / 30 for i in range(30)])
        for a, b in points:
            angle = math.tau * (arm / 3 + math.hypot(a, b))
            assert (a, b) == pytest.approx((math.hypot(a, b) * math.cos(angle), math.hypot(a, b) * math.sin(angle)))


def test_the_noise_has_its_standard_deviation():
    clean, noisy = moons(4000, noise=0)[0], moons(4000, noise=0.2, rng=3)[0]
    errors = [b - a for p, q in zip(clean, noisy, strict=True) for a, b in zip(p, q, strict=True)]
    assert math.sqrt(sum(e * e for e in errors) / len(errors)) == pytest.approx(0.2, rel=0.05)
    assert sum(errors) / len(errors) == pytest.approx(0, abs=0.01)


# Batches


@pytest.mark.parametrize("n", [1, 9, 10, 11])
def test_batches_hold_every_example_once_with_its_target(n):
    xs, ys = list(range(n)), [-x for x in range(n)]
    got = list(batches(xs, ys, 5, rng=1))
    assert [len(batch_xs) for batch_xs, _ in got] == [5] * (n // 5) + [n % 5] * (n % 5 > 0)
    assert sorted(x for batch_xs, _ in got for x in batch_xs) == xs
    assert all(batch_ys == [-x for x in batch_xs] for batch_xs, batch_ys in got)


def test_batches_are_in_a_new_random_order_each_time():
    xs, rng = list(range(100)), random.Random(1)
    first, second = (list(batches(xs, xs, 10, rng)) for _ in range(2))
    assert first != second
    assert xs == list(range(100))
    assert first == list(batches(xs, xs, 10, rng=1))
    random.seed(1)
    assert first == list(batches(xs, xs, 10))


def test_batches_of_tables_are_of_their_rows():
    xs, ys = Table([[i, 10 + i] for i in range(10)]), Table(range(20, 30))
    got = [pair for batch in batches(xs, ys, 3, rng=1) for pair in zip(*batch, strict=True)]
    assert sorted((*x, y) for x, y in got) == [(i, 10 + i, 20 + i) for i in range(10)]


# Before training

XS, YS = [[i, 2 * i] for i in range(100)], [int(i % 5 == 0) for i in range(100)]


@pytest.mark.parametrize(("test_size", "n"), [(0.25, 25), (0.07, 7), (1, 1), (99, 99)])
def test_a_split_has_each_example_once_with_its_target(test_size, n):
    train_xs, test_xs, train_ys, test_ys = train_test_split(XS, YS, test_size, rng=1)
    assert (len(test_xs), len(train_xs)) == (n, 100 - n)
    assert sorted(train_xs + test_xs) == XS
    assert test_size in (1, 99) or test_xs != sorted(test_xs)
    assert test_xs == train_test_split(XS, YS, test_size, rng=random.Random(1))[1]
    for xs, ys in ((train_xs, train_ys), (test_xs, test_ys)):
        assert ys == [YS[x] for x, _ in xs]


@pytest.mark.parametrize("size", [5, 0.33, 50])
def test_a_stratified_split_has_the_same_share_of_each_class_in_both_parts(size):
    classes = [*YS, *[i // 3 for i in range(6, 36)]]  # two large ones and ten of three examples
    for seed in range(5):
        _, _, train, test = train_test_split(classes, classes, size, rng=seed, stratify=classes)
        assert all(abs(test.count(c) - len(test) * classes.count(c) / 130) < 1 for c in classes)
        assert sorted(train + test) == sorted(classes)
    assert {sum(train_test_split(XS, YS, 10, rng=seed)[3]) for seed in range(20)} != {2}


def test_arrays_are_split_and_standardized_into_arrays():
    parts = train_test_split(np.array(XS), np.array(YS), rng=1, stratify=np.array(YS))
    assert [part.tolist() for part in parts] == [*train_test_split(XS, YS, rng=1, stratify=YS)]
    scaled, scaling = standardize(np.array(XS))
    assert scaled.tolist() == standardize(XS)[0]
    assert scaling(np.array([[0, 1]], dtype="uint8")).tolist() == scaling([[0, 1]])


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: moons(-1), ValueError, "n is -1"),
    (lambda: circles(10, noise=math.nan), ValueError, "noise is nan"),
    (lambda: circles(factor=math.inf), ValueError, "factor is inf"),
    (lambda: spirals(10, arms=0), ValueError, "arms is 0"),
    (lambda: moons(rng="7"), TypeError, "rng is '7': expected a random.Random, a NumPy generator or a seed"),
    (lambda: batches([1], [1, 2], 1), ValueError, "not 1 and 2"),
    (lambda: batches([1], [1], 0), ValueError, "size is 0"),
    *[
        (lambda xs=xs: batches(xs, [1.0], 1), TypeError, f"xs is of type {type(xs).__name__}: expected a list or")
        for xs in ({0: 1.0}, {1.0}, iter([1.0]), 1.0, None, np.array(1.0))
    ],
    (lambda: train_test_split(XS, YS, 0.001), ValueError, "test_size is 0.001: expected one that divides 100"),
    (lambda: train_test_split(XS, YS, 100), ValueError, "test_size is 100: expected one that divides 100"),
    (lambda: train_test_split(XS, YS, 1.0), ValueError, "test_size is 1.0: expected .* below 1"),
    (lambda: train_test_split(XS, YS[1:]), ValueError, "same length"),
    (lambda: train_test_split(XS, YS, stratify=[0]), ValueError, "stratify has 1 classes: expected 100"),
    (lambda: train_test_split(XS, YS, stratify={0}), TypeError, "stratify is of type set"),
    (lambda: standardize([]), ValueError, "xs is empty: expected at least one row"),
    (lambda: standardize([[]]), ValueError, "xs is empty: expected at least one row"),
    (lambda: standardize(1.0), TypeError, "xs is of type float: expected a list"),
    (lambda: standardize([1.0, [2.0]]), ValueError, r"xs\[1\] is \[2.0\]: expected a finite number"),
    (lambda: standardize([[1.0], 2.0]), TypeError, r"xs\[1\] is of type float: expected a list"),
    (lambda: standardize(["1.0"]), ValueError, r"xs\[0\] is '1.0': expected a finite number"),
    (lambda: standardize([[1.0]])[1]([1.0, 2.0]), ValueError, "^xs has 2 numbers: expected 1"),
    (lambda: standardize([[1.0, math.nan]]), ValueError, r"xs\[0\]\[1\] is nan: expected a finite number"),
    (lambda: standardize([[1.0], [1.0, 2.0]]), ValueError, r"xs\[1\] has 2 numbers: expected 1"),
    (lambda: standardize([[1.0]])[1]([[1.0, 2.0]]), ValueError, r"xs\[0\] has 2 numbers: expected 1"),
])  # fmt: skip
def test_invalid_arguments_raise_errors_that_name_them(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_one_example_of_a_table_or_a_column_is_scaled_too_and_the_inverse_leads_back():
    for xs in ([[1.0, 5.0], [4.0, 6.0], [2.0, 5.0]], [1.0, 4.0, 2.0]):
        scaled, (mean, deviation) = standardize(xs)
        for pair in ([np.array(mean), np.array(deviation)], json.loads(json.dumps((mean, deviation)))):
            scaling = Scaling(*pair)  # of scikit-learn's arrays; of lists from a file
            for kind in (lambda xs: xs, np.array):
                for some, their in ((xs, scaled), (xs[1], scaled[1])):
                    assert np.allclose(scaling(kind(some)), their)
                    assert np.allclose(scaling.inverse(kind(their)), some)
    price = Value(2.0)
    scaling.inverse(price).backward()
    assert (scaling.inverse(price).data, price.grad) == (2.0 * deviation + mean, deviation)


def test_a_column_of_bools_is_standardized_as_0_and_1():
    scaled, scaling = standardize([[5.0, True], [7.0, False]])
    assert (scaled, scaling([[5.0, False]])) == ([[-1.0, 1.0], [1.0, -1.0]], [[-1.0, -1.0]])
    assert standardize(np.array([[5.0, True], [7.0, False]], object))[0].dtype == float
    assert scaling(np.array([[Value(5.0), False]])).tolist() == [[-1.0, -1.0]]


def test_standardized_columns_have_mean_0_and_deviation_1_and_others_are_scaled_alike():
    rng = random.Random(1)
    xs = [[rng.gauss(5.0, 3.0), 1e300 * rng.random(), 0.1] for _ in range(50)]
    scaled, scaling = standardize(xs)
    for column in [*zip(*scaled, strict=True)][:2]:
        assert math.fsum(column) == pytest.approx(0.0, abs=1e-12)
        assert math.fsum(x * x for x in column) == pytest.approx(50.0)
    assert {x for _, _, x in scaled} == {0.0}
    assert (scaling.mean[2], scaling.deviation[2]) == (0.1, 1.0)
    mean, deviation = scaling.mean[0], scaling.deviation[0]
    assert scaling([[mean + 2 * deviation, 0.0, 1.1]])[0][::2] == pytest.approx([2.0, 1.0])
