"""From a trace to a kernel: each pass is a function, in the order of `program`. lower.py has the passes for C."""

import math
from collections.abc import Iterator, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

from micrograd.compiler.frontend.graph import Ends, Graph
from micrograd.compiler.frontend.tracer import Slice
from micrograd.compiler.ir import Kernel, Ref, Scatter, length
from micrograd.compiler.passes.expressions import Node, expressions, scatters
from micrograd.compiler.passes.fuse import fuse
from micrograd.compiler.passes.hoist import hoist
from micrograd.compiler.passes.roll import reroll, reroll_all
from micrograd.compiler.passes.rounds import steps_of
from micrograd.compiler.passes.sums import in_steps
from micrograd.compiler.passes.tables import in_tables
from micrograd.compiler.passes.vectorize import Layout, Place, by_level, copied, in_levels, in_trace_order

ORDERS = ("level", "trace", "tables")  # which are tried while a kernel is long
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
    """A kernel, the numbers in its table of constants, and the sizes of its array y and its arguments.

    `passes` has the kernel after each pass.

    A hoisted program (hoist.py) has two others, which run `before` the loop over examples and `after` it.
    """

    kernel: Kernel
    constants: list[float]
    n_results: int
    sizes: list[int]
    passes: dict[str, Kernel]
    before: "Program | None" = None
    after: "Program | None" = None
    n_sums: int = 0  # numbers that are added up in the array "d"


def program(graph: Graph, ends: Ends, *, lanes: bool = False) -> Program:
    """The program for some lines of a graph: what is returned goes to the array "y", the rest is added to "g".

    With `lanes`, it is for many examples at once: a loop then takes little longer than its statements one by one.
    """
    trace, results = graph.trace, ends.returned
    lines = [*results, *ends.gradients.values()]
    nodes = expressions(trace, lines, ends.rows, backward=graph.forward_end)
    leaves: dict[int, Place] = dict(trace.leaves)
    leaves |= {line: (f"&{row.array}", row.base) for line, row in trace.slices.items()}  # for `take_at`
    leaves |= {id: (f"={float(number)!r}", 0) for id, number in trace.constants.items()}
    table, tables = _constants(graph, nodes, lines)
    constants = [trace.constants[id] for id in table]
    leaves |= {id: ("c", i) for i, id in enumerate(table)}
    for column in tables:
        tables[column] = Slice("c", len(constants), 1, len(column))
        constants += map(trace.constants.__getitem__, column)
    leaves |= {place: place for place in chain(*[table.places for table in tables.values()])}
    _take_from(tables, nodes)
    passes, layout = _passes(nodes, leaves, results, tables, graph.forward_end, lanes)
    kernel = passes["roll"]
    kernel += reroll(
        [
            Scatter(Ref("g", row.base, (row.step,)), row.size, Ref(*layout[index]), Ref(*layout[gradient]))
            for index, gradient, row in scatters(trace, ends.rows)
        ]
    )
    return Program(kernel, constants, len(results), graph.sizes, passes)


def program_for_many(graph: Graph, ends: Ends, shared: Sequence[bool] = ()) -> Program:
    """The program for many examples, hoisted if something is the same for all: `shared` says which arguments are."""
    if (found := hoist(graph, ends, shared)) is None:
        return program(graph, ends, lanes=True)
    before, each, after, n_sums = found
    return program(*each, lanes=True)._replace(before=program(*before), after=program(*after), n_sums=n_sums)


def _passes(
    nodes: Sequence[Node], leaves: dict[int, Place], results: Sequence[int], tables: dict[Any, Slice], backward: int,
    lanes: bool,
) -> tuple[dict[str, Kernel], Layout]:  # fmt: skip
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
        layout = Layout(places | leaves, tables=tables, lanes=lanes)
        if order == "level":
            blocks = by_level(levels, layout, steps_of)
            fused = fuse(blocks)
            passes = {"level blocks": blocks, "fuse": fused, "roll": reroll_all(fused) if lanes else reroll(fused)}
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


def _constants(graph: Graph, nodes: Sequence[Node], lines: Sequence[int]) -> tuple[list[int], dict[Any, Any]]:
    """The constants that go into a table, so that loops can run over them: none, if they are few.

    Whole numbers come first, in ascending order; the others in order of first use. What a loop reads round by round, or
    a `take` chooses from, goes there as it is, if all of it is constant.
    """
    numbers, every = graph.trace.constants, list(_every(nodes))
    read: list[Any] = [column for node in every if node.round for column in node.columns if type(column) is tuple]
    read += [node.taken for node in every if node.taken]
    tables = dict.fromkeys(
        each for each in read if len(each) > MANY_CONSTANTS and len({*each}) > 1 and numbers.keys() >= {*each}
    )
    others = [each for each in read if each not in tables]
    columns = [
        column[: -len(node.taken)] if node.taken in tables else column
        for node in every if not node.round for column in node.columns if type(column) is tuple
    ]  # fmt: skip
    used = dict.fromkeys(filter(numbers.__contains__, chain(*columns, *others, lines)))
    ordered = sorted(used, key=lambda id: numbers[id] if float(numbers[id]).is_integer() else math.inf)
    return ordered if len(ordered) > MANY_CONSTANTS else [], tables


def _take_from(tables: dict[Any, Slice], nodes: list[Node]) -> None:
    """Let each `take` that chooses from a table read the places there, which are leaves, in place of its lines."""
    for i, node in enumerate(nodes):
        if node.round:
            _take_from(tables, node.round.nodes)
        elif node.taken in tables:
            column: Any = (*node.columns[0][: -len(node.taken)], *tables[node.taken].places)
            nodes[i] = node._replace(columns=(column,))


def _every(nodes: Sequence[Node]) -> Iterator[Node]:
    """The nodes, and those in the rounds of loops."""
    for node in nodes:
        yield node
        if node.round:
            yield from _every(node.round.nodes)
