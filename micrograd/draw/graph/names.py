"""Names: what drawings and pages call each Value, in one system.

A label is a name. A neuron without one is called after its layer and its place there, `h1[0]`, and in the last layer
`out`; its weights are `h1[0].w0`, its bias `h1[0].b`, its weighted sum `h1[0].z`, and the inputs of the network `x0`.
What is left is called after its formula, `a × b`, if that is short, and otherwise `v1`, `v2` and so on, or at the root
`result`. The examples of a stack share their names.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain

from micrograd.draw.graph.drawn import POWERS, DrawnGraph
from micrograd.draw.graph.fold import Folded
from micrograd.draw.text import label, number

SHORT = 20  # the most characters of a formula that is a name


def names(folded: Folded, *, numbered: bool = False) -> tuple[list[str], list[str]]:
    """The names of all Values of a folded graph, and those on its cards, which have their formulas beside them.

    These are "" for what a formula names, and unless `numbered`, for names such as `v1`, which no text mentions.
    """
    graph = folded.graph
    found = [label(value) for value in graph.values]
    _name_neurons(folded, found)
    pairs = [zip(other, first, strict=True) for _, (first, *others) in folded.stacks for other in others]
    twins = dict(chain.from_iterable(pairs))  # in the first example of the stack
    for i, twin in twins.items():
        found[i] = found[i] or found[twin]
    given = list(found)
    _name_others(graph, twins, found)
    if numbered:
        given = [name if re.fullmatch(r"v\d+", name) else known for name, known in zip(found, given, strict=True)]
    return found, given


def _name_neurons(folded: Folded, found: list[str]) -> None:
    """Name the neurons, their weights and their inputs, layer by layer."""
    graph, taken = folded.graph, set(found)

    def give(i: int | None, name: str) -> None:
        if i is not None and not found[i] and i not in graph.constants and name not in taken:
            found[i] = name
            taken.add(name)

    layers, depths = defaultdict(list), list[int]()  # by the most neurons on a path to a card, itself included
    for card in folded.cards:
        is_neuron = any(x.weight is not None for x in card.inputs)
        depths.append(max([depths[x.card] for x in card.inputs], default=0) + is_neuron)
        if is_neuron:
            layers[depths[-1]].append(card)
    for depth, layer in layers.items():
        for i, card in enumerate(layer):
            name = "out" if depth == max(layers) else f"h{depth}"
            give(card.head, name + f"[{i}]" * (len(layer) > 1))
            name = found[card.head]
            for k, x in enumerate(card.inputs):
                give(x.weight, f"{name}.w{k}")
                if depth == 1 and graph.is_leaf(x.source):
                    give(x.source, f"x{k}")
            give(card.bias, f"{name}.b")
            z = graph.operands[card.head][0]
            give(z if z in card.parts else None, f"{name}.z")


def _name_others(graph: DrawnGraph, twins: Mapping[int, int], found: list[str]) -> None:
    """Name what is left by its formula, or else by a number."""
    taken, numbered = set(found), 0
    for i, value in enumerate(graph.values):
        if found[i]:
            continue
        if i in graph.constants:
            found[i] = number(value.data)
            continue
        found[i] = "" if graph.is_leaf(i) else _formula(graph, i, found)
        if not found[i] or len(found[i]) > SHORT or (found[i] in taken and i not in twins):
            found[i] = found[twins[i]] if i in twins else ""
            numbered += not found[i]
            found[i] = found[i] or ("result" if i == len(found) - 1 else f"v{numbered}")
        taken.add(found[i])


def _formula(graph: DrawnGraph, i: int, found: Sequence[str]) -> str:
    """The operation of a Value and the names of its operands; only the operation if they are many."""
    title, operands = graph.title(i), [found[k] for k in graph.operands[i]]
    if len(operands) > 2 or graph.operations[i] in ("", "dot"):
        return title
    if title.isalpha():
        return f"{title}({', '.join(operands)})"
    a, *b = [f"({name})" if " " in name and title != "+" else name for name in operands]
    if title == "**":
        return a + POWERS.get(b[0], f"^{b[0]}")
    return f"{a} {title} {b[0]}" if b else f"{title}{a}"
