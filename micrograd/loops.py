"""Loops: `scan` carries a state from round to round."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from micrograd.core.errors import require_ordered, shown
from micrograd.core.gradients import hooks
from micrograd.support.validation import count

__all__ = ["scan"]

Step = Callable[[Any, Any], tuple[Any, Any]]
Until = Callable[[Any], Any]


class Rounds(NamedTuple):
    """What a scan does: `n` rounds at most, round i with `x(i)`."""

    step: Step
    state: Any
    xs: Any
    n: int
    until: Until | None

    def x(self, i: int) -> Any:
        """What the step takes in a round, besides the state."""
        if isinstance(self.xs, dict):
            return {key: rows[i] for key, rows in self.xs.items()}
        return None if self.xs is None else self.xs[i]

    def called(self, state: Any, i: int) -> tuple[Any, Any]:
        """What the step returns in round i: the next state, and y. An error gets a note that names the round."""
        try:
            found = self.step(state, self.x(i))
            if not isinstance(found, tuple) or len(found) != 2:
                raise TypeError(f"the step of scan() must return a pair, the next state and y, not {shown(found)}")
            if self.until and found[1] is not None:
                raise TypeError("with until=, the step of scan() must return (state, None): no y has a fixed place")
        except Exception as error:
            error.add_note(f"in round {i} of scan(), counted from 0")
            raise
        return found

    def run(self) -> tuple[Any, Any]:
        """What scan() returns, round by round."""
        state, ys = self.state, []
        for i in range(self.n):
            if self.until and self.until(state):
                break
            state, y = self.called(state, i)
            ys.append(y)
        return state, None if self.until else ys


def scan(
    step: Step, state: Any, xs: Any = None, length: int | None = None, until: Until | None = None
) -> tuple[Any, Any]:
    """The state after all rounds of `state, y = step(state, x)`, one for each x, and the list of what each y was.

    `step` may use any Values from outside, and their gradients come from all rounds.

    `state` and y are numbers in nested lists and dicts, or None; the next state has the shape of the one before. `xs`
    has an x for each round: a list or an array; or, if x is a dict, a dict of lists or arrays. Without `xs`, there are
    `length` rounds, and x is None. With no rounds, the result is the state itself and an empty list.

    With `until`, the rounds end as soon as `until(state)` holds, or after `length` rounds. It is checked before each
    round. The step then has to return None for y, and the result has None in place of the list.

    Compiled code calls the step once, with Values, and runs the result as a loop. So whatever changes from round to
    round has to be in the state or in x.

    Raises TypeError if `xs` has no order or length, ValueError if the numbers of rows and rounds differ. An error in a
    round has a note that names the round.
    """
    found: tuple[Any, Any] = (hooks.scan or Rounds.run)(Rounds(step, state, xs, _length(xs, length), until))
    return found


def _length(xs: Any, length: int | None) -> int:
    """The number of rounds."""
    rows: Sequence[Any] = list(xs.values()) if isinstance(xs, dict) else [xs] if xs is not None else []
    for each in rows:
        require_ordered("xs", each)
        if not hasattr(each, "__len__"):
            raise TypeError(f"xs is {shown(each)}, whose length is not known: expected a list or an array")
    lengths = {*map(len, rows)} | ({count("length", length, 0)} if length is not None else set())
    if len(lengths) != 1:
        raise ValueError(f"scan() needs one number of rounds, but got {sorted(lengths) or 'neither xs nor length'}")
    return lengths.pop()
