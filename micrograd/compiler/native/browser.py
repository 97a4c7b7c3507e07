"""The steps of a training in a browser: gradients by a BrowserBackend, the optimizer's rule in JavaScript beside it."""

import math
from array import array
from collections.abc import Sequence
from operator import add
from typing import Any

from micrograd.compiler.dataset import Examples
from micrograd.compiler.dtype import DOUBLE
from micrograd.compiler.native.buffers import Buffers
from micrograd.compiler.native.toolchain import CompilerError
from micrograd.compiler.native.update import UpdateKernel
from micrograd.compiler.targets.browser import CHECKED, run
from micrograd.compiler.targets.module import update


class BrowserLoop:
    """Takes steps as a NativeLoop does, which documents the methods, but each by calls from Python.

    Raises CompilerError if the norm of the gradients is limited, or their precision.
    """

    def __init__(self, function: Any, buffers: Buffers, max_norm: float | None) -> None:
        if max_norm is not None or buffers.precision != DOUBLE:
            raise CompilerError("steps in JavaScript are in doubles, and clip no gradients")
        self.kernel = UpdateKernel(buffers.optimizer, None)
        code = update(self.kernel, CHECKED).replace("export ", "")
        self._step = run("step", code, MOMENTS=self.kernel.moments)
        self._function, self._buffers, self._ranges = function, buffers, array("d", buffers.ranges())
        self._examples: Examples | None = None

    def bind(self, examples: Examples) -> None:
        """Let the next steps be on these examples."""
        self._examples = examples

    def run_steps(
        self,
        rates: "array[float]",
        losses: "array[float]",
        *,
        order: "array[int] | None" = None,
        size: int = 1,
        position: int = 0,
        rng: Any = None,
    ) -> int:
        """Take steps up to one that fails, which changes nothing. Returns how many, which `optimizer.steps` counts."""
        buffers, n = self._buffers, len(self._examples or [0])
        attributes = vars(buffers.optimizer)
        for step, rate in enumerate(rates):
            numbers, drawn = buffers.numbers[:], None
            if position == n and order is not None:
                position, drawn = 0, (order[:], rng.getstate())
                self.shuffle(order, rng)
            batch = range(n) if order is None else order[position : position + size]
            if not self._is_taken(batch, rate, losses, step):
                buffers.numbers[:] = numbers
                if drawn is not None and order is not None:
                    order[:] = drawn[0]
                    rng.setstate(drawn[1])
                return step
            attributes["steps"] += 1
            position += len(batch)
        return len(rates)

    def shuffle(self, order: "array[int]", rng: Any) -> None:
        """Make of the order what `rng.shuffle` makes of a list of the numbers from 0."""
        numbers = list(range(len(order)))
        rng.shuffle(numbers)
        order[:] = array("q", numbers)

    def add_gradients(self, gradients: "array[float]") -> None:
        """Add gradients to those in the buffers."""
        self._buffers.grads[:] = array("d", map(add, self._buffers.grads, gradients))

    def _is_taken(self, batch: Sequence[int], rate: float, losses: "array[float]", step: int) -> bool:
        """Take a step on these examples, and note their mean loss. False if it is not whole."""
        buffers = self._buffers
        if self._examples is not None:
            buffers.grads[:] = buffers.precision.zeros(buffers.n)
            losses[step] = 0.0
            for pack, places in self._examples.of_each_shape(batch):
                backend = self._function._backends[pack.shapes]
                results = backend.results("backward", buffers.data, 1 / len(batch), pack, buffers.grads, places)
                if results is None:
                    return False
                losses[step] += sum(results) / len(batch)
        taken = vars(buffers.optimizer)["steps"]
        return math.isfinite(losses[step]) and self._step(buffers.n, rate, taken, buffers.numbers, self._ranges)
