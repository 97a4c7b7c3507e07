"""The order of statements: each right before it is first needed; and one loop for statements that pass on numbers."""

from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import chain, count, repeat
from math import prod
from typing import Any

from micrograd.compiler.ir import Assign, Kernel, Loop, Ref, Step, refs, replace
from micrograd.compiler.passes.expressions import Column, Node
from micrograd.compiler.passes.vectorize import Statement

WINDOW = 40  # loops, after which a loop is too far away to share


def fused(statements: Sequence[Statement], nodes: Sequence[Node], results: Sequence[int]) -> Kernel:
    """The statements as a kernel. Loops are fused if a round of the second needs only that round of the first."""
    columns = {node.line: node.columns for node in nodes}
    statement_of: dict[int, int] = {}
    round_of: dict[int, int] = {}
    for s, statement in enumerate(statements):
        statement_of.update(zip(statement.lines, repeat(s)))
        round_of.update(zip(statement.lines, count()))

    @cache
    def statements_of(column: Column) -> set[int]:
        return {s for s in set(map(statement_of.get, column)) if s is not None}

    needs = []
    for statement in statements:
        used = set(chain.from_iterable(map(columns.__getitem__, statement.lines)))
        needs.append(set[int]().union(*map(statements_of, used)))
    groups: list[list[int]] = []
    group_of: dict[int, int] = {}
    rounds = [_rounds(statement) for statement in statements]
    for s in _late(needs):
        latest = max([group_of[o] for o in needs[s]], default=-1) if rounds[s] else -1
        if not (
            latest >= 0
            and len(groups) - latest <= WINDOW
            and rounds[groups[latest][0]] == rounds[s]
            and all(
                round_of[o] == k
                for k, line in enumerate(statements[s].lines)
                for o in chain(*columns[line])
                if statement_of.get(o) in groups[latest]
            )
        ):
            latest = len(groups)
            groups.append([])
        groups[latest].append(s)
        group_of[s] = latest
    used_outside = set(map(statement_of.get, results)).union(
        o for s, others in enumerate(needs) for o in others if group_of[o] != group_of[s]
    )
    merged: Kernel = []
    for members in groups:
        if len(members) == 1:
            merged.append(statements[members[0]].step)
            continue
        lines = chain.from_iterable(statements[s].lines for s in members)
        uses = Counter(map(statement_of.get, chain.from_iterable(chain(*columns[line]) for line in lines)))
        uses_a_round = [0 if s in used_outside else uses[s] / len(statements[s].lines) for s in members]
        merged.append(_merged([statements[s].step for s in members], uses_a_round))
    return merged


def _rounds(statement: Statement) -> tuple[int, ...]:
    """The rounds of the loops around a single assignment, if each of its rounds computes one line; otherwise none."""
    rounds, _ = _unnested(statement.step)
    return rounds if prod(rounds) == len(statement.lines) else ()


def _late(needs: Sequence[set[int]]) -> list[int]:
    """The statements, each right before the first that needs it, as far as what comes later in time allows it."""
    use: dict[int, int] = {}
    for s in range(len(needs) - 1, -1, -1):
        mine = use.setdefault(s, s)
        for o in needs[s]:
            use[o] = min(use.get(o, mine), mine)
    return sorted(range(len(needs)), key=lambda s: (use[s], s))


def _unnested(step: Any) -> tuple[tuple[int, ...], Any]:
    """The rounds of the loops around a single assignment, and this; none if there are several."""
    rounds: list[int] = []
    while isinstance(step, Loop):
        if len(step.body) > 1:
            return (), step
        rounds.append(step.rounds)
        step = step.body[0]
    return tuple(rounds), step


def _merged(steps: Sequence[Step], uses: Sequence[float]) -> Step:
    """One loop for steps of the same rounds. A result that only these read, in its own round, becomes a variable.

    `uses` has how often a round uses the result of each step; 0 if anything outside of the loop uses it, too.
    """
    (rounds, *_), inner = zip(*map(_unnested, steps), strict=True)
    reads = Counter(ref for step in inner for ref, _ in refs(step.value))
    variables: dict[Ref, Ref] = {}
    body: list[Step] = []
    for step, used in zip(inner, uses, strict=True):
        step = step._replace(value=replace(step.value, lambda ref: variables.get(ref, ref)))
        if isinstance(step, Assign) and used and reads[step.target] == used:  # none is read in another way
            variables[step.target] = Ref(f"v{len(variables)}")
            step = step._replace(target=variables[step.target])
        body.append(step)
    for n in reversed(rounds):
        body = [Loop(n, tuple(body))]
    return body[0]
