"""Loaded libraries: how many examples one computes at once, and in how many threads."""

import ctypes
import random
from contextlib import nullcontext
from functools import cache

import numpy as np
import pytest

import micrograd
from micrograd import Backend, Value, dot, fit, scan, take
from micrograd.compiler.native import library, toolchain
from micrograd.compiler.native.library import CallArguments
from micrograd.compiler.targets import c
from micrograd.nn import MLP
from micrograd.optim import SGD
from tests.helpers import assert_as_engine, assert_close, grads, interrupt_while, large, moons, needs_compiler


@pytest.fixture
def built(monkeypatch):
    """The texts that libraries are built from, in order."""
    texts = []

    def build(text, key, early):
        texts.append(text())
        return toolchain.build(texts[-1], early=early)

    monkeypatch.setattr(library, "build", build)
    return texts


@needs_compiler
def test_a_library_is_built_once_and_only_when_it_is_needed(built):
    w = Value(2.0)
    fast = micrograd.compile(lambda x: w * x, (1.0,), parameters=[w], backend="c")
    for n, call in enumerate((lambda: fast.backward([1.0] * 32), lambda: fast.map([1.0] * 32), lambda: fast(1.0)), 1):
        for _ in range(2):
            call()
            assert len(built) == n
    with fast.training(SGD([w], 0.1)) as step:
        for _ in range(3):
            step([1.0] * 32)
            assert len(built) == 3  # a step uses what backward does


@needs_compiler
def test_a_library_in_the_cache_needs_no_passes_unless_the_trace_or_this_package_has_changed(own_cache, monkeypatch):
    monkeypatch.setattr(library, "build", toolchain.build)  # as without conftest.py

    def values(constant):
        return micrograd.compile(lambda x: x.exp() * constant, (1.0,), backend="c").map([0.0] * 32)

    assert values(2.0) == [2.0] * 32
    monkeypatch.setattr(library, "program_for_many", None)
    assert values(2.0) == [2.0] * 32
    with pytest.raises(TypeError, match="'NoneType' object is not callable"):
        values(3.0)
    monkeypatch.setattr(library, "own_code", lambda: "of the next version")
    with pytest.raises(TypeError, match="'NoneType' object is not callable"):
        values(2.0)


@needs_compiler
@pytest.mark.parametrize(
    ("epochs", "inputs", "rounds", "is_interpreted"),
    [(3, 1, 0, False), (400, 4, 0, True), (1000, 4, 0, False), (3, 400, 0, True), (400, 400, 0, False),
     (3, 4, 500, True), (400, 4, 500, False), (3, 4, -500, False)],
)  # fmt: skip
def test_fit_interprets_what_it_runs_only_a_few_times(epochs, inputs, rounds, is_interpreted, built, monkeypatch):
    """Short programs and loops that may end early are compiled; long rows or many rounds allow fewer runs."""
    monkeypatch.setattr(library, "_interpreter", cache(library._interpreter.__wrapped__))
    model = MLP(inputs, [16, 8, 1] if inputs > 1 else [1])
    xs = [[i / 100] * inputs for i in range(50)]

    def loss(y, target):
        until = (lambda y: y > 2.0) if rounds < 0 else None  # the interpreter would go on after the end
        return scan(lambda y, _: ((y * y).sin(), None), y, length=abs(rounds), until=until)[0] - target

    optimizer = SGD(model.parameters(), 0.0)
    fit(model, loss, xs, [1.0] * 50, epochs=epochs, optimizer=optimizer, backend="c", progress=False)
    assert ["case END:" in text for text in built] == [is_interpreted]


@needs_compiler
@pytest.mark.parametrize("tile", [1, 2, 4])
@pytest.mark.parametrize("n", [1, 7, 8, 9, 33])
def test_a_tile_may_be_full_in_part(n, tile, monkeypatch):
    """With weights that are shared, chosen, subtracted, and used in loops within loops."""
    monkeypatch.setattr(library, "tile_size", lambda n, lanes: tile)
    rng = random.Random(n)
    ps = [Value(rng.gauss(0, 1)) for _ in range(12)]

    def loss(example):
        i, *xs = example
        hidden = [(dot(ps[:3], xs[k : k + 3], ps[3]) - ps[4] * xs[k]).tanh() for k in range(4)]
        return dot(hidden, [take(ps[5:10], i)] * 4) - ps[10] + micrograd.sum([ps[11] * h for h in hidden])

    batch = [[rng.randrange(5), *(rng.gauss(0, 1) for _ in range(6))] for _ in range(n)]
    fast = micrograd.compile(loss, (batch[0],), parameters=ps, backend="c")
    assert_as_engine(fast, loss, batch)


@pytest.mark.parametrize(
    ("n", "size"), [(4, 0), (5, 1), (16, 2), (32, 4), (37, 1), (50, 4), (100, 2), (200, 2), (288, 4)]
)
def test_a_tile_is_as_wide_as_leaves_few_lanes_unused(n, size):
    assert library.tile_size(n, lanes=8) == size


def noisy(threads=3, n=40, seed=1):
    """A network, its compiled loss for so many threads, and a batch."""
    model, loss, _ = large(6, 5)
    rng = random.Random(seed)
    batch = [[rng.gauss(0, 1) for _ in range(6)] for _ in range(n)]
    fast = micrograd.compile(loss, (batch[0],), parameters=model.parameters(), backend=Backend("c", threads=threads))
    return model, fast, batch


@needs_compiler
@pytest.mark.parametrize("n", [1, 8, 23, 24, 100])
def test_threads_share_the_examples_of_a_call_and_of_a_training_step(n, threads_pay):
    results = []
    for threads in (1, 3, 3):
        model, fast, batch = noisy(threads, n)
        results.append([*fast.map(batch), fast.backward(batch), *grads(model.parameters())])
        with fast.training(SGD(model.parameters(), 0.1)) as step:
            results[-1] += [step(batch[:k]) for k in (n, (n + 1) // 2, n)]
        results[-1] += [p.data for p in model.parameters()]
    alone, first, second = results
    assert_close(first, alone)  # few examples are computed one by one
    assert first == second


@needs_compiler
def test_a_failure_in_another_threads_part_is_met(threads_pay):
    fast = micrograd.compile(lambda x: x.log(), (1.0,), backend=Backend("c", threads=2))
    with pytest.raises(ValueError, match=r"log\(-1\.0\).*in example 30"):
        fast.map([1.0] * 30 + [-1.0] + [1.0] * 9)


@needs_compiler
@pytest.mark.parametrize("trains", [False, True])
def test_ctrl_c_while_threads_are_at_work_waits_for_them(trains, threads_pay):
    """They add to buffers that are freed once the call has ended."""
    model, fast, batch = noisy(n=4000)
    packed, expected = fast.pack(batch), fast.backward(batch)

    with fast.training(SGD(model.parameters(), 0.0)) if trains else nullcontext(fast.backward) as call:
        for delay in (0.0, 0.001, 0.002):
            interrupt_while(lambda: call(packed), delay)
        assert call(packed) == pytest.approx(expected)


@needs_compiler
@pytest.mark.parametrize("can_begin", ["0", "part == parts + 1 && pthread_create(&t, 0, entry, part) == 0"])
def test_if_no_thread_can_start_the_calling_one_does_its_work(can_begin, monkeypatch, threads_pay):
    def results():
        model, fast, batch = noisy()
        return [fast.backward(batch), *grads(model.parameters()), *fast.map(batch)]

    expected = results()
    text = c.PARTS["threads"].replace("pthread_create(&t, 0, entry, part) == 0", can_begin)
    monkeypatch.setitem(c.PARTS, "threads", text)
    assert can_begin in c.PARTS["threads"]
    assert results() == expected


@needs_compiler
@pytest.mark.parametrize(("examples", "threads"), [(1, 1), (33, 1), (33, 3)])
def test_the_generated_code_does_not_write_beyond_what_it_is_given(examples, threads, threads_pay):
    """Each buffer is followed by numbers that must stay as they are."""
    model, loss, points, labels = moons(33)
    parameters = model.parameters()
    fast = micrograd.compile(loss, (points[0], labels[0]), parameters=parameters, backend=Backend("c", threads=threads))
    loaded = fast._code[((2,), ())].library("backward", examples)
    packed, numbers = fast.pack(points, labels), np.array([parameter.data for parameter in parameters])
    sizes = {"gradients": len(parameters), "results": 33, "work": loaded.room // 8}
    buffers = {}
    for name, size in sizes.items():
        room = np.full(size + 17, 7.0)
        start = next(k for k in range(8) if (room.ctypes.data + 8 * k) % 64 == 8)  # the worst place for vectors
        buffers[name] = room[start : start + size + 9]
        buffers[name][:size] = 0.0
    g, y, work = (buffer.ctypes.data for buffer in buffers.values())
    x = ctypes.addressof(packed.pointers)
    loaded.run(ctypes.byref(CallArguments(p=numbers.ctypes.data, x=x, seed=1.0, g=g, y=y, work=work, n=33)))
    assert buffers["results"][:33] == pytest.approx(fast.map(points, labels), rel=1e-12)
    for name, size in sizes.items():
        assert buffers[name][size:].tolist() == [7.0] * 9
