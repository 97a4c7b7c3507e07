"""The notebook runs from its first cell to its last, learns what it says, and shows its drawings."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from micrograd import data

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

NOTEBOOK = Path(__file__).parent / "notebooks" / "introduction.ipynb"
CHECKOUT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def cells():
    """The cells of code, after they have run."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(CHECKOUT)}}).execute()
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def printed(cells):
    return "".join(output.text for cell in cells for output in cell.outputs if output.output_type == "stream")


def drawings(cells):
    """The texts in each drawing."""
    outputs = [output.get("data", {}) for cell in cells for output in cell.outputs]
    roots = [ElementTree.fromstring(formats["image/svg+xml"]) for formats in outputs if "image/svg+xml" in formats]
    return [{text.text for text in root.iter("{http://www.w3.org/2000/svg}text")} for root in roots]


def test_it_is_stored_without_outputs():
    cells = [cell for cell in nbformat.read(NOTEBOOK, as_version=4).cells if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in cells)


def test_the_gradients_are_those_that_it_tells(cells):
    assert "y = -4, dy/da = -2, dy/db = 2" in printed(cells)


def test_the_loss_falls_throughout(cells):
    losses = [float(line.split()[-1]) for line in printed(cells).splitlines() if line.startswith("step")]
    assert len(losses) == 7
    assert losses == sorted(losses, reverse=True)


def test_the_network_learns_xor(cells):
    rows = [line for line in printed(cells).splitlines() if line.startswith("xor")]
    assert [line[: len("xor [0.0, 0.0]")] for line in rows] == [f"xor {x}" for x in data.xor()[0]]
    assert [round(float(line.split()[-1]), 1) for line in rows] == data.xor()[1]


def test_the_graphs_are_drawn(cells):
    first, last = drawings(cells)
    assert {"a", "b", "y", "data 2", "grad -2"} <= first
    assert {"x1", "x2", "prediction", "tanh"} <= last
