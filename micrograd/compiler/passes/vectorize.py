"""Loops from the dependence graph: similar expressions that do not depend on one another are brought together.

Expressions with the same operation on one level of the graph (as soon as their operands are computed) make a block. Its
results are adjacent, in the order of the trace, so that what reads them can advance evenly, too. Within a block,
expressions of one kind that read the same arrays roll into loops, in whatever order the program computed them. A
computed row, a block of operations and the terms of a sum become loops in the same way: what they read is in columns,
and a column that does not advance evenly is divided into stretches that do.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice, repeat
from operator import sub
from typing import Any

from micrograd.compiler.frontend.tracer import Slice
from micrograd.compiler.ir import ADDED_TO, Accumulate, Assign, Call, Kernel, Loop, Ref, Skip, Sum, Term
from micrograd.compiler.passes.expressions import Column, Node, Run, length
from micrograd.compiler.passes.roll import FEWEST_ROUNDS, Part, part, repeats, reroll, roll, rolled, step_of
from micrograd.compiler.passes.triangles import gaps, in_rows

Place = tuple[str, int]
"""An array and an index."""
Block = list[Node]
"""Nodes that share an operation, and do not depend on one another."""

SHORT = range(2, FEWEST_ROUNDS)  # sizes of columns too short for a loop

LoopSteps = Callable[[Node, "Layout"], Kernel]


class Layout(dict[Any, Place]):
    """The place of each line: at first, of leaves and results only. `rows` has the places of nodes that are rows.

    Names of arrays for other lines begin with `prefix`. For each forward loop, `kept` has the places of what its
    backward loop reads, in the order of the rounds; in the round of a loop, `keeps` has the array of each line that
    its backward loop reads. With `triangles`, rows of a triangle begin at even distances.
    """

    def __init__(self, places: dict[Any, Place], prefix: str = "t", *, triangles: bool = False) -> None:
        super().__init__(places)
        self.prefix, self.triangles = prefix, triangles
        self.rows: dict[int, Slice] = {}
        self.kept: dict[int, dict[int, Slice]] = {}
        self.keeps: dict[int, str] | None = None
        self.shapes: dict[Any, Any] = {}  # of steps, by what they are made of
        self._known: dict[Column, Slice | None] = {}  # what `whole` returns for each column

    def places(self, column: Column) -> list[Place]:
        """Where the numbers of a column are."""
        return self._in_array(column).places if isinstance(column, Slice) else [self[number] for number in column]

    def _in_array(self, column: Slice) -> Slice:
        """A slice of an array or a row, as one of an array."""
        if (row := self.rows.get(column.array)) is None:
            return column
        return Slice(row.array, row.base + column.base * row.step, column.step * row.step, column.size)

    def start(self, column: Column) -> int:
        """The index of the first number of a column."""
        return self._in_array(column).base if isinstance(column, Slice) else self[column[0]][1]

    def whole(self, column: Column) -> Slice | None:
        """A column as a slice of an array, if it has a single number, or enough for a loop, evenly apart."""
        if isinstance(column, Slice):
            return None if column.size in SHORT else self._in_array(column)
        if len(column) < FEWEST_ROUNDS:
            return Slice(*self[column[0]], 0, 1) if len(column) == 1 else None
        if column not in self._known:  # all neurons of a layer read the same one
            arrays, bases = zip(*map(self.__getitem__, column), strict=True)
            steps = {*map(sub, bases[1:], bases)}
            is_even = len({*arrays}) == len(steps) == 1
            self._known[column] = Slice(arrays[0], bases[0], sum(steps), len(bases)) if is_even else None
        return self._known[column]

    def stretches(self, columns: Sequence[Column], size: int, items: Sequence[Any] = ()) -> Iterator[list[Any]]:
        """The parts of columns that advance evenly, and numbers on their own: each column's as a tuple like a Slice.

        A column with a single number is one number for all. Numbers whose `items` are None are left out.
        """
        whole = [*map(self.whole, columns)]
        if None not in whole and None not in items:  # as most do
            yield whole
            return
        of_each = [*map(self.places, columns)]
        places = zip(*[of * size if len(of) == 1 else of for of in of_each], strict=True)
        if size in SHORT and not items:
            yield from ([(*place, 0, 1) for place in each] for each in places)
            return
        arrays, indices = zip(*[zip(*each, strict=True) for each in places], strict=True)
        kinds = [item is not None and kind for item, kind in zip(items, arrays, strict=True)] if items else arrays
        for i, _, n in repeats(kinds, indices, 1):
            if kinds[i]:
                steps = map(sub, indices[i + 1], indices[i]) if n > 1 else repeat(0)
                yield [*zip(arrays[i], indices[i], steps, repeat(n), strict=False)]


def in_levels(nodes: Sequence[Node], backward: float = math.inf) -> list[Block]:
    """Blocks of nodes that can be computed together, level by level. A node is one level above its highest operand.

    From the line `backward` on, nodes are on their latest level. In an elimination, a level then has a column, as in
    the forward pass. With earliest levels, it would have a diagonal, and Cholesky of 30 would have 2,286 lines of C
    instead of 774.

    The nodes of a block are in trace order, except for sums that are all used by operations: a program may finish sums
    in any order, so they are in the order of these operations. In trace order, 32 examples of soft clusters that
    compute all distances first take 1.26 times as long.
    """
    levels, level = list[int](), dict[Any, int]()
    used = {line: node.line for node in reversed(nodes) if type(node.form) is Call for line in node.read}
    for node in nodes:
        highest = 0
        for column in node.columns:  # plain loops, since max() of node.read takes twice as long
            for line in (column.array,) if isinstance(column, Slice) else column:
                if level.get(line, 0) > highest:
                    highest = level[line]
        levels.append(highest + 1)
        for line in (node.line, *node.items):
            level[line] = highest + 1
    end = max(levels, default=0) + 1
    latest: dict[Any, int] = defaultdict(lambda: end)
    for i, node in reversed([*enumerate(nodes)]) if backward < math.inf else ():
        if node.to or (node.line[0] if isinstance(node.line, tuple) else node.line) >= backward:
            levels[i] = min(map(latest.__getitem__, (node.line, *node.items))) - 1
        for line in node.read:
            latest[line] = min(latest[line], levels[i])
    blocks: dict[Any, Block] = defaultdict(list)
    for node, its in zip(nodes, levels, strict=True):
        blocks[its, _operation(node)].append(node)
    for (_, operation), block in blocks.items():
        if operation[:2] == ("sum", 0) and all(node.line in used for node in block):
            block.sort(key=lambda node: used[node.line])
    return [block for _, block in sorted(blocks.items(), key=lambda item: item[0][0])]


def _operation(node: Node) -> Any:
    if isinstance(node.form, Call):
        return node.form, node.size > 0
    return "largest" if node.form[0][0] == ">" else "sum", node.size > 0, node.to is not None


def by_level(blocks: Iterable[Block], layout: Layout, loop: LoopSteps, pitch: int = 0) -> Kernel:
    """Steps for all blocks; `loop` returns the steps of a loop. All their places are added to the layout.

    With a `pitch` (see `placed`), the rounds of loops may vary.
    """
    steps: Kernel = []
    for block in placed(blocks, layout, pitch):
        new = loop(block[0], layout) if block[0].round else by_kind(parts_of(block, layout))
        steps += reroll(new, varies=True) if pitch else in_rows(new) if layout.triangles else new
    return steps


def in_trace_order(nodes: Sequence[Node], layout: Layout, loop: LoopSteps) -> Kernel:
    """Steps for all nodes, in the order of the trace, with loops for what repeats; the rest is as for `by_level`."""
    parts: list[Part] = []
    for (node,) in placed(([node] for node in nodes), layout):
        parts += map(part, loop(node, layout)) if node.round else parts_of([node], layout)
    return looped(parts)


def copied(pairs: Iterable[tuple[Place, Place]], *, varies: bool = False) -> Kernel:
    """Steps that copy a number for each pair, to the first place from the second. If it `varies`, rounds may vary."""
    return reroll([Assign(Ref(*to), Ref(*of)) for to, of in pairs if to != of], varies=varies)


def placed(blocks: Iterable[Block], layout: Layout, pitch: int = 0) -> Iterator[Block]:
    """The blocks, each in the order in which its results lie next to each other. Enters their places in `layout`.

    Results are in an array for each operation and size of a block. With a `pitch`, all are in one array, and each block
    begins at a multiple of the pitch. Loops find places for their numbers themselves.
    """
    arrays: dict[Any, str] = {}
    filled: dict[str, int] = defaultdict(int)
    for block in blocks:
        if len(block) > 1 and _descends(block[0], block[-1], layout):
            block.reverse()  # as in a backward pass: this reads arrays forwards
        if layout.keeps is not None:
            block = _by_statement(block, layout)
        inner = [node for node in block if not node.to and not node.round and node.line not in layout]
        sizes, starts = [node.size for node in inner], (sum(map(layout.start, node.columns)) for node in inner)
        skipped = gaps(sizes, starts) if layout.triangles and not pitch else [0] * len(inner)
        n = sum(size or 1 for size in sizes) + sum(skipped)
        key = 0 if pitch else (_operation(block[0]), n)
        array = arrays.setdefault(key, f"{layout.prefix}{len(arrays)}")
        for node, gap in zip(inner, skipped, strict=True):
            to = (layout.keeps or {}).get(node.line, array)
            if node.size:
                layout.rows[node.line] = Slice(array, filled[array], 1, node.size)
            for i, line in enumerate(node.items or (node.line,), filled[to]):
                layout[line] = to, i
            filled[to] += (node.size or 1) + gap
        filled[array] += -filled[array] % (pitch or 1)
        yield block


def _by_statement(block: Block, layout: Layout) -> Block:
    """A block in which each statement, if several take turns as in the gates of a cell, comes for all rounds at once.

    Then the results of each statement are neighbours. Without this, scans of an LSTM take 1.2 times as long.
    """
    if any(node.size or node.round or node.to for node in block):
        return block
    read = [chain(*map(layout.places, node.columns)) for node in block]
    arrays, indices = zip(*[zip(*places, strict=True) for places in read], strict=True)
    loops = repeats([*zip([node.form for node in block], arrays, strict=True)], indices)
    return [block[i] for at, n, rounds in loops for k in range(at, at + n) for i in range(k, at + n * rounds, n)]


def _descends(first: Node, last: Node, layout: Layout) -> bool:
    """Whether the last node of a block mostly reads lower indices than the first.

    Without this, a call of convolutions, bodies or soft clusters takes 1.1 to 1.2 times as long, one example at a time.
    """
    if first.to and last.to:
        return last.to.base < first.to.base
    pairs = chain(*map(zip, *[map(layout.places, node.columns) for node in (first, last)]))
    rises: list[int] = [(b > a) - (b < a) for a, b in pairs if a[0] == b[0]]
    return sum(rises) < 0


def by_kind(parts: Iterable[Part]) -> Kernel:
    """Steps for the parts of a block, one kind at a time: in loops if they advance evenly, or one nest if they form a
    grid.
    """
    kinds: dict[int, list[Part]] = defaultdict(list)
    for each in parts:
        kinds[id(each[0])].append(each)  # one object for equal ones: see `shapes`
    return [step for alike in kinds.values() for step in looped(roll(alike, longest=1))]


def parts_of(nodes: Block, layout: Layout) -> Iterator[Part]:
    """The steps of nodes: for a row, and for operations on numbers, a step for each part that advances evenly."""
    form = nodes[0].form
    if isinstance(form, Call) and not nodes[0].size:  # a block of these is like a row
        columns = [*zip(*[(node.line, *node.columns[0]) for node in nodes], strict=True)]
        for slices in layout.stretches(columns, len(nodes)):
            yield _part(layout, form, slices)
        return
    for node in nodes:
        if node.size:
            to = node.to or layout.rows[node.line]
            for slices in layout.stretches([to, *node.columns], node.size, node.items):
                yield _part(layout, node.form, slices)
        else:
            yield _part(layout, *_evenly(node, layout))


def _evenly(node: Node, layout: Layout) -> tuple[Any, list[Any]]:
    """The form of a sum, with a run of terms for each part of its columns that advances evenly; and its place and these
    parts: slices or, since this takes less time, tuples like them.
    """
    form: Any = node.form
    to = node.to or (*layout[node.line], 1, 1)
    slices: list[Any] = [*map(layout.whole, node.columns)]
    if None in slices:  # not always, or the passes of springs take 1.17 times as long
        runs, slices, at = list[Run](), [], 0
        for sign, n in form:
            for each in layout.stretches(node.columns[at : at + n], length(node.columns[at])):
                runs.append((sign, n))
                slices += each
            at += n
        form = tuple(runs)
    return form, [to, *slices]


def _part(layout: Layout, form: Any, slices: Sequence[Any]) -> Part:
    """The step that sets each number of the first slice to the form of one number from each of the others; or sets a
    single number to the form of all of their numbers.
    """
    arrays, indices, steps, sizes = zip(*slices, strict=True)
    shape = layout.shapes.get((form, arrays, steps, sizes))
    if shape is None:
        array, n = arrays[0], sizes[0]
        each = zip(arrays, steps, sizes, strict=True)
        target, *refs = [Ref(of, 0, (step,) if max(n, size) > 1 else ()) for of, step, size in each]
        value = _value(form, refs, sizes[1:] if n == 1 else repeat(1))
        shape = Accumulate(target, value) if array in ADDED_TO else Assign(target, value)
        shape = layout.shapes[form, arrays, steps, sizes] = Loop(n, (shape,)) if n > 1 else shape
    return shape, indices


def _value(form: Any, refs: Sequence[Ref], sizes: Iterable[int] = ()) -> Any:
    """The value of a form: a Call with references in place of positions, or a Sum with references as factors, which are
    in loops of these sizes.
    """
    if isinstance(form, int):
        return refs[form]
    if isinstance(form, Call):
        return Call(form.op, tuple([_value(inner, refs) for inner in form.operands]))
    terms, columns = list[Term | Loop](), zip(refs, sizes, strict=False)
    for sign, n in form:
        factors, (size, *_) = zip(*islice(columns, n), strict=True)
        terms.append(Loop(size, (Term(sign, factors),)) if size > 1 else Term(sign, factors))
    return Sum(tuple(terms))


def looped(parts: list[Part]) -> Kernel:
    """Steps, with loops for steps that repeat, and for what repeats within a step."""
    return [_looped_within(step_of(each)) for each in rolled(parts)]


def _looped_within(step: Any) -> Any:
    """A step with loops for terms of sums that repeat, and for numbers of a `take` if they lie evenly."""
    if isinstance(step, Loop):
        return step._replace(body=tuple(map(_looped_within, step.body)))
    if isinstance(step, Skip):
        return step
    value, depth = step.value, len(step.target.strides)
    if isinstance(value, Sum) and len(value.terms) >= FEWEST_ROUNDS:
        return step._replace(value=Sum(tuple(reroll(value.terms, depth))))
    if isinstance(value, Call) and value.op == "take":
        match reroll(value.operands[1:], depth):
            case [Loop(body=(Ref(array),)) as numbers] if array[0] != "=":  # gcc takes 5.8 s to copy 3,000
                return step._replace(value=Call("take", (value.operands[0], numbers)))
    return step
