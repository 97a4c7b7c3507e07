"""Values whose numbers are elsewhere for a while.

While a function is traced, its parameters have symbols in place of numbers: in the thread that traces, and in no other.
So the class of a parameter is changed for that time to one whose `data` and `grad` look where they are; to all others
it shows the numbers in its slots, as ever.
"""

import os
import threading
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import repeat
from typing import Any

from micrograd.engine import Value


class _Thread(threading.local):
    """What a thread sees in place of the numbers of the Values that it traces, by their ids."""

    def __init__(self) -> None:
        self.places: dict[int, dict[str, Any]] = {}


_thread = _Thread()
_borrowers: Counter[int] = Counter()  # of each Value that is elsewhere, by its id
_lock = threading.Lock()


def lock() -> threading.Lock:
    """Held for the moment in which many Values change."""
    return _lock


def _unlock() -> None:
    """In the child of a fork, where the thread that held the lock is no more."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock)


@contextmanager
def symbols(values: Sequence[Value], data: Sequence[Any]) -> Iterator[None]:
    """Within the block, and in this thread alone, the Values hold this data, and a gradient of 0."""
    before = _thread.places
    kinds: list[Any] = [getattr(type(value), "_kind", type(value)) for value in values]
    places = {id(value): {"data": x, "grad": 0} for value, x in zip(values, data, strict=True)}
    with lock():
        _borrowers.update(places.keys())
        _assign(values, "__class__", [_elsewhere(kind) for kind in kinds])
    try:
        _thread.places = before | places
        yield
    finally:
        _thread.places = before
        with lock():
            _borrowers.subtract(places.keys())
            free = [(value, kind) for value, kind in zip(values, kinds, strict=True) if not _borrowers[id(value)]]
            _assign([value for value, _ in free], "__class__", [kind for _, kind in free])
            for value, _ in free:
                del _borrowers[id(value)]


def _assign(values: Sequence[Value], name: str, to: Sequence[Any]) -> None:
    """Set an attribute of all the Values, in C, where no Ctrl-C comes between."""
    deque(map(setattr, values, repeat(name), to), maxlen=0)


def _attribute(name: str) -> property:
    """The attribute of a Value, wherever it is for this thread."""
    slot = vars(Value)[name]

    def get(self: Value) -> Any:
        place = _thread.places.get(id(self))
        return slot.__get__(self) if place is None else place[name]

    def set(self: Value, to: Any) -> None:
        place = _thread.places.get(id(self))
        if place is None:
            slot.__set__(self, to)
        else:
            place[name] = to

    return property(get, set)


class _Elsewhere:
    """A kind of Value whose numbers are elsewhere. What is computed from one is of the kind itself."""

    __slots__ = ()

    _kind: type[Value]
    data = _attribute("data")
    grad = _attribute("grad")

    def __new__(cls, *operation: Any, **label: Any) -> Any:
        return cls._kind(*operation, **label)

    def __reduce__(self) -> tuple[Any, ...]:
        return self._kind, *self._kind.__reduce__(self)[1:]  # type: ignore[arg-type]  # of the kind that it is beside


@cache
def _elsewhere(kind: Any) -> Any:
    return type(kind.__name__, (_Elsewhere, kind), {"__slots__": (), "_kind": kind})
