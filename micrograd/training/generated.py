"""Training with generated code: in C, many steps at a time; on workers, the gradients.

Generated code repeats what the model and its loss did when they were traced. So the engine calls them a few times
first: only if they do the same each time, generated code takes the steps.
"""

import gc
import logging
import math
import pickle
import random
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from types import CellType, FunctionType, ModuleType
from typing import Any, cast

from micrograd.compiler.distributed import Shards, Workers
from micrograd.compiler.dtype import DOUBLE
from micrograd.compiler.frontend.tracer import TraceError
from micrograd.compiler.function import Function
from micrograd.compiler.options import Backend, Options
from micrograd.compiler.session import Training
from micrograd.compiler.stepping import Engine, Loop, Sampler
from micrograd.core.errors import arose_in, users_line
from micrograd.engine import Value
from micrograd.nn import Embedding, Module, Neuron, members_of, walk
from micrograd.scalar import DomainError
from micrograd.support.arrays import numpy_class
from micrograd.support.collector import gc_paused
from micrograd.support.signals import set_back

log = logging.getLogger("micrograd")

CALLS = 3  # of the first example: two draw the same mask for two units a quarter of the time
SECONDS = 0.005  # of work, after which no other example is tried: a small network takes thirty times as long to compile
FILL = (dict, dict.update), (list, list.extend), (deque, deque.extend)  # containers, and how they are filled again
PARTS = Neuron, Embedding  # of models: they keep no other numbers, and walking through weights takes long
REMEDY = 'make them part of the examples, or give backend="eager"'
NOT_THE_SAME = (
    "the loss of an example is not the same each time: it was {!r}, then {!r}. Compiled code would repeat one call, "
    f"with its random numbers, counters and running means: {REMEDY}"
)
CHANGES = (
    "the model or the loss draws random numbers, or changes numbers that it keeps, as for a running mean, and compiled "
    f"code would not: {REMEDY}"
)


@gc_paused()
def generated(
    stack: ExitStack, functions: Sequence[Any], engine: Engine, backend: Backend, sampler: Sampler, epochs: int
) -> Loop:
    """A Loop that does in generated code what the engine does, for some epochs, until the stack is closed.

    The functions are the model and the loss. If one of them raises an error, or the loss does not depend on the
    parameters, returns the engine itself: it raises the error. Also returns the engine, and logs why, if the functions
    differ from call to call or cannot be compiled. Raises the error of compiling them unless the backend is "auto"
    without an executor.
    """
    kept, why = Kept(engine, [getattr(each, "__self__", each) for each in functions], sampler.rng), ""
    with ExitStack() as undone:
        undone.callback(kept.put_back), undone.callback(kept.put_back)  # again, if a Ctrl-C interrupts it
        try:
            expected, why = tried(engine, kept)
        except Exception as error:
            _reraise_if_signalled(error)
            return engine  # the step on this example raises it, too
        try:
            if not why:
                before = kept.states()
                training = entered(stack, engine, backend, sampler, epochs)
                if kept.states() != before:  # for a shape that the calls did not have
                    why = CHANGES
                function, examples = training.function, sampler.examples
                with suppress(ArithmeticError, ValueError):  # the step that takes this example raises it, too
                    loss, _ = function._sums(examples.parts([0]), function._numbers(), 1.0)
                    why = why or difference(expected, loss, 1e-6 if function.precision == DOUBLE else 1e-2)
                graphs = [function._code[batch.shapes].graph for batch in examples.batches]
                if not why and any(graph.has_gradients(len({*engine.parameters})) for graph in graphs):
                    undone.pop_all()
                    return training
        except Exception as error:
            _reraise_if_signalled(error)
            if backend.name != "auto" or backend.executor is not None:
                if not isinstance(error, TraceError):
                    engine.check_dependence(engine.loss(0))  # says so if the loss does not depend on them
                raise
            line = users_line(error.__cause__ or error)
            why = f"the model cannot be compiled: {error}" + ("" if line in str(error) else f" ({line})")
        stack.close()
    if why:
        log.warning("training eagerly, since %s", why)
    return engine


def entered(stack: ExitStack, engine: Engine, backend: Backend, sampler: Sampler, epochs: int) -> Training:
    """A training run of the compiled loss, until the stack is closed. Steps that may fail are the engine's."""
    data, optimizer, executor = engine.data, cast(Any, engine.optimizer), backend.executor
    shards = 1 if executor is None else min(sampler.size, Workers(executor).n)  # of a batch
    function = Function(engine.loss_of, data.arguments(0), engine.all_parameters, Options(backend))
    engine.loss(0)  # replaces traced numbers that the model has stored, such as activations; in a block, reads are slow
    training = stack.enter_context(Training(function, optimizer, engine))  # in C, the loop is built from here on
    n_epochs = epochs if executor is None else math.inf  # workers always compile, and so compute the same bits
    sampler.examples = function._examples((data.xs, data.ys), sampler.size / shards, epochs=n_epochs)
    if measured := engine.validation:
        training.validation = function._examples((measured.xs, measured.ys), kind="forward", epochs=n_epochs)
    if len(function._code) > 1:  # it was traced for other shapes, too
        engine.loss(0)
    if executor is not None:
        training.shards = Shards(executor, function, sampler.examples)
    return training


def _reraise_if_signalled(error: BaseException) -> None:
    """Raise an error again if a signal handler raised it, as for a timeout: the interrupted code is not at fault."""
    if arose_in(error, *map(signal.getsignal, signal.valid_signals())):
        raise error


class Kept:
    """What the model and the loss keep from call to call, to compare and to put back: the numbers of parameters, all
    parts of Modules and of other objects, and random generators, including the global ones.
    """

    def __init__(self, engine: Engine, functions: Sequence[Any], rng: Any) -> None:
        self._roots, self._parameters = functions, engine.all_parameters
        parts = walk(functions, members=_members)
        self._generators = _generators([rng, *vars(engine.data).values(), *parts])
        values = [*self._parameters, *[part for part in parts if isinstance(part, Value)]]
        self._before: list[Any] = [(partial(set_back, values), [value.data for value in values])]
        self._before += [(each.__setstate__, each.__getstate__()) for each in self._generators]
        self._before += [copied for part in parts if (copied := _copied(part))]

    def numbers(self) -> list[Any]:
        """The states of the generators, then all numbers, first those of the parameters; an array as its bytes."""
        data, parts = [parameter.data for parameter in self._parameters], walk(self._roots, members=_members)
        found = [x.data if isinstance(x, Value) else x.tobytes() if _has_numbers(x) else x for x in parts]
        return [self.states(), *data, *[x for x in found if isinstance(x, (int, float, bytes))]]

    def states(self) -> bytes:
        """The states of the generators."""
        return pickle.dumps([each.__getstate__() for each in self._generators])

    def put_back(self) -> None:
        """Put everything back."""
        for put, before in self._before:
            put(before)


def _members(part: Any) -> dict[Any, Any]:
    """What a part holds, by name. The attributes of an object of any class are a dict, itself a part."""
    if type(part) in PARTS or isinstance(part, (type, ModuleType)):
        return {}
    return {**members_of(part), "__dict__": getattr(part, "__dict__", None)}


def _generators(parts: Sequence[Any]) -> list[Any]:
    """The global random generators, and all that these objects keep or that their code refers to by name."""
    numpy = sys.modules.get("numpy.random")
    kinds = random.Random, *[getattr(numpy, name, ()) for name in ("RandomState", "Generator", "BitGenerator")]
    parts = [random, getattr(numpy, "mtrand", None), *parts]  # the first two are modules with the global ones
    classes = {kind for each in {*map(type, parts)} for kind in each.__mro__}
    found = [x for each in (*parts, *classes) for x in (each, *getattr(each, "__dict__", {}).values())]
    for _ in range(2):  # what functions refer to, then what the functions among that refer to
        inside = gc.get_referents(*[x for x in found if type(x) in (FunctionType, partial)])  # globals, closures, ...
        inside += gc.get_referents(*{id(x): x for x in inside if type(x) in (dict, tuple)}.values())
        found += inside + gc.get_referents(*[x for x in inside if type(x) is CellType])
    own = [getattr(each, "bit_generator", each) for each in found if issubclass(type(each), kinds)]
    return [each for each in {id(each): each for each in own}.values() if not isinstance(each, random.SystemRandom)]


def _copied(held: Any) -> tuple[Callable[[Any], Any], Any] | None:
    """A function that refills a list, dict or array without methods of a subclass, and the copy to refill it from."""
    if _has_numbers(held) and held.flags.writeable:
        return partial(held.__setitem__, ...), held.copy()
    held = vars(held) if isinstance(held, Module) else held
    for kind, fill in FILL:
        if isinstance(held, kind):
            return lambda before, kind=kind, fill=fill: (kind.clear(held), fill(held, before)), kind(held)
    return None


def _has_numbers(part: Any) -> bool:
    """Whether this is a NumPy array of numbers, or a NumPy number."""
    return isinstance(part, (numpy_class("ndarray"), numpy_class("generic"))) and part.dtype.kind in "biuf"


def tried(engine: Engine, kept: Kept) -> tuple[float, str]:
    """The loss of the first example, and why compiled code must not repeat its call, or "" if all calls do the same.

    Either the loss differs from call to call, or the model or the loss draws random numbers (even if these change no
    loss while the weights that multiply them are 0), or one of the two changes numbers that it keeps. Raises the error
    of the first example, and of another one if compiled code leaves out the check that raises it.
    """
    end, expected, before, why = time.process_time() + SECONDS, engine.loss(0).data, kept.numbers(), ""
    for _ in range(CALLS - 1):
        why = why or difference(expected, engine.loss(0).data) or CHANGES * (kept.numbers() != before)
    for i in range(1, len(engine.data)):
        if time.process_time() > end:
            break
        with suppress(ArithmeticError, DomainError):
            why = why or difference(engine.loss(i).data, engine.loss(i).data)
    return expected, why


def difference(expected: float, loss: float, tolerance: float = 0.0) -> str:
    """A sentence that says that two losses of an example differ, or "" if they differ by no more than rounding."""
    differ = math.inf > abs(expected - loss) > max(tolerance, (tolerance or 1e-9) * abs(expected))
    return NOT_THE_SAME.format(expected, loss) if differ else ""
