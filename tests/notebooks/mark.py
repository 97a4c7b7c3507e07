"""Mark students' notebooks: run them, and count the exercises that are right.

    python -m tests.notebooks.mark ada.ipynb ben.ipynb

An exercise that does not run, or whose cell is gone, is not right. The cells run as the student wrote them, with your
rights on this machine: mark only notebooks that you would open.
"""

import re
import sys
from pathlib import Path
from typing import Any

from tests.notebooks import NOTEBOOKS, read, run
from tests.notebooks.checks.engine import ENGINE

ASKED = re.compile(r"^(?:\w+ = )?checks\.(\w+)\(", re.MULTILINE)


def asked(notebook: Any) -> int:
    """How many times a notebook of the course says "Right." if everything is."""
    names = [name for cell in notebook.cells for name in ASKED.findall(cell.source)]
    return len(names) + (len(ENGINE) - 1) * ("engine" in names)


def mark(path: Path) -> str:
    """How many answers in a notebook are right, of how many in the part of the course with the same first heading."""
    notebook = read(path)
    title = notebook.cells[0].source.partition("\n")[0] if notebook.cells else ""
    part = next((part for part in map(read, NOTEBOOKS) if part.cells[0].source.startswith(f"{title}\n")), None)
    if part is None:
        return f"{path.name}: not a part of the course, which begin with a heading such as # 1. Numbers and gradients"
    said = [output for cell in run(notebook, allow_errors=True).cells for output in cell.get("outputs", ())]
    right = sum(output.get("text", "").count("Right.") for output in said)
    failed = sum(output.output_type == "error" for output in said)
    return f"{path.name}: {right} of {asked(part)} right" + f", {failed} cells end in an error" * (failed > 0)


if __name__ == "__main__":
    if not sys.argv[1:]:
        sys.exit("which notebooks? As in: python -m tests.notebooks.mark ada.ipynb")
    for name in sys.argv[1:]:
        print(mark(Path(name)))
