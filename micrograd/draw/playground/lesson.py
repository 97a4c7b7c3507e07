"""What a lesson of the playground may set, checked before the page is written."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from micrograd.core.errors import shown
from micrograd.support.validation import plain

Setting = tuple[str, Callable[[Any], bool]]  # what is expected, and whether a value is that

ALL = "Infinity"  # in the page's address, a batch of all examples
DATA_SETS = {"yours": (0, 0), "xor": (0, 4), "moons": (0.1, 100), "circles": (0.1, 100), "spirals": (0.02, 100)}
"""The data sets of the page, with the noise and the number of points that each opens with."""


def _number(least: int, most: float, kinds: tuple[type, ...] = (int, float)) -> Setting:
    """A number in a range, ends included."""
    kind = "a number" if float in kinds else "a whole number"
    return f"{kind} from {least} to {most:,}", lambda x: type(x) in kinds and least <= x <= most


def _are_answers(answers: Any) -> bool:
    is_list = isinstance(answers, (list, tuple)) and all(isinstance(words, str) for words in answers)
    return is_list and len({*answers}) == len(answers) >= 2


# What a part of a lesson may have, in the page's terms: from `rate` on, settings as in the page's address.
SETTINGS: dict[str, Setting] = {
    "text": ("the text of the question", lambda text: isinstance(text, str) and text != ""),
    "answers": ("a list of at least two texts, all different", _are_answers),
    "after": ("a text", lambda text: isinstance(text, str)),
    "steps": _number(1, 10**6, (int,)),
    "choice": ("a dict of labels by keyword", lambda choice: isinstance(choice, Mapping)),
    "rate": _number(0, 10**6),
    "batch": ("a whole number, 1 or greater, or 'all'", lambda size: size == ALL or (type(size) is int and size >= 1)),
    "decay": _number(0, 10**6),
    "data": (f"one of {', '.join(DATA_SETS)}", lambda name: name in [*DATA_SETS]),
    "noise": _number(0, 0.5),
    "n": _number(1, 10_000, (int,)),
    "seed": _number(0, 10**15 - 1, (int,)),
}


def checked(lesson: Any, offered: Mapping[str, Mapping[str, Any]], *, is_plane: bool = True) -> list[dict[str, Any]]:
    """The lesson as the page takes it. `offered` has the labels of choices; `is_plane` says whether data can be set.

    Raises ValueError for a part that the page cannot show or set.
    """
    if not isinstance(lesson, (list, tuple)):
        raise ValueError(f"lesson is {shown(lesson)}: expected a list of dicts, one for each question")
    return [_checked(f"lesson[{i}]", part, offered, is_plane) for i, part in enumerate(lesson)]


def _checked(at: str, given: Any, offered: Mapping[str, Any], is_plane: bool) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise ValueError(f"{at} is {shown(given)}: expected a dict with a text, its answers and settings")
    if unknown := given.keys() - SETTINGS.keys():
        raise ValueError(f"{at} has an unknown key {shown(min(unknown, key=str))}: expected {', '.join(SETTINGS)}")
    part = {"text": None, "answers": None, "after": "", "steps": 100} | {name: plain(x) for name, x in given.items()}
    if part.get("batch") in ("all", math.inf):
        part["batch"] = ALL
    for name, value in part.items():
        expected, is_fine = SETTINGS[name]
        if not is_fine(value):
            raise ValueError(f"{at} has {name}={shown(value)}: expected {expected}")
    for name, label in part.get("choice", {}).items():
        if label not in [*offered.get(name, ())]:  # by ==, since a list has no hash
            expected = ", ".join(map(repr, offered.get(name, offered))) or "no choice"
            raise ValueError(f"{at} chooses {name}={label!r}: expected {expected}")
    if "data" not in part and not {"noise", "n"}.isdisjoint(part):
        raise ValueError(f"{at} sets noise or n without data: give data, too, {SETTINGS['data'][0]}")
    if "data" in part and not is_plane:
        raise ValueError(f"{at} sets data: expected inputs of two numbers, and targets that are classes or heights")
    return part
