"""Killed processes, Ctrl-C, threads, a full disk: nothing is left half-done. See `python -m tests.stress`."""

import gc
import multiprocessing
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

import micrograd
from micrograd import Value, nn, viz
from micrograd.compiler import CompilerError
from tests.helpers import needs_compiler
from tests.stress import faults

CHECKOUT = Path(__file__).parents[2]

resource = pytest.importorskip("resource")
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes and signals as POSIX has them")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def in_a_process_of_its_own(test):
    """Run the test in a copy of this process, which it may limit as it likes."""
    process = multiprocessing.get_context("fork").Process(target=test)
    process.start()
    process.join()
    assert process.exitcode == 0


# Killed


def test_a_process_killed_at_any_moment_of_a_save_leaves_the_old_file_or_the_new_one():
    [told] = faults.kill(30, random.Random(1))
    assert sum(map(int, re.findall(r"'model [12]': (\d+)", told))) == 30


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


# A full disk, and a directory that cannot be written to


def fill_the_disk():
    """From now on no file of this process can grow beyond 100 bytes."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))


def give_up_privileges():
    """Be an ordinary user, since root may write anywhere."""
    if os.geteuid() == 0:
        os.setgid(65534)
        os.setuid(65534)


SQUARE = micrograd.compile(lambda x: x * x, (1.0,), backend="python")
WRITERS = {
    "model.json": lambda path: nn.save(nn.MLP(2, [8, 1], rng=2), path),
    "drawing.svg": lambda path: viz.save_svg(Value(1.0), path),
    "model.c": SQUARE.export_c,
    "model.js": SQUARE.export_js,
}


@pytest.mark.parametrize("fault", [fill_the_disk, give_up_privileges])
@pytest.mark.parametrize("name", WRITERS)
def test_where_nothing_can_be_written_the_old_file_stays(name, fault, tmp_path, monkeypatch):
    monkeypatch.setattr(viz, "to_svg", lambda root, limit: "<svg>" + 1000 * " " + "</svg>")
    directory = tmp_path / "read-only"
    directory.mkdir()
    path = directory / name
    path.write_text("before")
    for each in (path, directory, tmp_path, *tmp_path.parents[:2]):
        each.chmod(0o755)
    if fault is give_up_privileges:
        directory.chmod(0o555)

    def write():
        fault()
        with pytest.raises(OSError):
            WRITERS[name](path)

    try:
        in_a_process_of_its_own(write)
        assert path.read_text() == "before"
        assert os.listdir(directory) == [name]
    finally:
        directory.chmod(0o755)


@needs_compiler
def test_a_full_disk_is_named_where_a_library_cannot_be_built():
    def compile():
        fill_the_disk()
        with pytest.raises(CompilerError, match="cannot be built: .* File too large"):
            micrograd.compile(lambda x: x * x, (1.0,))(3.0)

    in_a_process_of_its_own(compile)
