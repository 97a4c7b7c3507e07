"""Training with generated code: in C, many steps at a time; on workers, the gradients.

Generated code repeats what the model and its loss did while they were traced. A Trial shows whether they do the same at
each call, so that it may.
"""

import logging
import math
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import Any

from micrograd.compiler.distributed.shards import Shards
from micrograd.compiler.dtype import DOUBLE
from micrograd.compiler.function import Function
from micrograd.compiler.native.toolchain import warn_once
from micrograd.compiler.native.update import check_rule
from micrograd.compiler.options import Backend, Options
from micrograd.compiler.session import Training
from micrograd.compiler.stepping import Batches, Loop
from micrograd.support.collector import gc_paused
from micrograd.support.trees import as_lists
from micrograd.training.trainer import Engine

log = logging.getLogger("micrograd")

CALLS = 3  # of two, a quarter draws the same mask for two units
SECONDS = 0.02  # a tenth of what the smallest network takes to compile


def compiled(
    stack: ExitStack, engine: Engine, backend: Backend, batches: Batches, on_compiled: Callable[[int, int], None]
) -> Loop:
    """A Loop that does in generated code what the engine does, until the stack is closed; `on_compiled` reports.

    It is the engine, after a warning, if the loss of an example is not the same each time.
    """
    check_rule(engine.update.optimizer)
    with generators_set_back(batches.rng):
        trial = Trial(engine)
        if not trial.differ:
            try:
                function, loop = _compiled(stack, engine, backend, batches, on_compiled)
                loss, _ = function._sums(function._array(), batches.examples, [0], 1.0)
            finally:
                trial.call(0)  # which also replaces traced numbers that the model has stored, such as activations
            trial.compare(0, loss, *[1e-6 if function.precision == DOUBLE else 1e-2] * 2)
    if trial.differ:
        log.warning(
            "training eagerly, since the loss of an example is not the same each time: it was %r, then %r. Compiled "
            "code would repeat the random numbers of one call, as for dropout or noise, and what the model keeps from "
            'call to call, as a counter or a running mean: make them a part of the examples, or give backend="eager"',
            *trial.differ,
        )  # fmt: skip
        return engine
    stack.enter_context(loop.session)
    return loop


def _compiled(
    stack: ExitStack, engine: Engine, backend: Backend, batches: Batches, on_compiled: Callable[[int, int], None]
) -> "tuple[Function, CompiledLoop]":
    """The loss of an example, compiled for all of them; and a Loop that uses it within the block of its session."""
    (xs, ys), options = engine.data, Options(replace(backend, executor=None))
    shards = None if backend.executor is None else stack.enter_context(Shards(backend.executor))
    example, parameters = (as_lists(xs[0]), as_lists(ys[0])), engine.update.all_parameters
    function = Function(engine.loss_of, example, parameters, options)
    optimizer: Any = engine.update.optimizer
    session = Training(function, optimizer, engine)
    session.start_build()
    batches.examples = function._examples((xs, ys), batches.size, on_compiled)
    validation = engine.validation and function._examples(engine.validation, None, on_compiled, "forward")
    trained = len(set(map(id, engine.update.parameters)))
    engine.is_unchecked = not all(any(function._graph_of(each).uses[:trained]) for each in batches.examples.batches)
    steps: Any = session
    if shards:
        shards.ship(function, batches.examples)
        steps = ShardedLoop(shards, session, engine)
    return function, CompiledLoop(engine, session, steps, validation)


class Trial:
    """Calls of the model and its loss by the engine. `differ` has two losses of one example, if they are different.

    The first example is called several times, one call after the other, and so are more, while that takes no time.
    """

    @gc_paused()
    def __init__(self, engine: Engine) -> None:
        self.differ: tuple[float, float] | None = None
        self._engine = engine
        self._losses: dict[int, float] = {}  # of each example, the first one
        end = time.perf_counter() + SECONDS
        for i in range(len(engine.data[0])):
            for _ in range(CALLS):
                self.call(i)
            if time.perf_counter() > end:
                break

    def call(self, i: int) -> None:
        """Call them on an example."""
        with suppress(Exception):  # the step that takes this example raises it, too
            loss = self._engine.loss_of_example(i).data
            self._losses.setdefault(i, loss)
            self.compare(i, loss, 1e-9)

    def compare(self, i: int, loss: float, rel_tol: float, abs_tol: float = 0.0) -> None:
        """Compare a loss of an example with the first one."""
        first = self._losses.get(i, math.nan)
        if math.isfinite(first - loss) and not math.isclose(first, loss, rel_tol=rel_tol, abs_tol=abs_tol):
            self.differ = self.differ or (first, loss)


@contextmanager
def generators_set_back(other: Any) -> Iterator[None]:
    """After the block, the global generators of random numbers, and another one of Python's, are where they were."""
    before = [(random.setstate, random.getstate())]
    if isinstance(other, random.Random) and not isinstance(other, random.SystemRandom):
        before.append((other.setstate, other.getstate()))
    if numpy := sys.modules.get("numpy.random"):
        before.append((numpy.set_state, numpy.get_state()))
    try:
        yield
    finally:
        for set_back, state in before:
            set_back(state)


class CompiledLoop:
    """Steps in generated code, and the losses of validation examples; the engine's where there is an error to raise."""

    def __init__(self, engine: Engine, session: Training, steps: Any, validation: Any) -> None:
        self.session = session
        self._engine, self._steps, self._validation = engine, steps, validation

    def take(self, batches: Batches, rates: Sequence[float]) -> Sequence[float]:
        """Take some steps."""
        steps = self._engine if self._engine.is_unchecked else self._steps
        return steps.take(batches, rates)

    def values(self) -> list[float]:
        """The losses of the validation examples."""
        with suppress(ArithmeticError, ValueError):
            losses = self.session.values(self._validation)
            if all(map(math.isfinite, losses)):
                return losses
        return self._engine.values()


class ShardedLoop:
    """Steps along gradients from workers, added in the order of the shards; the engine's where these are not finite."""

    def __init__(self, shards: Shards, session: Training, engine: Engine) -> None:
        self._shards, self._session, self._engine = shards, session, engine

    def take(self, batches: Batches, rates: Sequence[float]) -> Sequence[float]:
        """Take a step."""
        batch = batches.next()
        losses, gradients = zip(*self._shards.sums(self._session.numbers(), batch, batches.size), strict=True)
        loss = sum(losses) / len(batch)
        if not math.isfinite(loss) or not math.isfinite(sum(map(sum, gradients))):
            taken = self._engine.take(batches, rates)
            warn_once("a step was taken by the engine, since an operation may have failed in generated code")
            return taken
        self._session.update(gradients)
        batches.count(1)
        return [loss]
