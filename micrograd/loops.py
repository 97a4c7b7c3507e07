"""Loops: `scan` carries a state from round to round."""

from collections.abc import Callable, Sequence
from typing import Any

from micrograd.core.errors import shown
from micrograd.core.gradients import thread
from micrograd.support.validation import by_position, count

__all__ = ["scan"]

Step = Callable[[Any, Any], tuple[Any, Any]]
Until = Callable[[Any], Any]


def scan(
    step: Step, state: Any, xs: Any = None, length: int | None = None, until: Until | None = None
) -> tuple[Any, Any]:
    """The state after all iterations of `state, y = step(state, x)`, one for each x, and the list of all y.

    `step` may use any Values from outside, and their gradients come from all iterations.

    `state` and y are numbers in nested lists and dicts, or None; the next state has the shape of the one before. `xs`
    has an x for each round: a list or an array; or, if x is a dict, a dict of lists or arrays. Without `xs`, there are
    `length` iterations, and x is None. With no iterations, the result is the state itself and an empty list.

    With `until`, the loop ends as soon as `until(state)` holds, or after `length` iterations. It is checked before each
    iteration. The step then has to return None for y, and the result has None in place of the list.

    Compiled code calls `step` and `until` once, with Values, and runs the result as a loop. So whatever changes from
    one iteration to the next has to be in the state or in x, and neither may branch on a number.

    Raises TypeError if `xs` has no order or length, ValueError if its length is not `length`. An error in an iteration
    has a note with the number of the iteration.
    """

    def checked(state: Any, x: Any) -> tuple[Any, Any]:
        found = step(state, x)
        if not isinstance(found, tuple) or len(found) != 2:
            raise TypeError(f"the step of scan() must return a pair, the next state and y, not {shown(found)}")
        if until and found[1] is not None:
            raise TypeError("with until=, the step of scan() must return (state, None): the number of ys is not known")
        return found

    run = thread.table.scan if thread.table else in_turn
    return run(checked, state, _each(xs, length), until)


def in_turn(step: Step, state: Any, xs: Sequence[Any], until: Until | None = None) -> tuple[Any, Any]:
    """What scan() returns, computed one iteration after the other."""
    ys = []
    for i, x in enumerate(xs):
        if until and until(state):
            break
        try:
            state, y = step(state, x)
        except Exception as error:
            error.add_note(f"in iteration {i} of scan(), counted from 0")
            raise
        ys.append(y)
    return state, None if until else ys


def _each(xs: Any, length: int | None) -> list[Any]:
    """What the step takes in each iteration, besides the state."""
    given = xs.values() if isinstance(xs, dict) else [xs] if xs is not None else []
    rows = [by_position("xs", each) for each in given]
    lengths = {*map(len, rows)} | ({count("length", length, 0)} if length is not None else set())
    if len(lengths) != 1:
        raise ValueError(f"scan() needs one number of iterations, but got {sorted(lengths) or 'neither xs nor length'}")
    if isinstance(xs, dict) and xs:
        return [dict(zip(xs, each, strict=True)) for each in zip(*rows, strict=True)]
    return list(rows[0]) if rows else [None] * lengths.pop()
