"""Storage: a kernel in parts, each a function, and one array for all that it computes on the way."""

from bisect import bisect
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter

from micrograd.compiler.ir import Kernel, Ref, refs, span
from micrograd.compiler.passes import length


def chunks_of(kernel: Kernel, most: int, size: Callable[[Kernel], int] = length) -> Iterator[Kernel]:
    """The kernel in parts of at most this size, or of a single step: each makes a function."""
    chunk: Kernel = []
    total = 0
    for step in kernel:
        more = size([step])
        if chunk and total + more > most:
            yield chunk
            chunk, total = [], 0
        chunk.append(step)
        total += more
    yield chunk


class Slots:
    """Where in the array t the elements go; those that only single lines of one function use go to variables.

    What lies between elements that a loop uses keeps them apart. `size` is how many elements t has.
    """

    def __init__(self, chunks: Sequence[Kernel]) -> None:
        spans: dict[str, set[tuple[int, int]]] = defaultdict(set)
        user: dict[tuple[str, int], int] = {}
        for number, chunk in enumerate(chunks):
            for ref, rounds in refs(tuple(chunk)):
                if ref.array[0] == "t" and (rounds or user.setdefault((ref.array, ref.base), number) != number):
                    first, last = span(ref, rounds)
                    spans[ref.array].add((first, last + 1))
        self.size = 0
        self._variables: dict[Ref, Ref] = {}
        self._ranges: dict[str, list[tuple[int, int, int]]] = {}  # first and end in an array, and the slot of the first
        for name, found in spans.items():
            ranges = self._ranges[name] = []
            for first, end in _united(found):
                ranges.append((first, end, self.size))
                self.size += end - first

    def placed(self, ref: Ref) -> Ref:
        """A reference to t0, t1, ... as a reference to the array t or to a variable; others are unchanged."""
        if ref.array[0] != "t":
            return ref
        ranges = self._ranges.get(ref.array, [])
        at = bisect(ranges, ref.base, key=itemgetter(0)) - 1
        if at >= 0 and ref.base < ranges[at][1]:
            return Ref("t", ranges[at][2] + ref.base - ranges[at][0], ref.strides)
        return self._variables.setdefault(ref, Ref(f"t{len(self._variables)}"))


def _united(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The ranges, first and end each, with those that overlap made one."""
    united: list[tuple[int, int]] = []
    for first, end in sorted(spans):
        if united and first < united[-1][1]:
            united[-1] = united[-1][0], max(end, united[-1][1])
        else:
            united.append((first, end))
    return united
