"""Ctrl-C, threads, a full disk: nothing is left half-done. See `python -m tests.stress`."""

import gc
import multiprocessing
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import micrograd
from micrograd import Value
from micrograd.compiler import CompilerError
from micrograd.compiler.frontend import redirect
from micrograd.support import collector, signals
from tests.compiler.frontend.test_redirect import STATES
from tests.helpers import ctrl_c_at_each_moment, needs_compiler
from tests.stress import faults

CHECKOUT = Path(__file__).parents[2]

resource = pytest.importorskip("resource")
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes and signals as POSIX has them")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_ctrl_c_at_any_moment_leaves_nothing_half_done():
    """In a process of its own: a Ctrl-C may come while a tool that watches the tests holds a lock."""
    command = [sys.executable, "-m", "tests.stress", "interrupt", "15"]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    in_time = re.findall(r"^(\d+) of 15 in time", done.stdout, re.MULTILINE)
    assert [int(times) > 0 for times in in_time] == [True] * len(faults.BACKENDS)


@pytest.mark.parametrize("way", faults.WAYS)
def test_eight_threads_that_train_eight_networks_get_the_numbers_of_one(way):
    try:
        alone, at_once = faults.together(8, way)
    except CompilerError as error:
        pytest.skip(str(error))
    assert at_once == alone
    assert len(set(map(tuple, alone))) == 8
    assert gc.isenabled()


BLOCKS = STATES | {"unwatched": lambda value: collector.gc_paused()}


@pytest.mark.parametrize("block", ["traced", "stored", "frozen", "unwatched"])
def test_ctrl_c_at_each_moment_of_a_block_leaves_nothing_behind(block):
    for ctrl_c in ctrl_c_at_each_moment(*[module.__name__ for module in (collector, redirect, signals)]):
        value = Value(1.5)
        with ctrl_c, BLOCKS[block](value):
            pass
        assert (type(value), {*vars(Value)} & {*redirect._HOOKS}) == (Value, set())
        assert not any((redirect._blocks, redirect._tables, redirect.thread.table, redirect.GRADIENT_LOCK._is_owned()))
        assert gc.isenabled()


@needs_compiler
def test_a_full_disk_is_named_where_a_library_cannot_be_built():
    def compile():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))  # no file of this process can grow beyond 100 bytes
        with pytest.raises(CompilerError, match="cannot be built: .* File too large"):
            micrograd.compile(lambda x: x * x, (1.0,))(3.0)

    process = multiprocessing.get_context("fork").Process(target=compile)
    process.start()
    process.join()
    assert process.exitcode == 0
