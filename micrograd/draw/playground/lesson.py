"""What a lesson of the playground may set, checked before the page is written."""

import math
from collections.abc import Callable, Mapping
from textwrap import shorten
from typing import Any

from micrograd.core.errors import shown
from micrograd.support.validation import plain

Setting = tuple[str, Callable[[Any], bool]]  # what is expected, and whether a value is that


def _number(least: int, most: float = math.inf, kinds: tuple[type, ...] = (int, float)) -> Setting:
    """A number in a range. The ends belong to the range unless they are infinite."""
    kind = "a number" if float in kinds else "a whole number"
    expected = f"{kind} from {least} to {most:,}" if most < math.inf else f"{kind}, {least} or greater"
    return expected, lambda x: type(x) in kinds and least <= x <= most and x < math.inf


def _are_answers(answers: Any) -> bool:
    is_list = isinstance(answers, (list, tuple)) and all(isinstance(words, str) for words in answers)
    return is_list and len({*answers}) == len(answers) >= 2


ALL = "Infinity"  # in the page's address, a batch of all examples
DATA_SETS = ("yours", "xor", "moons", "circles", "spirals")
# What a part of a lesson may have, in the page's terms: from `model` on, settings as in the page's address.
SETTINGS: dict[str, Setting] = {
    "text": ("the text of the question", lambda text: isinstance(text, str) and text != ""),
    "answers": ("a list of two texts or more, all different", _are_answers),
    "after": ("a text", lambda text: isinstance(text, str)),
    "choice": ("a dict of labels by keyword", lambda choice: isinstance(choice, Mapping)),
    "model": ("the name of a model", lambda name: isinstance(name, str)),
    "rate": _number(0),
    "batch": ("a whole number, 1 or greater, or 'all'", lambda size: size == ALL or (type(size) is int and size >= 1)),
    "decay": _number(0),
    "data": (f"one of {', '.join(DATA_SETS)}", lambda name: name in DATA_SETS),
    "noise": _number(0, 0.5),
    "n": _number(1, 10_000, (int,)),
    "seed": _number(0, 10**15 - 1, (int,)),
}


def checked(
    lesson: Any, offered: Mapping[str, Mapping[str, Any]], models: Mapping[Any, Any], *, is_plane: bool = True
) -> list[dict[str, Any]]:
    """The lesson as the page takes it. `offered` has the labels of choices; `is_plane` says whether data can be set.

    Raises ValueError for a part that the page cannot show or set.
    """
    if not isinstance(lesson, (list, tuple)):
        raise ValueError(f"lesson is {shown(lesson)}: expected a list of dicts, one for each question")
    return [_checked(f"lesson[{i}]", part, offered, models, is_plane) for i, part in enumerate(lesson)]


def _checked(at: str, given: Any, offered: Mapping[str, Any], models: Mapping[Any, Any], is_plane: bool) -> Any:
    if not isinstance(given, Mapping):
        raise ValueError(f"{at} is {shown(given)}: expected a dict with a text, its answers and settings")
    if unknown := given.keys() - SETTINGS.keys():
        raise ValueError(f"{at} has {shown(sorted(unknown, key=str))}: expected {', '.join(SETTINGS)}")
    part = {"after": ""} | {name: plain(value) for name, value in given.items()}
    if part.get("batch") in ("all", math.inf):
        part["batch"] = ALL
    for name in dict.fromkeys(["text", "answers", *part]):
        expected, is_fine = SETTINGS[name]
        if name not in part or not is_fine(part[name]):
            came = f"{name}={shown(given[name])}" if name in given else f"no {name}"
            raise ValueError(f"{at} has {came}: expected {expected}")
    known = {**offered, "model": [*map(str, models)]}
    chosen = dict(part.get("choice", {})) | ({"model": part["model"]} if "model" in part else {})
    for name, label in chosen.items():
        if label not in known.get(name, ()):
            expected = shorten(", ".join(map(repr, known.get(name, offered))), 120, placeholder=" ...") or "no choice"
            raise ValueError(f"{at} chooses {name}={label!r}: expected {expected}")
    if not {"noise", "n"}.isdisjoint(part) and "data" not in part:
        raise ValueError(f"{at} sets noise or n, but no data: expected {SETTINGS['data'][0]}, too")
    if "data" in part and not is_plane:
        raise ValueError(
            f"{at} sets data: a page has data sets if inputs are two numbers, and targets classes or heights"
        )
    return part
