"""The Trainer of `fit`: gradients, then the update, step after step; and generated C, which takes many steps at a time.

Whoever computes, the examples come in the same order, and the losses are the same but for rounding.
"""

import logging
import math
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from micrograd.schedules import Schedule, depends_on_step_only
from micrograd.stepping import NotFinite, Update
from micrograd.training.gradients import EagerGradients, Gradients, Table
from micrograd.training.history import Diverged, Failure
from micrograd.validation import number, row

if TYPE_CHECKING:
    from micrograd.compiler.distributed.shards import Shards
    from micrograd.compiler.frontend.reach import Reach
    from micrograd.compiler.options import Options
    from micrograd.compiler.session import CompiledGradients, Training

Shuffle = Callable[[Any, Any], None]
"""Shuffles an order by a source of random numbers."""

log = logging.getLogger("micrograd")

PACE = 0.05  # seconds that generated code may run at once


class Sampler:
    """Draws batches of examples: in each epoch all of them, in a new random order, or without `rng` all at once.

    `position` is how many examples of `order` have been taken: all of them, where the next epoch has not been shuffled.
    """

    def __init__(self, n: int, size: int, rng: Any) -> None:
        self.n, self.size, self.rng = n, size, rng
        self.order = array("q", range(n))
        self.position = n
        self.batches = -(-n // size)

    @property
    def left(self) -> int:
        """The number of batches left in this epoch."""
        return -(-(self.n - self.position) // self.size)

    def draw(self, shuffle: Shuffle | None = None) -> Sequence[int]:
        """The next batch, for whose epoch the examples are shuffled if it is the first: by `rng`, or as it would."""
        if self.rng is None:
            return range(self.n)
        if self.position == self.n:
            self.position = 0
            if shuffle is not None:
                shuffle(self.order, self.rng)
            else:
                order = list(range(self.n))
                self.rng.shuffle(order)
                self.order = array("q", order)
        return self.order[self.position : self.position + self.size]


@dataclass(eq=False, repr=False)
class Trainer:
    """Takes one step after the other: computes the gradients of a batch, then updates the parameters, or neither.

    The steps are to be taken in the `block`. `steps` is the number of those taken, `epoch` that of the last one, and
    `seen` the number of examples seen in it.
    """

    gradients: Gradients
    update: Update
    sampler: Sampler
    schedule: Schedule | None
    validation_losses: Callable[[], list[float]]
    block: AbstractContextManager[Any] = field(default_factory=nullcontext)

    def __post_init__(self) -> None:
        self.optimizer = self.update.optimizer
        self.steps = self.epoch = self.seen = 0
        self._total = 0.0  # of the losses of the examples seen in this epoch
        self._ready = 0.0  # the loss whose gradients are ready

    @property
    def loss(self) -> float:
        """The mean loss of the examples seen in this epoch."""
        return self._total / self.seen if self.seen else math.nan  # where the first step is yet to be taken

    @property
    def progress(self) -> float:
        """The number of epochs trained, the last of them perhaps in part."""
        return self.epoch - 1 + self.seen / self.sampler.n if self.epoch else 0.0

    def fetch_gradients(self) -> None:
        """Compute the gradients of the next step: what takes long, and Ctrl-C may interrupt."""
        batch = self._begin_step()
        with self._diverging():
            self._ready = self.gradients(batch)

    def advance(self) -> list[tuple[float, float]]:
        """Take the step, or several, and count them; to be called uninterrupted.

        Returns the mean loss and the last learning rate of each epoch that ends.
        """
        with self._diverging():
            self.update()
        self.gradients.warn_eager_step()
        return self._count([self._ready], [self.optimizer.learning_rate])

    def evaluate(self) -> float:
        """The mean loss of the validation examples."""
        losses = self.validation_losses()
        for loss in losses:
            if not math.isfinite(loss):
                what = f"the validation loss is {loss!r}"
                raise Diverged(Failure(self.progress, what, f"{what} after epoch {self.epoch}", "", []))
        return float(sum(losses) / len(losses))

    def _begin_step(self, shuffle: Shuffle | None = None) -> Sequence[int]:
        """Draw the batch of the next step, and set its learning rate."""
        batch = self.sampler.draw(shuffle)
        if self.schedule is not None:
            self.optimizer.learning_rate = self._rate_of(self.steps)
        return batch

    def _rate_of(self, step: int) -> float:
        assert self.schedule is not None
        return number(f"schedule({step})", self.schedule(step))

    def _count(self, losses: Sequence[float], rates: Sequence[float]) -> list[tuple[float, float]]:
        """Count steps with these losses and learning rates. Returns what `advance` does."""
        n, size = self.sampler.n, self.sampler.size
        epoch, seen, total = self.epoch, self.seen, self._total
        ended = []
        for loss, rate in zip(losses, rates, strict=True):
            if seen in (0, n):
                epoch, seen, total = epoch + 1, 0, 0.0
            taken = min(size, n - seen)
            seen += taken
            total += loss * taken
            if seen == n:
                ended.append((total / n, rate))
        self.steps += len(losses)
        self.epoch, self.seen, self._total = epoch, seen, total
        if losses:
            self.sampler.position = seen
        return ended

    @contextmanager
    def _diverging(self) -> Iterator[None]:
        """Say of a number that is not finite in which step that is."""
        try:
            yield
        except NotFinite as error:
            epoch = self.epoch + (self.seen in (0, self.sampler.n))
            rate = float(self.optimizer.learning_rate)
            message = f"{error.what} in epoch {epoch}, step {self.steps + 1}, at a learning rate of {rate!r}"
            raise Diverged(Failure(self.progress, error.what, message, error.origin, error.parameters)) from None


@dataclass(eq=False, repr=False)
class NativeTrainer(Trainer):
    """Lets C take many steps at a time, while the block is native, and takes those itself that C cannot.

    There are as many as fit into a moment, after which Ctrl-C, progress and validation have their turn; and none beyond
    an epoch after which something else may look at the parameters or draw random numbers: `pause` gives the next one
    after so many epochs. A schedule of the user's may do both, or change the optimizer: it is called right before its
    step, the only one.
    """

    gradients: "CompiledGradients"
    block: "Training"
    pause: Callable[[int], int] = field(kw_only=True)

    def __post_init__(self) -> None:
        from micrograd.compiler.native.loop import shuffles_in_c

        super().__post_init__()
        self._is_native = False  # whether C takes the step that has begun
        self._pace = 1  # how many steps C takes at a time
        self._shuffles_in_c = shuffles_in_c(self.sampler.rng)

    def fetch_gradients(self) -> None:
        """Begin the step, of which C then computes the gradients, too."""
        self._is_native = self.block.is_native and not self.gradients.by_engine
        if self._is_native:
            self._begin_step(self.block.shuffle if self._shuffles_in_c else None)
        else:
            super().fetch_gradients()

    def advance(self) -> list[tuple[float, float]]:
        """Take some steps; if one is not whole, none after it, and the next call is for that one."""
        if not self._is_native:
            return super().advance()
        sampler = self.sampler
        rates = self._rates(min(self._pace, self._most()))
        losses = array("d", bytes(8 * len(rates)))
        started = time.perf_counter()
        done = self.block.run_steps(
            self.gradients.examples, rates, losses, order=sampler.order, size=sampler.size, position=sampler.position,
            rng=sampler.rng if len(rates) > sampler.left else None,
        )  # fmt: skip
        seconds = time.perf_counter() - started
        self._pace = max(1, self._pace * 2 if seconds < PACE / 2 else self._pace // 2 if seconds > PACE else self._pace)
        self.gradients.by_engine = self.block.is_native and done < len(rates)
        if done:
            self.optimizer.learning_rate = rates[done - 1]
        return self._count(losses[:done], rates[:done])

    def _most(self) -> int:
        """The number of steps that nothing needs to come between."""
        if self.schedule is not None and not depends_on_step_only(self.schedule):
            return 1
        if not self._shuffles_in_c:
            return self.sampler.left
        trained = self.epoch - (0 < self.seen < self.sampler.n)
        return self.sampler.left + (self.pause(trained) - trained - 1) * self.sampler.batches

    def _rates(self, most: int) -> "array[float]":
        """The learning rates of the next steps, up to one that the schedule has none for."""
        rates = array("d", [self.optimizer.learning_rate])
        if self.schedule is None:
            return rates * most
        with suppress(Exception):  # which comes again when it is the first
            while len(rates) < most:
                rates.append(self._rate_of(self.steps + len(rates)))
        return rates


class NativeUpdate(Update):
    """The optimizer's step in C, while the session is native; one that C cannot take is the optimizer's own."""

    def __init__(self, session: "Training", update: Update) -> None:
        super().__init__(update.parameters, update.optimizer, update.max_norm)
        self._session = session

    def __call__(self) -> None:
        """Take the step, as an Update does."""
        rates = array("d", [self.optimizer.learning_rate])
        if not self._session.run_steps(None, rates, array("d", [0.0])):
            super().__call__()


def compiled(
    eager: Trainer, options: "Options", shards: "Shards | None", engine: EagerGradients, validation: Table | None,
    pause: Callable[[int], int], on_compiled: Callable[[int, int], None],
) -> Trainer:  # fmt: skip
    """A trainer that does with generated code what another one does with the engine.

    `pause` is that of NativeTrainer; `on_compiled` is called with the number of shapes of examples that are compiled,
    and how many there are.
    """
    from micrograd.compiler.frontend.reach import Reach
    from micrograd.compiler.function import Function  # here, since it takes longer to load than all else
    from micrograd.compiler.session import CompiledGradients, Training, check_rule
    from micrograd.training.kept import kept_for

    update, sampler, schedule = eager.update, eager.sampler, eager.schedule
    check_rule(update.optimizer)
    (xs, ys), size = engine.train_data, sampler.size
    watches = schedule is not None and not depends_on_step_only(schedule)  # which may change other Values, too
    kept = kept_for(engine.model, engine.loss, update.all_parameters, options, watches)
    constants = [value for value in kept.reach.values if type(value.data) in (int, float)]
    example = row(xs[0]), row(ys[0])
    function = Function(engine.loss_of, example, update.all_parameters, options, constants, kept.backends)
    session = Training(function, update.optimizer, update.max_norm)  # type: ignore[arg-type]  # as was checked
    gradients: CompiledGradients
    if shards:
        from micrograd.training.sharded import ShardedGradients

        gradients = ShardedGradients(function, shards, size, engine, session)
        gradients.examples = shards.ship(function, lambda: function._examples((xs, ys), size, on_compiled), on_compiled)
    else:
        gradients = CompiledGradients(function, engine)
        gradients.examples = function._examples((xs, ys), size, on_compiled)
    measured = [function._examples(validation, None, on_compiled, "forward")] if validation else []

    def validation_losses() -> list[float]:
        with suppress(ArithmeticError, ValueError):
            losses = session.values(*measured)
            if all(map(math.isfinite, losses)):
                return losses
        return eager.validation_losses()  # which raises what it has to

    if schedule is not None and watches:
        roots = {"model": engine.model, "loss": engine.loss}
        schedule = _watched(
            schedule, Reach(roots, numbers=False, ignoring=update.all_parameters, thorough=False, partly=True)
        )
    trained = len(set(map(id, update.parameters)))
    learns = all(any(function._graph_of(pack).uses[:trained]) for pack in gradients.examples.packs)
    gradients.by_engine = engine.is_unchecked = not learns  # where that raises what it has to
    if shards:
        return Trainer(gradients, NativeUpdate(session, update), sampler, schedule, validation_losses, session)
    return NativeTrainer(gradients, update, sampler, schedule, validation_losses, session, pause=pause)


def _watched(schedule: Schedule, reach: "Reach") -> Schedule:
    """The schedule; the log says once what it changes that generated code has as it was."""
    warned = False

    def watched(step: int) -> float:
        nonlocal warned
        rate = schedule(step)
        if not warned and (name := reach.changed()):
            warned = True
            log.warning(
                "%s has changed, but compiled code still uses its old value: if the model or the loss reads it, make "
                "it a Value and assign to its data, or train eagerly", name,
            )  # fmt: skip
        return rate

    return watched
