"""The numbers of a training run in C: parameters and moments, one after the other in one buffer, and gradients."""

from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from micrograd.compiler.dtype import DOUBLE, Precision
from micrograd.compiler.frontend.redirect import stored
from micrograd.core.errors import shown
from micrograd.engine import Value
from micrograd.optim import Optimizer


class Buffers:
    """The buffers, and the Values and the optimizer that show its numbers while it is in use.

    `numbers` has the `n` parameters and constants, then their first moments, and so on. `grads` has the gradients, and
    `spare` is room for the next ones. The numbers of the `n_trainable` parameters live here; those of constants are
    only read. `indices` has the positions of the optimizer's parameters.
    """

    def __init__(
        self,
        parameters: Sequence[Value],
        optimizer: Optimizer,
        precision: Precision = DOUBLE,
        constants: Sequence[Value] = (),
    ) -> None:
        self.parameters, self.optimizer, self.precision = [*parameters, *constants], optimizer, precision
        position = {id(parameter): i for i, parameter in enumerate(parameters)}
        missing = [parameter for parameter in optimizer.parameters if id(parameter) not in position]
        if missing:
            raise ValueError(
                f"the optimizer changes {shown(missing[0])}, which is not among the parameters of the "
                "compiled function: give compile all parameters that the optimizer changes"
            )
        self.indices = [position[id(parameter)] for parameter in optimizer.parameters]
        self.n, self.n_trainable = len(self.parameters), len(parameters)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Within the block the numbers live here; after it, where they were."""
        n, attributes = self.n, vars(self.optimizer)
        data = self.precision.array([p.data for p in self.parameters], "a parameter")
        before = [p.grad or 0.0 for p in self.parameters]  # or None before the first backward pass
        grads = self.precision.array(before, "the gradient of a parameter")
        numbers = data + self.precision.zeros(n * len(self.optimizer.moments))
        held = [memoryview(each)[: self.n_trainable] for each in (numbers, grads)]
        with stored(self.parameters[: self.n_trainable], *held) as self.storage:
            self.numbers, self.data = numbers, memoryview(numbers)[:n]
            self.grads, spare = held[1], self.precision.zeros(n)
            self.spare = memoryview(spare)[: self.n_trainable]
            self.moments = {name: Moments(self, k * n) for k, name in enumerate(self.optimizer.moments, 1)}
            try:
                self.take_moments()
                yield
            finally:  # what the user has assigned since the last step stays
                shown = [name for name in self.moments if isinstance(attributes.get(name), Moments)]
                attributes.update({name: attributes[name][:] for name in shown})

    def swap_gradients(self) -> None:
        """Show the gradients in `spare`, and spare those shown so far."""
        self.storage.buffers["grad"] = self.spare
        self.grads, self.spare = self.spare, self.grads

    def read_constants(self) -> None:
        """Read the numbers of the parameters that do not live here."""
        if self.n_trainable < self.n:
            constants = [constant.data for constant in self.parameters[self.n_trainable :]]
            self.data[self.n_trainable :] = self.precision.array(constants, "a Value")

    def take_moments(self) -> None:
        """Take over moments that were assigned to the optimizer; from then on it shows the ones here."""
        attributes, ours = vars(self.optimizer), self.moments
        assigned = {name: list(attributes[name]) for name, moment in ours.items() if attributes[name] is not moment}
        for name, numbers in assigned.items():  # all are read before any is changed
            ours[name][:] = numbers
            attributes[name] = ours[name]

    def ranges(self) -> "array[int]":
        """The parameters that the optimizer changes, as ranges: the first of each, and its length."""
        found = array("q")
        for i in sorted(self.indices):
            if found and found[-2] + found[-1] == i:
                found[-1] += 1
            else:
                found.extend((i, 1))
        return found


class Moments(Sequence[float]):
    """A moment in the buffer, in the order of the optimizer's parameters: usually also the buffer's order."""

    def __init__(self, owner: Buffers, start: int) -> None:
        self._numbers: Any = memoryview(owner.numbers)
        self._precision = owner.precision
        self._indices = [start + i for i in owner.indices]

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, i: Any) -> Any:
        places: Any = self._indices[i]
        return [self._numbers[place] for place in places] if isinstance(i, slice) else self._numbers[places]

    def __setitem__(self, i: Any, to: Any) -> None:
        places, numbers = (self._indices[i], to) if isinstance(i, slice) else ([self._indices[i]], [to])
        for place, number in list(zip(places, self._precision.array(numbers, "a moment"), strict=True)):
            self._numbers[place] = number

    def __repr__(self) -> str:
        return repr(list(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)  # so a copy of the optimizer has a list
