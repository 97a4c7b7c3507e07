"""A compiled function's mean over examples, as optimizers of other libraries take it: a function of one vector."""

from array import array
from collections.abc import Sequence
from functools import reduce
from importlib.util import find_spec
from operator import add
from typing import Any

from micrograd.arrays import is_array, viewed
from micrograd.compiler.dataset import Packed, pack
from micrograd.compiler.dtype import DOUBLE
from micrograd.compiler.function import Function
from micrograd.errors import shown
from micrograd.trees import shape_of


class Objective:
    """The mean over packed examples, and its gradient: `Compiled.objective` returns and documents it."""

    def __init__(self, function: Function, packed: Packed) -> None:
        self._function, self._packed = function, packed

    def __repr__(self) -> str:
        return f"<objective of {self._function!r} on {self._packed!r}>"

    def __call__(self, vector: Any) -> tuple[float, Any]:
        """The mean, and its gradient with respect to each number in the vector."""
        function, packed = self._function, self._packed
        parameters = vector_of(vector, len(function.parameters))
        if function.precision != DOUBLE:
            numbers = array("d", parameters)
            floats = array("f", numbers) if function.options.quiet else function.precision.array(numbers, "a parameter")
            parameters = memoryview(floats)
        losses, gradients = function._run("backward", packed, 1.0 / packed.n, parameters=parameters)
        return mean_of(losses), viewed(gradients) if is_array(vector) else gradients.tolist()


def mean_of(numbers: "array[float]") -> float:
    """The mean, added up from left to right: sum() would round differently from Python 3.12 on."""
    total: float = reduce(add, numbers)
    return total / len(numbers)


def starting_point(numbers: Sequence[float]) -> Any:
    """The numbers as an array, or if NumPy is not installed, as a list."""
    doubles = array("d", numbers)
    return viewed(doubles) if find_spec("numpy") else doubles.tolist()


def vector_of(numbers: Any, n: int) -> memoryview:
    """A flat list or array of so many real numbers, as doubles. Raises ValueError or TypeError for all else."""
    if shape_of(numbers) != (n,):
        raise ValueError(f"the vector is {shown(numbers)}: expected {n} numbers, one for each parameter, as in x0")
    ((doubles, _),) = pack([(numbers,)], [((n,),)]).columns
    return doubles[:n]
