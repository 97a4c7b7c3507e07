"""Turns an irregular program into one loop over a switch, with places and numbers of rounds in tables.

A triangular solver or an elimination does the same few things to rows of numbers, but the rows differ in length and
begin at uneven distances. So each kind of loop is written once, as a case of a switch. Tables say which case is next,
how many rounds it has, and where its numbers are. The gradient of a Cholesky decomposition of 30 compiles in 0.6 s, and
a call takes 11 us; plain statements take 3.2 s and 7 us.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from micrograd.compiler.frontend.tracer import Slice
from micrograd.compiler.ir import Kernel, Switch
from micrograd.compiler.passes.roll import Bases, advancing, numbered, part
from micrograd.compiler.passes.vectorize import Block, Layout, LoopSteps, by_level, copied

NO_POWER = 9  # a pitch is 9, 18, 36, ...: with 64, not 72, Cholesky of 60 takes 1.4 times as long, by cache conflicts
MOST_ROOM = 6  # places for each number, at most: Cholesky of 60 has 1,539 lines of C; with 3, 2,600; with 1, 16,737


def in_tables(blocks: Sequence[Block], layout: Layout, results: Sequence[int], loop: LoopSteps) -> Kernel:
    """The steps of `by_level`, as cases of a switch. All numbers are in one array; results are copied at the end."""
    steps = by_level(blocks, layout, loop, _pitch(blocks))
    in_y = zip(Slice("y", 0, 1, len(results)).places, map(layout.__getitem__, results), strict=True)
    parts = [part(step, varies=True) for step in (*steps, *copied(in_y, varies=True))]
    rows = defaultdict[Any, list[Bases]](list)  # by their shapes
    for shape, bases in parts:
        rows[shape].append(bases)
    cases = tuple([(advancing(shape, its),) for shape, its in rows.items()])
    return [Switch(tuple(numbered([shape for shape, _ in parts])), cases)]


def _pitch(blocks: Sequence[Block]) -> int:
    """A distance at which blocks can begin, large enough for one if there is room.

    The columns of a triangle get shorter, but if they begin at equal distances, the same loops serve all of them.
    """
    sizes, pitch = [*map(len, blocks)], NO_POWER
    room = MOST_ROOM * sum(sizes)
    while pitch < max(sizes, default=0) and sum(-size // (2 * pitch) * -2 * pitch for size in sizes) <= room:
        pitch *= 2
    return pitch
