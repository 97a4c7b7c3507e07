"""Gradients by workers, each of which keeps some of the examples."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from micrograd.compiler.function import Function
from micrograd.compiler.session import CompiledGradients, Training
from micrograd.stepping import NotFinite
from micrograd.training.gradients import EagerGradients
from micrograd.validation import row

if TYPE_CHECKING:
    from array import array

    from micrograd.compiler.distributed.shards import Shards


class ShardedGradients(CompiledGradients):
    """Gradients by workers, added up in the order of the shards: by generated code, or if that fails by the engine."""

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
            self._eager.check_dependence(self._eager.loss_of(row(xs[0]), row(ys[0])))
        self._session.set_gradients(parts)
        return loss

    def _gather(
        self, batch: Sequence[int], on_values: bool
    ) -> tuple[float, list["array[float]"], tuple[int, int, list[Any]] | None]:
        """The mean loss and each shard's gradients; or a loss that is not finite, and the example that has it."""
        losses, parts = [], []
        numbers = self._session.numbers()
        for k, (loss, gradients, failed) in self._shards.sums(numbers, batch, self._batch_size, on_values):
            if failed:
                return loss, [], (k, *failed)
            losses.append(loss)
            if gradients:
                parts.append(gradients)
        return sum(losses) / len(batch), parts, None
