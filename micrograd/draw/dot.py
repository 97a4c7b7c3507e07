"""The graph that leads to a Value as DOT text, the language of Graphviz: every Value is drawn, nothing is folded."""

import json
from collections.abc import Iterable

from micrograd.draw import text
from micrograd.draw.graph.drawn import DrawnGraph
from micrograd.draw.graph.layout import columns
from micrograd.draw.shell import read
from micrograd.engine import Value

LIMIT = 2000  # nodes: with more, Graphviz runs for minutes, and nobody can read the drawing

# The attributes of the graph, its nodes and its edges. Graphviz knows Verdana's metrics even where the font is missing;
# DejaVu Sans, its substitute, is no wider.
STYLE: dict[str, dict[str, str]] = json.loads(read(__package__, "dot.json"))
FAST_LAYOUT = 'mclimit="0.1" nslimit="0" splines="line"'  # for graphs whose best layout would take minutes
LEAF, OPERATION, ROOT = "#ddf4ff", "#fff8c5", "#dafbe1"  # blue goes in, yellow works, green comes out
CIRCLE = f'shape=circle width=0.65 margin=0 fillcolor="{OPERATION}"'  # one size for all operations of the engine
ESCAPES = text.CONTROLS | {ord(c): f"\\{c}" for c in '\\{}|<>"'} | {ord("&"): "&amp;", ord("\n"): "\\n"}


def draw_graph(root: Value, *, limit: float = LIMIT) -> str:
    """The graph that leads to `root`, as DOT text: the same text from run to run.

    Each Value is a record of its label, data and gradient, each operation a circle between its operands, in their
    order, and its result; the operands of a dot are marked w0, x0, ... and b. Gradients appear once `backward()` has
    been called, but never for a constant. `limit` is the largest number of Values to draw.

    Raises TypeError if `root` is not a Value, and ValueError if the graph is beyond the limit.
    """
    lines = []
    for part, style in STYLE.items():
        attributes = " ".join(f'{name}="{value}"' for name, value in style.items())
        lines.append(f"\t{part} [{attributes}]\n")
    return f"digraph {{\n{''.join([*lines, *body(root, limit)])}}}\n"


def body(root: Value, limit: float) -> list[str]:
    """The lines of DOT for nodes and edges; a Value is named after its place in topological order."""
    graph = DrawnGraph(root, limit)
    steps = columns(graph.operands)  # each takes two columns, one for operations and one for results
    passed = 2 * sum(steps[user] - steps[i] - 1 for i, users in enumerate(graph.users) for user in users)
    has_gradients = graph.has_gradients()
    lines = [f"\tgraph [{FAST_LAYOUT}]\n"] * (len(graph.values) + passed > LIMIT)
    for i, node in enumerate(graph.values):
        fill = f' fillcolor="{ROOT if node is root else LEAF}"' * (node is root or not node._prev)
        fields = [str(node.label).translate(ESCAPES)] * (node.label != "") + [f"data {text.exact(node.data)}"]
        fields += [f"grad {text.exact(node.grad)}"] * (has_gradients and i not in graph.constants)
        lines.append(f'\tn{i} [label="{{{"|".join(fields)}}}"{fill}]\n')
        if node._prev:
            order = " ordering=in" if len(node._prev) == 2 else ""  # for more operands it would tangle the edges
            small = " fontsize=8" * (len(str(node._op)) > 5)
            lines.append(f'\top_n{i} [label="{str(node._op).translate(ESCAPES)}" {CIRCLE}{small}{order}]\n')
            lines += [f"\tn{operand} -> op_n{i}{role}\n" for operand, role in _roles(graph, i)]
            lines.append(f"\top_n{i} -> n{i} [weight=9]\n")  # a short straight edge: the two belong together
    return lines


def _roles(graph: DrawnGraph, i: int) -> Iterable[tuple[int, str]]:
    """The operands of a node, in pairs for a dot, each with its role there."""
    operands = graph.operands[i]
    if graph.operations[i] != "dot":
        return ((operand, "") for operand in operands)
    n = len(operands) // 2
    pairs = [(operands[k + side * n], f"{'wx'[side]}{k}") for k in range(n) for side in (0, 1)]
    return ((operand, f' [label="{role}"]') for operand, role in [*pairs, (operands[-1], "b")])
