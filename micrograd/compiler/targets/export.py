"""Export: a graph as one C99 file that needs only libm, or as an ES module, with an optimizer's rule if wanted."""

import json
import re
from collections.abc import Sequence
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from micrograd.compiler.dtype import DOUBLE, Precision
from micrograd.compiler.frontend.graph import Graph
from micrograd.compiler.passes.pipeline import program
from micrograd.compiler.targets import c, javascript
from micrograd.compiler.targets.c_runtime import PARTS, definitions
from micrograd.compiler.targets.spelling import assignments, block, filled, parts, used
from micrograd.support.trees import Shape, described

if TYPE_CHECKING:
    from micrograd.compiler.native.update import UpdateKernel

HEADER, MODULE = parts("header.h"), parts("module.js")


def export_c(
    graph: Graph, parameters: Sequence[float], stem: str = "model", precision: Precision = DOUBLE, labels: Any = ()
) -> tuple[str, str]:
    """The text of a header, and the rest of a source file with that stem.

    The public names begin with the stem: `model_parameters`, an initialised array with the `labels` as comments,
    `model_forward` and `model_backward`. Raises ValueError if names in C cannot.
    """
    name = _checked(stem)
    writers = {"forward": c.Writer(program(graph, graph.ends("forward")), precision, "file")}
    if graph.is_differentiable:
        both = graph.ends("backward")._replace(returned=[*graph.outputs, *graph.argument_gradients])
        writers["backward"] = c.Writer(program(graph, both), precision, "file")
    bodies = []
    for kind, writer in writers.items():
        takes, g = ("real *g, real *y", "g") if kind == "backward" else ("real *y", "0")
        lines = [f"real t[{max(writer.temporaries, 1)}];", f"{kind}_one(p, x, 1, {g}, y, t);"]
        head = f"void {name}_{kind}(const real *p, const real *x, {takes})"
        bodies.append(writer.source(f"{kind}_one") + "\n".join([*block(head, lines), ""]))
    body = "\n".join(bodies)
    literals = zip_longest(map(noted, labels), map(precision.literal, parameters), fillvalue="")
    numbers = ",\n".join(f"    {note}{literal}" for note, literal in literals) or "    0 /* there are none */"
    array = f"const real {name}_parameters[] = {{\n{numbers}\n}};\n"
    start = f"\n#include <math.h>\n\n{PARTS['no_patterns']}\ntypedef {precision.type} real;\n\n{array}\n"
    forward, *backward = [f"{precision.size * writer.temporaries:,}" for writer in writers.values()]
    header = filled(
        "\n".join([HEADER["start"], *[HEADER["backward"]] * graph.is_differentiable, HEADER["end"]]),
        GUARD=name.upper(),
        NAME=name,
        TYPE=precision.type,
        COUNT=graph.n_parameters,
        INPUTS=sum(graph.sizes),
        ROOM=forward,
        SPACE="".join(backward),
        ARGUMENTS=arguments(graph, "\n     {}: argument {}"),
        RETURNED=f"{len(graph.outputs)}{of_shape(graph.output_shape)}",
    )
    layer = PARTS["layer_file"] if "layer(" in body else ""
    return header, f"{start}{layer}{definitions(body, precision, vectors=False)}\n{body}"


def _checked(stem: str) -> str:
    """The stem of a file's name, unchanged, so that files with different stems share no names; or ValueError."""
    name = re.sub(r"[^A-Za-z0-9]+", "_", stem).strip("_")
    name = name if name[:1].isalpha() else f"model_{name}".rstrip("_")
    if name != stem:
        raise ValueError(f"{stem!r} must consist of letters, digits and single underscores: call it {name!r}")
    return name


def export_js(graph: Graph, parameters: Sequence[float], rule: "UpdateKernel | None" = None) -> str:
    """The text of a module, with gradients if there are any, and with a training step if there is a rule."""
    names = ("forward", "backward", "valueAndGrad")[: len(graph.kinds)]
    writers = [javascript.Writer(graph, graph.ends(kind)) for kind in graph.kinds]
    n = sum(graph.sizes)
    head = filled(
        "\n".join([MODULE["head"], *map(MODULE.__getitem__, names)]),
        USAGE="" if rule is None else MODULE["usage"],
        INPUTS=n,
        OUTPUTS=len(graph.outputs),
        ARGUMENTS=arguments(graph, "\n    {}, argument {}"),
        SHAPE=of_shape(graph.output_shape),
        PARAMETERS=javascript.array_of(list(map(float, parameters))),
        RESULTS=max(len(graph.outputs), 1 + n),
        TEMPORARIES=max(writer.temporaries for writer in writers),
    )
    code = "" if rule is None else f"{_js_update(rule)}\n"
    code += "".join([writer.source(f"{name}One") for name, writer in zip(names, writers, strict=True)])
    return f"{head}\n{code}{used(javascript.LIBRARY, code)}".rstrip() + "\n"


def _js_update(rule: "UpdateKernel") -> str:
    """The function that takes a step with all parameters."""
    name = partial(rule.name, literal=javascript.literal)
    moments = [f"m{k}" for k in range(len(rule.moments))]
    names = list(map(json.dumps, rule.moments))  # which may be any text
    start = [f"const {array} = state[{moment}];" for array, moment in zip(moments, names, strict=True)]
    start += ["const norm = Math.sqrt(g.reduce((sum, x) => sum + x * x, 0));"] * rule.clips
    start += ["const steps = state.steps++;", *assignments("const", rule.before, name, javascript.TEMPLATES)]
    body = [f"const x{i} = {array}[i];" for i, array in enumerate(["p", "g", *moments])]
    body += assignments("const", rule.each, name, javascript.TEMPLATES)
    body += [f"{array}[i] = {name(id)};" for array, id in zip(["p", *moments], rule.results, strict=True)]
    lines = [*start, *block("for (let i = 0; i < p.length; i++)", body)]
    state = ["steps: 0", *(f"{moment}: new Float64Array(parameters.length)" for moment in names)]
    rate = javascript.literal(float(rule.learning_rate))
    return filled(MODULE["update"], RATE=rate, STATE=", ".join(state), BODY="".join(f"  {line}\n" for line in lines))


def arguments(graph: Graph, line: str) -> str:
    """A line for each argument, of its place among the inputs and its number."""
    text, end = "", 0
    for k, (n, shape) in enumerate(zip(graph.sizes, graph.shapes, strict=True), 1):
        first, end = end, end + n
        place = f"x[{first}] to x[{end - 1}]" if n > 1 else f"x[{first}]"
        text += (line.format(place, k) + of_shape(shape)) * (n > 0)
    return text


def noted(label: Any) -> str:
    """A label as a comment, which no label may end; nothing for an empty one."""
    text = ascii(str(label)[:80])[1:-1].replace("*", r"\x2a")
    return text and f"/* {text} */ "


def of_shape(shape: Shape) -> str:
    """The words for a nested shape; no key of a dict in them may end the comment that they stand in."""
    return f", of shape {described(shape)}".replace("*", r"\x2a") if len(shape) > 1 else ""
