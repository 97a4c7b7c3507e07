"""How derivatives are taken: call a function with variables, then sweep its graph in many directions at once.

The variables are Values of a separate level, in place of some arguments. A `_backward` is linear in the gradient that
it takes: called with a gradient of 1, it gives the derivatives of its operation by each operand. That is all a sweep
needs, forward from the variables or back from the outputs, so forward mode has no table of derivatives of its own. The
derivatives have the type of the numbers (floats, Fractions, Values of enclosing derivatives, a compiler's symbols), so
they can be differentiated in turn.

A node has derivatives only for the directions that reach it, so the work grows with the number of derivatives that are
not structurally zero (Griewank and Walther, Evaluating Derivatives, 2008, chapter 7).
"""

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from typing import Any

from micrograd import scalar
from micrograd.core import errors
from micrograd.core.errors import raise_with_context
from micrograd.core.gradients import Order, closure_error
from micrograd.core.levels import active_levels, has_valid_grad, normalize_leaves
from micrograd.engine import Value
from micrograd.support.arrays import PLAIN, array_of
from micrograd.support.collector import gc_paused
from micrograd.support.trees import as_lists, at_path, filled, flat, has_array, is_regular, mapped, shape_of
from micrograd.support.validation import plain, positions

Function = Callable[..., Any]
Argnum = int | Sequence[int]
Row = dict[int, Any]
"""A derivative for each direction, without those that are structurally zero."""

_depth = ContextVar("depth", default=0)  # how many derivatives are running, one inside the other


class Call:
    """A function's variables and what it returned for them; with `lifts`, all other arguments become constants.

    `args` is the argument to differentiate by, or a list of several; `variables` has a Value for each number in it;
    `result` holds the Values that the function returned, in nested lists, and `outputs` the same Values in a flat one.
    """

    def __init__(self, kind: type[Value], f: Function, argnum: Argnum, args: Any, options: Any, lifts: bool) -> None:
        argnum = as_lists(argnum)
        if options and not args:
            raise TypeError("got arguments by name only: pass those to differentiate with respect to by position")
        several = isinstance(argnum, Sequence) and not isinstance(argnum, str)
        places = positions("argnum", tuple(argnum) if several else argnum, len(args))  # type: ignore[arg-type]
        arguments = [at_path(kind, f"args[{n}]", x) if lifts or n in places else x for n, x in enumerate(args)]
        self.level = kind._level
        self.args: Any = [args[n] for n in places] if several else args[places[0]]
        self.variables = flat([arguments[n] for n in places])  # before the function changes its arguments

        def node(output: Any) -> Value:  # a number that does not depend on the variables becomes a leaf
            if not isinstance(output, Value) and not scalar.is_number(output):
                raise TypeError(f"expected a function that returns numbers, not {type(output).__name__}")
            return output if isinstance(output, kind) else kind(output)

        self.result = mapped(node, f(*arguments, **options))
        self.outputs = flat(self.result)

    def gradient(self, numbers: Iterable[Any]) -> Any:
        """A number for each variable, in the shape of the arguments."""
        return filled(self.args, iter(numbers))

    def shaped(self, numbers: Sequence[Any]) -> Any:
        """A number for each output, in the shape of the result: an array if there is one among the arguments."""
        shape = shape_of(self.result)
        is_array = shape and is_regular(shape) and has_array(self.args)
        return array_of(numbers, shape) if is_array else filled(self.result, iter(numbers))


def derivative(f: Function, argnum: Argnum, compute: Callable[[Call], Any], *, lifts: bool = False) -> Function:
    """A function of the arguments of `f`: what `compute` returns for a call of `f`."""
    check_function(f, argnum)

    def derivative(*args: Any, **options: Any) -> Any:
        level = _depth.get() + 1
        token = _depth.set(level)
        active_levels.append(level)
        try:
            with gc_paused():
                call = Call(_variable(level), f, argnum, args, options, lifts)
                found = compute(call)
            for variable in call.variables:
                variable._is_constant = True  # else a Module that keeps its input has more parameters
            return found
        finally:
            active_levels.remove(level)
            _depth.reset(token)

    return derivative


def check_function(f: Any, argnum: Any) -> None:
    """Raise TypeError unless `f` can be called, and `argnum` may have the positions of its arguments."""
    if not callable(f):
        raise TypeError(f"expected a function to differentiate, not {errors.shown(f)}: write grad(f)(x)")
    if any(isinstance(plain(place), (float, Value)) for place in flat(argnum)):
        came = errors.shown(argnum)
        raise TypeError(f"argnum is {came}: expected the position of an argument; for the point, write grad(f)({came})")


def gradient(output: Value, variables: Sequence[Value]) -> list[Any]:
    """The gradient of `output` with respect to each of the variables."""
    for variable in variables:
        variable.grad = constant_zero(variable.data)
    output.backward()
    return [variable.grad for variable in variables]


def constant_zero(x: Any) -> Any:
    """A constant 0 of the same type as `x`."""
    return x._constant(constant_zero(x.data)) if isinstance(x, Value) else scalar.zero(x)


@functools.cache
def _variable(level: int) -> type[Value]:
    """The class of Values that a derivative inside `level` - 1 others gives to its function.

    A copy is the Value itself: another leaf would have no part in the derivative.
    """
    copies = {"__copy__": Value.__pos__, "__deepcopy__": lambda self, memo: self}
    return type("Value", (Value,), {"__slots__": (), "_level": level, **copies})


def order_of(outputs: Sequence[Value]) -> Order:
    """The nodes, each after its operands, and the leaves of the graph that leads to these Values, including them."""
    end = Value(0.0)
    end._prev = tuple(outputs)
    nodes, leaves = end._topological_order()
    return nodes[:-1], leaves  # without the end itself; if it has no operands, it is in the leaves


class Sweeps:
    """The graph from variables to outputs, Values of one level."""

    def __init__(self, variables: Sequence[Value], outputs: Sequence[Value]) -> None:
        self._variables, self._outputs = variables, outputs
        self._nodes, leaves = order_of(outputs)
        normalize_leaves(leaves)

    def forward(self, tangents: Iterable[Row]) -> list[Row]:
        """The derivatives of each output in some directions; a variable's row has its component in each direction."""
        rows: dict[Value, Row] = {}
        for variable, row in zip(self._variables, tangents, strict=True):
            _add(rows.setdefault(variable, {}), row, None)
        for node in self._nodes:
            sums = rows[node] = {}
            for operand, partial in self._partials(node):
                if operand in rows:  # other leaves are constants
                    _add(sums, rows[operand], partial)
        return [rows.get(output, {}) for output in self._outputs]

    def backward(self, weights: Iterable[Row], first: dict[Value, int]) -> list[Row]:
        """The derivatives by each variable of weighted sums of the outputs; nodes skip sums before their `first`."""
        rows: dict[Value, Row] = {variable: {} for variable in self._variables}
        for output, row in zip(self._outputs, weights, strict=True):
            _add(rows.setdefault(output, {}), row, None)  # a number may have been returned twice
        for node in reversed(self._nodes):
            row = rows.pop(node, {})
            for operand, partial in self._partials(node) if row else ():
                if operand._prev or operand in rows:
                    _add(rows.setdefault(operand, {}), row, partial, first.get(operand, 0))
        return [rows[variable] for variable in self._variables]

    def jacobian(self, forward: bool) -> list[Row]:
        """A row for each output, with its derivative by each variable, carried forward or else backward."""
        m = len(self._outputs)
        units = ({i: 1} for i in range(len(self._variables) if forward else m))  # a direction for each
        return self.forward(units) if forward else _transposed(self.backward(units, {}), m)

    def symmetric(self) -> list[Row]:
        """The jacobian of a gradient. It is symmetric, so only the lower half is computed, then mirrored."""
        n = len(self._variables)
        first = {variable: n - i for i, variable in enumerate(reversed(self._variables), 1)}
        for node in self._nodes:  # the first variable that it depends on; n if there is none
            first[node] = min([first.get(operand, n) for operand in node._prev])
        columns = self.backward(({i: 1} for i in range(n)), first)
        return [row | column for row, column in zip(_transposed(columns, n), columns, strict=True)]

    def products(self, *, forward: bool) -> int:
        """The number of products in a sweep that carries a jacobian forward or back. Each bit is a direction."""
        variables, n = set(self._variables), 0
        directions: dict[Value, int] = defaultdict(int)
        for i, start in enumerate(self._variables if forward else self._outputs):
            directions[start] |= 1 << i
        for node in self._nodes if forward else reversed(self._nodes):
            for operand in node._prev:
                if operand._prev or operand in variables:
                    source, target = (operand, node) if forward else (node, operand)
                    directions[target] |= directions[source]
                    n += directions[source].bit_count()
        return n

    def _partials(self, node: Value) -> list[tuple[Value, Any]]:
        """The operands of a node, each with the derivative by it (None for 1); structural zeros are left out."""
        zero = scalar.zero(node.data)
        operands = dict.fromkeys(node._prev)
        for operand in operands:
            operand.grad = zero
        node.grad = zero + 1  # some closures of users read it, as in Karpathy's micrograd
        try:
            node._backward(node.grad)
        except BaseException as error:
            raise_with_context(error, node, self._nodes)
            raise
        is_plain = type(node.data) in PLAIN
        partials = []
        for operand in operands:
            if type(operand.grad) not in PLAIN and not has_valid_grad(operand):
                raise closure_error(operand, [node])
            partial = operand.grad
            is_number = type(partial) in PLAIN
            if not is_number or is_plain or partial != 0:  # among symbols or Values, a plain 0 is structural
                partials.append((operand, None if is_number and partial == 1 else partial))
        return partials


def _add(sums: Row, row: Row, partial: Any, least: int = 0) -> None:
    """Add a row, from the direction `least` on, times the partial derivative."""
    for direction, number in row.items():
        if direction >= least:
            term = number if partial is None else number * partial
            sums[direction] = sums[direction] + term if direction in sums else term


def _transposed(rows: Sequence[Row], n: int) -> list[Row]:
    """The n columns of a matrix."""
    columns: list[Row] = [{} for _ in range(n)]
    for i, row in enumerate(rows):
        for j, number in row.items():
            columns[j][i] = number
    return columns
