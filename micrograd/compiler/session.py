"""Training a compiled function: steps along gradients by generated code, in a block.

How steps are taken is chosen where the block begins. If the function is compiled to C, all numbers live in a buffer
while the block lasts, and a NativeLoop does all of a step in C (native/loop.py). Otherwise the optimizer takes its own
steps. A step that fails changes nothing: the engine takes it, and raises any error.
"""

import math
import threading
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Any, Self

from micrograd.compiler.dataset import Buckets
from micrograd.compiler.dtype import DOUBLE, REMEDY
from micrograd.compiler.frontend.redirect import is_held
from micrograd.compiler.function import Function
from micrograd.compiler.native.loop import NativeLoop
from micrograd.compiler.native.toolchain import CompilerError, warn_once
from micrograd.compiler.native.update import check_rule
from micrograd.compiler.stepping import Engine, Sampler
from micrograd.core.errors import shown
from micrograd.engine import Value
from micrograd.optim import Optimizer
from micrograd.support.collector import gc_paused
from micrograd.support.signals import assign
from micrograd.support.trees import mapped

BY_ENGINE = "a step was taken by the engine, in doubles, since an operation failed in generated code"
BEYOND_SINGLE = f"; if a number was beyond the range of single precision, {REMEDY}"


class Training:
    """A block in which an optimizer takes steps on compiled gradients: `Compiled.training` returns and documents it.

    The `engine` takes the steps that generated code cannot; by default, on what the function returns for Values. `fit`
    sets `validation`, the examples to measure, and `shards`, if workers compute the gradients.
    """

    validation: Buckets | None = None
    shards: Any = None

    def __init__(self, function: Function, optimizer: Optimizer, engine: Engine | None = None) -> None:
        check_rule(optimizer)
        self.function, self._optimizer, self._parameters = function, optimizer, optimizer.parameters
        place = dict(zip(function.parameters, range(len(function.parameters)), strict=True))
        if missing := [parameter for parameter in optimizer.parameters if parameter not in place]:
            came = f"the optimizer changes {shown(missing[0])}, but this is not a parameter of the compiled function"
            raise ValueError(f"{came}: give compile all parameters that the optimizer changes")
        self._indices = [place[parameter] for parameter in optimizer.parameters]
        self._engine = engine or Engine(function.parameters, optimizer, lambda *of: function(*mapped(Value, of)))
        self._turn = threading.RLock()  # of the thread that takes a step
        self._block: ExitStack | None = None
        self._in_c: NativeLoop | None = None  # within the block, if C can apply the optimizer's rule
        self._latest: Sampler | None = None

    def __enter__(self) -> Self:
        if self._block is not None:
            raise ValueError("this training block has already begun: leave it first, or make another one")
        self._check_parameters()
        with ExitStack() as block, gc_paused():
            if self.function.in_c:
                try:
                    loop = NativeLoop(self.function, self._optimizer, self._indices)
                    self._in_c = block.enter_context(loop.in_use())
                except Exception as error:  # any error that the optimizer's rule raises while it is traced
                    if self.function.options.backend.name == "c" or isinstance(error, CompilerError):
                        raise
                    warn_once(f"training in Python instead of C: {error}")
            self._block = block.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        with self._turn:
            block: Any = self._block
            self._block = self._in_c = self._latest = None
            block.close()

    def __call__(self, *batches: Any) -> float:
        """Take a step along the gradient of the mean loss of a batch, and return that loss; threads take turns.

        The batch is as for `map`, but may have examples of several shapes. Raises FloatingPointError if the loss, or a
        parameter after the step, is infinite or NaN, and then changes nothing; RuntimeError outside of the block.
        """
        with self._turn:
            if self._block is None:
                raise RuntimeError("call step inside its block: with fast.training(optimizer) as step: step(...)")
            latest = self._latest
            if latest is None or len(batches) != 1 or batches[0] is not latest.examples.batches[0]:
                examples = self.function._examples(batches)
                latest = self._latest = Sampler(len(examples), len(examples), None, examples)
            return self.take(latest, [self._optimizer.learning_rate])[0]

    def take(self, sampler: Sampler, rates: Sequence[float]) -> Sequence[float]:
        """Take steps as a Loop does. The engine takes those that fail in generated code."""
        self._check_parameters()
        in_c = None if self.shards else self._in_c
        losses: Sequence[float] = in_c.take(sampler, rates) if in_c else self._step(sampler)
        if not losses:
            losses = self._engine.take(sampler, rates)
            warn_once(BY_ENGINE + BEYOND_SINGLE * (self.function.precision != DOUBLE))
        return losses

    def _step(self, sampler: Sampler) -> Sequence[float]:
        """Take a step at the optimizer's rate, along gradients by generated code, here or on workers.

        Takes none if an operation fails, the loss or a gradient is not finite, or the update in C fails.
        """
        function, batch = self.function, sampler.next()
        numbers, seed = function._numbers(), 1.0 / len(batch)
        try:
            if self.shards:
                total, gradients = self.shards.sums(batch, numbers, seed)
            else:
                total, gradients = function._sums(sampler.examples.parts(batch), numbers, seed)
        except (ArithmeticError, ValueError):
            return []
        if not math.isfinite(total + sum(gradients)):
            return []
        if self._in_c is None:
            assign(function.parameters, "grad", gradients)
            self._engine.update()
        elif not self._in_c.update(gradients):
            return []
        sampler.count()
        return [total / len(batch)]

    def values(self) -> list[float]:
        """The losses of the validation examples; the engine computes them if one fails."""
        assert self.validation is not None
        with suppress(ArithmeticError, ValueError):
            return [loss for batch in self.validation.batches for loss in self.function._values(batch).tolist()]
        return self._engine.values()

    def _check_parameters(self) -> None:
        """Raise an error if the optimizer has another list of parameters, or a step would change frozen ones."""
        now = self._optimizer.parameters
        if now is not self._parameters or len(now) != len(self._indices):
            raise ValueError("the optimizer was given other parameters during training: start another block for them")
        if is_held("frozen", now):
            raise RuntimeError("a step would change frozen parameters: leave the block of frozen() first")
