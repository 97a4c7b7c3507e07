"""Layers: sums of weights times numbers that all these sums share, several of them added up at a time.

They use fused multiply-add where the processor has it. With jamming alone, a step of 512-512-10 takes 1.05 to 1.1 times
as long on a processor that adds and multiplies at the same time.
"""

from collections.abc import Iterator, Sequence
from itertools import dropwhile, groupby

from micrograd.compiler.ir import Accumulate, Assign, Kernel, Loop, Ref, Step, Sum, Term, most_rounds, start
from micrograd.compiler.passes.dependence import is_parallel

FEWEST = 16
"""Terms of a sum: with AVX2, a step of 2-16-16-1 takes 0.9 of the time of jamming, of 16-16-16-1 0.8, and a call of an
LSTM 0.88; with AVX-512, sums of 16 take 1.04, of 64 0.7 to 0.9."""


def with_layers(kernel: Sequence[Step], around: tuple[int, ...] = ()) -> Kernel:
    """The kernel with the sums of layers as separate steps. `around` has the rounds of the loops around it."""
    found: Kernel = []
    for step in kernel:
        if not isinstance(step, Loop):
            found.append(step)
        elif not step.varies and any(map(_is_sum_of_layer, step.body)) and is_parallel(step, around):
            for apart, steps in groupby(step.body, _is_sum_of_layer):
                body = tuple(steps)
                found += _layers(step.rounds, body) if apart else [Loop(step.rounds, body)]
        else:
            found.append(Loop(step.rounds, tuple(with_layers(step.body, (*around, most_rounds(step.rounds, around))))))
    return found


def _is_sum_of_layer(step: Step) -> bool:
    """Whether a step in a loop sets a number to a sum that ends with a loop over weights times shared numbers."""
    if not isinstance(step, Assign) or not isinstance(step.value, Sum) or step.target.array[0] != "t":
        return False
    return bool(_factors(step.value.terms[-1]))


def _factors(loop: Term | Loop) -> tuple[Ref, ...]:
    """The weights and the shared numbers that a loop of terms multiplies; none if it is not a sum of a layer."""
    if not isinstance(loop, Loop) or loop.varies or loop.rounds < FEWEST:
        return ()
    if len(loop.body) > 1 or isinstance(loop.body[0], Loop):
        return ()
    sign, factors = loop.body[0]
    weights, *others = sorted(factors, key=lambda factor: factor.array not in "phu")
    shared = [ref for ref in others if ref.array[0] in "tx" and not ref.strides[-2]]
    return (weights, *shared) if weights.array in "phu" and shared and sign == "+" else ()


def _layers(rounds: int, sums: Sequence[Assign]) -> Iterator[Step]:
    """For each sum in the body of a loop: the loop that sets the first terms, and the layers that add the others."""
    for target, value in sums:
        assert isinstance(value, Sum)
        first = tuple(dropwhile(_factors, reversed(value.terms)))[::-1]
        yield Loop(rounds, (Assign(target, Sum(first) if first else start(value.terms)),))
        for loop in value.terms[len(first) :]:
            assert isinstance(loop, Loop)
            its = loop._replace(body=(Term("+", _factors(loop)),))
            yield Loop(rounds, (Accumulate(target, Sum((its,))),), layer=True)
