"""The possible errors in a module: the operators of cosmic-ray, about one for each expression."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator

OTHER = {  # each operator is replaced with one that is far from it
    "BinaryOperator": ("Add Sub", "Sub Add", "Mul Div", "Div Mul", "FloorDiv Mul", "Mod Mul", "Pow Mul"),
    "ComparisonOperator": (
        *("Lt LtE", "Lt GtE", "LtE Lt", "LtE Gt", "Gt GtE", "Gt LtE", "GtE Gt", "GtE Lt"),  # the edge, the other side
        *("Eq NotEq", "NotEq Eq", "Is IsNot", "IsNot Is"),
    ),
    "UnaryOperator": ("USub UAdd", "Delete Not"),
}
OPERATORS = [
    *[f"core/Replace{kind}_{pair.replace(' ', '_')}" for kind, pairs in OTHER.items() for pair in pairs],
    "core/AddNot",
    "core/ExceptionReplacer",
    "core/NumberReplacer",
    "core/RemoveDecorator",
    "core/ReplaceAndWithOr",
    "core/ReplaceBreakWithContinue",
    "core/ReplaceContinueWithBreak",
    "core/ReplaceFalseWithTrue",
    "core/ReplaceOrWithAnd",
    "core/ReplaceTrueWithFalse",
    "core/ZeroIterationForLoop",
]


class Mutant(NamedTuple):
    """One error in a module: which operator puts it there, and at which of its places."""

    module: str
    operator: str
    occurrence: int


def mutants(module: str, source: str) -> Iterator[Mutant]:
    """All mutants of a module."""
    nodes = list(ast_nodes(get_ast(source)))
    for name in OPERATORS:
        operator = get_operator(name)()
        places = [node for node in nodes for _ in operator.mutation_positions(node)]
        yield from (Mutant(module, name, i) for i, node in enumerate(places) if not is_spared(node))


def is_spared(node: Any) -> bool:
    """Whether the node is of `strict`, which changes nothing in a right program, or a star among parameters."""
    kind = node.parent.type if node.parent else None
    return kind == "parameters" or (kind == "argument" and node.parent.get_first_leaf().value == "strict")


def mutated(mutant: Mutant, source: str) -> str:
    """The module's source with the error in it."""
    code: str = mutate_code(source, get_operator(mutant.operator)(), mutant.occurrence)
    return code
