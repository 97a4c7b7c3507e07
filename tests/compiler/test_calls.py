"""Calls for one example: C reads large arrays where they lie, and what a call returns is new."""

import numpy as np
import pytest

import micrograd
from micrograd import Value, dot
from micrograd import sum as total
from micrograd.compiler import calls
from tests.helpers import close

N = 12


@pytest.fixture(params=[1, calls.LARGE])
def large(request, monkeypatch):
    """How many numbers are large."""
    monkeypatch.setattr(calls, "LARGE", request.param)


def unaligned(x):
    """The array again, between the addresses where its numbers should lie."""
    room = np.zeros(x.nbytes + 1, np.uint8)[1:]
    room[:] = x.view(np.uint8)
    return room.view(x.dtype)


class Own(np.ndarray):
    """An array of another class."""


FORMS = {
    "array": np.array,
    "list": np.ndarray.tolist,
    "tuple": lambda x: (*x.tolist(),),
    "strided": lambda x: np.repeat(x, 2)[::2],
    "backwards": lambda x: x[::-1].copy()[::-1],
    "read-only": lambda x: np.broadcast_to(x.copy(), x.shape),
    "unaligned": unaligned,
    "single": np.float32,
    "ints": lambda x: x.astype(int),
    "bools": lambda x: x.astype(bool),
    "big-endian": lambda x: x.astype(">f8"),
    "objects": lambda x: x.astype(object),
    "own class": lambda x: x.copy().view(Own),
}


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("precision", ["double", "single"])
def test_arguments_of_all_forms_take_turns_on_one_prepared_call(precision, backend):
    chosen = micrograd.Backend(backend, precision=precision) if backend == "c" else backend
    example = ([0.0] * N,) * 2
    fast = micrograd.compile(lambda x, w: [a * b + 1.0 for a, b in zip(x, w, strict=True)], example, backend=chosen)
    loss = micrograd.compile(lambda x, w: dot(x, [b * b for b in w]), example, backend=chosen)
    rng = np.random.default_rng(0)
    for _ in range(2):
        for first in FORMS.values():
            for second in FORMS.values():
                x, w = rng.integers(0, 2, (2, N)).astype(float)
                arguments = first(x), second(w)
                found = fast(*arguments)
                assert np.array_equal(found, x * w + 1)
                is_array = any(isinstance(argument, np.ndarray) for argument in arguments)
                assert getattr(found, "dtype", list) == (fast.precision.code if is_array else list)
                out = np.full(N, np.nan, fast.precision.code), np.full(N, np.nan, fast.precision.code)
                value, (by_x, by_w) = loss.value_and_grad(first(x), second(w))
                assert value == x @ w
                assert np.array_equal([by_x, by_w], [w, 2 * x * w])
                assert loss.value_and_grad(first(x), second(w), out=out) == (value, out)
                assert np.array_equal(out, [w, 2 * x * w])
                assert np.array_equal(found, x * w + 1)  # later calls leave it as it is


@pytest.mark.usefixtures("large")
def test_gradients_may_overwrite_what_they_are_computed_from(backend):
    def function(x, w):
        return dot(x[1:], x[:-1]) + dot(x, w)

    fast = micrograd.compile(function, ([0.0] * N,) * 2, backend=backend)
    numbers = np.random.default_rng(1).normal(size=3 * N)
    for x, w, *out in (0, N, 0, N), (0, N, N, 0), (0, 5, 2, 20), (0, N, 5, 24), (0, 0, 0, 20), (9, 0, 20, 8):
        for _ in range(2):
            room = numbers.copy()
            x_now, w_now, *places = [room[at : at + N] for at in (x, w, *out)]
            value, (by_x, by_w) = fast.value_and_grad(x_now.tolist(), w_now.tolist())
            assert fast.value_and_grad(x_now, w_now, out=(*places,))[0] == value
            assert np.array_equal(places[1], by_w)
            assert np.array_equal(places[0], by_x) or abs(out[0] - out[1]) < N  # the second is written last


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("form", ["array", "read-only", "strided"])
def test_a_call_that_fails_leaves_its_arguments_and_out_as_they_were(form, backend):
    fast = micrograd.compile(lambda x: total(a.log() for a in x), ([1.0] * N,), backend=backend)
    room = np.repeat(np.arange(N, 0.0, -1), 2)
    x, out = (room[::2], room[:N]) if form == "strided" else (room[:N].view(), room[:N])
    x.flags.writeable = form != "read-only"
    for last in (1.0, -1.0, -1.0):  # the first call after an error is prepared anew
        room[:] = np.repeat(np.arange(N, 0.0, -1), 2)
        x.base[2 * N - 2 if form == "strided" else N - 1] = last
        before = room.copy()
        if last > 0:
            fast.value_and_grad(x, out=out)
        else:
            with pytest.raises(ValueError, match=r"log\(-1"):
                fast.value_and_grad(x, out=out)
            assert np.array_equal(room, before)


@pytest.mark.usefixtures("large")
def test_results_are_new_at_each_call_and_the_engines_after_an_error(backend):
    fast = micrograd.compile(lambda x: [a.log() for a in x], ([1.0] * N,), backend=backend)
    loss = micrograd.compile(lambda x: total(-a.log() for a in x), ([1.0] * N,), backend=backend)
    xs = np.arange(1.0, N + 1)
    found = [fast(xs * i) for i in (1, 2)], [loss.value_and_grad(xs * i)[1] for i in (1, 2)]
    with pytest.raises(ValueError, match="log"):
        fast(xs - 1)
    with pytest.raises(ValueError, match="log"):
        loss.value_and_grad(xs - 1, out=np.empty(N))
    assert all(close(y, np.log(xs * i)) for y, i in zip(found[0], (1, 2), strict=True))
    assert all(close(y, -1 / (xs * i)) for y, i in zip(found[1], (1, 2), strict=True))
    assert fast(xs.tolist()) == found[0][0].tolist()


@pytest.mark.parametrize("n", [1, 3, 20])
def test_a_loop_may_run_over_several_arguments(n, backend):
    def function(*rows):
        return total(-(a * b).sin() for row in rows for a, b in zip(row, row[1:] + row[:1], strict=True))

    w = Value(0.0)  # so that parameters take part
    fast = micrograd.compile(lambda *rows: function(*rows) + w, ([0.0] * 3,) * n, backend=backend)
    x = np.random.default_rng(n).normal(size=(n, 3))
    y = np.roll(x, -1, 1)
    slopes = -np.cos(x * y)
    expected = slopes * y + np.roll(slopes * x, 1, 1)
    value, gradients = fast.value_and_grad(*x.tolist(), argnum=tuple(range(n)))
    assert close(value, -np.sin(x * y).sum())
    assert np.allclose(gradients, expected, rtol=1e-13)
    some = (n - 1, 0)
    assert np.allclose(fast.value_and_grad(*x, argnum=some)[1], expected[[*some]], rtol=1e-13)
    assert not np.signbit(fast.value_and_grad(*0.0 * x**2)[1]).any()
