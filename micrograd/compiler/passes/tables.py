"""Tables: irregular code as loops that look up where their numbers are.

A program such as a triangular solver or an elimination does the same thing to many numbers that are not evenly spaced,
and its sums have all lengths. As plain statements, it is slow to compile: gcc takes 3.1 s for the gradient of a
Cholesky decomposition of 30, and a call takes 75 us. As loops over tables, gcc takes 1.2 s, and a call 85 us.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Sequence
from itertools import compress, islice
from typing import Any

from micrograd.compiler.ir import Call, Kernel, Loop, Offsets, Step, length
from micrograd.compiler.passes.expressions import Node
from micrograd.compiler.passes.sums import in_steps
from micrograd.compiler.passes.vectorize import (
    Bases,
    Layout,
    Levels,
    LoopSteps,
    by_kind,
    even,
    placed,
    references,
    step_of,
)

FEW_TERMS = 2  # of a sum that stays whole, each a number, a product or a loop: if none does, LU of 30 has 8% more steps


def in_tables(levels: Levels, layout: Layout, results: Sequence[int], loop: LoopSteps) -> Kernel:
    """The steps of `by_level`, in fewer loops: indices that do not advance evenly are in tables.

    All numbers are in one array; results are copied at the end.
    """
    steps: Kernel = []
    for block in placed(levels.blocks(), layout, in_one=True):
        steps += loop(block[0], layout) if block[0].round else _by_table(block, layout)
    copies: dict[Any, list[Bases]] = defaultdict(list)
    for i, line in enumerate(results):
        array, base = layout[line]
        if array != "y":
            copies[(), "y", (("+", (array,), 1, ()),), ()].append((i, base))
            layout[line] = "y", i
    return steps + [_in_one_loop(kind, rows) for kind, rows in copies.items()]


def _by_table(block: Sequence[Node], layout: Layout) -> Kernel:
    """Steps for a block, with tables if that makes them fewer.

    Irregular sums are added up together: the first term of each, then another of each, and so on.
    """
    is_apart = [_is_irregular(node, layout) for node in block]
    found = by_kind([node for node, apart in zip(block, is_apart, strict=True) if not apart], layout, _loops)
    terms = _terms_apart(list(compress(block, is_apart)), layout)
    found += [_in_one_loop(kind, rows) for kind, rows in terms]
    return min(by_kind(block, layout), found, key=lambda kernel: length(in_steps(kernel)))


def _loops(kind: Any, rows: Sequence[Bases]) -> Kernel:
    """Steps of a kind, in one loop if that is possible."""
    loops = even(kind, rows)
    return [_in_one_loop(kind, rows)] if len(loops) > 1 and _is_flat(*kind) else loops


def _is_flat(form: Any, target: str, shape: Any, row: Any) -> bool:
    """Whether a step of this kind has no inner loops and adds to no gradient."""
    return target != "g" and not row and (isinstance(form, Call) or all(rounds == 1 for _, _, rounds, _ in shape))


def _is_irregular(node: Node, layout: Layout) -> bool:
    """Whether a node is a sum of several terms outside any loop that can be added up in place, one by one."""
    if isinstance(node.form, Call) or node.form[0][0] == ">" or node.parameter >= 0 or node.size:
        return False
    ((kind, _),) = references(node, layout)
    return len(kind[2]) > FEW_TERMS


def _terms_apart(sums: Sequence[Node], layout: Layout) -> Iterator[tuple[Any, list[Bases]]]:
    """The terms of sums, by kind: all of one kind that can be added now, then all of another, until none are left."""
    waiting = [deque(_terms_of(node, layout)) for node in sums]
    while waiting := list(filter(None, waiting)):
        ((kind, _),) = Counter(terms[0][0] for terms in waiting).most_common(1)
        rows: list[Bases] = []
        while ready := [terms for terms in waiting if terms and terms[0][0] == kind]:
            rows += [terms.popleft()[1] for terms in ready]
        yield kind, rows


def _terms_of(node: Node, layout: Layout) -> Iterator[tuple[Any, Bases]]:
    """Each term of a sum, as the kind of the step that adds it to those before, and the bases of its references."""
    target, base = layout[node.line]
    form: Any = node.form
    columns = iter(node.columns)
    so_far: tuple[Any, ...] = ()
    for sign, n, _ in form:
        for places in zip(*map(layout.places, islice(columns, n)), strict=True):
            arrays, bases = zip(*places, strict=True)
            yield ((), target, (*so_far, (sign, arrays, 1, ())), ()), (base, *[base] * len(so_far), *bases)
            so_far = (("+", (target,), 1, ()),)


def _in_one_loop(kind: Any, rows: Sequence[Bases]) -> Step:
    """A loop over the steps of one kind, or the step itself if there is only one."""
    if len(rows) == 1:
        return step_of(kind, rows[0], None)
    return Loop(len(rows), (step_of(kind, rows[0], [_stride(indices) for indices in zip(*rows, strict=True)]),))


def _stride(indices: Sequence[int]) -> int | Offsets:
    """The distance between two of these indices, if it is always the same; otherwise their distances to the first."""
    offsets = tuple([index - indices[0] for index in indices])
    step = offsets[1]
    return step if offsets == tuple([i * step for i in range(len(offsets))]) else offsets
