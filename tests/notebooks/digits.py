"""Digits as people write them, drawn by a program: images of 8 by 8 pixels, as many as one likes, without a download.

Each digit is a few strokes. Every image moves, turns, slants and bends them a little, and draws them with another pen.
Scans of real handwriting of the same size are what `python -m tests.examples.digits` learns from.
"""

import math
import random
from itertools import pairwise

SIZE = 8

Point = tuple[float, float]


def arc(x: float, y: float, across: float, up: float, start: float, end: float) -> list[Point]:
    """Part of an ellipse around (x, y), between two angles in degrees: 0 is right, 90 is down."""
    angles = [math.radians(start + (end - start) * i / 8) for i in range(9)]
    return [(x + across * math.cos(angle), y + up * math.sin(angle)) for angle in angles]


STROKES = [
    [arc(0.5, 0.5, 0.27, 0.4, -90, 270)],
    [[(0.35, 0.25), (0.53, 0.1), (0.53, 0.9)]],
    [[*arc(0.5, 0.33, 0.25, 0.23, -170, 40), (0.25, 0.9), (0.77, 0.9)]],
    [[*arc(0.47, 0.3, 0.25, 0.2, -150, 80), *arc(0.47, 0.7, 0.28, 0.2, -80, 150)]],
    [[(0.55, 0.1), (0.22, 0.62), (0.8, 0.62)], [(0.62, 0.4), (0.62, 0.92)]],
    [[(0.73, 0.1), (0.32, 0.1), (0.3, 0.45), *arc(0.48, 0.66, 0.26, 0.24, -110, 140)]],
    [[(0.65, 0.1), *arc(0.5, 0.68, 0.24, 0.22, 180, -180)]],
    [[(0.24, 0.1), (0.77, 0.1), (0.42, 0.9)]],
    [arc(0.5, 0.3, 0.2, 0.19, 90, 450), arc(0.5, 0.7, 0.25, 0.21, -90, 270)],
    [[*arc(0.5, 0.32, 0.23, 0.22, 0, -360), (0.66, 0.9)]],
]
"""The strokes of each digit, in a square whose sides are 1; y grows downwards."""


def digits(n: int, rng: int) -> tuple[list[list[float]], list[int]]:
    """So many images, each a list of 64 pixels from 0 to 1, row by row, and the digit in each; the same for a seed."""
    chance = random.Random(rng)
    labels = [i % 10 for i in range(n)]
    chance.shuffle(labels)
    return [_image(label, chance) for label in labels], labels


def _image(label: int, chance: random.Random) -> list[float]:
    turn, slant = chance.gauss(0, 0.12), chance.gauss(0, 0.15)
    wide, high = chance.uniform(0.75, 1.1), chance.uniform(0.8, 1.05)
    right, down = chance.gauss(0.5, 0.04), chance.gauss(0.5, 0.04)
    pen = chance.uniform(0.0, 0.04)

    def moved(point: Point) -> Point:
        x, y = (point[0] - 0.5) * wide, (point[1] - 0.5) * high
        x, y = x - slant * y + chance.gauss(0, 0.02), y + chance.gauss(0, 0.02)
        x, y = x * math.cos(turn) - y * math.sin(turn), x * math.sin(turn) + y * math.cos(turn)
        return x + right, y + down

    lines = [line for stroke in STROKES[label] for line in pairwise([moved(point) for point in stroke])]
    pixels = []
    for i in range(SIZE * SIZE):
        middle = (i % SIZE + 0.5) / SIZE, (i // SIZE + 0.5) / SIZE
        ink = 1 - (min(_distance(middle, *line) for line in lines) - pen) * SIZE
        pixels.append(round(min(1.0, max(0.0, ink)), 2))
    return pixels


def _distance(point: Point, start: Point, end: Point) -> float:
    """From a point to a line between two others."""
    along = end[0] - start[0], end[1] - start[1]
    length = along[0] ** 2 + along[1] ** 2
    share = ((point[0] - start[0]) * along[0] + (point[1] - start[1]) * along[1]) / length if length else 0.0
    share = min(1.0, max(0.0, share))
    return math.dist(point, (start[0] + share * along[0], start[1] + share * along[1]))
