"""Training, `map` and `backward` on executors: the results equal those of one, whichever worker answers or fails."""

import functools
import inspect
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent import futures
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from queue import Empty, SimpleQueue

import pytest

import micrograd
from micrograd import Backend, Value, data, fit, losses, nn, optim
from micrograd.compiler import distributed as workers
from tests.helpers import has_compiler, wait_until
from tests.trainings import Line, Sums, close, plain

pytestmark = pytest.mark.usefixtures("cache")

XS, YS = data.moons(23, noise=0.1, rng=1)
ROOT = Path(__file__).parents[2]


class Processes:
    """An executor like one of processes, in one thread: what goes there is pickled, and answers come last first.

    Its workers take turns at random, each with what it has kept; `size` is how many it says it has, and so how many
    shards there are. `before` is called with the number of each task before that is run.
    """

    def __init__(self, workers=2, size=None, before=lambda i: None):
        self.before, self.kept, self._max_workers = before, [{} for _ in range(workers)], size or workers
        self.tasks, self.futures = [], []
        self._rng, self._queue = random.Random(workers), SimpleQueue()
        threading.Thread(target=self._serve, daemon=True).start()

    def submit(self, function, *arguments):
        future = Future()
        self.futures.append(future)
        self._queue.put((future, pickle.dumps((function, arguments))))
        return future

    def loaded(self):
        """How many tasks came with a program and examples."""
        return sum(kept is not None for _, kept, *_ in self.tasks)

    def _serve(self):
        while True:
            items = [self._queue.get()]
            time.sleep(0.001)  # get(timeout=0.001) once blocked for good on Python 3.12.1
            with suppress(Empty):
                while True:
                    items.append(self._queue.get_nowait())
            for item in reversed(items):
                self._carry_out(*item)

    def _carry_out(self, future, pickled):
        function, arguments = pickle.loads(pickled)
        if not future.set_running_or_notify_cancel():
            return
        workers._kept = self._rng.choice(self.kept)
        try:
            if function is workers.run_task:
                self.tasks.append(arguments)
                self.before(len(self.tasks))
            future.set_result(pickle.loads(pickle.dumps(function(*arguments))))
        except BaseException as error:
            future.set_exception(error)


@pytest.fixture(autouse=True)
def _kept(monkeypatch):
    monkeypatch.setattr(workers, "_kept", {})


def trained(model=lambda: nn.MLP(2, [4, 1], rng=1), xs=XS, ys=YS, loss=losses.mse_loss, **options):
    """The history of a training run, and what it has changed."""
    model, rng = model(), random.Random(3)
    name, precision = options.pop("backend", "c" if has_compiler() else "python"), options.pop("precision", "double")
    backend = Backend(name, precision=precision, executor=options.pop("executor", None))
    options = {"epochs": 4, "batch_size": 5, **options}
    optimizer = options.pop("optimizer", lambda p: optim.Adam(p, learning_rate=0.05))(model.parameters())
    history = fit(model, loss, xs, ys, optimizer=optimizer, rng=rng, progress=False, backend=backend, **options)
    return history, [p.data for p in model.parameters()], optimizer.state_dict(), rng.getstate()


def assert_close(ours, theirs):
    (history, *others), (expected, *others_there) = ours, theirs
    assert close([plain(history), *others], [plain(expected), *others_there])


# The same as in one process


SETTINGS = {
    "batches": {},
    "all at once": {"batch_size": None},
    "one by one": {"batch_size": 1, "epochs": 1},
    "a schedule": {"schedule": optim.cosine(0.1, 12)},
    "a schedule of the user's": {"schedule": lambda step: 0.1 / (1 + step)},
    "clipped": {"optimizer": lambda p: optim.SGD(p, 0.1, momentum=0.9, clip_grad_norm=0.1)},
    "validation": {"validation": (XS[:5], YS[:5]), "patience": 1, "epochs": 30},
    "some parameters": {"optimizer": lambda p: optim.SGD(p[2:7], 0.1)},
    "a harmless failure": {"loss": lambda x, y: (x - y) ** 2 + 1.0 / ((x * x + 1) * 1e308 * 1e308 + 3)},
}


@pytest.mark.parametrize("options", SETTINGS.values(), ids=SETTINGS)
def test_a_training_in_shards_is_that_in_one_process(options, backend):
    alone = trained(backend=backend, **options)
    several = [
        trained(backend=backend, executor=executor, **options)
        for executor in (Processes(1, 4), Processes(4), Processes(9, 4), ThreadPoolExecutor(4))
    ]
    assert_close(several[0], alone)
    assert several[0][-1] == alone[-1]
    assert all(other == several[0] for other in several)


@pytest.mark.parametrize("kind", ["fork", "spawn", "InterpreterPoolExecutor"])
def test_real_processes_and_interpreters_give_the_same_bits(kind):
    try:
        pool = getattr(futures, kind)(2) if "Pool" in kind else ProcessPoolExecutor(2, mp_context=get_context(kind))
    except (AttributeError, ValueError) as error:
        pytest.skip(f"not on this system, or not in this Python: {error}")
    with pool:
        assert trained(executor=pool) == trained(executor=Processes(2))


def test_examples_of_several_shapes_are_shared_out(backend):
    xs = [[float(i)] * (1 + i // 4) for i in range(11)]
    options = {"model": Sums, "xs": xs, "ys": [1.0] * 11, "backend": backend}
    assert_close(trained(executor=Processes(4), **options), trained(**options))


def test_workers_are_sent_once_what_they_keep():
    executor = Processes(1, size=4)
    trained(executor=executor)
    assert executor.loaded() == 4
    assert len(executor.tasks) > 50


def test_what_a_worker_has_lost_is_sent_again():
    executor = Processes(2, 3, before=lambda i: i % 7 or executor.kept[0].clear())
    assert trained(executor=executor) == trained(executor=Processes(3))
    assert executor.loaded() > 10


def test_a_process_keeps_the_latest_programs():
    for token in "abac":
        assert workers.run_task(token, ([1.0],), lambda examples: examples, ()) == ([1.0], None)
    assert list(workers._kept) == ["a", "c"]


# What goes wrong


class Mortal(Processes):
    """Breaks once it has been killed."""

    def __init__(self):
        super().__init__(3, before=self._answered)
        self._broken = False

    def kill(self):
        self._broken = True

    def _answered(self, i):
        if self._broken:
            raise BrokenExecutor("a process has died")


class MortalProcesses(ProcessPoolExecutor):
    def __init__(self):
        super().__init__(3, mp_context=get_context("fork" if hasattr(os, "fork") else "spawn"))

    def kill(self):
        os.kill(next(iter(self._processes)), signal.SIGKILL)
        wait_until(lambda: self._broken)  # else the others might do all that is left before that is noticed


@pytest.mark.parametrize("kind", [Mortal, MortalProcesses])
def test_a_broken_executor_is_an_error_with_the_history_and_training_goes_on_from_there(kind):
    model, executor, steady = nn.MLP(2, [4, 1], rng=1), kind(), lambda step: 0.05
    optimizer = optim.Adam(model.parameters())
    options = {"model": lambda: model, "optimizer": lambda parameters: optimizer, "batch_size": None}
    message = r"^the executor is broken: Broken\w+: [^;]*\nthe parameters are those after the last completed step"
    with pytest.raises(BrokenExecutor, match=message) as caught:
        trained(executor=executor, epochs=6, schedule=lambda step: (step == 2 and executor.kill()) or 0.05, **options)
    first = caught.value.history.losses
    assert isinstance(caught.value.__cause__, BrokenProcessPool if kind is MortalProcesses else BrokenExecutor)
    then = trained(executor=Processes(3), epochs=6 - len(first), schedule=steady, **options)
    expected = trained(executor=Processes(3), epochs=6, batch_size=None, schedule=steady)
    assert (len(first), first + then[0].losses, then[1]) == (2, expected[0].losses, expected[1])


def test_an_executor_that_was_shut_down_is_broken():
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    with pytest.raises(BrokenExecutor, match="the executor is broken: RuntimeError: cannot schedule .* after shutdown"):
        trained(executor=executor)


def fails(error):
    raise error


def test_an_error_of_a_worker_is_raised_here():
    with pytest.raises(OSError, match="no disk"):
        list(workers.Workers(Processes(1), OSError("no disk")).results([("token", fails, ())]))


def test_ctrl_c_ends_the_training_after_the_step_and_a_second_one_what_is_under_way(backend):
    def interrupt(i, times=1):
        if i == 7:  # the first of three tasks for the third step
            noted = inspect.getclosurevars(signal.getsignal(signal.SIGINT)).nonlocals["noted"]
            for count in range(times):
                os.kill(os.getpid(), signal.SIGINT)
                wait_until(lambda: len(noted) > count)  # noqa: B023
            wait_until(lambda: cancelled() == 2 * (times - 1))

    def cancelled():
        return sum(future.cancelled() for future in executor.futures)

    executor = Processes(1, 3, before=interrupt)
    history, parameters, *_ = trained(executor=executor, backend=backend, batch_size=None)
    expected = trained(executor=Processes(1, 3), backend=backend, batch_size=None, epochs=3)
    assert history.interrupted
    assert (history.losses, parameters) == (expected[0].losses, expected[1])
    executor = Processes(1, 3, before=functools.partial(interrupt, times=2))
    with pytest.raises(KeyboardInterrupt):
        trained(executor=executor, backend=backend, batch_size=None)
    assert cancelled() == 2


DIVERGING = {
    "a sum": {"model": lambda: Line(1e300), "loss": lambda x, y: x * y, "xs": [1.0] * 6, "ys": [1e8] * 6},
    "a parameter": {"optimizer": lambda p: optim.SGD(p, 1e308, 0.5), "xs": [[1e9, 1e9]] * 6, "ys": [1.0] * 6},
}


@pytest.mark.parametrize("options", DIVERGING.values(), ids=DIVERGING)
def test_what_diverges_does_so_as_in_one_process(options, backend):
    def error(**more):
        model = options.get("model", lambda: nn.MLP(2, [4, 1], rng=1))()
        with pytest.raises(ArithmeticError) as caught:
            trained(**{**options, "model": lambda: model, "batch_size": None, "backend": backend, **more})
        return type(caught.value), str(caught.value), [p.data for p in model.parameters()]

    assert error(executor=Processes(2, 3)) == error()


# Map and backward


class Squares:
    def __init__(self, backend):
        self.w = Value(3.0)
        self.xs, self.ys = [float(i) for i in range(20)], [0.5] * 20
        options = {"parameters": [self.w], "backend": backend}
        self.fast = micrograd.compile(lambda x, y: (self.w * x - y) ** 2, (1.0, 1.0), **options)
        self.pair = micrograd.compile(lambda x: [self.w * x, x], (1.0,), **options)

    def chunks(self, *lists, size=3):
        return (tuple(xs[i : i + size] for xs in lists) for i in range(0, 20, size))

    def backward(self, *batches, **options):
        self.w.grad = 1.0
        return self.fast.backward(*batches, **options), self.w.grad


@pytest.fixture(params=[None, Processes, lambda: ThreadPoolExecutor(3)], ids=["here", "processes", "threads"])
def executor(request):
    return request.param and request.param()


def test_backward_and_map_are_those_of_one_process(backend, executor):
    f = Squares(backend)
    expected, batch = f.backward(f.xs, f.ys), f.fast.pack(f.xs, f.ys)
    for _ in range(2):
        for batches in [(f.xs, f.ys), (batch,), (f.chunks(f.xs, f.ys),), (iter([batch]),)]:
            assert f.backward(*batches, executor=executor) == pytest.approx(expected, rel=1e-12)
        assert f.fast.map(f.xs, f.ys, executor=executor) == f.fast.map(f.xs, f.ys)
        f.w.data += 1.0
        expected = f.backward(f.xs, f.ys)


def test_a_map_of_chunks_is_an_iterator_of_lists(backend, executor):
    f = Squares(backend)
    chunks = [chunk for (chunk,) in f.chunks(f.xs)]
    assert list(f.pair.map(iter(chunks), executor=executor)) == list(map(f.pair.map, chunks))
    assert list(f.fast.map(f.chunks(f.xs, f.ys), executor=executor))[6] == f.fast.map(f.xs[18:], f.ys[18:])
    assert f.pair.map(f.xs[:2], executor=executor) == [[0.0, 0.0], [3.0, 1.0]]


def test_chunks_are_asked_for_as_there_is_room(backend):
    f, taken = Squares(backend), []
    chunks = (taken.append(i) or [float(i)] for i in range(10**9))
    results = f.pair.map(chunks, executor=Processes(2))
    assert taken == []
    assert [next(results), next(results)] == [[[0.0, 0.0]], [[3.0, 1.0]]]
    assert len(taken) == 5
    results.close()
    assert next(f.pair.map(chunks)) == [[15.0, 5.0]]


def test_an_error_in_a_chunk_leaves_gradients_and_says_where(executor):
    w = Value(1.0)
    fast = micrograd.compile(lambda x: (w * x).log(), (1.0,), parameters=[w], backend="python")
    chunks = [[1.0], [1.0, -1.0]]
    with pytest.raises(ValueError, match=r"^log\(-1.0\): .* in example 1, counted from 0") as caught:
        fast.backward(iter(chunks), executor=executor)
    assert w.grad == 0.0
    assert caught.value.__notes__ == ["in chunk 1"]
    if executor:
        with pytest.raises(ValueError) as caught:
            fast.map([1.0, -1.0], executor=executor)
        assert caught.value.__notes__[0].endswith("; the error counts them from 0")


# The engines that people run


def test_dask_goes_on_when_one_of_two_processes_is_killed(tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed", reason="pip install dask[distributed]")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    expected = trained(executor=Processes(os.cpu_count()), epochs=12)
    killed = []

    def kill(step):
        if step == 20:
            killed.append(next(iter(client.run(os.getpid).values())))
            os.kill(killed[0], signal.SIGKILL)
        return 0.05

    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, local_directory=str(tmp_path)
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        there = trained(executor=client.get_executor(pure=False), schedule=kill, epochs=12)
    assert killed
    assert there[:2] == expected[:2]


MPI = """
import os, sys
from mpi4py import MPI
from mpi4py.futures import MPIPoolExecutor
from tests.compiler.test_distributed import trained

if __name__ == "__main__":
    with MPIPoolExecutor() as executor:
        assert executor.num_workers == MPI.COMM_WORLD.size - 1 == 1
        assert executor.submit(os.getpid).result() != os.getpid()
        print(repr(trained(executor=executor)[:2]))
"""


def test_mpi_with_two_ranks(tmp_path):
    pytest.importorskip("mpi4py", reason="pip install mpi4py")
    mpiexec = shutil.which("mpiexec") or pytest.skip("there is no MPI here: apt-get install openmpi-bin")
    (tmp_path / "ranks.py").write_text(MPI)
    as_root = {f"OMPI_ALLOW_RUN_AS_ROOT{end}": "1" for end in ("", "_CONFIRM")}
    environment = {**os.environ, **as_root, "PYTHONPATH": str(ROOT), "OMPI_MCA_rmaps_base_oversubscribe": "1"}
    command = [mpiexec, "-n", "2", sys.executable, "-m", "mpi4py.futures", str(tmp_path / "ranks.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.stdout == f"{trained(executor=Processes(1))[:2]!r}\n", done.stderr


def test_an_error_names_the_chunk_that_has_too_few_arguments_and_what_it_needs(executor):
    f = Squares("python")
    with pytest.raises(ValueError, match="the function takes 2 arguments, not 1") as caught:
        f.fast.backward(iter([([1.0], [1.0]), [1.0]]), executor=executor)
    assert caught.value.__notes__ == ["in chunk 1"]
    with pytest.raises(ValueError, match="there are no examples"):
        f.fast.backward(iter([]), executor=executor)
    with pytest.raises(TypeError, match="the function returns a list"):
        f.pair.backward(iter([[1.0]]), executor=executor)


@pytest.mark.parametrize("error", [BrokenExecutor, KeyboardInterrupt])
def test_ctrl_c_that_also_reaches_workers_ends_the_training_as_usual(error):
    def interrupt(i):
        if i == 9:  # the last of three tasks for the third step
            if error is BrokenExecutor:
                os.kill(os.getpid(), signal.SIGINT)
            raise error

    history, *_ = trained(executor=Processes(1, 3, before=interrupt), batch_size=None)
    assert (history.interrupted, len(history.losses)) == (True, 2)
