"""JavaScript run by tests: exported modules, in Node."""

import json
import re
import shutil
import subprocess

import pytest

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="there is no Node here")

TELL = "JSON.stringify(told, (_, x) => typeof x === 'number' ? (Object.is(x, -0) ? '-0' : `${x}`) : x)"
"""What a script has found as JSON, in which numbers are text, so that infinities, NaN and -0 are there."""


def in_node(directory, script):
    """What a script, run in a directory, leaves in `told`: nested lists, objects and numbers."""
    path = directory / "script.mjs"
    path.write_text(f"{script}\nprocess.stdout.write({TELL});\n", encoding="utf-8")
    done = subprocess.run([NODE, path], cwd=directory, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return told(done.stdout)


def told(text):
    """What TELL has written, with floats for numbers."""
    return numbers(json.loads(text))


def numbers(tree):
    if isinstance(tree, dict):
        return {key: numbers(branch) for key, branch in tree.items()}
    if isinstance(tree, list):
        return [numbers(branch) for branch in tree]
    return float(tree) if isinstance(tree, str) and re.fullmatch(r"NaN|-?(Infinity|\d.*)", tree) else tree
