"""Loops over sums with their terms in the outer loop, for code that computes one example after the other."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any

from micrograd.compiler.ir import Accumulate, Assign, Kernel, Loop, Ref, Step, Sum, adding, of_round, refs, replace
from micrograd.compiler.passes.sums import is_dot

FEW = 10  # a sum of so many terms is added up at once: a mixture written whole takes 0.93 of the time, k-means 0.91
AT_ONCE = 4  # terms of a longer sum between two writes to memory: with one, a filter takes 1.2 to 1.3 times as long


def interchanged(steps: Sequence[Step]) -> Kernel:
    """The steps with the terms of sums in the outer loop where neighbouring sums read neighbouring elements.

    Such is a matrix times a vector whose rows are not neighbours: one example after the other, a compiler makes vectors
    of the sums then.
    """
    found: Kernel = []
    for step in steps:
        if isinstance(step, Loop):
            if len(step.body) == 1 and _is_column_sum(step.body[0]):
                found += _columns(step.rounds, step.body[0])
                continue
            step = Loop(step.rounds, tuple(interchanged(step.body)))
        found.append(step)
    return found


def _is_column_sum(step: Any) -> bool:
    """Whether a step computes a sum that has one loop, and what that reads advances with the target."""
    if not isinstance(step, Assign | Accumulate) or not isinstance(step.value, Sum) or step.target.strides[-1] != 1:
        return False
    loops = [term for term in step.value.terms if isinstance(term, Loop)]
    if len(loops) != 1 or is_dot(loops[0]) or any(isinstance(term, Loop) for term in loops[0].body):
        return False
    if any(ref.array == step.target.array for ref, _ in refs(step.value)):
        return False  # it may read what an earlier round has set
    return all(factor.strides[-2] in (0, 1) for term in loops[0].body for factor in term.factors)


def _columns(rounds: int, step: Assign | Accumulate) -> Iterator[Step]:
    """The loops in place of one over a sum: one that adds up all terms, if they are FEW. Otherwise, the first sets the
    targets to the terms that the sum begins with, and the others add to them.
    """
    assert isinstance(step.value, Sum)
    terms: Any = step.value.terms
    at = next(i for i, term in enumerate(terms) if isinstance(term, Loop))
    first, loop, rest = terms[:at], terms[at], terms[at + 1 :]
    *outer, own = step.target.strides

    def of_rounds(*which: int) -> list[Any]:
        return [*chain(*[of_round(loop.body, k, depth=len(outer) + 1) for k in range(*which)])]

    def add(target: Ref, terms: Sequence[Any]) -> Loop:
        more = Accumulate(target, Sum(tuple(terms))) if isinstance(step, Accumulate) else adding(target, terms)
        return Loop(rounds, (more,))

    if len(first) + len(rest) + loop.rounds * len(loop.body) <= FEW or loop.rounds <= AT_ONCE:
        yield Loop(rounds, (step._replace(value=Sum((*first, *of_rounds(loop.rounds), *rest))),))
        return
    yield Loop(rounds, (step._replace(value=Sum((*first, *of_rounds(AT_ONCE)))),))
    times, left = divmod(loop.rounds, AT_ONCE)
    if times > 1:
        some = [replace(term, partial(_swapped, start=AT_ONCE + k)) for k in range(AT_ONCE) for term in loop.body]
        yield Loop(times - 1, (add(step.target._replace(strides=(*outer, 0, own)), some),))
    if last := [*of_rounds(loop.rounds - left, loop.rounds), *rest]:
        yield add(step.target, last)


def _swapped(ref: Ref, start: int) -> Ref:
    """A reference after two loops trade places; the summed one begins at round `start`, and takes AT_ONCE at a time."""
    *outer, own, summed = ref.strides
    return Ref(ref.array, ref.base + start * summed, (*outer, AT_ONCE * summed, own))
