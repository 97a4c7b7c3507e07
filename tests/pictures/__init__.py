"""The pictures of the README, drawn by the code that it shows.

After a change to drawings, `python -m tests.pictures` draws them again. `python -m tests.benchmarks` draws the charts.
"""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.pages import README, ROOT, run

HERE = Path(__file__).parent
NOTEBOOK = ROOT / "tests" / "notebooks" / "3_training_and_seeing_it.ipynb"


def draw() -> dict[str, str]:
    """The name and the SVG of each picture: by the demo, by the README, and by notebook 3 for the README's model."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    with TemporaryDirectory() as directory, contextlib.chdir(directory), open(os.devnull, "w") as null:
        subprocess.run([sys.executable, ROOT / "demo.py"], env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=null)
        with contextlib.redirect_stdout(null):
            for _ in run(README, namespace):
                pass
        xor, expression = (Path(name).read_text(encoding="utf-8") for name in ("xor.svg", "c.svg"))
    moons = _notebook_picture()(namespace["xs"], namespace["ys"], namespace["model"])
    return {"xor": xor, "expression": expression, "moons": moons}


def _notebook_picture() -> Any:
    """The function `picture` of the notebook, which returns the SVG as text here."""
    cells = ["".join(cell["source"]) for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]]
    [source] = [source for source in cells if "def picture(" in source]
    namespace: dict[str, Any] = {"SVG": str}
    exec(source[source.index("ORANGE") : source.index("train_xs")], namespace)
    return namespace["picture"]
