"""Builds in the background: who does the work, and what ends a compiler that runs while Python goes on."""

import os
import shlex
import signal
import subprocess
import sys
import threading
from pathlib import Path
from unittest.mock import Mock

import pytest

from micrograd import Value, compile
from micrograd.compiler.native import toolchain
from micrograd.optim import SGD
from tests.helpers import needs_compiler, wait_until

CHECKOUT = Path(__file__).parents[3]


CTRL_C = """import os, signal, sys
from micrograd import compile
from micrograd.compiler.native import toolchain

signal.signal(signal.SIGINT, lambda *_: print("Ctrl-C"))
compiler = toolchain.require_compiler()
toolchain.find_compiler = lambda *_: compiler._replace(command=(sys.argv[1],))
os.environ["GROUP"] = str(os.getpid())
print(compile(lambda x: x.sin(), (1.0,), backend="c")(0.0))
"""


@needs_compiler
def test_a_ctrl_c_in_the_terminal_ends_no_compiler(monkeypatch, tmp_path):
    script = tmp_path / "cc"
    script.write_text(f'#!/bin/sh\nkill -INT -$GROUP\nexec {shlex.join(toolchain.require_compiler().command)} "$@"\n')
    script.chmod(0o700)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    command = [sys.executable, "-c", CTRL_C, str(script)]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, start_new_session=True)
    assert (done.stdout, done.stderr) == ("Ctrl-C\n0.0\n", "")


def test_a_forked_child_builds_what_a_thread_of_its_parent_has_begun():
    may_end = threading.Event()
    wait = toolchain.ahead(lambda: threading.current_thread() is threading.main_thread() or may_end.wait())
    child = os.fork()
    if not child:
        os._exit(wait() is not True)
    assert os.waitpid(child, 0)[1] == 0
    may_end.set()
    assert wait() is True


@pytest.mark.parametrize(("place", "name"), [(threading.Thread, "start"), (threading, "_daemon_threads_allowed")])
def test_build_does_the_work_itself_if_no_thread_can_start_at_shutdown_or_in_a_subinterpreter(monkeypatch, place, name):
    monkeypatch.setattr(place, name, Mock(side_effect=RuntimeError("no thread here")), raising=False)
    with toolchain.notice("waiting"):
        assert toolchain.ahead(lambda: 1)() == 1


def test_build_raises_what_failed_in_the_background():
    wait = toolchain.ahead(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        wait()


AT_EXIT = """import os, sys, time
from micrograd.compiler.native import toolchain

compiler = toolchain.require_compiler()
toolchain.find_compiler = lambda *_: compiler._replace(command=(sys.argv[1],))
toolchain.build("int answer(void) { return 42; }", early=True)
while not os.path.exists(sys.argv[2]):
    time.sleep(0.01)
"""


@needs_compiler
def test_the_exit_does_not_wait_for_a_compiler_in_the_background_and_ends_it(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    script = hanging(tmp_path, otherwise=toolchain.require_compiler().command)
    command = [sys.executable, "-c", AT_EXIT, script, str(tmp_path / "hung")]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=600)
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
    wait_until(lambda: (tmp_path / "ended").exists() and not [*tmp_path.glob("micrograd/*.c")])


def hanging(directory, otherwise):
    """A compiler that starts a process and hangs at its first call, and does its work from the second on."""
    script, hung, ended = directory / "cc", directory / "hung", directory / "ended"
    started = f'(trap "touch {ended}; exit" TERM; touch {hung}; sleep 60 & wait) & wait'
    script.write_text(f'#!/bin/sh\n[ -e {hung} ] && exec {shlex.join(otherwise)} "$@"\n{started}\n')
    script.chmod(0o700)
    return str(script)


@needs_compiler
def test_after_ctrl_c_in_a_step_that_waits_for_the_compiler_the_next_step_compiles(tmp_path, monkeypatch):
    compiler, w = toolchain.require_compiler(), Value(2.0)
    fast = compile(lambda x: w * x, (1.0,), parameters=[w], backend="c")
    optimizer = SGD([w], 0.5)
    script = hanging(tmp_path, otherwise=compiler.command)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(toolchain, "find_compiler", lambda *_: compiler._replace(command=(script,)))
    with fast.training(optimizer) as step:
        wait_until((tmp_path / "hung").exists)
        threading.Timer(0.5, signal.pthread_kill, [threading.main_thread().ident, signal.SIGINT]).start()
        with pytest.raises(KeyboardInterrupt):
            step([1.0])
        assert w.data == 2.0
        assert step([1.0]) == 2.0
    assert w.data == 1.5
