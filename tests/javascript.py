"""JavaScript run by tests: exported modules, in Node."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

NODE = shutil.which("node")
USES = Path(__file__).with_name("compiler").joinpath("targets", "uses.mjs").as_uri()

AS_JSON = "JSON.stringify(results, (_, x) => typeof x === 'number' ? (Object.is(x, -0) ? '-0' : `${x}`) : x)"
"""The results of a script as JSON. Numbers are text, since JSON has no infinities, NaN or -0."""


def in_node(directory, script):
    """The `results` that a script in a directory computes: nested lists, objects and numbers."""
    if NODE is None:
        pytest.skip("there is no Node here")
    path = directory / "script.mjs"
    path.write_text(f"{script}\nprocess.stdout.write({AS_JSON});\n", encoding="utf-8")
    done = subprocess.run([NODE, path], cwd=directory, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return numbers(json.loads(done.stdout))


def exported(directory, fast, expression, **options):
    """The value of an expression in JavaScript. There, `model` is the exported module of a compiled function.

    The module stays in the directory, as model.mjs. `uses` is uses.mjs."""
    fast.export_js(directory / "model.mjs", **options)
    imports = f'import * as model from "./model.mjs";\nimport * as uses from "{USES}";\n'
    return in_node(directory, f"{imports}const {{ forward, parameters }} = model, results = {expression};")


def numbers(tree):
    """The results that AS_JSON has written, with numbers as floats."""
    if isinstance(tree, dict):
        return {key: numbers(branch) for key, branch in tree.items()}
    if isinstance(tree, list):
        return [numbers(branch) for branch in tree]
    return float(tree) if isinstance(tree, str) and re.fullmatch(r"NaN|-?(Infinity|\d.*)", tree) else tree
