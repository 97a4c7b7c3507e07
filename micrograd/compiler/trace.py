"""Tracing: numbers that write down what is done with them.

A `Symbol` stands for a number that is not known yet. It answers to the operators and to every function of `scalar`,
as the number in a `Value` has to, and each answer is a new Symbol that its `Trace` has written down as an operation
on earlier ones. Run the user's function on Values that hold Symbols, then `backward()` on its result, and the trace
holds the forward and the backward pass: the closures of the engine wrote both, there is no second table of
derivatives.

Equal operations on equal operands are written once, and operations on constants are carried out on the spot. Only
what keeps every bit of a finite result is simplified: `x * 1`, `x / 1`, `x ** 1`. Adding 0.0 is written down, since it
makes 0.0 of -0.0; adding the exact 0, an int, is not, as every gradient starts from it, and a `dot` without a bias.
What starts there may be -0.0 where the engine has 0.0, but for the gradients that a compiled function returns.
"""

import linecache
import operator
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from numbers import Real
from pathlib import Path
from traceback import walk_stack, walk_tb
from typing import Any, NoReturn

from micrograd import engine, scalar
from micrograd.engine import Value

OPERATIONS: dict[str, Callable[..., Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": scalar.divide,
    "%": scalar.remainder,
    "**": scalar.power,
    "neg": operator.neg,
    "abs": abs,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "and": operator.and_,
    "or": operator.or_,
    "where": scalar.where,
    "take": lambda index, *values: scalar.take(values, index),
    **scalar.FUNCTIONS,
}
"""What each operation of a trace does to numbers."""

NO_NUMBER = (
    "this needs the number itself, and while a function is compiled there is none yet. A branch, max() or float() on "
    "it cannot be followed: use relu, abs or where(condition, a, b) of micrograd, which choose anew at each call, and "
    "the functions of micrograd.scalar in place of math's"
)
CONDITIONS = frozenset(("<", "<=", ">", ">=", "==", "!=", "and", "or"))
COMMUTATIVE = frozenset("+*")
PACKAGE = f"{Path(__file__).parent.parent}{os.sep}"


class TraceError(TypeError):
    """The function asks for a number while it is traced: which way it goes would be baked into the compiled code."""


def _hash(self: object) -> int:
    """The object's own, for this package alone: a lookup by it never finds what is equal to the number to come."""
    if sys._getframe(1).f_code.co_filename.startswith(PACKAGE):
        return object.__hash__(self)
    raise TraceError(
        f"{users_line()}: a set or a dict finds a number by its value, and while a function is compiled there is none "
        "yet: use take(values, index) or where(condition, a, b) of micrograd, which choose anew at each call"
    )


class Symbol:
    """A number to come, as one line of a trace."""

    __slots__ = ("id", "trace")

    def __init__(self, trace: "Trace", id: int) -> None:
        self.trace = trace
        self.id = id

    def __repr__(self) -> str:
        return f"<traced number {self.id}>"

    def where(self, a: Any, b: Any) -> Any:
        """`a` where this condition holds, else `b`."""
        if isinstance(a, Value) or isinstance(b, Value):
            return engine.where(self, a, b)
        return self.trace.record("where", (self, a, b))

    def pick(self, values: Sequence[Any]) -> Any:
        """The one of the values at this index."""
        if any(isinstance(value, Value) for value in values):
            return engine.take(values, self)
        return self.trace.record("take", (self, *values))

    def __neg__(self) -> Any:
        return self.trace.record("neg", (self,))

    def __pos__(self) -> "Symbol":
        return self

    def __abs__(self) -> Any:
        return self.trace.record("abs", (self,))

    def _no_number(self, *_: Any) -> NoReturn:
        raise TraceError(f"{users_line()}: {NO_NUMBER}")

    def _no_operator(self, *_: Any) -> NoReturn:
        raise TraceError(
            f"{users_line()}: while a function is compiled, its numbers know + - * / % ** and comparisons, and "
            "conditions & and |. Write (x - x % y) / y for x // y, a != b for a ^ b, and the opposite condition for ~a"
        )

    def __format__(self, spec: str) -> str:
        if not spec:
            return repr(self)
        raise TraceError(
            f"{users_line()}: while a function is compiled, there is no number yet to be written as {spec!r}. "
            "Let the function return it, and format what the compiled function gives"
        )

    __bool__ = __float__ = __int__ = __index__ = __complex__ = _no_number
    __round__ = __trunc__ = __floor__ = __ceil__ = _no_number
    __floordiv__ = __rfloordiv__ = __divmod__ = __rdivmod__ = __invert__ = _no_operator
    __xor__ = __rxor__ = __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _no_operator
    __hash__ = _hash


def _operator(name: str, reflected: bool = False) -> Callable[[Symbol, Any], Any]:
    def method(self: Symbol, other: Any) -> Any:
        if type(other) is not Symbol:
            if name == "+" and type(other) is int and other == 0:  # where gradients start
                return self
            if isinstance(other, Value) or not isinstance(other, (float, int, Real)):
                return NotImplemented
            if name in ("and", "or") and other not in (0, 1):
                return NotImplemented  # & and | are of bits, and a condition has one
        return self.trace.record(name, (other, self) if reflected else (self, other))

    return method


def _function(name: str) -> Callable[..., Any]:
    defaults = getattr(vars(scalar.FUNCTIONS[name])["__wrapped__"], "__defaults__", None) or ()

    def method(self: Symbol, *args: Any, **options: Any) -> Any:
        given = (*args, *options.values())
        return self.trace.record(name, (self, *given, *defaults[len(given) :]))

    return method


for _name, _method in {"+": "add", "-": "sub", "*": "mul", "/": "truediv", "%": "mod", "**": "pow"}.items():
    setattr(Symbol, f"__{_method}__", _operator(_name))
    setattr(Symbol, f"__r{_method}__", _operator(_name, reflected=True))
for _name, _method in {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}.items():
    setattr(Symbol, f"__{_method}__", _operator(_name))
for _name in ("and", "or"):
    setattr(Symbol, f"__{_name}__", _operator(_name))
    setattr(Symbol, f"__r{_name}__", _operator(_name, reflected=True))
for _name in scalar.FUNCTIONS:
    setattr(Symbol, _name, _function(_name))
Real.register(Symbol)  # so that a Value takes it for a number


class Argument(Value):
    """A Value that stands for an argument. What is computed from one is a plain Value."""

    __slots__ = ()
    __hash__ = _hash

    def __new__(cls, *operation: Any, **label: Any) -> Any:
        """The result of an operation."""
        return Value(*operation, **label)


Argument.__name__ = Argument.__qualname__ = "Value"  # as errors of Python's call it


class Trace:
    """What was done, in order: line `i` is the operation `ops[i]` on the lines `operands[i]`.

    A line without operands is a leaf: `leaves[i]` tells which, as the name of an array and an index, such as
    `("p", 3)` for the fourth parameter. A constant is a leaf too, its number is in `constants[i]`.
    """

    def __init__(self) -> None:
        self.ops: list[str] = []
        self.operands: list[tuple[int, ...]] = []
        self.leaves: dict[int, tuple[str, int]] = {}
        self.constants: dict[int, float] = {}
        self._known: dict[Any, Symbol] = {}

    def leaf(self, array: str, index: int = 0) -> Symbol:
        """A new number from outside."""
        symbol = self._line("leaf", ())
        self.leaves[symbol.id] = array, index
        return symbol

    def id(self, number: Any) -> int:
        """The line of a Symbol, or of a constant that is written down for the number."""
        if type(number) is Symbol:
            if number.trace is not self:
                raise TraceError(f"{users_line()}: a traced number has left the function that was compiled")
            return number.id
        value = number if isinstance(number, bool) else float(number)
        key = ("constant", repr(value))  # repr tells -0.0 from 0.0, and True from 1.0
        if key not in self._known:
            symbol = self._known[key] = self._line("constant", ())
            self.constants[symbol.id] = value
        return self._known[key].id

    def result(self, number: Any) -> int:
        """The line of what is a number for others: a condition is 1.0 or 0.0."""
        id = self.id(number)
        return self.id(scalar.where(Symbol(self, id), 1.0, 0.0)) if self.ops[id] in CONDITIONS else id

    def close(self) -> None:
        """End the trace: what is done with its Symbols from here on is an error."""
        self._known = {}  # so that Symbols and trace let go of each other
        self.record = self._no_more  # type: ignore[method-assign]

    def _no_more(self, op: str, operands: tuple[Any, ...]) -> NoReturn:
        raise TraceError(
            f"{users_line()}: {op} is of a traced number that was kept when its function had been compiled, and it "
            "will never be known: keep nothing in the function that is used outside of it, or run the function again "
            "on numbers"
        )

    def record(self, op: str, operands: tuple[Any, ...]) -> Any:
        """The result of an operation: always a Symbol, which tells that it was computed while tracing."""
        ids: tuple[int, ...]
        key: tuple[Any, ...]
        if len(operands) == 2:  # nearly all: this is a third faster than the other way
            x, y = operands
            a = x.id if type(x) is Symbol and x.trace is self else self.id(x)
            b = y.id if type(y) is Symbol and y.trace is self else self.id(y)
            ids = a, b
            key = (op, b, a) if a > b and op in COMMUTATIVE else (op, a, b)
        else:
            ids = tuple([self.id(operand) for operand in operands])
            key = op, *ids
        known = self._known.get(key)
        if known is None:
            known = None if self.constants.keys().isdisjoint(ids) else self._simplified(op, operands, ids)
            if known is None:
                known = self._line(op, ids)
            elif type(known) is not Symbol:
                known = Symbol(self, self.id(known))
            self._known[key] = known
        return known

    def _line(self, op: str, ids: tuple[int, ...]) -> Symbol:
        line = len(self.ops)
        self.ops.append(op)
        self.operands.append(ids)
        return Symbol(self, line)

    def _simplified(self, op: str, operands: tuple[Any, ...], ids: tuple[int, ...]) -> Any:
        """What the operation, of which a constant is an operand, comes to without being written down, or None."""
        constants = [self.constants.get(id) for id in ids]
        if None not in constants:
            return OPERATIONS[op](*constants)
        if op == "where":
            condition = constants[0]
            return None if condition is None else operands[1] if condition else operands[2]
        if op == "take":
            index = constants[0]
            return None if index is None else scalar.take(operands[1:], index)
        if op in ("and", "or"):
            decided, other = (constants[0], 1) if constants[0] is not None else (constants[1], 0)
            return operands[other] if decided == (op == "and") else decided
        if len(constants) != 2:
            return None
        left, right = constants
        if right == 1 and op in ("*", "/", "**"):
            return operands[0]
        if left == 1 and op == "*":
            return operands[1]
        return 1.0 if right == 0 and op == "**" else None

    def needed(self, results: Iterable[int]) -> list[int]:
        """The operations, in order, that these results depend on; the rest is dead code."""
        alive = bytearray(len(self.ops))
        for id in results:
            alive[id] = 1
        for id in range(len(self.ops) - 1, -1, -1):
            if alive[id]:
                for operand in self.operands[id]:
                    alive[operand] = 1
        return [id for id in range(len(self.ops)) if alive[id] and self.operands[id]]


def users_line(error: BaseException | None = None) -> str:
    """Where in the user's code we are, or an error arose: the innermost line outside of this package."""
    inwards = walk_tb(error.__traceback__) if error else reversed(list(walk_stack(sys._getframe(1))))
    outside = [(f.f_code.co_filename, n) for f, n in inwards if not f.f_code.co_filename.startswith(PACKAGE)]
    return "".join(f"{name}:{n}, `{linecache.getline(name, n).strip() or 'no source'}`" for name, n in outside[-1:])
