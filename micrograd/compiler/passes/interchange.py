"""Loops over sums with their terms in the outer loop, for code that computes one example after the other."""

from collections.abc import Sequence
from functools import partial
from itertools import chain
from typing import Any

from micrograd.compiler.ir import Accumulate, Assign, Kernel, Loop, Ref, Step, Sum, Term, of_round, refs, replace, start
from micrograd.compiler.passes.sums import is_dot

FEW = 10  # a sum of so many terms is added up at once: a mixture written whole takes 0.93 of the time, k-means 0.91
AT_ONCE = 4  # terms of a longer sum between two writes to memory: with one, a Jacobian takes 107 us instead of 95


def interchanged(steps: Sequence[Step]) -> Kernel:
    """The steps with the terms of sums in the outer loop where neighbouring sums read neighbouring elements.

    Such is a matrix times a vector whose rows are not neighbours: one example after the other, a compiler makes vectors
    of the sums then.
    """
    found: Kernel = []
    for step in steps:
        if isinstance(step, Loop):
            inner = step.body[0]
            if len(step.body) == 1 and isinstance(inner, (Assign, Accumulate)) and _is_column_sum(inner):
                found += _columns(step.rounds, inner)
                continue
            step = Loop(step.rounds, tuple(interchanged(step.body)))
        found.append(step)
    return found


def _is_column_sum(step: Assign | Accumulate) -> bool:
    """Whether a sum has one loop, and what that reads advances with the target."""
    if not isinstance(step.value, Sum) or step.target.strides[-1] != 1:
        return False
    loops = [term for term in step.value.terms if isinstance(term, Loop)]
    if len(loops) != 1 or is_dot(loops[0]) or any(isinstance(term, Loop) for term in loops[0].body):
        return False
    if any(ref.array == step.target.array for ref, _ in refs(step.value)):
        return False  # it may read what an earlier round has set
    return all(factor.strides[-2] in (0, 1) for term in loops[0].body for factor in term.factors)


def _columns(rounds: int, step: Assign | Accumulate) -> list[Step]:
    """The loops in place of one over a sum: a single one that adds up all terms, if they are FEW. Otherwise, the first
    sets the targets to what the sum begins with, and the others add to them.
    """
    assert isinstance(step.value, Sum)
    terms: Any = step.value.terms
    at = next(i for i, term in enumerate(terms) if isinstance(term, Loop))
    first, loop, rest = terms[:at], terms[at], terms[at + 1 :]
    *outer, own = step.target.strides
    if len(first) + len(rest) + loop.rounds * len(loop.body) <= FEW:
        each = [replace(loop.body, partial(of_round, i=i, depth=len(outer) + 1)) for i in range(loop.rounds)]
        return [Loop(rounds, (step._replace(value=Sum((*first, *chain(*each), *rest))),))]
    adds, sign = isinstance(step, Accumulate), ">" if loop.body[0].sign == ">" else "+"
    steps: list[Step] = []

    def add(target: Ref, terms: Sequence[Term]) -> Loop:
        value = Sum(tuple(terms if adds else [Term(sign, (target,)), *terms]))
        return Loop(rounds, (type(step)(target, value),))

    if first or not adds:
        steps.append(Loop(rounds, (step._replace(value=Sum(first) if first else start([loop])),)))
    whole = loop.rounds // AT_ONCE * AT_ONCE
    for begin, end, n in (0, whole, AT_ONCE), (whole, loop.rounds, 1):
        if begin < end:
            swaps = [partial(_swapped, start=k, step=n) for k in range(begin, begin + n)]
            some = [replace(term, swap) for swap in swaps for term in loop.body]
            inner, times = add(step.target._replace(strides=(*outer, 0, own)), some), (end - begin) // n
            once = partial(of_round, i=0, depth=len(outer))
            steps.append(Loop(times, (inner,)) if times > 1 else replace(inner, once))
    return [*steps, add(step.target, rest)] if rest else steps


def _swapped(ref: Ref, *, start: int, step: int) -> Ref:
    """A reference after two loops trade places; the summed one begins at round `start`, and takes `step` at a time."""
    *outer, own, summed = ref.strides
    return Ref(ref.array, ref.base + start * summed, (*outer, step * summed, own))
