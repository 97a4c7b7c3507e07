"""What steps access, and so whether they may change places; and which loops compilers vectorize."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

from micrograd.compiler.frontend.operations import CONDITIONS
from micrograd.compiler.ir import Accumulate, Assign, Loop, Ref, Step, Switch, calls, innermost, is_variable, refs, span

ROW_CALLS = {"exp"}, {"tanh"}  # with tanh among them, a step of an LSTM takes 1.2 us instead of 1.9
IN_VECTORS = CONDITIONS.union(*ROW_CALLS) | {*"+-*/", "quotient", "neg", "abs", "where", "sqrt", "condition", "truth"}
"""The operations of loops that compilers vectorize. With row_exp in others, log(1 + exp(x)) takes 1.3 times as long."""


def is_flat(loops: Sequence[Loop]) -> bool:
    """Whether they have no sums or loops inside: otherwise C vectorizes less, and a filter takes 1.4 times as long."""
    return all(len(rounds) == 1 for loop in loops for _, rounds in refs(loop))


def is_of_vectors(loop: Loop) -> bool:
    """Whether compilers make vectors of a loop: it has no sums or loops inside, and only operations IN_VECTORS."""
    steps_fit = all(isinstance(step, Assign | Accumulate) and calls(step) <= IN_VECTORS for step in loop.body)
    return steps_fit and is_flat([loop])


def is_parallel(loop: Loop, around: tuple[int, ...] = ()) -> bool:
    """Whether no round of a loop accesses what another one sets. `around` has the rounds of the loops around it."""
    known: set[Ref] = set()
    for step, _ in innermost(loop):
        if not isinstance(step, Assign | Accumulate):
            return False
        if any(is_variable(ref) and ref not in known for ref, _ in refs(step.value)):
            return False  # a sum carried from round to round
        known.add(step.target)
    its = accesses(loop, around)
    return not meet(its, its, around)


class Access(NamedTuple):
    """A reference, the rounds of the loops around it, its lowest and highest index, and whether it is set."""

    ref: Ref
    rounds: tuple[int, ...]
    low: int
    high: int
    is_set: bool


Accesses = dict[str, list[Access]]
"""The elements that a step accesses, by array."""


def accesses(part: Step, around: tuple[int, ...]) -> Accesses:
    """The elements of arrays that a step accesses. `around` has the rounds of the loops around it."""
    found = defaultdict[str, list[Access]](list)
    for step, its in innermost(part, around):
        for i, (ref, rounds) in enumerate(refs(step, its)):
            if len(ref.strides) == len(rounds) and not is_variable(ref):
                is_set = i == 0 or isinstance(step, Switch)
                found[ref.array].append(Access(ref, rounds, *span(ref, rounds), is_set))
    return found


def meet(first: Accesses, second: Accesses, around: tuple[int, ...], ever: bool = False) -> bool:
    """Whether a round of the second loop accesses what a later round of the first does, and one of them sets it. With
    `ever`, this may be any round of the first. `around` has the rounds of the loops around both.
    """
    depth = len(around)
    return any(
        ever or _meets_later(a, b, depth)
        for array in first.keys() & second.keys()
        for a, b in product(first[array], second[array])
        if (a.is_set or b.is_set) and a.low <= b.high and b.low <= a.high
    )


def _meets_later(first: Access, second: Access, depth: int) -> bool:
    """Whether the second, in some round of the loop at this depth, may access what the first does in a later round."""
    a, b = first.ref, second.ref
    if a.strides[:depth] != b.strides[:depth]:
        return True
    alike = a.strides[depth] == b.strides[depth] and isinstance(a.strides[depth], int)  # the loop moves both alike
    inner, stride = (depth + 1, a.strides[depth]) if alike else (depth, 0)
    low, high = span(Ref("", a.base, a.strides[inner:]), first.rounds[inner:])
    lowest, highest = span(Ref("", b.base, b.strides[inner:]), second.rounds[inner:])
    nearest, farthest = lowest - high, highest - low  # from a to b in the same round
    if stride < 0:
        stride, nearest, farthest = -stride, -farthest, -nearest
    if stride == 0:
        return nearest <= 0 <= farthest
    later = max(1, -(-nearest // stride))  # the first round in which a is as far
    return later < first.rounds[depth] and later * stride <= farthest
