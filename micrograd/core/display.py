"""Displays in notebooks: the classes that have one. `micrograd.draw.notebook` draws them, far above these classes."""

from importlib import import_module
from typing import Any

Bundle = dict[str, str]  # representations of an object, by their media types


def notebook() -> Any:
    """The module that draws, loaded by its name when a notebook shows something: no file imports what is above it."""
    return import_module("micrograd.draw.notebook")


class NotebookDisplay:
    """An object that notebooks show as more than text."""

    __slots__ = ()

    def _repr_mimebundle_(self, **options: Any) -> Bundle:
        bundle: Bundle = notebook().bundle(self)
        return bundle
