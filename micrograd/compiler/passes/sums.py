"""Sums as steps: one with loops or with many terms is added up in a variable, so that each step is one statement."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import count, groupby
from typing import Any

from micrograd.compiler.ir import Accumulate, Assign, Call, Kernel, Loop, Ref, Step, Sum, Switch, Term, adding, start

LONG = 8  # terms of a statement: with 60, a sum of 60 takes 7% longer in lanes, and its line is unreadable


def in_steps(kernel: Sequence[Step], *, dots: bool = False, totals: bool = False) -> Kernel:
    """The kernel with its sums as steps, in variables sum0, sum1, ...

    With `dots`, a loop over neighbouring numbers or their products is a Call. With `totals`, what is added to a
    gradient is a variable, with a number for each of several examples.
    """
    variables = (Ref(f"sum{i}") for i in count())

    def within(body: Sequence[Step]) -> tuple[Step, ...]:
        return tuple([each for step in body for each in steps(step)])

    def steps(step: Step) -> Iterator[Step]:
        if isinstance(step, Loop):
            yield step if step.layer else Loop(step.rounds, within(step.body))
        elif isinstance(step, Switch):
            yield Switch(step.order, tuple(map(within, step.cases)))
        elif isinstance(step, Assign | Accumulate) and isinstance(step.value, Sum) and _is_long(step.value.terms):
            variable, parts = next(variables), [*_statements(step.value.terms)]
            yield Assign(variable, start(step.value.terms) if isinstance(parts[0], Loop) else Sum(parts.pop(0)))
            yield from _added(variable, parts, dots)
            yield step._replace(value=variable)
        elif totals and isinstance(step, Accumulate):
            variable = next(variables)
            yield from (Assign(variable, step.value), step._replace(value=variable))
        else:
            yield step

    return list(within(kernel))


def _is_long(terms: Sequence[Term | Loop]) -> bool:
    return len(terms) > LONG or any(isinstance(term, Loop) for term in terms)


def _added(variable: Ref, parts: Iterable[tuple[Term, ...] | Loop], dots: bool) -> Iterator[Step]:
    """Steps that add terms and loops of terms to a variable."""
    for part in parts:
        if not isinstance(part, Loop):
            yield adding(variable, part)
        elif dots and is_dot(part):
            (sign, factors) = part.body[0]
            operands = sorted([_operand(factor, part.rounds) for factor in factors], key=_is_row)  # number, then row
            op = "max" if sign == ">" else "sum" if len(factors) == 1 else "dot" if _is_row(operands[0]) else "scaled"
            negated = [Assign(variable, Call("neg", (variable,)))] * (sign == "-")  # negation is exact
            rounds = part.rounds if part.varies else Ref("", part.rounds)
            yield from (*negated, Assign(variable, Call(op, (variable, *operands, rounds))), *negated)
        else:
            body = tuple(_added(variable, _statements(part.body), dots))
            yield Loop(part.rounds, body, in_order=len(part.body) > 1 or isinstance(part.body[0], Loop))


def _statements(terms: Sequence[Term | Loop]) -> Iterator[Any]:
    """The loops, and between them some terms at a time."""
    for is_loop, parts in groupby(terms, lambda term: isinstance(term, Loop)):
        alike = tuple(parts)
        yield from alike if is_loop else (alike[i : i + LONG] for i in range(0, len(alike), LONG))


def is_dot(loop: Loop) -> bool:
    """Whether a loop adds up neighbouring elements of an array, each times one of another row, or a number."""
    term = loop.body[0]
    if len(loop.body) > 1 or isinstance(term, Loop) or any(factor.array[0] not in "pxty" for factor in term.factors):
        return False
    return {factor.strides[-1] for factor in term.factors} in ({1}, {0, 1}, *[{-1}, {0, -1}] * (not loop.varies))


def _operand(ref: Ref, rounds: Any) -> Ref:
    """A number, or a pointer to the first element in memory that a loop reads, forwards or backwards."""
    *outer, stride = ref.strides
    return Ref("&" * bool(stride) + ref.array, ref.base if stride >= 0 else ref.base - (rounds - 1), tuple(outer))


def _is_row(operand: Ref) -> bool:
    return operand.array[0] == "&"
