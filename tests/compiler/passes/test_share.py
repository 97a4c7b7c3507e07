"""Routines: steps that differ only in numbers become calls of one function, which compute the same."""

import os
import pickle
import shlex
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import CancelledError
from copy import copy
from io import BytesIO
from pathlib import Path

import pytest

from micrograd import Backend, Value, compile, dot, losses
from micrograd.compiler import function as function_module
from micrograd.compiler.dtype import DOUBLE
from micrograd.compiler.frontend.graph import SerializedGraph
from micrograd.compiler.ir import Accumulate, Assign, Call, Loop, Ref, Sum, Term, show
from micrograd.compiler.native import toolchain, writer
from micrograd.compiler.native.background import BackgroundTask, raise_if_abandoned
from micrograd.compiler.passes import length, program
from micrograd.compiler.passes.share import FEWEST_CALLS, RoutineCall, Routines, with_routines
from micrograd.compiler.passes.storage import allocate
from micrograd.compiler.targets.c import library_source
from micrograd.optim import SGD
from tests.benchmarks.programs import PROGRAMS
from tests.helpers import needs_compiler
from tests.kernels import everything, graph_of

CHECKOUT = Path(__file__).parents[3]


def expanded(step, routines, depth=0):
    """A step in which each call of a routine is replaced by the routine, with arguments in place of parameters."""
    if isinstance(step, Loop):
        return Loop(step.rounds, tuple(expanded(inner, routines, depth + 1) for inner in step.body))
    if not isinstance(step, RoutineCall):
        return step
    numbers = {f"n{i}": number for i, number in enumerate(step.numbers)}

    def inlined(part):
        if isinstance(part, Ref):
            base = numbers.get(part.base, Ref("", part.base, (0,) * depth))
            own = [numbers.get(stride, Ref("", stride)) for stride in part.strides]
            return Ref(part.array, base.base, (*base.strides, *(stride.base for stride in own)))
        if isinstance(part, Loop):
            return Loop(numbers.get(part.rounds, Ref("", part.rounds)).base, tuple(map(inlined, part.body)))
        if not isinstance(part, tuple):
            return part
        parts = map(inlined, part)
        return tuple(parts) if type(part) is tuple else type(part)(*parts)

    return inlined(routines[step.routine].step)


def check(kernel, routines=None):
    """Assert that calls of routines expand to the same steps; return the routines, and the steps with calls."""
    routines = Routines() if routines is None else routines
    called, [steps] = with_routines([kernel], routines)
    assert show([expanded(step, [routines[number] for number in called]) for step in steps]) == show(kernel)
    return routines, steps


def placed(kernel):
    """The kernel with its temporary arrays in storage."""
    [steps], _ = allocate(kernel, length(kernel))
    return steps


def calls(steps):
    return sum(calls(step.body) if isinstance(step, Loop) else isinstance(step, RoutineCall) for step in steps)


def causal(n):
    """Causal attention over n positions: each attends to itself and those before it."""
    ws = [Value(0.1 * i - 0.3) for i in range(4)]

    def function(xs):
        rows = [[w * x for w in ws] for x in xs]
        read = []
        for i, row in enumerate(rows):
            weights = losses.softmax([dot(row, other) for other in rows[: i + 1]])
            read += [dot(weights, column) for column in zip(*rows[: i + 1], strict=True)]
        return dot(read, read)

    return function, ([0.3 * i - 1 for i in range(n)],), ws


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    phrased = PROGRAMS[name].make(*PROGRAMS[name].small)
    graph = graph_of(phrased.first, phrased.example, phrased.parameters)
    kernel = program(graph, *everything(graph)).kernel
    check(placed(kernel))


def test_longer_attention_calls_the_same_number_of_routines_more_often():
    found = []
    for n in (12, 18):
        graph = graph_of(*causal(n))
        kernel = program(graph, *everything(graph)).kernel
        routines, steps = check(placed(kernel))
        found.append((len(routines), calls(steps)))
    assert found[0][0] == found[1][0] > 5
    assert found[1][1] > found[0][1] + 20


@pytest.mark.parametrize("batch", [1, 32])
def test_code_with_routines_agrees_with_python(batch):
    function, (xs,), ws = causal(16)
    c, python = (compile(function, (xs,), parameters=ws, backend=name, batch_size=batch) for name in ("c", "python"))
    batches = [[x + 0.01 * k for x in xs] for k in range(batch)]
    gradients = []
    for fast in (c, python):
        for w in ws:
            w.grad = 0.0
        gradients.append([fast.backward(batches), *(w.grad for w in ws)])
    assert gradients[0] == pytest.approx(gradients[1], rel=1e-12, abs=1e-12)
    graph = graph_of(function, (xs,), ws)
    source = library_source(graph, program(graph, *everything(graph)), tile=batch // 32).library
    assert source.count("routine_0(") > FEWEST_CALLS


def loop(rounds, target, base, *strides):
    term = Loop(4, (Term("+", (Ref("p", base, (*strides, 1)), Ref("x", 0, (*strides, 1)))),))
    return Loop(rounds, (Assign(Ref("y", target, (1,)), Sum((term,))),))


def test_only_what_differs_between_calls_is_a_parameter():
    [routine], steps = check([loop(5, 0, 3, 4), loop(6, 5, 3, 4), loop(7, 11, 3, 4)])
    assert [routine.fixed.count(None), len(steps)] == [2, 3]  # the rounds, and where the target begins
    assert show([routine.step]) == "for i in n0:\n    y[n1+i] = sum(p[3+4i+j] * x[4i+j] for j in 4)\n"


def test_too_few_similar_steps_stay_as_they_are():
    steps = [loop(5, 0, 3, 4), loop(6, 5, 3, 4)]
    assert with_routines([steps], Routines()) == ([], [steps])


def test_steps_with_other_innermost_strides_share_no_routine():
    steps = [Loop(4, (Assign(Ref("y", 9 * k, (k,)), Call("neg", (Ref("x", 0, (1,)),))),)) for k in range(1, 4)]
    assert with_routines([steps], Routines()) == ([], [steps])


def test_a_step_that_reads_a_variable_of_an_outer_loop_is_no_routine():
    def around(k):
        term = Loop(4, (Term("+", (Ref("p", 0, (0, 1)), Ref("v0"))),))
        return [
            Assign(Ref("v0"), Call("neg", (Ref("x", k, (1,)),))),
            *(Accumulate(Ref("g", 5 * k + i, (1,)), Sum((term,))) for i in range(3)),
        ]

    steps = [Loop(3 + k, tuple(around(k) + around(k + 1)[1:])) for k in range(2)]
    assert with_routines([steps], Routines()) == ([], [steps])
    routines, called = check([Loop(3 + k, tuple(around(k))) for k in range(3)])
    assert (len(routines), calls(called)) == (1, 3)


def counts(*kernels):
    """How many routines there are after each of these kernels."""
    routines = Routines(across_programs=True)
    return [len(check(kernel, routines)[0]) for kernel in kernels]


def test_programs_share_a_routine_that_starts_elsewhere():
    assert counts([loop(5, 0, 3, 4)], [loop(5, 7, 9, 4)]) == [1, 1]


def test_what_differs_in_a_second_program_is_a_parameter_for_the_third():
    assert counts(*([loop(n, 0, 3, 4)] for n in (5, 6, 7, 5))) == [1, 2, 2, 2]


def test_programs_share_a_routine_that_reads_constants_which_takes_their_table():
    step = Loop(4, (Assign(Ref("y", 0, (1,)), Call("*", (Ref("c", 0, (1,)), Ref("x", 0, (1,))))),))
    assert counts([step], [step]) == [1, 1]
    for across_programs in (True, False):
        routines, _ = check([step] * FEWEST_CALLS, Routines(across_programs=across_programs))
        assert [routine.takes_constants for routine in routines] == [across_programs]


def weighted(n):
    """Numbers weighted by their distance from the last: each length has its own constants."""
    ws = [Value(0.1 * i - 0.3) for i in range(4)]

    def function(xs):
        scaled = [(x * (0.07 * (len(xs) - i) + 0.3)).tanh() for i, x in enumerate(xs)]
        return dot(scaled, [w * x for w, x in zip(ws * len(xs), scaled, strict=False)])

    return function, ([0.3 * i - 1 for i in range(n)],), ws


def benchmark(name):
    """The function, the example and the parameters of a benchmark program, at its small size."""
    phrased = PROGRAMS[name].make(*PROGRAMS[name].small)
    return phrased.first, phrased.example, phrased.parameters


def test_longer_attention_needs_hardly_any_new_routines():
    kernels = []
    for n in range(8, 12):
        graph = graph_of(*causal(n))
        kernel = program(graph, *everything(graph)).kernel
        kernels.append(placed(kernel))
    first, *others = counts(*kernels)
    assert first > 20
    assert others[-1] - others[0] < 12


@needs_compiler
@pytest.mark.parametrize("precision", ["double", "single"])
@pytest.mark.parametrize("made", [causal, weighted])
def test_lengths_that_share_routines_train_as_python_does(monkeypatch, tmp_path, made, precision):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    compiled, compile_file = [], toolchain._compiled
    monkeypatch.setattr(toolchain, "_compiled", lambda *file: compiled.append(file[1:3]) or compile_file(*file))
    function, _, ws = made(4)
    start = [w.data for w in ws]
    lengths = (10, 11, 12, 10, 13, 11)
    texts = [[0.1 * i - 0.2 * (i % 3) + 0.01 * k for i in range(n)] for k, n in enumerate(lengths)]
    found = []
    for backend in Backend("c", precision=precision), "python":
        for w, number in zip(ws, start, strict=True):
            w.data = number
        fast = compile(function, (texts[0],), parameters=ws, backend=backend)
        with fast.training(SGD(ws, 0.01)) as step:
            found.append([step(texts) for _ in range(3)])
        found[-1] += [w.data for w in ws]
    assert found[0] == pytest.approx(found[1], rel=1e-12 if precision == "double" else 1e-5)
    names = [name for name, _ in compiled]
    assert names.count("program") == 5  # one for each length, and the training's own loop
    assert 1 < len(names) - 5 == len(dict.fromkeys(compiled)) - 5


def trained_on_lengths(texts):
    """The losses and weights of a training on sequences of several lengths."""
    function, _, ws = causal(4)
    fast = compile(function, (texts[0],), parameters=ws, backend="c")
    with fast.training(SGD(ws, 0.01)) as step:
        losses = [step(texts) for _ in range(3)]
    return [*losses, *(w.data for w in ws)]


@pytest.fixture
def processes(monkeypatch, tmp_path):
    """The writing processes started so far: one starts however little there is to write. The cache is empty."""
    started, start = [], subprocess.Popen

    def popen(command, **options):
        process = start(command, **options)
        if command[1] == "-c":
            started.append(process)
        return process

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(function_module, "MUCH_TO_WRITE", 0)
    monkeypatch.setattr(subprocess, "Popen", popen)
    return started


TEXTS = [[0.1 * i - 0.2 * (i % 3) + 0.01 * k for i in range(n)] for k, n in enumerate((8, 11, 10, 8, 9))]


@needs_compiler
def test_c_from_another_process_trains_to_the_same_numbers(monkeypatch, processes, tmp_path):
    found = trained_on_lengths(TEXTS)
    [process] = processes
    assert process.returncode is not None  # it has ended
    assert process.stdin.closed
    assert trained_on_lengths(TEXTS) == found  # from the cache
    assert len(processes) == 1
    monkeypatch.setattr(function_module, "MUCH_TO_WRITE", 1 << 60)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another"))
    assert trained_on_lengths(TEXTS) == found
    assert len(processes) == 1


@needs_compiler
@pytest.mark.parametrize("n_replies", [0, 1, 2])
def test_if_the_writing_process_is_killed_this_one_writes_the_rest(monkeypatch, processes, tmp_path, n_replies):
    ask, asked = writer.LibraryWriter._ask, []

    def ask_then_kill(self, job):
        asked.append(job)
        if len(asked) > n_replies:
            ask(self, job)
            self._process.kill()
        return ask(self, job)

    monkeypatch.setattr(writer.LibraryWriter, "_ask", ask_then_kill)
    found = trained_on_lengths(TEXTS)
    assert len(asked) == n_replies + 1
    assert processes[0].returncode == -signal.SIGKILL
    monkeypatch.setattr(function_module, "MUCH_TO_WRITE", 1 << 60)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another"))
    assert trained_on_lengths(TEXTS) == found


@needs_compiler
@pytest.mark.parametrize("executable", ["/no/such/python", "", None])
def test_this_process_writes_the_c_if_no_other_can_start(monkeypatch, processes, executable):
    monkeypatch.setattr(sys, "executable", executable)
    assert len(trained_on_lengths(TEXTS)) == 3 + len(causal(4)[2])
    assert not processes


def test_a_forked_child_writes_the_c_itself(monkeypatch):
    graph = SerializedGraph(graph_of(*causal(4)))
    expected = writer.c_source(graph.graph(), "backward", 0, DOUBLE, routines=Routines(across_programs=True))
    # The lock is held, as by a thread that waits for the process.
    with writer.LibraryWriter(uses_process=True) as with_process, with_process._lock:
        monkeypatch.setattr(os, "getpid", lambda: -1)
        source = with_process.source(graph, "backward", 0, DOUBLE, {}, ())
    assert source.text == expected.library
    assert len(source.objects) == 1


@pytest.mark.parametrize("writes", [False, True])
def test_a_forked_child_that_leaves_the_block_does_not_end_its_parents_process(monkeypatch, writes):
    graph = SerializedGraph(graph_of(*causal(4)))
    with writer.LibraryWriter(uses_process=True) as with_process:
        with_process.source(graph, "backward", 0, DOUBLE, {}, ())
        process, in_child = with_process._process, copy(with_process)
        with monkeypatch.context() as patch, in_child:
            patch.setattr(os, "getpid", lambda: -1)
            if writes:
                in_child.source(graph, "backward", 0, DOUBLE, {}, ())
        assert process.poll() is None
    assert process.returncode is not None


def test_c_written_after_the_process_failed_links_none_of_its_routines():
    graphs = [SerializedGraph(graph_of(*each)) for each in (causal(4), benchmark("LSTM"))]

    def source(library_writer, graph, tile=0):
        return library_writer.source(graph, "backward", tile, DOUBLE, {}, ())

    with writer.LibraryWriter(uses_process=True) as with_process, writer.LibraryWriter(uses_process=False) as without:
        source(with_process, graphs[0])
        with_process._process.kill()
        found, expected = source(with_process, graphs[1]), source(without, graphs[1])
        assert found.text == expected.text
        assert [each._text for each in found.objects] == [each._text for each in expected.objects]
        tiled = writer.c_source(graphs[1].graph(), "backward", 1, DOUBLE).library
        assert source(with_process, graphs[1], tile=1) == toolchain.Source(tiled)


def test_leaving_the_block_terminates_a_process_that_hangs(monkeypatch):
    monkeypatch.setattr(writer, "SERVER_CODE", "import time; time.sleep(3600)  # {path} {module}")
    graph, found = SerializedGraph(graph_of(*causal(4))), []
    with writer.LibraryWriter(uses_process=True) as with_process:
        thread = threading.Thread(
            target=lambda: found.append(with_process.source(graph, "backward", 0, DOUBLE, {}, ()))
        )
        thread.start()
        while with_process._process is None:
            time.sleep(0.01)
    thread.join()
    assert found[0].objects


@needs_compiler
@pytest.mark.parametrize("replied", [0, 1, 2])
def test_after_an_error_the_rest_is_written_when_it_is_asked_for(monkeypatch, processes, replied):
    ask, may_go_on, asked = writer.LibraryWriter._ask, threading.Event(), []

    def ask_some(self, job):
        asked.append(job)
        if len(asked) > replied:
            may_go_on.wait()
        return ask(self, job)

    def function(xs):
        if len(xs) == 9 and not may_go_on.is_set():
            while len(asked) <= replied:
                time.sleep(0.01)
            raise KeyboardInterrupt
        return sums(xs)

    sums, _, ws = causal(4)
    monkeypatch.setattr(writer.LibraryWriter, "_ask", ask_some)
    fast = compile(function, (TEXTS[0],), parameters=ws, backend="c")
    with fast.training(SGD(ws, 0.01)) as step:
        with pytest.raises(KeyboardInterrupt):
            step(TEXTS)
        may_go_on.set()
        monkeypatch.setattr(function_module, "MUCH_TO_WRITE", 1 << 60)
        losses = [step(TEXTS) for _ in range(3)]
    assert [*losses, *(w.data for w in ws)] == trained_on_lengths(TEXTS)
    assert len(processes) <= 1


def test_a_thread_does_not_write_what_nobody_waits_for():
    graph = SerializedGraph(graph_of(*causal(4)))
    with writer.LibraryWriter(uses_process=False) as library_writer:
        pass
    task = BackgroundTask(lambda: library_writer.source(graph, "backward", 0, DOUBLE, {}, ()))
    assert isinstance(task._future.exception(), CancelledError)
    assert task.result().objects  # which the main thread has written


@pytest.mark.parametrize("how", ["frozen", "embedded"])
def test_a_program_that_is_no_plain_python_is_not_started_again(monkeypatch, how):
    if how == "frozen":
        monkeypatch.setattr(sys, "frozen", True, raising=False)
    else:
        monkeypatch.setenv(writer.IN_WRITER, "1")
    assert not writer.LibraryWriter(uses_process=True).uses_process


def test_the_process_knows_what_it_is(monkeypatch):
    monkeypatch.setattr(writer, "SERVER_CODE", "import os; os.write(1, os.environ['MICROGRAD_IN_WRITER'].encode())")
    with writer.LibraryWriter(uses_process=True) as with_process:
        with pytest.raises(EOFError):
            with_process._ask(())
        assert with_process._process.wait() == 0


def test_what_a_sitecustomize_prints_is_no_reply(monkeypatch, processes, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("print('B' * 5000, end='')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(writer.log, "info", None)  # which a failure would call
    graph = SerializedGraph(graph_of(*causal(4)))
    with writer.LibraryWriter(uses_process=True) as with_process:
        for _ in range(2):
            assert with_process.source(graph, "backward", 0, DOUBLE, {}, ()).objects
    assert len(processes) == 1


def test_serve_replies_to_each_job_in_order():
    graphs = [graph_of(*causal(n)) for n in (4, 5)]
    jobs, replies = BytesIO(), BytesIO()
    for graph, tile in zip(graphs * 2, (0, 0, 1, 1), strict=True):
        job = writer.writer_digest(), SerializedGraph(graph).pickled, "backward", tile, DOUBLE, ()
        pickle.dump(job, jobs)
    jobs.seek(0)
    writer.serve(jobs, replies)
    replies.seek(0)
    routines = Routines(across_programs=True)
    for graph, tile in zip(graphs * 2, (0, 0, 1, 1), strict=True):
        known = None if tile else routines
        expected = writer.c_source(graph, "backward", tile, DOUBLE, routines=known)
        assert replies.read(len(writer.BEFORE_REPLY)) == writer.BEFORE_REPLY
        assert pickle.load(replies) == (expected, len(routines))
    assert not replies.read()


def test_serve_refuses_a_job_from_other_code():
    jobs = BytesIO(pickle.dumps(("another digest", b"", "backward", 0, DOUBLE, ())))
    with pytest.raises(ValueError, match="differ from those"):
        writer.serve(jobs, BytesIO())


def test_a_forked_child_compiles_what_a_thread_of_its_parent_was_compiling(monkeypatch, tmp_path):
    def compiled(directory, name, *others):
        (directory / f"{name}.o").write_bytes(b"code")
        return directory / f"{name}.o"

    monkeypatch.setattr(toolchain, "_compiled", compiled)
    object_file = toolchain.ObjectFile("")
    with object_file._lock:  # as while a thread compiles it
        child = os.fork()
        if not child:
            signal.alarm(60)  # instead of waiting for the lock forever
            os._exit(Path(object_file.write_to(tmp_path, "object", [])).read_bytes() != b"code")
        assert os.waitpid(child, 0)[1] == 0
        monkeypatch.setattr(os, "getpid", lambda: child)  # where coverage is measured
        assert Path(object_file.write_to(tmp_path, "object", [])).read_bytes() == b"code"


@needs_compiler
def test_a_ctrl_c_in_the_terminal_ends_no_compiler(monkeypatch, tmp_path):
    compiler, script = toolchain.require_compiler(), tmp_path / "cc"
    interrupt = "trap '' INT\nkill -INT 0"  # all of its process group, as a terminal does
    script.write_text(f'#!/bin/sh\n{interrupt}\nexec {shlex.join(compiler.command)} "$@"\n')
    script.chmod(0o700)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(toolchain, "find_compiler", lambda *_: compiler._replace(command=(str(script),)))
    assert compile(lambda x: x.sin(), (1.0,), backend="c")(0.0) == 0.0


def test_a_forked_child_does_the_work_that_a_thread_of_its_parent_has_begun(monkeypatch):
    may_end = threading.Event()

    def work():
        if threading.current_thread() is not threading.main_thread():
            may_end.wait()
        return threading.current_thread().name, os.getpid()

    begun = BackgroundTask(work)
    child = os.fork()
    if not child:
        os._exit(begun.result() != ("MainThread", os.getpid()))
    assert os.waitpid(child, 0)[1] == 0
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: child)  # as in the child, but where coverage is measured
        assert begun.result() == ("MainThread", child)
    may_end.set()
    assert begun.result() == ("micrograd-compiler", os.getpid())


def test_work_is_done_in_result_if_no_thread_can_start(monkeypatch):
    def start(thread):
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", start)
    done = []
    begun = BackgroundTask(lambda: done.append(1) or len(done))
    assert not done
    assert begun.result() == 1


def test_work_that_is_cancelled_is_done_in_result(monkeypatch):
    ended = threading.Thread()
    monkeypatch.setattr(threading, "main_thread", lambda: ended)

    def work():
        raise_if_abandoned()
        return threading.get_ident()

    assert BackgroundTask(work).result() == threading.get_ident()


AT_EXIT = """import os, sys, threading, time
from micrograd import Value, compile
from micrograd.compiler.native import toolchain

def ask():
    threading.main_thread().join()
    print(fast.backward([1.0] * 32))

compiler, w = toolchain.require_compiler(), Value(2.0)
toolchain.find_compiler = lambda *_: compiler._replace(command=(sys.argv[1],))
fast = compile(lambda x: w * x, (1.0,), parameters=[w], backend="c", batch_size=32)
while not os.path.exists(sys.argv[2]):
    time.sleep(0.01)
if len(sys.argv) > 3:
    threading.Thread(target=ask).start()
"""


@needs_compiler
@pytest.mark.parametrize("asked", [[], ["asked"]])
def test_the_exit_does_not_wait_for_a_compiler_in_the_background(asked, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    script = hanging(tmp_path, otherwise=toolchain.require_compiler().command)
    command = [sys.executable, "-c", AT_EXIT, script, str(tmp_path / "hung"), *asked]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=30)
    assert (done.stdout, done.stderr, done.returncode) == ("2.0\n" if asked else "", "", 0)
    assert not [*tmp_path.glob("micrograd/build-*")]


def hanging(directory, otherwise):
    """A compiler that starts a process and hangs at its first call, and does its work from the second on."""
    script, hung, ended = directory / "cc", directory / "hung", directory / "ended"
    started = f'(trap "touch {ended}" TERM; touch {hung}; sleep 60 & wait) & wait'
    script.write_text(f'#!/bin/sh\n[ -e {hung} ] && exec {shlex.join(otherwise)} "$@"\n{started}\n')
    script.chmod(0o700)
    return str(script)


@needs_compiler
@pytest.mark.parametrize("has_groups", [True, False])
def test_ctrl_c_while_a_block_is_entered_ends_the_compiler(has_groups, tmp_path, monkeypatch):
    if not has_groups:  # as on Windows
        monkeypatch.delattr(os, "killpg")
        monkeypatch.setattr(toolchain, "PROCESS_GROUP", None)
    compiler, w = toolchain.require_compiler(), Value(2.0)
    fast = compile(lambda x: w * x, (1.0,), parameters=[w], backend="c")
    optimizer = SGD([w], 0.5)
    script = hanging(tmp_path, otherwise=compiler.command)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(toolchain, "find_compiler", lambda *_: compiler._replace(command=(script,)))
    block = fast.training(optimizer)

    def press():
        while not (tmp_path / "hung").exists():
            time.sleep(0.01)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    threading.Thread(target=press).start()
    started = time.perf_counter()
    with pytest.raises(KeyboardInterrupt), block:
        pytest.fail("the block was entered")
    while has_groups and not (tmp_path / "ended").exists() and time.perf_counter() < started + 30:
        time.sleep(0.01)
    assert time.perf_counter() < started + 30
    with block as step:
        assert step([1.0]) == 2.0
    assert w.data == 1.5
