"""A traced function: its inputs, its outputs, and the operations between."""

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence, Set
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import accumulate, chain, islice, repeat
from numbers import Real
from typing import Any, NamedTuple
from weakref import ref

from micrograd import reductions
from micrograd.compiler.frontend.redirect import Node, is_free, symbols
from micrograd.compiler.frontend.rounds import escapes, have_own_closures, looped
from micrograd.compiler.frontend.rows import ALL, NOTHING, Rows, RowSymbol, join_products
from micrograd.compiler.frontend.tracer import PLAIN, ROWS, Addition, Slice, Symbol, Trace, TraceError, arguments
from micrograd.compiler.options import DEFAULTS, Options
from micrograd.core.derivatives import order_of
from micrograd.core.errors import PlainNumberError, shown, users_line
from micrograd.core.gradients import backward_pass
from micrograd.engine import Value
from micrograd.support.signals import assign
from micrograd.support.trees import Shape, flat, places, shape_of, size, unflatten

CallSpec = str | tuple[int, ...]
"""What a call computes: "forward" the results; "backward" these, and what it adds to the parameters' gradients; the
positions of arguments, the result and its gradient with respect to these."""


def name_of(kind: CallSpec) -> str:
    """The name of a generated function."""
    return kind if isinstance(kind, str) else "value_and_grad"


class Ends(NamedTuple):
    """Lines at which a computation ends: numbers that it returns, and numbers and rows that it adds to gradients."""

    returned: Sequence[int]
    added: Sequence[Addition] = ()

    @property
    def lines(self) -> list[int]:
        """All of the lines."""
        return [*self.returned, *(line for _, line in self.added)]


@dataclass
class Graph:
    """The forward and the backward pass of a function, as one trace, with gradients with respect to the parameters.

    The leaves of the `trace` are the arrays "p" of parameters, "x" of all arguments, flat, and "seed" for the gradient
    of the result. The backward pass begins at the line `forward_end`. `traced` makes graphs; from then on, they do not
    change, and can be sent to other processes.
    """

    trace: Trace
    shapes: tuple[Shape, ...]  # of each argument
    shared: Sequence[bool] = ()  # for each argument, whether all examples share it
    n_parameters: int = 0
    output_shape: Shape = ()
    outputs: Sequence[int] = ()
    forward_end: int = 0
    has_where: bool = False
    added: list[Addition] = field(default_factory=list)  # to the parameters' gradients
    argument_gradients: Sequence[int] = ()
    gradients: dict[int, int] = field(default_factory=dict)  # for the line of a node's gradient, the line of the node
    scales_with_seed: bool = True  # whether the gradients are proportional to it, by the chain rule

    @cached_property
    def sizes(self) -> list[int]:
        """How many numbers each argument has."""
        return list(map(size, self.shapes))

    @property
    def is_differentiable(self) -> bool:
        """Whether it returns a single number."""
        return self.output_shape == ()

    @property
    def kinds(self) -> list[CallSpec]:
        """The kinds of calls that its source shows."""
        kinds: list[CallSpec] = ["forward", "backward", tuple(range(len(self.sizes)))]
        return kinds if self.is_differentiable else kinds[:1]

    @cached_property
    def n_operands(self) -> list[int]:
        """Upper bounds for the number of operands in a forward pass, and in both passes."""
        trace, end = self.trace, self.forward_end
        sizes = [trace.size(i) if op in ROWS or i in trace.maps else 1 for i, op in enumerate(trace.ops)]
        of_each = [() if op in ("stack", "item") else of for op, of in zip(trace.ops, trace.operands, strict=True)]
        return [*accumulate(sum(map(sizes.__getitem__, chain(*part))) for part in (of_each[:end], of_each[end:]))]

    def has_gradients(self, n: int) -> bool:
        """Whether one of the first n parameters gets a gradient."""
        return any(place.base < n for place, _ in self.added)

    def ends(self, kind: CallSpec) -> Ends:
        """What a call of this kind returns, and adds to the parameters' gradients."""
        if isinstance(kind, tuple):
            of_each = [self.argument_gradients[at] for at, _ in places(self.shapes)]
            return Ends([*self.outputs, *chain(*map(of_each.__getitem__, kind))])
        return Ends(self.outputs, self.added if kind == "backward" else ())


def traced(
    function: Callable[..., Any], shapes: Sequence[Shape], parameters: Sequence[Value], n_trained: int = sys.maxsize,
    options: Options = DEFAULTS, found: list[Value] | None = None,
) -> Graph:  # fmt: skip
    """The graph of a function of arguments of these shapes. Only the first `n_trained` parameters get gradients.

    If there is a list of what was `found`, other leaf Values that the function uses join it and the parameters;
    otherwise their numbers are constants.

    Sums of products written with operators become dots. The backward pass goes level by level, which puts similar
    operations next to each other, if all closures are this package's own; otherwise it goes in the engine's order.
    """
    index, loops = dict(zip(parameters, range(len(parameters)), strict=True)), True
    shared = [axis is None for axis in options.axes(len(shapes))]
    for _ in range(3):
        graph = Graph(Trace(finite=options.finite, ieee=options.errors == "ieee"), tuple(shapes), shared)
        made = _trace(graph, function, index, n_trained, finds=found is not None, loops=loops)
        if made is None:
            loops = False
        elif not any(is_free(value) for each in made if (value := each()) is not None):
            break  # otherwise the function may go on using what its first call made
    graph.n_parameters = len(index)
    if found is not None:
        found += islice(index, len(parameters), None)
    return graph


def _trace(
    graph: Graph, function: Callable[..., Any], index: dict[Value, int], n_trained: int, *, finds: bool, loops: bool
) -> list[ref[Value]] | None:
    """Complete a graph. Returns the Values that the function made; Values that it finds join the index.

    With `loops`, a `scan` is traced as a loop, else round by round. Returns None if a step stores numbers elsewhere.
    """
    trace = graph.trace
    table = Rows(trace, index, n_trained, finds)
    if loops:
        table.scan = partial(looped, trace)
    with symbols(table), closing(trace), ExitStack() as at_end:
        inputs = arguments(trace.array("x", sum(graph.sizes)))
        at_end.callback(assign, inputs, "_is_constant", repeat(True))  # an input that a Module keeps is no parameter
        remaining = iter(inputs)
        result = _called(function, [unflatten(remaining, shape) for shape in graph.shapes])
        assign(inputs, "__class__", repeat(Node))  # from here on, hashed as fast as others
        graph.output_shape, values = shape_of(result), flat(result)
        if trace.loops and escapes(trace, map(_number, values)):
            return None
        operands = tuple([value for value in values if isinstance(value, Value)])
        trace.keeps = ALL if graph.is_differentiable else NOTHING
        nodes, leaves = order_of(operands)
        _check_symbolic(nodes)
        if not have_own_closures(nodes):
            trace.keeps = NOTHING
            nodes, leaves = order_of(operands)  # Rows lead to their values now
        for change in (_merge_equal, partial(join_products, trace, operands)) if trace.keeps else ():
            if change(nodes):
                nodes, leaves = order_of(operands)
        graph.has_where = "where" in {node._op for node in nodes}
        graph.outputs = trace.results(map(_number, values))
        graph.forward_end = len(trace.ops)
        _check_assigned(table)
        if graph.is_differentiable:
            _differentiate(graph, values[0], nodes, leaves, inputs, table)
    if trace.refused:  # the function, or one of the user's closures, caught the error
        raise trace.refused
    return list(table.made.values())


def _check_assigned(table: Rows) -> None:
    """Raise TraceError if the function has set the data of a parameter to another number."""
    for x, to in table.assigned.items():
        i = table.index.get(x, -1)
        if i >= 0 and getattr(to, "id", None) != table.trace.leaf("p", i).id:
            which = f"parameter {i}" if i < table.n_trained else "a Value that it reads"
            remedy = "assign to it between calls, or run the function uncompiled"
            raise TraceError(f"the function assigns to the data of {which}, but compiled code cannot do that: {remedy}")


def _differentiate(
    graph: Graph, result: Any, nodes: list[Value], leaves: list[Value], inputs: Sequence[Value], table: Rows
) -> None:
    """Record the gradients of the result. These nodes computed it from these leaves."""
    trace, index, gradients, n = graph.trace, table.index, table.numbers["grad"], table.n_trained
    # A backward() within the function has left gradients on these: add to them.
    old = {p: grad for p, grad in gradients.items() if p in index and type(grad) is not int}
    for x in (*inputs, *leaves):
        x.grad = old.get(x, 0)  # of what such a backward() has left, only a parameter's is part of the gradient
    root = result if isinstance(result, Value) else Value(result)
    with backward_pass(root, (_in_order(nodes, leaves), [*old]) if trace.keeps else (nodes, leaves)) as ordered:
        root.grad += trace.leaf("seed")
        for node in ordered:
            node._backward(node.grad)
    rows = table.added()
    graph.argument_gradients = trace.lines([x.grad for x in inputs])
    lines = [(i, trace.id(grad)) for p, grad in gradients.items() if (i := index.get(p, n)) < n]
    graph.added = [(Slice("g", i, 1, 1), line) for i, line in lines if trace.constants.get(line) != 0]
    graph.gradients = {line: trace.leaf("p", place.base).id for place, line in graph.added} | {
        node.grad.id: node.data.id
        for node in reversed([*nodes, *inputs])
        if type(node.data) is type(node.grad) is Symbol and node.data.id not in trace.constants
    }
    graph.added += rows
    graph.scales_with_seed = bool(trace.keeps and not old) or _scales_with_seed(graph)


def _scales_with_seed(graph: Graph) -> bool:
    """Whether the gradients that a call adds to the parameters are proportional to the seed."""
    trace, added = graph.trace, {line for _, line in graph.added}
    varying = trace.dependent([trace.leaf("seed").id])
    uniform = {*range(len(trace.ops))} - varying
    are_linear = all(is_linear(trace, line, uniform) for line in varying.intersection(trace.live(added)))
    return are_linear and all(line in varying or trace.constants.get(line) == 0 for line in added)


def is_linear(trace: Trace, line: int, uniform: Set[int]) -> bool:
    """Whether an operation is linear in the operands that are not uniform: in numbers, or in what a row adds up."""
    operands = trace.operands[line]
    varies = [i not in uniform for i in operands]
    match trace.ops[line]:
        case "*":
            return sum(varies) == 1
        case "/":
            return not varies[1]
        case "where" if not varies[0]:
            operands = operands[1:]
        case "combination":
            return all(varies[::2]) and not any(varies[1::2])
        case "neg" | "item":
            return True
        case "+" | "-":
            pass
        case _:
            return False
    return all(i not in uniform or trace.constants.get(i) == 0 for i in operands)


def _number(value: Any) -> Any:
    """The number of one of the results."""
    if isinstance(value, Value):
        value = value.data
    if not isinstance(value, (Real, bool)):
        raise TypeError(f"the function returns {shown(value)}: expected a Value or nested lists of them")
    return value


def _merge_equal(nodes: Sequence[Value]) -> bool:
    """Let equal nodes pass their gradients on to one node in their place; returns whether there are any.

    So the derivative of what a program computes twice is computed once, as the trace computes its number once. Nodes
    are equal if their numbers are the same line, from the same operation, all this package's own, on equal operands and
    with the same constants, such as the target of a loss.
    """
    counts = Counter([node.data.id for node in nodes if type(node.data) is Symbol])
    repeated = {line for line, n in counts.items() if n > 1}
    groups: dict[Any, list[Value]] = defaultdict(list)
    first: dict[Value, Value] = {}
    for node in nodes if repeated else ():
        if type(node.data) is Symbol and node.data.id in repeated:
            operands = [repr(x.data) if x._is_constant else id(first.get(x, x)) for x in node._prev]
            group = groups[node.data.id, node._op, repr(node._constants), *operands]
            group.append(node)
            first[node] = group[0]
    merged = [group for group in groups.values() if len(group) > 1]
    for group in merged:  # none of them is the one node, so that it adds up their gradients in the order of the program
        one = group[0]._node(group[0].data, group[0]._prev, group[0]._op, group[0]._backward)
        passing_on = reductions.sum([one])._backward
        for node in group:
            node._op, node._prev, node._backward = "equal", (one,), passing_on
    return bool(merged)


def _in_order(nodes: Sequence[Value], leaves: Sequence[Value]) -> list[Value]:
    """The nodes level by level, each as soon as its operands are there; within a level, in the order of the program.

    A sum of many terms is on one level. So a gradient adds up like parts one after the other, however the program was
    written.
    """
    levels, lines = dict.fromkeys(leaves, 0), dict.fromkeys(leaves, 0)
    for node in nodes:
        lines[node] = getattr(node.data, "id", 0)
        if node._op == "+":  # it comes after sums of its level, even if it is simplified to an earlier line
            levels[node] = max([levels[x] + (x._op != "+") for x in node._prev])
            lines[node] = max([lines[x] for x in (node, *node._prev) if x._op == "+"])
        else:
            levels[node] = max(map(levels.__getitem__, node._prev)) + 1
    return sorted(sorted(nodes, key=lines.__getitem__), key=levels.__getitem__)


def _called(function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    """The function's result. Raises TraceError if it uses an argument as a plain number or as an index."""
    try:
        return function(*arguments)
    except (TypeError, IndexError) as error:
        if isinstance(error, PlainNumberError):
            raise TraceError(f"{users_line(error)}: {PLAIN}") from error
        if not re.search("Value.* as an integer|(valid|as|slice) indices|indices .*Value", str(error)):
            raise
        raise TraceError(
            f"{users_line(error)}: {error}. While a function is compiled, the numbers in its arguments are not known "
            "yet: write micrograd's take(values, index) for values[index], and use a constant for range() or a slice"
        ) from error


def _check_symbolic(nodes: Sequence[Value]) -> None:
    """Raise ValueError if a node has a plain number although it was computed from symbols."""
    for node in [node for node in nodes if type(node.data) not in (Symbol, RowSymbol)]:
        numbers = [operand.data for operand in node._prev]
        chosen = node._op == "where" and any(number is node.data for number in numbers)
        if not chosen and any(type(number) is Symbol for number in numbers):
            raise ValueError(
                f"the result of {node._op}, {node.data!r}, does not depend on its operands as they are traced: "
                "if it was computed before the function was called or in another thread, compute it inside the "
                "function, or detach() it to make it a constant; if it is your own operation with a constant result, "
                "add 0 times its operand's data"
            )
