"""Who takes the steps of `fit`: the engine, one after the other, or generated code, many at a time.

A trainer has a plan, and advances through it: the same examples in the same order, the same losses but for rounding,
whoever trains.
"""

import logging
import math
import random
import time
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from micrograd.checks import number, row
from micrograd.data import shuffled
from micrograd.engine import Value, mean
from micrograd.history import Diverged, Failure, Recorder
from micrograd.interrupts import entering, uninterrupted
from micrograd.optim import Optimizer, Schedule, clip_grad_norm, foreseeable

if TYPE_CHECKING:
    from micrograd.compiler import Compiled
    from micrograd.compiler.batch import Examples as Pooled
    from micrograd.compiler.executors.shards import Shards
    from micrograd.compiler.training import Training

Examples = tuple[Sequence[Any], Sequence[Any]]

log = logging.getLogger("micrograd")

PACE = 0.05  # seconds that generated code may run at once
MOST_DRAWN = 1 << 20  # examples whose order is drawn at once


class Model(Protocol):
    """What `fit` needs of a Module."""

    def __call__(self, x: Any, /) -> Any:
        """The prediction for one input."""

    def parameters(self) -> list[Value]:
        """What the optimizer may change."""


class Stepper(Protocol):
    """What `fit` needs of an optimizer."""

    learning_rate: float

    def step(self) -> None:
        """Change the parameters by their gradients."""

    def zero_grad(self) -> None:
        """Set the gradients to 0."""


@dataclass
class Plan:
    """What `fit` is asked for, checked."""

    model: Model
    loss: Callable[[Any, Any], Any]
    parameters: list[Value]
    examples: Examples
    size: int
    epochs: int
    optimizer: Stepper
    schedule: Schedule | None
    validation: Examples | None
    rng: Any
    clip_grad_norm: float | None
    recorder: Recorder | None
    threads: int
    precision: str
    shards: "Shards | None" = None

    def until(self, epoch: int) -> int:
        """The next epoch after which something may look at the parameters, if nothing does after each."""
        return min(self.epochs, self.recorder.due(epoch)) if self.recorder else self.epochs

    def sizes(self) -> list[int]:
        """The numbers of examples in the batches of an epoch."""
        whole, rest = divmod(len(self.examples[0]), self.size)
        return [self.size] * whole + [rest] * (rest > 0)


class Trainer:
    """Takes the steps of a plan with the engine.

    Attributes
    ----------
    steps
        The number of steps taken.
    parameters
        The model's, and what else the optimizer changes.
    epoch, seen, loss
        The epoch of the last one, how many examples have been seen in it, and their mean loss.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        every = [*plan.parameters, *self._changed()]
        self.parameters = list({id(parameter): parameter for parameter in every}.values())
        self.steps = self.epoch = self.seen = 0
        self.total = 0.0
        self._batches: deque[list[int]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        return None

    @property
    def loss(self) -> float:
        """The mean loss of the examples seen in this epoch."""
        return self.total / self.seen if self.seen else math.nan  # where the first step is yet to be taken

    @property
    def progress(self) -> float:
        """How many epochs have been learnt, the last of them perhaps in part."""
        return self.epoch - 1 + self.seen / len(self.plan.examples[0]) if self.epoch else 0.0

    def prepare(self) -> None:
        """Have ready what `advance` takes: what may be waited for, and interrupted by Ctrl-C."""

    def at_once(self) -> AbstractContextManager[None]:
        """A block for `advance` and for counting what it has done: here one that Ctrl-C interrupts."""
        return nullcontext()

    def advance(self) -> list[tuple[float, float]]:
        """Take a step, or several. Returns the mean loss and the last learning rate of each epoch that ends."""
        if not self._batches:
            self._batches.extend(shuffled(len(self.plan.examples[0]), self.plan.size, self.plan.rng))
        if self.plan.schedule is not None:
            self.plan.optimizer.learning_rate = self._scheduled(self.steps)
        batch = self._batches.popleft()
        return self._count([self.step(batch)], [len(batch)], [self.plan.optimizer.learning_rate])

    def evaluate(self) -> float:
        """The mean loss of the validation examples, one graph at a time."""
        assert self.plan.validation is not None
        n = len(self.plan.validation[0])
        return self._mean([_mean_loss(self.plan, self.plan.validation, [i]).data for i in range(n)])

    def step(self, batch: Sequence[int]) -> float:
        """Learn from one batch, all or nothing. Returns its loss; the graph is freed with this function's variables."""
        plan, optimizer = self.plan, self.plan.optimizer
        epoch = self.epoch + (self.seen in (0, len(plan.examples[0])))
        where = f"in epoch {epoch}, step {self.steps + 1}, at a learning rate of {float(optimizer.learning_rate)!r}"
        loss = self._backward(batch, where)
        if plan.clip_grad_norm is not None:
            scale = getattr(optimizer, "clip_scale", Optimizer.clip_scale)
            clip_grad_norm(self._changed(), plan.clip_grad_norm, scale)
        before, state = [parameter.data for parameter in self.parameters], dict(getattr(optimizer, "__dict__", {}))
        with uninterrupted():
            try:
                optimizer.step()
                for parameter in self.parameters:
                    if not math.isfinite(parameter.data):
                        raise self._diverged("a parameter", parameter.data, where, *self._gradients())
            except BaseException:
                restore(self.parameters, before)
                for name, value in state.items():
                    setattr(optimizer, name, value)
                raise
        return loss

    def _backward(self, batch: Sequence[int], where: str) -> float:
        """The loss of a batch, whose gradients the parameters have then. Raises Diverged if it is not finite."""
        batch_loss = _mean_loss(self.plan, self.plan.examples, batch)
        if not math.isfinite(batch_loss.data):
            raise self._diverged("the loss", batch_loss.data, where, *self._origin(batch_loss))
        if self.steps == 0:
            _check_dependence(batch_loss, self.plan.parameters)
        self.plan.optimizer.zero_grad()
        batch_loss.backward()
        return float(batch_loss.data)

    def _changed(self) -> Sequence[Value]:
        """The parameters that the optimizer changes, as far as it tells: in PyTorch that is a method of a model."""
        changed = getattr(self.plan.optimizer, "parameters", None)
        return changed if isinstance(changed, (list, tuple)) else self.plan.parameters

    def _scheduled(self, step: int) -> float:
        assert self.plan.schedule is not None
        return number(f"schedule({step})", self.plan.schedule(step))

    def _count(
        self, losses: Sequence[float], sizes: Sequence[int], rates: Sequence[float]
    ) -> list[tuple[float, float]]:
        """Count steps with these losses, batches and learning rates. Returns what `advance` does."""
        n = len(self.plan.examples[0])
        ended = []
        for loss, size, rate in zip(losses, sizes, rates, strict=True):
            if self.seen in (0, n):
                self.epoch, self.seen, self.total = self.epoch + 1, 0, 0.0
            self.seen += size
            self.total += loss * size
            if self.seen == n:
                ended.append((self.total / n, rate))
        self.steps += len(losses)
        return ended

    def _mean(self, losses: Sequence[Any]) -> float:
        for loss in losses:
            if not math.isfinite(loss):
                raise self._diverged("the validation loss", loss, f"after epoch {self.epoch}", "", [])
        return float(sum(losses) / len(losses))

    def _diverged(self, name: str, number: Any, where: str, origin: str, parameters: list[int]) -> Diverged:
        """The error for a number that is infinite or NaN."""
        what = f"{name} is {number!r}"
        message = f"{what} {where}: the parameters are those of the step before"
        return Diverged(Failure(self.progress, what, message, origin, parameters))

    def _origin(self, loss: Value) -> tuple[str, list[int]]:
        """The first number on the way to the loss that is not finite, and the parameters that it was made of."""
        nodes, leaves = loss._history()
        first = next(value for value in (*leaves, *nodes) if not math.isfinite(value.data))
        origin = f"{first._expression()} is {first.data!r}" if first._prev else f"an input is {first.data!r}"
        operands = set(first._prev)
        return origin, [i for i, parameter in enumerate(self.plan.parameters) if parameter in operands]

    def _gradients(self) -> tuple[str, list[int]]:
        """The gradients that are not finite, in words, and whose they are."""
        bad = [i for i, parameter in enumerate(self.plan.parameters) if not math.isfinite(parameter.grad)]
        return f"of {len(self.plan.parameters)} gradients, {len(bad)} are not finite" if bad else "", bad


class CompiledTrainer(Trainer):
    """Takes the steps of a plan with generated code.

    It takes as many steps at once as fit into a moment, after which Ctrl-C, progress and validation have their turn;
    and none beyond the end of an epoch after which something else may look at the parameters or draw random numbers.
    A schedule of the user's may do both, or change the optimizer: it is called right before its step, the only one.
    """

    def __init__(self, plan: Plan, backend: str, told: Callable[[int, int], None]) -> None:
        from micrograd.compiler import Compiled  # here, since it takes longer to load than all else
        from micrograd.compiler.training import check_rule

        super().__init__(plan)
        check_rule(plan.optimizer)
        xs, ys = plan.examples
        compiled = Compiled(
            lambda x, y: plan.loss(plan.model(x), y),
            (xs[0], ys[0]),
            parameters=self.parameters,
            backend=backend,
            batch_size=max(1, plan.size / len(plan.shards)) if plan.shards else plan.size,
            threads=plan.threads,
            precision=plan.precision,
        )
        self._training, self._learnt = self._begun(compiled, told)
        self._validated = self._training.examples(*plan.validation, told=told) if plan.validation else None
        self._block = ExitStack()
        self._pace = 1
        self._ahead = plan.schedule is None or foreseeable(plan.schedule)  # whether several steps may be taken at once
        self._ahead &= plan.shards is None
        self._tried = 0  # steps, of which one may not have been whole
        models = range(len(set(map(id, plan.parameters))))
        self._on_values = not self._training.learns(self._learnt, models)  # whether the next step is taken there
        self._drawn: tuple[Any, int] = None, 0  # the state of rng, and the epochs drawn, before the order below
        self._sizes, self._order = array("l"), array("l")  # the batches to come, as far as they are drawn

    def _begun(self, compiled: "Compiled", told: Callable[[int, int], None]) -> tuple["Training", "Pooled"]:
        """The training of what is compiled, and the examples, compiled for."""
        training = compiled.training(self.plan.optimizer, clip_grad_norm=self.plan.clip_grad_norm)  # type: ignore[arg-type]
        return training, training.examples(*self.plan.examples, size=self.plan.size, told=told)

    def __enter__(self) -> Self:
        with entering(self):
            self._block.enter_context(self._training)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with uninterrupted():
            self._block.close()
            self._draw_again()

    def at_once(self) -> AbstractContextManager[None]:
        """A block in which Ctrl-C waits, so that what is counted in it is what has been done."""
        return uninterrupted()

    def advance(self) -> list[tuple[float, float]]:
        """Take some steps. Returns the mean loss and the last learning rate of each epoch that they end."""
        if not self._sizes:
            self._draw()
        self._tried = self.steps + 1
        if self._on_values:
            return self._advance_on_values(*self._rates(1))
        rates = self._rates(min(self._pace, len(self._sizes)) if self._ahead else 1)
        sizes, losses = self._sizes[: len(rates)], array("d", bytes(8 * len(rates)))
        started = time.perf_counter()
        done = self._training.steps(self._learnt, self._order, sizes, rates, losses)
        seconds = time.perf_counter() - started
        self._pace = max(1, self._pace * 2 if seconds < PACE / 2 else self._pace // 2 if seconds > PACE else self._pace)
        self._on_values = done < len(rates)  # where it raises what it has to, or is whole after all
        return self._counted(losses[:done], rates[:done])

    def evaluate(self) -> float:
        """The mean loss of the validation examples."""
        assert self._validated is not None
        try:
            return self._mean(self._training.values(self._validated))
        except (ArithmeticError, ValueError):
            return super().evaluate()  # which raises what it has to

    def _advance_on_values(self, rate: float) -> list[tuple[float, float]]:
        self.plan.optimizer.learning_rate = rate
        loss = self.step(self._order[: self._sizes[0]])
        self._training.say_doubles()
        self._on_values = False
        return self._counted([loss], [rate])

    def _rates(self, n: int) -> "array[float]":
        """The learning rates of the next steps: of n of them, or up to one that the schedule has none for."""
        if self.plan.schedule is None:
            return array("d", [self.plan.optimizer.learning_rate]) * n
        rates = array("d", [self._scheduled(self.steps)])
        with suppress(Exception):  # which comes again when it is the first
            while len(rates) < n:
                rates.append(self._scheduled(self.steps + len(rates)))
        return rates

    def _counted(self, losses: Sequence[float], rates: Sequence[float]) -> list[tuple[float, float]]:
        """Count the steps whose batches come next, and go on to the batches after them."""
        sizes = self._sizes[: len(losses)]
        del self._sizes[: len(losses)], self._order[: sum(sizes)]
        if rates:
            self.plan.optimizer.learning_rate = rates[-1]
        return self._count(losses, sizes, rates)

    def _draw(self) -> None:
        """Draw the order of the examples in the next epoch, or the next few where nobody can tell the difference."""
        plan, n, sizes = self.plan, len(self.plan.examples[0]), self.plan.sizes()
        epochs = 1
        known = plan.rng is random or type(plan.rng) is random.Random
        if known and plan.validation is None and self._ahead:
            epochs = max(1, min(plan.until(self.epoch) - self.epoch, self._pace // len(sizes), MOST_DRAWN // n))
            self._drawn = plan.rng.getstate(), self.epoch
        self._order = self._training.shuffled(n, epochs, plan.rng)
        self._sizes = array("l", sizes) * epochs

    def _draw_again(self) -> None:
        """Leave `rng` as if only the epochs that have begun had been drawn."""
        state, before = self._drawn
        if state is not None and self._sizes:
            self.plan.rng.setstate(state)
            begun = -(-max(self._tried, self.steps) // len(self.plan.sizes())) - before
            self._training.shuffled(len(self.plan.examples[0]), max(1, begun), self.plan.rng)


class ShardedTrainer(CompiledTrainer):
    """Takes the steps of a plan by gradients that come from where its examples lie.

    It waits for them before each step, which is then taken as any other.
    """

    def _begun(self, compiled: "Compiled", told: Callable[[int, int], None]) -> tuple["Training", "Pooled"]:
        assert self.plan.shards is not None
        (xs, ys), size = self.plan.examples, self.plan.size
        self._shards = self.plan.shards
        self._gathered, known = self._shards.gathered(compiled, lambda: compiled._examples((xs, ys), size, told), told)
        training = self._gathered.training(self.plan.optimizer, clip_grad_norm=self.plan.clip_grad_norm)  # type: ignore[arg-type]
        return training, known

    def prepare(self) -> None:
        """Gather the gradients of the next step."""
        if not self._sizes:
            self._draw()
        self._tried = self.steps + 1
        self._rate = self._rates(1)
        if not self._on_values:
            self._gather()
            self._on_values = not math.isfinite(self._loss)
        if self._on_values:
            self._gather()

    def advance(self) -> list[tuple[float, float]]:
        """Take the step. Returns the mean loss and the learning rate of the epoch that it ends."""
        if self._on_values:
            return self._advance_on_values(*self._rate)
        losses = array("d", [0.0])
        done = self._training.steps(self._gathered.examples, None, array("l", [1]), self._rate, losses)
        self._on_values = done == 0  # by a parameter that is not finite; then the next step is this one
        return self._counted(losses[:done], self._rate[:done])

    def _gather(self) -> None:
        from micrograd.compiler.executors.worker import gradient, on_values

        batch = self._order[: self._sizes[0]]
        do = on_values if self._on_values else gradient
        sums = self._shards.sums(do, self._training.numbers(), batch, self.plan.size)
        self._loss, self._failed = self._gathered.gather(sums, self._sizes[0])

    def _backward(self, batch: Sequence[int], where: str) -> float:
        xs, ys = self.plan.examples
        if self._failed:
            k, number, arguments = self._failed
            for table, argument in zip((xs, ys), arguments, strict=True):
                getattr(table, "known", {})[f"[{number}] of shard {k}"] = argument
            loss = self.plan.loss(self.plan.model(arguments[0]), arguments[1])
            origin = self._origin(loss) if not math.isfinite(loss.data) else ("", [])
            raise self._diverged("the loss", self._loss, where, *origin)
        if not math.isfinite(self._loss):
            raise self._diverged("the loss", self._loss, where, f"the sum of finite losses is {self._loss!r}", [])
        if self.steps == 0:
            _check_dependence(self.plan.loss(self.plan.model(row(xs[0])), row(ys[0])), self.plan.parameters)
        self.plan.optimizer.zero_grad()
        for parameter, gradient in zip(self.parameters, self._gathered.total, strict=True):
            parameter.grad += gradient
        return self._loss

    def _draw(self) -> None:
        if self._shards.are_loaded and self.plan.size == len(self.plan.examples[0]):
            self._sizes = array("l", self.plan.sizes())  # of all examples, which come in any order
        else:
            super()._draw()


def trainer(plan: Plan, backend: str, told: Callable[[int, int], None]) -> Trainer:
    """Who takes the steps: with "auto", the engine where the model or its loss cannot be compiled."""
    if backend == "eager":
        return Trainer(plan)
    if plan.shards:
        return ShardedTrainer(plan, backend, told)
    try:
        return CompiledTrainer(plan, backend, told)
    except Exception as error:
        if backend != "auto":
            raise
        log.warning("the training is eager, since it cannot be compiled: %s%s", error, _line(error))
        return Trainer(plan)


def _line(error: Exception) -> str:
    """Where in the user's code an error arose, unless it says so itself."""
    from micrograd.compiler.trace import users_line

    line = users_line(error.__cause__ or error)
    return "" if line in str(error) else f" ({line})"


def _mean_loss(plan: Plan, examples: Examples, batch: Sequence[int]) -> Value:
    """The mean loss of the examples at these positions."""
    xs, ys = examples
    losses = [plan.loss(plan.model(row(xs[i])), row(ys[i])) for i in batch]
    try:
        return mean(losses)
    except TypeError as error:
        raise TypeError(f"the loss of an example is one number: {error}") from None


def restore(parameters: list[Value], numbers: list[Any]) -> None:
    """Set the parameters back to the numbers, if there are any."""
    with uninterrupted():
        for parameter, number in zip(parameters, numbers, strict=False):
            parameter.data = number


def _check_dependence(loss: Value, parameters: list[Value]) -> None:
    """Raise ValueError if a loss, unless it is 0 already, does not depend on any of the parameters."""
    _, leaves = loss._history()
    if loss.data != 0 and set(parameters).isdisjoint(leaves):
        raise ValueError(
            "the loss does not depend on the model's parameters: compute it from the prediction, a Value, and not from "
            "its .data"
        )
