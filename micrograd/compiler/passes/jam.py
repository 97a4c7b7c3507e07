"""Unroll and jam: rounds of an outer loop that read the same numbers share one inner loop that loads them once."""

from collections.abc import Sequence
from functools import partial

from micrograd.compiler.ir import Kernel, Loop, Ref, Step, is_variable, refs, replace
from micrograd.compiler.passes.dependence import is_parallel

JAM_FACTOR = 2  # rounds that run together: a step of 784-128-10 takes 414 us with 4, 421 with 2, and 525 alone


def jam(kernel: Sequence[Step]) -> Kernel:
    """The kernel, whose sums are steps, with the rounds of outermost loops run together where that pays."""
    found: Kernel = []
    for step in kernel:
        if isinstance(step, Loop) and can_jam(step):
            found += strips(step, JAM_FACTOR, _jammed(step.body))
        else:
            found.append(step)
    return found


def _jammed(body: Sequence[Step]) -> list[Step]:
    """Steps of several rounds at a time, with shared inner loops."""
    found: list[Step] = []
    for step in body:
        if isinstance(step, Loop):
            found.append(Loop(step.rounds, tuple(_jammed(step.body))))
        else:
            found += [replace(step, partial(_copy, k=k)) for k in range(JAM_FACTOR)]
    return found


def strips(loop: Loop, n: int, body: Sequence[Step]) -> list[Step]:
    """An outermost loop with this body, each round of which is n rounds; and another loop for the few rounds left."""
    whole, left = divmod(loop.rounds, n)
    found: list[Step] = [Loop(whole, tuple(body))]
    if left:
        found.append(Loop(left, replace(loop.body, partial(_rounds_later, k=whole * n))))
    return found


def _rounds_later(ref: Ref, k: int) -> Ref:
    """A reference in an outermost loop as it is k rounds later."""
    return ref._replace(base=ref.base + k * ref.strides[0]) if ref.strides else ref


def _copy(ref: Ref, k: int) -> Ref:
    """A reference in the k-th of the rounds that run together: each round has its own variables."""
    if is_variable(ref):
        return Ref(f"{ref.array}_{k}")
    array, base, strides = _rounds_later(ref, k)
    return Ref(array, base, (JAM_FACTOR * strides[0], *strides[1:])) if strides else ref


def can_jam(loop: Loop) -> bool:
    """Whether the rounds of an outermost loop are independent and alike, and some numbers are read in every one."""
    strides = [ref.strides for ref, _ in refs(loop)]
    is_reused = any(len(its) > 1 and its[0] == 0 != its[-1] for its in strides)  # what an inner loop reads
    if _varies(loop) or any(type(stride) is tuple for its in strides for stride in its):
        return False
    return is_reused and is_parallel(loop)


def _varies(loop: Loop) -> bool:
    """Whether the rounds of a loop or one inside it vary, or it has layers: these are jammed already."""
    return loop.varies or loop.layer or any(isinstance(step, Loop) and _varies(step) for step in loop.body)
