"""The training loop: `fit` trains a model on its examples for some epochs, and returns the history of its losses."""

import logging
import math
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import nullcontext
from types import NoneType
from typing import TYPE_CHECKING, Any, TextIO

from micrograd.compiler.dtype import DOUBLE, named
from micrograd.compiler.options import Backend, Options
from micrograd.compiler.stepping import OptimizerLike, Update
from micrograd.core.errors import shown
from micrograd.engine import Value
from micrograd.optim import Adam, Optimizer, Schedule
from micrograd.support.signals import interrupts_noted, set_back
from micrograd.support.trees import as_lists, flat
from micrograd.support.validation import Rng, as_list, count, examples, generator, require_attributes
from micrograd.training.history import Diverged, History, Recorder
from micrograd.training.progress import Progress, check_writable
from micrograd.training.trainer import EagerGradients, Model, Sampler, Table, Trainer

if TYPE_CHECKING:
    from micrograd.compiler.distributed.shards import Shards

log = logging.getLogger("micrograd")

Loss = Callable[[Any, Any], Any]
BACKENDS = ("eager", "auto", "python", "c")
ORDER = ", as in fit(model, loss, xs, ys)"
KINDS = {
    "model": (["__call__", "parameters"], f"a Module, or what has parameters() and can be called on an input{ORDER}"),
    "loss": (["__call__"], f"a function of a prediction and its target, such as losses.mse_loss{ORDER}"),
    "optimizer": (["step", "zero_grad", "learning_rate"], "an optimizer, such as optim.Adam(model.parameters())"),
    "schedule": (["__call__"], "a function from the number of steps to a learning rate, such as optim.constant(0.1)"),
    "progress": (["write", "isatty"], "True, False or a text stream"),
}
"""What an argument needs to have, and what it is expected to be."""


def fit(
    model: Model, loss: Loss, xs: Sequence[Any] | None = None, ys: Sequence[Any] | None = None, *, epochs: int,
    batch_size: int | None = None, optimizer: OptimizerLike | None = None, schedule: Schedule | None = None,
    validation: Table | None = None, patience: int | None = None, rng: Rng = None, progress: bool | TextIO = True,
    backend: str = "eager", snapshots: int | None = None, threads: int = 1,
    precision: str = "double", executor: Any = None, shards: int | Sequence[Callable[[], Table]] | None = None,
) -> History:  # fmt: skip
    """Train the model on the examples.

    Ctrl-C ends the training after the step that is under way; a second one raises KeyboardInterrupt at once. Exceptions
    of the model, the loss or the optimizer are passed on, and the parameters are those after the last completed step.
    Python's garbage collector is paused while there are graphs, which do not need it.

    Raises ValueError if there are no examples or parameters, an option or a rate of the schedule is out of its range,
    the first loss does not depend on the model's parameters or the optimizer has none of them, or the `check_targets`
    of the loss, which a function around the loss hides, rejects a target; TypeError if an argument is of another kind,
    the examples have no items by position, or a loss is not a number; TraceError or CompilerError if a backend is asked
    for by its name, and the model cannot be compiled for it, or there is no C compiler.

    Raises BrokenExecutor if the executor is broken, and there is no other one; and Diverged, a FloatingPointError, if a
    loss, or a parameter after a step, is infinite or NaN: its `failure` tells where the number came from, and with
    patience, the parameters are those of the epoch with the lowest validation loss. Both have the `history` so far.

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
    epochs, batch_size, rng
        The number of passes over the data; of examples in a step, by default all; what draws the order of each pass.
    optimizer
        What changes the parameters, with `step()`, `zero_grad()` and a `learning_rate`; by default an Adam of learning
        rate 0.01.
    schedule
        A function from the number of steps taken by this call to the learning rate of the next. It is called right
        before that step; with those of `optim`, compiled code takes many steps at a time.
    validation, patience
        The inputs and targets of examples that are not trained on, and the number of epochs to wait for a lower loss of
        theirs before ending the training. Unless an error other than Diverged ends it, the parameters are then set back
        to those of the epoch with the lowest.
    progress
        Where to report progress: a stream, or if True, the notebook that runs this program, else stderr. A notebook
        shows the curves of the losses and a terminal a line, which update themselves; anything else gets a line from
        time to time. Nothing is reported if False, or once the stream can no longer be written to.
    backend
        "eager" for the engine; "c" for generated code, which runs the whole training, many times as fast; "python" for
        generated code that computes the gradients; "auto" for C if there is a compiler, else for Python, or for the
        engine if the model or the loss cannot be compiled, and then the log says why.

        Compiled, a model is traced once for each shape of examples, and by a later call only if it, the loss or what
        they can read has changed, other than the parameters' numbers. It draws its random numbers only then; a number
        computed from its inputs that it keeps from one call to the next, such as a running mean, is an error; targets
        and tokens are Values: `take` selects by them. Values that the model and the loss use and the optimizer does not
        change, such as those of a frozen layer or one that the schedule sets, are read before each step, and get no
        gradients; other numbers are constants. During the training, parameters show the numbers of the latest step.
    snapshots
        The largest number of snapshots of the parameters and gradients that the history keeps, from before the first
        step to after the last, evenly spread over the epochs; none by default. Each takes 16 bytes a parameter.
    threads
        How many threads may share the examples of a step in C. No more are used than have about a millisecond of work
        each, and their gradients are added in a fixed order.
    precision
        The type that C computes with: "double", or "single" for floats, as PyTorch has them by default.
    executor
        Whose workers compute the gradients by generated code: a `concurrent.futures` Executor or what has its `submit`,
        such as Dask's `client.get_executor()`; a function that makes one, which is called again when that is broken; or
        a list of these. A step that a worker has not survived is repeated, and no example counted twice. Any worker of
        an executor may come to keep any of its shards: if the data does not fit on one machine, give a list with an
        executor for each, among which the shards are divided; those of one that is broken go to the others. What
        workers send is unpickled: use only those whose programs you would run. A Ctrl-C in a terminal reaches worker
        processes, too: fit ends as ever, and the executor is broken. What cannot be compiled is an error.
    shards
        In how many parts the examples are sent to the workers, who keep them; by default one for each. Their gradients
        are added in a fixed order: the losses are those of one process but for rounding, and for the same number of
        shards, on machines of one kind, the same each time. In place of xs and ys, a list with a function for each part
        that returns its `(xs, ys)`: it is called where they are used, and arrays of doubles, such as NumPy's
        memory-mapped ones, are used where they lie.
    """
    if backend not in BACKENDS:
        raise ValueError(f"unknown backend {backend!r}: expected one of {', '.join(BACKENDS)}")
    options = None if backend == "eager" else Options(Backend(backend, threads, precision))
    if not options and (named(precision) != DOUBLE or count("threads", threads) > 1):
        given = f"threads={threads}, precision={precision!r}"
        raise ValueError(f'backend "eager" computes in doubles and in one thread: give backend="c" with {given}')
    kinds = {"optimizer": optimizer, "schedule": schedule, "progress": None if isinstance(progress, bool) else progress}
    for name, value in {"model": model, "loss": loss, **kinds}.items():
        if name in ("model", "loss") or value is not None:
            require_attributes(name, value, *KINDS[name])
    if kinds["progress"] is not None:
        check_writable(progress)
    parameters = as_list("model.parameters()", model.parameters())
    loaded_by_workers = _check_shards(executor, shards, xs, ys, backend, threads)
    train_data = ((), ()) if loaded_by_workers else examples(xs, ys)
    if not parameters:
        raise ValueError("the model has no parameters: there is nothing to learn")
    if isinstance(optimizer, Optimizer) and set(parameters).isdisjoint(optimizer.parameters):
        raise ValueError("the optimizer has none of the model's parameters: create it with model.parameters()")
    if not loaded_by_workers and len(train_data[0]) == 0:
        raise ValueError("xs is empty: there is nothing to learn from")
    epochs, size = count("epochs", epochs), None if batch_size is None else count("batch_size", batch_size)
    validation = _checked(validation, patience)
    if check_targets := getattr(loss, "check_targets", None):
        check_targets(train_data[1], "ys")
        check_targets(validation[1] if validation else (), "validation[1]")
    history, recorder = History(), None
    if snapshots is not None:
        recorder = Recorder(history.snapshots, parameters, count("snapshots", snapshots, least=2))
    rng = generator(rng)
    for parameter in parameters:
        if (plain := as_lists(parameter.data)) is not parameter.data:
            parameter.data = plain  # a NumPy number would impose its precision
    parts = _shards(executor, shards, len(train_data[0]), precision)
    if parts and loaded_by_workers:
        train_data = parts.load(loss)
    n = len(train_data[0])
    size = min(size or n, n)
    if optimizer is None:
        optimizer = Adam(parameters, learning_rate=0.01)
    update = Update(parameters, optimizer)
    gradients = EagerGradients(model, loss, train_data, update)
    sampler = Sampler(n, size, None if loaded_by_workers and size == n else rng)  # whole shards need no order
    trainer = Trainer(gradients, update, optimizer, sampler, schedule, lambda: gradients.losses(validation or ((), ())))

    def pause(epoch: int) -> int:
        """The next epoch after which something looks at the parameters."""
        if validation:
            return epoch + 1
        return min(epochs, recorder.due(epoch)) if recorder else epochs

    best: tuple[list[Value], list[Any]] = [], []  # with patience, what was trained, as it was after the best epoch
    best_epoch, measured = 0, history.validation_losses
    with interrupts_noted() as noted:
        try:
            with Progress(progress, epochs, history) as report, parts or nullcontext():
                if options:
                    trainer = _compiled(trainer, options, parts, gradients, validation, pause, report.compiled)
                recording = recorder.recording(lambda: trainer.progress) if recorder else nullcontext()
                with trainer.block, recording:
                    while not noted and len(history.losses) < epochs and len(measured) - best_epoch != patience:
                        trainer.fetch_gradients()
                        ended = trainer.advance()
                        history.losses += [loss for loss, _ in ended]
                        history.learning_rates += [rate for _, rate in ended]
                        lately = trainer.evaluate() if ended and validation else None
                        if lately is not None:
                            measured.append(lately)
                            if not best_epoch or lately < measured[best_epoch - 1]:
                                best_epoch = len(measured)
                                trained = [] if patience is None else list(update.trained())
                                best = trained, [parameter.data for parameter in trained]
                        report.step(trainer, ended=bool(ended), validation=lately)
                        if recorder and ended:
                            recorder.epoch(trainer.epoch)
        except KeyboardInterrupt:  # of a worker or a handler of the program's own
            if len(noted) > 1:
                raise
            history.interrupted = True
        except BrokenExecutor as error:
            if not noted:  # else a Ctrl-C in a terminal has ended the workers, too
                vars(error).update(history=history)
                error.add_note("the parameters are those after the last completed step; the error has the history")
                raise
        except Diverged as error:
            history.failure = error.failure
            of_best = f"of epoch {best_epoch}, with the lowest validation loss"
            left = of_best if best[0] else "after the last completed step"
            advice = _advice([*train_data, *(validation or ())], parameters)
            error.failure.message += f": the parameters are those {left}; {advice}"
            set_back(*best)
            raise Diverged(error.failure, history) from None
        set_back(*best)
        history.interrupted |= bool(noted)
    return history


def _compiled(eager: Trainer, options: Options, shards: "Shards | None", *others: Any) -> Trainer:
    """The trainer in generated code; with "auto", the one given where the model or its loss cannot be compiled."""
    try:
        from micrograd.training.compiled import compiled  # here, since it takes longer to load than all else

        return compiled(eager, options, shards, *others)
    except Exception as error:
        if options.backend.name != "auto" or shards:
            raise
        from micrograd.compiler.frontend.tracer import users_line

        line = users_line(error.__cause__ or error)
        where = "" if line in str(error) else f" ({line})"
        log.warning("training eagerly, since the model cannot be compiled: %s%s", error, where)
        return eager


def _check_shards(executor: Any, shards: Any, xs: Any, ys: Any, backend: str, threads: int) -> bool:
    """Whether the examples are loaded by workers. Raises an error if what is given does not go together."""
    loaders = shards if isinstance(shards, (list, tuple)) else ()
    loaded_by_workers = loaders is shards
    if not loaded_by_workers and not isinstance(shards, (int, NoneType)):
        raise TypeError(
            f"shards is {shown(shards)}: expected the number of parts to split xs and ys into, or a list of functions "
            "that load one part each, in place of xs and ys"
        )
    if executor is None and shards is not None:
        raise ValueError("shards need the workers of an executor: give executor=ProcessPoolExecutor() with them")
    if executor is not None and backend == "eager":
        raise ValueError('workers run generated code: give backend="c", "python" or "auto" with an executor')
    if executor is not None and threads != 1:
        raise ValueError(f"threads is {threads}, but each worker of an executor has a single thread: leave it at 1")
    if (xs is None or ys is None) and not loaded_by_workers:
        missing = "xs and ys are" if xs is ys else "xs is" if xs is None else "ys is"
        raise TypeError(f"{missing} missing: give both xs and ys, or an executor and shards=[functions that load them]")
    if loaded_by_workers and (xs is not None or ys is not None):
        raise ValueError("shards that are loaded take the place of xs and ys: leave out one or the other")
    if loaded_by_workers and not shards:
        raise ValueError("shards is an empty list: there is nothing to learn from")
    for i, load in enumerate(loaders):
        require_attributes(f"shards[{i}]", load, ["__call__"], "a function that returns (xs, ys)")
    return loaded_by_workers


def _shards(executor: Any, shards: Any, n: int, precision: str) -> "Shards | None":
    """The examples in parts, if they are."""
    if executor is None:
        return None
    from micrograd.compiler.distributed.shards import Shards  # here, since it takes longer to load than all else

    if not isinstance(shards, (list, tuple, NoneType)):
        shards = count("shards", shards)
        if shards > n:
            raise ValueError(f"shards is {shards}, but there are only {n} examples: give shards={n} or fewer")
    return Shards(executor, shards, n, named(precision))


def _checked(validation: Table | None, patience: int | None) -> Table | None:
    """The examples to measure, by their position. Raises ValueError if they, or the patience, cannot be."""
    if patience is not None:
        count("patience", patience)
        if validation is None:
            raise ValueError("patience needs a validation loss to watch: give validation=(xs, ys) with it")
    if validation is None:
        return None
    if isinstance(validation, (tuple, list)) and len(validation) == 2:
        xs, ys = examples(*validation)
        if len(xs) > 0:
            return xs, ys
    raise ValueError("validation must be a pair (xs, ys): the inputs and targets of at least one example")


def _advice(tables: Sequence[Any], parameters: list[Value]) -> str:
    """What to do about a number that is not finite, depending on where it may come from."""
    for name, table in zip(("xs", "ys", "validation[0]", "validation[1]"), tables, strict=False):
        all_known = ((f"[{i}]", x) for i, x in enumerate(table))
        for where, example in table.known.items() if hasattr(table, "known") else all_known:  # of shards, those seen
            for x in flat(example):
                if isinstance(x, float) and not math.isfinite(x):
                    return f"{name}{where} holds {x}: leave such examples out, or replace it by a finite number"
    largest = max(abs(float(parameter.data)) for parameter in parameters)
    if largest > 1e9:  # from where no lower learning rate brings a weight back
        return f"the weights have grown to {largest:.1g}: create a new model and train it at a lower learning rate"
    return "try a lower learning rate, or inputs on a smaller scale"
