"""Lowering: the last passes, which turn a kernel into the steps that C prints."""

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

from micrograd.compiler.ir import ARRAYS, Assign, Kernel, Loop, Ref, Step, Switch, calls, refs, replace
from micrograd.compiler.passes import Program
from micrograd.compiler.passes.dependence import ROW_CALLS, is_of_vectors, is_parallel
from micrograd.compiler.passes.interchange import interchanged
from micrograd.compiler.passes.jam import jam
from micrograd.compiler.passes.lanes import in_lanes, with_sums
from micrograd.compiler.passes.layers import with_layers
from micrograd.compiler.passes.products import Product, argument, piece, split
from micrograd.compiler.passes.storage import allocate
from micrograd.compiler.passes.sums import in_steps

LINES = 150  # of a function: gcc takes 2.4 s for 7,500 lines in lanes, and 2.8 if they are in functions of 600
REFERENCES = 150
"""Of a function in lanes, where a sum takes many lines: two compilers take 0.3 s each for two convolutions, not 0.5 and
0.2 as with 300. With functions as short for single examples, a call would take 3 times as long."""
MOST_PIECES = 8  # of an array: each is a parameter of every function; without any, lse takes 1.1 to 1.3 times as long
LONG_ROW = 8  # rounds of a loop that computes exp and tanh by arithmetic: with 2, soft clusters take 1.05 times as long


class Lowered(NamedTuple):
    """The parts of a kernel, each to be a function, and the size of their array t; the products, and how many numbers
    a block holds for each example; and the kernel after each pass.

    `pieces` names the arrays that take the place of x, one for each argument (x0, x1, ...), or of y, one for the value
    and for each gradient (y0, y1, ...). Without an entry, x or y is one array.
    """

    parts: Sequence[Kernel]
    temporaries: int
    products: list[Product]
    block: int
    passes: dict[str, Sequence[Kernel]]
    pieces: dict[str, list[str]]


def lower(program: Program, kind: str, shared: Sequence[bool] = (), results: Sequence[int] = ()) -> Lowered:
    """A program for functions in C of this kind (KINDS in c.py). In lanes, `shared` says which arguments they share. In
    a library for one example, `results` has the sizes of the value and of each gradient.
    """
    kernel, products, block = program.kernel, list[Product](), 0
    if kind == "lanes":
        kernel, products, block = split(kernel, program.sizes)
        kernel = [_for_all(step, program.sizes, shared) for step in kernel] if any(shared) else kernel
    vectors = kind in ("lanes", "once")
    layers = kernel if kind == "once" else with_layers(kernel) if vectors else interchanged(in_lanes(with_sums(kernel)))
    parts, temporaries = allocate(layers, REFERENCES, _references) if vectors else allocate(layers, LINES)
    if kind == "file":  # elsewhere, a step may set `failed`
        parts = [_needed(part, {*ARRAYS}) for part in parts]
    pieces = dict[str, list[str]]()
    for array, sizes in (("x", program.sizes), ("y", results)) if kind == "one" else ():
        if found := _in_pieces(parts, array, sizes):
            parts, pieces[array] = found, [f"{array}{k}" for k in range(len(sizes))]
    steps = [in_steps(part, dots=kind == "one", totals=kind == "lanes") for part in parts]
    last = [jam(part) for part in steps] if vectors else steps
    if kind == "one":
        last = [list(map(_in_vectors, part)) for part in steps]
    before = {"products": [kernel, [product.step() for product in products]], "layers": [layers], "storage": parts}
    return Lowered(last, temporaries, products, block, before | {"sums": steps, "jam": last}, pieces)


def _references(kernel: Kernel) -> int:
    """How many references the steps of a kernel have."""
    return sum(1 for _ in refs(tuple(kernel)))


def _in_pieces(parts: Sequence[Kernel], array: str, sizes: Sequence[int]) -> list[Kernel] | None:
    """The parts with the pieces of an array, of these sizes, as arrays of their own. None if there are none or more
    than MOST_PIECES, or if a loop reaches several.
    """
    if not 0 < len(sizes) <= MOST_PIECES:
        return None
    places = dict[Ref, tuple[int, int]]()
    for ref, rounds in chain(*[refs(tuple(part)) for part in parts]):
        if ref.array == array:
            if (place := piece(ref, rounds, sizes)) is None:
                return None
            places[ref] = place

    def moved(ref: Ref) -> Ref:
        if ref not in places:
            return ref
        k, start = places[ref]
        return Ref(f"{array}{k}", ref.base - start, ref.strides)

    return [[replace(step, moved) for step in part] for part in parts]


def _needed(steps: Sequence[Any], read: set[str]) -> Kernel:
    """The steps without the variables that nothing reads: for items of a row that get no gradient, or a state of a sum
    that is not used. `read` has the arrays that later steps read, and receives the others.
    """
    needed: Kernel = []
    for step in reversed(steps):
        if isinstance(step, Loop):
            step = step._replace(body=tuple(_needed(step.body, read)))
            needed += [step] * bool(step.body)
        elif isinstance(step, Switch):
            needed.append(step._replace(cases=tuple([tuple(_needed(case, read)) for case in step.cases])))
        elif not isinstance(step, Assign) or step.target.array in read:
            needed.append(step)
            read.update(ref.array for ref, _ in refs(step))
    return needed[::-1]


def _for_all(step: Step, sizes: Sequence[int], shared: Sequence[bool]) -> Any:
    """The step, but it reads arguments that all examples share from the array u: one number for all lanes."""
    places = [(ref, argument(ref, rounds, sizes)) for ref, rounds in refs(step)]
    own = {ref for ref, place in places if not (place and shared[place[0]])}
    return replace(step, lambda ref: ref if ref in own else ref._replace(array="u"))


def _in_vectors(step: Step, around: tuple[int, ...] = ()) -> Step:
    """The step, but its loops compute exp and tanh by arithmetic, not by the C library, so that C vectorizes them."""
    if not isinstance(step, Loop):
        return step
    if step.rounds < LONG_ROW or not is_of_vectors(step):
        return step._replace(body=tuple([_in_vectors(each, (*around, step.rounds)) for each in step.body]))
    body = [
        each._replace(value=each.value._replace(op=f"row_{each.value.op}")) if calls(each) in ROW_CALLS else each
        for each in step.body
    ]
    return step._replace(body=tuple(body), parallel=is_parallel(step, around))
