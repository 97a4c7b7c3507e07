"""Tracing: numbers that record what is done with them.

A `Symbol` is a traced value. It supports the operators and every function of `scalar`, as the number in a `Value` has
to. Each result is a new Symbol, which its `Trace` has recorded as an operation on earlier ones. Run the user's function
on Values that hold Symbols, then `backward()` on its result, and the trace holds the forward and the backward pass: the
engine's closures wrote both, so there is no second table of derivatives.

Equal operations on equal operands are recorded once, and operations on constants are carried out at once. Only what
keeps every bit of a finite result is simplified: `x * 1`, `x / 1`, `x ** 1`, `x - 0.0`. Adding 0.0 is recorded, since
-0.0 becomes 0.0; adding the exact 0, an int, is not: every gradient starts from it, and so does a `dot` without a bias.
What starts there may be -0.0 where the engine has 0.0, except in the gradients that a compiled function returns. A
trace of finite numbers also drops products with 0.0, and additions of them. Only the sign of a zero may change.

Many numbers may be one operand, a row: a "slice" of an array, or a "stack" of lines. A "dot" adds up the products of
two rows, "sum" adds up the numbers of one, and "max" is the largest of them. A "combination" adds up rows that each
have a factor. A "scatter" is as long as another row, and has a number at an index and 0 elsewhere. An "item" is one
number of a row that was computed, and "take_at" is the number of a slice at an index. Any other operation on rows, or
on rows and numbers, is elementwise and gives a row. rows.py says which operands become rows.
"""

import hashlib
import marshal
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from copy import copy
from functools import cache, cached_property
from itertools import compress, repeat
from numbers import Real
from threading import get_ident
from typing import Any, NamedTuple, NoReturn

from micrograd import reductions, scalar
from micrograd.compiler.frontend.operations import COMMUTATIVE, CONDITIONS, IEEE, OPERATIONS, OPERATORS
from micrograd.compiler.frontend.redirect import Node, stand_in
from micrograd.core.errors import PACKAGE, users_line
from micrograd.core.gradients import nothing
from micrograd.core.number import Number
from micrograd.engine import Value

NO_NUMBER = "this needs the number itself, but while a function is compiled, its numbers are not known yet. Instead of "
BRANCH = NO_NUMBER + (
    "a branch, max() or sorted(), use where(condition, a, b) (in a closure, scalar.where), relu, maximum or abs, which "
    "choose at each call; instead of `and`, `or` and `not`, use &, | and ^ True, as in (0 < x) & (x < 1); instead of "
    "a while loop, scan() with until=; instead of np.maximum or np.clip on an array, [maximum(v, 0.0) for v in x]"
)
LOOKUP = NO_NUMBER + "a lookup in a dict or a set, use take(values, index)"
TEXT = NO_NUMBER + 'a format, as in f"{x:.2f}", return the number and format it at each call; f"{x}" shows its place'
PLAIN = NO_NUMBER + (
    "float(), round() or a function of math, use micrograd's, such as x.floor() or x.exp(), and take(values, index) in "
    "place of an index from int(); in closures and optimizers' rules, use those of micrograd.scalar"
)

ROWS = frozenset(("slice", "stack", "combination", "scatter"))
"""Operations whose results are rows; so are those of elementwise operations and loops."""


class TraceError(TypeError):
    """The function asks for a number while it is traced: which way it goes would be baked into the compiled code."""


def _hash(self: Any) -> int:
    """The hash of the object, for this package alone: elsewhere a lookup by it would not find an equal number."""
    if sys._getframe(1).f_code.co_filename.startswith(PACKAGE):
        return object.__hash__(self)
    symbol: Symbol = self if type(self) is Symbol else self.data
    return symbol._no_number(instead=LOOKUP)


class Slice(NamedTuple):
    """The numbers `base`, `base + step`, ... of an array: `size` of them."""

    array: Any  # its name; in expressions.py, maybe the line of a row
    base: int
    step: int
    size: int

    @property
    def indices(self) -> range:
        """Where they are in the array."""
        return range(self.base, self.base + self.step * self.size, self.step)

    @property
    def places(self) -> list[tuple[str, int]]:
        """The array and the index of each."""
        return list(zip(repeat(self.array), self.indices, strict=False))


Addition = tuple[Slice, int]
"""A slice of the gradients "g", and the line of a number or a row that is added to it."""


class Symbol:
    """A traced value: the result of one line of a trace."""

    __slots__ = ("id", "trace")

    def __init__(self, trace: "Trace", id: int) -> None:
        self.trace, self.id = trace, id

    def __repr__(self) -> str:
        return f"<traced number {self.id}>"

    def where(self, a: Any, b: Any) -> Any:
        """`a` where this condition holds, else `b`."""
        if isinstance(a, Value) or isinstance(b, Value):
            return reductions.where(self, a, b)
        return self.trace.record("where", (self, a, b))

    def select(self, values: Any) -> Any:
        """The value at this index."""
        if not isinstance(values, Sequence):  # a row
            return Symbol(self.trace, self.trace.row("take_at", (self.id, values.id)))
        if any(isinstance(value, Value) for value in values):
            return reductions.take(values, self)
        return self.trace.record("take", (self, *(values[0].items() if hasattr(values[0], "items") else values)))

    def largest(self, numbers: Sequence[Any]) -> Any:
        """The largest of some numbers; this is one of them."""
        row = self.trace.stack(self.trace.results(numbers))
        return Symbol(self.trace, self.trace.row("max", (row,)))

    def __floordiv__(self, other: Any) -> Any:
        remainder = self % other
        # As CPython's: a whole number up to rounding, and -1 where x % y is y itself
        quotient = scalar.where(remainder == other, -1, (self - remainder) / other)
        whole = scalar.floor(quotient)
        whole = scalar.where(quotient - whole > 0.5, whole + 1, whole)
        return scalar.where(whole == 0, 0.0 * (self / other), whole)  # the 0 of that sign

    def __rfloordiv__(self, other: Any) -> Any:
        return Symbol.__floordiv__(Symbol(self.trace, self.trace.id(other)), self)

    def __pos__(self) -> "Symbol":
        return self

    def __neg__(self) -> "Symbol":
        return self.trace.add("neg", (self.id,))

    def __abs__(self) -> "Symbol":
        trace = self.trace
        is_negated = trace.ops[self.id] == "neg"  # then sigmoid(x) and sigmoid(x) * sigmoid(-x) share e^-|x|
        return trace.add("abs", trace.operands[self.id] if is_negated else (self.id,))

    def _no_number(self, *_: Any, instead: str = PLAIN) -> NoReturn:
        error = TraceError(f"{users_line()}: {instead}")
        self.trace.refused = self.trace.refused or error
        raise error

    def __bool__(self) -> NoReturn:
        self._no_number(instead=BRANCH)

    __hash__ = _hash
    __invert__ = __bool__

    def __format__(self, spec: str) -> str:
        return self._no_number(instead=TEXT) if spec else repr(self)

    __float__ = __int__ = __index__ = __complex__ = __round__ = __trunc__ = __floor__ = __ceil__ = _no_number


@cache
def _is_plain(kind: Any) -> bool:
    """Whether numbers of this class become constants; Values and rows have operators of their own."""
    return issubclass(kind, (int, Real)) and not issubclass(kind, Value)


def _operator(name: str, dunder: str, reflected: bool = False) -> Callable[[Symbol, Any], Any]:
    is_sum, is_logic = name == "+", dunder in ("and", "or", "xor")

    def method(self: Symbol, other: Any) -> Any:
        trace = self.trace
        kind: Any = type(other)
        if kind is Symbol and other.trace is trace:
            return trace.add(name, (self.id, other.id))
        if is_sum and kind is int and other == 0:  # where gradients start
            return self
        if kind is not float and not _is_plain(kind):
            return NotImplemented
        if is_logic and other not in (0, 1):
            return NotImplemented  # &, | and ^ combine bits, and a condition has one
        line = trace.id(other)
        return trace.add(name, (line, self.id) if reflected else (self.id, line))

    return method


def _function(name: str) -> Callable[..., Any]:
    value, is_composed, arity = (function := scalar.FUNCTIONS[name]).__wrapped__, function.composed, function.arity

    def method(*operands: Any) -> Any:
        trace = (operands[0] if type(operands[0]) is Symbol else operands[-1]).trace
        return value(*operands) if is_composed and not trace.keeps_composed else trace.record(name, operands)

    return method if arity > 1 or is_composed else lambda self: self.trace.add(name, (self.id,))


for _name, _method in [*OPERATORS.items(), ("!=", "xor")]:  # ^ holds if two conditions differ
    setattr(Symbol, f"__{_method}__", _operator(_name, _method))
    setattr(Symbol, f"__r{_method}__", _operator(_name, _method, reflected=True))  # unused for comparisons
for _name in scalar.FUNCTIONS:
    setattr(Symbol, _name, _function(_name))
Real.register(Symbol)  # so that a Value takes it for a number


ARGUMENT = object.__new__(stand_in(Node, __hash__=_hash))
scalar.ZEROS[Symbol] = 0


def arguments(symbols: Iterable[Symbol]) -> list[Value]:
    """Values that stand for arguments and have these numbers. Only this package may hash them."""
    return [Number._node(ARGUMENT, symbol, (), "", nothing) for symbol in symbols]


class Trace:
    """What was done, in order: line `i` is the operation `ops[i]` on the results of the lines `operands[i]`.

    A line without operands is a leaf: `leaves[i]` is the name of an array and an index in it, such as `("p", 3)` for
    the fourth parameter; for a row, it is `slices[i]`. A constant is a leaf too: its number is `constants[i]`. An item
    is the number `items[i]` of its operand. An elementwise operation gives a row of the size `maps[i]`, and so does the
    loop `loops[i]`. Leaves and stacks compute nothing, so their lines may come after the lines that use them.

    If it `keeps_composed` functions, a function composed of others, such as sigmoid, is one operation, as people write
    it; otherwise it becomes its parts, and every language has those. `finite` and `ieee` are as in Options.
    """

    def __init__(self, *, keeps_composed: bool = False, finite: bool = False, ieee: bool = False) -> None:
        self.keeps_composed, self.finite, self.ieee = keeps_composed, finite, ieee
        self.ops: list[str] = []
        self.operands: list[tuple[int, ...]] = []
        self.leaves: dict[int, tuple[str, int]] = {}
        self.slices: dict[int, Slice] = {}
        self.items: dict[int, int] = {}
        self.maps: dict[int, int] = {}
        self.loops: dict[int, Any] = {}  # of rounds.py
        self.constants: dict[int, float] = {}
        self.known: dict[str, dict[Any, int]] = defaultdict(dict)  # the lines of each operation, by their operands
        self.refused: TraceError | None = None  # the first error; the function may have caught it
        self.keeps = 0  # of the gradients sent to Rows: NOTHING in rows.py
        self._thread = get_ident()

    def __repr__(self) -> str:
        """A hash of all that it has recorded, the same in every process: the cache finds libraries by it."""
        recorded = {name: x for name, x in vars(self).items() if type(x) in (list, dict, bool)}
        recorded |= {"slices": repr(self.slices), "loops": repr(self.loops)}  # marshal cannot write named tuples
        return hashlib.sha256(marshal.dumps(recorded, 0)).hexdigest()  # a text takes three times as long

    def leaf(self, array: str, index: int = 0) -> Symbol:
        """A number from outside."""
        return Symbol(self, self._line("leaf", (array, index), found=self.leaves))

    def slice(self, *place: Any) -> int:
        """The line of a row from outside, from the parts of a Slice."""
        return self._line("slice", Slice(*place), found=self.slices)

    def stack(self, lines: tuple[int, ...]) -> int:
        """The line of a row of these lines: a slice, if they are numbers of an array at equal distances."""
        (array, base), (_, end) = [self.leaves.get(line, ("", 0)) for line in (lines[0], lines[-1])]
        found = Slice(array, base, (end - base) // max(len(lines) - 1, 1), len(lines))
        is_slice = array in ("p", "x") and found.step > 0 and found.places == [*map(self.leaves.get, lines)]
        return self.slice(*found) if is_slice else self._line("stack", lines, lines)

    def row(self, op: str, operands: tuple[int, ...], size: int = 0) -> int:
        """The line of an operation on rows; of an elementwise one with the size of its result."""
        line = self._line(op, operands, operands)
        if size:
            self.maps[line] = size
        return line

    def unstack(self, row: int) -> list[Symbol]:
        """The numbers of a row that was computed, recorded together at their first use."""
        first, size = self.known["item"].setdefault(row, len(self.ops)), self.size(row)
        if first == len(self.ops):
            self.items.update(zip(self.extend("item", size, (row,)), range(size), strict=True))
        return [Symbol(self, line) for line in range(first, first + size)]

    def array(self, name: str, size: int) -> list[Symbol]:
        """All numbers of an array from outside, recorded together: call it once for each array."""
        lines = self.extend("leaf", size)
        self.leaves.update(zip(lines, Slice(name, 0, 1, size).places, strict=True))
        return [Symbol(self, line) for line in lines]

    def extend(self, op: str, n: int, operands: tuple[int, ...] = ()) -> range:
        """New lines, all of the same operation on the same operands."""
        first = len(self.ops)
        self.ops += [op] * n
        self.operands += [operands] * n
        return range(first, first + n)

    def _line(self, op: str, key: Any, operands: tuple[int, ...] = (), found: Any = None) -> int:
        """The line that a key stands for, recorded at its first use. `found` then gets the key, by this line."""
        line = self.known[op].setdefault(key, len(self.ops))
        if line == len(self.ops):
            self.ops.append(op)
            self.operands.append(operands)
            if found is not None:
                found[line] = key
        return line

    def id(self, number: Any) -> int:
        """The line of a Symbol, or of a constant, recorded at its first use."""
        if type(number) is Symbol:
            if number.trace is not self:
                raise TraceError(f"{users_line()}: a traced value was used outside the compiled function")
            return number.id
        if get_ident() != self._thread:  # it sees the parameters as plain numbers
            problem = f"{users_line()}: another thread computes with traced numbers"
            remedy = "run all of it in the thread that compiles it"
            raise TraceError(f"{problem}, but a function is traced in one thread only: {remedy}")
        value = number if type(number) is float or type(number) is bool else float(number)
        key = value if value and value is not True else repr(value)  # which tells -0.0 from 0.0, and True from 1.0
        line = self.known["constant"].get(key)
        if line is None:
            line = self._line("constant", key)
            self.constants[line] = value
        return line

    def lines(self, numbers: Iterable[Any]) -> tuple[int, ...]:
        """The lines of Symbols and constants."""
        return tuple([x.id if type(x) is Symbol and x.trace is self else self.id(x) for x in numbers])

    def results(self, numbers: Iterable[Any]) -> tuple[int, ...]:
        """The lines of numbers to return: a condition becomes 1.0 or 0.0."""
        ops, lines = self.ops, self.lines(numbers)
        return tuple([Symbol(self, i).where(1.0, 0.0).id if ops[i] in CONDITIONS else i for i in lines])

    @cached_property
    def nothing(self) -> int:
        """The line that a sum starts from if it has no other start: that of -0.0."""
        return self.id(-0.0)

    def close(self) -> None:
        """End the trace: from here on, any use of its Symbols is an error."""
        _ = self.nothing  # passes need the line of this constant
        self.known = defaultdict(_no_more)

    def reopened(self, leaves: Mapping[int, tuple[str, int]]) -> "Trace":
        """A copy of a closed trace, to record more lines in. In the copy, some lines are leaves."""
        again = copy(self)
        vars(again).update((name, x.copy()) for name, x in vars(self).items() if type(x) in (list, dict))
        again.known, again._thread = defaultdict(dict), get_ident()
        again.leaves.update(leaves)
        for line in leaves:
            again.ops[line], again.operands[line] = "leaf", ()
            again.items.pop(line, None)
        return again

    def record(self, op: str, operands: Iterable[Any]) -> Symbol:
        """The result of an operation on Symbols and numbers."""
        return self.add(op, self.lines(operands))

    def add(self, op: str, lines: tuple[int, ...]) -> Symbol:
        """The result of an operation on lines: a Symbol even if it is constant, to show that it was traced."""
        known, a, b = self.known[op], lines[0], lines[-1]
        key = (b, a) if a > b and op in COMMUTATIVE else lines
        line = known.get(key)
        if line is None:
            if a in self.constants or b in self.constants:
                line = self._simplified(op, lines)
            if line is None:
                line = len(self.ops)
                self.ops.append(op)
                self.operands.append(lines)
            known[key] = line
        return Symbol(self, line)

    def _simplified(self, op: str, lines: tuple[int, ...]) -> int | None:
        """The line that an operation with a constant simplifies to, or None."""
        constants = self.constants
        first, last = constants.get(lines[0]), constants.get(lines[-1])
        if first is not None and last is not None and constants.keys() >= {*lines}:
            return self.id((IEEE if self.ieee else OPERATIONS)[op](*map(constants.__getitem__, lines)))
        match op:
            case "where" if first is not None:
                return lines[1] if first else lines[2]
            case "take" if first is not None:
                return int(scalar.take(lines[1:], first))
            case "+" | "-" if self._is_zero(last, -1.0 if op == "+" else 1.0):
                return lines[0]
            case "+" | "-" if self._is_zero(first, -1.0):
                return lines[1] if op == "+" else self.add("neg", lines[1:]).id
            case "and" | "or":
                decided, other = (first, lines[1]) if first is not None else (last, lines[0])
                return other if decided == (op == "and") else self.id(decided)
            case "*" | "/" | "**" if last == 1:
                return lines[0]
            case "*" if first == 1:
                return lines[1]
            case "**" if last == 0:
                return self.id(1.0)
            case "*" | "/" if self.finite and (first == 0 or (op == "*" and last == 0)):
                return self.id(0.0)
        return None

    def _is_zero(self, number: float | None, sign: float) -> bool:
        """Whether this is the zero of that sign, 0.0 or -0.0; of finite numbers, either."""
        return number == 0 and (self.finite or math.copysign(1.0, number) == sign)

    def size(self, row: int) -> int:
        """The size of a row; 0 for a number."""
        while self.ops[row] in ("combination", "scatter"):
            row = self.operands[row][-1]
        if row in self.slices:
            return self.slices[row].size
        return len(self.operands[row]) if self.ops[row] == "stack" else self.maps.get(row, 0)

    def reached(self, ends: Iterable[int], is_end: Callable[[int], bool] | None = None) -> list[int]:
        """The lines, in order, that a walk from some lines to their operands meets. It stops where `is_end` holds."""
        waiting = [*ends]  # first: an end that is a constant may add its line
        found = bytearray(len(self.ops))
        while waiting:
            line = waiting.pop()
            if not found[line]:
                found[line] = 1
                if is_end is None or not is_end(line):
                    waiting += self.operands[line]
        return [*compress(range(len(found)), found)]

    def dependent(self, leaves: Iterable[int], end: int | None = None) -> set[int]:
        """The leaves, and the lines before the end that depend on them: these may differ from round to round."""
        found, end = {*leaves}, len(self.ops) if end is None else end
        for line in range(min(found, default=end), end):
            if not found.isdisjoint(self.operands[line]):
                found.add(line)
        return found

    def live(self, results: Iterable[int], given: Container[int] = ()) -> list[int]:
        """The operations, in order, that these results depend on, except for given ones; all others are dead code."""
        found = self.reached(results, given.__contains__ if given else None)
        return [line for line in found if self.operands[line] and line not in given]


def _no_more() -> NoReturn:
    problem = f"{users_line()}: a traced value, kept after its function was compiled, has no number"
    raise TraceError(f"{problem}: use it only inside the function, or run the function again on numbers")
