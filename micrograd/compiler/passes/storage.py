"""Storage: a kernel in parts, each a function, and one array for its intermediate results.

A slot of the array is used again once no step reads its number any more.
"""

from bisect import bisect, bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import chain
from operator import itemgetter

from micrograd.compiler.ir import Kernel, Loop, Ref, Step, Switch, length, refs, replace, span

Range = tuple[str, int, int]
"""Elements of an array that are kept together: its name, the first, and the end."""


LINE = 8  # numbers in a cache line, where arrays begin: a scan in lanes takes 1.3 to 1.45 times as long elsewhere


def allocate(kernel: Kernel, most: int, size: Callable[[Kernel], int] = length) -> tuple[list[Kernel], int]:
    """The kernel in parts of at most this size, or of a single step, with an array t; and how many elements t has.

    Numbers that only single lines of one part use, or single rounds of one loop, go to variables v0, v1, ...
    """
    parts = list(_parts(kernel, most, size))
    ranges = _ranges(parts)

    def range_of(ref: Ref) -> Range | None:
        found = ranges.get(ref.array, ())
        at = bisect(found, ref.base, key=itemgetter(1)) - 1
        return found[at] if at >= 0 and ref.base < found[at][2] else None

    uses: dict[Range, set[tuple[Ref, tuple[int, ...]]]] = defaultdict(set)
    for number, step in enumerate(chain.from_iterable(parts)):
        for ref, place in _uses(step, (number,)):
            if found := range_of(ref):
                uses[found].add((ref, place))
    numbers = {found: [place[0] for _, place in of] for found, of in uses.items() if len(of) > 1}
    slots, n = _slots({found: (min(of), max(of)) for found, of in numbers.items()})
    variables: dict[Ref, Ref] = {}

    def placed(ref: Ref) -> Ref:
        if ref.array[0] != "t":
            return ref
        found = range_of(ref)
        if found in slots:
            return Ref("t", slots[found] + ref.base - found[1], ref.strides)
        return variables.setdefault(ref, Ref(f"v{len(variables)}"))

    return [[replace(step, placed) for step in part] for part in parts], n


def _uses(step: Step, place: tuple[int, ...]) -> Iterator[tuple[Ref, tuple[int, ...]]]:
    """The references in a step, each with the place of the loop that it is in: positions in the loops around."""
    if isinstance(step, Loop):
        for i, inner in enumerate(step.body):
            yield from _uses(inner, (*place, i) if isinstance(inner, Loop) else place)
    elif isinstance(step, Switch):
        for i, case in enumerate(step.cases):
            yield from _uses(Loop(1, case), (*place, i))
    else:
        yield from ((ref, place) for ref, _ in refs(step))


def _parts(kernel: Kernel, most: int, size: Callable[[Kernel], int]) -> Iterator[Kernel]:
    """The kernel in parts of at most this size, or of a single step: each makes a function."""
    part: Kernel = []
    total = 0
    for step in kernel:
        more = size([step])
        if part and total + more > most:
            yield part
            part, total = [], 0
        part.append(step)
        total += more
    yield part


def _ranges(parts: Sequence[Kernel]) -> dict[str, list[Range]]:
    """The ranges of each array that loops or several parts use."""
    spans: dict[str, set[tuple[int, int]]] = defaultdict(set)
    user: dict[tuple[str, int], int] = {}
    for number, part in enumerate(parts):
        for ref, rounds in refs(tuple(part)):
            if ref.array[0] == "t" and (rounds or user.setdefault((ref.array, ref.base), number) != number):
                first, last = span(ref, rounds)
                spans[ref.array].add((first, last + 1))
    return {array: [(array, first, end) for first, end in _united(found)] for array, found in spans.items()}


def _united(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The ranges, first and end each, with those that overlap made one."""
    united: list[tuple[int, int]] = []
    for first, end in sorted(spans):
        if united and first < united[-1][1]:
            united[-1] = united[-1][0], max(end, united[-1][1])
        else:
            united.append((first, end))
    return united


def _slots(lives: dict[Range, tuple[int, int]]) -> tuple[dict[Range, int], int]:
    """Where each range begins in t, in order of their first uses; and how many elements t has."""
    slots: dict[Range, int] = {}
    n = 0
    in_use: list[tuple[int, int, int]] = []  # the last use of a gap, its size, and its slot
    gaps: list[tuple[int, int]] = []  # the size and the slot of each
    for found, (begin, end) in lives.items():
        while in_use and in_use[0][0] < begin:
            insort(gaps, heappop(in_use)[1:])
        size = found[2] - found[1]
        size += -size % LINE if size >= LINE else 0
        at = bisect_left(gaps, (size,))
        if at < len(gaps):
            room, slots[found] = gaps.pop(at)
            if room > size:
                insort(gaps, (room - size, slots[found] + size))
        else:
            n += -n % LINE if size >= LINE else 0
            slots[found], n = n, n + size
        heappush(in_use, (end, size, slots[found]))
    return slots, n
