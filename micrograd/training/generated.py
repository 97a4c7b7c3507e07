"""Training with generated code: in C, many steps at a time; on workers, the gradients.

Generated code repeats what the model and its loss did when they were traced. So the engine calls them a few times
first: only if they do the same each time, generated code takes the steps.
"""

import copy
import logging
import math
import pickle
import random
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any, cast

from micrograd.compiler.distributed import Shards
from micrograd.compiler.dtype import DOUBLE
from micrograd.compiler.function import Function
from micrograd.compiler.options import Backend, Options
from micrograd.compiler.session import Training
from micrograd.compiler.stepping import Engine, Loop, Sampler
from micrograd.core.errors import users_line
from micrograd.engine import Value
from micrograd.nn import Embedding, Module, Neuron, walk
from micrograd.support.arrays import is_array
from micrograd.support.collector import gc_paused

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
    "the model draws random numbers, or changes numbers that it keeps, as for a running mean, and compiled code would "
    f"not: {REMEDY}"
)


def generated(stack: ExitStack, model: Any, engine: Engine, backend: Backend, sampler: Sampler, epochs: int) -> Loop:
    """A Loop that does in generated code what the engine does, for some epochs, until the stack is closed.

    Returns the engine itself if the loss does not depend on the parameters, and the engine then raises the error; or if
    the loss of an example is not the same each time, or cannot be compiled, and then the log says why, unless the
    engine fails, too. If it cannot be compiled, that is an error unless the backend is "auto" without an executor.
    """
    learns, n = False, len(set(map(id, engine.parameters)))
    with as_before(model, sampler.rng) as state:
        trial = Trial(engine, state)
        try:
            if not trial.why:
                before, _ = state()
                training = entered(stack, engine, backend, sampler, epochs)
                function, examples = training.function, sampler.examples
                if state()[0] != before:  # for a shape that the calls did not have
                    trial.why = CHANGES
                with suppress(ArithmeticError, ValueError):  # the step that takes this example raises it, too
                    loss, _ = function._sums(examples.parts([0]), function._numbers(), 1.0)
                    trial.compare(0, loss, 1e-6 if function.precision == DOUBLE else 1e-2)
                learns = any(function._code[each.shapes].graph.has_gradients(n) for each in examples.batches)
        except Exception as error:
            if backend.name != "auto" or backend.executor is not None:
                raise
            if not trial.fails:
                line = users_line(error.__cause__ or error)
                trial.why = f"the model cannot be compiled: {error}" + ("" if line in str(error) else f" ({line})")
    if learns and not trial.why:
        # In a block in single precision, the engine computes with rounded parameters.
        trial.call(0, 1e-2 if backend.precision == "single" else 0.0)  # then a model that stores activations has some
    if learns and not trial.why:
        return training
    stack.close()
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
def as_before(model: Any, rng: Any) -> Iterator[Callable[[], tuple[bytes, list[Any]]]]:
    """After the block, all that calls of the model may change is as it was: the random number generators, `rng` and the
    model's own among them, and what the model holds in attributes, lists, dicts and arrays.

    Yields a function that returns the states of the generators, and the numbers that the model holds besides Values.
    """
    parts, numpy = walk(model, PARTS), sys.modules.get("numpy.random")
    kinds = random.Random, getattr(numpy, "RandomState", ()), getattr(numpy, "BitGenerator", ())
    found = [getattr(part, "bit_generator", part) for part in (rng, *parts) if not isinstance(part, PARTS)]
    own = [part for part in found if isinstance(part, kinds) and not isinstance(part, random.SystemRandom)]
    names = ("getstate", "setstate"), ("get_state", "set_state")
    generators = [
        (getattr(x, get), getattr(x, put)) for x in (random, numpy, *own) for get, put in names if hasattr(x, get)
    ]
    generators += [(partial(getattr, x, "state"), partial(setattr, x, "state")) for x in own if hasattr(x, "state")]
    holders: list[Any] = [vars(part) if isinstance(part, Module) else part for part in parts]
    holders = [x for x in holders if isinstance(x, (dict, list, deque)) or (_has_numbers(x) and x.flags.writeable)]
    before = [get() for get, _ in generators], list(map(copy.copy, holders))
    try:
        yield lambda: (pickle.dumps([get() for get, _ in generators]), _numbers_of(model))
    finally:
        for (_, put), state in zip(generators, before[0], strict=True):
            put(state)
        for holder, held in zip(holders, before[1], strict=True):
            if isinstance(holder, dict):  # of a module, which another thread may read meanwhile
                for name in holder.keys() - held.keys():
                    del holder[name]
                holder.update(held)
            elif isinstance(holder, deque):
                holder.clear()
                holder.extend(held)
            else:
                holder[:] = held


def _numbers_of(model: Any) -> list[Any]:
    """The numbers that a model holds, besides Values; those of an array as bytes."""
    parts = [part.tobytes() if _has_numbers(part) else part for part in walk(model, PARTS)]
    return [part for part in parts if isinstance(part, (int, float, bytes))]


def _has_numbers(part: Any) -> bool:
    return is_array(part) and part.dtype.kind in "biuf"


class Trial:
    """Calls of the model and its loss by the engine, on each example several times in a row, as many as fit in SECONDS.

    `why` says why compiled code must not repeat a call: the loss of an example is not the same each time, or calls
    change the `state`, even if that changes no loss before weights of 0 have learned.
    """

    @gc_paused()
    def __init__(self, engine: Engine, state: Callable[[], Any]) -> None:
        self.why = ""
        self.fails = False  # for one of the examples
        self._engine = engine
        self._first: dict[int, float] = {}  # the first loss of each example
        start = time.perf_counter()
        for i in range(len(engine.data)):
            self.call(i)
            before = state()
            for _ in range(CALLS - 1):
                self.call(i)
            if state() != before:  # after a call that sets it, the next leaves it the same
                self.why = self.why or CHANGES
            each = (time.perf_counter() - start) / (i + 1)
            if each * (i + 2) > SECONDS:  # the next example would take too long
                break

    def call(self, i: int, tolerance: float = 0.0) -> None:
        """Call them on an example."""
        try:
            self.compare(i, self._engine.loss_of(*self._engine.data.arguments(i)).data, tolerance)
        except Exception:  # the step that takes this example raises it, too
            self.fails = True

    def compare(self, i: int, loss: float, tolerance: float = 0.0) -> None:
        """Compare a loss with the first one of this example. Two losses of the engine may differ only by rounding."""
        first = self._first.setdefault(i, loss)
        if math.inf > abs(first - loss) > max(tolerance, (tolerance or 1e-9) * abs(first)):
            self.why = self.why or NOT_THE_SAME.format(first, loss)
