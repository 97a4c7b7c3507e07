"""A graph in Python: a trace as straight-line Python, one assignment a line.

`p0`, `p1`, ... are the parameters and `g0`, ... their gradients; `x0`, ... are the inputs of one example, flat; `t0`,
... is what is computed from them, and `dt0` the derivative of the result by `t0`.
"""

import math
import textwrap
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from itertools import chain, count, takewhile
from operator import add
from typing import Any, NamedTuple

from micrograd import scalar
from micrograd.compiler.dataset import Batch
from micrograd.compiler.dtype import DOUBLE
from micrograd.compiler.frontend.graph import CallSpec, Ends, Graph, name_of
from micrograd.compiler.frontend.operations import IEEE, as_ieee
from micrograd.compiler.frontend.tracer import Slice
from micrograd.compiler.passes.expressions import Column, Node, expressions, numbers, scatters
from micrograd.compiler.targets.spelling import indented, signed, spellings, terms, total
from micrograd.support.collector import gc_paused
from micrograd.support.trees import plain_numbers

Numbers = Sequence[float]

WIDTH = 60  # characters of a line, after which a long sum goes on in the next
TEMPLATES = {**spellings("python"), **{f"**{n}": "{0} ** {1}" for n in range(2, 10)}}  # which is never complex
IEEE_TEMPLATES = {**spellings("python"), **spellings("ieee")}
"""The same where nothing may raise an error."""


def _add_at(index: float, numbers: list[float], row: range, gradient: float) -> None:
    numbers[row[scalar.as_index(index, len(row))]] += gradient


NAMESPACE = {
    "__builtins__": {"abs": abs, "range": range, "reversed": reversed, "zip": zip},
    "inf": math.inf,
    "nan": math.nan,
    "largest": scalar.largest,
    "power": scalar.power,
    "take": scalar.take,
    "add_at": _add_at,
    **{name: function.__wrapped__ for name, function in scalar.FUNCTIONS.items()},
}
IEEE_NAMESPACE = {
    "divide": IEEE["/"],
    "remainder": IEEE["%"],
    "power": IEEE["**"],
    "take": lambda values, index: IEEE["take"](index, *values),
    "add_at": as_ieee("add_at", _add_at),
    **{name: IEEE[name] for name in scalar.FUNCTIONS},
}


class PythonCode:
    """A graph as functions in Python, each compiled when it is first called."""

    precision = DOUBLE

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._functions: dict[CallSpec, Callable[..., Any]] = {}

    def library(self, kind: CallSpec, n: float = 0, uses: float = 0, *, early: bool = False) -> Callable[..., Any]:
        """The generated function for calls of this kind."""
        if kind not in self._functions:
            space: dict[str, Any] = NAMESPACE | (IEEE_NAMESPACE if self.graph.trace.ieee else {})
            with gc_paused():
                exec(_text(self.graph, kind), space)
            self._functions[kind] = space[name_of(kind)]
        return self._functions[kind]

    def call(
        self, kind: CallSpec, packed: Batch, results: Any, gradients: Any = None, seed: float = 1.0
    ) -> "PythonCall":
        """A call of a generated function; see PythonCall."""
        return PythonCall(self.library(kind), kind, packed, results, gradients, seed)


class PythonCall(NamedTuple):
    """A call of a generated function. It may be repeated.

    It fills the buffer of doubles `results` with the results of each example, one after the other. A "backward" call
    adds the gradient of the sum of the outputs with respect to the parameters, times `seed`, to `gradients`.
    """

    function: Callable[..., Any]
    kind: CallSpec
    packed: Batch
    results: Any
    gradients: Any
    seed: float

    @property
    def total(self) -> float:
        """The sum of the results, from left to right; sum() rounds differently since Python 3.12."""
        return reduce(add, self.results, -0.0)

    def run(self, parameters: Numbers) -> int:
        """Make the call with these numbers for the parameters. Returns 0, or raises an error and adds no gradients."""
        function, kind, gradients, rows = self.function, self.kind, self.gradients, self.packed.rows()
        parameters = plain_numbers(parameters)
        if kind == "backward":
            outputs, sums = function(parameters, gradients, self.seed, rows)
            numbers, gradients[:] = outputs[::-1], array(gradients.typecode, sums)
        elif kind == "forward":
            numbers = [y for x in rows for y in function(parameters, x)]
        else:
            value, gradient = function(parameters, rows[0])
            numbers = [value, *(0.0 + number for number in gradient)]  # no gradient is -0.0
        memoryview(self.results)[:] = array("d", numbers)
        return 0


def source(graph: Graph) -> str:
    """All functions of a graph, made to be read."""
    return "\n\n".join(_text(graph, kind) for kind in graph.kinds)


def _text(graph: Graph, kind: CallSpec) -> str:
    """The function for calls of a kind."""
    ends = graph.ends(kind)
    writer = _Writer(graph, ends)
    lines, names = writer.lines, writer.names
    results = [names[id] for id in ends.returned]
    if kind == "backward":
        takes = "p, g, seed, examples"
        doc = "The output for each example, last first; and g plus the gradients of all outputs, times seed."
        loop = [*_unpack(graph, "x"), *lines, f"outputs.append({results[0]})"]
        sums = [names["g", i] for i in range(graph.n_parameters)]
        body = [*_unpack(graph, "p", "g"), "outputs = []", "for x in reversed(examples):", *indented(loop)]
        body.append(f"return outputs, {_list(sums)}")
    else:
        takes, doc, found = "p, x", "The outputs for the parameters p and one example x, all flat.", _list(results)
        if kind != "forward":
            takes, doc = "p, x, seed=1.0", "The output for one example x, and its derivative by each number in x."
            found = f"{results[0]}, {_list(results[1:])}"
        body = [*_unpack(graph, "p", "x"), *lines, f"return {found}"]
    return f"def {name_of(kind)}({takes}):\n" + textwrap.indent("\n".join([f'"""{doc}"""', *body]), "    ") + "\n"


class _Writer:
    """The `lines` that compute some ends of a graph.

    `names` has the name of each line of the trace, and of each number of a row, by its array or line and its index.
    """

    def __init__(self, graph: Graph, ends: Ends) -> None:
        self.trace = trace = graph.trace
        self.templates = IEEE_TEMPLATES if trace.ieee else TEMPLATES
        named = {line for line, of in graph.gradients.items() if trace.leaves.get(of, "x")[0] != "p"}
        nodes, added = expressions(trace, ends.returned, ends.added, named=named), scatters(trace, ends.added)
        scattered = {i for *_, row in added for i in row.indices}
        names: dict[Any, str] = {("g", i): f"g[{i}]" if i in scattered else f"g{i}" for i in range(graph.n_parameters)}
        names |= {id: f"{array}{i}" if array != "seed" else array for id, (array, i) in trace.leaves.items()}
        names |= {place: f"{row.array}{place[1]}" for row in trace.slices.values() for place in row.places}
        names |= {id: f"p[{row.base}" for id, row in trace.slices.items()}  # `take_at` adds the index
        self.names = names | {id: signed(repr(number)) for id, number in trace.constants.items()}
        numbers, taken = count(), set[str]()

        def name(node: Node) -> str:
            if node.to:
                return self.names[node.to[:2]]
            of = self.names.get(graph.gradients.get(node.line), "")
            if not of.isidentifier() or of in taken:  # two nodes may have equal data, but each has its gradient
                return f"t{next(numbers)}"
            taken.add(of)
            return f"d{of}"

        forward = [*takewhile(lambda node: not node.to and node.line < graph.forward_end, nodes)]
        self.lines = [*self._computed(forward, name)]
        if backward := nodes[len(forward) :]:
            self.lines += ["# forward ends here, backward begins", *self._computed(backward, name)]
        for i, gradient, row in added:
            self.lines.append(f"add_at({self.names[i]}, g, {row.indices!r}, {self.names[gradient]})")

    def _computed(self, nodes: Iterable[Node], name: Callable[[Node], str]) -> Iterator[str]:
        """What computes nodes, whose results get names."""
        for node in (single for several in nodes for single in several.singly()):
            if node.round:
                yield from self._loop(node)
                continue
            its = name(node)
            if not node.to:
                self.names[node.line] = its
                if node.line in self.trace.items:
                    self.names[self.trace.operands[node.line][0], self.trace.items[node.line]] = its
            parts = [f"+ {its}"] * (node.to is not None) + terms(node, self.names.__getitem__, self.templates)
            while parts:  # a long sum goes on in the next line
                n = 1
                while n < len(parts) and sum(map(len, parts[: n + 1])) <= WIDTH:
                    n += 1
                yield f"{its} = {total(parts[:n])}"
                parts[:n] = [f"+ {its}"] if n < len(parts) else []

    def _loop(self, node: Node) -> Iterator[str]:
        """A loop. A forward loop stores the numbers of each round that the backward loop reads."""
        its, line, names = node.round, node.line, self.names
        assert its
        loop = its.loop
        columns = [*node.columns]
        first = () if loop.is_parallel else columns.pop(0)
        for leaf in (*loop.state, *loop.xs):  # where a loop adds up its x, a sum has taken that name
            names[leaf] = "{}{}".format(*self.trace.leaves[leaf])
        state, xs = [list(map(names.__getitem__, lines)) for lines in (loop.state, loop.xs)]
        outputs, sums = {j: f"y{line}_{j}" for j in its.outputs}, [f"a{line}_{i}" for i in range(len(loop.added))]
        rows = [self._row(column) for column, _ in zip(columns, xs, strict=False)]
        if loop.is_backward:
            rows = [f"reversed({row})" for row in (*rows, f"rounds{loop.forward}")]
            forward = self.trace.loops[loop.forward]
            xs.append(_list(map(names.__getitem__, (*forward.state, *forward.xs, *its.kept))))

        def name(each: Node) -> str:
            key = each.line if isinstance(each.line, tuple) else (each.line,)
            return f"r{'_'.join(map(str, key))}" if not each.to else sums[each.to.base]

        if state:
            yield f"{_list(state)} = {_list(map(names.__getitem__, numbers(first)))}"
        yield from (f"{name} = 0.0" for name in sums)
        is_kept = not loop.is_backward and not loop.is_parallel
        yield from (f"{name} = []" for name in (*outputs.values(), *[f"rounds{line}"] * is_kept))
        yield f"for {', '.join(xs)}, in zip({', '.join(rows)}):" if rows else f"for _ in range({loop.rounds}):"
        if loop.over >= 0 > loop.forward:
            yield f"    if {names[loop.over]}: break"
        yield from indented(self._computed(its.nodes, name) if its.nodes else ["pass"])
        if is_kept:
            yield f"    rounds{line}.append({_list([*state, *xs, *map(names.__getitem__, its.kept)])})"
        yield from (f"    {name}.append({names[its.outputs[j]]})" for j, name in outputs.items())
        if state:
            yield f"    {_list(state)} = {_list(map(names.__getitem__, loop.following))}"
        for of_all in outputs.values() if loop.is_backward else ():
            yield f"{of_all}.reverse()"
            if loop.over >= 0:
                yield f"{of_all} += [0.0] * {loop.rounds}"
        ys = (f"y{line}_{j}[{i}]" for i in range(loop.rounds) for j in range(len(loop.outputs)))
        names.update((item, its) for item, its in zip(node.items, chain(state, sums, ys), strict=True) if item)
        for item in filter(None, node.items[: len(state)]):  # a backward loop computes the forward states again
            yield f"r{item} = {names[item]}"
            names[item] = f"r{item}"

    def _row(self, column: Column) -> str:
        """The numbers of a column as a list."""
        if isinstance(column, Slice):
            return f"{column.array}[{column.base} : {column.indices[-1] + 1} : {column.step}]"
        found = [self.names[each] for each in numbers(column)]
        return f"{_list(found[:1])} * {len(found)}" if len({*found}) == 1 else _list(found)


def _unpack(graph: Graph, *arrays: str) -> list[str]:
    """Lines that give each number in these arrays a name of its own."""
    sizes = {"p": graph.n_parameters, "g": graph.n_parameters, "x": sum(graph.sizes)}
    return [f"{_list(f'{array}{i}' for i in range(sizes[array]))} = {array}" for array in arrays if sizes[array]]


def _list(names: Iterable[str]) -> str:
    return f"[{', '.join(names)}]"
