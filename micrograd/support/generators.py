"""The state of random number generators."""

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def generators_restored(other: Any = None) -> Iterator[None]:
    """After the block, the global random number generators, and another of Python's, are where they were."""
    before = [(random.setstate, random.getstate())]
    if isinstance(other, random.Random) and not isinstance(other, random.SystemRandom):
        before.append((other.setstate, other.getstate()))
    if numpy := sys.modules.get("numpy.random"):
        before.append((numpy.set_state, numpy.get_state()))
    try:
        yield
    finally:
        for set_back, state in before:
            set_back(state)


def global_states() -> list[Any]:
    """The states of the global random number generators, to compare."""
    states: list[Any] = [random.getstate()]
    if numpy := sys.modules.get("numpy.random"):
        _, keys, *others = numpy.get_state()
        states.append((keys.tobytes(), others))
    return states
