"""The smallest failing program, found by simplifications that keep the failure."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from micrograd import Value
from tests.fuzz.programs import Program, Step, ends, evaluate

P = TypeVar("P")


def shrink(program: P, simpler: Callable[[P], Iterable[P]], fails: Callable[[P], bool]) -> P:
    """Simplify a program that fails as long as one of the simpler ones fails too."""
    while found := next(filter(fails, simpler(program)), None):
        program = found
    return program


def simpler(program: Program) -> Iterator[Program]:
    """Programs with less in them, the boldest cuts first; each is smaller, or has rounder numbers."""
    last = ends(program)
    if len(last) > 1:
        for end in last:
            yield _reachable(program, [end])
    results = [float(v.data) for v in evaluate(program, Value, lambda kind, operands: kind.apply(*operands))]
    stretch = len(program)
    while stretch:  # of steps that become leaves, so that what came before is cut off
        for start in range(0, len(program), stretch):
            cut: Program = list(program)
            cut[start : start + stretch] = results[start : start + stretch]
            if cut != program:
                yield _reachable(cut, last)
        stretch //= 2
    for i, node in enumerate(program):
        if isinstance(node, Step):
            for operand in {x for x in node.operands if type(x) is int}:
                yield _without(program, i, operand)
            for operands in _fewer(node):
                yield _reachable([*program[:i], Step(node.kind, operands), *program[i + 1 :]], last)
    for i, node in enumerate(program):
        for rounder in _rounder_step(node) if isinstance(node, Step) else _rounder(node):
            yield [*program[:i], rounder, *program[i + 1 :]]


def _without(program: Program, i: int, operand: int) -> Program:
    """The program with an operand of step `i` in its place."""

    def moved(x):
        return operand if type(x) is int and x == i else x

    changed = [Step(n.kind, tuple(map(moved, n.operands))) if isinstance(n, Step) else n for n in program]
    return _reachable(changed, [moved(end) for end in ends(program)])


def _reachable(program: Program, last: list[int]) -> Program:
    """The nodes that these need, numbered anew."""
    needed = set(last)
    for i in range(len(program) - 1, -1, -1):
        node = program[i]
        if i in needed and isinstance(node, Step):
            needed.update(x for x in node.operands if type(x) is int)
    number = {old: new for new, old in enumerate(sorted(needed))}
    return [
        Step(node.kind, tuple(number[x] if type(x) is int else x for x in node.operands))
        if isinstance(node, Step)
        else node
        for node in (program[old] for old in sorted(needed))
    ]


def _fewer(step: Step) -> Iterator[tuple[int | float, ...]]:
    """The operands of a fused operation with some left out."""
    n = len(step.operands)
    for k in range(n):
        if step.kind in ("sum", "mean") and n > 1:
            yield step.operands[:k] + step.operands[k + 1 :]
        elif step.kind == "dot" and k < n // 2 > 1:
            yield tuple(x for j, x in enumerate(step.operands) if j not in (k, k + n // 2))


def _rounder_step(step: Step) -> Iterator[Step]:
    for k, x in enumerate(step.operands):
        if type(x) is float:
            for rounder in _rounder(x):
                yield Step(step.kind, (*step.operands[:k], rounder, *step.operands[k + 1 :]))


def _rounder(x: float) -> Iterator[float]:
    """Numbers that are easier on the eye."""
    candidates = [1.0, 2.0, 0.5, -1.0, *(float(f"{x:.{digits}e}") for digits in range(4))]
    for candidate in candidates:
        if candidate == x:
            return
        if len(repr(candidate)) < len(repr(x)) or candidate in (1.0, 2.0, 0.5, -1.0):
            yield candidate
