"""Fusion: loops near each other with the same number of rounds become one, so a number is read soon after it is set.

And fission: one loop becomes several if some of its steps are computed in another way.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, groupby
from typing import Any, TypeGuard

from micrograd.compiler.ir import Kernel, Loop, Step, innermost, most_rounds, of_round
from micrograd.compiler.passes.dependence import Accesses, accesses, is_flat, is_parallel, meet

NEAR = 8  # how many steps a loop looks back for one to join: with 1, steps of an ODE take 1.22 times as long
FEW, MANY_ROUNDS = 2, 512
"""Loops whose rounds differ by at most FEW join if they have more than MANY_ROUNDS: the nearest cache does not hold
such long arrays, and 100 steps of an ODE with 1,000 numbers take 0.7 of the time. With 512 numbers, they take as
long."""
MOST_STEPS = 40  # of a loop that others join: without a limit, 300 operations on 64 numbers take 4.9 s, not 2.5


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
    found: Sequence[tuple[Any, Accesses]], loop: Loop, its: Accesses, around: tuple[int, ...],
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
    return is_next or is_flat((first, second))


def fission(
    steps: Sequence[Step], apart: Callable[[Any], bool], made: Callable[[Any, Any], Iterable[Step]],
    around: tuple[int, ...] = (),
) -> Kernel:  # fmt: skip
    """The steps, with each step that is to be `apart` taken out of its loop, if the rounds may run in any order: `made`
    returns the steps in its place, given the rounds of its loop and the step. `around` has the rounds of outer loops.
    """
    found: Kernel = []
    for step in steps:
        if not isinstance(step, Loop):
            found.append(step)
        elif not step.varies and any(map(apart, step.body)) and is_parallel(step, around):
            for is_apart, its in groupby(step.body, apart):
                body = tuple(its)
                found += chain(*[made(step.rounds, each) for each in body]) if is_apart else [Loop(step.rounds, body)]
        else:
            inner = (*around, most_rounds(step.rounds, around))
            found.append(step._replace(body=tuple(fission(step.body, apart, made, inner))))
    return found
