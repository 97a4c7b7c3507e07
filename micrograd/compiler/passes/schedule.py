"""The order of statements: each right before it is first needed; and one loop for statements that pass on numbers."""

from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import chain
from math import prod
from typing import Any

from micrograd.compiler.ir import Assign, Kernel, Loop, Ref, Step, refs, replace
from micrograd.compiler.passes.expressions import Column, Node
from micrograd.compiler.passes.vectorize import Statement

WINDOW = 40  # loops, after which a loop is too far away to share


def fused(statements: Sequence[Statement], nodes: Sequence[Node], results: Sequence[int]) -> Kernel:
    """The statements as a kernel. Loops are fused if a round of the second needs only that round of the first."""
    columns = {node.line: node.columns for node in nodes}
    statement_of = {line: s for s, statement in enumerate(statements) for line in statement.lines}
    round_of = {line: k for statement in statements for k, line in enumerate(statement.lines)}

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
        latest = max([group_of[o] for o in needs[s]], default=-1)
        if not (
            rounds[s]
            and latest >= 0
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
    uses = Counter(map(statement_of.get, results))
    for column, n in Counter(chain.from_iterable(columns.values())).items():
        for line in column:
            uses[statement_of.get(line)] += n
    return [_merged([(statements[s].step, uses[s] / len(statements[s].lines)) for s in members]) for members in groups]


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


def nested(rounds: Sequence[int], body: Sequence[Step]) -> Loop:
    """Loops of so many rounds, the outermost first, around the steps."""
    *outer, n = rounds
    loop = Loop(n, tuple(body))
    return nested(outer, [loop]) if outer else loop


def _merged(members: Sequence[tuple[Step, float]]) -> Step:
    """One loop for steps, each with the uses of its results a round: a variable, if these are all in its own round."""
    if len(members) == 1:
        return members[0][0]
    (rounds, *_), inner = zip(*[_unnested(step) for step, _ in members], strict=True)
    reads = Counter(ref for step in inner for ref, _ in refs(step.value))
    variables: dict[Ref, Ref] = {}
    body: list[Step] = []
    for step, (_, uses) in zip(inner, members, strict=True):
        step = step._replace(value=replace(step.value, lambda ref: variables.get(ref, ref)))
        if isinstance(step, Assign) and reads[step.target] == uses:
            variables[step.target] = Ref(f"v{len(variables)}")
            step = step._replace(target=variables[step.target])
        body.append(step)
    return nested(rounds, body)
