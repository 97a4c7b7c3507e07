"""The stages of compiling, as text: the trace, then the kernel after each pass, up to where C is printed."""

from collections.abc import Iterator
from itertools import chain

from micrograd.compiler.frontend.graph import Graph
from micrograd.compiler.frontend.tracer import Slice, Trace
from micrograd.compiler.ir import INFIX, show
from micrograd.compiler.passes.lower import lower
from micrograd.compiler.passes.pipeline import program_for_many


def stages(graph: Graph) -> dict[str, str]:
    """What `backward` computes for an example after each stage, by the name of the stage.

    If something is hoisted, "before" and "after" are computed once for all examples.
    """
    compiled = program_for_many(graph, graph.ends("backward"))
    once = {"before": compiled.before, "after": compiled.after}
    kernels = {name: part.kernel for name, part in once.items() if part} | compiled.passes
    kernels |= {name: [*chain(*parts)] for name, parts in lower(compiled, "lanes").passes.items()}
    trace = "".join(f"{line}\n" for line in _trace(graph))
    return {"trace": trace} | {name: show(kernel) for name, kernel in kernels.items()}


def _trace(graph: Graph) -> Iterator[str]:
    """The operations of a trace that something uses, and what becomes of their results."""
    trace, ends = graph.trace, graph.ends("backward")
    for line in trace.live(ends.lines):
        if line not in trace.items and trace.ops[line] != "stack" and trace.operands[line]:
            yield f"%{line} = {_operation(trace, line)}"
    yield from (f"y[{i}] = {_name(trace, line)}" for i, line in enumerate(ends.returned))
    yield from (f"{_slice(place)} += {_name(trace, line)}" for place, line in ends.added)


def _operation(trace: Trace, line: int) -> str:
    op, operands = trace.ops[line], [_name(trace, operand) for operand in trace.operands[line]]
    if op == "combination":
        return " + ".join([f"{number} * {row}" for number, row in zip(operands[::2], operands[1::2], strict=True)])
    return f" {op} ".join(operands) if op in INFIX else f"{op}({', '.join(operands)})"


def _name(trace: Trace, line: int) -> str:
    """A line as an operand."""
    if line in trace.leaves:
        array, i = trace.leaves[line]
        return array if array == "seed" else f"{array}[{i}]"
    if line in trace.slices:
        return _slice(trace.slices[line])
    if line in trace.items:
        return f"%{trace.operands[line][0]}[{trace.items[line]}]"
    if trace.ops[line] == "stack":
        return f"[{', '.join(_name(trace, each) for each in trace.operands[line])}]"
    return str(trace.constants.get(line, f"%{line}"))


def _slice(place: Slice) -> str:
    step = f":{place.step}" if place.step != 1 else ""
    end = f":{place.indices[-1] + 1}" if place.size > 1 else ""
    return f"{place.array}[{place.base}{end}{step}]"
