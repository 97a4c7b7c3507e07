"""Examples as buffers of numbers: what comes in, in which shapes, and what is used where it lies."""

import ctypes
import gc
import math
import re
from array import array
from collections import deque
from fractions import Fraction

import numpy as np
import pytest

import micrograd
from micrograd import Value
from micrograd.compiler.dataset import pack
from tests.helpers import Table


@pytest.mark.parametrize(("batch", "came"), [
    ([[1.0, 2.0], [1.0]], r"\(1,\)"), ([[1.0, 2.0], [1.0, 2.0, 3.0]], r"\(3,\)"), ([[1.0, 2.0], 3.0], r"\(\)"),
    ([[1.0, 2.0], [1.0, [2.0]]], "ragged"), ([[1.0, 2.0], [[1.0], [2.0]]], r"\(2, 1\)"),
    ([[1.0, 2.0], np.ones((2, 3))], r"\(2, 3\)"),
])  # fmt: skip
def test_examples_of_another_shape_than_the_first_are_named_with_both_shapes(batch, came):
    fast = micrograd.compile(lambda x: x[0] + x[1], ([1.0, 2.0],), backend="python")
    with pytest.raises(ValueError, match=rf"{came}.*, expected \(2,\): all examples must have the shape of the "):
        fast.map(batch)


@pytest.mark.parametrize(
    "batch", [[[1.0]], [1.0], np.ones((3, 1)), np.ones(3), array("d", [1.0]), *map(memoryview, np.ones((2, 3, 1), "f"))]
)
def test_a_shape_that_the_function_does_not_take_is_named_with_the_examples(batch):
    fast = micrograd.compile(lambda x: x[0] + x[1], ([1.0, 2.0],), backend="python")
    with pytest.raises(ValueError, match=r"\(\((1,)?\),\), expected \(\(2,\),\)"):
        fast.backward(batch)
    assert fast([1.0, 2.0]) == 3.0


BATCHES = [
    (lambda fast: fast.backward([1.0, 2.0], [1.0, 2.0, 3.0]), ValueError, r"different numbers of examples: \[2, 3\]"),
    (lambda fast: fast.backward([], []), ValueError, "no examples"),
    (lambda fast: fast.backward([1.0]), ValueError, "takes 2 arguments, not 1"),
    (lambda fast: fast(1.0, 2.0, 3.0), ValueError, "takes 2 arguments, not 3"),
    (lambda fast: fast.map(fast.pack([1.0], [2.0]), [1.0]), TypeError, "^argument 1: .* not <1 packed examples"),
    (lambda fast: fast.map(1.0, [2.0]), TypeError, "argument 1: expected a list or an array of examples, not 1"),
    (lambda fast: fast.map([1.0], 2.0), TypeError, "argument 2: expected a list or an array of examples, not 2"),
    (lambda fast: fast.map(np.array(1.0), [2.0]), TypeError, "argument 1: expected a list or an array of examples"),
    (lambda fast: fast.value_and_grad(1.0, Value(2.0)), TypeError,
     r"argument 2: expected a real number, not Value\(data=2.0.*: give its .data"),
    (lambda fast: fast.map(pack([[1.0, 2.0]])), ValueError, r"expected \(\(\), \(\)\)"),
    (lambda fast: fast.map([1.0, [2.0]], [1.0, 2.0]), ValueError, r"shape \(1,\), expected \(\)"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), BATCHES)
def test_anything_but_a_batch_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call(micrograd.compile(lambda x, y: x * y, (1.0, 2.0), backend="python"))


class Labels:
    """An object that iterates over its names: fewer than its length."""

    def __len__(self):
        return 3

    def __iter__(self):
        return iter(range(2))


def test_a_table_is_its_numbers_not_its_names(backend):
    fast = micrograd.compile(lambda x: 2 * x[0] + x[1], ([1.0, 2.0],), backend=backend)
    assert fast.map(Table([[5.0, 1.0], [6.0, 2.0], [7.0, 3.0]])) == [11.0, 14.0, 17.0]
    single = micrograd.compile(lambda x: 2 * x, (1.0,), backend=backend)
    assert single.map(Table([5.0, 6.0, 7.0])) == [10.0, 12.0, 14.0]
    assert single.map(Labels()) == [0.0, 2.0]  # one for each label


NO_NUMBERS = [
    {0: 5.0}.keys(), {0: 5.0}.values(), {0: 5.0}.items(), {5.0, 6.0}, frozenset([5.0]), b"56",
    bytearray(b"56"), "56",
]  # fmt: skip


@pytest.mark.parametrize("thing", NO_NUMBERS, ids=lambda thing: type(thing).__name__)
def test_what_holds_no_numbers_one_after_the_other_is_refused_everywhere(backend, thing):
    single = micrograd.compile(lambda x: 2 * x, (1.0,), backend=backend)
    pair = micrograd.compile(lambda x: x[0] * x[1], ([1.0, 2.0],), backend=backend)
    came = re.escape(repr(thing))
    for batch in (lambda: single.map(thing), lambda: pair.pack(thing)):
        with pytest.raises(TypeError, match=f"argument 1: expected a list or an array of examples, not {came}"):
            batch()
    for example in (
        lambda: single(thing), lambda: pair(thing), lambda: pair.map([[1.0, 2.0], thing]),
        lambda: micrograd.compile(lambda x: x, (thing,), backend=backend),
    ):  # fmt: skip
        with pytest.raises((TypeError, ValueError), match=f"argument 1: .* of numbers, not {came}|shape \\(\\), "):
            example()


@pytest.mark.parametrize(("array", "reason"), [
    (np.array([[1.0, 2j]]), "expected real numbers, not complex128"),
    (np.array([[1.0, 2j]], object), "expected a real number, not 2j"),
    (np.ma.masked_array([[1.0, 2.0]], [[False, True]]), r"a masked array has gaps: fill them with \.filled\(n"),
    (np.array([["1", "2"]]), "expected real numbers, not <U1"),
    (np.array([["1", "2"]], object), r"expected a real number, not '1' \(at \[0\]\[0\]\)"),
    (np.array([[1, 2]], "timedelta64[s]"), "expected real numbers, not timedelta64"),
    (np.array([(1.0, 2.0)], "d,d"), "expected real numbers, not .*'f0'"),
    (np.array(1.0), "expected a list or an array of examples, not array"),
])  # fmt: skip
def test_an_array_of_something_else_than_real_numbers_is_refused(backend, array, reason):
    fast = micrograd.compile(lambda x: x[0] * x[1], ([1.0, 2.0],), backend=backend)
    with pytest.raises(TypeError, match=f"argument 1: {reason}"):
        fast.map(array)


def test_packed_tensors_of_pytorch_are_followed_as_arrays_are(backend):
    torch = pytest.importorskip("torch")
    fast = micrograd.compile(lambda x: 2 * x, (1.0,), backend=backend)
    for dtype, followed in ((torch.float64, True), (torch.float32, False)):
        tensor = torch.ones(3, dtype=dtype)
        packed = fast.pack(tensor)
        assert fast.map(packed) == [2.0, 2.0, 2.0]
        tensor[1] = 5.0
        assert fast.map(packed) == [2.0, 10.0 if followed else 2.0, 2.0]


LAYOUTS = {
    "lists": lambda rows: rows.tolist(), "tuples": lambda rows: tuple(map(tuple, rows.tolist())),
    "a list of arrays": list, "an array": lambda rows: rows, "float32": lambda rows: rows.astype(np.float32),
    "ints": lambda rows: rows.astype(np.int64), "bytes": lambda rows: rows.astype(np.uint8),
    "swapped bytes": lambda rows: rows.astype(">f8"), "Fortran": np.asfortranarray,
    "a slice": lambda rows: np.repeat(rows, 2, axis=0)[::2], "reversed": lambda rows: rows[::-1].copy()[::-1],
    "a memoryview": memoryview, "a memoryview of float32": lambda rows: memoryview(rows.astype(np.float32)),
    "a memoryview of a Fortran array": lambda rows: memoryview(np.asfortranarray(rows)),
    "objects": lambda rows: rows.astype(object),
}  # fmt: skip


def test_packed_examples_show_how_many_they_are_and_of_what_shape():
    fast = micrograd.compile(lambda x, y: x[0] * y, ([1.0, 2.0], 1.0), backend="python")
    assert repr(fast.pack([[1.0, 2.0]] * 3, [1.0] * 3)) == "<3 packed examples of arguments of shape (2,), ()>"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_examples_come_in_any_layout(backend, layout):
    rows = np.arange(12.0).reshape(6, 2)
    fast = micrograd.compile(lambda x: x[0] - 3 * x[1], ([1.0, 2.0],), parameters=[Value(0.0)], backend=backend)
    values = fast.map(LAYOUTS[layout](rows))
    of_numpy = not layout.startswith(("lists", "tuples", "a memoryview"))
    assert type(values) is (np.ndarray if of_numpy else list)
    assert list(values) == (rows[:, 0] - 3 * rows[:, 1]).tolist()
    assert fast.backward(LAYOUTS[layout](rows)) == (rows[:, 0] - 3 * rows[:, 1]).mean()


@pytest.mark.parametrize(
    "batch",
    [array("d", [1, 2, 3]), array("f", [1, 2, 3]), array("i", [1, 2, 3]), memoryview(array("d", [1, 2, 3])),
     memoryview(array("d", [9, 9, 1, 2, 3, 9]))[2:5], memoryview(b"\1\2\3"), range(1, 4), np.array([1, 2, 3]),
     deque([1, 2, 3]), (ctypes.c_double * 3)(1, 2, 3), [np.float64(1), np.float32(2), np.int64(3)],
     [Fraction(1), np.array(2), 3], np.array([1, 2, 3], np.float16)],
    ids=lambda batch: type(batch).__name__,
)  # fmt: skip
def test_numbers_come_in_any_sequence(backend, batch):
    assert list(micrograd.compile(lambda x: 2 * x, (1.0,), backend=backend).map(batch)) == [2.0, 4.0, 6.0]


def test_what_cannot_be_written_to_or_is_not_aligned_is_copied():
    rows = np.arange(3.0)
    rows.flags.writeable = False
    fast = micrograd.compile(lambda x: x + 0.0, (1.0,), backend="python")
    assert fast.map(memoryview(rows)[1:]) == fast.map(fast.pack(rows).chosen(range(1, 3))).tolist() == [1.0, 2.0]
    assert fast.map(memoryview(bytes(array("d", [1.0, 2.0]))).cast("d")) == [1.0, 2.0]
    rows = np.frombuffer(bytearray(b"\0" + bytes(array("d", [1.0, 2.0]))), "d", 2, 1)  # which processors may refuse
    assert fast.pack(rows).pointers[0] % 8 == 0
    assert fast.map(rows).tolist() == [1.0, 2.0]


@pytest.mark.parametrize("lists", [False, True])
def test_packed_doubles_are_kept_alive_and_followed_where_they_lie(backend, lists):
    fast = micrograd.compile(lambda x, y: x * y, (1.0, 1.0), backend=backend)
    rows = np.arange(1000.0)
    packed = fast.pack(rows, list(rows) if lists else np.arange(1000.0))
    assert fast.map(packed)[999] == 999.0**2
    rows[999] = 2.0
    assert fast.map(packed)[999] == 2.0 * 999.0
    del rows
    gc.collect()
    garbage = [np.full(1000, math.nan) for _ in range(10)]
    assert fast.map(packed)[999] == 2.0 * 999.0
    assert len(garbage) == 10
