"""Training with generated code: in C, many steps at a time; on workers, the gradients.

Generated code repeats what the model and its loss did when they were traced. So the engine calls them a few times
first: only if they do the same each time, generated code takes the steps.
"""

import logging
import math
import pickle
import random
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain
from typing import Any, cast

from micrograd.compiler.distributed import Shards
from micrograd.compiler.dtype import DOUBLE
from micrograd.compiler.frontend.tracer import TraceError
from micrograd.compiler.function import Function
from micrograd.compiler.options import Backend, Options
from micrograd.compiler.session import Training
from micrograd.compiler.stepping import Engine, Loop, Sampler
from micrograd.core.errors import users_line
from micrograd.engine import Value
from micrograd.nn import Embedding, Module, Neuron, walk
from micrograd.support.arrays import numpy_class
from micrograd.support.collector import gc_paused
from micrograd.support.signals import finish, set_back

log = logging.getLogger("micrograd")

CALLS = 3  # of an example: two draw the same mask for two units a quarter of the time
SECONDS = 0.02  # of calls: a small network takes ten times as long to compile
PARTS = Value, Neuron, Embedding  # of models: they keep no other numbers, and walking through weights takes long
REMEDY = 'make them part of the examples, or give backend="eager"'
NOT_THE_SAME = (
    "the loss of an example is not the same each time: it was {!r}, then {!r}. Compiled code would repeat one call, "
    f"with its random numbers, counters and running means: {REMEDY}"
)
CHANGES = (
    "the model or the loss draws random numbers, or changes numbers that it keeps, as for a running mean, and compiled "
    f"code would not: {REMEDY}"
)


def generated(
    stack: ExitStack, functions: Sequence[Any], engine: Engine, backend: Backend, sampler: Sampler, epochs: int
) -> Loop:
    """A Loop that does in generated code what the engine does, for some epochs, until the stack is closed.

    The functions are the model and the loss. Returns the engine itself if the loss does not depend on the parameters,
    and the engine then raises the error; or if the loss of an example is not the same each time, or cannot be compiled,
    and then the log says why, unless the engine fails, too. If it cannot be compiled, that is an error unless the
    backend is "auto" without an executor.
    """
    n = len({*engine.parameters})
    with _restored(sampler.rng, *parts_of(functions)) as states:
        trial = Trial(engine, states, functions)
        try:
            if not trial.why:
                before = states()
                try:
                    training = entered(stack, engine, backend, sampler, epochs)
                    if states() != before:  # for a shape that the calls did not have
                        trial.why = CHANGES
                finally:
                    # In a block in single precision, the engine computes with rounded parameters. This call also
                    # replaces traced numbers that the model stored, such as activations.
                    trial.call(0, 1e-2 if backend.precision == "single" else 0.0)
                function, examples = training.function, sampler.examples
                with suppress(ArithmeticError, ValueError):  # the step that takes this example raises it, too
                    loss, _ = function._sums(examples.parts([0]), function._numbers(), 1.0)
                    trial.compare(0, loss, 1e-6 if function.precision == DOUBLE else 1e-2)
                graphs = [function._code[batch.shapes].graph for batch in examples.batches]
                if not trial.why and any(graph.has_gradients(n) for graph in graphs):
                    return training
        except Exception as error:
            if backend.name != "auto" or backend.executor is not None:
                if trial.failed or not isinstance(error, TraceError):
                    example = engine.data.arguments(min(trial.failed, default=0))
                    engine.check_dependence(engine.loss_of(*example))  # if that is wrong, it says so
                raise
            if not trial.failed:
                line = users_line(error.__cause__ or error)
                trial.why = f"the model cannot be compiled: {error}" + ("" if line in str(error) else f" ({line})")
    stack.close()
    finish(trial.undo)
    if trial.why:
        log.warning("training eagerly, since %s", trial.why)
    return engine


def entered(stack: ExitStack, engine: Engine, backend: Backend, sampler: Sampler, epochs: int) -> Training:
    """A training run of the compiled loss, until the stack is closed. Steps that may fail are the engine's."""
    data, optimizer = engine.data, cast(Any, engine.optimizer)
    function = Function(engine.loss_of, data.arguments(0), engine.all_parameters, Options(backend))
    training = stack.enter_context(Training(function, optimizer, engine))  # in C, the loop is built from here on
    sampler.examples = function._examples((data.xs, data.ys), sampler.size, epochs=epochs)
    if measured := engine.validation:
        training.validation = function._examples((measured.xs, measured.ys), kind="forward", epochs=epochs)
    if backend.executor is not None:
        training.shards = Shards(backend.executor, function, sampler.examples)
    return training


@contextmanager
def _restored(*parts: Any) -> Iterator[Callable[[], bytes]]:
    """After the block, set back the generators of the parts and the global ones. Yields what reads their states."""
    numpy: Any = sys.modules.get("numpy.random")
    kinds = random.Random, getattr(numpy, "RandomState", ()), getattr(numpy, "BitGenerator", ())
    parts = tuple(part for part in parts if not isinstance(part, PARTS))
    inside = chain(parts, *[vars(part).values() for part in parts if hasattr(part, "__dict__")])  # of any class
    found = [each.bit_generator if hasattr(type(each), "bit_generator") else each for each in inside]
    own: list[Any] = [x for x in found if isinstance(x, kinds) and not isinstance(x, random.SystemRandom)]
    of_each = [(x.__getstate__, x.__setstate__) for x in own] + [(random.getstate, random.setstate)]
    of_each += [(numpy.get_state, numpy.set_state)] if hasattr(numpy, "get_state") else []
    before = [get() for get, _ in of_each]
    try:
        yield lambda: pickle.dumps([get() for get, _ in of_each])
    finally:
        for (_, put), state in zip(of_each, before, strict=True):
            put(state)


def parts_of(functions: Sequence[Any]) -> list[Any]:
    """The parts of the model and the loss; of one that is no Module, its attributes and their parts."""
    return walk([each if isinstance(each, Module) else getattr(each, "__dict__", None) for each in functions], PARTS)


def numbers_of(functions: Sequence[Any]) -> list[Any]:
    """The numbers that the model and the loss keep; an array as its bytes."""
    parts = [part.data if isinstance(part, Value) else part for part in parts_of(functions)]
    parts = [part.tobytes() if _has_numbers(part) else part for part in parts]
    return [part for part in parts if isinstance(part, (int, float, bytes))]


def _has_numbers(part: Any) -> bool:
    """Whether this is a NumPy array of numbers, or a NumPy number."""
    return isinstance(part, (numpy_class("ndarray"), numpy_class("generic"))) and part.dtype.kind in "biuf"


def held_by(functions: Sequence[Any]) -> list[tuple[Any, Any]]:
    """The attributes, lists, dicts and arrays of both, each with a copy to `put_back`; Values with their numbers."""
    found: list[Any] = [vars(part) if isinstance(part, Module) else part for part in parts_of(functions)]
    return [
        (held, held.data if isinstance(held, Value) else dict(held) if isinstance(held, dict) else [*held])
        for held in found
        if isinstance(held, (Value, dict, list, deque))
    ] + [(held, held.copy()) for held in found if _has_numbers(held) and held.flags.writeable]


def put_back(held: Any, before: Any) -> None:
    """Put back what a dict, a list, an array or a Value held before, not by methods that a subclass may override."""
    if isinstance(held, Value):
        set_back([held], [before])
    elif isinstance(held, dict):
        dict.clear(held)
        dict.update(held, before)
    elif isinstance(held, deque):
        held.clear()
        held.extend(before)
    elif isinstance(held, list):
        held[:] = before
    else:
        held[...] = before


class Trial:
    """Calls of the model and its loss by the engine, on each example several times in a row, as many as fit in SECONDS.

    `why` says why compiled code must not repeat a call: the loss of an example differs from call to call; the model or
    the loss draws random numbers, even if these change no loss while the weights that multiply them are 0; or it
    changes numbers that it keeps.
    """

    @gc_paused()
    def __init__(self, engine: Engine, states: Callable[[], bytes], functions: Sequence[Any]) -> None:
        self.why, self._engine = "", engine
        self._kept, self._data = held_by(functions), self._parameters()
        self.failed: list[int] = []  # the examples for which one of them raises an error
        self._first: dict[int, float] = {}  # the first loss of each example
        start = time.perf_counter()
        for i in range(len(engine.data)):
            found = []
            for _ in range(CALLS):
                self.call(i)
                found.append((states(), numbers_of(functions), self._parameters()))
            if any(each != found[0] for each in found[1:]):  # between calls: the first may set them
                self.why = self.why or CHANGES
            each = (time.perf_counter() - start) / (i + 1)
            if each * (i + 2) > SECONDS:  # the next example would take too long
                break

    def _parameters(self) -> list[Any]:
        return [parameter.data for parameter in self._engine.all_parameters]

    def undo(self) -> None:
        """Set back the parameters, and all that the model and the loss keep."""
        set_back(self._engine.all_parameters, self._data)
        for held, before in self._kept:
            put_back(held, before)

    def call(self, i: int, tolerance: float = 0.0) -> None:
        """Call them on an example."""
        try:
            self.compare(i, self._engine.loss_of(*self._engine.data.arguments(i)).data, tolerance)
        except Exception:  # the step that takes this example raises it, too
            self.failed.append(i)

    def compare(self, i: int, loss: float, tolerance: float = 0.0) -> None:
        """Compare a loss with the first one of this example. Two losses of the engine may differ only by rounding."""
        first = self._first.setdefault(i, loss)
        if math.inf > abs(first - loss) > max(tolerance, (tolerance or 1e-9) * abs(first)):
            self.why = self.why or NOT_THE_SAME.format(first, loss)
