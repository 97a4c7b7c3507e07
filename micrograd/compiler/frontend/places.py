"""Places: where an object keeps what can be read from it, such as its attributes, and how to set that back."""

from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

ATTRIBUTE, ITEM, NAME = "{}.{}", "{}[{!r}]", "{}{}"


class Place:
    """A namespace, a list or an array called `path`, and its contents when this is made.

    `read` returns the contents: a dict or a list of objects, which are named by `form`, or anything that is compared by
    `==`. In a dict, `assign` sets an item and `delete` deletes one; otherwise, `assign` sets all of the contents.
    Without `assign`, they cannot change.
    """

    def __init__(self, path: str, form: str, read: Callable[[], Any], assign: Any = None, delete: Any = None) -> None:
        self.form, self._path, self.is_assignable = form, path, assign is not None
        self.read, self._assign, self._delete = read, assign, delete
        self.before = read()
        self._identities = _identities(self.before)

    def objects(self) -> Iterable[tuple[Any, Any]]:
        """The objects in it, by keys; and these."""
        before = self.before
        if isinstance(before, dict):
            return chain(before.items(), zip(before, before, strict=True) if self.form == ITEM else ())
        return enumerate(before if isinstance(before, list) else ())

    def name(self, key: Any) -> str:
        """The name of what is in it at this key."""
        return self.form.format(self._path, key)

    def changed(self) -> str:
        """The name of what has changed in it; "" if nothing has."""
        try:
            return self.difference(self.read())
        except Exception:  # whatever a user's class raises where it is read
            return self._path

    def difference(self, now: Any) -> str:
        """The name of something that is different in these contents; "" if they are the same."""
        if _identities(now) == self._identities:
            return ""
        before, path = self.before, self._path
        if not isinstance(before, dict):
            return path
        names = (self.name(key) for key in {**before, **now} if before.get(key, self) is not now.get(key, self))
        return next(names, path)  # if only the order has changed

    def restore(self, keys: Iterable[Any] | None = None) -> None:
        """Set it back, or if keys are given and it is a dict, only what is at these."""
        if not isinstance(self.before, dict):
            self._assign(self.before)
            return
        if keys is not None:
            for key in keys:
                if key in self.before:
                    self._assign(key, self.before[key])
                else:
                    self._delete(key)
            return
        now = self.read()
        for key in now.keys() - self.before.keys():
            self._delete(key)
        for key, x in self.before.items():
            if now.get(key, self) is not x:
                self._assign(key, x)
        if [*map(id, self.read())] != [*map(id, self.before)]:
            for key, x in self.before.items():
                self._delete(key)
                self._assign(key, x)


def _identities(contents: Any) -> Any:
    """What contents are compared by: the identities of the objects in a dict or a list, or else the contents."""
    if type(contents) is dict:
        return [*map(id, contents), *map(id, contents.values())]
    return [*map(id, contents)] if type(contents) is list else contents
