"""From a trace to a kernel: `program` calls the passes, each a function, in order. lower.py has the passes for C."""

import math
from collections.abc import Iterator, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

from micrograd.compiler.frontend.graph import Ends, Graph
from micrograd.compiler.frontend.tracer import Slice
from micrograd.compiler.ir import Call, Kernel, Ref, Scatter, length
from micrograd.compiler.passes.expressions import Node, expressions, scatters
from micrograd.compiler.passes.fuse import fuse
from micrograd.compiler.passes.hoist import hoist
from micrograd.compiler.passes.roll import reroll
from micrograd.compiler.passes.rounds import steps_of
from micrograd.compiler.passes.sums import in_steps
from micrograd.compiler.passes.tables import in_tables
from micrograd.compiler.passes.vectorize import Layout, Place, by_level, copied, in_levels, in_trace_order

ORDERS = ("level", "trace", "tables")  # tried in turn while the kernel is long
"""Without trace order, the Hessian of predators has 8 times as many lines of C; without tables, LU of 30 has 5."""
MANY_CONSTANTS = 8  # above which they are kept in a table: with 32, a GPT of 9 tokens has 750 lines, not 725
MANY_LINES = 1000  # of a kernel, above which the other order is tried, too; a program with more expressions is long
FEW_LOOPS = 0.1  # lines per expression, above which most are outside loops
"""If all orders were always tried, the passes of GPTs, LSTMs and convolutions would take 1.7 times as long."""
SMALL_BLOCKS = 2  # average number of like operations on a level, below which a program counts as sequential
"""At 1, the gradient of predators and prey has 185 lines, not 155."""
LARGE_BLOCKS = 6  # above which trace order is not tried: Cholesky of 60 then compiles in 4.4 s, not 6.8
"""The Hessian of predators and prey has 5.5, and is shortest in trace order."""


class Program(NamedTuple):
    """A kernel for some lines of a graph, the numbers in its table of constants, and the size of its array y.

    `passes` has the kernel after each pass.

    A hoisted program (hoist.py) has two others, which run `before` the loop over examples and `after` it.
    """

    kernel: Kernel
    constants: list[float]
    n_results: int
    graph: Graph
    passes: dict[str, Kernel]
    before: "Program | None" = None
    after: "Program | None" = None
    n_sums: int = 0  # numbers that are added up in the array "d"


def program(graph: Graph, ends: Ends, *, triangles: bool = False) -> Program:
    """The program for some lines of a graph: what is returned goes to the array "y", the rest is added to "g".

    With `triangles`, one loop runs over all rows of a triangle (triangles.py).
    """
    trace, results = graph.trace, ends.returned
    nodes = expressions(trace, results, ends.added, backward=graph.forward_end)
    leaves: dict[Any, Place] = dict(trace.leaves)
    leaves |= {line: (f"&{row.array}", row.base) for line, row in trace.slices.items()}  # for `take_at`
    leaves |= {id: (f"={float(number)!r}", 0) for id, number in trace.constants.items()}
    constants, places = _constants(graph, nodes, results)
    passes, layout = _passes(nodes, leaves | places, results, graph.forward_end, triangles)
    kernel = passes["roll"]
    scattered = [(row, Ref(*layout[index]), Ref(*layout[number])) for index, number, row in scatters(trace, ends.added)]
    kernel += reroll([Scatter(Ref("g", row.base, (row.step,)), row.size, *of) for row, *of in scattered])
    return Program(kernel, constants, len(results), graph, passes)


def program_for_many(graph: Graph, ends: Ends) -> Program:
    """The program for many examples, hoisted if something is the same for all."""
    if (found := hoist(graph, ends)) is None:
        return program(graph, ends, triangles=True)
    before, each, after, n_sums = found
    return program(*each, triangles=True)._replace(before=program(*before), after=program(*after), n_sums=n_sums)


def _passes(
    nodes: Sequence[Node], leaves: dict[Any, Place], results: Sequence[int], backward: int, triangles: bool
) -> tuple[dict[str, Kernel], Layout]:
    """The kernel for the nodes after each pass, level by level or in trace order, and the places of their lines.

    Trace order is tried first for long sequential programs, where few like operations share a level. If the first
    kernel is long, the other order is tried as well, then loops over tables, and the shortest kernel wins.
    """
    levels, in_y = in_levels(nodes), Slice("y", 0, 1, len(results)).places
    block_size = len(nodes) / max(1, len(levels))
    is_sequential = len(nodes) > MANY_LINES and block_size < SMALL_BLOCKS
    short_enough = max(0 if is_sequential else MANY_LINES, len(nodes) * FEW_LOOPS)
    found: list[tuple[int, dict[str, Kernel], Layout]] = []
    for order in sorted(ORDERS, key="trace".__ne__) if is_sequential else ORDERS:
        if found and order == "trace" and block_size > LARGE_BLOCKS:
            continue
        places = {} if order == "tables" else dict(zip(results, in_y, strict=True))
        layout = Layout(places | leaves, triangles=triangles)
        if order == "level":
            blocks = by_level(levels, layout, steps_of)
            fused = fuse(blocks)
            passes = {"level blocks": blocks, "fuse": fused, "roll": reroll(fused)}
        elif order == "trace":
            passes = {"roll": in_trace_order(nodes, layout, steps_of)}
        else:
            passes = {"roll": in_tables(in_levels(nodes, backward), layout, results, steps_of)}
        if order != "tables":
            passes["roll"] += copied(zip(in_y, map(layout.__getitem__, results), strict=True))
        lines = length(in_steps(passes["roll"]))
        found.append((lines, passes, layout))
        if lines <= short_enough:
            break
    return min(found, key=itemgetter(0))[1:]


def _constants(graph: Graph, nodes: list[Node], lines: Sequence[int]) -> tuple[list[float], dict[Any, Place]]:
    """The numbers in a table of constants, so that loops can run over them, and the places of lines in it.

    A column that a loop reads round by round, or that a `take` chooses from, is stored there as it is if all of it is
    constant: nodes then read its places. Other constants follow, unless they are few: first whole numbers in ascending
    order, then the rest in order of first use.
    """
    numbers, table, tables = graph.trace.constants, list[float](), dict[Any, Any]()

    def tabled(column: Any) -> Any:
        """The places of a column in the table, or the column itself if it is not stored there as it is."""
        may_be = type(column) is tuple and len(column) > MANY_CONSTANTS and column not in tables
        if may_be and len({*column}) > 1 and numbers.keys() >= {*column}:
            tables[column] = (*Slice("c", len(table), 1, len(column)).places,)
            table.extend(map(numbers.__getitem__, column))
        return tables.get(column, column)

    every = [*_every(nodes)]
    for its, i in every:
        node = its[i]
        if node.round:
            its[i] = node._replace(columns=tuple(map(tabled, node.columns)))
        elif isinstance(node.form, Call) and node.form.op == "take" and not node.size:
            at, column = 1 - len(node.form.operands), node.columns[0]
            its[i] = node._replace(columns=((*column[:at], *tabled(column[at:])),))
    read = sorted([its[i] for its, i in every], key=lambda node: node.round is not None)
    others = dict.fromkeys([column for node in read for column in node.columns if type(column) is tuple])
    used = dict.fromkeys(filter(numbers.__contains__, chain(*others, lines)))
    ordered = sorted(used, key=lambda id: numbers[id] if float(numbers[id]).is_integer() else math.inf)
    places: dict[Any, Place] = {place: place for each in tables.values() for place in each}
    if len(ordered) > MANY_CONSTANTS:
        places |= zip(ordered, Slice("c", len(table), 1, len(ordered)).places, strict=True)
        table += map(numbers.__getitem__, ordered)
    return table, places


def _every(nodes: list[Node]) -> Iterator[tuple[list[Node], int]]:
    """For each node, those in the rounds of loops included, the list that has it and its index in that list."""
    for i, node in enumerate(nodes):
        yield nodes, i
        if node.round:
            yield from _every(node.round.nodes)
