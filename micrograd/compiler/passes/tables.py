"""Turns an irregular program into one loop over a switch, with places and numbers of rounds in tables.

A triangular solver or an elimination does the same few things to rows of numbers, but the rows differ in length and
begin at uneven distances. So each kind of loop is written once, as a case of a switch. Tables say which case is next,
how many rounds it has, and where its numbers are. The gradient of a Cholesky decomposition of 30 compiles in 0.4 s, and
a call takes 89 us; plain statements take 3.1 s and 75 us.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import compress, groupby, islice, zip_longest
from typing import Any

from micrograd.compiler.ir import Assign, Call, Kernel, Loop, Offsets, Ref, Step, Sum, Switch, Term, refs
from micrograd.compiler.passes.expressions import Node
from micrograd.compiler.passes.roll import Part
from micrograd.compiler.passes.vectorize import Layout, Levels, LoopSteps, by_kind, looped, parts_of, placed

FEW_TERMS = 2  # numbers, products or loops in a sum that is not split: if all are, LU of 30 has 8% more steps


def in_tables(levels: Levels, layout: Layout, results: Sequence[int], backward: int, loop: LoopSteps) -> Kernel:
    """The steps of `by_level`, as cases of a switch; `backward` is the first line of the backward pass.

    All numbers are in one array; results are copied at the end.
    """
    levels.delay(backward)
    steps: Kernel = []
    for block in placed(levels.blocks(), layout, in_one=True):
        steps += loop(block[0], layout) if block[0].round else _of_block(block, layout)
    places = [layout[line] for line in results]
    steps += looped([(_set("y", Ref(array)), (i, base)) for i, (array, base) in enumerate(places)])
    layout.update((line, ("y", i)) for i, line in enumerate(results))
    return _switched(steps)


def _of_block(block: Sequence[Node], layout: Layout) -> Kernel:
    """Steps for a block. Irregular sums start from -0.0, and their terms are added in as few loops as possible."""
    is_apart = [_is_irregular(node, layout) for node in block]
    steps = by_kind([node for node, apart in zip(block, is_apart, strict=True) if not apart], layout)
    apart = list(compress(block, is_apart))
    sums = [list(_terms(node, layout)) for node in apart]
    starts = [layout[node.line] for node in apart]
    steps += looped([(_set(array, Ref("=-0.0")), (base, 0)) for array, base in starts])
    return steps + min(_across(sums), _along(sums), key=len)


def _is_irregular(node: Node, layout: Layout) -> bool:
    """Whether a node is a sum of several terms outside any loop that can be added up in place, one by one."""
    if isinstance(node.form, Call) or node.form[0][0] == ">" or node.parameter >= 0 or node.size:
        return False
    ((step, _),) = parts_of(node, layout)
    return len(step.value.terms) > FEW_TERMS


def _terms(node: Node, layout: Layout) -> Iterator[Part]:
    """Steps that add the terms of a sum, one by one."""
    target, base = layout[node.line]
    form: Any = node.form
    columns = iter(node.columns)
    for sign, n, _ in form:
        for places in zip(*map(layout.places, islice(columns, n)), strict=True):
            arrays, bases = zip(*places, strict=True)
            yield _set(target, Ref(target), Term(sign, tuple(map(Ref, arrays)))), (base, base, *bases)


def _across(sums: Sequence[Sequence[Part | None]]) -> Kernel:
    """Steps that add terms: the first of each sum, then the second of each, and so on."""
    return looped([term for each in zip_longest(*sums) for term in each if term])


def _along(sums: Sequence[Sequence[Part]]) -> Kernel:
    """Steps that add terms: sum by sum, in loops, where terms advance evenly; `_across` adds the others."""
    loops: Kernel = []
    left: list[list[Part | None]] = []
    for terms in sums:
        left.append([])
        for step in looped(terms):
            if isinstance(step, Loop):
                loops.append(_summed(step))
                left[-1] += [None] * step.rounds
            else:
                left[-1].append(terms[len(left[-1])])
    return loops + _across(left)


def _summed(loop: Loop) -> Step:
    """One sum in place of a loop that adds to a number in each round."""
    ((target, value),) = loop.body
    target = target._replace(strides=())
    return Assign(target, Sum((Term("+", (target,)), loop._replace(body=value.terms[1:]))))


def _set(array: str, first: Ref, *others: Term) -> Assign:
    """A step that sets a number to a sum."""
    return Assign(Ref(array), Sum((Term("+", (first,)), *others)))


def _switched(steps: Sequence[Step]) -> Kernel:
    """Steps as cases of a switch, except for nests of loops that occur only once."""
    numbers: list[list[int]] = [[] for _ in steps]
    kinds = [_kind(step, its) for step, its in zip(steps, numbers, strict=True)]
    uses = Counter(kinds)
    kernel: Kernel = []
    alone = [
        uses[kind] == 1 and any(len(r) > 1 for _, r in refs(step)) for kind, step in zip(kinds, steps, strict=True)
    ]
    for is_alone, some in groupby(zip(alone, steps, kinds, numbers, strict=True), key=lambda each: each[0]):
        _, its_steps, its_kinds, its_numbers = zip(*some, strict=True)
        kernel += its_steps if is_alone else [_switch(its_steps, its_kinds, its_numbers)]
    return kernel


def _switch(steps: Sequence[Step], kinds: Sequence[Any], numbers: Sequence[Sequence[int]]) -> Switch:
    """A switch with a case for each kind."""
    cases: dict[Any, int] = {}
    order = tuple([cases.setdefault(kind, len(cases)) for kind in kinds])
    rows: dict[int, list[Sequence[int]]] = defaultdict(list)
    for case, its in zip(order, numbers, strict=True):
        rows[case].append(its)
    firsts = dict(zip(reversed(order), reversed(steps), strict=True))
    return Switch(order, tuple([(_case(firsts[i], zip(*rows[i], strict=True)),) for i in range(len(cases))]))


def _kind(part: Any, numbers: list[int]) -> Any:
    """A key that ignores numbers of rounds and the bases of references: these are appended to `numbers`."""
    if type(part) is Ref:
        numbers.append(part.base)
        return part.array, part.strides
    if _has_rounds(part):
        numbers.append(part.rounds)
        return Loop, part.parallel, *[_kind(inner, numbers) for inner in part.body]
    return (type(part), *[_kind(inner, numbers) for inner in part]) if isinstance(part, tuple) else part


def _case(part: Any, columns: Iterator[tuple[int, ...]]) -> Any:
    """A part of the first step of a kind, with tables for these columns of numbers."""
    if type(part) is Ref:
        stride = _stride(next(columns))
        return part._replace(strides=(stride, *part.strides)) if part.array[0] != "=" else part
    if _has_rounds(part):
        rounds = next(columns)
        body = tuple([_case(inner, columns) for inner in part.body])
        return part._replace(rounds=rounds if len({*rounds}) > 1 else rounds[0], body=body)
    if not isinstance(part, tuple):
        return part
    parts = [_case(inner, columns) for inner in part]
    return tuple(parts) if type(part) is tuple else type(part)(*parts)


def _has_rounds(part: Any) -> bool:
    """Whether this is a loop of steps or terms. All loops of references of a kind have as many."""
    return type(part) is Loop and type(part.body[0]) is not Ref


def _stride(indices: Sequence[int]) -> int | Offsets:
    """The distance between two of these indices, if it is always the same; otherwise their distances to the first."""
    offsets = tuple([index - indices[0] for index in indices])
    step = offsets[-1] // max(1, len(offsets) - 1)
    return step if offsets == tuple([i * step for i in range(len(offsets))]) else offsets
