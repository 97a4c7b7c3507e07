"""The package in a browser's Python: without processes, threads, signals and other packages."""

import json
import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from itertools import takewhile
from pathlib import Path

import pytest

from tests.pages import PAGES, blocks, printed
from tests.pages import browser as course

pytest.importorskip("nbclient")

import nbformat

from tests import notebooks

VERSIONS = {"3.11": "0.23.0", "3.14": "314.0.8", "3.15": "315.0.0-alpha.2"}
"""Pyodide by its Python: the oldest that runs micrograd, the newest, and what is to follow it."""

pytestmark = pytest.mark.long

CHECKOUT = Path(__file__).parents[2]
OTHERS = "numpy|scipy|sklearn|torch|pandas|mpmath"


def own(page):
    """The blocks of a page up to the first that needs another package, except blocks that start processes."""
    found = takewhile(lambda source: not re.search(OTHERS, source), (text for _, text in blocks(page, "python")))
    return [source for source in found if "ProcessPoolExecutor" not in source]


BLOCKS = [own(page) for page in PAGES if page.stem != "tour"]  # about C, for which a browser has no compiler

PROGRAMS = {
    "version": """
import sys

assert sys.platform == "emscripten"
print("{}.{}".format(*sys.version_info))
""",
    "compile to C": """
import micrograd

try:
    micrograd.compile(lambda x: x, (1.0,), backend="c")
except micrograd.compiler.CompilerError as error:
    print(error)
""",
    "chain": """
from micrograd import Value, grad

def chain(x, n):
    for _ in range(n):
        x = x * 1.0 + 0.0
    return x

x = Value(1.0)
y = chain(x, 100_000)
y.backward()
print(x.grad)
del y
print(grad(grad(lambda x: chain(x * x, 10_000)))(3.0))
""",
    "pages": f"""
for page in {BLOCKS!r}:
    namespace = {{"__name__": "__main__"}}
    for source in page:
        exec(source, namespace)
""",
}

NOTEBOOK = """
import json
from tests.pages.cells import runner

run = runner()
for source in SOURCES:
    print(json.dumps({"cell_type": "code", "outputs": [o for o in run(source) if o.get("name") != "stderr"]}))
"""


def code(notebook):
    """The cells of a notebook that are programs."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


NOTEBOOKS = [path for path in notebooks.NOTEBOOKS if "import numpy" not in path.read_text(encoding="utf-8")]
COURSE = {
    path.stem: f"SOURCES = {[cell.source for cell in code(notebooks.read(path))]!r}\n{NOTEBOOK}" for path in NOTEBOOKS
}
"""Programs that take long, which only the newest Pyodide runs."""
NEWEST = "3.14"


def run(version, directory, programs):
    """The lines that each program prints in a Pyodide, which npm brings where it can; and all errors."""
    if not shutil.which("node"):
        pytest.skip("there is no Node.js here")
    try:
        pyodide = course.pyodide(directory, version)
    except RuntimeError as error:
        pytest.skip(str(error))
    command = ["node", os.fspath(CHECKOUT / "tests" / "pyodide.mjs"), os.fspath(pyodide), os.fspath(CHECKOUT)]
    done = subprocess.run(command, input=json.dumps(programs), capture_output=True, text=True, timeout=900)
    return dict(map(json.loads, done.stdout.splitlines())), done.stderr


@pytest.fixture(scope="module")
def runs(request):
    """What each Pyodide says; they run beside each other."""
    with ThreadPoolExecutor() as pool:
        found = {}
        for python, version in VERSIONS.items():
            programs = PROGRAMS | COURSE if python == NEWEST else PROGRAMS
            found[python] = pool.submit(run, version, request.config.cache.mkdir(f"pyodide-{version}"), programs)
        yield found


@pytest.fixture(params=VERSIONS)
def python(request):
    """The Python of a Pyodide, such as 3.11."""
    return request.param


@pytest.fixture
def said(runs, python):
    """A function that gives the lines a program prints there."""

    def said(name):
        printed, errors = runs[python].result()
        assert name in printed, errors[-4000:]
        return printed[name]

    return said


def test_it_runs_on_the_python_that_is_meant(said, python):
    assert said("version") == [python]


def test_without_a_compiler_the_error_says_what_to_compile_to(said):
    [error] = said("compile to C")
    assert 'use backend="python"' in error


def test_a_chain_of_any_length_is_freed(said):
    assert said("chain") == ["1.0", "2.0"]


def test_the_blocks_of_the_pages_print_what_their_comments_say(said):
    sources = [source for page in BLOCKS for source in page]
    assert len(sources) >= 12
    assert said("pages") == [line for source in sources for line in printed(source)]


@pytest.mark.parametrize("python", [NEWEST], indirect=True)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_says_what_it_is_stored_with(said, path):
    cells = [nbformat.from_dict(json.loads(line)) for line in said(path.stem)]
    ran, stored = nbformat.from_dict({"cells": cells}), notebooks.read(notebooks.EXECUTED / path.name)
    assert notebooks.said(ran) == notebooks.said(stored)
