"""The graph that leads to a Value as DOT text, the language of Graphviz: every Value, or folded to cards."""

import json
from itertools import groupby

from micrograd.draw import text
from micrograd.draw.graph.drawn import DrawnGraph
from micrograd.draw.graph.fold import Folded
from micrograd.draw.graph.svg import lines, tip, written
from micrograd.draw.graph.views import Item, Views
from micrograd.draw.shell import COLOURS, read
from micrograd.engine import Value

LIMIT = 2000  # nodes: with more, Graphviz runs for minutes, and nobody can read the drawing

# The attributes of the graph, its nodes and its edges. Graphviz knows Verdana's metrics even where the font is missing;
# DejaVu Sans, which it and browsers take instead, is no wider.
STYLE: dict[str, dict[str, str]] = json.loads(read(__package__, "dot.json"))
FAST_LAYOUT = 'mclimit="0.1" nslimit="0" splines="line"'
FEW = 150  # Values: with more, the best layout takes minutes, not seconds
LEAF, OPERATION, ROOT = "#ddf4ff", "#fff8c5", "#dafbe1"  # blue goes in, yellow works, green comes out
CIRCLE = f'shape=circle width=0.65 margin=0 fillcolor="{OPERATION}"'  # one size for all operations of the engine
ESCAPES = text.CONTROLS | {ord(c): f"\\{c}" for c in '\\{}|<>"'} | {ord("&"): "&amp;", ord("\n"): "\\n"}


def draw_graph(root: Value, *, limit: float = LIMIT) -> str:
    """The graph that leads to `root`, as DOT text: the same text from run to run.

    Each Value is a record of its label, data and gradient, each operation a circle between its operands and its result.
    Gradients appear once `backward()` has been called, but never for a constant. `limit` is the most Values to draw.

    Raises TypeError if `root` is not a Value, and ValueError if the graph is beyond the limit.
    """
    attributes = {part: " ".join(f'{name}="{value}"' for name, value in style.items()) for part, style in STYLE.items()}
    styles = [f"\t{part} [{style}]\n" for part, style in attributes.items()]
    return f"digraph {{\n{''.join([*styles, *body(root, limit)])}}}\n"


def body(root: Value, limit: float) -> list[str]:
    """The lines of DOT for nodes and edges; a Value is named after its place in topological order."""
    graph = DrawnGraph(root, limit)
    has_gradients = graph.has_gradients()
    lines = [f"\tgraph [{FAST_LAYOUT}]\n"] * (len(graph.values) > FEW)
    for i, node in enumerate(graph.values):
        fill = f' fillcolor="{ROOT if node is root else LEAF}"' * (node is root or not node._prev)
        fields = [str(node.label).translate(ESCAPES)] * (node.label != "") + [f"data {text.number(node.data)}"]
        fields += [f"grad {text.number(node.grad)}"] * (has_gradients and i not in graph.constants)
        lines.append(f'\tn{i} [label="{{{"|".join(fields)}}}"{fill}]\n')
        if node._prev:
            order = " ordering=in" if len(node._prev) == 2 else ""  # for more operands it would tangle the edges
            small = " fontsize=8" * (len(graph.title(i)) > 5)
            lines.append(f'\top_n{i} [label="{graph.title(i).translate(ESCAPES)}" {CIRCLE}{small}{order}]\n')
            lines += [f"\tn{operand} -> op_n{i}\n" for operand in graph.operands[i]]
            lines.append(f"\top_n{i} -> n{i} [weight=9]\n")  # a short straight edge: the two belong together
    return lines


def cards(root: Value, limit: float, rankdir: str) -> list[str]:
    """The lines of DOT for the cards of the folded graph and their edges; the weights have ports in LR alone."""
    views, found = Views(Folded(root, limit), deep=False), ['\tgraph [ranksep="0.5"]\n']
    for k, item in enumerate(views.views[0].items):
        look = f'fillcolor="{COLOURS[item.kind if item.kind in COLOURS else "node"][0]}"'
        look += " penwidth=1.8" * item.shape.stacked
        label = _record(views, item)
        label = f"{{{label}}}" if rankdir in ("LR", "RL") else label  # braces turn the fields between them
        found.append(f'\tc{k} [label="{label}" {look} tooltip="{tip(views, item).translate(ESCAPES)}"]\n')
    for edge, kind, thickness in lines(views):
        shape = views.views[0].items[edge.target].shape
        has_port = shape.divider and edge.port in shape.ports and rankdir == "LR"
        port = f":p{shape.ports.index(edge.port)}:w" if has_port else ""
        look = f'color="{COLOURS[kind or "line"][0]}"' + " style=dashed" * (kind == "down")
        found.append(f"\tc{edge.source} -> c{edge.target}{port} [penwidth={thickness} {look}]\n")
    return found


def _record(views: Views, item: Item) -> str:
    """A card as fields of a record, one for each row, with the weights, if it has any, beside the rest."""
    sides: list[list[str]] = [[], []]
    slots = sorted(item.shape.slots, key=lambda slot: (slot.y, slot.x))
    for (_, side), row in groupby(slots, lambda slot: (slot.y, slot.x >= item.shape.divider)):
        words = "\u2003".join(written(views, item, slot)[0] for slot in row).translate(ESCAPES)
        sides[side].append(words if side else f"<p{len(sides[0])}> {words}")
    return "|".join(f"{{{'|'.join(rows)}}}" for rows in sides if rows)
