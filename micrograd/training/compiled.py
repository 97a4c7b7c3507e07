"""Training with generated code: in C, many steps at a time; on workers, the gradients. The model keeps the code."""

import logging
import math
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from micrograd.compiler.frontend.reach import KEPT, Reach, alike
from micrograd.compiler.frontend.tracer import OutsideTraceError, TraceError, users_line
from micrograd.compiler.function import Backends, Function
from micrograd.compiler.options import Options
from micrograd.compiler.session import CompiledGradients, Training, check_rule
from micrograd.compiler.stepping import NotFinite
from micrograd.engine import Value
from micrograd.optim import Schedule, depends_on_step_only
from micrograd.support.trees import as_lists
from micrograd.training.trainer import EagerGradients, Table, Trainer

if TYPE_CHECKING:
    from micrograd.compiler.distributed.shards import Shards

log = logging.getLogger("micrograd")

PACE = 0.05  # seconds that generated code may run at a time


def compiled(
    eager: Trainer, options: Options, shards: "Shards | None", engine: EagerGradients, validation: Table | None,
    pause: Callable[[int], int], on_compiled: Callable[[int, int], None],
) -> Trainer:  # fmt: skip
    """A trainer that does in generated code what `eager` does; `pause` is NativeTrainer's, `on_compiled` Progress's."""
    update, sampler, schedule = engine.update, eager.sampler, eager.schedule
    check_rule(update.optimizer)
    (xs, ys), size = engine.train_data, sampler.size
    watches = schedule is not None and not depends_on_step_only(schedule)  # it may also change other Values
    kept = kept_for(engine.model, engine.loss, update.all_parameters, options, watches)
    constants = [value for value in kept.reach.values if type(value.data) in (int, float)]
    example = as_lists(xs[0]), as_lists(ys[0])
    n_known = len(kept.backends)
    with _without_traces(kept):
        function = Function(engine.loss_of, example, update.all_parameters, options, constants, kept.backends)
        optimizer: Any = update.optimizer  # which check_rule has checked
        session = Training(function, optimizer)
        session.start_build()
        taken = partial(function._examples, (xs, ys), size, on_compiled)
        sharded = shards and ShardedGradients(function, shards, size, engine, session)
        gradients = sharded or CompiledGradients(function, engine)
        gradients.examples = shards.ship(function, taken, on_compiled) if shards else taken()
        measured = [function._examples(validation, None, on_compiled, "forward")] if validation else []
        if len(kept.backends) > n_known and kept.reach.traced():
            _trace_again(function, engine, update.all_parameters)

    def validation_losses() -> list[float]:
        with suppress(ArithmeticError, ValueError):
            losses = session.values(*measured)
            if all(map(math.isfinite, losses)):
                return losses
        return eager.validation_losses()  # which raises the error, if there is one

    if schedule is not None and watches:
        roots, known = {"model": engine.model, "loss": engine.loss}, update.all_parameters
        schedule = _watched(schedule, Reach(roots, numbers=False, ignoring=known, thorough=False, partly=True))
    trained = len(set(map(id, update.parameters)))
    learns = all(any(function._graph_of(batch).uses[:trained]) for batch in gradients.examples.batches)
    gradients.by_engine = engine.is_unchecked = not learns  # which raises the error
    others = update.optimizer, sampler, schedule, validation_losses, session
    if shards:

        def step() -> None:  # in C while the session is native, and by the optimizer if C cannot take it
            if not session.run_steps(None, array("d", [update.optimizer.learning_rate]), array("d", [0.0])):
                update()

        return Trainer(gradients, step, *others)
    return NativeTrainer(gradients, update, *others, pause=pause)


@contextmanager
def _without_traces(kept: "Kept") -> Iterator[None]:
    """Leave no traced numbers behind: whatever traces in the block stored them in, such as activations, is set back."""
    n, failed = len(kept.backends), True
    try:
        yield
        failed = False
    except BaseException as error:
        if kept.reach.traced():  # which another trace might have read
            kept.backends.clear()
        if not isinstance(error, OutsideTraceError):
            raise
        raise TraceError(
            f"{users_line(error.__cause__ or error)}: this reads a number that was kept from an earlier call, "
            'which compiled code would not update: compute it in each call, or train with backend="eager"'
        ) from error
    finally:
        if failed or len(kept.backends) > n:  # else nothing was traced
            kept.reach.restore(traced_only=True)


def _trace_again(function: Function, engine: EagerGradients, parameters: Sequence[Value]) -> None:
    """Raise OutsideTraceError if the function cannot be traced with what an earlier trace has left."""
    now = Reach({"model": engine.model, "loss": engine.loss}, ignoring=parameters, thorough=False)
    try:
        function._traced(function._shapes)
    except Exception as error:
        raise OutsideTraceError(str(error)) from error.__cause__ or error
    now.restore()  # random generators, for instance


@dataclass(eq=False, repr=False)
class Kept:
    """The code that a model keeps for a loss and `key`, and what the two could read before they were traced."""

    loss: Callable[..., Any]
    parameters: Sequence[Value]
    key: Any
    reach: Reach
    backends: Backends = field(default_factory=dict)

    def __reduce__(self) -> tuple[type[None], tuple[()]]:  # copies and pickles of the model omit it
        return type(None), ()


def kept_for(model: Any, loss: Any, parameters: Sequence[Value], options: Options, thorough: bool) -> Kept:
    """The Kept of an earlier training if it is still valid, else a new one, which the model keeps if it has attributes.

    It is valid if nothing that the model and the loss can read has changed: attributes of whatever they hold and of
    its classes, closures, globals that they name, numbers in arrays and in Values, the states of Python's random
    generators; the parameters' numbers do not count. A loss created again by the same line of code, from the same
    objects, is the same. If there is an object that cannot be followed, such as an iterator, it is not valid. Changes
    go unnoticed only in what libraries define (except micrograd's methods, and its functions that the model or the
    loss names), in what parameters hold besides their numbers, such as gradients, in built-in names, names of functions
    and modules, classes registered with an abstract one, and outside the program, as in files and the clock. If
    `thorough`, all Values that the model and the loss can read are found, however many objects there are.
    """
    attributes: dict[str, Any] = getattr(model, "__dict__", {})
    key = options, thorough, [*map(id, parameters)]
    kept: Kept | None = attributes.get(KEPT)
    if kept and kept.key == key and alike(kept.loss, loss) and not (kept.reach.unfollowed or kept.reach.changed()):
        return kept
    reach = Reach({"model": model, "loss": loss}, ignoring=parameters, thorough=thorough, partly=thorough)
    kept = attributes[KEPT] = Kept(loss, parameters, key, reach)
    return kept


def _watched(schedule: Schedule, reach: Reach) -> Schedule:
    """The schedule, with one warning in the log if it changes something whose old value is in generated code."""
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


@dataclass(eq=False, repr=False)
class NativeTrainer(Trainer):
    """Lets C take many steps at a time while the block is native, and takes the steps that C cannot.

    C returns after about PACE seconds, for Ctrl-C, progress and validation, and at the latest after an epoch at whose
    end other code may read the parameters or draw random numbers: `pause(n)` is the first such epoch after `n`. The
    user's schedule may do both, or change the optimizer, so it is called right before each step, and C takes just one.
    """

    gradients: CompiledGradients
    block: Training
    pause: Callable[[int], int] = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._is_native = False  # whether C takes the step that has begun
        self._pace = 1  # how many steps C takes at a time
        self._shuffles_in_c = self.block.shuffles_in_c(self.sampler.rng)

    def fetch_gradients(self) -> None:
        """Begin the step; if C takes it, it computes the gradients, too."""
        self._is_native = self.block.is_native and not self.gradients.by_engine
        if self._is_native:
            self._begin_step(self.block.shuffle if self._shuffles_in_c else None)
        else:
            super().fetch_gradients()

    def advance(self) -> list[tuple[float, float]]:
        """Take some steps, up to one that fails, which the next call takes."""
        if not self._is_native:
            return super().advance()
        sampler = self.sampler
        rates = self._rates(min(self._pace, self._max_steps()))
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

    def _max_steps(self) -> int:
        """The number of steps that C may take in one go."""
        if self.schedule is not None and not depends_on_step_only(self.schedule):
            return 1
        if not self._shuffles_in_c:
            return self.sampler.left
        trained = self.epoch - (0 < self.seen < self.sampler.n)
        return self.sampler.left + (self.pause(trained) - trained - 1) * self.sampler.batches

    def _rates(self, most: int) -> "array[float]":
        """The learning rates of the next steps, up to one for which the schedule raises an error."""
        rates = array("d", [self.optimizer.learning_rate])
        if self.schedule is None:
            return rates * most
        with suppress(Exception):  # it is raised again when that step comes first
            while len(rates) < most:
                rates.append(self._rate_of(self.steps + len(rates)))
        return rates


class ShardedGradients(CompiledGradients):
    """Gradients from workers, added in the order of the shards: by generated code, or if that fails, by the engine."""

    def __init__(
        self, function: Function, shards: "Shards", batch_size: int, eager: EagerGradients, session: Training
    ) -> None:
        super().__init__(function, self._by_engines)
        self._shards, self._batch_size, self._eager, self._session = shards, batch_size, eager, session

    def _compiled(self, batch: Sequence[int]) -> float:
        loss, parts, _ = self._gather(batch, on_values=False)
        if not math.isfinite(loss) or not math.isfinite(sum(map(sum, parts))):
            return math.nan
        self._session.set_gradients(parts)
        return loss

    def _by_engines(self, batch: Sequence[int]) -> float:
        loss, parts, failed = self._gather(batch, on_values=True)
        xs, ys = self._eager.train_data
        if failed:
            k, number, arguments = failed
            for table, argument in zip((xs, ys), arguments, strict=True):
                getattr(table, "known", {})[f"[{number}] of shard {k}"] = argument
            self._eager.update.differentiate(self._eager.loss_of(*arguments))  # which raises NotFinite with its origin
        if not math.isfinite(loss):
            raise NotFinite("the loss", loss, f"the sum of finite losses is {loss!r}")
        if self._eager.is_unchecked:
            self._eager.check_dependence(self._eager.loss_of(as_lists(xs[0]), as_lists(ys[0])))
        self._session.set_gradients(parts)
        return loss

    def _gather(self, batch: Sequence[int], on_values: bool) -> tuple[float, list["array[float]"], Any]:
        """The mean loss and each shard's gradients; or a loss that is not finite, and its shard, number and example."""
        losses, parts = [], []
        numbers = self._session.numbers()
        for k, (loss, gradients, failed) in self._shards.sums(numbers, batch, self._batch_size, on_values):
            if failed:
                return loss, [], (k, *failed)
            losses.append(loss)
            if gradients:
                parts.append(gradients)
        return sum(losses) / len(batch), parts, None
