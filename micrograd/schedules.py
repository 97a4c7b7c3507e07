"""Schedules of the learning rate: functions from the number of steps taken to the rate of the next step.

Whoever takes the steps applies them:

    schedule = warmup(cosine(0.1, steps=1000), steps=50)
    optimizer.learning_rate = schedule(optimizer.steps)

All raise ValueError for an argument that is out of its range.
"""

import math
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, ParamSpec

from micrograd.support.validation import count, number, require_attributes

__all__ = ["Schedule", "constant", "cosine", "exponential", "linear", "step", "warmup"]

Schedule = Callable[[int], float]
"""From the number of steps taken to the learning rate of the next."""

P = ParamSpec("P")


class _Schedule:
    """A schedule of this module, which is copied and pickled as the call that made it."""

    def __init__(self, call: partial[Schedule], rate: Schedule) -> None:
        self._call, self._rate = call, rate

    def __call__(self, step: int) -> float:
        return self._rate(step)

    def __reduce__(self) -> tuple[Any, ...]:
        return self._call, ()

    def __repr__(self) -> str:
        options = [f"{name}={option!r}" for name, option in self._call.keywords.items()]
        return f"{self._call.func.__name__}({', '.join([*map(repr, self._call.args), *options])})"


def picklable_schedule(make: Callable[P, Schedule]) -> Callable[P, Schedule]:
    """Decorate a function that returns a lambda, which cannot be pickled, so that it returns a `_Schedule`."""

    @wraps(make)
    def schedule(*args: P.args, **options: P.kwargs) -> Schedule:
        return _Schedule(partial(schedule, *args, **options), make(*args, **options))

    return schedule


def depends_on_step_only(schedule: Schedule) -> bool:
    """Whether the rates depend on the number of steps alone; those of a user's function may depend on anything."""
    if not isinstance(schedule, _Schedule):
        return False
    arguments = *schedule._call.args, *schedule._call.keywords.values()
    return all(depends_on_step_only(argument) for argument in arguments if callable(argument))


@picklable_schedule
def constant(learning_rate: float) -> Schedule:
    """The same rate at every step."""
    rate = number("learning_rate", learning_rate)
    return lambda step: rate


@picklable_schedule
def step(learning_rate: float, every: int, factor: float = 0.1) -> Schedule:
    """The rate, multiplied by `factor` every `every` steps."""
    rate, every, factor = number("learning_rate", learning_rate), count("every", every), number("factor", factor)
    return lambda step: rate * factor ** (step // every)


@picklable_schedule
def exponential(learning_rate: float, factor: float) -> Schedule:
    """The rate, multiplied by `factor` after each step."""
    rate, factor = number("learning_rate", learning_rate), number("factor", factor)
    return lambda step: rate * factor**step


@picklable_schedule
def linear(learning_rate: float, steps: int, final: float = 0.0) -> Schedule:
    """From the rate to `final` in a straight line of `steps` steps, then constant."""
    rate, steps, final = number("learning_rate", learning_rate), count("steps", steps), number("final", final)
    return lambda step: rate + (final - rate) * (min(step, steps) / steps)


@picklable_schedule
def cosine(learning_rate: float, steps: int, final: float = 0.0) -> Schedule:
    """From the rate to `final` along half a cosine of `steps` steps, then constant (Loshchilov and Hutter, 2017)."""
    rate, steps, final = number("learning_rate", learning_rate), count("steps", steps), number("final", final)
    return lambda step: final + (rate - final) * (1 + math.cos(math.pi * min(step, steps) / steps)) / 2


@picklable_schedule
def warmup(schedule: Schedule, steps: int) -> Schedule:
    """From near 0 to the first rate of `schedule` in a straight line of `steps` steps, then the schedule itself."""
    require_attributes("schedule", schedule, ["__call__"], "a schedule, such as constant(0.1)")
    steps = count("steps", steps)
    return lambda step: schedule(0) * (step + 1) / (steps + 1) if step < steps else schedule(step - steps)
