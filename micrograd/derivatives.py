"""How a derivative calls its function: with variables, Values of a separate level, in place of some arguments."""

import functools
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from numbers import Real
from typing import Any

from micrograd import scalar
from micrograd.arrays import array_of
from micrograd.engine import Value
from micrograd.errors import shown
from micrograd.levels import active_levels, check_active
from micrograd.trees import as_lists, at_path, filled, flat, has_array, is_regular, mapped, shape_of
from micrograd.validation import positions

Function = Callable[..., Any]
Argnum = int | Sequence[int]

_depth = ContextVar("depth", default=0)  # how many derivatives are running, one inside the other


class Call:
    """A function's variables and what it returned for them; with `lifts`, all other arguments become constants.

    `args` is the argument to differentiate by, or a list of several; `variables` has a Value for each number in there;
    `result` and `outputs` are the Values that the function returned, in nested lists, and flat.
    """

    def __init__(
        self, kind: type[Value], f: Function, argnum: Argnum, args: Sequence[Any], options: Any, lifts: bool
    ) -> None:
        argnum = as_lists(argnum)
        if options and not args:
            raise TypeError("got arguments by name only: pass those to differentiate with respect to by position")
        several = isinstance(argnum, Sequence) and not isinstance(argnum, str)
        places = positions("argnum", tuple(argnum) if several else argnum, len(args))  # type: ignore[arg-type]
        arguments = list(args)
        for n in range(len(args)) if lifts else places:
            arguments[n] = at_path(kind, f"args[{n}]", args[n])
        self.args: Any = [args[n] for n in places] if several else args[places[0]]
        self.variables = flat([arguments[n] for n in places])  # before the function changes its arguments

        def node(output: Any) -> Value:  # a number that does not depend on the variables becomes a leaf
            if not isinstance(output, Real | Value):
                raise TypeError(f"expected a function that returns numbers, not {type(output).__name__}")
            return output if isinstance(output, kind) else kind(output)

        self.result = mapped(node, f(*arguments, **options))
        self.outputs = flat(self.result)

    def gradient(self, numbers: Iterable[Any]) -> Any:
        """A number for each variable, in the shape of the arguments."""
        return filled(self.args, iter(numbers))

    def shaped(self, numbers: Sequence[Any]) -> Any:
        """A number for each output, in the shape of the result: as an array, if there is one among the arguments."""
        shape = shape_of(self.result)
        is_array = shape and is_regular(shape) and has_array(self.args)
        return array_of(numbers, shape) if is_array else filled(self.result, iter(numbers))


def derivative(f: Function, argnum: Argnum, taken: Callable[[Call], Any], *, lifts: bool = False) -> Function:
    """A function of the arguments of `f`: what `taken` returns for a call of `f`."""
    check_function(f)

    def derivative(*args: Any, **options: Any) -> Any:
        level = _depth.get() + 1
        token = _depth.set(level)
        active_levels.append(level)
        try:
            return taken(Call(_variable(level), f, argnum, args, options, lifts))
        finally:
            active_levels.remove(level)
            _depth.reset(token)

    return derivative


def check_function(f: Any) -> None:
    """Raise TypeError unless this can be called."""
    if not callable(f):
        raise TypeError(f"expected a function to differentiate, not {shown(f)}: write grad(f)(x)")


def gradient(output: Value, variables: Sequence[Value]) -> list[Any]:
    """The gradient of `output` with respect to each of the variables."""
    for variable in variables:
        variable.grad = constant_zero(variable.data)
    output.backward()
    return [variable.grad for variable in variables]


def constant_zero(x: Any) -> Any:
    """A constant 0 of the same type as `x`."""
    return type(x)(constant_zero(x.data)) if isinstance(x, Value) else scalar.zero(x)


@functools.cache
def _variable(level: int) -> type[Value]:
    """The class of Values that a derivative inside `level` - 1 others gives to its function."""

    def backward(self: Value, grad: Any = 1) -> None:
        if isinstance(self.data, Value):
            check_active(level)
        Value.backward(self, grad)

    return type(f"Value{level}", (Value,), {"__slots__": (), "_level": level, "backward": backward})
