"""Writing NumPy: a kernel as Python that computes many examples at once.

Arrays that hold a number for each example ("x", "t0" and so on, "y") have a row for each element and a column for each
example; "p", "c" and "g" are flat. A loop becomes an axis of the statements in it, unless a round reads what an earlier
one has computed: then it stays a loop. A loop of terms becomes a product of matrices.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

from micrograd.compiler.frontend.graph import Graph
from micrograd.compiler.ir import (
    Accumulate,
    Assign,
    Call,
    Kernel,
    Loop,
    Ref,
    Scatter,
    Step,
    Sum,
    Term,
    innermost,
    refs,
    span,
)
from micrograd.compiler.passes import Program
from micrograd.compiler.targets.spelling import call, signed, spellings

FLAT = ("p", "c", "g", "&p")
"""The arrays of numbers that all examples share; "&p" has the indices of parameters."""
EXAMPLES = 1 << 30
"""The axis of the examples, after those of all loops."""
TEMPLATES = spellings("numpy")


class Nest(NamedTuple):
    """The loops around a statement: the rounds of each, the outermost first, and which of them are axes."""

    rounds: tuple[int, ...] = ()
    axes: tuple[int, ...] = ()

    def loop(self, rounds: int, *, is_axis: bool) -> "Nest":
        """One more loop within."""
        return Nest((*self.rounds, rounds), (*self.axes, len(self.rounds)) if is_axis else self.axes)

    def shape(self) -> str:
        """The shape of an array with all axes."""
        return f"({', '.join([*(str(self.rounds[axis]) for axis in self.axes), 'n'])},)"


class Writer:
    """Prints a program of a graph as a function on arrays.

    The array c has its `constants`. The arrays have `size` numbers for each example; `statements` counts the
    statements that run, each on whole arrays.
    """

    def __init__(self, graph: Graph, program: Program) -> None:
        kernel, self.constants = program.kernel, program.constants
        self._sizes = _sizes(kernel) | {"y": program.n_results}
        self.size = sum(graph.sizes) + sum(self._sizes.values())
        self.statements = 0
        self._variables: dict[str, tuple[int, ...]] = {}  # their axes
        self._body = [line for step in kernel for line in self._step(step, Nest())]

    def source(self, name: str) -> str:
        """The function, which returns y and adds to g."""
        arrays = [f"{array} = empty(({size}, n))" for array, size in self._sizes.items()]
        lines = ["row, ones = 8 * n, full(n, 1.0)", *arrays, *self._body, "return y"]
        return f"def {name}(p, x, seed, g, n):\n" + "".join(f"    {line}\n" for line in lines)

    def _step(self, step: Step, nest: Nest) -> list[str]:
        """The lines for a step in these loops."""
        if isinstance(step, Loop):
            is_axis = not is_carried(step, nest.rounds)
            within = nest.loop(step.rounds, is_axis=is_axis)
            body = [line for inner in step.body for line in self._step(inner, within)]
            head = f"for i{len(nest.rounds)} in range({step.rounds}):"
            return body if is_axis else [head, *[f"    {line}" for line in body]]
        self.statements += math.prod(n for depth, n in enumerate(nest.rounds) if depth not in nest.axes)
        if isinstance(step, Scatter):
            places = step.row._replace(array="&p"), step.position, step.value
            row, position, value = (self._aligned(ref, nest) for ref in places)
            place = f"{row} + {step.step} * whole({position}, {step.size})"
            return [f"add_at(g, {place}, {value}, {nest.shape()})"]
        if isinstance(step, Accumulate):
            return self._accumulate(step, nest)
        target, value = step.target, self._value(step.value, nest)
        if target.array[0] != "v":
            return [f"{self._place(target, nest)} = {value}"]
        self._variables[target.array] = nest.axes
        return [f"{target.array} = broadcast_to({value}, {nest.shape()})"]

    def _accumulate(self, step: Accumulate, nest: Nest) -> list[str]:
        """The lines that add a value to gradients: the sum over the examples, and the axes they do not have."""
        assert isinstance(step.value, Sum)  # as what is added to a gradient is
        kept = [axis for axis in nest.axes if _stride(step.target, axis)]
        summed = [axis for axis in (*nest.axes, EXAMPLES) if axis not in kept]
        target = self._place(step.target, nest)
        return [
            f"{target} {term.sign}= {self._contraction(term, within, [*summed, *more], kept)}"
            for term, within, more in _products(step.value.terms, nest)
        ]

    def _value(self, value: Any, nest: Nest) -> str:
        """An expression, with the axes of the nest and then that of examples, or what broadcasts to them."""
        if not isinstance(value, Sum):
            return call(_simplified(value), lambda ref: self._aligned(ref, nest), TEMPLATES)
        text = ""
        for term, within, summed in _products(value.terms, nest):
            if term.sign == ">":
                largest = self._largest(term.factors[0], within, summed)
                text = f"maximum({text}, {largest})" if text else largest
                continue
            if summed:
                product = self._contraction(term, within, summed, [*nest.axes, EXAMPLES])
            else:
                product = " * ".join(self._aligned(factor, nest) for factor in term.factors)
            text += f" {term.sign} {product}"
        return text.removeprefix(" + ")

    def _largest(self, ref: Ref, nest: Nest, over: Sequence[int]) -> str:
        """The largest number over some axes, with the others as axes, or what broadcasts to them."""
        axes = self._axes(ref, nest)
        away = tuple([i for i, axis in enumerate(axes) if axis in over])
        text = self._view(ref, axes, nest) + (f".max({away})" if away else "")
        kept = [axis for axis in (*nest.axes, EXAMPLES) if axis not in over]
        return _spread(text, [axis for axis in axes if axis not in over], kept)

    # Products

    def _contraction(self, term: Term, nest: Nest, summed: Sequence[int], kept: Sequence[int]) -> str:
        """The sum of a product over some axes, with the others as axes, or what broadcasts to them."""
        arrays = {ref: self._axes(ref, nest) for ref in term.factors}
        scalars = [self._view(ref, [], nest) for ref in term.factors if not arrays[ref]]
        factors = [ref for ref in term.factors if arrays[ref]]
        for axis in summed:  # of which all terms are equal
            if not any(axis in arrays[ref] for ref in factors):
                scalars.append("n" if axis == EXAMPLES else str(nest.rounds[axis]))
        if not factors:
            return " * ".join(scalars)
        product, axes = self._product(factors, [arrays[ref] for ref in factors], nest, summed)
        return " * ".join([*scalars, _spread(product, axes, kept)])

    def _product(
        self, factors: Sequence[Ref], axes: Sequence[Sequence[int]], nest: Nest, summed: Sequence[int]
    ) -> tuple[str, list[int]]:
        """The sum of a product, and its axes."""
        left = sorted({axis for each in axes for axis in each if axis not in summed})
        if len(factors) == 1:
            away = [i for i, axis in enumerate(axes[0]) if axis in summed]
            view = self._view(factors[0], axes[0], nest)
            if axes[0][-1] == EXAMPLES and len(away) == 1 and EXAMPLES in summed:
                return f"{view} @ ones", left
            return (f"{view}.sum({tuple(away)})" if away else view), left
        both = [axis for axis in axes[0] if axis in axes[1]]
        if both and all((axis in summed) == (axis in both) for each in axes for axis in each):
            for one, other in (0, 1), (1, 0):  # pragma: no branch - in one of the two orders, but for ties
                a, b = ([axis for axis in axes[i] if axis not in both] for i in (one, other))
                if [*a, *b] == left:
                    views = self._view(factors[one], [*a, *both], nest), self._view(factors[other], [*both, *b], nest)
                    if len(both) == 1 and len(b) < 2:
                        return f"{views[0]} @ {views[1]}", left
                    return f"tensordot({views[0]}, {views[1]}, {len(both)})", left
        subscripts = ["".join(chr(ord("a") + min(axis, 25)) for axis in each) for each in (*axes, left)]
        arrays = ", ".join(self._view(ref, each, nest) for ref, each in zip(factors, axes, strict=True))
        return f'einsum("{subscripts[0]},{subscripts[1]}->{subscripts[2]}", {arrays})', left

    # References

    def _axes(self, ref: Ref, nest: Nest) -> list[int]:
        """The axes that an array has at a reference."""
        array = ref.array
        if array[0] == "v":
            return [*self._variables[array], EXAMPLES]
        own = [axis for axis in nest.axes if _stride(ref, axis)]
        return own if array in FLAT or array == "seed" or array[0] == "=" else [*own, EXAMPLES]

    def _aligned(self, ref: Ref, nest: Nest) -> str:
        """What is at a reference, with all axes of the nest, or what broadcasts to them."""
        axes = self._axes(ref, nest)
        return _spread(self._view(ref, axes, nest), axes, [*nest.axes, EXAMPLES])

    def _place(self, ref: Ref, nest: Nest) -> str:
        """A reference to assign to."""
        text = self._view(ref, self._axes(ref, nest), nest)
        return f"{text}[:]" if text.startswith("ndarray") else text

    def _view(self, ref: Ref, axes: Sequence[int], nest: Nest) -> str:
        """What is at a reference, with its axes in this order."""
        array = ref.array
        if array[0] == "=":
            return signed(array[1:])
        if array == "seed":
            return array
        if array[0] == "v":
            own = self._axes(ref, nest)
            return array if axes == own else f"{array}.transpose({', '.join(str(own.index(axis)) for axis in axes)})"
        index = _index(ref, nest)
        loops = [axis for axis in axes if axis != EXAMPLES]
        array = "places" if array == "&p" else array
        if not loops:
            return index if array == "places" else f"{array}[{index}]"
        if len(loops) > 1 or (_stride(ref, loops[0]) < 0 and not index.isdigit()):
            return self._strided(ref, array, index, axes, nest)
        rounds, stride = nest.rounds[loops[0]], _stride(ref, loops[0])
        if index.isdigit():
            last = ref.base + stride * (rounds - 1)
            end = str(last + 1) if stride > 0 else str(last - 1) if last else ""
        else:
            end = f"{index} + {stride * (rounds - 1) + 1}"
        step = f":{stride}" if stride != 1 else ""
        return f"{array}[{index}:{end}{step}]" + (".T" if axes[0] == EXAMPLES else "")

    def _strided(self, ref: Ref, array: str, index: str, axes: Sequence[int], nest: Nest) -> str:
        """A view with several axes, or with one that runs backwards from an element that a loop moves."""
        unit = "8" if array in FLAT or array == "places" else "row"
        shape = ", ".join("n" if axis == EXAMPLES else str(nest.rounds[axis]) for axis in axes)
        strides = ", ".join("8" if axis == EXAMPLES else f"{_stride(ref, axis)} * {unit}" for axis in axes)
        number = "int64" if array == "places" else "float64"
        return f"ndarray(({shape},), {number}, {array}, ({index}) * {unit}, ({strides},))"


def _simplified(value: Any) -> Any:
    """A relu as the larger of two numbers, which is much faster."""
    zero = Ref("=0.0")
    if isinstance(value, Call) and value.op == "where" and value.operands[1] == zero:
        condition, _, x = value.operands
        if condition == Call("<=", (x, zero)):
            return Call("maximum", (x, zero))
    return value


def _stride(ref: Ref, depth: int) -> int:
    return ref.strides[depth] if depth < len(ref.strides) else 0


def _index(ref: Ref, nest: Nest) -> str:
    """The index of the first element of a reference."""
    loops = [(i, s) for i, s in enumerate(ref.strides) if s and i not in nest.axes]
    return " + ".join([str(ref.base), *(f"{stride} * i{depth}" for depth, stride in loops)])


def _spread(text: str, axes: Sequence[int], kept: Sequence[int]) -> str:
    """An array with some of these axes, the others being inserted where broadcasting would not do it."""
    index = [":" if axis in axes else "None" for axis in kept[kept.index(axes[0]) :]] if axes else []
    if "None" not in index:
        return text
    return f"{f'({text})' if ' @ ' in text else text}[{', '.join(index)}]"


def _products(
    terms: Sequence[Term | Loop], nest: Nest, summed: tuple[int, ...] = ()
) -> Iterator[tuple[Term, Nest, tuple[int, ...]]]:
    """The terms of a sum, each with the loops around it, and those among them whose terms are added up."""
    for term in terms:
        if isinstance(term, Loop):
            yield from _products(term.body, nest.loop(term.rounds, is_axis=True), (*summed, len(nest.rounds)))
        else:
            yield term, nest, summed


def _sizes(kernel: Kernel) -> dict[str, int]:
    """How many elements each array of intermediate results has."""
    sizes: dict[str, int] = defaultdict(int)
    for ref, rounds in refs(tuple(kernel)):
        if ref.array[0] == "t":
            sizes[ref.array] = max(sizes[ref.array], span(ref, rounds)[1] + 1)
    return dict(sizes)


# Loops that have to stay


def is_carried(loop: Loop, outer: tuple[int, ...]) -> bool:
    """Whether a round of a loop may read what an earlier one computes; or several add to one gradient, of several."""
    reads: dict[str, list[tuple[Ref, tuple[int, ...]]]] = defaultdict(list)
    for step, rounds in innermost(loop, outer):
        for read in refs(step.value, rounds):
            reads[read[0].array].append(read)
        is_read = isinstance(step, Assign) and step.target.array[0] != "v"  # each gradient is added to once
        if is_read and any(_meets(step.target, rounds, *read, len(outer)) for read in reads[step.target.array]):
            return True
    return False


def _meets(write: Ref, written: Sequence[int], read: Ref, rounds: Sequence[int], depth: int) -> bool:
    """Whether a round of the loop at this depth may read what an earlier one writes."""
    low = high = write.base - read.base
    for i, (a, b) in enumerate(zip_longest(write.strides, read.strides, fillvalue=0)):
        if a == b and i <= depth:
            continue  # the same round of an outer loop
        for reach in (a * (written[i] - 1) if a else 0, -b * (rounds[i] - 1) if b else 0):
            low, high = low + min(0, reach), high + max(0, reach)
    own = _stride(write, depth)
    if own != _stride(read, depth):
        return low <= 0 <= high
    return any(low <= own * k <= high for k in range(1, rounds[depth]))
