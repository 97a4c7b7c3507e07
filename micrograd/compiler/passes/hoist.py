"""Hoisting: what is the same for all examples is computed once, before or after the loop over them.

Lines that depend only on parameters, constants and arguments that all examples share are uniform. They are computed
before the loop, which reads them from the array "h".

A gradient is a sum over examples. Where the backward pass is linear in a number, with uniform factors, it can be
applied once, to the sum over the examples. So the loop only adds up such numbers, in the array "d", and the rest of the
backward pass runs after it. For w = exp(p), the loop adds up the gradient of w, and multiplies the sum by w afterwards;
for weight decay, it adds up the seed: a call of 64-64-64-10 with 256 examples would take 1.13 times as long without.

If a factor is infinite and some examples add 0 times that factor, the gradient is infinite instead of NaN.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from micrograd.compiler.frontend.graph import Ends, Graph, is_linear
from micrograd.compiler.frontend.operations import CONDITIONS
from micrograd.compiler.frontend.tracer import Addition, Slice, Trace

NO_NUMBERS = CONDITIONS | {"stack", "combination", "scatter"}
Part = tuple[Graph, Ends]
"""Some lines of a graph."""


def hoist(graph: Graph, ends: Ends) -> tuple[Part, Part, Part, int] | None:
    """What is computed before the loop over examples, in it, and after it, and the size of "d"; or None if nothing that
    is computed is the same for all examples.

    The first part returns the numbers in "h". The second adds to "d"; the third reads these sums from "h", too.
    """
    trace, uniform = graph.trace, _uniform(graph)
    computed = {line for line in uniform if trace.operands[line] and trace.ops[line] not in NO_NUMBERS}
    computed -= trace.maps.keys()
    zeros = {line for line, number in trace.constants.items() if number == 0}
    # Products with a state that is 0 at first are not held: an LSTM's passes take 0.8 of the time, its steps 1.04
    computed -= {line for line in computed if trace.ops[line] == "*" and not zeros.isdisjoint(trace.operands[line])}
    needed = {*trace.reached(ends.lines, computed.__contains__)} if computed else set()
    held = sorted(needed & computed, key=lambda line: (trace.ops[line], line))  # the same operations side by side
    if not held:
        return None
    each = replace(graph, trace=trace.reopened({line: ("h", i) for i, line in enumerate(held)}))
    ends = Ends(ends.returned, _term_by_term(each.trace, ends.added))
    varying = [line for line in each.trace.live(ends.lines) if line not in uniform]
    moved, read = moved_lines(each.trace, varying, {*ends.returned}, uniform)
    # All numbers are added after the loop: if some were added in it, the others would not be side by side in "d"
    later = [(place, line) for place, line in ends.added if line in moved or not each.trace.size(line)]
    added = sorted({*read, *[line for _, line in later]} - uniform - moved)
    after = replace(each, trace=each.trace.reopened({line: ("h", len(held) + i) for i, line in enumerate(added)}))
    stay = [(Slice("d", i, 1, 1), line) for i, line in enumerate(added)]
    stay += [(place, line) for place, line in ends.added if line not in moved and each.trace.size(line)]
    return (graph, Ends(held)), (each, Ends(ends.returned, stay)), (after, Ends([], later)), len(added)


def _term_by_term(trace: Trace, added: Sequence[Addition]) -> list[Addition]:
    """The same additions, with each term of a combination as a row of its own.

    If uniform terms stayed with others, Newton's direction for 100 means of 1,000 points would take 1.4 times as long.
    """
    found = list[Addition]()
    for place, row in added:
        of = trace.operands[row]
        terms = zip(of[::2], of[1::2], strict=True) if trace.ops[row] == "combination" else ()
        found += [(place, trace.row("combination", term)) for term in terms] or [(place, row)]
    return found


def moved_lines(
    trace: Trace, varying: Sequence[int], needed: set[int], uniform: set[int]
) -> tuple[set[int], list[int]]:
    """The lines that can be computed after a loop, since they are linear and no line that stays in it needs them; and
    the lines that the loop adds up for them. Lines in `needed` stay; other lines that are needed join them.
    """
    ops, operands, found = trace.ops, trace.operands, set[int]()
    for line in reversed(varying):
        if line not in needed and line not in trace.maps and is_linear(trace, line, uniform):
            found.add(line)
        elif ops[line] != "stack":  # it may be recorded after the lines that use it, so its numbers replace it
            for of in operands[line]:
                needed.update(operands[of] if ops[of] == "stack" else (of,))
    moved = {line for line in found if ops[line] != "item" or operands[line][0] in found}
    read = {i for line in moved for i in operands[line]}
    return moved, sorted(read - uniform - moved)


def _uniform(graph: Graph) -> set[int]:
    """The lines that are the same for all examples."""
    trace, of_all = graph.trace, set[tuple[str, int]]()
    for n, end, is_shared in zip(graph.sizes, accumulate(graph.sizes), graph.shared, strict=True):
        of_all.update(("x", i) for i in range(end - n, end) if is_shared)
    varying = {line for line, place in trace.leaves.items() if place[0] != "p" and place not in of_all}
    varying |= {line for line, row in trace.slices.items() if row.array != "p" and not of_all.issuperset(row.places)}
    n = -1
    while n < len(varying):  # again, since a stack may be recorded after the lines that use it
        n, varying = len(varying), trace.dependent(varying)
    return {*range(len(trace.ops))} - varying
