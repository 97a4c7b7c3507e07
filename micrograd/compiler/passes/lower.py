"""Lowering: the last passes, which turn a kernel into the steps that C prints."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from micrograd.compiler.frontend.graph import Graph
from micrograd.compiler.ir import ARRAYS, Assign, Kernel, Loop, Ref, Step, Switch, calls, most_rounds, refs, replace
from micrograd.compiler.passes.dependence import ROW_CALLS, is_of_vectors, is_parallel
from micrograd.compiler.passes.jam import jam
from micrograd.compiler.passes.lanes import in_lanes, with_sums
from micrograd.compiler.passes.layers import with_layers
from micrograd.compiler.passes.pipeline import Program
from micrograd.compiler.passes.products import Product, arguments_of, split
from micrograd.compiler.passes.storage import allocate
from micrograd.compiler.passes.sums import in_steps

LINES = 150  # of a function: gcc takes 2.4 s for 7,500 lines in lanes, and 2.8 if they are in functions of 600
REFERENCES = 150
"""Of a function in lanes, where a sum takes many lines: two compilers take 0.3 s each for two convolutions, not 0.5 and
0.2 as with 300. With functions as short for single examples, a call would take 3 times as long."""
MOST_ARGUMENTS = 8  # read in place: copied to one array, a dot of two with 20,000 numbers takes 1.7 times as long
LONG_ROW = 8  # rounds of a loop that computes exp and tanh by arithmetic: with 2, soft clusters take 1.05 times as long


class Lowered(NamedTuple):
    """The parts of a kernel, each to be a function, and the size of their array t; the products, and how many numbers
    a block holds for each example; the kernel after each pass; and the arrays of arguments: x, or x0, x1, ...
    where they are read in place.
    """

    parts: Sequence[Kernel]
    temporaries: int
    products: list[Product]
    block: int
    passes: dict[str, Sequence[Kernel]]
    inputs: Sequence[str]


def lower(program: Program, mode: str) -> Lowered:
    """A program for functions in C in one of the MODES of c.py."""
    kernel, products, block, sizes = program.kernel, list[Product](), 0, program.graph.sizes
    if mode == "lanes":
        kernel, products, block = split(kernel, sizes)
        kernel = [_for_all(step, program.graph) for step in kernel] if any(program.graph.shared) else kernel
    vectors = mode in ("lanes", "once")
    kernel = kernel if vectors else in_lanes(with_sums(kernel))
    layers = kernel if mode == "once" else with_layers(kernel, lanes=vectors)
    most = (REFERENCES, lambda part: sum(1 for _ in refs(tuple(part)))) if vectors else (LINES,)
    parts, temporaries = allocate(layers, *most)
    if mode == "file":  # elsewhere, a step may set `failed`
        parts = [_needed(part, {*ARRAYS}) for part in parts]
    found = _in_place(parts, sizes) if mode == "one" else None
    parts, inputs = (found, [f"x{k}" for k in range(len(sizes))]) if found else (parts, ["x"])
    steps = [in_steps(part, dots=mode == "one", totals=mode == "lanes") for part in parts]
    last = [jam(part) if vectors else [*map(_in_vectors, part)] if mode == "one" else part for part in steps]
    before = {"products": [kernel, [product.step() for product in products]], "layers": [layers], "storage": parts}
    return Lowered(last, temporaries, products, block, before | {"sums": steps, "jam": last}, inputs)


def _in_place(parts: Sequence[Kernel], sizes: Sequence[int]) -> list[Kernel] | None:
    """The parts, with an array for each argument in place of x; None if a loop reads several of them."""
    arguments = dict[Ref, int]()
    for ref, rounds in refs(tuple(map(tuple, parts))):
        if ref.array in ("x", "&x"):
            which = arguments_of(ref, rounds, sizes)
            arguments[ref] = which.start
            if which.stop - which.start > 1:
                return None

    def moved(ref: Ref) -> Ref:
        k = arguments.get(ref, -1)
        return ref if k < 0 else Ref(f"{ref.array}{k}", ref.base - sum(sizes[:k]), ref.strides)

    return [[replace(step, moved) for step in part] for part in parts] if 0 < len(sizes) <= MOST_ARGUMENTS else None


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


def _for_all(step: Step, graph: Graph) -> Any:
    """The step, with arguments that all examples share read from the array u: one number for all lanes."""
    sizes, shared = graph.sizes, graph.shared
    own = {ref for ref, rounds in refs(step) if ref.array != "x" or not all(shared[arguments_of(ref, rounds, sizes)])}
    return replace(step, lambda ref: ref if ref in own else ref._replace(array="u"))


def _in_vectors(step: Step, around: tuple[int, ...] = ()) -> Step:
    """The step, but its loops compute exp and tanh by arithmetic, not by the C library, so that C vectorizes them."""
    if not isinstance(step, Loop):
        return step
    if step.varies or step.rounds < LONG_ROW or not is_of_vectors(step):
        inner = (*around, most_rounds(step.rounds, around))
        return step._replace(body=tuple([_in_vectors(each, inner) for each in step.body]))
    body = [
        each._replace(value=each.value._replace(op=f"row_{each.value.op}")) if calls(each) in ROW_CALLS else each
        for each in step.body
    ]
    return step._replace(body=tuple(body), parallel=is_parallel(step, around))
