"""Rolling: straight-line statements back into the loops they came from.

A network of a hundred thousand weights traces to hundreds of thousands of statements, nearly all of them alike: the
same template, on neighbouring elements of the same arrays. `roll` finds runs of a few statements that repeat, with
operands that advance by a fixed stride, and makes each a loop; the parts of a run that do not depend on one another
become loops of their own, so that each sweeps through its arrays in order.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from micrograd.compiler.statements import Statement

LONGEST_PERIOD = 16  # statements that may make up one round of a loop
FEWEST_ROUNDS = 4


class Element(NamedTuple):
    """Element `base + round * stride` of an array."""

    array: str
    base: int = 0
    stride: int = 0


class Line(NamedTuple):
    """A statement of a loop.

    An operand is an Element, the number of a line of the same round, or a pair (Element, number): the Element in the
    first round, in later ones what that line came to in the round before. The result goes to `every` round's Element
    and to the Element `last` after the loop, if they are not None.
    """

    number: int
    template: str
    operands: tuple[Any, ...]
    every: Element | None
    last: Element | None


class Loop(NamedTuple):
    """Lines that are repeated for `rounds` rounds."""

    rounds: int
    lines: tuple[Line, ...]


def roll(
    statements: Sequence[Statement], places: dict[int, Element], accumulator: Mapping[int, int], results: Sequence[int]
) -> tuple[list[Loop], int]:
    """The statements as loops, and the size of the array "t" that they keep their results in.

    Parameters
    ----------
    statements
        In order.
    places
        Where each leaf is; the places of the statements' results are added.
    accumulator
        The index in "g" of the statements whose result is added up there.
    results
        What is needed afterwards.
    """
    return _Roller(statements, places, accumulator, results).loops()


class _Roller:
    def __init__(
        self,
        statements: Sequence[Statement],
        places: dict[int, Element],
        accumulator: Mapping[int, int],
        results: Sequence[int],
    ) -> None:
        self.statements = statements
        self.places = places
        self.position = {statement.id: i for i, statement in enumerate(statements)}
        self.last_use = [0] * len(statements)
        for i, statement in enumerate(statements):
            for operand in statement.operands:
                if operand in self.position:
                    self.last_use[self.position[operand]] = i
            if statement.id in accumulator:
                places[statement.id] = Element("g", accumulator[statement.id])
        for id in results:
            if id in self.position:
                self.last_use[self.position[id]] = len(statements)
        kinds: dict[Any, int] = {}
        self.kinds = [
            kinds.setdefault((statement.template, statement.id in accumulator), len(kinds)) for statement in statements
        ]
        self.size = 0

    def loops(self) -> tuple[list[Loop], int]:
        loops: list[Loop] = []
        start = 0
        while start < len(self.statements):
            period, rounds = self._run(start)
            loops += self._loop(start, period, rounds)
            start += period * rounds
        return loops, self.size

    def _run(self, start: int) -> tuple[int, int]:
        """The period and the number of rounds of the loop that begins here; of one round where there is none."""
        kinds = self.kinds
        for period in range(1, LONGEST_PERIOD + 1):
            if kinds[start : start + period] == kinds[start + period : start + 2 * period]:
                rounds = self._rounds(start, period)
                if rounds >= FEWEST_ROUNDS:
                    return period, rounds
        return 1, 1

    def _rounds(self, start: int, period: int) -> int:
        """For how many rounds the operands advance by a fixed stride."""
        kinds = self.kinds
        first = kinds[start : start + period]
        zeroth, strides = self._references(start, period, 0), self._references(start, period, 1)
        for before, after in zip(zeroth, strides, strict=True):
            fits = before[0] == after[0] if after[0] != "before" else before[0] not in ("same", "before")
            if not fits or (after[0] == "same" and before != after):
                return 1
        rounds = 2
        while True:
            begin = start + rounds * period
            if kinds[begin : begin + period] != first:
                return rounds
            for before, after, now in zip(zeroth, strides, self._references(start, period, rounds), strict=True):
                if after[0] in ("same", "before"):
                    if now != after:
                        return rounds
                elif now[0] != after[0] or now[1] != before[1] + rounds * (after[1] - before[1]):
                    return rounds
            rounds += 1

    def _references(self, start: int, period: int, number: int) -> list[tuple[str, int]]:
        """What the operands and results of a round are: ("same" or "before", line), or (array, index)."""
        references = []
        begin = start + number * period
        for statement in self.statements[begin : begin + period]:
            for operand in (*statement.operands, statement.id):
                if operand in self.places:
                    element = self.places[operand]
                    references.append((element.array, element.base))
                    continue
                away, line = divmod(self.position[operand] - start, period)
                kind = {0: "same", 1: "before"}.get(number - away, f"{number - away} rounds before")
                references.append((kind, line))
        return references

    def _loop(self, start: int, period: int, rounds: int) -> list[Loop]:
        """The loops for a run, with places for what is needed after it."""
        zeroth = iter(self._references(start, period, 0))
        strides = iter(self._references(start, period, min(1, rounds - 1)))
        lines = []
        for number in range(period):
            statement = self.statements[start + number]
            operands: list[Any] = []
            for _ in statement.operands:
                before, after = next(zeroth), next(strides)
                if after[0] == "same":
                    operands.append(after[1])
                elif after[0] == "before":
                    operands.append((Element(*before), after[1]))
                else:
                    operands.append(Element(*before, after[1] - before[1]))
            result, stride = next(zeroth), next(strides)
            if result[0] == "same":
                every, last = self._store(start, period, rounds, number)
            else:
                every, last = Element(*result, stride[1] - result[1]), None
            lines.append(Line(number, statement.template, tuple(operands), every, last))
        return [Loop(rounds, part) for part in _independent(lines)]

    def _store(self, start: int, period: int, rounds: int, number: int) -> tuple[Element | None, Element | None]:
        """Places for the results of a line in all rounds or the last, as far as they are needed after the run."""
        end = start + period * rounds
        positions = range(start + number, end, period)
        needed = [position for position in positions if self.last_use[position] >= end]
        if not needed:
            return None, None
        base = self.size
        if needed == [positions[-1]]:
            self.size += 1
            self.places[self.statements[needed[0]].id] = Element("t", base)
            return None, Element("t", base)
        self.size += rounds
        for count, position in enumerate(positions):
            self.places[self.statements[position].id] = Element("t", base + count)
        return Element("t", base, 1), None


def _independent(lines: Sequence[Line]) -> list[tuple[Line, ...]]:
    """The lines in groups that do not refer to one another."""
    group = list(range(len(lines)))
    for line in lines:
        for operand in line.operands:
            other = operand if isinstance(operand, int) else None if isinstance(operand, Element) else operand[1]
            if other is not None:
                old, new = group[line.number], group[other]
                group = [new if g == old else g for g in group]
    return [tuple(line for line in lines if group[line.number] == g) for g in dict.fromkeys(group)]
