"""Where the numbers of a Value are: in the Value, or for a while elsewhere.

    state   data and grad are                   an assignment              from             seen by
    ------  ----------------------------------  -------------------------  ---------------  ----------------
    plain   in the Value's slots                changes the slot           the constructor  all threads
    traced  symbols, in a table of the thread   changes the table          `symbols`        this thread only
    stored  in buffers of a training run in C   changes the buffer         `stored`         all threads
    frozen  where they were                     of `data` raises an error  `frozen`         all threads

A Value may be in several of the last three states at once: the topmost has its numbers, and the slots keep the old
ones. Meanwhile the Value has a class whose `data` and `grad` are properties. So plain Values, and the engine with them,
are as fast as if there were no other states, and code that reads a parameter always gets its latest number.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from operator import is_
from typing import Any

from micrograd.compiler.dtype import SINGLE
from micrograd.core.levels import GRADIENT_LOCK
from micrograd.engine import Value
from micrograd.support.signals import finish

_SLOTS: Any = {"data": Value.data, "grad": Value.grad}  # where a plain Value keeps its numbers
_new = object.__new__
_get_data, _set_data = _SLOTS["data"].__get__, _SLOTS["data"].__set__

Used = dict[int, tuple[Value, Any, Any]]
"""Some Values, by their ids, with their data and their gradients at first."""


class Traced(dict[Value, Any]):
    """What the Values in `index` hold while they are traced: what was `assigned`, or what `make` returns for each."""

    def __init__(self, index: dict[Value, int], make: Callable[[int], Any]) -> None:
        super().__init__()
        self.index, self._make = index, make
        self.assigned: dict[Value, Any] = {}

    def __missing__(self, value: Value) -> Any:
        number = self[value] = self._make(self.index[value])
        return number


Table = dict[str, Traced]
"""The `data` of some Values, and their `grad`, by name."""

_NOTHING: Table = {name: Traced({}, int) for name in _SLOTS}


class _Thread(threading.local):
    used: "Used | None" = None  # by the function that the thread is calling
    traced = _NOTHING  # by the function that the thread is tracing


class Storage(set[Value]):
    """The Values that are not plain within a block, and the `buffers` with their numbers, if the block has any.

    Number i of a buffer belongs to `values[i]`. Code that writes to a buffer holds the `lock`; C, for a whole step.
    """

    def __init__(self, values: Sequence[Value]) -> None:
        super().__init__(values)
        self.values = self.compared = values  # the list that was last found to have the same Values
        self.buffers: dict[str, memoryview] = {}
        self.lock = threading.RLock()

    def set(self, name: str, i: int, to: Any) -> None:
        """Assign to it. Raises TypeError, ValueError or OverflowError if the buffer cannot hold the number."""
        buffer = self.buffers[name]
        if buffer.itemsize == SINGLE.size:
            SINGLE.check(f"{name} of a parameter in training", to)
        try:
            with self.lock:
                buffer[i] = to
        except (TypeError, ValueError, OverflowError) as error:
            came = f"{name} of the parameter {self.values[i]!r:.80} is set to an object of type {type(to).__name__}"
            raise type(error)(f"{came}: expected a number up to 1.8e308") from error


_thread = _Thread()
_stored: dict[Value, tuple[Storage, int]] = {}  # and the position of each in its storage
_trained: set[Value] = set()  # by a training block, in any language
_moved: list[Storage] = []  # of blocks that trace or store Values
_readers: list[Used] = []  # what each block of `reads` has collected
_frozen: list[Storage] = []  # of blocks that freeze them


@contextmanager
def symbols(
    index: dict[Value, int], data: Callable[[int], Any], grad: Callable[[int], Any] = lambda i: 0
) -> Iterator[Table]:
    """Within the block, and in this thread alone, Values hold the data and gradients made from their index.

    It yields tables that record assignments.
    """
    before = _thread.traced
    with _of_another_class([*index], _moved):
        try:
            _thread.traced = {"data": Traced(index, data), "grad": Traced(index, grad)}
            yield _thread.traced
        finally:
            _thread.traced = before


@contextmanager
def reads() -> Iterator[Used]:
    """Within the block, collect the leaf Values whose `data` this thread uses, in the order of first use.

    However a function uses a number, as an operand, in a condition or by `detach`, it reads `data`. After the block,
    these Values have the data and the gradients from before.
    """
    before, found = _thread.used, Used()
    kind: Any = Value
    with GRADIENT_LOCK:
        _readers.append(found)
        kind.data = property(_read, _write)
    _thread.used = found
    try:
        yield found
    finally:
        _thread.used = before
        with GRADIENT_LOCK:
            _readers[:] = [other for other in _readers if other is not found]
            if not _readers:
                del kind.data  # which a base class has
        for value, data, grad in found.values():
            value.data, value.grad = data, grad


def _note(leaf: Value) -> None:
    used = _thread.used
    if used is not None and id(leaf) not in used and hasattr(leaf, "grad"):  # a new Value gets its grad last
        used[id(leaf)] = leaf, _get_data(leaf), leaf.grad


def _read(self: Value) -> Any:
    if not self._prev and not getattr(self, "_is_constant", True):  # set last, too
        _note(self)
    return _get_data(self)


def _write(self: Value, to: Any) -> None:
    if not getattr(self, "_prev", True):  # a subclass may set its data first
        _note(self)
    _set_data(self, to)


def is_tracing() -> bool:
    """Whether this thread is tracing a function."""
    return _thread.traced is not _NOTHING


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
def stored(values: Sequence[Value], data: memoryview, grad: memoryview) -> Iterator[Storage]:
    """Within the block the numbers of the Values, and their gradients, are in the buffers; afterwards they keep them.

    A number that did not change stays the same object. Raises ValueError if a Value is in other buffers already.
    """
    bits = data.cast("B").cast("q" if data.itemsize == 8 else "i")  # which tell 0.0 from -0.0
    before = bits.tolist()
    set_data, set_grad = _SLOTS["data"].__set__, _SLOTS["grad"].__set__
    with _of_another_class(values, _moved) as storage:
        storage.buffers = {"data": data, "grad": grad}
        with GRADIENT_LOCK:
            if not _stored.keys().isdisjoint(values):
                raise ValueError(
                    "another training block in C holds a parameter of this function: leave that block first, give "
                    "each function only the parameters that its optimizer changes, or train in Python or eagerly"
                )
            _stored.update((value, (storage, i)) for i, value in enumerate(values))

        def take_back() -> None:
            with GRADIENT_LOCK:
                grad = storage.buffers["grad"]  # which may be another one by now
                for value, number, gradient, old, new in zip(values, data, grad, before, bits, strict=True):
                    if new != old:
                        set_data(value, number)
                    set_grad(value, gradient)
                    _stored.pop(value, None)

        try:
            yield storage
        finally:
            finish(take_back)


def any_block() -> bool:
    """Whether some Values are not plain, in any thread."""
    return bool(_moved or _frozen)


def data_buffer(values: Sequence[Value]) -> memoryview | None:
    """The Values' numbers as one buffer, if a block has them in one, in this order, and no trace hides them."""
    if is_tracing() or not values:
        return None
    for block in _frozen:
        if block.values is values:
            return block.buffers.get("data")
    storage, _ = _stored.get(values[0], (None, 0))
    if storage is None or len(storage.values) != len(values):
        return None
    if storage.compared is not values and all(map(is_, storage.values, values)):
        storage.compared = values
    return storage.buffers["data"] if storage.compared is values else None


def frozen(values: Sequence[Value]) -> AbstractContextManager[Storage]:
    """Within the block, assigning to the data of the Values is an error."""
    return _of_another_class(values, _frozen)


def any_frozen(values: Sequence[Value]) -> bool:
    """Whether one of the Values is frozen."""
    return bool(_frozen) and not all(block.isdisjoint(values) for block in _frozen)


def assign(values: Iterable[Value], name: str, to: Iterable[Any]) -> None:
    """Set an attribute of each Value."""
    for value, new in zip(values, to, strict=False):
        setattr(value, name, new)


@contextmanager
def _of_another_class(values: Sequence[Value], blocks: list[Storage]) -> Iterator[Storage]:
    """Within the block, the Values have a class that looks up where their numbers are. `blocks` lists the block."""
    block = Storage(values)

    def end() -> None:
        with GRADIENT_LOCK:
            blocks[:] = [other for other in blocks if other is not block]
            _change_class(block.difference(*_moved, *_frozen), lambda kind: getattr(kind, "_plain_class", kind))

    try:
        with GRADIENT_LOCK:
            blocks.append(block)
            _change_class(block, lambda kind: kind if hasattr(kind, "_plain_class") else _class_for(kind))
        yield block
    finally:
        finish(end)


def _change_class(values: set[Value], change: Callable[[Any], Any]) -> None:
    kinds = {kind: change(kind) for kind in set(map(type, values))}
    assign(values, "__class__", map(kinds.__getitem__, map(type, values)))


@cache
def _class_for(kind: Any) -> Any:
    """The class that Values of a class have while they are not plain."""
    plain = _new(kind)

    def node(data: Any, *operation: Any) -> Any:
        is_traced = kind is Value and type(data) is not float and is_tracing()
        return (_NODE if is_traced else plain)._node(data, *operation)

    members = {name: _property(name) for name in _SLOTS}
    return stand_in(kind, _plain_class=kind, _node=staticmethod(node), **members)


def stand_in(kind: Any, **members: Any) -> Any:
    """A subclass with these members. Values computed from its instances have the class `kind` itself."""

    def new(cls: Any, *operation: Any, **label: Any) -> Any:
        return kind(*operation, **label)

    members = {"__slots__": (), "__new__": new, "_node": _new(kind)._node} | members
    return type(kind.__name__, (kind,), members)


Node = stand_in(Value, data=Value.data, _node=Value._node)
"""The class of Values that are computed while a function is traced; no read of one is noted."""
_NODE = _new(Node)


def _property(name: str) -> property:
    """The `data` or the `grad` of a Value, wherever it is for this thread."""
    slot = _SLOTS[name]

    def get(self: Value) -> Any:
        try:
            return _thread.traced[name][self]
        except KeyError:  # it is not traced
            storage, i = _stored.get(self, (None, 0))
            return slot.__get__(self) if storage is None else storage.buffers[name][i]

    def set(self: Value, to: Any) -> None:
        traced = _thread.traced[name]
        storage, i = _stored.get(self, (None, 0))
        if self in traced.index or (storage and is_tracing()):  # no buffer holds a symbol
            traced[self] = traced.assigned[self] = to
        elif name == "data" and any_frozen([self]):
            raise RuntimeError(
                f"the data of a frozen parameter, {self!r:.80}, is set to {to!r:.80}, which calls would not use: "
                "leave the block of frozen() first"
            )
        elif storage is None:
            slot.__set__(self, to)
        else:
            storage.set(name, i, to)

    return property(get, set)
