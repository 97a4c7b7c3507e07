"""Loops from the dependence graph: similar expressions that do not depend on one another are brought together.

Expressions with the same operation on one level of the graph (as soon as their operands are computed) make a
block. Its results are adjacent, in the order of the trace, so that what reads them can advance evenly, too. Within a
block, expressions of one kind, which read the same arrays, roll into loops, whatever the order in which the program
computed them.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import islice, repeat
from operator import sub
from typing import Any

from micrograd.compiler.frontend.products import Outer
from micrograd.compiler.ir import Accumulate, Assign, Call, Kernel, Loop, Ref, Step, Sum, Term
from micrograd.compiler.passes.expressions import Column, Node
from micrograd.compiler.passes.roll import FEWEST_ROUNDS, repeats, reroll

Place = tuple[str, int]
"""An array and an index."""
Bases = tuple[int, ...]
Block = tuple[Any, list[Node]]
"""The operation that nodes share, and the nodes."""


class Layout(dict[int, Place]):
    """The place of each line, at first of leaves and results, and the patterns that columns of lines make."""

    def __init__(self, leaves: dict[int, Place], results: Sequence[int]) -> None:
        super().__init__({line: ("y", i) for i, line in enumerate(results)} | leaves)
        self._numbers: dict[Any, int] = {}  # of the patterns
        self._even: set[int] = set()  # the patterns of a single array and a single distance
        self._patterns: dict[Column, tuple[int, Bases]] = {}
        self._shapes: dict[Any, Any] = {}  # by sign and the pattern of each factor: what `_shape_of_terms` returns

    def pattern(self, column: Column) -> tuple[int, Bases]:
        """The number of a column's pattern, and the indices of its lines.

        A pattern is the arrays of the lines, and the distances between their indices.
        """
        if column not in self._patterns:
            arrays, indices = _transposed(map(self.__getitem__, column))
            pattern = arrays, *map(sub, indices[1:], indices)
            number = self._numbers.setdefault(pattern, len(self._numbers))
            self._patterns[column] = number, indices
            if len({*arrays}) == len({*pattern[1:]}) == 1:
                self._even.add(number)
        return self._patterns[column]

    def are_even(self, columns: Sequence[Column]) -> bool:
        """Whether the lines of each column lie in one array, at equal distances."""
        return self._even.issuperset([self.pattern(column)[0] for column in columns])

    def terms(self, sign: str, columns: Sequence[Column]) -> tuple[Any, Bases]:
        """The shape of terms, with those that advance evenly rolled into one; and the bases of these.

        `columns` has, for each factor, its lines.
        """
        if len(columns[0]) == 1:  # most sums have few terms
            arrays, bases = _transposed([self[line] for (line,) in columns])
            return ((sign, arrays, 1, ()),), bases
        patterns, indices = _transposed(map(self.pattern, columns))
        if (sign, patterns) not in self._shapes:  # most nodes share their patterns
            self._shapes[sign, patterns] = _shape_of_terms(sign, columns, indices, self)
        shape, starts = self._shapes[sign, patterns]
        return shape, tuple([indices[factor][term] for factor, term in starts])


class Levels:
    """The earliest level of each node: one above the highest of its operands.

    `mean_block_size` is the average number of nodes that share a level and an operation.
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        numbers: dict[Any, int] = {}
        self._nodes = nodes
        self._kinds = [numbers.setdefault(_operation(node), len(numbers)) for node in nodes]
        self._operations = list(numbers)
        level: dict[int, int] = defaultdict(int)

        @cache
        def highest(column: Column) -> int:
            return max(map(level.__getitem__, column), default=0)

        for node in nodes:
            columns, is_call = node.columns, type(node.form) is Call  # only sums share columns
            operand_levels = map(level.__getitem__, columns[0]) if is_call else map(highest, columns)
            level[node.line] = 1 + max(operand_levels, default=0)
        self._levels = [level[node.line] for node in nodes]
        n_blocks = len(set(zip(self._levels, self._kinds, strict=True)))
        self.mean_block_size = len(nodes) / max(1, n_blocks)

    def blocks(self) -> Iterator[Block]:
        """Blocks of nodes that can be computed together, level by level.

        The nodes of a block are in trace order, except for sums: a program may finish these in any order, so they are
        in the order of the operations that use them.
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
            if len(block) > 1:
                is_sum = operation[0] == "sum"
                block.sort(key=lambda node: used.get(node.line, node.line) if is_sum else node.line)
            yield operation, block


def _operation(node: Node) -> Any:
    if isinstance(node.form, Call):
        return node.form, False
    if isinstance(node.form, Outer):
        return "outer", True
    return "largest" if node.form[0][0] == ">" else "sum", node.parameter >= 0


def by_level(levels: Levels, layout: Layout) -> Kernel:
    """Steps for all nodes, level by level. All their places are added to the layout."""
    found: Kernel = []
    for block in _placed(levels.blocks(), layout):
        found += _outer_loops(block, layout) if isinstance(block[0].form, Outer) else _by_kind(block, layout)
    return found


def in_trace_order(nodes: Sequence[Node], layout: Layout) -> Kernel:
    """Steps for all nodes, in the order of the trace, with loops for what repeats. `layout` is as for `by_level`."""
    outers = [node for node in nodes if isinstance(node.form, Outer)]  # their loops go last, since nothing reads them
    inner = _placed(((_operation(node), [node]) for node in nodes if not isinstance(node.form, Outer)), layout)
    references = [_reference(node, layout) for [node] in inner]
    kinds, bases = _transposed(references) if references else ((), ())
    steps = _looped(repeats(kinds, bases), kinds, bases)
    return reroll([*steps, *_outer_loops(outers, layout)])


def _placed(blocks: Iterable[Block], layout: Layout) -> Iterator[list[Node]]:
    """The blocks, each in the order in which its results lie next to each other. Enters their places in `layout`."""
    arrays: dict[Any, str] = {}
    filled: dict[str, int] = defaultdict(int)
    for operation, block in blocks:
        if len(block) > 1 and _descends(block[0], block[-1], layout):
            block.reverse()  # as in a backward pass: this reads arrays forwards
        inner = [node.line for node in block if node.parameter < 0 and node.line not in layout]
        array = arrays.setdefault((operation, len(inner)), f"t{len(arrays)}")
        for i, line in enumerate(inner, filled[array]):
            layout[line] = array, i
        filled[array] += len(inner)
        yield block


def _outer_loops(block: Sequence[Node], layout: Layout) -> Kernel:
    """A loop over the parameters of each Outer; or steps for single parameters, if what they read is uneven."""
    loops: list[Loop] = []
    steps: Kernel = []
    for node in block:
        loop = _outer_loop(node, layout)
        if loop:
            loops.append(loop)
            continue
        form: Any = node.form
        sums = zip(form.row.parameters(), _factors_by_parameter(node), strict=True)
        nodes = [Node(node.line, (("+", 2, len(form.gradients)),), factors, parameter) for parameter, factors in sums]
        steps += _by_kind(nodes, layout)
    return steps + reroll(loops)


def _outer_loop(node: Node, layout: Layout) -> Loop | None:
    """An Outer as a loop over its parameters; None if what these read does not lie at equal distances."""
    form: Any = node.form
    (shape, first), (next_shape, second) = [layout.terms("+", each) for each in islice(_factors_by_parameter(node), 2)]
    if shape != next_shape or not layout.are_even(node.columns[1:]):
        return None
    bases, next_bases = (form.row.base, *first), (form.row.base + form.row.step, *second)
    kind = (("+", 2, len(form.gradients)),), "g", shape
    return Loop(form.row.size, (_step(kind, bases, next_bases),))


def _factors_by_parameter(node: Node) -> Iterator[tuple[Column, Column]]:
    """For each parameter of an Outer, both factors of the products that are added to its gradient, as columns."""
    gradients, *others = node.columns
    return zip(repeat(gradients), zip(*others, strict=True), strict=False)


def _descends(first: Node, last: Node, layout: dict[int, Place]) -> bool:
    """Whether the last node of a block mostly reads lower indices than the first."""
    if first.parameter >= 0:
        return last.parameter < first.parameter
    columns = zip(first.columns, last.columns, strict=False)
    pairs = [(layout[a], layout[b]) for ends in columns for a, b in zip(*ends, strict=False)]
    return sum((b > a) - (b < a) for a, b in pairs if a[0] == b[0]) < 0


def _by_kind(block: Sequence[Node], layout: Layout) -> Kernel:
    """Steps for a block, one kind at a time: loops, or a single nest if the nodes of a kind form a grid."""
    kinds: dict[Any, list[Bases]] = defaultdict(list)
    for node in block:
        kind, bases = _reference(node, layout)
        kinds[kind].append(bases)
    steps: Kernel = []
    for kind, rows in kinds.items():
        n = len(rows)
        steps += reroll(_looped(repeats([0] * n, rows, longest=1), [kind] * n, rows))
    return steps


def _reference(node: Node, layout: Layout) -> tuple[Any, Bases]:
    """A node's kind and the bases of its references, target first. The kind is everything but these bases."""
    form: Any = node.form
    target, base = ("g", node.parameter) if node.parameter >= 0 else layout[node.line]
    if isinstance(form, Call):
        arrays, bases = _transposed(map(layout.__getitem__, node.columns[0]))
        return (form, target, arrays), (base, *bases)
    if len(form) == 1:
        shape, starts = layout.terms(form[0][0], node.columns)
        return (form, target, shape), (base, *starts)
    columns = iter(node.columns)
    shape, bases = (), (base,)
    for sign, n, _ in form:
        terms, starts = layout.terms(sign, tuple(islice(columns, n)))
        shape, bases = shape + terms, bases + starts
    return (form, target, shape), bases


def _shape_of_terms(
    sign: str, columns: Sequence[Column], indices: Sequence[Bases], layout: Layout
) -> tuple[Any, list[tuple[int, int]]]:
    """The shape of a node's terms; and for each of its bases, the factor and the term that it is of.

    `columns` and `indices` have, for each factor, its lines and their indices.
    """
    shapes, starts = [], list[tuple[int, int]]()
    terms, bases = list(_transposed(columns)), list(_transposed(indices))
    arrays = [tuple([layout[line][0] for line in term]) for term in terms]
    for term, _, rounds in repeats(arrays, bases, longest=1):
        strides = tuple(map(sub, bases[term + 1], bases[term])) if rounds > 1 else ()
        shapes.append((sign, arrays[term], rounds, strides))
        starts += [(factor, term) for factor in range(len(columns))]
    return tuple(shapes), starts


def _transposed(rows: Iterable[Any]) -> Any:
    return zip(*rows, strict=True)


def _looped(loops: Iterable[tuple[int, int, int]], kinds: Sequence[Any], bases: Sequence[Bases]) -> Kernel:
    """Steps of these kinds in `loops`, as `repeats` finds them. They are made for the first round of each only."""
    steps: Kernel = []
    for start, period, rounds in loops:
        body = [
            _step(kinds[i], bases[i], bases[i + period] if rounds > 1 else None) for i in range(start, start + period)
        ]
        steps += [Loop(rounds, tuple(body))] if rounds > 1 else body
    return steps


def _step(kind: Any, bases: Bases, following: Bases | None) -> Step:
    """The assignment of a kind, in the first round of a loop if there are `following` bases: those in the second."""
    form, target, shape = kind
    remaining = zip(bases, repeat(()) if following is None else zip(map(sub, following, bases)), strict=False)
    to = Ref(target, *next(remaining))
    value: Any
    if isinstance(form, Call):
        value = _filled(form, [Ref(array, *place) for array, place in zip(shape, remaining, strict=True)])
    else:
        terms: list[Any] = []
        for sign, arrays, rounds, strides in shape:
            factors = [Ref(array, *next(remaining)) for array in arrays]
            if rounds > 1:
                factors = [ref._replace(strides=(*ref.strides, own)) for ref, own in zip(factors, strides, strict=True)]
            term = Term(sign, tuple(factors))
            terms.append(Loop(rounds, (term,)) if rounds > 1 else term)
        may_roll = len(shape) >= FEWEST_ROUNDS and max(Counter(shape).values()) >= FEWEST_ROUNDS
        value = Sum(tuple(reroll(terms, len(to.strides)) if may_roll else terms))
    return (Accumulate if target == "g" else Assign)(to, value)


def _filled(form: Any, operands: Sequence[Ref]) -> Any:
    """A form with its operands in place of their positions."""
    if isinstance(form, Call):
        return Call(form.op, tuple([_filled(inner, operands) for inner in form.operands]))
    return operands[form]
