"""The possible errors in a module, about one for each operator, number and condition."""

import ast
import copy
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

PAIRS = {
    "Add": "Sub", "Sub": "Add", "Mult": "Div", "Div": "Mult", "FloorDiv": "Mult", "Mod": "Mult", "Pow": "Mult",
    "Lt": "LtE GtE", "LtE": "Lt Gt", "Gt": "GtE LtE", "GtE": "Gt Lt",  # the edge, the other side
    "Eq": "NotEq", "NotEq": "Eq", "Is": "IsNot", "IsNot": "Is", "In": "NotIn", "NotIn": "In",
    "And": "Or", "Or": "And", "BitAnd": "BitOr", "BitOr": "BitAnd", "USub": "UAdd",
}  # fmt: skip
MISTAKEN = {getattr(ast, name): [getattr(ast, other) for other in others.split()] for name, others in PAIRS.items()}
"""What an operator is replaced by: something far from it."""

SMALL = (
    ast.operator | ast.boolop | ast.cmpop | ast.unaryop | ast.expr_context
    | ast.Constant | ast.Name | ast.UnaryOp | ast.Slice
)  # fmt: skip
"""Nodes too small to show where in the code they are."""


class Mutant(NamedTuple):
    """A module with one error in it."""

    module: str
    change: str
    """ "function: before -> after", with the smallest expression that shows the place, even if code around it moves."""
    nth: int
    """How many changes above it read the same."""
    source: str
    spans: list[range]
    """The lines of the error, of the expression around it, and so on; none if it is in no function or a cached one."""


def mutants(module: str, source: str) -> Iterator[Mutant]:
    """All mutants of a module."""
    counts: Counter[str] = Counter()
    for path, field, replacement in errors((ast.parse(source),)):
        *around, node = path
        after = [*around, replacement]
        telling = [i for i, n in enumerate(path) if not isinstance(n, SMALL)]
        shown = len(around) if field == "decorator_list" else telling[-1]
        whole = next((i for i, n in enumerate(path) if isinstance(n, ast.JoinedStr)), len(around))  # f"{a + 1}"
        function = ".".join(n.name for n in around if isinstance(n, ast.FunctionDef | ast.ClassDef)) or "<module>"
        before = text(path[shown])
        _replace(around[-1], field, node, replacement)
        change = f"{function}: {before} -> {text(after[shown])}"
        code = _spliced(source, path[whole], after[whole])
        _replace(around[-1], field, replacement, node)
        functions = [n for n in around if isinstance(n, ast.FunctionDef | ast.Lambda)]
        is_cached = any("functools.cache" in text(n) for n in functions)  # another test may have run it
        placed = [n for n in reversed(path[: whole + 1]) if functions and not is_cached and hasattr(n, "lineno")]
        spans = [range(n.lineno, n.end_lineno + 1) for n in placed]
        yield Mutant(module, change, counts[change], code, spans)
        counts[change] += 1


def errors(path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], str, ast.AST]]:
    """The errors in the last node of a path: for each, the path to a node, the field it is in, and what replaces it."""
    for field, value in ast.iter_fields(path[-1]):
        if field in ("annotation", "returns"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.keyword) and child.arg == "strict":  # changes nothing in a correct program
                continue
            if isinstance(child, ast.AST):
                yield from (((*path, child), field, replacement) for replacement in _mistaken(path[-1], field, child))
                yield from errors((*path, child))


def _mistaken(parent: ast.AST, field: str, node: Any) -> Iterator[ast.AST]:
    """What a node may be replaced by."""
    match node:
        case ast.BinOp() | ast.AugAssign() | ast.BoolOp() | ast.UnaryOp():
            yield from (_changed(node, op=other()) for other in MISTAKEN.get(type(node.op), ()))
            if _is_not(node):
                yield node.operand
        case ast.Compare(ops=ops):
            for i, op in enumerate(ops):
                yield from (_changed(node, ops=[*ops[:i], other(), *ops[i + 1 :]]) for other in MISTAKEN[type(op)])
        case ast.Constant(value=bool()):
            yield ast.Constant(not node.value)
        case ast.Constant(value=int() | float()):
            yield from (ast.Constant(n) for n in (node.value + 1, node.value - 1) if n != node.value)  # not 1e150 + 1
        case ast.Break():
            yield ast.Continue()
        case ast.Continue():
            yield ast.Break()
    if field in ("test", "ifs") and not (isinstance(node, ast.Compare) or _is_not(node)):
        yield ast.UnaryOp(ast.Not(), node)
    elif field == "iter":
        yield ast.List([])
    elif field == "decorator_list":
        yield ast.parse("lambda it: it", mode="eval").body
    elif field == "type" and isinstance(parent, ast.ExceptHandler):
        yield ast.Tuple([])


def text(node: ast.AST) -> str:
    """The node as one line of code; only its head if it has a body."""
    if isinstance(node, ast.stmt | ast.ExceptHandler):
        node = _changed(node, **{field: [] for field in {"body", "orelse", "finalbody", "handlers"} & {*node._fields}})
    return ast.unparse(node)


def _spliced(source: str, old: Any, new: ast.AST) -> str:
    """The source with a node replaced, all other lines where they were."""
    lines = source.encode().splitlines(keepends=True)  # columns count bytes
    code = text(new) + "\n" * (old.end_lineno - old.lineno)
    code = code if isinstance(new, ast.stmt) else f"({code})"
    before, after = lines[old.lineno - 1][: old.col_offset], lines[old.end_lineno - 1][old.end_col_offset :]
    return b"".join([*lines[: old.lineno - 1], before, code.encode(), after, *lines[old.end_lineno :]]).decode()


def _replace(parent: ast.AST, field: str, old: ast.AST, new: ast.AST) -> None:
    value = getattr(parent, field)
    setattr(parent, field, [new if item is old else item for item in value] if isinstance(value, list) else new)


def _changed(node: ast.AST, **fields: Any) -> ast.AST:
    node = copy.copy(node)
    for field, value in fields.items():
        setattr(node, field, value)
    return node


def _is_not(node: ast.AST) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
