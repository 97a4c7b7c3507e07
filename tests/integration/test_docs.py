"""The docstrings match the code: their sections name what exists."""

import ast
import builtins
import re
from pathlib import Path

import micrograd

PACKAGE = Path(micrograd.__file__).parent
RAISED = r"\bRaises\s+([A-Z]\w+)"  # in a sentence


def documented():
    """Where each docstring stands, its definition and its text."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and (text := ast.get_docstring(node)):
                yield f"{path.name}: {node.name}", node, text


def names(text, section):
    """What a section describes: its lines that are not indented."""
    found = re.search(rf"^{section}\n-+\n(.*?)(?=^\w+\n-+\n|\Z)", text, re.MULTILINE | re.DOTALL)
    return re.findall(r"^(?! |\n)(.+)$", found[1], re.MULTILINE) if found else []


def parameters(node):
    """The names that a function, or the making of an object, takes."""
    if isinstance(node, ast.ClassDef):
        is_dataclass = any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list)
        fields = [part.target.id for part in node.body if isinstance(part, ast.AnnAssign) and is_dataclass]
        made = [name for part in node.body if getattr(part, "name", "") == "__init__" for name in parameters(part)]
        return fields + made
    return [argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)]


def test_what_is_raised_exists():
    defined = {node.name for _, node, _ in documented() if isinstance(node, ast.ClassDef)} | {"BrokenExecutor"}
    texts = [(where, text) for where, _, text in documented()]
    lines = [(where, line) for where, text in texts for line in names(text, "Raises") + re.findall(RAISED, text)]
    raised = [(where, name) for where, line in lines for name in line.split(", ")]
    assert len(raised) > 100
    assert [entry for entry in raised if entry[1] not in defined | vars(builtins).keys()] == []


def test_the_parameters_described_are_those_there_are():
    lines = [(where, node, line) for where, node, text in documented() for line in names(text, "Parameters")]
    described = [(where, name, parameters(node)) for where, node, line in lines for name in line.split(", ")]
    assert len(described) > 20
    assert [entry for entry in described if entry[1] not in entry[2]] == []


ROOT = PACKAGE.parent
OFFERED = [*sorted(PACKAGE.rglob("*.py")), ROOT / "demo.py", *sorted((ROOT / "tests" / "examples").glob("*.py"))]
INSTALLED = r"pip install\s+(?:-\S+\s+)*[\"']?([\w.-]+)"


def strings(path):
    """All literals of a file, of f-strings and docstrings too, as they are when their parts are put together."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)


def test_no_message_installs_the_package_of_another_project_by_our_name():
    named = [(path.name, name) for path in OFFERED for text in strings(path) for name in re.findall(INSTALLED, text)]
    assert len(set(named)) >= 3
    assert [entry for entry in named if entry[1] == "micrograd"] == []
