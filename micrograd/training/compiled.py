"""Training with generated code: in C, many steps at a time; on workers, the gradients.

Generated code repeats what the model and its loss did when they were traced. So the engine calls them a few times
first: only if they do the same each time, generated code takes the steps.
"""

import logging
import math
import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from micrograd.compiler.distributed.shards import Shards
from micrograd.compiler.dtype import DOUBLE
from micrograd.compiler.function import Function, lasting_leaves
from micrograd.compiler.native.update import check_rule
from micrograd.compiler.options import Backend, Options
from micrograd.compiler.session import Training
from micrograd.compiler.stepping import Batches, Loop
from micrograd.core.errors import users_line
from micrograd.engine import Value
from micrograd.nn import Module
from micrograd.scalar import innermost
from micrograd.support.collector import gc_paused
from micrograd.support.generators import generators_restored
from micrograd.support.trees import as_lists
from micrograd.training.trainer import Engine

log = logging.getLogger("micrograd")

CALLS = 3  # of an example: two draw the same mask for two units a quarter of the time
SECONDS = 0.02  # of calls: a small network takes ten times as long to compile
LOSS = "the loss of an example"
NOT_THE_SAME = (
    "{} is not the same each time: it was {!r}, then {!r}. Compiled code would repeat one call, with its random "
    'numbers, counters and running means: make them part of the examples, or give backend="eager"'
)


def compiled(stack: ExitStack, engine: Engine, backend: Backend, batches: Batches) -> Loop:
    """A Loop that does in generated code what the engine does, until the stack is closed.

    Returns the engine itself if the loss does not depend on the parameters, and the engine then raises the error; or if
    the loss of an example is not the same each time, or cannot be compiled, and then the log says why, unless the
    engine fails, too. If it cannot be compiled, that is an error unless the backend is "auto" without an executor.
    """
    trial = None
    try:
        check_rule(engine.update.optimizer)
        with generators_restored(batches.rng):
            trial = Trial(engine)
            if not trial.differ:
                try:
                    training, function = begun(engine, backend, batches)
                finally:
                    trial.call(0)  # this also replaces traced numbers that the model stored, such as activations
                loss, _ = function._sums(function._array(), batches.examples, [0], 1.0)
                trial.compare(0, LOSS, loss, 1e-6 if function.precision == DOUBLE else 1e-2)
        if not trial.differ:
            n = len(set(map(id, engine.update.parameters)))
            graphs = map(function._graph_of, batches.examples.batches)
            return stack.enter_context(training) if any(any(graph.uses[:n]) for graph in graphs) else engine
        why = NOT_THE_SAME.format(*trial.differ)
    except Exception as error:
        if backend.name != "auto" or backend.executor is not None:
            raise
        if trial and trial.fails:
            return engine
        line = users_line(error.__cause__ or error)
        why = f"the model cannot be compiled: {error}" + ("" if line in str(error) else f" ({line})")
    log.warning("training eagerly, since %s", why)
    return engine


def begun(engine: Engine, backend: Backend, batches: Batches) -> tuple[Training, Function]:
    """A training run of the compiled loss, to be entered, and the loss. Steps that may fail are the engine's."""
    (xs, ys), parameters = engine.data, engine.update.all_parameters
    example, options = (as_lists(xs[0]), as_lists(ys[0])), Options(replace(backend, executor=None))
    constants = lasting_leaves(engine.loss_of, example, parameters)  # such as those of frozen layers
    function = Function(engine.loss_of, example, parameters, options, constants)
    optimizer: Any = engine.update.optimizer
    training = Training(function, optimizer, engine)
    training.start_build()
    batches.examples = function._examples((xs, ys), batches.size)
    if engine.validation:
        training.validation = function._examples(engine.validation, kind="forward")
    if backend.executor is not None:
        training.shards = Shards(backend.executor, function, batches.examples)
    return training, function


class Trial:
    """Calls of the model and its loss by the engine. `differ` names a number that is not the same each time, if any.

    Each example is computed several times in a row until SECONDS are over. Its losses have to be equal; for the first
    example, so do the numbers that the model holds after each call.
    """

    @gc_paused()
    def __init__(self, engine: Engine) -> None:
        self.differ: tuple[str, Any, Any] | None = None  # its name, and two of its values
        self.fails = False  # for one of the examples
        self._engine = engine
        self._first: dict[tuple[int, str], Any] = {}  # for each example, what the first call gave
        end = time.perf_counter() + SECONDS
        for i in range(len(engine.data[0])):
            for _ in range(CALLS):
                self.call(i)
            if time.perf_counter() > end:
                break

    def call(self, i: int) -> None:
        """Call them on an example."""
        try:
            self.compare(i, LOSS, self._engine.loss_of_example(self._engine.data, i).data)
            if i == 0:
                for name, number in held(type(self._engine.model).__name__, self._engine.model, set()):
                    self.compare(i, name, number)
        except Exception:  # the step that takes this example raises it, too
            self.fails = True

    def compare(self, i: int, name: str, number: Any, tolerance: float = 0.0) -> None:
        """Compare a number with that of the first call. Two numbers of the engine may differ only in rounding."""
        first = self._first.setdefault((i, name), number)
        if math.inf > abs(first - number) > max(tolerance, (tolerance or 1e-9) * abs(first)):
            self.differ = self.differ or (name, first, number)


def held(path: str, part: Any, known: set[int]) -> Iterator[tuple[str, Any]]:
    """The numbers that a model and its parts hold as attributes, and the lengths of their lists, with their names.

    Unlike `walk`, it does not visit each weight, which takes 0.2 s for 100,000 of them.
    """
    known.add(id(part))
    for name, member in getattr(part, "__dict__", {}).items():
        where, is_list = f"{path}.{name}", isinstance(member, (list, tuple, deque))
        if is_list:
            yield f"len({where})", len(member)
        elif isinstance(member, (int, float, Value)):
            yield where, innermost(member)
        for i, inner in enumerate(member if is_list else [member]):
            if isinstance(inner, Module) and id(inner) not in known:
                yield from held(f"{where}[{i}]" if is_list else where, inner, known)
