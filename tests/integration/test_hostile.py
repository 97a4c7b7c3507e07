"""Damaged files raise ValueError and nothing else. See `python -m tests.stress`."""

import random

from tests.stress import hostile


def test_a_damaged_model_is_a_value_error_and_takes_little_memory():
    readable = hostile.files(1000, random.Random(1))
    assert 0 < readable < 500  # a digit for another digit; most of the damage is found
