"""Where the numbers of a Value are: in the Value, or for a while elsewhere.

    state   data and grad are                  an assignment              from              seen by
    ------  ---------------------------------  -------------------------  ----------------  ----------------
    plain   in the Value's slots               changes the slot           the constructor   all threads
    traced  symbols, in a table of the thread  changes the table          `symbols`         this thread only
    stored  in buffers of a training run in C  changes the buffer         `held("stored")`  all threads
    frozen  where they were                    of `data` raises an error  `held("frozen")`  all threads

A Value may be in several of the last three states at once. If it is traced, the table has its numbers; otherwise, if it
is stored, the buffers have them. The slots keep the old ones. Properties look numbers up: for all Values while any
thread traces, otherwise by a class that a Value has while it is stored or frozen. So plain Values, and the engine with
them, are as fast as if there were no other states, and code that reads a parameter always gets its latest number.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import chain, compress
from operator import is_, ne
from typing import Any
from weakref import ref

from micrograd import scalar
from micrograd.compiler.dtype import SINGLE
from micrograd.core.gradients import thread
from micrograd.core.levels import GRADIENT_LOCK
from micrograd.engine import Value
from micrograd.loops import in_turn
from micrograd.support.signals import assign

_SLOTS: Any = {"data": Value.data, "grad": Value.grad}  # where a plain Value keeps its numbers


class Table:
    """What a thread sees while it traces: `numbers` has the data and the grad of the Values in `index`.

    When a Value is first used, `data` and `grad` make its numbers from its index. If the table `finds` Values, free
    leaves from before the trace join the index when they are first used. A function reads `data` whenever it uses a
    number: as an operand, in a condition or by `detach`.

    `numbers` also has what was set on other Values, and `assigned` all data that was set. `made` has the Values that
    the thread makes, other than Nodes, by their ids: these hold their numbers themselves.

    How operations on many numbers are traced is up to the table, too: here, as in the engine; in rows.py, as Rows.
    """

    scan: Callable[..., Any] = staticmethod(in_turn)

    def __init__(
        self, index: dict[Value, int], data: Callable[[int], Any], grad: Callable[[int], Any] = lambda i: 0,
        finds: bool = False,
    ) -> None:  # fmt: skip
        self.index, self.finds, self.make = index, finds, {"data": data, "grad": grad}
        self.numbers: dict[str, dict[Value, Any]] = {name: {} for name in self.make}
        self.assigned: dict[Value, Any] = {}
        self.made: dict[int, ref[Value]] = {}

    def of(self, *operands: tuple[Any, ...]) -> Sequence[tuple[Any, ...]]:
        """The operands that an operation on many numbers gets in place of these: here, the same."""
        return operands

    def selected(self, index: Any, values: tuple[Value, ...]) -> Any:
        """What `take` selects from, by this index, in place of these values; None for the values themselves."""
        return None

    def number(self, value: Value, name: str) -> Any:
        """The data or the grad of a Value; None if the table has none."""
        numbers = self.numbers[name]
        if value not in numbers and (value in self.index or (name == "data" and self.takes(value))):
            numbers[value] = self.make[name](self.index[value])
        return numbers.get(value)

    def takes(self, value: Value) -> bool:
        """Whether it has taken in a Value that is used: a free leaf that was there before the trace."""
        joins = self.finds and value not in self.index and id(value) not in self.made and is_free(value)
        if joins:
            self.index[value] = len(self.index)
        return joins

    def is_made(self, value: Value) -> bool:
        """Whether the thread makes this Value: when it does, the Value has no number yet."""
        try:
            _SLOTS["data"].__get__(value)
        except AttributeError:
            self.made[id(value)] = ref(value)
        return id(value) in self.made


class Block:
    """Values that are in a state within a block, and the `buffers` with their numbers, if the block has any.

    Each name has a list of buffers. The first holds the numbers; in training, a second one receives the next numbers,
    and the two take turns. Number i belongs to `values[i]`. Code that writes to a buffer holds the `lock`; C, for a
    whole step.
    """

    def __init__(self, state: str, values: Sequence[Value], buffers: dict[str, Sequence[memoryview]]) -> None:
        self.state, self.buffers, self.lock = state, buffers, threading.RLock()
        self.values = values
        self.index = dict(zip(values, range(len(values)), strict=True))

    def set(self, name: str, i: int, to: Any) -> None:
        """Assign to it. Raises TypeError, ValueError or OverflowError if the buffer cannot hold the number."""
        buffers = self.buffers[name]
        if buffers[0].itemsize == SINGLE.size:
            SINGLE.check(f"{name} of a parameter in training", to)
        try:
            with self.lock:
                for buffer in buffers:  # in both, since a step may not write this number
                    buffer[i] = to
        except (TypeError, ValueError, OverflowError) as error:
            came = f"{name} of the parameter {self.values[i]!r:.80} is set to an object of type {type(to).__name__}"
            raise type(error)(f"{came}: expected a number up to 1.8e308") from error


_tables: list[Table] = []  # of all threads
_blocks: list[Block] = []


@contextmanager
def symbols(table: Table) -> Iterator[None]:
    """Within the block, and in this thread alone, Values hold the numbers in a table.

    What this thread sets within the block is forgotten after it.
    """
    before = thread.table

    def end() -> None:
        thread.table = before
        with GRADIENT_LOCK:
            _tables[:] = [other for other in _tables if other is not table]
            for name in _HOOKS.keys() & vars(Value) if not _tables else ():
                delattr(Value, name)  # which a base class has

    try:
        with GRADIENT_LOCK:
            _tables.append(table)
            for name, hook in _HOOKS.items():
                setattr(Value, name, hook)
        thread.table = table
        yield
    finally:
        try:  # not in a function, which a Ctrl-C could interrupt as it begins
            end()
        except KeyboardInterrupt:
            end()
            raise


@contextmanager
def held(state: str, values: Sequence[Value], **buffers: Sequence[memoryview]) -> Iterator[Block]:
    """Within the block, the Values are in a state. If they are stored, `data` and `grad` are the buffers.

    Stored Values keep the numbers from the first buffers; a number that did not change stays the same object. Raises
    ValueError if a Value is already stored; it may be frozen twice.
    """
    block = Block(state, values, buffers)
    before = _bits(block).tolist()

    def end() -> None:
        with GRADIENT_LOCK:
            if block in _blocks:
                data, grads = [block.buffers.get(name, [()])[0] for name in _SLOTS]
                changed = list(map(ne, before, _bits(block)))
                deque(map(_SLOTS["data"].__set__, compress(values, changed), compress(data, changed)), 0)
                deque(map(_SLOTS["grad"].__set__, values, grads), 0)
                _blocks.remove(block)
            plain = block.index.keys() - chain(*[other.index for other in _blocks])
            assign(plain, "__class__", [getattr(value, "_plain_class", type(value)) for value in plain])

    try:
        with GRADIENT_LOCK:
            if state == "stored" and is_held(state, values):
                raise ValueError(
                    "another training block in C holds a parameter of this function: leave that block first, give each "
                    "function only the parameters that its optimizer changes, or train in Python or eagerly"
                )
            _blocks.append(block)
            assign(values, "__class__", map(_class_for, map(type, values)))
        yield block
    finally:
        try:  # not in a function, which a Ctrl-C could interrupt as it begins
            end()
        except KeyboardInterrupt:
            end()
            raise


def _bits(block: Block) -> memoryview:
    """The bits of its data: unlike the numbers, they tell 0.0 from -0.0."""
    data = block.buffers.get("data", [memoryview(b"")])[0]
    return data.cast("B").cast("i" if data.itemsize == SINGLE.size else "q")


def is_held(state: str, values: Iterable[Value]) -> bool:
    """Whether one of the Values is in this state."""
    return any(block.state == state and not block.index.keys().isdisjoint(values) for block in tuple(_blocks))


def any_block() -> bool:
    """Whether some Values are not plain, in any thread."""
    return bool(_tables or _blocks)


def data_buffer(values: Sequence[Value]) -> memoryview | None:
    """The Values' numbers as one buffer, if a block has them in one, in this order, and no trace hides them."""
    if thread.table is None:
        for block in reversed(tuple(_blocks)):
            its, is_alike = block.values, block.state == "stored" and len(block.values) == len(values)
            if its is values or (is_alike and all(map(is_, its, values))):  # a frozen one has the function's precision
                return block.buffers["data"][0] if "data" in block.buffers else None
    return None


@cache
def _class_for(kind: Any) -> Any:
    """The class that Values of a class have while they are stored or frozen."""
    is_plain = not hasattr(kind, "_plain_class")
    return stand_in(kind, _plain_class=kind, data=_HOOKS["data"], grad=_HOOKS["grad"]) if is_plain else kind


def stand_in(kind: Any, **members: Any) -> Any:
    """A subclass with these members. Operations on its instances return the same as on instances of `kind`."""
    empty = object.__new__(kind)

    def new(cls: Any, *operation: Any, **label: Any) -> Any:
        return kind(*operation, **label)

    def node(self: Value, *operation: Any) -> Any:
        return empty._node(*operation)  # looked up at each call: during a trace, it makes Nodes

    members = {"__slots__": (), "__new__": new, "_node": node} | members
    return type(kind.__name__, (kind,), members)


def _storage(value: Value) -> Block | None:
    """The block whose buffers have the numbers of a Value."""
    for block in tuple(_blocks):  # a generator takes twice as long
        if block.state == "stored" and value in block.index:
            return block
    return None


def _property(name: str) -> property:
    """The `data` or the `grad` of a Value, wherever it is for this thread."""
    get_slot, set_slot, is_data = _SLOTS[name].__get__, _SLOTS[name].__set__, name == "data"

    def get(self: Value) -> Any:
        table = thread.table
        if table is not None and (number := table.number(self, name)) is not None:
            return number
        storage = _storage(self)
        return storage.buffers[name][0][storage.index[self]] if storage else get_slot(self)

    def set(self: Value, to: Any) -> None:
        table = thread.table
        if table is not None and not table.is_made(self):
            table.numbers[name][self] = to
            if is_data:
                table.takes(self)
                table.assigned[self] = to
        elif is_data and is_held("frozen", [self]):
            problem = f"the data of a frozen parameter, {self!r:.80}, is set to {to!r:.80}"
            raise RuntimeError(f"{problem}, but calls would not use it: leave the block of frozen() first")
        elif storage := _storage(self):
            storage.set(name, storage.index[self], to)
        else:
            set_slot(self, to)

    return property(get, set)


_plain_node: Any = Value._node
Node = stand_in(Value, **_SLOTS, _node=_plain_node, _plain_class=Value)
"""The class of Values that are computed while a function is traced: their numbers are in slots."""
NODE = object.__new__(Node)


def _node(self: Value, data: Any, operands: tuple[Any, ...], *operation: Any) -> Any:
    """A node or a constant, of the class `Node` in a thread that traces."""
    is_traced = type(self) is Value and thread.table is not None
    return _plain_node(NODE if is_traced else self, data, operands, *operation)


def is_free(leaf: Value) -> bool:
    """Whether its number may change from call to call, or is a traced one that must not outlive the call."""
    if isinstance(leaf, Node) or leaf._prev or leaf._level or getattr(leaf, "_is_constant", True):  # True: not yet made
        return False
    return scalar.is_number(_SLOTS["data"].__get__(leaf))  # NumPy's, too, and symbols


_HOOKS = {"_node": _node, **{name: _property(name) for name in _SLOTS}}
"""Attributes of all Values while any thread traces."""
