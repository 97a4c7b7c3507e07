"""What a mutant changes, by function and expression, so that a list of changes outlives moving code around."""

import ast
import copy
from collections.abc import Iterator
from typing import NamedTuple


class Change(NamedTuple):
    """What a mutant changes, however the code around it moves: the function it is in, and an expression there."""

    function: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.function}: {self.before} -> {self.after}"


def change(before: str, after: str) -> Change:
    """The smallest expression in which two sources differ, and the class and function around it."""
    names, old, new = _difference(ast.parse(before), ast.parse(after))
    return Change(".".join(names) or "<module>", text(old), text(new))


def text(node: ast.AST | None) -> str:
    """The node as code, in one line; of what has a body, the head alone."""
    if isinstance(node, ast.stmt | ast.ExceptHandler):
        node = copy.copy(node)
        for field in {"body", "orelse", "finalbody", "handlers"} & set(node._fields):
            setattr(node, field, [])
    return ast.unparse(node) if node else "nothing"


def expressions(tree: ast.AST, names: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """All that a change may be of: functions, and the texts of the nodes in them."""
    for child in ast.iter_child_nodes(tree):
        if not isinstance(child, SMALL):
            yield ".".join(names) or "<module>", text(child)
        yield from expressions(child, _inside(child, names))


SMALL = (
    ast.operator | ast.boolop | ast.cmpop | ast.unaryop | ast.expr_context
    | ast.Constant | ast.Name | ast.UnaryOp | ast.Slice
)  # fmt: skip
"""What says nothing about the place where it is."""


def _inside(node: ast.AST, names: tuple[str, ...]) -> tuple[str, ...]:
    named = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    return (*names, node.name) if named else names  # type: ignore[attr-defined]


def _difference(
    old: ast.AST, new: ast.AST, names: tuple[str, ...] = ()
) -> tuple[tuple[str, ...], ast.AST | None, ast.AST | None]:
    """The names around it, and the two nodes."""
    olds, news = list(ast.iter_child_nodes(old)), list(ast.iter_child_nodes(new))
    pairs = [(a, b) for a, b in zip(olds, news, strict=False) if ast.dump(a) != ast.dump(b)]
    inside = _inside(old, names)
    if len(olds) > len(news) and isinstance(old, ast.FunctionDef | ast.ClassDef):  # without a decorator
        kept = list(map(ast.dump, new.decorator_list))  # type: ignore[attr-defined]
        return inside, next(node for node in old.decorator_list if ast.dump(node) not in kept), None
    if type(old) is type(new) and len(olds) == len(news) and len(pairs) == 1 and not isinstance(pairs[0][0], SMALL):
        return _difference(*pairs[0], inside)
    return names, old, new
