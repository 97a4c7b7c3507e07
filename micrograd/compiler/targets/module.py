"""Export: a graph, and the rule of an optimizer, as an ES module in JavaScript."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from micrograd.compiler.frontend.graph import Graph
from micrograd.compiler.passes.expressions import Node
from micrograd.compiler.targets.export import arguments, of_shape
from micrograd.compiler.targets.inlined import functions, source, tables
from micrograd.compiler.targets.javascript import TEMPLATES, Writer, array_of, indented, library, literal
from micrograd.compiler.targets.spelling import terms, total

if TYPE_CHECKING:
    from micrograd.compiler.native.update import UpdateKernel


def export_js(graph: Graph, parameters: Sequence[float], rule: "UpdateKernel | None" = None) -> str:
    """The text of a module: with its gradients if there are any, and with a step by the rule."""
    writers = [Writer("forwardOne", graph, graph.outputs)]
    names = ["examples", "load", "forward"]
    if graph.parameter_gradients is not None and graph.argument_gradients is not None:
        writers.append(Writer("backwardOne", graph, graph.outputs, graph.parameter_gradients))
        writers.append(Writer("valueAndGradOne", graph, [*graph.outputs, *graph.argument_gradients]))
        names += ["backward", "valueAndGrad"]
    n = sum(graph.sizes)
    head = source(
        "head.js",
        USAGE=USAGE if rule is not None else "",
        INPUTS=n,
        OUTPUTS=len(graph.outputs),
        ARGUMENTS=arguments(graph, "\n    {}, argument {}"),
        SHAPE=of_shape(graph.output_shape),
        PARAMETERS=array_of(parameters),
        RESULTS=max(len(graph.outputs), 1 + n),
        TEMPORARIES=max(writer.temporaries for writer in writers),
    )
    fixed = functions("module.js")
    code = "".join(fixed[name] for name in names) + (update(rule) if rule is not None else "")
    code += "".join(writer.text for writer in writers)
    return f"{head}\n{tables(code)}{code}{library(code)}".rstrip() + "\n"


def update(rule: "UpdateKernel", templates: Mapping[str, str] = TEMPLATES) -> str:
    """The function that takes a step with all parameters; `templates` say what each operation looks like."""
    trace, moments = rule.trace, [f"m{k}" for k in range(len(rule.moments))]

    def name(id: int) -> str:
        if id in trace.constants:
            return literal(float(trace.constants[id]))
        array, i = trace.leaves.get(id, ("t", id))
        return f"{array}{i}" if array in ("x", "t") else array

    def computed(nodes: Sequence[Node]) -> list[str]:
        return [f"const t{node.line} = {total(terms(node, name, templates))};" for node in nodes]

    start = [f"const {array} = state.{moment};" for array, moment in zip(moments, rule.moments, strict=True)]
    start += ["const steps = state.steps++;", *computed(rule.nodes(head=True))]
    body = [f"const x{i} = {array}[i];" for i, array in enumerate(["p", "g", *moments])]
    body += computed(rule.nodes(head=False))
    body += [f"{array}[i] = {name(id)};" for array, id in zip(["p", *moments], rule.results, strict=True)]
    lines = [*start, "for (let i = 0; i < p.length; i++) {", *indented(body), "}"]
    state = ["steps: 0", *(f"{moment}: new Float64Array(parameters.length)" for moment in rule.moments)]
    rate = literal(float(rule.learning_rate))
    return source("update.js", RATE=rate, STATE=", ".join(state), BODY="\n".join(indented(lines))) + "\n"


USAGE = """
import { parameters, backward, createState, update } from "./model.js";

const p = parameters.slice(), g = new Float64Array(p.length), state = createState();
for (let step = 0; step < 100; step++) {
  g.fill(0);
  const loss = backward(p, xs, g);
  update(p, g, state);
}
"""
