"""What a training has compiled, which the next one of the same model need not trace and build again.

It is kept by the model, and goes with it; copies and pickles of the model do not have it.
"""

from collections.abc import Callable, Sequence
from typing import Any

from micrograd.compiler.frontend.reach import KEPT, Reach, alike
from micrograd.compiler.function import Backends
from micrograd.compiler.options import Options
from micrograd.engine import Value


class Kept:
    """What was compiled of a model and a loss, and what the two could read before they were traced.

    If `thorough`, all Values among that are found, however many objects there are.
    """

    def __init__(
        self, model: Any, loss: Callable[..., Any], parameters: Sequence[Value], options: Options, thorough: bool
    ) -> None:
        self.reach = Reach({"model": model, "loss": loss}, ignoring=parameters, thorough=thorough)
        self.backends: Backends = {}
        self._loss, self._parameters, self._options = loss, parameters, (options, thorough)

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()

    def serves(self, loss: Callable[..., Any], parameters: Sequence[Value], options: Options, thorough: bool) -> bool:
        """Whether tracing would come to the same as it did."""
        return (
            self._options == (options, thorough)
            and alike(self._loss, loss)
            and [*map(id, self._parameters)] == [*map(id, parameters)]
            and not self.reach.unfollowed
            and not self.reach.changed()
        )


def kept_for(
    model: Any, loss: Callable[..., Any], parameters: Sequence[Value], options: Options, thorough: bool
) -> Kept:
    """What an earlier training has compiled, or a new one to keep, if the model has attributes.

    The earlier one serves if nothing has changed that the model and the loss can read: attributes of whatever they
    hold and of its classes, closures, globals that they name, numbers in arrays and in Values, the states of Python's
    random generators; the parameters' numbers apart. A loss that is made again by the same line of code, of the same
    objects, is the same. What is not followed, such as an iterator, is never relied on. Not noticed are only changes
    of what libraries define (of micrograd, methods of classes are, and functions that the model or the loss names),
    of built-in names, of names of functions and modules, of classes registered with an abstract one, and of what is
    outside of the program, such as files and the clock.
    """
    attributes: dict[str, Any] = getattr(model, "__dict__", {})
    kept: Kept | None = attributes.get(KEPT)
    if kept is None or not kept.serves(loss, parameters, options, thorough):
        kept = attributes[KEPT] = Kept(model, loss, parameters, options, thorough)
    return kept
