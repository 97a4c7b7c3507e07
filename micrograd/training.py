"""The training loop: `fit` shows a model its examples again and again, and returns the history of its losses."""

import gc
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import NoneType
from typing import TYPE_CHECKING, Any, Self, TextIO

from micrograd.checks import Rng, count, examples, generator, having, listed, number, row
from micrograd.engine import Value
from micrograd.history import Diverged, History, Recorder
from micrograd.interrupts import ensured, uninterrupted
from micrograd.optim import Adam, Optimizer, Schedule
from micrograd.trainers import Examples, Model, Plan, Stepper, restore, trainer

if TYPE_CHECKING:
    from micrograd.compiler.executors.shards import Shards

__all__ = ["Diverged", "History", "fit"]

Loss = Callable[[Any, Any], Any]
BACKENDS = ("eager", "auto", "python", "c")
PRECISIONS = ("double", "single")


def fit(
    model: Model,
    loss: Loss,
    xs: Sequence[Any] | None = None,
    ys: Sequence[Any] | None = None,
    *,
    epochs: int,
    batch_size: int | None = None,
    optimizer: Stepper | None = None,
    schedule: Schedule | None = None,
    validation: Examples | None = None,
    patience: int | None = None,
    rng: Rng = None,
    progress: bool | TextIO = True,
    backend: str = "eager",
    clip_grad_norm: float | None = None,
    snapshots: int | None = None,
    threads: int = 1,
    precision: str = "double",
    executor: Any = None,
    shards: int | Sequence[Callable[[], Examples]] | None = None,
) -> History:
    """Train the model on the examples.

    Ctrl-C ends the training early: the model keeps all steps it has taken, the last of them whole. Python's garbage
    collector, which graphs do not need, runs only after steps meanwhile, and is afterwards as it was.

    Whatever the model, the loss or the optimizer raises comes out as it is, and the parameters are as they were after
    the last whole step.

    Parameters
    ----------
    model
        A function of one input, with `parameters()`.
    loss
        A function of a prediction and its target that returns the loss of this one example, as most of `losses` do.
        Each step goes along the gradient of the mean over a batch.
    xs, ys
        The inputs and targets of the examples: lists, arrays or tables with a row for each. The model and the loss get
        the rows of arrays and tables as lists of Python's own numbers.
    epochs
        How often to show all examples, in a new random order each time.
    batch_size
        The number of examples in a step; all by default.
    optimizer
        What changes the parameters, with `step()`, `zero_grad()` and a `learning_rate`; by default an Adam of learning
        rate 0.01.
    schedule
        A function from the number of steps that this call has taken to the learning rate of the next. It is called
        right before that step, unless it is one of `optim`'s, with which compiled steps are taken many at a time.
    validation
        The inputs and targets of examples that are not learnt from.
    patience
        How many epochs to wait for a lower validation loss before ending the training. However it ends but by an error,
        the parameters are then set back to those of the epoch with the lowest.
    rng
        A `random.Random`, a NumPy generator or a seed for the order of the examples; by default Python's global
        generator.
    progress
        Where to tell how it goes: a stream, or if True, the notebook that runs this program, else stderr. A notebook
        gets the curves of the losses and a terminal a line, which update themselves, anything else a line from time to
        time. Nothing is told if False, or once the stream can no longer be written to.
    backend
        What takes the steps: "eager" for the engine; "c" or "python" for generated code, in which all of the training
        runs, many times as fast; "auto" for C where there is a compiler, else Python, and the engine where the model or
        the loss cannot be compiled, of which the log says why. Compiled, a model is traced once for each shape of
        examples: what it draws at random, it draws then; what it keeps from one call for the next, as a running mean,
        is no number when it is used next, which is an error; and targets and tokens are Values: `take` chooses by them.
        Meanwhile parameters show the numbers of the latest steps.
    clip_grad_norm
        What the norm of the gradients is scaled down to before each step, as by `optim.clip_grad_norm`.
    snapshots
        How many snapshots of the parameters and gradients the history keeps at most, from before the first step to
        after the last, evenly spread over the epochs; none by default. Each takes 16 bytes a parameter.
    threads
        How many share the examples of a step in C, which pays for steps of some milliseconds. Their gradients are added
        in a fixed order.
    precision
        The type that C computes with: "double", or "single" for floats, as PyTorch has them by default.
    executor
        Whose workers compute the gradients, with one of the backends for generated code: a `concurrent.futures`
        Executor or what has its `submit`, such as Dask's `client.get_executor()`; a function that makes one, which is
        called again when that is broken, as processes are by the death of one; or a list of these. A step that a worker
        has not survived is repeated, and no example counted twice. A worker keeps each shard that it has computed, and
        any worker of an executor may come to compute any of its shards: if the data does not fit on one machine, give
        a list with an executor for each machine, among which the shards are divided; those of one that is broken go to
        the others. What workers send is unpickled: use only those whose programs you would run. A Ctrl-C in a terminal
        reaches worker processes, too: fit ends as ever, and the executor is broken. With an executor, what cannot be
        compiled is an error.
    shards
        In how many parts the examples are sent to the workers, who keep them; by default one for each. Their gradients
        are added in a fixed order: the losses are those of one process but for rounding, and for the same number of
        shards, on machines of one kind, the same each time, whoever computes them. In place of xs and ys, a list with a
        function for each part that returns its `(xs, ys)`: it is called where they are used, and arrays of doubles,
        such as NumPy's memory-mapped ones, are used where they lie.

    Raises
    ------
    ValueError
        If there is nothing to learn or to learn from, or an option or a rate of the schedule is out of its range. There
        is nothing to learn where the first loss, or the optimizer, has nothing to do with the model's parameters. And
        if a target is none that the loss is for, by its `check_targets`, which a function around the loss hides.
    TypeError
        If an argument is of another kind, the examples have no items by position, as a dict has none, or a loss is not
        a number.
    TraceError, CompilerError
        If a backend is asked for by its name, and the model cannot be compiled for it, or there is no C compiler.
    BrokenExecutor
        If the executor is broken, and there is no other one. The parameters are those after the last whole step, and
        the error's `history` what there is up to there.
    Diverged
        If a loss, or a parameter after a step, is infinite or NaN: a FloatingPointError, with the `history` up to
        there, whose `failure` tells where the number came from. The parameters are those before this step.
    """
    if backend not in BACKENDS:
        raise ValueError(f"unknown backend {backend!r}: expected one of {', '.join(BACKENDS)}")
    if precision not in PRECISIONS:
        raise ValueError(f"unknown precision {precision!r}: expected {' or '.join(PRECISIONS)}")
    if precision != "double" and backend in ("eager", "python"):
        raise ValueError(f'backend {backend!r} computes in doubles: give backend="c" with precision={precision!r}')
    _check_kinds(model, loss, optimizer, schedule, progress)
    parameters = listed("model.parameters()", model.parameters())
    are_loaded = _check_shards(executor, shards, xs, ys, backend, threads)
    learnt = ((), ()) if are_loaded else examples(xs, ys)
    _check(parameters, learnt[0], are_loaded, optimizer)
    epochs, size = count("epochs", epochs), None if batch_size is None else count("batch_size", batch_size)
    validation = _checked(validation, patience)
    if check_targets := getattr(loss, "check_targets", None):
        check_targets(learnt[1], "ys")
        check_targets(validation[1] if validation else (), "validation[1]")
    if clip_grad_norm is not None:
        clip_grad_norm = number("clip_grad_norm", clip_grad_norm)
    most = None if snapshots is None else count("snapshots", snapshots, least=2)
    rng, threads = generator(rng), count("threads", threads)
    parts = _shards(executor, shards, len(learnt[0]), precision)
    if parts and are_loaded:
        learnt = parts.load(loss)
    n = len(learnt[0])
    history = History()
    recorder = None if most is None else Recorder(history.snapshots, parameters, most)
    recording: Callable[[Any], AbstractContextManager[Any]] = recorder.recording if recorder else nullcontext
    plan = Plan(
        model, loss, parameters, learnt, min(size or n, n), epochs,
        Adam(parameters, learning_rate=0.01) if optimizer is None else optimizer,
        schedule, validation, rng, clip_grad_norm, recorder, threads, precision, parts,
    )  # fmt: skip
    best: list[Any] = []
    lowest, waited = math.inf, 0
    with _collector_paused() as (collect, freeze), _Progress(progress, epochs, n, history) as report:
        try:
            with parts or nullcontext(), trainer(plan, backend, report.compiled) as course, recording(course):
                freeze()  # what compiling has left
                while len(history.losses) < epochs and waited != patience:
                    course.prepare()
                    with course.at_once():
                        ended = course.advance()
                        if validation is None:
                            history.add(ended)
                    collect()
                    report.step(course.epoch, course.seen, course.loss, plan.optimizer.learning_rate)
                    if not ended:
                        continue
                    measured = course.evaluate() if validation else None
                    with uninterrupted():
                        if measured is not None:
                            history.add(ended, measured)
                            waited = 0 if measured < lowest else waited + 1
                            if measured < lowest and patience is not None:
                                best = [parameter.data for parameter in parameters]
                            lowest = min(lowest, measured)
                    report.epoch(course.epoch, *ended[-1], measured)
                    if recorder:
                        recorder.epoch(course.epoch)
        except KeyboardInterrupt:
            history.interrupted = True
        except BrokenExecutor as error:
            vars(error).update(history=history)
            error.add_note(
                "the parameters are those after the last whole step, if one was taken, and the error has the history"
            )
            raise
        except Diverged as error:
            history.failure = error.failure
            history.failure.message += f"; {_advice(plan)}"
            raise Diverged(history.failure, history) from None
        restore(parameters, best)
    return history


# What a loop has to look after

IMMORTAL = 1000  # objects, more than CPython 3.12 by itself freezes; a program that freezes has several thousand
_COLLECTOR = threading.Lock()  # lest one thread enables it between another's look at it and its pause


@contextmanager
def _collector_paused() -> Iterator[tuple[Callable[[], None], Callable[[], None]]]:
    """Pause the garbage collector, whose search for cycles takes longer than all else where millions of nodes live.

    The first of what comes out is to be called after each step. It collects what this step has left, next to nothing
    unless the loss makes cycles; and what is left of earlier steps once there is a quarter more of it, which is
    Python's own rule. What was there before is frozen, and so takes no time; so is all there is when the second is.
    """
    enabled = froze = False
    new, old = 0, 0

    def collect() -> None:
        nonlocal new, old
        new += gc.get_count()[0] - gc.collect(0)
        if new > max(10_000, old // 4):
            gc.collect()
            new, old = 0, len(gc.get_objects())

    def leave() -> None:
        with _COLLECTOR:
            if enabled:
                gc.enable()
            if froze:
                gc.unfreeze()

    with ensured(leave):
        with _COLLECTOR:
            enabled = gc.isenabled()
            gc.disable()
            froze = gc.get_freeze_count() < IMMORTAL
            if froze:
                gc.freeze()
        yield collect, gc.freeze if froze else lambda: None


class _Progress:
    """Tells how it goes: a terminal or a notebook after steps, in a line that updates itself, and a log after epochs.

    A notebook has the curves of the losses with it.
    """

    def __init__(self, stream: bool | TextIO, epochs: int, examples: int, history: History) -> None:
        self.notebook = _notebook(history, epochs) if stream is True else None
        self.stream = None if self.notebook else sys.stderr if stream is True else stream or None
        self.terminal = self.stream is not None and self.stream.isatty()
        self.interval = 0.1 if self.terminal else 0.5 if self.notebook else 1.0
        self.epochs, self.examples = epochs, examples
        self.started = time.monotonic()
        self.due = self.started
        self.validation = ""
        self.untold = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._tell()
        if self.terminal:
            self._write("\n")

    def compiled(self, shapes: int, of: int) -> None:
        """When so many of the shapes of the examples are compiled."""
        if of > 1:
            self.untold = f"compiled {shapes} of {of} shapes"
            self._tell()

    def step(self, epoch: int, seen: int, loss: float, rate: float) -> None:
        """After a step in which the epoch has come to `seen` examples: their mean loss and the learning rate."""
        if self.terminal or self.notebook:
            self._update(epoch, seen, loss, rate)

    def epoch(self, epoch: int, loss: float, rate: float, validation: float | None) -> None:
        """After an epoch: the mean losses, and the learning rate."""
        self.validation = "" if validation is None else f"  validation {validation:.4g}"
        self._update(epoch, self.examples, loss, rate)

    def _update(self, epoch: int, seen: int, loss: float, rate: float) -> None:
        """Tell it, or keep it until the next is due or all is over."""
        now = time.monotonic()
        done = (epoch - 1) * self.examples + seen
        speed = done / max(now - self.started, 1e-9)
        left = round((self.epochs * self.examples - done) / speed)
        self.untold = (
            f"epoch {epoch}/{self.epochs}  loss {loss:.4g}{self.validation}  rate {rate:.3g}  "
            f"{speed:,.0f} examples/s  {left // 60}:{left % 60:02} left"
        )
        if now >= self.due:
            self.due = now + self.interval
            self._tell()

    def _tell(self) -> None:
        if not self.untold:
            return
        if self.notebook:
            self.notebook(self.untold)
        elif self.stream and self.terminal:
            width = _columns(self.stream) - 1
            self._write("\r" + self.untold[:width].ljust(width))
        else:
            self._write(f"{self.untold}\n")
        self.untold = ""

    def _write(self, text: str) -> None:
        """Write the text, while there is someone who reads: one who goes away does not end the training."""
        if self.stream is not None:
            try:
                print(text, end="", file=self.stream, flush=True)
            except (OSError, ValueError):  # the latter if the stream is closed
                self.stream = None


def _notebook(history: History, epochs: int) -> Callable[[str], None] | None:
    """What shows a line and the losses in the notebook that runs this program, if one does."""
    if "IPython" not in sys.modules:
        return None
    from micrograd.drawing import displays  # here, since only notebooks need it

    return displays.live(history, epochs)


def _columns(terminal: TextIO) -> int:
    """The width of a terminal; 80 where it does not know it."""
    try:
        return os.get_terminal_size(terminal.fileno()).columns or 80
    except (OSError, ValueError):  # the latter if the stream is closed
        return 80


# Checks


def _check_kinds(model: Any, loss: Any, optimizer: Any, schedule: Any, progress: Any) -> None:
    """Raise TypeError if one of them is of another kind than `fit` can use."""
    having("model", model, ["__call__", "parameters"], "a Module, or what has parameters() and takes an input like one")
    having("loss", loss, ["__call__"], "a function of a prediction and its target, such as losses.mse_loss")
    if optimizer is not None:
        members = ["step", "zero_grad", "learning_rate"]
        having("optimizer", optimizer, members, "an optimizer, such as optim.Adam(model.parameters())")
    if schedule is not None:
        expected = "a function from the number of steps to a learning rate, such as optim.constant(0.1)"
        having("schedule", schedule, ["__call__"], expected)
    if progress not in (True, False, None):
        having("progress", progress, ["write", "isatty"], "True, False or a stream")


def _check(parameters: list[Value], xs: Sequence[Any], are_loaded: bool, optimizer: Stepper | None) -> None:
    """Raise ValueError if there is nothing to learn, or to learn from."""
    if not parameters:
        raise ValueError("the model has no parameters: there is nothing to learn")
    if isinstance(optimizer, Optimizer) and set(parameters).isdisjoint(optimizer.parameters):
        raise ValueError("the optimizer changes none of the model's parameters: make it from model.parameters()")
    if len(xs) == 0 and not are_loaded:
        raise ValueError("xs is empty: there is nothing to learn from")


def _check_shards(executor: Any, shards: Any, xs: Any, ys: Any, backend: str, threads: int) -> bool:
    """Whether the examples are loaded by workers. Raises an error if what is given does not go together."""
    are_loaded = isinstance(shards, (list, tuple))
    if not are_loaded and not isinstance(shards, (int, NoneType)):
        raise TypeError(
            f"shards is {shards!r:.80}: expected how many parts xs and ys are cut into, or in their place a list of "
            "functions that load a part each"
        )
    if executor is None and shards is not None:
        raise ValueError("shards are for the workers of an executor: give executor=ProcessPoolExecutor() with them")
    if executor is not None and backend == "eager":
        raise ValueError('the workers of an executor run generated code: give backend="c", "python" or "auto" with it')
    if executor is not None and threads != 1:
        raise ValueError(
            f"threads is {threads!r}, and there is an executor, whose workers have one each: leave threads at 1"
        )
    if (xs is None or ys is None) and not are_loaded:
        raise TypeError("xs and ys are missing: give both, or an executor and shards=[...], functions that load them")
    if not are_loaded:
        return False
    if xs is not None or ys is not None:
        raise ValueError("xs and ys are given, and shards that are loaded: give one of them, or the number of shards")
    if not shards:
        raise ValueError("shards is an empty list: there is nothing to learn from")
    for i, load in enumerate(shards):
        having(f"shards[{i}]", load, ["__call__"], "a function that returns (xs, ys)")
    return True


def _shards(executor: Any, shards: Any, n: int, precision: str) -> "Shards | None":
    """The examples in parts, if they are."""
    if executor is None:
        return None
    from micrograd.compiler.executors.shards import Shards  # here, since it takes longer to load than all else
    from micrograd.compiler.precision import named

    if not isinstance(shards, (list, tuple, NoneType)):
        shards = count("shards", shards)
        if shards > n:
            raise ValueError(f"shards is {shards}, and there are {n} examples: give shards={n} or fewer")
    return Shards(executor, shards, n, named(precision))


def _checked(validation: Examples | None, patience: int | None) -> Examples | None:
    """The examples to measure, by their position. Raises ValueError if they, or the patience, cannot be."""
    if patience is not None:
        count("patience", patience)
        if validation is None:
            raise ValueError("patience waits for a lower validation loss: give validation=(xs, ys) with it")
    if validation is None:
        return None
    if isinstance(validation, (tuple, list)) and len(validation) == 2:
        xs, ys = examples(*validation)
        if len(xs) > 0:
            return xs, ys
    raise ValueError("validation is a pair (xs, ys) of the inputs and targets of at least one example")


# When it has gone wrong

HUGE = 1e9  # of a weight, from which no lower learning rate brings it back


def _advice(plan: Plan) -> str:
    """What to do about a number that is not finite, by where it may come from."""
    names = "xs", "ys", "validation[0]", "validation[1]"
    for name, table in zip(names, (*plan.examples, *(plan.validation or ())), strict=False):
        for where, example in _known(table):
            for x in _floats(row(example)):
                if not math.isfinite(x):
                    return f"{name}{where} holds {x}: leave such examples out, or put a number there"
    largest = max(abs(float(parameter.data)) for parameter in plan.parameters)
    if largest > HUGE:
        return f"the weights have grown to {largest:.1g}: make the model anew, and train it at a lower learning rate"
    return "try a lower learning rate, or inputs on a smaller scale"


def _known(table: Any) -> Iterator[tuple[str, Any]]:
    """The examples in a table, each with where it is: of those in shards elsewhere, what has been seen."""
    yield from table.known.items() if hasattr(table, "known") else ((f"[{i}]", x) for i, x in enumerate(table))


def _floats(example: Any) -> Iterator[float]:
    """The floats in an example: of numbers, these alone may be infinite or NaN."""
    if isinstance(example, float):
        yield example
    elif isinstance(example, (list, tuple)):
        for branch in example:
            yield from _floats(branch)
