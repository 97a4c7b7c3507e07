"""Displays in notebooks: the base class of everything that has one. `micrograd.draw.notebook`, far above, draws it."""

from importlib import import_module
from typing import Any

Bundle = dict[str, str]  # representations of an object, by their media types


def notebook() -> Any:
    """The module that draws, loaded by name when a notebook shows something, since no file may import from above."""
    return import_module("micrograd.draw.notebook")


class NotebookDisplay:
    """An object that notebooks show as more than text."""

    __slots__ = ()

    def _repr_mimebundle_(self, **options: Any) -> Bundle:
        bundle: Bundle = notebook().bundle(self)
        return bundle
