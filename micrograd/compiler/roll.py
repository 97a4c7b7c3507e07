"""Rolling: straight-line statements back into the loops they came from.

A network of a hundred thousand weights traces to hundreds of thousands of statements, nearly all of them alike: the
same template, on neighbouring elements of the same arrays. `roll` finds runs of a few statements that repeat, with
operands that advance by a fixed stride, and makes each a loop; the parts of a run that do not depend on one another
become loops of their own, so that each sweeps through its arrays in order. The same search in the list of loops finds
loops that repeat, which makes nests of them, and so on until nothing repeats.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from operator import sub
from typing import Any, NamedTuple

from micrograd.compiler.statements import Statement

LONGEST_PERIOD = 16  # statements that may make up one round of a loop
LONGEST_BODY = 128  # lines and loops that may make up one round of a loop around them
FEWEST_ROUNDS = 4
FAR = 8  # statements between the terms of a sum, above which it is added up in place


class Element(NamedTuple):
    """An element of an array: `base`, and for each loop around, the outermost first, its round times a stride."""

    array: str
    base: int = 0
    strides: tuple[int, ...] = ()


ZERO = Element("-0.0")
"""What changes no number when it is added."""


class Line(NamedTuple):
    """A statement.

    An operand is an Element; or, in a loop, the number of a line of the same round, or a pair (Element, number): the
    Element in the first round, in later ones what that line came to in the round before. The result goes to `every`
    round's Element and to the Element `last` after the loop, if they are not None.
    """

    number: int
    template: str
    operands: tuple[Any, ...]
    every: Element | None
    last: Element | None = None


class Loop(NamedTuple):
    """What is repeated for `rounds` rounds."""

    rounds: int
    body: "tuple[Line | Loop, ...]"


Program = list[Line | Loop]
"""What is done, in order."""


def elements(step: Line | Loop, rounds: tuple[int, ...] = ()) -> Iterator[tuple[Element, tuple[int, ...]]]:
    """All that a step within loops of so many rounds reads and writes, and the rounds of all loops around each."""
    if isinstance(step, Loop):
        for inner in step.body:
            yield from elements(inner, (*rounds, step.rounds))
        return
    for operand in (*step.operands, step.every, step.last):
        if isinstance(operand, Element):
            yield operand, rounds
        elif isinstance(operand, tuple):
            yield operand[0], rounds


def _replaced(step: Any, change: Callable[[Element], Any]) -> Any:
    """The step with something in place of each of its elements."""
    if isinstance(step, Element):
        return change(step)
    if isinstance(step, Loop):
        return Loop(step.rounds, tuple([_replaced(inner, change) for inner in step.body]))
    if isinstance(step, Line):
        return Line(*[_replaced(part, change) for part in step])
    return tuple([_replaced(part, change) for part in step]) if isinstance(step, tuple) else step


def roll(
    statements: Sequence[Statement],
    places: dict[int, Element],
    accumulator: Mapping[int, int],
    results: Sequence[int],
    gradients: Mapping[int, int],
) -> Program:
    """The statements as a program.

    Its results are in arrays that it does not share with others: "t0", "t1" and so on, each with the results of equal
    loops; and those whose names begin with "+" for what is added up in place, and is -0.0 before.

    Parameters
    ----------
    statements
        In order.
    places
        Where each leaf is; the places of the statements' results are added.
    accumulator
        The index in "g" of the statements whose result is added up there.
    results
        What is copied to the array "y" in the end.
    gradients
        What the gradients among the statements are of.
    """
    program = _Straight(statements, places, accumulator, results, gradients).rolled()
    program += [Line(0, "{}", (places[id],), Element("y", i)) for i, id in enumerate(results)]
    before = 0
    while len(program) != before:
        before = len(program)
        program = _Rolled(program).rolled()
    return program


class _Search(ABC):
    """The search for what repeats: up to `longest` steps, of the same `kinds`, with references that advance evenly."""

    kinds: list[int]
    following: list[int]
    longest: int

    def rolled(self) -> Program:
        """The steps, with what repeats in loops."""
        program: Program = []
        self.following = [0] * len(self.kinds)  # the next step of the same kind, for each but the last
        latest: dict[int, int] = {}
        for i, kind in enumerate(self.kinds):
            if kind in latest:
                self.following[latest[kind]] = i
            latest[kind] = i
        start = 0
        while start < len(self.kinds):
            period, rounds = self._run(start)
            program += self._loops(start, period, rounds)
            start += period * rounds
        return program

    def _run(self, start: int) -> tuple[int, int]:
        """The period and the number of rounds of the loop that begins here; of one round where there is none."""
        kinds, following, more = self.kinds, self.following, FEWEST_ROUNDS - 1
        again = following[start]
        while again and again - start <= self.longest:
            period = again - start
            if kinds[start : start + more * period] == kinds[again : again + more * period]:
                rounds = self._rounds(start, period)
                if rounds >= FEWEST_ROUNDS:
                    return period, rounds
            again = following[again]
        return 1, 1

    def _rounds(self, start: int, period: int) -> int:
        """For how many rounds the references advance by a fixed stride."""
        kinds = self.kinds
        first = kinds[start : start + period]
        zeroth, zeroth_indices = self._references(start, period, 0)
        names, indices = self._references(start, period, 1)
        strides = []
        for before, after, index, following in zip(zeroth, names, zeroth_indices, indices, strict=True):
            fits = before == after if after != "before" else before not in ("same", "before")
            if not fits or (after == "same" and index != following):
                return 1
            strides.append(0 if after in ("same", "before") else following - index)
        rounds = 2
        while True:
            begin = start + rounds * period
            if kinds[begin : begin + period] != first:
                return rounds
            now, following_indices = self._references(start, period, rounds)
            if now != names or list(map(sub, following_indices, indices)) != strides:
                return rounds
            indices = following_indices
            rounds += 1

    @abstractmethod
    def _references(self, start: int, period: int, number: int) -> tuple[list[str], list[int]]:
        """What the operands and results of a round are: "same" or "before" and a line, or an array and an index."""

    @abstractmethod
    def _loops(self, start: int, period: int, rounds: int) -> Program:
        """The loops for a run."""


class _Straight(_Search):
    """Statements, which find places for their results as they are rolled."""

    def __init__(
        self,
        statements: Sequence[Statement],
        places: dict[int, Element],
        accumulator: Mapping[int, int],
        results: Sequence[int],
        gradients: Mapping[int, int],
    ) -> None:
        self.longest = LONGEST_PERIOD
        self.statements = list(statements)
        self.places = places
        self.gradients = gradients
        position = self.position = {statement.id: i for i, statement in enumerate(statements)}
        last_use = self.last_use = [0] * len(statements)
        uses = self.uses = dict.fromkeys(results, 2)
        for i, (_, _, operands) in enumerate(self.statements):
            for operand in operands:
                if operand in position:
                    last_use[position[operand]] = i
                    uses[operand] = uses.get(operand, 0) + 1
        for id in results:
            if id in self.position:
                self.last_use[self.position[id]] = len(statements)
        self.arrays: dict[Any, str] = {}
        self.filled: dict[str, int] = {}
        self.taken: set[Element] = set()
        self.sums: dict[int, list[int]] = {}
        places |= {id: Element("g", i) for id, i in accumulator.items()}
        self._find_sums()
        kinds: dict[Any, int] = {}
        self.kinds = [
            kinds.setdefault((statement.template, statement.id in places, statement.id in self.sums), len(kinds))
            for statement in self.statements
        ]

    def _find_sums(self) -> None:
        """The sums whose terms are far from one another: these are added up in place."""
        sums: dict[int, list[int]] = {}
        for i, (id, template, operands) in enumerate(self.statements):
            if template[:4] == "{} +" and id not in self.places:
                before = self.position.get(operands[0], -1)
                sums[i] = sums.pop(before) if before in sums and self.uses[operands[0]] == 1 else []
                sums[i].append(i)
        for terms in sums.values():
            id, template, operands = self.statements[terms[0]]
            from_zero = self.places.get(operands[0]) == ZERO
            if from_zero and len(terms) >= FEWEST_ROUNDS and any(b - a > FAR for a, b in pairwise(terms)):
                ids = [self.statements[i].id for i in terms]
                self.sums |= dict.fromkeys(ids, ids)
                self.statements[terms[0]] = Statement(id, template, (id, *operands[1:]))

    def _place(self, id: int) -> Element | None:
        """Where a leaf or a result is, if that is settled."""
        if id in self.sums and id not in self.places:
            terms = self.sums[id]
            of = self.places.get(self.gradients.get(terms[-1], id), ZERO)
            place = Element(f"+{of.array}", of.base)
            if of.array[0] not in "tx" or place in self.taken:
                place = Element("+", len(self.taken))
            self.taken.add(place)
            self.places |= dict.fromkeys(terms, place)
        return self.places.get(id)

    def _room(self, kind: Any, size: int) -> Element:
        """The first of so many elements next to one another, which follow earlier results of the kind."""
        array = self.arrays.setdefault(kind, f"t{len(self.arrays)}")
        base = self.filled.get(array, 0)
        self.filled[array] = base + size
        return Element(array, base)

    def _references(self, start: int, period: int, number: int) -> tuple[list[str], list[int]]:
        names, indices = [], []
        places, positions, sums = self.places, self.position, self.sums
        begin = start + number * period
        for line, (id, _, operands) in enumerate(self.statements[begin : begin + period]):
            own = places.get(id) or (self._place(id) if id in sums else None)
            for operand in operands:
                place = places.get(operand) or (self._place(operand) if operand in sums else None)
                position = positions.get(operand, -1)
                if place and (position < start or place == own):
                    names.append(place[0])
                    indices.append(place[1])
                else:
                    away, other = divmod(position - start, period)
                    names.append({0: "same", 1: "before"}.get(number - away, f"{number - away} rounds before"))
                    indices.append(other)
            names.append(own[0] if own else "same")
            indices.append(own[1] if own else line)
        return names, indices

    def _loops(self, start: int, period: int, rounds: int) -> Program:
        """The loops for a run, with places for what is needed after it."""
        if rounds == 1:
            return [self._single(start)]
        zeroth, strides = (zip(*self._references(start, period, number), strict=True) for number in (0, 1))
        lines = []
        for number in range(period):
            statement = self.statements[start + number]
            operands: list[Any] = []
            for _ in statement.operands:
                before, after = next(zeroth), next(strides)
                if after[0] == "same":
                    operands.append(after[1])
                elif after[0] == "before":
                    operands.append((Element(*before, (0,)), after[1]))
                else:
                    operands.append(Element(*before, (after[1] - before[1],)))
            result, stride = next(zeroth), next(strides)
            if result[0] == "same":
                every, last = self._store(start, period, rounds, number)
            else:
                every, last = Element(*result, (stride[1] - result[1],)), None
            lines.append(Line(number, statement.template, tuple(operands), every, last))
        return [Loop(rounds, part) for part in _independent(lines, rounds)]

    def _single(self, position: int) -> Line:
        """The line for a statement on its own."""
        id, template, operands = self.statements[position]
        if not self._place(id) and self.last_use[position] > position:
            self.places[id] = self._room(self.kinds[position], 1)
        return Line(0, template, tuple([self.places[operand] for operand in operands]), self.places.get(id))

    def _store(self, start: int, period: int, rounds: int, number: int) -> tuple[Element | None, Element | None]:
        """Places for the results of a line in all rounds or the last, as far as they are needed after the run."""
        end = start + period * rounds
        positions = range(start + number, end, period)
        needed = [position for position in positions if self.last_use[position] >= end]
        if not needed:
            return None, None
        alone = needed == [positions[-1]]
        kind = rounds, alone, self.kinds[start + number], *self.kinds[start : start + period]
        if alone:
            place = self.places[self.statements[needed[0]].id] = self._room(kind, 1)
            return None, place._replace(strides=(0,))
        first = self._room(kind, rounds)
        for count, position in enumerate(positions):
            self.places[self.statements[position].id] = first._replace(base=first.base + count)
        return first._replace(strides=(1,)), None


class _Rolled(_Search):
    """The steps of a program, all of whose results have their places."""

    def __init__(self, program: Program) -> None:
        self.longest = LONGEST_BODY
        self.program = program
        kinds: dict[Any, int] = {}
        self.kinds = [
            kinds.setdefault(_replaced(step, lambda element: (element.array, element.strides)), len(kinds))
            for step in program
        ]
        places = [[element for element, _ in elements(step)] for step in program]
        self.names = [[element.array for element in each] for each in places]
        self.indices = [[element.base for element in each] for each in places]

    def _references(self, start: int, period: int, number: int) -> tuple[list[str], list[int]]:
        steps = slice(start + number * period, start + (number + 1) * period)
        return list(chain(*self.names[steps])), list(chain(*self.indices[steps]))

    def _loops(self, start: int, period: int, rounds: int) -> Program:
        body = self.program[start : start + period]
        if rounds == 1:
            return body
        first, second = (self._references(start, period, number)[1] for number in (0, 1))
        strides = map(sub, second, first)

        def within(element: Element) -> Element:
            return element._replace(strides=(next(strides), *element.strides))

        return [Loop(rounds, tuple([_replaced(step, within) for step in body]))]


def _independent(lines: Sequence[Line], rounds: int) -> list[tuple[Line, ...]]:
    """The lines in groups that neither refer to one another nor add to the same elements."""
    group = list(range(len(lines)))
    for line in lines:
        others = [other.number for other in lines[: line.number] if _meet(line.every, other.every, rounds)]
        for operand in line.operands:
            if isinstance(operand, int):
                others.append(operand)
            elif not isinstance(operand, Element):
                others.append(operand[1])
        for other in others:
            old, new = group[line.number], group[other]
            group = [new if g == old else g for g in group]
    return [tuple(line for line in lines if group[line.number] == g) for g in dict.fromkeys(group)]


def _meet(one: Element | None, other: Element | None, rounds: int) -> bool:
    """Whether two elements may be the same in some of the rounds."""
    if one is None or other is None or one.array != other.array or one.array[0] == "t":
        return False
    away = other.base - one.base
    (a,), (b,) = one.strides, other.strides
    if a == b:
        return away % a == 0 and abs(away // a) < rounds if a else away == 0
    low, high = (sorted((0, (rounds - 1) * stride)) for stride in (a, b))
    return away + high[0] <= low[1] and away + high[1] >= low[0]
