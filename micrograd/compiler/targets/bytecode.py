"""Programs as data: a trace written as a list of words for an interpreter in C (interpreter.c).

Compiling an operation, passes included, takes as long as interpreting it 10,000 times or more. So a program that `fit`
runs only a few thousand times, such as the step of a GPT on names of one length, is over sooner if it is interpreted.
The interpreter itself is compiled once, and stays in the cache like any library.

An operation is a few words: its code, the place of its result, the places of its operands, and the sizes of rows. A
place is an index into an array, and its two highest bits say which array. The numbers of a row are neighbours. Loops
are unrolled: the words of every round are written.
"""

from array import array
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from micrograd.compiler.frontend.graph import CallSpec, Graph
from micrograd.compiler.frontend.operations import OPERATORS
from micrograd.compiler.frontend.tracer import ROWS, Slice, Trace
from micrograd.compiler.targets.c import templates
from micrograd.compiler.targets.c_runtime import CALLS, FOR_DOUBLES, PARTS, definitions
from micrograd.compiler.targets.spelling import filled, source

TEMPORARIES, PARAMETERS, CONSTANTS, GRADIENTS = (i << 30 for i in range(4))
"""The first place in each array."""
ON_ROWS = "END", "ARGUMENT", "RESULT", "GATHER", "CLEAR", "DOT", "SUM", "MAX", "TAKE", "COMBINE", "ADD_AT"
ON_NUMBERS = dict.fromkeys(OPERATORS, 2) | {"neg": 1, "abs": 1, "where": 3} | CALLS
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


def n_operations(trace: Trace, loop: int) -> int:
    """About how many operations the interpreter carries out in all rounds of a loop, nested loops included."""
    rounds: int = trace.loops[loop].rounds
    lines = trace.live(trace.loops[loop].ends, {*trace.operands[loop]})
    return rounds * (len(lines) + sum([n_operations(trace, line) for line in lines if line in trace.loops]))


def bytecode(graph: Graph, kind: CallSpec) -> tuple[bytearray, int]:
    """The program of a call of this kind, as the interpreter reads it, and how many temporaries it needs."""
    writer, ends = _Writer(graph), graph.ends(kind)
    writer.write(graph.trace.live(ends.lines))
    for place, line in ends.added:
        writer.add(GRADIENTS, place, line)
    for i, line in enumerate(ends.returned):
        writer.put("RESULT", i, writer.places[line], i >= len(graph.outputs))
    writer.put("END")
    constants, words = array("d", graph.trace.constants.values()), array("I", writer.words)
    head = array("q", [len(constants), graph.n_parameters, len(ends.returned), graph.trace.ieee])
    return bytearray().join([head, constants, words]), writer.n


class _Writer:
    """The words so far, the number of temporaries (the first is the seed), and the places of the lines' numbers.

    At the end of round i of a loop, the places of what it has computed move to `places[line, i]`, with the loop's line.
    There the backward loop finds what the same round computed on the way forward.
    """

    def __init__(self, graph: Graph) -> None:
        self.trace, self.words, self.n = graph.trace, list[int](), 1
        starts = self.starts = {"seed": TEMPORARIES, "x": TEMPORARIES + 1, "p": PARAMETERS}
        for k, (size, is_shared) in enumerate(zip(graph.sizes, graph.shared, strict=True)):
            self.put("ARGUMENT", self.room(size), k, size, is_shared)
        leaves = self.trace.leaves.items()
        self.places: dict[Any, Any] = {line: starts[name] + i for line, (name, i) in leaves if name in starts}
        self.places.update((line, CONSTANTS + i) for i, line in enumerate(self.trace.constants))

    def put(self, op: str, *words: int) -> None:
        """Write an operation."""
        self.words += (CODES[op], *words)

    def room(self, n: int = 1) -> int:
        """The place of n new numbers."""
        self.n += n
        return self.n - n

    def write(self, lines: Iterable[int]) -> None:
        """Write the operations of these lines. Most rows are not written until an operation reads them."""
        trace, places = self.trace, self.places
        for line in lines:
            op, of = trace.ops[line], trace.operands[line]
            if line in trace.loops:
                places[line] = self.loop(line)
            elif line in trace.maps:
                places[line] = self.elementwise(op, of, trace.maps[line])
            elif op == "item":
                places[line] = self.row(of[0]) + trace.items[line]
            elif op not in ROWS:
                places[line] = to = self.room()
                if op == "dot":
                    a, b = map(self.row, of[1:])
                    self.put("DOT", to, places[of[0]], a, b, trace.size(of[1]))
                elif op in ("sum", "max"):
                    self.put(op.upper(), to, self.row(of[0]), trace.size(of[0]))
                elif op == "take":
                    self.put("TAKE", to, places[of[0]], self.numbers(of[1:]), len(of) - 1)
                elif op == "take_at":
                    self.put("TAKE", to, places[of[0]], self.row(of[1]), trace.size(of[1]))
                else:
                    self.words += (CODES[op], to, *map(places.__getitem__, of))

    def elementwise(self, op: str, of: Sequence[int], n: int) -> int:
        """Write an operation on each number of some rows, or on a number, and return where the results begin."""
        starts = [(self.row(x), 1) if self.trace.size(x) else (self.places[x], 0) for x in of]
        to = self.room(n)
        for i in range(n):
            self.put(op, to + i, *[start + i * step for start, step in starts])
        return to

    def row(self, line: int) -> int:
        """Where a row begins; if it is nowhere yet, write the operations that compute it."""
        trace, places = self.trace, self.places
        if line not in places:
            if trace.ops[line] == "slice":
                start = self.starts[trace.slices[line].array]
                places[line] = self.neighbours([start + i for i in trace.slices[line].indices])
            elif trace.ops[line] == "stack":
                places[line] = self.numbers(trace.operands[line])
            else:
                n = trace.size(line)
                places[line] = to = self.room(n)
                self.put("CLEAR", to, n)
                self.combine(to, 1, line)
        return int(places[line])

    def numbers(self, lines: Iterable[int]) -> int:
        """Where the numbers of these lines begin, as neighbours."""
        return self.neighbours([*map(self.places.__getitem__, lines)])

    def neighbours(self, found: Sequence[int]) -> int:
        """Where the numbers at these places begin, as neighbours; write a copy unless they are neighbours already."""
        to, n = found[0], len(found)
        if found != [*range(to, to + n)]:
            to = self.room(n)
            self.put("GATHER", to, n, *found)
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
                self.put("+", place + i * to.step, place + i * to.step, start + i)

    def loop(self, line: int) -> int:
        """Write all rounds of a loop, and return where its row begins."""
        loop, places, lines = self.trace.loops[line], self.places, list[int]()
        n = len(loop.state)
        rows = [*map(self.row, self.trace.operands[line][: (n > 0) + len(loop.xs)])]
        state: Sequence[int] = range(rows[0], rows.pop(0) + n) if n else ()
        to = self.room(loop.size)
        self.put("CLEAR", to, loop.size)
        for i in range(loop.rounds)[:: -1 if loop.is_backward else 1]:
            outside = len(places)
            if loop.is_backward:
                places.update(places[loop.forward, i])
            places.update(zip(loop.state, state, strict=True))
            places.update((x, row + i) for x, row in zip(loop.xs, rows, strict=True))
            lines = lines or self.trace.live(loop.ends, places)
            self.write(lines)
            for place, each in loop.sums:
                self.add(to + n, place, each)
            state = [places[each] for each in loop.following]
            if loop.outputs:
                outputs = [places[each] for each in loop.outputs]
                self.put("GATHER", to + loop.of_output(0)[i], len(outputs), *outputs)
            places[line, i] = dict([places.popitem() for _ in range(len(places) - outside)])
        if state:
            self.put("GATHER", to, n, *state)
        return to
