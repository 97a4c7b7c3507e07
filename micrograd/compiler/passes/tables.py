"""Turns an irregular program into one loop over a switch, with places and numbers of rounds in tables.

A triangular solver or an elimination does the same few things to rows of numbers, but the rows differ in length and
begin at uneven distances. So each kind of loop is written once, as a case of a switch. Tables say which case is next,
how many rounds it has, and where its numbers are. The gradient of a Cholesky decomposition of 30 compiles in 0.6 s, and
a call takes 11 us; plain statements take 3.2 s and 7 us.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import chain, groupby
from operator import itemgetter
from typing import Any

from micrograd.compiler.ir import Assign, Kernel, Loop, Offsets, Ref, Step, Sum, Switch, Term, refs, replace, start
from micrograd.compiler.passes.roll import Part, part, reroll, roll, step_of
from micrograd.compiler.passes.vectorize import Block, Layout, LoopSteps, by_kind, by_level, copies, looped, pitch_of


def in_tables(blocks: Sequence[Block], layout: Layout, results: Sequence[int], loop: LoopSteps) -> Kernel:
    """The steps of `by_level`, as cases of a switch. All numbers are in one array; results are copied at the end."""
    steps = by_level(blocks, layout, loop, _of_block, pitch_of(blocks))
    return _switched([*steps, *reroll(copies(results, layout), varies=True)])


def _of_block(parts: Sequence[Part]) -> Kernel:
    """Steps for a block. A sum of several parts starts from -0.0. First, loops of terms are added, one sum after the
    other; then single terms: the first one of each sum, the second of each, and so on. With whole sums as cases, or
    one sum after the other, Cholesky and elimination of 30 have three to five times as many lines.
    """
    whole: list[Part] = []
    starts: list[Part] = []
    loops: Kernel = []
    singles: dict[int, list[Part]] = defaultdict(list)  # by their positions in their sums
    for shape, (at, *bases) in parts:
        step = step_of((shape, (at, *bases)))
        if not _has_several_parts(step):
            whole.append((shape, (at, *bases)))
            continue
        starts.append((_set(shape.target, Ref("=-0.0")), (at, 0)))
        position = 0
        for term, its in roll(list(map(part, step.value.terms)), 0, 1):
            added = _set(shape.target, shape.target, term), (at, at, *its)
            if isinstance(term, Loop):
                loops.append(step_of(added))
            else:
                singles[position].append(added)
            position += term.rounds if isinstance(term, Loop) else 1
    in_turns = chain(*[singles[position] for position in sorted(singles)])
    return by_kind(whole) + looped(starts) + reroll(loops, varies=True) + looped([*in_turns])


def _has_several_parts(step: Step) -> bool:
    """Whether a step sets a number to the sum of several terms or loops, which can be added one by one."""
    terms = step.value.terms if isinstance(step, Assign) and isinstance(step.value, Sum) else ()
    return len(terms) > 1 and start(terms) == Ref("=-0.0")


def _set(target: Ref, first: Ref, *others: Term | Loop) -> Assign:
    """A step that sets a number to a sum."""
    return Assign(target, Sum((Term("+", (first,)), *others)))


def _switched(steps: Sequence[Step]) -> Kernel:
    """Steps as cases of a switch, except for nests of loops that occur only once: C can vectorize these.

    The gradient of a Gaussian process of 30 points then takes 26 us, and 36 with all of them in the switch.
    """
    parts = [part(step, varies=True) for step in steps]
    uses = Counter(shape for shape, _ in parts)
    is_alone = [
        uses[shape] == 1 and any(len(rounds) > 1 for _, rounds in refs(step)) and not _varies(step)
        for step, (shape, _) in zip(steps, parts, strict=True)
    ]
    kernel: Kernel = []
    for alone, some in groupby(zip(is_alone, steps, parts, strict=True), key=itemgetter(0)):
        _, its_steps, its_parts = zip(*some, strict=True)
        kernel += its_steps if alone else [_switch(its_parts)]
    return kernel


def _varies(part: Any) -> bool:
    """Whether the rounds of a loop in this part vary."""
    return isinstance(part, tuple) and (
        (isinstance(part, Loop) and not isinstance(part.rounds, int)) or any(map(_varies, part))
    )


def _switch(parts: Sequence[Part]) -> Switch:
    """A switch with a case for each shape."""
    cases: dict[Any, list[tuple[int, ...]]] = {}
    for shape, numbers in parts:
        cases.setdefault(shape, []).append(numbers)
    order = {shape: i for i, shape in enumerate(cases)}
    bodies = tuple([(_case(shape, rows),) for shape, rows in cases.items()])
    return Switch(tuple([order[shape] for shape, _ in parts]), bodies)


def _case(shape: Any, rows: Sequence[tuple[int, ...]]) -> Step:
    """The step for a case that has this shape and runs with these numbers, in tables unless they advance evenly."""
    columns = iter(zip(*rows, strict=True))

    def with_base(ref: Ref) -> Ref:
        bases = next(columns)
        return Ref(ref.array, bases[0], () if ref.array[:1] == "=" else (_stride(bases), *ref.strides))

    def with_rounds(rounds: Any) -> Any:
        rounds = with_base(rounds)
        return rounds if any(rounds.strides) else rounds.base

    step: Step = replace(shape, with_base, with_rounds)
    return step


def _stride(indices: Sequence[int]) -> int | Offsets:
    """The distance between two of these indices, if it is always the same; otherwise their distances to the first."""
    offsets = tuple([index - indices[0] for index in indices])
    step = offsets[-1] // max(1, len(offsets) - 1)
    return step if offsets == tuple([i * step for i in range(len(offsets))]) else offsets
