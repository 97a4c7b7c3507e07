"""Numbers on cards."""

from fractions import Fraction

import pytest

from micrograd.draw import text


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (-0.000123456, "−0.0001"),
        (-1.23456e-300, "−1e−300"),
        (1.5e7, "1.5e7"),
        (Fraction(-1, 3), "−1/3"),
        (Fraction(-123456, 654321), "−0.1887"),
        (Fraction(-1, 10**4000), "−1e−4000"),
        (123456, "123456"),
    ],
)
def test_numbers_on_cards_have_as_many_digits_as_there_is_room_for(number, shown):
    assert text.number(number, 7) == shown
