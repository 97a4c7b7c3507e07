"""Programs as data: a trace as a list of words, for an interpreter in C (interpreter.c).

The passes and the C compiler take as long for an operation as the interpreter takes to carry it out 10,000 times or
more. So what `fit` will do only a few thousand times is over sooner if it is not compiled, such as a GPT's step on a
name of a certain length. The interpreter itself is compiled once, and stays in the cache like any library.

An operation is a few words: its code, the place of its result, the places of its operands, and how many numbers they
have. A place is a number in an array, and its two highest bits say in which. The numbers of a row are neighbours. Loops
are written round by round.
"""

import struct
from array import array
from collections.abc import Container, Iterable, Sequence
from itertools import chain, repeat

from micrograd.compiler.frontend.graph import CallSpec, Graph
from micrograd.compiler.frontend.operations import CONDITIONS
from micrograd.compiler.frontend.tracer import ROWS, Slice, Trace
from micrograd.compiler.targets.c import templates
from micrograd.compiler.targets.c_runtime import CALLS, FOR_DOUBLES, PARTS, definitions
from micrograd.compiler.targets.spelling import filled, source

TEMPORARIES, PARAMETERS, CONSTANTS, GRADIENTS = (i << 30 for i in range(4))
"""The first place in each array."""
ON_ROWS = (
    "END", "ARGUMENT", "SEED", "RESULT", "GATHER", "COPY", "CLEAR", "DOT", "SUM", "MAX", "TAKE", "COMBINE", "ADD",
    "ADD_AT",
)  # fmt: skip
ON_NUMBERS = {**dict.fromkeys(("+", "-", "*", "/", "%", "**", *sorted(CONDITIONS)), 2), "neg": 1, "abs": 1, "where": 3}
ON_NUMBERS |= CALLS
"""Operations on numbers, and how many operands each has."""
CODES = {op: code for code, op in enumerate((*ON_ROWS, *ON_NUMBERS))}


def interpreter() -> str:
    """The interpreter in C, for doubles, with every operation that a trace may have."""
    of = templates(vectors=False, checks=True)
    of |= {"/": of["quotient"], "where": of["where"].replace("{0}", "({0} != 0)")}
    cases = [f"        OPERATION({CODES[op]}, {n}, {of[op].format('a', 'b', 'c')})\n" for op, n in ON_NUMBERS.items()]
    text = source("interpreter.c", CODES=", ".join(ON_ROWS), CASES="".join(cases))
    around = [
        "#include <math.h>\n#include <stdint.h>\n#include <string.h>\n",
        PARTS["no_patterns"] + filled(PARTS["passes"], PASSES=FOR_DOUBLES),
        "typedef double real;\n",
        PARTS["register"] + PARTS["doubles"] + PARTS["call"],
        definitions(text, vectors=False),
    ]
    return filled("\n".join([*around, text]), INTEGER="int64_t", SUFFIX="", DIGITS=52)


def n_operations(trace: Trace, ends: Iterable[int], given: Container[int] = ()) -> int:
    """About how many operations the interpreter carries out for these lines, in all rounds of all loops."""
    lines = trace.live(ends, given)
    rounds: list[int] = [
        trace.loops[line].rounds * n_operations(trace, trace.loops[line].ends, {*trace.operands[line]})
        for line in lines
        if line in trace.loops
    ]
    return len(lines) + sum(rounds)


def bytecode(graph: Graph, kind: CallSpec) -> tuple[bytes, int]:
    """The program of a call of this kind, as the interpreter reads it, and how many temporaries it needs."""
    writer, ends = _Writer(graph), graph.ends(kind)
    writer.write(ends.lines)
    for place, line in ends.added:
        writer.add(GRADIENTS, place, line)
    for i, line in enumerate(ends.returned):
        writer.put("RESULT", i, writer.places[line], i >= len(graph.outputs))
    writer.put("END")
    constants = array("d", graph.trace.constants.values())
    head = struct.pack("=4q", len(constants), graph.n_parameters, len(ends.returned), graph.trace.ieee)
    return head + constants.tobytes() + array("I", writer.words).tobytes(), writer.n


class _Places(dict[int, int]):
    """Where the numbers of lines are, and the rounds of each loop. A round of a loop finds those `outside`, too; in a
    backward loop, also those of the same round `before`, going forward.
    """

    def __init__(self, outside: "_Places | None" = None, before: "_Places | None" = None) -> None:
        super().__init__(before or {})
        self.outside = outside
        self.rounds: dict[int, list[_Places]] = {}
        for each in (outside, before):
            self.rounds |= each.rounds if each is not None else {}

    def __contains__(self, line: object) -> bool:
        return super().__contains__(line) or (self.outside is not None and line in self.outside)

    def __missing__(self, line: int) -> int:
        if self.outside is None:
            raise KeyError(line)
        return self.outside[line]


class _Writer:
    """The words so far, where the numbers of lines are, and how many temporaries there are."""

    def __init__(self, graph: Graph) -> None:
        self.trace, self.words, self.n, self.places = graph.trace, list[int](), 0, _Places()
        for k, (size, is_shared) in enumerate(zip(graph.sizes, graph.shared, strict=True)):
            self.put("ARGUMENT", self.room(size), k, size, is_shared)
        self.put("SEED", seed := self.room())
        self.starts = {"p": PARAMETERS, "x": TEMPORARIES, "seed": seed}
        leaves = [(line, leaf) for line, leaf in self.trace.leaves.items() if leaf[0] in self.starts]
        self.places.update((line, self.starts[name] + i) for line, (name, i) in leaves)
        self.places.update((line, CONSTANTS + i) for i, line in enumerate(self.trace.constants))

    def put(self, op: str, *words: int) -> None:
        """Write an operation."""
        self.words += (CODES[op], *words)

    def room(self, n: int = 1) -> int:
        """The place of n new numbers."""
        self.n += n
        return self.n - n

    def write(self, ends: Iterable[int], given: Container[int] = ()) -> None:
        """Write the operations that these lines need. Most rows need none until something reads them."""
        trace, places, words = self.trace, self.places, self.words
        ops, operands = trace.ops, trace.operands
        for line in trace.live(ends, given):
            op, of = ops[line], operands[line]
            if op == "item":
                places[line] = self.row(of[0]) + trace.items[line]
            elif op in ROWS:
                continue
            elif line in trace.loops:
                places[line] = self.loop(line)
            elif line in trace.maps:
                places[line] = self.elementwise(op, of, trace.maps[line])
            elif op == "dot":
                a, b = self.row(of[1]), self.row(of[2])
                places[line] = to = self.room()
                self.put("DOT", to, places[of[0]], a, b, trace.size(of[1]))
            elif op in ("sum", "max"):
                row = self.row(of[0])
                places[line] = to = self.room()
                self.put(op.upper(), to, row, trace.size(of[0]))
            elif op in ("take", "take_at"):
                row, n = (self.stack(of[1:]), len(of) - 1) if op == "take" else (self.row(of[1]), trace.size(of[1]))
                places[line] = to = self.room()
                self.put("TAKE", to, places[of[0]], row, n)
            else:
                places[line] = to = self.n
                words += (CODES[op], to, *map(places.__getitem__, of))
                self.n = to + 1

    def elementwise(self, op: str, of: Sequence[int], n: int) -> int:
        """Write an operation on each number of some rows, or on a number, and return where the results begin."""
        starts = [(self.row(x), 1) if self.trace.size(x) else (self.places[x], 0) for x in of]
        to = self.room(n)
        for i in range(n):
            self.put(op, to + i, *[start + i * step for start, step in starts])
        return to

    def row(self, line: int) -> int:
        """Where a row begins. If it is not there yet, write what puts it there."""
        trace, places = self.trace, self.places
        if line not in places:
            if trace.ops[line] == "slice":
                name, base, step, n = trace.slices[line]
                if step == 1:
                    places[line] = self.starts[name] + base
                else:
                    places[line] = to = self.room(n)
                    self.put("COPY", to, self.starts[name] + base, step, n)
            elif trace.ops[line] == "stack":
                places[line] = self.stack(trace.operands[line])
            else:
                n = trace.size(line)
                places[line] = to = self.room(n)
                self.put("CLEAR", to, n)
                self.combine(to, 1, line)
        return places[line]

    def stack(self, lines: Sequence[int]) -> int:
        """Where these numbers are neighbours, perhaps after they were copied."""
        found = [*map(self.places.__getitem__, lines)]
        if found == [*range(found[0], found[0] + len(found))]:
            return found[0]
        to = self.room(len(found))
        self.put("GATHER", to, len(found), *found)
        return to

    def combine(self, to: int, step: int, line: int) -> None:
        """Add a sum of rows to numbers."""
        of = self.trace.operands[line]
        terms = [(self.places[by], self.row(row)) for by, row in zip(of[::2], of[1::2], strict=True)]
        self.put("COMBINE", to, step, self.trace.size(line), len(terms), *chain(*terms))

    def add(self, start: int, to: Slice, line: int) -> None:
        """Add a line to gradients, or to a loop's sums."""
        place, op, of = start + to.base, self.trace.ops[line], self.trace.operands[line]
        if op == "scatter":
            self.put("ADD_AT", place, to.step, to.size, self.places[of[0]], self.places[of[1]])
        elif op == "combination":
            self.combine(place, to.step, line)
        else:
            start = self.row(line) if self.trace.size(line) else self.places[line]
            for i in range(to.size):
                self.put("ADD", place + i * to.step, start + i)

    def loop(self, line: int) -> int:
        """Write all rounds of a loop, and return where its row begins."""
        loop, outside, n = self.trace.loops[line], self.places, len(self.trace.loops[line].state)
        rows = [*map(self.row, self.trace.operands[line][: (n > 0) + len(loop.xs)])]
        state: Sequence[int] = range(rows[0], rows.pop(0) + n) if n else ()
        to = self.room(loop.size)
        self.put("CLEAR", to, loop.size)
        forward = outside.rounds[loop.forward] if loop.is_backward else repeat(None, loop.rounds)
        rounds = outside.rounds[line] = [_Places(outside, before) for before in forward]
        for i in range(loop.rounds)[:: -1 if loop.is_backward else 1]:
            self.places = rounds[i]
            self.places.update(zip(loop.state, state, strict=True))
            self.places.update((x, row + i) for x, row in zip(loop.xs, rows, strict=True))
            self.write(loop.ends, self.places)
            for place, each in loop.sums:
                self.add(to + n, place, each)
            state = [self.places[each] for each in loop.following]
            if loop.outputs:
                outputs = [self.places[each] for each in loop.outputs]
                self.put("GATHER", to + loop.of_output(0)[i], len(outputs), *outputs)
        self.places = outside
        if state:
            self.put("GATHER", to, n, *state)
        return to
