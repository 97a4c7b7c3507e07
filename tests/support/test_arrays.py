from fractions import Fraction

import pytest

from micrograd import Value
from micrograd.support.arrays import array_of, empty, is_array

np = pytest.importorskip("numpy")


def test_only_arrays_with_dimensions_are_arrays():
    assert is_array(np.zeros(3))
    assert is_array(np.zeros((0, 2)))
    for other in (1.0, [1.0], np.float64(1.0), np.zeros(()), memoryview(b"1"), None):
        assert not is_array(other)


@pytest.mark.parametrize(("code", "dtype"), [("d", np.float64), ("f", np.float32)])
def test_an_empty_array_can_be_written_to(code, dtype):
    array = empty((2, 3), code)
    assert array.dtype == dtype
    assert array.shape == (2, 3)
    assert array.flags.c_contiguous
    assert array.flags.writeable


def test_numbers_become_doubles_and_others_stay_what_they_are():
    doubles = array_of([1, 2.5, 3, 4], (2, 2))
    assert doubles.dtype == np.float64
    assert doubles.tolist() == [[1.0, 2.5], [3.0, 4.0]]
    values = [Value(1.0), Value(2.0)]
    assert array_of(values, (2, 1)).tolist() == [[values[0]], [values[1]]]
    assert array_of([Fraction(1, 3)], (1,)).dtype == object
    assert array_of([], (0, 3)).shape == (0, 3)
