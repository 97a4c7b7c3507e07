"""The graph that leads to a Value as DOT text, the language of Graphviz: every Value is drawn, nothing is folded."""

import math
import re
from collections.abc import Iterable
from typing import Any

from micrograd.draw import text
from micrograd.draw.graph.drawn import is_constant, is_dot
from micrograd.engine import Value

LIMIT = 2000  # nodes: with more of them Graphviz runs for minutes, and nobody reads the drawing
COLUMNS_PER_NODE = 20  # that edges may pass, for each node of the limit: long edges cost Graphviz time as nodes do

GRAPH = {"bgcolor": "transparent", "nodesep": "0.15", "rankdir": "LR", "ranksep": "0.3"}
NODE = {
    "color": "#57606a",
    "fillcolor": "white",
    "fontcolor": "#1f2328",
    "fontname": "Verdana",  # Graphviz knows its metrics without having it, and DejaVu Sans in its place is no wider
    "fontsize": "11",
    "height": "0.3",
    "margin": "0.15,0.05",
    "shape": "record",
    "style": "rounded,filled",
}
EDGE = {
    "arrowsize": "0.6",
    "color": "#818b98",
    "fontcolor": "#6e7781",
    "fontname": NODE["fontname"],
    "fontsize": "9",
    "tailport": "e",
}
FAST_LAYOUT = {"mclimit": "0.1", "nslimit": "0", "splines": "line"}  # for graphs whose best layout would take minutes
LEAF, OPERATION, ROOT = "#ddf4ff", "#fff8c5", "#dafbe1"  # blue goes in, yellow works, green comes out
CIRCLE = f'shape=circle width=0.65 margin=0 fillcolor="{OPERATION}"'  # one size for all operations of the engine
ESCAPES: dict[int, str] = {**{ord(c): f"\\{c}" for c in '\\{}|<>"'}, ord("&"): "&amp;", **text.CONTROLS}


def source(root: Value, limit: float) -> str:
    """The graph that leads to `root`, as DOT text. The parameters and errors are those of `viz.draw_graph`."""
    defaults = f"\tgraph [{_attributes(GRAPH)}]\n\tnode [{_attributes(NODE)}]\n\tedge [{_attributes(EDGE)}]\n"
    return f"digraph {{\n{defaults}{''.join(body(root, limit))}}}\n"


def body(root: Value, limit: float) -> list[str]:
    """The lines of DOT for nodes and edges; a Value is named after its place in topological order."""
    if not isinstance(root, Value):
        raise TypeError(f"root is of type {type(root).__name__}: expected a single Value to draw")
    nodes, leaves = root._topological_order()
    count = len(nodes) + len(leaves)
    passed = _columns_passed(nodes, leaves)
    needed = max(count, math.ceil(passed / COLUMNS_PER_NODE))
    if needed > limit:
        raise ValueError(
            f"the graph has {count} nodes, and edges that pass {passed} columns, too many to draw: "
            f"draw a smaller part of it, or pass limit={needed}"
        )
    names = {node: f"n{i}" for i, node in enumerate(leaves + nodes)}
    has_gradients = any(text.plain(node.grad) != 0 for node in nodes or leaves)
    lines = [f"\tgraph [{_attributes(FAST_LAYOUT)}]\n"] * (count + passed > LIMIT)
    for node, name in names.items():
        colour = ROOT if node is root else "" if node._prev else LEAF
        fill = f' fillcolor="{colour}"' if colour else ""
        fields = [str(node.label)] * (node.label != "") + [f"data {text.exact(node.data)}"]
        fields += [f"grad {text.exact(node.grad)}"] * (has_gradients and not is_constant(node))
        tip = _escaped(", ".join(fields))
        lines.append(f'\t{name} [label="{{{"|".join(map(_escaped, fields))}}}"{fill} tooltip="{tip}"]\n')
        if node._prev:
            order = " ordering=in" if len(node._prev) == 2 else ""  # for more operands it would tangle the edges
            op = _escaped(node._op)
            small = " fontsize=8" * (len(str(node._op)) > 5)
            lines.append(f'\top_{name} [label="{op}" {CIRCLE}{small}{order} tooltip="{_escaped(_call(node))}"]\n')
            lines += [f"\t{names[operand]} -> op_{name}{role}\n" for operand, role in _roles(node)]
            lines.append(f"\top_{name} -> {name} [weight=9]\n")  # a short straight edge: the two belong together
    return lines


def _call(node: Value) -> str:
    """An operation and its operands, for a tooltip."""
    names = [str(operand.label) or text.exact(operand.data) for operand in node._prev[:5]]
    return f"{node._op}({', '.join(names + ['...'] * (len(node._prev) > 5))})"


def _roles(node: Value) -> Iterable[tuple[Value, str]]:
    """The operands of a node; those of a dot in pairs, each with its role there."""
    if not is_dot(node):
        return ((operand, "") for operand in node._prev)
    n = len(node._prev) // 2
    pairs = [(node._prev[k + side * n], f"{'wx'[side]}{k}") for k in range(n) for side in (0, 1)]
    return ((operand, f' [label="{role}" tooltip="{role}"]') for operand, role in [*pairs, (node._prev[-1], "b")])


def _columns_passed(nodes: list[Value], leaves: list[Value]) -> int:
    """How many columns the edges pass on their way, since a Value may be used long after it was computed.

    Each step of a computation takes two columns, one for operations and one for results. As in Graphviz's layout, a
    Value stands next to its last operand, or next to its first use where that makes the edges no longer.
    """
    steps: dict[Value, int] = {}
    uses: dict[Value, list[Value]] = {value: [] for value in nodes + leaves}
    for node in nodes:
        steps[node] = 1 + max(steps.get(operand, 0) for operand in node._prev)
        for operand in set(node._prev):
            uses[operand].append(node)
    for value in (*reversed(nodes), *leaves):
        if len(value._prev) <= len(uses[value]):
            steps[value] = min((steps[use] for use in uses[value]), default=1) - 1
    return 2 * sum(steps[use] - steps[value] - 1 for value in uses for use in uses[value])


def _escaped(words: Any) -> str:
    """Any text as a part of a quoted DOT label that shows it literally; what XML cannot hold, as a visible symbol."""
    *lines, last = [
        re.sub("^ +| +$|  +", lambda spaces: "&#32;" * len(spaces[0]), line.translate(ESCAPES))  # a record drops spaces
        for line in str(words).split("\n")
    ]
    return "\\n".join([*(line or "&#32;" for line in lines), last])  # Graphviz as a wheel can crash on an empty line


def _attributes(attributes: dict[str, str]) -> str:
    return " ".join(f'{name}="{value}"' for name, value in attributes.items())
