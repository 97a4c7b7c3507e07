"""The demo as a newcomer runs it: in a separate process, in an empty directory, with nothing installed but Python."""

import copy
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import demo
from micrograd import mean, nn

DEMO = Path(demo.__file__).resolve()
PYTHON = [sys.executable, "-S", "-E", "-B"]  # without site-packages and without variables such as PYTHONPATH
TABLE = ["x0  x1  target  prediction"] + [f"{a:2}  {b:2}  {a ^ b:6}" for a in (0, 1) for b in (0, 1)]


@pytest.fixture
def run(tmp_path):
    def run(*options, python=PYTHON, **settings):
        return subprocess.run(
            [*python, str(DEMO), *options],
            cwd=tmp_path,
            env={"PATH": ""},
            text=True,
            capture_output=True,
            timeout=60,
            **settings,
        )

    return run


def table_of(output):
    lines = output.splitlines()
    start = lines.index(TABLE[0])
    return lines[start : start + 5]


def test_the_demo_solves_xor_with_nothing_but_python(run, tmp_path):
    result = run()
    assert result.stderr == ""
    assert result.returncode == 0
    rows = table_of(result.stdout)
    assert [row[: len(expected)] for row, expected in zip(rows, TABLE, strict=True)] == TABLE
    for row in rows[1:]:
        _, _, target, prediction = row.split()
        assert abs(float(prediction) - float(target)) < 0.1
    assert "Solved: every prediction is within 0.1 of its target." in result.stdout.splitlines()
    assert (tmp_path / "xor.dot").read_text().startswith("digraph")


def test_progress_that_is_not_on_a_terminal_is_five_plain_lines_with_a_falling_loss(run):
    output = run().stdout
    losses = [float(line.split()[-1]) for line in output.splitlines() if line.startswith("step")]
    assert len(losses) == 5
    assert losses == sorted(losses, reverse=True)
    assert "\r" not in output


def test_the_drawing_names_inputs_parameters_and_prediction(run, tmp_path):
    run()
    drawing = (tmp_path / "xor.dot").read_text()
    for label in ("x0", "x1", "prediction"):
        assert label in drawing
    graph = json.loads(re.search(r'id="graph">(.*?)</script>', (tmp_path / "xor.html").read_text())[1])
    assert {"loss", "out", "out.w3", "h1[0]", "h1[3].w1", "h1[3].b", "x0", "x1"} <= set(graph["names"])
    assert [len(examples) for examples in graph["stacks"]] == [4]
    assert all(line.startswith("demo.py:") and "XOR" in line for line in graph["lines"].values())


def test_the_picture_and_the_page_need_nothing_but_python(run, tmp_path):
    output = run().stdout
    for name, start in (
        ("playground.html", "<!doctype html>"),
        ("xor.svg", "<svg"),
        ("xor.html", "<!doctype html>"),
        ("xor.dot", "digraph"),
    ):
        assert name in output
        assert (tmp_path / name).read_text().startswith(start)


def test_the_playground_comes_first(run):
    said = run("--steps", "1").stdout
    assert said.index("playground.html") < said.index("xor.svg") < said.index("xor.html")


def test_the_demo_finishes_unsolved_with_status_1(run, tmp_path):
    result = run("--steps", "0")
    assert result.returncode == 1
    assert result.stderr == ""
    assert "Not solved: not every prediction is within 0.1 of its target." in result.stdout.splitlines()
    assert (tmp_path / "xor.dot").exists()


def test_a_learning_rate_beyond_all_reason_is_unsolved_and_not_a_crash(run):
    result = run("--learning-rate", "1e308", "--steps", "20")
    assert result.returncode == 1
    assert result.stderr == ""


def test_the_same_seed_gives_the_same_output_and_another_seed_another(run):
    first, again, other = (run("--seed", seed, "--steps", "10").stdout for seed in ("3", "3", "4"))
    assert first == again
    assert first != other


def test_out_is_made_and_receives_the_drawing(run, tmp_path):
    assert run("--steps", "1", "--out", "a/b").returncode == 1
    assert (tmp_path / "a" / "b" / "xor.dot").exists()
    assert not (tmp_path / "xor.dot").exists()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--steps", "-1"),
        ("--steps", "many"),
        ("--steps", "1.5"),
        ("--seed", "x"),
        ("--learning-rate", "nan"),
        ("--learning-rate", "inf"),
        ("--learning-rate", "0"),
        ("--learning-rate", "-0.1"),
        ("--learning-rate", "fast"),
        ("--out", "file/below"),
        ("--out", "file"),
        ("--tolerance", "1"),
    ],
)
def test_a_bad_option_is_named_and_gives_status_2(run, tmp_path, option, value):
    (tmp_path / "file").write_text("in the way")
    result = run(f"{option}={value}")
    assert result.returncode == 2
    assert result.stdout == ""
    assert option in result.stderr
    assert "Traceback" not in result.stderr
    assert os.listdir(tmp_path) == ["file"]


def test_help_names_every_option_and_trains_nothing(run, tmp_path):
    result = run("--help")
    assert result.returncode == 0
    for option in ("--seed", "--steps", "--learning-rate", "--out"):
        assert option in result.stdout
    assert os.listdir(tmp_path) == []


def test_progress_on_a_terminal_is_one_line_that_updates_itself(tmp_path):
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    process = subprocess.Popen([*PYTHON, str(DEMO)], cwd=tmp_path, env={}, stdout=theirs, stderr=theirs)
    os.close(theirs)
    output = b""
    try:
        while chunk := os.read(ours, 4096):
            output += chunk
    except OSError:  # how Linux says that the other side has closed
        pass
    os.close(ours)
    assert process.wait() == 0
    lines = output.decode().replace("\r\n", "\n").split("\n")
    [progress] = [line for line in lines if "step" in line]
    updates = progress.rstrip("\r").split("\r")
    assert len(updates) > 20
    assert len({len(update) for update in updates}) == 1  # so that each covers the one before
    [curve] = [line for line in lines if line.startswith("loss from")]
    assert re.fullmatch("loss from 0.2.* to 0.000.*  █[▁▂▃▄▅▆▇█]{38}▁", curve)
    assert table_of("\n".join(lines))[1:]


def test_the_curve_is_of_ascii_where_the_terminal_has_no_blocks(monkeypatch):
    class Terminal(io.TextIOWrapper):
        def isatty(self):
            return True

    terminal = Terminal(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", terminal)
    demo.show_progress(iter([4.0, 2.0, 1.0]), 3)
    demo.show_progress(iter([]), 0)
    terminal.flush()
    assert terminal.buffer.getvalue().decode().splitlines()[-3:] == ["loss from 4 to 1  #=_", "", ""]


@pytest.fixture
def running(tmp_path):
    """A demo that would run for minutes and has said its first words."""
    command = [sys.executable, "-S", "-B", "-u", str(DEMO), "--steps", "1000000"]
    with subprocess.Popen(
        command, cwd=tmp_path, env={}, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout.readline().startswith("MLP")
        yield process
        process.kill()


def test_ctrl_c_leaves_neither_a_traceback_nor_a_file(running, tmp_path):
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate(timeout=60)
    assert (running.returncode, errors) == (130, "\n")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("options", [(), ("--help",)])
def test_a_pipe_that_is_closed_ends_the_demo_without_a_word(tmp_path, options):
    ours, theirs = os.pipe()
    os.close(ours)
    result = subprocess.run([*PYTHON, str(DEMO), *options], stdout=theirs, stderr=subprocess.PIPE, cwd=tmp_path, env={})
    os.close(theirs)
    assert (result.returncode, result.stderr) == (141, b"")


def test_without_a_standard_output_the_demo_is_silent(tmp_path):
    command = " ".join(map(shlex.quote, [*PYTHON, str(DEMO), "--steps", "1"])) + " >&-"
    result = subprocess.run(["/bin/sh", "-c", command], stderr=subprocess.PIPE, cwd=tmp_path, env={})
    assert (result.returncode, result.stderr) == (1, b"")
    assert (tmp_path / "xor.dot").exists()


@pytest.mark.parametrize("name", ["playground.html", "xor.dot", "xor.svg", "xor.html"])
def test_a_directory_in_the_place_of_a_drawing_is_named(run, tmp_path, name):
    (tmp_path / name).mkdir()
    result = run("--steps", "1")
    assert result.returncode == 2
    assert re.fullmatch(f"demo.py: error: .*'{name}'\n", result.stderr)


def test_training_is_plain_gradient_descent_with_fresh_gradients_in_every_step():
    model = nn.MLP(2, [4, 1], output="sigmoid", rng=0)
    training = demo.train(model, steps=2, learning_rate=0.5)
    next(training)
    expected = copy.deepcopy(model)
    expected.zero_grad()
    mean((expected(x) - target) ** 2 for x, target in demo.XOR).backward()
    next(training)
    for trained, p in zip(model.parameters(), expected.parameters(), strict=True):
        assert trained.data == p.data - 0.5 * p.grad


@pytest.mark.parametrize("seed", range(0, 200, 50))
def test_every_seed_solves_xor(seed, capsys):
    model = nn.MLP(2, [4, 1], activation="tanh", output="sigmoid", rng=seed)
    for _ in demo.train(model, steps=1000, learning_rate=2.0):
        pass
    assert demo.show_predictions(model)


def test_the_verdict_can_be_no(capsys):
    assert not demo.show_predictions(nn.MLP(2, [4, 1], rng=0))
