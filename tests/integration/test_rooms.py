"""Imports go down one list of rooms, so that every file can be read with only those below it in mind."""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from importlib.util import resolve_name
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "micrograd"

ROOMS = """
    _version  core.display  scalar  support.arrays  support.signals
    core.errors
    core.levels  support.validation
    core.gradients  support.files
    core.number  loops
    functions
    engine
    reductions  support.collector  support.emscripten  support.trees
    core.derivatives
    data  functional  losses  optim
    nn
    compiler.stepping
    compiler.dtype
    compiler.options
    compiler.frontend
    compiler.dataset  compiler.ir
    compiler.passes
    compiler.targets
    compiler.native
    compiler.calls
    compiler.function
    compiler.distributed  compiler.session  compiler.stages
    compiler.compiled
    compiler
    training
    draw
    viz
    core
    support
    micrograd
"""
"""What is alone on its line may be a directory, whose files import each other; those on a line do not."""

FLOORS = {room: floor for floor, line in enumerate(ROOMS.split("\n")) for room in line.split()}


def room(module: str) -> str:
    """The room of a module: the longest of the names above that it begins with."""
    name = module.removeprefix("micrograd.")
    while name not in FLOORS and "." in name:
        name = name.rpartition(".")[0]
    assert name in FLOORS, f"{module} has no room: put it in the list of tests/integration/test_rooms.py"
    return name


def imports(node: ast.AST, package: str) -> Iterator[tuple[int, str]]:
    """The line and the name of all that a file imports, in functions too; not what is for type checkers alone."""
    inside = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        inside = node.orelse
    elif isinstance(node, ast.Import):
        yield from ((node.lineno, alias.name) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        origin = resolve_name("." * node.level + (node.module or ""), package)
        yield from ((node.lineno, f"{origin}.{alias.name}") for alias in node.names)
    for one in inside:
        yield from imports(one, package)


def arrows() -> Iterator[tuple[str, str, str]]:
    """Each import of a module of the package by another: where it stands, the module there and the one it imports."""
    root = PACKAGE.parent
    names = {file: ".".join(file.relative_to(root).with_suffix("").parts) for file in sorted(PACKAGE.rglob("*.py"))}
    modules = {file: name.removesuffix(".__init__") for file, name in names.items()}
    known = {*modules.values()}
    for file, module in modules.items():
        for line, name in imports(ast.parse(file.read_text(encoding="utf-8")), names[file].rpartition(".")[0]):
            while name not in known and "." in name:
                name = name.rpartition(".")[0]
            if name in known - {module}:
                yield f"{file.relative_to(root)}:{line}", module, name


def test_imports_go_down_the_list_of_rooms():
    found = list(arrows())
    assert len(found) > 100
    assert [
        f"{place} imports {other}, which is not below {room(module)} in the list of tests/integration/test_rooms.py"
        for place, module, other in found
        if room(module) != room(other) and FLOORS[room(module)] <= FLOORS[room(other)]
    ] == []


def test_no_modules_import_each_other_in_a_circle():
    order = TopologicalSorter()
    for _, module, other in arrows():
        order.add(module, other)
    order.prepare()  # which raises CycleError with the circle
