"""Storage: a kernel in parts, each a function, and one array for all that it computes on the way."""

from bisect import bisect
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter

from micrograd.compiler.ir import Kernel, Ref, refs, replace, span
from micrograd.compiler.passes import length


def allocate(kernel: Kernel, most: int, size: Callable[[Kernel], int] = length) -> tuple[list[Kernel], int]:
    """The kernel in parts of at most this size, or of a single step, with an array t; and how many elements t has.

    What only single lines of one part use goes to variables. What lies between elements that a loop uses keeps them
    apart.
    """
    parts = list(_parts(kernel, most, size))
    spans: dict[str, set[tuple[int, int]]] = defaultdict(set)
    user: dict[tuple[str, int], int] = {}
    for number, part in enumerate(parts):
        for ref, rounds in refs(tuple(part)):
            if ref.array[0] == "t" and (rounds or user.setdefault((ref.array, ref.base), number) != number):
                first, last = span(ref, rounds)
                spans[ref.array].add((first, last + 1))
    n = 0
    variables: dict[Ref, Ref] = {}
    slots: dict[str, list[tuple[int, int, int]]] = defaultdict(list)  # first and end in an array, slot of the first
    for name, found in spans.items():
        for first, end in _united(found):
            slots[name].append((first, end, n))
            n += end - first

    def placed(ref: Ref) -> Ref:
        if ref.array[0] != "t":
            return ref
        at = bisect(slots[ref.array], ref.base, key=itemgetter(0)) - 1
        if at >= 0 and ref.base < slots[ref.array][at][1]:
            first, _, slot = slots[ref.array][at]
            return Ref("t", slot + ref.base - first, ref.strides)
        return variables.setdefault(ref, Ref(f"t{len(variables)}"))

    return [[replace(step, placed) for step in part] for part in parts], n


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


def _united(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The ranges, first and end each, with those that overlap made one."""
    united: list[tuple[int, int]] = []
    for first, end in sorted(spans):
        if united and first < united[-1][1]:
            united[-1] = united[-1][0], max(end, united[-1][1])
        else:
            united.append((first, end))
    return united
