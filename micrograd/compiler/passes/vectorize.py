"""Loops from the dependence graph: what is alike, and does not depend on one another, is brought together.

Expressions on one level of the graph (about as soon as their operands are there) with one operation make a block. Its
results lie next to one another, in the order of the trace, so that what reads them can advance evenly, too. Within a
block, expressions of one kind, which read the same arrays, roll into loops: whatever the order in which the program
computed them.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import count, repeat
from operator import eq, sub
from typing import Any, NamedTuple

from micrograd.compiler.ir import Accumulate, Assign, Call, Loop, Ref, Step, Sum, Term
from micrograd.compiler.passes.expressions import Node
from micrograd.compiler.passes.roll import FEWEST_ROUNDS, repeats, rolled

NEAR, MANY_MORE = 2, 4  # levels by which a node may be computed later, to where there are so many times more like it

Place = tuple[str, int]
"""An array and an index."""


class Statement(NamedTuple):
    """A step of a kernel, and the lines of the trace that it computes, in order."""

    step: Step
    lines: list[int]


def by_level(nodes: Sequence[Node]) -> Iterator[tuple[Any, list[Node]]]:
    """Blocks of nodes of one operation that may be computed together, and what they have in common.

    They are in the order of the trace; sums, whose last terms may come in any order, in that of the operations on them.
    """
    used = {line: node.line for node in reversed(nodes) if isinstance(node.form, Call) for line in node.operands}
    blocks: dict[tuple[int, Any], list[Node]] = defaultdict(list)
    for node, at in zip(nodes, _levels(nodes), strict=True):
        blocks[at, _operation(node)].append(node)
    for (_, operation), block in sorted(blocks.items(), key=lambda item: item[0][0]):
        is_sum = operation[0] == "sum"
        yield operation, sorted(block, key=lambda node: used.get(node.line, node.line) if is_sum else node.line)


def _levels(nodes: Sequence[Node]) -> list[int]:
    """The level of each node: as soon as its operands are there, or a little later if many more like it are there.

    So what skips a step, as the softmax of a single number its sum, comes back to where the others are.
    """
    level: dict[int, int] = {}
    for node in nodes:
        level[node.line] = 1 + max(map(level.get, node.operands, repeat(0)), default=0)
    operations = list(map(_operation, nodes))
    sizes = Counter(zip(level.values(), operations, strict=True))
    latest: dict[int, int] = {}
    for node, operation in zip(reversed(nodes), reversed(operations), strict=True):
        first = level[node.line]
        last = min(latest.get(node.line, first), first + NEAR)
        if last > first:
            alike = [sizes[at, operation] for at in range(first, last + 1)]
            if max(alike) > MANY_MORE * alike[0]:
                level[node.line] = first + alike.index(max(alike))
        before = level[node.line] - 1
        for operand in node.operands:
            latest[operand] = min(latest.get(operand, before), before)
    return list(level.values())


def one_by_one(nodes: Sequence[Node]) -> Iterator[tuple[Any, list[Node]]]:
    """Each node as a block, in the order of the trace."""
    for node in nodes:
        yield _operation(node), [node]


def _operation(node: Node) -> Any:
    if isinstance(node.form, Call):
        return node.form, False
    return "largest" if node.form[0][0] == ">" else "sum", node.parameter >= 0


def statements(
    blocks: Iterator[tuple[Any, list[Node]]], place: dict[int, Place], results: Sequence[int]
) -> list[Statement]:
    """Blocks as statements. The places of their results are added to `place`, which has those of leaves."""
    for i, line in reversed(list(enumerate(results))):
        place.setdefault(line, ("y", i))
    arrays: dict[Any, str] = {}
    filled: dict[str, int] = defaultdict(int)
    found: list[Statement] = []
    for operation, block in blocks:
        if _descends(block[0], block[-1], place):
            block.reverse()  # as in a backward pass: arrays are read forwards then
        inner = [node.line for node in block if node.parameter < 0 and node.line not in place]
        array = arrays.setdefault((operation, len(inner)), f"t{len(arrays)}")
        for i, line in enumerate(inner, filled[array]):
            place[line] = array, i
        filled[array] += len(inner)
        kinds: dict[Any, tuple[list[int], list[tuple[int, ...]]]] = {}
        for node in block:
            kind, bases = _kind(node, place)
            lines, all_bases = kinds.setdefault(kind, ([], []))
            lines.append(node.line)
            all_bases.append(bases)
        for kind, (lines, all_bases) in kinds.items():
            found += _rolled(kind, lines, all_bases)
    return found


def _descends(first: Node, last: Node, place: dict[int, Place]) -> bool:
    """Whether the last node of a block mostly reads what lies before what the first one reads."""
    if first.parameter >= 0:
        return last.parameter < first.parameter
    pairs = [(place[a], place[b]) for a, b in zip(first.operands, last.operands, strict=False)]
    return sum((b > a) - (b < a) for a, b in pairs if a[0] == b[0]) < 0


def _kind(node: Node, place: dict[int, Place]) -> tuple[Any, tuple[int, ...]]:
    """What a node computes but for the bases of its references, and these: of its target first."""
    target, base = ("g", node.parameter) if node.parameter >= 0 else place[node.line]
    places = list(map(place.__getitem__, node.operands))
    if isinstance(node.form, Call):
        return (node.form, target, tuple([array for array, _ in places])), (base, *[i for _, i in places])
    shapes: list[Any] = []
    bases = [base]
    at = 0
    for sign, n, terms in node.form:
        if terms == 1:  # most sums have few terms
            shapes.append((sign, tuple([array for array, _ in places[at : at + n]]), 1, ()))
            bases += [i for _, i in places[at : at + n]]
            at += n
            continue
        columns = [list(zip(*places[at + k : at + n * terms : n], strict=True)) for k in range(n)]
        at += n * terms
        if terms >= FEWEST_ROUNDS and all(len({*names}) == 1 and _is_even(of) for names, of in columns):
            strides = tuple([of[1] - of[0] for _, of in columns])
            shapes.append((sign, tuple([names[0] for names, _ in columns]), terms, strides))
            bases += [of[0] for _, of in columns]
            continue
        arrays, indices = (list(zip(*[column[part] for column in columns], strict=True)) for part in (0, 1))
        numbers: dict[Any, int] = {}
        kinds = [numbers.setdefault(each, len(numbers)) for each in arrays]
        for start, _, rounds in repeats(kinds, indices, 1):
            strides = tuple(map(sub, indices[start + 1], indices[start])) if rounds > 1 else ()
            shapes.append((sign, arrays[start], rounds, strides))
            bases += indices[start]
    return (None, target, tuple(shapes)), tuple(bases)


def _is_even(indices: Sequence[int]) -> bool:
    """Whether the indices advance evenly, of which most long sums are, and quickly seen to be."""
    return all(map(eq, indices, count(indices[0], indices[1] - indices[0])))


def _rolled(kind: Any, lines: Sequence[int], bases: Sequence[tuple[int, ...]]) -> Iterator[Statement]:
    """Nodes of one kind as loops; as one nest, where they are a grid."""
    steps, starts = [], []
    for start, _, rounds in repeats([0] * len(bases), bases, 1):
        strides = (
            [(stride,) for stride in map(sub, bases[start + 1], bases[start])]
            if rounds > 1
            else [()] * len(bases[start])
        )
        step = _step(kind, [Ref("", base, own) for base, own in zip(bases[start], strides, strict=True)])
        steps.append(Loop(rounds, (step,)) if rounds > 1 else step)
        starts.append((start, rounds))
    at = 0
    for step in rolled(steps):
        n = _count(step)
        yield Statement(step, list(lines[at : at + n]))
        at += n


def _count(step: Step) -> int:
    """How many assignments a step carries out."""
    return step.rounds * sum(map(_count, step.body)) if isinstance(step, Loop) else 1


def _step(kind: Any, places: list[Ref]) -> Step:
    """The assignment of a kind, with these bases and strides."""
    form, target, shape = kind
    to = places[0]._replace(array=target)
    remaining = iter(places[1:])
    value: Any
    if form is None:
        terms: list[Any] = []
        for sign, arrays, rounds, strides in shape:
            factors = [next(remaining)._replace(array=array) for array in arrays]
            if rounds > 1:
                factors = [ref._replace(strides=(*ref.strides, own)) for ref, own in zip(factors, strides, strict=True)]
            term = Term(sign, tuple(factors))
            terms.append(Loop(rounds, (term,)) if rounds > 1 else term)
        may_roll = max(Counter(shape).values()) >= FEWEST_ROUNDS
        value = Sum(tuple(rolled(terms, len(to.strides)) if may_roll else terms))
    else:
        value = _filled(form, [ref._replace(array=array) for ref, array in zip(remaining, shape, strict=True)])
    return (Accumulate if target == "g" else Assign)(to, value)


def _filled(form: Any, operands: Sequence[Ref]) -> Any:
    """A form with its operands in place of their positions."""
    if isinstance(form, Call):
        return Call(form.op, tuple([_filled(inner, operands) for inner in form.operands]))
    return operands[form]
