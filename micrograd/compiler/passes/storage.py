"""Storage: a kernel in parts, each a function, and one array for its intermediate results.

A slot of the array is used again once no step reads its number any more.
"""

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from itertools import chain
from operator import itemgetter

from micrograd.compiler.ir import Kernel, Loop, Ref, Step, Switch, length, most_rounds, refs, replace, span

LINE = 8  # numbers in a cache line, where arrays begin: a scan in lanes takes 1.3 to 1.45 times as long elsewhere

Use = tuple[Ref, tuple[int, ...], tuple[int, ...]]
"""A reference, the rounds of the loops around it, and the path to the innermost one: a position at each depth."""


def allocate(kernel: Kernel, most: int, size: Callable[[Kernel], int] = length) -> tuple[list[Kernel], int]:
    """The kernel in parts of at most this size, or of a single step, with an array t; and how many elements t has.

    Numbers that only single lines of one part use, or single rounds of one loop, go to variables v0, v1, ...
    """
    parts = list(_parts(kernel, most, size))
    part_of = [number for number, part in enumerate(parts) for _ in part]
    steps = enumerate(chain.from_iterable(parts))
    uses = [use for number, step in steps for use in _uses(step, (), (number,)) if use[0].array[0] == "t"]
    ranges, sizes = _ranges(uses)
    users: dict[Ref, set[tuple[Ref, tuple[int, ...]]]] = defaultdict(set)
    lives: dict[Ref, tuple[int, int]] = {}
    for ref, rounds, place in uses:
        found = ranges[ref]
        users[found].add((ref, place if rounds else (-1, part_of[place[0]])))
        lives[found] = lives.get(found, place)[0], place[0]
    slots, n = _slots({found: life for found, life in lives.items() if len(users[found]) > 1}, sizes)
    variables: dict[Ref, Ref] = {}

    def placed(ref: Ref) -> Ref:
        if ref.array[:1] != "t":
            return ref
        found = ranges[ref]
        if found in slots:
            return Ref("t", slots[found] + ref.base - found.base, ref.strides)
        return variables.setdefault(ref, Ref(f"v{len(variables)}"))

    return [[replace(step, placed) for step in part] for part in parts], n


def _uses(step: Step, rounds: tuple[int, ...], place: tuple[int, ...]) -> Iterator[Use]:
    """The uses of numbers in a step at this place, inside loops of these rounds."""
    if isinstance(step, Loop):
        for i, inner in enumerate(step.body):
            its = (*place, i) if isinstance(inner, Loop) else place
            yield from _uses(inner, (*rounds, most_rounds(step.rounds, rounds)), its)
    elif isinstance(step, Switch):
        for i, case in enumerate(step.cases):
            yield from _uses(Loop(step.order.count(i), case), rounds, (*place, i))
    else:
        yield from ((ref, its, place) for ref, its in refs(step, rounds))


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


def _ranges(uses: Sequence[Use]) -> tuple[dict[Ref, Ref], dict[Ref, int]]:
    """The range of each reference, as a reference to its first element, and the sizes of the ranges. References
    that overlap share a range.
    """
    spans: dict[str, list[tuple[int, int, Ref]]] = defaultdict(list)
    for ref, rounds, _ in uses:
        spans[ref.array].append((*span(ref, rounds), ref))
    ranges, sizes = dict[Ref, Ref](), dict[Ref, int]()
    for array, its in spans.items():
        its.sort(key=itemgetter(0))
        last = its[0][0] - 1
        for low, high, ref in its:
            if low > last:
                found = Ref(array, low)
            last = max(last, high)
            ranges[ref], sizes[found] = found, last + 1 - found.base
    return ranges, sizes


def _slots(lives: Mapping[Ref, tuple[int, int]], sizes: Mapping[Ref, int]) -> tuple[dict[Ref, int], int]:
    """Where each range begins in t, in order of their first uses; and how many elements t has."""
    slots: dict[Ref, int] = {}
    n = 0
    in_use: list[tuple[int, int, int]] = []  # the last use of a gap, its size, and its slot
    gaps: list[tuple[int, int]] = []  # the size and the slot of each
    for found, (begin, end) in lives.items():
        while in_use and in_use[0][0] < begin:
            insort(gaps, heappop(in_use)[1:])
        size = sizes[found]
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
