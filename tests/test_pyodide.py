"""The package in a browser's Python: without processes, threads, signals and other packages."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

VERSION = "314.0.7"
CHECKOUT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def run(request):
    """A function that runs a Python program in Pyodide, which npm brings where it can."""
    if not shutil.which("node") or not shutil.which("npm"):
        pytest.skip("there is no Node.js here")
    directory = request.config.cache.mkdir(f"pyodide-{VERSION}")
    pyodide = directory / "node_modules" / "pyodide"
    if not (pyodide / "pyodide.mjs").exists():
        install = ["npm", "install", "--no-audit", "--no-fund", "--fetch-retries=0", f"--prefix={directory}"]
        try:
            done = subprocess.run([*install, f"pyodide@{VERSION}"], capture_output=True, text=True, timeout=120)
        except subprocess.TimeoutExpired:
            pytest.skip("npm does not come to an end")
        if done.returncode:
            pytest.skip(f"npm cannot install Pyodide: {done.stderr[-300:]}")

    def run(program):
        command = ["node", os.fspath(CHECKOUT / "tests" / "pyodide.mjs"), os.fspath(pyodide), os.fspath(CHECKOUT)]
        done = subprocess.run(command, input=program, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    return run


def test_a_network_learns_xor_and_is_drawn_saved_and_loaded(run):
    program = """
import sys
from micrograd import data, fit, losses, nn, optim, viz

assert sys.platform == "emscripten"
xs, ys = data.xor()
model = nn.MLP(2, [4, 1], rng=1)
optimizer = optim.Adam(model.parameters(), learning_rate=0.05)
fit(model, losses.mse_loss, xs, ys, epochs=300, optimizer=optimizer, rng=1, progress=False)
nn.save(model, "xor.json")
print([round(nn.load("xor.json")(x).data) for x in xs])
print(viz.draw_graph(model(xs[0])))
print(viz.to_svg(model(xs[0])))
"""
    predictions, *drawing = run(program).splitlines()
    assert predictions == "[0, 1, 1, 0]"
    assert drawing[0] == "digraph {"
    assert "</svg>" in drawing[-2:]


def test_a_function_is_compiled_to_python(run):
    program = """
import micrograd

w = micrograd.Value(2.0)
square = micrograd.compile(lambda x: (w * x) ** 2, (1.0,), parameters=[w])
print(square, square.backward([3.0]), w.grad)
try:
    micrograd.compile(lambda x: x, (1.0,), backend="c")
except micrograd.compiler.CompilerError as error:
    print(error)
"""
    result, error = run(program).splitlines()
    assert result == "<<lambda> compiled to Python, 1 parameters> 36.0 36.0"
    assert 'use backend="python"' in error
