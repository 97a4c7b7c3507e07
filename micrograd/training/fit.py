"""The training loop: `fit` trains a model on its examples for some epochs, and returns the history of its losses.

A Loop takes the steps: the engine, or generated code (generated.py). Either way, the examples come in the same
order, and the losses are the same up to rounding.
"""

import logging
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import ExitStack
from typing import Any, Protocol, TextIO

from micrograd.compiler.options import Backend
from micrograd.compiler.stepping import Engine, Loop, NotFinite, OptimizerLike, Sampler
from micrograd.engine import Value
from micrograd.optim import Adam, Optimizer, Schedule, depends_on_step_only
from micrograd.support.signals import interrupts_noted, set_back
from micrograd.support.trees import as_lists, flat
from micrograd.support.validation import Rng, as_list, count, examples, generator, number, pair, require_attributes
from micrograd.training.history import Diverged, Failure, History
from micrograd.training.progress import Progress

log = logging.getLogger("micrograd")

PACE = 0.05  # seconds of steps in one call of a Loop: between them, progress is reported and Ctrl-C noticed

Loss = Callable[[Any, Any], Any]
Pair = tuple[Sequence[Any], Sequence[Any]]
ORDER = ", as in fit(model, loss, xs, ys)"
NONE, CALL = type(None), ["__call__"]
KINDS: dict[str, tuple[Any, ...]] = {
    "model": ((), [*CALL, "parameters"], f"a model with parameters() and __call__ (not forward), as an MLP{ORDER}"),
    "loss": ((), CALL, f"a function of a prediction and its target, such as losses.mse_loss{ORDER}"),
    "optimizer": (NONE, ["step", "zero_grad", "learning_rate"], "an optimizer, such as optim.Adam(model.parameters())"),
    "schedule": (NONE, CALL, "a function from the number of steps to a learning rate, such as optim.constant(0.1)"),
    "progress": (bool, ["write", "flush"], "True, False or a text stream"),
}
"""For each argument, a class that needs no check; the attributes that others must have; and how errors describe it."""


class Table:
    """Inputs and targets, by position."""

    def __init__(self, xs: Sequence[Any], ys: Sequence[Any]) -> None:
        self.xs, self.ys = xs, ys

    def __len__(self) -> int:
        return len(self.xs)

    def arguments(self, i: int) -> tuple[Any, Any]:
        """An input and its target, as numbers and nested lists."""
        return as_lists(self.xs[i]), as_lists(self.ys[i])


class Model(Protocol):
    """What `fit` needs from a Module."""

    def __call__(self, x: Any, /) -> Any:
        """The prediction for one input."""

    def parameters(self) -> list[Value]:
        """The parameters that the optimizer may change."""


def fit(
    model: Model, loss: Loss, xs: Sequence[Any], ys: Sequence[Any], *, epochs: int, batch_size: int | None = None,
    optimizer: OptimizerLike | None = None, schedule: Schedule | None = None, validation: Pair | None = None,
    patience: int | None = None, rng: Rng = None, progress: bool | TextIO = True, backend: str | Backend = "eager",
) -> History:  # fmt: skip
    """Train the model on the examples.

    Ctrl-C ends the training after the current step; a second one raises KeyboardInterrupt at once. Errors in the model,
    the loss or the optimizer are passed on, and leave the parameters as they were after the last completed step. If
    the last loss is more than a thousand times the first, the log says so.

    Raises ValueError if there are no examples or parameters, an option is out of its range, the loss rejects a target,
    or the first loss does not depend on the parameters; TypeError if an argument is of the wrong kind; TraceError or
    CompilerError if the backend cannot do it and is not "auto". Raises Diverged, a FloatingPointError, if a loss or a
    parameter becomes infinite or NaN, and BrokenExecutor if no worker is left: both have the `history`.

    Parameters
    ----------
    model, loss
        A function of one input, with `parameters()`; and a function of a prediction and its target, like most in
        `losses`, that returns the loss of this one example. A step follows the gradient of the mean over a batch.
    xs, ys
        The inputs and targets of the examples: lists, arrays or tables. The model and the loss get rows as lists.
    epochs, batch_size, rng
        How many passes to make over the data; how many examples to a step, by default all; how to shuffle each pass:
        by a seed, or by a generator, which goes on where it is.
    optimizer, schedule
        What changes the parameters, by default Adam with 0.01; and a function from the number of steps taken in this
        call to the learning rate of the next, called right before that step.
    validation, patience
        The inputs and targets of examples to measure, but not to train on; and how many epochs to wait for these to
        reach a lower loss before the training ends. With patience, all that the optimizer trains is set back to the
        epoch with the lowest loss: at the end, after Ctrl-C and after arithmetic errors such as Diverged.
    progress
        Where to report progress: a stream; or True for the notebook that runs this program, or else stderr.
    backend
        What takes the steps: a `Backend`, or its name, as for `compile`. By default it is "eager": the engine trains
        any model, but slowly. "auto" compiles the model and the loss, and the engine trains what cannot be compiled.
    """
    backend, parameters = Backend.of(backend), _checked(model, loss, optimizer, schedule, progress)
    data, measured = _examples(loss, xs, ys, validation, patience)
    epochs, n = count("epochs", epochs), len(data)
    sampler = Sampler(n, n if batch_size is None else min(n, count("batch_size", batch_size)), generator(rng))
    optimizer = Adam(parameters, learning_rate=0.01) if optimizer is None else optimizer
    engine = Engine(parameters, optimizer, example_loss(model, loss), data, measured)
    trainer = Trainer(engine, sampler, schedule, epochs, patience)
    history = trainer.history
    with interrupts_noted() as noted:
        try:
            with Progress(progress, epochs, history) as report, ExitStack() as stack:
                if backend.name != "eager":
                    from micrograd.training.generated import generated  # here, since it takes longest to load

                    trainer.loop = generated(stack, (model, loss), engine, backend, sampler, epochs)
                report.begun = time.monotonic()  # from here on, speed is measured: all is compiled
                while not noted and not trainer.is_over:
                    has_ended = trainer.advance()
                    report.step(sampler, trainer.loss, optimizer.learning_rate, has_ended)
                if patience is not None:
                    report.ending = f", parameters {trainer.set_back()}"
        except KeyboardInterrupt:  # from a worker, or the program's own handler
            if len(noted) > 1:
                raise
            history.interrupted = True
        except NotFinite as error:
            raise trainer.diverged(error.args[0]) from None
        except (BrokenExecutor, ArithmeticError) as error:  # such as OverflowError from a square in a user's loss
            if not (noted and isinstance(error, BrokenExecutor)):  # a Ctrl-C in a terminal ends the workers, too
                error.add_note(f"the parameters are those {trainer.set_back()}; the error has the history")
                vars(error).update(history=history)
                raise
        trainer.set_back()
        history.interrupted |= bool(noted)
    if history.has_grown:
        log.warning("%s; try a lower learning rate", history.summary())
    return history


class Trainer:
    """Has a `loop` take steps at the rates of a schedule, and records each epoch in a history.

    The loop is the engine, unless generated code takes its place. With patience, the numbers from after the
    epoch with the lowest validation loss are kept.
    """

    def __init__(
        self, engine: Engine, sampler: Sampler, schedule: Schedule | None, epochs: int, patience: int | None
    ) -> None:
        self.loop: Loop = engine
        self._engine, self._sampler, self.history, self._optimizer = engine, sampler, History(), engine.optimizer
        self._schedule, self._epochs, self._patience = schedule, epochs, patience
        self._total = self.loss = 0.0  # the sum and the mean of the losses of the examples seen in this epoch
        self._pace = 1  # how many steps the loop may take at a time
        self._best = 0  # the epoch with the lowest validation loss
        self._kept: tuple[Sequence[Value], Sequence[Any]] = (), ()

    @property
    def is_over(self) -> bool:
        """Whether all epochs, or the patience, have passed."""
        ended = len(self.history.losses)
        return ended == self._epochs or (self._patience is not None and ended - self._best >= self._patience)

    def advance(self) -> bool:
        """Take one or more steps, none beyond the next validation. Returns whether an epoch has ended."""
        sampler, n_before = self._sampler, len(self.history.losses)
        last = n_before + 1 if self._engine.validation else self._epochs
        rates = self._rates(min(self._pace, last * sampler.per_epoch - sampler.steps))
        started = time.perf_counter()
        losses = self.loop.take(sampler, rates)
        seconds = time.perf_counter() - started
        n = len(losses)
        self._pace = 2 * n if seconds < PACE / 2 else n if seconds < PACE else -(-n // 2)
        self._record(losses, rates)
        has_ended = len(self.history.losses) > n_before
        if has_ended and self._engine.validation:
            self._validate()
        return has_ended

    def set_back(self) -> str:
        """Set the parameters back to the best epoch, if it is kept. Returns where they are from, in words."""
        set_back(*self._kept)
        of_best = f"of epoch {self._best}, with the lowest validation loss"
        return of_best if self._kept[0] else "after the last completed step"

    def _rates(self, most: int) -> list[float]:
        """The rates of the next steps, at most `most`; only one if the schedule is a user's: it may read anything."""
        if self._schedule is None:
            return [self._optimizer.learning_rate] * most
        steps, n = self._sampler.steps, most if depends_on_step_only(self._schedule) else 1
        rates = [number(f"schedule({step})", self._schedule(step)) for step in range(steps, steps + n)]
        self._optimizer.learning_rate = rates[0]
        return rates

    def _record(self, losses: Sequence[float], rates: Sequence[float]) -> None:
        """Add up the losses of the latest steps, and record the mean of each epoch that has ended in the history."""
        n, size, per_epoch = self._sampler.n, self._sampler.size, self._sampler.per_epoch
        for step, (loss, rate) in enumerate(zip(losses, rates, strict=False), self._sampler.steps - len(losses)):
            before = step % per_epoch * size
            seen = min(before + size, n)
            self._total = loss * (seen - before) + (self._total if before else 0.0)
            self.loss = self._total / seen
            if seen == n:
                self.history.losses.append(self.loss)
                self.history.learning_rates.append(rate)

    def _validate(self) -> None:
        """Record the mean loss of the validation examples, and with patience keep the best parameters."""
        losses, found = self.loop.values(), self.history.validation_losses
        loss = float(sum(losses) / len(losses))
        if not math.isfinite(loss):
            raise NotFinite(f"the validation loss is {loss!r}")
        found.append(loss)
        if not self._best or found[-1] < found[self._best - 1]:
            self._best = len(found)
            if self._patience is not None:
                trained = list(self._engine.trained())
                self._kept = trained, [parameter.data for parameter in trained]

    def diverged(self, what: str) -> Diverged:
        """The error for a number that is not finite, a validation loss or a number in the next step. It is recorded."""
        sampler, history = self._sampler, self.history
        if self._engine.validation and len(history.losses) > len(history.validation_losses):
            where = f"after epoch {len(history.losses)}"
        else:
            epoch, rate = 1 + sampler.steps // sampler.per_epoch, float(self._optimizer.learning_rate)
            where = f"in epoch {epoch}, step {sampler.steps + 1}, at a learning rate of {rate!r}"
        message = f"{what} {where}: the parameters are those {self.set_back()}; {_advice(self._engine)}"
        history.failure = Failure(sampler.steps / sampler.per_epoch, what, message)
        error = Diverged(message)
        error.history = history
        return error


def _checked(model: Any, loss: Any, optimizer: Any, schedule: Any, progress: Any) -> list[Value]:
    """The model's parameters, their numbers turned into Python's own. Raises an error for an argument of wrong kind."""
    for (name, (kind, *other)), value in zip(KINDS.items(), (model, loss, optimizer, schedule, progress), strict=True):
        if not isinstance(value, kind):
            require_attributes(name, value, *other)
    parameters = as_list("model.parameters()", model.parameters())
    if not parameters:
        raise ValueError("the model has no parameters: each number that it learns must be a Value, as in Value(0.1)")
    if isinstance(optimizer, Optimizer) and set(parameters).isdisjoint(optimizer.parameters):
        raise ValueError("the optimizer has none of the model's parameters: create it with model.parameters()")
    for parameter in parameters:
        if type(parameter.data) is not float:
            parameter.data = as_lists(parameter.data)  # a NumPy number would impose its precision
    return parameters


def _examples(loss: Any, xs: Any, ys: Any, validation: Pair | None, patience: int | None) -> tuple[Table, Table | None]:
    """The examples to train on and the examples to measure, by position. Raises an error if they are not valid."""
    data, measured = Table(*examples(xs, ys)), None
    if patience is not None:
        count("patience", patience)
        if validation is None:
            raise ValueError("patience needs a validation loss to watch: give validation=(xs, ys) with it")
    if validation is not None:
        measured = Table(*examples(*pair(validation), names=("validation[0]", "validation[1]")))
    if check_targets := getattr(loss, "check_targets", None):
        check_targets(data.ys, "ys")
        check_targets(measured.ys if measured else (), "validation[1]")
    return data, measured


def example_loss(model: Model, loss: Loss) -> Callable[[Any, Any], Value]:
    """The loss of one example, as a function. A note on a TypeError says what `fit` expects."""

    def loss_of(x: Any, y: Any) -> Value:
        prediction = model(x)
        try:
            found = loss(prediction, y)
            return found if isinstance(found, Value) else Value(found)
        except TypeError as error:
            error.add_note("fit calls the loss with one prediction and its target, and expects a single number")
            raise

    return loss_of


def _advice(engine: Engine) -> str:
    """Advice for a number that is not finite, depending on where it may come from."""
    columns = [column for table in (engine.data, engine.validation) if table for column in vars(table).values()]
    for name, column in zip(("xs", "ys", "validation[0]", "validation[1]"), columns, strict=False):
        for i, example in enumerate(column):
            for x in flat(example):
                if isinstance(x, float) and not math.isfinite(x):
                    return f"{name}[{i}] holds {x}: leave such examples out, or replace it with a finite number"
    largest = max(abs(float(parameter.data)) for parameter in engine.parameters)
    if largest > 1e9:  # a lower learning rate will not bring such a weight back
        return f"the weights have grown to {largest:.1g}: create a new model and train it at a lower learning rate"
    return "try a lower learning rate, or inputs on a smaller scale"
