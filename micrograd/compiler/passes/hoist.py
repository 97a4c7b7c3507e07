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


Chains = dict[int, tuple[list[int], list[int]]]
"""Rows, and the lines of their links, the last one first: those that are moved out of the loop, and the others."""


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
    trace, uniform = graph.trace, _uniform(graph, shared)
    costly = _costly(trace, uniform)
    if not costly:
        return None
    reached = _reached(trace, ends.lines, costly)
    held = sorted(reached & costly, key=lambda line: (trace.ops[line], line))  # alike ones next to each other
    varying = sorted(line for line in reached - uniform if trace.operands[line])
    if not held:
        return None
    linear, chains = _linear(trace, varying, ends, uniform)
    numbers, rows, n_sums = _summed(trace, linear, chains, uniform, {row for _, row in ends.rows})
    each = _with_leaves(graph, {line: ("h", i) for i, line in enumerate(held)})
    after = _with_leaves(each, numbers)
    now, rows_now = {i: line for i, line in ends.gradients.items() if line not in linear}, []
    later, rows_later = {i: line for i, line in ends.gradients.items() if line in linear}, []
    for line, (_, i) in numbers.items():
        if line not in trace.items:
            now[FAR + i] = each.trace.row("+", (each.trace.leaf("g", FAR + i).id, line))
    for row, place in rows.items():
        if row in chains:
            moved, others = chains[row]
            of_sum = after.trace.slice("d", place.base - FAR, 1, place.size)
            after.trace.ops[others[0]], after.trace.operands[others[0]] = "axpy", (0, after.trace.id(1.0), of_sum)
            _relink(after.trace, sorted((others[0], *moved), reverse=True))
            rows_now.append((place, _relink(each.trace, others)))
        else:
            rows_now.append((place, row))
    for place, row in ends.rows:
        moved, others = chains.get(row, ([], _links(trace, row)))
        rows_now += [(place, _relink(each.trace, others))] * bool(others)
        rows_later += [(place, _relink(after.trace, moved))] * bool(moved)
    return Hoisted(
        Part(graph, Ends(held)),
        Part(each, Ends(ends.returned, now, rows_now)),
        Part(after, Ends([], later, rows_later)),
        len(held),
        n_sums,
    )


def _uniform(graph: Graph, shared: Sequence[bool]) -> set[int]:
    """The lines that are the same for all examples."""
    trace, of_all = graph.trace, {("x", -1)}
    for n, end, is_shared in zip(graph.sizes, accumulate(graph.sizes), shared, strict=False):
        of_all.update(("x", i) for i in range(end - n, end) if is_shared)
    uniform = {line for line, place in trace.leaves.items() if place[0] == "p" or place in of_all}
    uniform |= {line for line, row in trace.slices.items() if row.array == "p" or of_all.issuperset(row.places)}
    uniform.update(trace.constants)

    def is_uniform(row: int) -> bool:
        return row in uniform or (trace.ops[row] == "stack" and uniform.issuperset(trace.operands[row]))

    for line, operands in enumerate(trace.operands):
        if uniform.issuperset(operands):
            uniform.update([line] if operands else ())
        elif trace.ops[line] in ("dot", "axpy") and all(map(is_uniform, operands)):
            uniform.add(line)  # the line of a stack may come after its uses
    return uniform


def _operands(trace: Trace, line: int) -> list[int]:
    """What a line is computed from: in place of a stack, its numbers, since its own line may come after its uses."""
    return [i for of in trace.operands[line] for i in (trace.operands[of] if trace.ops[of] == "stack" else (of,))]


def _costly(trace: Trace, uniform: set[int]) -> set[int]:
    """The uniform numbers that take time, with what they are computed from."""
    times = defaultdict[int, int](int)
    for line in sorted(uniform):
        if trace.operands[line] and trace.ops[line] != "stack":
            times[line] = min(COSTLY, _cost(trace, line) + sum(map(times.__getitem__, _operands(trace, line))))
    return {line for line, time in times.items() if time >= WORTHWHILE and trace.ops[line] not in NO_NUMBERS}


def _reached(trace: Trace, results: Sequence[int], costly: set[int]) -> set[int]:
    """The lines that results need, up to those that are held."""
    found = set(results)
    waiting = [*found]
    while waiting:
        if (line := waiting.pop()) not in costly:
            new = set(trace.operands[line]) - found
            waiting += new
            found |= new
    return found


def _linear(trace: Trace, varying: Sequence[int], ends: Ends, uniform: set[int]) -> tuple[set[int], Chains]:
    """The numbers that can be computed after the loop, and the rows of which parts can be.

    They are linear, and only others of them, or gradients, need them.
    """
    ops, operands = trace.ops, trace.operands
    chains = _chains(trace, varying, ends, uniform)
    top = {line: row for row, parts in chains.items() for part in parts for line in part}
    scaled = {line for moved, _ in chains.values() for line in moved}
    linear = {line for line in varying if _is_linear(trace, line, uniform)}
    linear -= {line for line in linear if line in trace.items and operands[line][0] not in chains}

    def moved() -> set[int]:
        found, needed = set[int](), {*ends.returned, *(row for _, row in ends.rows)} - chains.keys()  # in the loop
        for line in reversed(varying):
            if line in top and top[line] not in needed:
                needed.update(() if line in scaled else _operands(trace, line)[1:])
            elif line in linear and line not in needed:
                found.add(line)
            elif ops[line] != "stack":
                needed.update(_operands(trace, line))
        for row in needed.intersection(chains):
            del chains[row]
        return {line for line in found if line not in trace.items or operands[line][0] in chains}

    linear = _better_added_up(trace, moved(), chains, uniform)
    return moved(), chains


def _chains(trace: Trace, varying: Sequence[int], ends: Ends, uniform: set[int]) -> Chains:
    """The rows, added to gradients or used by items alone, that add up uniform rows times varying numbers."""
    uses = Counter([i for line in varying for i in trace.operands[line]] + [row for _, row in ends.rows])
    items = Counter([trace.operands[line][0] for line in varying if line in trace.items])
    found: Chains = {}
    for row in {row for _, row in ends.rows if uses[row] == 1}.union(row for row, n in items.items() if uses[row] == n):
        links = _links(trace, row)
        parts: tuple[list[int], list[int]] = [], []
        for line in links:
            _, number, other, *_ = trace.operands[line]
            is_scaled = trace.ops[line] == "axpy" and other in uniform and number not in uniform
            parts[not is_scaled].append(line)
        if parts[0] and all(uses[line] == 1 for line in links[1:]):
            found[row] = parts
    return found


def _better_added_up(trace: Trace, linear: set[int], chains: Chains, uniform: set[int]) -> set[int]:
    """The linear lines without those that take less time to add up than what they are computed from.

    Lines that several others use are counted in equal shares.
    """
    begun = {line for line, (array, _) in trace.leaves.items() if array == "g"}
    read = {line: [i for i in trace.operands[line] if i not in uniform] for line in linear}
    read |= {row: [trace.operands[line][1] for line in moved] for row, (moved, _) in chains.items()}
    uses = Counter(i for of in read.values() for i in of)
    in_loop: dict[int, float] = {}  # the time that a line takes there, with what it alone needs
    sums: dict[int, float] = {}  # the time to add up what it is computed from after the loop
    for line in sorted(read):
        of = [i for i in read[line] if i not in begun]
        time, apart = sum(in_loop.get(i, 0) / uses[i] for i in of), sum(sums.get(i, ADDED) / uses[i] for i in of)
        if line in chains:
            moved, others = chains[line]
            size = trace.size(trace.operands[line][-1])
            time, apart = time + 2 * size * len(moved), apart + ADDED * size * bool(others)
        elif len(of) == len(read[line]):
            time += _cost(trace, line)
        if line in chains or ADDED + time > apart:
            in_loop[line], sums[line] = time, apart
    return linear & sums.keys()


def _cost(trace: Trace, line: int) -> int:
    """How many additions an operation takes as long as."""
    op, operands = trace.ops[line], trace.operands[line]
    return 2 * trace.size(operands[-1]) if op in ("dot", "axpy") else 1 if op in CHEAP else COSTLY


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


def _summed(
    trace: Trace, linear: set[int], chains: Chains, uniform: set[int], added: set[int]
) -> tuple[dict[int, tuple[str, int]], dict[int, Slice], int]:
    """Where in "d" the numbers are that are added up, the rows that are added up as a whole, and the size of "d".

    Of a row that is moved in part, this is the sum of the other links, unless it is `added` to gradients.
    """
    read = [i for line in linear for i in trace.operands[line]]
    read += [trace.operands[line][1] for moved, _ in chains.values() for line in moved]
    begun = {line for line, (array, _) in trace.leaves.items() if array == "g"}
    lines = sorted({*read} - uniform - linear - begun - chains.keys())
    whole = {trace.operands[line][0] for line in lines if line in trace.items}
    numbers, rows, n = dict[int, tuple[str, int]](), dict[int, Slice](), 0
    for row in sorted(whole.union(row for row, (_, others) in chains.items() if others and row not in added)):
        rows[row] = Slice("g", FAR + n, 1, trace.size(trace.operands[row][-1]))
        n += rows[row].size
    for line in lines:
        if line in trace.items:
            numbers[line] = "d", rows[trace.operands[line][0]].base - FAR + trace.items[line]
        else:
            numbers[line], n = ("d", n), n + 1
    return numbers, rows, n


def _links(trace: Trace, row: int) -> list[int]:
    """The lines of the axpys and scatters that a row adds up, the last one first."""
    found = []
    while row != trace.nothing:
        found.append(row)
        row = trace.operands[row][0]
    return found


def _relink(trace: Trace, links: Sequence[int]) -> int:
    """Let these lines, the last one first, add up a row; returns its line."""
    row = trace.nothing
    for line in reversed(links):
        trace.operands[line] = (row, *trace.operands[line][1:])
        row = line
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
