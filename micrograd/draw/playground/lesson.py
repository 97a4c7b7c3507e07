"""The parts of a lesson, checked before the page is written. The page says which of their values it cannot apply."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from micrograd.core.errors import shown
from micrograd.support.validation import plain

ALL = "Infinity"  # in the page's address, a batch of all examples
DATA_SETS = {"yours": (0, 0), "xor": (0, 4), "moons": (0.1, 100), "circles": (0.1, 100), "spirals": (0.02, 100)}
"""The data sets of the page, with the noise and the number of points that each opens with."""
SETTINGS = ("rate", "batch", "decay", "data", "noise", "n", "seed")  # as in the page's address


def _are_answers(answers: Any) -> bool:
    is_list = isinstance(answers, (list, tuple)) and all(isinstance(words, str) for words in answers)
    return is_list and len({*answers}) == len(answers) >= 2


# The other parts, each with what is expected, and whether a value is that.
PARTS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "text": ("the text of the question", lambda text: isinstance(text, str) and text != ""),
    "answers": ("a list of at least two texts, all different", _are_answers),
    "after": ("a text", lambda text: isinstance(text, str)),
    "choice": ("a dict of labels by keyword", lambda choice: isinstance(choice, Mapping)),
}


def checked(lesson: Any, offered: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The lesson as the page takes it; `offered` has the labels of choices. Raises ValueError for unknown parts."""
    if not isinstance(lesson, (list, tuple)):
        raise ValueError(f"lesson is {shown(lesson)}: expected a list of dicts, one for each question")
    return [_checked(f"lesson[{i}]", question, offered) for i, question in enumerate(lesson)]


def _checked(at: str, given: Any, offered: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise ValueError(f"{at} is {shown(given)}: expected a dict with a text, its answers and settings")
    if unknown := given.keys() - {*PARTS, *SETTINGS}:
        raise ValueError(f"{at} has {shown(sorted(unknown, key=str))}: expected {', '.join((*PARTS, *SETTINGS))}")
    question = {"text": None, "answers": None, "after": "", "choice": {}} | {k: plain(x) for k, x in given.items()}
    for name, (expected, is_fine) in PARTS.items():
        if not is_fine(question[name]):
            raise ValueError(f"{at} has {name}={shown(question[name])}: expected {expected}")
    for name, label in question["choice"].items():
        if label not in offered.get(name, ()):
            expected = ", ".join(map(repr, offered.get(name, offered))) or "no choice"
            raise ValueError(f"{at} chooses {name}={label!r}: expected {expected}")
    if question.get("batch") in ("all", math.inf):
        question["batch"] = ALL
    return question
