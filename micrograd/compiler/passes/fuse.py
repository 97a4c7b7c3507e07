"""Fusion: loops near each other with the same number of rounds become one, so a number is read soon after it is set."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, product
from typing import Any, NamedTuple, TypeGuard

from micrograd.compiler.frontend.operations import CONDITIONS
from micrograd.compiler.ir import (
    Accumulate,
    Assign,
    Kernel,
    Loop,
    Ref,
    Step,
    Switch,
    calls,
    innermost,
    is_variable,
    most_rounds,
    of_round,
    refs,
    span,
)

NEAR = 8  # how many steps a loop looks back for one to join: with 1, steps of an ODE take 1.22 times as long
FEW, MANY_ROUNDS = 2, 512
"""Loops whose rounds differ by at most FEW join if they have more than MANY_ROUNDS: the nearest cache does not hold
such long arrays, and 100 steps of an ODE with 1,000 numbers take 0.7 of the time. With 512 numbers, they take as
long."""
MOST_STEPS = 40  # of a loop that others join: without a limit, 300 operations on 64 numbers take 4.9 s, not 2.5
ROW_CALLS = {"exp"}, {"tanh"}  # with tanh among them, a step of an LSTM takes 1.2 us instead of 1.9
IN_VECTORS = CONDITIONS.union(*ROW_CALLS) | {*"+-*/", "quotient", "neg", "abs", "where", "sqrt", "condition", "truth"}
"""The operations of loops that compilers vectorize. With row_exp in others, log(1 + exp(x)) takes 1.3 times as long."""


def fuse(steps: Sequence[Step], around: tuple[int, ...] = (), joins: Callable[[Loop], bool] = bool) -> Kernel:
    """The steps, with each loop joined to one shortly before it if possible. `around` has the rounds of outer loops.

    `joins` says which loops may join at all. First loops with the same number of rounds join, then long ones whose
    numbers of rounds are almost the same.
    """
    found = join(join(steps, around, joins), around, lambda loop: loop.rounds > MANY_ROUNDS and joins(loop), FEW)
    return [
        step._replace(body=tuple(fuse(step.body, (*around, most_rounds(step.rounds, around)), joins)))
        if isinstance(step, Loop)
        else step
        for step in found
    ]


def join(steps: Sequence[Any], around: tuple[int, ...], joins: Callable[[Loop], bool], few: int = 0) -> Kernel:
    """The steps with each loop joined to an earlier one if possible. Two that join may differ by a `few` rounds; these
    become separate steps. Loops whose rounds vary stay apart.
    """
    if sum(_may_join(step, joins) for step in steps) < 2:
        return list(steps)
    found: list[tuple[Any, Accesses]] = []
    for step in steps:
        its = accesses(step, around)
        at = _partner(found, step, its, around, joins, few) if _may_join(step, joins) else -1
        if at < 0:
            found.append((step, its))
            continue
        before, of_before = found[at]
        n = min(before.rounds, step.rounds)
        joined = Loop(n, (*before.body, *step.body))
        if before.rounds == step.rounds:
            of_both = {array: [*of_before.get(array, ()), *its.get(array, ())] for array in of_before | its}
            found[at] = joined, of_both
        else:
            new = joined, *_last(before, n, len(around))
            found[at : at + 1] = [(each, accesses(each, around)) for each in new]
            found += [(each, accesses(each, around)) for each in _last(step, n, len(around))]
    return [step for step, _ in found]


def _may_join(step: Any, joins: Callable[[Loop], bool]) -> TypeGuard[Loop]:
    return isinstance(step, Loop) and not step.varies and joins(step)


def _last(loop: Loop, first: int, depth: int) -> Iterator[Step]:
    """The rounds of a loop at this depth from the `first` on, as steps."""
    return chain(*[of_round(loop.body, i, depth) for i in range(first, loop.rounds)])


def _partner(
    found: Sequence[tuple[Any, "Accesses"]], loop: Loop, its: "Accesses", around: tuple[int, ...],
    joins: Callable[[Loop], bool], few: int,
) -> int:  # fmt: skip
    """The index of a loop among the last steps that this one may join, and so run before the steps between; or -1."""
    last = len(found) - 1
    least = accesses(loop._replace(rounds=loop.rounds - few), around) if few else its
    for at in range(last, max(-1, last - NEAR), -1):
        before, of_before = found[at]
        if _may_join(before, joins) and abs(before.rounds - loop.rounds) <= few:
            both = loop._replace(rounds=min(before.rounds, loop.rounds))
            of_both = accesses(both, around) if few else its
            is_free = not few or not any(meet(each, of_both, around, ever=True) for _, each in found[at + 1 :])
            if is_free and _fit(before, both, at == last and not few) and not meet(of_before, of_both, around):
                return at
        if meet(of_before, least, around, ever=True):
            break
    return -1


def _fit(first: Loop, second: Loop, is_next: bool) -> bool:
    """Whether two loops are alike enough to be one; `is_next` says that no steps are between them."""
    if any(loop.parallel or loop.may_skip for loop in (first, second)) or len([*innermost(first)]) > MOST_STEPS:
        return False
    return is_next or _is_flat((first, second))


def _is_flat(loops: Sequence[Loop]) -> bool:
    """Whether they have no sums or loops inside: otherwise C vectorizes less, and a filter takes 1.4 times as long."""
    return all(len(rounds) == 1 for loop in loops for _, rounds in refs(loop))


def is_of_vectors(loop: Loop) -> bool:
    """Whether compilers make vectors of a loop: it has no sums or loops inside, and only operations IN_VECTORS."""
    steps_fit = all(isinstance(step, Assign | Accumulate) and calls(step) <= IN_VECTORS for step in loop.body)
    return steps_fit and _is_flat([loop])


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
