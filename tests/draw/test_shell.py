"""The colours: who can read what."""

from itertools import combinations

import pytest

from micrograd.draw.shell import CLASSES, COLOURS


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(("lines", "grounds", "least"), [
    (("ink", "soft", "plus", "minus", "alarm"), ("paper", "card"), 4.5),
    (("ink", "soft", "plus", "minus"), ("node", "leaf", "root"), 4.5),
    (("line", "up", "down"), ("paper",), 3),
])  # fmt: skip
@pytest.mark.parametrize("mode", [0, 1])
def test_texts_and_lines_have_a_contrast_with_what_they_stand_on(lines, grounds, least, mode):
    for line in lines:
        for ground in grounds:
            assert contrast(COLOURS[line][mode], COLOURS[ground][mode]) >= least, (line, ground)


@pytest.mark.parametrize("mode", [0, 1])
def test_classes_differ_from_their_shades_and_these_from_each_other(mode):
    for colours in CLASSES:
        assert contrast(colours[mode], colours[2 + mode]) >= 3
    for a, b in combinations([colours[2 + mode] for colours in CLASSES[:3]], 2):
        assert contrast(a, b) >= 1.1
