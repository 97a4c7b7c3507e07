"""Training with generated code: in C, many steps at a time; on workers, the gradients. The model keeps the code."""

import logging
import math
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from micrograd.compiler.distributed.shards import Shards
from micrograd.compiler.frontend.reach import KEPT, Reach, alike
from micrograd.compiler.frontend.tracer import OutsideTraceError, TraceError, users_line
from micrograd.compiler.function import Backends, Function
from micrograd.compiler.native.toolchain import warn_once
from micrograd.compiler.options import Backend, Options
from micrograd.compiler.session import Training, check_rule
from micrograd.compiler.stepping import Batches, Loop, NotFinite, StepLoop
from micrograd.engine import Value
from micrograd.optim import Schedule, depends_on_step_only
from micrograd.support.trees import as_lists
from micrograd.training.trainer import Engine

log = logging.getLogger("micrograd")


def compiled(
    stack: ExitStack, engine: Engine, backend: Backend, batches: Batches, schedule: Schedule | None,
    on_compiled: Callable[[int, int], None],
) -> Loop:  # fmt: skip
    """A Loop that does in generated code what the engine does, until the stack is closed; `on_compiled` reports."""
    optimizer: Any = engine.update.optimizer
    check_rule(optimizer)
    (xs, ys), parameters = engine.data, engine.update.all_parameters
    options = Options(replace(backend, executor=None))  # which the model keeps
    watches = schedule is not None and not depends_on_step_only(schedule)  # it may also change other Values
    kept = kept_for(engine.model, engine.loss, parameters, options, watches)
    constants = [value for value in kept.reach.values if type(value.data) in (int, float)]
    n_known = len(kept.backends)
    shards = None if backend.executor is None else stack.enter_context(Shards(backend.executor))
    with _without_traces(kept):
        example = as_lists(xs[0]), as_lists(ys[0])
        function = Function(engine.loss_of, example, parameters, options, constants, kept.backends)
        session = Training(function, optimizer, engine)
        session.start_build()
        batches.examples = function._examples((xs, ys), batches.size, on_compiled)
        validation = engine.validation and function._examples(engine.validation, None, on_compiled, "forward")
        if len(kept.backends) > n_known and kept.reach.traced():
            _trace_again(function, engine, parameters)
    steps: Any = session
    if shards:
        shards.ship(function, batches.examples)
        steps = Workers(shards, session, engine)
    watched = None
    if watches:
        roots = {"model": engine.model, "loss": engine.loss}
        watched = Reach(roots, numbers=False, ignoring=parameters, thorough=False, partly=True)
    trained = len(set(map(id, engine.update.parameters)))
    engine.is_unchecked = not all(any(function._graph_of(each).uses[:trained]) for each in batches.examples.batches)
    return CompiledLoop(engine, stack.enter_context(session), steps, validation, watched)


class CompiledLoop:
    """Steps in generated code, and the losses of validation examples; the engine's where there is an error to raise."""

    def __init__(self, engine: Engine, session: Training, steps: Any, validation: Any, watched: Reach | None) -> None:
        self._engine, self._session, self._steps = engine, session, steps
        self._validation, self._watched = validation, watched

    def take(self, batches: Batches, rates: Sequence[float]) -> Sequence[float]:
        """Take some steps, after a warning if the schedule has changed what is constant in generated code."""
        if self._watched and (name := self._watched.changed()):
            self._watched = None
            log.warning(
                "%s has changed, but compiled code still uses its old value: if the model or the loss reads it, make "
                "it a Value and assign to its data, or train eagerly", name,
            )  # fmt: skip
        steps = self._engine if self._engine.is_unchecked else self._steps
        return steps.take(batches, rates)

    def values(self) -> list[float]:
        """The losses of the validation examples."""
        with suppress(ArithmeticError, ValueError):
            losses = self._session.values(self._validation)
            if all(map(math.isfinite, losses)):
                return losses
        return self._engine.values()


class Workers(StepLoop):
    """Steps along gradients from workers, added in the order of the shards: by generated code, or by their engine."""

    def __init__(self, shards: Shards, session: Training, engine: Engine) -> None:
        self._shards, self._session, self._engine = shards, session, engine
        self._parts: list[array[float]] = []  # the gradients of each shard

    def gradients(self, batches: Batches) -> float:
        """The mean loss of a batch."""
        loss = self._gather(batches, on_values=False)
        if not math.isfinite(loss) or not math.isfinite(sum(map(sum, self._parts))):
            loss = self._gather(batches, on_values=True)
            if not math.isfinite(loss):
                raise NotFinite("the loss", loss, f"the sum of finite losses is {loss!r}")
            warn_once("a step was taken by the engine, since an operation may have failed in generated code")
        return loss

    def update(self) -> None:
        """Take the step."""
        self._session.update(self._parts)

    def _gather(self, batches: Batches, on_values: bool) -> float:
        batch, losses = batches.next(), []
        self._parts = []
        for loss, gradients, failed in self._shards.sums(self._session.numbers(), batch, batches.size, on_values):
            if failed is not None:
                self._engine.update.differentiate(self._engine.loss_of_example(failed))  # which raises NotFinite
            losses.append(loss)
            self._parts.append(gradients)
        return sum(losses) / len(batch)


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


def _trace_again(function: Function, engine: Engine, parameters: Sequence[Value]) -> None:
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
