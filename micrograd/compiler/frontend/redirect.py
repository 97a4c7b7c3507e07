"""Values whose numbers are stored elsewhere for a while.

While a function is traced, its parameters have symbols in place of numbers, for the thread that traces and no other.
While parameters are trained by generated code, their numbers are in its buffers, where everybody reads and writes them.
For that time, and while they are frozen, the Values change their class to one whose `data` and `grad` look where the
numbers are, and whose `data` cannot be assigned while it is frozen.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any

from micrograd.compiler.dtype import SINGLE
from micrograd.compiler.frontend.tracer import TraceError, users_line
from micrograd.core.levels import GRADIENT_LOCK
from micrograd.engine import Value


class _Thread(threading.local):
    """What one thread sees."""

    def __init__(self) -> None:
        self.numbers: dict[str, dict[Value, Any]] = {"data": {}, "grad": {}}  # of the Values that it traces
        self.is_tracing = False
        self.hidden: Any = None  # what all Values in training show, unless it is None; then none can be assigned


class _Block(dict[str, memoryview]):
    """The buffers of each attribute, and the parts of them that hold the data of several Values."""

    def __init__(self, **buffers: memoryview) -> None:
        super().__init__(**buffers)
        self.views: dict[int, tuple[Sequence[Value], memoryview | None]] = {}  # by the id of the Values, which it keeps


_thread = _Thread()
_buffers: dict[Value, tuple[_Block, int]] = {}  # and the index of the numbers of a Value in them
_trained: set[Value] = set()  # by a training block, in any language
_redirections: list[set[Value]] = []  # the Values of each block that redirects them
_freezes: list[set[Value]] = []  # the Values of each block that freezes them


@contextmanager
def symbols(values: Sequence[Value], data: Sequence[Any]) -> Iterator[dict[str, dict[Value, Any]]]:
    """Within the block, and in this thread alone, the Values hold this data, and gradients of 0: in these dicts."""
    ours = {"data": dict(zip(values, data, strict=True)), "grad": dict.fromkeys(values, 0)}
    numbers = {name: _thread.numbers[name] | ours[name] for name in ours}
    with _within(values, _redirections), thread_view(numbers=numbers, is_tracing=True):
        yield numbers


@contextmanager
def thread_view(**attributes: Any) -> Iterator[None]:
    """Within the block, this thread alone sees these attributes of `_Thread`."""
    space = vars(_thread)
    before = {name: space[name] for name in attributes}
    try:
        space.update(attributes)
        yield
    finally:
        space.update(before)


def is_tracing() -> bool:
    """Whether this thread is tracing a function."""
    return _thread.is_tracing


def is_in_training(value: Value) -> bool:
    """Whether the numbers of a Value are in a buffer."""
    return value in _buffers


@contextmanager
def trained(values: Sequence[Value]) -> Iterator[None]:
    """Within the block, no other one trains the Values. Raises ValueError if one does already."""
    taken = list(values)  # the optimizer's list may change within the block
    with GRADIENT_LOCK:
        if not _trained.isdisjoint(taken):
            raise ValueError("a parameter is already being trained: leave the other training block first")
        _trained.update(taken)
    try:
        yield
    finally:
        _trained.difference_update(taken)


@contextmanager
def buffers(values: Sequence[Value], data: memoryview, grad: memoryview) -> Iterator[None]:
    """Within the block the numbers of the Values, and their gradients, are in the buffers; afterwards they keep them.

    A number that did not change stays the same object. No Value may be in other buffers already.
    """
    taken = list(values)
    bits = data.cast("B").cast("q" if data.itemsize == 8 else "i")  # which tell 0.0 from -0.0
    before = bits.tolist()
    slots: Any = Value
    set_data, set_grad = slots.data.__set__, slots.grad.__set__
    with _within(taken, _redirections):
        with GRADIENT_LOCK:
            block = _Block(data=data, grad=grad)
            _buffers.update((value, (block, i)) for i, value in enumerate(taken))
        try:
            yield
        finally:
            with GRADIENT_LOCK:
                for value, number, gradient, old, new in zip(taken, data, grad, before, bits, strict=True):
                    if new != old:
                        set_data(value, number)
                    set_grad(value, gradient)
                    del _buffers[value]


def data_buffer(values: Sequence[Value]) -> memoryview | None:
    """The numbers of the Values, if they are in one buffer in this order and everybody sees them there."""
    place = _buffers.get(values[0]) if values else None
    if place is None or _thread.hidden is not None or _thread.numbers["data"]:
        return None
    block, first = place
    known = block.views.get(id(values))
    if known is None or len(known[0]) != len(known[1] or ()):
        places = map(_buffers.get, values)
        follow = all(place is not None and place[0] is block and place[1] == i for i, place in enumerate(places, first))
        known = block.views[id(values)] = values, block["data"][first : first + len(values)] if follow else None
    return known[1]


def frozen(values: Sequence[Value]) -> AbstractContextManager[None]:
    """Within the block, assigning to the data of the Values is an error."""
    return _within(values, _freezes)


def any_frozen(values: Sequence[Value]) -> bool:
    """Whether one of the Values is frozen."""
    return not all(block.isdisjoint(values) for block in _freezes)


def assign(values: Iterable[Value], name: str, to: Iterable[Any]) -> None:
    """Set an attribute of each Value."""
    for value, new in zip(values, to, strict=False):
        setattr(value, name, new)


@contextmanager
def _within(values: Sequence[Value], blocks: list[set[Value]]) -> Iterator[None]:
    """Within the block, the Values are redirected, and `blocks` has them."""
    block = set(values)
    try:
        with GRADIENT_LOCK:
            blocks.append(block)
            _assign_classes(block, lambda kind: _redirecting(_original_class(kind)))
        yield
    finally:
        with GRADIENT_LOCK:
            blocks[:] = [other for other in blocks if other is not block]
            _assign_classes(block.difference(*_redirections, *_freezes), _original_class)


def _assign_classes(values: Collection[Value], change: Callable[[Any], Any]) -> None:
    """Change the class of each Value."""
    kinds = {kind: change(kind) for kind in set(map(type, values))}
    assign(values, "__class__", map(kinds.__getitem__, map(type, values)))


def _attribute(name: str) -> property:
    """The attribute of a Value, wherever it is for this thread."""
    slot = getattr(Value, name)

    def get(self: Value) -> Any:
        number = _thread.numbers[name].get(self)
        if number is not None:  # as no symbol is: one lookup in place of two
            return number
        if (place := _buffers.get(self)) is None:
            return slot.__get__(self)
        return place[0][name][place[1]] if _thread.hidden is None else _thread.hidden

    def set(self: Value, to: Any) -> None:
        numbers = _thread.numbers[name]
        if self in numbers or ((place := _buffers.get(self)) and _thread.is_tracing):  # no buffer holds a symbol
            numbers[self] = to
        elif name == "data" and any_frozen([self]):
            raise RuntimeError(
                f"the data of a frozen parameter, {self!r:.80}, is set to {to!r:.80}, which calls would not use: "
                "leave the block of frozen() first"
            )
        elif place is None:
            slot.__set__(self, to)
        elif _thread.hidden is not None:
            raise TraceError(f"{users_line()}: this assigns the {name} of a parameter")
        else:
            buffer, i = place[0][name], place[1]
            if buffer.itemsize == SINGLE.size:
                SINGLE.check(f"{name} of a parameter in training", to)
            try:
                buffer[i] = to
            except (TypeError, ValueError, OverflowError) as error:
                raise type(error)(
                    f"{name} of the parameter {self!r:.80} is set to what is no float, of type {type(to).__name__}: "
                    "expected a number, and none beyond 1.8e308"
                ) from error

    return property(get, set)


class RedirectedValue:
    """A kind of Value whose numbers are stored elsewhere, or stay, for a while."""

    __slots__ = ()

    _original_class: type[Value]
    data = _attribute("data")
    grad = _attribute("grad")

    def __new__(cls, *operation: Any, **label: Any) -> Any:
        """The result of an operation, which is of the original kind."""
        return cls._original_class(*operation, **label)

    def _node(self, *operation: Any) -> Any:
        kind: Any = self._original_class
        node = kind._node(self, *operation)
        node.__class__ = kind
        return node

    def __reduce__(self) -> tuple[Any, ...]:
        make, _, state = self._original_class.__reduce__(self)  # type: ignore[arg-type]
        return make, (self._original_class,), state


@cache
def _redirecting(kind: Any) -> Any:
    """The kind of Value, with numbers that are stored elsewhere."""
    return type(kind.__name__, (RedirectedValue, kind), {"__slots__": (), "_original_class": kind})


def _original_class(kind: Any) -> Any:
    """The original class of a Value of this class."""
    return getattr(kind, "_original_class", kind)
