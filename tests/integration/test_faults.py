"""Killed processes, Ctrl-C, threads, a full disk: nothing is left half-done. See `python -m tests.stress`."""

import gc
import os
import random
import re
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

import micrograd
from micrograd import Value, nn, viz
from micrograd.compiler import CompilerError
from tests.stress import faults

CHECKOUT = Path(__file__).parents[2]

resource = pytest.importorskip("resource")
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes and signals as POSIX has them")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def in_a_process_of_its_own(test):
    """Run the test in a copy of this process, which it may limit as it likes."""
    process = os.fork()
    if process == 0:
        failed = True
        try:
            test()
            failed = False
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(failed)
    assert os.waitpid(process, 0)[1] == 0


# Killed


def test_a_process_killed_at_any_moment_of_a_save_leaves_the_old_file_or_the_new_one(tmp_path):
    directory = tmp_path / "models"
    directory.mkdir()
    found = faults.kill(30, directory, random.Random(1))
    assert found.keys() <= {"model 1", "model 2", "half-way"}
    assert found["model 1"] + found["model 2"] == 30


# Interrupted


def test_ctrl_c_at_any_moment_leaves_nothing_half_done():
    """In a process of its own: a Ctrl-C may come while a tool that watches the tests holds a lock."""
    command = [sys.executable, "-m", "tests.stress", "interrupt", "15"]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    in_time = re.findall(r"^(\d+) of 15 in time", done.stdout, re.MULTILINE)
    assert len(in_time) == len(faults.BACKENDS)
    assert all(int(times) > 0 for times in in_time)


# Threads


@pytest.mark.parametrize("way", faults.WAYS)
def test_eight_threads_that_train_eight_networks_get_the_numbers_of_one(way):
    try:
        alone, at_once = faults.together(8, way)
    except CompilerError as error:
        pytest.skip(str(error))
    assert at_once == alone
    assert len(set(map(tuple, alone))) == 8
    assert gc.isenabled()


# A full disk


def fill_the_disk():
    """From now on no file of this process can grow beyond 100 bytes."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))


def test_a_full_disk_keeps_the_old_model(tmp_path):
    path = tmp_path / "model.json"
    old = nn.MLP(2, [8, 1], rng=1)
    nn.save(old, path)

    def save():
        fill_the_disk()
        with pytest.raises(OSError):
            nn.save(nn.MLP(2, [8, 1], rng=2), path)

    in_a_process_of_its_own(save)
    assert nn.load(path).state_dict() == old.state_dict()
    assert os.listdir(tmp_path) == ["model.json"]


def test_a_full_disk_keeps_the_old_drawing(tmp_path, monkeypatch):
    monkeypatch.setattr(viz, "to_svg", lambda root, limit: "<svg>" + 1000 * " " + "</svg>")
    path = tmp_path / "drawing.svg"
    path.write_text("before")

    def draw():
        fill_the_disk()
        with pytest.raises(OSError):
            viz.save_svg(Value(1.0), path)

    in_a_process_of_its_own(draw)
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["drawing.svg"]


@pytest.mark.parametrize("name", ["model.c", "model.js"])
def test_a_full_disk_keeps_the_old_code(tmp_path, name):
    path = tmp_path / name
    path.write_text("before")
    fast = micrograd.compile(lambda x: x * x, (1.0,), backend="python")

    def export():
        fill_the_disk()
        with pytest.raises(OSError):
            fast.export_c(path) if path.suffix == ".c" else fast.export_js(path)

    in_a_process_of_its_own(export)
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == [name]


def test_on_a_full_disk_compilation_goes_to_python():
    def compiled(backend):
        return micrograd.compile(lambda x: x * x, (1.0,), backend=backend)

    def compile():
        fill_the_disk()
        with pytest.raises(CompilerError):
            compiled("c")(3.0)
        assert compiled("auto")(3.0) == 9.0

    in_a_process_of_its_own(compile)


# A directory that cannot be written to


def give_up_privileges():
    """Be an ordinary user, since root may write anywhere."""
    if os.geteuid() == 0:
        os.setgid(65534)
        os.setuid(65534)


def test_a_read_only_directory_keeps_what_is_in_it(tmp_path, monkeypatch):
    monkeypatch.setattr(viz, "to_svg", lambda root, limit: "<svg/>")
    for directory in (tmp_path, *tmp_path.parents[:2]):
        directory.chmod(0o755)
    directory = tmp_path / "read-only"
    directory.mkdir()
    nn.save(nn.Neuron(2, rng=1), directory / "model.json")
    before = (directory / "model.json").read_bytes()
    directory.chmod(0o555)

    def write():
        give_up_privileges()
        with pytest.raises(PermissionError):
            nn.save(nn.Neuron(2, rng=2), directory / "model.json")
        with pytest.raises(PermissionError):
            viz.save_svg(Value(1.0), directory / "drawing.svg")

    try:
        in_a_process_of_its_own(write)
        assert (directory / "model.json").read_bytes() == before
        assert os.listdir(directory) == ["model.json"]
    finally:
        directory.chmod(0o755)


def test_where_no_cache_can_be_written_compilation_works_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "read-only"))
    (tmp_path / "read-only").mkdir(mode=0o555)

    def compile():
        give_up_privileges()
        assert micrograd.compile(lambda x: x * x, (1.0,))(3.0) == 9.0

    in_a_process_of_its_own(compile)
    assert os.listdir(tmp_path / "read-only") == []
