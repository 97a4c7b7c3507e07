"""The pictures of the README, drawn by the code that it shows.

After a change to drawings, `python -m tests.pictures` draws them again. `python -m tests.benchmarks` draws the charts.
"""

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.notebooks.pictures import plane
from tests.pages import README, ROOT, run

HERE = Path(__file__).parent


def draw() -> dict[str, str]:
    """The name and the SVG of each picture: by the demo, by the README, and by the notebooks' `plane`."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    with TemporaryDirectory() as directory, contextlib.chdir(directory), open(os.devnull, "w") as null:
        subprocess.run([sys.executable, ROOT / "demo.py"], env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=null)
        with contextlib.redirect_stdout(null):
            for _ in run(README, namespace):
                pass
        xor, expression = (Path(name).read_text(encoding="utf-8") for name in ("xor.svg", "c.svg"))
    moons = plane(namespace["xs"], namespace["ys"], namespace["model"])
    return {"xor": xor, "expression": expression, "moons": moons}
