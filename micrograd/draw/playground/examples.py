"""The examples of a playground: their numbers, what their targets are, and where the class of an output changes."""

import math
from typing import Any

from micrograd.draw.text import real
from micrograd.engine import Value
from micrograd.errors import shown
from micrograd.trees import as_lists
from micrograd.validation import examples

NUMBERS = 1_000_000  # in all examples, some megabytes of the page

Table = tuple[list[Any], list[Any]]


def table_of(loss: Any, names: tuple[str, str], xs: Any, ys: Any, size: int = 0) -> tuple[Table, list[list[float]]]:
    """The examples as lists, and the numbers of each one. Raises ValueError for those that a page cannot hold."""
    xs, ys = ([as_lists(item) for item in table] for table in examples(xs, ys))
    if not xs:
        raise ValueError(f"{names[0]} is empty: there is nothing to learn from")
    if check_targets := getattr(loss, "check_targets", None):
        check_targets(ys, names[1])
    rows = []
    for i, (x, y) in enumerate(zip(xs, ys, strict=True)):
        for name, part in zip(names, (x, y), strict=True):
            if not all(map(math.isfinite, numbers_in(part))):
                raise ValueError(
                    f"{name}[{i}] is {shown(part)}: a playground needs finite numbers; classes are 0, 1, ..."
                )
        rows.append([*numbers_in(x), *numbers_in(y)])
        size = size or len(rows[0])
        if len(rows[i]) != size or len(numbers_in(y)) != len(numbers_in(ys[0])):
            raise ValueError(f"{names[0]}[{i}] has another size than the first example: a playground needs one for all")
    if size * len(rows) > NUMBERS:
        raise ValueError(
            f"{names[0]} and {names[1]} hold {size * len(rows):,} numbers: a playground holds {NUMBERS:,}, so give "
            f"{NUMBERS // size:,} examples or fewer"
        )
    return (xs, ys), rows


def numbers_in(example: Any) -> list[float]:
    """The numbers in nested lists; NaN for what is not a number."""
    if isinstance(example, (list, tuple)):
        return [number for part in example for number in numbers_in(part)]
    return [real(example)]


def kinds_of(rows: list[list[float]], outputs: int) -> list[float] | None:
    """The targets between which one chooses for examples in the plane.

    They are [] if any number is a target, and None if the examples are not in the plane: if targets are lists.
    """
    targets = sorted({row[2] for row in rows})
    if outputs > 1:
        are_classes = all(len(row) == 3 for row in rows) and set(targets) <= set(range(outputs))
        return [*range(outputs)] if are_classes else None
    return None if len(rows[0]) != 3 else targets if len(targets) == 2 else []


def boundary(loss: Any, kinds: list[float]) -> float:
    """The output of a model of two classes that costs the same in both."""
    for at in (0.5, 0.0):  # of probabilities; of logits and margins
        try:
            costs = [real(loss(Value(at), kind)) for kind in kinds[:2]]
        except (ArithmeticError, ValueError, TypeError, AttributeError):
            continue
        if abs(costs[0] - costs[1]) < 1e-9:
            return at
    return sum(kinds) / 2
