"""Export: a graph as one C99 file that needs only libm, or as an ES module, with an optimizer's rule if wanted."""

import json
import re
from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from micrograd.compiler.dtype import DOUBLE, Precision
from micrograd.compiler.frontend.graph import Graph
from micrograd.compiler.passes import program
from micrograd.compiler.passes.expressions import Node
from micrograd.compiler.targets import c, javascript
from micrograd.compiler.targets.c_runtime import PARTS, definitions
from micrograd.compiler.targets.spelling import indented, source, terms, total
from micrograd.support.trees import Shape, described

if TYPE_CHECKING:
    from micrograd.compiler.native.update import UpdateKernel


def export_c(
    graph: Graph, parameters: Sequence[float], stem: str = "model", precision: Precision = DOUBLE
) -> tuple[str, str]:
    """The text of a header, and the rest of a source file with that stem.

    The public names begin with the stem: `model_parameters`, an initialised array, `model_forward` and
    `model_backward`. Raises ValueError if names in C cannot.
    """
    name = _checked(stem)
    writers = {"forward": c.Writer(program(graph, graph.ends("forward")), precision, vectors=False)}
    if graph.is_differentiable:
        both = graph.ends("backward")._replace(returned=[*graph.outputs, *graph.argument_gradients])
        writers["backward"] = c.Writer(program(graph, both), precision, vectors=False)
    bodies = []
    for kind, writer in writers.items():
        takes, g = ("real *g, real *y", "g") if kind == "backward" else ("real *y", "0")
        bodies.append(
            f"{writer.source(f'{kind}_one')}void {name}_{kind}(const real *p, const real *x, {takes})\n{{\n"
            f"    real t[{max(writer.temporaries, 1)}];\n    {kind}_one(p, x, 1, {g}, y, t);\n}}\n"
        )
    body = "\n".join(bodies)
    numbers = ",\n".join(f"    {precision.literal(number)}" for number in parameters) or "    0 /* there are none */"
    array = f"const real {name}_parameters[] = {{\n{numbers}\n}};\n"
    header = _header(graph, name, precision, precision.size * max(writer.temporaries for writer in writers.values()))
    start = f"\n#include <math.h>\n\n{PARTS['no_patterns']}\ntypedef {precision.type} real;\n\n{array}\n"
    return header, f"{start}{definitions(body, precision, vectors=False)}\n{body}"


def _checked(stem: str) -> str:
    """The stem of a file's name, unchanged, so that files with different stems share no names; or ValueError."""
    name = re.sub(r"[^A-Za-z0-9]+", "_", stem).strip("_")
    name = name if name[:1].isalpha() else f"model_{name}".rstrip("_")
    if name != stem:
        raise ValueError(f"{stem!r} must consist of letters, digits and single underscores: call it {name!r}")
    return name


def _header(graph: Graph, name: str, precision: Precision, room: int) -> str:
    """The header: it documents the functions; `room` is the number of bytes in their arrays on the stack."""
    words: dict[str, Any] = {"NAME": name, "TYPE": precision.type, "COUNT": graph.n_parameters, "ROOM": f"{room:,}"}
    n = len(graph.argument_gradients)
    gradient = f", {_span('y', n, 1)} its gradient with respect to the inputs" if n else ""
    backward = source("backward.h", SUMS=_span("g", graph.n_parameters), GRADIENT=gradient, **words)
    return source(
        "header.h",
        GUARD=f"MICROGRAD_{name.upper()}_H",
        PLACES=arguments(graph, "\n     {}: argument {}"),
        OUTPUT=_span("y", len(graph.outputs)) + of_shape(graph.output_shape),
        BACKWARD=f"{backward}\n" if graph.is_differentiable else "",
        **words,
    )


def export_js(graph: Graph, parameters: Sequence[float], rule: "UpdateKernel | None" = None) -> str:
    """The text of a module, with gradients if there are any, and with a training step if there is a rule."""
    names = "forwardOne", "backwardOne", "valueAndGradOne"
    writers = {name: javascript.Writer(graph, graph.ends(kind)) for name, kind in zip(names, graph.kinds, strict=False)}
    n = sum(graph.sizes)
    head = source(
        "head.js",
        USAGE="" if rule is None else f"\n{source('usage.js')}",
        INPUTS=n,
        OUTPUTS=len(graph.outputs),
        ARGUMENTS=arguments(graph, "\n    {}, argument {}"),
        SHAPE=of_shape(graph.output_shape),
        PARAMETERS=javascript.array_of(parameters),
        RESULTS=max(len(graph.outputs), 1 + n),
        TEMPORARIES=max(writer.temporaries for writer in writers.values()),
    )
    fixed = list(javascript.functions("module.js").values())[: 2 + len(writers)]  # two for all, one for each kind
    code = "".join(
        [*fixed, "" if rule is None else _js_update(rule), *(writer.source(name) for name, writer in writers.items())]
    )
    return f"{head}\n{code}{javascript.library(code)}".rstrip() + "\n"


def _js_update(rule: "UpdateKernel") -> str:
    """The function that takes a step with all parameters."""
    name = partial(rule.name, literal=javascript.literal)
    moments = [f"m{k}" for k in range(len(rule.moments))]

    def computed(nodes: Sequence[Node]) -> list[str]:
        return [f"const t{node.line} = {total(terms(node, name, javascript.TEMPLATES))};" for node in nodes]

    names = list(map(json.dumps, rule.moments))  # which may be any text
    start = [f"const {array} = state[{moment}];" for array, moment in zip(moments, names, strict=True)]
    start += ["const norm = Math.sqrt(g.reduce((sum, x) => sum + x * x, 0));"] * rule.clips
    start += ["const steps = state.steps++;", *computed(rule.nodes(head=True))]
    body = [f"const x{i} = {array}[i];" for i, array in enumerate(["p", "g", *moments])]
    body += computed(rule.nodes(head=False))
    body += [f"{array}[i] = {name(id)};" for array, id in zip(["p", *moments], rule.results, strict=True)]
    lines = [*start, "for (let i = 0; i < p.length; i++) {", *indented(body), "}"]
    state = ["steps: 0", *(f"{moment}: new Float64Array(parameters.length)" for moment in names)]
    rate = javascript.literal(float(rule.learning_rate))
    return source("update.js", RATE=rate, STATE=", ".join(state), BODY="".join(f"  {line}\n" for line in lines)) + "\n"


def arguments(graph: Graph, line: str) -> str:
    """A line for each argument, of its place among the inputs and its number."""
    starts = accumulate(graph.sizes, initial=0)
    places = enumerate(zip(starts, graph.sizes, graph.shapes, strict=False), 1)
    return "".join(line.format(_span("x", n, at), k) + of_shape(shape) for k, (at, n, shape) in places if n)


def of_shape(shape: Shape) -> str:
    """The words for a nested shape; no key of a dict in them may end the comment that they stand in."""
    return f", of shape {described(shape)}".replace("*", r"\x2a") if len(shape) > 1 else ""


def _span(array: str, n: int, first: int = 0) -> str:
    """The words for n numbers of an array."""
    if n < 2:
        return f"{array}[{first}]" if n else "nothing"
    return f"{array}[{first}] to {array}[{first + n - 1}]"
