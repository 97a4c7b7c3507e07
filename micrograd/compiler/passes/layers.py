"""Layers: neighbouring sums that share a factor of each term, as in a matrix times a vector, become a function call.

The function keeps several sums in registers while it adds their terms. For many examples at once, each lane has the sum
of one example, and multiply-add is fused where the processor can: with jamming alone, a step of 512-512-10 takes 1.05
to 1.1 times as long on a processor that adds and multiplies at the same time. For a single example, a vector holds
neighbouring sums: a step of a GPT on one name takes 0.6 of the time that it takes to add up one sum after the other.

For a single example, other neighbouring sums over columns, such as sums of squares, are also added up side by side.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, groupby
from typing import Any

from micrograd.compiler.ir import Accumulate, Assign, Loop, Ref, Step, Sum, Term, adding, of_round, refs, replace, start
from micrograd.compiler.passes.fuse import fission
from micrograd.compiler.passes.sums import is_dot

FEWEST = 16
"""Terms of a sum in lanes: with AVX2, a step of 2-16-16-1 takes 0.9 of the time of jamming, of 16-16-16-1 0.8, and a
call of an LSTM 0.88; with AVX-512, sums of 16 take 1.04, of 64 0.7 to 0.9."""
AT_ONCE = 8
"""Terms of other sums that are added between two writes to memory. With one sum after the other, a gradient of gmm
written whole would take 1.3 times as long."""


def with_layers(kernel: Sequence[Step], *, lanes: bool) -> list[Step]:
    """The kernel with the sums of layers as steps of their own. With `lanes`, it is for many examples at once."""
    return fission(kernel, partial(_is_apart, lanes=lanes), partial(_steps, lanes=lanes))


def _is_apart(step: Any, lanes: bool) -> bool:
    """Whether a step in a loop computes a sum that a layer adds to, or another sum over columns."""
    if not isinstance(step, Assign | Accumulate) or not isinstance(step.value, Sum):
        return False
    if any(ref.array == step.target.array for ref, _ in refs(step.value)):
        return False  # it may read what an earlier round has set
    terms = step.value.terms
    return any(_layer(step.target, 0, term, lanes) or _is_column(step.target, term, lanes) for term in terms)


def _steps(rounds: int, step: Any, lanes: bool) -> Iterator[Step]:
    """The loops in place of a loop over a sum: the first sets each target to its first terms, the others add to it."""
    target, begins = step.target, isinstance(step, Assign)
    for kind, group in groupby(_parts(rounds, step, lanes), type):
        parts: Any = tuple(group)
        if kind is Sum:
            terms = tuple(chain(*[part.terms for part in parts]))
            sets = begins or isinstance(step, Accumulate)
            yield Loop(rounds, (step._replace(value=Sum(terms)) if sets else adding(target, terms),))
        else:
            if begins:
                yield Loop(rounds, (Assign(target, start(step.value.terms)),))
            yield from parts
        begins = False


def _parts(rounds: int, step: Any, lanes: bool) -> Iterator[Loop | Sum]:
    """The parts of a sum, in order: layers, loops that add the terms of columns AT_ONCE, and other terms."""
    target, depth = step.target, len(step.target.strides)
    for term in step.value.terms:
        if layer := _layer(target, rounds, term, lanes):
            yield layer
        elif not _is_column(target, term, lanes):
            yield Sum((term,))
        elif term.rounds <= AT_ONCE:
            yield Sum(tuple(chain(*[of_round(term.body, i, depth) for i in range(term.rounds)])))
        else:
            n = max(n for n in range(1, AT_ONCE + 1) if term.rounds % n == 0)
            terms = [replace(each, partial(_in_strip, depth=depth, n=n, i=i)) for i in range(n) for each in term.body]
            sums = replace(step._replace(value=Sum(tuple(terms))), partial(_swapped, own=depth - 1))
            more = sums if isinstance(step, Accumulate) else adding(sums.target, sums.value.terms)
            yield Loop(term.rounds // n, (Loop(rounds, (more,)),))


def _is_column(target: Ref, term: Any, lanes: bool) -> bool:
    """Whether a term is a loop over numbers that are next to each other for neighbouring targets, for one example."""
    own = len(target.strides) - 1
    if lanes or target.strides[own] != 1 or not isinstance(term, Loop) or term.varies or is_dot(term):
        return False
    return all(isinstance(each, Term) and {ref.strides[own] for ref in each.factors} <= {0, 1} for each in term.body)


def _layer(target: Ref, rounds: int, term: Any, lanes: bool) -> Loop | None:
    """The layer that adds a term, a loop, to as many targets as there are rounds; None if the term does not fit.

    If the term is a loop around such a loop, the layer is inside the outer one.
    """
    own = len(target.strides) - 1
    match term:
        case Loop(int(n), (Loop() as inner,)):
            layer = _layer(_swapped(target, own), rounds, replace(inner, partial(_swapped, own=own)), lanes)
            return layer and Loop(n, (layer,))
        case Loop(n, (Term("+", (first, second)),)) if isinstance(n, int) or not (lanes or any(n.strides[own:])):
            if lanes:
                weights, shared = sorted((first, second), key=lambda ref: ref.array not in "phu")
                fits = n >= FEWEST and target.array[0] == "t" and weights.array in "phu" and shared.array[0] in "tx"
            else:
                weights, shared = sorted((first, second), key=lambda ref: ref.strides[own] == 0)
                fits = target.strides[own] == weights.strides[own] == 1 and not is_dot(term)
            if fits and shared.strides[own] == 0 and shared.array[0] not in "s=":  # it has an address, unlike seed
                return Loop(rounds, (Accumulate(target, Sum((Loop(n, (Term("+", (weights, shared)),)),))),), layer=True)
    return None


def _swapped(ref: Ref, own: int) -> Ref:
    """A reference after the loop at this depth and the one inside it trade places."""
    inner = ref.strides[own + 1 : own + 2] or (0,)
    return ref._replace(strides=(*ref.strides[:own], *inner, *ref.strides[own : own + 1], *ref.strides[own + 2 :]))


def _in_strip(ref: Ref, depth: int, n: int, i: int) -> Ref:
    """A reference in the i-th of n rounds that become one round of a loop at this depth."""
    array, base, strides = ref
    return Ref(array, base + i * strides[depth], (*strides[:depth], n * strides[depth]))
