"""Where the numbers of a Value are: in the Value, or for a while elsewhere.

    state   data and grad are                   an assignment              from             seen by
    ------  ----------------------------------  -------------------------  ---------------  ----------------
    plain   in the Value's slots                changes the slot           the constructor  all threads
    traced  symbols, in a table of the thread   changes the table          `symbols`        this thread only
    stored  in buffers of a training run in C   changes the buffer         `stored`         all threads
    frozen  where they were                     of `data` raises an error  `frozen`         all threads

A Value may be in several of the last three states at once: the topmost has its numbers, and the slots keep the old
ones. Properties look them up: those of all Values while any thread traces, otherwise those of a class that a Value has
while it is stored or frozen. So plain Values, and the engine with them, are as fast as if there were no other states,
and code that reads a parameter always gets its latest number.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from operator import is_
from typing import Any
from weakref import ref

from micrograd import scalar
from micrograd.compiler.dtype import SINGLE
from micrograd.core.levels import GRADIENT_LOCK
from micrograd.engine import Value
from micrograd.support.signals import finish

_SLOTS: Any = {"data": Value.data, "grad": Value.grad}  # where a plain Value keeps its numbers
_new = object.__new__


class Traced(dict[Value, Any]):
    """What the Values in `index` hold while they are traced: what was `assigned`, or what `make` returns for each."""

    def __init__(self, index: dict[Value, int], make: Callable[[int], Any]) -> None:
        super().__init__()
        self.index, self._make = index, make
        self.assigned: dict[Value, Any] = {}

    def __missing__(self, value: Value) -> Any:
        number = self[value] = self._make(self.index[value])
        return number


class Table:
    """What a thread sees while it traces: `numbers` has the data and the grad of the Values in `index`.

    If it `finds` Values, free leaves join them at their first use. A function reads `data` whenever it uses a number:
    as an operand, in a condition or by `detach`. `made` has the Values that the thread makes, other than Nodes, by
    their ids, and `before` the numbers that it replaced.
    """

    __slots__ = ("before", "finds", "index", "made", "numbers")

    def __init__(
        self, index: dict[Value, int], data: Callable[[int], Any], grad: Callable[[int], Any], finds: bool
    ) -> None:
        self.numbers = {"data": Traced(index, data), "grad": Traced(index, grad)}
        self.index, self.finds = index, finds
        self.made: dict[int, ref[Value]] = {}
        self.before: dict[tuple[Value, str], Any] = {}

    def takes(self, value: Value) -> bool:
        """Whether it has taken in a Value that is used: a free leaf that was there before the trace."""
        joins = self.finds and id(value) not in self.made and is_free(value) and value not in self.index
        if joins:
            self.index[value] = len(self.index)
        return joins

    def note(self, value: Value, name: str) -> None:
        """Note what an assignment replaces, or that the Value is new."""
        try:
            self.before.setdefault((value, name), _SLOTS[name].__get__(value))
        except AttributeError:  # it gets its data and grad before it has any
            self.made[id(value)] = ref(value)


class _Thread(threading.local):
    table: Table | None = None


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
_tables: list[Table] = []  # of all threads
_moved: list[Storage] = []  # of blocks that store Values
_frozen: list[Storage] = []  # of blocks that freeze them


@contextmanager
def symbols(
    index: dict[Value, int], data: Callable[[int], Any], grad: Callable[[int], Any] = lambda i: 0, finds: bool = False
) -> Iterator[Table]:
    """Within the block, and in this thread alone, Values hold the data and gradients made from their index.

    If it `finds` Values, others join the index at their first use: leaves from before the block, except constants.
    After the block, Values have the data and gradients from before this thread replaced them.
    """
    before, table = _thread.table, Table(index, data, grad, finds)

    def end() -> None:
        _thread.table = before
        with GRADIENT_LOCK:
            _tables[:] = [other for other in _tables if other is not table]
            for name in _HOOKS.keys() & vars(Value) if not _tables else ():
                delattr(Value, name)  # which a base class has

    try:
        with GRADIENT_LOCK:
            _tables.append(table)
            for name, hook in _HOOKS.items():
                setattr(Value, name, hook)
        _thread.table = table
        yield table
    finally:
        finish(end)
        for (value, name), number in table.before.items():
            setattr(value, name, number)


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
    return bool(_tables or _moved or _frozen)


def data_buffer(values: Sequence[Value]) -> memoryview | None:
    """The Values' numbers as one buffer, if a block has them in one, in this order, and no trace hides them."""
    if _thread.table is not None or not values:
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
            plain = block.difference(*_moved, *_frozen)
            assign(plain, "__class__", [getattr(value, "_plain_class", type(value)) for value in plain])

    try:
        with GRADIENT_LOCK:
            blocks.append(block)
            assign(block, "__class__", map(_class_for, map(type, block)))
        yield block
    finally:
        finish(end)


@cache
def _class_for(kind: Any) -> Any:
    """The class that Values of a class have while they are stored or frozen."""
    is_plain = not hasattr(kind, "_plain_class")
    return stand_in(kind, _plain_class=kind, data=_HOOKS["data"], grad=_HOOKS["grad"]) if is_plain else kind


def stand_in(kind: Any, **members: Any) -> Any:
    """A subclass with these members. Values computed from its instances have the class `kind` itself."""

    def new(cls: Any, *operation: Any, **label: Any) -> Any:
        return kind(*operation, **label)

    members = {"__slots__": (), "__new__": new, "_node": _new(kind)._node} | members
    return type(kind.__name__, (kind,), members)


def _property(name: str) -> property:
    """The `data` or the `grad` of a Value, wherever it is for this thread."""
    get_slot, set_slot, is_data = _SLOTS[name].__get__, _SLOTS[name].__set__, name == "data"

    def get(self: Value) -> Any:
        table = _thread.table
        if table is not None and (self in table.index or (is_data and table.takes(self))):
            return table.numbers[name][self]
        if _stored and (found := _stored.get(self)):
            storage, i = found
            return storage.buffers[name][i]
        return get_slot(self)

    def set(self: Value, to: Any) -> None:
        table = _thread.table
        storage, i = _stored.get(self, (None, 0))
        if table is not None and (self in table.index or storage or (is_data and table.takes(self))):
            table.numbers[name][self] = table.numbers[name].assigned[self] = to
        elif is_data and any_frozen([self]):
            raise RuntimeError(
                f"the data of a frozen parameter, {self!r:.80}, is set to {to!r:.80}, which calls would not use: "
                "leave the block of frozen() first"
            )
        elif storage is not None:
            storage.set(name, i, to)
        else:
            if table is not None:
                table.note(self, name)
            set_slot(self, to)

    return property(get, set)


_plain_node: Any = Value._node
Node = stand_in(Value, **_SLOTS, _node=_plain_node, _plain_class=Value)
"""The class of Values that are computed while a function is traced: their numbers are in slots."""
_NODE = _new(Node)


def _node(self: Value, data: Any, operands: tuple[Any, ...], *operation: Any) -> Any:
    """A node, of the class `Node` in a thread that traces."""
    is_traced = operands and type(self) is Value and _thread.table is not None
    return _plain_node(_NODE if is_traced else self, data, operands, *operation)


def is_free(leaf: Value) -> bool:
    """Whether its number may change from call to call, or is a traced one that must not outlive the call."""
    if isinstance(leaf, Node) or leaf._prev or leaf._level or getattr(leaf, "_is_constant", True):  # True: not yet made
        return False
    return scalar.is_number(_SLOTS["data"].__get__(leaf))  # NumPy's, too, and symbols


_HOOKS = {"_node": _node, **{name: _property(name) for name in _SLOTS}}
"""Attributes of all Values while any thread traces."""
