"""Lanes: if the rounds of a loop may run in any order, many run at a time, in code that computes one example.

A strip of rounds is a loop over lanes inside each step, from which a compiler makes vectors.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from micrograd.compiler.ir import Assign, Kernel, Loop, Ref, Skip, Sum, Term, adding, innermost, refs, replace, span
from micrograd.compiler.passes.dependence import is_of_vectors, is_parallel
from micrograd.compiler.passes.fuse import fuse, join
from micrograd.compiler.passes.jam import strips

LANES = range(128, 8, -8)  # rounds of a strip: 1,024 take 1.2 times as long in strips of 64
MANY = 1024  # terms to add up where they are computed: such a sum takes 0.94 to 0.98 of the time; of 20,000, 0.86
PARTS = 8  # of a sum over lanes: a gradient of gmm takes 0.77 of the time it takes if each strip is added up at once

Use = tuple[Ref, int, int]
"""A reference that a step of a kernel has, and the lowest and the highest index that it reaches."""


def with_sums(kernel: Kernel) -> Kernel:
    """The kernel with sums of at least MANY numbers in the loops that compute them, so that these run in lanes."""
    begun, steps, apart = Kernel(), Kernel(), dict[Any, Any]()
    for step in kernel:
        match step:
            case Assign(total, Sum((*first, Loop(rounds, terms) as loop))) if _can_join(first, loop):
                begun.append(Assign(total, Sum(tuple(first)) if first else Ref("=-0.0")))
                steps.append(Loop(rounds, (adding(total._replace(strides=(0,)), terms),)))
                apart[steps[-1]] = adding(total, [loop])
            case _:
                steps.append(step)
    return [*begun, *[apart.get(step, step) for step in join(steps, (), _may_add_up)]] if begun else steps


def _can_join(first: Sequence[Any], others: Loop) -> bool:
    """Whether the kernel computes none of a sum's `first` terms, and a loop over the others can join another loop."""
    if others.rounds < MANY or any(ref.array[0] in "tyg" for ref, _ in refs(tuple(first))):
        return False
    return all(isinstance(term, Term) and term.sign != ">" for term in others.body)


def _may_add_up(loop: Loop, least: int = 0) -> bool:
    """Whether compilers make vectors of a loop whose rounds share only sums, to which at least `least` steps add."""
    if not is_of_vectors(loop):
        return False
    steps = tuple([_term(step) if _adds(step) else step for step in loop.body])
    return sum(map(_adds, loop.body)) >= least and is_parallel(Loop(loop.rounds, steps))


def in_lanes(kernel: Kernel) -> Kernel:
    """The kernel with loops whose rounds may run in any order in lanes: each step computes a strip of rounds at a time.

    A result that another step of the round reads then has a number for each lane. A sum has PARTS partial sums, which
    are added up after the loop.
    """
    uses = defaultdict[str, list[Use]](list)
    for step in kernel:
        for ref, rounds in {*refs(step)}:
            uses[ref.array].append((ref, *span(ref, rounds)))
    return [each for step in kernel for each in (_strips(step, uses) if isinstance(step, Loop) else [step])]


def _strips(loop: Loop, uses: Mapping[str, Sequence[Use]]) -> Kernel:
    """A loop as one over strips, and one over the few rounds left; or as it is, if it is short or its order matters."""
    may_run = loop.parallel or _may_add_up(loop, least=1)
    if not may_run or any(isinstance(step, Skip) for step, _ in innermost(loop)):
        return [loop]
    short = replace(loop, partial(_in_one_place, rounds=loop.rounds, uses=uses))
    steps = [(step, rounds) for step, rounds in innermost(short) if not step.target.strides[0]]
    own = {step.target.array for step, _ in steps if not _adds(step)}
    sizes = [n for n in LANES if n <= loop.rounds]
    if not sizes:
        return [loop]
    lanes = min(sizes, key=lambda n: loop.rounds // n + 4 * (loop.rounds % n))
    inside = [each for step in short.body for each in _in_lanes(step, own, lanes)]
    found: Kernel = strips(short, lanes, fuse(inside, (loop.rounds // lanes,), is_of_vectors))
    sums = [(step.target.array, i) for step, rounds in steps if _adds(step) for i in span(step.target, rounds)]
    for array in sorted({array for array, _ in sums}):
        low, *_, high = sorted([i for each, i in sums if each == array])
        target, size = Ref(array, low, (1,)), high + 1 - low
        part = _part(target)
        found.insert(0, Loop(PARTS * size, (Assign(Ref(part.array, part.base, (1,)), Ref("=-0.0", 0, (0,))),)))
        found.append(Loop(size, (adding(target, [Loop(PARTS, (Term("+", (part,)),))]),)))
    return found


def _in_one_place(ref: Ref, rounds: int, uses: Mapping[str, Sequence[Use]]) -> Ref:
    """A reference of a loop. If nothing else reads what a round puts there, each round puts it in the same place: then
    only a strip of it is in memory, and log-sum-exp of 160,000 numbers takes 0.8 to 0.9 of the time.
    """
    if ref.array[0] != "t" or ref.strides in ((), (0,)) or len(ref.strides) > 1:
        return ref
    low, high = span(ref, (rounds,))
    users = [each for each, first, last in uses[ref.array] if first <= high and low <= last]
    return Ref(f"{ref.array}_{ref.base}", 0, (0,)) if users == [ref] else ref


def _in_lanes(step: Any, own: set[str], lanes: int, depth: int = 1) -> Iterator[Any]:
    """The steps for a step inside `depth` loops, with loops over the lanes inside. Terms go to partial sums.

    The intermediate results of a round are in its `own` arrays.
    """
    lane = partial(_lane, own=own, lanes=lanes, depth=depth)
    if isinstance(step, Loop):
        yield step._replace(body=tuple([of for each in step.body for of in _in_lanes(each, own, lanes, depth + 1)]))
    elif step.target.strides[0] or step.target.array in own:
        yield Loop(lanes, (replace(step, lane),))
    else:
        terms, part, inside = list[Term](), _part(step.target), step.target._replace(strides=(*step.target.strides, 0))
        for term in step.value.terms:
            if isinstance(term, Loop):
                yield from _in_lanes(Loop(term.rounds, (Assign(inside, Sum(term.body)),)), own, lanes, depth)
            elif term.factors != (step.target,):
                terms.append(term)
        each = [replace(term, partial(lane, first=first)) for first in range(0, lanes, PARTS) for term in terms]
        if each:
            yield Loop(PARTS, (adding(part, each),))


def _lane(ref: Ref, own: set[str], lanes: int, depth: int, first: int = 0) -> Ref:
    """A reference in a loop over lanes, inside `depth` loops; the loop starts at the lane `first`."""
    k = lanes if ref.array in own else 1
    outer, *inner = [k * stride for stride in ref.strides]
    step = 1 if ref.array in own else outer
    inner.insert(depth - 1, step)
    return Ref(ref.array, k * ref.base + first * step, (lanes * outer, *inner))


def _part(target: Ref) -> Ref:
    """A reference to the partial sums of a sum: its last stride leads from one to the next."""
    array, base, strides = target
    return Ref(f"t{array}p", PARTS * base, (*[PARTS * stride for stride in strides], 1))


def _term(step: Assign) -> Assign:
    """A step that sets a number of its own round to what this one adds, unless it adds to such a number already."""
    others = [term for term in step.value.terms if term != Term("+", (step.target,))]  # type: ignore[union-attr]
    return step if any(step.target.strides) else Assign(Ref("term", 0, (1,)), Sum(tuple(others)))


def _adds(step: Any) -> bool:
    """Whether a step adds to its target."""
    return isinstance(step.value, Sum) and Term("+", (step.target,)) in step.value.terms
