"""The course: seven notebooks, in reading order; and two pages as notebooks.

What students open has no outputs, so that nobody reads an answer before the question. What the cells say is stored in
the directory `executed`, for teachers and tests. After a change,

    python -m tests.notebooks

runs all notebooks and stores them again. `python -m tests.notebooks.mark FILE ...` marks those of students.
"""

import os
import re
import shutil
import subprocess
import sys
from base64 import b64decode
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch
from xml.etree import ElementTree

import nbclient
import nbformat

from tests import pages

HERE = Path(__file__).parent
CHECKOUT = HERE.parents[1]
NOTEBOOKS = sorted(HERE.glob("[0-9]*.ipynb"))
EXECUTED = HERE / "executed"
ENGINEERING, LECTURE = HERE / "engineering.ipynb", HERE / "lecture.ipynb"
FROM_PAGES = {ENGINEERING: pages.HERE / "engineering.md", LECTURE: pages.HERE / "karpathy.md"}
PATIENCE = 300
"""How many seconds a cell may take."""
APART = """\
import os
from tempfile import TemporaryDirectory

directory = TemporaryDirectory()  # for the files that this notebook writes; they vanish with it
os.chdir(directory.name)"""


def from_page(page: Path) -> Any:
    """A page as a notebook without outputs: a cell for each block, except those that say what a command prints.

    A page with commands writes files: the first cell has them written to a directory of their own.
    """
    text, end, sources = page.read_text(encoding="utf-8"), 0, []
    for block in pages.BLOCK.finditer(text):
        sources.append((nbformat.v4.new_markdown_cell, text[end : block.start()].strip()))
        end = block.end()
        if block["file"]:
            sources.append((nbformat.v4.new_code_cell, f"%%writefile {block['file']}\n{block['text']}"))
        elif block["language"] == "sh":
            sources.append((nbformat.v4.new_code_cell, f"%%sh\n{block['text']}"))
        elif block["language"] == "python":
            unprinted = re.sub(r"^( *print\(.*\))  # .*$", r"\1", block["text"], flags=re.MULTILINE)
            sources.append((nbformat.v4.new_code_cell, unprinted.rstrip()))
    sources.append((nbformat.v4.new_markdown_cell, text[end:].strip()))
    if pages.blocks(page, "sh"):
        sources.insert(1, (nbformat.v4.new_code_cell, APART))
    written = [(cell, re.sub(r"\]\((\w+\.md)\)", r"](../pages/\1)", source)) for cell, source in sources if source]
    return nbformat.v4.new_notebook(cells=[cell(source, id=f"cell-{i}") for i, (cell, source) in enumerate(written)])


def read(path: Path) -> Any:
    """A notebook as it is stored."""
    return nbformat.read(path, as_version=4)


def without_outputs(notebook: Any) -> Any:
    """The notebook as students open it."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return notebook


def run(notebook: Any, *, allow_errors: bool = False) -> Any:
    """A notebook after its cells have run, in order, beside copies of its checks; its metadata have the files `left`.

    With `allow_errors`, the run goes on after a cell that fails or takes too long.
    """
    search = os.pathsep.join(filter(None, [str(CHECKOUT), os.environ.get("PYTHONPATH")]))
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # with this Python as `python`
    with (
        TemporaryDirectory() as directory,
        TemporaryDirectory() as cache,
        patch.dict(os.environ, PATH=programs, PYTHONPATH=search, XDG_CACHE_HOME=cache),
    ):
        shutil.copytree(HERE, directory, ignore=shutil.ignore_patterns("*.ipynb"), dirs_exist_ok=True)
        before = set(os.listdir(directory))
        client = nbclient.NotebookClient(
            notebook,
            timeout=PATIENCE,
            coalesce_streams=True,
            record_timing=False,
            allow_errors=allow_errors,
            interrupt_on_timeout=allow_errors,
            resources={"metadata": {"path": directory}},
        )
        client.execute(stderr=subprocess.DEVNULL)  # a kernel that is told to end gets a Ctrl-C first, and may say so
        notebook.metadata.left = sorted(set(os.listdir(directory)) - before)
    for cell in notebook.cells:
        if "outputs" in cell:
            cell.outputs = [output for output in cell.outputs if not _is_patience(output)]
    return notebook


def _is_patience(output: Any) -> bool:
    """Whether an output says nothing but that something takes long, as slow machines do."""
    return output.get("name") == "stderr" and all(line.startswith("still ") for line in output.text.splitlines())


def store(notebook: Any, path: Path) -> None:
    """Write a notebook with its outputs, but nothing about the machine that it ran on."""
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            if "text" in output:
                output.text = _lasting(output.text)
            for kind in ("text/plain", "text/html"):
                if kind in output.get("data", {}) and ";base64," not in output.data[kind]:
                    output.data[kind] = _lasting(output.data[kind])
    nbformat.validate(notebook)
    nbformat.write(notebook, path)


def _lasting(text: str) -> str:
    """The text without addresses and the name of the file that the kernel has for a cell."""
    return re.sub(r"(\S*ipykernel_\S+|cell_\d+)\.py", "cell.py", re.sub(r"0x[0-9a-f]+", "0x0", text))


def said(notebook: Any) -> list[Any]:
    """What each cell says, without addresses, timings, last digits, and where a drawing puts things."""
    return [[_said(output) for output in cell.outputs] for cell in notebook.cells if cell.cell_type == "code"]


def _said(output: Any) -> Any:
    if output.output_type == "stream":
        return {output.name: _timeless(output.text)}
    if output.output_type == "error":
        return {output.ename: output.evalue}
    return {kind: _shown(kind, text) for kind, text in output.data.items()}


def _shown(kind: str, text: str) -> Any:
    if kind == "image/png":  # a plot of matplotlib, whose bytes differ from version to version
        return kind
    if image := re.search(';base64,([^"]+)', text):
        return texts(b64decode(image[1]).decode())
    return texts(text) if kind == "image/svg+xml" else _timeless(text)


def _timeless(text: str) -> str:
    text = re.sub(r"[\d.,]+ (ns|us|ms|s|times)\b", r"# \1", _lasting(text))
    return re.sub(r"\d+\.\d{7,}(e[+-]?\d+)?", lambda number: f"{float(number[0]):.6g}", text)


def texts(svg: str) -> Counter[str]:
    """The texts in a drawing, each with how often it is there."""
    elements = ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    return Counter("".join(element.itertext()) for element in elements)
