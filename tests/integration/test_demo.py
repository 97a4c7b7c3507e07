"""The demo as a newcomer runs it: in a separate process, in an empty directory, with nothing installed but Python."""

import copy
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import demo
from micrograd import nn

PYTHON = [sys.executable, "-S", "-E", "-B"]  # without site-packages and without variables such as PYTHONPATH
TABLE = ["x0  x1  target  prediction"] + [f"{a:2}  {b:2}  {a ^ b:6}" for a in (0, 1) for b in (0, 1)]
WRITTEN = {"playground.html": "<!doctype html>", "xor.html": "<!doctype html>", "xor.svg": "<svg", "xor.dot": "digraph"}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of the demo: what it says, and the directory with what it writes."""
    directory = tmp_path_factory.mktemp("demo")
    command = [*PYTHON, Path(demo.__file__).resolve()]
    done = subprocess.run(command, cwd=directory, env={"PATH": ""}, text=True, capture_output=True, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout, directory


def test_it_solves_xor(run):
    lines = run[0].splitlines()
    start = lines.index(TABLE[0])
    rows = lines[start : start + 5]
    assert [row[: len(expected)] for row, expected in zip(rows, TABLE, strict=True)] == TABLE
    for row in rows[1:]:
        _, _, target, prediction = row.split()
        assert abs(float(prediction) - float(target)) < 0.1


def test_it_tells_how_the_loss_falls(run):
    losses = [float(line.split()[-1]) for line in run[0].splitlines() if line.startswith("step")]
    assert len(losses) == 5
    assert losses == sorted(losses, reverse=True)
    assert re.search(r"^loss from 0.2537 to 0.0002834  \S{40}$", run[0], re.MULTILINE)


def test_it_names_what_it_writes_and_the_playground_comes_first(run):
    said, directory = run
    assert sorted(os.listdir(directory)) == sorted(WRITTEN)
    assert all((directory / name).read_text(encoding="utf-8").startswith(start) for name, start in WRITTEN.items())
    assert sorted(WRITTEN, key=said.index)[0] == "playground.html"


def test_the_drawings_name_inputs_parameters_and_prediction(run):
    drawing, page = ((run[1] / name).read_text(encoding="utf-8") for name in ("xor.dot", "xor.html"))
    assert all(label in drawing for label in ("x0", "x1", "prediction"))
    graph = json.loads(re.search(r'id="graph">(.*?)</script>', page)[1])
    assert {"loss", "out", "out.w3", "h1[0]", "h1[3].w1", "h1[3].b", "x0", "x1"} <= set(graph["names"])
    assert [len(examples) for examples in graph["stacks"]] == [4]


def test_training_is_plain_gradient_descent_with_fresh_gradients_in_every_step(monkeypatch):
    monkeypatch.setattr(demo, "STEPS", 2)
    model = nn.MLP(2, [4, 1], output="sigmoid", rng=0)
    expected = copy.deepcopy(model)
    demo.train(model)
    for _ in range(2):
        expected.zero_grad()
        demo.loss_of(expected).backward()
        for p in expected.parameters():
            p.data -= 2.0 * p.grad
    assert model.state_dict() == expected.state_dict()
