"""The loops of `scan`: a traced round as steps in a loop.

The states lie one after the other in an array, so the next state of one round is the state of the following round.
Another array keeps what the backward loop needs from each round. The backward loop reads both arrays from the end. Sums
are added up in place.

If rounds only add to the state, it stays in place, and they may run in any order; in C, they run in lanes. The backward
loop then computes a round again. If `until` may end a loop, its state stays in place, too. Flags say which rounds ran.

While a round is turned into steps, the name of an array that advances from round to round begins with its stride.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any

from micrograd.compiler.frontend.tracer import Slice
from micrograd.compiler.ir import (
    Accumulate,
    Assign,
    Kernel,
    Loop,
    Ref,
    Skip,
    Step,
    Sum,
    Term,
    innermost,
    refs,
    replace,
    span,
)
from micrograd.compiler.passes.expressions import Column, Node
from micrograd.compiler.passes.fuse import fuse
from micrograd.compiler.passes.jam import later
from micrograd.compiler.passes.roll import reroll
from micrograd.compiler.passes.vectorize import Layout, Levels, Place, by_level

LANES = range(64, 8, -8)  # rounds of a strip, ideally without a rest: half of 64 take 1.05 to 1.2 times as long
ROOM = 1 << 17  # numbers of a strip, which then stay in the cache

OVER = -1  # the key of what a loop keeps: for each round, whether it changes nothing


def steps_of(node: Node, layout: Layout) -> Kernel:
    """The steps of a loop: what it reads first, and its rounds."""
    its = node.round
    assert its
    loop, prefix, to = its.loop, f"{layout.prefix}{node.line}_", layout.rows[node.line]
    rounds, n = loop.rounds, len(loop.state)
    over = layout.kept.get(loop.forward, {}).get(OVER) if loop.over < 0 else Slice(f"{prefix}o", 0, 1, rounds)
    states = Slice(f"{prefix}s", 0, 0 if loop.is_sum or over else n, rounds)
    in_order = _reversed if loop.forward >= 0 and not loop.is_sum else lambda place: place
    first, *columns = node.columns
    before = [*_copies(Slice(states.array, 0, 1, n), first, layout)]
    leaves = {line: states._replace(base=i) for i, line in enumerate(loop.state)}
    for i, (line, column) in enumerate(zip(loop.xs, columns, strict=False)):
        _, slices = layout.runs(column)
        if len(slices) > 1:
            slices = [Slice(f"{prefix}x{i}", 0, 1, rounds)]
            before += _copies(slices[0], column, layout)
        leaves[line] = in_order(slices[0])
    if loop.forward >= 0:
        leaves |= {line: in_order(place) for line, place in layout.kept[loop.forward].items()}
    results = [(line, states._replace(base=states.step + i)) for i, line in enumerate(loop.results[:n])]
    for j, line in its.outputs.items():
        place = Slice(to.array, to.base + n + loop.n_sums + j, loop.n_outputs, rounds)
        results.append((line, in_order(place)))
    own = Layout(
        layout | {line: _each(node, place) for line, place in leaves.items()}, (), f"{prefix}t", tables=layout.tables
    )
    own.rows, own.kept = dict(layout.rows), dict(layout.kept)
    if loop.forward < 0:
        in_rows = {line for each in its.nodes for line in each.items}
        kept = {*its.kept}.difference(dict(results[n if over else 0 :]), loop.state)
        own.keeps, others = kept - in_rows, sorted(kept & in_rows)
        results += [(line, Slice(f"{prefix}n", i, len(others), rounds)) for i, line in enumerate(others)]
    if over and loop.over >= 0:
        results.append((loop.over, over._replace(base=1)))
        before += [*_set(over._replace(size=rounds + 1), "=1.0"), Assign(Ref(over.array), Ref("=0.0"))]
    used = {*chain(*[each.operands for each in its.nodes])} if loop.is_sum else set()
    apart = [line for line, place in leaves.items() if place.step > 1 and line in used]  # too far to make a vector
    copies: Kernel = [Assign(Ref(f"{prefix}tx", i), Ref(*own[line])) for i, line in enumerate(apart)]
    own.update((line, (f"{prefix}tx", i)) for i, line in enumerate(apart))
    own.kept_in, _ = _each(node, Slice(f"{prefix}k", 0, len(own.keeps), rounds))
    ends = [(line, _each(node, place)) for line, place in results]
    for line, to_be in ends[n if over else 0 :]:  # a state that stays in place is set at the end of the round
        own.setdefault(line, to_be)
    body = reroll([*copies, *fuse(by_level(Levels(its.nodes), own, steps_of))])
    if loop.forward < 0:
        kept_here = [(line, Slice(f"{prefix}k", own[line][1], len(own.keeps), rounds)) for line in own.keeps]
        layout.kept[node.line] = leaves | {line: place for line, place in (*results, *kept_here) if line in its.kept}
    if over:
        keep = {line: Slice(f"{prefix}h", i, n, rounds) for i, line in enumerate(loop.state) if line in its.kept}
        skip = Skip(Ref(*_each(node, in_order(over))), "break" if loop.forward < 0 else "continue")
        body = [skip, *[Assign(Ref(*_each(node, place)), Ref(*own[line])) for line, place in keep.items()], *body]
        if loop.forward < 0:
            layout.kept[node.line] |= {**keep, OVER: over}
    body += reroll([Assign(Ref(*place), Ref(*own[line])) for line, place in ends if own[line] != place])
    body = replace(
        tuple([_in_place(step, to.array, to.base + n) for step in body]), partial(_in_round, mark=_mark(node))
    )
    after: Kernel = []
    if any(i < n for i in its.positions):
        after += _copy(Slice(to.array, to.base, 1, n), Slice(states.array, rounds * states.step, 1, n))
    if any(n <= i < n + loop.n_sums for i in its.positions):
        before += _set(Slice(to.array, to.base + n, 1, loop.n_sums), "=0.0")
    if over and its.outputs:
        before += _set(Slice(to.array, to.base + n + loop.n_sums, 1, rounds * loop.n_outputs), "=0.0")
    return [*before, *[Loop(rounds, body, loop.is_sum)] * bool(body), *after]  # no step may be needed for a sum


def in_lanes(kernel: Sequence[Step]) -> Kernel:
    """The kernel with the rounds of loops that run in any order in lanes: each step takes a strip of rounds at a time.

    What one round computes for another step has a number for each lane then, and sums add up all lanes.
    """
    return [each for step in kernel for each in (_strips(step) if isinstance(step, Loop) else [step])]


def _strips(loop: Loop) -> Kernel:
    """A loop as one over whole strips, and what is left; or as it is, if it is short or its order matters."""
    if not loop.parallel or any(isinstance(step, Skip) for step, _ in innermost(loop)):
        return [loop]
    own = {step.target.array for step, _ in innermost(loop) if not (step.target.strides[0] or _adds(step))}
    ends = [(ref.array, span(ref, rounds)[1] + 1) for ref, rounds in refs(loop) if ref.array in own]
    room = sum(dict(sorted(ends)).values())
    sizes = [n for n in LANES if 2 * n <= loop.rounds and n * room <= ROOM]
    if not sizes:
        return [loop]
    lanes = next((n for n in sizes if loop.rounds % n == 0), sizes[0])
    strips, left = divmod(loop.rounds, lanes)
    found: Kernel = [Loop(strips, tuple([_in_lanes(step, own, lanes) for step in loop.body]))]
    if left:
        last = later(loop.body, strips * lanes)
        found.append(Loop(1, tuple([_in_lanes(step, own, left) for step in last])))
    return found


def _in_lanes(part: Any, own: set[str], lanes: int, depth: int = 1) -> Any:
    """A step within so many loops, or a term of a sum over all rounds, with a loop over so many lanes inside.

    The intermediate results of a round are in its `own` arrays.
    """
    if isinstance(part, Loop):
        return part._replace(body=tuple([_in_lanes(each, own, lanes, depth + 1) for each in part.body]))
    if isinstance(part, Assign) and not (part.target.strides[0] or part.target.array in own):
        assert isinstance(part.value, Sum)
        so_far = Term("+", (part.target,))
        terms = [each if each == so_far else _in_lanes(each, own, lanes, depth) for each in part.value.terms]
        return Assign(part.target, Sum(tuple(terms)))
    if isinstance(part, Term) and part.factors[0].array[0] == "=" and len(part.factors) == 1:
        return Term(part.sign, (*part.factors, Ref(f"={float(lanes)}")))

    def lane(ref: Ref) -> Ref:
        if not ref.strides:
            return ref
        is_own = ref.array in own
        outer, *inner = [lanes * stride if is_own else stride for stride in ref.strides]
        inner.insert(depth - 1, 1 if is_own else outer)
        return Ref(ref.array, ref.base * lanes if is_own else ref.base, (0 if is_own else lanes * outer, *inner))

    return Loop(lanes, (replace(part, lane),))


def _adds(step: Any) -> bool:
    """Whether a step adds to its target."""
    return isinstance(step.value, Sum) and Term("+", (step.target,)) in step.value.terms


def _mark(node: Node) -> str:
    return f"@{node.line}:"


def _each(node: Node, place: Slice) -> Place:
    """Where a number is in the first round, with a mark of where it is in the next."""
    return f"{_mark(node)}{place.step}@{place.array}", place.base


def _in_round(ref: Ref, mark: str) -> Ref:
    """A reference, within the loop around the round."""
    array, stride = ref.array, 0
    if array[0] == "=" and not ref.strides:
        return ref
    if array.startswith(mark):
        step, array = array.removeprefix(mark).split("@", 1)
        stride = int(step)
    return Ref(array, ref.base, (stride, *ref.strides))


def _reversed(place: Slice) -> Slice:
    """The same numbers from the last one to the first."""
    return Slice(place.array, place.base + (place.size - 1) * place.step, -place.step, place.size)


def _copies(to: Slice, column: Column, layout: Layout) -> Iterator[Step]:
    """Steps that copy a column."""
    for start, of in zip(*layout.runs(column), strict=True):
        yield from _copy(Slice(to.array, to.base + start * to.step, to.step, of.size), of)


def _copy(to: Slice, of: Slice) -> list[Step]:
    if to.size == 1:
        return [Assign(Ref(to.array, to.base), Ref(of.array, of.base))]
    return [Loop(to.size, (Assign(Ref(to.array, to.base, (to.step,)), Ref(of.array, of.base, (of.step,))),))]


def _set(to: Slice, number: str) -> list[Step]:
    """Steps that set all of these to a constant."""
    return _copy(to, Slice(number, 0, 0, to.size))


def _in_place(step: Step, array: str, base: int) -> Step:
    """A step whose gradients are sums in this array."""
    if isinstance(step, Loop):
        return Loop(step.rounds, tuple([_in_place(each, array, base) for each in step.body]))
    if not isinstance(step, Accumulate):
        return step
    assert isinstance(step.value, Sum)
    target = Ref(array, base + step.target.base, step.target.strides)
    return Assign(target, Sum((Term("+", (target,)), *step.value.terms)))
