"""Displays in notebooks: the classes that have one. `micrograd.draw.notebook` draws them, far above these classes."""

from typing import Any

Bundle = dict[str, str]  # representations of an object, by their media types
notebook: Any = None  # the function that loads `micrograd.draw.notebook`, which the package sets


class Displayed:
    """An object that notebooks show as more than text."""

    __slots__ = ()

    def _repr_mimebundle_(self, **options: Any) -> Bundle:
        bundle: Bundle = notebook().bundle(self)
        return bundle
