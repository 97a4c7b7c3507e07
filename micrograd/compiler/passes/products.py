"""Products: gradients of weights leave the kernel, and a matrix product adds them up over a block of examples.

No step reads a gradient, so they can be added last. If the gradient of a matrix is an outer product, of a number for
each row and a number for each column, the kernel only copies these numbers to the array "block", for many examples.
"""

from bisect import bisect
from collections.abc import Iterator, Sequence
from itertools import accumulate, permutations
from math import prod
from typing import NamedTuple

from micrograd.compiler.ir import Accumulate, Assign, Kernel, Loop, Ref, Step, Sum, Term, innermost, refs, span
from micrograd.compiler.passes.fuse import fuse

FEWEST_ROWS, FEWEST_COLUMNS = 8, 16
"""The smallest product. At half of these numbers, 100 examples of 8-12-12-4 take 13 us instead of 10; with 17 rows as
the least, an LSTM with 16 neurons takes 6.2 ms instead of 5.6."""


class Product(NamedTuple):
    """Loops around g[...] += a * b. The last two run over the rows of weights, with one a each, and the columns."""

    rounds: tuple[int, ...]
    target: Ref
    a: Ref
    b: Ref

    def step(self) -> Step:
        """The product as a step of a kernel."""
        return _loops(self.rounds, Accumulate(self.target, Sum((Term("+", (self.a, self.b)),))))


def split(kernel: Sequence[Step], sizes: Sequence[int]) -> tuple[Kernel, list[Product], int]:
    """What the kernel computes for each example, the products, and how many numbers in "block" they read of each.

    `sizes` are those of the arguments. If b reads only one of these, it is not copied: with copies, a step of
    784-128-10 with 512 examples takes 1.04 times as long. Without products in between, loops join: a number is copied
    where it is computed, and 200 examples of 64-100-10 take 0.95 of the time.
    """
    left: Kernel = []
    products: list[Product] = []
    places: dict[tuple[Ref, tuple[int, ...]], int] = {}  # where in the block each copy begins
    size = 0

    def in_block(ref: Ref, rounds: tuple[int, ...]) -> Ref:
        """A reference to the copy of what this one reads."""
        nonlocal size
        depths = [depth for depth, stride in enumerate(ref.strides) if stride]  # the loops in which it advances
        own = tuple([rounds[depth] for depth in depths])
        read = ref._replace(strides=tuple([ref.strides[depth] for depth in depths]))
        strides = [prod(own[i + 1 :]) for i in range(len(own))]
        if (read, own) not in places:
            place, size = size, size + prod(own)
            places[read, own] = place
            left.append(_loops(own, Assign(Ref("block", place, tuple(strides)), read)))
        at = dict(zip(depths, strides, strict=True))
        return Ref("block", places[read, own], tuple([at.get(depth, 0) for depth in range(len(rounds))]))

    for step in kernel:
        found: list[Product] = []
        left += _without_products(step, (), found)
        for rounds, target, a, b in found:  # the steps so far have computed its factors
            of_b = arguments_of(b, rounds, sizes)
            in_place = b.array == "x" and of_b.stop - of_b.start == 1
            products.append(Product(rounds, target, in_block(a, rounds), b if in_place else in_block(b, rounds)))
    return (fuse(left) if products else left), products, size


def arguments_of(ref: Ref, rounds: Sequence[int], sizes: Sequence[int]) -> slice:
    """Which of the arguments a reference to x reaches. Where rounds vary, its span may begin before all of them."""
    starts = list(accumulate(sizes, initial=0))
    first, last = (bisect(starts, index) for index in span(ref, rounds))
    return slice(max(first - 1, 0), last)


def alone(products: Sequence[Product], kernel: Sequence[Step]) -> list[Product]:
    """The products whose gradients nothing else adds to, in the order of these: the first block of a batch sets them.

    If all gradients were first set to 0, a step of 512-512-10 with 32 examples would take 1.2 times as long.
    """
    found, end = list[Product](), 0
    adds = [(product.target, product.rounds) for product in products]
    adds += [each for each in refs(tuple(kernel) if products else ()) if each[0].array == "g"]
    for product in sorted(products, key=lambda product: product.target):
        first, last = span(product.target, product.rounds)
        fits = first >= end and len(product.rounds) == 2 and product.target.strides[0] >= product.rounds[1]
        if fits and sum(not _misses(product, *each) for each in adds) == 1:
            found, end = [*found, product], last + 1
    return found


def _misses(product: Product, ref: Ref, rounds: Sequence[int]) -> bool:
    """Whether a reference stays clear of the gradients of a product: before them, after them, or between their rows."""
    (first, last), (low, high) = span(product.target, product.rounds), span(ref, rounds)
    if high < first or low > last:
        return True
    row, width = product.target.strides[0], product.rounds[1]
    strides = [0 if isinstance(stride, int) and stride % row == 0 else stride for stride in ref.strides]
    low, high = span(ref._replace(strides=tuple(strides)), rounds)
    at: int = (low - first) % row
    return at >= width and at + high - low < row


def _loops(rounds: Sequence[int], step: Step) -> Step:
    """A step inside loops of these numbers of rounds."""
    return _loops(rounds[:-1], Loop(rounds[-1], (step,))) if rounds else step


def _without_products(step: Step, rounds: tuple[int, ...], found: list[Product]) -> Iterator[Step]:
    """What is left of a step inside these loops, if anything. Its products are appended to `found`."""
    if isinstance(step, Loop):
        inner = (*rounds, step.rounds)
        if body := tuple([left for each in step.body for left in _without_products(each, inner, found)]):
            yield Loop(step.rounds, body)
    elif isinstance(step, Accumulate) and isinstance(step.value, Sum):
        parts = []
        for part in step.value.terms:
            terms = list(innermost(part))
            products = [*filter(None, (_product(step.target, term, (*rounds, *more)) for term, more in terms))]
            if len(products) == len(terms):
                found += products
            else:
                parts.append(part)
        if parts:
            yield Accumulate(step.target, Sum(tuple(parts)))
    else:
        yield step


def _product(target: Ref, term: Term, rounds: tuple[int, ...]) -> Product | None:
    """The product that a term inside these loops makes, if it is large enough."""
    if target.array != "g" or term.sign != "+" or len(term.factors) != 2:
        return None
    if any(factor.array[0] not in "tx" for factor in term.factors):
        return None
    of_g = target.strides + (0,) * (len(rounds) - len(target.strides))
    for a, b in permutations(term.factors):
        ways = list(enumerate(zip(rounds, of_g, a.strides, b.strides, strict=True)))
        rows = [(n, depth) for depth, (n, g, of_a, of_b) in ways if n >= FEWEST_ROWS and g and of_a and not of_b]
        columns = [(n, depth) for depth, (n, g, of_a, _) in ways if n >= FEWEST_COLUMNS and g == 1 and not of_a]
        pairs = [(row, column) for row in rows for column in columns if row[1] != column[1]]
        if pairs:
            inner = tuple([depth for _, depth in max(pairs)])
            order = [*(depth for depth, _ in ways if depth not in inner), *inner]
            numbers, *strides = ([each[depth] for depth in order] for each in (rounds, of_g, a.strides, b.strides))
            g, a, b = (ref._replace(strides=tuple(own)) for ref, own in zip((target, a, b), strides, strict=True))
            return Product(tuple(numbers), g, a, b)
    return None
