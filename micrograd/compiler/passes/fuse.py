"""Fusion: loops near each other with the same number of rounds become one, so a number is read soon after it is set."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

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
    of_round,
    refs,
    replace,
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
        step._replace(body=tuple(fuse(step.body, (*around, step.rounds), joins))) if isinstance(step, Loop) else step
        for step in found
    ]


def join(steps: Sequence[Any], around: tuple[int, ...], joins: Callable[[Loop], bool], few: int = 0) -> Kernel:
    """The steps with each loop joined to an earlier one if possible. They may differ by a `few` rounds, which become
    separate steps.
    """
    found: list[Any] = []
    for step in steps:
        at = _partner(found, step, around, joins, few) if isinstance(step, Loop) and joins(step) else -1
        if at >= 0:
            before = found[at]
            n = min(before.rounds, step.rounds)
            found[at : at + 1] = [Loop(n, (*before.body, *step.body)), *_last(before, n, len(around))]
            found += _last(step, n, len(around))
        else:
            found.append(step)
    return found


def _last(loop: Loop, first: int, depth: int) -> Iterator[Step]:
    """The rounds of a loop at this depth from the `first` on, as steps."""
    for i in range(first, loop.rounds):
        yield from replace(loop.body, partial(of_round, i=i, depth=depth))


def _partner(found: Kernel, loop: Loop, around: tuple[int, ...], joins: Callable[[Loop], bool], few: int) -> int:
    """The index of a loop among the last steps that this one may join, and so run before the steps between; or -1."""
    last = len(found) - 1
    for at in range(last, max(-1, last - NEAR), -1):
        before, between = found[at], found[at + 1 :]
        if not isinstance(before, Loop) or not joins(before) or abs(before.rounds - loop.rounds) > few:
            continue
        is_apart = any(each.parallel or each.may_skip for each in (before, loop))
        if is_apart or len([*innermost(before)]) > MOST_STEPS:
            continue
        its = accesses(loop._replace(rounds=min(before.rounds, loop.rounds)), around)
        is_free = not any(meet(accesses(each, around), its, ever=True) for each in between)
        is_alike = _is_flat((before, loop)) or not (few or between)
        if is_free and is_alike and not meet(accesses(before, around), its, len(around)):
            return at
    return -1


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
    return not meet(its, its, len(around))


class Access(NamedTuple):
    """A reference, the rounds of the loops around it, its lowest and highest index, and whether it is set."""

    ref: Ref
    rounds: tuple[int, ...]
    low: int
    high: int
    is_set: bool


def accesses(part: Step, around: tuple[int, ...] = ()) -> dict[str, list[Access]]:
    """The elements of arrays that a step accesses, by array. `around` has the rounds of the loops around it."""
    found = defaultdict[str, list[Access]](list)
    for step, its in innermost(part, around):
        for i, (ref, rounds) in enumerate(refs(step, its)):
            if len(ref.strides) == len(rounds) and not is_variable(ref):
                found[ref.array].append(Access(ref, rounds, *span(ref, rounds), i == 0 or isinstance(step, Switch)))
    return found


def meet(first: dict[str, list[Access]], second: dict[str, list[Access]], depth: int = 0, ever: bool = False) -> bool:
    """Whether a round of the second loop, at this depth, accesses what a later round of the first does, and one of them
    sets it. With `ever`, this may be any round of the first, not only a later one.
    """
    return any(
        (a.is_set or b.is_set) and a.low <= b.high and b.low <= a.high and (ever or _meets_later(a, b, depth))
        for array in first.keys() & second.keys()
        for a in first[array]
        for b in second[array]
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
