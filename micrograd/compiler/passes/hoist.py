"""Hoisting: what is the same for all examples is computed once, before the loop over them, or after it.

Lines that depend only on parameters, constants and arguments that all examples share are uniform. Those that take time
are computed before the loop, which reads them from the array "h".

A gradient is a sum over examples. Where the backward pass is linear in a number, with uniform factors, the sum of its
results is its result for the sum. So the loop only adds up such numbers, in the array "d", and the rest of the backward
pass is computed after it. For w = exp(p), the loop adds up the gradient of w, which is then multiplied by w; for weight
decay, it adds up the seed.

Where a factor is infinite and some examples would add 0 times it, such a gradient is infinite and not NaN.
"""

import copy
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from micrograd.compiler.frontend.graph import Ends, Graph
from micrograd.compiler.frontend.operations import CONDITIONS
from micrograd.compiler.frontend.tracer import Slice, Trace

FAR = 1 << 40  # where "d" begins in "g", while passes take it for a part of that: no loop goes from one to the other
CHEAP = CONDITIONS | {"+", "-", "*", "neg", "abs", "where", "item"}
COSTLY = 8  # additions that another operation takes as long as
WORTHWHILE = 2  # additions that a held number saves at least, since reading it takes as long as one
ADDED = 3  # additions that adding up a number over lanes takes as long as
NO_NUMBERS = CONDITIONS | {"stack", "axpy", "scatter"}


class Part(NamedTuple):
    """Some lines of a graph."""

    graph: Graph
    ends: Ends


class Hoisted(NamedTuple):
    """What is computed before the loop over examples, for each of them, and after it; and the sizes of "h" and "d".

    `before` returns what is in "h". What `each` adds to "d" is in "g" still, from the index FAR on.
    """

    before: Part
    each: Part
    after: Part
    n_held: int
    n_sums: int


def hoist(graph: Graph, ends: Ends, shared: Sequence[bool] = ()) -> Hoisted | None:
    """The lines of a graph in three parts, or None if nothing that takes time is the same for all examples.

    `shared` says which arguments all examples share.
    """
    trace, live = graph.trace, graph.trace.live(ends.lines)
    uniform = _uniform(graph, live, shared)
    varying = [line for line in live if line not in uniform]
    held = _held(trace, varying, ends.lines, uniform)
    if not held:
        return None
    each = _with_leaves(graph, {line: ("h", i) for i, line in enumerate(held)})
    linear, links = _linear(trace, varying, ends, uniform)
    places, rows, n_sums = _places(trace, linear, links, uniform)
    after = _with_leaves(each, places)
    sums = {}
    for line, (_, i) in places.items():
        if line not in trace.items:
            sums[FAR + i] = each.trace.row("+", (each.trace.leaf("g", FAR + i).id, line))
    now = {i: line for i, line in ends.gradients.items() if line not in linear}
    later = {i: line for i, line in ends.gradients.items() if line in linear}
    rows_later = []
    for place, row in ends.rows:
        chain = _chain(trace, row)
        if row in linear:
            rows_later.append((place, row))
        elif links.isdisjoint(chain):
            rows.append((place, row))
        else:
            rows_later.append((place, _joined(after.trace, [line for line in chain if line in links])))
            others = [line for line in chain if line not in links]
            rows += [(place, _joined(each.trace, others))] if others else []
    return Hoisted(
        Part(graph, Ends(held)),
        Part(each, Ends(ends.returned, now | sums, rows)),
        Part(after, Ends([], later, rows_later)),
        len(held),
        n_sums,
    )


def _uniform(graph: Graph, live: Sequence[int], shared: Sequence[bool]) -> set[int]:
    """The lines that are the same for all examples, among the leaves and those that are needed."""
    trace, of_all = graph.trace, {("x", -1)}
    for n, end, is_shared in zip(graph.sizes, accumulate(graph.sizes), shared, strict=False):
        of_all.update(("x", i) for i in range(end - n, end) if is_shared)
    uniform = {line for line, place in trace.leaves.items() if place[0] == "p" or place in of_all}
    uniform |= {line for line, row in trace.slices.items() if row.array == "p" or of_all.issuperset(row.places)}
    uniform.update(trace.constants)
    for line in live:
        operands = trace.operands[line]
        if uniform.issuperset(operands) or (len(operands) > 2 and uniform.issuperset(_operands(trace, line))):
            uniform.add(line)
    return uniform


def _operands(trace: Trace, line: int) -> list[int]:
    """What a line is computed from: in place of a stack, its numbers, since its own line may come after its uses."""
    return [i for of in trace.operands[line] for i in (trace.operands[of] if trace.ops[of] == "stack" else (of,))]


def _held(trace: Trace, varying: Sequence[int], results: Sequence[int], uniform: set[int]) -> list[int]:
    """The uniform numbers that take time and that other lines need, alike ones next to each other."""
    ops, costs = trace.ops, defaultdict[int, int](int)
    for line in sorted(uniform):
        if trace.operands[line] and ops[line] != "stack":
            costs[line] = min(COSTLY, _cost(trace, line) + sum(map(costs.__getitem__, _operands(trace, line))))
    held, seen = set[int](), set[int]()
    waiting = [*results, *(i for line in varying for i in trace.operands[line])]
    while waiting:
        line = waiting.pop()
        if line in seen or (line not in uniform and ops[line] != "stack"):
            continue
        seen.add(line)
        if ops[line] not in NO_NUMBERS and costs[line] >= WORTHWHILE:
            held.add(line)
        else:
            waiting += trace.operands[line]
    return sorted(held, key=lambda line: (ops[line], line))


def _linear(trace: Trace, varying: Sequence[int], ends: Ends, uniform: set[int]) -> tuple[set[int], set[int]]:
    """The lines that can be computed after the loop: each is linear, and only others of them, or gradients, need it.

    The second set has axpys of the chains that are added to slices of gradients: other links may stay in the loop.
    """
    ops, operands = trace.ops, trace.operands
    uses = Counter([i for line in varying for i in operands[line]] + [row for _, row in ends.rows])
    chains = [_chain(trace, row) for _, row in ends.rows]
    links = {line for chain in chains if all(uses[line] == 1 for line in chain) for line in chain}
    scaled = {line for line in varying if ops[line] == "axpy" and operands[line][2] in uniform}
    scaled -= {line for line in scaled if operands[line][1] in uniform}
    may_move = {line for line in varying if _is_linear(trace, line, uniform)}
    for line in sorted(scaled - links):
        start = operands[line][0]
        if start == trace.nothing or (start in may_move and uses[start] == 1):
            may_move.add(line)
    returned = {*ends.returned, *(row for _, row in ends.rows)} - links

    def moved() -> set[int]:
        found, needed = set[int](), returned.copy()  # in the loop
        for line in reversed(varying):
            if line in links:
                needed.update(() if line in scaled else _operands(trace, line)[1:])
            elif line in may_move and line not in needed:
                found.add(line)
            elif ops[line] != "stack":
                needed.update(_operands(trace, line))
        return found

    may_move -= _better_added_up(trace, moved(), links & scaled, uniform)
    return moved(), links & scaled


def _better_added_up(trace: Trace, linear: set[int], links: set[int], uniform: set[int]) -> set[int]:
    """The lines that take less time if they are added up than if what they are computed from is.

    Lines that several others use are counted in equal shares.
    """
    read = {line: [i for i in trace.operands[line] if i not in uniform] for line in linear}
    begun = {line for line, (array, _) in trace.leaves.items() if array == "g"}
    uses = Counter([i for of in read.values() for i in of] + [trace.operands[line][1] for line in links])
    in_loop: dict[int, float] = {}  # the time that a line takes there, with what it alone needs
    sums: dict[int, float] = {}  # the time to add up what it is computed from after the loop
    for line in sorted(linear):
        of = [i for i in read[line] if i not in begun]
        is_end, is_item = len(of) < len(read[line]), trace.ops[line] == "item"
        time = sum(in_loop.get(i, 0) / uses[i] for i in of) + (0 if is_end else _cost(trace, line))
        apart = sum(sums.get(i, ADDED) / uses[i] for i in of)
        if ADDED + time > apart and not (is_item and of[0] not in sums):
            in_loop[line], sums[line] = time, apart
    return linear - sums.keys()


def _cost(trace: Trace, line: int) -> int:
    """How many additions an operation takes as long as."""
    op, operands = trace.ops[line], trace.operands[line]
    return 2 * trace.size(operands[2]) if op in ("dot", "axpy") else 1 if op in CHEAP else COSTLY


def _is_linear(trace: Trace, line: int, uniform: set[int]) -> bool:
    """Whether an operation on numbers is linear in those that vary."""
    op, operands = trace.ops[line], trace.operands[line]
    varies = [i not in uniform for i in operands]
    match op:
        case "*":
            return sum(varies) == 1
        case "/":
            return not varies[1]
        case "where" if not varies[0]:
            operands = operands[1:]
        case "neg" | "item":
            return True
        case "+" | "-":
            pass
        case _:
            return False
    return all(i not in uniform or trace.constants.get(i) == 0 for i in operands)


def _places(
    trace: Trace, linear: set[int], links: set[int], uniform: set[int]
) -> tuple[dict[int, tuple[str, int]], list[tuple[Slice, int]], int]:
    """Where in "d" the numbers are that are added up, the rows that are added up as a whole, and the size of "d"."""
    read = [i for line in linear for i in trace.operands[line]] + [trace.operands[line][1] for line in links]
    begun = {line for line, (array, _) in trace.leaves.items() if array == "g"}
    places: dict[int, tuple[str, int]] = {}
    rows: dict[int, Slice] = {}
    n = 0
    for line in sorted({*read} - uniform - linear - begun):
        if line not in trace.items:
            places[line] = "d", n
            n += 1
            continue
        row = trace.operands[line][0]
        if row not in rows:
            rows[row] = Slice("g", FAR + n, 1, trace.size(trace.operands[row][2]))
            n += rows[row].size
        places[line] = "d", rows[row].base - FAR + trace.items[line]
    return places, [(place, row) for row, place in rows.items()], n


def _chain(trace: Trace, row: int) -> list[int]:
    """The lines of the axpys and scatters that a row adds up, the last one first."""
    found = []
    while row != trace.nothing:
        found.append(row)
        row = trace.operands[row][0]
    return found


def _joined(trace: Trace, chain: Sequence[int]) -> int:
    """The line of a chain of the same axpys and scatters."""
    row = trace.nothing
    for line in reversed(chain):
        row = trace.row(trace.ops[line], (row, *trace.operands[line][1:]))
    return row


def _with_leaves(graph: Graph, places: dict[int, tuple[str, int]]) -> Graph:
    """A copy of the graph, in whose trace these lines are leaves; others can be appended."""
    graph, trace = copy.copy(graph), copy.copy(graph.trace)
    trace.ops, trace.operands = trace.ops.copy(), trace.operands.copy()
    trace.leaves, trace.items = trace.leaves | places, {i: n for i, n in trace.items.items() if i not in places}
    trace._known = defaultdict(dict)
    for line in places:
        trace.ops[line], trace.operands[line] = "leaf", ()
    graph.trace = trace
    return graph
