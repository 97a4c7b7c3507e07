"""Displays in notebooks: the classes that have one, and the hook by which the package says how they are drawn.

The drawing itself is in `micrograd.notebook`, far above the modules that use this one; the package connects the two.
"""

from collections.abc import Callable
from typing import Any

Bundle = dict[str, str]
"""Representations of an object by their media types."""

_loaders: list[Callable[[], Any]] = []


def use(load_notebook: Callable[[], Any]) -> None:
    """Draw displays by the module that the function loads."""
    _loaders[:] = [load_notebook]


def live(history: Any, epochs: int) -> Callable[[str], None] | None:
    """A function that shows a line and the losses so far in the running notebook; None outside of notebooks."""
    show: Callable[[str], None] | None = _loaders[0]().live(history, epochs)
    return show


class Displayed:
    """An object that notebooks show as more than text."""

    __slots__ = ()

    def _repr_mimebundle_(self, **options: Any) -> Bundle:
        bundle: Bundle = _loaders[0]().bundle(self)
        return bundle
