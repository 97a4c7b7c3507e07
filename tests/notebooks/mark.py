"""Mark students' notebooks: run them, and count the exercises that are right.

    python -m tests.notebooks.mark ada.ipynb ben.ipynb

An exercise that does not run, or whose cell is gone, is not right. The cells run as the student wrote them, with your
rights on this machine: mark only notebooks that you have read.
"""

import ast
import re
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient.exceptions import DeadKernelError

from tests.notebooks import NOTEBOOKS, read, run
from tests.notebooks.checks.engine import ENGINE

ASKED = re.compile(r"^(?:\w+ = )?checks\.(\w+)\(", re.MULTILINE)


def asked(notebook: Any) -> list[str]:
    """The checks that a notebook calls, by the names that `checks.answers.RIGHT` has for them."""
    names = [name for cell in notebook.cells for name in ASKED.findall(cell.source)]
    return [part for name in names for part in ([f"engine {op}" for op in ENGINE] if name == "engine" else [name])]


def mark(path: Path) -> str:
    """How many answers in a notebook are right, and which are open, of the part of the course whose checks it calls.

    Raises OSError, ValueError and ValidationError if it cannot be read, DeadKernelError if a cell kills Python.
    """
    notebook = read(path)
    names = max(map(asked, map(read, NOTEBOOKS)), key=lambda names: len({*names} & {*asked(notebook)}))
    if not {*names} & {*asked(notebook)}:
        return f"{path.name}: not a part of the course: no cell calls one of its checks, as in checks.slope(slope)"
    notebook.cells.append(nbformat.v4.new_code_cell("import checks\n\nchecks.answers.RIGHT"))
    *cells, last = [cell for cell in run(notebook, allow_errors=True).cells if cell.cell_type == "code"]
    found = [output.data["text/plain"] for output in last.outputs if output.output_type == "execute_result"]
    right = set().union(*map(ast.literal_eval, found))
    failed = sum(output.output_type == "error" for cell in cells for output in cell.outputs)
    parts = [f"{path.name}: {len({*names} & right)} of {len(names)} right"]
    if remaining := [name for name in names if name not in right]:
        parts.append(f"open: {', '.join(remaining)}")
    if failed:
        parts.append(f"{failed} cell{' ends' if failed == 1 else 's end'} in an error")
    return "; ".join(parts)


if __name__ == "__main__":
    if not sys.argv[1:]:
        sys.exit("which notebooks? As in: python -m tests.notebooks.mark ada.ipynb")
    for name in sys.argv[1:]:
        try:
            print(mark(Path(name)))
        except (OSError, ValueError, nbformat.ValidationError, DeadKernelError) as error:
            print(f"{Path(name).name}: not marked: {getattr(error, 'strerror', None) or error}")
