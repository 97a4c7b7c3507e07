"""Values whose numbers are elsewhere for a while.

While a function is traced, its parameters have symbols in place of numbers: in the thread that traces, and in no other.
While parameters are trained by generated code, their numbers are in its buffers, where everybody reads and writes them.
In both cases the class of the Values is changed for that time, to one whose `data` and `grad` look where they are.
"""

import os
import threading
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import chain, compress, repeat
from operator import ne
from typing import Any

from micrograd.compiler.precision import SINGLE
from micrograd.engine import Value
from micrograd.interrupts import ensured, uninterrupted


class _Thread(threading.local):
    """The symbols that a thread sees in place of the numbers of the Values that it traces."""

    def __init__(self) -> None:
        self.symbols: dict[Value, dict[str, Any]] = {}
        self.traces = False


_thread = _Thread()
_buffers: dict[Value, tuple[dict[str, memoryview], int]] = {}  # and where in them the numbers of a Value are
_borrowers: Counter[Value] = Counter()  # of each Value that is elsewhere
_lock = threading.Lock()


def lock() -> threading.Lock:
    """Held for the moment in which many Values change."""
    return _lock


def _unlock() -> None:
    """In the child of a fork, where the thread that held the lock is no more."""
    global _lock
    _lock = threading.Lock()


getattr(os, "register_at_fork", lambda **hooks: None)(after_in_child=_unlock)  # where processes can fork


@contextmanager
def symbols(values: Sequence[Value], data: Sequence[Any]) -> Iterator[None]:
    """Within the block, and in this thread alone, the Values hold this data, and a gradient of 0."""
    before = _thread.symbols, _thread.traces

    def leave() -> None:
        _thread.symbols, _thread.traces = before

    with _borrowed(values), ensured(leave):
        _thread.symbols = before[0] | {v: {"data": x, "grad": 0} for v, x in zip(values, data, strict=True)}
        _thread.traces = True
        yield


@contextmanager
def buffers(values: Sequence[Value], data: memoryview, grad: memoryview) -> Iterator[None]:
    """Within the block the numbers of the Values, and their gradients, are those in the buffers; so they are after it.

    What nobody has changed meanwhile is the very object that it was. Raises ValueError if they are in others already.
    """
    taken: list[Value] = []
    bits = data.cast("B").cast("q" if data.itemsize == 8 else "i")  # which tell 0.0 from -0.0
    before = bits.tolist()

    def changed(items: Iterable[Any]) -> Iterator[Any]:
        return compress(items, map(ne, bits, before))

    def leave() -> None:
        slots = vars(Value)
        numbers = map(slots["data"].__set__, changed(taken), changed(data)), map(slots["grad"].__set__, taken, grad)
        deque(chain(*numbers, map(_buffers.pop, taken)), maxlen=0)  # in C, where no thread comes between

    with ensured(leave), _borrowed(values):
        with uninterrupted(), lock():
            if any(value in _buffers for value in values):
                raise ValueError("a parameter is being trained already: leave the other training block first")
            _buffers.update({value: ({"data": data, "grad": grad}, i) for i, value in enumerate(values)})
            taken += values
        yield


@contextmanager
def _borrowed(values: Sequence[Value]) -> Iterator[None]:
    """Within the block the Values look for their numbers."""
    taken: list[Value] = []

    def leave() -> None:
        with lock():
            _borrowers.subtract(taken)
            free = [value for value in taken if not _borrowers[value]]
            _assign_classes(free, map(_kind, free))
            deque(map(_borrowers.__delitem__, free), maxlen=0)

    with ensured(leave):
        with uninterrupted(), lock():
            _borrowers.update(values)
            _assign_classes(values, [_elsewhere(_kind(value)) for value in values])
            taken += values
        yield


def _assign_classes(values: Sequence[Value], kinds: Iterable[Any]) -> None:
    deque(map(setattr, values, repeat("__class__"), kinds), maxlen=0)


def _attribute(name: str) -> property:
    """The attribute of a Value, wherever it is for this thread."""
    slot = vars(Value)[name]

    def get(self: Value) -> Any:
        if (symbols := _thread.symbols.get(self)) is not None:
            return symbols[name]
        if (place := _buffers.get(self)) is not None:
            return place[0][name][place[1]]
        return slot.__get__(self)

    def set(self: Value, to: Any) -> None:
        symbols, place = _thread.symbols.get(self), _buffers.get(self)
        if symbols is None and place is not None and _thread.traces:  # a constant there, and no buffer holds a symbol
            symbols = _thread.symbols[self] = {name: numbers[place[1]] for name, numbers in place[0].items()}
        if symbols is not None:
            symbols[name] = to
        elif place is not None:
            numbers, i = place[0][name], place[1]
            if numbers.itemsize == SINGLE.size:
                SINGLE.check(f"{name} of a parameter in training", to)
            numbers[i] = to
        else:
            slot.__set__(self, to)

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


def _kind(value: Value) -> Any:
    """The class of a Value when its numbers are at home."""
    return getattr(type(value), "_kind", type(value))
