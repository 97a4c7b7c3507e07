"""Loops from the dependence graph: similar expressions that do not depend on one another are brought together.

Expressions with the same operation on one level of the graph (as soon as their operands are computed) make a block. Its
results are adjacent, in the order of the trace, so that what reads them can advance evenly, too. Within a block,
expressions of one kind that read the same arrays roll into loops, in whatever order the program computed them.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain, groupby, repeat, starmap
from operator import sub
from typing import Any

from micrograd.compiler.frontend.tracer import Slice
from micrograd.compiler.ir import Accumulate, Assign, Call, Kernel, Loop, Ref, Sum, Term
from micrograd.compiler.passes.expressions import Column, Node, length
from micrograd.compiler.passes.roll import (
    FEWEST_ROUNDS,
    LONGEST_BODY,
    Part,
    numbered,
    repeats,
    reroll,
    roll,
    rolled,
    step_of,
)

Place = tuple[str, int]
"""An array and an index."""
Items = Column | tuple[int | None, ...]
"""A column, or the lines of a row's numbers, None for numbers that are not needed."""
Block = tuple[Any, list[Node]]
"""The operation that nodes share, and the nodes."""


NO_POWER = 9  # a pitch is 9, 18, 36, ...: with 64, not 72, Cholesky of 60 takes 1.4 times as long, by cache conflicts
MOST_ROOM = 6  # places for each number, at most: Cholesky of 60 has 1,004 lines of C; with 3, 1,490; with 1, 2,448


LoopSteps = Callable[[Node, "Layout"], Kernel]


class Layout(dict[Any, Place]):
    """The place of each line: at first, of leaves and results only. `rows` has the places of nodes that are rows.

    Names of arrays for other lines begin with `prefix`. `tables` has the places of columns of constants. For each
    forward loop, `kept` has the places of what its backward loop reads, in the order of the rounds.
    """

    def __init__(
        self, leaves: dict[int, Place], results: Sequence[int], prefix: str = "t", *, tables: dict[Any, Slice]
    ) -> None:
        super().__init__({line: ("y", i) for i, line in enumerate(results)} | leaves)
        self.prefix, self.tables = prefix, tables
        self.rows: dict[int, Slice] = {}
        self.kept: dict[int, dict[int, Slice]] = {}
        self.keeps: set[int] = set()
        self.shapes: dict[Any, Any] = {}  # of steps, by what they are made of
        self.made: dict[int, Part] = {}  # what the nodes of the last block are made of, by their lines
        self.kept_in = ""  # within a round: the array of the lines in `keeps`
        self._whole: dict[Items, Slice | None] = {}

    def placed(self, column: Any) -> Any:
        """A column; in place of a slice of a computed row, that of the array where it is stored."""
        if not isinstance(column, Slice) or column.array not in self.rows:
            return column
        row = self.rows[column.array]
        return Slice(row.array, row.base + column.base * row.step, column.step * row.step, column.size)

    def places(self, column: Items) -> list[Place]:
        """Where the numbers of a column are."""
        return self.placed(column).places if isinstance(column, Slice) else [self[number] for number in column]

    def terms(self, sign: str, columns: Sequence[Any]) -> tuple[list[Any], list[int]]:
        """The arguments of `_terms` for terms, and the bases of all references in them.

        `columns` has, for each factor, its numbers.
        """
        terms, its = list[Any](), list[int]()
        if length(columns[0]) < FEWEST_ROUNDS:  # as in most sums
            for places in zip(*map(self.places, columns), strict=True):
                arrays, bases = zip(*places, strict=True)
                terms.append((sign, 1, arrays, None))
                its += bases
            return terms, its
        for _, n, slices in self.parts(columns, length(columns[0])):
            arrays, bases, steps, _ = _transposed(slices)
            terms.append((sign, n, arrays, steps if n > 1 else None))
            its += bases
        return terms, its

    def whole(self, column: Items) -> Slice | None:
        """A column as a slice of an array, if its numbers are evenly apart."""
        if isinstance(column, Slice):
            place: Slice = self.placed(column)
            return place
        if column not in self._whole:
            arrays, bases = _transposed(self.places(column))
            strides, n = {*map(sub, bases[1:], bases)}, len(bases)
            is_even = len({*arrays}) == 1 and len(strides) < 2 and n not in range(2, FEWEST_ROUNDS)
            self._whole[column] = Slice(arrays[0], bases[0], sum(strides), n) if is_even else self.tables.get(column)
        return self._whole[column]

    def parts(self, columns: Sequence[Items], size: int, items: Items = ()) -> Iterator[tuple[int, int, list[Slice]]]:
        """The parts of columns: where each begins, its rounds if it advances evenly, or 1, and a slice of each column.

        A column with a single number is one number for all. Numbers whose `items` are None are left out.
        """
        whole = list(filter(None, map(self.whole, columns)))
        if size >= FEWEST_ROUNDS and len(whole) == len(columns) and None not in items:  # as most do
            yield 0, size, whole
            return
        of_each = [self.places(self.tables.get(column, column)) for column in columns]
        places = list(zip(*[of * size if len(of) == 1 else of for of in of_each], strict=True))
        arrays, bases = [[tuple([place[k] for place in each]) for each in places] for k in (0, 1)]
        kinds = [None if item is None else kind for item, kind in zip(items, arrays, strict=True)] if items else arrays
        for first, _, n in repeats(kinds, bases, 1):
            if kinds[first] is not None:
                steps = map(sub, bases[first + 1], bases[first]) if n > 1 else repeat(0)
                slices = zip(arrays[first], bases[first], steps, repeat(n), strict=False)
                yield first, n, list(starmap(Slice, slices))


class Levels:
    """The earliest level of each node: one above the highest of its operands.

    `mean_block_size` is the average number of nodes that share a level and an operation.
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        numbers: dict[Any, int] = {}
        self._nodes = nodes
        self._kinds = [numbers.setdefault(_operation(node), len(numbers)) for node in nodes]
        self._operations = list(numbers)
        self._levels: list[int] = []
        level: dict[Any, int] = defaultdict(int)

        @cache  # sums often have the same numbers
        def highest(column: Column) -> int:
            return level[column.array] if isinstance(column, Slice) else max(map(level.__getitem__, column))

        for node in nodes:
            if len(node.columns) == 1 and type(column := node.columns[0]) is tuple:
                its = 1 + max(map(level.__getitem__, column), default=0)
            else:
                its = 1 + max(map(highest, filter(None, node.columns)), default=0)
            self._levels.append(its)
            for line in (node.line, *node.items):
                level[line] = its
        n_blocks = len(set(zip(self._levels, self._kinds, strict=True)))
        self.mean_block_size = len(nodes) / max(1, n_blocks)

    def delay(self, backward: int) -> None:
        """Move the nodes of the backward pass, from the line `backward` on, to their latest level.

        In an elimination, a level then has a column, as in the forward pass. With earliest levels, it would have a
        diagonal, and Cholesky of 30 would have 3,659 lines of C instead of 1,289.
        """
        end = max(self._levels, default=0) + 1
        latest: dict[Any, int] = defaultdict(lambda: end)
        for i, node in reversed([*enumerate(self._nodes)]):
            if (node.line[0] if isinstance(node.line, tuple) else node.line) >= backward:
                self._levels[i] = min(map(latest.__getitem__, (node.line, *node.items))) - 1
            for line in node.read:
                latest[line] = min(latest[line], self._levels[i])

    def pitch(self) -> int:
        """A distance at which blocks can begin, large enough for one if there is room.

        The columns of a triangle get shorter, but if they begin at equal distances, the same loops serve all of them.
        """
        sizes = Counter(zip(self._levels, self._kinds, strict=True)).values()
        pitch, room = NO_POWER, MOST_ROOM * len(self._nodes)
        while pitch < max(sizes, default=0) and sum(-size // (2 * pitch) * -2 * pitch for size in sizes) <= room:
            pitch *= 2
        return pitch

    def blocks(self) -> Iterator[Block]:
        """Blocks of nodes that can be computed together, level by level.

        The nodes of a block are in trace order, except for sums that are all used by operations: a program may
        finish sums in any order, so they are in the order of these operations. In trace order, 32 examples of soft
        clusters that compute all distances first take 1.26 times as long.
        """
        used: dict[int, int] = {}
        for node in reversed(self._nodes):
            if type(node.form) is Call:
                used.update(zip(node.columns[0], repeat(node.line), strict=False))
        blocks: dict[tuple[int, int], list[Node]] = defaultdict(list)
        for node, level, kind in zip(self._nodes, self._levels, self._kinds, strict=True):
            blocks[level, kind].append(node)
        for (_, kind), block in sorted(blocks.items(), key=lambda item: item[0][0]):
            operation = self._operations[kind]
            if operation[:2] == ("sum", 0) and all(node.line in used for node in block):
                block.sort(key=lambda node: used[node.line])
            yield operation, block


def _operation(node: Node) -> Any:
    if isinstance(node.form, Call):
        return node.form, node.size
    return "largest" if node.form[0][0] == ">" else "sum", node.size, node.parameter >= 0


def by_level(
    levels: Levels, layout: Layout, loop: LoopSteps, of_block: "Callable[[list[Part]], Kernel] | None" = None
) -> Kernel:
    """Steps for all nodes, level by level. All their places are added to the layout.

    `loop` returns the steps of a loop, and `of_block` the steps for the parts of any other block. With `of_block`, all
    results are in one array.
    """
    steps: Kernel = []
    for block in placed(levels.blocks(), layout, levels.pitch() if of_block else 0):
        if block[0].round:
            steps += loop(block[0], layout)
        else:
            steps += (of_block or by_kind)(parts_of(block, layout))
    return steps


def in_trace_order(nodes: Sequence[Node], layout: Layout, loop: LoopSteps) -> Kernel:
    """Steps for all nodes, in the order of the trace, with loops for what repeats; the rest is as for `by_level`."""
    steps: Kernel = []
    in_order = chain(*placed(((_operation(node), [node]) for node in nodes), layout))
    for is_loop, some in groupby(in_order, key=lambda node: node.round is not None):
        if is_loop:
            steps += [step for node in some for step in loop(node, layout)]
        else:
            steps += looped(parts_of(some, layout), LONGEST_BODY)
    return reroll(steps)


def copies(results: Sequence[int], layout: Layout) -> Kernel:
    """Steps that copy results to the array y, if they are elsewhere."""
    return [Assign(Ref("y", i), Ref(*layout[line])) for i, line in enumerate(results) if layout[line] != ("y", i)]


def placed(blocks: Iterable[Block], layout: Layout, pitch: int = 0) -> Iterator[list[Node]]:
    """The blocks, each in the order in which its results lie next to each other. Enters their places in `layout`.

    Results are in an array for each operation and size of a block. With a `pitch`, all are in one array, and each block
    begins at a multiple of the pitch.
    """
    arrays: dict[Any, str] = {}
    filled: dict[str, int] = defaultdict(int)
    for operation, block in blocks:
        if len(block) > 1 and _descends(block[0], block[-1], layout):
            block.reverse()  # as in a backward pass: this reads arrays forwards
        if layout.kept_in:
            block = _apart(block, layout)
        inner = [node for node in block if node.parameter < 0 and not _has_place(node, layout)]
        n = sum(node.size or 1 for node in inner)
        array = arrays.setdefault(0 if pitch else (operation, n), f"{layout.prefix}{len(arrays)}")
        for node in inner:
            to = layout.kept_in if node.line in layout.keeps else array
            if node.size:
                layout.rows[node.line] = Slice(array, filled[array], 1, node.size)
            for i, line in enumerate(node.items or (node.line,)):
                layout[line] = to, filled[to] + i
            filled[to] += node.size or 1
        filled[array] += -filled[array] % (pitch or 1)
        yield block


def _apart(block: list[Node], layout: Layout) -> list[Node]:
    """A block; if several statements take turns, as in the gates of a cell, first one for all rounds, then the next.

    Then the results of each statement are neighbours. Without this, scans of an LSTM take 1.06 times as long.
    """
    if any(node.size or node.round or node.parameter >= 0 for node in block):
        return block
    layout.made = {node.line: _made_of(node, layout) for node in block}
    loops = repeats(*_transposed(layout.made.values()))
    return [block[i] for at, n, rounds in loops for k in range(at, at + n) for i in range(k, at + n * rounds, n)]


def _has_place(node: Node, layout: Layout) -> Any:
    """Whether a node has a place in the layout: a row, if its numbers are results next to each other.

    Loops find places for their numbers themselves.
    """
    if not node.size:
        return node.round or node.line in layout
    place = layout.whole(node.items) if node.items and layout.keys() >= {*node.items} else None
    if place:
        layout.rows[node.line] = place
    return place


def _descends(first: Node, last: Node, layout: Layout) -> bool:
    """Whether the last node of a block mostly reads lower indices than the first.

    Without this, a call of convolutions, bodies or soft clusters takes 1.1 to 1.2 times as long, one example at a time.
    """
    if first.parameter >= 0:
        return last.parameter < first.parameter
    columns = zip(first.columns, last.columns, strict=False)
    pairs = [pair for ends in columns for pair in zip(*map(layout.places, ends), strict=False)]
    rises: list[int] = [(b > a) - (b < a) for a, b in pairs if a[0] == b[0]]
    return sum(rises) < 0


def by_kind(parts: Sequence[Part]) -> Kernel:
    """Steps for the parts of a block, one kind at a time: in loops if they advance evenly, or one nest if they form a
    grid.
    """
    kinds: dict[int, list[Part]] = defaultdict(list)
    for kind, each in zip(numbered(shape for shape, _ in parts), parts, strict=True):
        kinds[kind].append(each)
    steps: Kernel = []
    for alike in kinds.values():
        shape = alike[0][0]
        may_loop_within = _looped_within(shape) is not shape
        steps += reroll(looped(alike)) if may_loop_within else map(step_of, rolled(roll(alike, 0, 1)))
    return steps


def parts_of(nodes: Iterable[Node], layout: Layout) -> list[Part]:
    """The steps of nodes; for a row, a step for each part of it that advances evenly."""
    parts: list[Part] = []
    for node in nodes:
        if node.size:
            parts += _parts_of_row(node, layout)
            continue
        target, base = ("g", node.parameter) if node.parameter >= 0 else layout[node.line]
        made_of, bases = layout.made.get(node.line) or _made_of(node, layout)
        shape = layout.shapes.get((target, made_of))
        if shape is None:
            form, arrays = made_of if isinstance(made_of[0], Call) else (None, ())
            value = _filled(form, tuple(map(Ref, arrays))) if form else Sum(tuple(starmap(_terms, made_of)))
            layout.shapes[target, made_of] = shape = _set(Ref(target), value)
        parts.append((shape, (base, *bases)))
    return parts


def _set(target: Ref, value: Any) -> Assign | Accumulate:
    return (Accumulate if target.array == "g" else Assign)(target, value)


def _made_of(node: Node, layout: Layout) -> Part:
    """The value of a node that is a number, before it has a shape: its form and the arrays that it reads, or for a sum
    the arguments of all `_terms`; and the bases of its references.
    """
    if isinstance(node.form, Call):
        arrays, bases = _transposed(map(layout.__getitem__, node.columns[0]))
        return (node.form, arrays), bases
    terms, its, at = list[Any](), list[int](), 0
    for sign, n in node.form:
        more, bases = layout.terms(sign, node.columns[at : at + n])
        terms += more
        its += bases
        at += n
    return tuple(terms), tuple(its)


def _parts_of_row(row: Node, layout: Layout) -> Iterator[Part]:
    to = layout.rows[row.line] if row.parameter < 0 else Slice("g", row.parameter, row.step, row.size)
    columns = row.columns if isinstance(row.form, Call) else row.columns[1:]
    for first, n, slices in layout.parts(columns, row.size, row.items):
        depth = int(n > 1)
        refs, bases = _transposed((Ref(array, 0, (step,)[:depth]), base) for array, base, step, _ in slices)
        if isinstance(row.form, Call):
            value: Any = _filled(row.form, refs)
        else:
            arrays, numbers = _transposed(layout.places(row.columns[0]))
            factors = zip([Ref(array, 0, (0,)[:depth]) for array in arrays], refs, strict=True)
            value, bases = Sum(tuple([Term("+", pair) for pair in factors])), chain(*zip(numbers, bases, strict=True))
        step: Any = _set(Ref(to.array, 0, (to.step,)[:depth]), value)
        yield Loop(n, (step,)) if depth else step, (to.base + first * to.step, *bases)


def _transposed(rows: Iterable[Any]) -> Any:
    return zip(*rows, strict=True)


def looped(parts: Sequence[Part], longest: int = 1) -> Kernel:
    """Steps, with loops for steps that repeat, and for what repeats within a step."""
    return [_looped_within(step_of(part)) for part in roll(parts, 0, longest)]


def _looped_within(step: Any) -> Any:
    """A step with loops for terms of sums that repeat, and for numbers of a `take` if they lie evenly."""
    if isinstance(step, Loop):
        return step._replace(body=tuple(map(_looped_within, step.body)))
    value, depth = step.value, len(step.target.strides)
    if isinstance(value, Sum) and len(value.terms) >= FEWEST_ROUNDS:
        return step._replace(value=Sum(tuple(reroll(value.terms, depth))))
    if isinstance(value, Call) and value.op == "take":
        match reroll(value.operands[1:], depth):
            case [Loop(body=(Ref(array),)) as numbers] if array[0] != "=":  # gcc takes 5.8 s to copy 3,000
                return step._replace(value=Call("take", (value.operands[0], numbers)))
    return step


def _terms(sign: str, rounds: int, arrays: tuple[str, ...], steps: tuple[int, ...] | None) -> Term | Loop:
    """A term of numbers in these arrays; with `steps`, a loop of terms whose numbers are so far apart."""
    if steps is None:
        return Term(sign, tuple(map(Ref, arrays)))
    factors = tuple([Ref(array, 0, (step,)) for array, step in zip(arrays, steps, strict=True)])
    return Loop(rounds, (Term(sign, factors),))


def _filled(form: Any, operands: tuple[Ref, ...]) -> Any:
    """A form with these operands instead of their positions."""
    if isinstance(form, Call):
        return Call(form.op, tuple([_filled(inner, operands) for inner in form.operands]))
    return operands[form]
